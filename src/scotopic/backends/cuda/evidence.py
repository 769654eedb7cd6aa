"""Evidence on a GPU: launches of ``evidence_kernels.py`` between torch's functions."""

import math
from collections.abc import Sequence

import numpy as np
import torch
import triton
from numpy.typing import NDArray
from torch import Tensor

from scotopic.backends.cuda import evidence_kernels as kernels
from scotopic.backends.cuda.images import CudaImages, block_for, blur_planes
from scotopic.backends.cuda.recordings import keep_tables
from scotopic.backends.gaussian import cascade_blurs
from scotopic.backends.protocol import Ballot, Features, Floats, PatchFilter
from scotopic.constants import BAND_CELLS
from scotopic.progress import Share
from scotopic.settings import PlaneSettings

_BLOCK = 128
_TILE = 32  #: pixels and candidates that are turned round at a time
_VOTED = 8  #: pixels that are voted on together
_PARTS = 4  #: in which a volume is blurred beside another
_ROWS = 64  #: members of groups that are filtered together: what a matrix unit takes
_FEW = 512  #: offsets of a patch that four warps find the nearest among


class CudaEvidence(CudaImages):
    """Implements the evidence of :class:`~scotopic.backends.protocol.Backend`."""

    def filter_similar_patches(self, image: Tensor, pilot: Tensor, variance: float, tables: PatchFilter) -> Tensor:
        size, stride, count, (height, width, channels) = tables.size, tables.stride, tables.count, image.shape
        scale = _choose_scale(variance)
        noisy, clear = ((each * scale).permute(2, 0, 1).contiguous() for each in (image, pilot))
        groups, (rows, columns), across = find_groups(clear, tables)
        part = min(64, size**2)
        together = max(_ROWS * part // (count * size**2), 1)
        forth, back, signs, window = _tables_on(tables, together, image.device)
        patches = image.new_empty((rows * columns * channels, size**2))
        quiet, out = image.new_empty(len(patches)), image.new_empty((height, width, channels))
        # Transforms along the group are not normalized, which the variance and the factor make up for.
        kernels.filter_groups[(triton.cdiv(rows * columns, together),)](
            groups, noisy, clear, forth, signs, patches, quiet, rows * columns, height, width, across,
            count * variance * scale**2, 1 / count, CHANNELS=channels, SIZE=size, COUNT=count, GROUPS=together,
            PART=part, num_stages=1,
        )  # fmt: skip
        kernels.restore_patches[(triton.cdiv(len(patches), _ROWS),)](
            patches, back, len(patches), AREA=size**2, ROWS=_ROWS, PART=part
        )
        block = block_for(image.numel())
        kernels.merge_patches[(triton.cdiv(image.numel(), block),)](
            patches, quiet, window, out, height, width, rows, columns, 1 / scale, CHANNELS=channels, SIZE=size,
            EVERY=stride, BLOCK=block,
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

    def census(self, gray: Tensor, radius: int, scale: float, falloff: float, steps: int) -> Tensor:
        height, width = gray.shape
        out = torch.empty(((2 * radius + 1) ** 2 - 1, height, width), dtype=torch.int8, device=gray.device)
        block = block_for(gray.numel())
        kernels.census[(triton.cdiv(gray.numel(), block),)](
            gray.contiguous(), out, height, width, radius, 1 / scale, 1 / falloff, float(steps), BLOCK=block
        )
        return out

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

    def add_votes(
        self,
        volume: Tensor,
        view: Tensor,
        disparity: Tensor,
        down: Tensor,
        along: Tensor,
        weights: Tensor,
        ballot: Ballot,
    ) -> None:
        candidates, height, width = volume.shape
        places = _places_on(ballot.places, volume.device)
        kernels.add_votes[(triton.cdiv(height * width, _VOTED),)](
            view.contiguous(), disparity.contiguous(), down.contiguous(), along.contiguous(), weights.contiguous(),
            places, volume, height, width, candidates, len(ballot.places), -0.5 / ballot.contrast**2, ballot.weight,
            1 / ballot.usual, ballot.held_against, ballot.floor, CHANNELS=view.shape[2], PIXELS=_VOTED,
            BLOCK=triton.next_power_of_2(candidates),
        )  # fmt: skip

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
    """Return the patches most similar to each patch of an image ``(C, H, W)``, itself first, ``(patches, count)``.

    They are places ``y * across + x``; the rows and columns of patches are returned, and ``across``. The image is taken
    to be so large, its edges repeated, that whole patches cover it.
    """
    size, stride, (channels, height, width) = tables.size, tables.stride, pilot.shape
    rows, columns = (-(-(length - size) // stride) + 1 for length in (height, width))
    bottom, right = ((places - 1) * stride + size for places in (rows, columns))
    offsets, cell = (2 * tables.reach + 1) ** 2, math.gcd(size, stride)
    step, more = stride // cell, size // cell  # from one patch to the next, and along a patch, in cells
    across = right // cell
    groups = torch.empty((rows, columns, tables.count), dtype=torch.int32, device=pilot.device)
    # Of a band of rows at a time: there are hundreds of differences to a cell.
    band = min(max((BAND_CELLS // (across * offsets) - more) // step + 1, 1), rows)
    apart = torch.empty(((band - 1) * step + more, offsets, across), dtype=torch.float32, device=pilot.device)
    block, together = block_for(across, 64), block_for(offsets, 8)
    for top in range(0, rows, band):
        found = groups[top : top + band]
        lines = (len(found) - 1) * step + more
        kernels.cell_differences[(triton.cdiv(across, block), lines, triton.cdiv(offsets, together))](
            pilot, apart, height, width, top * step, across, tables.reach, CHANNELS=channels, CELL=cell,
            OFFSETS=together, BLOCK=block,
        )  # fmt: skip
        patches = block_for(columns, 8)
        kernels.nearest_patches[(triton.cdiv(columns, patches), len(found))](
            apart, found, top, columns, across, bottom, right, tables.reach, SIZE=size, EVERY=stride, CELL=cell,
            COUNT=tables.count, PATCHES=patches, OFFSETS=triton.next_power_of_2(offsets),
            num_warps=4 if offsets <= _FEW else 8, num_stages=1,
        )  # fmt: skip
    return groups.view(-1, tables.count), (rows, columns), right - size + 1


def _choose_scale(variance: float) -> float:
    """Return a power of two that gives the noise a deviation near 1/8: two float16 hold it and what it lies on."""
    return 2.0 ** min(max(round(-0.5 * math.log2(max(variance, 1e-12))) - 3, -10), 10)


@keep_tables(8)
def _places_on(places: tuple[tuple[int, int], ...], device: torch.device) -> Tensor:
    return torch.as_tensor(np.array(places, np.int32), device=device)


@keep_tables(16)
def _tables_on(tables: PatchFilter, together: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the transform along a patch and back, both as two halves; along so many groups; and the window."""
    along_patch = tables.along_patch.astype(np.float32)
    signs = np.kron(np.eye(together), np.sign(tables.along_group)).astype(np.float16)
    arrays = _halves(along_patch.T), _halves(along_patch), signs, tables.window.astype(np.float32)
    forth, back, along_groups, window = (torch.as_tensor(each, device=device) for each in arrays)
    return forth, back, along_groups, window


def _halves(values: NDArray[np.float32]) -> NDArray[np.float16]:
    """Return two matrices of float16 whose sum is a float32 one, but for its last two bits."""
    values = np.ascontiguousarray(values)
    high = values.astype(np.float16)
    return np.stack([high, (values - high).astype(np.float16)])
