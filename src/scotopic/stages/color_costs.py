"""Fine evidence of colors: bounded differences of the denoised images, in light that shows detail but is not clear.

The census (:mod:`~scotopic.stages.census`) compares a pixel with those around it, and what noise the denoising has left
enters twice. Colors themselves rest on more: a denoised value is a mean over many pixels. So in this light the volume
gets a second kind of fine evidence, the bounded difference of Geman and McClure::

    e(x, d) = mean over the channels of (I(x) - I'(x - d))^2
    cost(x, d) = e / (e + scale^2)

The bound keeps an edge from outvoting the surface beside it, as in the census. ``scale`` goes with the noise of the
images before they were denoised. The views must have the same light for this (:mod:`~scotopic.stages.equalization`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scotopic.arrays import Array
from scotopic.backends.protocol import Backend
from scotopic.progress import Share, unheard
from scotopic.settings import FineSettings
from scotopic.stages.evidence_volume import reference_blur


def choose_color_scale(noise_variance: float, settings: FineSettings) -> float:
    """Return the difference of colors that costs half as much as any."""
    return float(max(settings.color_contrast, settings.color_noise * noise_variance**0.5))


def add_color_volume(
    backend: Backend[Array],
    volume: Array,
    images: Sequence[Array],
    scale: float,
    disparities: range,
    settings: FineSettings,
    progress: Share = unheard,
) -> None:
    """Add the costs of the colors of two images ``(H, W, C)`` to a volume, in place, in units of their spread."""
    left, right = images
    colors = backend.color_volume(left, right, disparities, scale, settings.color_window, progress)
    backend.normalize_volume(colors)
    colors *= settings.color_share
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
