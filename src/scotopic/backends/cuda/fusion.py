"""Fusion on a GPU: launches of ``fusion_kernels.py``."""

from collections.abc import Sequence

import numpy as np
import torch
import triton
from torch import Tensor

from scotopic.backends.cuda import fusion_kernels as kernels
from scotopic.backends.cuda.images import block_for
from scotopic.backends.device import to_tensor
from scotopic.backends.protocol import Compared, Floats, Projection

_BLOCK = 128  #: pixels that one warp compares


class CudaFusion:
    """Implements the fusion of :class:`~scotopic.backends.protocol.Backend`."""

    def splat(self, q: Tensor, place: Tensor) -> Tensor:
        return _splat(q.contiguous(), place.contiguous()).view(torch.float32)

    def look_back(
        self, images: Sequence[Tensor], counts: Sequence[Tensor], q: Tensor, looks: Tensor, hidden: float
    ) -> tuple[Tensor, Tensor]:
        q, looks, (height, width, channels) = q.contiguous(), looks.contiguous(), images[0].shape
        total, weight, block = torch.zeros_like(images[0]), torch.zeros_like(q), block_for(height * width)
        for image, count, look in zip(images, counts, looks, strict=True):
            kernels.look_back[(triton.cdiv(height * width, block),)](
                image.contiguous(), count.contiguous(), q, _splat(q, look), look, total, weight, height, width, hidden,
                CHANNELS=channels, BLOCK=block,
            )  # fmt: skip
        return total, weight

    def compare(self, views: Compared[Tensor], places: Sequence[Sequence[Projection]]) -> Floats:
        count, height, width, channels = views.image.shape
        numbers = np.array([[place.numbers() for place in each] for each in places], np.float32)
        block = block_for(height * width, _BLOCK)
        blocks = triton.cdiv(height * width, block)
        sums = torch.empty((len(places), count, 27, blocks), dtype=torch.float32, device=views.image.device)
        kernels.compare[(blocks, count, len(places))](
            views.image, views.jacobian, views.weight, views.q, views.other, to_tensor(numbers), sums, height, width,
            CHANNELS=channels, PADDED=triton.next_power_of_2(channels), BLOCK=block, num_warps=1,
        )  # fmt: skip
        found = sums.sum(dim=3, dtype=torch.float64).cpu().numpy()
        return np.asarray(found.reshape(len(places), count, 9, 3))

    def velocity_gains(
        self, means: Tensor, weights: Tensor, certainty: Tensor, steps: Tensor, most: float, margin: int
    ) -> Tensor:
        views, parts, channels, height, width = means.shape
        gains, block = means.new_empty((len(steps), views, height, width)), block_for(height * width)
        kernels.velocity_gains[(triton.cdiv(height * width, block), len(steps), views)](
            means.contiguous(), weights.contiguous(), certainty.contiguous(), steps.contiguous(), gains, height, width,
            parts, most, margin, CHANNELS=channels, PADDED=triton.next_power_of_2(channels), BLOCK=block,
        )  # fmt: skip
        return gains


def _splat(q: Tensor, place: Tensor) -> Tensor:
    """Return the bits of the nearest points' ``q``, int32."""
    height, width = q.shape
    front, block = torch.zeros((height, width), dtype=torch.int32, device=q.device), block_for(height * width)
    kernels.splat[(triton.cdiv(height * width, block),)](q, front, place, height, width, BLOCK=block)
    return front
