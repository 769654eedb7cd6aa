"""From disparity to depth and to points in space.

Axes are the left camera's, as OpenCV's: x to the right, y down, z forward; meters.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scotopic.depth.calibration import Calibration
from scotopic.errors import InputError

Map = NDArray[np.float32]


def depth_from_disparity(disparity: NDArray[np.floating], calibration: Calibration) -> Map:
    """Return the depth of every pixel, ``Z = baseline * fx / (d + doffs)``.

    Parameters
    ----------
    disparity
        ``H x W`` px, NaN where there is none.
    calibration
        Of images of this size.

    Returns
    -------
    ndarray of float32
        ``H x W`` meters; NaN where there is no disparity, and where ``d + doffs <= 0``: such a pixel is at infinity or
        wrong, and has no place in space.
    """
    shifts = _shifts(disparity, calibration)
    return np.asarray(calibration.baseline * calibration.fx / shifts, np.float32)


def depth_uncertainty(
    disparity: NDArray[np.floating], calibration: Calibration, sigma: float | NDArray[np.floating]
) -> Map:
    """Return the standard deviation of the depth that an uncertain disparity leaves.

    To first order ``sigma_Z = |dZ/dd| sigma_d = Z^2 / (fx * baseline) * sigma_d``: it grows with the square of the
    distance. The calibration counts as exact, and where ``sigma_d`` is not small against ``d + doffs`` the true spread
    is lopsided, longer on the far side.

    Parameters
    ----------
    disparity, calibration
        As for :func:`depth_from_disparity`.
    sigma
        Standard deviation of the disparity in px: one number, or ``H x W``; see :func:`disparity_uncertainty`.

    Returns
    -------
    ndarray of float32
        ``H x W`` meters, NaN where there is no depth.

    Raises
    ------
    InputError
        `sigma` is negative somewhere, or of another size.
    """
    spread = np.asarray(sigma, np.float64)
    if spread.ndim and spread.shape != np.shape(disparity):
        raise InputError(
            f"disparity uncertainty: found shape {spread.shape}, expected {np.shape(disparity)} like the disparity, or "
            "one number; correct it"
        )
    if np.any(spread < 0):
        raise InputError("disparity uncertainty: found a negative value, expected 0 px or more; correct it")
    shifts = _shifts(disparity, calibration)
    return np.asarray(calibration.baseline * calibration.fx / shifts**2 * spread, np.float32)


def points_from_disparity(disparity: NDArray[np.floating], calibration: Calibration) -> Map:
    """Return the place in space of every pixel: ``X = (x - cx) Z / fx``, ``Y = (y - cy) Z / fy``, ``Z``.

    Returns
    -------
    ndarray of float32
        ``H x W x 3`` meters, NaN where there is no depth.
    """
    shifts = _shifts(disparity, calibration)
    rows, columns = np.indices(shifts.shape)
    depth = calibration.baseline * calibration.fx / shifts
    across = (columns - calibration.cx) * depth / calibration.fx
    down = (rows - calibration.cy) * depth / calibration.fy
    return np.stack([across, down, depth], axis=-1).astype(np.float32)


def disparity_uncertainty(left: NDArray[np.floating], right: NDArray[np.floating], patch_size: int = 1) -> Map:
    """Return the standard deviation of the disparity that the two views' own answers suggest.

    The left and the right view are matched separately, so their answers for one point are two measurements of one
    disparity. Two of standard deviation ``sigma`` differ by ``sigma sqrt(2)``; and each is a whole number of px before
    it is averaged, which alone leaves ``1 / sqrt(12)``. And what is averaged over patches lies between the surfaces
    that a patch covers: beside a depth edge it may be off by as much as disparity varies there. Hence

        sigma_d^2 = (D_L(x) - D_R(x - D_L(x)))^2 / 2 + 1 / 12 + variance of D_L over a patch about x

    What both views get wrong together, such as a repeated texture, it cannot see: it is a lower bound (docs/depth.md
    says how far below).

    Parameters
    ----------
    left, right
        ``H x W`` px: :attr:`Match.disparity_all <scotopic.Match>` and ``Match.right_disparity``.
    patch_size
        Side of the patches that disparity was averaged over, px: ``Match.settings.junctions.patch_size``; 1 for none.

    Returns
    -------
    ndarray of float32
        ``H x W`` px, NaN where the left disparity is, or where its partner lies out of view.
    """
    width = left.shape[1]
    known = np.isfinite(left)
    partner = np.rint(np.arange(width) - np.where(known, left, 0.0))
    inside = known & (partner >= 0) & (partner < width)
    there = np.take_along_axis(right, np.clip(partner, 0, width - 1).astype(np.intp), axis=1)
    spread = np.sqrt((left.astype(np.float64) - there) ** 2 / 2 + 1 / 12 + _variance(left, patch_size))
    return np.where(inside, spread, np.nan).astype(np.float32)


def _variance(values: NDArray[np.floating], side: int) -> NDArray[np.float64]:
    """Variance over a square about each pixel, cut off at the border; what is unknown is left out."""
    known = np.isfinite(values)
    # About the mean of all: squares of small numbers keep their digits.
    centered = np.where(known, values - (values[known].mean() if known.any() else 0.0), 0.0).astype(np.float64)
    count, total, squares = (_box_sum(each, side) for each in (known.astype(np.float64), centered, centered**2))
    count = np.maximum(count, 1.0)
    return np.asarray(np.maximum(squares / count - (total / count) ** 2, 0.0))


def _box_sum(values: NDArray[np.float64], side: int) -> NDArray[np.float64]:
    before, after = (side - 1) // 2, side // 2
    summed = np.pad(values, ((before + 1, after), (before + 1, after))).cumsum(axis=0).cumsum(axis=1)
    return np.asarray(summed[side:, side:] - summed[:-side, side:] - summed[side:, :-side] + summed[:-side, :-side])


def _shifts(disparity: NDArray[np.floating], calibration: Calibration) -> NDArray[np.float64]:
    """Return ``d + doffs``, NaN where no depth follows from it."""
    values = np.asarray(disparity)
    if values.ndim != 2 or values.dtype.kind not in "fiu":
        raise InputError(
            f"disparity: found shape {values.shape} of {values.dtype}, expected one map of numbers, H x W; convert it"
        )
    height, width = values.shape
    if calibration.width is not None and (calibration.width, calibration.height) != (width, height):
        raise InputError(
            f"disparity: found {width} x {height} px, expected {calibration.width} x {calibration.height} as the "
            "calibration has; resize or crop the calibration likewise"
        )
    shifts = values.astype(np.float64) + calibration.doffs
    # +inf, which files have for unknown, would become depth 0.
    return np.where(np.isfinite(shifts) & (shifts > 0), shifts, np.nan)
