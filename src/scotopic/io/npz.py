"""NPZ files of plain arrays, written and read without ever pickling anything."""

from __future__ import annotations

import math
import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError
from scotopic.io.atomic import atomic_path

# All that NumPy and the zip reader raise on damaged files, and on those that claim to be larger than memory.
_UNREADABLE = (
    AttributeError, EOFError, KeyError, MemoryError, NotImplementedError, OSError, RuntimeError, SyntaxError, TypeError,
    ValueError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def read_npz(path: str | os.PathLike[str], names: Sequence[str] | None = None) -> dict[str, NDArray[Any]]:
    """Read the arrays of a file.

    Parameters
    ----------
    path : str or path
        The file.
    names : sequence of str, optional
        Which to read, those of them that are there; all if left out.

    Returns
    -------
    dict
        Arrays by name.

    Raises
    ------
    InputError
        The file is missing or damaged, is no NPZ file, or holds something that would have to be unpickled.
    """
    try:
        with Path(path).open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            wanted = [name for name in file.files if names is None or name in names]
            for name in wanted:
                _check_claim(file.zip, name)
            return {name: file[name] for name in wanted}
    except _UNREADABLE as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise InputError(
            f"{os.fspath(path)!r}: found {reason:.200}, expected a readable NPZ file of plain arrays; write it again"
        ) from error


def write_npz(path: str | os.PathLike[str], arrays: Mapping[str, Any], version: int) -> None:
    """Write arrays, atomically; the same arrays give the same bytes.

    Parameters
    ----------
    path : str or path
        The file; an existing one is replaced.
    arrays : mapping
        By name; none may be called ``format``.
    version : int
        Of what the arrays mean, stored as ``format``.

    Raises
    ------
    InputError
        An array would have to be pickled, or is called ``format``.
    OutputError
        The file cannot be written.
    """
    plain: dict[str, Any] = {name: np.asarray(values) for name, values in arrays.items()}
    bad = [name for name, values in plain.items() if values.dtype.hasobject or name == "format"]
    if bad:
        raise InputError(
            f"cannot store {bad[0]!r} in {os.fspath(path)!r}, expected arrays of numbers or text under other names "
            "than 'format'; convert or rename it"
        )
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **{"format": np.array(version), **plain})


def _check_claim(archive: zipfile.ZipFile, name: str) -> None:
    """Raise unless an array's header claims what its file holds: memory is asked for by the header."""
    member = f"{name}.npy" if f"{name}.npy" in archive.NameToInfo else name
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, kind = read(stream)
        claimed = math.prod(shape) * kind.itemsize
        if not kind.hasobject and stream.tell() + claimed != archive.getinfo(member).file_size:
            raise ValueError(f"{name!r} that claims {claimed} bytes and has others")
