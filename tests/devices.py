"""The devices that kernels are tested on, here. Imported by conftest before any test, because Triton reads this once.

``cuda`` is the GPU where there is one. Where there is none but torch and triton are installed, Triton interprets the
same kernels on the CPU; that takes a quarter of a second for each patch that is searched, so tests use few and small
patches there. Where they are not installed, these tests are skipped and say why.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable
from typing import Any, TypeVar

import pytest

from scotopic.backends import cpu_backend, cuda_backend
from scotopic.backends.device import interpreted, why_no_gpu

T = TypeVar("T")

WHY_NO_GPU = why_no_gpu() or ("TRITON_INTERPRET=1, which was asked for" if interpreted() else None)
_INSTALLED = all(importlib.util.find_spec(name) is not None for name in ("torch", "triton"))
if WHY_NO_GPU is not None and _INSTALLED and not interpreted():
    os.environ["TRITON_INTERPRET"] = "1"
    why_no_gpu.cache_clear()
INTERPRETED = interpreted() and _INSTALLED

_CPU_PACKAGES = ("numba", "cv2")
_WITHOUT_CPU = any(importlib.util.find_spec(name) is None for name in _CPU_PACKAGES)

CPU = pytest.param(
    "cpu", marks=pytest.mark.skipif(_WITHOUT_CPU, reason="the CPU needs numba and opencv-python-headless")
)
CUDA = pytest.param(
    "cuda",
    marks=[pytest.mark.gpu, pytest.mark.skipif(not _INSTALLED, reason=f"needs torch and triton: found {WHY_NO_GPU}")],
)
DEVICES = [CPU, CUDA]  #: every kernel is held to the reference on each of these

#: Marks of a test that asks too much of an interpreter.
REAL_GPU = [
    pytest.mark.gpu,
    pytest.mark.skipif(WHY_NO_GPU is not None, reason=f"needs a GPU: {WHY_NO_GPU}"),
]
ON_REAL_DEVICES = [CPU, pytest.param("cuda", marks=REAL_GPU)]  #: for those that ask too much of an interpreter


def backend_of(device: str) -> Any:
    """Return the backend of a device."""
    return cuda_backend() if device == "cuda" else cpu_backend()


def sized(device: str, full: T, small: T) -> T:
    """Return how large a test shall be on a device: ``small`` where kernels are interpreted."""
    return small if device == "cuda" and INTERPRETED else full


def on_devices(names: str, full: Iterable[Any], small: Iterable[Any]) -> pytest.MarkDecorator:
    """Parametrize a test by ``device`` and the arguments named, which take the ``small`` values if interpreted."""
    values, cases = [], {"full": list(full), "small": list(small)}
    for device in DEVICES:
        name = str(device.values[0])
        for case in cases[sized(name, "full", "small")]:
            arguments = case if isinstance(case, tuple) else (case,)
            words = [str(each).replace(" ", "") for each in arguments if isinstance(each, int | float | str | tuple)]
            values.append(pytest.param(name, *arguments, marks=device.marks, id="-".join([name, *words])))
    return pytest.mark.parametrize(f"device, {names}", values)


def describe_cuda() -> str:
    """Return in words what ``cuda`` means here."""
    if not _INSTALLED:
        return f"skipped: {WHY_NO_GPU}"
    if INTERPRETED:
        return f"interpreted by Triton on the CPU: {WHY_NO_GPU}"
    import torch

    return f"on {torch.cuda.get_device_name()}"
