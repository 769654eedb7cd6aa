"""A device's primitives, and the stages on it, called with NumPy arrays, whatever arrays the device works on."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest
from devices import backend_of
from numpy.typing import NDArray

from scotopic.backends.device import is_tensor, to_numpy
from scotopic.backends.protocol import PatchFilter
from scotopic.settings import JunctionSettings
from scotopic.stages.channels import Channel
from scotopic.stages.junctions.fit import Junctions, draw_plain_map

Planes = NDArray[np.float32]


class Calls:
    """A device that takes NumPy arrays and returns them.

    ``on(device).blur(image, 2.0)`` calls a primitive of the device's backend, ``on(device).run(stage, image)`` a stage,
    which gets the backend as its first argument. Arrays in lists, tuples and dataclasses are moved as well.
    """

    def __init__(self, device: str) -> None:
        self.device, self.backend = device, backend_of(device)

    def __getattr__(self, name: str) -> Any:
        return partial(self._call, getattr(self.backend, name))

    def run(self, stage: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Call a stage."""
        return self._call(partial(stage, self.backend), *arguments, **named)

    def _call(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        return fetch(function(*(self.place(value) for value in arguments), **named))

    def place(self, value: Any) -> Any:
        """Return the same with the device's own arrays."""
        return _change(value, self.backend.asarray, np.ndarray)


def on(device: str) -> Calls:
    """Return a device that takes NumPy arrays and returns them."""
    return Calls(device)


def fetch(value: Any) -> Any:
    """Return the same with NumPy arrays."""
    return _change(value, lambda tensor: to_numpy(tensor)[0], None)


# What is measured once per pair, and the tables of a filter, are NumPy arrays on every device.
_ON_THE_HOST = {Channel: ("signal", "noise")}


def _change(value: Any, change: Callable[[Any], Any], kind: type | None) -> Any:
    """Return a value with ``change`` applied to its arrays: those of a kind, or tensors."""
    if isinstance(value, kind) if kind else is_tensor(value):
        return change(value)
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)(_change(each, change, kind) for each in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type | PatchFilter):
        names = [each.name for each in dataclasses.fields(value) if each.name not in _ON_THE_HOST.get(type(value), ())]
        changed = {name: _change(getattr(value, name), change, kind) for name in names}
        return dataclasses.replace(value, **changed)
    return value


def _mirrored(name: str) -> property:
    """An array of the device's fit: reading copies it to NumPy, assigning copies it to the device."""

    def read(self: FieldState) -> NDArray[Any]:
        value = to_numpy(getattr(self.fit, name))[0]
        return np.array(value if self.views else value[0])

    def write(self: FieldState, value: NDArray[Any]) -> None:
        there = getattr(self.fit, name)
        there[...] = backend_of(self.device).asarray(np.ascontiguousarray(value if self.views else value[None]))

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
        backend = backend_of(device)
        self.fit = backend.new_fit(backend.asarray(planes if self.views else planes[None]), settings)

    parameters = _mirrored("parameters")
    boundary_map, color_map = _mirrored("boundary_map"), _mirrored("color_map")
    first, second, gradients = _mirrored("adam_first"), _mirrored("adam_second"), _mirrored("gradients")
    moving = _mirrored("moving")

    def search(self, boundary_weight: float = 0.0, color_weight: float = 0.0, *, only_moving: bool = False) -> None:
        """Take one search step."""
        self.fit.search(boundary_weight, color_weight, only_moving=only_moving)

    def rebuild(self, count: int = 0, boundary_weight: float = 0.0, color_weight: float = 0.0) -> None:
        """Rebuild the global maps; with ``count > 0`` also take that Adam step."""
        self.fit.rebuild(count, boundary_weight, color_weight)


def plain_map_of(device: str, image: Planes, parameters: NDArray[np.float64], fit: JunctionSettings) -> Planes:
    """Return the mean map of plain reconstructions, ``(H, W, C)``."""
    unused = np.zeros(image.shape, np.float32)
    found: Planes = on(device).run(draw_plain_map, image, Junctions(parameters, unused[..., 0], unused, fit))
    return found


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
