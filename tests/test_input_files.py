"""Input files: who opens them, and that every failure is told in our words."""

from __future__ import annotations

import ast
import io
import os
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import error_line, run

import scotopic
from scotopic.depth import read_calibration
from scotopic.errors import InputError, SettingsError
from scotopic.evaluation.answers import read_answers, read_confidence
from scotopic.evaluation.plan import load_plan
from scotopic.evaluation.records import Record
from scotopic.io import read_disparity, read_image, read_npz, read_pfm
from scotopic.io.frames import open_frames
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
    "io/mapped.py": {"fromfile"},  # from an open file
    "io/npz.py": {"load", "open"},  # of an open file; a member of it; an output
    "io/pfm.py": {"fromfile", "open"},  # from an open file; an output
    "io/ply.py": {"open"},  # an output
    "io/tiff.py": {"TiffFile"},  # of an open file
    "io/video.py": {"open"},  # a video that was checked, an output, and what was written of it
    "io/replacement.py": {"open"},  # a lock, and outputs
    "io/bags.py": {"open"},  # a reader of rosbags, whose files were checked
    "io/stacks.py": {"load"},  # maps a file that was checked
    "sensor/array_file.py": {"load"},  # maps a file that was checked
    "sensor/spad.py": {"memmap"},
    "sensor/raw.py": {"imread"},
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
            flip = 0

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
