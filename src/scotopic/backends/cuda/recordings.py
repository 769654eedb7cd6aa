"""Work recorded as CUDA graphs, to be replayed on other arrays of the same shapes without launching each kernel."""

import dataclasses
import gc
import threading
from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import contextmanager
from functools import lru_cache, wraps
from typing import Any, TypeVar

import torch
from torch import Tensor

from scotopic.backends.device import synchronize

T = TypeVar("T")

MOST = 8  #: pieces of work that a stream remembers; each that was recorded holds the memory that it needs
FUSED = 16  #: that a fused stream remembers: its match has 3, its tracker 6, and 2 more where things move
PIECES = 3  #: that one pair consists of: all that is remembered between pairs that are matched one by one
SMALL = 2**20  #: values of an image up to which work is recorded even outside of streams
LARGE = 2**26  #: values from which on launching takes no time beside the work, and recordings too much memory


_present = threading.local()  # what the recording that this thread makes needs
_one_at_a_time = threading.Lock()


def keep_tables(most: int) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Make a function that puts tables on the GPU keep the last ones; a recording keeps those that it needs."""

    def decorate(make: Callable[..., T]) -> Callable[..., T]:
        @lru_cache(maxsize=most)
        def made(*arguments: Hashable) -> T:
            tables = make(*arguments)
            synchronize()  # other threads may use them on streams of their own
            return tables

        @wraps(make)
        def get(*arguments: Hashable) -> T:
            tables = made(*arguments)
            if hasattr(_present, "tables"):
                _present.tables.append(tables)
            return tables

        return get

    return decorate


class Recordings:
    """What is done again and again, `most` pieces of work. Each is recorded when it is done for the second time."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._kept: dict[Hashable, _Recording | None] = {}
        self._given_up: set[Hashable] = set()

    def run(self, key: Hashable, work: Callable[..., T], arrays: Sequence[Tensor]) -> T:
        """Return ``work(*arrays)``; ``key`` stands for all else that it depends on."""
        if sum(array.numel() for array in arrays) > LARGE:
            return work(*arrays)
        key = key, tuple(array.shape for array in arrays)
        if key in self._given_up:
            return work(*arrays)
        if key not in self._kept:  # as usual the first time, which compiles kernels and makes tables
            while len(self._kept) >= self._most:  # the one that was not used for longest
                del self._kept[next(iter(self._kept))]
            self._kept[key] = None
            return work(*arrays)
        recording = self._kept.pop(key)
        if recording is None:
            try:
                recording = _Recording(work, arrays)
            except RuntimeError:  # whatever it is, no result depends on a recording
                self._given_up.add(key)
                return work(*arrays)
        self._kept[key] = recording
        found: T = recording.replay(arrays)
        return found


class _Recording:
    """One piece of work, with its own input and output."""

    def __init__(self, work: Callable[..., Any], arrays: Sequence[Tensor]) -> None:
        self._inputs, self._graph = [array.clone() for array in arrays], torch.cuda.CUDAGraph()
        self._tables = _present.tables = list[Any]()
        stream = torch.cuda.Stream()
        try:
            # Other threads may go on meanwhile, but not record.
            with (
                _one_at_a_time,
                _no_garbage_collection(),
                torch.cuda.graph(self._graph, stream=stream, capture_error_mode="thread_local"),
            ):
                self._result = work(*self._inputs)
        finally:
            del _present.tables

    def replay(self, arrays: Sequence[Tensor]) -> Any:
        for place, array in zip(self._inputs, arrays, strict=True):
            place.copy_(array)
        self._graph.replay()
        return _copied(self._result)  # the next replay writes over it


@contextmanager
def _no_garbage_collection() -> Generator[None, None, None]:
    """Keep Python from collecting garbage: to free an old recording's memory would spoil the one that is made."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _copied(value: Any) -> Any:
    """Return lists and dataclasses with copies of their tensors."""
    if isinstance(value, Tensor):
        return value.clone()
    if isinstance(value, list):
        return [_copied(each) for each in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        tensors = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
        return dataclasses.replace(value, **{k: _copied(v) for k, v in tensors.items() if isinstance(v, Tensor)})
    return value
