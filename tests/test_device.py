"""Which device a request means, what is said where there is no GPU, and how arrays get from one to the other."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from devices import CUDA, WHY_NO_GPU

from scotopic.backends import device
from scotopic.errors import DeviceError


class OnGpu:
    """What tells a tensor on a GPU from other things."""

    __module__ = "torch"

    class device:  # noqa: N801
        type = "cuda"


@pytest.fixture
def really(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Nothing is interpreted, unless a test says so."""
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    return monkeypatch


def find(*names: str) -> Any:
    """A search for packages that finds all but these."""
    return lambda name, package=None: None if name in names else importlib.util.spec_from_loader(name, None)


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        (("torch",), "torch is not installed"),
        (("triton",), "triton is not installed"),
        (("torch", "triton"), "torch and triton are not installed"),
    ],
)
def test_missing_packages_are_named_with_the_way_to_get_them(
    really: pytest.MonkeyPatch, missing: tuple[str, ...], words: str
) -> None:
    really.setattr(importlib.util, "find_spec", find(*missing))
    really.setattr(device, "_has_driver", lambda: True)
    really.setattr(sys, "platform", "linux")

    why = device.why_no_gpu.__wrapped__()

    assert why.startswith(words)
    assert "pip install 'scotopic[gpu]'" in why


def test_nobody_is_told_to_install_what_cannot_help(really: pytest.MonkeyPatch) -> None:
    really.setattr(importlib.util, "find_spec", find("torch", "triton"))

    really.setattr(device, "_has_driver", lambda: False)
    assert device.why_no_gpu.__wrapped__() == "this machine has no NVIDIA driver"

    really.setattr(device, "_has_driver", lambda: True)
    really.setattr(sys, "platform", "win32")  # triton has packages for Linux alone
    assert "pip install" not in device.why_no_gpu.__wrapped__()


def test_a_missing_driver_is_named_without_importing_torch(really: pytest.MonkeyPatch) -> None:
    really.setattr(importlib.util, "find_spec", find())
    really.setattr(device, "_has_driver", lambda: False)
    really.setitem(sys.modules, "torch", None)  # importing it would raise

    assert "no NVIDIA driver" in device.why_no_gpu.__wrapped__()


@pytest.mark.parametrize("usable", [False, True])
def test_a_torch_that_finds_no_gpu_is_named_with_its_version(really: pytest.MonkeyPatch, usable: bool) -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    really.setattr(importlib.util, "find_spec", find())
    really.setattr(device, "_has_driver", lambda: True)
    really.setattr(torch.cuda, "is_available", lambda: usable)

    why = device.why_no_gpu.__wrapped__()

    assert why is None if usable else f"torch {torch.__version__} finds none" in why


def test_interpreted_kernels_need_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(importlib.util, "find_spec", find())
    monkeypatch.setattr(device, "_has_driver", lambda: False)

    assert device.why_no_gpu.__wrapped__() is None


def test_a_driver_is_looked_for_by_its_names(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def load(name: str) -> None:
        asked.append(name)
        if name != "nvcuda.dll":
            raise OSError

    monkeypatch.setattr(device.ctypes, "CDLL", load)

    assert device._has_driver()
    assert asked == ["libcuda.so.1", "nvcuda.dll"]


@pytest.mark.parametrize(
    ("request_", "why", "inputs", "expected"),
    [
        ("cpu", None, (), "cpu"),
        ("cpu", None, (OnGpu(),), "cpu"),
        ("cuda", None, (), "cuda"),
        ("auto", None, (), "cuda"),
        ("auto", "no GPU", (), "cpu"),
        ("auto", "no GPU", (np.zeros(3), "left.png"), "cpu"),
        ("auto", None, (np.zeros(3), OnGpu()), "cuda"),
    ],
)
def test_a_request_means_the_gpu_where_there_is_one(
    really: pytest.MonkeyPatch, request_: str, why: str | None, inputs: tuple[object, ...], expected: str
) -> None:
    really.setattr(device, "why_no_gpu", lambda: why)

    assert device.resolve_device(request_, *inputs) == expected


def test_auto_never_means_an_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(device, "why_no_gpu", lambda: None)

    assert device.resolve_device("auto", np.zeros(3)) == "cpu"
    assert device.resolve_device("cuda", np.zeros(3)) == "cuda"


def test_cuda_without_a_gpu_says_why_and_what_to_do(really: pytest.MonkeyPatch) -> None:
    really.setattr(device, "why_no_gpu", lambda: "this machine has no NVIDIA driver")

    with pytest.raises(DeviceError, match="cannot be used: this machine has no NVIDIA driver"):
        device.resolve_device("cuda")


@pytest.mark.skipif(WHY_NO_GPU is None, reason="there is a GPU here")
def test_a_user_without_a_gpu_is_told_so() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    code = "import scotopic, numpy as np; scotopic.match(*np.zeros((2, 48, 48), np.uint8), device='cuda')"

    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert "DeviceError: The GPU cannot be used: " in done.stderr.splitlines()[-1]


def test_only_tensors_are_tensors() -> None:
    for value in (None, 3, "torch", np.zeros(3), [1.0]):
        assert not device.is_tensor(value)
        assert not device.is_on_gpu(value)
    assert device.is_on_gpu(OnGpu())


def test_arrays_stay_what_they_are_on_the_cpu() -> None:
    array = np.arange(3.0)

    assert device.to_numpy(array)[0] is array


@pytest.mark.parametrize("name", [CUDA])
def test_arrays_go_to_the_gpu_and_come_back_with_their_type(name: str) -> None:
    for kind in (np.uint8, np.int16, np.int32, np.int64, np.float32, np.float64):
        array = np.arange(12).reshape(3, 4).astype(kind)

        there = device.to_tensor(array)
        device.synchronize()
        (back,) = device.to_numpy(there)

        assert device.is_on_gpu(there)
        assert there.device == device.torch_device()
        assert back.dtype == kind
        np.testing.assert_array_equal(back, array)
        assert device.to_tensor(there) is there
