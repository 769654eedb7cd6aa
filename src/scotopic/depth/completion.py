"""Other ways to fill: a callable, or a depth-completion network in an ONNX file.

The paper's supplement fills its sparse map with such a network (Marigold-DC), fed a denoised left image and depth as
``1 / d``. A network here takes two inputs, in this order: the left image ``(1, 3, H, W)`` in [0, 1], and depth
``(1, 1, H, W)``, 0 where there is none. Its first output is the depth of every pixel, of the second input's shape. The
image is the junctions' color map, which is the left image without its noise. Networks that want to be fed otherwise
fit in a callable.
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
    """Raise :class:`SettingsError` unless this is a callable, or a file that is there."""
    if callable(fill):
        return
    if not isinstance(fill, str | PathLike) or not Path(fill).is_file():
        found = f"no file {fspath(fill)!r}" if isinstance(fill, str | PathLike) else type(fill).__name__
        raise SettingsError(
            f"fill: found {found}, expected a callable (image, disparity, confidence) or an ONNX file; correct the path"
        )


def complete(fill: Fill, image: Map, disparity: Map, confidence: Map) -> Map:
    """Return the disparity of every pixel as a callable or a network says it.

    Raises
    ------
    InputError
        The network cannot be run on this, or the answer is not a map of this size.
    """
    check_fill(fill)
    if callable(fill):
        return _checked(fill(image, disparity, confidence), disparity.shape, "fill")
    name = repr(fspath(fill))
    known = np.isfinite(disparity) & (disparity > 0)
    depth = np.where(known, 1 / np.where(known, disparity, 1), 0).astype(np.float32)
    colors = np.repeat(image, 3, axis=2) if image.shape[2] == 1 else image
    planes = np.ascontiguousarray(np.moveaxis(np.clip(colors, 0, 1), -1, 0)[None], np.float32)
    found = _checked(_run(fspath(fill), [planes, depth[None, None]]), disparity.shape, name)
    usable = found > 0
    return np.where(usable, 1 / np.where(usable, found, 1), np.float32(np.nan)).astype(np.float32)


def _run(path: str, arrays: list[Map]) -> NDArray[Any]:
    runtime = import_optional("onnxruntime", "bench", f"filling with {path!r}")
    try:
        session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
        names = [place.name for place in session.get_inputs()]
        if len(names) != 2:
            raise ValueError(f"{len(names)} inputs")
        return np.asarray(session.run(None, dict(zip(names, arrays, strict=True)))[0])
    except Exception as error:  # the runtime has a class per failure, none of which it documents
        shapes = " and ".join(str(array.shape) for array in arrays)
        raise InputError(
            f"{path!r}: found {' '.join(str(error).split()):.300}, expected a model that takes an image and depth of "
            f"shapes {shapes}; export it so, or give a callable"
        ) from error


def _checked(found: Any, shape: tuple[int, ...], name: str) -> Map:
    array = np.asarray(found)
    if array.dtype.kind not in "fiu" or array.squeeze().shape != np.empty(shape).squeeze().shape:
        raise InputError(
            f"{name}: found an answer of shape {array.shape} and type {array.dtype}, expected floats of shape {shape}; "
            "return one disparity per pixel"
        )
    values = array.reshape(shape).astype(np.float32)
    return np.where(np.isfinite(values), values, np.float32(np.nan))
