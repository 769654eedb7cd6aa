"""Colors as evidence: bounded differences of the denoised images.

The other evidence is about structure: channels are high-passed (:mod:`~scotopic.stages.channels`), and the census
compares a pixel with those around it. But once denoised, a color is itself a mean over many pixels, and says what a
surface is up to its very edge. So its difference between the views counts as well, bounded after Geman and McClure, so
that no edge outvotes the surface beside it::

    e(x, d) = mean over the channels of (I(x) - I'(x - d))^2
    cost(x, d) = e / (e + scale^2)

``scale`` goes with the noise of the images before they were denoised. In the dark the weight grows with the images'
signal-to-noise ratio. The views must have the same light (:mod:`~scotopic.stages.equalization`). Noise that is
correlated between pixels is not averaged away: it leaves blotches of color in each view, so colors do not count there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scotopic.arrays import Array
from scotopic.backends.protocol import Backend
from scotopic.progress import unheard
from scotopic.settings import ColorSettings
from scotopic.stages.evidence_volume import reference_blur


def choose_color_scale(noise_variance: float, settings: ColorSettings) -> float:
    """Return the difference of colors that costs half as much as any."""
    return float(max(settings.color_contrast, settings.color_noise * noise_variance**0.5))


def weigh_colors_in_the_dark(image_snr: float, settings: ColorSettings) -> float:
    """Return the weight of colors beside all coarse evidence together."""
    return float(min(image_snr / settings.color_snr, 1.0))


def build_color_volume(
    backend: Backend[Array], images: Sequence[Array], noise_variance: float, disparities: range, settings: ColorSettings
) -> Array:
    """Return the costs of the colors of two images ``(H, W, C)``, in units of their spread."""
    left, right = images
    scale = choose_color_scale(noise_variance, settings)
    volume = backend.color_volume(left, right, disparities, scale, settings.color_window, unheard)
    backend.normalize_volume(volume)
    return volume


def add_color_volume(
    backend: Backend[Array],
    volume: Array,
    images: Sequence[Array],
    noise_variance: float,
    disparities: range,
    settings: ColorSettings,
    weight: float,
) -> None:
    """Add the costs of the colors of two images ``(H, W, C)`` to a volume, in place.

    Both are taken in units of their spread: what the volume held is divided by its own.
    """
    backend.normalize_volume(volume)
    colors = build_color_volume(backend, images, noise_variance, disparities, settings)
    colors *= weight
    volume += colors


def reference_color_volume(
    left: NDArray[np.float64], right: NDArray[np.float64], scale: float, disparities: range, window: float
) -> NDArray[np.float64]:
    """Return the blurred costs straight from the definition."""
    columns = np.arange(left.shape[1])
    planes = []
    for d in disparities:
        partner = right[:, np.clip(columns - d, 0, len(columns) - 1)]
        energy = ((left - partner) ** 2).mean(axis=2)
        planes.append(reference_blur(energy / (energy + scale**2), window))
    return np.stack(planes)
