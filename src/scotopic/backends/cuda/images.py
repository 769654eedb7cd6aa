"""Image operations on a GPU.

A blur along an axis is a product with a banded matrix, into which the mirrored edge is folded. At these sizes that is
faster than the bookkeeping of a convolution, any sigma costs the same, and all disparities go at once.
"""

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from scotopic.backends.gaussian import gaussian_kernel
from scotopic.backends.protocol import Floats


class CudaImages:
    """Implements the image operations of :class:`~scotopic.backends.protocol.Backend`."""

    def blur(self, image: Tensor, sigma: float) -> Tensor:
        if image.ndim == 2:
            return blur_planes(image, sigma)
        return blur_planes(image.movedim(-1, 0), sigma).movedim(0, -1).contiguous()

    def resize_linear(self, values: Tensor, factor: int) -> Tensor:
        larger = torch.nn.functional.interpolate(
            values[None, None], scale_factor=factor, mode="bilinear", align_corners=False
        )
        return larger[0, 0]

    def quantile(self, values: Tensor, q: float) -> float:
        # As NumPy defines it, whatever the size: torch's own stops at 16 million values.
        ordered = values.flatten().sort().values
        place = q * (len(ordered) - 1)
        low = min(int(place), max(len(ordered) - 2, 0))
        below, above = float(ordered[low]), float(ordered[min(low + 1, len(ordered) - 1)])
        return below + (above - below) * (place - low)

    def second_moments(self, left: Tensor, right: Tensor) -> Floats:
        flat = (image.reshape(-1, image.shape[2]).double() for image in (left, right))
        total = torch.stack([(each.T @ each) / len(each) for each in flat]).mean(dim=0)
        return np.asarray(total.cpu().numpy(), np.float64)

    def mix_channels(self, image: Tensor, matrix: Floats) -> Tensor:
        return image @ torch.as_tensor(matrix.astype(np.float32), device=image.device)

    def inner_products(self, one: Tensor, other: Tensor) -> Floats:
        return np.asarray((one.double() @ other.double().T).cpu().numpy(), np.float64)

    def scatter_max(self, values: Tensor, places: Tensor, candidates: Tensor) -> Tensor:
        return values.scatter_reduce(0, places, candidates, "amax")


def blur_planes(planes: Tensor, sigma: float) -> Tensor:
    """Return maps ``(..., H, W)`` blurred."""
    height, width = planes.shape[-2:]
    down, across = (_blur_matrix(length, sigma, planes.device) for length in (height, width))
    return down @ planes @ across.T


@lru_cache(maxsize=64)
def _blur_matrix(length: int, sigma: float, device: torch.device) -> Tensor:
    """Return the matrix whose product with a column of ``length`` pixels blurs it, mirrored at the ends."""
    kernel = gaussian_kernel(sigma)
    reach, period = kernel.size // 2, max(2 * (length - 1), 1)
    matrix = np.zeros((length, length))
    rows = np.arange(length)
    for offset, weight in zip(range(-reach, reach + 1), kernel, strict=True):
        place = np.abs((rows + offset) % period)
        np.add.at(matrix, (rows, np.minimum(place, period - place) if length > 1 else 0 * rows), weight)
    return torch.as_tensor(matrix.astype(np.float32), device=device)
