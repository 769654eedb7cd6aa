"""Triton kernels of the evidence: the siblings of those in ``_cpu.py``."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["features", "height", "width", "first"])
def add_products(left, right, volume, features, height, width, first, BLOCK: tl.constexpr):
    """``volume(k, y, x) += sum over features of left(y, x) * right(y, x - first - k)``, the last columns repeated."""
    k, y = tl.program_id(2), tl.program_id(1)
    x = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = x < width
    partner = tl.minimum(tl.maximum(x - first - k, 0), width - 1)
    area = height.to(tl.int64) * width
    line = y.to(tl.int64) * width
    total = tl.load(volume + k * area + line + x, mask=inside, other=0.0)
    for f in range(features):
        own = tl.load(left + f * area + line + x, mask=inside, other=0.0)
        total += own * tl.load(right + f * area + line + partner, mask=inside, other=0.0)
    tl.store(volume + k * area + line + x, total, mask=inside)


@triton.jit(do_not_specialize=["height", "width"])
def lay_planes(
    disparity, sure, present, out, height, width, shape, sharpness, ridge, REACH: tl.constexpr, STEP: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """One round of local planes, see ``planes.py``; ``shape`` and ``sharpness`` are the exponents of the weights."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    real = i < height.to(tl.int64) * width
    row, column = i // width, i % width
    here = tl.load(present + i, mask=real, other=0.0)
    nothing = tl.zeros((BLOCK,), tl.float32)
    s0, sx, sy, sxx, sxy, syy = nothing, nothing, nothing, nothing, nothing, nothing
    t0, tx, ty = nothing, nothing, nothing
    for y in range(-REACH, REACH + 1, STEP):
        for x in range(-REACH, REACH + 1, STEP):
            inside = real & (row + y >= 0) & (row + y < height) & (column + x >= 0) & (column + x < width)
            there = i + y * width + x
            jump = tl.load(present + there, mask=inside, other=0.0) - here
            e = tl.load(disparity + there, mask=inside, other=0.0) - here
            w = tl.load(sure + there, mask=inside, other=0.0) * tl.exp(
                shape * (x * x + y * y) + sharpness * jump * jump
            )
            s0 += w
            sx += w * x
            sy += w * y
            sxx += w * (x * x)
            sxy += w * (x * y)
            syy += w * (y * y)
            t0 += w * e
            tx += w * x * e
            ty += w * y * e
    s0 = tl.where(real, s0, 1.0)
    mx, my, level = sx / s0, sy / s0, t0 / s0
    a, b, c = sxx / s0 - mx * mx + ridge, sxy / s0 - mx * my, syy / s0 - my * my + ridge
    px, py = tx / s0 - mx * level, ty / s0 - my * level
    determinant = a * c - b * b
    gx, gy = (px * c - py * b) / determinant, (py * a - px * b) / determinant
    tl.store(out + i, here + level - gx * mx - gy * my, mask=real)
