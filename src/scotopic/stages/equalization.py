"""Views of unequal exposure: one is exposed longer, or its sensor has another gain.

Channels are high-passed, but the census is blind to an offset alone, and colors can only be compared at the same
exposure. How it differs shows in how bright the views are, before any match: at the disparity that most of the scene
has, the parts that both views share have nearly the same surfaces, so the deciles of their blurred brightness are the
same, but for gain and offset. Some shifts of the disparity range are tried, and the one that leaves the smallest misfit
counts. Gain and offset are fitted channel by channel and taken off the right view's colors. Light that differs by
region is the next step's (:mod:`~scotopic.stages.local_light`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scotopic.arrays import Array
from scotopic.backends.device import to_numpy
from scotopic.backends.protocol import Backend
from scotopic.stages.channels import both

REACH = 8.0  #: px at full size, blur of the brightness
DECILES = (0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95)
_TINY = 1e-6
_PLACES = 4096

Floats = NDArray[np.float64]


class Exposure(NamedTuple):
    """What makes the right view's values like those of the left."""

    gains: Floats  #: of each channel: what they are multiplied by
    offsets: Floats  #: ... and what is added to them


def compare_exposure(
    backend: Backend[Array], left: Array, right: Array, disparities: range, factor: int = 1
) -> Exposure:
    """Compare the exposure of two views ``(H, W, C)`` in which ``factor x factor`` pixels are one."""
    every: int = max(round(REACH / factor), 1)  # pixels of the blurred views between these tell nothing new
    (views,) = to_numpy(backend.blur_views(both(backend, left, right), REACH / factor)[:, ::every, ::every])
    most = views.shape[2] // 2  # at least half of the views must be shared
    shifts = {min(max(d // every, -most), most) for d in (*disparities[:: 2 * every], disparities[-1])}
    grays = views.mean(axis=3)
    shared = min(sorted(shifts), key=lambda shift: fit_deciles(*_deciles_of_shared(grays, shift))[2])
    fits = [fit_deciles(*_deciles_of_shared(views[..., c], shared)) for c in range(views.shape[3])]
    return Exposure(np.array([gain for gain, _, _ in fits]), np.array([offset for _, offset, _ in fits]))


def equalize_exposure(backend: Backend[Array], right: Array, exposure: Exposure) -> Array:
    """Return the right view with the exposure of the left."""
    gains, offsets = (backend.asarray(each.astype(np.float32)) for each in exposure)
    equal: Array = right * gains + offsets
    return equal


def fit_deciles(left: Floats, right: Floats) -> tuple[float, float, float]:
    """Return the gain and the offset that make the right deciles most like the left ones, and the misfit."""
    left_mean, right_mean = left.mean(), right.mean()
    left, right = left - left_mean, right - right_mean
    spread, right_spread = (float((each**2).mean() ** 0.5) for each in (left, right))
    if min(spread, right_spread) < _TINY:
        return 1.0, _round_alike(float(left_mean)) - _round_alike(float(right_mean)), 0.0
    gain = _round_alike(float((left * right).mean()) / right_spread**2)
    offset = _round_alike(float(left_mean)) - gain * _round_alike(float(right_mean))
    return gain, offset, float(np.abs(left - gain * right).mean()) / spread


def _round_alike(value: float) -> float:
    # Deciles are known to a thousandth at best. Their last places differ from device to device with the order of the
    # blur's sums, and would decide which of two steps a feature of the census falls on.
    mantissa, exponent = math.frexp(value)
    return math.ldexp(round(mantissa * _PLACES) / _PLACES, exponent)


def _deciles_of_shared(views: NDArray[np.float32], shift: int) -> tuple[Floats, Floats]:
    """Return the deciles of what both maps show if the content of the right one lies ``shift`` columns to the left."""
    width = views.shape[2]
    left = views[0, :, max(shift, 0) : width + min(shift, 0)]
    right = views[1, :, max(-shift, 0) : width - max(shift, 0)]
    return _deciles(left), _deciles(right)


def _deciles(values: NDArray[np.float32]) -> Floats:
    # As np.quantile defines them, which takes ten times as long for the few values that there are.
    ordered = np.sort(values, axis=None).astype(np.float64)
    return np.interp(np.multiply(DECILES, len(ordered) - 1), np.arange(len(ordered)), ordered)
