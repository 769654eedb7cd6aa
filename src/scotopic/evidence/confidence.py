"""How sure a disparity is: a score that ranks pixels, and the probability that it stands for.

The score: by how much the winning disparity beats the best one at least two candidates away, in units of the volume's
spread, less where the two views disagree by more than half a pixel. Neighbors err together, and one that is unsure
speaks against all around it, so the score is a geometric mean::

    sure(x)  = margin(x) exp(-max(|D_L(x) - D_R(x - D_L(x))| - 1/2, 0))
    score    = exp(G(4) log(G(2) sure + 1/10))

The probability: the share of pixels with this score that are within 1 px of the truth, a rising curve through scenes
that were rendered for the purpose, at many photon levels (``benchmarks/calibrate.py``). The score is a margin relative
to the volume's spread, and a volume of noise has one too; so it counts more where that spread, in nats, is larger::

    confidence = top / (1 + (middle / (score unit^power))^slope)

So 0.9 says: nine of ten such pixels are within 1 px, on scenes like those. Real scenes have surfaces that rendered ones
lack; ``docs/best.md`` shows how far it holds there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.matching import Reason
from scotopic.settings import EvidenceSettings, MatchingSettings

#: Weight of a disparity that nothing speaks for: planes are laid through such ones where there are no others.
FAINT = 1e-6
#: Disagreement, in px, of views of which one does not see the pixel; finite, so that it can be interpolated.
FAR = 1e6


def calibrated(score: Any, unit: float, settings: EvidenceSettings) -> Any:
    """Return the confidence that a score, NumPy's or a tensor, stands for, in a volume of this spread."""
    above = (score * (unit**settings.confidence_power / settings.confidence_middle)) ** settings.confidence_slope
    return settings.confidence_top * above / (1 + above)


def reference_disagreement(left: NDArray[np.float32], right: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return ``|D_L(x) - D_R(x - D_L(x))|`` at the nearest pixel, infinite where that lies outside the right view."""
    partner, outside = partners(left, right)
    return np.where(outside, np.float32(np.inf), np.abs(left - partner))


def partners(left: NDArray[np.float32], right: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Return the right view's disparity where each left pixel lands, and whether that lies outside the view."""
    width = left.shape[1]
    landing = np.floor(np.arange(width, dtype=np.float32) - left + np.float32(0.5)).astype(np.int64)
    partner = np.take_along_axis(right, np.clip(landing, 0, width - 1), axis=1)
    return partner, (landing < 0) | (landing >= width)


def explain(
    confidence: NDArray[np.float32], disagreement: NDArray[np.float32], settings: MatchingSettings
) -> NDArray[np.uint8]:
    """Return why each pixel has no disparity: what is less sure than ``min_confidence``, by what speaks against it."""
    reason = np.where(confidence < settings.min_confidence, Reason.AMBIGUOUS, Reason.OK).astype(np.uint8)
    unsure = reason != Reason.OK
    reason[unsure & (disagreement >= settings.left_right_threshold)] = Reason.LEFT_RIGHT
    reason[unsure & (disagreement >= FAR / 2)] = Reason.OUT_OF_VIEW
    return reason
