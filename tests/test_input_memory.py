"""How much memory input files may take: measured before they are decoded, with a limit that a user can raise."""

from __future__ import annotations

import io
import os
import resource
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

import scotopic
from scotopic.app import inputs
from scotopic.app.session import Limits, Session
from scotopic.errors import InputError, PairWarning, SettingsError
from scotopic.io import read_image, read_npz, read_pfm
from scotopic.io.headers import Size, image_sizes
from scotopic.sensor import merge_burst, read_counts


def png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def deflated_zeros(size: int, times: int) -> bytes:
    """So many zeros, so many times, deflated: each time the same bytes, which refer to nothing before them."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return (packer.compress(bytes(size)) + packer.flush(zlib.Z_FULL_FLUSH)) * times + packer.flush()


def png_bomb(width: int = 30_000, height: int = 30_000) -> bytes:
    """A whole gray PNG of this size, all black, of about a thousandth of it."""
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    body = b"\x78\x01" + deflated_zeros((width + 1) * 100, height // 100)
    body += struct.pack(">I", (height * (width + 1) % 65521) << 16 | 1)  # Adler-32 of zeros
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", head) + png_chunk(b"IDAT", body) + png_chunk(b"IEND", b"")


@cache
def tiff_strip() -> bytes:
    return zlib.compress(bytes(50_000_000), 9)


def tiff_bomb(sizes: list[tuple[int, int]], kind: int = 4) -> bytes:
    """A TIFF of one strip of zeros, deflated, whose header has a width and a height for each of `sizes`."""
    strip = tiff_strip()
    tags = [(256, kind, 1, width) for width, _ in sizes] + [(257, kind, 1, height) for _, height in sizes]
    tags += [(258, 3, 1, 8), (259, 3, 1, 8), (262, 3, 1, 1), (273, 4, 1, 8), (277, 3, 1, 1)]
    tags += [(278, 4, 1, max(height for _, height in sizes)), (279, 4, 1, len(strip))]
    entries = b"".join(
        struct.pack("<HHI", tag, type_, count) + struct.pack("<I" if type_ == 4 else "<Hxx", value)
        for tag, type_, count, value in tags
    )
    offset = 8 + len(strip)
    return b"II*\0" + struct.pack("<I", offset) + strip + struct.pack("<H", len(tags)) + entries + bytes(4)


def npz_bomb(count: int = 600_000_000) -> bytes:
    """A whole NPZ file of one array of so many zeros of 4 bytes, deflated."""
    target, name, part = io.BytesIO(), b"disparity.npy", bytes(30_000_000)
    np.lib.format.write_array_header_1_0(target, {"descr": "<f4", "fortran_order": False, "shape": (1, count)})
    header, times = target.getvalue(), 4 * count // len(part)
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(header) + packer.flush(zlib.Z_FULL_FLUSH) + deflated_zeros(len(part), times)
    check = zlib.crc32(header)
    for _ in range(times):
        check = zlib.crc32(part, check)
    sizes = check, len(packed), len(header) + times * len(part), len(name), 0
    entry = struct.pack("<HHHHHIIIHH", 20, 0, zipfile.ZIP_DEFLATED, 0, 0, *sizes)  # version, flags, time and date
    file = b"PK\3\4" + entry + name + packed
    folder = b"PK\1\2" + struct.pack("<H", 20) + entry + bytes(14) + name
    return file + folder + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(folder), len(file), 0)


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
        ("deflated.npz", "read_disparity", npz_bomb),
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
    assert image_sizes((tmp_path / "burst.tiff").read_bytes(), pages=99) == [Size(300, 200, 1, bits=16)] * 5

    monkeypatch.setenv("SCOTOPIC_MAX_GIB", str(4 * 200 * 300 * 4 / 2**30))  # four of five
    with pytest.warns(PairWarning, match="the first of 5"):
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


@pytest.mark.parametrize("with_pixels", [False, True])
def test_a_chunk_after_the_end_of_a_png_gets_no_memory(tmp_path: Path, with_pixels: bool) -> None:
    pixels = png_chunk(b"IDAT", zlib.compress(b"\0\7\7" * 2))
    head = png_chunk(b"IHDR", struct.pack(">IIBBBBB", 2, 2, 8, 0, 0, 0, 0))
    claim = struct.pack(">I", 2**31 - 1) + pixels[4:]
    body = head + (pixels if with_pixels else b"") + png_chunk(b"IEND", b"") + claim
    (tmp_path / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n" + body)
    code = "import re, sys\nfrom scotopic.io import read_image\nfrom scotopic.errors import InputError\n"
    code += "try:\n    print(read_image(sys.argv[1]).tolist())\nexcept InputError as error:\n    print(error)\n"
    # The highest of this process alone: what getrusage says may be that of the tests, from which it was started.
    code += "most = int(re.search(r'VmHWM:\\s*(\\d+) kB', open('/proc/self/status').read())[1])\n"
    code += "assert most < 600_000, most"

    done = limited(code, str(tmp_path / "image.png"), megabytes=8000)

    assert done.returncode == 0, done.stderr
    assert ("[[7, 7], [7, 7]]" if with_pixels else "no readable image") in done.stdout
