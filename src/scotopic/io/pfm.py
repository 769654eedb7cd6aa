"""PFM, the portable float map in which Middlebury gives its disparities.

Header: ``PF`` (three channels) or ``Pf`` (one), width, height, scale; then the rows as 32-bit floats, the bottom row
first. The sign of the scale says the byte order (negative: little-endian). Its size is not a factor: Middlebury stores
a display hint there.
"""

import os
import re
import stat

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError
from scotopic.io.atomic import atomic_path

# Long enough for the comments of real files, short enough that a file which is one endless comment is cheap to refuse.
_HEADER_LIMIT = 4096
_GAP = re.compile(rb"(?:[ \t\n\v\f\r]|#[^\n]*\n)*")
_TOKEN = re.compile(rb"[^ \t\n\v\f\r#]+")
_SIZE = re.compile(rb"[0-9]{1,9}")
_SCALE = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
# What may stand between the scale and the data: one white space by the book; a line end that a text editor or
# another system stretched (blanks, CR LF, a comment) in practice.
_HEADER_END = re.compile(rb"[ \t\n\v\f\r]|[ \t\r]*\n|[ \t]+#[^\n]*\n")


def read_pfm(path: str | os.PathLike[str]) -> NDArray[np.float32]:
    """Read a PFM file.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    ndarray of float32
        ``H x W`` for ``Pf``, ``H x W x 3`` for ``PF``; the top row first. Values are as stored, also NaN and infinity
        (in a disparity map +inf means unknown).

    Raises
    ------
    InputError
        The file is missing, is not a PFM, or its data do not have exactly the size that the header gives.
    """
    size = plain_file_size(path)
    try:
        with open(path, "rb") as file:
            head = file.read(_HEADER_LIMIT)
            channels, width, height, order, end = _parse_header(head)
            # Compare with the size of the file before any memory is asked for: a header can claim anything.
            expected = channels * width * height * 4
            start = size - expected
            if not (end < start <= len(head) and _HEADER_END.fullmatch(head, end, start)):
                raise _HeaderError(
                    f"found {max(size - end - 1, 0)} bytes of data, expected {expected} for {width} x {height} x "
                    f"{channels} floats; the file is cut short or damaged, fetch it again"
                )
            file.seek(start)
            data = np.fromfile(file, dtype=f"{order}f4", count=channels * width * height)
            if data.nbytes != expected:
                raise _HeaderError(f"found {data.nbytes} bytes of data, expected {expected}; it changed, read it again")
    except _HeaderError as problem:
        raise InputError(f"{os.fspath(path)!r} is not a readable PFM file: {problem}") from None
    except OSError as error:
        raise InputError(
            f"{os.fspath(path)!r}: reading stopped with {error.strerror or error}, expected a readable PFM file; "
            "check its permissions and the disk"
        ) from error
    shape = (height, width) if channels == 1 else (height, width, channels)
    return np.ascontiguousarray(data.reshape(shape)[::-1], dtype=np.float32)


def write_pfm(path: str | os.PathLike[str], array: NDArray[np.floating]) -> None:
    """Write a PFM file, little-endian, atomically.

    Parameters
    ----------
    path : str or path
        The file; an existing one is replaced.
    array : ndarray of float
        ``H x W`` or ``H x W x 3``, the top row first, stored as float32. Values are stored as they are: +inf stays
        +inf, and turning NaN into the file's own mark for unknown is the caller's matter.

    Raises
    ------
    InputError
        `array` is not of such a shape or type, or a finite value is too large for float32.
    OutputError
        The file cannot be written.
    """
    array = np.asarray(array)
    shape_fits = array.ndim == 2 or (array.ndim == 3 and array.shape[2] == 3)
    if array.dtype.kind != "f" or not shape_fits or array.size == 0:
        raise InputError(
            f"cannot store an array of shape {array.shape} and type {array.dtype} as PFM {os.fspath(path)!r}, "
            "expected floats of shape H x W or H x W x 3; convert it first"
        )
    with np.errstate(over="ignore"):
        stored = array[::-1].astype("<f4")
    if array.dtype.itemsize > 4 and np.any(np.isinf(stored) & np.isfinite(array[::-1])):
        raise InputError(
            f"cannot store values up to {np.abs(array[np.isfinite(array)]).max():.3g} as PFM {os.fspath(path)!r}, "
            "expected float32 range; scale them first"
        )
    height, width = array.shape[:2]
    header = f"{'Pf' if array.ndim == 2 else 'PF'}\n{width} {height}\n-1.0\n".encode("ascii")
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        file.write(header)
        file.write(stored.data)


def plain_file_size(path: str | os.PathLike[str], kind: str = "an image file") -> int:
    """Give the size of an input file in bytes; anything but a plain file is an error.

    To be asked before opening: opening a pipe would wait for ever.

    Parameters
    ----------
    path : str or path
        The file.
    kind : str
        What to call the file that was expected.

    Returns
    -------
    int
        In bytes.

    Raises
    ------
    InputError
        There is no such file, or it is a folder, a pipe or a device.
    """
    shown = repr(os.fspath(path))
    try:
        status = os.stat(path)
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{shown}: cannot be opened ({reason}), expected {kind}; check the path") from error
    if stat.S_ISDIR(status.st_mode):
        raise InputError(f"{shown}: found a folder, expected {kind}; give the path of a file in it")
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{shown}: found a pipe or device, expected {kind}; save it to a file first")
    return status.st_size


class _HeaderError(Exception):
    """What is wrong with a header, before the file's name is put in front."""


def _parse_header(head: bytes) -> tuple[int, int, int, str, int]:
    """Channels, width, height, byte order, and where the scale ends."""
    if not re.match(rb"P[Ff][ \t\n\v\f\r#]", head):
        raise _HeaderError(f"it starts with {_shown(head[:4])}, expected 'PF' or 'Pf'; convert it to PFM")
    channels = 3 if head[1:2] == b"F" else 1
    width, end = _next_token(head, 2, _SIZE, "width")
    height, end = _next_token(head, end, _SIZE, "height")
    scale, end = _next_token(head, end, _SCALE, "scale")
    if int(width) == 0 or int(height) == 0:
        raise _HeaderError(f"its size is {int(width)} x {int(height)}, expected at least 1 x 1; write it again")
    if not (np.isfinite(float(scale)) and float(scale) != 0):
        raise _HeaderError(f"its scale is {_shown(scale)}, expected a number other than 0; write -1.0")
    return channels, int(width), int(height), "<" if float(scale) < 0 else ">", end


def _next_token(head: bytes, start: int, pattern: re.Pattern[bytes], what: str) -> tuple[bytes, int]:
    gap = _GAP.match(head, start)
    token = _TOKEN.match(head, gap.end() if gap else start)
    # Without a byte behind it the token may have been cut by the header limit or by the end of the file.
    if token is None or token.end() == len(head):
        raise _HeaderError(f"its header ends before the {what}, expected width, height and scale; fetch it again")
    if not pattern.fullmatch(token.group()):
        raise _HeaderError(f"its {what} is {_shown(token.group())}, expected a number; repair the header")
    return token.group(), token.end()


def _shown(data: bytes) -> str:
    return repr(data[:20].decode("ascii", "backslashreplace"))
