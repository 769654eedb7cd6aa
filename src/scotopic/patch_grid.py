"""The patch grid: pixels of a patch, patches over a pixel, offsets that are tried, and tiles, which bound memory."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scotopic.arrays import Array, Namespace
from scotopic.settings import JunctionSettings


@dataclass(frozen=True)
class Span:
    """A run of patches along one axis: those kept, ``start..stop``, and those fitted with them, ``first..last``."""

    start: int
    stop: int
    first: int
    last: int


def spans(count: int, tile: int, margin: int) -> Iterator[Span]:
    """Split ``count`` patches into runs of at most ``tile`` of nearly equal length, each with its margin."""
    pieces = -(-count // tile)
    for k in range(pieces):
        start, stop = k * count // pieces, (k + 1) * count // pieces
        yield Span(start, stop, max(start - margin, 0), min(stop + margin, count))


def patches_over(x: Array, count: int, settings: JunctionSettings, xp: Namespace[Array]) -> tuple[Array, Array]:
    """Return the first and the last of ``count`` patches along an axis that contain each pixel ``x``."""
    first = xp.clip(-((settings.patch_size - 1 - x) // settings.stride), min=0)  # ceil((x - R + 1) / stride)
    return first, xp.clip(x // settings.stride, max=count - 1)


def patch_axis(patch_size: int, binning: int = 1) -> NDArray[np.float64]:
    """Return the coordinates of a patch's (binned) pixels along one side."""
    return np.asarray(np.linspace(-1.0, 1.0, patch_size).reshape(-1, binning).mean(axis=1))


def search_offsets(settings: JunctionSettings) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the offsets at which a search step tries each angle, and each coordinate of the vertex."""
    angles = np.arange(settings.candidates, dtype=np.float64) * (2 * np.pi / settings.candidates)
    return angles, np.linspace(-settings.vertex_range, settings.vertex_range, settings.candidates)
