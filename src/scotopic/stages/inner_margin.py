"""The margin that a part of the picture has by itself, cut off from others at the edges between them.

A part without texture takes the disparity of the edges around it. If those belong to something nearer (a wall that is
seen through a chair), it takes the wrong one, and is as sure of it as they are: a jump costs ``P2`` wherever it is, so
all that lies between two edges of one disparity has their margin. So the pair is matched once more, by the colors
alone, whose costs are local, and nothing passes an edge of the denoised picture. Between edges any change of disparity
costs ``P2``; across one it is free::

    P1 = P2'(x) = P2 / (1 + (g(x) / contrast)^4),    g^2 = mean over the channels of |gradient of G(1.2) I|^2

What is sure there is so by what lies inside its own edges. Only the margin is taken from this match, not the disparity:
many an edge lies within a surface, and cut to pieces a surface is matched worse. ``contrast`` is in units of the noise
before denoising, above what denoising leaves of it. In too little light for colors (``ENOUGH_COLOR``) the picture shows
too few edges for this, and where noise is correlated between pixels, its blotches would count as edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from scotopic.arrays import Array
from scotopic.backends.protocol import Backend
from scotopic.settings import EvidenceMatchingSettings, ScoreSettings
from scotopic.stages.channels import both
from scotopic.stages.color_costs import build_color_volume
from scotopic.stages.confidence import weigh_margin
from scotopic.stages.consistency import lr_difference
from scotopic.stages.evidence_volume import reference_blur
from scotopic.stages.sgm import solve_pixels

ENOUGH_COLOR = 0.5  #: weight of colors from which on they show enough edges
SMOOTHING = 1.2  #: px, of the picture before its gradient is taken
STEEPNESS = 4  #: how suddenly the price of a jump falls at the contrast


def measure_inner_margin(
    backend: Backend[Array], images: Sequence[Array], noise_variance: float, settings: EvidenceMatchingSettings
) -> Array | None:
    """Return the margin of each left pixel inside its own edges, weighed as the margin of the match is.

    None if it has no share in the score.

    Parameters
    ----------
    images
        The denoised views ``(H, W, C)``, in the same light.
    noise_variance
        Of the images before they were denoised.
    settings
        With the disparity range at this size.
    """
    if settings.score.inner_share == 0:
        return None
    volume = build_color_volume(backend, images, noise_variance, settings.matching.disparities, settings.colors)
    contrast = settings.score.inner_contrast * noise_variance**0.5
    penalties = cut_penalties(backend, images, settings.matching.p2, contrast)
    settings = replace(settings, matching=replace(settings.matching, p1=settings.matching.p2))
    left, margin = solve_pixels(backend, volume, settings, penalties[0], is_left=True)
    right, _ = solve_pixels(backend, volume, settings, penalties[1], is_left=False)
    return weigh_margin(backend, margin, lr_difference(backend, left, right), settings.score)


def cut_penalties(backend: Backend[Array], images: Sequence[Array], p2: int, contrast: float) -> list[Array]:
    """Return ``P2`` of each pixel of two images, int32: nothing at edges."""
    xp = backend.xp
    smooth = backend.blur_views(both(backend, images[0], images[1]), SMOOTHING)
    energy = xp.zeros_like(smooth[..., 0])
    for axis in (1, 2):
        here, last = backend.arange(smooth.shape[axis]), smooth.shape[axis] - 1
        after, before = xp.clip(here + 1, max=last), xp.clip(here - 1, min=0)
        slope = (xp.take(smooth, after, axis=axis) - xp.take(smooth, before, axis=axis)) / 2
        energy = energy + xp.mean(slope * slope, axis=3)
    ratio = energy * (1 / contrast**2)
    penalties = xp.astype(xp.floor(p2 / (1 + ratio ** (STEEPNESS // 2))), xp.int32)
    return [penalties[0], penalties[1]]


def mix_margins(margin: Array, inner: Array, settings: ScoreSettings) -> Array:
    """Return the geometric mean of two margins, in which ``inner`` has the weight ``inner_share``."""
    share = settings.inner_share
    mixed: Array = margin ** (1 - share) * inner**share
    return mixed


def reference_cut_penalties(image: NDArray[np.float64], p2: int, contrast: float) -> NDArray[np.int64]:
    """Return ``P2`` of each pixel of an image ``(H, W, C)``, straight from the definition."""
    energies = []
    for channel in np.moveaxis(image, 2, 0):
        padded = np.pad(reference_blur(channel, SMOOTHING), 1, mode="edge")
        down, along = (padded[2:, 1:-1] - padded[:-2, 1:-1]) / 2, (padded[1:-1, 2:] - padded[1:-1, :-2]) / 2
        energies.append(down**2 + along**2)
    gradient = np.sqrt(np.mean(energies, axis=0))
    return np.asarray(np.floor(p2 / (1 + (gradient / contrast) ** STEEPNESS)), np.int64)
