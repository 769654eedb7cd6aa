"""Patches that look alike tell each other what they show: a collaborative Wiener filter.

Junctions describe edges and lose what is fainter than an edge. Faint structure repeats, though: along an edge, over a
texture, within a surface. So each patch of the dark image is filtered together with the patches around that look most
like it. Which do, and how much of each frequency is signal, a clearer picture of the same scene tells, the *pilot*: the
junctions' color map first, then the filter's own result.

For a patch, with ``N`` patches (itself the first) in a group, ``t`` the transform of the group (DCT along rows and
columns of each patch, Hadamard along the group), ``y`` and ``p`` the group in the image and in the pilot, and noise of
variance ``v``::

    x = t^-1( t(y) t(p)^2 / (t(p)^2 + v) )

Of ``x`` only the first patch is used: patches are taken every other pixel, so that each pixel is in many of them
anyway, and nothing has to be scattered. At a pixel the estimates are averaged with weights ``1 / sum (t(p)^2 / (t(p)^2
+ v))^2``, the inverse of the noise that is left, times a Kaiser window.

This is the second stage of BM3D (Dabov, Foi, Katkovnik and Egiazarian, 2007) with other pilots than its own first one,
which thresholds what is mostly noise here.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.evidence.channels import Pair, axes_of
from scotopic.settings import EvidenceSettings

SIZE = 8  #: patches are so many pixels wide and high
EVERY = 2  #: one patch every so many pixels, either way
KAISER = 2.0  #: shape of the window over a patch; patches count less at their rims

Array = NDArray[np.float64]


def clarified(engine: Any, pair: Pair, settings: EvidenceSettings) -> Pair:
    """Return a pair whose junctions' color maps are joined with what like patches of its images show together."""
    if settings.group_rounds == 0 or min(pair.left.shape[:2]) < SIZE + settings.group_reach:
        return pair
    maps = pair.left_junctions, pair.right_junctions
    # Along the principal axes of the colors most of the signal is in one component, and the others are quiet.
    _, axes = axes_of(engine, *(engine.detail(each, settings.cross_high) for each in maps))
    seen = [engine.turned(each, axes) for each in (pair.left, pair.right)]
    pilots = [engine.turned(each, axes) for each in maps]
    for _ in range(settings.group_rounds):
        pilots = engine.filtered(seen, pilots, pair.variance, settings.group_count, settings.group_reach)
    share = settings.group_share
    left, right = (
        (1 - share) * each + share * engine.turned(pilot, axes.T) for each, pilot in zip(maps, pilots, strict=True)
    )
    return replace(pair, left_junctions=left, right_junctions=right)


def cosines(size: int = SIZE) -> Array:
    """Return the orthonormal DCT-II of patches as rows of pixels: ``(size^2, size^2)``, frequencies along rows."""
    place = np.arange(size)
    along = np.cos(math.pi * (place + 0.5) * place[:, None] / size) * math.sqrt(2 / size)
    along[0] /= math.sqrt(2)
    return np.asarray(np.kron(along, along))


def hadamard(count: int) -> Array:
    """Return the orthonormal Hadamard transform of a group; its first column is positive."""
    matrix = np.ones((1, 1))
    while len(matrix) < count:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return np.asarray(matrix / math.sqrt(count))


def window(size: int = SIZE) -> Array:
    """Return the weights of a patch's pixels, ``(size^2,)``."""
    along = np.kaiser(size, KAISER)
    return np.outer(along, along).ravel()


def corners(length: int) -> NDArray[np.int64]:
    """Return where patches begin along a side; an odd side is lengthened by one pixel, its last one again."""
    return np.arange(0, length + length % EVERY - SIZE + 1, EVERY)


def reference_groups(pilot: Array, count: int, reach: int) -> NDArray[np.int64]:
    """Return each patch's group as corners ``(rows, columns, count, 2)``, straight from the definition.

    Parameters
    ----------
    pilot
        ``(H, W, C)``, both sides even.
    count
        Patches in a group.
    reach
        How far away a patch may be, along either axis.
    """
    height, width = pilot.shape[:2]
    rows, columns = corners(height), corners(width)
    found = np.empty((len(rows), len(columns), count, 2), np.int64)
    for i, j in np.ndindex(len(rows), len(columns)):
        top, left = int(rows[i]), int(columns[j])
        here = pilot[top : top + SIZE, left : left + SIZE]
        others = []
        for y in range(max(top - reach, 0), min(top + reach, height - SIZE) + 1):
            for x in range(max(left - reach, 0), min(left + reach, width - SIZE) + 1):
                apart = float(((pilot[y : y + SIZE, x : x + SIZE] - here) ** 2).sum())
                others.append((-1.0 if (y, x) == (top, left) else apart, y, x))
        found[i, j] = [place for _, *place in sorted(others)[:count]]
    return found


def reference_filtered(image: Array, pilot: Array, variance: float, count: int, reach: int) -> Array:
    """Return an image filtered with a pilot, both ``(H, W, C)``, straight from the definition."""
    height, width, channels = image.shape
    lengthen = ((0, height % EVERY), (0, width % EVERY), (0, 0))
    image, pilot = (np.pad(each, lengthen, mode="edge") for each in (image, pilot))
    along_group, along_patch, weight = hadamard(count), cosines(), window().reshape(SIZE, SIZE)
    total, weights = np.zeros(image.shape), np.zeros(image.shape)
    for members in reference_groups(pilot, count, reach).reshape(-1, count, 2):
        for c in range(channels):
            seen, clear = (
                along_group
                @ np.stack([plane[y : y + SIZE, x : x + SIZE, c].ravel() for y, x in members])
                @ along_patch.T
                for plane in (image, pilot)
            )
            gain = clear**2 / (clear**2 + variance)
            first = (along_group.T @ (gain * seen) @ along_patch)[0].reshape(SIZE, SIZE)
            quiet = 1 / max((gain**2).sum(), 1.0)
            y, x = members[0]
            total[y : y + SIZE, x : x + SIZE, c] += quiet * weight * first
            weights[y : y + SIZE, x : x + SIZE, c] += quiet * weight
    return np.asarray((total / weights)[:height, :width])
