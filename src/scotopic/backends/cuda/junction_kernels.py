# mypy: disable-error-code="assignment, misc, var-annotated"
# (tuples in a kernel grow in loops that Triton unrolls, which Python's types cannot say)
"""Triton kernels of the field of junctions: the siblings of those in ``cpu/junction_kernels.py``,
which explains the sums they rest on.

How the work is laid out:

* **Search.** One program per patch. A tile is some pixels x all candidates of one parameter; its running sums stay in
  registers and are added up once per parameter. Nothing is stored but the winner.
* **Describe.** One program per patch: the sums, the wedges' colors and, in a refinement step, the analytic gradient
  and Adam. It writes the junction as a short *drawing*: the coefficients of its lines and its colors.
* **Maps.** One program per block of pixels, which draws every patch over it again from the drawings. Gathered, not
  scattered: each pixel is summed in one fixed order, and no patch's pixels ever travel through memory.

Several images of one size (the views of a pair) are one launch. Pixels are float32, parameters float64. Whatever
is called ``real`` below is float32 in the fit and float64 for what is matched (see ``paint_row`` of the CPU).
"""

from __future__ import annotations

import math

import triton
import triton.language as tl

from scotopic.constants import ADAM_BETAS, ADAM_EPSILON, ADAM_GAINS, COLOR_FLOOR, DELTA, ETA, LIFT

_TWO_PI = tl.constexpr(2 * math.pi)
_PI = tl.constexpr(math.pi)
_ETA = tl.constexpr(ETA)
_LIFT = tl.constexpr(LIFT)
_FLOOR = tl.constexpr(COLOR_FLOOR)
_SHARP = tl.constexpr((ETA / DELTA) ** 2)
_STEP_SLOPE = tl.constexpr(1 / (math.pi * ETA))
_BOUNDARY_SLOPE = tl.constexpr(4 * ETA / DELTA**2)
_BETA1, _BETA2, _EPSILON = tl.constexpr(ADAM_BETAS[0]), tl.constexpr(ADAM_BETAS[1]), tl.constexpr(ADAM_EPSILON)
_GAIN1, _GAIN2 = tl.constexpr(ADAM_GAINS[0]), tl.constexpr(ADAM_GAINS[1])

LINES = 14  # of a drawing: two pairs of lines, three coefficients each, and the sign of the pair
_LINES = tl.constexpr(LINES)
FLOAT32, FLOAT64 = tl.constexpr(tl.float32), tl.constexpr(tl.float64)


def drawing_length(channels: int) -> int:
    """Return how many numbers a drawing has: its lines, then three colors per channel."""
    return LINES + 3 * channels


@triton.jit
def _load(at, COUNT: tl.constexpr):
    """So many numbers from ``at`` on."""
    values = ()
    for k in tl.static_range(COUNT):
        values += (tl.load(at + k),)
    return values


@triton.jit
def _store(to, values):
    for k in tl.static_range(len(values)):
        tl.store(to + k, values[k])


@triton.jit
def _plus(totals, more):
    """Each of the totals with one more added to it."""
    added = ()
    for k in tl.static_range(len(totals)):
        added += (totals[k] + more[k],)
    return added


@triton.jit
def _sums(values):
    """The sum of each over its first axis."""
    sums = ()
    for k in tl.static_range(len(values)):
        sums += (tl.sum(values[k], 0),)
    return sums


@triton.jit
def _with_sign(size, like):
    """``size``, which is not negative, with the sign of ``like``: one bit operation where a comparison takes two."""
    if like.dtype == tl.float64:
        signed = tl.where(like < 0, -size, size)
    else:
        sign = like.to(tl.int32, bitcast=True) & -2147483648
        signed = (size.to(tl.int32, bitcast=True) | sign).to(tl.float32, bitcast=True)
    return signed


@triton.jit
def _soft_step(d, sign, size, reciprocal):
    """``h(sign d)`` of a distance in units of eta, given ``|d|`` and ``1/|d|``: the polynomial of the CPU kernel."""
    z = tl.minimum(size, reciprocal)
    s = z * z
    t = 0.02534500 + s * (-0.01069655 + s * 0.00216826)
    t = z * (0.31830865 + s * (-0.10605248 + s * (0.06305023 + s * (-0.04212303 + s * t))))
    return 0.5 + sign * _with_sign(tl.where(size <= 1.0, t, 0.5 - t), d)


@triton.jit
def _steps(d, e, sign_d, sign_e):
    """``p = h(d13)`` and ``w = h(d13) h(d42)``; one reciprocal serves both steps."""
    if d.dtype == tl.float64:
        size_d, size_e = tl.abs(d) + 1e-12, tl.abs(e) + 1e-12
        inverse = 1.0 / (size_d * size_e)
    else:
        size_d, size_e = tl.abs(d) + 1e-6, tl.abs(e) + 1e-6
        inverse = tl.rsqrt(size_d * size_e * (size_d * size_e))  # one instruction, where a division is eight
    p = _soft_step(d, sign_d, size_d, inverse * size_e)
    return p, p * _soft_step(e, sign_e, size_e, inverse * size_d)


@triton.jit
def _boundary(d, e, sign_d):
    """``b`` from the two distances in units of eta, times their signs."""
    d = sign_d * d
    m = tl.where(d < 0, -d, tl.minimum(d, tl.abs(e)))
    return 1.0 / (1.0 + _SHARP * m * m)


@triton.jit
def _wrap(angle):
    return angle - _TWO_PI * tl.floor(angle * (1 / _TWO_PI))


@triton.jit
def _lift(opening):
    """The lift of a sector and its derivative by the opening."""
    v = opening * (1 / _PI) - 1.0
    v2 = v * v
    v4 = v2 * v2
    v8 = v4 * v4
    v34 = v8 * v8 * v8 * v8 * v2
    return _LIFT * v34 * v, (_LIFT * 35 / _PI) * v34


@triton.jit
def _pair(angle_a, angle_b, x0, y0):
    """The two lines of a pair of angles in units of eta, sign and lift folded in, and the sign."""
    opening = _wrap(angle_b - angle_a)
    sign = tl.where(opening < _PI, 1.0, -1.0).to(opening.dtype)
    lift, _ = _lift(opening)
    lift = sign * lift / _ETA
    scale = sign / _ETA
    sine, cosine = tl.sin(angle_a), tl.cos(angle_a)
    lines = (-sine * scale, cosine * scale, (sine * x0 - cosine * y0) * scale + lift)
    sine, cosine = tl.sin(angle_b), tl.cos(angle_b)
    lines += (sine * scale, -cosine * scale, (cosine * y0 - sine * x0) * scale + lift, sign)
    return lines


@triton.jit
def _distance(pair, x, y):
    """The distance to a pair of lines at pixels, times its sign; and which of the lines is nearer, the first or not."""
    a, b = pair[0] * x + (pair[1] * y + pair[2]), pair[3] * x + (pair[4] * y + pair[5])
    return tl.minimum(a, b), a < b


@triton.jit
def _in_order(a, b, i, j):
    """Two angles and their indices, the smaller angle first."""
    swap = a > b
    return tl.where(swap, b, a), tl.where(swap, a, b), tl.where(swap, j, i), tl.where(swap, i, j)


@triton.jit
def _sorted_angles(t1, t2, t3):
    """The angles in [0, 2 pi), in order; and which parameter each came from, 0 to 2."""
    a, b, i, j = _in_order(_wrap(t1), _wrap(t2), 0, 1)
    b, c, j, k = _in_order(b, _wrap(t3), j, 2)
    a, b, i, j = _in_order(a, b, i, j)
    return a, b, c, i, j, k


@triton.jit
def _middle(t1, t3):
    """``t4``, the middle of the sector without ``t2``."""
    return 0.5 * (t1 + t3) + tl.where(t1 < t3, _PI, 0.0).to(t1.dtype)


@triton.jit
def _moments(n, shapes, real: tl.constexpr):
    """``S_k``, and ``Q_kl`` as 00, 11, 22, 01, 02, 12, from the sums of p, w, p p, p w and w w.

    They are differences of large numbers, so in float64.
    """
    sp, sw, spp = shapes[0].to(tl.float64), shapes[1].to(tl.float64), shapes[2].to(tl.float64)
    spw, sww = shapes[3].to(tl.float64), shapes[4].to(tl.float64)
    s = ((n - sp).to(real), (sp - sw).to(real), sw.to(real))
    q = ((n - 2 * sp + spp).to(real), (spp - 2 * spw + sww).to(real), sww.to(real))
    q += ((sp - sw - spp + spw).to(real), (sw - spw).to(real), (spw - sww).to(real))
    return s, q


@triton.jit
def _channel_value(sp, sw, weight, s, q):
    """What one channel adds to ``N x`` the objective, as far as it depends on the junction."""
    v0, v1, v2 = -sp, sp - sw, sw
    c0 = v0 / ((1 + weight) * s[0] + _FLOOR)
    c1 = v1 / ((1 + weight) * s[1] + _FLOOR)
    c2 = v2 / ((1 + weight) * s[2] + _FLOOR)
    return (
        c0 * c0 * (q[0] + weight * s[0])
        + c1 * c1 * (q[1] + weight * s[1])
        + c2 * c2 * (q[2] + weight * s[2])
        + 2 * (c0 * c1 * q[3] + c0 * c2 * q[4] + c1 * c2 * q[5])
        - 2 * (c0 * v0 + c1 * v1 + c2 * v2)
    )


@triton.jit
def _patch_mean(plane, width, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """Mean of a patch whose first pixel is at ``plane``."""
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, SIZE * SIZE, BLOCK):
        i = start + tl.arange(0, BLOCK)
        total += tl.load(plane + (i // SIZE) * width + i % SIZE, mask=i < SIZE * SIZE, other=0.0)
    return tl.sum(total, 0) / (SIZE * SIZE)


@triton.jit(do_not_specialize=["rows", "columns", "height", "width"])
def search(
    parameters, moving, target, boundary_map, axis, offsets, rows, columns, height, width, boundary_weight,
    color_weight, SIZE: tl.constexpr, STRIDE: tl.constexpr, CHANNELS: tl.constexpr, CANDIDATES: tl.constexpr,
    COUPLED: tl.constexpr, BLOCK: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """One step of coordinate descent for one patch; ``target`` is ``I + lc G``, about centered.

    A tile is ``BLOCK`` pixels of one line x ``LANES`` candidates, so that a thread holds one candidate's lines, and a
    line of pixels shares what depends on y.
    """
    patch = tl.program_id(0)
    if tl.load(moving + patch) == 0:
        return
    view, place = patch // (rows * columns), patch % (rows * columns)
    top, left = (place // columns) * STRIDE, (place % columns) * STRIDE
    area = height.to(tl.int64) * width
    target += view * CHANNELS * area + top * width + left
    boundary_map += view * area + top * width + left

    theta = _load(parameters + 5 * patch, 5)
    before, means = theta, ()
    for c in tl.static_range(CHANNELS):
        means += (_patch_mean(target + c * area, width, SIZE, 128),)

    pixels, k = tl.arange(0, BLOCK), tl.arange(0, LANES)
    for search in range(8):
        offset = tl.load(offsets + tl.where(search < 3, 0, LANES) + k)
        angle = tl.where(search == 5, theta[0], tl.where(search == 6, theta[1], theta[2])).to(tl.float32)
        along_x = tl.where(search > 4, tl.cos(angle), tl.where(search == 3, 1.0, 0.0)).to(tl.float64)
        along_y = tl.where(search > 4, tl.sin(angle), tl.where(search == 4, 1.0, 0.0)).to(tl.float64)
        trial = ()
        for m in tl.static_range(3):
            trial += (theta[m] + tl.where(search == m, offset, 0.0),)
        vx = theta[3] + tl.where(search < 3, 0.0, along_x * offset)
        vy = theta[4] + tl.where(search < 3, 0.0, along_y * offset)

        t1, t2, t3, _, _, _ = _sorted_angles(trial[0], trial[1], trial[2])
        t1, t2, t3 = t1.to(tl.float32), t2.to(tl.float32), t3.to(tl.float32)
        g = _pair(t1, t3, vx.to(tl.float32), vy.to(tl.float32))
        h = _pair(_middle(t1, t3), t2, vx.to(tl.float32), vy.to(tl.float32))
        trial += (vx, vy)

        nothing = tl.zeros((BLOCK, LANES), tl.float32)
        shapes = (nothing, nothing, nothing, nothing, nothing)  # sums of p, w, p p, p w, w w
        colors, gaps = (nothing, nothing) * CHANNELS, nothing  # of p J and w J of each channel
        for line in range(SIZE):
            y = tl.load(axis + line)
            line_a, line_b = (g[1] * y + g[2])[None, :], (g[4] * y + g[5])[None, :]
            line_c, line_d = (h[1] * y + h[2])[None, :], (h[4] * y + h[5])[None, :]
            for start in range(0, SIZE, BLOCK):
                i = start + pixels
                inside = i < SIZE
                x = tl.load(axis + i, mask=inside, other=0.0)[:, None]
                d = tl.minimum(g[0][None, :] * x + line_a, g[3][None, :] * x + line_b)
                e = tl.minimum(h[0][None, :] * x + line_c, h[3][None, :] * x + line_d)
                p, w = _steps(d, e, g[6][None, :], h[6][None, :])
                if SIZE % BLOCK != 0:
                    p, w = tl.where(inside[:, None], p, 0.0), tl.where(inside[:, None], w, 0.0)
                shapes = _plus(shapes, (p, w, p * p, p * w, w * w))
                pixel = line * width + i
                more = ()
                for c in tl.static_range(CHANNELS):
                    j = tl.load(target + c * area + pixel, mask=inside, other=0.0)[:, None]
                    more += (p * j, w * j)
                colors = _plus(colors, more)
                if COUPLED:
                    mapped = tl.load(boundary_map + pixel, mask=inside, other=0.0)[:, None]
                    gap = _boundary(d, e, g[6][None, :]) - mapped
                    if SIZE % BLOCK != 0:
                        gap = tl.where(inside[:, None], gap, 0.0)
                    gaps += gap * gap

        shapes, colors = _sums(shapes), _sums(colors)
        s, q = _moments(SIZE * SIZE, shapes, tl.float32)
        value = 0.0
        for c in tl.static_range(CHANNELS):
            # The target centered on the patch's mean: its sums with p and w shift with it.
            with_p, with_w = colors[2 * c] - means[c] * shapes[0], colors[2 * c + 1] - means[c] * shapes[1]
            more = _channel_value(with_p, with_w, color_weight, s, q)
            value = more if c == 0 else value + more
        if COUPLED:
            value += boundary_weight * tl.sum(gaps, 0)
        best = k == tl.argmin(tl.where(k < CANDIDATES, value, float("inf")), 0, tie_break_left=True)
        chosen = ()
        for m in tl.static_range(5):
            chosen += (tl.where(best, trial[m], 0.0),)
        theta = _sums(chosen)

    _store(parameters + 5 * patch, theta)
    moved = theta[0] != before[0]
    for m in tl.static_range(1, 5):
        moved |= theta[m] != before[m]
    tl.store(moving + patch, moved.to(tl.uint8))


@triton.jit
def _by_wedge(sp, sw, weight, s, q):
    """One channel's colors, the slopes by its target, and what it adds to the constant slopes (see the CPU kernel)."""
    v0, v1, v2 = -sp, sp - sw, sw
    a0, a1, a2 = (1 + weight) * s[0] + _FLOOR, (1 + weight) * s[1] + _FLOOR, (1 + weight) * s[2] + _FLOOR
    c0, c1, c2 = v0 / a0, v1 / a1, v2 / a2
    e0 = (2 * weight * s[0] * c0 - 2 * v0 + 2 * (q[0] * c0 + q[3] * c1 + q[4] * c2)) / a0
    e1 = (2 * weight * s[1] * c1 - 2 * v1 + 2 * (q[3] * c0 + q[1] * c1 + q[5] * c2)) / a1
    e2 = (2 * weight * s[2] * c2 - 2 * v2 + 2 * (q[4] * c0 + q[5] * c1 + q[2] * c2)) / a2
    k0 = weight * c0 * c0 - (1 + weight) * e0 * c0
    k1 = weight * c1 * c1 - (1 + weight) * e1 * c1
    k2 = weight * c2 * c2 - (1 + weight) * e2 * c2
    by_p, by_w = (e1 - 2 * c1) - (e0 - 2 * c0), (e2 - 2 * c2) - (e1 - 2 * c1)
    return (c0, c1, c2), (by_p, by_w), (k1 - k0, k2 - k1)


@triton.jit
def _target(image, color_map, at, inside, mean, color_weight, LEAN: tl.constexpr, REAL: tl.constexpr):
    """``J = I + lc G`` at pixels, less its mean."""
    j = tl.load(image + at, mask=inside, other=0.0).to(REAL) - mean
    if LEAN:
        j += color_weight * tl.load(color_map + at, mask=inside, other=0.0)
    return j


@triton.jit(do_not_specialize=["rows", "columns", "height", "width", "count"])
def describe(
    parameters, first_moment, second_moment, gradients, drawings, image, boundary_map, color_map, x_of, y_of,
    rows, columns, height, width, adam, count,
    boundary_weight, color_weight,
    SIZE: tl.constexpr, STRIDE: tl.constexpr, CHANNELS: tl.constexpr, ADAM: tl.constexpr, LEAN: tl.constexpr,
    REAL: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Draw one patch: its lines and the colors of its wedges. With ``ADAM``, also take a step down its gradient.

    ``adam`` holds the two rates, then for each step the factors that unbias the two moments, in float64.
    """
    patch = tl.program_id(0)
    view, place = patch // (rows * columns), patch % (rows * columns)
    top, left = (place // columns) * STRIDE, (place % columns) * STRIDE
    area = height.to(tl.int64) * width
    image += view * CHANNELS * area + top * width + left
    color_map += view * CHANNELS * area + top * width + left
    boundary_map += view * area + top * width + left

    theta = _load(parameters + 5 * patch, 5)
    x0, y0 = theta[3].to(REAL), theta[4].to(REAL)
    t1, t2, t3, i1, i2, i3 = _sorted_angles(theta[0], theta[1], theta[2])
    t1, t2, t3 = t1.to(REAL), t2.to(REAL), t3.to(REAL)
    t4 = _middle(t1, t3)
    g, h = _pair(t1, t3, x0, y0), _pair(t4, t2, x0, y0)

    # First pass: the sums that the colors rest on.
    pixels = tl.arange(0, BLOCK)
    nothing = tl.zeros((BLOCK,), REAL)
    shapes = (nothing, nothing, nothing, nothing, nothing)  # of p, w and, for the gradient, p p, p w, w w
    colors = (nothing, nothing, nothing) * CHANNELS  # of J, p J, w J of each channel
    for start in range(0, SIZE * SIZE, BLOCK):
        i = start + pixels
        inside = i < SIZE * SIZE
        at = (i // SIZE) * width + i % SIZE
        x, y = tl.load(x_of + i).to(REAL), tl.load(y_of + i).to(REAL)
        p, w = _steps(_distance(g, x, y)[0], _distance(h, x, y)[0], g[6], h[6])
        p, w = tl.where(inside, p, 0.0), tl.where(inside, w, 0.0)
        shapes = _plus(shapes, (p, w, p * p, p * w, w * w))
        more = ()
        for c in tl.static_range(CHANNELS):
            j = _target(image + c * area, color_map + c * area, at, inside, 0.0, color_weight, LEAN, REAL)
            more += (j, p * j, w * j)
        colors = _plus(colors, more)
    n: tl.constexpr = SIZE * SIZE
    shapes, colors = _sums(shapes), _sums(colors)
    s, q = _moments(n, shapes, REAL)
    drawing = drawings + patch.to(tl.int64) * (_LINES + 3 * CHANNELS)
    _store(drawing, g)
    _store(drawing + 7, h)
    means, wedges, slopes, constant = (), (), (), (0.0, 0.0)
    for c in tl.static_range(CHANNELS):
        # The target centered on its mean: the sums of p J and w J shift with it.
        mean = colors[3 * c] / n
        with_p, with_w = colors[3 * c + 1] - mean * shapes[0], colors[3 * c + 2] - mean * shapes[1]
        wedge, slope, rest = _by_wedge(with_p, with_w, color_weight, s, q)
        means += (mean,)
        wedges += (wedge,)
        slopes += (slope,)
        constant = rest if c == 0 else _plus(constant, rest)
        # The colors as they are painted: first + p second + w third.
        paint = (wedge[0] + mean / (1 + color_weight), wedge[1] - wedge[0], wedge[2] - wedge[1])
        _store(drawing + _LINES + 3 * c, paint)

    if ADAM:
        # Second pass: the slope at each pixel by the wedges, then by the distances, then by the lines.
        by_line = (nothing, nothing, nothing) * 4  # sums of the slope, slope x and slope y for each line
        for start in range(0, SIZE * SIZE, BLOCK):
            i = start + pixels
            inside = i < SIZE * SIZE
            at = (i // SIZE) * width + i % SIZE
            x, y = tl.load(x_of + i).to(REAL), tl.load(y_of + i).to(REAL)
            d, is_a = _distance(g, x, y)
            e, is_c = _distance(h, x, y)
            p, w = _steps(d, e, g[6], h[6])
            by_p, by_w = constant[0] + 0.0 * p, constant[1] + 0.0 * p
            for c in tl.static_range(CHANNELS):
                j = _target(image + c * area, color_map + c * area, at, inside, means[c], color_weight, LEAN, REAL)
                c0, c1, c2 = wedges[c]
                painted = c0 + p * (c1 - c0) + w * (c2 - c1)
                by_p += slopes[c][0] * j + 2 * (c1 - c0) * painted
                by_w += slopes[c][1] * j + 2 * (c2 - c1) * painted
            b = _boundary(d, e, g[6])
            gap = tl.load(boundary_map + at, mask=inside, other=0.0) - b
            sd, se = g[6] * d, h[6] * e
            by_d = (by_p + w / p * by_w) * _STEP_SLOPE / (1.0 + sd * sd)
            by_e = p * by_w * _STEP_SLOPE / (1.0 + se * se)
            size_e = tl.abs(se)
            by_m = boundary_weight * _BOUNDARY_SLOPE * gap * b * b
            at_e = (sd >= 0) & (size_e < sd)
            m = tl.where(sd < 0, -sd, tl.minimum(sd, size_e))
            by_d += tl.where(at_e, 0.0, by_m * m * tl.where(sd < 0, -1.0, 1.0))
            by_e += tl.where(at_e, by_m * m * tl.where(se < 0, -1.0, 1.0), 0.0)
            by_d, by_e = tl.where(inside, by_d, 0.0), tl.where(inside, by_e, 0.0)
            by_a, by_c = tl.where(is_a, by_d, 0.0), tl.where(is_c, by_e, 0.0)
            nearest = (by_a, by_d - by_a, by_c, by_e - by_c)
            more = ()
            for k in tl.static_range(4):
                more += (nearest[k], nearest[k] * x, nearest[k] * y)
            by_line = _plus(by_line, more)
        # What the slope by each line says about its angle and the vertex; the second line of a pair counts negative.
        by_line, angles = _sums(by_line), (t1, t3, t4, t2)
        sums, by_angle, by_vertex = (), (), (0.0, 0.0)
        for k in tl.static_range(4):
            total, along_x, along_y = by_line[3 * k], by_line[3 * k + 1], by_line[3 * k + 2]
            if k % 2 == 1:
                total, along_x, along_y = -total, -along_x, -along_y
            sine, cosine = tl.sin(angles[k]), tl.cos(angles[k])
            by_angle += (-(cosine * (along_x - x0 * total) + sine * (along_y - y0 * total)),)
            sums += (total,)
            more = (sine * total, -cosine * total)
            by_vertex = more if k == 0 else _plus(by_vertex, more)
        by_1, by_3, by_4, by_2 = by_angle
        by_x, by_y = by_vertex
        _, lift = _lift(_wrap(t3 - t1))
        by_3 += lift * (sums[0] - sums[1])
        by_1 -= lift * (sums[0] - sums[1])
        _, lift = _lift(_wrap(t2 - t4))
        by_2 += lift * (sums[2] - sums[3])
        by_4 -= lift * (sums[2] - sums[3])
        by_1 += 0.5 * by_4
        by_3 += 0.5 * by_4

        # Adam on the five numbers at once, in float64, each sorted angle's slope to the parameter it came from.
        k = tl.arange(0, 8)
        slope = tl.where(k == i1, by_1, tl.where(k == i2, by_2, tl.where(k == i3, by_3, tl.where(k == 3, by_x, by_y))))
        slope = slope.to(tl.float64) / n
        here, five = patch * 5 + k, k < 5
        first = _BETA1 * tl.load(first_moment + here, mask=five, other=0.0) + _GAIN1 * slope
        second = _BETA2 * tl.load(second_moment + here, mask=five, other=0.0) + _GAIN2 * slope * slope
        rate = tl.where(k < 3, tl.load(adam), tl.load(adam + 1))
        unbias_first, unbias_second = tl.load(adam + 2 * count), tl.load(adam + 2 * count + 1)
        change = rate * (first * unbias_first) / (tl.sqrt(second * unbias_second) + _EPSILON)
        tl.store(gradients + here, slope, mask=five)
        tl.store(first_moment + here, first, mask=five)
        tl.store(second_moment + here, second, mask=five)
        tl.store(parameters + here, tl.load(parameters + here, mask=five, other=0.0) - change, mask=five)


@triton.jit
def _draw(drawing, x, y):
    """``d13``, ``d42``, ``p``, ``w`` and the sign of ``d13``, over pixels, from a patch's drawing."""
    g, h = _load(drawing, 7), _load(drawing + 7, 7)
    d, _ = _distance(g, x, y)
    e, _ = _distance(h, x, y)
    p, w = _steps(d, e, g[6], h[6])
    return d, e, p, w, g[6]


@triton.jit
def _painted(drawing, p, w):
    """One channel of a patch; its colors are float32 whatever the lines are, as on the CPU."""
    c0, c1, c2 = _load(drawing, 3)
    return c0.to(tl.float32) + p * c1.to(tl.float32) + w * c2.to(tl.float32)


@triton.jit(do_not_specialize=["rows", "columns", "height", "width"])
def maps(
    drawings, boundary_map, color_map, axis, rows, columns, height, width, SIZE: tl.constexpr, STRIDE: tl.constexpr,
    CHANNELS: tl.constexpr, WITH_BOUNDARY: tl.constexpr, REAL: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The mean over the patches that contain it, at each pixel of a block."""
    view = tl.program_id(2)
    pixels = tl.arange(0, BLOCK * BLOCK)
    first_y, first_x = tl.program_id(1) * BLOCK, tl.program_id(0) * BLOCK
    row_y, column_x = first_y + pixels // BLOCK, first_x + pixels % BLOCK
    # Patches over any pixel of the block; each pixel then counts those that contain it.
    top = tl.where(first_y < SIZE, 0, (first_y - SIZE) // STRIDE + 1)
    left = tl.where(first_x < SIZE, 0, (first_x - SIZE) // STRIDE + 1)
    bottom = tl.minimum((first_y + BLOCK - 1) // STRIDE, rows - 1)
    right = tl.minimum((first_x + BLOCK - 1) // STRIDE, columns - 1)
    boundary, count = tl.zeros((BLOCK * BLOCK,), REAL), tl.zeros((BLOCK * BLOCK,), tl.float32)
    colors = (boundary,) * CHANNELS
    for row in range(top, bottom + 1):
        in_y = row_y - row * STRIDE
        inside_y = (in_y >= 0) & (in_y < SIZE)
        y = tl.load(axis + tl.minimum(tl.maximum(in_y, 0), SIZE - 1)).to(REAL)
        for column in range(left, right + 1):
            in_x = column_x - column * STRIDE
            inside = inside_y & (in_x >= 0) & (in_x < SIZE)
            x = tl.load(axis + tl.minimum(tl.maximum(in_x, 0), SIZE - 1)).to(REAL)
            patch = ((view * rows + row) * columns + column).to(tl.int64)
            drawing = drawings + patch * (_LINES + 3 * CHANNELS)
            d, e, p, w, sign = _draw(drawing, x, y)
            count += inside.to(tl.float32)
            if WITH_BOUNDARY:
                boundary += tl.where(inside, _boundary(d, e, sign), 0.0)
            more = ()
            for c in tl.static_range(CHANNELS):
                more += (tl.where(inside, _painted(drawing + _LINES + 3 * c, p, w), 0.0),)
            colors = _plus(colors, more)
    area = height.to(tl.int64) * width
    at = row_y.to(tl.int64) * width + column_x
    within = (row_y < height) & (column_x < width)
    count = tl.maximum(count, 1.0)
    if WITH_BOUNDARY:
        tl.store(boundary_map + view * area + at, (boundary / count).to(tl.float32), mask=within)
    color_map += view * CHANNELS * area
    for c in tl.static_range(CHANNELS):
        tl.store(color_map + c * area + at, (colors[c] / count).to(tl.float32), mask=within)


@triton.jit(do_not_specialize=["first_patch", "columns", "height", "width"])
def paint(
    drawings, planes, patches, x_of, y_of, first_patch, columns, height, width, SIZE: tl.constexpr,
    STRIDE: tl.constexpr, CHANNELS: tl.constexpr, REAL: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The reconstruction of one patch of one view beside its raw pixels, ``(C, R * R, 2)`` float32."""
    patch = first_patch + tl.program_id(0)
    drawing = drawings + patch.to(tl.int64) * (_LINES + 3 * CHANNELS)
    patches += tl.program_id(0).to(tl.int64) * (CHANNELS * SIZE * SIZE * 2)
    planes += (patch // columns).to(tl.int64) * STRIDE * width + (patch % columns) * STRIDE
    area = height.to(tl.int64) * width
    pixels = tl.arange(0, BLOCK)
    for start in range(0, SIZE * SIZE, BLOCK):
        i = start + pixels
        inside = i < SIZE * SIZE
        x, y = tl.load(x_of + i).to(REAL), tl.load(y_of + i).to(REAL)
        _, _, p, w, _ = _draw(drawing, x, y)
        for c in tl.static_range(CHANNELS):
            painted = _painted(drawing + _LINES + 3 * c, p, w).to(tl.float32)
            raw = tl.load(planes + c * area + (i // SIZE) * width + i % SIZE, mask=inside, other=0.0)
            tl.store(patches + 2 * (c * SIZE * SIZE + i), painted, mask=inside)
            tl.store(patches + 2 * (c * SIZE * SIZE + i) + 1, raw, mask=inside)
