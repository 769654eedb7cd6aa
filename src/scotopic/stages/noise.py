"""How noisy the pair is, and variance-stabilized images, in which the noise is the same everywhere.

The noise curve is that of :mod:`scotopic.sensor.estimate`: variance of the recorded values over their mean, structure
removed. Photons and read noise are not needed here: recorded values are matched, and the curve shows their variance,
clipping and rounding included.

Where the line ``variance = a + b I`` through the curve differs little between the dark and the bright parts of the pair
(at photon level 2 clipping makes it nearly flat), images stay as they are. Otherwise they pass the generalized Anscombe
transform of that line, ``2 / b (sqrt(b I + a) - sqrt(a))``, after which the noise is 1 everywhere. They are then
divided by their largest value, because the fit of junctions weighs colors against boundaries on the scale of [0, 1].

Noise that is correlated between pixels (demosaicing, compression) is larger in coarse bands than white noise would be.
:func:`scotopic.stages.channels.detect_correlated_noise` finds it in the quietest parts of the finest band.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scotopic.arrays import Array
from scotopic.backends.device import to_numpy
from scotopic.backends.protocol import Backend
from scotopic.errors import InputError
from scotopic.sensor.estimate import NoiseCurve, block_moments, curve_of_blocks
from scotopic.settings import NoiseSettings

ROUNDING = (1 / 255) ** 2 / 12  #: variance of rounding to 8 bits: no image is taken to be less noisy than this


@dataclass(frozen=True)
class NoiseModel:
    """The noise of a pair, and the transform that stabilizes its variance.

    Attributes
    ----------
    constant, slope
        ``a`` and ``b`` of ``variance = a + b I``; ``b`` is 0 where images stay as they are.
    scale
        Stabilized values are divided by this.
    variance
        Of the noise in the stabilized images, per pixel and channel.
    """

    constant: float
    slope: float
    scale: float
    variance: float

    def stabilize(self, image: Array) -> Array:
        """Return an image with the same noise variance everywhere."""
        if self.slope == 0:
            return image
        inside: Array = (image * self.slope + self.constant).clip(min=0)
        stable: Array = (inside**0.5 - self.constant**0.5) * (2 / (self.slope * self.scale))
        return stable

    def recorded_variance(self, image: Array) -> Array:
        """Return the variance of the noise in a recorded image, at each of its values."""
        if self.slope == 0:
            return 0 * image + self.variance
        varied: Array = (image * self.slope + self.constant).clip(min=0)
        return varied

    def restore(self, image: Array) -> Array:
        """Return recorded values from stabilized ones."""
        if self.slope == 0:
            return image
        root: Array = image * (self.slope * self.scale / 2) + self.constant**0.5
        recorded: Array = (root**2 - self.constant) / self.slope
        return recorded


def drop_equal_channels(backend: Backend[Array], images: Sequence[Array]) -> list[Array]:
    """Return the images with one channel if all are equal: a gray picture stored as color has no more light in it."""
    xp = backend.xp
    is_gray = all(float(xp.max(xp.abs(image - image[..., :1]))) == 0 for image in images)
    return [backend.contiguous(image[..., :1]) for image in images] if is_gray else list(images)


def estimate_noise(backend: Backend[Array], images: Sequence[Array], settings: NoiseSettings) -> NoiseModel:
    """Return the noise of a pair, both views pooled."""
    curve = _noise_curve(backend, images)
    constant, slope = fit_noise_line(curve)
    dark, bright = np.quantile(curve.mean, (0.05, 0.95))
    uniform = NoiseModel(constant, 0.0, 1.0, max(float(np.median(curve.variance)), ROUNDING))
    if constant + slope * bright <= settings.stabilize_above * (constant + slope * dark):
        return uniform
    unit = NoiseModel(constant, slope, 1.0, 1.0)
    largest = max(float(unit.stabilize(image).max()) for image in images)
    return NoiseModel(constant, slope, largest, 1 / largest**2) if largest > 0 else uniform


def fit_noise_line(curve: NoiseCurve) -> tuple[float, float]:
    """Return ``(a, b)`` of the line ``variance = a + b mean`` through a curve; neither is negative.

    Each group counts by its relative misfit, so that the quiet dark is not drowned by the bright.
    """
    weight = 1 / np.maximum(curve.variance, ROUNDING)
    design = np.stack([np.ones_like(curve.mean), curve.mean], axis=1) * weight[:, None]
    constant, slope = np.linalg.lstsq(design, curve.variance * weight, rcond=None)[0]
    if slope <= 0:
        constant, slope = np.average(curve.variance, weights=weight), 0.0
    elif constant < 0:
        constant, slope = 0.0, (curve.variance * curve.mean).sum() / (curve.mean**2).sum()
    return max(float(constant), ROUNDING), float(slope)


def _noise_curve(backend: Backend[Array], images: Sequence[Array]) -> NoiseCurve:
    """Return the pair's noise curve; a single point of it where an image is too small or too plain for a curve."""
    try:
        planes = backend.xp.moveaxis(backend.xp.stack(images), -1, 1)
        return curve_of_blocks(block_moments(planes, backend.xp))
    except InputError:
        values = np.stack(to_numpy(*images)).astype(np.float64)
        # Differences that cancel every plane; what structure there is counts as noise.
        haar = (values[:, 1:, 1:] - values[:, :-1, 1:] - values[:, 1:, :-1] + values[:, :-1, :-1]) / 2
        one = np.ones(1)
        return NoiseCurve(one * values.mean(), one * (haar**2).mean(), one, 0 * one)
