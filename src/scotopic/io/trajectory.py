"""Trajectories as text, in the two formats that programs for odometry read: KITTI's and TUM's.

A pose is 4 x 4 and takes points of a camera to the frame of the first one.
"""

import os
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from scotopic.io.atomic import atomic_path

Matrix = NDArray[np.float64]


def write_kitti(path: str | os.PathLike[str], poses: Iterable[Matrix]) -> None:
    """Write a line for each pose: the 12 numbers of its first three rows, row by row."""
    _write(path, ([f"{value:.9e}" for value in pose[:3].ravel() + 0.0] for pose in poses))  # no minus zero


def write_tum(path: str | os.PathLike[str], poses: Iterable[tuple[float, Matrix]]) -> None:
    """Write a line for each time in seconds and its pose: ``timestamp tx ty tz qx qy qz qw``, a unit quaternion."""
    lines = []
    for time, pose in poses:
        numbers = [*pose[:3, 3], *quaternion(pose[:3, :3])]
        lines.append([f"{time:.6f}", *(f"{value + 0.0:.9f}" for value in numbers)])
    _write(path, lines)


def quaternion(rotation: Matrix) -> Matrix:
    """Return the unit quaternion ``(x, y, z, w)``, ``w >= 0``, of a rotation, 3 x 3.

    It is the eigenvector of the largest eigenvalue of a matrix that is linear in the rotation (Bar-Itzhack, 2000): no
    case distinctions, and the nearest rotation where rounding has left one inexact.

    Examples
    --------
    >>> quaternion(np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]])).round(4).tolist()  # 90 degrees about z
    [0.0, 0.0, 0.7071, 0.7071]
    """
    r = rotation
    symmetric = np.array(
        [
            [r[0, 0] - r[1, 1] - r[2, 2], 0, 0, 0],
            [r[1, 0] + r[0, 1], r[1, 1] - r[0, 0] - r[2, 2], 0, 0],
            [r[2, 0] + r[0, 2], r[2, 1] + r[1, 2], r[2, 2] - r[0, 0] - r[1, 1], 0],
            [r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1], np.trace(r)],
        ]
    )
    found = np.linalg.eigh(symmetric)[1][:, -1]  # which reads the lower triangle
    return np.asarray(found * np.copysign(1.0, found[3]) + 0.0)


def _write(path: str | os.PathLike[str], lines: Iterable[Sequence[str]]) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text("".join(" ".join(line) + "\n" for line in lines))
