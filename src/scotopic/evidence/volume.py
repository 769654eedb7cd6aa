"""All evidence in one volume, ``(D, H, W)``: minus the log-likelihood ratio of each disparity at each pixel.

The cost of a channel, see :mod:`~scotopic.evidence.channels`, is with ``p = (a - b) / 2`` and ``q = a + b``::

    a (l - r)^2 / 2 - b (l + r)^2 / 2  =  p l^2 + p r^2 - q l r

With the units ``g(x)`` in it, it is an inner product of features of the left pixel and of its partner::

    (g p l^2,  g,      -g q l) . (1,  p r^2,  r)

Channels that share a window are joined, so that a cell of the volume is a few multiplications and, for each window, one
blur. The windows are nested: a blur by 8 is a blur by 4 of a blur by ``sqrt(8^2 - 4^2)``, so that each costs the little
that it adds. Beyond the edge of the other view its last column is repeated; leaving such cells neutral made confident
errors there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.evidence.channels import Channel


@dataclass(frozen=True)
class Features:
    """What is multiplied: ``(F, H, W)`` of each view, and the blur of the products."""

    left: Any
    right: Any
    window: float


def join(engine: Any, channels: Sequence[Channel]) -> list[Features]:
    """Return the features of all channels, one set per window, the widest window first."""
    windows = sorted({channel.window for channel in channels}, reverse=True)
    return [_features(engine, [each for each in channels if each.window == window]) for window in windows]


def _features(engine: Any, channels: Sequence[Channel]) -> Features:
    left, right = [], []
    for channel in channels:
        apart, alike = channel.slopes()
        own, product = (apart - alike) / 2, apart + alike
        units = engine.ones_like(channel.left[..., 0]) if channel.units is None else channel.units
        left += [units * engine.weighed(channel.left, own), units]
        right += [engine.ones_like(units), engine.weighed(channel.right, own)]
        for component, factor in enumerate(product):
            left.append(units * channel.left[..., component] * float(-factor))
            right.append(channel.right[..., component])
    return Features(engine.stacked(left), engine.stacked(right), channels[0].window)


def blurs(features: Sequence[Features]) -> list[float]:
    """Return the blur that follows each set of features, the widest window first, so that all windows come out."""
    widths = [each.window for each in features] + [0.0]
    return [math.sqrt(widths[k] ** 2 - widths[k + 1] ** 2) for k in range(len(features))]


def reference_volume(channels: Sequence[Channel], disparities: Sequence[int]) -> NDArray[np.float64]:
    """Return the volume straight from the definition, in float64."""
    from scotopic.evidence.channels import gaussian

    height, width = channels[0].left.shape[:2]
    volume = np.zeros((len(disparities), height, width))
    for channel in channels:
        left, right = (each.astype(np.float64) for each in (channel.left, channel.right))
        apart, alike = channel.slopes()
        kernel = gaussian(channel.window)
        for k, d in enumerate(disparities):
            partner = right[:, np.clip(np.arange(width) - d, 0, width - 1)]
            u, w = (left - partner) / math.sqrt(2), (left + partner) / math.sqrt(2)
            cost = (apart * u**2 - alike * w**2).sum(axis=2)
            volume[k] += _blurred(cost if channel.units is None else cost * channel.units, kernel)
    return volume


def _blurred(plane: NDArray[np.float64], kernel: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a plane blurred along both axes, mirrored at its edges."""
    reach = kernel.size // 2
    for axis in (0, 1):
        padding = [(0, 0), (0, 0)]
        padding[axis] = (reach, reach)
        padded = np.pad(plane, padding, mode="reflect")
        plane = np.apply_along_axis(np.convolve, axis, padded, kernel, mode="valid")
    return plane
