"""Numba kernels of the classical baseline. Its path aggregation is that of :mod:`scotopic.matching`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float32, njit, prange

# No fast math: the running sums must come out the same on every machine.
_PLAIN: dict[str, Any] = {"error_model": "numpy", "cache": True, "nogil": True}


@njit(**_PLAIN)
def _add_line(left, partners, y, sign, columns):
    """Add, or take away, the squared differences of one line to the column sums ``(W, D)``."""
    width, candidates = columns.shape
    for x in range(width):
        sums = columns[x]
        start = width - 1 - x
        for c in range(left.shape[0]):
            value = left[c, y, x]
            others = partners[c, y, start : start + candidates]
            for k in range(candidates):
                difference = value - others[k]
                sums[k] += sign * difference * difference


@njit(parallel=True, **_PLAIN)
def ssd_volume(left, partners, candidates, radius, band):
    """Mean squared difference over a square window, ``(H, W, D)`` float32, edges replicated.

    ``left`` is ``(C, H, W)``. ``partners`` is the right view mirrored, ``(C, H, W + D - 1)``: the partner of column
    ``x`` at disparity ``d`` is its column ``W - 1 - x + d``. Bands of ``band`` lines each begin their running sums
    anew, so the rounding depends on the band and not on the number of threads.
    """
    channels, height, width = left.shape
    volume = np.empty((height, width, candidates), np.float32)
    weight = float32(1.0 / (channels * (2 * radius + 1) ** 2))
    for index in prange((height + band - 1) // band):
        top = np.int64(index) * band
        columns = np.zeros((width, candidates), np.float32)
        across = np.empty(candidates, np.float32)
        for y in range(top - radius, top + radius + 1):
            _add_line(left, partners, min(max(y, 0), height - 1), float32(1), columns)
        for y in range(top, min(top + band, height)):
            if y > top:
                _add_line(left, partners, min(y + radius, height - 1), float32(1), columns)
                _add_line(left, partners, max(y - radius - 1, 0), float32(-1), columns)
            across[:] = 0
            for x in range(-radius, radius + 1):
                across += columns[min(max(x, 0), width - 1)]
            for x in range(width):
                costs = volume[y, x]
                entering, leaving = columns[min(x + radius + 1, width - 1)], columns[max(x - radius, 0)]
                for k in range(candidates):
                    costs[k] = max(across[k], float32(0)) * weight
                    across[k] += entering[k] - leaving[k]
    return volume
