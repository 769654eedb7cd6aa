"""The fit of junctions on the CPU: calls of ``junction_kernels.py``."""

from collections.abc import Iterator
from typing import cast

import numpy as np
from array_api_compat import numpy as numpy_namespace

from scotopic import constants
from scotopic.arrays import Namespace
from scotopic.backends.cpu import junction_kernels as kernels
from scotopic.patch_grid import patch_axis, patches_over, search_offsets
from scotopic.settings import JunctionSettings


def _shape() -> kernels.Shape:
    return kernels.junction_shape(constants.ETA, constants.DELTA, constants.LIFT, constants.COLOR_FLOOR)


def _adam() -> np.ndarray:
    return np.array([*constants.ADAM_BETAS, *constants.ADAM_GAINS, constants.ADAM_EPSILON])


class CpuFit:
    """Implements :class:`~scotopic.backends.protocol.JunctionFit`."""

    def __init__(self, planes: np.ndarray, settings: JunctionSettings) -> None:
        self.planes, self.settings = np.ascontiguousarray(planes), settings
        self.size, self.stride = settings.patch_size // settings.binning, settings.stride // settings.binning
        views, _, height, width = planes.shape
        rows, columns = ((length - self.size) // self.stride + 1 for length in (height, width))
        self.parameters = np.zeros((views, rows, columns, 5))
        self.boundary_map, self.color_map = np.zeros((views, height, width), np.float32), np.zeros_like(self.planes)
        self.adam_first, self.adam_second, self.gradients = (np.zeros_like(self.parameters) for _ in range(3))
        self.moving = np.ones((views, rows, columns), np.uint8)
        self._next_maps = np.empty_like(self.boundary_map), np.empty_like(self.color_map)
        self._axis = patch_axis(settings.patch_size, settings.binning).astype(np.float32)
        self._rates = np.array([settings.angle_rate] * 3 + [settings.vertex_rate] * 2)

    def search(self, boundary_weight: float, color_weight: float, *, only_moving: bool = False) -> bool:
        if not only_moving:
            self.moving[:] = 1
        for view, moving in enumerate(self.moving):
            active = np.flatnonzero(moving)
            moved = kernels.search_step(
                self.parameters[view], active, self.planes[view], self.boundary_map[view], self.color_map[view],
                self._axis, self.stride, float(boundary_weight), float(color_weight), *search_offsets(self.settings),
                _shape(),
            )  # fmt: skip
            moving.reshape(-1)[active] = moved
        return bool(self.moving.any())

    def rebuild(self, adam_count: int, boundary_weight: float, color_weight: float) -> None:
        boundaries, colors = self._next_maps
        for view in range(len(self.planes)):
            kernels.sweep(
                self.parameters[view], self.adam_first[view], self.adam_second[view], adam_count, self._rates,
                self.planes[view], self.boundary_map[view], self.color_map[view], self._axis, self.stride,
                float(boundary_weight), float(color_weight), boundaries[view], colors[view], self.gradients[view],
                _shape(), _adam(),
            )  # fmt: skip
        self._next_maps = self.boundary_map, self.color_map
        self.boundary_map, self.color_map = boundaries, colors


class CpuJunctions:
    """Implements the junctions of :class:`~scotopic.backends.protocol.Backend`."""

    xp = cast(Namespace[np.ndarray], numpy_namespace)

    def new_fit(self, planes: np.ndarray, settings: JunctionSettings) -> CpuFit:
        return CpuFit(planes, settings)

    def draw_maps(
        self,
        planes: np.ndarray,
        parameters: np.ndarray,
        color_map: np.ndarray,
        color_weight: float,
        settings: JunctionSettings,
    ) -> tuple[np.ndarray, np.ndarray]:
        axis = patch_axis(settings.patch_size).astype(np.float32)
        boundaries, colors = np.empty((planes.shape[0], *planes.shape[2:]), np.float32), np.empty_like(planes)
        unused = np.zeros((1, 1, 5))
        for view in range(len(planes)):
            kernels.sweep(
                parameters[view], unused, unused, 0, np.zeros(5), planes[view], boundaries[view], color_map[view], axis,
                settings.stride, 0.0, float(color_weight), boundaries[view], colors[view], unused, _shape(), _adam(),
            )  # fmt: skip
        return boundaries, colors

    def draw_plain_maps(self, planes: np.ndarray, parameters: np.ndarray, settings: JunctionSettings) -> np.ndarray:
        maps = np.empty_like(planes)
        for view, view_planes in enumerate(planes):
            total = np.zeros(view_planes.shape)
            for top, patches in paint_rows(view_planes, parameters[view], settings):
                kernels.add_row(patches, settings.patch_size, settings.stride, top, total)
            for axis in (1, 2):
                first, last = patches_over(np.arange(total.shape[axis]), parameters.shape[axis], settings, self.xp)
                total /= (last + 1 - first)[:, None] if axis == 1 else last + 1 - first
            maps[view] = total
        return maps


def paint_rows(
    planes: np.ndarray, parameters: np.ndarray, settings: JunctionSettings
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield for each row of patches of one view its top line and its plain reconstructions, ``(columns, C, R * R)``.

    The array is overwritten for each row.
    """
    axis = patch_axis(settings.patch_size)
    patches = np.empty((parameters.shape[1], planes.shape[0], settings.patch_size**2), np.float32)
    for row in range(parameters.shape[0]):
        top = row * settings.stride
        kernels.paint_row(parameters[row], planes, axis, settings.stride, top, patches, _shape())
        yield top, patches
