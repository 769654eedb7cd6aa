"""A second match inside the edges of the picture, where each part has to speak for itself.

A part without texture takes the disparity of the edges around it. If those belong to something nearer (a wall that is
seen through a chair), it takes the wrong one, and is as sure of it as they are: a jump costs ``P2`` wherever it is, so
all that lies between two edges of one disparity has their margin. So the pair is matched a second time, by the colors
alone, whose costs are local, and nothing passes an edge of the denoised picture. Between edges any change of disparity
costs ``P2``; across one it is free::

    P1 = P2'(x) = P2 / (1 + (g(x) / contrast)^4),    g^2 = mean over the channels of |gradient of G(1.2) I|^2

By itself this match is worse: many an edge lies within a surface, and what is cut to pieces has little to go by. But
the two fail in different places. So its path costs, times ``inner_weight``, are added to those of the first match
before the best disparity is chosen. And its own margin says what a pixel knows from inside its own edges.

``contrast`` is in units of the noise before denoising, above what denoising leaves of it. In too little light for
colors (``ENOUGH_COLOR``) the picture shows too few edges for this, and where noise is correlated between pixels, its
blotches would count as edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

import numpy as np
from numpy.typing import NDArray

from scotopic.arrays import Array
from scotopic.backends.protocol import Backend
from scotopic.constants import MAX_COST
from scotopic.settings import EvidenceMatchingSettings, InnerMatchSettings
from scotopic.stages.channels import both
from scotopic.stages.confidence import weigh_margin
from scotopic.stages.consistency import lr_difference
from scotopic.stages.evidence_volume import reference_blur
from scotopic.stages.sgm import read_totals

ENOUGH_COLOR = 0.5  #: weight of colors from which on they show enough edges
SMOOTHING = 1.2  #: px, of the picture before its gradient is taken
STEEPNESS = 4  #: how suddenly the price of a jump falls at the contrast


@dataclass(frozen=True, eq=False)
class InnerCosts(Generic[Array]):
    """What the match of one view inside edges needs: costs, and the price of a jump at each pixel, times the weight."""

    costs: Array
    penalties: Array


@dataclass(frozen=True, eq=False)
class InnerMatch(Generic[Array]):
    """One view matched inside edges: disparity, and margin in units of the volume's spread."""

    disparity: Array
    margin: Array


def prepare_inner_match(
    backend: Backend[Array],
    colors: Array,
    images: Sequence[Array],
    noise_variance: float,
    settings: EvidenceMatchingSettings,
) -> list[InnerCosts[Array]]:
    """Return the costs of the left and of the right view; of none if the match has no weight.

    Parameters
    ----------
    colors
        ``(D, H, W)`` costs of the colors of the left view, normalized.
    images
        The denoised views ``(H, W, C)``, in the same light.
    noise_variance
        Of the images before they were denoised.
    settings
        With the disparity range at this size.
    """
    inner, first = settings.inner_match, settings.matching.min_disparity
    if inner.inner_weight == 0:
        return []
    p2 = round(settings.matching.p2 * inner.inner_weight)
    penalties = cut_penalties(backend, images, p2, inner.inner_contrast * noise_variance**0.5)
    costs = [backend.quantize_costs(colors, _step(settings), MAX_COST, shear) for shear in (None, first)]
    return [InnerCosts(*each) for each in zip(costs, penalties, strict=True)]


def solve_inside(
    backend: Backend[Array], inner: InnerCosts[Array], settings: EvidenceMatchingSettings
) -> tuple[Array, InnerMatch[Array]]:
    """Match one view inside edges; return the sums of its path costs too, to which those of the first match are added.

    A margin is counted as without the weight.
    """
    p1 = round(settings.matching.p2 * settings.inner_match.inner_weight)
    totals = backend.aggregate(inner.costs, inner.penalties, p1)
    return totals, InnerMatch(*read_totals(backend, totals, _step(settings), settings.matching.min_disparity))


def _step(settings: EvidenceMatchingSettings) -> float:
    return 1 / (settings.volume.cost_steps * settings.inner_match.inner_weight)


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


def mix_margins(
    backend: Backend[Array],
    margin: Array,
    left: InnerMatch[Array],
    right: InnerMatch[Array],
    settings: EvidenceMatchingSettings,
) -> Array:
    """Return the geometric mean of the margin of left pixels and of that inside edges, weighed as margins are."""
    inner = weigh_margin(backend, left.margin, lr_difference(backend, left.disparity, right.disparity), settings.score)
    return mean_margin(margin, inner, settings.inner_match)


def mean_margin(margin: Array, inner: Array, settings: InnerMatchSettings) -> Array:
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
