"""Evidence on a GPU: launches of ``evidence_kernels.py`` between torch's functions."""

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
import torch
import triton
from torch import Tensor

from scotopic.backends.cuda import evidence_kernels as kernels
from scotopic.backends.cuda.images import CudaImages, blur_planes
from scotopic.backends.gaussian import cascade_blurs
from scotopic.backends.protocol import Features, PatchFilter
from scotopic.constants import BAND_CELLS
from scotopic.progress import Share
from scotopic.settings import PlaneSettings

_BLOCK = 128


class CudaEvidence(CudaImages):
    """Implements the evidence of :class:`~scotopic.backends.protocol.Backend`."""

    def filter_similar_patches(self, image: Tensor, pilot: Tensor, variance: float, tables: PatchFilter) -> Tensor:
        size, stride, (height, width, channels) = tables.size, tables.stride, image.shape
        padding = (0, -(width - size) % stride, 0, -(height - size) % stride)
        noisy, clear = (
            torch.nn.functional.pad(each.movedim(-1, 0)[None], padding, mode="replicate")[0].contiguous()
            for each in (image, pilot)
        )
        rows, columns = ((length - size) // stride + 1 for length in noisy.shape[1:])
        groups = _find_groups(clear, rows, columns, tables)
        along_patch, along_group, window = _tables_on(tables, image.device)
        first = torch.empty((rows * columns, size**2), dtype=torch.float32, device=image.device)
        confidence = torch.empty((rows * columns, 1), dtype=torch.float32, device=image.device)
        out = torch.empty_like(noisy)
        for c in range(channels):  # one at a time: the frequencies of all patches are 64 times as large as a plane
            frequencies = (
                torch.nn.functional.unfold(each[None, None, c], size)[0].T @ along_patch.T for each in (noisy, clear)
            )
            kernels.filter_groups[(rows * columns,)](
                groups, *frequencies, along_group, first, confidence, variance, COUNT=tables.count, LENGTH=size**2
            )
            weight = confidence * window
            total, weight = (
                torch.nn.functional.fold(each.T[None], tuple(noisy.shape[1:]), size, stride=stride)[0, 0]
                for each in ((first @ along_patch) * weight, weight)
            )
            out[c] = total / weight
        return out[:, :height, :width].movedim(0, -1).contiguous()

    def build_volume(self, features: Sequence[Features[Tensor]], disparities: range, progress: Share) -> Tensor:
        _, height, width = features[0].left.shape
        volume = torch.zeros((len(disparities), height, width), dtype=torch.float32, device=features[0].left.device)
        blurs = cascade_blurs([each.window for each in features])
        for done, (each, sigma) in enumerate(zip(features, blurs, strict=True), 1):
            kernels.add_products[(triton.cdiv(width, _BLOCK), height, len(disparities))](
                each.left, each.right, volume, each.left.shape[0], height, width, disparities[0], BLOCK=_BLOCK
            )
            volume = blur_planes(volume, sigma)
            progress(done / len(features))
        return volume.contiguous()

    def census_volume(self, left: Tensor, right: Tensor, disparities: range, window: float, progress: Share) -> Tensor:
        features, height, width = left.shape
        volume = torch.empty((len(disparities), height, width), dtype=torch.float32, device=left.device)
        kernels.census_costs[(triton.cdiv(width, _BLOCK), height, len(disparities))](
            left.contiguous(), right.contiguous(), volume, features, height, width, disparities[0], BLOCK=_BLOCK
        )
        volume = blur_planes(volume, window).contiguous()
        progress(1.0)
        return volume

    def volume_spread(self, volume: Tensor) -> float:
        return float(volume.std(dim=0, correction=0).mean(dtype=torch.float64))

    def quantize_costs(self, volume: Tensor, step: float, max_cost: int, shear_from: int | None) -> Tensor:
        candidates, height, width = volume.shape
        out = torch.empty((height, width, candidates), dtype=torch.int16, device=volume.device)
        for rows in _bands(volume):
            band = volume[:, rows]
            if shear_from is not None:
                places = torch.arange(width, device=volume.device) + shear_from
                places = (places + torch.arange(candidates, device=volume.device)[:, None]).clamp(0, width - 1)
                band = band.gather(2, places[:, None].expand(band.shape))
            out[rows] = _in_steps(band, band.amin(dim=0), step, max_cost)
        return out

    def quantize_costs_along(self, volume: Tensor, step: float, max_cost: int, start: Tensor) -> Tensor:
        candidates, height, width = volume.shape
        out = torch.empty((height, width, candidates), dtype=torch.int16, device=volume.device)
        for rows in _bands(volume):
            band = volume[:, rows]
            index = start[rows].long() + torch.arange(candidates, device=volume.device)[:, None, None]
            along = band.gather(0, index.clamp(0, candidates - 1))
            along = torch.where((index < 0) | (index >= candidates), band.amax(dim=0), along)
            out[rows] = _in_steps(along, band.amin(dim=0), step, max_cost)
        return out

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


def _bands(volume: Tensor) -> Iterator[slice]:
    """Yield bands of rows: what is computed on the way to integers takes several times the memory of the volume."""
    candidates, height, width = volume.shape
    lines = max(BAND_CELLS // (candidates * width), 1)
    for top in range(0, height, lines):
        yield slice(top, min(top + lines, height))


def _in_steps(costs: Tensor, lowest: Tensor, step: float, max_cost: int) -> Tensor:
    """Return costs ``(D, H, W)`` above the lowest in steps, rounded, ``(H, W, D)`` int16."""
    above = (costs - lowest) * (1 / step)
    return (above + 0.5).floor().clamp_max(max_cost).to(torch.int16).permute(1, 2, 0)


def _find_groups(pilot: Tensor, rows: int, columns: int, tables: PatchFilter) -> Tensor:
    """Return the patches most similar to each patch, itself first: ``y (W - size + 1) + x``, ``(patches, count)``."""
    channels, height, width = pilot.shape
    side = 2 * tables.reach + 1
    distances = torch.empty((rows * columns, side * side), dtype=torch.float32, device=pilot.device)
    groups = torch.empty((rows * columns, tables.count), dtype=torch.int32, device=pilot.device)
    pixels = max(64, triton.next_power_of_2(tables.size))
    stretch = (pixels - tables.size) // tables.stride + 1
    kernels.patch_distances[(triton.cdiv(columns, stretch), rows, side)](
        pilot, distances, height, width, columns, channels, tables.reach, SIZE=tables.size, EVERY=tables.stride,
        SHIFTS=max(16, triton.next_power_of_2(side)), PIXELS=pixels,
        PATCHES=max(16, triton.next_power_of_2(stretch)), num_warps=4,
    )  # fmt: skip
    kernels.nearest_patches[(rows * columns,)](
        distances, groups, width, columns, tables.reach, SIZE=tables.size, EVERY=tables.stride, COUNT=tables.count,
        BLOCK=triton.next_power_of_2(side * side),
    )  # fmt: skip
    return groups


@lru_cache(maxsize=16)
def _tables_on(tables: PatchFilter, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Return the transforms along a patch and along a group, and the window, on the device."""
    along_patch, along_group, window = (
        torch.as_tensor(each.astype(np.float32), device=device)
        for each in (tables.along_patch, tables.along_group, tables.window)
    )
    return along_patch, along_group, window
