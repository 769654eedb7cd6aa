"""Fine evidence: a soft census of both images, in light that shows single pixels.

The wide channels (:mod:`~scotopic.stages.channels`) see structure that survives noise, but an edge then speaks for
everything within its reach, and it moves with the nearer of its sides: the background beside it takes the foreground's
disparity. In good light evidence can be local and bounded instead. Each pixel is described by its differences to the
pixels around it, none of which counts for more than its sign::

    u_k(x) = (I(x + o_k) - I(x)) / scale
    c_k(x) = tanh(u_k(x)) exp(-|u_k(x)| / falloff)
    cost(x, d) = mean over k of |c_k(x) - c'_k(x - d)|

``I`` is the mean of the channels, and the offsets ``o_k`` are those of a 7 x 7 square. (With hard signs, no falloff and
a Hamming distance this is the census transform of Zabih and Woodfill, 1994.) ``scale`` is a contrast that edges exceed
and noise does not. A neighbor that differs far more than that is likely to lie on another surface, which has another
disparity and says little about this one: hence the falloff, as of a robust estimator that redescends. The offset of a
view changes nothing; views of unequal gain are equalized before (:mod:`~scotopic.stages.equalization`).

Where there is enough light for it, fine evidence takes the place of the coarse: added to it with a weight that fades
with the light, coarse evidence changed errors by no more than 2 %, either way.
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

RADIUS = 3  #: of the square of neighbors
STEPS = 127  #: that 1 is divided into, so that a feature fits into a byte


def census_offsets(radius: int = RADIUS) -> list[tuple[int, int]]:
    """Return the offsets of a square, rows and columns, without its middle."""
    reach = range(-radius, radius + 1)
    return [(i, j) for i in reach for j in reach if (i, j) != (0, 0)]


def census(backend: Backend[Array], image: Array, scale: float, falloff: float) -> Array:
    """Return the soft census of an image ``(H, W, C)``: ``(K, H, W)`` int8, in steps of 1/127; edges are repeated."""
    return backend.census(backend.xp.mean(image, axis=2), RADIUS, scale, falloff, STEPS)


def choose_census_scale(noise_variance: float, settings: FineSettings) -> float:
    """Return the contrast that counts: that of faint edges, or more where the images are noisier."""
    return float(max(settings.census_contrast, settings.census_noise * noise_variance**0.5))


def build_fine_volume(
    backend: Backend[Array],
    images: Sequence[Array],
    scale: float,
    disparities: range,
    settings: FineSettings,
    progress: Share = unheard,
) -> Array:
    """Return the costs of the census of two images, ``(D, H, W)``, in units of their spread."""
    left, right = (census(backend, image, scale, settings.census_falloff) for image in images)
    volume = backend.census_volume(left, right, disparities, settings.fine_window, progress)
    backend.normalize_volume(volume)
    return volume


def reference_census_volume(
    left: NDArray[np.float64],
    right: NDArray[np.float64],
    scale: float,
    falloff: float,
    disparities: range,
    window: float,
) -> NDArray[np.float64]:
    """Return the blurred costs of gray images straight from the definition, in units of 1."""
    height, width = left.shape
    rows, columns = np.arange(height), np.arange(width)

    def features(image: NDArray[np.float64], i: int, j: int) -> NDArray[np.float64]:
        neighbor = image[np.clip(rows + i, 0, height - 1)][:, np.clip(columns + j, 0, width - 1)]
        off = (neighbor - image) / scale
        return np.asarray(np.tanh(off) * np.exp(-np.abs(off) / falloff))

    volume = np.zeros((len(disparities), height, width))
    for i, j in census_offsets():
        one, other = features(left, i, j), features(right, i, j)
        for k, d in enumerate(disparities):
            volume[k] += np.abs(one - other[:, np.clip(columns - d, 0, width - 1)])
    return np.stack([reference_blur(plane / len(census_offsets()), window) for plane in volume])
