"""Images that are torch tensors: taken as arrays are, and refused with what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from devices import CUDA

from scotopic.backends.device import to_numpy, torch_device
from scotopic.errors import InputError
from scotopic.inputs import take_image, tensor_image
from scotopic.io import as_image

torch = pytest.importorskip("torch", reason="needs torch")

pytestmark = pytest.mark.parametrize("device", [CUDA])

SHAPES = [(5, 7), (5, 7, 1), (5, 7, 3)]


def there(array: np.ndarray) -> Any:
    return torch.as_tensor(array, device=torch_device())


def picture(shape: tuple[int, ...], kind: type) -> np.ndarray:
    values = np.random.default_rng(0).random(shape)
    if kind is np.bool_:
        return values > 0.5
    return (values * np.iinfo(kind).max).astype(kind) if np.issubdtype(kind, np.integer) else values.astype(kind)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.bool_, np.float16, np.float32, np.float64])
def test_a_tensor_becomes_the_image_that_its_array_becomes(device: str, shape: tuple[int, ...], kind: type) -> None:
    array = picture(shape, kind)

    image = tensor_image(there(array), "left")

    assert image.dtype == torch.float32
    assert image.is_contiguous()
    assert image.device == torch_device()
    np.testing.assert_array_equal(to_numpy(image)[0], as_image(array, "left"))


def test_every_value_of_uint16_is_divided_as_numpy_divides(device: str) -> None:
    array = np.arange(65536, dtype=np.uint16).reshape(256, 256)

    np.testing.assert_array_equal(to_numpy(tensor_image(there(array), "left"))[0], as_image(array, "left"))


def test_the_image_is_a_copy_of_whatever_layout(device: str) -> None:
    tensor = there(picture((3, 5, 7), np.float32))
    before = tensor.clone()

    image = tensor_image(tensor.permute(1, 2, 0), "left")
    image += 1

    assert image.shape == (5, 7, 3)
    assert image.is_contiguous()
    assert torch.equal(tensor, before)


def test_bfloat16_is_taken_and_a_little_overshoot_kept(device: str) -> None:
    tensor = there(np.array([[-0.25, 0.5], [1.0, 1.25]], np.float32)).to(torch.bfloat16)

    np.testing.assert_array_equal(to_numpy(tensor_image(tensor, "left"))[0][..., 0], [[-0.25, 0.5], [1.0, 1.25]])


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((5,), r"shape \(5,\)"),
        ((2, 5, 7, 3), r"shape \(2, 5, 7, 3\)"),
        ((5, 7, 2), r"shape \(5, 7, 2\)"),
        ((0, 7), r"shape \(0, 7\)"),
        ((3, 5, 7), r"shape \(3, 5, 7\).*layout="),
        ((1, 5, 7), r"shape \(1, 5, 7\).*layout="),
    ],
)
def test_other_shapes_are_refused(device: str, shape: tuple[int, ...], words: str) -> None:
    with pytest.raises(InputError, match=rf"^The right image has the {words}") as caught:
        tensor_image(torch.zeros(shape, device=torch_device()), "right")
    assert ("layout" in str(caught.value)) == ("layout" in words)


@pytest.mark.parametrize("kind", ["int8", "int32", "int64", "complex64"])
def test_other_types_are_refused_by_name(device: str, kind: str) -> None:
    with pytest.raises(InputError, match=rf"^The left image is a tensor of torch.{kind}; uint8.*dividing"):
        tensor_image(torch.zeros((5, 7), dtype=getattr(torch, kind), device=torch_device()), "left")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 255.0, -3.0])
def test_values_that_are_not_finite_or_not_scaled_are_refused(device: str, value: float) -> None:
    tensor = torch.zeros((5, 7), device=torch_device())
    tensor[2, 3] = value

    with pytest.raises(InputError, match=r"^The left image has values from .*finite ones in \[0, 1\].*Divide"):
        tensor_image(tensor, "left")


def test_what_is_no_tensor_is_taken_as_an_array(device: str) -> None:
    array = picture((5, 7), np.uint8)

    image = take_image(array, "left")

    assert isinstance(image, np.ndarray)
    np.testing.assert_array_equal(image, as_image(array, "left"))
    np.testing.assert_array_equal(to_numpy(take_image(there(array), "left"))[0], image)


def test_a_tensor_elsewhere_is_taken_as_an_array_too(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scotopic.inputs.is_on_gpu", lambda _: False)
    array = picture((5, 7, 3), np.float32)

    image = take_image(torch.as_tensor(array), "left")

    assert isinstance(image, np.ndarray)
    np.testing.assert_array_equal(image, array)


def test_a_tensor_with_a_gradient_is_taken_without_it(device: str) -> None:
    tensor = there(picture((5, 7), np.float32)).requires_grad_()

    assert not tensor_image(tensor, "left").requires_grad
