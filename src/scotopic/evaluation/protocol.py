"""The protocol of the paper's experiments: shrink, then add noise.

The size of the protocol is relative to the *full* size of a data set, whatever size lies on disk: Middlebury 2014 at
0.2 of full size is 0.8 of the quarter-size images. Noise comes after shrinking (:func:`scotopic.simulate_pair`).
Images are shrunk by area averaging. Truth is shrunk in two ways:

* ``truth``, our default: nearest neighbor, so that every value was measured, and unknown stays unknown.
* ``truth_paper``: unknown as 0, area averaging, then only exact zeros are unknown. At a hole the average mixes zeros
  in, so values there are too small; that is what the paper was scored with.

Both are multiplied by the nominal factor, as the reference results are. Since a size is rounded to whole pixels, the
factor of the width differs from it by up to half a pixel in the width, about 0.07 % of a disparity at these sizes.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scotopic.depth import Calibration
from scotopic.errors import SettingsError
from scotopic.evaluation.scene import Scene

# 0.2 / 0.25 and 1 / 3 are not exact: a factor this near 1 is 1, and nothing is resampled.
_SAME_SIZE = 1e-6


@dataclass(frozen=True, eq=False)
class Recording:
    """A scene as it lies on disk, before the protocol shrinks it: like a :class:`Scene`, at the size on disk."""

    left: NDArray[np.float32]
    right: NDArray[np.float32]
    truth: NDArray[np.float32]
    visible: NDArray[np.bool_] | None = None
    calibration: Calibration | None = None
    size: float = 1.0  #: size on disk over the data set's full size: 1, 1/2, 1/3, 1/4
    max_disparity: float | None = None  #: upper end of the disparities that the data set states, if it does


def at_scale(recording: Recording, scale: float, dataset: str, name: str) -> Scene:
    """Bring a scene from the size on disk to a `scale` of the data set's full size, with truth resized both ways.

    Raises :class:`SettingsError` if `scale` is not above 0, or what lies on disk is smaller: nothing is ever enlarged.
    """
    factor = check_scale(scale) / recording.size
    if factor > 1 + _SAME_SIZE:
        raise SettingsError(
            f"Scene {name!r} of {dataset} cannot be scaled to {scale:g} of full size: only {recording.size:g} of full "
            "size lies on disk. Choose a smaller scale or get a larger version of the data set."
        )
    if factor > 1 - _SAME_SIZE:
        factor = 1.0
    calibration, most = recording.calibration, recording.max_disparity
    height, width = _new_size(recording.truth.shape[0], recording.truth.shape[1], factor)
    return Scene(
        dataset=dataset,
        name=name,
        left=shrink_image(recording.left, factor),
        right=shrink_image(recording.right, factor),
        truth=shrink_truth(recording.truth, factor),
        truth_paper=shrink_truth_paper(recording.truth, factor),
        visible=None if recording.visible is None else shrink_mask(recording.visible, factor),
        calibration=None if calibration is None else calibration.scaled(factor, factor, width, height),
        scale=float(scale),
        # The little that is taken off keeps 70 / 4 * 4 at 70, whatever the rounding of the factor.
        max_disparity=None if most is None else math.ceil(most * factor - _SAME_SIZE),
    )


# In all that follows `factor` is new size over old, at most 1, and both sides are rounded to whole pixels.


def shrink_image(image: NDArray[np.float32], factor: float) -> NDArray[np.float32]:
    """Shrink an image ``H x W x C`` in [0, 1] by area averaging.

    Examples
    --------
    >>> import numpy as np
    >>> shrink_image(np.array([[[0.0], [1.0]], [[1.0], [1.0]]], np.float32), 0.5)
    array([[[0.75]]], dtype=float32)
    """
    shrunk = _resize(image, factor, "area").reshape(*_new_size(image.shape[0], image.shape[1], factor), -1)
    return np.clip(shrunk, 0.0, 1.0)  # an average of ones may be a rounding above 1


def shrink_truth(truth: NDArray[np.float32], factor: float) -> NDArray[np.float32]:
    """Shrink a disparity map (px, NaN where unknown) by nearest neighbor, and its values with it.

    No value is mixed with another, and unknown stays unknown. The pixel of the original that is taken is
    ``floor(x / factor)``, the convention of the reference results.
    """
    return _resize(truth, factor, "nearest") * np.float32(factor)


def shrink_truth_paper(truth: NDArray[np.float32], factor: float) -> NDArray[np.float32]:
    """Shrink a disparity map as the paper does: unknown as 0, area averaging, and only exact zeros unknown after it."""
    filled = np.where(np.isnan(truth), np.float32(0), truth)
    averaged = _resize(filled, factor, "area") * np.float32(factor)
    return np.where(averaged == 0, np.float32(np.nan), averaged)


def shrink_mask(mask: NDArray[np.bool_], factor: float) -> NDArray[np.bool_]:
    """Shrink a mask by nearest neighbor: it goes with :func:`shrink_truth`, pixel by pixel."""
    return _resize(mask.astype(np.float32), factor, "nearest") > 0.5


def check_scale(scale: float) -> float:
    """Return `scale` if it can be a share of full size, or raise :class:`SettingsError`."""
    if isinstance(scale, bool) or not isinstance(scale, int | float) or not 0 < scale <= 1:
        raise SettingsError(f"The scale must be a share of full size above 0 and up to 1, not {scale!r}.")
    return float(scale)


def _new_size(height: int, width: int, factor: float) -> tuple[int, int]:
    return max(1, round(height * factor)), max(1, round(width * factor))


def _resize(array: NDArray[np.float32], factor: float, way: str) -> NDArray[np.float32]:
    import cv2

    if factor == 1:
        return array.copy()
    height, width = _new_size(array.shape[0], array.shape[1], factor)
    # The target's size, not the factor, is passed on: the two give different sampling points, and the reference
    # results are of the former.
    flag = cv2.INTER_AREA if way == "area" else cv2.INTER_NEAREST
    resized = cv2.resize(np.ascontiguousarray(array), (width, height), interpolation=flag)
    return np.asarray(resized, np.float32)
