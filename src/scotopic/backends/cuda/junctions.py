"""The fit of junctions on a GPU: launches of ``junction_kernels.py``."""

import numpy as np
import torch
import triton
from torch import Tensor

from scotopic.backends.cuda import junction_kernels as kernels
from scotopic.backends.cuda.recordings import keep_tables
from scotopic.backends.device import interpreted
from scotopic.constants import ADAM_BETAS
from scotopic.patch_grid import patch_axis, search_offsets
from scotopic.settings import JunctionSettings

_INTERPRETED = interpreted()
# Pixels per tile and warps per program, found by trying (docs/performance.md).
SEARCH = {"BLOCK": 4, "num_warps": 1}
DESCRIBE = {"BLOCK": 64, "num_warps": 1}
MAPS = {"BLOCK": 8, "num_warps": 2}


class CudaFit:
    """Implements :class:`~scotopic.backends.protocol.JunctionFit`."""

    def __init__(self, planes: Tensor, settings: JunctionSettings) -> None:
        self.planes, self.settings = planes.contiguous(), settings
        self.size, self.stride = settings.patch_size // settings.binning, settings.stride // settings.binning
        views, channels, height, width = planes.shape
        rows, columns = ((length - self.size) // self.stride + 1 for length in (height, width))
        self.parameters = torch.zeros((views, rows, columns, 5), dtype=torch.float64, device=planes.device)
        self.boundary_map, self.color_map = torch.zeros_like(self.planes[:, 0]), torch.zeros_like(self.planes)
        self.adam_first, self.adam_second, self.gradients = (torch.zeros_like(self.parameters) for _ in range(3))
        self.moving = torch.ones((views, rows, columns), dtype=torch.uint8, device=planes.device)
        self._drawings = torch.zeros(
            (views * rows * columns, kernels.drawing_length(channels)), dtype=torch.float32, device=planes.device
        )
        self._x, self._y, self._axis = _pixel_tables(settings.patch_size, settings.binning, "float32", planes.device)
        self._offsets, self._adam = _offset_table(settings, planes.device), _adam_table(settings, planes.device)

    def search(self, boundary_weight: float, color_weight: float, *, only_moving: bool = False) -> bool:
        # Whether any patch moves on is not asked, which would wait for the GPU: a patch at rest costs next to nothing.
        if not only_moving:
            self.moving.fill_(1)
        target = self.planes - 0.5 * (1 + color_weight)  # about centered, which keeps float32 sums accurate
        if color_weight:
            target.add_(self.color_map, alpha=color_weight)
        views, rows, columns, _ = self.parameters.shape
        kernels.search[(views * rows * columns,)](
            self.parameters, self.moving, target, self.boundary_map, self._axis, self._offsets, rows, columns,
            *self.planes.shape[2:], boundary_weight, color_weight, SIZE=self.size, STRIDE=self.stride,
            CHANNELS=self.planes.shape[1], CANDIDATES=self.settings.candidates, COUPLED=boundary_weight > 0,
            LANES=self._offsets.shape[1], **_tiles(SEARCH, self.size),
        )  # fmt: skip
        return True

    def rebuild(self, adam_count: int, boundary_weight: float, color_weight: float) -> None:
        self.describe(adam_count, boundary_weight, color_weight)
        # The drawings hold all that the maps need, so the old maps can be written over.
        self.draw()

    def describe(self, adam_count: int, boundary_weight: float, color_weight: float) -> None:
        """Make the drawings of all patches, and take the Adam step."""
        views, rows, columns, _ = self.parameters.shape
        kernels.describe[(views * rows * columns,)](
            self.parameters, self.adam_first, self.adam_second, self.gradients, self._drawings, self.planes,
            self.boundary_map, self.color_map, self._x, self._y, rows, columns, *self.planes.shape[2:],
            self._adam, adam_count, boundary_weight, color_weight, SIZE=self.size, STRIDE=self.stride,
            CHANNELS=self.planes.shape[1], ADAM=adam_count > 0,
            LEAN=color_weight > 0, REAL=kernels.FLOAT32, **_tiles(DESCRIBE, self.size**2),
        )  # fmt: skip

    def draw(self) -> None:
        """Draw the maps from the drawings."""
        maps = self.boundary_map, self.color_map
        _launch_maps(self._drawings, *maps, self._axis, self.parameters, self.size, self.stride)


class CudaJunctions:
    """Implements the junctions of :class:`~scotopic.backends.protocol.Backend`."""

    def new_fit(self, planes: Tensor, settings: JunctionSettings) -> CudaFit:
        return CudaFit(planes, settings)

    def draw_maps(
        self, planes: Tensor, parameters: Tensor, color_map: Tensor, color_weight: float, settings: JunctionSettings
    ) -> tuple[Tensor, Tensor]:
        drawings = _draw(planes, parameters, color_map, color_weight, settings, "float32")
        boundaries, colors = torch.zeros_like(planes[:, 0]), torch.empty_like(planes)
        axis = _pixel_tables(settings.patch_size, 1, "float32", planes.device)[2]
        _launch_maps(drawings, boundaries, colors, axis, parameters, settings.patch_size, settings.stride)
        return boundaries, colors

    def draw_plain_maps(self, planes: Tensor, parameters: Tensor, settings: JunctionSettings) -> Tensor:
        colors = torch.empty_like(planes)
        axis = _pixel_tables(settings.patch_size, 1, "float64", planes.device)[2]
        drawings = draw_plainly(planes, parameters, settings)
        _launch_maps(drawings, None, colors, axis, parameters, settings.patch_size, settings.stride)
        return colors


def draw_plainly(planes: Tensor, parameters: Tensor, settings: JunctionSettings) -> Tensor:
    """Return the drawings, in float64 and plain colors, of every patch: what the matching compares is made of them."""
    return _draw(planes, parameters, planes, 0.0, settings, "float64")


def paint_patches(
    drawings: Tensor, planes: Tensor, columns: int, first: int, settings: JunctionSettings, out: Tensor
) -> None:
    """Fill ``out``, ``(count, C, R * R, 2)``, with patches of one view from ``first`` on.

    Each pixel's reconstruction lies beside its raw value; ``planes`` is ``(C, H, W)`` in whole patches.
    """
    x, y, _ = _pixel_tables(settings.patch_size, 1, "float64", drawings.device)
    kernels.paint[(len(out),)](
        drawings, planes, out, x, y, first, columns, *planes.shape[1:], SIZE=settings.patch_size,
        STRIDE=settings.stride, CHANNELS=len(planes), REAL=kernels.FLOAT64, **_tiles(DESCRIBE, settings.patch_size**2),
    )  # fmt: skip


def _draw(
    planes: Tensor, parameters: Tensor, color_map: Tensor, color_weight: float, settings: JunctionSettings, real: str
) -> Tensor:
    views, rows, columns, _ = parameters.shape
    channels = planes.shape[1]
    drawings = torch.empty(
        (views * rows * columns, kernels.drawing_length(channels)), dtype=getattr(torch, real), device=planes.device
    )
    x, y, _ = _pixel_tables(settings.patch_size, 1, real, planes.device)
    unused = parameters
    kernels.describe[(views * rows * columns,)](
        parameters, unused, unused, unused, drawings, planes, planes, color_map, x, y, rows, columns,
        *planes.shape[2:], unused, 0, 0.0, color_weight, SIZE=settings.patch_size, STRIDE=settings.stride,
        CHANNELS=channels, ADAM=False, LEAN=color_weight > 0,
        REAL=kernels.FLOAT64 if real == "float64" else kernels.FLOAT32, **_tiles(DESCRIBE, settings.patch_size**2),
    )  # fmt: skip
    return drawings


def _launch_maps(
    drawings: Tensor, boundaries: Tensor | None, colors: Tensor, axis: Tensor, theta: Tensor, size: int, stride: int
) -> None:
    views, channels, height, width = colors.shape
    block = MAPS["BLOCK"]
    kernels.maps[(triton.cdiv(width, block), triton.cdiv(height, block), views)](
        drawings, colors if boundaries is None else boundaries, colors, axis, *theta.shape[1:3], height, width,
        SIZE=size, STRIDE=stride, CHANNELS=channels, WITH_BOUNDARY=boundaries is not None,
        REAL=kernels.FLOAT64 if drawings.dtype == torch.float64 else kernels.FLOAT32, **MAPS,
    )  # fmt: skip


def _tiles(config: dict[str, int], pixels: int) -> dict[str, int]:
    """Return a kernel's tile for so many pixels. Interpreted, a step of any size costs the same: one tile."""
    return {**config, "BLOCK": triton.next_power_of_2(pixels)} if _INTERPRETED else config


@keep_tables(16)
def _pixel_tables(patch_size: int, binning: int, real: str, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Return x and y of a patch's pixels, flat and padded, and the coordinates along one side."""
    axis = patch_axis(patch_size, binning).astype(real)
    x, y = np.tile(axis, len(axis)), np.repeat(axis, len(axis))
    # The last tile reads past the end, and drops what it finds there.
    padded = (np.pad(table, (0, triton.next_power_of_2(x.size))) for table in (x, y))
    on_device = [torch.as_tensor(table, device=device) for table in (*padded, axis)]
    return on_device[0], on_device[1], on_device[2]


@keep_tables(16)
def _offset_table(settings: JunctionSettings, device: torch.device) -> Tensor:
    """Return the offsets that angles and vertices are tried at, ``(2, LANES)`` float64, padded to a power of two."""
    angles, vertices = search_offsets(settings)
    lanes = triton.next_power_of_2(settings.candidates)
    table = np.zeros((2, lanes))
    table[0, : len(angles)], table[1, : len(vertices)] = angles, vertices
    return torch.as_tensor(table, device=device)


@keep_tables(16)
def _adam_table(settings: JunctionSettings, device: torch.device) -> Tensor:
    """Return Adam's rates and, for each step, the factors that unbias its moments, ``(1 + steps, 2)`` float64."""
    count = np.arange(1, max(settings.refine_steps, 1) + 1)
    factors = np.stack([1 / (1 - beta**count) for beta in ADAM_BETAS], axis=1)
    return torch.as_tensor(np.vstack([[settings.angle_rate, settings.vertex_rate], factors]), device=device)
