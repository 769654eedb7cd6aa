"""Triton kernels of the matching: the siblings of those in ``_cpu.py`` and of the NumPy steps beside it.

Every sum that decides something is either of whole numbers, whose order does not matter, or taken by one program in one
order; so results repeat to the bit.
"""

from __future__ import annotations

import triton
import triton.language as tl

_NEVER = tl.constexpr(1 << 30)


@triton.jit
def _pair_of(packed):
    """The two float32 that lie beside each other in a word of 64 bits."""
    return packed.to(tl.int32).to(tl.float32, bitcast=True), (packed >> 32).to(tl.int32).to(tl.float32, bitcast=True)


@triton.jit(do_not_specialize=["first_patch", "columns", "height", "width", "first", "candidates"])
def costs(
    patches, other, volume, first_patch, columns, height, width, first, candidates, own, cross, rebuilt,
    SIZE: tl.constexpr, STRIDE: tl.constexpr, CHANNELS: tl.constexpr, STEP: tl.constexpr, ACROSS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Raw costs of one patch at a block of disparities; -1 where under half of the patch has a partner.

    A word of ``patches``, those of this launch, is a pixel's reconstruction and its raw value; one of ``other``, the
    other view, ``(C, height, width)``, is a raw value and the mean map. Loads are what this kernel waits for, so two
    numbers come with each; and differences are squared as they are, which costs less than it would save to expand.
    """
    patch = first_patch + tl.program_id(0)
    top, left = (patch // columns) * STRIDE, (patch % columns) * STRIDE
    k = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    shift = STEP * (first + k)
    lines, across = tl.minimum(height - top, SIZE), tl.minimum(width - left, SIZE)
    patches += tl.program_id(0).to(tl.int64) * (CHANNELS * SIZE * SIZE)
    other += top.to(tl.int64) * width
    area = height.to(tl.int64) * width

    x = tl.arange(0, ACROSS)
    nothing = tl.zeros((ACROSS, BLOCK), tl.float32)
    first_term, second_term, third_term = (
        tl.zeros((BLOCK,), tl.float64), tl.zeros((BLOCK,), tl.float64), tl.zeros((BLOCK,), tl.float64)
    )  # fmt: skip
    for start in range(0, SIZE, ACROSS):
        inside = start + x < across
        partner = (left + start + x)[:, None] + shift[None, :]
        valid = inside[:, None] & (partner >= 0) & (partner < width)
        # A column is summed in float32, the columns in float64: costs of neighboring disparities differ little, and
        # the matching floors them to whole numbers.
        one, two, three = nothing, nothing, nothing
        for line in range(lines):
            for c in tl.static_range(CHANNELS):
                here = tl.load(patches + (c * SIZE + line) * SIZE + start + x, mask=inside, other=0)
                there = tl.load(other + c * area + line * width + partner, mask=valid, other=0)
                mine, seen = _pair_of(here[:, None])
                raw, mean = _pair_of(there)
                one += (mine - raw) * (mine - raw)
                two += (seen - mean) * (seen - mean)
                three += (mine - mean) * (mine - mean)
        # Where there is no partner it was compared with zero; those columns are dropped whole.
        first_term += tl.sum(tl.where(valid, one, 0.0).to(tl.float64), 0)
        second_term += tl.sum(tl.where(valid, two, 0.0).to(tl.float64), 0)
        third_term += tl.sum(tl.where(valid, three, 0.0).to(tl.float64), 0)
    begin, end = tl.maximum(left, -shift), tl.minimum(left + across, width - shift)
    pixels = lines * (end - begin)
    n = tl.maximum(pixels * CHANNELS, 1).to(tl.float64)
    # Each mean is a float32 and so is each sum, as the published implementation rounds them (see ``_cpu.py``).
    first_term, second_term = (first_term / n).to(tl.float32), (second_term / n).to(tl.float32)
    third_term = (third_term / n).to(tl.float32)
    cost = own * first_term + rebuilt * third_term + cross * second_term
    cost = tl.where((end > begin) & (2 * pixels >= SIZE * SIZE), cost, -1.0)
    tl.store(volume + patch.to(tl.int64) * candidates + k, cost, mask=k < candidates)


@triton.jit
def extremes(volume, lowest, highest, invalid, n, BLOCK: tl.constexpr):
    """Of one block of raw costs: the lowest valid one, the highest, and whether there is an invalid one."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    costs = tl.load(volume + i, mask=i < n, other=0.0)
    valid = (costs >= 0) & (i < n)
    tl.store(lowest + tl.program_id(0), tl.min(tl.where(valid, costs, float("inf")), 0))
    tl.store(highest + tl.program_id(0), tl.max(tl.where(valid, costs, -1.0), 0))
    tl.store(invalid + tl.program_id(0), tl.max(((costs < 0) & (i < n)).to(tl.int32), 0))


@triton.jit
def scale(volume, scaled, low, top, n, volume_range, BLOCK: tl.constexpr):
    """Scale ``low..top`` to ``0..volume_range`` and floor; invalid cells get ``volume_range``."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    costs = tl.load(volume + i, mask=i < n, other=0.0)
    lowest, highest = tl.load(low), tl.load(top)
    # A correctly rounded division, as NumPy's: the floor that follows sees every bit of it.
    share = tl.div_rn(costs - lowest, tl.broadcast_to(highest - lowest, costs.shape))
    cell = tl.where(costs < 0, volume_range, tl.floor(share * volume_range))
    tl.store(scaled + i, tl.where(highest > lowest, cell, 0.0).to(tl.int16), mask=i < n)


@triton.jit(do_not_specialize=["columns", "height", "width"])
def penalties_of(
    boundary_map, penalties, columns, height, width, p2, p2_min, decay, SIZE: tl.constexpr, STRIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """``P2`` of one patch, from the strongest boundary in it."""
    patch = tl.program_id(0)
    top, left = (patch // columns) * STRIDE, (patch % columns) * STRIDE
    strongest = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, SIZE * SIZE, BLOCK):
        i = start + tl.arange(0, BLOCK)
        y, x = top + i // SIZE, left + i % SIZE
        inside = (i < SIZE * SIZE) & (y < height) & (x < width)
        strongest = tl.maximum(strongest, tl.load(boundary_map + y.to(tl.int64) * width + x, mask=inside, other=0.0))
    penalty = tl.maximum(p2 * tl.exp(-decay * tl.max(strongest, 0)), p2_min)
    tl.store(penalties + patch, tl.floor(penalty).to(tl.int32))


@triton.jit(do_not_specialize=["columns", "candidates", "p1"])
def follow_path(volume, penalties, paths, total, columns, candidates, p1, BLOCK: tl.constexpr):
    """Add the path costs along one path, which ``paths`` gives as first row and column, step down and right, length.

    Paths of all directions run at once: what they add are whole numbers, so it does not matter who is first.
    """
    paths += 5 * tl.program_id(0)
    i, j, down, right = tl.load(paths), tl.load(paths + 1), tl.load(paths + 2), tl.load(paths + 3)
    k = tl.arange(0, BLOCK)
    real = k < candidates
    nearer, farther = tl.maximum(k - 1, 0), tl.minimum(k + 1, BLOCK - 1)
    before = tl.where(real, 0, _NEVER)
    lowest, jump = 0, 0
    for _ in range(tl.load(paths + 4)):
        patch = i * columns + j
        here = patch.to(tl.int64) * candidates + k
        costs = tl.load(volume + here, mask=real, other=0).to(tl.int32)
        step = tl.minimum(
            tl.where(k > 0, tl.gather(before, nearer, 0), _NEVER),
            tl.where(k < BLOCK - 1, tl.gather(before, farther, 0), _NEVER),
        )
        before = costs + tl.minimum(tl.minimum(before, step + p1), lowest + jump) - lowest
        before = tl.where(real, before, _NEVER)
        tl.atomic_add(total + here, before, mask=real, sem="relaxed")
        lowest = tl.min(before, 0)
        jump = tl.load(penalties + patch)
        i += down
        j += right


@triton.jit(do_not_specialize=["first", "candidates"])
def select(total, disparity, margin, first, candidates, BLOCK: tl.constexpr):
    """The disparity of the lowest sum of one patch (first on a tie), and how far above the best distant rival is."""
    patch = tl.program_id(0)
    k = tl.arange(0, BLOCK)
    sums = tl.load(total + patch.to(tl.int64) * candidates + k, mask=k < candidates, other=_NEVER)
    lowest = tl.min(sums, 0)
    at = tl.min(tl.where(sums == lowest, k, BLOCK), 0)
    rival = tl.min(tl.where(tl.abs(k - at) > 1, sums, _NEVER), 0)
    tl.store(disparity + patch, first + at)
    tl.store(margin + patch, tl.where(rival < _NEVER, rival - lowest, 0))


@triton.jit(do_not_specialize=["rows", "columns", "height", "width"])
def spread(
    values, pixels, rows, columns, height, width, SIZE: tl.constexpr, STRIDE: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """The mean value of the patches that contain each pixel. The values are whole numbers, so the sum is exact."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    y, x = i // width, i % width
    inside = i < height.to(tl.int64) * width
    reach: tl.constexpr = (SIZE + STRIDE - 1) // STRIDE
    last_row, last_column = tl.minimum(y // STRIDE, rows - 1), tl.minimum(x // STRIDE, columns - 1)
    total, count = tl.zeros((BLOCK,), tl.int64), tl.zeros((BLOCK,), tl.int32)
    for a in tl.static_range(reach):
        row = last_row - a
        for b in tl.static_range(reach):
            column = last_column - b
            over = inside & (row >= 0) & (column >= 0) & (row * STRIDE + SIZE > y) & (column * STRIDE + SIZE > x)
            total += tl.load(values + row * columns + column, mask=over, other=0)
            count += over.to(tl.int32)
    mean = total.to(tl.float64) / tl.maximum(count, 1).to(tl.float64)
    tl.store(pixels + i, mean.to(tl.float32), mask=inside)


@triton.jit(do_not_specialize=["n", "width", "p1"])
def check(
    left, right, margin, left_boundaries, right_boundaries, disparity, confidence, reason, n, width, p1,
    boundary_threshold, left_right_threshold, min_confidence, MASK_RIGHT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The left-right check of ``consistency.check_views``, pixel by pixel; the numbers are those of ``Reason``."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    x = i % width
    own = tl.load(left + i, mask=inside, other=0.0)
    landing = x.to(tl.float32) - own
    partner = i - x + tl.minimum(tl.maximum(landing, 0.0), (width - 1).to(tl.float32)).to(tl.int64)
    difference = tl.abs(own - tl.load(right + partner, mask=inside, other=0.0))
    clarity = 1.0 - tl.exp(-tl.load(margin + i, mask=inside, other=0.0) / (8.0 * p1))
    sure = clarity * tl.exp(-difference)

    why = tl.where(sure < min_confidence, 5, 0)
    if MASK_RIGHT:
        there = tl.load(right_boundaries + partner, mask=inside, other=0.0)
        why = tl.where(there <= boundary_threshold, 4, why)
    outside = (landing < 0) | (landing > (width - 1).to(tl.float32))
    why = tl.where(difference < left_right_threshold, why, tl.where(outside, 3, 2))
    why = tl.where(tl.load(left_boundaries + i, mask=inside, other=0.0) <= boundary_threshold, 1, why)
    tl.store(reason + i, why.to(tl.uint8), mask=inside)
    tl.store(confidence + i, sure, mask=inside)
    tl.store(disparity + i, tl.where(why == 0, own, float("nan")), mask=inside)
