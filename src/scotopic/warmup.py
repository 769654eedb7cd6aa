"""Getting the kernels ready: loaded from Numba's cache, or compiled, once per machine and version, saying so.

Whether anything is compiled is not guessed: Numba broadcasts an event when it finds nothing in its cache and begins to.
"""

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np

from scotopic.api import match
from scotopic.backends.device import resolve_device
from scotopic.kernel_cache import guard_kernel_cache, kernels_of
from scotopic.progress import Progress, silent
from scotopic.settings import PRESETS, EvidenceMatchingSettings, JunctionMatchingSettings, Settings

LOADING = "loading kernels"  #: stage in which compiled kernels are read from the cache
COMPILING = "compiling kernels for this machine, once"  #: stage in which those that are not there are made


def warm_up(progress: Progress = silent, *settings: Settings) -> bool:
    """Make CPU kernels ready by matching a tiny pair.

    Parameters
    ----------
    progress
        Told of the stage :data:`LOADING` and, if the cache does not hold every kernel, of the stage :data:`COMPILING`.
    *settings
        What will be matched with, since each pipeline has kernels of its own. By default all kernels are made ready.

    Returns
    -------
    bool
        Whether anything had to be compiled.
    """
    from numba.core import event

    progress(LOADING, 0.0)
    guard_kernel_cache()
    ours, done, has_compiled = kernels_of(), 0, False

    class Listener(event.Listener):
        def on_start(self, _: event.Event) -> None:
            nonlocal has_compiled
            has_compiled = True
            progress(COMPILING, min(done / len(ours), 0.99))

        def on_end(self, end: event.Event) -> None:
            nonlocal done
            done += end.data["dispatcher"] in ours  # others are functions of Numba's that ours call
            progress(COMPILING, min(done / len(ours), 0.99))

    with event.install_listener("numba:compile", Listener()):
        _match_tiny_pairs(settings or PRESETS.values())
    if has_compiled:
        progress(COMPILING, 1.0)
    progress(LOADING, 1.0)
    return has_compiled


def warmed(progress: Progress, settings: Settings, device: str = "cpu") -> Progress:
    """Return a progress that warms up when the first stage begins, and passes everything on.

    By then all input has been checked, so that no error has to wait for a compiler; and the first stage's clock has not
    started, so that the timings hold no compilation.

    Parameters
    ----------
    progress
        Where to pass it on to.
    settings
        What will be matched with.
    device
        Where the work will run. On a GPU there is nothing to get ready: a kernel is compiled, within seconds, for the
        settings that it is first called with.
    """
    if resolve_device(device) == "cuda":
        return progress
    ready = False

    def report(stage: str, share: float) -> None:
        nonlocal ready
        if not ready:
            ready = True
            warm_up(progress, settings)
        progress(stage, share)

    return report


def cache_folders() -> list[str]:
    """Return the folders in which Numba keeps the compiled kernels."""
    return sorted({str(path) for dispatcher in kernels_of() if (path := dispatcher.stats.cache_path)})


def _match_tiny_pairs(settings: Iterable[Settings]) -> None:
    pipelines = {type(each) for each in settings}
    if JunctionMatchingSettings in pipelines:
        _match_tiny_pair("paper")
    if EvidenceMatchingSettings in pipelines:
        _match_tiny_pair("best", patch_size=16)


@cache  # once in a process: the page and its visitors come here for every match
def _match_tiny_pair(preset: str, **settings: Any) -> None:
    # Two by three patches of noise; refined, because that is the longest way through the kernels.
    left, right = np.random.default_rng(0).random((2, 48, 56, 1), np.float32)
    few: dict[str, Any] = {
        "device": "cpu",
        "check": False,
        "max_disparity": 4,
        "search_steps": 1,
        "refine_steps": 2,
        "search_every": 2,
    }
    match(left, right, preset=preset, **few, **settings)
