"""The GPU backend: torch tensors and Triton kernels."""

import threading
from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager
from typing import TypeVar, cast

import numpy as np
import torch
from array_api_compat import torch as torch_namespace
from numpy.typing import NDArray
from torch import Tensor

from scotopic.arrays import Namespace
from scotopic.backends.cuda.evidence import CudaEvidence
from scotopic.backends.cuda.fusion import CudaFusion
from scotopic.backends.cuda.junctions import CudaJunctions
from scotopic.backends.cuda.matching import CudaMatching
from scotopic.backends.cuda.recordings import PIECES, SMALL, Recordings
from scotopic.backends.device import interpreted, synchronize, to_tensor, torch_device

T = TypeVar("T")


class CudaBackend(CudaJunctions, CudaMatching, CudaEvidence, CudaFusion):
    """Implements :class:`~scotopic.backends.protocol.Backend`."""

    name = "cuda"
    _local = threading.local()
    xp = cast(Namespace[Tensor], torch_namespace)

    def asarray(self, values: Tensor | NDArray[np.generic]) -> Tensor:
        return to_tensor(values)

    def arange(self, count: int) -> Tensor:
        return torch.arange(count, device=torch_device())

    def contiguous(self, values: Tensor) -> Tensor:
        return values.contiguous()

    def synchronize(self) -> None:
        synchronize()

    def replayed(self, key: Hashable, work: Callable[..., T], *arrays: Tensor) -> T:
        recordings: Recordings | None = getattr(self._local, "recordings", None)
        if recordings is None and not interpreted() and arrays[-1].numel() <= SMALL:
            if not hasattr(self._local, "own"):
                self._local.own = Recordings(PIECES)
            recordings = self._local.own
        return work(*arrays) if recordings is None else recordings.run(key, work, arrays)

    @contextmanager
    def recording(self, recordings: Recordings | None) -> Generator[None, None, None]:
        """Record and replay work in this block of this thread, unless ``recordings`` is ``None``."""
        self._local.recordings = recordings
        try:
            yield
        finally:
            self._local.recordings = None
