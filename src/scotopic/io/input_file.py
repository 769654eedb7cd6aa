"""Input files: plain, of a sensible size, and readable, or refused by name."""

import os
import stat
from pathlib import Path

from scotopic.errors import InputError


def plain_file_size(path: str | os.PathLike[str], kind: str = "an image file") -> int:
    """Return the size of an input file in bytes; `kind` says in error messages what the file should be.

    Raises :class:`InputError` if there is no such file, or it is a folder, a pipe or a device. Call it before opening
    the file: opening a pipe would wait forever.
    """
    shown = repr(os.fspath(path))
    try:
        status = os.stat(path)
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        raise InputError(f"{shown} cannot be opened: {explain(error)}. Give the path of {kind}.") from error
    if stat.S_ISDIR(status.st_mode):
        raise InputError(f"{shown} is a folder. Give the path of {kind} in it.")
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{shown} is a pipe or a device, not {kind}. Save its content to a file first.")
    return status.st_size


def read_input_file(path: str | os.PathLike[str], kind: str, limit: int) -> bytes:
    """Return the content of a plain file; raise :class:`InputError` if it has over `limit` bytes or cannot be read."""
    size = plain_file_size(path, kind)
    if size > limit:
        raise InputError(f"{os.fspath(path)!r} has {size} bytes, too many for {kind} (at most {limit}).")
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise reading_failed(path, error) from error


def reading_failed(path: str | os.PathLike[str], error: OSError) -> InputError:
    """Return the error for a file that could be found but not read to its end."""
    return InputError(f"Reading {os.fspath(path)!r} failed: {explain(error)}. Check its permissions and the disk.")


def explain(error: Exception) -> str:
    """Return the operating system's words for an error, or Python's."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
