"""The calibration of a rectified pair, which turns pixels into meters, and of the cameras before rectification."""

import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError, PairWarning

Matrix = NDArray[np.float64]

#: Meters in one unit of length; what a baseline may be given in.
UNITS = {"m": 1.0, "cm": 0.01, "mm": 0.001}

# Far beyond any camera, and still small enough that no product of them leaves float32.
_MOST_PIXELS = 1e7
_MOST_METERS = 1e5
_LEAST_LENGTH = 1e-6  # px or m, likewise
# Two rectified cameras share focal length and rows; files round them to six digits or so.
_FOCAL_TOLERANCE = 1e-4
_ROW_TOLERANCE = 0.05  # px
# A principal point that belongs to another size is this many times as far as the middle of an image, both ways about
# equally: lenses are off by a few percent, crops by more, but mostly one way.
_FAR_FROM_MIDDLE = 1.5
_EQUALLY_FAR = 1.25


@dataclass(frozen=True, eq=False)
class Camera:
    """One camera before rectification, and how its image is rectified.

    ``matrix`` is ``K``, 3 x 3, px; ``distortion`` has OpenCV's order, k1, k2, p1, p2, k3, ...; ``rotation`` leads into
    the rectified frame, 3 x 3 (OpenCV's R1 or R2); ``projection`` is that of the rectified camera, 3 x 4 (P1 or P2), of
    which the fourth column is not used.
    """

    matrix: Matrix
    distortion: Matrix
    rotation: Matrix
    projection: Matrix


@dataclass(frozen=True, eq=False)
class Rig:
    """The two cameras before rectification, which :func:`~scotopic.depth.rectify` needs.

    ``width`` and ``height`` of their images are in px; ``None`` where the file does not say.
    """

    left: Camera
    right: Camera
    width: int | None = None
    height: int | None = None


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """The calibration of a rectified pair: ``Z = baseline * fx / (d + doffs)``.

    Raises :class:`InputError` if a number is not finite or is impossible for a camera.

    Attributes
    ----------
    fx, fy
        Focal length, px.
    cx, cy
        Principal point of the left view, px from the center of the top-left pixel.
    baseline
        Distance between the two cameras, in **meters**, whatever the unit of the file.
    doffs
        Column of the right principal point minus that of the left, px; 0 for most rigs, not for Middlebury.
    width, height
        Size of the rectified images, px; ``None`` where unknown.
    rig
        The cameras before rectification, where known.
    source
        Where it comes from and in which unit the baseline was given, in words, for reports.

    Examples
    --------
    >>> Calibration(fx=500.0, fy=500.0, cx=320.0, cy=240.0, baseline=0.12, width=640, height=480).resized(320, 240).cx
    159.75
    """

    fx: float
    fy: float
    cx: float
    cy: float
    baseline: float
    doffs: float = 0.0
    width: int | None = None
    height: int | None = None
    rig: Rig | None = field(default=None, compare=False)
    source: str = field(default="given as numbers, baseline in m", compare=False)

    def __post_init__(self) -> None:
        for name in ("fx", "fy", "baseline", "cx", "cy", "doffs"):
            value: Any = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
                raise InputError(f"The calibration has {name} = {value!r}, which is not a number.")
            most, unit = (_MOST_METERS, "m") if name == "baseline" else (_MOST_PIXELS, "px")
            is_length = name in ("fx", "fy", "baseline")
            if not abs(float(value)) <= most or (is_length and float(value) < _LEAST_LENGTH):  # NaN too
                above = f"above {0 if value <= 0 else _LEAST_LENGTH:g} and " if is_length else ""
                swapped = " It is negative if left and right are swapped." if name == "baseline" and value < 0 else ""
                raise InputError(
                    f"The calibration has {name} = {value:g} {unit}; it must be {above}at most {most:g}.{swapped}"
                )
        if (self.width is None) != (self.height is None) or not all(
            side is None or _is_side(side) for side in (self.width, self.height)
        ):
            raise InputError(f"The calibration is for images of {self.width} x {self.height} px, which is not a size.")

    @classmethod
    def from_projections(cls, left: Matrix, right: Matrix, *, meters: float = 1.0, **others: Any) -> Self:
        """Return the calibration of two rectified cameras with given 3 x 4 projection matrices.

        ``P = [fx 0 cx a; 0 fy cy b; 0 0 1 c]``, where ``a`` is minus ``fx`` times the camera's place on the baseline:
        OpenCV's P1 and P2, KITTI's P_rect_02 and P_rect_03, ROS's P. One unit of their lengths is so many `meters`.
        `others` are further fields of :class:`Calibration`.

        Raises :class:`InputError` if the two do not belong to a rectified pair with the cameras side by side.
        """
        for name, each in (("left", left), ("right", right)):
            if each[0, 0] <= 0 or each[1, 1] <= 0 or each[2, 2] != 1 or np.any(each[[0, 1, 2, 2], [1, 0, 0, 1]] != 0):
                form = "[fx 0 cx .; 0 fy cy .; 0 0 1 .]"
                raise InputError(f"The {name} projection matrix is {_rows(each)}; of a rectified camera it is {form}.")
        focal = max(left[0, 0], left[1, 1])
        if np.abs(left[[0, 1], [0, 1]] - right[[0, 1], [0, 1]]).max() > _FOCAL_TOLERANCE * focal or (
            abs(left[1, 2] - right[1, 2]) > _ROW_TOLERANCE
        ):
            raise InputError(
                f"The projection matrices are not of one rectified pair: fx, fy, cy are {left[0, 0]:g}, {left[1, 1]:g},"
                f" {left[1, 2]:g} in the left view and {right[0, 0]:g}, {right[1, 1]:g}, {right[1, 2]:g} in the right."
            )
        # A camera's place is P[:, 3] seen through the rest of P; KITTI's color cameras lie a little off camera 0.
        with np.errstate(all="ignore"):  # numbers beyond all cameras are refused below
            offset = np.linalg.solve(left[:, :3], left[:, 3]) - np.linalg.solve(right[:, :3], right[:, 3])
        if not np.abs(offset[1:]).max() <= max(0.05 * abs(offset[0]), 1e-9):
            raise InputError(
                f"The cameras are {offset[0]:g}, {offset[1]:g}, {offset[2]:g} apart in x, y, z, so not side by side. "
                "For a pair above each other rotate the images by 90 degrees and calibrate again."
            )
        baseline, doffs = float(offset[0]) * meters, float(right[0, 2] - left[0, 2])
        return cls(**intrinsics(left), baseline=baseline, doffs=doffs, **others)

    @classmethod
    def from_q(cls, q: Matrix, *, meters: float = 1.0, **others: Any) -> Self:
        """Return the calibration of a given OpenCV ``Q``, the inverse of :attr:`q`, as :meth:`from_projections` does.

        Raises :class:`InputError` if ``cv2.stereoRectify`` does not return such a matrix for cameras side by side.
        """
        zero = np.ones((4, 4), bool)
        zero[[0, 0, 1, 1, 2, 3, 3], [0, 3, 1, 3, 3, 2, 3]] = False
        # Not NumPy's division, which warns where the check refuses.
        focal, aspect, per_baseline = float(q[2, 3]), float(q[1, 1]), float(q[3, 2])
        is_usable = q[0, 0] == 1 and aspect > 0 and per_baseline != 0 and math.isfinite(1 / per_baseline)
        if np.any(q[zero] != 0) or not is_usable:
            raise InputError(
                f"Q is {_rows(q)}, but stereoRectify gives [1 0 0 -cx; 0 1 0 -cy; 0 0 0 f; 0 0 1/B doffs/B]."
            )
        cx, cy = float(-q[0, 3]), float(-q[1, 3]) / aspect
        baseline, doffs = meters / per_baseline, float(q[3, 3]) / per_baseline
        return cls(fx=focal, fy=focal / aspect, cx=cx, cy=cy, baseline=baseline, doffs=doffs, **others)

    @property
    def q(self) -> Matrix:
        """OpenCV's ``Q``: ``[X Y Z W] = Q [x y d 1]``, for ``cv2.reprojectImageTo3D``; 4 x 4, meters."""
        aspect = self.fx / self.fy
        return np.array(
            [
                [1.0, 0.0, 0.0, -self.cx],
                [0.0, aspect, 0.0, -self.cy * aspect],
                [0.0, 0.0, 0.0, self.fx],
                [0.0, 0.0, 1.0 / self.baseline, self.doffs / self.baseline],
            ]
        )

    def resized(self, width: int, height: int) -> Self:
        """Return the calibration of the same images resized to `width` x `height` px.

        Focal lengths and `doffs` are scaled. So is the principal point, from the corner of the image: coordinates count
        from the center of the first pixel, so ``cx`` becomes ``(cx + 1/2) s - 1/2``.

        Raises :class:`InputError` if the old size is not known, or the new one is not a size.
        """
        if self.width is None or self.height is None:
            raise InputError("The calibration has no image size to resize from. Set its width and height.")
        if min(width, height) < 1:
            raise InputError(f"A calibration cannot be resized to {width} x {height} px.")
        return self.scaled(width / self.width, height / self.height, width, height)

    def scaled(self, across: float, down: float, width: int | None, height: int | None) -> Self:
        """Return the calibration of the images scaled by nominal factors, whatever their new size is rounded to."""
        fx, fy, doffs = self.fx * across, self.fy * down, self.doffs * across
        cx, cy = (self.cx + 0.5) * across - 0.5, (self.cy + 0.5) * down - 0.5
        # Without the rig, which belongs to the old size.
        return replace(self, fx=fx, fy=fy, cx=cx, cy=cy, doffs=doffs, width=width, height=height, rig=None)

    def cropped(self, x: int, y: int, width: int, height: int, *, right_x: int | None = None) -> Self:
        """Return the calibration of a crop of `width` x `height` px at pixel (x, y) of the left view.

        The crop of the right view begins at column `right_x` instead of `x` if that is given: every disparity then
        shrinks by ``x - right_x``, and `doffs` grows by it.

        Raises :class:`InputError` if a crop is empty or does not lie in its image.
        """
        for column in (x,) if right_x is None else (x, right_x):
            inside = min(column, y) >= 0 and min(width, height) >= 1
            if self.width is not None and self.height is not None:
                inside = inside and column + width <= self.width and y + height <= self.height
            if not inside:
                image = "the image" if self.width is None else f"an image of {self.width} x {self.height} px"
                raise InputError(f"A crop of {width} x {height} px at ({column}, {y}) does not lie in {image}.")
        cx, cy, doffs = self.cx - x, self.cy - y, self.doffs + (0 if right_x is None else x - right_x)
        return replace(self, cx=cx, cy=cy, doffs=doffs, width=width, height=height, rig=None)

    def for_image(self, width: int, height: int) -> Self:
        """Return the calibration for images of a size: itself, or scaled if they were resized as a whole.

        Raises :class:`InputError` if they have other proportions: they were cropped, or belong to another calibration.
        A calibration that does not say its size is taken as it is, with a :class:`~scotopic.errors.PairWarning` if its
        principal point is that of another size.
        """
        if self.width is None or self.height is None:
            warn_of_other_size((self.cx, self.cy), width, height)
            return replace(self, width=width, height=height)
        if (width, height) == (self.width, self.height):
            return self
        # Resizing rounds each side to whole pixels, up or down.
        if abs(width * self.height - height * self.width) > max(self.width, self.height, width, height):
            raise InputError(
                f"The calibration is for images of {self.width} x {self.height} px, not resized to {width} x "
                f"{height} px as a whole. Use the calibration of these images, or crop it as they were."
            )
        source = f"{self.source}; scaled from {self.width} x {self.height} px"
        return replace(self.resized(width, height), source=source)

    def as_dict(self) -> dict[str, Any]:
        """Return the entries of ``report.json``, with units in the names."""
        names = ("fx", "fy", "cx", "cy", "baseline", "doffs", "width", "height")
        numbers = {f"{name}_{'m' if name == 'baseline' else 'px'}": getattr(self, name) for name in names}
        return {"source": self.source, **numbers, "depth_unit": "m"}


def warn_of_other_size(center: Iterable[float], width: int, height: int) -> None:
    """Warn of what :func:`doubt_size` says."""
    doubt = doubt_size(center, width, height)
    if doubt is not None:
        warnings.warn(doubt, PairWarning, stacklevel=3)


def doubt_size(center: Iterable[float], width: int, height: int) -> str | None:
    """Return what to doubt if a principal point is twice as far right and down as the middle of an image, or the like.

    So it is if the images were resized, and the calibration, which does not say its size, was not.
    """
    cx, cy = center
    across, down = 2 * (cx + 0.5) / width, 2 * (cy + 0.5) / height
    if min(across, down) <= 0 or not 1 / _EQUALLY_FAR < across / down < _EQUALLY_FAR:
        return None
    factor = math.sqrt(across * down)
    if max(factor, 1 / factor) < _FAR_FROM_MIDDLE:
        return None
    return (
        f"The calibration does not say the size of its images. Its principal point, ({cx:g}, {cy:g}), would be the "
        f"middle of about {factor * width:.0f} x {factor * height:.0f} px, but these are {width} x {height} px. If "
        "they were resized, depth is wrong: add the width and height of the calibrated images to the file."
    )


def intrinsics(matrix: Matrix) -> dict[str, Any]:
    """Return the focal lengths and the principal point of a camera matrix, by their names in :class:`Calibration`."""
    return dict(zip(("fx", "fy", "cx", "cy"), matrix[[0, 1, 0, 1], [0, 1, 2, 2]].tolist(), strict=True))


def _is_side(pixels: Any) -> bool:
    return isinstance(pixels, int | np.integer) and 1 <= int(pixels) <= _MOST_PIXELS


def _rows(matrix: Matrix) -> str:
    return "[" + "; ".join(" ".join(f"{value:g}" for value in row) for row in matrix) + "]"
