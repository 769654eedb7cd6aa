"""From disparity to depth and to points in space.

Axes are the left camera's, as OpenCV's: x to the right, y down, z forward; meters.
"""

from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from scotopic.depth.calibration import Calibration
from scotopic.errors import InputError
from scotopic.io import as_image, claim_file, write_ply
from scotopic.io.masks import masked_to_nan
from scotopic.subpixel import nearest_pixel

Map = NDArray[np.float32]


def depth_from_disparity(disparity: NDArray[np.floating], calibration: Calibration) -> Map:
    """Return the depth of every pixel, ``Z = baseline * fx / (d + doffs)``, ``H x W`` meters.

    It is NaN where `disparity`, ``H x W`` px, is, and where ``d + doffs <= 0``: such a pixel is at infinity or wrong.
    """
    return np.asarray(calibration.baseline * calibration.fx / _shifts(disparity, calibration), np.float32)


def depth_uncertainty(
    disparity: NDArray[np.floating], calibration: Calibration, sigma: float | NDArray[np.floating]
) -> Map:
    """Return the standard deviation of the depth, given that of the disparity.

    To first order ``sigma_Z = |dZ/dd| sigma_d = Z^2 / (fx * baseline) * sigma_d``: it grows with the square of the
    distance. The calibration counts as exact. Where ``sigma_d`` is not small compared to ``d + doffs``, the true
    distribution is skewed toward the far side.

    Raises :class:`InputError` if `sigma` is negative somewhere, or has another shape.

    Parameters
    ----------
    disparity, calibration
        As for :func:`depth_from_disparity`, and so is the result.
    sigma
        Standard deviation of the disparity in px: one number, or ``H x W``; see :func:`disparity_uncertainty`.
    """
    spread = np.asarray(masked_to_nan(sigma), np.float64)
    if spread.ndim and spread.shape != np.shape(disparity):
        raise InputError(
            f"The disparity uncertainty has shape {spread.shape}, the disparity {np.shape(disparity)}. Pass one number "
            "or a map of this shape."
        )
    if np.any(spread < 0):
        raise InputError("The disparity uncertainty is negative somewhere. A standard deviation is at least 0 px.")
    shifts = _shifts(disparity, calibration)
    return np.asarray(calibration.baseline * calibration.fx / shifts**2 * spread, np.float32)


def points_from_disparity(disparity: NDArray[np.floating], calibration: Calibration) -> Map:
    """Return the point of every pixel, ``X = (x - cx) Z / fx``, ``Y = (y - cy) Z / fy``, ``Z``, NaN without depth."""
    shifts = _shifts(disparity, calibration)
    rows, columns = np.indices(shifts.shape)
    depth = calibration.baseline * calibration.fx / shifts
    across = (columns - calibration.cx) * depth / calibration.fx
    down = (rows - calibration.cy) * depth / calibration.fy
    return np.stack([across, down, depth], axis=-1).astype(np.float32)


def disparity_uncertainty(
    left: NDArray[np.floating], right: NDArray[np.floating], patch_size: int | None = None
) -> Map:
    """Return the standard deviation of the disparity, estimated from how far the two views differ.

    The left and the right view are matched separately, so their disparities of one point are two measurements. Two
    measurements of standard deviation ``sigma`` differ by ``sigma sqrt(2)``. Rounding to whole pixels alone leaves
    ``1 / sqrt(12)``. Disparities that are averages over patches lie between the surfaces in a patch: beside a depth
    edge they may be off by as much as disparity varies there. Hence

        sigma_d^2 = (D_L(x) - D_R(x - D_L(x)))^2 / 2 + 1 / 12 [+ variance of D_L over a patch about x]

    Errors that both views share, such as at a repeated texture, cannot be seen this way: it is a lower bound
    (docs/depth.md says how far below).

    Parameters
    ----------
    left, right
        ``H x W`` px: :attr:`Match.disparity_all <scotopic.Match>` and ``Match.right_disparity``.
    patch_size
        Side of the patches over which disparity was averaged, px: ``Match.settings.junctions.patch_size`` for the
        presets ``paper`` and ``fast``. ``None`` for ``best``, which averages over no patches.

    Returns
    -------
    ndarray of float32
        ``H x W`` px, NaN without a left disparity, and where the matching pixel lies out of view.
    """
    left, right = (np.asarray(masked_to_nan(each)) for each in (left, right))
    if left.ndim != 2 or left.shape != right.shape or not {left.dtype.kind, right.dtype.kind} <= {*"fiu"}:
        raise InputError(
            f"The disparities of the two views have shapes {left.shape} and {right.shape} and types {left.dtype} and "
            f"{right.dtype}. Pass two maps of numbers, H x W."
        )
    left, right = (np.where(np.isfinite(each), each, np.nan) for each in (left, right))  # +inf marks unknown in files
    other, inside = sample_columns(right, np.arange(left.shape[1]) - left)
    variance = (left.astype(np.float64) - other) ** 2 / 2 + 1 / 12
    if patch_size is not None:
        variance += _patch_variance(left, patch_size)
    return np.where(inside, np.sqrt(variance), np.nan).astype(np.float32)


def sample_columns(
    values: NDArray[np.floating], columns: NDArray[np.floating]
) -> tuple[NDArray[np.floating], NDArray[np.bool_]]:
    """Return the values at the nearest pixel to given columns of each row, and whether that lies in the image."""
    nearest = nearest_pixel(np.where(np.isfinite(columns), columns, -1))
    inside = (nearest >= 0) & (nearest < values.shape[1])
    return np.take_along_axis(values, np.clip(nearest, 0, values.shape[1] - 1).astype(np.intp), axis=1), inside


def _patch_variance(values: NDArray[np.floating], side: int) -> NDArray[np.float64]:
    """Return the variance of the known values in a square about each pixel, cut off at the border."""
    known = np.isfinite(values)
    # About the mean of all: the squares of small numbers lose fewer digits.
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
    values = np.asarray(masked_to_nan(disparity))
    if values.ndim != 2 or values.dtype.kind not in "fiu":
        raise InputError(
            f"The disparity has shape {values.shape} and type {values.dtype}. Pass one map of numbers, H x W."
        )
    height, width = values.shape
    if calibration.width is not None and (calibration.width, calibration.height) != (width, height):
        raise InputError(
            f"The disparity map is {width} x {height} px, but the calibration is for {calibration.width} x "
            f"{calibration.height} px. Resize or crop the calibration as the images were."
        )
    shifts = values.astype(np.float64) + calibration.doffs
    # +inf, which marks unknown pixels in files, would become depth 0.
    return np.where(np.isfinite(shifts) & (shifts > 0), shifts, np.nan)


class Matched(Protocol):
    """The parts of a :class:`~scotopic.Match` from which a point cloud is made."""

    @property
    def disparity(self) -> NDArray[np.float32]: ...
    @property
    def confidence(self) -> NDArray[np.float32]: ...
    @property
    def left_colors(self) -> NDArray[np.float32]: ...


@dataclass(frozen=True, eq=False)
class PointCloud:
    """``N x 3`` points in the left camera's axes (x to the right, y down, z forward, meters), with the ``N x 3`` RGB
    colors of their pixels and their ``N`` confidences in [0, 1]."""

    points: NDArray[np.float32]
    colors: NDArray[np.uint8]
    confidence: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.points)

    def moved(self, pose: NDArray[np.float64]) -> Self:
        """Return the points in another frame, to which a pose, 4 x 4, takes them."""
        return replace(self, points=(self.points @ pose[:3, :3].T + pose[:3, 3]).astype(np.float32))

    def save(self, path: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Write a binary PLY file; raise :class:`OutputError` if it exists and `overwrite` is False, or on failure."""
        claim_file(path, overwrite)
        write_ply(path, self.points, colors=self.colors, confidence=self.confidence)


def point_cloud(
    match: Matched,
    calibration: Calibration,
    image: Any = None,
    *,
    max_depth: float | None = None,
    min_confidence: float = 0.0,
) -> PointCloud:
    """Return the points of a match, row by row: one for each pixel with a disparity and a depth.

    Raises :class:`InputError` if the image or the calibration has another size than the match.

    Parameters
    ----------
    match
        The result of :func:`scotopic.match`.
    calibration
        Of the images as they were matched.
    image
        An image of the left view for the colors, such as a brighter one or ``match.left_image``: an array or a path. By
        default ``match.left_colors``, the denoised left view: the image itself is mostly noise. Gray becomes equal red,
        green and blue.
    max_depth
        Leave out points that are farther, in meters: they scatter, and viewers zoom out to show them all.
    min_confidence
        Leave out points of less confidence.

    Examples
    --------
    >>> import scotopic
    >>> scene = scotopic.render_scene(width=192, height=96)
    >>> found = scotopic.match(scene.left, scene.right, preset="fast", max_disparity=32)
    >>> rig = Calibration(fx=192.0, fy=192.0, cx=95.5, cy=36.1, baseline=0.1)
    >>> cloud = point_cloud(found, rig)
    >>> cloud.points.shape == (len(cloud), 3) and bool((cloud.points[:, 2] > 0).all())
    True
    """
    if hasattr(match, "to_numpy"):  # a match of tensors on a GPU
        match = match.to_numpy()
    points = points_from_disparity(match.disparity, calibration)
    picture = match.left_colors if image is None else as_image(image, "color")
    if picture.shape[:2] != points.shape[:2]:
        raise InputError(
            f"The color image is {picture.shape[1]} x {picture.shape[0]} px, the left view {points.shape[1]} x "
            f"{points.shape[0]} px. Resize the color image."
        )
    kept = np.isfinite(points).all(axis=-1) & (match.confidence >= min_confidence)
    if max_depth is not None:
        kept &= points[..., 2] <= max_depth
    colors = np.rint(np.clip(picture[kept], 0.0, 1.0) * 255).astype(np.uint8)
    return PointCloud(
        points=points[kept],
        colors=np.ascontiguousarray(np.broadcast_to(colors, (len(colors), 3))),
        confidence=match.confidence[kept].astype(np.float32),
    )
