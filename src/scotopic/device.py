"""Where the work runs. Nothing above this module knows which device it is.

Each stage of the method (``junctions``, ``matching``) has the same steps twice: in its module ``on_cpu``, on NumPy
arrays, and in ``on_cuda``, on torch tensors. :func:`steps` picks one; whoever calls them treats arrays as opaque.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
from functools import lru_cache
from types import ModuleType
from typing import Any

from scotopic.errors import DeviceError

DEVICES = ("auto", "cpu", "cuda")
GPU_EXTRA = "pip install 'scotopic[gpu]'"


def resolve_device(device: str, *inputs: Any) -> str:
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
        raise DeviceError(f"device: found {device!r}, expected one of {', '.join(DEVICES)}; choose one of these")
    if device == "auto":
        on_gpu = any(is_on_gpu(value) for value in inputs)
        return "cuda" if on_gpu or (not interpreted() and why_no_gpu() is None) else "cpu"
    if device == "cuda" and (why := why_no_gpu()) is not None:
        raise DeviceError(f"device 'cuda': found {why}; use device='cpu' or 'auto'")
    return device


def interpreted() -> bool:
    """Whether Triton interprets its kernels on the CPU (``TRITON_INTERPRET=1``), which is how they are tested."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@lru_cache(maxsize=1)
def why_no_gpu() -> str | None:
    """Return what keeps the GPU kernels from running, in words; ``None`` where nothing does."""
    missing = [name for name in ("torch", "triton") if importlib.util.find_spec(name) is None]
    if missing:
        return f"no {' and no '.join(missing)}, expected both for the GPU kernels; {GPU_EXTRA}"
    if interpreted():
        return None
    if not _has_driver():  # asked first: importing torch takes seconds
        return "no NVIDIA driver on this machine, expected one for the GPU kernels"
    import torch

    if not torch.cuda.is_available():
        return f"torch {torch.__version__} without a usable GPU, expected a CUDA build and a driver that fits it"
    return None


def _has_driver() -> bool:
    for name in ("libcuda.so.1", "nvcuda.dll"):
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        return True
    return False


def steps(stage: str, device: str) -> Any:
    """Return the module with the steps of a stage on ``"cpu"`` or ``"cuda"``, imported on first use."""
    if device == "cuda":
        # Products and sums fused, whatever the default of this Triton; read when the first kernel is compiled.
        os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
    return importlib.import_module(f"scotopic.{stage}.on_{device}")


def torch_device() -> Any:
    """Return the torch device that the GPU kernels work on: the current GPU, or the CPU where they are interpreted."""
    import torch

    return torch.device("cpu") if interpreted() else torch.device("cuda", torch.cuda.current_device())


def is_tensor(value: Any) -> bool:
    """Whether a value is a torch tensor; asked without importing torch."""
    return type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "device")


def is_on_gpu(value: Any) -> bool:
    """Whether a value is a tensor where the GPU kernels work."""
    return is_tensor(value) and (value.device.type == "cuda" or (interpreted() and value.device.type == "cpu"))


def to_numpy(*arrays: Any) -> list[Any]:
    """Return arrays as NumPy arrays, copied from the GPU if they are there.

    They are copied into page-locked memory, all at once, which is several times faster; torch keeps and reuses it.
    """
    landed = [_start_copy(array) if is_tensor(array) else array for array in arrays]
    if any(is_tensor(array) and array.is_cuda for array in arrays):
        wait("cuda")
    return [array.numpy() if is_tensor(array) else array for array in landed]


def _start_copy(tensor: Any) -> Any:
    if not tensor.is_cuda:
        return tensor
    import torch

    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    return host.copy_(tensor, non_blocking=True)


def to_device(array: Any, device: str) -> Any:
    """Return an array where a device's steps work on it: as NumPy's, or as a tensor on the GPU."""
    if device == "cpu":
        return to_numpy(array)[0]
    import torch

    # torch wants to be able to write to what it shares, as it may with an array on the CPU
    shared = array if is_tensor(array) or array.flags.writeable else array.copy()
    return torch.as_tensor(shared, device=torch_device())


def wait(device: str) -> None:
    """Return when the device has done all that it was told to."""
    if device == "cuda" and not interpreted():
        import torch

        torch.cuda.synchronize()


def cpu_kernels(stage: str) -> ModuleType:
    """Return the Numba kernels of a stage (``junctions``, ``matching``, ``evaluation``), imported on first use."""
    rest_idle_threads()
    module = f"scotopic.{stage}._cpu"
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
