"""A device's steps on NumPy arrays, whatever arrays it works on, with what a test does not care about filled in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scotopic.matching import View

from scotopic.backends.device import steps, to_device, to_numpy
from scotopic.settings import JunctionSettings, MatchingSettings
from scotopic.stages.consistency import Consistency
from scotopic.stages.junctions.fit import Junctions, plain_map

Planes = NDArray[np.float32]


def _mirrored(name: str) -> property:
    """An array of the device's field: reading copies it to NumPy, assigning copies it to the device."""

    def read(self: FieldState) -> NDArray[Any]:
        value = to_numpy(getattr(self.field, name))[0]
        return np.array(value if self.views else value[0])

    def write(self: FieldState, value: NDArray[Any]) -> None:
        there = getattr(self.field, name)
        there[...] = to_device(np.ascontiguousarray(value if self.views else value[None]), self.device)

    return property(read, write)


class FieldState:
    """A field of junctions in the course of a fit: all that the kernels read and write, as NumPy arrays.

    Every attribute is a copy: change it and assign it.

    Parameters
    ----------
    device
        Where the field is.
    planes
        The image, ``(C, H, W)``, in whole patches; or several, ``(V, C, H, W)``, and then all else has views, too.
    settings
        Of the fit.

    Attributes
    ----------
    parameters
        ``(rows, columns, 5)``; all zeros at the start.
    boundary_map, color_map
        ``B`` and ``G``; zeros at the start.
    first, second
        Adam's moments.
    gradients
        Of the last Adam step.
    moving
        Which patches the last search step moved; all of them at the start.
    """

    def __init__(self, device: str, planes: Planes, settings: JunctionSettings) -> None:
        self.device, self.settings, self.planes = device, settings, planes
        self.views = planes.ndim == 4
        there = to_device(planes if self.views else planes[None], device)
        self.field = steps("junctions", device).Field(there, settings)

    parameters = _mirrored("parameters")
    boundary_map, color_map = _mirrored("boundary_map"), _mirrored("color_map")
    first, second, gradients = _mirrored("adam_first"), _mirrored("adam_second"), _mirrored("gradients")
    moving = _mirrored("moving")

    def search(self, boundary_weight: float = 0.0, color_weight: float = 0.0, *, only_moving: bool = False) -> None:
        """Take one search step."""
        self.field.search(boundary_weight, color_weight, only_moving=only_moving)

    def rebuild(self, count: int = 0, boundary_weight: float = 0.0, color_weight: float = 0.0) -> None:
        """Rebuild the global maps; with ``count > 0`` also take that Adam step."""
        self.field.rebuild(count, boundary_weight, color_weight)


def draw_maps(
    device: str, planes: Planes, parameters: NDArray[np.float64], colors: Planes, weight: float, fit: JunctionSettings
) -> tuple[Planes, Planes]:
    """Return the boundary map ``(H, W)`` and the color map ``(C, H, W)`` of one view."""
    arrays = (to_device(array[None], device) for array in (planes, parameters, colors))
    boundaries, painted = steps("junctions", device).draw_maps(*arrays, weight, fit)
    return tuple(to_numpy(boundaries[0], painted[0]))


def plain_map_of(device: str, image: Planes, parameters: NDArray[np.float64], fit: JunctionSettings) -> Planes:
    """Return the mean map of plain reconstructions, ``(H, W, C)``."""
    arrays = (to_device(array, device) for array in (image, parameters))
    return to_numpy(plain_map(*arrays, fit, device=device))[0]


class Matching:
    """The matching's steps of a device, on NumPy arrays."""

    def __init__(self, device: str) -> None:
        self.device, self._steps = device, steps("matching", device)

    def _there(self, *arrays: Any) -> list[Any]:
        return [to_device(array, self.device) for array in arrays]

    def _view(self, view: View) -> View:
        image, plain = self._there(view.image, view.plain_map)
        return View(image, view.junctions.to_device(self.device), plain)

    def cost_volume(self, view: View, other: View, settings: MatchingSettings, *, is_left: bool) -> NDArray[Any]:
        return to_numpy(self._steps.cost_volume(self._view(view), self._view(other), settings, is_left=is_left))[0]

    def scale_volume(self, volume: NDArray[Any], settings: MatchingSettings) -> NDArray[Any]:
        return to_numpy(self._steps.scale_volume(*self._there(volume), settings))[0]

    def jump_penalties(self, junctions: Junctions, settings: MatchingSettings) -> NDArray[Any]:
        return to_numpy(self._steps.jump_penalties(junctions.to_device(self.device), settings))[0]

    def aggregate(self, volume: NDArray[Any], penalties: NDArray[Any], settings: MatchingSettings) -> NDArray[Any]:
        return to_numpy(self._steps.aggregate(*self._there(volume, penalties), settings))[0]

    def select(self, total: NDArray[Any], settings: MatchingSettings) -> list[NDArray[Any]]:
        return to_numpy(*self._steps.select(*self._there(total), settings))

    def spread_over_pixels(
        self, values: NDArray[Any], shape: tuple[int, int], settings: JunctionSettings
    ) -> NDArray[Any]:
        return to_numpy(self._steps.spread_over_pixels(*self._there(values), shape, settings))[0]

    def check_views(self, *maps: NDArray[Any], settings: MatchingSettings) -> Consistency:
        kept = self._steps.check_views(*self._there(*maps), settings)
        return Consistency(*to_numpy(kept.disparity, kept.reason, kept.confidence))


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let the CPU kernels use this many threads, or skip the test where there are not so many."""
    numba = pytest.importorskip("numba")

    if count > numba.config.NUMBA_NUM_THREADS:
        pytest.skip(f"needs {count} CPU threads: run it on a machine with as many cores")
    before = numba.get_num_threads()
    numba.set_num_threads(count)
    try:
        yield
    finally:
        numba.set_num_threads(before)
