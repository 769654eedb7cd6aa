"""Triton kernels of the fusion: the siblings of those in ``cpu/fusion_kernels.py``."""

import triton
import triton.language as tl


@triton.jit
def _land(
    i, real, q, width, t00, t01, t02, t10, t11, t12, t20, t21, t22, s0, s1, s2, focal, center, middle, aspect, least
):  # fmt: skip
    """Column, row and ``q`` at which the points of pixels are seen after a motion, see ``fusion/geometry.py``."""
    q = tl.load(q + i, mask=real, other=0.0)
    u, v = (i % width).to(tl.float32) - center, ((i // width).to(tl.float32) - middle) * aspect
    x = u * t00 + (v * t01 + t02 * focal) + q * s0
    y = u * t10 + (v * t11 + t12 * focal) + q * s1
    z = u * t20 + (v * t21 + t22 * focal) + q * s2
    scale = focal / tl.where(tl.abs(z) > least, z, least)
    return x * scale + center, y * scale / aspect + middle, q * scale


@triton.jit
def _land_by(i, real, q, width, p):
    """The same by the numbers of a projection in memory, which a recording can be replayed with others of."""
    return _land(
        i, real, q, width, tl.load(p), tl.load(p + 1), tl.load(p + 2), tl.load(p + 3), tl.load(p + 4), tl.load(p + 5),
        tl.load(p + 6), tl.load(p + 7), tl.load(p + 8), tl.load(p + 9), tl.load(p + 10), tl.load(p + 11),
        tl.load(p + 12), tl.load(p + 13), tl.load(p + 14), tl.load(p + 15), tl.load(p + 16),
    )  # fmt: skip


@triton.jit(do_not_specialize=["numbers", "height", "width"])
def splat(q, front, numbers, height, width, BLOCK: tl.constexpr):
    """The largest ``q`` of the points that land within a pixel of each place. They are not negative, so their bits are
    in the order of their values, and whole numbers can be compared at once.
    """
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    real = i < height * width
    x, y, there = _land_by(i, real, q, width, numbers)
    # Far outside, where whole numbers end, any place outside will do.
    left = tl.floor(tl.minimum(tl.maximum(x, -4.0), width + 4.0)).to(tl.int32)
    top = tl.floor(tl.minimum(tl.maximum(y, -4.0), height + 4.0)).to(tl.int32)
    for corner in tl.static_range(4):
        column, row = left + corner % 2, top + corner // 2
        inside = real & (column >= 0) & (column < width) & (row >= 0) & (row < height) & (there > 0)
        place = tl.where(inside, row * width + column, 0)
        tl.atomic_max(front + place, there.to(tl.int32, bitcast=True), mask=inside, sem="relaxed")


@triton.jit(do_not_specialize=["look", "height", "width"])
def look_back(
    image, counts, q, front, look, total, weight, height, width, hidden, CHANNELS: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """Add what an image shows at the nearest pixel to each point, and its weight, unless something nearer hides it."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    real = i < height * width
    x, y, there = _land_by(i, real, q, width, look)
    worth, gain, offset = tl.load(look + 17), tl.load(look + 18), tl.load(look + 19)
    right, down = tl.load(look + 20).to(tl.int32), tl.load(look + 21).to(tl.int32)
    column = tl.floor(tl.minimum(tl.maximum(x, -4.0), width + 4.0) + 0.5).to(tl.int32)
    row = tl.floor(tl.minimum(tl.maximum(y, -4.0), height + 4.0) + 0.5).to(tl.int32)
    inside = real & (column >= 0) & (column < width) & (row >= 0) & (row < height) & (there > 0)
    nearest = tl.load(front + row * width + column, mask=inside, other=0).to(tl.float32, bitcast=True)
    column, row = column - right, row - down
    is_seen = inside & (nearest <= there + hidden) & (column >= 0) & (column < width) & (row >= 0) & (row < height)
    place = row * width + column
    share = worth * tl.load(counts + place, mask=is_seen, other=0.0)
    tl.store(weight + i, tl.load(weight + i, mask=is_seen, other=0.0) + share, mask=is_seen)
    for c in tl.static_range(CHANNELS):
        value = (tl.load(image + place.to(tl.int64) * CHANNELS + c, mask=is_seen, other=0.0) - offset) / gain
        sums = total + i.to(tl.int64) * CHANNELS + c
        tl.store(sums, tl.load(sums, mask=is_seen, other=0.0) + value * share, mask=is_seen)


@triton.jit(do_not_specialize=["height", "width"])
def compare(
    image, jacobian, weight, q, other, places, sums, height, width, CHANNELS: tl.constexpr, PADDED: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Weighted sums of ``(1, t, s, J)`` times ``(1, t, s)`` over a block of pixels, 9 rows of 3."""
    block, view, views = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    which = tl.program_id(2) * views + view
    area = height * width
    image += view * area * CHANNELS
    jacobian += view * area.to(tl.int64) * (6 * CHANNELS)
    other += view * area * CHANNELS
    i = block * BLOCK + tl.arange(0, BLOCK)
    real = i < area
    x, y, there = _land_by(i, real, q + view * area, width, places + which * 17)
    inside = real & (x >= 0) & (x <= width - 1) & (y >= 0) & (y <= height - 1) & (there > 0)
    x, y = tl.where(inside, x, 0.0), tl.where(inside, y, 0.0)
    left, top = tl.minimum(tl.floor(x), width - 2.0), tl.minimum(tl.floor(y), height - 2.0)
    a, b = (x - left)[None, :], (y - top)[None, :]
    c = tl.arange(0, PADDED)[:, None]
    seen, known = inside[None, :] & (c < CHANNELS), real[None, :] & (c < CHANNELS)
    corner = other + (top.to(tl.int32) * width + left.to(tl.int32))[None, :] * CHANNELS + c
    below = corner + width * CHANNELS
    upper = (1 - a) * tl.load(corner, mask=seen, other=0.0) + a * tl.load(corner + CHANNELS, mask=seen, other=0.0)
    lower = (1 - a) * tl.load(below, mask=seen, other=0.0) + a * tl.load(below + CHANNELS, mask=seen, other=0.0)
    s = (1 - b) * upper + b * lower
    own = i[None, :] * CHANNELS + c
    t = tl.load(image + own, mask=known, other=0.0)
    w = tl.where(seen, tl.load(weight + view * area + i, mask=real, other=0.0)[None, :], 0.0)
    out = sums + (which * 27) * tl.num_programs(0) + block
    for k in tl.static_range(9):
        factor = w
        if k == 1:
            factor = w * t
        if k == 2:
            factor = w * s
        if k > 2:
            factor = w * tl.load(jacobian + (k - 3) * (area * CHANNELS) + own, mask=known, other=0.0)
        tl.store(out, tl.sum(tl.sum(factor, 0), 0))
        tl.store(out + tl.num_programs(0), tl.sum(tl.sum(factor * t, 0), 0))
        tl.store(out + 2 * tl.num_programs(0), tl.sum(tl.sum(factor * s, 0), 0))
        out += 3 * tl.num_programs(0)


@triton.jit
def _compare_part(means, weights, place, inside, area, mean, count, certain, most, CHANNELS: tl.constexpr, c):
    """Misfit of a part of a window with the mean of all newer ones, -1 where either is not seen; that mean with it."""
    added = tl.load(weights + place, mask=inside, other=0.0)
    older = tl.load(means + c * area + place, mask=(c < CHANNELS) & inside, other=0.0)
    difference, share = older - mean, added / tl.maximum(count + added, 1e-6)
    energy = tl.sum(difference * difference * certain, 0) * (count * share / CHANNELS)
    misfit = tl.where((count > 0) & (added > 0), tl.minimum(energy, most), -1.0)
    return misfit, mean + difference * share, count + added


@triton.jit(do_not_specialize=["height", "width", "parts", "margin"])
def velocity_gains(
    means, weights, certainty, steps, gains, height, width, parts, most, margin, CHANNELS: tl.constexpr,
    PADDED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """How much better a velocity fits a block of pixels of a view than rest does."""
    i, velocity, view = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1), tl.program_id(2)
    area, x, y = height * width, i % width, i // width
    inside = (x >= margin) & (x < width - margin) & (y >= margin) & (y < height - margin)
    c = tl.arange(0, PADDED)[:, None]
    certain = tl.load(certainty + (view * CHANNELS + c) * area + i, mask=(c < CHANNELS) & inside, other=0.0)
    mean, count = tl.zeros((PADDED, BLOCK), tl.float32), tl.zeros((BLOCK,), tl.float32)
    rest_mean, rest_count, gain = mean, count, count
    for part in range(parts):
        at = view * parts + part
        there, seen = means + at * CHANNELS * area, weights + at * area
        rest, rest_mean, rest_count = _compare_part(
            there, seen, i, inside, area, rest_mean, rest_count, certain, most, CHANNELS, c
        )
        step = steps + (velocity * parts + part) * 2
        column, row = x - tl.load(step), y - tl.load(step + 1)
        is_there = inside & (column >= 0) & (column < width) & (row >= 0) & (row < height)
        moved, mean, count = _compare_part(
            there, seen, row * width + column, is_there, area, mean, count, certain, most, CHANNELS, c
        )
        gain += tl.where((rest >= 0) & (moved >= 0), rest - moved, 0.0)
    tl.store(gains + (velocity * tl.num_programs(2) + view) * area + i, gain, mask=i < area)
