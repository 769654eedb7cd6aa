"""How noisy the pair is, and images in which the noise is alike everywhere.

The noise curve is that of :mod:`scotopic.sensor.estimate`: variance of the recorded values over their mean, structure
removed. A sensor's photons and read noise are not asked for here: what is matched are recorded values, and their
variance is what the curve shows, clipping and rounding included.

Where the line ``variance = a + b I`` through the curve differs little between the dark and the bright parts of the pair
(at photon level 2 clipping makes it nearly flat), images are taken as they are. Otherwise they pass the generalized
Anscombe transform of that line, ``2 / b (sqrt(b I + a) - sqrt(a))``, after which the noise is 1 everywhere; they are
then divided by their largest value, because the fit of junctions weighs colors against boundaries on the scale of [0,
1].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scotopic.device import to_numpy
from scotopic.errors import InputError
from scotopic.sensor.estimate import NoiseCurve, curve_of_blocks
from scotopic.settings import EvidenceSettings

ROUNDING = (1 / 255) ** 2 / 12  #: variance of rounding to 8 bits: no image is taken to be less noisy than this


@dataclass(frozen=True)
class Light:
    """The noise of a pair, and the curve that makes it even.

    Attributes
    ----------
    constant, slope
        ``a`` and ``b`` of ``variance = a + b I``; ``b`` is 0 where images are taken as they are.
    top
        What stabilized values are divided by.
    variance
        Of the noise in the stabilized images, per pixel and channel.
    """

    constant: float
    slope: float
    top: float
    variance: float

    def stabilized(self, image: Any) -> Any:
        """Return an image, NumPy's or a tensor, with the same noise everywhere."""
        if self.slope == 0:
            return image
        inside = (self.slope * image + self.constant).clip(min=0)
        return (inside**0.5 - self.constant**0.5) * (2 / (self.slope * self.top))

    def recorded(self, image: Any) -> Any:
        """Return stabilized values as recorded ones."""
        if self.slope == 0:
            return image
        root = image * (self.slope * self.top / 2) + self.constant**0.5
        return (root**2 - self.constant) / self.slope


def measure_light(engine: Any, images: Sequence[Any], settings: EvidenceSettings) -> Light:
    """Return the noise of a pair, both views pooled, computed with a device's steps."""
    curve = _curve(engine, images)
    constant, slope = noise_line(curve)
    dark, bright = np.quantile(curve.mean, (0.05, 0.95))
    even = Light(constant, 0.0, 1.0, max(float(np.median(curve.variance)), ROUNDING))
    if constant + slope * bright <= settings.stabilize_above * (constant + slope * dark):
        return even
    unit = Light(constant, slope, 1.0, 1.0)
    top = max(float(unit.stabilized(image).max()) for image in images)
    return Light(constant, slope, top, 1 / top**2) if top > 0 else even


def noise_line(curve: NoiseCurve) -> tuple[float, float]:
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


def _curve(engine: Any, images: Sequence[Any]) -> NoiseCurve:
    """Return the pair's noise curve; where an image is too small or too plain for one, a single point of it."""
    try:
        return curve_of_blocks(*engine.block_statistics(images))
    except InputError:
        values = np.stack(to_numpy(*images)).astype(np.float64)
        # Differences that cancel every plane; what structure there is counts as noise.
        haar = (values[:, 1:, 1:] - values[:, :-1, 1:] - values[:, 1:, :-1] + values[:, :-1, :-1]) / 2
        one = np.ones(1)
        return NoiseCurve(one * values.mean(), one * (haar**2).mean(), one, 0 * one)
