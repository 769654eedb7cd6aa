"""Numba kernels of the field of junctions: the search step, the refinement step and the global maps.

The mathematics is explained in ``stages/junctions``; this file holds the same functions arranged for speed. Three ideas
carry it:

* With closed-form colors the objective of a patch is a function of a few sums over its pixels: of ``p``, ``w``,
  ``p^2``, ``p w``, ``w^2``, ``p J`` and ``w J``, where ``p = h(d13)``, ``q = h(d42)``, ``w = p q`` (so ``u1 = 1 - p``,
  ``u2 = p - w``, ``u3 = w``) and ``J = I + lc G``. One pass over the pixels, nothing stored beyond the patch.
* The pixels of a patch are one flat array, so that the compiler fills whole vector registers for any patch size.
* Maps are summed in a fixed order whatever the number of threads: patches that are written at the same time never
  overlap (see ``sweep``).

Pixels are float32; parameters, and everything done once per patch, are float64.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import float32, njit

_FAST: dict[str, Any] = {"fastmath": True, "error_model": "numpy", "nogil": True, "no_cfunc_wrapper": True}
# Helpers become part of each kernel. Left as functions, several compiled copies of one exist, fast math rounds each in
# its own way, and which one a kernel calls depends on whether it was compiled in this process or loaded from the cache.
# Nobody else calls them, so they need no place in the cache and no wrapper for Python, which take longer than they do.
_INLINE: dict[str, Any] = {**_FAST, "forceinline": True, "no_cpython_wrapper": True}

_TWO_PI = 2 * math.pi
_NEVER = 1e300  # fast math assumes finite numbers

# atan(z)/pi on [0, 1] as an odd polynomial, minimax, largest error 8e-8.
_A0, _A1, _A2, _A3 = float32(0.31830865), float32(-0.10605248), float32(0.06305023), float32(-0.04212303)
_A4, _A5, _A6 = float32(0.02534500), float32(-0.01069655), float32(0.00216826)
_ZERO, _HALF, _ONE, _TWO = float32(0), float32(0.5), float32(1), float32(2)
_TINY = float32(1e-12)

# One geometry: two pairs of lines (A, B), each line three coefficients over x, y, 1; then the sign of the pair.
# All in units of eta, sign and lift folded in, so that sign * d / eta = min(A, B).
_GEOMETRY, _PAIR = 14, 7


class Shape(NamedTuple):
    """What the shape of a junction depends on, as the kernels use it; see :func:`junction_shape`."""

    per_eta: float  #: ``1 / eta``
    lift: float
    color_floor: float
    sharpness: np.float32  #: ``(eta / delta)^2``
    step_slope: np.float32  #: ``1 / (pi eta)``
    boundary_slope: float  #: ``4 eta / delta^2``


def junction_shape(eta: float, delta: float, lift: float, color_floor: float) -> Shape:
    """Return the constants of a junction as the kernels use them."""
    sharpness, step_slope = np.float32((eta / delta) ** 2), np.float32(1 / (math.pi * eta))
    return Shape(1 / eta, lift, color_floor, sharpness, step_slope, 2 * 2 * eta / (delta * delta))


@njit(**_INLINE)
def _soft_step(d, sign, size, reciprocal):
    """``h(sign d)`` of a distance in units of eta, given ``|d|`` and ``1/|d|`` (one division serves two steps)."""
    z = min(size, reciprocal)
    s = z * z
    t = z * (_A0 + s * (_A1 + s * (_A2 + s * (_A3 + s * (_A4 + s * (_A5 + s * _A6))))))
    v = t if size <= _ONE else _HALF - t
    return _HALF + sign * math.copysign(v, d)


@njit(**_INLINE)
def _lift_of(opening, lift):
    """Lift ``lift (D/pi - 1)^35`` and its derivative by ``D``."""
    v = opening / math.pi - 1.0
    v2 = v * v
    v4 = v2 * v2
    v8 = v4 * v4
    v16 = v8 * v8
    v34 = v16 * v16 * v2
    return lift * v34 * v, lift * 35.0 / math.pi * v34


@njit(**_INLINE)
def _wrap(angle):
    return angle - _TWO_PI * math.floor(angle / _TWO_PI)


@njit(**_INLINE)
def _sort_three(t, order):
    """Wrap and sort three angles in place, with ``order[i]`` the parameter that the i-th sorted angle came from."""
    for i in range(3):
        t[i] = _wrap(t[i])
        order[i] = i
    for i, j in ((0, 1), (1, 2), (0, 1)):
        if t[i] > t[j]:
            t[i], t[j] = t[j], t[i]
            order[i], order[j] = order[j], order[i]


@njit(**_INLINE)
def _turn_line(g, lines, line, at, scale, angle, lift):
    s, c = math.sin(angle) * scale, math.cos(angle) * scale
    g[at], g[at + 1] = -s, c
    lines[line, 0], lines[line, 1], lines[line, 2] = s, c, lift


@njit(**_INLINE)
def _turn_pair(g, lines, pair, angle_a, angle_b, shape):
    opening = _wrap(angle_b - angle_a)
    sign = 1.0 if opening < math.pi else -1.0
    lift = sign * _lift_of(opening, shape.lift)[0] * shape.per_eta
    at = _PAIR * pair
    _turn_line(g, lines, 2 * pair, at, sign * shape.per_eta, angle_a, lift)
    _turn_line(g, lines, 2 * pair + 1, at + 3, -sign * shape.per_eta, angle_b, lift)
    g[at + 6] = sign


@njit(**_INLINE)
def _turn(theta, shape, workspace):
    """Fill what of the geometry depends on the angles: pair (1, 3) then pair (4, 2) of the sorted ones."""
    _, _, g, (t, order, lines), _, _ = workspace
    for k in range(3):
        t[k] = theta[k]
    _sort_three(t, order)
    t4 = 0.5 * (t[0] + t[2]) + (math.pi if t[0] < t[2] else 0.0)
    _turn_pair(g, lines, 0, t[0], t[2], shape)
    _turn_pair(g, lines, 1, t4, t[1], shape)


@njit(**_INLINE)
def _place(g, lines, x0, y0):
    """Fill what of the geometry depends on the vertex."""
    for line in range(4):
        at = _PAIR * (line // 2) + 3 * (line % 2)
        g[at + 2] = lines[line, 0] * x0 - lines[line, 1] * y0 + lines[line, 2]


@njit(**_INLINE)
def _draw(g, x, y, d13, d42, p, w):
    """Fill ``p = h(d13)`` and ``w = h(d13) h(d42)`` over the pixels; and the distances, in eta, times their sign."""
    a0, a1, a2, b0, b1, b2, sign_a = g[0], g[1], g[2], g[3], g[4], g[5], g[6]
    c0, c1, c2, e0, e1, e2, sign_c = g[7], g[8], g[9], g[10], g[11], g[12], g[13]
    for i in range(x.size):
        d = min(a0 * x[i] + a1 * y[i] + a2, b0 * x[i] + b1 * y[i] + b2)
        e = min(c0 * x[i] + c1 * y[i] + c2, e0 * x[i] + e1 * y[i] + e2)
        size_d, size_e = abs(d) + _TINY, abs(e) + _TINY
        inverse = _ONE / (size_d * size_e)
        step = _soft_step(d, sign_a, size_d, inverse * size_e)
        d13[i], d42[i] = d, e
        p[i] = step
        w[i] = step * _soft_step(e, sign_c, size_e, inverse * size_d)


@njit(**_INLINE)
def _draw_boundary(g, d13, d42, b, sharpness):
    """Fill ``b`` over the pixels, from the distances of ``_draw``."""
    sign = g[6]
    for i in range(b.size):
        d = sign * d13[i]
        m = -d if d < _ZERO else min(d, abs(d42[i]))
        b[i] = _ONE / (_ONE + sharpness * m * m)


@njit(**_INLINE)
def _sum_shapes(p, w, sums):
    """Sums of ``p``, ``w``, ``p^2``, ``p w``, ``w^2`` into ``sums[:5]``."""
    sp = sw = spp = spw = sww = _ZERO
    for i in range(p.size):
        sp += p[i]
        sw += w[i]
        spp += p[i] * p[i]
        spw += p[i] * w[i]
        sww += w[i] * w[i]
    sums[0], sums[1], sums[2], sums[3], sums[4] = sp, sw, spp, spw, sww


@njit(**_INLINE)
def _sum_colors(p, w, target, sums):
    """Sums of ``p J`` and ``w J`` of channel c into ``sums[5 + 2c]``, ``sums[6 + 2c]``."""
    for c in range(target.shape[0]):
        j = target[c]
        sp = sw = _ZERO
        for i in range(p.size):
            sp += p[i] * j[i]
            sw += w[i] * j[i]
        sums[5 + 2 * c], sums[6 + 2 * c] = sp, sw


@njit(**_INLINE)
def _wedge_moments(sums, n, s, q):
    """``S_k = sum u_k`` and ``Q_kl = sum u_k u_l`` from the sums of p and w."""
    sp, sw, spp, spw, sww = sums[0], sums[1], sums[2], sums[3], sums[4]
    s[0], s[1], s[2] = n - sp, sp - sw, sw
    q[0, 0] = n - 2 * sp + spp
    q[1, 1] = spp - 2 * spw + sww
    q[2, 2] = sww
    q[0, 1] = q[1, 0] = sp - sw - spp + spw
    q[0, 2] = q[2, 0] = sw - spw
    q[1, 2] = q[2, 1] = spw - sww


@njit(**_INLINE)
def _shape_value(sums, n, channels, color_weight, floor, s, q):
    """What of ``N x`` (data term + lc term) depends on the junction; the rest is constant over the candidates.

    ``J`` is centered on the patch (it sums to zero), which keeps float32 sums accurate and changes no wedge's residual.
    """
    _wedge_moments(sums, n, s, q)
    value = 0.0
    per0 = 1 / ((1 + color_weight) * s[0] + floor)
    per1 = 1 / ((1 + color_weight) * s[1] + floor)
    per2 = 1 / ((1 + color_weight) * s[2] + floor)
    for c in range(channels):
        v0, v1, v2 = -sums[5 + 2 * c], sums[5 + 2 * c] - sums[6 + 2 * c], sums[6 + 2 * c]
        c0, c1, c2 = v0 * per0, v1 * per1, v2 * per2
        value += (
            c0 * c0 * (q[0, 0] + color_weight * s[0])
            + c1 * c1 * (q[1, 1] + color_weight * s[1])
            + c2 * c2 * (q[2, 2] + color_weight * s[2])
            + 2 * (c0 * c1 * q[0, 1] + c0 * c2 * q[0, 2] + c1 * c2 * q[1, 2])
            - 2 * (c0 * v0 + c1 * v1 + c2 * v2)
        )
    return value


@njit(**_INLINE)
def _cut(plane, row, column, size, out):
    """Copy a patch of a plane into the flat ``out``."""
    for i in range(size):
        source, line = plane[row + i, column : column + size], out[i * size : (i + 1) * size]
        for j in range(size):
            line[j] = source[j]


@njit(**_INLINE)
def _target(image, color_map, row, column, size, color_weight, out, scratch, mean):
    """Fill ``out`` with the centered ``J = I + lc G`` of a patch and ``mean`` with the color it was centered on."""
    weight = float32(color_weight)
    for c in range(out.shape[0]):
        j, color = out[c], scratch[c]
        _cut(image[c], row, column, size, j)
        if color_weight > 0:
            _cut(color_map[c], row, column, size, color)
            for i in range(j.size):
                j[i] += weight * color[i]
        total = _ZERO
        for i in range(j.size):
            total += j[i]
        center = total / float32(j.size)
        for i in range(j.size):
            j[i] -= center
        mean[c] = center / (1 + color_weight)


@njit(**_INLINE)
def _pixels(axis):
    n = axis.size
    x, y = np.empty(n * n, axis.dtype), np.empty(n * n, axis.dtype)
    for i in range(n):
        for j in range(n):
            x[i * n + j] = axis[j]
            y[i * n + j] = axis[i]
    return x, y


@njit(**_INLINE)
def _workspace(x, channels):
    """What is computed about one patch, in the type of ``x``; made once per share of the work, see ``_measure``."""
    n, real = x.size, x.dtype
    return (
        (np.empty((channels, n), real), np.empty((channels, n), real)),  # target J, painted
        (np.empty(n, real), np.empty(n, real), np.empty(n, real), np.empty(n, real)),  # d13, d42, p, w
        np.empty(_GEOMETRY, real),
        (np.empty(3), np.empty(3, np.int64), np.empty((4, 3))),  # sorted angles, their order, lines but for the vertex
        (np.empty((3, channels)), np.empty((3, channels + 1)), np.empty(channels)),  # colors, slopes, mean color
        (np.empty(5 + 2 * channels), np.empty(3), np.empty((3, 3))),  # sums, S, Q
    )


@njit(**_INLINE)
def _measure(theta, x, y, shape, workspace):
    """Draw one patch over its target, and take the sums that its colors and its objective rest on."""
    _turn(theta, shape, workspace)
    _measure_at(theta[3], theta[4], x, y, workspace)


@njit(**_INLINE)
def _measure_at(x0, y0, x, y, workspace):
    """The same with this vertex, and the angles as they are."""
    (target, _), (d13, d42, p, w), g, (_, _, lines), _, (sums, _, _) = workspace
    _place(g, lines, x0, y0)
    _draw(g, x, y, d13, d42, p, w)
    _sum_shapes(p, w, sums)
    _sum_colors(p, w, target, sums)


@njit(cache=True, **_FAST)
def search_step(
    first, stop, active, parameters, image, boundary_map, color_map, axis, stride, boundary_weight, color_weight,
    angle_offsets, vertex_offsets, shape, moved,
):  # fmt: skip
    """One step of coordinate descent for some of the listed patches, in place; ``moved`` tells which of them moved.

    Parameters
    ----------
    first, stop : int, which of the listed patches
    active : (n,) int64, flat indices into the patch grids of all views
    parameters : (V, rows, cols, 5) float64
    image, color_map : (V, C, H, W) float32; boundary_map : (V, H, W) float32
    axis : (R,) float32, the coordinates of a patch's pixels along one side
    """
    _, rows, columns, _ = parameters.shape
    size, channels = axis.size, image.shape[1]
    n = float(size * size)
    x, y = _pixels(axis)
    workspace = _workspace(x, channels)
    (target, scratch), (d13, d42, _, _), g, _, (_, _, mean), (sums, s, q) = workspace
    boundary, b = np.empty(x.size, np.float32), np.empty(x.size, np.float32)
    best, start, trial = np.empty(5), np.empty(5), np.empty(5)
    for a in range(first, stop):
        view, place = active[a] // (rows * columns), active[a] % (rows * columns)
        row, column = place // columns, place % columns
        theta = parameters[view, row, column]
        for i in range(5):
            best[i] = theta[i]
        _target(image[view], color_map[view], row * stride, column * stride, size, color_weight, target, scratch, mean)
        if boundary_weight > 0:
            _cut(boundary_map[view], row * stride, column * stride, size, boundary)
        for search in range(8):
            for i in range(5):
                start[i] = best[i]
            lowest = _NEVER
            offsets = angle_offsets if search < 3 else vertex_offsets
            for k in range(offsets.size):
                for i in range(5):
                    trial[i] = start[i]
                if search < 5:
                    trial[search] += offsets[k]
                else:
                    trial[3] += math.cos(start[search - 5]) * offsets[k]
                    trial[4] += math.sin(start[search - 5]) * offsets[k]
                if search < 3 or k == 0:  # the angles stay while the vertex moves
                    _turn(trial, shape, workspace)
                _measure_at(trial[3], trial[4], x, y, workspace)
                value = _shape_value(sums, n, channels, color_weight, shape.color_floor, s, q)
                if boundary_weight > 0:
                    _draw_boundary(g, d13, d42, b, shape.sharpness)
                    gaps = _ZERO
                    for i in range(b.size):
                        gaps += (b[i] - boundary[i]) * (b[i] - boundary[i])
                    value += boundary_weight * gaps
                if value < lowest:
                    lowest = value
                    for i in range(5):
                        best[i] = trial[i]
        moved[a] = False
        for i in range(5):
            moved[a] |= best[i] != theta[i]
            theta[i] = best[i]


@njit(**_INLINE)
def _colors_and_slopes(sums, n, color_weight, floor, mean, colors, slopes, s, q):
    """Colors of the wedges (centered), and the slope of the objective by each wedge's indicator.

    For a pixel with centered target J and reconstruction ``r = sum_l u_l c_l`` the slope by ``u_k`` is
    ``slopes[k, C] + sum_ch slopes[k, ch] J + 2 c_k r``. The colors depend on the indicators too, so with
    ``a_k = (1 + lc) S_k`` and ``e_k`` the slope by ``c_k`` (zero only for wedges that do not blend into each other),
    ``slopes[k, ch] = -2 c_k + e_k / a_k`` and ``slopes[k, C] = sum_ch lc c_k^2 - (1 + lc) e_k c_k / a_k``.
    """
    channels = mean.size
    _wedge_moments(sums, n, s, q)
    v = np.empty(3)
    for k in range(3):
        slopes[k, channels] = 0.0
    for c in range(channels):
        v[0], v[1], v[2] = -sums[5 + 2 * c], sums[5 + 2 * c] - sums[6 + 2 * c], sums[6 + 2 * c]
        for k in range(3):
            colors[k, c] = v[k] / ((1 + color_weight) * s[k] + floor)
        for k in range(3):
            weight = (1 + color_weight) * s[k] + floor
            by_color = 2 * color_weight * s[k] * colors[k, c] - 2 * v[k]
            for m in range(3):
                by_color += 2 * q[k, m] * colors[m, c]
            slopes[k, c] = by_color / weight - 2 * colors[k, c]
            slopes[k, channels] += (
                color_weight * colors[k, c] * colors[k, c] - (1 + color_weight) * by_color * colors[k, c] / weight
            )


@njit(**_INLINE)
def _paint(p, w, colors, mean, painted):
    """Fill ``painted``, ``(C, n)``, with the reconstruction ``sum_k u_k c_k``."""
    for c in range(mean.size):
        c0 = float32(colors[0, c] + mean[c])
        c1, c2 = float32(colors[1, c] - colors[0, c]), float32(colors[2, c] - colors[1, c])
        row = painted[c]
        for i in range(p.size):
            row[i] = c0 + p[i] * c1 + w[i] * c2


@njit(**_INLINE)
def _slopes_by_wedge(p, w, target, painted, mean, colors, slopes, by_p, by_w):
    """Slope of ``N x`` objective by ``p`` and by ``w`` at each pixel (chain rule over u1 = 1-p, u2 = p-w, u3 = w)."""
    channels = mean.size
    base_p = float32(slopes[1, channels] - slopes[0, channels])
    base_w = float32(slopes[2, channels] - slopes[1, channels])
    for i in range(p.size):
        by_p[i], by_w[i] = base_p, base_w
    for c in range(channels):
        j, r, center = target[c], painted[c], float32(mean[c])
        target_p, target_w = float32(slopes[1, c] - slopes[0, c]), float32(slopes[2, c] - slopes[1, c])
        paint_p, paint_w = float32(2 * (colors[1, c] - colors[0, c])), float32(2 * (colors[2, c] - colors[1, c]))
        for i in range(p.size):
            by_p[i] += target_p * j[i] + paint_p * (r[i] - center)
            by_w[i] += target_w * j[i] + paint_w * (r[i] - center)


@njit(**{**_INLINE, "fastmath": False})
def _times(value, factor):
    """A product that fast math does not reorder: the result must not depend on whether the factor is known early."""
    return value * factor


@njit(**_INLINE)
def _slopes_by_distance(g, d13, d42, p, w, by_p, by_w, b, boundary, boundary_weight, shape):
    """Turn slopes by ``p`` and ``w`` into slopes by ``d13`` and ``d42`` (in patch units), in place."""
    weight = float32(boundary_weight * shape.boundary_slope)
    sign_a, sign_c = g[6], g[13]
    for i in range(p.size):
        d, e = sign_a * d13[i], sign_c * d42[i]
        q = w[i] / p[i]
        slope_d = _times(by_p[i] + q * by_w[i], shape.step_slope) / (_ONE + d * d)
        slope_e = _times(p[i] * by_w[i], shape.step_slope) / (_ONE + e * e)
        size_e = abs(e)
        m = -d if d < _ZERO else min(d, size_e)
        by_m = weight * (boundary[i] - b[i]) * m * b[i] * b[i]
        at_e = d >= _ZERO and size_e < d
        sign_d = -_ONE if d < _ZERO else _ONE
        sign_e = -_ONE if e < _ZERO else _ONE
        by_p[i] = slope_d + (_ZERO if at_e else by_m * sign_d)
        by_w[i] = slope_e + (by_m * sign_e if at_e else _ZERO)


@njit(**_INLINE)
def _slopes_by_lines(g, at, x, y, by_distance, line_slopes):
    """Sums over pixels of slope, slope * x, slope * y for the two lines of a pair: (2, 3), by the line itself."""
    a0, a1, a2, b0, b1, b2 = g[at], g[at + 1], g[at + 2], g[at + 3], g[at + 4], g[at + 5]
    s0 = sx = sy = r0 = rx = ry = _ZERO
    for i in range(x.size):
        first = a0 * x[i] + a1 * y[i] + a2 < b0 * x[i] + b1 * y[i] + b2
        f = by_distance[i] if first else _ZERO
        h = _ZERO if first else by_distance[i]
        s0 += f
        sx += f * x[i]
        sy += f * y[i]
        r0 += h
        rx += h * x[i]
        ry += h * y[i]
    # d = s min(s l_a, -s l_b): the slope by l_a is +1, by l_b is -1, whatever the sign s
    line_slopes[0, 0], line_slopes[0, 1], line_slopes[0, 2] = s0, sx, sy
    line_slopes[1, 0], line_slopes[1, 1], line_slopes[1, 2] = -r0, -rx, -ry


@njit(**_INLINE)
def _gradient(g, t, order, x0, y0, x, y, by_d13, by_d42, n, lift, line_slopes, gradient):
    """Gradient of a patch's objective by its five parameters, from the slopes by the two distances."""
    t4 = 0.5 * (t[0] + t[2]) + (math.pi if t[0] < t[2] else 0.0)
    by_angle = np.zeros(4)  # sorted angles, then t4
    gradient[3] = gradient[4] = 0.0
    for pair in range(2):
        first, second = (0, 2) if pair == 0 else (3, 1)
        _slopes_by_lines(g, _PAIR * pair, x, y, by_d13 if pair == 0 else by_d42, line_slopes)
        for line in range(2):
            k = first if line == 0 else second
            angle = t4 if k == 3 else t[k]
            sine, cosine = math.sin(angle), math.cos(angle)
            total, along_x, along_y = line_slopes[line, 0], line_slopes[line, 1], line_slopes[line, 2]
            by_angle[k] -= cosine * (along_x - x0 * total) + sine * (along_y - y0 * total)
            gradient[3] += sine * total
            gradient[4] -= cosine * total
        angle_a, angle_b = (t[0], t[2]) if pair == 0 else (t4, t[1])
        lift_slope = _lift_of(_wrap(angle_b - angle_a), lift)[1] * (line_slopes[0, 0] - line_slopes[1, 0])
        by_angle[second] += lift_slope
        by_angle[first] -= lift_slope
    by_angle[0] += 0.5 * by_angle[3]
    by_angle[2] += 0.5 * by_angle[3]
    for k in range(3):
        gradient[order[k]] = by_angle[k] / n
    gradient[3] /= n
    gradient[4] /= n


@njit(**_INLINE)
def _adam(parameters, gradient, first, second, count, rates, adam):
    """One Adam step on five parameters, in place; ``adam`` holds both betas, both gains and epsilon."""
    for k in range(5):
        first[k] = adam[0] * first[k] + adam[2] * gradient[k]
        second[k] = adam[1] * second[k] + adam[3] * gradient[k] * gradient[k]
        mean = first[k] / (1.0 - adam[0] ** count)
        spread = math.sqrt(second[k] / (1.0 - adam[1] ** count))
        parameters[k] -= rates[k] * mean / (spread + adam[4])


@njit(**_INLINE)
def _add(plane, row, column, size, patch):
    """Add a flat patch to a plane."""
    for i in range(size):
        line, values = plane[row + i, column : column + size], patch[i * size : (i + 1) * size]
        for j in range(size):
            line[j] += values[j]


@njit(**_INLINE)
def _describe(theta, image, color_map, top, left, size, color_weight, x, y, shape, workspace):
    """Draw one patch, find its colors and paint it."""
    (target, painted), (_, _, p, w), _, _, (colors, slopes, mean), (sums, s, q) = workspace
    _target(image, color_map, top, left, size, color_weight, target, painted, mean)
    _measure(theta, x, y, shape, workspace)
    _colors_and_slopes(sums, float(x.size), color_weight, shape.color_floor, mean, colors, slopes, s, q)
    _paint(p, w, colors, mean, painted)


@njit(cache=True, **_FAST)
def sweep(
    first, stop, odd_row, odd_column, block_rows, block_columns, parameters, adam_first, adam_second, count, rates,
    image, boundary_map, color_map, axis, stride, boundary_weight, color_weight, boundary_sum, color_sum, gradients,
    shape, adam,
):  # fmt: skip
    """Add the patches of some blocks to the maps; with ``count > 0`` also take Adam step number ``count``.

    What is added is drawn with the parameters before the step; layouts as in ``search_step``. ``gradients`` is filled
    when ``count`` is not zero. Blocks are numbered over all views, among those in odd or even rows and columns of
    blocks; ``junctions.py`` says why.
    """
    _, rows, columns, _ = parameters.shape
    size, channels = axis.size, image.shape[1]
    n = float(size * size)
    x, y = _pixels(axis)
    workspace = _workspace(x, channels)
    (target, painted), (d13, d42, p, w), g, (angles, order, _), (colors, slopes, mean), _ = workspace
    boundary, b = np.zeros(x.size, np.float32), np.empty(x.size, np.float32)
    by_p, by_w = np.empty(x.size, np.float32), np.empty(x.size, np.float32)
    line_slopes = np.empty((2, 3))
    down = ((rows + block_rows - 1) // block_rows - odd_row + 1) // 2
    across = ((columns + block_columns - 1) // block_columns - odd_column + 1) // 2
    for task in range(first, stop):
        view, place = task // (down * across), task % (down * across)
        start_row = block_rows * (2 * (place // across) + odd_row)
        start_column = block_columns * (2 * (place % across) + odd_column)
        for row in range(start_row, min(start_row + block_rows, rows)):
            for column in range(start_column, min(start_column + block_columns, columns)):
                theta = parameters[view, row, column]
                top, left = row * stride, column * stride
                _describe(theta, image[view], color_map[view], top, left, size, color_weight, x, y, shape, workspace)
                _draw_boundary(g, d13, d42, b, shape.sharpness)
                _add(boundary_sum[view], top, left, size, b)
                for c in range(channels):
                    _add(color_sum[view, c], top, left, size, painted[c])
                if count > 0:
                    if boundary_weight > 0:
                        _cut(boundary_map[view], top, left, size, boundary)
                    _slopes_by_wedge(p, w, target, painted, mean, colors, slopes, by_p, by_w)
                    _slopes_by_distance(g, d13, d42, p, w, by_p, by_w, b, boundary, boundary_weight, shape)
                    gradient = gradients[view, row, column]
                    _gradient(
                        g, angles, order, theta[3], theta[4], x, y, by_p, by_w, n, shape.lift, line_slopes, gradient
                    )
                    _adam(
                        theta, gradient, adam_first[view, row, column], adam_second[view, row, column], count, rates,
                        adam,
                    )  # fmt: skip


@njit(cache=True, **_FAST)
def paint_row(parameters, planes, axis, stride, top, patches, shape):
    """Fill ``patches``, ``(columns, C, R * R)``, with the plain reconstructions of one row of patches.

    ``axis`` is float64 here: costs are floored to whole numbers, and rounding must not decide them. In float32 an edge
    of a vertex far outside its patch is drawn to some 1e-4 only.
    """
    x, y = _pixels(axis)
    workspace = _workspace(x, planes.shape[0])
    painted = workspace[0][1]
    for column in range(parameters.shape[0]):
        _describe(parameters[column], planes, planes, top, column * stride, axis.size, 0.0, x, y, shape, workspace)
        for c in range(painted.shape[0]):
            for i in range(painted.shape[1]):
                patches[column, c, i] = painted[c, i]


@njit(cache=True, **_FAST)
def add_row(patches, size, stride, top, total):
    """Add one row of patches to the planes ``total``, each line of pixels from left to right."""
    columns, channels, _ = patches.shape
    for c in range(channels):
        for line in range(size):
            pixels = total[c, top + line]
            for column in range(columns):
                values = patches[column, c, line * size : (line + 1) * size]
                for j in range(size):
                    pixels[column * stride + j] += values[j]
