"""Images as they are given (files, arrays, torch tensors, batches), and the checks before any work is done."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from scotopic.backends.device import is_on_gpu, is_tensor
from scotopic.errors import InputError
from scotopic.io import as_image
from scotopic.levels import SMALLEST

if TYPE_CHECKING:
    from torch import Tensor

Image = NDArray[Any] | str | PathLike[str]  #: or a torch tensor, which is not named here so as not to import it
Layout = Literal["HWC", "CHW", "BCHW"]

_FULL_SCALE = {"torch.uint8": 255.0, "torch.uint16": 65535.0, "torch.bool": 1.0}
_FLOATS = ("torch.float16", "torch.bfloat16", "torch.float32", "torch.float64")
# A linear image may overshoot [0, 1] a little; as for arrays (scotopic.io.as_image).
_LOWEST, _HIGHEST = -1.0, 2.0
_FEW, _FEW_SHARE = 64, 1e-3  # pixels, or share of them: no more than these may be single photons


def split_layout(source: Any, layout: str, name: str) -> list[Any]:
    """Return the images of an array in some layout, each ``(H, W, C)``.

    Parameters
    ----------
    source
        An array or tensor; a path with layout ``"HWC"`` only.
    layout
        ``"HWC"`` (or ``H x W``), ``"CHW"``, or ``"BCHW"`` for a batch.
    name
        What to call it in an error message.
    """
    if layout == "HWC":
        return [source]
    if layout not in ("CHW", "BCHW"):
        raise InputError(f"There is no layout {layout!r}. Use 'HWC', 'CHW' or 'BCHW'.")
    shape = tuple(getattr(source, "shape", ()))
    if len(shape) != len(layout) or shape[-3] not in (1, 3):
        raise InputError(
            f"The {name} images have the shape {shape}; {' x '.join(layout)} with 1 or 3 channels is needed."
        )
    batch = [source] if layout == "CHW" else list(source)
    return [each.permute(1, 2, 0) if is_tensor(each) else np.moveaxis(each, 0, -1) for each in batch]


def split_pairs(left: Any, right: Any, layout: str) -> list[tuple[Any, Any]]:
    """Return the pairs of images of two arrays in some layout (:func:`split_layout`)."""
    lefts, rights = split_layout(left, layout, "left"), split_layout(right, layout, "right")
    if len(lefts) != len(rights):
        raise InputError(f"The batches differ in length: {len(lefts)} left and {len(rights)} right images.")
    return list(zip(lefts, rights, strict=True))


def pairs_in_layout(pairs: Any, layout: Layout) -> Iterable[Any]:
    """Yield pairs of images ``(H, W, C)`` of pairs in some layout (:func:`split_layout`)."""
    if not isinstance(pairs, Iterable) and not hasattr(pairs, "__getitem__"):
        raise InputError(f"The pairs are a {type(pairs).__name__}. Give an iterable of pairs (left, right) of images.")
    if layout == "HWC":
        yield from pairs
        return
    for number, pair in enumerate(pairs):
        left, right = take_two(pair, number)
        try:
            split = split_pairs(left, right, layout)
        except InputError as error:
            raise InputError(f"Pair {number}: {error}") from error
        yield from split


def take_two(pair: Any, number: int) -> tuple[Any, Any]:
    """Return the two views of pair `number` of a stream, or raise :class:`InputError`."""
    try:
        if isinstance(pair, str | bytes | Mapping):  # of whose letters, or keys, there may be two
            raise TypeError
        left, right = pair
    except (TypeError, ValueError) as error:
        raise InputError(f"Pair {number} is a {type(pair).__name__}; give pairs (left, right) of images.") from error
    return left, right


def tensor_image(source: Tensor, name: str) -> Tensor:
    """Return a tensor as a float32 copy ``H x W x C`` of full scale, on the device where it is.

    Parameters
    ----------
    source
        ``H x W`` or ``H x W x C`` with C = 1 or 3; uint8, uint16, bool or floats in [0, 1], as arrays are.
    name
        What to call it in an error message.

    Raises
    ------
    InputError
        It is not an image of such a shape and type, or has values that are not finite or not scaled.
    """
    import torch

    source = source.detach()
    shape = tuple(source.shape)
    if len(shape) not in (2, 3) or 0 in shape or (len(shape) == 3 and shape[2] not in (1, 3)):
        is_channels_first = len(shape) == 3 and shape[0] in (1, 3)
        hint = " Give channels-first tensors with layout='CHW'." if is_channels_first else ""
        raise InputError(f"The {name} image has the shape {shape}; H x W or H x W x (1 or 3) is needed.{hint}")
    kind = str(source.dtype)
    if kind in _FULL_SCALE:
        # Divided by a tensor: by a number torch multiplies with its reciprocal, and the last bit is lost.
        image = source.float() / source.new_full((), _FULL_SCALE[kind], dtype=torch.float32)
    elif kind in _FLOATS:
        image = source.to(torch.float32, copy=True)
        low, high = (float(value) for value in image.aminmax())
        if not (low >= _LOWEST and high <= _HIGHEST):  # also where one is not a number
            raise InputError(
                f"The {name} image has values from {low:.4g} to {high:.4g}; finite ones in [0, 1] are needed. Divide "
                "it by its full scale, and fill in missing values."
            )
    else:
        raise InputError(
            f"The {name} image is a tensor of {kind}; uint8, uint16, bool or float in [0, 1] is needed. Convert it, "
            "dividing by its full scale."
        )
    return image.reshape(shape[0], shape[1], -1).contiguous()


def take_image(source: Any, name: str) -> Any:
    """Return an image from wherever it is: a tensor on the GPU stays one, all else becomes a NumPy array."""
    return tensor_image(source, name) if is_on_gpu(source) else as_image(source, name)


def full_shape(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Return ``(height, width, channels)``."""
    sizes = tuple(shape) if isinstance(shape, Iterable) else ()
    full = (*sizes, 1) if len(sizes) == 2 else sizes
    is_whole = all(isinstance(length, int | np.integer) and length > 0 for length in full)
    if len(full) != 3 or not is_whole or full[2] not in (1, 3):
        raise InputError(
            f"{shape!r} is not the shape of an image: give (height, width) or (height, width, channels) with 1 or 3 "
            "channels."
        )
    return int(full[0]), int(full[1]), int(full[2])


def check_size(shape: tuple[int, ...], patch_size: int, name: str) -> None:
    """Raise :class:`InputError` unless an image of this shape holds at least one patch."""
    height, width = shape[:2]
    if min(height, width) < patch_size:
        raise InputError(
            f"{name}: {width} x {height} px is too small for a patch of {patch_size} x {patch_size} px. Use a larger "
            "image or a smaller patch_size."
        )


def check_pair(left: Any, right: Any, patch_size: int, names: str = "left and right") -> None:
    """Raise :class:`InputError` unless the two views, called ``names`` in the message, can be matched."""
    if left.shape != right.shape:
        first, second = (f"{v.shape[1]} x {v.shape[0]} px with {v.shape[2]} channel(s)" for v in (left, right))
        raise InputError(
            f"{names}: the views differ, one has {first}, the other {second}. Rectify, crop or convert them to match."
        )
    check_size(left.shape, patch_size, names)


def is_constant(image: Any) -> bool:
    """Whether every pixel is the same, so that there is nothing to match."""
    return bool((image[:1] == image[:1, :1]).all()) and bool((image == image[:1, :1]).all())


def shows_nothing(image: Any) -> bool:
    """Whether an image has one color, except for single photons: a few pixels that stand alone are no structure.

    At low light every match of them looks as good as no other, and so far too sure.
    """
    part = image[::8, ::8]  # says it of most images, and takes no time
    if int((part - part.min() > SMALLEST).sum()) > 0.1 * math.prod(part.shape):
        return is_constant(image)
    lit = (image - image.min() > SMALLEST).any(-1)
    if int(lit.sum()) > max(_FEW, _FEW_SHARE * math.prod(lit.shape)):
        return False
    neighbors = (lit[:, 1:] & lit[:, :-1]).sum() + (lit[1:] & lit[:-1]).sum()
    return int(neighbors) <= 0.1 * int(lit.sum())


def is_equal(one: Any, other: Any) -> bool:
    """Whether two images of one size, both arrays or both tensors, are equal in every pixel; mostly quick to say."""
    return bool((one[:1] == other[:1]).all()) and bool((one == other).all())
