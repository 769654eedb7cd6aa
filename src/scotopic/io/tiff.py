"""TIFF in 16 and 32 bits, by OpenCV, with a description that says what the values mean and the version of the layout.

OpenCV writes no description, so it is added to the finished file: a copy of the directory with one entry more is put at
the end, and the header points to it. Any reader sees a plain TIFF.
"""

from __future__ import annotations

import os
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError
from scotopic.io.atomic import atomic_path
from scotopic.io.images import encoded, read_image
from scotopic.io.kitti_png import SCALE, from_uint16, to_uint16

FORMAT = 1  #: version in the description; raised when the meaning changes, and older ones keep opening

_DESCRIPTION = 270  # the number of the tag ImageDescription
_ASCII = 2


def write_tiff(path: str | os.PathLike[str], disparity: NDArray[np.floating], bits: int = 32) -> None:
    """Write a disparity or depth map, atomically.

    Parameters
    ----------
    path : str or path
        The file; an existing one is replaced.
    disparity : ndarray of float
        ``H x W``, what is not finite is "none".
    bits : int
        32: floats as they are, NaN for none. 16: ``value * 256``, 0 for none, as in KITTI's PNG.

    Raises
    ------
    InputError
        It is no such map, or holds what 16 bits cannot store.
    OutputError
        The file cannot be written.
    """
    shown = f"TIFF {os.fspath(path)!r}"
    values = np.asarray(disparity)
    if bits not in (16, 32):
        raise InputError(f"{shown}: found bits {bits}, expected 16 or 32; choose one of these")
    if values.ndim != 2 or values.dtype.kind != "f" or values.size == 0:
        raise InputError(
            f"cannot store an array of shape {values.shape} and type {values.dtype} as {shown}, expected a map of "
            "floats, H x W; convert it first"
        )
    pixels: NDArray[Any]
    if bits == 16:
        pixels, meaning = to_uint16(values, SCALE, shown), f"value / {SCALE:g}, 0 = none"
    else:
        pixels = np.where(np.isfinite(values), values, np.nan).astype(np.float32)
        meaning = "value, NaN = none"
    words = f"scotopic map, format {FORMAT}: {meaning}"
    data = _described(encoded(".tiff", pixels, path), words.encode("ascii") + b"\0")
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


def read_tiff(path: str | os.PathLike[str]) -> NDArray[np.float32]:
    """Read a map of one channel: 32-bit floats as they are, 16 bits as ``value / 256`` with 0 for none.

    Returns
    -------
    ndarray of float32
        ``H x W``, NaN where there is none.

    Raises
    ------
    InputError
        The file is missing or damaged, has other numbers, or a newer format.
    """
    values = read_image(path)
    if values.ndim != 2 or values.dtype not in (np.uint16, np.float32):
        raise InputError(
            f"{os.fspath(path)!r}: found {values.dtype} of shape {values.shape}, expected one channel of 16 bits or of "
            "32-bit floats; convert it"
        )
    stated = re.match(rb"scotopic map, format ([0-9]{1,6}):", description(Path(path).read_bytes()))
    if stated and int(stated[1]) > FORMAT:
        raise InputError(
            f"{os.fspath(path)!r}: found format {int(stated[1])}, expected at most {FORMAT}; upgrade scotopic to "
            "read it"
        )
    if values.dtype == np.uint16:
        return from_uint16(values, SCALE)
    return np.where(np.isfinite(values), values, np.float32(np.nan))


def description(data: bytes) -> bytes:
    """Return a TIFF's ImageDescription, empty where it has none or is not a TIFF that we can follow."""
    try:
        order, entries, _ = _directory(data)
    except (struct.error, ValueError):
        return b""
    for entry in entries:
        tag, kind, count, place = struct.unpack(order + "HHII", entry)
        if tag == _DESCRIPTION and kind == _ASCII and count > 4 and place + count <= len(data):
            return data[place : place + count].rstrip(b"\0")
    return b""


def _described(data: bytes, words: bytes) -> bytes:
    """The same file with a description of more than four bytes."""
    order, entries, following = _directory(data)
    data += b"\0" * (len(data) % 2)  # everything begins at even places
    entry = struct.pack(order + "HHII", _DESCRIPTION, _ASCII, len(words), len(data))
    data += words + b"\0" * (len(words) % 2)
    tags = sorted([*entries, entry], key=lambda each: int(struct.unpack(order + "H", each[:2])[0]))
    directory = struct.pack(order + "H", len(tags)) + b"".join(tags) + following
    return data[:4] + struct.pack(order + "I", len(data)) + data[8:] + directory


def _directory(data: bytes) -> tuple[str, list[bytes], bytes]:
    """Byte order, the entries of the first directory, and the pointer behind them."""
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(data[:4])
    if order is None:
        raise ValueError("no TIFF")
    (start,) = struct.unpack(order + "I", data[4:8])
    (count,) = struct.unpack(order + "H", data[start : start + 2])
    end = start + 2 + 12 * count
    if end + 4 > len(data):
        raise ValueError("a directory that is cut short")
    return order, [data[place : place + 12] for place in range(start + 2, end, 12)], data[end : end + 4]
