"""PLY files read back by their header alone, for the tests of what is written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Points:
    """Points, colors and confidence, ``None`` where the file has none."""

    points: np.ndarray
    colors: np.ndarray | None
    confidence: np.ndarray | None


def read_ply(path: Path) -> Points:
    """Return the points of a binary, little-endian file of vertices."""
    head, _, body = path.read_bytes().partition(b"\nend_header\n")
    lines = [line.split() for line in head.decode("ascii").split("\n")]
    assert lines[:2] == [["ply"], ["format", "binary_little_endian", "1.0"]]
    (count,) = (int(line[2]) for line in lines if line[:2] == ["element", "vertex"])
    kinds = {"float": "<f4", "uchar": "u1"}
    record = np.dtype([(line[2], kinds[line[1]]) for line in lines if line[0] == "property"])
    assert len(body) == count * record.itemsize
    data = np.frombuffer(body, record)

    def columns(*names: str) -> np.ndarray | None:
        return np.stack([data[name] for name in names], axis=-1) if names[0] in data.dtype.fields else None

    points, colors, confidence = columns("x", "y", "z"), columns("red", "green", "blue"), columns("confidence")
    assert points is not None
    return Points(points, colors, None if confidence is None else confidence[:, 0])
