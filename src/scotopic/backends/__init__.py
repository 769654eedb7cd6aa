"""Where the work runs: one :class:`~scotopic.backends.protocol.Backend` per device."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING

from scotopic.backends.device import import_kernels

if TYPE_CHECKING:
    from scotopic.backends.cpu import CpuBackend
    from scotopic.backends.cuda import CudaBackend


@lru_cache(maxsize=1)
def cpu_backend() -> CpuBackend:
    """Return the backend for NumPy arrays; Numba is imported on first use."""
    backend: CpuBackend = import_kernels("scotopic.backends.cpu").CpuBackend()
    return backend


@lru_cache(maxsize=1)
def cuda_backend() -> CudaBackend:
    """Return the backend for torch tensors on the GPU; torch and Triton are imported on first use."""
    # Products and sums fused, whatever the default of this Triton; read when the first kernel is compiled.
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
    from scotopic.backends.cuda import CudaBackend

    return CudaBackend()
