"""What is compared between the views, and how much each comparison tells.

**The likelihood ratio.** Let ``l`` and ``r`` be one component of a left and a right pixel: a signal of variance ``S``,
seen twice, with noise of variance ``N`` each time. If both show the same surface, ``u = (l - r) / sqrt 2`` has the
variance ``N`` and ``w = (l + r) / sqrt 2`` has ``2 S + N``; if they show unrelated ones, both have ``S + N``. So minus
the logarithm of the ratio "same : unrelated" is, but for a constant::

    u^2 / 2 (1 / N - 1 / (S + N))  -  w^2 / 2 (1 / (S + N) - 1 / (2 S + N))

It is a number of nats: evidence of different kinds may be added. It says by itself that a faint component tells little
(``S << N``), and that likeness of what is rare (large ``w``) tells more than likeness of what is everywhere.

**Components.** The colors of each channel are rotated to their principal axes, where they are uncorrelated. The
variance ``E`` along an axis is measured over both views; ``S = E - N``.

**Channels**, ``G(s)`` a Gaussian blur:

- *Bands* ``G(s) - G(4 s)`` of the images, ``s`` = 1, 2, 4, 8: what survives blurring. ``N`` is the image's noise times
  the energy of the band's kernel, plus a part of ``S`` that never repeats between views (``band_misfit``). The weight
  is the number of independent samples in the band's own blur: its area over the area of the band's correlation.
- *Junctions with junctions*: color maps less their coarse part. Their errors go with what they show.
- *Image with junctions*, both ways: a fine, noisy view against a clear one of the other view. The noise of the image is
  white and averages out over the window; this carries more than any other channel.
- *Image with image*: nothing at two photons, nearly everything in good light. With the images' signal-to-noise ratio
  ``q`` its weight goes as ``q^2`` up to 1, as ``q`` from there.

**Local units.** The part of the noise that goes with the signal is measured where it is: a channel's costs are
multiplied by ``(N + m S) / (N + m s(x))`` with ``s(x)`` the signal around ``x`` and ``m`` its share. A bright facade
then does not set the scale for a dark road.

**Noise that is not white** (demosaicing, compression): where the quietest fifth of the finest band has more than twice
the noise that white noise would leave there, each band's ``N`` is what its own quietest fifth shows.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Generic

import numpy as np
from numpy.typing import NDArray

from scotopic.arrays import Array
from scotopic.backends.gaussian import gaussian_kernel
from scotopic.backends.protocol import Backend
from scotopic.settings import ChannelSettings, EvidenceMatchingSettings, NoiseSettings

_TINY = 1e-12  # keeps a component without any signal or noise from dividing by zero

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Pair(Generic[Array]):
    """What the evidence is drawn from: stabilized images and the color maps of their junctions, ``(H, W, C)``.

    ``variance`` is that of the images' noise; ``is_white`` is false where the noise is correlated between pixels.
    """

    left: Array
    right: Array
    left_colors: Array
    right_colors: Array
    variance: float
    is_white: bool = True


@dataclass(frozen=True, eq=False)
class Channel(Generic[Array]):
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

    left: Array
    right: Array
    signal: Vector
    noise: Vector
    window: float
    weight: float
    units: Array | None = None

    def slopes(self) -> tuple[Vector, Vector]:
        """Return the factors of ``u^2`` and ``-w^2``."""
        signal, noise = self.signal, self.noise
        difference = 0.5 * (1 / noise - 1 / (signal + noise))
        likeness = 0.5 * (1 / (signal + noise) - 1 / (2 * signal + noise))
        return self.weight * difference, self.weight * likeness


def build_channels(
    backend: Backend[Array], pair: Pair[Array], settings: EvidenceMatchingSettings
) -> list[Channel[Array]]:
    """Return every channel of a pair."""
    channels = band_channels(backend, pair, settings.channels, settings.noise)
    channels.append(junction_channel(backend, pair, settings.channels))
    channels += cross_channels(backend, pair, settings.channels)
    channels.append(image_channel(backend, pair, settings.channels, settings.resolution.max_snr))
    return channels


def detect_correlated_noise(
    backend: Backend[Array], pair: Pair[Array], settings: EvidenceMatchingSettings
) -> Pair[Array]:
    """Return a pair with the noise that its finest band shows, where white noise would leave less there."""
    excess = measure_excess(backend, pair, settings)
    if excess <= settings.noise.correlated_factor:
        return pair
    return replace(pair, variance=pair.variance * excess, is_white=False)


def measure_excess(backend: Backend[Array], pair: Pair[Array], settings: EvidenceMatchingSettings) -> float:
    """Return the energy in the quiet parts of a pair's finest band, over what its noise would leave if it were white.

    It is about 1 for white noise, and larger for noise that is correlated between pixels, and for texture.
    """
    scale, ratio = settings.channels.finest_scale, settings.channels.band_ratio
    bands = band(backend, both(backend, pair.left, pair.right), scale, ratio)
    found = quiet_energy(backend, bands, 3 * scale, settings.noise.quiet_quantile)
    return found / (pair.variance * band_kernel(scale, ratio)[0])


def band_channels(
    backend: Backend[Array], pair: Pair[Array], settings: ChannelSettings, noise_settings: NoiseSettings
) -> list[Channel[Array]]:
    """Return the bands."""
    channels: list[Channel[Array]] = []
    images, blurred = both(backend, pair.left, pair.right), dict[float, Array]()
    for octave in range(settings.scales):
        scale = settings.finest_scale * 2**octave
        wide = settings.band_ratio * scale
        # Some of the blurs are shared by two bands, and none narrower than this is needed again.
        blurred = {sigma: each for sigma, each in blurred.items() if sigma >= scale}
        for sigma in (scale, wide):
            if sigma not in blurred:
                blurred[sigma] = backend.blur_views(images, sigma)
        bands, variances = rotate_to_axes(backend, blurred[scale] - blurred[wide])
        left, right = bands[0], bands[1]
        kernel_energy, area = band_kernel(scale, settings.band_ratio)
        noise = pair.variance * kernel_energy
        if not pair.is_white:
            noise = max(noise, quiet_energy(backend, bands, 3 * scale, noise_settings.quiet_quantile))
        signal = np.maximum(variances - noise, 0)
        window = max(scale, settings.band_window)
        units = None
        if settings.local_units:
            local = local_signal(backend, left, 2 * window, noise)
            units = _local_units(noise, settings.band_misfit, signal, local)
        total = noise + settings.band_misfit * signal + _TINY
        channels.append(Channel(left, right, signal, total, window, 2 * math.pi * scale**2 / area, units))
    return channels


def junction_channel(backend: Backend[Array], pair: Pair[Array], settings: ChannelSettings) -> Channel[Array]:
    """Return junctions against junctions."""
    maps = both(backend, pair.left_colors, pair.right_colors)
    maps, variances = rotate_to_axes(backend, high_pass(backend, maps, settings.junction_highpass))
    variances = np.maximum(variances, _TINY)
    error = settings.junction_error
    noise = np.maximum(error * variances, error**2 * variances[-1])
    return Channel(maps[0], maps[1], (1 - error) * variances, noise, settings.junction_window, settings.junction_weight)


def cross_channels(backend: Backend[Array], pair: Pair[Array], settings: ChannelSettings) -> list[Channel[Array]]:
    """Return image against junctions and junctions against image."""
    variance, error = pair.variance, settings.junction_error
    images, maps = both(backend, pair.left, pair.right), both(backend, pair.left_colors, pair.right_colors)
    images, maps = (high_pass(backend, each, settings.cross_highpass) for each in (images, maps))
    variances, axes = principal_axes(backend, maps)
    signal, noise = np.maximum((1 - error) * variances, 0), variance + error * np.maximum(variances, 0) + _TINY
    units = None
    if settings.local_units:
        local = local_signal(backend, maps[0], 2 * settings.cross_window, 0.0)
        units = _local_units(variance, error, signal, local)
    images, maps = backend.mix_channels(images, axes), backend.mix_channels(maps, axes)
    return [
        Channel(one, other, signal, noise, settings.cross_window, settings.cross_weight, units)
        for one, other in ((images[0], maps[1]), (maps[0], images[1]))
    ]


def image_channel(
    backend: Backend[Array], pair: Pair[Array], settings: ChannelSettings, max_snr: float
) -> Channel[Array]:
    """Return image against image, which counts by the signal-to-noise ratio."""
    variance = pair.variance
    fine = high_pass(backend, both(backend, pair.left, pair.right), settings.cross_highpass)
    images, variances = rotate_to_axes(backend, fine)
    left, right = images[0], images[1]
    signal = np.maximum(variances - variance, 0)
    snr = min(float(signal[-1]) / variance, max_snr)
    weight = settings.image_weight * (snr**2 if snr < 1 else snr)
    units = None
    if settings.local_units:
        local = local_signal(backend, left, 2 * settings.cross_window, variance)
        units = _local_units(variance, settings.band_misfit, signal, local)
    noise = variance + settings.band_misfit * signal + _TINY
    return Channel(left, right, signal, noise, settings.cross_window, weight, units)


def _local_units(noise: float, fraction: float, signal: Vector, local: Array) -> Array:
    """Return ``(N + m S) / (N + m s(x))``, over all components together."""
    units: Array = (noise + fraction * float(signal.sum()) + _TINY) / (noise + fraction * local + _TINY)
    return units


def both(backend: Backend[Array], left: Array, right: Array) -> Array:
    """Return two views as one array ``(2, H, W, C)``: what is done to both is done at once."""
    return backend.xp.stack([left, right])


def band(backend: Backend[Array], views: Array, scale: float, ratio: float) -> Array:
    """Return ``G(scale) - G(ratio scale)`` of views."""
    difference: Array = backend.blur_views(views, scale) - backend.blur_views(views, ratio * scale)
    return difference


def high_pass(backend: Backend[Array], views: Array, scale: float) -> Array:
    """Return views less their coarse part."""
    fine: Array = views - backend.blur_views(views, scale)
    return fine


def energy(backend: Backend[Array], image: Array) -> Array:
    """Return the sum of the squares of the channels, the last axis."""
    return backend.contiguous(backend.xp.sum(image * image, axis=-1))


def local_signal(backend: Backend[Array], image: Array, sigma: float, noise: float) -> Array:
    """Return the energy around each pixel, all channels together, less that of the noise."""
    local = backend.blur(energy(backend, image), sigma) - noise * image.shape[2]
    return backend.xp.clip(local, min=0)


def quiet_energy(backend: Backend[Array], views: Array, sigma: float, q: float) -> float:
    """Return the energy per channel below which the quietest part of all views, its share ``q``, lies."""
    return backend.quantile(backend.blur_views(energy(backend, views) / views.shape[-1], sigma), q)


def principal_axes(backend: Backend[Array], views: Array) -> tuple[Vector, Vector]:
    """Return the variances along the principal axes of the views' colors, rising, and the axes."""
    variances, axes = np.linalg.eigh(backend.second_moments(views))
    # The solver may return either sign of an axis. Products of two components do not depend on it, readers of them do.
    return variances, axes * np.where(axes.sum(axis=0) < 0, -1.0, 1.0)


def rotate_to_axes(backend: Backend[Array], views: Array) -> tuple[Array, Vector]:
    """Return views with their channels along their principal axes, and the variances along them."""
    variances, axes = principal_axes(backend, views)
    return backend.mix_channels(views, axes), variances


@lru_cache(maxsize=64)
def band_kernel(scale: float, ratio: float) -> tuple[float, float]:
    """Return the energy of a band's kernel, ``sum h^2``, and the area of its correlation, ``sum (h * h)^2 / energy^2``.

    The first is what the band leaves of white noise of variance 1; the second, how many neighboring pixels of that
    noise count as one.
    """
    narrow, wide = gaussian_kernel(scale), gaussian_kernel(scale * ratio)
    length = 1 << (2 * wide.size).bit_length()
    first, second = (_transform(kernel, length) for kernel in (narrow, wide))

    # The band is f f' - s s' = f d' + d s' with d = f - s. A power of that, multiplied out, separates term by term, and
    # no large terms cancel where the ratio is near 1.
    difference = first - second

    def mean_power(order: int) -> float:
        terms = (
            math.comb(order, k)
            * (first ** (order - k) * difference**k).mean()
            * (difference ** (order - k) * second**k).mean()
            for k in range(order + 1)
        )
        return float(sum(terms))

    return mean_power(2), mean_power(4) / mean_power(2) ** 2


def _transform(kernel: Vector, length: int) -> Vector:
    """Return the Fourier transform of a symmetric kernel around 0, which is real."""
    centered = np.roll(np.pad(kernel, (0, length - kernel.size)), -(kernel.size // 2))
    return np.asarray(np.fft.fft(centered).real)
