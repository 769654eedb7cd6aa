"""Votes of like colors: what pixels of the same color around say about one that shows little itself.

A plain wall has no evidence of its own, and the edges that bound it move with whatever stands in front of it. But the
same wall often shows structure elsewhere. So after a first solution each pixel ``p`` is voted on by pixels ``q`` some
way around it, those of its own color. A vote is for the disparity ``v`` that the plane through ``q`` has at ``p``, and
counts as much as ``q`` is sure of its own::

    k(q) = weight(q) exp(-|I(q) - I(p)|^2 / (2 contrast^2)),    v(q) = D(q) - slope(q) (q - p)
    V(d) = sum over q of k(q) hat(d - v(q)),    share(d) = (V(d) + E / candidates) / (sum over d of V(d) + E)
    cost(p, d) += -vote_weight log(share(d) + floor) / (1 + (weight(p) / usual weight)^2)

``|.|^2`` is the mean over the channels, ``hat`` falls from 1/2 to 0 over two candidates, and ``E`` is what few votes
are held against. The last factor leaves pixels alone that are sure by themselves. This is one round of mean field in a
fully connected random field (Krähenbühl and Koltun, 2011), with a fixed sample of the connections: a spiral of places
that are spread evenly over a ring.

The margins of the first solution stand. Those of a solution that follows the votes would confirm it by itself.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from scotopic.arrays import Array
from scotopic.backends.protocol import Backend, Ballot
from scotopic.settings import VoteSettings

STEP = 3  #: px to either side over which slopes are measured
STEEPEST = 0.5  #: px of disparity per px; what is steeper is a jump, and counts as level
HELD_AGAINST = 2.0  #: ``E``, in units of the weights
FLOOR = 0.02  #: of a share, so that no vote rules a disparity out


@lru_cache(maxsize=8)
def vote_places(count: int, nearest: float, farthest: float) -> tuple[tuple[int, int], ...]:
    """Return places relative to a pixel, rows and columns: a spiral, spread evenly over a ring."""
    share = (np.arange(count) + 0.5) / count
    radius = np.sqrt(nearest**2 + share * (farthest**2 - nearest**2))
    angle = np.arange(count) * math.pi * (3 - math.sqrt(5))
    rows, columns = (np.rint(radius * part(angle)).astype(int).tolist() for part in (np.sin, np.cos))
    return tuple(zip(rows, columns, strict=True))


def measure_slopes(backend: Backend[Array], surface: Array) -> tuple[Array, Array]:
    """Return how much disparity rises per row and per column; 0 where it jumps."""
    xp, slopes = backend.xp, []
    for axis, length in enumerate(surface.shape):
        here = backend.arange(length)
        before, after = xp.clip(here - STEP, min=0), xp.clip(here + STEP, max=length - 1)
        across = xp.astype(xp.clip(after - before, min=1), xp.float32)
        rise = xp.take(surface, after, axis=axis) - xp.take(surface, before, axis=axis)
        slopes.append(rise / (xp.reshape(across, (-1, 1)) if axis == 0 else across))
    is_surface = (xp.abs(slopes[0]) < STEEPEST) & (xp.abs(slopes[1]) < STEEPEST)
    return xp.where(is_surface, slopes[0], 0.0), xp.where(is_surface, slopes[1], 0.0)


def add_votes(
    backend: Backend[Array],
    volume: Array,
    view: Array,
    disparity: Array,
    surface: Array,
    weights: Array,
    first: int,
    factor: int,
    settings: VoteSettings,
) -> None:
    """Add to the costs of a view what pixels of like color say, in place.

    Parameters
    ----------
    volume
        ``(D, H, W)``, normalized.
    view
        The image ``(H, W, C)``.
    disparity, surface, weights
        The first solution, wide planes through it, and how sure each pixel is.
    first
        The disparity of the first candidate.
    factor
        How many pixels of the image on a side one of these is; lengths are in pixels of the image.
    """
    places = vote_places(settings.vote_count, settings.vote_gap / factor, settings.vote_reach / factor)
    usual = max(backend.quantile(weights, 0.5), 1e-6)
    ballot = Ballot(places, settings.vote_contrast, settings.vote_weight, usual, HELD_AGAINST, FLOOR)
    backend.add_votes(volume, view, disparity - first, *measure_slopes(backend, surface), weights, ballot)


def reference_votes(
    view: NDArray[np.float32],
    disparity: NDArray[np.float32],
    slopes: tuple[NDArray[np.float32], NDArray[np.float32]],
    weights: NDArray[np.float32],
    ballot: Ballot,
    candidates: int,
) -> NDArray[np.float64]:
    """Return what the votes add to a volume, ``(D, H, W)``, straight from the definition."""
    height, width = disparity.shape
    costs, levels = np.empty((candidates, height, width)), np.arange(candidates)
    for i, j in np.ndindex(height, width):
        votes = np.zeros(candidates)
        for y, x in ballot.places:
            if 0 <= i + y < height and 0 <= j + x < width:
                there = i + y, j + x
                apart = np.mean((view[there].astype(np.float64) - view[i, j]) ** 2)
                level = float(disparity[there] - y * slopes[0][there] - x * slopes[1][there])
                level = min(max(level, 0.0), candidates - 1.0)
                hat = np.maximum(1 - np.abs(levels - level) / 2, 0) / 2
                votes += weights[there] * np.exp(-apart / (2 * ballot.contrast**2)) * hat
        share = (votes + ballot.held_against / candidates) / (votes.sum() + ballot.held_against)
        trust = ballot.weight / (1 + (weights[i, j] / ballot.usual) ** 2)
        costs[:, i, j] = -trust * np.log(share + ballot.floor)
    return costs
