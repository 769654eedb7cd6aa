"""How many bytes the tensors of a piece of work take at most, counted on any device; imports torch."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveTensors(TorchDispatchMode):
    """Counts the bytes of all tensors that are made while it is entered, until they are dropped.

    Attributes
    ----------
    peak
        The most bytes that were held at a time.
    """

    def __init__(self) -> None:
        super().__init__()
        self.peak = self._held = 0
        self._known: set[int] = set()

    def __torch_dispatch__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        made = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            if isinstance(tensor, torch.Tensor):
                self._add(tensor.untyped_storage())
        return made

    def _add(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key not in self._known:  # else a view of one that is
            self._known.add(key)
            self._held += size
            self.peak = max(self.peak, self._held)
            weakref.finalize(storage, self._drop, key, size)

    def _drop(self, key: int, size: int) -> None:
        self._known.discard(key)
        self._held -= size
