"""Images as they are given: files, arrays, or torch tensors on the GPU, inside somebody's PyTorch program."""

from __future__ import annotations

from typing import Any

from scotopic.device import is_on_gpu
from scotopic.errors import InputError
from scotopic.io import as_image

_FULL_SCALE = {"torch.uint8": 255.0, "torch.uint16": 65535.0, "torch.bool": 1.0}
_FLOATS = ("torch.float16", "torch.bfloat16", "torch.float32", "torch.float64")
# A linear image may overshoot [0, 1] a little; as for arrays (scotopic.io.as_image).
_LOWEST, _HIGHEST = -1.0, 2.0


def tensor_image(source: Any, name: str) -> Any:
    """Return a tensor as float32 ``H x W x C`` of full scale, a copy, where it is.

    Parameters
    ----------
    source : torch.Tensor
        ``H x W`` or ``H x W x C`` with C = 1 or 3; uint8, uint16, bool or floats in [0, 1], as arrays are.
    name : str
        What to call it in an error message.

    Raises
    ------
    InputError
        It is not an image of such a shape and type, or has values that are not finite or not scaled.
    """
    source = source.detach()
    shape = tuple(source.shape)
    if len(shape) not in (2, 3) or 0 in shape or (len(shape) == 3 and shape[2] not in (1, 3)):
        hint = "; move the channels last (tensor.permute(1, 2, 0))" if len(shape) == 3 and shape[0] in (1, 3) else ""
        raise InputError(f"{name} image: found a tensor of shape {shape}, expected H x W or H x W x (1 or 3){hint}")
    kind = str(source.dtype)
    if kind in _FULL_SCALE:
        # Divided by a tensor: by a number torch multiplies with its reciprocal, and the last bit is lost.
        image = source.float() / source.new_full((), _FULL_SCALE[kind], dtype=image_type())
    elif kind in _FLOATS:
        image = source.to(image_type(), copy=True)
        low, high = (float(value) for value in image.aminmax())
        if not (low >= _LOWEST and high <= _HIGHEST):  # also where one is not a number
            raise InputError(
                f"{name} image: found values from {low:.4g} to {high:.4g}, expected finite ones in [0, 1]; divide the "
                "tensor by its full scale, and fill in what is missing"
            )
    else:
        raise InputError(
            f"{name} image: found a tensor of {kind}, expected uint8, uint16, bool or float in [0, 1]; convert it, "
            "dividing by its full scale"
        )
    return image.reshape(shape[0], shape[1], -1).contiguous()


def take_image(source: Any, name: str) -> Any:
    """Return an image from wherever it is: a tensor on the GPU stays one, all else becomes a NumPy array."""
    return tensor_image(source, name) if is_on_gpu(source) else as_image(source, name)


def image_type() -> Any:
    """Return the type of every image here."""
    import torch

    return torch.float32
