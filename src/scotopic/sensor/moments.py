"""Mean and variance of recorded values, with clipping and rounding, computed from their distribution.

Without clipping the variance is linear in the signal, ``a * signal + b``. With a handful of photons most of the noise
is clipped to black or white: at the paper's alpha = 2 and sigma = 2 the line gives a standard deviation of 1.0 to 1.22
of full scale, and recorded values have 0.41 to 0.45. So we sum over the photon counts: given the count, the reading is
normal, and a clipped or rounded normal variable has moments in closed form.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scotopic.sensor.response import linearize, record

if TYPE_CHECKING:
    from scotopic.sensor.model import Sensor

Floats = NDArray[np.float64]

_LARGEST_COUNT = 400.0  # Poisson counts with a larger mean are treated as normal: their skewness is below 0.05
_EXACT_STEPS = 64  # finer rounding than this is a uniform error, of variance step^2 / 12
_CURVED_STEPS = 1023  # levels at which an unrounded signal passes a nonlinear response
_TABLE = 257  # more clean levels than this are interpolated


@np.errstate(under="ignore")  # what is too small counts as 0, also where a program has asked NumPy to raise
def moments(sensor: Sensor, level: NDArray[np.floating]) -> tuple[Floats, Floats]:
    """Return mean and variance of the recorded value for each clean level (0: black, 1: white)."""
    levels = np.asarray(level, np.float64)
    if levels.size <= _TABLE:
        mean, variance = _exact(sensor, np.maximum(levels.ravel(), 0.0))
    else:
        low, high = max(float(levels.min()), 0.0), max(float(levels.max()), 0.0)
        nodes = np.linspace(low, high, _TABLE)
        mean, variance = (np.interp(levels.ravel(), nodes, values) for values in _exact(sensor, nodes))
    return mean.reshape(levels.shape), variance.reshape(levels.shape) / sensor.frames


def _exact(sensor: Sensor, levels: Floats) -> tuple[Floats, Floats]:
    mean, variance = np.empty(levels.size), np.empty(levels.size)
    counts = sensor.photons * levels
    few = counts <= _LARGEST_COUNT
    for chosen in (few, ~few):
        if chosen.any():
            mean[chosen], variance[chosen] = _mixture(sensor, counts[chosen], is_counted=chosen is few)
    return mean, variance


def _mixture(sensor: Sensor, counts: Floats, is_counted: bool) -> tuple[Floats, Floats]:
    """Return the moments of a mixture of normal readings: one for each photon count, or a single one."""
    if is_counted:
        most = float(counts.max())
        photons = np.arange(math.ceil(most + 8 * math.sqrt(most) + 12) + 1, dtype=np.float64)
        weights, centers = _poisson(counts, photons), photons[None, :]  # the same readings, of other weights
        spread = np.full((1, 1), sensor.read_noise)
    else:
        weights, centers = np.ones((counts.size, 1)), counts[:, None]
        spread = np.sqrt(counts + sensor.read_noise**2)[:, None]
    centers = sensor.black + sensor.gain * centers
    spread = np.maximum(sensor.gain * spread, 1e-9 * sensor.gain)  # the formulas divide by it
    if sensor.response == "linear" and (sensor.steps is None or sensor.steps > _EXACT_STEPS):
        return _clipped(sensor, weights, centers, spread)
    return _rounded(sensor, weights, centers, spread)


def _clipped(sensor: Sensor, weights: Floats, centers: Floats, spread: Floats) -> tuple[Floats, Floats]:
    low_z, high_z = (sensor.floor - centers) / spread, (sensor.white - centers) / spread
    below, above = normal_cdf(low_z), normal_cdf(-high_z)
    inside = 1 - below - above
    low_density, high_density = _normal_density(low_z), _normal_density(high_z)
    # Relative to the unclipped mean, so that a small variance is not the difference of large numbers.
    origin = (weights * centers).sum(axis=1, keepdims=True)
    centers, low, high = centers - origin, sensor.floor - origin, sensor.white - origin
    first = low * below + high * above + centers * inside + spread * (low_density - high_density)
    second = low**2 * below + high**2 * above + (centers**2 + spread**2) * inside
    second += spread * ((low + centers) * low_density - (high + centers) * high_density)
    mean = (weights * first).sum(axis=1)
    variance = (weights * second).sum(axis=1) - mean**2
    if sensor.steps is not None:
        variance = variance + (weights * inside).sum(axis=1) / (12 * sensor.steps**2)
    return mean + origin[:, 0], np.maximum(variance, 0.0)


def _rounded(sensor: Sensor, weights: Floats, centers: Floats, spread: Floats) -> tuple[Floats, Floats]:
    steps = sensor.steps if sensor.steps is not None and sensor.steps <= _CURVED_STEPS else float(_CURVED_STEPS)
    floor, white = (float(end) for end in record([sensor.floor, sensor.white], sensor.response))
    lowest, highest = math.floor(floor * steps), math.ceil(white * steps)
    values = np.clip(np.arange(lowest, highest + 1) / steps, floor, white)
    # Noise is added before the response, rounding comes after it.
    edges = linearize((np.arange(lowest, highest) + 0.5) / steps, sensor.response)
    reached = normal_cdf((edges - centers[..., None]) / spread[..., None])
    shares = np.diff((weights[:, None] @ reached)[:, 0], prepend=0.0, append=1.0)
    mean = shares @ values
    return mean, np.maximum((shares * (values[None, :] - mean[:, None]) ** 2).sum(axis=1), 0.0)


def _poisson(means: Floats, counts: Floats) -> Floats:
    log_factorials = np.concatenate([[0.0], np.cumsum(np.log(counts[1:]))])
    logs = counts * np.log(np.maximum(means, 1e-300))[:, None] - means[:, None] - log_factorials
    weights = np.exp(logs)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _normal_density(z: Floats) -> Floats:
    return np.asarray(np.exp(-0.5 * np.minimum(z * z, 1400.0)) / math.sqrt(2 * math.pi))


@lru_cache(maxsize=1)
def _cdf_table() -> tuple[Floats, Floats, Floats]:
    nodes = np.linspace(-8.5, 8.5, 4001)
    values = np.array([0.5 * math.erfc(-z / math.sqrt(2)) for z in nodes])
    return nodes, values, (nodes[1] - nodes[0]) * _normal_density(nodes)


def normal_cdf(z: NDArray[np.floating]) -> Floats:
    """Return the normal distribution function, which NumPy lacks.

    Cubic interpolation of a table with the density as slope; the error is below 1e-11.
    """
    nodes, values, slopes = _cdf_table()
    width = nodes[1] - nodes[0]
    position = (np.clip(z, nodes[0], nodes[-1]) - nodes[0]) / width
    left = np.minimum(position.astype(np.intp), nodes.size - 2)
    t = position - left
    start, end, rise, fall = values[left], values[left + 1], slopes[left], slopes[left + 1]
    rest = 3 * (end - start) - 2 * rise - fall + t * (2 * (start - end) + rise + fall)
    return np.asarray(start + t * (rise + t * rest))
