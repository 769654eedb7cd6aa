"""The CPU backend: NumPy arrays, OpenCV's filters, Numba kernels."""

from __future__ import annotations

from typing import cast

import numpy as np
from array_api_compat import numpy as numpy_namespace
from numpy.typing import NDArray

from scotopic.arrays import Namespace
from scotopic.backends.cpu.evidence import CpuEvidence
from scotopic.backends.cpu.junctions import CpuJunctions
from scotopic.backends.cpu.matching import CpuMatching
from scotopic.backends.device import to_numpy


class CpuBackend(CpuJunctions, CpuMatching, CpuEvidence):
    """Implements :class:`~scotopic.backends.protocol.Backend`."""

    name = "cpu"
    xp = cast(Namespace[np.ndarray], numpy_namespace)

    def asarray(self, values: NDArray[np.generic]) -> np.ndarray:
        (array,) = to_numpy(values)
        return array

    def arange(self, count: int) -> np.ndarray:
        return np.arange(count)

    def contiguous(self, values: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(values)

    def synchronize(self) -> None:
        return
