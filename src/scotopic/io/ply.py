"""Point clouds as PLY: binary, little-endian, with ``x y z`` in meters as float32, ``red green blue`` as bytes and
``confidence`` as float32."""

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError
from scotopic.io.atomic import atomic_path
from scotopic.io.masks import unmasked

_PROPERTIES = {"<f4": "float", "|u1": "uchar"}


def write_ply(
    path: str | os.PathLike[str],
    points: NDArray[np.floating],
    *,
    colors: NDArray[np.uint8] | None = None,
    confidence: NDArray[np.floating] | None = None,
) -> None:
    """Write ``N x 3`` finite points, with ``N x 3`` RGB colors and ``N`` confidences, as binary PLY, atomically.

    Raises :class:`InputError` if an array has another shape or type, or a point is not finite. Raises
    :class:`OutputError` if the file cannot be written.
    """
    count = len(np.atleast_1d(points))
    with np.errstate(over="ignore"):
        columns = _columns("points", points, (count, 3), "f", ("x", "y", "z"))
    if colors is not None:
        columns |= _columns("colors", colors, (count, 3), "u", ("red", "green", "blue"))
    if confidence is not None:
        columns |= _columns("confidence", confidence, (count,), "f", ("confidence",))
    bad = sum(~(np.isfinite(columns["x"]) & np.isfinite(columns["y"]) & np.isfinite(columns["z"])))
    if bad:
        raise InputError(
            f"{bad} of {count} points are not finite in float32, and viewers fail on such files. Leave them out of "
            f"{os.fspath(path)!r}."
        )
    records = np.empty(count, np.dtype([(name, values.dtype) for name, values in columns.items()]))
    for name, values in columns.items():
        records[name] = values
    header = [
        "ply",
        "format binary_little_endian 1.0",
        "comment scotopic point cloud, format 1",
        "comment left camera: x right, y down, z forward; meters",
        f"element vertex {count}",
        *(f"property {_PROPERTIES[values.dtype.str]} {name}" for name, values in columns.items()),
        "end_header",
    ]
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        file.write(("\n".join(header) + "\n").encode("ascii"))
        file.write(records.tobytes())


def _columns(
    what: str, values: NDArray[Any], shape: tuple[int, ...], kind: str, names: tuple[str, ...]
) -> dict[str, NDArray[Any]]:
    """Return the columns of an array as they are stored, by name."""
    array = unmasked(values, what)
    if array.shape != shape or array.dtype.kind != kind or (kind == "u" and array.dtype != np.uint8):
        expected = f"{'uint8' if kind == 'u' else 'floats'} of shape {shape}"
        raise InputError(f"The {what} of a PLY file must be {expected}, not {array.dtype} of shape {array.shape}.")
    stored = array.astype("<f4" if kind == "f" else "u1").reshape(len(array), len(names))
    return {name: stored[:, i] for i, name in enumerate(names)}
