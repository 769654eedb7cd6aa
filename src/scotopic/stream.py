"""Many pairs of one size, one after the other: a camera, a video, a folder of frames."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np

from scotopic.device import is_on_gpu, resolve_device, to_numpy
from scotopic.errors import InputError
from scotopic.match import Image, follow
from scotopic.matching import Reason
from scotopic.result import Match
from scotopic.settings import make_settings
from scotopic.tensors import take_image
from scotopic.validation import check_pair, check_size, is_constant

Pair = tuple[Image, Image]


class Matcher:
    """Matches a stream of pairs of one size.

    What one pair needs is set up once and used again for each. While a pair is matched the next one is read and
    prepared; on a GPU, upload, work and download of neighboring pairs overlap, and the whole method is recorded once
    as a CUDA graph, so that its many small steps cost no launches.

    Parameters
    ----------
    preset
        As for :func:`scotopic.match`.
    shape
        Of every image: ``(height, width)``, gray, or ``(height, width, channels)``.
    device
        ``"auto"``, ``"cpu"`` or ``"cuda"``.
    **overrides
        As for :func:`scotopic.match`.

    Examples
    --------
    >>> import scotopic
    >>> scene = scotopic.render_scene(width=96, height=64)
    >>> frames = [scotopic.simulate_pair(scene.left, scene.right, 2, 2, seed=seed) for seed in range(3)]
    >>> matcher = scotopic.Matcher("fast", scene.left.shape, max_disparity=16)
    >>> [result.disparity.shape for result in matcher.run(frames)]
    [(64, 96), (64, 96), (64, 96)]
    """

    def __init__(self, preset: str, shape: tuple[int, ...], device: str = "auto", **overrides: Any) -> None:
        self.shape = _checked(shape)
        self.device = resolve_device(device)
        settings = make_settings(preset, **overrides)
        check_size(np.empty(self.shape, np.float32), settings.junctions.patch_size, "shape")
        self.settings = replace(settings, matching=settings.matching.for_width(self.shape[1]))
        self._engine: Any = None

    def run(self, pairs: Iterable[Pair]) -> Generator[Match, None, None]:
        """Yield the match of each pair, in order.

        Parameters
        ----------
        pairs
            Of arrays, paths or tensors, as :func:`scotopic.match` takes them. Read two pairs ahead.

        Raises
        ------
        InputError
            A pair cannot be used; the message says which. The pairs before it have been yielded.
        Exception
            Whatever ``pairs`` raises, after the pairs before it.
        """
        if self._engine is None:
            self._engine = self._new_engine()
        waiting: list[Any] = []
        failure: Exception | None = None
        with closing(self._prepared(pairs)) as prepared:
            while True:
                try:
                    images = next(prepared, None)
                except Exception as error:  # of the source: what came before it is still matched
                    failure = error
                    break
                if images is None:
                    break
                waiting.append(self._begin(images))
                if len(waiting) > 1:
                    yield self._end(*waiting.pop(0))
        while waiting:
            yield self._end(*waiting.pop(0))
        if failure is not None:
            raise failure

    def _new_engine(self) -> Any:
        if self.device == "cuda":
            from scotopic.replay import Replay

            return Replay(self.shape, self.settings)
        return _OnCpu(self.settings)

    def _prepared(self, pairs: Iterable[Pair]) -> Generator[list[Any], None, None]:
        """Yield checked images, each pair taken from the iterable while the one before it is matched."""
        source = enumerate(pairs)

        def next_pair() -> list[Any] | None:
            item = next(source, None)
            return None if item is None else self._take(*item)

        with ThreadPoolExecutor(1, "scotopic-pairs") as reader:
            coming = reader.submit(next_pair)
            while (images := coming.result()) is not None:
                coming = reader.submit(next_pair)
                yield images

    def _take(self, number: int, pair: Pair) -> list[Any]:
        try:
            left, right = pair
        except (TypeError, ValueError) as error:
            raise InputError(
                f"pair {number}: found {type(pair).__name__}, expected two images; give pairs (left, right)"
            ) from error
        try:
            images = [take_image(left, "left"), take_image(right, "right")]
            if self.device == "cpu":
                images = to_numpy(*images)
            check_pair(images[0], images[1], self.settings.junctions.patch_size)
        except InputError as error:
            raise InputError(f"pair {number}: {error}") from error
        if tuple(images[0].shape) != self.shape:
            raise InputError(
                f"pair {number}: found images of shape {tuple(images[0].shape)}, expected {self.shape} as this Matcher "
                "was made for; resize them, or make another Matcher"
            )
        return images

    def _begin(self, images: list[Any]) -> tuple[list[Any], Any]:
        """Start on a pair; return what :meth:`_end` needs. Nothing to match in a view of one color."""
        return images, None if any(is_constant(image) for image in images) else self._engine.begin(images)

    def _end(self, images: list[Any], ticket: Any) -> Match:
        if ticket is None:
            empty = Match.empty(images[0], images[1], self.settings, Reason.NO_STRUCTURE)
            return empty.to_device(self.device) if is_on_gpu(images[0]) else empty
        result: Match = self._engine.end(ticket)
        return replace(result, left_image=images[0], right_image=images[1])


class _OnCpu:
    """The CPU has nothing to overlap with but itself: a pair is matched when it is asked for."""

    def __init__(self, settings: Any) -> None:
        self._settings = settings

    def begin(self, images: list[Any]) -> list[Any]:
        return images

    def end(self, images: list[Any]) -> Match:
        return follow(images, self._settings, "cpu")


def _checked(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Return ``(height, width, channels)``."""
    sizes = tuple(shape) if isinstance(shape, Iterable) else ()
    full = (*sizes, 1) if len(sizes) == 2 else sizes
    whole = all(isinstance(length, int) and length > 0 for length in full)
    if len(full) != 3 or not whole or full[2] not in (1, 3):
        raise InputError(
            f"shape: found {shape!r}, expected (height, width) or (height, width, channels) with 1 or 3 channels; give "
            "the shape of one image"
        )
    return full
