"""Image operations on a GPU: launches of ``image_kernels.py``, and torch's functions."""

import numpy as np
import torch
import triton
from torch import Tensor

from scotopic.backends.cuda import image_kernels as kernels
from scotopic.backends.cuda.recordings import keep_tables
from scotopic.backends.device import interpreted
from scotopic.backends.gaussian import gaussian_kernel
from scotopic.backends.protocol import Floats

_BLOCK = 256
_INTERPRETED = interpreted()  # as Triton does, once, when the kernels are imported


def block_for(length: int, block: int = _BLOCK) -> int:
    """Return how many elements one program takes. Interpreted, steps of any size cost the same: as many as may be."""
    return min(triton.next_power_of_2(length), 2**15) if _INTERPRETED else block


class CudaImages:
    """Implements the image operations of :class:`~scotopic.backends.protocol.Backend`."""

    def blur(self, image: Tensor, sigma: float) -> Tensor:
        image = image.contiguous()
        return blur_axis(blur_axis(image, 0, sigma), 1, sigma)

    def blur_views(self, views: Tensor, sigma: float) -> Tensor:
        return blur_axis(blur_axis(views.contiguous(), 1, sigma), 2, sigma)

    def halve(self, image: Tensor) -> Tensor:
        # Beyond an odd edge there is nothing, and the mean of what there is is that of the edge repeated.
        planes = image[None, None] if image.ndim == 2 else image.movedim(-1, 0)[None]
        small = torch.nn.functional.avg_pool2d(planes, 2, ceil_mode=True, count_include_pad=False)[0]
        return small[0] if image.ndim == 2 else small.movedim(0, -1).contiguous()

    def resize_linear(self, values: Tensor, factor: int) -> Tensor:
        larger = torch.nn.functional.interpolate(
            values[None, None], scale_factor=factor, mode="bilinear", align_corners=False
        )
        return larger[0, 0]

    def window_range(self, values: Tensor, reach: int) -> tuple[Tensor, Tensor]:
        either = torch.stack([-values, values])[None]
        for window, margin in (((2 * reach + 1, 1), (reach, 0)), ((1, 2 * reach + 1), (0, reach))):
            either = torch.nn.functional.max_pool2d(either, window, 1, margin)
        return -either[0, 0], either[0, 1]

    def quantile(self, values: Tensor, q: float) -> float:
        # As NumPy defines it, whatever the size: torch's own stops at 16 million values.
        ordered = values.flatten().sort().values
        place = q * (len(ordered) - 1)
        low = min(int(place), max(len(ordered) - 2, 0))
        below, above = ordered[low : low + 2].tolist() if len(ordered) > 1 else 2 * ordered.tolist()
        return float(below + (above - below) * (place - low))

    def second_moments(self, views: Tensor) -> Floats:
        channels = views.shape[-1]
        count = views.numel() // channels
        block = block_for(count, 1024)
        parts = torch.empty((triton.cdiv(count, block), 6), dtype=torch.float64, device=views.device)
        kernels.sum_products[(len(parts),)](views.contiguous(), parts, count, CHANNELS=channels, BLOCK=block)
        sums = parts.cpu().numpy().sum(axis=0) / count
        rows, columns = np.triu_indices(3)
        moments = np.zeros((3, 3))
        moments[rows, columns] = moments[columns, rows] = sums
        return moments[:channels, :channels]

    def mix_channels(self, image: Tensor, matrix: Floats) -> Tensor:
        rows, columns = matrix.shape
        weights = np.zeros((3, 3))
        weights[:rows, :columns] = matrix
        image, out = image.contiguous(), image.new_empty((*image.shape[:-1], columns))
        count = image.numel() // rows
        block = block_for(count)
        kernels.mix_channels[(triton.cdiv(count, block),)](
            image, out, count, *map(float, weights.ravel()), ROWS=rows, COLUMNS=columns, BLOCK=block
        )
        return out

    def nearest_marked(self, marks: Tensor) -> tuple[Tensor, Tensor]:
        width = marks.shape[1]
        columns = torch.arange(width, device=marks.device)
        before = torch.where(marks, columns, -1).cummax(dim=1).values
        after = torch.where(marks, columns, width).flip(1).cummin(dim=1).values.flip(1)
        return before, after

    def inner_products(self, one: Tensor, other: Tensor) -> Tensor:
        return one.double() @ other.double().T


def blur_axis(values: Tensor, axis: int, sigma: float, out: Tensor | None = None) -> Tensor:
    """Return a contiguous array blurred along one of its axes, in ``out`` if that is given, another array."""
    weights, reach = _weights(sigma, values.device)
    length, inner, count = values.shape[axis], values.shape[axis + 1 :].numel(), values.numel()
    out, block = torch.empty_like(values) if out is None else out, block_for(count)
    kernels.blur_along[(triton.cdiv(count, block),)](
        values, out, weights, count, length, inner, reach, MIRRORED_OFTEN=reach >= length, BLOCK=block
    )
    return out


def blur_planes(planes: Tensor, sigma: float) -> None:
    """Blur maps ``(D, H, W)``, contiguous, in place."""
    blur_axis(blur_axis(planes, 1, sigma), 2, sigma, out=planes)


@keep_tables(64)
def _weights(sigma: float, device: torch.device) -> tuple[Tensor, int]:
    """Return the weights of a blur on the device, and how far they reach."""
    kernel = gaussian_kernel(sigma)
    return torch.as_tensor(kernel.astype(np.float32), device=device), kernel.size // 2
