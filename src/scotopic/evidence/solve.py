"""From evidence to disparities: semi-global matching of every pixel, and where between two candidates the minimum lies.

The solver is that of the patches (:mod:`scotopic.matching.sgm`) on the grid of pixels. It wants whole numbers: costs
are counted from each pixel's lowest one, in steps of ``unit / evidence_steps``, where the unit is the volume's own
spread, the mean over the pixels of the standard deviation over disparity. ``P1`` and ``P2`` are in the same steps, so
they mean the same at any light; but the clearer the images are, the less a pixel needs its neighbours, and the
penalties fall with the square root of the clarity above 1. The right view's volume is the left one sheared: its pixel
``x`` at ``d`` is the left pixel ``x + d`` at ``d``.

Between candidates, with ``t`` the sums at the lowest candidate ``k`` and beside it, the minimum of the parabola through
them is at ``k + (t[k-1] - t[k+1]) / (2 (t[k-1] - 2 t[k] + t[k+1]))``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.evidence.channels import Channel
from scotopic.settings import MatchingSettings

LARGEST = 32767  #: int16's; a cost this far above the lowest is hopeless, and how hopeless is all the same


def solve_view(
    engine: Any, matching: Any, volume: Any, unit: float, settings: Any, *, is_left: bool
) -> tuple[Any, Any]:
    """Return one view's disparity, to a fraction of a pixel, and its margin in units of the volume's spread.

    Parameters
    ----------
    engine, matching
        The device's steps of this stage and of the matching.
    volume
        ``(D, H, W)`` evidence of the left view.
    unit
        Its spread.
    settings
        With the disparity range at this size.
    """
    steps = settings.evidence.evidence_steps
    costs = engine.whole_costs(volume, unit / steps, settings.matching.min_disparity, is_left=is_left)
    penalties = engine.even_penalties(costs.shape[:2], settings.matching.p2)
    total = matching.aggregate(costs, penalties, settings.matching)
    del costs
    best, margin = matching.select(total, settings.matching)
    return engine.between(total, best, settings.matching.min_disparity), engine.as_float(margin, 1 / steps)


def eased(settings: MatchingSettings, channels: Sequence[Channel]) -> MatchingSettings:
    """Return the settings with the penalties that suit images as clear as these."""
    ease = max([1.0, *(channel.clarity for channel in channels)]) ** -0.5
    return replace(settings, p1=round(settings.p1 * ease), p2=round(settings.p2 * ease))


def reference_costs(volume: NDArray[np.float32], step: float, first: int, *, is_left: bool) -> NDArray[np.int16]:
    """Return one view's costs as whole numbers, ``(H, W, D)``, straight from the definition."""
    candidates, _, width = volume.shape
    sheared = volume if is_left else np.empty_like(volume)
    if not is_left:
        for k in range(candidates):
            sheared[k] = volume[k][:, np.clip(np.arange(width) + first + k, 0, width - 1)]
    above = (sheared - sheared.min(axis=0)) * np.float32(1 / step)
    whole = np.minimum(np.floor(above + np.float32(0.5)), LARGEST)
    return np.asarray(whole.transpose(1, 2, 0), np.int16)
