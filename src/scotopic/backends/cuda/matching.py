"""Patch costs and semi-global matching on a GPU: launches of ``matching_kernels.py``."""

import torch
import triton
from torch import Tensor

from scotopic.backends.cuda import matching_kernels as kernels
from scotopic.backends.cuda.images import block_for
from scotopic.backends.cuda.junctions import draw_plainly, paint_patches
from scotopic.backends.cuda.recordings import keep_tables
from scotopic.constants import DIRECTIONS, PAINTED_BYTES
from scotopic.progress import Share
from scotopic.settings import JunctionSettings

COSTS = {"ACROSS": 4, "BLOCK": 128, "num_warps": 4}


class CudaMatching:
    """Implements the matching of :class:`~scotopic.backends.protocol.Backend`."""

    def patch_costs(
        self,
        planes: Tensor,
        parameters: Tensor,
        other_image: Tensor,
        other_map: Tensor,
        settings: JunctionSettings,
        disparities: range,
        weights: tuple[float, float, float],
        *,
        is_left: bool,
        progress: Share,
    ) -> Tensor:
        drawings = draw_plainly(planes[None], parameters[None], settings)
        # Raw pixel and mean map beside each other, in words of 64 bits.
        there = [array.permute(2, 0, 1) for array in (other_image, other_map)]
        other = torch.stack(there, dim=-1).view(torch.int64)
        channels, height, width = other.shape[:3]
        rows, columns, _ = parameters.shape
        volume = torch.empty((rows, columns, len(disparities)), dtype=torch.float32, device=other.device)
        patches = rows * columns
        chunk = min(patches, max(1, PAINTED_BYTES // (8 * channels * settings.patch_size**2)))
        painted = torch.empty((chunk, channels, settings.patch_size**2, 2), dtype=torch.float32, device=other.device)
        for start in range(0, patches, chunk):
            count = min(chunk, patches - start)
            paint_patches(drawings, planes, columns, start, settings, painted[:count])
            kernels.costs[(count, triton.cdiv(len(disparities), COSTS["BLOCK"]))](
                painted.view(torch.int64), other, volume, start, columns, height, width, disparities[0],
                len(disparities), *weights, SIZE=settings.patch_size, STRIDE=settings.stride, CHANNELS=channels,
                STEP=-1 if is_left else 1, **COSTS,
            )  # fmt: skip
            progress((start + count) / patches)
        return volume

    def patch_maxima(self, values: Tensor, patches: tuple[int, int], settings: JunctionSettings) -> Tensor:
        # The last patches may reach beyond the map, which ceil_mode allows for.
        size, stride = settings.patch_size, settings.stride
        found = torch.nn.functional.max_pool2d(values[None, None], size, stride, ceil_mode=True)[0, 0]
        return found[: patches[0], : patches[1]]

    def aggregate(self, costs: Tensor, penalties: Tensor, p1: int) -> Tensor:
        rows, columns, candidates = costs.shape
        paths = _all_paths(rows, columns, costs.device)
        total = torch.zeros(costs.shape, dtype=torch.int32, device=costs.device)
        block = max(triton.next_power_of_2(candidates), 32)
        kernels.follow_path[(len(paths),)](
            costs, penalties, paths, total, columns, candidates, p1, BLOCK=block, num_warps=max(1, block // 256)
        )
        return total

    def select(self, totals: Tensor) -> tuple[Tensor, Tensor]:
        rows, columns, candidates = totals.shape
        index, margin = (torch.empty((rows, columns), dtype=torch.int32, device=totals.device) for _ in range(2))
        block = max(triton.next_power_of_2(candidates), 32)
        kernels.select[(rows * columns,)](totals, index, margin, candidates, BLOCK=block, num_warps=1)
        return index, margin

    def subpixel(self, totals: Tensor, best: Tensor, first: int) -> Tensor:
        rows, columns, candidates = totals.shape
        found = torch.empty((rows, columns), dtype=torch.float32, device=totals.device)
        block = block_for(rows * columns)
        kernels.subpixel[(triton.cdiv(rows * columns, block),)](
            totals, best, found, rows * columns, candidates, first, BLOCK=block
        )
        return found


@keep_tables(16)
def _all_paths(rows: int, columns: int, device: torch.device) -> Tensor:
    """Return every path of every direction, the longest first, so that none of them starts late and ends last."""
    starts = [path for direction in DIRECTIONS for path in path_starts(rows, columns, *direction)]
    starts.sort(key=lambda path: -path[-1])
    return torch.tensor(starts, dtype=torch.int32, device=device)


def path_starts(rows: int, columns: int, down: int, right: int) -> list[tuple[int, int, int, int, int]]:
    """Return the paths of one direction: first row and column, step down and right, and number of places.

    Paths begin on the sides that they come from.
    """
    first_row, first_column = (0 if down > 0 else rows - 1), (0 if right > 0 else columns - 1)
    starts = [(first_row, j) for j in range(columns)] if down else []
    starts += [(i, first_column) for i in range(rows) if right and not (down and i == first_row)]
    paths = []
    for i, j in starts:
        ahead_down = (rows - i if down > 0 else i + 1) if down else rows + columns
        ahead_right = (columns - j if right > 0 else j + 1) if right else rows + columns
        paths.append((i, j, down, right, min(ahead_down, ahead_right)))
    return paths
