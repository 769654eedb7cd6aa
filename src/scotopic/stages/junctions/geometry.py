"""What one junction looks like inside its patch: distances, wedges, boundary, colors.

This is the readable reference, NumPy in float64, of the field of junctions. The kernels of the backends compute
the same functions fused and in float32; tests hold them to this page.

A patch has ``R x R`` pixels over ``linspace(-1, 1, R)`` and five parameters ``(t1, t2, t3, x0, y0)``: three
angles and a vertex. Arrays of parameters have shape ``(..., 5)``; what is computed per pixel, ``(..., R, R)``.
"""

import numpy as np
from numpy.typing import NDArray

from scotopic.constants import COLOR_FLOOR, DELTA, ETA, LIFT, LIFT_POWER

Array = NDArray[np.float64]


def pixel_coordinates(patch_size: int) -> tuple[Array, Array]:
    """Return ``x`` (columns) and ``y`` (rows) of a patch, each ``(R, R)`` over ``linspace(-1, 1, R)``."""
    axis = np.linspace(-1.0, 1.0, patch_size)
    y, x = np.meshgrid(axis, axis, indexing="ij")
    return x, y


def sector_angles(parameters: Array) -> tuple[Array, Array, Array, Array]:
    """Return the sorted angles ``t1 <= t2 <= t3`` in [0, 2 pi) and ``t4``, the middle of the sector without ``t2``."""
    t1, t2, t3 = np.moveaxis(np.sort(np.mod(parameters[..., :3], 2 * np.pi), axis=-1), -1, 0)
    t4 = 0.5 * (t1 + t3) + np.where(t1 < t3, np.pi, 0.0)
    return t1, t2, t3, t4


def _pair_distance(line_a: Array, line_b: Array, angle_a: Array, angle_b: Array) -> Array:
    """Return ``d_ab``: signed distance to the sector between two rays, lifted where that sector vanishes."""
    opening = np.mod(angle_b - angle_a, 2 * np.pi)
    sign = np.where(opening < np.pi, 1.0, -1.0)[..., None, None]
    lift = LIFT * (opening / np.pi - 1.0) ** LIFT_POWER
    return sign * np.minimum(sign * line_a, -sign * line_b) + lift[..., None, None]


def distances(parameters: Array, patch_size: int) -> tuple[Array, Array]:
    """Return the two distance functions ``d13`` and ``d42`` of each junction, shape ``(..., R, R)``."""
    x, y = pixel_coordinates(patch_size)
    x0, y0 = (parameters[..., k, None, None] for k in (3, 4))
    angles = sector_angles(parameters)
    line1, line2, line3, line4 = (
        -np.sin(t)[..., None, None] * (x - x0) + np.cos(t)[..., None, None] * (y - y0) for t in angles
    )
    t1, t2, t3, t4 = angles
    return _pair_distance(line1, line3, t1, t3), _pair_distance(line4, line2, t4, t2)


def soft_step(distance: Array) -> Array:
    """Return ``h(d) = 1/2 + atan(d / eta) / pi``."""
    return 0.5 + np.arctan(distance / ETA) / np.pi


def wedges(d13: Array, d42: Array) -> Array:
    """Return the indicators ``u1, u2, u3`` of the three wedges, shape ``(..., 3, R, R)``; they sum to one."""
    p, q = soft_step(d13), soft_step(d42)
    return np.stack([1.0 - p, p * (1.0 - q), p * q], axis=-3)


def boundary(d13: Array, d42: Array) -> Array:
    """Return ``b``: one on the junction's edges, falling off within a few ``delta``."""
    m = np.where(d13 < 0, -d13, np.minimum(d13, np.abs(d42)))
    return 1.0 / (1.0 + (m / DELTA) ** 2)


def wedge_colors(u: Array, image: Array, color_map: Array | None = None, color_weight: float = 0.0) -> Array:
    """Return the closed-form color of each wedge, shape ``(..., 3, C)``.

    Parameters
    ----------
    u
        Indicators, ``(..., 3, R, R)``.
    image
        The patches of the image, ``(..., R, R, C)``.
    color_map, color_weight
        ``G`` cut to the patches and its weight ``lc``.
    """
    target = image if color_map is None else image + color_weight * color_map
    weight = 1.0 if color_map is None else 1.0 + color_weight
    total = np.einsum("...kij,...ijc->...kc", u, target)
    return np.asarray(total / (weight * u.sum(axis=(-2, -1))[..., None] + COLOR_FLOOR))


def reconstruction(u: Array, colors: Array) -> Array:
    """Return ``sum_k u_k c_k``: each patch painted with its wedges' colors, ``(..., R, R, C)``."""
    return np.asarray(np.einsum("...kij,...kc->...ijc", u, colors))


def objective(
    parameters: Array,
    image: Array,
    boundary_map: Array | None = None,
    color_map: Array | None = None,
    boundary_weight: float = 0.0,
    color_weight: float = 0.0,
) -> Array:
    """Return the objective of each patch: data term, plus agreement with the global boundary and color maps.

    ``image`` and ``color_map`` are ``(..., R, R, C)``, ``boundary_map`` is ``(..., R, R)``; all cut to the patches.
    """
    d13, d42 = distances(parameters, image.shape[-2])
    u = wedges(d13, d42)
    c = wedge_colors(u, image, color_map, color_weight)
    value = ((image - reconstruction(u, c)) ** 2).sum(-1).mean((-2, -1))
    if boundary_map is not None and boundary_weight:
        value = value + boundary_weight * ((boundary(d13, d42) - boundary_map) ** 2).mean((-2, -1))
    if color_map is not None and color_weight:
        spread = ((c[..., :, None, None, :] - color_map[..., None, :, :, :]) ** 2).sum(-1)
        value = value + color_weight * (u * spread).sum(-3).mean((-2, -1))
    return np.asarray(value)
