"""How long work tells where it is, and how long it took."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

Progress = Callable[[str, float], None]  #: takes a stage's name and the share of it that is done
Share = Callable[[float], None]  #: the same for work that does not know what stage it is


class Stage(NamedTuple):
    """A stage of a pipeline: its name in progress and timings, and what it does."""

    name: str
    summary: str


def silent(stage: str, share: float) -> None:
    """Report to nobody."""


def unheard(share: float) -> None:
    """Report to nobody."""


class Stopwatch:
    """Reports and times the stages of a run.

    Parameters
    ----------
    progress
        Told of the beginning, the course and the end of each stage.
    settle
        Called before a stage's end is timed: returns when what the stage began is done.
    """

    def __init__(self, progress: Progress = silent, settle: Callable[[], None] | None = None) -> None:
        self._progress, self._settle = progress, settle
        self.timings: dict[str, float] = {}

    @contextmanager
    def stage(self, stage: Stage) -> Iterator[Share]:
        """Time a stage; yields a callable that takes the share done."""
        name = stage.name
        self._progress(name, 0.0)
        start = time.perf_counter()
        yield lambda share: self._progress(name, min(share, 1.0))
        if self._settle is not None:
            self._settle()
        self.timings[name] = time.perf_counter() - start
        self._progress(name, 1.0)
