"""PLY, the point-cloud format that every viewer opens: a header in words, then one record of bytes for each point.

Written: binary, little-endian, ``x y z`` in meters as float32, ``red green blue`` as bytes, ``confidence`` as float32,
and a comment with the version of this layout. Read: binary files of points with at least ``x y z``.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError
from scotopic.io.atomic import atomic_path
from scotopic.io.pfm import plain_file_size

FORMAT = 1  #: version of the layout, in a comment of the header; raised when it changes, and older ones keep opening

_MARK = "scotopic point cloud, format"
_AXES = "left camera: x right, y down, z forward; meters"
_HEADER_LIMIT = 64 * 1024
_ORDERS = {"binary_little_endian": "<", "binary_big_endian": ">"}
_TYPES = {
    "char": "i1", "int8": "i1", "uchar": "u1", "uint8": "u1", "short": "i2", "int16": "i2", "ushort": "u2",
    "uint16": "u2", "int": "i4", "int32": "i4", "uint": "u4", "uint32": "u4", "float": "f4", "float32": "f4",
    "double": "f8", "float64": "f8",
}  # fmt: skip
_PLACE, _COLOR = ("x", "y", "z"), ("red", "green", "blue")


@dataclass(frozen=True, eq=False)
class Points:
    """What a PLY file holds: ``N x 3`` places and, where it has them, ``N x 3`` colors and ``N`` confidences."""

    points: NDArray[np.float32]
    colors: NDArray[np.uint8] | None
    confidence: NDArray[np.float32] | None


def write_ply(
    path: str | os.PathLike[str],
    points: NDArray[np.floating],
    *,
    colors: NDArray[np.uint8] | None = None,
    confidence: NDArray[np.floating] | None = None,
) -> None:
    """Write a binary PLY file, atomically.

    Parameters
    ----------
    path : str or path
        The file; an existing one is replaced.
    points : ndarray of float
        ``N x 3``, finite; N may be 0.
    colors : ndarray of uint8, optional
        ``N x 3`` RGB.
    confidence : ndarray of float, optional
        ``N``.

    Raises
    ------
    InputError
        An array is not of such a shape or type, or a point is not finite.
    OutputError
        The file cannot be written.
    """
    shown = repr(os.fspath(path))
    places = np.asarray(points)
    if places.ndim != 2 or places.shape[1] != 3 or places.dtype.kind != "f":
        raise InputError(
            f"cannot store points of shape {places.shape} and type {places.dtype} as PLY {shown}, expected floats "
            "N x 3; convert them first"
        )
    with np.errstate(over="ignore"):
        stored = places.astype("<f4")
    if not np.isfinite(stored).all():
        raise InputError(
            f"cannot store {np.count_nonzero(~np.isfinite(stored).all(axis=1))} points that are not finite in float32 "
            f"as PLY {shown}, expected finite ones, since viewers fail on others; leave them out"
        )
    count = len(places)
    columns: list[tuple[str, str, NDArray[Any]]] = [(axis, "<f4", stored[:, i]) for i, axis in enumerate(_PLACE)]
    if colors is not None:
        shades = np.asarray(colors)
        if shades.shape != (count, 3) or shades.dtype != np.uint8:
            raise InputError(
                f"cannot store colors of shape {shades.shape} and type {shades.dtype} as PLY {shown}, expected uint8 "
                f"{count} x 3; convert them first"
            )
        columns += [(name, "u1", shades[:, i]) for i, name in enumerate(_COLOR)]
    if confidence is not None:
        sureness = np.asarray(confidence)
        if sureness.shape != (count,) or sureness.dtype.kind != "f":
            raise InputError(
                f"cannot store confidence of shape {sureness.shape} and type {sureness.dtype} as PLY {shown}, expected "
                f"{count} floats; convert it first"
            )
        columns.append(("confidence", "<f4", sureness))
    records = np.empty(count, np.dtype([(name, kind) for name, kind, _ in columns]))
    for name, _, values in columns:
        records[name] = values
    words = {"<f4": "float", "u1": "uchar"}
    header = [
        "ply",
        "format binary_little_endian 1.0",
        f"comment {_MARK} {FORMAT}",
        f"comment {_AXES}",
        f"element vertex {count}",
        *(f"property {words[kind]} {name}" for name, kind, _ in columns),
        "end_header",
    ]
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        file.write(("\n".join(header) + "\n").encode("ascii"))
        file.write(records.tobytes())


def read_ply(path: str | os.PathLike[str]) -> Points:
    """Read a binary PLY file of points.

    Parameters
    ----------
    path : str or path
        Ours, or any binary file whose one element is ``vertex`` with at least ``x y z``; properties that are not known
        are skipped.

    Returns
    -------
    Points
        Places, and colors and confidence where the file has them.

    Raises
    ------
    InputError
        The file is missing, is no such PLY, or its data do not have exactly the size that the header gives.
    """
    size = plain_file_size(path, "a PLY file")
    try:
        with open(path, "rb") as file:
            head = file.read(_HEADER_LIMIT)
            record, count, start = _parse_header(head)
            # Compare with the size of the file before any memory is asked for: a header can claim anything.
            expected = record.itemsize * count
            if size - start != expected:
                raise _HeaderError(
                    f"found {max(size - start, 0)} bytes of data, expected {expected} for {count} points of "
                    f"{record.itemsize} bytes; the file is cut short or damaged, write it again"
                )
            file.seek(start)
            data = np.fromfile(file, record, count)
            if len(data) != count:
                raise _HeaderError(f"found {len(data)} points, expected {count}; it changed, read it again")
    except _HeaderError as problem:
        raise InputError(f"{os.fspath(path)!r} is not a readable PLY file: {problem}") from None
    except OSError as error:
        raise InputError(
            f"{os.fspath(path)!r}: reading stopped with {error.strerror or error}, expected a readable PLY file; "
            "check its permissions and the disk"
        ) from error
    names = record.names or ()
    colors = confidence = None
    if all(name in names and record[name] == np.uint8 for name in _COLOR):
        colors = np.stack([data[name] for name in _COLOR], axis=1)
    if "confidence" in names:
        confidence = data["confidence"].astype(np.float32)
    with np.errstate(over="ignore"):
        places = np.stack([data[axis] for axis in _PLACE], axis=1).astype(np.float32)
    return Points(places, colors, confidence)


class _HeaderError(Exception):
    """What is wrong with a file, before its name is put in front."""


def _parse_header(head: bytes) -> tuple[np.dtype[Any], int, int]:
    """The record of one point, how many there are, and where they begin."""
    opening = re.match(rb"ply(\r?\n)", head)
    if not opening:
        raise _HeaderError(f"it starts with {_shown(head[:4])}, expected a line 'ply'; convert it to PLY")
    ending = re.search(rb"\nend_header\r?\n", head)
    if not ending:
        raise _HeaderError("its header does not end, expected a line 'end_header'; write it again")
    order, count = "", -1
    fields: list[tuple[str, str]] = []
    for number, line in enumerate(head[opening.end() : ending.start() + 1].splitlines(), 2):
        words = line.decode("ascii", "backslashreplace").split()
        match words:
            case ["comment" | "obj_info", *rest]:
                _check_version(" ".join(rest), number)
            case ["format", kind, "1.0"] if not order:
                if kind not in _ORDERS:
                    raise _HeaderError(f"line {number} says {kind!r}, expected a binary format; save it as binary PLY")
                order = _ORDERS[kind]
            case ["element", "vertex", total] if order and count < 0 and re.fullmatch(r"[0-9]{1,12}", total):
                count = int(total)
            case ["property", kind, name] if count >= 0 and kind in _TYPES and name not in dict(fields):
                fields.append((name, order + _TYPES[kind]))
            case _:
                raise _HeaderError(
                    f"line {number} is {_shown(line)}, expected format, element vertex and its properties, each once; "
                    "save the points alone, as binary PLY"
                )
    if count < 0 or any(name not in dict(fields) for name in _PLACE):
        raise _HeaderError("it has no points, expected an element vertex with x, y and z; write it again")
    record = np.dtype(fields)
    if any(record[axis].kind != "f" for axis in _PLACE) or (
        "confidence" in dict(fields) and record["confidence"].kind != "f"
    ):
        raise _HeaderError("it has whole numbers for places, expected float or double; write it again")
    return record, count, ending.end()


def _check_version(comment: str, number: int) -> None:
    if comment.startswith(_MARK):
        version = comment[len(_MARK) :].strip()
        if not re.fullmatch(r"[0-9]{1,6}", version) or int(version) < 1:
            raise _HeaderError(f"line {number} has format {version[:20]!r}, expected a number; write it again")
        if int(version) > FORMAT:
            raise _HeaderError(f"it has format {version}, expected at most {FORMAT}; upgrade scotopic to read it")


def _shown(data: bytes) -> str:
    return repr(data[:40].decode("ascii", "backslashreplace"))
