"""Fusion on a GPU: launches of ``fusion_kernels.py``."""

from collections.abc import Sequence

import numpy as np
import torch
import triton
from torch import Tensor

from scotopic.backends.cuda import fusion_kernels as kernels
from scotopic.backends.cuda.images import block_for
from scotopic.backends.protocol import Compared, Floats, Projection


class CudaFusion:
    """Implements the fusion of :class:`~scotopic.backends.protocol.Backend`."""

    def splat(self, q: Tensor, projection: Projection) -> Tensor:
        return _splat(q.contiguous(), projection).view(torch.float32)

    def look_back(self, image: Tensor, q: Tensor, projection: Projection, hidden: float) -> tuple[Tensor, Tensor]:
        image, q, (height, width, channels) = image.contiguous(), q.contiguous(), image.shape
        front, block = _splat(q, projection), block_for(height * width)
        seen, is_seen = torch.empty_like(image), torch.empty((height, width), dtype=torch.bool, device=image.device)
        kernels.look_back[(triton.cdiv(height * width, block),)](
            image, q, front, seen, is_seen.view(torch.int8), height, width, hidden, *projection.numbers(),
            CHANNELS=channels, BLOCK=block,
        )  # fmt: skip
        return seen, is_seen

    def compare(self, views: Sequence[Compared[Tensor]]) -> list[Floats]:
        found = []
        for view in views:
            height, width, channels = view.image.shape
            block = block_for(height * width)
            blocks = triton.cdiv(height * width, block)
            sums = torch.empty((channels, 27, blocks), dtype=torch.float32, device=view.image.device)
            kernels.compare[(blocks,)](
                view.image.contiguous(), view.jacobian.contiguous(), view.weight.contiguous(), view.q.contiguous(),
                view.other.contiguous(), sums, height, width, blocks, *view.projection.numbers(), CHANNELS=channels,
                BLOCK=block,
            )  # fmt: skip
            found.append(sums.sum(dim=(0, 2), dtype=torch.float64))
        both = np.asarray(torch.stack(found).cpu().numpy(), np.float64)
        return [each.reshape(9, 3) for each in both]


def _splat(q: Tensor, projection: Projection) -> Tensor:
    """Return the bits of the nearest points' ``q``, int32."""
    height, width = q.shape
    front, block = torch.zeros((height, width), dtype=torch.int32, device=q.device), block_for(height * width)
    kernels.splat[(triton.cdiv(height * width, block),)](q, front, height, width, *projection.numbers(), BLOCK=block)
    return front
