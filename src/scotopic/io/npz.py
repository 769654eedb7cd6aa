"""NPZ files of plain arrays, read without ever unpickling anything."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError

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
            return {name: file[name] for name in file.files if names is None or name in names}
    except _UNREADABLE as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise InputError(
            f"{os.fspath(path)!r}: found {reason:.200}, expected a readable NPZ file of plain arrays; write it again"
        ) from error
