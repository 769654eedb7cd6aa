"""A disparity for every pixel: planes that extend from confident pixels to others, and stop at boundaries.

At each pixel a plane is fitted to the disparities around, weighted by confidence and distance. Distance is measured
along rows and columns, and a boundary on the way adds to it (the domain transform of Gastal and Oliveira, with the
boundary map in the place of colors)::

    distance = sum over the steps of  1 + strictness * B

with ``B`` the stronger of the boundary map at both ends of a step. So pixels behind a strong boundary have next to no
weight. The sums that the fit needs, ``sum w``, ``sum w x``, ..., ``sum w y d``, are all filtered the same way, back and
forth along rows, then columns, three times with falling reach. Pixels that have a disparity keep it.
"""

import numpy as np
from numpy.typing import NDArray

Map = NDArray[np.float32]
_Floats = NDArray[np.float64]

REACH = 24.0  #: px, over which pixels support each other if no boundary is between them
STRICTNESS = 100.0  #: distance in px that a boundary of strength 1 adds
RIDGE = 0.05  #: ridge penalty on the slopes, in units of REACH squared: with few samples the plane stays level
_ROUNDS = 3
_LEAST_WEIGHT = 1e-5  # of a pixel without any confidence: it counts where boundaries cut it off from all others


def fill_between_boundaries(
    disparity: Map, dense: Map, confidence: Map, boundaries: Map, *, reach: float = REACH
) -> Map:
    """Return a disparity for every pixel, in the range of ``dense``; NaN only if ``dense`` has no value at all.

    ``disparity``, in px, is kept where it is not NaN. ``dense`` has unconfident pixels too, NaN without weight;
    ``confidence`` and the boundary map are in [0, 1].

    References
    ----------
    Gastal and Oliveira, "Domain Transform for Edge-Aware Image and Video Processing", 2011.
    """
    known = np.isfinite(dense)
    if not known.any():
        return np.full(dense.shape, np.nan, np.float32)
    low, high = float(dense[known].min()), float(dense[known].max())
    height, width = dense.shape
    weight = np.where(known, confidence.astype(np.float64) ** 2 + _LEAST_WEIGHT, 0.0)
    value = np.where(known, dense, low).astype(np.float64)
    y, x = np.meshgrid((np.arange(height) - height / 2) / reach, (np.arange(width) - width / 2) / reach, indexing="ij")
    sums = np.stack([np.ones_like(x), x, y, x * x, x * y, y * y, value, x * value, y * value]) * weight
    sums = _filter(sums, boundaries.astype(np.float64), reach)
    planes = _plane_at(sums, x, y)
    filled = np.clip(planes, low, high).astype(np.float32)
    return np.where(np.isfinite(disparity), disparity, filled)


def _filter(sums: _Floats, boundaries: _Floats, reach: float) -> _Floats:
    """Filter ``(F, H, W)`` back and forth along rows and columns, by the distance that counts boundaries."""
    across = 1 + STRICTNESS * np.maximum(boundaries[:, 1:], boundaries[:, :-1])
    down = 1 + STRICTNESS * np.maximum(boundaries[1:], boundaries[:-1])
    for k in range(_ROUNDS):
        near = reach * 3**0.5 * 2 ** (_ROUNDS - k - 1) / (4**_ROUNDS - 1) ** 0.5
        sums = _filter_rows(sums, np.exp(-(2**0.5) / near * across))
        sums = _filter_rows(sums.transpose(0, 2, 1), np.exp(-(2**0.5) / near * down.T)).transpose(0, 2, 1)
    return sums


def _filter_rows(sums: _Floats, passing: _Floats) -> _Floats:
    """Filter along the last axis, to the right and back: each step passes on the share ``passing`` of its value."""
    columns, shares = np.ascontiguousarray(sums.transpose(2, 0, 1)), np.ascontiguousarray(passing.T)
    for j in range(1, len(columns)):
        columns[j] += shares[j - 1] * (columns[j - 1] - columns[j])
    for j in range(len(columns) - 2, -1, -1):
        columns[j] += shares[j] * (columns[j + 1] - columns[j])
    return columns.transpose(1, 2, 0)


def _plane_at(sums: _Floats, x: _Floats, y: _Floats) -> _Floats:
    """Return the value at each pixel of the plane fitted there."""
    total = np.maximum(sums[0], 1e-300)
    mx, my, xx, xy, yy, level, xd, yd = sums[1:] / total
    a, b, c = xx - mx * mx + RIDGE, xy - mx * my, yy - my * my + RIDGE
    px, py = xd - mx * level, yd - my * level
    determinant = a * c - b * b
    slope_x, slope_y = (px * c - py * b) / determinant, (py * a - px * b) / determinant
    return np.asarray(level + slope_x * (x - mx) + slope_y * (y - my))
