"""From evidence to disparities: semi-global matching of every pixel, and where between two candidates the minimum lies.

The solver is that of the patches (:mod:`scotopic.matching.sgm`) on the grid of pixels. It wants whole numbers: costs
are counted from each pixel's lowest one, in steps of ``unit / evidence_steps``, where the unit is the volume's own
spread, the mean over the pixels of the standard deviation over disparity. ``P1`` and ``P2`` are in the same steps, so
they mean the same at any light, but for what :mod:`~scotopic.evidence.clarity` takes off. The right view's volume is
the left one sheared: its pixel ``x`` at ``d`` is the left pixel ``x + d`` at ``d``.

**Along surfaces.** Penalties for steps keep floors and walls from being slanted. So the left view is solved a second
time, along surfaces: with wide planes laid through the first answer, candidate ``k`` of a pixel means ``k`` steps from
its own surface, ``round(surface(x)) + k``, and to follow the surface costs nothing (after Scharstein, Taniai and Sinha,
"Semi-global stereo matching with surface orientation priors", 2017). Only the disparity is taken from there: a margin
among candidates that follow the first answer would confirm itself.

Between candidates, with ``t`` the sums at the lowest candidate ``k`` and beside it, the minimum of the parabola through
them is at ``k + (t[k-1] - t[k+1]) / (2 (t[k-1] - 2 t[k] + t[k+1]))``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

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


def solve_along(engine: Any, matching: Any, volume: Any, unit: float, settings: Any, surface: Any) -> Any:
    """Return the left view's disparity, solved along a surface, ``(H, W)``; the other arguments as above."""
    first, candidates = settings.matching.min_disparity, len(volume)
    step = unit / settings.evidence.evidence_steps
    costs, start = engine.costs_along(volume, step, surface, first)
    relative = replace(settings.matching, min_disparity=0, max_disparity=candidates)
    total = matching.aggregate(costs, engine.even_penalties(costs.shape[:2], relative.p2), relative)
    best, _ = matching.select(total, relative)
    return engine.within(start + engine.between(total, best, 0), first, first + candidates - 1)


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


def reference_costs_along(
    volume: NDArray[np.float32], step: float, surface: NDArray[np.float32], first: int
) -> tuple[NDArray[np.int16], NDArray[np.float32]]:
    """Return the left view's costs counted from a surface, and the disparity of each pixel's first candidate.

    As many candidates as there are, the surface in their middle. Those that were not searched cost as much as the
    worst.
    """
    candidates = len(volume)
    start = np.floor(surface + np.float32(0.5)).astype(np.int64) - candidates // 2
    index = start[..., None] - first + np.arange(candidates)
    values = volume.transpose(1, 2, 0)
    along = np.take_along_axis(values, np.clip(index, 0, candidates - 1), axis=2)
    along = np.where((index < 0) | (index >= candidates), values.max(axis=2, keepdims=True), along)
    above = (along - values.min(axis=2, keepdims=True)) * np.float32(1 / step)
    whole = np.minimum(np.floor(above + np.float32(0.5)), LARGEST)
    return whole.astype(np.int16), start.astype(np.float32)
