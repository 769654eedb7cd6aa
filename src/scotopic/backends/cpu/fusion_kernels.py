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
def splat(first, stop, q, places, fronts):
    """The largest ``q`` of the points that land within a pixel of each place; each front by one thread alone."""
    height, width = q.shape
    for number in range(first, stop):
        p, front = places[number], fronts[number]
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
def look_back(first, stop, image, counts, q, front, look, hidden, total, weight):
    """Add what an image shows at the nearest pixel to each point, and its weight, unless something nearer hides it."""
    height, width, channels = image.shape
    worth, gain, offset, right, down = look[17], look[18], look[19], int(look[20]), int(look[21])
    for i in range(first, stop):
        for j in range(width):
            x, y, there = _land(i, j, q[i, j], look)
            if there <= 0 or not (-0.5 <= x < width - 0.5 and -0.5 <= y < height - 0.5):
                continue
            row, column = int(np.floor(y + float32(0.5))), int(np.floor(x + float32(0.5)))
            row, column = min(row, height - 1), min(column, width - 1)
            if front[row, column] > there + hidden:
                continue
            row, column = row - down, column - right
            if 0 <= row < height and 0 <= column < width:
                share = worth * counts[row, column]
                weight[i, j] += share
                for c in range(channels):
                    total[i, j, c] += (image[row, column, c] - offset) / gain * share


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


@njit(cache=True, **_FAST)
def velocity_gains(first, stop, means, weights, certainty, steps, most, margin, gains):
    """How much better each velocity fits some rows than rest does, ``(velocities, V, H, W)``, 0 to begin with.

    Whole rows at a time, without a branch inside, so that vectors of pixels are computed.
    """
    views, parts, channels, height, width = means.shape
    mean, count = np.empty((channels, width), np.float32), np.empty(width, np.float32)
    share, factor, energy = np.empty(width, np.float32), np.empty(width, np.float32), np.empty(width, np.float32)
    rest = np.empty((parts, width), np.float32)
    for i in range(max(first, margin), min(stop, height - margin)):
        for view in range(views):
            for velocity in range(-1, len(steps)):  # rest comes first, as -1
                for j in range(width):
                    count[j] = 0
                    for c in range(channels):
                        mean[c, j] = 0
                for part in range(parts):
                    right, down = (0, 0) if velocity < 0 else (steps[velocity, part, 0], steps[velocity, part, 1])
                    row = i - down
                    if not 0 <= row < height:
                        continue
                    start, end = max(right, margin), min(width + right, width - margin)
                    count_here, seen = count[start:end], weights[view, part, row, start - right : end - right]
                    for j in range(end - start):
                        before, added = count_here[j], seen[j]
                        share[j] = added / max(before + added, float32(1e-6))
                        factor[j] = before * share[j] / float32(channels)  # 1 / (1 / before + 1 / added), for the mean
                        count_here[j] = before + added
                        energy[j] = 0
                    for c in range(channels):
                        newer, certain = mean[c, start:end], certainty[view, c, i, start:end]
                        older = means[view, part, c, row, start - right : end - right]
                        for j in range(end - start):
                            difference = older[j] - newer[j]
                            energy[j] += difference * difference * certain[j]
                            newer[j] += difference * share[j]
                    at_rest = rest[part, start:end]
                    if velocity < 0:
                        for j in range(end - start):
                            at_rest[j] = min(energy[j] * factor[j], most) if factor[j] > 0 else float32(-1)
                        continue
                    gain = gains[velocity, view, i, start:end]
                    for j in range(end - start):
                        is_counted = factor[j] > 0 and at_rest[j] >= 0
                        gain[j] += at_rest[j] - min(energy[j] * factor[j], most) if is_counted else float32(0)
