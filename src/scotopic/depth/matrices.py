"""Calibrations as others write them: two projection matrices, or OpenCV's Q."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from scotopic.depth.calibration import Calibration, Matrix
from scotopic.errors import InputError

# Two rectified cameras share focal length and rows; files round them to six digits or so.
_FOCAL_TOLERANCE = 1e-4
_ROW_TOLERANCE = 0.05


def from_projections(left: Matrix, right: Matrix, *, meters: float = 1.0, **others: Any) -> Calibration:
    """Return the calibration that two rectified cameras' 3 x 4 matrices state.

    ``P = [fx 0 cx a; 0 fy cy b; 0 0 1 c]``, where ``a`` is minus ``fx`` times the camera's place along the baseline.

    Parameters
    ----------
    left, right
        OpenCV's P1 and P2, KITTI's P_rect_02 and P_rect_03, ROS's P.
    meters
        In one unit of the file's lengths.
    **others
        Further fields of :class:`Calibration`.

    Raises
    ------
    InputError
        The two are not of one rectified pair with the cameras side by side.
    """
    for name, each in (("left", left), ("right", right)):
        if each[0, 0] <= 0 or each[1, 1] <= 0 or each[2, 2] != 1 or np.any(each[[0, 1, 2, 2], [1, 0, 0, 1]] != 0):
            raise InputError(
                f"{name} projection matrix: found {_rows(each)}, expected [fx 0 cx .; 0 fy cy .; 0 0 1 .]; give the "
                "matrix of the rectified camera (P)"
            )
    focal = max(left[0, 0], left[1, 1])
    if np.abs(left[[0, 1], [0, 1]] - right[[0, 1], [0, 1]]).max() > _FOCAL_TOLERANCE * focal or (
        abs(left[1, 2] - right[1, 2]) > _ROW_TOLERANCE
    ):
        raise InputError(
            f"projection matrices: found fx, fy, cy {left[0, 0]:g}, {left[1, 1]:g}, {left[1, 2]:g} and "
            f"{right[0, 0]:g}, {right[1, 1]:g}, {right[1, 2]:g}, expected the same in both views; they are not of one "
            "rectified pair"
        )
    # A camera's place is P[:, 3] seen through the rest of P; KITTI's color cameras lie a little off camera 0.
    with np.errstate(all="ignore"):  # numbers beyond all cameras are refused below
        apart = np.linalg.solve(left[:, :3], left[:, 3]) - np.linalg.solve(right[:, :3], right[:, 3])
    if not np.abs(apart[1:]).max() <= max(0.05 * abs(apart[0]), 1e-9):
        raise InputError(
            f"projection matrices: found cameras {apart[0]:g}, {apart[1]:g}, {apart[2]:g} apart in x, y, z, expected "
            "them side by side; for a pair above each other turn the images by 90 degrees and calibrate again"
        )
    return Calibration(
        fx=float(left[0, 0]),
        fy=float(left[1, 1]),
        cx=float(left[0, 2]),
        cy=float(left[1, 2]),
        baseline=float(apart[0]) * meters,
        doffs=float(right[0, 2] - left[0, 2]),
        **others,
    )


def from_q(q: Matrix, *, meters: float = 1.0, **others: Any) -> Calibration:
    """Return the calibration that OpenCV's ``Q`` states; the inverse of :attr:`Calibration.q`.

    Raises
    ------
    InputError
        It is not such a matrix.
    """
    pattern = np.ones((4, 4), bool)
    pattern[[0, 0, 1, 1, 2, 3, 3], [0, 3, 1, 3, 3, 2, 3]] = False
    if np.any(q[pattern] != 0) or q[0, 0] != 1 or q[1, 1] <= 0 or q[3, 2] == 0 or not math.isfinite(1 / float(q[3, 2])):
        raise InputError(
            f"Q: found {_rows(q)}, expected [1 0 0 -cx; 0 1 0 -cy; 0 0 0 f; 0 0 1/B doffs/B] as stereoRectify gives; "
            "write it again"
        )
    return Calibration(
        fx=float(q[2, 3]),
        fy=float(q[2, 3]) / float(q[1, 1]),  # not NumPy's division, which warns where the check below refuses
        cx=float(-q[0, 3]),
        cy=float(-q[1, 3]) / float(q[1, 1]),
        baseline=meters / float(q[3, 2]),
        doffs=float(q[3, 3]) / float(q[3, 2]),
        **others,
    )


def _rows(matrix: Matrix) -> str:
    return "[" + "; ".join(" ".join(f"{value:g}" for value in row) for row in matrix) + "]"
