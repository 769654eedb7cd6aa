"""NPZ files of plain arrays, written and read without ever pickling anything."""

import math
import os
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError
from scotopic.io.atomic import atomic_path
from scotopic.io.input_file import check_memory, open_input, reading
from scotopic.io.masks import unmasked


def read_npz(
    path: str | os.PathLike[str], names: Sequence[str] | None = None, *, max_bytes: int | None = None
) -> dict[str, NDArray[Any]]:
    """Return the arrays of a file by name: all, or those of `names` that it has.

    Raises :class:`InputError` if the file is missing or damaged, is not an NPZ file, holds something that would have
    to be unpickled, or would take more memory than `max_bytes`.
    """
    kind = "an NPZ file of plain arrays"
    with open_input(path, "an NPZ file") as stream, reading(path, kind), _open_archive(stream) as file:
        wanted = [name for name in file.files if names is None or name in names]
        size = sum(_claimed_size(file.zip, name) for name in wanted)
        if max_bytes is not None and size > max_bytes:
            raise InputError(
                f"{os.fspath(path)!r} holds arrays of {size / 2**20:.0f} MiB; the limit is {max_bytes / 2**20:.0f} "
                "MiB. Make it smaller."
            )
        check_memory(repr(os.fspath(path)), f"{len(wanted)} arrays", size)
        return {name: file[name] for name in wanted}


def write_npz(path: str | os.PathLike[str], arrays: Mapping[str, Any], version: int) -> None:
    """Write arrays by name, atomically, and as ``format`` the version of their layout.

    The same arrays give the same bytes.

    Floats are NaN where they are masked. Raises :class:`InputError` if other numbers are masked, an array would have to
    be pickled, or is called ``format``. Raises :class:`OutputError` if the file cannot be written.
    """
    plain: dict[str, Any] = {name: unmasked(values, name) for name, values in arrays.items()}
    bad = [name for name, values in plain.items() if values.dtype.hasobject or name == "format"]
    if bad:
        raise InputError(
            f"{bad[0]!r} cannot be stored in {os.fspath(path)!r}. Arrays must hold numbers or text, and 'format' is "
            "taken."
        )
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **{"format": np.array(version), **plain})


def _open_archive(stream: BinaryIO) -> Any:
    if stream.read(4)[:2] != b"PK":  # NumPy would read all of another kind of file
        raise ValueError("it is not a zip archive")
    stream.seek(0)
    return np.load(stream, allow_pickle=False)


def _claimed_size(archive: zipfile.ZipFile, name: str) -> int:
    """Return the bytes that an array's header claims, which NumPy allocates; raise unless as many are there."""
    member = f"{name}.npy" if f"{name}.npy" in archive.NameToInfo else name
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, kind = read(stream)
        claimed = math.prod(shape) * kind.itemsize
        if not kind.hasobject and stream.tell() + claimed != archive.getinfo(member).file_size:
            raise ValueError(f"{name!r} claims {claimed} bytes but has another size")
    return claimed
