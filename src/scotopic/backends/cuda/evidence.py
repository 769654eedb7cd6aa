"""Evidence on a GPU: launches of ``evidence_kernels.py`` between torch's functions."""

from collections.abc import Sequence

import numpy as np
import torch
import triton
from torch import Tensor

from scotopic.backends.cuda import evidence_kernels as kernels
from scotopic.backends.cuda.images import CudaImages, block_for, blur_planes
from scotopic.backends.cuda.recordings import keep_tables
from scotopic.backends.gaussian import cascade_blurs
from scotopic.backends.protocol import Features, Floats, PatchFilter
from scotopic.constants import BAND_CELLS
from scotopic.progress import Share
from scotopic.settings import PlaneSettings

_BLOCK = 128
_TILE = 32  #: pixels and candidates that are turned round at a time
_PARTS = 4  #: in which a volume is blurred beside another


class CudaEvidence(CudaImages):
    """Implements the evidence of :class:`~scotopic.backends.protocol.Backend`."""

    def filter_similar_patches(self, image: Tensor, pilot: Tensor, variance: float, tables: PatchFilter) -> Tensor:
        image, pilot = image.contiguous(), pilot.contiguous()
        size, stride, count, (height, width, channels) = tables.size, tables.stride, tables.count, image.shape
        groups, (rows, columns), across = find_groups(pilot, tables)
        along_patch, along_group, window = _tables_on(tables, image.device)
        patches = image.new_empty((rows * columns, channels, size**2))
        quiet, out = image.new_empty((rows * columns, channels)), torch.empty_like(image)
        kernels.filter_groups[(rows * columns,)](
            groups, image, pilot, along_patch, along_group, window, patches, quiet, height, width, across, variance,
            CHANNELS=channels, SIZE=size, COUNT=count, PART=min(64, size**2),
        )  # fmt: skip
        block = block_for(image.numel())
        kernels.merge_patches[(triton.cdiv(image.numel(), block),)](
            patches, quiet, window, out, height, width, rows, columns, CHANNELS=channels, SIZE=size, EVERY=stride,
            BLOCK=block,
        )  # fmt: skip
        return out

    def channel_features(
        self, left: Tensor, right: Tensor, units: Tensor | None, own: Floats, product: Floats
    ) -> tuple[Tensor, Tensor]:
        height, width, channels = left.shape
        here, there = (left.new_empty((2 + channels, height, width)) for _ in range(2))
        weights = np.zeros((2, 3))
        weights[0, :channels], weights[1, :channels] = own, product
        block = block_for(height * width)
        kernels.channel_features[(triton.cdiv(height * width, block),)](
            left.contiguous(), right.contiguous(), left if units is None else units.contiguous(), here, there,
            height * width, *map(float, weights.ravel()), CHANNELS=channels, HAS_UNITS=units is not None, BLOCK=block,
        )  # fmt: skip
        return here, there

    def build_volume(self, features: Sequence[Features[Tensor]], disparities: range, progress: Share) -> Tensor:
        _, height, width = features[0].left.shape
        volume = torch.zeros((len(disparities), height, width), dtype=torch.float32, device=features[0].left.device)
        block = block_for(height * width)
        blurs = cascade_blurs([each.window for each in features])
        for done, (each, sigma) in enumerate(zip(features, blurs, strict=True), 1):
            kernels.add_products[(triton.cdiv(height * width, block), len(disparities))](
                each.left, each.right, volume, each.left.shape[0], height, width, disparities[0], BLOCK=block
            )
            blur_planes(volume, sigma)
            progress(done / len(features))
        return volume

    def census_volume(self, left: Tensor, right: Tensor, disparities: range, window: float, progress: Share) -> Tensor:
        features, height, width = left.shape
        volume = torch.empty((len(disparities), height, width), dtype=torch.float32, device=left.device)
        block = block_for(height * width)
        kernels.census_costs[(triton.cdiv(height * width, block), len(disparities))](
            left.contiguous(), right.contiguous(), volume, features, height, width, disparities[0], BLOCK=block
        )
        blur_planes(volume, window)
        progress(1.0)
        return volume

    def color_volume(
        self, left: Tensor, right: Tensor, disparities: range, scale: float, window: float, progress: Share
    ) -> Tensor:
        height, width, channels = left.shape
        volume = torch.empty((len(disparities), height, width), dtype=torch.float32, device=left.device)
        block = block_for(height * width)
        kernels.color_costs[(triton.cdiv(height * width, block), len(disparities))](
            left.contiguous(), right.contiguous(), volume, height, width, disparities[0], scale**2, CHANNELS=channels,
            BLOCK=block,
        )  # fmt: skip
        for planes in volume.chunk(_PARTS):  # of each of which there is a copy meanwhile
            blur_planes(planes, window)
        progress(1.0)
        return volume

    def census(self, gray: Tensor, radius: int, scale: float, steps: int) -> Tensor:
        height, width = gray.shape
        out = torch.empty(((2 * radius + 1) ** 2 - 1, height, width), dtype=torch.int8, device=gray.device)
        block = block_for(gray.numel())
        kernels.census[(triton.cdiv(gray.numel(), block),)](
            gray.contiguous(), out, height, width, radius, 1 / scale, float(steps), BLOCK=block
        )
        return out

    def add_enlarged(
        self, volume: Tensor, disparities: range, coarse: Tensor, coarse_disparities: range, factor: int, weight: float
    ) -> None:
        candidates, height, width = volume.shape
        block = block_for(height * width)
        kernels.add_enlarged[(triton.cdiv(height * width, block), candidates)](
            volume, coarse.contiguous(), height, width, disparities[0], *coarse.shape[1:], len(coarse),
            coarse_disparities[0], factor, weight, BLOCK=block,
        )  # fmt: skip

    def weigh_cells(self, volume: Tensor, left: Tensor, right: Tensor, disparities: range) -> None:
        candidates, height, width = volume.shape
        block = block_for(height * width)
        kernels.weigh_cells[(triton.cdiv(height * width, block), candidates)](
            volume, left.contiguous(), right.contiguous(), height, width, disparities[0], BLOCK=block
        )

    def normalize_volume(self, volume: Tensor) -> None:
        spread = volume.std(dim=0, correction=0).mean(dtype=torch.float64)
        volume *= torch.where(spread > 0, 1 / spread, 1.0).float()  # stays on the GPU: nobody waits for it

    def quantize_costs(self, volume: Tensor, step: float, max_cost: int, shear_from: int | None) -> Tensor:
        return _quantize(volume, step, max_cost, volume, shear_from or 0, sheared=shear_from is not None)

    def quantize_costs_along(self, volume: Tensor, step: float, max_cost: int, start: Tensor) -> Tensor:
        return _quantize(volume, step, max_cost, start.contiguous(), 0, along=True)

    def fit_planes(
        self, disparity: Tensor, weights: Tensor, present: Tensor, planes: PlaneSettings, spacing: int
    ) -> Tensor:
        height, width = disparity.shape
        fitted = torch.empty_like(disparity)
        kernels.fit_planes[(triton.cdiv(height * width, _BLOCK),)](
            disparity.contiguous(), weights.contiguous(), present.contiguous(), fitted, height, width,
            -0.5 / planes.sigma**2, -0.5 / planes.tau**2, planes.ridge, REACH=2 * int(planes.sigma), STEP=spacing,
            BLOCK=_BLOCK,
        )  # fmt: skip
        return fitted


def _quantize(
    volume: Tensor, step: float, max_cost: int, start: Tensor, first: int, *, sheared: bool = False, along: bool = False
) -> Tensor:
    candidates, height, width = volume.shape
    out = torch.empty((height, width, candidates), dtype=torch.int16, device=volume.device)
    pixels = block_for(height * width, _TILE)
    kernels.quantize[(triton.cdiv(height * width, pixels),)](
        volume.contiguous(), start, out, height, width, candidates, first, 1 / step, max_cost, SHEARED=sheared,
        ALONG=along, PIXELS=pixels, BLOCK=_TILE,
    )  # fmt: skip
    return out


def find_groups(pilot: Tensor, tables: PatchFilter) -> tuple[Tensor, tuple[int, int], int]:
    """Return the patches most similar to each patch of an image, itself first, ``(patches, count)``.

    They are places ``y * across + x``; the rows and columns of patches are returned, and ``across``. The image is taken
    to be so large, its edges repeated, that whole patches cover it.
    """
    size, stride, (height, width, channels) = tables.size, tables.stride, pilot.shape
    rows, columns = (-(-(length - size) // stride) + 1 for length in (height, width))
    bottom, right = ((places - 1) * stride + size for places in (rows, columns))
    side = 2 * tables.reach + 1
    pixels, across = max(64, triton.next_power_of_2(size)), right - size + 1
    stretch = (pixels - size) // stride + 1
    groups = torch.empty((rows, columns, tables.count), dtype=torch.int32, device=pilot.device)
    # Of a band of rows at a time: there are hundreds of distances to a patch.
    band = min(max(BAND_CELLS // (columns * side**2), 1), rows)
    distances = torch.empty((band * columns, side**2), dtype=torch.float32, device=pilot.device)
    for top in range(0, rows, band):
        found = groups[top : top + band]
        kernels.patch_distances[(triton.cdiv(columns, stretch), len(found), side)](
            pilot, distances, height, width, bottom, right, top, columns, tables.reach, CHANNELS=channels, SIZE=size,
            EVERY=stride, SHIFTS=max(16, triton.next_power_of_2(side)), PIXELS=pixels,
            PATCHES=max(16, triton.next_power_of_2(stretch)),
        )  # fmt: skip
        kernels.nearest_patches[(len(found) * columns,)](
            distances, found, top, across, columns, tables.reach, EVERY=stride, COUNT=tables.count,
            BLOCK=triton.next_power_of_2(side**2), num_warps=1,
        )  # fmt: skip
    return groups.view(-1, tables.count), (rows, columns), across


@keep_tables(16)
def _tables_on(tables: PatchFilter, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Return the transforms along a patch and along a group, and the window, on the device."""
    along_patch, along_group, window = (
        torch.as_tensor(each.astype(np.float32), device=device)
        for each in (tables.along_patch, tables.along_group, tables.window)
    )
    return along_patch, along_group, window
