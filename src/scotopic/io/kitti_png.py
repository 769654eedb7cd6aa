"""KITTI's 16-bit PNG: ``disparity * 256``, 0 where there is none.

A text chunk, which image viewers and KITTI's own tools skip, says what the values mean and the version of this layout.
"""

from __future__ import annotations

import os
import re
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError
from scotopic.io.atomic import atomic_path
from scotopic.io.images import encoded, read_image

FORMAT = 1  #: version in the text chunk; raised when the meaning changes, and older ones keep opening
SCALE = 256.0  #: stored value over px

_KEYWORD = b"scotopic"
_SIGNATURE_AND_HEADER = 33  # bytes: the PNG signature, then the IHDR chunk, which must come first


def write_kitti_png(path: str | os.PathLike[str], disparity: NDArray[np.floating]) -> None:
    """Write a disparity map, atomically.

    Parameters
    ----------
    path : str or path
        The file; an existing one is replaced.
    disparity : ndarray of float
        ``H x W`` px; what is not finite is stored as 0, "none". Like KITTI's own writer, what would round to 0 becomes
        1/256 px.

    Raises
    ------
    InputError
        It is no such map, or holds values below 0 or from 256 px on, which the format cannot store.
    OutputError
        The file cannot be written.
    """
    pixels = to_uint16(disparity, SCALE, f"PNG {os.fspath(path)!r}")
    data = encoded(".png", pixels, path)
    words = _KEYWORD + b"\0" + f"disparity, format {FORMAT}: px = value / {SCALE:g}, 0 = none".encode("ascii")
    body = b"tEXt" + words
    chunk = len(words).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")
    with atomic_path(path) as temporary:
        temporary.write_bytes(data[:_SIGNATURE_AND_HEADER] + chunk + data[_SIGNATURE_AND_HEADER:])


def read_kitti_png(path: str | os.PathLike[str]) -> NDArray[np.float32]:
    """Read a disparity map; with or without our text chunk.

    Returns
    -------
    ndarray of float32
        ``H x W`` px, NaN where there is none.

    Raises
    ------
    InputError
        The file is missing or damaged, is not 16-bit gray, or has a newer format.
    """
    values = read_image(path)
    if values.dtype != np.uint16 or values.ndim != 2:
        raise InputError(
            f"{os.fspath(path)!r}: found {values.dtype} of shape {values.shape}, expected one channel of 16 bits "
            "(disparity * 256, 0 = none); take the original file"
        )
    with Path(path).open("rb") as file:
        start = file.read(_SIGNATURE_AND_HEADER + 300)
    stated = re.search(rb"tEXt" + _KEYWORD + rb"\0disparity, format ([0-9]{1,6}):", start)
    if stated and int(stated[1]) > FORMAT:
        raise InputError(
            f"{os.fspath(path)!r}: found format {int(stated[1])}, expected at most {FORMAT}; upgrade scotopic to "
            "read it"
        )
    return from_uint16(values, SCALE)


def to_uint16(disparity: NDArray[np.floating], scale: float, shown: str) -> NDArray[np.uint16]:
    """Return a disparity map as ``disparity * scale`` in 16 bits, 0 where there is none, or say why it cannot be."""
    values = np.asarray(disparity)
    if values.ndim != 2 or values.dtype.kind != "f" or values.size == 0:
        raise InputError(
            f"cannot store an array of shape {values.shape} and type {values.dtype} as {shown}, expected a disparity "
            "map of floats, H x W; convert it first"
        )
    known = np.isfinite(values)
    stored = np.rint(np.where(known, values, 0).astype(np.float64) * scale)
    low, high = float(values[known].min(initial=0)), float(stored.max(initial=0))
    if low < 0 or high > 65535:
        raise InputError(
            f"cannot store disparities from {low:g} to {high / scale:g} px as {shown}, expected 0 to "
            f"{65535 / scale:.2f}; use PFM, NPZ or 32-bit TIFF"
        )
    return np.where(known, np.maximum(stored, 1), 0).astype(np.uint16)


def from_uint16(values: NDArray[np.uint16], scale: float) -> NDArray[np.float32]:
    """Return the disparity that 16 bits stand for, NaN where they are 0."""
    return np.where(values == 0, np.float32(np.nan), values.astype(np.float32) / np.float32(scale))
