"""The kernels of a pipeline, compiled side by side while a process matches its first pair on a GPU.

Triton compiles a kernel when it is first launched: up to two seconds for each of thirty, one after another. But its
compiler lets other threads run. So threads match the same pair beside the first match, each with another stage left
out: they come to later kernels sooner, and what one has compiled the others find ready. Their results are dropped.
"""

import threading
from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from scotopic.backends.device import interpreted
from scotopic.settings import EvidenceMatchingSettings, Settings
from scotopic.stages.junctions.fit import Junctions

#: Of the rows that are matched beside the first pair. Larger images need no other kernels, and more memory.
MOST_PIXELS, FEWEST_ROWS = 2**15, 64

_seen: set[Hashable] = set()
_Fields = list[Junctions[Any]] | None
_Run = Callable[[list[Any], Settings, _Fields], object]


@contextmanager
def compiling_ahead(images: Sequence[Any], settings: Settings, run: _Run) -> Generator[None, None, None]:
    """Compile kernels in threads during the block, if it is the first of this process that needs them.

    ``run`` matches tensors with settings and, unless ``None``, with given junctions.
    """
    _, width, channels = images[0].shape
    key = type(settings), settings.junctions, channels
    if interpreted() or key in _seen:
        yield
        return
    _seen.add(key)
    rows = max(MOST_PIXELS // width, FEWEST_ROWS)
    small = [image[:rows] for image in images]
    fields = [_plain_field(image, settings) for image in small]
    runs: list[tuple[Settings, _Fields]] = [(_without_search(settings), None), (settings, fields)]
    if isinstance(settings, EvidenceMatchingSettings):
        runs.append((replace(settings, denoising=replace(settings.denoising, group_rounds=0)), fields))
    threads = [threading.Thread(target=_try, args=(run, small, *each), name="scotopic-compiler") for each in runs]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join()


def _try(run: _Run, images: list[Any], settings: Settings, fields: _Fields) -> None:
    with suppress(Exception):  # what is wrong, the match itself will say
        run(images, settings, fields)


def _without_search(settings: Settings) -> Settings:
    """Return settings whose fit begins with the coupled steps."""
    few = replace(settings.junctions, search_steps=0, refine_steps=settings.junctions.search_every)
    return replace(settings, junctions=few)


def _plain_field(image: Any, settings: Settings) -> Junctions[Any]:
    """Return a field of junctions that is fitted to nothing."""
    junctions = settings.junctions
    rows, columns = (-(-max(n - junctions.patch_size, 0) // junctions.stride) + 1 for n in image.shape[:2])
    parameters = image.new_zeros((rows, columns, 5)).double()
    return Junctions(parameters, 0 * image[..., 0], image, junctions)
