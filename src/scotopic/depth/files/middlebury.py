"""Middlebury's ``calib.txt`` (ETH3D's too): ``cam0=[f 0 cx; 0 f cy; 0 0 1]``, ``doffs=``, ``baseline=`` in mm."""

from __future__ import annotations

import numpy as np

from scotopic.depth.calibration import UNITS, Calibration, Matrix
from scotopic.depth.files.text import Entry, TextFile, entries

# Files give three digits.
_DOFFS_TOLERANCE = 0.01


def read(file: TextFile) -> Calibration:
    """Read the file; ``ndisp``, ``vmin`` and what else it says of the data set are left aside."""
    found = entries(file, "=")
    for key in ("cam0", "baseline"):
        if key not in found:
            raise file.problem(None, f"no {key!r}", "cam0=, cam1=, doffs=, baseline=", "fetch the file again")
    left = _camera(file, "cam0", found["cam0"])
    right = _camera(file, "cam1", found["cam1"]) if "cam1" in found else None
    stated = _one(file, "doffs", found["doffs"]) if "doffs" in found else None
    if right is None and stated is None:
        raise file.problem(None, "neither 'doffs' nor 'cam1'", "one of them", "fetch the file again")
    if right is not None:
        between = float(right[0, 2] - left[0, 2])
        if stated is not None and abs(between - stated) > _DOFFS_TOLERANCE:
            raise file.problem(
                found["doffs"].line,
                f"doffs {stated:g}",
                f"{between:g}, the distance of cam0's and cam1's cx",
                "correct it or fetch the file again",
            )
        if np.abs(np.delete(right - left, 2)).max() > _DOFFS_TOLERANCE:
            raise file.problem(
                found["cam1"].line, "cam1 that differs from cam0 in more than cx", "a rectified pair", "fetch it again"
            )
        stated = between if stated is None else stated
    sizes = {key: file.whole(found[key].line, key, [found[key].text]) for key in ("width", "height") if key in found}
    return Calibration(
        fx=float(left[0, 0]),
        fy=float(left[1, 1]),
        cx=float(left[0, 2]),
        cy=float(left[1, 2]),
        baseline=_one(file, "baseline", found["baseline"]) * UNITS["mm"],
        doffs=float(stated or 0.0),
        width=sizes.get("width"),
        height=sizes.get("height"),
        source=f"Middlebury calib.txt {file.shown}, baseline in mm",
    )


def _one(file: TextFile, key: str, entry: Entry) -> float:
    return float(file.numbers(entry.line, key, [entry.text], 1)[0])


def _camera(file: TextFile, key: str, entry: Entry) -> Matrix:
    text = entry.text
    rows = text[1:-1].split(";") if text.startswith("[") and text.endswith("]") else []
    if [len(row.split()) for row in rows] != [3, 3, 3]:
        raise file.problem(entry.line, f"{key} {text[:60]!r}", "[f 0 cx; 0 f cy; 0 0 1]", "correct it")
    matrix = file.numbers(entry.line, key, " ".join(rows).split(), 9).reshape(3, 3)
    if matrix[0, 1] != 0 or matrix[1, 0] != 0 or list(matrix[2]) != [0, 0, 1]:
        raise file.problem(entry.line, f"{key} {text[:60]!r}", "[f 0 cx; 0 f cy; 0 0 1]", "correct it")
    return matrix
