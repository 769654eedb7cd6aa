"""All evidence in one volume, ``(D, H, W)``: minus the log-likelihood ratio of each disparity at each pixel.

The cost of a channel, see :mod:`~scotopic.stages.channels`, is with ``p = (a - b) / 2`` and ``q = a + b``::

    a (l - r)^2 / 2 - b (l + r)^2 / 2  =  p l^2 + p r^2 - q l r

With the units ``g(x)`` in it, it is an inner product of features of the left pixel and of its partner::

    (g p l^2,  g,      -g q l) . (1,  p r^2,  r)

Channels that share a window are packed together, so that a cell of the volume is a few multiplications and, for each
window, one blur. The windows are nested: a blur by 8 is a blur by 4 of a blur by ``sqrt(8^2 - 4^2)``, so that each
costs the little that it adds. Beyond the edge of the other view its last column is repeated; leaving such cells neutral
made confident errors there.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scotopic.arrays import Array
from scotopic.backends.gaussian import gaussian_kernel
from scotopic.backends.protocol import Backend, Features
from scotopic.progress import Share, unheard
from scotopic.stages.channels import Channel


def build_volume(
    backend: Backend[Array], channels: Sequence[Channel[Array]], disparities: range, progress: Share = unheard
) -> Array:
    """Return the volume of all channels, ``(D, H, W)``."""
    return backend.build_volume(pack_features(backend, channels), disparities, progress)


def pack_features(backend: Backend[Array], channels: Sequence[Channel[Array]]) -> list[Features[Array]]:
    """Return the features of all channels, one set per window, the widest window first."""
    windows = sorted({channel.window for channel in channels}, reverse=True)
    return [_pack(backend, [each for each in channels if each.window == window]) for window in windows]


def _pack(backend: Backend[Array], channels: Sequence[Channel[Array]]) -> Features[Array]:
    features = []
    for channel in channels:
        difference, likeness = channel.slopes()
        own, product = (difference - likeness) / 2, difference + likeness
        features.append(backend.channel_features(channel.left, channel.right, channel.units, own, product))
    left, right = (each[0] if len(each) == 1 else backend.xp.concat(each) for each in zip(*features, strict=True))
    return Features(left, right, channels[0].window)


def weigh_by_light(backend: Backend[Array], volume: Array, light: Sequence[Array], disparities: range) -> None:
    """Multiply each cell of a volume by the root of the light of its left and of its right pixel, in place.

    In the dark a log-likelihood ratio goes as ``S / N^2``: a pixel with ``1/r`` of the light would count ``1/r``, and a
    cell of two such pixels ``1/r^2``. The root of that is better: matching spreads the disparity of well-lit neighbors
    over what counts little, and is then sure of it.
    """
    left, right = (each**0.5 for each in light)
    backend.weigh_cells(volume, left, right, disparities)


def reference_volume(channels: Sequence[Channel[np.ndarray]], disparities: range) -> NDArray[np.float64]:
    """Return the volume straight from the definition, in float64."""
    height, width = channels[0].left.shape[:2]
    volume = np.zeros((len(disparities), height, width))
    for channel in channels:
        left, right = (each.astype(np.float64) for each in (channel.left, channel.right))
        difference, likeness = channel.slopes()
        for k, d in enumerate(disparities):
            partner = right[:, np.clip(np.arange(width) - d, 0, width - 1)]
            u, w = (left - partner) / math.sqrt(2), (left + partner) / math.sqrt(2)
            cost = (difference * u**2 - likeness * w**2).sum(axis=2)
            volume[k] += reference_blur(cost if channel.units is None else cost * channel.units, channel.window)
    return volume


def reference_blur(plane: NDArray[np.float64], sigma: float) -> NDArray[np.float64]:
    """Return a plane blurred by a Gaussian along both axes, mirrored at its edges."""
    kernel = gaussian_kernel(sigma)
    reach = kernel.size // 2
    for axis in (0, 1):
        padding = [(0, 0), (0, 0)]
        padding[axis] = (reach, reach)
        padded = np.pad(plane, padding, mode="reflect")
        plane = np.apply_along_axis(np.convolve, axis, padded, kernel, mode="valid")
    return plane
