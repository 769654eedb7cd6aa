"""What is compared between the views, and how much each comparison tells.

**The likelihood ratio.** Let ``l`` and ``r`` be one component of a left and a right pixel: a signal of variance ``S``,
seen twice, with noise of variance ``N`` each time. If both show the same surface, ``u = (l - r) / sqrt 2`` has the
variance ``N`` and ``w = (l + r) / sqrt 2`` has ``2 S + N``; if they show unrelated ones, both have ``S + N``. So minus
the logarithm of the ratio "same : unrelated" is, but for a constant::

    u^2 / 2 (1 / N - 1 / (S + N))  -  w^2 / 2 (1 / (S + N) - 1 / (2 S + N))

It is a number of nats: evidence of different kinds may be added. It says by itself that a faint component tells little
(``S << N``), and that likeness of what is rare (large ``w``) tells more than likeness of what is everywhere.

**Components.** The colors of each channel are turned to their principal axes, where they are uncorrelated. The
variance ``E`` along an axis is measured over both views; ``S = E - N``.

**Channels**, ``G(s)`` a Gaussian blur:

- *Bands* ``G(s) - G(4 s)`` of the images, ``s`` = 1, 2, 4, 8: what survives blurring. ``N`` is the image's noise times
  the energy of the band's kernel, plus a part of ``S`` that never repeats between views (``band_misfit``). The weight
  is the number of independent samples in the band's own blur: its area over the area of the band's correlation.
- *Junctions with junctions*: color maps less their coarse part. Their errors go with what they show.
- *Image with junctions*, both ways: a fine, noisy view against a clear one of the other view. The noise of the image is
  white and averages out over the window; this carries more than any other channel.
- *Image with image*: nothing at two photons, nearly everything in good light. With the clarity ``q``, signal over noise
  of the images, its weight goes as ``q^2`` up to 1, as ``q`` from there.

**Local units.** The part of the noise that goes with the signal is measured where it is: a channel's costs are
multiplied by ``(N + m S) / (N + m s(x))`` with ``s(x)`` the signal around ``x`` and ``m`` its share. A bright facade
then does not set the scale for a dark road.

**Noise that is not white** (demosaicing, compression): where the quietest fifth of the finest band has more than twice
the noise that white noise would leave there, each band's ``N`` is what its own quietest fifth shows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.settings import EvidenceSettings

_TINY = 1e-12  # keeps a component without any signal or noise from dividing by zero

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Pair:
    """What the evidence is drawn from: stabilized images, color maps of their junctions, ``(H, W, C)``, the noise."""

    left: Any
    right: Any
    left_junctions: Any
    right_junctions: Any
    variance: float
    is_white: bool = True


@dataclass(frozen=True)
class Channel:
    """One comparison.

    Attributes
    ----------
    left, right
        Components, ``(H, W, C)``.
    signal, noise
        ``S`` and ``N`` of each component.
    window
        Blur of the costs, working px.
    weight
        Of the costs.
    units
        ``(H, W)``, what the costs at each left pixel are multiplied by; ``None`` for 1.
    """

    left: Any
    right: Any
    signal: Vector
    noise: Vector
    window: float
    weight: float
    units: Any = None

    def slopes(self) -> tuple[Vector, Vector]:
        """Return what ``u^2`` and ``-w^2`` are multiplied by."""
        signal, noise = self.signal, self.noise
        apart = 0.5 * (1 / noise - 1 / (signal + noise))
        alike = 0.5 * (1 / (signal + noise) - 1 / (2 * signal + noise))
        return self.weight * apart, self.weight * alike


def gather(engine: Any, pair: Pair, settings: EvidenceSettings) -> list[Channel]:
    """Return every channel of a pair, computed with a device's steps."""
    return [
        *band_channels(engine, pair, settings),
        junction_channel(engine, pair, settings),
        *cross_channels(engine, pair, settings),
        image_channel(engine, pair, settings),
    ]


def with_its_noise(engine: Any, pair: Pair, settings: EvidenceSettings) -> Pair:
    """Return a pair with the noise that its finest band shows, where white noise would leave less there."""
    scale, images = settings.finest_scale, (pair.left, pair.right)
    bands = (engine.band(image, scale, settings.band_ratio) for image in images)
    share = engine.quiet_energy(*bands, 3 * scale, settings.quiet_share) / (
        pair.variance * band_kernel(scale, settings.band_ratio)[0]
    )
    return pair if share <= settings.white_factor else replace(pair, variance=pair.variance * share, is_white=False)


def band_channels(engine: Any, pair: Pair, settings: EvidenceSettings) -> list[Channel]:
    """Return the bands."""
    channels = []
    for octave in range(settings.scales):
        scale = settings.finest_scale * 2**octave
        left, right, spread = _principal(
            engine, *(engine.band(image, scale, settings.band_ratio) for image in (pair.left, pair.right))
        )
        energy, area = band_kernel(scale, settings.band_ratio)
        noise = pair.variance * energy
        if not pair.is_white:
            noise = max(noise, engine.quiet_energy(left, right, 3 * scale, settings.quiet_share))
        signal = np.maximum(spread - noise, 0)
        window = max(scale, settings.band_window)
        units = None
        if settings.local_units:
            around = engine.local_signal(left, 2 * window, noise)
            units = _units(noise, settings.band_misfit, signal, around)
        total = noise + settings.band_misfit * signal + _TINY
        channels.append(Channel(left, right, signal, total, window, 2 * math.pi * scale**2 / area, units))
    return channels


def junction_channel(engine: Any, pair: Pair, settings: EvidenceSettings) -> Channel:
    """Return junctions against junctions."""
    maps = (pair.left_junctions, pair.right_junctions)
    left, right, spread = _principal(engine, *(engine.detail(each, settings.junction_high) for each in maps))
    spread = np.maximum(spread, _TINY)
    error = settings.junction_error
    noise = np.maximum(error * spread, error**2 * spread[-1])
    return Channel(left, right, (1 - error) * spread, noise, settings.junction_window, settings.junction_weight)


def cross_channels(engine: Any, pair: Pair, settings: EvidenceSettings) -> list[Channel]:
    """Return image against junctions and junctions against image."""
    variance, high, error = pair.variance, settings.cross_high, settings.junction_error
    left, right = (engine.detail(image, high) for image in (pair.left, pair.right))
    left_map, right_map = (engine.detail(each, high) for each in (pair.left_junctions, pair.right_junctions))
    spread, axes = axes_of(engine, left_map, right_map)
    signal, noise = np.maximum((1 - error) * spread, 0), variance + error * np.maximum(spread, 0) + _TINY
    units = None
    if settings.local_units:
        around = engine.local_signal(left_map, 2 * settings.cross_window, 0.0)
        units = _units(variance, error, signal, around)
    left, right, left_map, right_map = (engine.turned(each, axes) for each in (left, right, left_map, right_map))
    return [
        Channel(one, other, signal, noise, settings.cross_window, settings.cross_weight, units)
        for one, other in ((left, right_map), (left_map, right))
    ]


def image_channel(engine: Any, pair: Pair, settings: EvidenceSettings) -> Channel:
    """Return image against image, which counts by how far the signal is above the noise: its clarity."""
    variance = pair.variance
    images = (engine.detail(image, settings.cross_high) for image in (pair.left, pair.right))
    left, right, spread = _principal(engine, *images)
    signal = np.maximum(spread - variance, 0)
    clarity = min(float(signal[-1]) / variance, settings.largest_clarity)
    weight = settings.image_weight * (clarity**2 if clarity < 1 else clarity)
    units = None
    if settings.local_units:
        around = engine.local_signal(left, 2 * settings.cross_window, variance)
        units = _units(variance, settings.band_misfit, signal, around)
    noise = variance + settings.band_misfit * signal + _TINY
    return Channel(left, right, signal, noise, settings.cross_window, weight, units)


def _units(noise: float, part: float, signal: Vector, around: Any) -> Any:
    """Return ``(N + m S) / (N + m s(x))``, over all components together."""
    return (noise + part * float(signal.sum()) + _TINY) / (noise + part * around + _TINY)


def axes_of(engine: Any, left: Any, right: Any) -> tuple[Vector, Vector]:
    """Return the variances along the principal axes of two views' colors, rising, and the axes."""
    spread, axes = np.linalg.eigh(engine.second_moments(left, right))
    # The sign of an axis is the solver's whim; products of two components do not see it, readers of them do.
    return spread, axes * np.where(axes.sum(axis=0) < 0, -1.0, 1.0)


def _principal(engine: Any, left: Any, right: Any) -> tuple[Any, Any, Vector]:
    spread, axes = axes_of(engine, left, right)
    return engine.turned(left, axes), engine.turned(right, axes), spread


@lru_cache(maxsize=64)
def band_kernel(scale: float, ratio: float) -> tuple[float, float]:
    """Return the energy of a band's kernel, ``sum h^2``, and the area of its correlation, ``sum (h * h)^2 / energy^2``.

    The first is what white noise of variance 1 has left after the band; the second, how many neighboring pixels of it
    are worth one.
    """
    narrow, wide = gaussian(scale), gaussian(scale * ratio)
    length = 1 << (2 * wide.size).bit_length()
    first, second = (_transform(kernel, length) for kernel in (narrow, wide))
    power = (np.multiply.outer(first, first) - np.multiply.outer(second, second)) ** 2
    energy = float(power.mean())
    return energy, float((power**2).mean()) / energy**2


def _transform(kernel: Vector, length: int) -> Vector:
    """Return the Fourier transform of a symmetric kernel around 0, which is real."""
    centered = np.roll(np.pad(kernel, (0, length - kernel.size)), -(kernel.size // 2))
    return np.asarray(np.fft.fft(centered).real)


def gaussian(sigma: float) -> Vector:
    """Return the weights of a Gaussian blur, cut at three sigma, their sum 1."""
    reach = max(math.ceil(3 * sigma), 1)
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    return np.asarray(weights / weights.sum())
