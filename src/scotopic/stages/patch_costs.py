"""How badly each patch fits the other view at each disparity: the cost volume of the paper (Wang et al. 2026).

For a patch of this view, with ``P`` its raw pixels and ``C`` its own reconstruction in plain colors, and for the other
view, with ``I`` its raw pixels and ``G`` the mean map of its reconstructions, both shifted by ``d``::

    cost(d) = mse(C, I) + mse(P, G) + lr mse(C, G)

over those pixels of the patch whose partner lies inside the other image. :func:`reference_patch_costs` says this in
NumPy; the kernels expand the squares, so that only two correlations depend on ``d``.
"""

from dataclasses import dataclass
from typing import Generic

import numpy as np
from numpy.typing import NDArray

from scotopic.arrays import Array
from scotopic.backends.protocol import Backend
from scotopic.constants import INVALID_COST
from scotopic.progress import Share, unheard
from scotopic.settings import PatchMatchingSettings
from scotopic.stages.junctions.fit import Junctions, draw_plain_map, to_planes
from scotopic.stages.junctions.geometry import distances, reconstruction, wedge_colors, wedges


@dataclass(frozen=True, eq=False)
class View(Generic[Array]):
    """One image with its junctions, and the mean map of the junctions' plain reconstructions.

    Attributes
    ----------
    image
        ``(H, W, C)`` float32.
    junctions
        Fitted to ``image``.
    plain_map
        ``(H, W, C)`` float32, the mean of the patches' reconstructions in plain colors.
    """

    image: Array
    junctions: Junctions[Array]
    plain_map: Array


def make_view(backend: Backend[Array], image: Array, junctions: Junctions[Array]) -> View[Array]:
    """Return an image with its junctions, ready to be matched."""
    return View(image, junctions, draw_plain_map(backend, image, junctions))


def term_weights(settings: PatchMatchingSettings) -> tuple[float, float, float]:
    """Return the weights of mse(C, I), mse(P, G), mse(C, G)."""
    return (1.0, 1.0, settings.reconstruction_weight) if settings.symmetric else (1.0, 0.0, 0.0)


def build_patch_costs(
    backend: Backend[Array],
    view: View[Array],
    other: View[Array],
    settings: PatchMatchingSettings,
    *,
    is_left: bool,
    progress: Share = unheard,
) -> Array:
    """Return the raw costs of one view, ``(rows, columns, D)``; negative where under half of a patch has a partner.

    Parameters
    ----------
    view, other
        The view whose patches are matched, and the one they are matched to.
    settings
        Disparity range (fixed, see :meth:`MatchingSettings.for_width`) and weights.
    is_left
        Whether ``view`` is the left one: its partners lie at ``x - d``, those of the right one at ``x + d``.
    """
    fit = view.junctions.settings
    planes = to_planes(backend, [view.image], fit)[0]
    return backend.patch_costs(
        planes, view.junctions.parameters, other.image, other.plain_map, fit, settings.disparities,
        term_weights(settings), is_left=is_left, progress=progress,
    )  # fmt: skip


def scale_costs(backend: Backend[Array], costs: Array, settings: PatchMatchingSettings) -> Array:
    """Scale costs to ``0 .. volume_range`` and floor them; invalid cells cost 1.5 x the largest. Returns int16."""
    xp = backend.xp
    is_valid, largest = costs >= 0, xp.max(costs)
    low = xp.min(xp.where(is_valid, costs, largest))
    top = xp.where(xp.min(costs) < 0, 1.5 * largest, largest)
    is_flat = top <= low
    share = (costs - low) / xp.where(is_flat, 1.0, top - low)
    scaled = xp.where(is_valid, xp.floor(share * settings.volume_range), float(settings.volume_range))
    return xp.astype(xp.where(is_flat, 0.0, scaled), xp.int16)


def reference_patch_costs(
    view: View[np.ndarray],
    other: View[np.ndarray],
    settings: PatchMatchingSettings,
    *,
    is_left: bool,
) -> NDArray[np.float64]:
    """Return what :func:`build_patch_costs` returns, straight from the definition, in float64."""
    fit = view.junctions.settings
    size, stride = fit.patch_size, fit.stride
    height, width = view.image.shape[:2]
    padding = [(0, -(length - size) % stride) for length in (height, width)]
    padded = np.pad(view.image.astype(np.float64), [*padding, (0, 0)], mode="edge")
    own, cross, rebuilt = term_weights(settings)
    disparities = settings.disparities
    rows, columns, _ = view.junctions.parameters.shape
    volume = np.full((rows, columns, len(disparities)), INVALID_COST)
    for i, j in np.ndindex(rows, columns):
        top, left = i * stride, j * stride
        patch = padded[top : top + size, left : left + size]
        u = wedges(*distances(view.junctions.parameters[i, j], size))
        painted = reconstruction(u, wedge_colors(u, patch))
        for k, d in enumerate(disparities):
            shift = -d if is_left else d
            x = np.arange(left, min(left + size, width))
            x = x[(x + shift >= 0) & (x + shift < width)]
            y = np.arange(top, min(top + size, height))
            if 2 * x.size * y.size < size * size:
                continue
            p, c = (a[np.ix_(y - top, x - left)] for a in (patch, painted))
            raw, plain = (a[np.ix_(y, x + shift)].astype(np.float64) for a in (other.image, other.plain_map))
            volume[i, j, k] = (
                own * ((c - raw) ** 2).mean() + cross * ((p - plain) ** 2).mean() + rebuilt * ((c - plain) ** 2).mean()
            )
    return volume
