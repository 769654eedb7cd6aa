"""Denoising of the color maps in the dark: a collaborative Wiener filter over similar patches.

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

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from scotopic.arrays import Array
from scotopic.backends.protocol import Backend, Floats, PatchFilter
from scotopic.settings import ChannelSettings, DenoisingSettings
from scotopic.stages.channels import Pair, both, high_pass, principal_axes

SIZE = 8  #: pixels along the side of a patch
STRIDE = 2  #: pixels from one patch to the next
KAISER = 2.0  #: shape of the window over a patch; patches count less at their rims


def denoise_color_maps(
    backend: Backend[Array], pair: Pair[Array], settings: DenoisingSettings, channels: ChannelSettings
) -> Pair[Array]:
    """Return a pair whose junctions' color maps are mixed with the images filtered over similar patches."""
    if settings.group_rounds == 0 or min(pair.left.shape[:2]) < SIZE + settings.group_reach:
        return pair
    maps = both(backend, pair.left_colors, pair.right_colors)
    # Along the principal axes of the colors most of the signal is in one component, and the others are quiet.
    _, axes = principal_axes(backend, high_pass(backend, maps, channels.cross_highpass))
    noisy, mixed = (backend.mix_channels(each, axes) for each in (both(backend, pair.left, pair.right), maps))
    pilots = [mixed[0], mixed[1]]
    tables = patch_filter(settings.group_count, settings.group_reach)
    for _ in range(settings.group_rounds):
        pilots = [
            backend.filter_similar_patches(image, pilot, pair.variance, tables)
            for image, pilot in zip((noisy[0], noisy[1]), pilots, strict=True)
        ]
    share = settings.group_share
    clear = (1 - share) * maps + share * backend.mix_channels(both(backend, pilots[0], pilots[1]), axes.T)
    return replace(pair, left_colors=clear[0], right_colors=clear[1])


@lru_cache(maxsize=16)
def patch_filter(count: int, reach: int, size: int = SIZE, stride: int = STRIDE) -> PatchFilter:
    """Return the tables of the filter for groups of ``count`` patches within ``reach`` pixels."""
    return PatchFilter(size, stride, count, reach, cosines(size), hadamard(count), kaiser_window(size))


def cosines(size: int) -> Floats:
    """Return the orthonormal DCT-II of a row of pixels: ``(size, size)``, frequencies along rows."""
    place = np.arange(size)
    along = np.cos(math.pi * (place + 0.5) * place[:, None] / size) * math.sqrt(2 / size)
    along[0] /= math.sqrt(2)
    return np.asarray(along)


def hadamard(count: int) -> Floats:
    """Return the orthonormal Hadamard transform of a group; its first column is positive."""
    matrix = np.ones((1, 1))
    while len(matrix) < count:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return np.asarray(matrix / math.sqrt(count))


def kaiser_window(size: int) -> Floats:
    """Return the weights of a patch's pixels, ``(size^2,)``."""
    along = np.kaiser(size, KAISER)
    return np.outer(along, along).ravel()


def reference_groups(pilot: Floats, tables: PatchFilter) -> NDArray[np.int64]:
    """Return each patch's group as corners ``(rows, columns, count, 2)``, straight from the definition.

    ``pilot`` is ``(H, W, C)``, covered by whole patches.
    """
    size, reach, (height, width) = tables.size, tables.reach, pilot.shape[:2]
    rows, columns = (np.arange(0, length - size + 1, tables.stride) for length in (height, width))
    found = np.empty((len(rows), len(columns), tables.count, 2), np.int64)
    for i, j in np.ndindex(len(rows), len(columns)):
        top, left = int(rows[i]), int(columns[j])
        here = pilot[top : top + size, left : left + size]
        others = []
        for y in range(max(top - reach, 0), min(top + reach, height - size) + 1):
            for x in range(max(left - reach, 0), min(left + reach, width - size) + 1):
                distance = float(((pilot[y : y + size, x : x + size] - here) ** 2).sum())
                others.append((-1.0 if (y, x) == (top, left) else distance, y, x))
        found[i, j] = [place for _, *place in sorted(others)[: tables.count]]
    return found


def reference_filtered(image: Floats, pilot: Floats, variance: float, tables: PatchFilter) -> Floats:
    """Return an image filtered with a pilot, both ``(H, W, C)``, straight from the definition."""
    size, (height, width, channels) = tables.size, image.shape
    padding = [*((0, -(length - size) % tables.stride) for length in (height, width)), (0, 0)]
    image, pilot = (np.pad(each, padding, mode="edge") for each in (image, pilot))
    along_group, along_patch, window = tables.along_group, tables.along_patch, tables.window.reshape(size, size)
    total, weights = np.zeros(image.shape), np.zeros(image.shape)
    for members in reference_groups(pilot, tables).reshape(-1, tables.count, 2):
        for c in range(channels):
            noisy, clear = (
                along_group
                @ np.stack([plane[y : y + size, x : x + size, c].ravel() for y, x in members])
                @ along_patch.T
                for plane in (image, pilot)
            )
            gain = clear**2 / (clear**2 + variance)
            first = (along_group.T @ (gain * noisy) @ along_patch)[0].reshape(size, size)
            confidence = 1 / max((gain**2).sum(), 1.0)
            y, x = members[0]
            total[y : y + size, x : x + size, c] += confidence * window * first
            weights[y : y + size, x : x + size, c] += confidence * window
    return np.asarray((total / weights)[:height, :width])
