"""Dense disparity from a callable or from a depth-completion network in an ONNX file.

The paper's supplement completes its sparse map with such a network (Marigold-DC), given a denoised left image and depth
as ``1 / d``. A network here takes two inputs, in this order: the left image ``(1, 3, H, W)`` in [0, 1], and depth
``(1, 1, H, W)``, 0 where there is none. Its first output is the depth of every pixel, in the shape of the second input.
The image is the color map of the junctions, a denoised left image. For networks with other inputs write a callable.
"""

from collections.abc import Callable
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError, SettingsError
from scotopic.io.masks import masked_to_nan
from scotopic.onnx_model import invert, run_model

Map = NDArray[np.float32]

#: Takes the left image ``(H, W, C)``, the sparse disparity (NaN where there is none) and its confidence, ``(H, W)``.
Fill = Callable[[Map, Map, Map], NDArray[Any]] | str | PathLike[str]


def check_fill(fill: Any) -> None:
    """Raise :class:`SettingsError` unless this is a callable or an existing file."""
    if callable(fill):
        return
    if not isinstance(fill, str | PathLike) or not Path(fill).is_file():
        found = f"There is no file {fspath(fill)!r}" if isinstance(fill, str | PathLike) else f"It is {type(fill)}"
        raise SettingsError(
            f"fill must be a callable (image, disparity, confidence) or the path of an ONNX file. {found}."
        )


def complete(fill: Fill, image: Map, disparity: Map, confidence: Map) -> Map:
    """Return the disparity of every pixel that a callable or a network predicts.

    Raises :class:`InputError` if the network cannot be run on these inputs or gives no map of this size, and
    :class:`SettingsError` if it does not take two inputs.
    """
    check_fill(fill)
    if callable(fill):
        return _check_output(fill(image, disparity, confidence), disparity.shape, "fill")
    path = Path(fill)
    colors = np.repeat(image, 3, axis=2) if image.shape[2] == 1 else image
    planes = np.ascontiguousarray(np.moveaxis(np.clip(colors, 0, 1), -1, 0)[None], np.float32)
    arrays = [planes, invert(disparity, missing=0.0)[None, None]]
    advice = "Export it for an image and depth, or pass a callable."
    (found,) = run_model(path, arrays, [None], f"filling with {str(path)!r}", advice, use_gpu=False)
    return invert(_check_output(found, disparity.shape, repr(str(path))), missing=np.nan)


def _check_output(output: Any, shape: tuple[int, ...], name: str) -> Map:
    array = np.asarray(masked_to_nan(output))
    if array.dtype.kind not in "fiu" or array.squeeze().shape != np.empty(shape).squeeze().shape:
        raise InputError(
            f"{name} returned shape {array.shape} and type {array.dtype} instead of one float per pixel, {shape}."
        )
    values = array.reshape(shape).astype(np.float32)
    return np.where(np.isfinite(values), values, np.float32(np.nan))
