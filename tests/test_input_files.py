"""Input files: who opens them, how much memory they may take, and that every failure is told in our words."""

from __future__ import annotations

import ast
import io
import os
import resource
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from command_line import error_line, run

import scotopic
from scotopic.app import inputs
from scotopic.app.session import Limits, Session
from scotopic.depth import read_calibration
from scotopic.errors import InputError, SettingsError
from scotopic.evaluation.answers import read_answers, read_confidence
from scotopic.evaluation.plan import load_plan
from scotopic.evaluation.records import Record
from scotopic.io import read_disparity, read_image, read_npz, read_pfm
from scotopic.io.frames import open_frames
from scotopic.io.headers import image_sizes
from scotopic.result import Match
from scotopic.sensor import merge_burst, read_bit_planes, read_counts
from scotopic.sensor.raw import read_dng_sensor

SOURCE = Path(scotopic.__file__).parent


def read_match(path: Path) -> Match:
    """Read a file as the ``match.npz`` of a folder."""
    return Match.load(path.parent) if path.name == "match.npz" else Match.load(path)


#: Every reader that takes a file from a user, and the name of a file that it would take.
READERS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "read_image": (read_image, "a.png"),
    "read_pfm": (read_pfm, "a.pfm"),
    "read_npz": (read_npz, "a.npz"),
    "read_disparity npz": (read_disparity, "b.npz"),
    "read_disparity png": (read_disparity, "b.png"),
    "read_disparity tiff": (read_disparity, "b.tiff"),
    "read_disparity pfm": (read_disparity, "b.pfm"),
    "read_calibration": (read_calibration, "calib.txt"),
    "read_answers": (read_answers, "c.npz"),
    "read_confidence": (read_confidence, "d.npz"),
    "read_counts": (lambda path: read_counts(path, 4.0), "e.npy"),
    "read_bit_planes npy": (read_bit_planes, "f.npy"),
    "read_bit_planes bin": (lambda path: read_bit_planes(path, width=16, height=8), "f.bin"),
    "merge_burst": (merge_burst, "g.tiff"),
    "read_dng_sensor": (read_dng_sensor, "h.dng"),
    "load_plan": (load_plan, "plan.toml"),
    "Record.load": (Record.load, "record.json"),
    "Match.load": (read_match, "match.npz"),
    "open_frames": (open_frames, "video.mp4"),
}
readers = pytest.mark.parametrize(("read", "name"), READERS.values(), ids=list(READERS))
# A plan is first looked for by its name, so that it says that there is no such plan.
OF_PATHS = {title: reader for title, reader in READERS.items() if title != "load_plan"}
readers_of_paths = pytest.mark.parametrize(("read", "name"), OF_PATHS.values(), ids=list(OF_PATHS))


# --- opening --------------------------------------------------------------------------------------------------------


@readers
def test_no_reader_waits_for_a_pipe(tmp_path: Path, read: Callable[[Path], Any], name: str) -> None:
    os.mkfifo(tmp_path / name)

    with pytest.raises(InputError, match="pipe"):
        read(tmp_path / name)


@readers
def test_a_folder_in_place_of_a_file_is_refused(tmp_path: Path, read: Callable[[Path], Any], name: str) -> None:
    (tmp_path / name).mkdir()

    with pytest.raises(InputError, match=r"folder|match\.npz"):  # a folder of results, of frames
        read(tmp_path / name)


@readers_of_paths
def test_a_name_with_a_null_character_is_refused(tmp_path: Path, read: Callable[[Path], Any], name: str) -> None:
    with pytest.raises(InputError, match="null"):
        read(Path(str(tmp_path / name).replace(".", "\0.")))


@readers_of_paths
def test_a_name_too_long_for_a_file_is_refused(tmp_path: Path, read: Callable[[Path], Any], name: str) -> None:
    with pytest.raises(InputError, match="too long"):
        read(tmp_path / ("n" * 300 + name) / name)


@pytest.mark.parametrize("name", ["n" * 300, "n\0n"])
def test_a_plan_that_no_file_can_hold_is_not_there(name: str) -> None:
    with pytest.raises(InputError, match="There is no plan"):
        load_plan(name)


def test_what_the_system_refuses_is_told_by_every_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system_open = os.open

    def refuse(path: Any, flags: int, *others: Any) -> int:
        if str(path).startswith(str(tmp_path)):
            raise PermissionError(13, "Permission denied", str(path))
        return system_open(path, flags, *others)

    for _, name in READERS.values():
        (tmp_path / name).write_bytes(b"secret")
    monkeypatch.setattr(os, "open", refuse)
    for read, name in READERS.values():
        with pytest.raises(InputError, match="Permission denied"):
            read(tmp_path / name)


@pytest.mark.parametrize("command", ["match", "evaluate", "benchmark", "video"])
def test_no_command_shows_a_traceback_for_a_name_too_long(tmp_path: Path, command: str) -> None:
    name = str(tmp_path / ("n" * 300))
    others = [name] if command != "benchmark" else []
    out = ["-o", str(tmp_path / "out")] if command != "evaluate" else []

    expected = "There is no plan" if command == "benchmark" else "too long"  # a plan is looked for by its name
    assert expected in error_line(run(command, name, *others, *out))


#: Calls that open a file, and where they may stand: in the one module that opens inputs, or for what is ours.
OPENING = {"open", "read_text", "read_bytes", "load", "fromfile", "imread", "imreadmulti", "TiffFile", "memmap"}
ALLOWED = {
    "io/input_file.py": {"open"},
    "io/atomic.py": {"open"},  # outputs
    "io/npz.py": {"load", "open"},  # of an open file; a member of it; an output
    "io/pfm.py": {"fromfile", "open"},  # from an open file; an output
    "io/ply.py": {"open"},  # an output
    "io/video.py": {"open"},  # an output, and what was written of it
    "io/replacement.py": {"open"},  # a lock, and outputs
    "io/bags.py": {"open"},  # a reader of rosbags, whose files were checked
    "io/stacks.py": {"load"},  # maps a file that was checked
    "sensor/array_file.py": {"load"},  # maps a file that was checked
    "sensor/spad.py": {"memmap"},
    "sensor/raw.py": {"imread", "TiffFile"},
    "evaluation/benchmark.py": {"open", "load"},  # outputs; Dataset.load
    "evaluation/reuse.py": {"load"},  # Record.load
    "evaluation/report/page.py": {"read_text"},  # files of the package
    "evaluation/report/results.py": {"load"},  # Record.load
    "evaluation/methods/reported.py": {"open"},
    "evaluation/split.py": {"read_text"},
    "app/page.py": {"read_text", "load"},
    "cli/burst.py": {"open"},  # Taken.open
    "cli/clip.py": {"open"},  # likewise
    "cli/commands.py": {"open"},  # an output; a browser
}


def test_only_one_module_opens_the_files_of_users() -> None:
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if name.startswith("backends/cuda/"):
            continue  # where "load" is Triton's
        calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        called = {getattr(each, "attr", getattr(each, "id", "")) for each in calls}
        surplus = (called & OPENING) - ALLOWED.get(name, set())
        assert not surplus, f"{name} calls {surplus}: use scotopic.io.input_file"


# --- memory ---------------------------------------------------------------------------------------------------------


def png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_bomb(width: int = 30_000, height: int = 30_000) -> bytes:
    """A whole gray PNG of this size, all black, of about a thousandth of it."""
    packer, parts, row = zlib.compressobj(9), [], bytes(width + 1)
    parts = [packer.compress(row) for _ in range(height)]
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    body = b"".join([*parts, packer.flush()])
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", head) + png_chunk(b"IDAT", body) + png_chunk(b"IEND", b"")


def tiff_bomb(sizes: list[tuple[int, int]], kind: int = 4) -> bytes:
    """A TIFF of one strip of zeros, deflated, whose header has a width and a height for each of `sizes`."""
    strip = zlib.compress(bytes(50_000_000), 9)
    tags = [(256, kind, 1, width) for width, _ in sizes] + [(257, kind, 1, height) for _, height in sizes]
    tags += [(258, 3, 1, 8), (259, 3, 1, 8), (262, 3, 1, 1), (273, 4, 1, 8), (277, 3, 1, 1)]
    tags += [(278, 4, 1, max(height for _, height in sizes)), (279, 4, 1, len(strip))]
    entries = b"".join(
        struct.pack("<HHI", tag, type_, count) + struct.pack("<I" if type_ == 4 else "<Hxx", value)
        for tag, type_, count, value in tags
    )
    offset = 8 + len(strip)
    return b"II*\0" + struct.pack("<I", offset) + strip + struct.pack("<H", len(tags)) + entries + bytes(4)


def npz_bomb(compression: int) -> bytes:
    """An NPZ file of one array of 3 GB of zeros."""
    count = 750_000_000
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (1, count)})
    target = io.BytesIO()
    with (
        zipfile.ZipFile(target, "w", compression) as archive,
        archive.open("disparity.npy", "w", force_zip64=True) as member,
    ):
        member.write(header.getvalue())
        for _ in range(count // 7_500_000):
            member.write(bytes(30_000_000))
    return target.getvalue()


def limited(code: str, *arguments: str, megabytes: int = 1500) -> subprocess.CompletedProcess[str]:
    """Run Python with little memory: what would ask for more fails."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (megabytes * 2**20, megabytes * 2**20))

    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, preexec_fn=limit, env=environment, check=False)


@pytest.mark.parametrize(
    ("name", "read", "content"),
    [
        ("a.png", "read_image", png_bomb),
        ("two_sizes.tiff", "read_image", lambda: tiff_bomb([(100, 100), (50_000, 50_000)])),
        ("two_sizes_turned.tiff", "read_image", lambda: tiff_bomb([(50_000, 50_000), (100, 100)])),
        ("b.tiff", "read_disparity", lambda: tiff_bomb([(50_000, 50_000)])),
        ("deflated.npz", "read_disparity", lambda: npz_bomb(zipfile.ZIP_DEFLATED)),
    ],
)
def test_a_small_file_that_decodes_to_gigabytes_is_refused_before_it_is_decoded(
    tmp_path: Path, name: str, read: str, content: Callable[[], bytes]
) -> None:
    path = tmp_path / name
    path.write_bytes(content())
    assert path.stat().st_size < 5_000_000
    code = f"import sys; from scotopic.io import {read} as read\n"
    code += "try: read(sys.argv[1])\nexcept Exception as error: print(repr(error))"

    done = limited(code, str(path))

    assert done.stdout.startswith("InputError"), done.stdout + done.stderr
    assert "GiB of memory; the limit is 2 GiB" in done.stdout


def test_the_limit_can_be_raised_and_lowered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cv2.imwrite(str(tmp_path / "a.png"), np.zeros((600, 600, 3), np.uint8))
    cv2.imwrite(str(tmp_path / "b.tiff"), np.zeros((600, 600), np.float32))
    np.savez(tmp_path / "c.npz", disparity=np.zeros((600, 600), np.float32))
    np.save(tmp_path / "d.npy", np.zeros((600, 600), np.uint8))
    scotopic.io.write_pfm(tmp_path / "e.pfm", np.zeros((600, 600), np.float32))
    every: list[Callable[[], Any]] = [
        lambda: read_image(tmp_path / "a.png"),
        lambda: merge_burst(tmp_path / "b.tiff"),
        lambda: read_npz(tmp_path / "c.npz"),
        lambda: read_counts(tmp_path / "d.npy", 1.0),
        lambda: read_pfm(tmp_path / "e.pfm"),
    ]

    monkeypatch.setenv("SCOTOPIC_MAX_GIB", "0.001")  # 1.07 MB, where each of them takes 600 x 600 x 4 bytes at least
    for read in every:
        with pytest.raises(InputError, match="SCOTOPIC_MAX_GIB=1"):
            read()
    monkeypatch.setenv("SCOTOPIC_MAX_GIB", "1")
    for read in every:
        read()
    monkeypatch.setenv("SCOTOPIC_MAX_GIB", "much")
    with pytest.raises(SettingsError, match="SCOTOPIC_MAX_GIB is 'much'"):
        read_image(tmp_path / "a.png")


def test_several_pages_count_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cv2.imwritemulti(str(tmp_path / "burst.tiff"), [np.zeros((200, 300), np.uint16)] * 5)
    assert image_sizes((tmp_path / "burst.tiff").read_bytes(), pages=99) == [(300, 200, 1)] * 5

    monkeypatch.setenv("SCOTOPIC_MAX_GIB", str(4 * 200 * 300 * 4 / 2**30))  # four of five
    read_image(tmp_path / "burst.tiff")
    with pytest.raises(InputError, match="5 pages"):
        merge_burst(tmp_path / "burst.tiff")


BOTH = (".png", ".jpg", ".tiff", ".bmp", ".webp", ".pam")


@pytest.mark.parametrize(
    ("suffix", "channels"), [*((each, 1) for each in (*BOTH, ".pgm")), *((each, 3) for each in (*BOTH, ".ppm"))]
)
def test_the_header_gives_the_size_that_is_decoded(suffix: str, channels: int) -> None:
    shape = (37, 53) if channels == 1 else (37, 53, 3)
    data = cv2.imencode(suffix, np.full(shape, 100, np.uint8))[1].tobytes()

    (size,) = image_sizes(data)

    assert (size.width, size.height) == (53, 37)
    assert size.channels >= channels


def test_a_format_whose_size_cannot_be_told_is_refused(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "a.jp2"), np.zeros((64, 64), np.uint8))

    with pytest.raises(InputError, match="PNG, JPEG, TIFF"):
        read_image(tmp_path / "a.jp2")


@pytest.mark.parametrize("sizes", [[(100, 100), (3000, 3000)], [(3000, 3000), (100, 100)]])
def test_the_page_measures_what_will_be_decoded(tmp_path: Path, sizes: list[tuple[int, int]]) -> None:
    path = tmp_path / "uploads" / "x" / "two.tiff"
    path.parent.mkdir(parents=True)
    path.write_bytes(tiff_bomb(sizes))
    visitor = Session(tmp_path / "session")

    with pytest.raises(InputError, match=r"left image 'two\.tiff' has 9 megapixels; the limit is 4"):
        inputs.receive_view(visitor, "left", path, Limits())


# --- damaged files --------------------------------------------------------------------------------------------------


def npz_with(member: bytes, compression: int = zipfile.ZIP_STORED, name: str = "disparity.npy") -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", compression) as archive:
        archive.writestr(name, member)
    return target.getvalue()


def npy(header: str, data: bytes = b"") -> bytes:
    text = header.encode("latin-1")
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def damaged_lzma() -> bytes:
    whole = npz_with(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1)}\n", bytes(4)), zipfile.ZIP_LZMA)
    start = whole.index(b"disparity.npy") + 13
    return whole[: start + 6] + b"\xff" * 12 + whole[start + 18 :]


ODD_NPZ = {
    "TokenError": npz_with(npy("{'descr': '<f4', 'shape': (1, \n")),
    "LZMAError": damaged_lzma(),
    "OverflowError": npz_with(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1e400, 1)}\n")),
    "a huge shape": npz_with(npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({10**30}, 1)}}\n")),
    "a negative shape": npz_with(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 4)}\n", bytes(16))),
    "nested": npz_with(npy("(" * 5000 + ")" * 5000 + "\n")),
    "a pickle": npz_with(npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}\n", b"\x80\x04.")),
    "not an array": npz_with(b"hello"),
    "one array": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1)}\n", bytes(4)),
    "text": b"hello",
    "nothing": b"",
}


@pytest.mark.parametrize("content", ODD_NPZ.values(), ids=list(ODD_NPZ))
def test_an_odd_npz_file_is_refused_by_all_its_readers(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "match.npz"
    path.write_bytes(content)

    for read in (read_npz, read_disparity, read_answers, read_confidence, read_match):
        with pytest.raises(InputError, match=r"match\.npz"):
            read(path)
    for read in (lambda p: read_counts(p, 1.0), read_bit_planes):
        npy_path = tmp_path / "match.npz.npy"
        npy_path.write_bytes(content)
        if content != ODD_NPZ["one array"]:
            with pytest.raises(InputError, match=r"match\.npz\.npy"):
                read(npy_path)


def test_an_answer_that_is_not_finite_is_unknown(tmp_path: Path) -> None:
    reason, dense = np.array([[0, 0, 1]], np.uint8), np.array([[np.inf, 2, -np.inf]], np.float32)
    np.savez(tmp_path / "match.npz", disparity_all=dense, reason=reason)

    found = read_answers(tmp_path / "match.npz")

    np.testing.assert_array_equal(found.disparity, [[np.nan, 2, np.nan]])
    np.testing.assert_array_equal(found.dense, [[np.nan, 2, np.nan]])


def test_an_odd_version_of_a_map_is_shown_in_one_line(tmp_path: Path) -> None:
    np.savez(tmp_path / "map.npz", format=np.zeros((4, 4)), disparity=np.ones((2, 2)))

    with pytest.raises(InputError, match=r"map\.npz") as caught:
        read_disparity(tmp_path / "map.npz")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [np.array(np.inf), np.array([1, 2]), np.array("x"), np.array(1e300)])
def test_an_odd_version_of_a_match_is_refused(tmp_path: Path, value: np.ndarray) -> None:
    np.savez(tmp_path / "match.npz", format=value)

    with pytest.raises(InputError, match=r"match\.npz"):
        Match.load(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        "a = " + "[" * 20_000 + "]" * 20_000,
        "a = " + "9" * 5000,
        "windows = [" + "9" * 400 + "]",
        "scale = 1" + "0" * 400,
        "photons = [1" + "0" * 400 + "]",
        "a = 1e999999",
        'a = "\udcff"',
        "a = 2026-13-41",
    ],
    ids=["nested", "5000 digits", "window", "scale", "photons", "infinite", "not UTF-8", "no date"],
)
def test_an_odd_plan_is_refused_in_words(tmp_path: Path, content: str) -> None:
    path = tmp_path / "plan.toml"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))

    with pytest.raises((InputError, SettingsError)):
        load_plan(path)


@pytest.mark.parametrize(
    "content",
    ["[" * 200_000, '{"format": ' + "9" * 5000 + "}", '{"format": 1e999}', '{"format": null}', "[]", "3", "\xff"],
    ids=["nested", "5000 digits", "infinite", "null", "list", "number", "not UTF-8"],
)
def test_an_odd_record_is_refused_in_words(tmp_path: Path, content: str) -> None:
    path = tmp_path / "record.json"
    path.write_bytes(content.encode("latin-1"))

    with pytest.raises(InputError, match=r"record\.json"):
        Record.load(path)


@pytest.mark.parametrize("encoding", ["utf-7", "UTF-16", "utf-32", "cp037", "no-such", "idna", "x" * 300, "\u0130"])
def test_an_xml_calibration_in_an_odd_encoding_is_read_or_refused(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "calib.xml"
    path.write_text(f'<?xml version="1.0" encoding="{encoding}"?>\n<opencv_storage><a>1</a></opencv_storage>\n')

    with pytest.raises(InputError, match=r"calib\.xml"):
        read_calibration(path)


def test_a_raw_file_without_a_white_level_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rawpy = pytest.importorskip("rawpy", reason="needs the extra raw")
    (tmp_path / "a.dng").write_bytes(b"II*\0")

    class Raw:
        white_level, black_level_per_channel = None, [0, 0, 0, 0]

        class sizes:  # noqa: N801
            raw_width = raw_height = 4

        def __enter__(self) -> Raw:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(rawpy, "imread", lambda path: Raw())
    with pytest.raises(InputError, match="which value is white"):
        scotopic.sensor.read_raw(tmp_path / "a.dng")


# --- found by random damage -----------------------------------------------------------------------------------------


def test_a_tiff_whose_first_page_is_said_to_be_beyond_any_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "far.tiff").write_bytes(b"II+\0\x08\0\0\0" + struct.pack("<Q", 2**64 - 1) + bytes(64))

    for read in (read_image, merge_burst):
        with pytest.raises(InputError, match=r"far\.tiff"):
            read(tmp_path / "far.tiff")


@pytest.mark.parametrize("code", [50714, 50717], ids=["black level", "white level"])
def test_a_dng_with_an_empty_level_is_refused_without_noise(
    tmp_path: Path, code: int, capfd: pytest.CaptureFixture[str]
) -> None:
    import tifffile

    tags = [(51041, "d", 2, (1e-3, 1e-6), True), (code, "I", 1, 7, True)]
    tifffile.imwrite(tmp_path / "a.dng", np.zeros((8, 8), np.uint16), extratags=tags, metadata=None)
    data = bytearray((tmp_path / "a.dng").read_bytes())
    place = data.index(struct.pack("<HHI", code, 4, 1))
    data[place + 4 : place + 8] = bytes(4)  # no values
    (tmp_path / "a.dng").write_bytes(data)

    with pytest.raises(InputError, match=f"tag {code} is empty"):
        read_dng_sensor(tmp_path / "a.dng")
    assert capfd.readouterr().err == ""


def test_a_yaml_version_of_thousands_of_digits_is_refused(tmp_path: Path) -> None:
    (tmp_path / "calib.yml").write_text(f"%YAML 1.{'9' * 4400}\n---\nP1: [1]\n")

    with pytest.raises(InputError, match=r"calib\.yml.* cannot be read as a calibration"):
        read_calibration(tmp_path / "calib.yml")
