"""Semi-global matching: costs as integers, path costs along eight directions, and the sub-pixel minimum.

Along each of eight directions, from a place ``p`` (a patch, or a pixel) to its successor ``q``::

    L(q, d) = cost(q, d) + min(L(p, d), L(p, d -+ 1) + P1, min_k L(p, k) + P2(p)) - min_k L(p, k)

The sums over the directions are integers, so neither their order nor the number of threads matters.

**Patches** (``paper``, ``fast``). ``P2(p) = max(P2 exp(-decay S(p)), P2_min)``, floored, where ``S(p)`` is the
strongest boundary inside patch ``p``: a jump in disparity is cheap at a boundary (Wang et al. 2026).

**Pixels** (``best``). Costs are counted from each pixel's lowest one, in steps of ``1 / cost_steps`` of the volume's
spread, the mean over pixels of the standard deviation over disparity, by which it has been divided. ``P1`` and ``P2``
are in the same steps, so they mean the same at any light, but for what :mod:`~scotopic.stages.resolution` takes off.
With fine evidence ``P2`` falls at the edges of the image, where jumps belong (:func:`edge_penalties`). The right view's
volume is the left one sheared: its pixel ``x`` at ``d`` is the left pixel ``x + d`` at ``d``.

**Along surfaces.** Penalties for steps keep floors and walls from being slanted. So the left view is solved a second
time along surfaces: with wide planes laid through the first answer, candidate ``k`` of a pixel means ``k`` steps from
its own surface, ``round(surface(x)) + k``, and following the surface costs nothing (after Scharstein, Taniai and Sinha,
"Semi-global stereo matching with surface orientation priors", 2017). Only the disparity is taken from there: a margin
among candidates that follow the first answer would confirm itself.

**Between the candidates.** The minimum of a parabola through sums of path costs is drawn to whole candidates: both
neighbors pay ``P1``, and census and colors rise like ``|x|``, not like ``x^2``. So where single pixels show enough, the
costs themselves refine the disparity: their minimum lies halfway between the flanks
(:func:`scotopic.subpixel.flank_offset`). As the costs of one pixel are noisy, and its neighbors rarely lie elsewhere,
offsets are averaged over the pixels around, each weighted by the slope of its flanks.
"""

import math

import numpy as np
from numpy.typing import NDArray

from scotopic.arrays import Array
from scotopic.backends.protocol import Backend
from scotopic.constants import DIRECTIONS, MAX_COST
from scotopic.settings import EvidenceMatchingSettings, PatchMatchingSettings
from scotopic.stages.evidence_volume import reference_blur
from scotopic.stages.junctions.fit import Junctions
from scotopic.subpixel import flank_offset

FLAT = 0.02  #: slope, in units of the costs' spread, below which flanks say nothing
LARGEST_CHANGE = 0.75  #: candidates; what would change by more has its minimum elsewhere


def jump_penalties(backend: Backend[Array], junctions: Junctions[Array], settings: PatchMatchingSettings) -> Array:
    """Return ``P2`` of each patch: a jump in disparity is cheap where the patch holds a strong boundary."""
    xp = backend.xp
    if not settings.adaptive_p2:
        return xp.astype(xp.zeros_like(junctions.parameters[..., 0]) + settings.p2, xp.int32)
    rows, columns, _ = junctions.parameters.shape
    strongest = backend.patch_maxima(junctions.boundary_map, (rows, columns), junctions.settings)
    penalties = xp.clip(settings.p2 * xp.exp(-settings.p2_decay * strongest), min=settings.p2_min)
    return xp.astype(xp.floor(penalties), xp.int32)


def edge_penalties(backend: Backend[Array], image: Array, p1: int, p2: int, contrast: float) -> Array:
    """Return ``P2 / (1 + g / contrast)`` of each pixel, at least ``P1``: a jump in disparity is cheap at an edge.

    ``g`` is the larger of the differences to the pixels on the right and below, in the mean of the channels.
    """
    xp = backend.xp
    gray = xp.mean(image, axis=2)
    differences = []
    for axis, length in enumerate(gray.shape):
        successor = xp.take(gray, xp.clip(backend.arange(length) + 1, max=length - 1), axis=axis)
        differences.append(xp.abs(successor - gray))
    penalties = p2 / (1 + xp.maximum(*differences) / contrast)
    return xp.astype(xp.floor(xp.clip(penalties, min=p1)), xp.int32)


def uniform_penalties(backend: Backend[Array], image: Array, p2: int) -> Array:
    """Return the same ``P2`` at every pixel of an image."""
    xp = backend.xp
    return xp.astype(xp.zeros_like(image[..., 0]), xp.int32) + p2


def solve_pixels(
    backend: Backend[Array],
    volume: Array,
    settings: EvidenceMatchingSettings,
    penalties: Array,
    *,
    is_left: bool,
) -> tuple[Array, Array]:
    """Return one view's disparity, with a fraction of a pixel, and its margin in units of the volume's spread.

    Parameters
    ----------
    volume
        ``(D, H, W)`` costs of the left view, normalized.
    settings
        With the disparity range at this size.
    penalties
        ``P2`` of each pixel of the view, int32.
    """
    xp, steps, first = backend.xp, settings.volume.cost_steps, settings.matching.min_disparity
    costs = backend.quantize_costs(volume, 1 / steps, MAX_COST, None if is_left else first)
    totals = backend.aggregate(costs, penalties, settings.matching.p1)
    del costs
    best, margin = backend.select(totals)
    margin = xp.astype(xp.astype(margin, xp.float64) * (1 / steps), xp.float32)
    return backend.subpixel(totals, best, first), margin


def solve_along(
    backend: Backend[Array],
    volume: Array,
    settings: EvidenceMatchingSettings,
    surface: Array,
) -> Array:
    """Return the left view's disparity, solved along a surface, ``(H, W)``; the other arguments as above."""
    xp, first, candidates = backend.xp, settings.matching.min_disparity, len(volume)
    # As many candidates as there are, the surface in their middle.
    start = xp.floor(surface + 0.5) - candidates // 2
    costs = backend.quantize_costs_along(volume, 1 / settings.volume.cost_steps, MAX_COST, start - first)
    penalties = uniform_penalties(backend, costs, settings.matching.p2)
    totals = backend.aggregate(costs, penalties, settings.matching.p1)
    best, _ = backend.select(totals)
    return xp.clip(start + backend.subpixel(totals, best, 0), min=first, max=first + candidates - 1)


def refine_between(backend: Backend[Array], volume: Array, disparity: Array, first: int, reach: float) -> Array:
    """Return the left view's disparity, refined by the costs at the candidates around it.

    Parameters
    ----------
    volume
        ``(D, H, W)`` costs of the left view.
    disparity
        ``(H, W)``, to about one candidate.
    first
        The disparity of the first candidate.
    reach
        Of the Gaussian in which offsets are averaged, in pixels.
    """
    xp, last = backend.xp, volume.shape[0] - 1
    if last < 4:
        return disparity
    own = xp.floor(disparity - first + 0.5)
    nearest = xp.clip(own, min=2, max=last - 2)
    index = xp.astype(nearest, xp.int64)[None]
    slope, offset = flank_offset([xp.take_along_axis(volume, index + k, axis=0)[0] for k in range(-2, 3)], xp)
    # At the ends of the range one flank is missing: what lies around another candidate says nothing of this one.
    slope, offset = (xp.where(nearest == own, each, 0.0) for each in (slope, offset))
    # Counted from the present disparity, which may be another candidate's in the pixels around.
    offset = backend.blur(offset + slope * (nearest + first - disparity), reach)
    change = offset / (backend.blur(slope, reach) + FLAT)
    refined: Array = disparity + xp.clip(change, min=-LARGEST_CHANGE, max=LARGEST_CHANGE)
    return refined


def reference_refined(
    volume: NDArray[np.float64], disparity: NDArray[np.float64], first: int, reach: float
) -> NDArray[np.float64]:
    """Return the refined disparity straight from the definition."""
    offsets, slopes = np.zeros(disparity.shape), np.zeros(disparity.shape)
    for i, j in np.ndindex(*disparity.shape):
        nearest = math.floor(disparity[i, j] - first + 0.5)
        if not 2 <= nearest <= len(volume) - 3:  # one flank is missing
            continue
        far_below, below, _, above, far_above = volume[nearest - 2 : nearest + 3, i, j]
        flank = far_above - above if below > above else far_below - below
        slopes[i, j] = 2 * max(flank, abs(below - above))
        offsets[i, j] = below - above + slopes[i, j] * (nearest + first - disparity[i, j])
    change = reference_blur(offsets, reach) / (reference_blur(slopes, reach) + FLAT)
    return disparity + np.clip(change, -LARGEST_CHANGE, LARGEST_CHANGE)


def reference_aggregate(costs: NDArray[np.int16], penalties: NDArray[np.int32], p1: int) -> NDArray[np.int64]:
    """Return the sum of path costs over eight directions, straight from the definition."""
    rows, columns, candidates = costs.shape
    total = np.zeros(costs.shape, np.int64)
    never = np.iinfo(np.int32).max
    for down, right in DIRECTIONS:
        path = np.zeros(costs.shape, np.int64)
        for i in range(rows)[:: -1 if down < 0 else 1]:
            for j in range(columns)[:: -1 if right < 0 else 1]:
                before_i, before_j = i - down, j - right
                path[i, j] = costs[i, j]
                if 0 <= before_i < rows and 0 <= before_j < columns:
                    before = path[before_i, before_j]
                    nearer = np.append(before[1:], never) + p1
                    farther = np.insert(before[:-1], 0, never) + p1
                    jump = np.full(candidates, before.min() + penalties[before_i, before_j])
                    path[i, j] += np.minimum.reduce([before, nearer, farther, jump]) - before.min()
        total += path
    return total


def reference_quantized(
    volume: NDArray[np.float32], step: float, max_cost: int, shear_from: int | None
) -> NDArray[np.int16]:
    """Return one view's costs as integers, ``(H, W, D)``, straight from the definition."""
    candidates, _, width = volume.shape
    sheared = volume if shear_from is None else np.empty_like(volume)
    if shear_from is not None:
        for k in range(candidates):
            sheared[k] = volume[k][:, np.clip(np.arange(width) + shear_from + k, 0, width - 1)]
    return _reference_steps(sheared.transpose(1, 2, 0), sheared.min(axis=0), step, max_cost)


def reference_quantized_along(
    volume: NDArray[np.float32], step: float, max_cost: int, start: NDArray[np.float32]
) -> NDArray[np.int16]:
    """Return the left view's costs from each pixel's own first candidate; those outside cost as much as the worst."""
    candidates = len(volume)
    index = start.astype(np.int64)[..., None] + np.arange(candidates)
    values = volume.transpose(1, 2, 0)
    along = np.take_along_axis(values, np.clip(index, 0, candidates - 1), axis=2)
    along = np.where((index < 0) | (index >= candidates), values.max(axis=2, keepdims=True), along)
    return _reference_steps(along, volume.min(axis=0), step, max_cost)


def _reference_steps(
    costs: NDArray[np.float32], lowest: NDArray[np.float32], step: float, max_cost: int
) -> NDArray[np.int16]:
    above = (costs - lowest[..., None]) * np.float32(1 / step)
    return np.asarray(np.minimum(np.floor(above + np.float32(0.5)), max_cost), np.int16)
