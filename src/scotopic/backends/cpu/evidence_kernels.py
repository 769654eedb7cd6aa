"""Numba kernels of the evidence: groups of patches, products of features, quantized costs, planes."""

from functools import lru_cache
from typing import Any

import numpy as np
from numba import float32, int16, int64, njit

# Fast math assumes finite numbers, so nothing here is infinite.
_FAST: dict[str, Any] = {"fastmath": True, "error_model": "numpy", "nogil": True, "no_cfunc_wrapper": True}
_INLINE: dict[str, Any] = {**_FAST, "forceinline": True, "no_cpython_wrapper": True}  # see ``junction_kernels.py``
_FARTHEST = float32(3e38)


@lru_cache(maxsize=4)
def make_find_groups(size: int) -> Any:
    """Return the kernel that finds similar patches of this size.

    The size is compiled in, so that the short sums over a patch are unrolled; Numba keeps one version per size.
    """

    @njit(cache=True, **_FAST)
    def find_groups(first, stop, pilot, rows, columns, reach, out):
        """The patches most similar to each patch, itself first: ``y * (W - size + 1) + x``, ``(rows, columns, count)``.

        For each offset the squared differences of each line are computed once, summed down the patches that hold it,
        then along.
        """
        channels, height, width = pilot.shape
        last_y, last_x = height - size, width - size
        count = out.shape[2]
        begin_y, end_y = rows[first], rows[stop - 1] + size
        nearest = np.empty((stop - first, columns.size, count), np.float32)
        lines, down = np.empty((end_y - begin_y, width), np.float32), np.empty(width, np.float32)
        for i in range(first, stop):
            for j in range(columns.size):
                for k in range(count):
                    nearest[i - first, j, k] = _FARTHEST
                    out[i, j, k] = rows[i] * (last_x + 1) + columns[j]
                nearest[i - first, j, 0] = -1.0
        for dy in range(max(-reach, -rows[stop - 1]), min(reach, last_y - begin_y) + 1):
            for dx in range(-reach, reach + 1):
                if dy == 0 and dx == 0:
                    continue
                begin, end = max(0, -dx), min(width, width - dx)
                for y in range(max(begin_y, -dy), min(end_y, height - dy)):
                    line = lines[y - begin_y, begin:end]
                    for c in range(channels):
                        here, there = pilot[c, y, begin:end], pilot[c, y + dy, begin + dx : end + dx]
                        if c == 0:
                            for x in range(here.size):
                                off = here[x] - there[x]
                                line[x] = off * off
                        else:
                            for x in range(here.size):
                                off = here[x] - there[x]
                                line[x] += off * off
                for i in range(first, stop):
                    top = rows[i]
                    if top + dy < 0 or top + dy > last_y:
                        continue
                    line = lines[top - begin_y]
                    for x in range(begin, end):
                        down[x] = line[x]
                    for y in range(top + 1 - begin_y, top + size - begin_y):
                        line = lines[y]
                        for x in range(begin, end):
                            down[x] += line[x]
                    for j in range(columns.size):
                        left = columns[j]
                        if left + dx < 0 or left + dx > last_x:
                            continue
                        apart = float32(0.0)
                        for x in range(left, left + size):
                            apart += down[x]
                        far = nearest[i - first, j]
                        if apart < far[count - 1]:
                            k = count - 1
                            while far[k - 1] > apart:
                                far[k], out[i, j, k] = far[k - 1], out[i, j, k - 1]
                                k -= 1
                            far[k], out[i, j, k] = apart, (top + dy) * (last_x + 1) + left + dx

    return find_groups


@njit(**_INLINE)
def _hadamard(group):
    """The transform along the first axis, in place, but for the factor ``1 / sqrt(count)``."""
    count, length = group.shape
    step = 1
    while step < count:
        for start in range(0, count, 2 * step):
            for k in range(start, start + step):
                for f in range(length):
                    a, b = group[k, f], group[k + step, f]
                    group[k, f], group[k + step, f] = a + b, a - b
        step *= 2


@njit(cache=True, **_FAST)
def transform_patches(first, stop, plane, along, out):
    """The frequencies of every patch of some rows of a plane, ``(rows, columns, size, size)``: down it, then along."""
    size, width = along.shape[0], plane.shape[1]
    columns = out.shape[1]
    down, across = np.empty((size, width), np.float32), np.empty((size, size), np.float32)
    for j in range(size):
        for v in range(size):
            across[j, v] = along[v, j]  # so that frequencies lie side by side
    for y in range(first, stop):
        for u in range(size):
            for x in range(width):
                down[u, x] = along[u, 0] * plane[y, x]
            for i in range(1, size):
                for x in range(width):
                    down[u, x] += along[u, i] * plane[y + i, x]
        for x in range(columns):
            for u in range(size):
                here = out[y, x, u]
                for v in range(size):
                    here[v] = down[u, x] * across[0, v]
                for j in range(1, size):
                    value = down[u, x + j]
                    for v in range(size):
                        here[v] += value * across[j, v]


@njit(cache=True, **_FAST)
def filter_groups(first, stop, groups, noisy, clear, variance, filtered, confidence):
    """The filtered first patch of each group, as frequencies, and one over the noise left in it.

    ``noisy`` and ``clear`` hold the frequencies of every patch of the image and of the pilot.
    """
    count, length = groups.shape[1], noisy.shape[1]
    y, p = np.empty((count, length), np.float32), np.empty((count, length), np.float32)
    # Unscaled transforms are sqrt(count) times too large, their squares count times.
    noise = variance * float32(count)
    for i in range(first, stop):
        for k in range(count):
            at = groups[i, k]
            for f in range(length):
                y[k, f], p[k, f] = noisy[at, f], clear[at, f]
        _hadamard(y)
        _hadamard(p)
        left = float32(0.0)
        filtered[i, :] = 0.0
        for k in range(count):
            for f in range(length):
                square = p[k, f] * p[k, f]
                gain = square / (square + noise)
                left += gain * gain
                filtered[i, f] += gain * y[k, f]
        for f in range(length):
            filtered[i, f] /= float32(count)
        confidence[i] = float32(1.0) / max(left, float32(1.0))


@njit(cache=True, **_FAST)
def add_products(left, right, shift, out):
    """``out(y, x) += sum over features of left(y, x) * right(y, x - shift)``, the last columns repeated."""
    features, height, width = left.shape
    first, last = min(max(shift, 0), width), max(min(width + shift, width), 0)
    for y in range(height):
        line = out[y]
        for f in range(features):
            a, b = left[f, y], right[f, y]
            for x in range(first):
                line[x] += a[x] * b[0]
            if first < last:
                here, there, middle = a[first:last], b[first - shift : last - shift], line[first:last]
                for x in range(middle.size):
                    middle[x] += here[x] * there[x]
            for x in range(max(first, last), width):
                line[x] += a[x] * b[width - 1]


@njit(**_INLINE)
def add_apart(a, b, total):
    """Add how far two features of some pixels are apart.

    As the larger less the smaller, which the compiler does with bytes; ``abs`` takes it to numbers of 64 bits.
    """
    for k in range(total.size):
        total[k] += int16(max(a[k], b[k]) - min(a[k], b[k]))


@njit(cache=True, **_FAST)
def census_costs(left, right, shift, out):
    """Mean of ``|left(y, x) - right(y, x - shift)|`` over the features, the last columns repeated."""
    features, height, width = left.shape
    total = np.empty(width, np.int16)  # 127 features would fit
    first, last = min(max(shift, 0), width), max(min(width + shift, width), 0)
    for y in range(height):
        for x in range(width):
            total[x] = 0
        for f in range(features):
            a, b = left[f, y], right[f, y]
            for x in range(first):
                total[x] += int16(max(a[x], b[0]) - min(a[x], b[0]))
            if first < last:
                add_apart(a[first:last], b[first - shift : last - shift], total[first:last])
            for x in range(max(first, last), width):
                total[x] += int16(max(a[x], b[width - 1]) - min(a[x], b[width - 1]))
        for x in range(width):
            out[y, x] = total[x] / float32(features)


@njit(cache=True, **_FAST)
def spread_of_rows(first, stop, volume, out):
    """Sum along each row of pixels of the standard deviation over disparity."""
    candidates, _, width = volume.shape
    total, square = np.empty(width), np.empty(width)
    for y in range(first, stop):
        total[:] = 0
        square[:] = 0
        out[y] = 0
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


@njit(cache=True, **_FAST)
def quantize(first, stop, volume, scale, max_cost, nearest, is_left, out):
    """Costs above each pixel's lowest, times ``scale``, rounded: ``(H, W, D)``; sheared for the right view."""
    candidates, _, width = volume.shape
    row = np.empty((width, candidates), np.float32)
    for y in range(first, stop):
        for k in range(candidates):
            shift = 0 if is_left else int64(nearest) + k
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
                out[y, x, k] = np.int16(min(value, float32(max_cost)))


@njit(cache=True, **_FAST)
def quantize_along(first, stop, volume, scale, max_cost, start, out):
    """Costs above each pixel's lowest, counted from its own first candidate ``start``: ``(H, W, D)``."""
    candidates, _, width = volume.shape
    row = np.empty((width, candidates), np.float32)
    for y in range(first, stop):
        for k in range(candidates):
            line = volume[k, y]
            for x in range(width):
                row[x, k] = line[x]
        for x in range(width):
            costs = row[x]
            lowest, highest = costs[0], costs[0]
            for k in range(candidates):
                lowest, highest = min(lowest, costs[k]), max(highest, costs[k])
            for k in range(candidates):
                place = int64(start[y, x]) + k
                value = costs[place] if 0 <= place < candidates else highest
                out[y, x, k] = np.int16(min(np.floor((value - lowest) * scale + float32(0.5)), float32(max_cost)))


@njit(cache=True, **_FAST)
def add_votes(
    first, stop, view, disparity, down, along, weights, places, sharpness, vote_weight, unusual, held, floor, volume
):
    """The costs of the votes of pixels of like color, added to some rows of a volume; see ``stages/votes.py``."""
    height, width, channels = view.shape
    candidates = volume.shape[0]
    votes = np.empty(candidates, np.float32)
    for i in range(first, stop):
        for j in range(width):
            for d in range(candidates):
                votes[d] = held / float32(candidates)
            total = held
            for k in range(places.shape[0]):
                y, x = i + places[k, 0], j + places[k, 1]
                if y < 0 or y >= height or x < 0 or x >= width:
                    continue
                apart = float32(0.0)
                for c in range(channels):
                    off = view[y, x, c] - view[i, j, c]
                    apart += off * off
                count = weights[y, x] * np.exp(sharpness * apart / float32(channels))
                level = disparity[y, x] - float32(places[k, 0]) * down[y, x] - float32(places[k, 1]) * along[y, x]
                level = min(max(level, float32(0.0)), float32(candidates - 1))
                middle = int64(level)
                for d in range(max(middle - 1, 0), min(middle + 3, candidates)):
                    given = count * (float32(0.5) - float32(0.25) * abs(float32(d) - level))
                    votes[d] += given
                    total += given
            own = weights[i, j] * unusual
            trust = vote_weight / (float32(1.0) + own * own)
            for d in range(candidates):
                volume[d, i, j] -= trust * np.log(votes[d] / total + floor)


@njit(**_INLINE)
def weigh_alike(here, there, weights, factor, sharpness, out):
    """``factor weights exp(-sharpness (there - here)^2)`` of some neighbors.

    ``exp(-t)`` is computed as the 32nd power of a polynomial: without a table or a branch, so that several neighbors
    are computed at a time. Its relative error is a few millionths; above ``t = 20`` it is larger, but there the weight
    is next to nothing.
    """
    for k in range(out.size):
        jump = there[k] - here[k]
        u = min(sharpness * jump * jump, float32(40)) * float32(1 / 32)
        power = float32(1 / 5040) * u - float32(1 / 720)
        power = power * u + float32(1 / 120)
        power = power * u - float32(1 / 24)
        power = power * u + float32(1 / 6)
        power = power * u - float32(1 / 2)
        power = power * u + float32(1)
        power = float32(1) - power * u
        power *= power
        power *= power
        power *= power
        power *= power
        power *= power
        out[k] = factor * weights[k] * power


@njit(**_INLINE)
def add_along(weights, x, total, first, second):
    """Add the weights of neighbors ``x`` columns away, and these times ``x`` and ``x^2``."""
    for k in range(weights.size):
        total[k] += weights[k]
        first[k] += x * weights[k]
        second[k] += x * x * weights[k]


@njit(**_INLINE)
def add_values_along(weights, values, here, x, total, first):
    """Add what neighbors ``x`` columns away are above the pixels, weighted, and the same times ``x``."""
    for k in range(weights.size):
        off = weights[k] * (values[k] - here[k])
        total[k] += off
        first[k] += x * off


@njit(**_INLINE)
def add_times(total, values, factor):
    """Add the values times a factor."""
    for k in range(values.size):
        total[k] += factor * values[k]


# Sums over a row of neighbors are of w, w x, w x^2, w d and w d x. Which of them, and which power of the distance y of
# the row, make the sums of w, w x, w y, w x^2, w x y, w y^2, w d, w d x and w d y.
_MOMENTS = ((0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (0, 2), (3, 0), (4, 0), (3, 1))


@njit(cache=True, **_FAST)
def fit_planes(first, stop, disparity, weights, present, sigma, tau, ridge, spacing, out):
    """One round of local planes; see ``stages/surfaces.py``.

    One neighbor of all pixels of a row follows the other, so that several pixels are summed up at a time. The sums over
    a row of neighbors are multiplied by powers of their distance once.
    """
    height, width = disparity.shape
    reach = 2 * int64(sigma)
    count = 2 * reach // spacing + 1
    bell = np.empty(count, np.float32)
    for k in range(count):
        offset = k * spacing - reach
        bell[k] = np.exp(-offset * offset / (2 * sigma * sigma))
    sharpness = float32(0.5 / (tau * tau))
    weighed, rows, sums = np.empty(width, np.float32), np.empty((5, width), np.float32), np.empty((9, width))
    for i in range(first, stop):
        here = present[i]
        for k in range(9):
            for j in range(width):
                sums[k, j] = 0.0
        for p in range(count):
            y = p * spacing - reach
            if i + y < 0 or i + y >= height:
                continue
            for k in range(5):
                for j in range(width):
                    rows[k, j] = float32(0)
            for q in range(count):
                x = q * spacing - reach
                begin, end = max(0, -x), min(width, width - x)
                if begin >= end:
                    continue
                near, w, middle = slice(begin + x, end + x), weighed[begin:end], here[begin:end]
                weigh_alike(middle, present[i + y, near], weights[i + y, near], bell[p] * bell[q], sharpness, w)
                s, sx, sxx = rows[0, begin:end], rows[1, begin:end], rows[2, begin:end]
                add_along(w, float32(x), s, sx, sxx)
                t, tx = rows[3, begin:end], rows[4, begin:end]
                add_values_along(w, disparity[i + y, near], middle, float32(x), t, tx)
            for k in range(9):
                row, power = _MOMENTS[k]
                add_times(sums[k], rows[row], float(y**power))
        for j in range(width):
            s0 = sums[0, j]
            mx, my, level = sums[1, j] / s0, sums[2, j] / s0, sums[6, j] / s0
            a, b, c = sums[3, j] / s0 - mx * mx + ridge, sums[4, j] / s0 - mx * my, sums[5, j] / s0 - my * my + ridge
            px, py = sums[7, j] / s0 - mx * level, sums[8, j] / s0 - my * level
            determinant = a * c - b * b
            gx, gy = (px * c - py * b) / determinant, (py * a - px * b) / determinant
            out[i, j] = here[j] + level - gx * mx - gy * my
