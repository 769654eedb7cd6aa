"""Numba kernels of the evidence: products of features, whole costs, planes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float32, int64, njit, prange

from scotopic.evidence.planes import STEP
from scotopic.evidence.solve import LARGEST

_FAST: dict[str, Any] = {"fastmath": True, "error_model": "numpy", "cache": True, "nogil": True}


@njit(parallel=True, **_FAST)
def add_products(left, right, shift, out):
    """``out(y, x) += sum over features of left(y, x) * right(y, x - shift)``, the last columns repeated."""
    features, height, width = left.shape
    for y in prange(height):
        line = out[y]
        for f in range(features):
            a, b = left[f, y], right[f, y]
            first, last = min(max(shift, 0), width), max(min(width + shift, width), 0)
            for x in range(first):
                line[x] += a[x] * b[0]
            for x in range(first, last):
                line[x] += a[x] * b[x - shift]
            for x in range(max(first, last), width):
                line[x] += a[x] * b[width - 1]


@njit(parallel=True, **_FAST)
def spread_of_rows(volume):
    """Sum along each row of pixels of the standard deviation over disparity."""
    candidates, height, width = volume.shape
    out = np.zeros(height)
    for y in prange(height):
        total, square = np.zeros(width), np.zeros(width)
        for k in range(candidates):
            for x in range(width):
                total[x] += volume[k, y, x]
        for x in range(width):
            total[x] /= candidates
        for k in range(candidates):
            for x in range(width):
                off = volume[k, y, x] - total[x]
                square[x] += off * off
        for x in range(width):
            out[y] += (square[x] / candidates) ** 0.5
    return out


@njit(parallel=True, **_FAST)
def whole_costs(volume, scale, first, is_left):
    """Costs above each pixel's lowest, times ``scale``, rounded: ``(H, W, D)``; sheared for the right view."""
    candidates, height, width = volume.shape
    out = np.empty((height, width, candidates), np.int16)
    for y in prange(height):
        row = np.empty((width, candidates), np.float32)
        for k in range(candidates):
            shift = 0 if is_left else int64(first) + k
            line = volume[k, y]
            for x in range(width):
                row[x, k] = line[min(max(x + shift, 0), width - 1)]
        for x in range(width):
            costs = row[x]
            lowest = costs[0]
            for k in range(candidates):
                lowest = min(lowest, costs[k])
            for k in range(candidates):
                value = np.floor((costs[k] - lowest) * scale + float32(0.5))
                out[y, x, k] = np.int16(min(value, float32(LARGEST)))
    return out


@njit(parallel=True, **_FAST)
def lay_planes(disparity, sure, present, sigma, tau, ridge):
    """One round of local planes; see ``planes.py``."""
    height, width = disparity.shape
    out = np.empty((height, width), np.float32)
    reach = 2 * int64(sigma)
    count = 2 * reach // STEP + 1
    bell = np.empty(count, np.float32)
    for k in range(count):
        offset = k * STEP - reach
        bell[k] = np.exp(-offset * offset / (2 * sigma * sigma))
    sharpness = float32(-0.5 / (tau * tau))
    for i in prange(height):
        for j in range(width):
            s0, sx, sy, sxx, sxy, syy = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
            t0, tx, ty = 0.0, 0.0, 0.0
            here = present[i, j]
            for p in range(count):
                y = p * STEP - reach
                if i + y < 0 or i + y >= height:
                    continue
                for q in range(count):
                    x = q * STEP - reach
                    if j + x < 0 or j + x >= width:
                        continue
                    jump = present[i + y, j + x] - here
                    w = sure[i + y, j + x] * bell[p] * bell[q] * np.exp(sharpness * jump * jump)
                    e = disparity[i + y, j + x] - here
                    s0 += w
                    sx += w * x
                    sy += w * y
                    sxx += w * x * x
                    sxy += w * x * y
                    syy += w * y * y
                    t0 += w * e
                    tx += w * x * e
                    ty += w * y * e
            mx, my, level = sx / s0, sy / s0, t0 / s0
            a, b, c = sxx / s0 - mx * mx + ridge, sxy / s0 - mx * my, syy / s0 - my * my + ridge
            px, py = tx / s0 - mx * level, ty / s0 - my * level
            determinant = a * c - b * b
            gx, gy = (px * c - py * b) / determinant, (py * a - px * b) / determinant
            out[i, j] = here + level - gx * mx - gy * my
    return out
