"""PFM, the portable float map in which Middlebury gives its disparities.

Header: ``PF`` (three channels) or ``Pf`` (one), width, height, scale; then the rows as 32-bit floats, the bottom row
first. The sign of the scale is the byte order (negative: little-endian). Its magnitude is not a factor: Middlebury
stores a display hint there.
"""

import os
import re

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError
from scotopic.io.atomic import atomic_path
from scotopic.io.input_file import check_memory, open_input
from scotopic.io.masks import masked_to_nan

# Long enough for the comments of real files, short enough that a file which is one endless comment is cheap to refuse.
_HEADER_LIMIT = 4096
_GAP = rb"(?:[ \t\n\v\f\r]|#[^\n]*\n)+"
_HEADER = re.compile(
    rb"P(?P<kind>[Ff])" + _GAP + rb"(?P<width>[0-9]{1,9})" + _GAP + rb"(?P<height>[0-9]{1,9})" + _GAP +
    rb"(?P<scale>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)(?=[ \t\n\v\f\r#])"
)  # fmt: skip
# What may stand between the scale and the data: by the book one white space; in real files also a longer line end
# (blanks, CR LF, a comment) that a text editor or another system made of it.
_HEADER_END = re.compile(rb"[ \t\n\v\f\r]|[ \t\r]*\n|[ \t]+#[^\n]*\n")


def read_pfm(path: str | os.PathLike[str]) -> NDArray[np.float32]:
    """Read a PFM file: float32, ``H x W`` for ``Pf``, ``H x W x 3`` for ``PF``, the top row first.

    Values are as stored, also NaN and infinity (in a disparity map +inf means unknown).

    Raises :class:`InputError` if the file is missing, is not a PFM, or its data do not have exactly the size that the
    header gives.
    """
    shown = repr(os.fspath(path))
    refused = f"{shown} is not a readable PFM file"
    with open_input(path) as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(_HEADER_LIMIT)
        channels, width, height, order, end = _parse_header(head, refused)
        # Compare with the size of the file before any memory is asked for: a header can claim anything.
        expected = channels * width * height * 4
        start = size - expected
        if not (end < start <= len(head) and _HEADER_END.fullmatch(head, end, start)):
            raise InputError(
                f"{refused}: it has {max(size - end - 1, 0)} bytes of data instead of {expected} for {width} x "
                f"{height} x {channels} floats; it is cut short or damaged."
            )
        check_memory(shown, f"{width} x {height} px of {channels} channel(s)", expected)
        file.seek(start)
        data = np.fromfile(file, dtype=f"{order}f4", count=channels * width * height)
        if data.nbytes != expected:
            raise InputError(f"{refused}: it changed while it was read.")
    shape = (height, width) if channels == 1 else (height, width, channels)
    return np.ascontiguousarray(data.reshape(shape)[::-1], dtype=np.float32)


def write_pfm(path: str | os.PathLike[str], array: NDArray[np.floating]) -> None:
    """Write floats, ``H x W`` or ``H x W x 3`` with the top row first, as a PFM file, little-endian, atomically.

    Values are stored as they are, in float32, and NaN where they are masked. To mark unknown pixels by +inf instead is
    up to the caller.

    Raises :class:`InputError` if `array` has another shape or type, or a finite value is too large for float32. Raises
    :class:`OutputError` if the file cannot be written.
    """
    array = np.asarray(masked_to_nan(array))
    shape_fits = array.ndim == 2 or (array.ndim == 3 and array.shape[2] == 3)
    if array.dtype.kind != "f" or not shape_fits or array.size == 0:
        raise InputError(
            f"An array of shape {array.shape} and type {array.dtype} cannot be stored as PFM {os.fspath(path)!r}. PFM "
            "holds floats of shape H x W or H x W x 3."
        )
    with np.errstate(over="ignore"):
        stored = array[::-1].astype("<f4", order="C")
    if array.dtype.itemsize > 4 and np.any(np.isinf(stored) & np.isfinite(array[::-1])):
        raise InputError(
            f"Values up to {np.abs(array[np.isfinite(array)]).max():.3g} cannot be stored as PFM {os.fspath(path)!r}: "
            "they exceed float32. Scale them first."
        )
    height, width = array.shape[:2]
    header = f"{'Pf' if array.ndim == 2 else 'PF'}\n{width} {height}\n-1.0\n".encode("ascii")
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        file.write(header)
        file.write(stored.data)


def _parse_header(head: bytes, refused: str) -> tuple[int, int, int, str, int]:
    """Return channels, width, height, byte order, and where the scale ends."""
    header = _HEADER.match(head)
    if header is None:
        start = head[:20].decode("ascii", "backslashreplace")
        raise InputError(f"{refused}: it starts with {start!r}, not with a header such as 'Pf 640 480 -1.0'.")
    width, height, scale = int(header["width"]), int(header["height"]), float(header["scale"])
    if 0 in (width, height, scale) or not np.isfinite(scale):
        raise InputError(f"{refused}: its width, height and scale are {width}, {height} and {scale:g}.")
    return 3 if header["kind"] == b"F" else 1, width, height, "<" if scale < 0 else ">", header.end()
