"""Which device the work runs on, and moving arrays there and back."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
import sys
from contextlib import suppress
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from scotopic.errors import DeviceError

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from typing_extensions import TypeIs

DEVICES = ("auto", "cpu", "cuda")
GPU_EXTRA = "pip install 'scotopic[gpu]'"


def resolve_device(device: str, *inputs: object) -> str:
    """Return the device that a request means on this machine, ``"cpu"`` or ``"cuda"``.

    Parameters
    ----------
    device
        ``"auto"`` takes the GPU where there is one.
    *inputs
        Arrays to work on; tensors that are on the GPU already make ``"auto"`` stay there.

    Raises
    ------
    DeviceError
        The name is unknown, or there is no such device.
    """
    if device not in DEVICES:
        raise DeviceError(f"There is no device {device!r}. Choose one of {', '.join(DEVICES)}.")
    if device == "auto":
        on_gpu = any(is_on_gpu(value) for value in inputs)
        return "cuda" if on_gpu or (not interpreted() and why_no_gpu() is None) else "cpu"
    if device == "cuda" and (why := why_no_gpu()) is not None:
        raise DeviceError(f"The GPU cannot be used: {why}. Use device='cpu' or 'auto'.")
    return device


def interpreted() -> bool:
    """Whether Triton interprets its kernels on the CPU (``TRITON_INTERPRET=1``), which is how they are tested."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@lru_cache(maxsize=1)
def why_no_gpu() -> str | None:
    """Return what keeps the GPU kernels from running, in words; ``None`` where nothing does."""
    # The driver comes first: without one, nothing that can be installed helps, and importing torch takes seconds.
    if not interpreted() and not _has_driver():
        return "this machine has no NVIDIA driver"
    missing = [name for name in ("torch", "triton") if importlib.util.find_spec(name) is None]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        advice = GPU_EXTRA if sys.platform == "linux" else "the GPU kernels are for Linux, where triton has packages"
        return f"{' and '.join(missing)} {verb} not installed ({advice})"
    if interpreted():
        return None
    import torch

    if not torch.cuda.is_available():
        return f"torch {torch.__version__} finds none; it needs a CUDA build and a driver that fits it"
    return None


def _has_driver() -> bool:
    for name in ("libcuda.so.1", "nvcuda.dll"):
        with suppress(OSError):
            ctypes.CDLL(name)
            return True
    return False


def torch_device() -> torch.device:
    """Return the torch device that the GPU kernels work on: the current GPU, or the CPU where they are interpreted."""
    import torch

    return torch.device("cpu") if interpreted() else torch.device("cuda", torch.cuda.current_device())


def is_tensor(value: object) -> TypeIs[Tensor]:
    """Whether a value is a torch tensor; asked without importing torch."""
    return type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "device")


def is_on_gpu(value: object) -> bool:
    """Whether a value is a tensor where the GPU kernels work."""
    return is_tensor(value) and (value.device.type == "cuda" or (interpreted() and value.device.type == "cpu"))


def to_numpy(*arrays: np.ndarray | Tensor) -> list[np.ndarray]:
    """Return arrays as NumPy arrays, copied from the GPU if they are there.

    They are copied into page-locked memory, all at once, which is several times faster; torch keeps and reuses it.
    """
    started = [_start_copy(array) if is_tensor(array) else array for array in arrays]
    if any(is_tensor(array) and array.is_cuda for array in arrays):
        synchronize()
    return [array.numpy() if is_tensor(array) else np.asarray(array) for array in started]


def _start_copy(tensor: Tensor) -> Tensor:
    if not tensor.is_cuda:
        return tensor
    import torch

    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    return host.copy_(tensor, non_blocking=True)


def to_tensor(array: np.ndarray | Tensor) -> Tensor:
    """Return an array as a tensor where the GPU kernels work on it."""
    import torch

    # torch wants to be able to write to what it shares, as it may with an array on the CPU
    if not is_tensor(array) and not array.flags.writeable:
        array = array.copy()
    return torch.as_tensor(array, device=torch_device())


def synchronize() -> None:
    """Return when the GPU has finished its work."""
    if not interpreted():
        import torch

        torch.cuda.synchronize()


def import_kernels(module: str) -> ModuleType:
    """Return a module of Numba kernels, imported on first use.

    Raises
    ------
    DeviceError
        Numba finds no folder for its compiled code.
    """
    try:
        return importlib.import_module(module)
    except RuntimeError as error:
        if "cannot cache" not in str(error):
            raise
        raise DeviceError(
            f"There is no writable folder for the compiled kernels of {module}. Set NUMBA_CACHE_DIR to a folder that "
            "you may write to."
        ) from error
