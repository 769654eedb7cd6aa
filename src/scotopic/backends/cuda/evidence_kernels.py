"""Triton kernels of the evidence: the siblings of those in ``cpu/evidence_kernels.py``."""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["count"])
def channel_features(
    left, right, units, here, there, count, own0, own1, own2, product0, product1, product2, CHANNELS: tl.constexpr,
    HAS_UNITS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The features of one channel of both views, see ``stages/evidence_volume.py``."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    real = i < count
    unit = tl.full((BLOCK,), 1.0, tl.float32)
    if HAS_UNITS:
        unit = tl.load(units + i, mask=real, other=0.0)
    own_left, own_right = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
    for c in tl.static_range(CHANNELS):
        own = own0 if c == 0 else (own1 if c == 1 else own2)
        product = product0 if c == 0 else (product1 if c == 1 else product2)
        mine = tl.load(left + i * CHANNELS + c, mask=real, other=0.0)
        other = tl.load(right + i * CHANNELS + c, mask=real, other=0.0)
        own_left += own * mine * mine
        own_right += own * other * other
        tl.store(here + (2 + c) * count.to(tl.int64) + i, -unit * product * mine, mask=real)
        tl.store(there + (2 + c) * count.to(tl.int64) + i, other, mask=real)
    tl.store(here + i, unit * own_left, mask=real)
    tl.store(here + count + i, unit, mask=real)
    tl.store(there + i, tl.full((BLOCK,), 1.0, tl.float32), mask=real)
    tl.store(there + count + i, own_right, mask=real)


@triton.jit(do_not_specialize=["height", "width", "first"])
def weigh_cells(volume, left, right, height, width, first, BLOCK: tl.constexpr):
    """``volume(k, y, x) *= left(y, x) right(y, x - first - k)``, the last columns repeated."""
    k = tl.program_id(1)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y, x = i // width, i % width
    inside = y < height
    partner = tl.minimum(tl.maximum(x - first - k, 0), width - 1)
    weight = tl.load(left + i, mask=inside, other=0.0) * tl.load(right + y * width + partner, mask=inside, other=0.0)
    at = volume + k * (height.to(tl.int64) * width) + i
    tl.store(at, tl.load(at, mask=inside, other=0.0) * weight, mask=inside)


@triton.jit(do_not_specialize=["features", "height", "width", "first"])
def add_products(left, right, volume, features, height, width, first, BLOCK: tl.constexpr):
    """``volume(k, y, x) += sum over features of left(y, x) * right(y, x - first - k)``, the last columns repeated."""
    k = tl.program_id(1)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y, x = i // width, i % width
    inside = y < height
    partner = y * width + tl.minimum(tl.maximum(x - first - k, 0), width - 1)
    area = height.to(tl.int64) * width
    total = tl.load(volume + k * area + i, mask=inside, other=0.0)
    for f in range(features):
        own = tl.load(left + f * area + i, mask=inside, other=0.0)
        total += own * tl.load(right + f * area + partner, mask=inside, other=0.0)
    tl.store(volume + k * area + i, total, mask=inside)


@triton.jit(do_not_specialize=["features", "height", "width", "first"])
def census_costs(left, right, volume, features, height, width, first, BLOCK: tl.constexpr):
    """Mean of ``|left(y, x) - right(y, x - first - k)|`` over the features, the last columns repeated."""
    k = tl.program_id(1)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y, x = i // width, i % width
    inside = y < height
    partner = y * width + tl.minimum(tl.maximum(x - first - k, 0), width - 1)
    area = height.to(tl.int64) * width
    total = tl.zeros((BLOCK,), tl.int32)
    for f in range(features):
        own = tl.load(left + f * area + i, mask=inside, other=0).to(tl.int32)
        total += tl.abs(own - tl.load(right + f * area + partner, mask=inside, other=0).to(tl.int32))
    tl.store(volume + k * area + i, total.to(tl.float32) / features, mask=inside)


@triton.jit(do_not_specialize=["height", "width", "first"])
def color_costs(left, right, volume, height, width, first, square, CHANNELS: tl.constexpr, BLOCK: tl.constexpr):
    """``e / (e + square)`` of the mean squared differences ``e`` of ``left(y, x)`` and ``right(y, x - first - k)``."""
    k = tl.program_id(1)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y, x = i // width, i % width
    inside = y < height
    partner = y * width + tl.minimum(tl.maximum(x - first - k, 0), width - 1)
    energy = tl.zeros((BLOCK,), tl.float32)
    for c in tl.static_range(CHANNELS):
        own = tl.load(left + i * CHANNELS + c, mask=inside, other=0.0)
        off = own - tl.load(right + partner * CHANNELS + c, mask=inside, other=0.0)
        energy += off * off
    energy = energy * (1.0 / CHANNELS)
    area = height.to(tl.int64) * width
    tl.store(volume + k * area + i, energy / (energy + square), mask=inside)


@triton.jit(do_not_specialize=["height", "width", "candidates", "count"])
def add_votes(
    view, disparity, down, along, weights, places, volume, height, width, candidates, count, sharpness, vote_weight,
    unusual, held, floor, CHANNELS: tl.constexpr, PIXELS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The costs of the votes of pixels of like color, added to a volume; see ``stages/votes.py``."""
    i = tl.program_id(0).to(tl.int64) * PIXELS + tl.arange(0, PIXELS)
    real = i < height.to(tl.int64) * width
    row, column = i // width, i % width
    d = tl.arange(0, BLOCK)
    is_candidate = d < candidates
    votes = tl.zeros((PIXELS, BLOCK), tl.float32)
    for k in range(count):
        y, x = tl.load(places + 2 * k), tl.load(places + 2 * k + 1)
        inside = real & (row + y >= 0) & (row + y < height) & (column + x >= 0) & (column + x < width)
        there = i + y.to(tl.int64) * width + x
        apart = tl.zeros((PIXELS,), tl.float32)
        for c in tl.static_range(CHANNELS):
            off = tl.load(view + there * CHANNELS + c, mask=inside, other=0.0)
            off -= tl.load(view + i * CHANNELS + c, mask=inside, other=0.0)
            apart += off * off
        given = tl.load(weights + there, mask=inside, other=0.0) * tl.exp(apart * (sharpness / CHANNELS))
        level = tl.load(disparity + there, mask=inside, other=0.0)
        level -= y.to(tl.float32) * tl.load(down + there, mask=inside, other=0.0)
        level -= x.to(tl.float32) * tl.load(along + there, mask=inside, other=0.0)
        level = tl.minimum(tl.maximum(level, 0.0), (candidates - 1).to(tl.float32))
        hat = tl.maximum(0.5 - 0.25 * tl.abs(d[None, :].to(tl.float32) - level[:, None]), 0.0)
        votes += given[:, None] * hat
    votes = tl.where(is_candidate[None, :], votes + held / candidates, 0.0)
    total = tl.sum(votes, axis=1)
    own = tl.load(weights + i, mask=real, other=0.0) * unusual
    trust = vote_weight / (1.0 + own * own)
    cells = volume + d[None, :].to(tl.int64) * (height.to(tl.int64) * width) + i[:, None]
    mask = real[:, None] & is_candidate[None, :]
    costs = tl.load(cells, mask=mask, other=0.0) - trust[:, None] * tl.log(votes / total[:, None] + floor)
    tl.store(cells, costs, mask=mask)


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


@triton.jit(do_not_specialize=["height", "width", "radius"])
def census(gray, out, height, width, radius, sharpness, falling, steps, BLOCK: tl.constexpr):
    """Bounded differences of each pixel to those around it, in steps, edges repeated: one plane per neighbor."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y, x = i // width, i % width
    inside = y < height
    here = tl.load(gray + i, mask=inside, other=0.0)
    area = height.to(tl.int64) * width
    side = 2 * radius + 1
    middle = side * radius + radius
    for k in range(side * side):
        if k != middle:
            there_y = tl.minimum(tl.maximum(y + k // side - radius, 0), height - 1)
            there_x = tl.minimum(tl.maximum(x + k % side - radius, 0), width - 1)
            off = (tl.load(gray + there_y * width + there_x, mask=inside, other=0.0) - here) * sharpness
            bounded = 1.0 - 2.0 / (tl.exp(2.0 * off) + 1.0)  # tanh
            bounded *= tl.exp(-tl.abs(off) * falling)
            plane = k - tl.where(k > middle, 1, 0)
            feature = tl.floor(bounded * steps + 0.5).to(tl.int8)
            tl.store(out + plane * area + i, feature, mask=inside)


@triton.jit(do_not_specialize=["height", "width", "candidates", "first"])
def quantize(
    volume, start, out, height, width, candidates, first, per_step, max_cost, SHEARED: tl.constexpr,
    ALONG: tl.constexpr, PIXELS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Costs above each pixel's lowest in steps, as ``(H, W, D)``: the left view's, those of the right view
    (``SHEARED``), or the left view's from each pixel's own first candidate (``ALONG``).
    """
    i = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    y, x = i // width, i % width
    inside = y < height
    area = height.to(tl.int64) * width
    line = y[None, :] * width
    lowest, highest = tl.full((PIXELS,), float("inf"), tl.float32), tl.full((PIXELS,), float("-inf"), tl.float32)
    for begin in range(0, candidates, BLOCK):
        k = begin + tl.arange(0, BLOCK)
        there = x[None, :] + tl.zeros((BLOCK, 1), tl.int32)
        if SHEARED:
            there = tl.minimum(tl.maximum(there + first + k[:, None], 0), width - 1)
        is_real = (k < candidates)[:, None] & inside[None, :]
        cost = tl.load(volume + k[:, None] * area + line + there, mask=is_real, other=float("inf"))
        lowest = tl.minimum(lowest, tl.min(cost, axis=0))
        if ALONG:
            highest = tl.maximum(highest, tl.max(tl.where(is_real, cost, float("-inf")), axis=0))
    offset = tl.zeros((PIXELS,), tl.int32)
    if ALONG:
        offset = tl.load(start + i, mask=inside, other=0.0).to(tl.int32)
    for begin in range(0, candidates, BLOCK):
        k = begin + tl.arange(0, BLOCK)
        there, candidate = x[None, :] + tl.zeros((BLOCK, 1), tl.int32), k[:, None] + offset[None, :]
        if SHEARED:
            there = tl.minimum(tl.maximum(there + first + k[:, None], 0), width - 1)
        is_real = (k < candidates)[:, None] & inside[None, :]
        exists = is_real & (candidate >= 0) & (candidate < candidates)
        cost = tl.load(volume + candidate * area + line + there, mask=exists, other=0.0)
        if ALONG:
            cost = tl.where(exists, cost, highest[None, :])
        steps = tl.floor((cost - lowest[None, :]) * per_step + 0.5)
        at = i.to(tl.int64)[None, :] * candidates + k[:, None]
        tl.store(out + at, tl.minimum(steps, max_cost).to(tl.int16), mask=is_real)


@triton.jit(do_not_specialize=["height", "width", "first_row", "across", "reach"])
def cell_differences(
    pilot, apart, height, width, first_row, across, reach, CHANNELS: tl.constexpr, CELL: tl.constexpr,
    OFFSETS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Squared differences of each cell of ``CELL x CELL`` pixels and those at each offset, ``(rows, offsets, across)``.

    Patches that overlap consist of the same cells, so that each difference is taken once. ``pilot`` is ``(C, H, W)``.
    """
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = tl.program_id(1)
    side = 2 * reach + 1
    offset = tl.program_id(2) * OFFSETS + tl.arange(0, OFFSETS)
    down, right = (offset // side - reach)[:, None], (offset % side - reach)[:, None]
    total = tl.zeros((OFFSETS, BLOCK), tl.float32)
    for y in tl.static_range(CELL):
        for x in tl.static_range(CELL):
            # Pixels that are not there repeat the edge.
            top, left = (first_row + row) * CELL + y, column * CELL + x
            here = tl.minimum(top, height - 1) * width + tl.minimum(left, width - 1)
            there_y = tl.minimum(tl.maximum(top + down, 0), height - 1)
            there = there_y * width + tl.minimum(tl.maximum(left[None, :] + right, 0), width - 1)
            for c in tl.static_range(CHANNELS):
                plane = pilot + c * (height.to(tl.int64) * width)
                off = tl.load(plane + there) - tl.load(plane + here)[None, :]
                total += off * off
    at = (row * side * side + offset)[:, None] * across + column[None, :]
    tl.store(apart + at, total, mask=(offset < side * side)[:, None] & (column < across)[None, :])


@triton.jit(do_not_specialize=["first_row", "columns", "across", "bottom", "right", "reach"])
def nearest_patches(
    apart, groups, first_row, columns, across, bottom, right, reach, SIZE: tl.constexpr, EVERY: tl.constexpr,
    CELL: tl.constexpr, COUNT: tl.constexpr, PATCHES: tl.constexpr, OFFSETS: tl.constexpr,
):  # fmt: skip
    """The ``COUNT`` patches most like each of some patches of a row, as places ``y * (right - SIZE + 1) + x``.

    How unlike two patches are is the sum over their cells. Patches beyond ``bottom`` or ``right`` are infinitely
    unlike; a patch itself is nearer than any other.
    """
    row, column = tl.program_id(1), tl.program_id(0) * PATCHES + tl.arange(0, PATCHES)
    side = 2 * reach + 1
    offset = tl.arange(0, OFFSETS)
    exists = (offset < side * side)[:, None] & (column < columns)[None, :]
    apart += row * (EVERY // CELL) * side * side * across
    first = offset[:, None] * across + (column * (EVERY // CELL))[None, :]
    distance = tl.zeros((OFFSETS, PATCHES), tl.float32)
    for _ in range(SIZE // CELL):
        for x in range(SIZE // CELL):
            distance += tl.load(apart + first + x, mask=exists, other=0.0)
        apart += side * side * across
    top, left = (first_row + row) * EVERY + offset // side - reach, column * EVERY
    there = left[None, :] + (offset % side - reach)[:, None]
    seen = exists & (there >= 0) & (there + SIZE <= right) & ((top >= 0) & (top + SIZE <= bottom))[:, None]
    distance = tl.where(seen, distance, float("inf"))
    distance = tl.where((offset == side * reach + reach)[:, None], -1.0, distance)
    corner = (first_row + row) * EVERY - reach
    found = groups + (row * columns + column).to(tl.int64) * COUNT
    for k in range(COUNT):
        best = tl.argmin(distance, axis=0)
        place = (corner + best // side) * (right - SIZE + 1) + left + best % side - reach
        tl.store(found + k, place, mask=column < columns)
        distance = tl.where(offset[:, None] == best[None, :], float("inf"), distance)


@triton.jit
def _halves(values):
    """Two float16 whose sum is a float32, but for its last two bits."""
    high = values.to(tl.float16)
    return high, (values - high.to(tl.float32)).to(tl.float16)


@triton.jit(do_not_specialize=["count", "height", "width", "across"])
def filter_groups(
    groups, image, pilot, transform, together, frequencies, quiet, count, height, width, across, variance, factor,
    CHANNELS: tl.constexpr, SIZE: tl.constexpr, COUNT: tl.constexpr, GROUPS: tl.constexpr, PART: tl.constexpr,
):  # fmt: skip
    """The first patch of each of some groups, filtered, as frequencies; and its weight, one over its noise.

    Groups lie below each other, so that one product with ``together``, ones and minus ones, transforms all of them
    along their members, and one with ``transform`` along the patches. Images are ``(C, H, W)``. Matrix units multiply
    halves of numbers: ``transform`` is given as two, and what is left out is the product of the lower ones.
    """
    ROWS: tl.constexpr = GROUPS * COUNT
    AREA: tl.constexpr = SIZE * SIZE
    member, pixel, part = tl.arange(0, ROWS), tl.arange(0, AREA), tl.arange(0, PART)
    group = tl.program_id(0) * GROUPS + tl.arange(0, GROUPS)
    place = tl.load(groups + tl.minimum(tl.program_id(0) * ROWS + member, count * COUNT - 1))
    y = tl.minimum((place // across)[:, None] + (pixel // SIZE)[None, :], height - 1)
    x = tl.minimum((place % across)[:, None] + (pixel % SIZE)[None, :], width - 1)
    at = y * width + x
    signs = tl.load(together + member[:, None] * ROWS + member[None, :])
    for c in range(CHANNELS):
        here = at + c * height * width
        seen, seen_low = _halves(tl.load(image + here))
        clear, clear_low = _halves(tl.load(pilot + here))
        seen, seen_low = _halves(tl.dot(signs, seen_low, tl.dot(signs, seen)))
        clear, clear_low = _halves(tl.dot(signs, clear_low, tl.dot(signs, clear)))
        passed = tl.zeros((GROUPS,), tl.float32)
        for begin in tl.static_range(0, AREA, PART):
            # Some frequencies at a time, along columns.
            table = transform + pixel[:, None] * AREA + (begin + part)[None, :]
            along, along_low = tl.load(table), tl.load(table + AREA * AREA)
            y_of = tl.dot(seen_low, along, tl.dot(seen, along_low, tl.dot(seen, along)))
            p_of = tl.dot(clear_low, along, tl.dot(clear, along_low, tl.dot(clear, along)))
            energy = p_of * p_of
            inverse = tl.rsqrt(energy + variance)
            gain = energy * (inverse * inverse)
            # The inverse transform along the group, of the first patch alone: the first column of a Hadamard matrix is
            # one number.
            first = tl.sum(tl.reshape(gain * y_of, (GROUPS, COUNT, PART)), axis=1) * factor
            passed += tl.sum(tl.reshape(tl.sum(gain * gain, axis=1), (GROUPS, COUNT)), axis=1)
            to = frequencies + (group.to(tl.int64) * CHANNELS + c)[:, None] * AREA + (begin + part)[None, :]
            tl.store(to, first, mask=(group < count)[:, None])
        tl.store(quiet + group * CHANNELS + c, 1.0 / tl.maximum(passed, 1.0), mask=group < count)


@triton.jit(do_not_specialize=["count"])
def restore_patches(
    frequencies, transform, count, AREA: tl.constexpr, ROWS: tl.constexpr, PART: tl.constexpr
):  # fmt: skip
    """The pixels of some patches in place of their frequencies, ``(count, AREA)``; ``transform`` as above."""
    row, along, part = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, AREA), tl.arange(0, PART)
    inside = (row < count)[:, None]
    at = frequencies + row.to(tl.int64)[:, None] * AREA
    high, low = _halves(tl.load(at + along[None, :], mask=inside, other=0.0))
    for begin in tl.static_range(0, AREA, PART):
        table = transform + along[:, None] * AREA + (begin + part)[None, :]
        back, back_low = tl.load(table), tl.load(table + AREA * AREA)
        pixels = tl.dot(low, back, tl.dot(high, back_low, tl.dot(high, back)))
        tl.store(at + (begin + part)[None, :], pixels, mask=inside)


@triton.jit(do_not_specialize=["height", "width", "rows", "columns"])
def merge_patches(
    patches, quiet, window, out, height, width, rows, columns, unit,
    CHANNELS: tl.constexpr, SIZE: tl.constexpr, EVERY: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The weighted mean of the filtered patches over each pixel: gathered, so that the order of the sums is fixed."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    pixel, c = (place // CHANNELS).to(tl.int32), (place % CHANNELS).to(tl.int32)
    y, x = pixel // width, pixel % width
    inside = y < height
    total, weight = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
    for up in range(0, SIZE, EVERY):
        i = y // EVERY - up // EVERY
        down = y - i * EVERY
        for back in range(0, SIZE, EVERY):
            j = x // EVERY - back // EVERY
            across = x - j * EVERY
            covers = inside & (i >= 0) & (i < rows) & (down < SIZE) & (j >= 0) & (j < columns) & (across < SIZE)
            patch = (i * columns + j).to(tl.int64) * CHANNELS + c
            inner = down * SIZE + across
            share = tl.load(window + inner, mask=covers, other=0.0) * tl.load(quiet + patch, mask=covers, other=0.0)
            total += share * tl.load(patches + patch * (SIZE * SIZE) + inner, mask=covers, other=0.0)
            weight += share
    tl.store(out + place, total / weight * unit, mask=inside)
