"""The junction kernels of a device, called by name, with what a test does not care about filled in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType

import numpy as np
import pytest
from numpy.typing import NDArray

from scotopic.device import kernels
from scotopic.junctions.fit import patch_axis
from scotopic.settings import JunctionSettings

DEVICES = ["cpu"]  # every kernel here is held to the reference on each of these

Planes = NDArray[np.float32]


@dataclass
class FieldState:
    """A field of junctions in the course of a fit: all that the kernels read and write.

    Attributes
    ----------
    planes
        The image, ``(C, H, W)``, in whole patches.
    parameters
        ``(rows, columns, 5)``; all zeros at the start.
    boundary_map, colour_map
        ``B`` and ``G``; zeros at the start.
    first, second
        Adam's moments.
    gradients
        Of the last Adam step.
    """

    engine: ModuleType
    settings: JunctionSettings
    planes: Planes
    parameters: NDArray[np.float64]
    boundary_map: Planes
    colour_map: Planes
    first: NDArray[np.float64]
    second: NDArray[np.float64]
    gradients: NDArray[np.float64]

    @classmethod
    def at_rest(cls, device: str, planes: Planes, settings: JunctionSettings) -> FieldState:
        rows, columns = ((length - settings.patch_size) // settings.stride + 1 for length in planes.shape[1:])
        moments = (np.zeros((rows, columns, 5)) for _ in range(4))
        parameters, first, second, gradients = moments
        return cls(
            kernels("junctions", device),
            settings,
            planes,
            parameters,
            np.zeros(planes.shape[1:], np.float32),
            np.zeros_like(planes),
            first,
            second,
            gradients,
        )

    def search(
        self, boundary_weight: float = 0.0, colour_weight: float = 0.0, active: NDArray[np.int64] | None = None
    ) -> NDArray[np.bool_]:
        """Take one search step; return which of the active patches moved."""
        count, reach = self.settings.candidates, self.settings.vertex_range
        moved: NDArray[np.bool_] = self.engine.search_step(
            self.parameters,
            np.arange(self.parameters[..., 0].size) if active is None else active,
            self.planes,
            self.boundary_map,
            self.colour_map,
            patch_axis(self.settings),
            self.settings.stride,
            float(boundary_weight),
            float(colour_weight),
            np.arange(count) * (2 * np.pi / count),
            np.linspace(-reach, reach, count),
        )
        return moved

    def sweep(
        self,
        count: int = 0,
        boundary_weight: float = 0.0,
        colour_weight: float = 0.0,
        rates: tuple[float, float] | None = None,
    ) -> None:
        """Rebuild the global maps; with ``count > 0`` also take that Adam step, with rates for angles and vertex."""
        angle, vertex = rates or (self.settings.angle_rate, self.settings.vertex_rate)
        boundary_map, colour_map = np.empty_like(self.boundary_map), np.empty_like(self.colour_map)
        self.engine.sweep(
            self.parameters, self.first, self.second, count, np.array([angle] * 3 + [vertex] * 2), self.planes,
            self.boundary_map, self.colour_map, patch_axis(self.settings), self.settings.stride,
            float(boundary_weight), float(colour_weight), boundary_map, colour_map, self.gradients,
        )  # fmt: skip
        self.boundary_map, self.colour_map = boundary_map, colour_map


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let the CPU kernels use this many threads, or skip the test where there are not so many."""
    import numba

    if count > numba.config.NUMBA_NUM_THREADS:
        pytest.skip(f"needs {count} CPU threads: run it on a machine with as many cores")
    before = numba.get_num_threads()
    numba.set_num_threads(count)
    try:
        yield
    finally:
        numba.set_num_threads(before)
