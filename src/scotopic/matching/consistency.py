"""From patches to pixels, and what can be trusted (METHOD section 4).

Every pixel gets the mean over the patches that contain it. A left pixel is kept where structure was seen and both views
agree; where it is not kept, a :class:`Reason` says why. How sure a pixel is:

``confidence = (1 - exp(-M / (8 P1))) * exp(-|D_L(x) - D_R(x - D_L(x))|)``

``M`` is the mean over the pixel's patches of the cost margin: by how much the best sum of path costs is lower than the
best sum at least two pixels of disparity away; ``8 P1`` is what one pixel of disparity costs along eight paths. So the
first factor says how clearly one disparity won, the second how well the views agree. It ranks pixels; it is not a
calibrated probability.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from scotopic.junctions.grid import patches_over
from scotopic.settings import JunctionSettings, MatchingSettings


class Reason(IntEnum):
    """Why a pixel has no disparity."""

    OK = 0  #: it has one
    NO_STRUCTURE = 1  #: no boundary in the left view near this pixel
    LEFT_RIGHT = 2  #: the two views disagree: an occlusion or a wrong match
    OUT_OF_VIEW = 3  #: the views disagree, and the partner would lie outside the right image
    NO_STRUCTURE_RIGHT = 4  #: no boundary at the partner in the right view (only with ``mask_right``)
    AMBIGUOUS = 5  #: confidence below ``min_confidence``


@dataclass(frozen=True)
class Consistency:
    """What the left-right check found, per left pixel."""

    disparity: NDArray[np.float32]
    reason: NDArray[np.uint8]
    confidence: NDArray[np.float32]


def spread_over_pixels(
    values: NDArray[np.generic], shape: tuple[int, int], settings: JunctionSettings
) -> NDArray[np.float32]:
    """Return at each pixel the mean value of the patches that contain it.

    Parameters
    ----------
    values
        One per patch, ``(rows, columns)``.
    shape
        Height and width of the image.
    """
    total = values.astype(np.float64)
    for axis, length in enumerate(shape):
        first, last = patches_over(length, values.shape[axis], settings)
        running = np.insert(np.cumsum(total, axis=axis), 0, 0.0, axis=axis)
        weight = (1 / (last + 1 - first)).reshape((-1, 1) if axis == 0 else (1, -1))
        total = (np.take(running, last + 1, axis=axis) - np.take(running, first, axis=axis)) * weight
    return total.astype(np.float32)


def check_views(
    left: NDArray[np.float32],
    right: NDArray[np.float32],
    margin: NDArray[np.float32],
    left_boundaries: NDArray[np.float32],
    right_boundaries: NDArray[np.float32],
    settings: MatchingSettings,
) -> Consistency:
    """Compare the disparity maps of the two views and decide which left pixels to keep.

    Parameters
    ----------
    left, right
        Disparity at each pixel of each view.
    margin
        Cost margin at each left pixel.
    left_boundaries, right_boundaries
        The global boundary maps.
    settings
        The thresholds.
    """
    height, width = left.shape
    landing = np.arange(width, dtype=np.float32) - left
    partner = np.clip(landing, 0, width - 1).astype(np.int64)  # truncated, as published
    rows = np.arange(height)[:, None]
    difference = np.abs(left - right[rows, partner])
    clarity = 1 - np.exp(-margin / (8 * max(settings.p1, 1)))
    confidence = (clarity * np.exp(-difference)).astype(np.float32)

    reason = np.zeros(left.shape, np.uint8)
    if settings.min_confidence > 0:
        reason[confidence < settings.min_confidence] = Reason.AMBIGUOUS
    if settings.mask_right:
        reason[right_boundaries[rows, partner] <= settings.boundary_threshold] = Reason.NO_STRUCTURE_RIGHT
    disagree = ~(difference < settings.left_right_threshold)
    reason[disagree] = Reason.LEFT_RIGHT
    reason[disagree & ((landing < 0) | (landing > width - 1))] = Reason.OUT_OF_VIEW
    reason[left_boundaries <= settings.boundary_threshold] = Reason.NO_STRUCTURE
    disparity = np.where(reason == Reason.OK, left, np.float32(np.nan))
    return Consistency(disparity, reason, confidence)
