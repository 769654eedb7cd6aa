"""Dense disparity from a callable or from a depth-completion network in an ONNX file.

The paper's supplement completes its sparse map with such a network (Marigold-DC), given a denoised left image and depth
as ``1 / d``. A network here takes two inputs, in this order: the left image ``(1, 3, H, W)`` in [0, 1], and depth
``(1, 1, H, W)``, 0 where there is none. Its first output is the depth of every pixel, in the shape of the second input.
The image is the color map of the junctions, a denoised left image. For networks with other inputs write a callable.
"""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError, SettingsError
from scotopic.optional import import_optional

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

    Raises
    ------
    InputError
        The network cannot be run on these inputs, or its output is not a map of this size.
    """
    check_fill(fill)
    if callable(fill):
        return _check_output(fill(image, disparity, confidence), disparity.shape, "fill")
    known = np.isfinite(disparity) & (disparity > 0)
    depth = np.where(known, 1 / np.where(known, disparity, 1), 0).astype(np.float32)
    colors = np.repeat(image, 3, axis=2) if image.shape[2] == 1 else image
    planes = np.ascontiguousarray(np.moveaxis(np.clip(colors, 0, 1), -1, 0)[None], np.float32)
    found = _check_output(_run(fspath(fill), [planes, depth[None, None]]), disparity.shape, repr(fspath(fill)))
    usable = found > 0
    return np.where(usable, 1 / np.where(usable, found, 1), np.float32(np.nan)).astype(np.float32)


def _run(path: str, arrays: list[Map]) -> NDArray[Any]:
    runtime = import_optional("onnxruntime", "bench", f"filling with {path!r}")
    try:
        session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
        names = [place.name for place in session.get_inputs()]
        if len(names) != 2:
            raise ValueError(f"the model has {len(names)} inputs")
        return np.asarray(session.run(None, dict(zip(names, arrays, strict=True)))[0])
    except Exception as error:  # the runtime has a class per failure, none of which it documents
        shapes = " and ".join(str(array.shape) for array in arrays)
        raise InputError(
            f"{path!r} cannot be run on an image and depth of shapes {shapes}: {' '.join(str(error).split()):.300}. "
            "Export it for these inputs, or pass a callable."
        ) from error


def _check_output(output: Any, shape: tuple[int, ...], name: str) -> Map:
    array = np.asarray(output)
    if array.dtype.kind not in "fiu" or array.squeeze().shape != np.empty(shape).squeeze().shape:
        raise InputError(
            f"{name} returned shape {array.shape} and type {array.dtype} instead of one float per pixel, {shape}."
        )
    values = array.reshape(shape).astype(np.float32)
    return np.where(np.isfinite(values), values, np.float32(np.nan))
