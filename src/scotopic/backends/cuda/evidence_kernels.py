"""Triton kernels of the evidence: the siblings of those in ``cpu/evidence_kernels.py``."""

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


@triton.jit(do_not_specialize=["features", "height", "width", "first"])
def census_costs(left, right, volume, features, height, width, first, BLOCK: tl.constexpr):
    """Mean of ``|left(y, x) - right(y, x - first - k)|`` over the features, the last columns repeated."""
    k, y = tl.program_id(2), tl.program_id(1)
    x = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = x < width
    partner = tl.minimum(tl.maximum(x - first - k, 0), width - 1)
    area = height.to(tl.int64) * width
    line = y.to(tl.int64) * width
    total = tl.zeros((BLOCK,), tl.int32)
    for f in range(features):
        own = tl.load(left + f * area + line + x, mask=inside, other=0).to(tl.int32)
        total += tl.abs(own - tl.load(right + f * area + line + partner, mask=inside, other=0).to(tl.int32))
    tl.store(volume + k * area + line + x, total.to(tl.float32) / features, mask=inside)


@triton.jit(do_not_specialize=["height", "width"])
def fit_planes(
    disparity, weights, present, out, height, width, shape, sharpness, ridge, REACH: tl.constexpr, STEP: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """One round of local planes, see ``stages/surfaces.py``; ``shape`` and ``sharpness`` are the weights' exponents."""
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
            w = tl.load(weights + there, mask=inside, other=0.0) * tl.exp(
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


@triton.jit(do_not_specialize=["height", "width", "columns", "channels", "reach"])
def patch_distances(
    pilot, apart, height, width, columns, channels, reach,
    SIZE: tl.constexpr, EVERY: tl.constexpr, SHIFTS: tl.constexpr, PIXELS: tl.constexpr, PATCHES: tl.constexpr,
):  # fmt: skip
    """Squared differences of each patch and those around it: one program per stretch of a row of patches and line of
    offsets. Patches beyond the edge are infinitely unlike; a patch itself is nearer than any other.

    A tile is ``SHIFTS`` offsets along the line x ``PIXELS`` columns: differences are summed down the columns, and the
    columns of each patch by a product with ones and zeros, so that patches that overlap share the differences.
    """
    row, k = tl.program_id(1), tl.program_id(2)
    stretch: tl.constexpr = (PIXELS - SIZE) // EVERY + 1  # patches that lie in the tile as a whole
    first = tl.program_id(0) * stretch
    side = 2 * reach + 1
    top, other_top = row * EVERY, row * EVERY + k - reach
    pixel, shift, patch = tl.arange(0, PIXELS), tl.arange(0, SHIFTS), tl.arange(0, PATCHES)
    x = first * EVERY + pixel
    there_x = x[None, :] + shift[:, None] - reach
    here_x, there_x = tl.minimum(x, width - 1), tl.minimum(tl.maximum(there_x, 0), width - 1)
    total = tl.zeros((SHIFTS, PIXELS), tl.float32)
    for c in range(channels):
        plane = pilot + c * height.to(tl.int64) * width
        for y in range(SIZE):
            # Lines that are not there are read from the edge; what comes out is not used.
            there_y = tl.minimum(tl.maximum(other_top + y, 0), height - 1)
            here = tl.load(plane + (top + y) * width + here_x)
            off = tl.load(plane + there_y * width + there_x) - here[None, :]
            total += off * off
    begins = patch * EVERY
    covered = (pixel[:, None] >= begins[None, :]) & (pixel[:, None] < begins[None, :] + SIZE)
    distance = tl.dot(total, covered.to(tl.float32), input_precision="ieee")

    column = first + patch
    exists = (patch < stretch) & (column < columns)
    other_left = (column * EVERY)[None, :] + shift[:, None] - reach
    seen = (other_left >= 0) & (other_left + SIZE <= width) & ((other_top >= 0) & (other_top + SIZE <= height))
    distance = tl.where(seen, distance, float("inf"))
    itself = (shift == reach) & (k == reach)
    distance = tl.where(itself[:, None], -1.0, distance)
    at = (row * columns + column).to(tl.int64)[None, :] * side * side + k * side + shift[:, None]
    tl.store(apart + at, distance, mask=exists[None, :] & (shift < side)[:, None])


@triton.jit(do_not_specialize=["width", "columns", "reach"])
def nearest_patches(
    apart, groups, width, columns, reach,
    SIZE: tl.constexpr, EVERY: tl.constexpr, COUNT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The ``COUNT`` patches most like each patch, as places ``y * (width - SIZE + 1) + x``."""
    patch = tl.program_id(0).to(tl.int64)
    side = 2 * reach + 1
    offset = tl.arange(0, BLOCK)
    distance = tl.load(apart + patch * side * side + offset, mask=offset < side * side, other=float("inf"))
    top, left = (patch // columns) * EVERY, (patch % columns) * EVERY
    for k in range(COUNT):
        best = tl.argmin(distance, axis=0)
        y, x = top + best // side - reach, left + best % side - reach
        tl.store(groups + patch * COUNT + k, (y * (width - SIZE + 1) + x).to(tl.int32))
        distance = tl.where(offset == best, float("inf"), distance)


@triton.jit
def filter_groups(
    groups, seen, clear, along_group, first, quiet, variance, COUNT: tl.constexpr, LENGTH: tl.constexpr
):  # fmt: skip
    """The filtered first patch of each group, as frequencies, and one over the noise left in it."""
    patch = tl.program_id(0).to(tl.int64)
    member, frequency = tl.arange(0, COUNT), tl.arange(0, LENGTH)
    place = tl.load(groups + patch * COUNT + member).to(tl.int64)
    at = place[:, None] * LENGTH + frequency[None, :]
    transform = tl.load(along_group + member[:, None] * COUNT + member[None, :])
    y = tl.dot(transform, tl.load(seen + at), input_precision="ieee")
    p = tl.dot(transform, tl.load(clear + at), input_precision="ieee")
    gain = p * p / (p * p + variance)
    # The inverse transform of the first patch alone: the first column of a Hadamard matrix is the same everywhere.
    tl.store(first + patch * LENGTH + frequency, tl.sum(gain * y, axis=0) * tl.load(along_group))
    tl.store(quiet + patch, 1.0 / tl.maximum(tl.sum(gain * gain), 1.0))
