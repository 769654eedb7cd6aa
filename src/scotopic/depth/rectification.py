"""Rectifying the images of a calibrated rig, and whether a pair looks rectified, also at a photon level of 2.

To check, blocks of the left view are searched for in the right one, at every shift of a few rows and many columns, in
band-pass images: finer detail is noise, coarser detail is brightness. ``z`` is a block's correlation ``c`` over its own
noise (the median of ``|c|`` over all shifts, nearly all of which are wrong). Under Gaussian noise ``z^2 / 2`` is the
log-likelihood ratio of "here" against "nowhere", so

    e_b(dy) = log mean_dx exp(z_b(dy, dx)^2 / 2)

is the evidence of block ``b`` for a vertical shift, whatever its disparity. A single block tells little, their sum much
more. How reliable the sum is follows from the blocks themselves: the jackknife leaves out one part of the image at a
time and measures how far the result moves. There is no result if it moves too far, or if the sum has no clear peak:
``e`` is in units of its own noise, so the sum over ``n`` unrelated blocks varies like ``sqrt(n)``.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.backends.device import is_on_gpu, to_numpy
from scotopic.depth.calibration import Calibration, Camera, warn_of_other_size
from scotopic.errors import InputError
from scotopic.io import as_image
from scotopic.io.masks import Mask, pixel_mask, with_mask
from scotopic.subpixel import parabola_offset

Floats = NDArray[np.float64]
Image = NDArray[np.float32]

_REACH = 10  # rows searched up and down, px of the shrunken image
_ACROSS = 0.28  # columns searched either way, as a share of the width; Middlebury's widest search is 0.26
_SIGMAS = (2.0, 3.0)  # of the finer Gaussian of a band, px; the coarser one has four times that
_STEP = 2  # columns of a band, px: blurred so far, every other one says it all
_BLOCKS = ((48, 96), (96, 64))  # rows, columns; wide ones find the disparity, tall ones the row
_SMALL = (180, 270)  # rows, columns; below this too few of those blocks fit, and smaller ones are taken
_SMALL_BLOCKS = ((24, 48), (48, 32))
_UNEQUAL = 8.0  # times as bright: no two cameras of a rig are exposed like that
_WORKING_WIDTH = 640  # larger images are shrunk by a whole factor to about this: cheaper, and binning lowers noise
_PARTS = 4  # the jackknife leaves out one of 4 x 4 parts of the image
_MOST_Z = 8.0  # higher values are cut off, so that no block outvotes the others

_ROTATION_TOLERANCE = 0.01  # of the entries of R R^T; files round to a few digits
_OFFSET_LIMIT = 0.75  # px; rectified pairs of Middlebury are off by up to 0.67
_TILT_LIMIT = 2.5  # px from the left edge to the right one; crops of rectified pairs in the dark reach 2
_SURE = 4.3  # standard errors; offsets of two-photon pairs that are right reach 4.0
_SURE_OF_ORDER = 2.0  # standard errors; pairs in the right order lie at 0.9 and more on the other side
# Times sqrt(blocks): noise reaches 3, unrelated images 6.5, real scenes at photon level 2 begin at 12.
_LEAST_PEAK = 8.0
# Of few blocks, in small images and in the halves of any, chance reaches 14 at the wrong row.
_MANY_BLOCKS, _CLEAR_PEAK = 100, 16.0
_FEWEST_BLOCKS = 30  # of each half of an image, for its tilt: 320 x 240 px and more
_LEAST_ERROR = 0.1  # px; no estimate is better than that, whatever the jackknife gives
_SWAP_MARGIN = 2  # px of disparity about 0 that are evidence for neither order of the views


SAME_IMAGE = (
    "The two views are the same image: every pixel is equal, which no two cameras record. Check that the right view "
    "was not given, or saved, as a copy of the left."
)


@dataclass(frozen=True)
class PairCheck:
    """Vertical offset, tilt and order of a pair, as they look.

    Attributes
    ----------
    vertical_offset, vertical_error
        Rows by which the content of the right view lies lower than in the left, px, and the standard error; NaN if they
        cannot be estimated.
    tilt, tilt_error
        How much the offset grows from the left edge of the image to the right one, px: a rotation of one view.
    swapped
        Whether left and right are exchanged; ``None`` if that cannot be known.
    warnings
        What looks wrong and what to do about it; empty if nothing does.
    """

    vertical_offset: float
    vertical_error: float
    tilt: float
    tilt_error: float
    swapped: bool | None
    warnings: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the entries of ``report.json``."""
        values = {name: getattr(self, name) for name in ("vertical_offset", "vertical_error", "tilt", "tilt_error")}
        numbers = {f"{name}_px": round(value, 3) if np.isfinite(value) else None for name, value in values.items()}
        return {**numbers, "swapped": self.swapped, "warnings": list(self.warnings)}


def is_same_image(left: Any, right: Any) -> bool:
    """Return whether two arrays or tensors are equal in every pixel, and not of one color."""
    if is_on_gpu(left) != is_on_gpu(right):
        left, right = to_numpy(left, right)
    return bool((left == right).all()) and bool((left != left[:1, :1]).any())


def check_rectified(left: Any, right: Any, *, min_disparity: float = 0.0) -> PairCheck:
    """Check whether a pair is rectified and in the right order; warn only if it is not, beyond doubt.

    Raises :class:`InputError` if an image cannot be read, or the two differ in size.

    Parameters
    ----------
    left, right
        Arrays or paths, of the same size.
    min_disparity
        Lower end of the disparity search, px. Below 0 negative disparities are expected, and the order is not checked.

    Examples
    --------
    >>> import scotopic
    >>> scene = scotopic.render_scene()
    >>> check_rectified(scene.left, scene.right).warnings
    ()
    >>> check_rectified(scene.right, scene.left).swapped
    True
    """
    images = as_image(left, "left"), as_image(right, "right")
    views = [image.mean(axis=2) for image in images]
    if views[0].shape != views[1].shape:
        left_size, right_size = (f"{view.shape[1]} x {view.shape[0]}" for view in views)
        raise InputError(f"The views differ in size: left is {left_size}, right is {right_size}. Rectify or crop them.")
    factor = max(1, round(views[0].shape[1] / _WORKING_WIDTH))
    if images[0].shape == images[1].shape and is_same_image(*images):
        return PairCheck(np.nan, np.nan, np.nan, np.nan, None, (SAME_IMAGE,))
    evidence = _collect_evidence(*(_shrink(view, factor) for view in views))
    unequal = _warn_of_unequal(*(float(view.mean()) for view in views))
    nothing = PairCheck(np.nan, np.nan, np.nan, np.nan, None, unequal)
    if evidence is None:
        return nothing
    if not _has_peak(evidence.rows, _LEAST_PEAK):
        return nothing
    offset, offset_error = _estimate_offset(evidence.rows, evidence.parts)
    tilt, tilt_error = _tilt(evidence, evidence.columns < 0.5)
    swapped = _is_swapped(evidence) if min_disparity >= 0 else None
    offset, offset_error, tilt, tilt_error = (factor * each for each in (offset, offset_error, tilt, tilt_error))
    are_few = evidence.is_small or len(evidence.rows) < _MANY_BLOCKS
    is_clear = not are_few or _has_peak(evidence.rows, _CLEAR_PEAK)
    if not (is_clear and offset_error < _REACH * factor / 4):  # by chance, or the parts contradict each other
        offset, tilt = np.nan, np.nan
    warnings = unequal + _warnings(offset, offset_error, tilt, tilt_error, swapped, _REACH * factor)
    return PairCheck(float(offset), float(offset_error), float(tilt), float(tilt_error), swapped, warnings)


def _warn_of_unequal(left: float, right: float) -> tuple[str, ...]:
    """Return what to tell the user if the mean values of two views are so unequal that their formats may be, too."""
    if min(left, right) <= 0 or max(left, right) < _UNEQUAL * min(left, right):
        return ()
    brighter, darker = ("left", "right") if left > right else ("right", "left")
    times = max(left, right) / min(left, right)
    return (
        f"The {brighter} view is {times:.3g} times as bright as the {darker} one, of which little may be seen. Check "
        "that both have the same bits and exposure.",
    )


@dataclass(frozen=True)
class _Evidence:
    """The evidence of the blocks for each vertical shift, and for positive against negative disparity."""

    rows: Floats  # blocks x (2 reach + 1)
    orders: Floats  # blocks x bands x 2 x (2 reach + 1): likelihoods of disparities above and below 0
    columns: Floats  # blocks; where across the image, 0..1
    parts: NDArray[np.intp]  # blocks; which part of the image
    is_small: bool  # whether the image is so small that the blocks are, too


def _collect_evidence(left: Image, right: Image) -> _Evidence | None:
    import cv2

    height, width = left.shape
    rows, orders, columns, parts = [], [], [], []
    reach = round(_ACROSS * width)
    bands = [[_band(cv2, view, sigma) for view in (left, right)] for sigma in _SIGMAS]
    is_small = height < _SMALL[0] or width < _SMALL[1]
    for tall, wide in _SMALL_BLOCKS if is_small else _BLOCKS:
        for y in range(_REACH, height - tall - _REACH + 1, tall // 2):
            for x in range(0, width - wide + 1, wide // 2):
                first, last = max(0, x - reach) // _STEP, min(width, x + wide + reach) // _STEP
                here, wide_here = x // _STEP, wide // _STEP
                disparity = _STEP * (here - np.arange(first, last - wide_here + 1))
                rows_here, columns_here = slice(y - _REACH, y + tall + _REACH), slice(first, last)
                found = [
                    _match_block(
                        cv2, one[y : y + tall, here : here + wide_here], other[rows_here, columns_here], disparity
                    )
                    for one, other in bands
                ]
                rows.append(np.sum([each[0] for each in found], axis=0))
                orders.append([each[1] for each in found])
                across, down = (x + wide / 2) / width, (y + tall / 2) / height
                columns.append(across)
                parts.append(int(down * _PARTS) * _PARTS + int(across * _PARTS))
    if len(set(parts)) < _PARTS:  # the image is too small
        return None
    return _Evidence(np.array(rows), np.array(orders), np.array(columns), np.array(parts), is_small)


def _band(cv2: Any, view: Image, sigma: float) -> Image:
    """Return a band of a view, every other column of it."""
    band = cv2.GaussianBlur(view, (0, 0), sigma) - cv2.GaussianBlur(view, (0, 0), 4 * sigma)
    return np.ascontiguousarray(band[:, ::_STEP])


def _match_block(cv2: Any, block: Image, region: Image, disparity: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """Return a block's evidence for each vertical shift, and its likelihoods for disparities above and below 0."""
    correlation = cv2.matchTemplate(region, block, cv2.TM_CCOEFF_NORMED)
    noise = np.median(np.abs(correlation)) / 0.6745
    if not np.isfinite(correlation).all() or noise < 1e-6:  # the block is blank, such as a black border
        return np.zeros(len(correlation)), np.ones((2, len(correlation)))
    likely = np.exp(np.clip(correlation / noise, 0.0, _MOST_Z) ** 2 / 2)
    sides = [likely[:, side] for side in (disparity >= _SWAP_MARGIN, disparity <= -_SWAP_MARGIN)]
    order = np.array([side.mean(axis=1) if side.size else np.ones(len(likely)) for side in sides])
    return np.log(likely.mean(axis=1)), order if all(side.size for side in sides) else np.ones_like(order)


def _shrink(view: Image, factor: int) -> Image:
    height, width = (side // factor * factor for side in view.shape)
    blocks = view[:height, :width].reshape(height // factor, factor, width // factor, factor)
    return np.ascontiguousarray(blocks.mean(axis=(1, 3)), np.float32)


def _peak(profile: Floats) -> float:
    """Return where a profile over the vertical shifts is highest, to sub-pixel accuracy."""
    top = int(profile.argmax())
    if not 0 < top < len(profile) - 1:
        return float(top - _REACH)
    return top - _REACH + float(parabola_offset(*profile[top - 1 : top + 2]))


def _least_error(profile: Floats) -> float:
    """Return the standard error that follows from the curvature of a log-likelihood at its peak.

    Every pixel is in four blocks of each shape, since they overlap by half both ways. Counted once, the profile would
    be a quarter as high, and the error twice as large: callers multiply it by their ``overlap``.
    """
    top = int(np.clip(profile.argmax(), 1, len(profile) - 2))
    curvature = 2 * profile[top] - profile[top - 1] - profile[top + 1]
    return 1.0 / float(np.sqrt(curvature)) if curvature > 0 else float(len(profile))


def _jackknife(statistic: Any, values: Floats, parts: NDArray[np.intp]) -> tuple[float, float]:
    """Return a statistic of the sum over blocks and its standard error, leaving out one image part at a time."""
    total = values.sum(axis=0)
    left_out = np.array([statistic(total - values[parts == part].sum(axis=0)) for part in np.unique(parts)])
    count = len(left_out)
    error = np.sqrt((count - 1) / count * ((left_out - left_out.mean()) ** 2).sum())
    return float(statistic(total)), float(max(error, _LEAST_ERROR))


def _has_peak(rows: Floats, least: float) -> bool:
    """Return whether the evidence of some blocks for one vertical shift is far above that for the others."""
    total = rows.sum(axis=0)
    return bool((total.max() - np.median(total)) / np.sqrt(len(rows)) >= least)


def _estimate_offset(rows: Floats, parts: NDArray[np.intp], overlap: float = 2.0) -> tuple[float, float]:
    """Return the vertical offset of some blocks and its standard error, the larger of the two that are known."""
    offset, error = _jackknife(_peak, rows, parts)
    return offset, max(error, overlap * _least_error(rows.sum(axis=0)))


def _tilt(evidence: _Evidence, on_left: NDArray[np.bool_]) -> tuple[float, float]:
    """Return how much the offset grows from the left edge to the right, by its two halves, and the standard error.

    Both are NaN in small images: of few blocks the jackknife takes the error for smaller than it is.
    """
    sides = (on_left, ~on_left)
    if evidence.is_small or not all(
        side.sum() >= _FEWEST_BLOCKS and _has_peak(evidence.rows[side], _CLEAR_PEAK) for side in sides
    ):
        return np.nan, np.nan
    halves = [_estimate_offset(evidence.rows[side], evidence.parts[side], overlap=1.0) for side in sides]
    distance = float(evidence.columns[~on_left].mean() - evidence.columns[on_left].mean())
    return (halves[1][0] - halves[0][0]) / distance, float(np.hypot(halves[0][1], halves[1][1])) / distance


def _is_swapped(evidence: _Evidence) -> bool | None:
    """Return whether disparities are negative, by the rows in which blocks were found; ``None`` if unclear."""
    top = int(evidence.rows.sum(axis=0).argmax())
    near = evidence.orders[..., max(0, top - 1) : top + 2].mean(axis=-1)
    total, error = _jackknife(float, np.log(near[..., 0] / near[..., 1]).sum(axis=1), evidence.parts)
    return None if abs(total) < _SURE_OF_ORDER * error else total < 0


def _warnings(
    offset: float, offset_error: float, tilt: float, tilt_error: float, swapped: bool | None, reach: float
) -> tuple[str, ...]:
    warnings = []
    if swapped:
        warnings.append(
            "The pair looks swapped: objects lie farther right in the right view than in the left, but x_right = x_left"
            " - d with d >= 0. Exchange the two images, or search negative disparities with min_disparity."
        )
    if abs(offset) > max(_OFFSET_LIMIT, _SURE * offset_error):
        least = "at least " if abs(offset) >= reach - 1 else ""
        warnings.append(
            f"The pair looks unrectified: the right view lies {least}{abs(offset):.1f} px "
            f"{'lower' if offset > 0 else 'higher'} than the left (standard error {offset_error:.1f}), but matching "
            "needs the same rows. Rectify the pair (scotopic.depth.rectify) or shift one image."
        )
    if abs(tilt) > max(_TILT_LIMIT, _SURE * tilt_error):
        warnings.append(
            f"The pair looks rotated: the vertical offset of the right view changes by {tilt:+.1f} px from the left "
            f"edge to the right (standard error {tilt_error:.1f}). Rectify the pair (scotopic.depth.rectify)."
        )
    return tuple(warnings)


def _check_camera(side: str, camera: Camera) -> None:
    """Raise :class:`InputError` unless the matrices of a camera before rectification are those of one."""
    matrix, rotation = camera.matrix, camera.rotation
    is_camera = min(matrix[0, 0], matrix[1, 1]) > 0 and np.allclose(matrix[[1, 2, 2, 2], [0, 0, 1, 2]], (0, 0, 0, 1))
    if not is_camera:
        rows = "; ".join(" ".join(f"{value:g}" for value in row) for row in matrix)
        raise InputError(
            f"The matrix K of the {side} camera is [{rows}], but must be [fx 0 cx; 0 fy cy; 0 0 1] to rectify by it."
        )
    is_rotation = np.abs(rotation @ rotation.T - np.eye(3)).max() <= _ROTATION_TOLERANCE
    if not is_rotation or np.linalg.det(rotation) < 0 or rotation[2, 2] <= 0:
        raise InputError(
            f"The matrix R of the {side} camera is not a rotation, or one by more than a right angle to the side, so "
            "the pair cannot be rectified by it."
        )


class Rectifier:
    """Rectifies pairs of one rig with OpenCV, so that what they share is computed once: :func:`rectify` for a stream.

    Raises :class:`InputError` if the calibration has no rig, or the images have another size.

    Parameters
    ----------
    calibration
        As for :func:`rectify`.
    width, height
        Of the images as the cameras take them, px.

    Attributes
    ----------
    calibration
        Of the rectified images; its `width` and `height` are their size.
    """

    def __init__(self, calibration: Calibration, width: int, height: int) -> None:
        import cv2

        rig = calibration.rig
        if rig is None:
            raise InputError(
                f"The calibration ({calibration.source}) describes the rectified pair but not the cameras before "
                "rectification. Use a file with OpenCV's K1 D1 K2 D2 R1 R2 P1 P2, ROS's K D R P, or KITTI's "
                "calib_cam_to_cam."
            )
        for side, camera in (("left", rig.left), ("right", rig.right)):
            _check_camera(side, camera)
        if rig.width is None:
            warn_of_other_size(rig.left.matrix[:2, 2], width, height)
        self._taken = rig.width or width, rig.height or height
        size = self._size = (calibration.width or width, calibration.height or height)
        self.calibration = replace(calibration, width=size[0], height=size[1])
        self._maps = [
            cv2.initUndistortRectifyMap(
                camera.matrix, camera.distortion, camera.rotation, camera.projection[:, :3], size, cv2.CV_32FC1
            )
            for camera in (rig.left, rig.right)
        ]
        nothing = np.zeros(self._taken[::-1], np.bool_)
        self._unseen = [self._spread_mask(nothing, side, outside=1.0) for side in range(2)]
        for side, unseen in zip(("left", "right"), self._unseen, strict=True):
            if unseen.all():
                raise InputError(
                    f"By this calibration the {side} camera sees nothing of its rectified view. Check its R, P and "
                    "distortion, and that both were computed together."
                )

    def __call__(self, left: Any, right: Any) -> tuple[Image, Image]:
        """Return the rectified images of a pair: arrays or paths; float32 ``H x W x C``.

        They are masked arrays if the cameras did not see all of them, or what is given is masked: what anything outside
        of the image, or a masked pixel, went into is masked.
        """
        return self._rectify(left, "left", 0), self._rectify(right, "right", 1)

    def _rectify(self, source: Any, name: str, side: int) -> Image:
        import cv2

        image = as_image(source, name)
        height, width = image.shape[:2]
        if (width, height) != self._taken:
            raise InputError(
                f"The {name} image is {width} x {height} px, but the rig was calibrated at {self._taken[0]} x "
                f"{self._taken[1]} px. Pass the images as the cameras took them."
            )
        x, y = self._maps[side]
        # Beyond its edges the image goes on as it ends there, so that masked pixels have values like the others.
        rectified = cv2.remap(image, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        view = np.ascontiguousarray(rectified.reshape(self._size[1], self._size[0], -1), np.float32)
        mask, hidden = pixel_mask(source), self._unseen[side]
        if mask is not None:
            hidden = hidden | self._spread_mask(mask, side)
        return with_mask(view, hidden if hidden.any() else None)  # type: ignore[no-any-return]

    def _spread_mask(self, mask: Mask, side: int, outside: float = 0.0) -> Mask:
        """Return which pixels of a rectified view a masked one, or with `outside` = 1 one out of view, went into."""
        import cv2

        how: dict[str, Any] = {"borderMode": cv2.BORDER_CONSTANT, "borderValue": outside}
        share = cv2.remap(mask.astype(np.float32), *self._maps[side], cv2.INTER_LINEAR, **how)
        return np.asarray(share > 0)


def rectify(left: Any, right: Any, calibration: Calibration) -> tuple[Image, Image, Calibration]:
    """Rectify a pair with OpenCV.

    Raises :class:`InputError` if the calibration has no rig, or the images have another size.

    Parameters
    ----------
    left, right
        The images as the cameras took them: arrays or paths, of the size that the rig was calibrated at.
    calibration
        With a :class:`~scotopic.depth.Rig`, as :func:`~scotopic.depth.read_calibration` returns for files that hold
        the cameras before rectification.

    Returns
    -------
    left, right : ndarray of float32
        ``H x W x C``. Values between pixels are interpolated linearly, which averages neighbors and so lowers the noise
        a little, unevenly. Masked arrays if the cameras did not see all of the rectified views, or what is given is
        masked: what anything outside of the image, or a masked pixel, went into is masked, and gets no disparity.
    calibration : Calibration
        Of the two rectified images.
    """
    image = with_mask(as_image(left, "left"), pixel_mask(left))
    rectifier = Rectifier(calibration, image.shape[1], image.shape[0])
    return *rectifier(image, right), rectifier.calibration
