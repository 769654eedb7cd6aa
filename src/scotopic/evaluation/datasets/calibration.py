"""Calibration files: Middlebury's ``calib.txt``, which ETH3D uses too, and KITTI's ``calib_cam_to_cam``."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError
from scotopic.evaluation.scene import Calibration

# More than any calibration file has; what is larger is something else.
_TEXT_LIMIT = 100_000


def read_calib(path: Path, image: NDArray[np.float32]) -> tuple[Calibration, float | None]:
    """Read a ``calib.txt``: lines such as ``cam0=[f 0 cx; 0 f cy; 0 0 1]``, ``doffs=``, ``baseline=``, ``ndisp=``.

    Parameters
    ----------
    path : Path
        The file.
    image : ndarray
        The left view, whose size must be the one that the file states, if it states one.

    Returns
    -------
    calibration : Calibration
        Baseline in mm.
    max_disparity : float or None
        ``ndisp``, where given.

    Raises
    ------
    InputError
        The file cannot be read, lacks ``cam0`` or ``baseline``, or belongs to an image of another size.
    """
    entries = _entries(path, "=")
    camera = _numbers(path, "cam0", entries.get("cam0", ""), 9)
    for key, found in (("width", image.shape[1]), ("height", image.shape[0])):
        if key in entries and _numbers(path, key, entries[key], 1)[0] != found:
            raise InputError(
                f"{str(path)!r}: found {key} {entries[key]}, expected {found} as the image beside it; it belongs to "
                "another size of the data set, fetch the one that goes with the image"
            )
    calibration = Calibration(
        fx=camera[0],
        cx=camera[2],
        cy=camera[5],
        baseline=_numbers(path, "baseline", entries.get("baseline", ""), 1)[0],
        doffs=_numbers(path, "doffs", entries["doffs"], 1)[0] if "doffs" in entries else 0.0,
    )
    return calibration, _numbers(path, "ndisp", entries["ndisp"], 1)[0] if "ndisp" in entries else None


def read_kitti_calib(path: Path) -> Calibration:
    """Read the color cameras of a ``calib_cam_to_cam`` file: ``P_rect_02`` and ``P_rect_03``, 3 x 4 each.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    Calibration
        Baseline in mm, as for the other data sets; the file has meters.

    Raises
    ------
    InputError
        The file cannot be read or lacks one of the two.
    """
    entries = _entries(path, ":")
    left = _numbers(path, "P_rect_02", entries.get("P_rect_02", ""), 12)
    right = _numbers(path, "P_rect_03", entries.get("P_rect_03", ""), 12)
    if left[0] == 0:
        raise InputError(f"{str(path)!r}: found focal length 0 in P_rect_02, expected pixels; fetch it again")
    # The fourth column is minus focal length times the distance from camera 0.
    return Calibration(
        fx=left[0], cx=left[2], cy=left[6], baseline=1000 * (left[3] - right[3]) / left[0], doffs=right[2] - left[2]
    )


def _entries(path: Path, mark: str) -> dict[str, str]:
    try:
        with path.open(encoding="ascii", errors="replace") as file:
            text = file.read(_TEXT_LIMIT)
    except OSError as error:
        raise InputError(
            f"{str(path)!r}: cannot be read ({error.strerror or error}), expected a calibration file; check it"
        ) from error
    pairs = (line.split(mark, 1) for line in text.splitlines() if mark in line)
    return {key.strip(): value.strip() for key, value in pairs}


def _numbers(path: Path, key: str, text: str, count: int) -> list[float]:
    try:
        values = [float(word) for word in text.strip("[]").replace(";", " ").split()]
    except ValueError:
        values = []
    if len(values) != count or not all(math.isfinite(value) for value in values):
        raise InputError(
            f"{str(path)!r}: found {key} {text[:60]!r}, expected {count} number{'s' if count > 1 else ''}; "
            "repair the calibration file or fetch it again"
        )
    return values
