"""The fit's arrays and steps on the CPU: NumPy arrays, and calls of the kernels in ``_cpu.py``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.device import cpu_kernels
from scotopic.junctions.grid import patch_axis, patches_over, search_offsets
from scotopic.settings import JunctionSettings

Plane = NDArray[np.float32]
Parameters = NDArray[np.float64]


def zeros(shape: tuple[int, ...]) -> Plane:
    """Return a float32 array of zeros."""
    return np.zeros(shape, np.float32)


def new_parameters(views: int, rows: int, columns: int) -> Parameters:
    """Return room for the parameters of so many patches."""
    return np.zeros((views, rows, columns, 5))


def to_planes(images: Sequence[Any], settings: JunctionSettings) -> Plane:
    """Return images as planes ``(V, C, H, W)``, their edges repeated until whole patches cover them."""
    height, width, _ = images[0].shape
    down, right = (-(length - settings.patch_size) % settings.stride for length in (height, width))
    padding = ((0, 0), (0, down), (0, right))
    return np.stack([np.pad(np.moveaxis(image, -1, 0), padding, mode="edge") for image in images])


def binned(planes: Plane, binning: int) -> Plane:
    """Return the planes with ``binning x binning`` pixels averaged."""
    views, channels, height, width = planes.shape
    blocks = planes.reshape(views, channels, height // binning, binning, width // binning, binning)
    return np.ascontiguousarray(blocks.mean(axis=(3, 5), dtype=np.float32))


def enlarged(planes: Plane, binning: int) -> Plane:
    """Return the planes with every pixel repeated ``binning x binning`` times."""
    return np.repeat(np.repeat(planes, binning, axis=-2), binning, axis=-1)


def contiguous(array: Plane) -> Plane:
    """Return the array with its elements in order."""
    return np.ascontiguousarray(array)


class Field:
    """Junctions being fitted to images of one size, with everything that the steps read and write.

    Parameters
    ----------
    planes
        ``(V, C, H, W)`` in whole patches.
    settings
        Of the fit. Patches have ``patch_size / binning`` pixels along a side here.
    """

    def __init__(self, planes: Plane, settings: JunctionSettings) -> None:
        self._kernels = cpu_kernels("junctions")
        self.planes, self.settings = np.ascontiguousarray(planes), settings
        self.size, self.stride = settings.patch_size // settings.binning, settings.stride // settings.binning
        views, _, height, width = planes.shape
        rows, columns = ((length - self.size) // self.stride + 1 for length in (height, width))
        self.parameters = new_parameters(views, rows, columns)
        self.boundary_map, self.color_map = zeros((views, height, width)), np.zeros_like(self.planes)
        self.adam_first, self.adam_second, self.gradients = (np.zeros_like(self.parameters) for _ in range(3))
        self.moving = np.ones((views, rows, columns), np.uint8)
        self._next_maps = np.empty_like(self.boundary_map), np.empty_like(self.color_map)
        self._axis = patch_axis(settings.patch_size, settings.binning).astype(np.float32)
        self._rates = np.array([settings.angle_rate] * 3 + [settings.vertex_rate] * 2)

    def search(self, boundary_weight: float, color_weight: float, *, only_moving: bool = False) -> bool:
        """Take a search step; of all patches, or of those that the last one moved. Return whether any may move on."""
        if not only_moving:
            self.moving[:] = 1
        for view, moving in enumerate(self.moving):
            active = np.flatnonzero(moving)
            moved = self._kernels.search_step(
                self.parameters[view], active, self.planes[view], self.boundary_map[view], self.color_map[view],
                self._axis, self.stride, float(boundary_weight), float(color_weight), *search_offsets(self.settings),
            )  # fmt: skip
            moving.reshape(-1)[active] = moved
        return bool(self.moving.any())

    def rebuild(self, adam_count: int, boundary_weight: float, color_weight: float) -> None:
        """Rebuild the global maps; with ``adam_count > 0`` also take that Adam step, after the maps' parameters."""
        boundaries, colors = self._next_maps
        for view in range(len(self.planes)):
            self._kernels.sweep(
                self.parameters[view], self.adam_first[view], self.adam_second[view], adam_count, self._rates,
                self.planes[view], self.boundary_map[view], self.color_map[view], self._axis, self.stride,
                float(boundary_weight), float(color_weight), boundaries[view], colors[view], self.gradients[view],
            )  # fmt: skip
        self._next_maps = self.boundary_map, self.color_map
        self.boundary_map, self.color_map = boundaries, colors


def draw_maps(
    planes: Plane, parameters: Parameters, color_map: Plane, color_weight: float, settings: JunctionSettings
) -> tuple[Plane, Plane]:
    """Return the boundary maps ``(V, H, W)`` and the color maps ``(V, C, H, W)``, at full resolution."""
    axis = patch_axis(settings.patch_size).astype(np.float32)
    boundaries, colors = np.empty((planes.shape[0], *planes.shape[2:]), np.float32), np.empty_like(planes)
    nothing = np.zeros((1, 1, 5))
    for view in range(len(planes)):
        cpu_kernels("junctions").sweep(
            parameters[view], nothing, nothing, 0, np.zeros(5), planes[view], boundaries[view], color_map[view], axis,
            settings.stride, 0.0, float(color_weight), boundaries[view], colors[view], nothing,
        )  # fmt: skip
    return boundaries, colors


def plain_maps(planes: Plane, parameters: Parameters, settings: JunctionSettings) -> Plane:
    """Return the mean maps of the patches' reconstructions in plain colors, drawn in float64, ``(V, C, H, W)``."""
    maps = np.empty_like(planes)
    for view, view_planes in enumerate(planes):
        total = np.zeros(view_planes.shape)
        for top, patches in painted_rows(view_planes, parameters[view], settings):
            cpu_kernels("junctions").add_row(patches, settings.patch_size, settings.stride, top, total)
        for axis in (1, 2):
            first, last = patches_over(total.shape[axis], parameters.shape[axis], settings)
            total /= (last + 1 - first)[:, None] if axis == 1 else last + 1 - first
        maps[view] = total
    return maps


def painted_rows(planes: Plane, parameters: Parameters, settings: JunctionSettings) -> Iterator[tuple[int, Plane]]:
    """Yield for each row of patches of one view its top line and its plain reconstructions, ``(columns, C, R * R)``.

    The array is filled anew for each row.
    """
    axis = patch_axis(settings.patch_size)
    patches = np.empty((parameters.shape[1], planes.shape[0], settings.patch_size**2), np.float32)
    for row in range(parameters.shape[0]):
        top = row * settings.stride
        cpu_kernels("junctions").paint_row(parameters[row], planes, axis, settings.stride, top, patches)
        yield top, patches
