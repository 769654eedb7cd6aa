"""How sure a disparity is: a score that ranks pixels, the probability that it stands for, and a standard deviation.

The score: by how much the winning disparity beats the best one at least two candidates away, in units of the volume's
spread, less where the two views disagree by more than half a pixel. Neighbors err together, and one with a small margin
speaks against all around it, so the score is a geometric mean, with the settings' defaults::

    weight(x) = margin(x) exp(-max(|D_L(x) - D_R(x - D_L(x))| - 1/2, 0))
    score     = exp(G(4) log(G(1) weight + 1/10))

Where denoised colors show edges, ``margin`` is the geometric mean of this margin and of that which a pixel has inside
its own edges (:mod:`~scotopic.stages.inner_margin`).

The probability of being within 1 px at its own pixel also depends on what lies around. Where the answer is rough, it is
rough because the scene is cluttered, and then many pixels lie beside an edge whose disparity they may have taken, or
because it is wrong. With ``s`` the logarithm of the score, ``r`` that of the relief around the pixel (half the range of
disparity within 1 px, a mean over some 8 px), and ``m`` the mean of ``r`` over the picture, weighted by the square of
the score, so that parts without anything to see hardly count::

    confidence = 1 / (1 + exp(-(a + b s + c s^2 + d r + e m)))

``s`` counts from the minimum of the parabola upward, so that a larger score never lowers the confidence. The
coefficients are fitted to real scenes in several kinds of light (``benchmarks/calibrate.py``). ``docs/confidence.md``
shows how far they hold on scenes that were not used.

The mask keeps what is more likely right than wrong. Where next to nothing is, it keeps the surest pixels, as many as
the paper's sparse answer has (:func:`choose_threshold`).

The standard deviation goes with the confidence. Errors are not Gaussian: a disparity is either about right or anywhere.
So it is chosen to cover: half of what 95 % of the errors stay below.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scotopic.arrays import Array
from scotopic.backends.protocol import Backend
from scotopic.settings import MatchingSettings, ScoreSettings
from scotopic.stages.consistency import Reason
from scotopic.stages.resolution import SnrEstimate

#: Left-right difference, in px, where one view does not see the pixel; finite, so that it can be interpolated.
UNSEEN = 1e6
RELIEF_REACH = 8.0  #: px, the standard deviation of the mean of the relief
LARGEST_RELIEF = 1.0  #: a larger one, at a jump in disparity, counts as this
SMALLEST_RELIEF = 0.01  #: added, so that a plane that faces the camera has a logarithm
SPARSE_CONFIDENCE = 0.25  #: the least confidence with which the surest pixels of a picture are kept
EVEN = 0.5  #: as likely right as wrong
SATURATED = 0.98  #: share of white above which the mean of a few pixels counts as saturated


class ConfidenceCalibration(NamedTuple):
    """The coefficients ``a`` to ``e`` of the probability's logarithmic odds."""

    constant: float
    score: float
    square: float
    relief: float
    mean_relief: float

    @property
    def lowest_score(self) -> float:
        """The logarithm of the score from which on the odds rise."""
        return -self.score / (2 * self.square)


#: In the dark and with fine evidence of denoised images, then both with the margin inside edges, and with fine evidence
#: of the images themselves. In too little light for the margin inside edges the strongest evidence is where the relief
#: is; counting it against single pixels gained nothing there.
CALIBRATIONS = (
    ConfidenceCalibration(-4.88, 0.12, 0.196, 0.0, -1.155),
    ConfidenceCalibration(-4.071, 0.25, 0.134, -0.744, -0.881),
    ConfidenceCalibration(-5.127, 0.285, 0.091, -0.322, -1.113),
    ConfidenceCalibration(-3.952, 0.37, 0.124, -0.577, -0.933),
    ConfidenceCalibration(-1.307, -1.155, 0.471, -0.833, -0.371),
)

#: Confidence, and the standard deviation in px that goes with it; linear in between.
DEVIATIONS = (
    (0.08, 0.16, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.96),
    (8.9, 8.0, 5.7, 4.7, 4.1, 3.5, 2.7, 2.2, 1.2, 0.41),
)


def choose_calibration(snr: SnrEstimate, *, has_inner_margin: bool = False) -> ConfidenceCalibration:
    """Return the calibration for these signal-to-noise ratios, and for a score with the margin inside edges or not."""
    if snr.has_detail and snr.has_clear_pixels:
        return CALIBRATIONS[4]
    return CALIBRATIONS[(1 if snr.has_detail else 0) + (2 if has_inner_margin else 0)]


def estimate_deviation(confidence: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the standard deviation of disparities with this confidence, in px."""
    return np.interp(confidence, *DEVIATIONS).astype(np.float32)


def weigh_margin(backend: Backend[Array], margin: Array, difference: Array, settings: ScoreSettings) -> Array:
    """Return the margin, less where the views disagree by more than the slack."""
    weights: Array = margin * backend.xp.exp(-backend.xp.clip(difference - settings.lr_slack, min=0))
    return weights


def smooth_score(backend: Backend[Array], weights: Array, settings: ScoreSettings) -> Array:
    """Return the score: the geometric mean of the weighted margins around each pixel."""
    near = backend.blur(weights, settings.confidence_blur) + settings.confidence_floor
    return backend.xp.exp(backend.blur(backend.xp.log(near), settings.confidence_reach))


def measure_relief(backend: Backend[Array], disparity: Array, factor: int) -> Array:
    """Return the logarithm of the relief around each pixel of a map in which ``factor x factor`` pixels are one."""
    lowest, highest = backend.window_range(disparity, 1)
    relief = backend.xp.clip((highest - lowest) / 2, max=LARGEST_RELIEF)
    return backend.xp.log(backend.blur(relief, RELIEF_REACH / factor) + SMALLEST_RELIEF)


def mean_relief(backend: Backend[Array], score: Array, relief: Array) -> Array:
    """Return the mean over a picture of the relief's logarithm, weighted by the square of the score."""
    weights = score * score
    mean: Array = backend.xp.sum(weights * relief) / backend.xp.sum(weights)
    return mean


def calibrate(backend: Backend[Array], score: Array, relief: Array, calibration: ConfidenceCalibration) -> Array:
    """Return the confidence that a score stands for, with the logarithm of the relief around each pixel."""
    xp = backend.xp
    s = xp.clip(xp.log(score), min=calibration.lowest_score)
    odds = calibration.constant + (calibration.score + calibration.square * s) * s
    odds = odds + calibration.relief * relief + calibration.mean_relief * mean_relief(backend, score, relief)
    confidence: Array = 1 / (1 + xp.exp(-odds))
    return confidence


def choose_threshold(backend: Backend[Array], confidence: Array, min_confidence: float, sparse_share: float) -> float:
    """Return the confidence from which on pixels are kept.

    It is ``min_confidence`` or, where fewer than ``sparse_share`` of the pixels reach that, what the surest of them
    reach, but no less than :data:`SPARSE_CONFIDENCE`. A ``min_confidence`` above :data:`EVEN` is taken at its word.
    """
    if not (sparse_share > 0 and SPARSE_CONFIDENCE < min_confidence <= EVEN):
        return min_confidence
    return min(max(backend.quantile(confidence, 1 - sparse_share), SPARSE_CONFIDENCE), min_confidence)


def keep_confident(
    backend: Backend[Array],
    disparity: Array,
    confidence: Array,
    difference: Array,
    is_hidden: Array,
    image: Array,
    settings: MatchingSettings,
    sparse_share: float = 0.0,
) -> tuple[Array, Array]:
    """Return the disparity where it is sure enough, NaN elsewhere, and why not: what speaks against it most.

    ``is_hidden`` says where something nearer hides the pixel from the right view; ``image`` is the left one.
    """
    xp = backend.xp
    is_white = xp.min(backend.blur(image, 1.5), axis=2) > SATURATED
    why = xp.where(is_white, int(Reason.SATURATED), int(Reason.AMBIGUOUS))
    disagrees = xp.where(is_hidden, int(Reason.OCCLUDED), int(Reason.LEFT_RIGHT))
    why = xp.where(difference >= settings.left_right_threshold, disagrees, why)
    why = xp.where(difference >= UNSEEN / 2, int(Reason.OUT_OF_VIEW), why)
    is_unsure = confidence < choose_threshold(backend, confidence, settings.min_confidence, sparse_share)
    reason = xp.astype(xp.where(is_unsure, why, int(Reason.OK)), xp.uint8)
    return xp.where(is_unsure, float("nan"), disparity), reason
