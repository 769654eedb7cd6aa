"""The fit of junctions on the CPU: calls of ``junction_kernels.py``."""

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
from array_api_compat import numpy as numpy_namespace

from scotopic import constants
from scotopic.arrays import Namespace
from scotopic.backends.cpu import junction_kernels as kernels
from scotopic.backends.cpu.threads import share_out
from scotopic.patch_grid import patch_axis, search_offsets
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
        active = np.flatnonzero(self.moving)
        moved = np.empty(active.size, np.bool_)
        share_out(
            kernels.search_step, active.size, active, self.parameters, self.planes, self.boundary_map, self.color_map,
            self._axis, self.stride, float(boundary_weight), float(color_weight), *search_offsets(self.settings),
            _shape(), moved,
        )  # fmt: skip
        self.moving.reshape(-1)[active] = moved
        return bool(moved.any())

    def rebuild(self, adam_count: int, boundary_weight: float, color_weight: float) -> None:
        _sweep(
            self.parameters, self.adam_first, self.adam_second, adam_count, self._rates, self.planes, self.boundary_map,
            self.color_map, self._axis, self.stride, float(boundary_weight), float(color_weight), *self._next_maps,
            self.gradients,
        )  # fmt: skip
        maps = self.boundary_map, self.color_map
        self.boundary_map, self.color_map = self._next_maps
        self._next_maps = maps


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
        unused = np.zeros((1, 1, 1, 5))
        _sweep(
            parameters, unused, unused, 0, np.zeros(5), planes, boundaries, color_map, axis, settings.stride, 0.0,
            float(color_weight), boundaries, colors, unused,
        )  # fmt: skip
        return boundaries, colors

    def draw_plain_maps(self, planes: np.ndarray, parameters: np.ndarray, settings: JunctionSettings) -> np.ndarray:
        (views, rows, columns, _), size, stride = parameters.shape, settings.patch_size, settings.stride
        band = -(-size // stride)
        total = np.zeros(planes.shape)

        def add(first: int, stop: int, bands: range) -> None:
            for task in range(first, stop):
                view, start = task // len(bands), bands[task % len(bands)]
                some = range(start, min(start + band, rows))
                for top, patches in paint_rows(planes[view], parameters[view], settings, some):
                    kernels.add_row(patches, size, stride, top, total[view])

        # Every other band of rows of patches at a time: they share no pixel.
        for odd in range(2):
            bands = range(odd * band, rows, 2 * band)
            share_out(add, views * len(bands), bands)
        total /= _count_patches((rows, columns), total.shape[2:], size, stride)
        return total.astype(np.float32)


def _sweep(parameters: np.ndarray, *arguments: Any) -> None:
    """Rebuild the maps ``boundary_sum`` and ``color_sum`` of ``kernels.sweep``, as means over the patches.

    Patches are added in blocks, a quarter of the blocks at a time: those in odd or even rows and columns of blocks.
    They are one block apart, which is at least one patch, so they share no pixel; and each pixel gets its sum in the
    same order whatever the number of threads.
    """
    (views, rows, columns, _), (axis, stride) = parameters.shape, arguments[7:9]
    boundaries, colors = arguments[11:13]
    reach = -(-axis.size // stride)
    block = reach, max(8, reach)
    boundaries[:] = 0
    colors[:] = 0
    for odd_row, odd_column in np.ndindex(2, 2):
        down, across = (
            (-(-count // length) - odd + 1) // 2
            for count, length, odd in ((rows, block[0], odd_row), (columns, block[1], odd_column))
        )
        share_out(
            kernels.sweep, views * down * across, odd_row, odd_column, *block, parameters, *arguments, _shape(), _adam()
        )
    share = (1 / _count_patches((rows, columns), boundaries.shape[1:], axis.size, stride)).astype(np.float32)

    def divide(first: int, stop: int) -> None:
        boundaries[:, first:stop] *= share[first:stop]
        colors[:, :, first:stop] *= share[first:stop]

    share_out(divide, len(share))


def _count_patches(grid: tuple[int, int], shape: tuple[int, ...], size: int, stride: int) -> np.ndarray:
    """Return how many patches cover each pixel."""
    along = [np.zeros(length) for length in shape]
    for count, covered in zip(grid, along, strict=True):
        for k in range(count):
            covered[k * stride : k * stride + size] += 1
    return along[0][:, None] * along[1]


def paint_rows(
    planes: np.ndarray, parameters: np.ndarray, settings: JunctionSettings, rows: range
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield for some rows of patches of one view the top line and the plain reconstructions, ``(columns, C, R * R)``.

    The array is overwritten for each row.
    """
    axis = patch_axis(settings.patch_size)
    patches = np.empty((parameters.shape[1], planes.shape[0], settings.patch_size**2), np.float32)
    for row in rows:
        top = row * settings.stride
        kernels.paint_row(parameters[row], planes, axis, settings.stride, top, patches, _shape())
        yield top, patches
