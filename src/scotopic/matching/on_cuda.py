"""The matching's steps on a GPU: torch tensors, and launches of the kernels in ``_cuda.py``.

The same functions as in ``on_cpu``, of the same arguments, on tensors.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
import triton
from torch import Tensor

from scotopic.device import torch_device
from scotopic.junctions import Junctions
from scotopic.junctions.on_cuda import paint_patches, plain_drawings, to_planes
from scotopic.matching import _cuda
from scotopic.matching.consistency import Consistency
from scotopic.matching.cost_volume import View, weights
from scotopic.matching.sgm import DIRECTIONS, path_starts
from scotopic.memory import PAINTED_BYTES
from scotopic.progress import Share, unheard
from scotopic.settings import JunctionSettings, MatchingSettings

COSTS = {"ACROSS": 4, "BLOCK": 128, "num_warps": 4}
_ELEMENTWISE = 1024


def cost_volume(
    view: View, other: View, settings: MatchingSettings, *, is_left: bool, progress: Share = unheard
) -> Tensor:
    """Return the raw costs of one view, ``(rows, columns, D)``; negative where too few pixels have a partner."""
    assert settings.max_disparity is not None
    first, candidates = settings.min_disparity, settings.max_disparity - settings.min_disparity
    fit, parameters = view.junctions.settings, view.junctions.parameters
    planes = to_planes([view.image], fit)
    drawings = plain_drawings(planes, parameters[None], fit)
    # Raw pixel and mean map beside each other, in words of 64 bits.
    there: list[Tensor] = [other.image, other.plain_map]
    seen = torch.stack([array.permute(2, 0, 1) for array in there], dim=-1).view(torch.int64)
    channels, height, width = seen.shape[:3]
    rows, columns, _ = parameters.shape
    volume = torch.empty((rows, columns, candidates), dtype=torch.float32, device=seen.device)
    patches = rows * columns
    chunk = min(patches, max(1, PAINTED_BYTES // (8 * channels * fit.patch_size**2)))
    painted = torch.empty((chunk, channels, fit.patch_size**2, 2), dtype=torch.float32, device=seen.device)
    for start in range(0, patches, chunk):
        count = min(chunk, patches - start)
        paint_patches(drawings, planes[0], columns, start, fit, painted[:count])
        _cuda.costs[(count, triton.cdiv(candidates, COSTS["BLOCK"]))](
            painted.view(torch.int64), seen, volume, start, columns, height, width, first, candidates,
            *weights(settings), SIZE=fit.patch_size, STRIDE=fit.stride, CHANNELS=channels, STEP=-1 if is_left else 1,
            **COSTS,
        )  # fmt: skip
        progress((start + count) / patches)
    return volume


def scale_volume(volume: Tensor, settings: MatchingSettings) -> Tensor:
    """Give invalid cells 1.5 x the largest cost, scale ``min..max`` to ``0..volume_range`` and floor."""
    n, block = volume.numel(), _ELEMENTWISE
    programs = triton.cdiv(n, block)
    lowest, highest = (torch.empty(programs, dtype=torch.float32, device=volume.device) for _ in range(2))
    invalid = torch.empty(programs, dtype=torch.int32, device=volume.device)
    _cuda.extremes[(programs,)](volume, lowest, highest, invalid, n, BLOCK=block)
    low, high = lowest.amin(), highest.amax()
    top = torch.where(invalid.amax() > 0, 1.5 * high, high)
    scaled = torch.empty(volume.shape, dtype=torch.int16, device=volume.device)
    _cuda.scale[(programs,)](volume, scaled, low, top, n, float(settings.volume_range), BLOCK=block)
    return scaled


def jump_penalties(junctions: Junctions, settings: MatchingSettings) -> Tensor:
    """Return ``P2`` of each patch: a jump in disparity is cheap where the patch holds a strong boundary."""
    rows, columns, _ = junctions.parameters.shape
    boundaries: Any = junctions.boundary_map
    penalties = torch.full((rows, columns), settings.p2, dtype=torch.int32, device=boundaries.device)
    if settings.adaptive_p2:
        size, stride = junctions.settings.patch_size, junctions.settings.stride
        _cuda.penalties_of[(rows * columns,)](
            boundaries, penalties, columns, *boundaries.shape, float(settings.p2), float(settings.p2_min),
            settings.p2_decay, SIZE=size, STRIDE=stride, BLOCK=256,
        )  # fmt: skip
    return penalties


def aggregate(volume: Tensor, penalties: Tensor, settings: MatchingSettings) -> Tensor:
    """Return the sum of the path costs over eight directions, ``(rows, columns, D)``."""
    rows, columns, candidates = volume.shape
    paths = _paths(rows, columns, volume.device)
    total = torch.zeros(volume.shape, dtype=torch.int32, device=volume.device)
    block = max(triton.next_power_of_2(candidates), 32)
    _cuda.follow_path[(len(paths),)](
        volume, penalties, paths, total, columns, candidates, settings.p1, BLOCK=block, num_warps=max(1, block // 256)
    )
    return total


@lru_cache(maxsize=16)
def _paths(rows: int, columns: int, device: torch.device) -> Tensor:
    """Return every path of every direction, the longest first, so that none of them starts late and ends last."""
    starts = [path for direction in DIRECTIONS for path in path_starts(rows, columns, *direction)]
    starts.sort(key=lambda path: -path[-1])
    return torch.tensor(starts, dtype=torch.int32, device=device)


def select(total: Tensor, settings: MatchingSettings) -> tuple[Tensor, Tensor]:
    """Return the disparity of each patch (the lowest sum, the first on a tie) and its margin."""
    rows, columns, candidates = total.shape
    disparity, margin = (torch.empty((rows, columns), dtype=torch.int32, device=total.device) for _ in range(2))
    block = max(triton.next_power_of_2(candidates), 32)
    _cuda.select[(rows * columns,)](
        total, disparity, margin, settings.min_disparity, candidates, BLOCK=block, num_warps=1
    )
    return disparity, margin


def spread_over_pixels(values: Tensor, shape: tuple[int, int], settings: JunctionSettings) -> Tensor:
    """Return at each pixel the mean value of the patches that contain it."""
    pixels = torch.empty(shape, dtype=torch.float32, device=torch_device())
    _cuda.spread[(triton.cdiv(shape[0] * shape[1], 256),)](
        values, pixels, *values.shape, *shape, SIZE=settings.patch_size, STRIDE=settings.stride, BLOCK=256
    )
    return pixels


def check_views(
    left: Tensor,
    right: Tensor,
    margin: Tensor,
    left_boundaries: Tensor,
    right_boundaries: Tensor,
    settings: MatchingSettings,
) -> Consistency:
    """Compare the disparity maps of the two views and decide which left pixels to keep."""
    disparity, confidence = torch.empty_like(left), torch.empty_like(left)
    reason = torch.empty(left.shape, dtype=torch.uint8, device=left.device)
    _cuda.check[(triton.cdiv(left.numel(), 256),)](
        left, right, margin, left_boundaries, right_boundaries, disparity, confidence, reason, left.numel(),
        left.shape[1], max(settings.p1, 1), settings.boundary_threshold, settings.left_right_threshold,
        settings.min_confidence, MASK_RIGHT=settings.mask_right, BLOCK=256,
    )  # fmt: skip
    return Consistency(disparity, reason, confidence)
