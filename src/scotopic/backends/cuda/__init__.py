"""The GPU backend: torch tensors and Triton kernels."""

from typing import cast

import numpy as np
import torch
from array_api_compat import torch as torch_namespace
from numpy.typing import NDArray
from torch import Tensor

from scotopic.arrays import Namespace
from scotopic.backends.cuda.evidence import CudaEvidence
from scotopic.backends.cuda.junctions import CudaJunctions
from scotopic.backends.cuda.matching import CudaMatching
from scotopic.backends.device import synchronize, to_tensor, torch_device


class CudaBackend(CudaJunctions, CudaMatching, CudaEvidence):
    """Implements :class:`~scotopic.backends.protocol.Backend`."""

    name = "cuda"
    xp = cast(Namespace[Tensor], torch_namespace)

    def asarray(self, values: Tensor | NDArray[np.generic]) -> Tensor:
        return to_tensor(values)

    def arange(self, count: int) -> Tensor:
        return torch.arange(count, device=torch_device())

    def contiguous(self, values: Tensor) -> Tensor:
        return values.contiguous()

    def synchronize(self) -> None:
        synchronize()
