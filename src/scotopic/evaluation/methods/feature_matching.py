"""Semi-global matching of features: each pixel of a view has a vector, and similar pixels have similar ones.

The cost of disparity ``d`` at a left pixel is ``-<left(x), right(x - d)>``; beyond the edge the right view is continued
by replication. Path costs along eight directions (:mod:`scotopic.stages.sgm`) with the same ``P1`` and ``P2``
everywhere, in the units of the cost, and the minimum of a parabola. The right view's costs are the left ones, sheared.
"""

import numpy as np

from scotopic.backends import cpu_backend
from scotopic.constants import MAX_COST
from scotopic.evaluation.method import Map

_P1_STEPS = 64  # costs are whole numbers: P1 is this many


def match_features(left: Map, right: Map, max_disparity: int, p1: float, p2: float) -> tuple[Map, Map]:
    """Return the disparities of the left and of the right view, given the features ``(H, W, F)`` of each."""
    backend = cpu_backend()
    volume = product_volume(left, right, min(max_disparity, left.shape[1]))
    step = p1 / _P1_STEPS
    found = []
    for shear_from in (None, 0):
        costs = backend.quantize_costs(volume, step, MAX_COST, shear_from)
        penalties = np.full(costs.shape[:2], min(round(p2 / step), MAX_COST), np.int32)
        totals = backend.aggregate(costs, penalties, _P1_STEPS)
        best, _ = backend.select(totals)
        found.append(np.asarray(backend.subpixel(totals, best, 0), np.float32))
    return found[0], found[1]


def product_volume(left: Map, right: Map, candidates: int) -> Map:
    """Return the costs ``-<left(x), right(max(x - d, 0))>``, ``(D, H, W)`` float32."""
    height, width = left.shape[:2]
    columns = np.arange(width)
    partners = np.maximum(columns - np.arange(candidates)[:, None], 0)
    volume = np.empty((candidates, height, width), np.float32)
    for y in range(height):
        # All pairs of a row at once: one matrix product is faster than many short inner products.
        volume[:, y] = -(left[y] @ right[y].T)[columns, partners]
    return volume
