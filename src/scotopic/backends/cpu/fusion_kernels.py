"""Numba kernels of the fusion: points carried along by a motion, and pairs compared at their places."""

from typing import Any

import numpy as np
from numba import float32, njit

_FAST: dict[str, Any] = {"fastmath": True, "error_model": "numpy", "nogil": True, "no_cfunc_wrapper": True}
_INLINE: dict[str, Any] = {**_FAST, "forceinline": True, "no_cpython_wrapper": True}  # see ``junction_kernels.py``


@njit(**_INLINE)
def _land(row, column, q, p):
    """Column, row and ``q`` at which a point is seen after a motion, see ``fusion/geometry.py``."""
    focal, center, middle, aspect, least = p[12], p[13], p[14], p[15], p[16]
    u, v = float32(column) - center, (float32(row) - middle) * aspect
    x = u * p[0] + (v * p[1] + p[2] * focal) + q * p[9]
    y = u * p[3] + (v * p[4] + p[5] * focal) + q * p[10]
    z = u * p[6] + (v * p[7] + p[8] * focal) + q * p[11]
    scale = focal / (z if abs(z) > least else least)
    return x * scale + center, y * scale / aspect + middle, q * scale


@njit(cache=True, **_FAST)
def splat(q, p, front):
    """The largest ``q`` of the points that land within a pixel of each place; by one thread, since all write there."""
    height, width = q.shape
    for i in range(height):
        for j in range(width):
            x, y, there = _land(i, j, q[i, j], p)
            if there <= 0 or not (-1 <= x < width and -1 <= y < height):
                continue
            left, top = int(np.floor(x)), int(np.floor(y))
            for row in range(max(top, 0), min(top + 2, height)):
                for column in range(max(left, 0), min(left + 2, width)):
                    front[row, column] = max(front[row, column], there)


@njit(cache=True, **_FAST)
def look_back(first, stop, image, q, front, p, hidden, seen, is_seen):
    """What an image shows at the nearest pixel to each point, and whether nothing nearer hides it."""
    height, width, channels = image.shape
    for i in range(first, stop):
        for j in range(width):
            x, y, there = _land(i, j, q[i, j], p)
            row, column = 0, 0
            is_seen[i, j] = False
            if there > 0 and -0.5 <= x < width - 0.5 and -0.5 <= y < height - 0.5:
                row, column = int(np.floor(y + float32(0.5))), int(np.floor(x + float32(0.5)))
                row, column = min(row, height - 1), min(column, width - 1)
                is_seen[i, j] = front[row, column] <= there + hidden
            for c in range(channels):
                seen[i, j, c] = image[row, column, c]


@njit(cache=True, **_FAST)
def compare(first, stop, image, jacobian, weight, q, other, p, sums):
    """Weighted sums of ``(1, t, s, J)`` times ``(1, t, s)`` over each row of pixels, ``(H, 9, 3)``."""
    height, width, channels = image.shape
    for i in range(first, stop):
        total = sums[i]
        for j in range(width):
            x, y, there = _land(i, j, q[i, j], p)
            w = weight[i, j]
            if w == 0 or there <= 0 or not (0 <= x <= width - 1 and 0 <= y <= height - 1):
                continue
            left, top = min(int(x), width - 2), min(int(y), height - 2)
            a, b = x - float32(left), y - float32(top)
            for c in range(channels):
                upper = (1 - a) * other[top, left, c] + a * other[top, left + 1, c]
                lower = (1 - a) * other[top + 1, left, c] + a * other[top + 1, left + 1, c]
                s, t = (1 - b) * upper + b * lower, image[i, j, c]
                total[0, 0] += w
                total[0, 1] += w * t
                total[0, 2] += w * s
                total[1, 1] += w * t * t
                total[1, 2] += w * t * s
                total[2, 2] += w * s * s
                for k in range(6):
                    factor = w * jacobian[k, i, j, c]
                    total[3 + k, 0] += factor
                    total[3 + k, 1] += factor * t
                    total[3 + k, 2] += factor * s
        total[1, 0], total[2, 0], total[2, 1] = total[0, 1], total[0, 2], total[1, 2]
