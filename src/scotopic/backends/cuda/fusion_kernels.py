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


@triton.jit(do_not_specialize=["height", "width"])
def splat(
    q, front, height, width, t00, t01, t02, t10, t11, t12, t20, t21, t22, s0, s1, s2, focal, center, middle, aspect,
    least, BLOCK: tl.constexpr,
):  # fmt: skip
    """The largest ``q`` of the points that land within a pixel of each place. They are not negative, so their bits are
    in the order of their values, and whole numbers can be compared at once.
    """
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    real = i < height * width
    x, y, there = _land(
        i, real, q, width, t00, t01, t02, t10, t11, t12, t20, t21, t22, s0, s1, s2, focal, center, middle, aspect, least
    )  # fmt: skip
    # Far outside, where whole numbers end, any place outside will do.
    left = tl.floor(tl.minimum(tl.maximum(x, -4.0), width + 4.0)).to(tl.int32)
    top = tl.floor(tl.minimum(tl.maximum(y, -4.0), height + 4.0)).to(tl.int32)
    for corner in tl.static_range(4):
        column, row = left + corner % 2, top + corner // 2
        inside = real & (column >= 0) & (column < width) & (row >= 0) & (row < height) & (there > 0)
        place = tl.where(inside, row * width + column, 0)
        tl.atomic_max(front + place, there.to(tl.int32, bitcast=True), mask=inside, sem="relaxed")


@triton.jit(do_not_specialize=["height", "width"])
def look_back(
    image, q, front, seen, is_seen, height, width, hidden, t00, t01, t02, t10, t11, t12, t20, t21, t22, s0, s1, s2,
    focal, center, middle, aspect, least, CHANNELS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """What an image shows at the nearest pixel to each point, and whether nothing nearer hides it."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    real = i < height * width
    x, y, there = _land(
        i, real, q, width, t00, t01, t02, t10, t11, t12, t20, t21, t22, s0, s1, s2, focal, center, middle, aspect, least
    )  # fmt: skip
    column = tl.floor(tl.minimum(tl.maximum(x, -4.0), width + 4.0) + 0.5).to(tl.int32)
    row = tl.floor(tl.minimum(tl.maximum(y, -4.0), height + 4.0) + 0.5).to(tl.int32)
    inside = real & (column >= 0) & (column < width) & (row >= 0) & (row < height) & (there > 0)
    place = tl.where(inside, row * width + column, 0)
    nearest = tl.load(front + place, mask=inside, other=0).to(tl.float32, bitcast=True)
    tl.store(is_seen + i, (inside & (nearest <= there + hidden)).to(tl.int8), mask=real)
    for c in tl.static_range(CHANNELS):
        value = tl.load(image + place.to(tl.int64) * CHANNELS + c, mask=real, other=0.0)
        tl.store(seen + i.to(tl.int64) * CHANNELS + c, value, mask=real)


@triton.jit(do_not_specialize=["height", "width", "blocks"])
def compare(
    image, jacobian, weight, q, other, sums, height, width, blocks, t00, t01, t02, t10, t11, t12, t20, t21, t22, s0, s1,
    s2, focal, center, middle, aspect, least, CHANNELS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Weighted sums of ``(1, t, s, J)`` times ``(1, t, s)`` over a block of pixels, 9 rows of 3."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    real = i < height * width
    x, y, there = _land(
        i, real, q, width, t00, t01, t02, t10, t11, t12, t20, t21, t22, s0, s1, s2, focal, center, middle, aspect, least
    )  # fmt: skip
    inside = real & (x >= 0) & (x <= width - 1) & (y >= 0) & (y <= height - 1) & (there > 0)
    x, y = tl.where(inside, x, 0.0), tl.where(inside, y, 0.0)
    left, top = tl.minimum(tl.floor(x), width - 2.0), tl.minimum(tl.floor(y), height - 2.0)
    a, b = x - left, y - top
    at = (top.to(tl.int32) * width + left.to(tl.int32)) * CHANNELS
    w = tl.where(inside, tl.load(weight + i, mask=real, other=0.0), 0.0)
    area = height.to(tl.int64) * width * CHANNELS
    block = tl.program_id(0)
    for c in tl.static_range(CHANNELS):
        corner = other + at + c
        below = width * CHANNELS
        upper = (1 - a) * tl.load(corner, mask=inside, other=0.0) + a * tl.load(
            corner + CHANNELS, mask=inside, other=0.0
        )
        lower = (1 - a) * tl.load(corner + below, mask=inside, other=0.0) + a * tl.load(
            corner + below + CHANNELS, mask=inside, other=0.0
        )
        s = (1 - b) * upper + b * lower
        t = tl.load(image + i * CHANNELS + c, mask=real, other=0.0)
        out = sums + (c * 27) * blocks + block
        for k in tl.static_range(9):
            factor = w
            if k == 1:
                factor = w * t
            if k == 2:
                factor = w * s
            if k > 2:
                factor = w * tl.load(jacobian + (k - 3) * area + i * CHANNELS + c, mask=real, other=0.0)
            tl.store(out + (3 * k) * blocks, tl.sum(factor, 0))
            tl.store(out + (3 * k + 1) * blocks, tl.sum(factor * t, 0))
            tl.store(out + (3 * k + 2) * blocks, tl.sum(factor * s, 0))
