"""Progress and timings of the stages of a run."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

Progress = Callable[[str, float], None]  #: called with the name of a stage and the share of it that is done
Share = Callable[[float], None]  #: the same for work that does not know which stage it belongs to


class Stage(NamedTuple):
    """A stage of a pipeline: its name in progress and timings, and what it does."""

    name: str
    summary: str
    weight: float = 1.0  #: about how long it takes on a CPU, relative to the other stages of its pipeline


def silent(stage: str, share: float) -> None:
    """Ignore progress; the default :data:`Progress`."""


def unheard(share: float) -> None:
    """Ignore progress; the default :data:`Share`."""


class Stopwatch:
    """Reports the progress of the stages of a run and measures their time.

    Parameters
    ----------
    progress
        Called when a stage starts, while it runs, and when it ends.
    settle
        Called before the end of a stage is timed. Waits until the work that the stage launched (on a GPU) is done.
    """

    def __init__(self, progress: Progress = silent, settle: Callable[[], None] | None = None) -> None:
        self._progress, self._settle = progress, settle
        self.timings: dict[str, float] = {}

    @contextmanager
    def stage(self, stage: Stage) -> Iterator[Share]:
        """Time one stage; yields a callable that takes the share of it that is done."""
        name = stage.name
        self._progress(name, 0.0)
        start = time.perf_counter()
        yield lambda share: self._progress(name, min(share, 1.0))
        if self._settle is not None:
            self._settle()
        self.timings[name] = time.perf_counter() - start
        self._progress(name, 1.0)
