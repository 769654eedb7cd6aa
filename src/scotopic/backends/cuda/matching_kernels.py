"""Triton kernels of the matching: the siblings of those in ``cpu/matching_kernels.py``.

Every sum that decides something is either of whole numbers, whose order does not matter, or taken by one program in one
order; so results repeat to the bit.
"""

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
    # Each mean is a float32 and so is each sum, as the published implementation rounds them (see the CPU kernel).
    first_term, second_term = (first_term / n).to(tl.float32), (second_term / n).to(tl.float32)
    third_term = (third_term / n).to(tl.float32)
    cost = own * first_term + rebuilt * third_term + cross * second_term
    cost = tl.where((end > begin) & (2 * pixels >= SIZE * SIZE), cost, -1.0)
    tl.store(volume + patch.to(tl.int64) * candidates + k, cost, mask=k < candidates)


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


@triton.jit(do_not_specialize=["candidates"])
def select(total, index, margin, candidates, BLOCK: tl.constexpr):
    """The index of the lowest sum at one place (first on a tie), and how far above the best distant rival is."""
    patch = tl.program_id(0)
    k = tl.arange(0, BLOCK)
    sums = tl.load(total + patch.to(tl.int64) * candidates + k, mask=k < candidates, other=_NEVER)
    lowest = tl.min(sums, 0)
    at = tl.min(tl.where(sums == lowest, k, BLOCK), 0)
    rival = tl.min(tl.where(tl.abs(k - at) > 1, sums, _NEVER), 0)
    tl.store(index + patch, at)
    tl.store(margin + patch, tl.where(rival < _NEVER, rival - lowest, 0))


@triton.jit(do_not_specialize=["count", "candidates", "first"])
def subpixel(total, index, out, count, candidates, first, BLOCK: tl.constexpr):
    """The disparity at the minimum of the parabola through the sums around the lowest one."""
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    real = place < count
    at = tl.load(index + place, mask=real, other=0)
    inner = real & (at > 0) & (at < candidates - 1)
    here_at = total + place.to(tl.int64) * candidates + at
    below = tl.load(here_at - 1, mask=inner, other=0).to(tl.float64)
    here = tl.load(here_at, mask=inner, other=0).to(tl.float64)
    above = tl.load(here_at + 1, mask=inner, other=0).to(tl.float64)
    curvature = below - 2 * here + above
    is_minimum = curvature > 0
    offset = tl.where(is_minimum, (below - above) / tl.where(is_minimum, 2 * curvature, 1.0), 0.0)
    tl.store(out + place, (at + first + offset).to(tl.float32), mask=real)
