"""How badly each patch fits the other view at each disparity (METHOD section 2).

For a patch of this view, with ``P`` its raw pixels and ``C`` its own reconstruction in plain colors, and for the other
view, with ``I`` its raw pixels and ``G`` the mean map of its reconstructions, both shifted by ``d``::

    cost(d) = mse(C, I) + mse(P, G) + lr mse(C, G)

over those pixels of the patch whose partner lies inside the other image. :func:`reference_cost_volume` says this in
NumPy; the kernels expand the squares, so that only two correlations depend on ``d``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scotopic.device import cpu_kernels
from scotopic.junctions import Junctions
from scotopic.junctions.geometry import distances, reconstruction, wedge_colors, wedges
from scotopic.junctions.on_cpu import painted_rows, to_planes
from scotopic.progress import Share, unheard
from scotopic.settings import MatchingSettings

INVALID = -1.0  #: marks a cell with too few partners, before scaling (costs are never negative)


@dataclass(frozen=True)
class View:
    """One image with its junctions, and the mean map of the junctions' plain reconstructions.

    Attributes
    ----------
    image
        ``(H, W, C)`` float32.
    junctions
        Fitted to ``image``.
    plain_map
        ``(H, W, C)`` float32, "global C" of METHOD section 2.
    """

    image: NDArray[np.float32]
    junctions: Junctions
    plain_map: NDArray[np.float32]


def weights(settings: MatchingSettings) -> tuple[float, float, float]:
    """Return the weights of mse(C, I), mse(P, G), mse(C, G)."""
    return (1.0, 1.0, settings.reconstruction_weight) if settings.symmetric else (1.0, 0.0, 0.0)


def cost_volume(
    view: View,
    other: View,
    settings: MatchingSettings,
    *,
    is_left: bool,
    progress: Share = unheard,
) -> NDArray[np.float32]:
    """Return the raw costs of one view, ``(rows, columns, D)``; :data:`INVALID` where too few pixels have a partner.

    Parameters
    ----------
    view, other
        The view whose patches are matched, and the one they are matched to.
    settings
        Disparity range (fixed, see :meth:`MatchingSettings.for_width`) and weights.
    is_left
        Whether ``view`` is the left one: its partners lie at ``x - d``, those of the right one at ``x + d``.
    """
    assert settings.max_disparity is not None
    first, candidates = settings.min_disparity, settings.max_disparity - settings.min_disparity
    fit, parameters = view.junctions.settings, view.junctions.parameters
    engine = cpu_kernels("matching")
    # Centered pixels: smaller sums, better rounding, the same differences.
    planes = to_planes([view.image], fit)[0] - np.float32(0.5)
    image, plain = (
        np.ascontiguousarray(np.moveaxis(a, -1, 0)) - np.float32(0.5) for a in (other.image, other.plain_map)
    )
    image_lines, before = engine.lay_out(image, first, candidates, fit.patch_size, is_left)
    plain_lines, before = engine.lay_out(plain, first, candidates, fit.patch_size, is_left)
    volume = np.empty((*parameters.shape[:2], candidates), np.float32)
    for row, (top, painted) in enumerate(painted_rows(planes, parameters, fit)):
        engine.cost_row(
            painted, planes, fit.patch_size, fit.stride, top, *view.image.shape[:2], image, plain, image_lines,
            plain_lines, before, first, is_left, *weights(settings), volume[row],
        )  # fmt: skip
        progress((row + 1) / len(volume))
    return volume


def scale_volume(volume: NDArray[np.float32], settings: MatchingSettings) -> NDArray[np.int16]:
    """Give invalid cells 1.5 x the largest cost, scale ``min..max`` to ``0..volume_range`` and floor."""
    valid = volume >= 0
    if not valid.any():
        return np.zeros(volume.shape, np.int16)
    low, high = volume.min(where=valid, initial=np.inf), volume.max()
    top = high if valid.all() else np.float32(1.5) * high
    if top <= low:
        return np.zeros(volume.shape, np.int16)
    scaled = (volume - low) / (top - low) * np.float32(settings.volume_range)
    scaled[~valid] = settings.volume_range
    return np.asarray(np.floor(scaled, out=scaled), np.int16)


def reference_cost_volume(view: View, other: View, settings: MatchingSettings, *, is_left: bool) -> NDArray[np.float64]:
    """Return what :func:`cost_volume` returns, straight from the definition, in float64."""
    assert settings.max_disparity is not None
    fit = view.junctions.settings
    size, stride = fit.patch_size, fit.stride
    height, width = view.image.shape[:2]
    padded = np.moveaxis(to_planes([view.image], fit)[0], 0, -1).astype(np.float64)
    own, cross, rebuilt = weights(settings)
    disparities = range(settings.min_disparity, settings.max_disparity)
    rows, columns, _ = view.junctions.parameters.shape
    volume = np.full((rows, columns, len(disparities)), INVALID)
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
