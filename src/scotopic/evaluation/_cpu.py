"""Numba kernel of the window metric; ``metrics.reference_window_error`` is the same written for reading."""

from __future__ import annotations

import numpy as np
from numba import njit


# Not fast math: the result is equal to the reference to the last bit, and unknown values must stay what they are.
@njit(error_model="numpy", cache=True, nogil=True)
def window_error(prediction, truth, half):
    """Smallest ``|prediction - truth|`` over the truth at most ``half`` pixels away along each axis, ``(H, W)``.

    Both are float64. Unknown truth is infinite and an unknown prediction NaN; the error is NaN where nothing is known.
    A line of pixels is compared with one shift of a line of truth after the other, several at a time, so that whole
    vector registers are filled and nothing is stored but the maps. One thread: it is fast enough, and a benchmark has
    scenes to fill the others with.
    """
    height, width = prediction.shape
    reach = min(half, width - 1)  # what lies beyond an edge is a repetition of what is in the window already
    lines = np.full((height, width + 2 * reach), np.inf)
    lines[:, reach : reach + width] = truth
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
