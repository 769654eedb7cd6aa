"""The CPU backend: NumPy arrays, OpenCV's filters, Numba kernels."""

from collections.abc import Callable, Hashable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from scotopic.backends.cpu.compiling import optimize_helpers_once
from scotopic.backends.cpu.evidence import CpuEvidence
from scotopic.backends.cpu.fusion import CpuFusion
from scotopic.backends.cpu.junctions import CpuJunctions
from scotopic.backends.cpu.matching import CpuMatching
from scotopic.backends.device import to_numpy

T = TypeVar("T")

optimize_helpers_once()


class CpuBackend(CpuJunctions, CpuMatching, CpuEvidence, CpuFusion):
    """Implements :class:`~scotopic.backends.protocol.Backend`."""

    name = "cpu"

    def asarray(self, values: NDArray[np.generic]) -> np.ndarray:
        (array,) = to_numpy(values)
        return array

    def arange(self, count: int) -> np.ndarray:
        return np.arange(count)

    def contiguous(self, values: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(values)

    def synchronize(self) -> None:
        return

    def replayed(self, key: Hashable, work: Callable[..., T], *arrays: np.ndarray) -> T:
        return work(*arrays)
