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
    a0, a1 = -sine * scale, cosine * scale
    a2 = (sine * x0 - cosine * y0) * scale + lift
    sine, cosine = tl.sin(angle_b), tl.cos(angle_b)
    b0, b1 = sine * scale, -cosine * scale
    b2 = (cosine * y0 - sine * x0) * scale + lift
    return a0, a1, a2, b0, b1, b2, sign


@triton.jit
def _sorted_angles(t1, t2, t3):
    """The angles in [0, 2 pi), in order; and which parameter each came from, 0 to 2."""
    a, b, c = _wrap(t1), _wrap(t2), _wrap(t3)
    i, j, k = 0, 1, 2
    swap = a > b
    a, b = tl.where(swap, b, a), tl.where(swap, a, b)
    i, j = tl.where(swap, j, i), tl.where(swap, i, j)
    swap = b > c
    b, c = tl.where(swap, c, b), tl.where(swap, b, c)
    j, k = tl.where(swap, k, j), tl.where(swap, j, k)
    swap = a > b
    a, b = tl.where(swap, b, a), tl.where(swap, a, b)
    i, j = tl.where(swap, j, i), tl.where(swap, i, j)
    return a, b, c, i, j, k


@triton.jit
def _middle(t1, t3):
    """``t4``, the middle of the sector without ``t2``."""
    return 0.5 * (t1 + t3) + tl.where(t1 < t3, _PI, 0.0).to(t1.dtype)


@triton.jit
def _moments(n, sp, sw, spp, spw, sww, real: tl.constexpr):
    """``S_k`` and ``Q_kl`` of the wedges from the sums of p and w: differences of large numbers, so in float64."""
    sp, sw, spp, spw, sww = (
        sp.to(tl.float64), sw.to(tl.float64), spp.to(tl.float64), spw.to(tl.float64), sww.to(tl.float64)
    )  # fmt: skip
    return (
        (n - sp).to(real),
        (sp - sw).to(real),
        sw.to(real),
        (n - 2 * sp + spp).to(real),
        (spp - 2 * spw + sww).to(real),
        sww.to(real),
        (sp - sw - spp + spw).to(real),
        (sw - spw).to(real),
        (spw - sww).to(real),
    )


@triton.jit
def _channel_value(sp, sw, weight, s0, s1, s2, q00, q11, q22, q01, q02, q12):
    """What one channel adds to ``N x`` the objective, as far as it depends on the junction."""
    v0, v1, v2 = -sp, sp - sw, sw
    c0 = v0 / ((1 + weight) * s0 + _FLOOR)
    c1 = v1 / ((1 + weight) * s1 + _FLOOR)
    c2 = v2 / ((1 + weight) * s2 + _FLOOR)
    return (
        c0 * c0 * (q00 + weight * s0)
        + c1 * c1 * (q11 + weight * s1)
        + c2 * c2 * (q22 + weight * s2)
        + 2 * (c0 * c1 * q01 + c0 * c2 * q02 + c1 * c2 * q12)
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

    at = parameters + 5 * patch
    t1, t2, t3, x0, y0 = tl.load(at), tl.load(at + 1), tl.load(at + 2), tl.load(at + 3), tl.load(at + 4)
    was1, was2, was3, was_x, was_y = t1, t2, t3, x0, y0
    mean0 = _patch_mean(target, width, SIZE, 128)
    mean1, mean2 = mean0, mean0
    if CHANNELS == 3:
        mean1, mean2 = _patch_mean(target + area, width, SIZE, 128), _patch_mean(target + 2 * area, width, SIZE, 128)

    pixels, k = tl.arange(0, BLOCK), tl.arange(0, LANES)
    for search in range(8):
        offset = tl.load(offsets + tl.where(search < 3, 0, LANES) + k)
        angle = tl.where(search == 5, t1, tl.where(search == 6, t2, t3)).to(tl.float32)
        along_x = tl.where(search > 4, tl.cos(angle), tl.where(search == 3, 1.0, 0.0)).to(tl.float64)
        along_y = tl.where(search > 4, tl.sin(angle), tl.where(search == 4, 1.0, 0.0)).to(tl.float64)
        a1 = t1 + tl.where(search == 0, offset, 0.0)
        a2 = t2 + tl.where(search == 1, offset, 0.0)
        a3 = t3 + tl.where(search == 2, offset, 0.0)
        vx = x0 + tl.where(search < 3, 0.0, along_x * offset)
        vy = y0 + tl.where(search < 3, 0.0, along_y * offset)

        s1, s2, s3, _, _, _ = _sorted_angles(a1, a2, a3)
        s1, s2, s3 = s1.to(tl.float32), s2.to(tl.float32), s3.to(tl.float32)
        fx, fy = vx.to(tl.float32), vy.to(tl.float32)
        g0, g1, g2, g3, g4, g5, g6 = _pair(s1, s3, fx, fy)
        h0, h1, h2, h3, h4, h5, h6 = _pair(_middle(s1, s3), s2, fx, fy)

        nothing = tl.zeros((BLOCK, LANES), tl.float32)
        sp, sw, spp, spw, sww = nothing, nothing, nothing, nothing, nothing
        p0, w0, p1, w1, p2, w2, sb = nothing, nothing, nothing, nothing, nothing, nothing, nothing
        for line in range(SIZE):
            y = tl.load(axis + line)
            line_a, line_b = (g1 * y + g2)[None, :], (g4 * y + g5)[None, :]
            line_c, line_d = (h1 * y + h2)[None, :], (h4 * y + h5)[None, :]
            for start in range(0, SIZE, BLOCK):
                i = start + pixels
                inside = i < SIZE
                x = tl.load(axis + i, mask=inside, other=0.0)[:, None]
                d = tl.minimum(g0[None, :] * x + line_a, g3[None, :] * x + line_b)
                e = tl.minimum(h0[None, :] * x + line_c, h3[None, :] * x + line_d)
                p, w = _steps(d, e, g6[None, :], h6[None, :])
                if SIZE % BLOCK != 0:
                    p, w = tl.where(inside[:, None], p, 0.0), tl.where(inside[:, None], w, 0.0)
                sp += p
                sw += w
                spp += p * p
                spw += p * w
                sww += w * w
                pixel = line * width + i
                j = tl.load(target + pixel, mask=inside, other=0.0)[:, None]
                p0 += p * j
                w0 += w * j
                if CHANNELS == 3:
                    j = tl.load(target + area + pixel, mask=inside, other=0.0)[:, None]
                    p1 += p * j
                    w1 += w * j
                    j = tl.load(target + 2 * area + pixel, mask=inside, other=0.0)[:, None]
                    p2 += p * j
                    w2 += w * j
                if COUPLED:
                    gap = _boundary(d, e, g6[None, :]) - tl.load(boundary_map + pixel, mask=inside, other=0.0)[:, None]
                    if SIZE % BLOCK != 0:
                        gap = tl.where(inside[:, None], gap, 0.0)
                    sb += gap * gap

        total_p, total_w = tl.sum(sp, 0), tl.sum(sw, 0)
        s0, s1, s2, q00, q11, q22, q01, q02, q12 = _moments(
            SIZE * SIZE, total_p, total_w, tl.sum(spp, 0), tl.sum(spw, 0), tl.sum(sww, 0), tl.float32
        )
        # The target centered on the patch's mean: its sums with p and w shift with it.
        value = _channel_value(
            tl.sum(p0, 0) - mean0 * total_p, tl.sum(w0, 0) - mean0 * total_w, color_weight, s0, s1, s2, q00, q11, q22,
            q01, q02, q12,
        )  # fmt: skip
        if CHANNELS == 3:
            value += _channel_value(
                tl.sum(p1, 0) - mean1 * total_p, tl.sum(w1, 0) - mean1 * total_w, color_weight, s0, s1, s2, q00, q11,
                q22, q01, q02, q12,
            )  # fmt: skip
            value += _channel_value(
                tl.sum(p2, 0) - mean2 * total_p, tl.sum(w2, 0) - mean2 * total_w, color_weight, s0, s1, s2, q00, q11,
                q22, q01, q02, q12,
            )  # fmt: skip
        if COUPLED:
            value += boundary_weight * tl.sum(sb, 0)
        best = k == tl.argmin(tl.where(k < CANDIDATES, value, float("inf")), 0, tie_break_left=True)
        t1 = tl.sum(tl.where(best, a1, 0.0), 0)
        t2 = tl.sum(tl.where(best, a2, 0.0), 0)
        t3 = tl.sum(tl.where(best, a3, 0.0), 0)
        x0 = tl.sum(tl.where(best, vx, 0.0), 0)
        y0 = tl.sum(tl.where(best, vy, 0.0), 0)

    tl.store(parameters + 5 * patch, t1)
    tl.store(parameters + 5 * patch + 1, t2)
    tl.store(parameters + 5 * patch + 2, t3)
    tl.store(parameters + 5 * patch + 3, x0)
    tl.store(parameters + 5 * patch + 4, y0)
    moved = (t1 != was1) | (t2 != was2) | (t3 != was3) | (x0 != was_x) | (y0 != was_y)
    tl.store(moving + patch, moved.to(tl.uint8))


@triton.jit
def _by_wedge(sp, sw, weight, s0, s1, s2, q00, q11, q22, q01, q02, q12):
    """One channel's colors, the slopes by its target, and what it adds to the constant slopes (see the CPU kernel)."""
    v0, v1, v2 = -sp, sp - sw, sw
    a0, a1, a2 = (1 + weight) * s0 + _FLOOR, (1 + weight) * s1 + _FLOOR, (1 + weight) * s2 + _FLOOR
    c0, c1, c2 = v0 / a0, v1 / a1, v2 / a2
    e0 = (2 * weight * s0 * c0 - 2 * v0 + 2 * (q00 * c0 + q01 * c1 + q02 * c2)) / a0
    e1 = (2 * weight * s1 * c1 - 2 * v1 + 2 * (q01 * c0 + q11 * c1 + q12 * c2)) / a1
    e2 = (2 * weight * s2 * c2 - 2 * v2 + 2 * (q02 * c0 + q12 * c1 + q22 * c2)) / a2
    k0 = weight * c0 * c0 - (1 + weight) * e0 * c0
    k1 = weight * c1 * c1 - (1 + weight) * e1 * c1
    k2 = weight * c2 * c2 - (1 + weight) * e2 * c2
    by_p, by_w = (e1 - 2 * c1) - (e0 - 2 * c0), (e2 - 2 * c2) - (e1 - 2 * c1)
    return c0, c1, c2, by_p, by_w, k1 - k0, k2 - k1


@triton.jit
def _paint_slope(p, w, c0, c1, c2):
    """The reconstruction of one channel at each pixel, and its slopes by p and by w."""
    return c0 + p * (c1 - c0) + w * (c2 - c1), 2 * (c1 - c0), 2 * (c2 - c1)


@triton.jit
def _line_terms(by_line, along_x, along_y, angle, x0, y0):
    """What the slope by one line says about its angle and the vertex."""
    sine, cosine = tl.sin(angle), tl.cos(angle)
    by_angle = -(cosine * (along_x - x0 * by_line) + sine * (along_y - y0 * by_line))
    return by_angle, sine * by_line, -cosine * by_line


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

    t1, t2 = tl.load(parameters + 5 * patch), tl.load(parameters + 5 * patch + 1)
    t3 = tl.load(parameters + 5 * patch + 2)
    x0, y0 = tl.load(parameters + 5 * patch + 3).to(REAL), tl.load(parameters + 5 * patch + 4).to(REAL)
    t1, t2, t3, i1, i2, i3 = _sorted_angles(t1, t2, t3)
    t1, t2, t3 = t1.to(REAL), t2.to(REAL), t3.to(REAL)
    t4 = _middle(t1, t3)
    g0, g1, g2, g3, g4, g5, g6 = _pair(t1, t3, x0, y0)
    h0, h1, h2, h3, h4, h5, h6 = _pair(t4, t2, x0, y0)

    # First pass: the sums that the colors rest on.
    pixels = tl.arange(0, BLOCK)
    nothing = tl.zeros((BLOCK,), REAL)
    sp, sw, spp, spw, sww = nothing, nothing, nothing, nothing, nothing
    p0, w0, p1, w1, p2, w2 = nothing, nothing, nothing, nothing, nothing, nothing
    j0, j1, j2 = nothing, nothing, nothing
    for start in range(0, SIZE * SIZE, BLOCK):
        i = start + pixels
        inside = i < SIZE * SIZE
        at = (i // SIZE) * width + i % SIZE
        x, y = tl.load(x_of + i).to(REAL), tl.load(y_of + i).to(REAL)
        d = tl.minimum(g0 * x + (g1 * y + g2), g3 * x + (g4 * y + g5))
        e = tl.minimum(h0 * x + (h1 * y + h2), h3 * x + (h4 * y + h5))
        p, w = _steps(d, e, g6, h6)
        p, w = tl.where(inside, p, 0.0), tl.where(inside, w, 0.0)
        sp += p
        sw += w
        if ADAM:
            spp += p * p
            spw += p * w
            sww += w * w
        j = tl.load(image + at, mask=inside, other=0.0).to(REAL)
        if LEAN:
            j += color_weight * tl.load(color_map + at, mask=inside, other=0.0)
        j0 += j
        p0 += p * j
        w0 += w * j
        if CHANNELS == 3:
            j = tl.load(image + area + at, mask=inside, other=0.0).to(REAL)
            if LEAN:
                j += color_weight * tl.load(color_map + area + at, mask=inside, other=0.0)
            j1 += j
            p1 += p * j
            w1 += w * j
            j = tl.load(image + 2 * area + at, mask=inside, other=0.0).to(REAL)
            if LEAN:
                j += color_weight * tl.load(color_map + 2 * area + at, mask=inside, other=0.0)
            j2 += j
            p2 += p * j
            w2 += w * j
    n: tl.constexpr = SIZE * SIZE
    total_p, total_w = tl.sum(sp, 0), tl.sum(sw, 0)
    s0, s1, s2, q00, q11, q22, q01, q02, q12 = _moments(
        n, total_p, total_w, tl.sum(spp, 0), tl.sum(spw, 0), tl.sum(sww, 0), REAL
    )
    # The target centered on its mean: the sums of p J and w J shift with it.
    mean0 = tl.sum(j0, 0) / n
    c00, c01, c02, tp0, tw0, base_p, base_w = _by_wedge(
        tl.sum(p0, 0) - mean0 * total_p, tl.sum(w0, 0) - mean0 * total_w, color_weight, s0, s1, s2, q00, q11, q22,
        q01, q02, q12,
    )  # fmt: skip
    drawing = drawings + patch.to(tl.int64) * (_LINES + 3 * CHANNELS)
    _store_lines(drawing, g0, g1, g2, g3, g4, g5, g6)
    _store_lines(drawing + 7, h0, h1, h2, h3, h4, h5, h6)
    _store_colors(drawing + 14, c00, c01, c02, mean0 / (1 + color_weight))
    mean1, mean2 = mean0, mean0
    c10, c11, c12, tp1, tw1 = c00, c01, c02, tp0, tw0
    c20, c21, c22, tp2, tw2 = c00, c01, c02, tp0, tw0
    if CHANNELS == 3:
        mean1, mean2 = tl.sum(j1, 0) / n, tl.sum(j2, 0) / n
        c10, c11, c12, tp1, tw1, more_p, more_w = _by_wedge(
            tl.sum(p1, 0) - mean1 * total_p, tl.sum(w1, 0) - mean1 * total_w, color_weight, s0, s1, s2, q00, q11, q22,
            q01, q02, q12,
        )  # fmt: skip
        base_p += more_p
        base_w += more_w
        c20, c21, c22, tp2, tw2, more_p, more_w = _by_wedge(
            tl.sum(p2, 0) - mean2 * total_p, tl.sum(w2, 0) - mean2 * total_w, color_weight, s0, s1, s2, q00, q11, q22,
            q01, q02, q12,
        )  # fmt: skip
        base_p += more_p
        base_w += more_w
        _store_colors(drawing + 17, c10, c11, c12, mean1 / (1 + color_weight))
        _store_colors(drawing + 20, c20, c21, c22, mean2 / (1 + color_weight))

    if ADAM:
        # Second pass: the slope at each pixel by the wedges, then by the distances, then by the lines.
        a0, ax, ay, b0, bx, by = nothing, nothing, nothing, nothing, nothing, nothing
        k0, kx, ky, m0, mx, my = nothing, nothing, nothing, nothing, nothing, nothing
        for start in range(0, SIZE * SIZE, BLOCK):
            i = start + pixels
            inside = i < SIZE * SIZE
            at = (i // SIZE) * width + i % SIZE
            x, y = tl.load(x_of + i).to(REAL), tl.load(y_of + i).to(REAL)
            line_a, line_b = g0 * x + (g1 * y + g2), g3 * x + (g4 * y + g5)
            line_c, line_d = h0 * x + (h1 * y + h2), h3 * x + (h4 * y + h5)
            d, e = tl.minimum(line_a, line_b), tl.minimum(line_c, line_d)
            p, w = _steps(d, e, g6, h6)
            by_p, by_w = base_p + 0.0 * p, base_w + 0.0 * p
            j = tl.load(image + at, mask=inside, other=0.0).to(REAL) - mean0
            if LEAN:
                j += color_weight * tl.load(color_map + at, mask=inside, other=0.0)
            painted, paint_p, paint_w = _paint_slope(p, w, c00, c01, c02)
            by_p += tp0 * j + paint_p * painted
            by_w += tw0 * j + paint_w * painted
            if CHANNELS == 3:
                j = tl.load(image + area + at, mask=inside, other=0.0).to(REAL) - mean1
                if LEAN:
                    j += color_weight * tl.load(color_map + area + at, mask=inside, other=0.0)
                painted, paint_p, paint_w = _paint_slope(p, w, c10, c11, c12)
                by_p += tp1 * j + paint_p * painted
                by_w += tw1 * j + paint_w * painted
                j = tl.load(image + 2 * area + at, mask=inside, other=0.0).to(REAL) - mean2
                if LEAN:
                    j += color_weight * tl.load(color_map + 2 * area + at, mask=inside, other=0.0)
                painted, paint_p, paint_w = _paint_slope(p, w, c20, c21, c22)
                by_p += tp2 * j + paint_p * painted
                by_w += tw2 * j + paint_w * painted
            b = _boundary(d, e, g6)
            gap = tl.load(boundary_map + at, mask=inside, other=0.0) - b
            sd, se = g6 * d, h6 * e
            by_d = (by_p + w / p * by_w) * _STEP_SLOPE / (1.0 + sd * sd)
            by_e = p * by_w * _STEP_SLOPE / (1.0 + se * se)
            size_e = tl.abs(se)
            by_m = boundary_weight * _BOUNDARY_SLOPE * gap * b * b
            at_e = (sd >= 0) & (size_e < sd)
            m = tl.where(sd < 0, -sd, tl.minimum(sd, size_e))
            by_d += tl.where(at_e, 0.0, by_m * m * tl.where(sd < 0, -1.0, 1.0))
            by_e += tl.where(at_e, by_m * m * tl.where(se < 0, -1.0, 1.0), 0.0)
            by_d, by_e = tl.where(inside, by_d, 0.0), tl.where(inside, by_e, 0.0)
            first = tl.where(line_a < line_b, by_d, 0.0)
            second = by_d - first
            a0 += first
            ax += first * x
            ay += first * y
            b0 += second
            bx += second * x
            by += second * y
            first = tl.where(line_c < line_d, by_e, 0.0)
            second = by_e - first
            k0 += first
            kx += first * x
            ky += first * y
            m0 += second
            mx += second * x
            my += second * y
        sum_a, sum_b, sum_c, sum_d = tl.sum(a0, 0), -tl.sum(b0, 0), tl.sum(k0, 0), -tl.sum(m0, 0)
        by_1, by_x, by_y = _line_terms(sum_a, tl.sum(ax, 0), tl.sum(ay, 0), t1, x0, y0)
        by_3, more_x, more_y = _line_terms(sum_b, -tl.sum(bx, 0), -tl.sum(by, 0), t3, x0, y0)
        by_x += more_x
        by_y += more_y
        by_4, more_x, more_y = _line_terms(sum_c, tl.sum(kx, 0), tl.sum(ky, 0), t4, x0, y0)
        by_x += more_x
        by_y += more_y
        by_2, more_x, more_y = _line_terms(sum_d, -tl.sum(mx, 0), -tl.sum(my, 0), t2, x0, y0)
        by_x += more_x
        by_y += more_y
        _, lift = _lift(_wrap(t3 - t1))
        by_3 += lift * (sum_a - sum_b)
        by_1 -= lift * (sum_a - sum_b)
        _, lift = _lift(_wrap(t2 - t4))
        by_2 += lift * (sum_c - sum_d)
        by_4 -= lift * (sum_c - sum_d)
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
def _store_lines(to, a0, a1, a2, b0, b1, b2, sign):
    tl.store(to, a0)
    tl.store(to + 1, a1)
    tl.store(to + 2, a2)
    tl.store(to + 3, b0)
    tl.store(to + 4, b1)
    tl.store(to + 5, b2)
    tl.store(to + 6, sign)


@triton.jit
def _store_colors(to, c0, c1, c2, mean):
    """The colors as they are painted: ``first + p second + w third``."""
    tl.store(to, c0 + mean)
    tl.store(to + 1, c1 - c0)
    tl.store(to + 2, c2 - c1)


@triton.jit
def _draw(drawing, x, y):
    """``d13``, ``d42``, ``p``, ``w`` and the sign of ``d13``, over pixels, from a patch's drawing."""
    g0, g1, g2 = tl.load(drawing), tl.load(drawing + 1), tl.load(drawing + 2)
    g3, g4, g5 = tl.load(drawing + 3), tl.load(drawing + 4), tl.load(drawing + 5)
    h0, h1, h2 = tl.load(drawing + 7), tl.load(drawing + 8), tl.load(drawing + 9)
    h3, h4, h5 = tl.load(drawing + 10), tl.load(drawing + 11), tl.load(drawing + 12)
    sign = tl.load(drawing + 6)
    d = tl.minimum(g0 * x + (g1 * y + g2), g3 * x + (g4 * y + g5))
    e = tl.minimum(h0 * x + (h1 * y + h2), h3 * x + (h4 * y + h5))
    p, w = _steps(d, e, sign, tl.load(drawing + 13))
    return d, e, p, w, sign


@triton.jit
def _painted(drawing, p, w):
    """One channel of a patch; its colors are float32 whatever the lines are, as on the CPU."""
    c0, c1, c2 = tl.load(drawing), tl.load(drawing + 1), tl.load(drawing + 2)
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
    red, green, blue = boundary, boundary, boundary
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
            red += tl.where(inside, _painted(drawing + _LINES, p, w), 0.0)
            if CHANNELS == 3:
                green += tl.where(inside, _painted(drawing + _LINES + 3, p, w), 0.0)
                blue += tl.where(inside, _painted(drawing + _LINES + 6, p, w), 0.0)
    area = height.to(tl.int64) * width
    at = row_y.to(tl.int64) * width + column_x
    within = (row_y < height) & (column_x < width)
    count = tl.maximum(count, 1.0)
    if WITH_BOUNDARY:
        tl.store(boundary_map + view * area + at, (boundary / count).to(tl.float32), mask=within)
    color_map += view * CHANNELS * area
    tl.store(color_map + at, (red / count).to(tl.float32), mask=within)
    if CHANNELS == 3:
        tl.store(color_map + area + at, (green / count).to(tl.float32), mask=within)
        tl.store(color_map + 2 * area + at, (blue / count).to(tl.float32), mask=within)


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
