"""Boundary-aware semi-global matching on the patch grid (METHOD section 3).

Along each of eight directions, from a patch ``p`` to its successor ``q``::

    L(q, d) = cost(q, d) + min(L(p, d), L(p, d -+ 1) + P1, min_k L(p, k) + P2(p)) - min_k L(p, k)

The sums over the directions are whole numbers, so their order, and the number of threads, does not matter.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scotopic.device import cpu_kernels
from scotopic.junctions import Junctions
from scotopic.settings import MatchingSettings

DIRECTIONS = ((0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1))


def jump_penalties(junctions: Junctions, settings: MatchingSettings) -> NDArray[np.int32]:
    """Return ``P2`` of each patch: a jump in disparity is cheap where the patch holds a strong boundary."""
    rows, columns, _ = junctions.parameters.shape
    if not settings.adaptive_p2:
        return np.full((rows, columns), settings.p2, np.int32)
    size, stride = junctions.settings.patch_size, junctions.settings.stride
    strongest = np.array(
        [
            [junctions.boundary_map[i : i + size, j : j + size].max() for j in range(0, columns * stride, stride)]
            for i in range(0, rows * stride, stride)
        ]
    )
    penalties = np.maximum(settings.p2 * np.exp(-settings.p2_decay * strongest), settings.p2_min)
    return np.asarray(np.floor(penalties), np.int32)


def path_starts(rows: int, columns: int, down: int, right: int) -> list[tuple[int, int, int, int, int]]:
    """Return the paths of one direction: first row and column, step down and right, and number of patches.

    Paths begin on the sides that they come from.
    """
    first_row, first_column = (0 if down > 0 else rows - 1), (0 if right > 0 else columns - 1)
    starts = [(first_row, j) for j in range(columns)] if down else []
    starts += [(i, first_column) for i in range(rows) if right and not (down and i == first_row)]
    paths = []
    for i, j in starts:
        ahead_down = (rows - i if down > 0 else i + 1) if down else rows + columns
        ahead_right = (columns - j if right > 0 else j + 1) if right else rows + columns
        paths.append((i, j, down, right, min(ahead_down, ahead_right)))
    return paths


def aggregate(volume: NDArray[np.int16], penalties: NDArray[np.int32], settings: MatchingSettings) -> NDArray[np.int32]:
    """Return the sum of the path costs over eight directions, ``(rows, columns, D)``.

    Parameters
    ----------
    volume
        Scaled costs, ``(rows, columns, D)``.
    penalties
        ``P2`` of each patch, ``(rows, columns)``.
    settings
        For ``P1``.
    """
    directions = np.array(DIRECTIONS, np.int64)
    return np.asarray(cpu_kernels("matching").aggregate(volume, penalties, settings.p1, directions))


def select(total: NDArray[np.int32], settings: MatchingSettings) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the disparity of each patch (the lowest sum, the first on a tie) and its margin.

    The margin is by how much the lowest sum at least two candidates away is above the winner.
    """
    best, margin = cpu_kernels("matching").select(total)
    return best + settings.min_disparity, margin


def reference_aggregate(
    volume: NDArray[np.int16], penalties: NDArray[np.int32], settings: MatchingSettings
) -> NDArray[np.int64]:
    """Return what :func:`aggregate` returns, straight from the definition."""
    rows, columns, candidates = volume.shape
    total = np.zeros(volume.shape, np.int64)
    never = np.iinfo(np.int32).max
    for down, right in DIRECTIONS:
        path = np.zeros(volume.shape, np.int64)
        for i in range(rows)[:: -1 if down < 0 else 1]:
            for j in range(columns)[:: -1 if right < 0 else 1]:
                before_i, before_j = i - down, j - right
                path[i, j] = volume[i, j]
                if 0 <= before_i < rows and 0 <= before_j < columns:
                    before = path[before_i, before_j]
                    nearer = np.append(before[1:], never) + settings.p1
                    farther = np.insert(before[:-1], 0, never) + settings.p1
                    jump = np.full(candidates, before.min() + penalties[before_i, before_j])
                    path[i, j] += np.minimum.reduce([before, nearer, farther, jump]) - before.min()
        total += path
    return total
