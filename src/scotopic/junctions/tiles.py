"""Cutting a patch grid into tiles, so that the working memory of a fit does not grow with the image."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


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
