"""How sure a disparity is: a score that ranks pixels, and the probability that it stands for.

The score: by how much the winning disparity beats the best one at least two candidates away, in units of the volume's
spread, less where the two views disagree by more than half a pixel. Neighbors err together, and one with a small margin
speaks against all around it, so the score is a geometric mean, with the settings' defaults::

    weight(x) = margin(x) exp(-max(|D_L(x) - D_R(x - D_L(x))| - 1/2, 0))
    score     = exp(G(4) log(G(1) weight + 1/10))

The probability: the share of pixels with this score that are within 1 px of the truth, a rising curve through scenes
that were rendered for the purpose, at many photon levels (``benchmarks/calibrate.py``). The score is a margin relative
to the volume's spread, and a volume of noise has one too; so it counts more where that spread, in nats, is larger::

    confidence = top / (1 + (middle / (score spread^power))^slope)

So 0.9 says: nine of ten such pixels are within 1 px, on scenes like those. Real scenes have surfaces that rendered ones
lack; ``docs/best.md`` shows how far it holds there.
"""

from typing import NamedTuple

from scotopic.arrays import Array
from scotopic.backends.protocol import Backend
from scotopic.settings import MatchingSettings, ScoreSettings
from scotopic.stages.consistency import Reason

#: Left-right difference, in px, where one view does not see the pixel; finite, so that it can be interpolated.
UNSEEN = 1e6


class ConfidenceCalibration(NamedTuple):
    """The curve from score to probability."""

    power: float
    top: float
    middle: float
    slope: float


#: As ``benchmarks/calibrate.py`` found it on rendered scenes.
CALIBRATION = ConfidenceCalibration(power=0.5, top=0.99, middle=117.0, slope=0.64)


def weigh_margin(backend: Backend[Array], margin: Array, difference: Array, settings: ScoreSettings) -> Array:
    """Return the margin, less where the views disagree by more than the slack."""
    weights: Array = margin * backend.xp.exp(-backend.xp.clip(difference - settings.lr_slack, min=0))
    return weights


def smooth_score(backend: Backend[Array], weights: Array, settings: ScoreSettings) -> Array:
    """Return the score: the geometric mean of the weighted margins around each pixel."""
    near = backend.blur(weights, settings.confidence_blur) + settings.confidence_floor
    return backend.xp.exp(backend.blur(backend.xp.log(near), settings.confidence_reach))


def calibrate(score: Array, spread: float, calibration: ConfidenceCalibration = CALIBRATION) -> Array:
    """Return the confidence that a score stands for, in a volume of this spread."""
    power, top, middle, slope = calibration
    odds: Array = (score * (spread**power / middle)) ** slope
    confidence: Array = top * odds / (1 + odds)
    return confidence


def keep_confident(
    backend: Backend[Array], disparity: Array, confidence: Array, difference: Array, settings: MatchingSettings
) -> tuple[Array, Array]:
    """Return the disparity where it is sure enough, NaN elsewhere, and why not: what speaks against it most."""
    xp = backend.xp
    why = xp.where(difference >= settings.left_right_threshold, int(Reason.LEFT_RIGHT), int(Reason.AMBIGUOUS))
    why = xp.where(difference >= UNSEEN / 2, int(Reason.OUT_OF_VIEW), why)
    is_unsure = confidence < settings.min_confidence
    reason = xp.astype(xp.where(is_unsure, why, int(Reason.OK)), xp.uint8)
    return xp.where(is_unsure, float("nan"), disparity), reason
