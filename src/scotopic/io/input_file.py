"""Input files: the one place that opens them, limits the memory that they may take, and says why one cannot be read.

Readers open files with :func:`open_input` or :func:`read_input_file` alone. Libraries that open files by themselves get
a path that :func:`plain_file_size` has checked. What libraries raise on a damaged file becomes an
:class:`~scotopic.errors.InputError` in :func:`reading`. Before anything is decoded, :func:`check_memory` compares the
memory that it would take with the limit.
"""

import json
import math
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from scotopic.errors import InputError, ScotopicError, SettingsError

MEMORY_VARIABLE = "SCOTOPIC_MAX_GIB"  #: environment variable that raises or lowers the limit on decoded data
DEFAULT_MEMORY = 2.0  #: GiB that the content of one file may take; an RGB image of 178 megapixels
_TEXT_LIMIT = 64 * 2**20  # bytes of a JSON or TOML file


# --- opening --------------------------------------------------------------------------------------------------------


@contextmanager
def open_input(path: str | os.PathLike[str], kind: str = "an image file") -> Iterator[BinaryIO]:
    """Open a plain file for reading; `kind` says in error messages what the file should be.

    Raises :class:`InputError` if there is no such file, it may not be read, it is a folder, a pipe or a device, or if
    the operating system fails while it is read. Opening a pipe does not wait.
    """
    shown = _show(path)
    try:
        file = open(path, "rb", opener=_open_without_waiting)  # noqa: SIM115 - closed below
    except (OSError, ValueError, TypeError) as error:  # ValueError: a null character in the name
        if isinstance(error, OSError) and os.path.isdir(path):
            raise InputError(f"{shown} is a folder. Give the path of {kind} in it.") from error
        raise InputError(f"{shown} cannot be opened: {explain(error)}. Give the path of {kind}.") from error
    with file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise InputError(f"{shown} is a pipe or a device, not {kind}. Save its content to a file first.")
        try:
            yield file
        except OSError as error:
            raise reading_failed(path, error) from error


def _open_without_waiting(path: str, flags: int) -> int:
    # Without this flag, opening a pipe would wait for somebody to write to it. Windows has neither.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def plain_file_size(path: str | os.PathLike[str], kind: str = "an image file") -> int:
    """Return the size in bytes of a file that a library is going to open; raise as :func:`open_input` does."""
    with open_input(path, kind) as file:
        return os.fstat(file.fileno()).st_size


def read_input_file(path: str | os.PathLike[str], kind: str, limit: int) -> bytes:
    """Return the content of a plain file; raise :class:`InputError` if it has over `limit` bytes or cannot be read."""
    with open_input(path, kind) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            raise InputError(f"{_show(path)} has {size} bytes, too many for {kind} (at most {limit}).")
        return file.read(size)  # not more, should it grow meanwhile


def read_input_text(path: str | os.PathLike[str], kind: str, limit: int = _TEXT_LIMIT) -> str:
    """Return the content of a text file in UTF-8, line ends as they are; raise :class:`InputError` if it is none."""
    data = read_input_file(path, kind, limit)
    with reading(path, kind):
        return data.decode()


def read_json(path: str | os.PathLike[str], kind: str) -> Any:
    """Return what a JSON file holds; raise :class:`InputError` if it cannot be read."""
    text = read_input_text(path, kind)
    with reading(path, kind):
        return json.loads(text)


# --- errors ---------------------------------------------------------------------------------------------------------


@contextmanager
def reading(
    path: str | os.PathLike[str], kind: str, advice: str = "Check the file, or fetch it again."
) -> Iterator[None]:
    """Turn whatever a library raises on a damaged file into an :class:`InputError`; our own errors pass.

    A damaged file can make a parser raise anything: not only ``ValueError``, but ``TokenError`` in NumPy's reader of
    headers, ``LZMAError``, ``RecursionError`` and ``OverflowError``. So everything is caught, around the call alone.
    """
    try:
        yield
    except ScotopicError:
        raise
    except MemoryError as error:
        raise InputError(f"{_show(path)} does not fit into memory. {advice}") from error
    except Exception as error:
        raise InputError(f"{_show(path)} cannot be read as {kind}: {explain(error):.200}. {advice}") from error


def reading_failed(path: str | os.PathLike[str], error: OSError) -> InputError:
    """Return the error for a file that could be found but not read to its end."""
    return InputError(f"Reading {_show(path)} failed: {explain(error)}. Check its permissions and the disk.")


def explain(error: BaseException) -> str:
    """Return the operating system's words for an error, or Python's, in one line."""
    words = getattr(error, "strerror", None) or " ".join(str(error).split())
    return str(words or type(error).__name__).rstrip(".")


def _show(path: object) -> str:
    """Return how a message names a file; the middle of a very long name is left out."""
    name = os.fspath(path) if isinstance(path, str | bytes | os.PathLike) else path
    shown = repr(name)
    return shown if len(shown) <= 400 else f"{shown[:150]}...{shown[-50:]}"


# --- memory ---------------------------------------------------------------------------------------------------------


def memory_limit() -> int:
    """Return how many bytes the content of one file may take, as :data:`MEMORY_VARIABLE` says."""
    text = os.environ.get(MEMORY_VARIABLE, "")
    try:
        gib = float(text) if text.strip() else DEFAULT_MEMORY
    except ValueError:
        gib = math.nan
    if not 0 < gib < 2**20:
        raise SettingsError(
            f"The environment variable {MEMORY_VARIABLE} is {text[:40]!r}. Set it to a number of GiB, such as 4."
        )
    return int(gib * 2**30)


def check_memory(title: str, content: str, size: int) -> None:
    """Raise :class:`InputError` if the content of a file takes more memory than the limit.

    A small file can decode to far more than the memory there is. Readers call this with what the file says about
    itself, before they decode it, and again with what was decoded, because a file can lie.

    Parameters
    ----------
    title
        How the message names the file.
    content
        What it holds, in words, such as ``"40000 x 40000 px of 3 channels"``.
    size
        Bytes that it takes in memory.
    """
    limit = memory_limit()
    if size > limit:
        raise InputError(
            f"{title} holds {content}, which would take {size / 2**30:.3g} GiB of memory; the limit is "
            f"{limit / 2**30:.3g} GiB. Use a smaller one or, if the file is right, set the environment variable "
            f"{MEMORY_VARIABLE}={math.ceil(size / 2**30)}."
        )
