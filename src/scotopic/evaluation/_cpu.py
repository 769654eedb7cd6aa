"""Numba kernels of the window metric and of the classical baseline.

``metrics.reference_window_error`` and ``methods.classical.reference_ssd_volume`` are the same, written for reading.
"""

from typing import Any

import numpy as np
from numba import float32, njit

# No fast math: the window error equals its reference to the last bit, unknown values stay what they are, and running
# sums come out the same on every machine.
_PLAIN: dict[str, Any] = {"error_model": "numpy", "cache": True, "nogil": True, "no_cfunc_wrapper": True}


@njit(**_PLAIN)
def window_error(prediction, truth, half):
    """Smallest ``|prediction - truth|`` over the truth at most ``half`` pixels away along each axis, ``(H, W)``.

    Both are float64. Unknown truth is infinite and an unknown prediction NaN; the error is NaN where nothing is known.
    A line of pixels is compared with one shift of a line of truth after the other, several at a time, so that whole
    vector registers are filled and nothing is stored but the maps. One thread: it is fast enough, and a benchmark has
    scenes to fill the others with.
    """
    height, width = prediction.shape
    reach = min(half, width - 1)  # what lies beyond an edge is a repetition of what is in the window already
    lines = np.empty((height, width + 2 * reach))
    lines[:] = np.inf
    for y in range(height):  # not as slices: Numba needs seconds to compile what it says if their sizes differ
        for x in range(width):
            lines[y, reach + x] = truth[y, x]
    error = np.empty((height, width))
    for y in range(height):
        here, best = prediction[y], error[y]
        best[:] = np.inf
        for near in range(max(0, y - half), min(height, y + half + 1)):
            line = lines[near]
            shift = 0
            while shift + 4 <= 2 * reach + 1:
                t0, t1 = line[shift : shift + width], line[shift + 1 : shift + 1 + width]
                t2, t3 = line[shift + 2 : shift + 2 + width], line[shift + 3 : shift + 3 + width]
                for x in range(width):
                    e, p = best[x], here[x]
                    e0, e1, e2, e3 = abs(p - t0[x]), abs(p - t1[x]), abs(p - t2[x]), abs(p - t3[x])
                    # Comparisons with NaN are false: the error of an unknown prediction stays infinite.
                    e = e0 if e0 < e else e
                    e = e1 if e1 < e else e
                    e = e2 if e2 < e else e
                    best[x] = e3 if e3 < e else e
                shift += 4
            while shift <= 2 * reach:
                t0 = line[shift : shift + width]
                for x in range(width):
                    e0 = abs(here[x] - t0[x])
                    best[x] = e0 if e0 < best[x] else best[x]
                shift += 1
        for x in range(width):
            if best[x] == np.inf:
                best[x] = np.nan
    return error


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


@njit(**_PLAIN)
def ssd_volume(first, stop, left, partners, radius, band, volume):
    """Mean squared difference over a square window, ``(H, W, D)`` float32, edges replicated, of some bands of lines.

    ``left`` is ``(C, H, W)``. ``partners`` is the right view mirrored, ``(C, H, W + D - 1)``: the partner of column
    ``x`` at disparity ``d`` is its column ``W - 1 - x + d``. Bands of ``band`` lines each begin their running sums
    anew, so the rounding depends on the band and not on the number of threads.
    """
    channels, height, width = left.shape
    candidates = volume.shape[2]
    columns, across = np.empty((width, candidates), np.float32), np.empty(candidates, np.float32)
    weight = float32(1.0 / (channels * (2 * radius + 1) ** 2))
    for top in range(first * band, min(stop * band, height), band):
        columns[:] = 0
        for y in range(top - radius, top + radius + 1):
            _add_line(left, partners, min(max(y, 0), height - 1), float32(1), columns)
        for y in range(top, min(top + band, height)):
            if y > top:
                _add_line(left, partners, min(y + radius, height - 1), float32(1), columns)
                _add_line(left, partners, max(y - radius - 1, 0), float32(-1), columns)
            across[:] = 0
            for x in range(-radius, radius + 1):
                sums = columns[min(max(x, 0), width - 1)]
                for k in range(candidates):
                    across[k] += sums[k]
            for x in range(width):
                costs = volume[y, x]
                entering, leaving = columns[min(x + radius + 1, width - 1)], columns[max(x - radius, 0)]
                for k in range(candidates):
                    costs[k] = max(across[k], float32(0)) * weight
                    across[k] += entering[k] - leaving[k]
