"""OpenCV's matchers, on the noisy pair or on the clean one.

What a matcher answers with its filters on is its own mask. Its ``dense`` map is the same matcher with every filter off,
and OpenCV gives no confidence, so one is made of the two views' dense maps ``D_L`` and ``D_R``::

    a(x) = exp(-|D_L(x) - D_R(x - D_L(x))|), 0 where either is missing
    confidence = a(x) * (mean of a over 15 x 15 pixels around x), plus 1 where the filters let the pixel pass

One pixel on which the views agree may be chance, a neighborhood of them is not; and what the matcher answers by itself
comes before what its filters dropped.

OpenCV gives no answer in the first ``numDisparities`` columns. They are left as they are: continuing the images to the
left of their edge brings answers there, but wrong ones.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.depth.triangulate import sample_columns
from scotopic.evaluation.method import Map, Prediction
from scotopic.evaluation.scene import Scene
from scotopic.inputs import check_pair
from scotopic.io import as_image
from scotopic.preview import as_picture

Bytes = NDArray[np.uint8]

SGBM_BLOCK = 5  #: side of the matched block in px
BM_BLOCK = 21  #: OpenCV's own default for block matching, which has no smoothness term to help
UNIQUENESS = 10  #: the best candidate must be this much (percent) better than the second
SPECKLE_PIXELS, SPECKLE_RANGE = 100, 2  #: smaller patches of similar disparity are dropped
AGREEMENT_WINDOW = 15  #: side of the window of the confidence in px
_FIXED_POINT = 16  # OpenCV's disparities are in sixteenths of a pixel


def predict_sgbm(left: Map, right: Map, scene: Scene, max_disparity: int) -> Prediction:
    """Match the noisy pair by SGBM."""
    return match_sgbm(left, right, max_disparity)


def predict_clean_sgbm(left: Map, right: Map, scene: Scene, max_disparity: int) -> Prediction:
    """Match the scene's clean pair by SGBM, a ceiling: the noisy pair is not looked at."""
    return match_sgbm(scene.left, scene.right, max_disparity)


def predict_bm(left: Map, right: Map, scene: Scene, max_disparity: int) -> Prediction:
    """Match the gray pair by block matching: block 21, filters as for :func:`match_sgbm`."""
    import cv2

    views = [
        view if view.ndim == 2 else np.asarray(cv2.cvtColor(view, cv2.COLOR_RGB2GRAY), np.uint8)
        for view in _pair_as_bytes(left, right)
    ]
    # OpenCV refuses, rather than leaves empty, what holds no block or no column with every candidate.
    height, width = views[0].shape
    if min(height, width) <= BM_BLOCK or width <= _whole_sixteens(max_disparity) + BM_BLOCK:
        return predict_nothing((height, width))
    matcher = cv2.StereoBM.create(_whole_sixteens(max_disparity), BM_BLOCK)
    return _predict(matcher, views[0], views[1], max_disparity)


def match_sgbm(left: Map, right: Map, max_disparity: int, min_disparity: int = 0) -> Prediction:
    """Match a pair by OpenCV's semi-global block matching.

    Block 5, ``P1 = 8 C b^2`` and ``P2 = 32 C b^2`` for ``C`` channels and block side ``b`` (OpenCV's own advice),
    left-right difference up to 1, uniqueness 10 %, speckles below 100 px of range 2 dropped, five directions.

    The views, ``(H, W, C)`` in [0, 1], are rounded to 8 bits, which is what OpenCV takes. Candidates are
    ``min_disparity <= d < max_disparity``. OpenCV wants a multiple of 16 of them; answers from `max_disparity` on are
    dropped. Raises :class:`InputError` if the views are not two images of one size, or have values that are not finite.
    """
    import cv2

    views = _pair_as_bytes(left, right)
    channels = 1 if views[0].ndim == 2 else views[0].shape[2]
    area = channels * SGBM_BLOCK**2
    candidates = _whole_sixteens(max_disparity - min_disparity)
    if views[0].shape[1] <= min_disparity + candidates:
        return predict_nothing(views[0].shape[:2])
    matcher = cv2.StereoSGBM.create(min_disparity, candidates, SGBM_BLOCK, P1=8 * area, P2=32 * area)
    return _predict(matcher, *views, max_disparity)


def predict_nothing(shape: tuple[int, ...]) -> Prediction:
    """Return the prediction of a method that has no answer anywhere."""
    nowhere = np.full(shape, np.nan, np.float32)
    return Prediction(nowhere, nowhere, np.zeros(shape, np.float32))


def lr_difference(left: Map, right: Map) -> Map:
    """Return ``|D_L(x) - D_R(x - D_L(x))|`` at each left pixel, infinite where it has no partner.

    `left` and `right` are the disparities of each view, NaN where there is none.
    """
    # The disparity is rounded, not the place: which of two pixels is the nearer then depends on no column.
    other, inside = sample_columns(right, np.arange(left.shape[1], dtype=np.float32) - np.rint(left))
    difference = np.abs(left - other)
    return np.where(inside & np.isfinite(difference), difference, np.float32(np.inf))


def lr_confidence(left: Map, right: Map) -> Map:
    """Return the agreement of the views at each left pixel times the mean agreement around it (see the module)."""
    import cv2

    agreement = np.exp(-lr_difference(left, right)).astype(np.float32)
    window = (AGREEMENT_WINDOW, AGREEMENT_WINDOW)
    around = cv2.boxFilter(agreement, -1, window, borderType=cv2.BORDER_REPLICATE)
    return np.asarray(agreement * np.maximum(around, 0), np.float32)


def _predict(matcher: Any, left: Bytes, right: Bytes, max_disparity: int) -> Prediction:
    """Run a matcher with and without its filters, and on the mirrored pair for the right view's map."""
    _set_filters(matcher, True)
    answered = _compute(matcher, left, right, max_disparity)
    _set_filters(matcher, False)
    dense = _compute(matcher, left, right, max_disparity)
    dense = np.where(np.isnan(answered), dense, answered)
    mirrored_left, mirrored_right = (np.ascontiguousarray(view[:, ::-1]) for view in (left, right))
    of_right = _compute(matcher, mirrored_right, mirrored_left, max_disparity)[:, ::-1]
    confidence = lr_confidence(dense, of_right) + np.isfinite(answered)
    return Prediction(answered, dense, confidence.astype(np.float32))


def _set_filters(matcher: Any, on: bool) -> None:
    matcher.setDisp12MaxDiff(1 if on else -1)
    matcher.setUniquenessRatio(UNIQUENESS if on else 0)
    matcher.setSpeckleWindowSize(SPECKLE_PIXELS if on else 0)
    matcher.setSpeckleRange(SPECKLE_RANGE if on else 0)
    if hasattr(matcher, "setTextureThreshold"):  # block matching alone has it
        matcher.setTextureThreshold(10 if on else 0)


def _compute(matcher: Any, left: Bytes, right: Bytes, max_disparity: int) -> Map:
    disparity = matcher.compute(left, right).astype(np.float32) / _FIXED_POINT
    # Below the range is OpenCV's mark for none; at and beyond it are candidates that only OpenCV asked for.
    disparity[(disparity < matcher.getMinDisparity()) | (disparity >= max_disparity)] = np.nan
    return np.asarray(disparity, np.float32)


def _whole_sixteens(candidates: int) -> int:
    return -(-candidates // 16) * 16


def _pair_as_bytes(left: Map, right: Map) -> tuple[Bytes, Bytes]:
    """Return a pair as OpenCV takes it: 8 bits, ``(H, W)`` if gray."""
    images = as_image(left, "left"), as_image(right, "right")
    check_pair(*images, patch_size=1)
    return as_picture(images[0]), as_picture(images[1])
