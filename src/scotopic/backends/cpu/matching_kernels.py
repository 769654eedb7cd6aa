"""Numba kernels of the matching: cost volume, path aggregation, selection."""

from typing import Any

import numpy as np
from numba import float32, int32, njit

_FAST: dict[str, Any] = {"fastmath": True, "error_model": "numpy", "nogil": True, "no_cfunc_wrapper": True}
# Helpers become part of each kernel. Left as functions, several compiled copies of one exist, fast math rounds each in
# its own way, and which one a kernel calls depends on whether it was compiled in this process or loaded from the cache.
# Nobody else calls them, so they need no place in the cache and no wrapper for Python, which take longer than they do.
_INLINE: dict[str, Any] = {**_FAST, "forceinline": True, "no_cpython_wrapper": True}
_NEVER = int32(1 << 30)


@njit(**_INLINE)
def _correlate(rows, patch, size, lines, start, step, line_sum, total):
    """``total[k] += sum over pixels of patch(y, x) * rows(y, start + step * x + k)``, all candidates k at once.

    A line of the patch is summed in float32, the lines in float64: the costs of neighboring disparities differ little,
    and the matching floors them to whole numbers.
    """
    n = total.size
    for y in range(lines):
        row = rows[y]
        line_sum[:] = 0
        x = 0
        while x + 4 <= size:
            at = y * size + x
            c0, c1, c2, c3 = patch[at], patch[at + 1], patch[at + 2], patch[at + 3]
            a = start + step * x
            m0, m1 = row[a : a + n], row[a + step : a + step + n]
            m2, m3 = row[a + 2 * step : a + 2 * step + n], row[a + 3 * step : a + 3 * step + n]
            for k in range(n):
                line_sum[k] += c0 * m0[k] + c1 * m1[k] + c2 * m2[k] + c3 * m3[k]
            x += 4
        while x < size:
            c0 = patch[y * size + x]
            a = start + step * x
            m0 = row[a : a + n]
            for k in range(n):
                line_sum[k] += c0 * m0[k]
            x += 1
        for k in range(n):
            total[k] += line_sum[k]


@njit(**_INLINE)
def _column_squares(planes, top, lines, width):
    """Running sum over columns of the squares in a band of lines: the squares of columns a..b are out[b] - out[a]."""
    out = np.zeros(width + 1)
    for c in range(planes.shape[0]):
        for i in range(top, top + lines):
            for j in range(width):
                out[j + 1] += planes[c, i, j] * planes[c, i, j]
    for j in range(width):
        out[j + 1] += out[j]
    return out


@njit(**{**_INLINE, "fastmath": False})
def _cost(first, own, second, cross, third, rebuilt):
    """The weighted sum of the three terms as the published implementation rounds it.

    Each mean is a float32 and so is each sum; without this about one patch in 700 falls to the other side of a floor.
    Fast math would reorder the sum, and is inherited from the caller unless switched off here.
    """
    return float32(own) * float32(first) + float32(rebuilt) * float32(third) + float32(cross) * float32(second)


@njit(cache=True, **_FAST)
def cost_row(
    painted, planes, size, stride, top, height, width, image, plain, image_lines, plain_lines, before, first, is_left,
    own, cross, rebuilt, costs,
):  # fmt: skip
    """Raw costs of one row of patches into ``costs``, ``(columns, D)``; -1 where under half of a patch has a partner.

    ``(C - I)^2``, ``(P - G)^2`` and ``(C - G)^2`` are expanded: the squares are sums over columns, and correlations
    remain: of ``C`` with ``I`` and ``G`` per patch, of ``P`` with ``G`` per column of pixels.

    ``painted`` is ``(columns, C, R * R)``, the patches' reconstructions. ``planes`` is this view's image in whole
    patches (``height`` x ``width`` of it are real); ``image`` and ``plain`` are the other view's raw image and
    reconstruction, ``image_lines`` and ``plain_lines`` the same with zeros around each line, which begins
    at ``before`` and is mirrored for the left view. All are centered alike.
    """
    columns, candidates = costs.shape
    channels = planes.shape[0]
    step = -1 if is_left else 1
    lines = min(size, height - top)
    image_squares = _column_squares(image, top, lines, width)
    plain_squares = _column_squares(plain, top, lines, width)
    raw_squares = _column_squares(planes, top, lines, width)
    products = np.zeros((width, candidates), np.float32)  # P G, summed over the lines
    if cross > 0:
        for j in range(width):
            start = before + first + (width - 1 - j if is_left else j)
            for c in range(channels):
                for i in range(top, top + lines):
                    value = planes[c, i, j]
                    partners = plain_lines[c, i, start : start + candidates]
                    for k in range(candidates):
                        products[j, k] += value * partners[k]

    line_sum = np.empty(candidates, np.float32)
    with_image, with_plain, raw_with_plain = np.empty(candidates), np.empty(candidates), np.empty(candidates)
    for column in range(columns):
        left = column * stride
        across = min(size, width - left)
        patch = painted[column]
        for c in range(channels):  # padding is no part of the image
            for i in range(lines):
                patch[c, i * size + across : (i + 1) * size] = 0
        painted_squares = _column_squares(patch.reshape(channels, size, size), 0, lines, across)
        with_image[:] = 0
        with_plain[:] = 0
        raw_with_plain[:] = 0
        start = before + first + (width - 1 - left if is_left else left)
        for c in range(channels):
            _correlate(image_lines[c, top:], patch[c], size, lines, start, step, line_sum, with_image)
            if rebuilt > 0:
                _correlate(plain_lines[c, top:], patch[c], size, lines, start, step, line_sum, with_plain)
        if cross > 0:
            for j in range(left, left + across):
                for k in range(candidates):
                    raw_with_plain[k] += products[j, k]
        for k in range(candidates):
            shift = step * (first + k)
            begin, end = max(left, -shift), min(left + across, width - shift)
            pixels = lines * (end - begin)
            if end <= begin or 2 * pixels < size * size:
                costs[column, k] = -1
                continue
            own_square = painted_squares[end - left] - painted_squares[begin - left]
            raw_square = raw_squares[end] - raw_squares[begin]
            image_square = image_squares[end + shift] - image_squares[begin + shift]
            plain_square = plain_squares[end + shift] - plain_squares[begin + shift]
            n = float(pixels * channels)
            cost = _cost(
                (own_square + image_square - 2 * with_image[k]) / n, own,
                (raw_square + plain_square - 2 * raw_with_plain[k]) / n, cross,
                (own_square + plain_square - 2 * with_plain[k]) / n, rebuilt,
            )  # fmt: skip
            costs[column, k] = max(cost, float32(0))


@njit(**_INLINE)
def _line_start(line, rows, columns, down, right):
    """First patch of the line-th path in a direction: paths begin on the sides that they come from."""
    if down == 0:
        return line, (0 if right > 0 else columns - 1)
    first_row = 0 if down > 0 else rows - 1
    if right == 0 or line < columns:
        return first_row, line
    return first_row + down * (line - columns + 1), (0 if right > 0 else columns - 1)


@njit(**_INLINE)
def _follow_path(volume, penalties, small_step, i, j, down, right, total):
    """Add the path costs along one line of patches, from ``(i, j)`` to the end of the grid."""
    rows, columns, candidates = volume.shape
    # One cell of padding on each side stands for "no such disparity".
    before, after = np.empty(candidates + 2, np.int32), np.empty(candidates + 2, np.int32)
    before[:] = 0
    before[0] = before[-1] = after[0] = after[-1] = _NEVER
    lowest, jump = int32(0), int32(0)
    while 0 <= i < rows and 0 <= j < columns:
        costs, sums = volume[i, j], total[i, j]
        ceiling = lowest + jump
        for k in range(candidates):
            step = min(before[k], before[k + 2]) + small_step
            after[k + 1] = int32(costs[k]) + min(min(before[k + 1], step), ceiling) - lowest
        lowest = _NEVER
        for k in range(candidates):
            sums[k] += after[k + 1]
            lowest = min(lowest, after[k + 1])
        before, after = after, before
        jump = penalties[i, j]
        i += down
        j += right


@njit(cache=True, **_FAST)
def aggregate(first, stop, volume, penalties, p1, down, right, total):
    """Add the path costs of some paths in one direction to ``total``, ``(rows, columns, D)``."""
    rows, columns, _ = volume.shape
    for path in range(first, stop):
        i, j = _line_start(path, rows, columns, down, right)
        _follow_path(volume, penalties, int32(p1), i, j, down, right, total)


@njit(cache=True, **_FAST)
def select(first, stop, total, best, margin):
    """Index of the lowest sum of each patch (first on a tie), and how far above it the best distant rival is."""
    _, columns, candidates = total.shape
    for i in range(first, stop):
        for j in range(columns):
            sums = total[i, j]
            at = 0
            for k in range(candidates):
                if sums[k] < sums[at]:
                    at = k
            rival = _NEVER
            for k in range(candidates):
                if abs(k - at) > 1:
                    rival = min(rival, sums[k])
            best[i, j] = at
            margin[i, j] = rival - sums[at] if rival < _NEVER else 0
