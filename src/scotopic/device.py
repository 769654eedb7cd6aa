"""Where the kernels run. Nothing above this module knows which device it is."""

from __future__ import annotations

import importlib
import os
from types import ModuleType

from scotopic.errors import DeviceError

DEVICES = ("auto", "cpu", "cuda")


def resolve_device(device: str) -> str:
    """Return the device that a request means on this machine.

    Raises
    ------
    DeviceError
        The name is unknown, or this version has no kernels for it.
    """
    if device not in DEVICES:
        raise DeviceError(f"device: found {device!r}, expected one of {', '.join(DEVICES)}; choose one of these")
    if device == "cuda":
        raise DeviceError("device 'cuda': this version has CPU kernels only; use device='cpu' or 'auto'")
    return "cpu"


def kernels(stage: str, device: str) -> ModuleType:
    """Return the kernels of a stage (``junctions``, ``matching``, ``evaluation``), imported on first use."""
    rest_idle_threads()
    module = f"scotopic.{stage}._{resolve_device(device)}"
    try:
        return importlib.import_module(module)
    except RuntimeError as error:
        if "cannot cache" not in str(error):
            raise
        raise DeviceError(
            f"kernels {module}: found no writable folder for compiled code, expected one; set NUMBA_CACHE_DIR to a "
            "folder that you may write to"
        ) from error


def rest_idle_threads() -> None:
    """Let threads that wait for work sleep rather than spin, which costs a busy machine threefold.

    OpenMP reads this when it is loaded, so it must be said before the first kernel; whoever has set it knows better.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
