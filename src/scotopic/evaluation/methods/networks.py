"""Networks exported to ONNX, as methods. A small TOML file says how to feed one::

    model = "igev.onnx"        # beside this file, or anywhere
    kind = "stereo"            # "stereo", "denoiser" (then SGBM), "completion"
    name = "IGEV++"            # in the table; the file's own name without it
    layout = "NCHW"            # or "NHWC"
    channels = "RGB"           # or "BGR", "gray"
    range = [0, 255]           # what black and white become
    mean = [0.0]               # then subtracted, and divided by std: one value, or one per channel
    std = [1.0]
    multiple = 32              # sides are padded to multiples of it by replication, on the right and below
    sign = 1                   # -1 where the network gives x_right - x_left
    scale = 1.0                # the output times this is in px
    output = "disparity"       # which output; the first without it
    confidence = "certainty"   # an output with the confidence of each pixel (optional)
    sparse = "scotopic:paper"  # completion only: the method whose answers are completed
    denoiser = "nlm"           # completion only: for its left image

Only ``model`` and ``kind`` must be there; the others show their defaults, but for ``name``, ``output`` and
``confidence`` and for ``multiple``, which is 1. Inputs are given in the order of the model: left and right; one view at
a time; left image and sparse map.

A stereo network without a confidence of its own is run a second time on the mirrored pair, and its confidence is how
well the two views agree (:mod:`~scotopic.evaluation.methods.opencv`). Depth completion takes the sparse disparities as
depth ``1 / d``, 0 where there is none, and gives depth back; its confidence is that of the sparse method. Answers
outside the range of candidates stay: dropping them would flatter the network.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError, ScotopicError, SettingsError
from scotopic.evaluation import toml_files as toml
from scotopic.evaluation.method import Map, Method, Predict, Prediction
from scotopic.evaluation.methods.denoise import DENOISERS, predict_denoised_sgbm
from scotopic.evaluation.methods.external import NAME, fill_confidence
from scotopic.evaluation.methods.opencv import lr_confidence
from scotopic.evaluation.scene import Scene
from scotopic.inputs import check_pair
from scotopic.io import as_image
from scotopic.onnx_model import invert, run_model

_CHECKS: dict[str, toml.Check] = {
    "model": toml.TEXT,
    "kind": toml.one_of("stereo", "denoiser", "completion"),
    "name": (
        lambda value: isinstance(value, str) and NAME.fullmatch(value) is not None,
        "letters, digits, blanks and ._+-, beginning with a letter or digit",
    ),
    "layout": toml.one_of("NCHW", "NHWC"),
    "channels": toml.one_of("RGB", "BGR", "gray"),
    "range": (
        lambda value: toml.list_of(toml.NUMBER)[0](value) and len(value) == 2 and value[0] != value[1],
        "two different numbers, for black and white",
    ),
    "mean": toml.list_of(toml.NUMBER),
    "std": toml.list_of((lambda value: toml.is_number(value) and value != 0, "a number other than 0")),
    "multiple": toml.whole(1, 4096),
    "sign": toml.one_of(1, -1),
    "scale": toml.POSITIVE,
    "output": toml.TEXT,
    "confidence": toml.TEXT,
    "sparse": toml.TEXT,
    "denoiser": toml.one_of(*DENOISERS),
}


@dataclass(frozen=True)
class Recipe:
    """The content of the TOML file; see the head of this module."""

    model: Path
    kind: str
    name: str
    layout: str = "NCHW"
    channels: str = "RGB"
    range: tuple[float, ...] = (0.0, 255.0)
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    multiple: int = 1
    sign: int = 1
    scale: float = 1.0
    output: str | None = None
    confidence: str | None = None
    sparse: str = "scotopic:paper"
    denoiser: str = "nlm"

    @property
    def planes(self) -> int:
        """Number of channels of the network's image."""
        return 1 if self.channels == "gray" else 3


def load_network(file: str, find_method: Callable[[str], Method]) -> Method:
    """Return the method that a TOML file describes; `find_method` finds the sparse method of a completion by its spec.

    Raises :class:`InputError` if the file is missing or not TOML, and :class:`SettingsError` if it has an unknown key
    or a value that makes no sense, or names a model that is not there.
    """
    recipe = read_recipe(Path(file))
    predict: Predict
    if recipe.kind == "stereo":
        predict = partial(predict_stereo, recipe)
    elif recipe.kind == "denoiser":
        predict = partial(predict_denoised_sgbm, partial(denoise, recipe))
    else:
        try:
            predict = partial(predict_completion, recipe, find_method(recipe.sparse))
        except ScotopicError as error:
            raise SettingsError(f"The recipe {file!r} names a 'sparse' method that cannot be used. {error}") from error
    return Method(recipe.name, predict)


def predict_stereo(recipe: Recipe, left: Map, right: Map, scene: Scene, max_disparity: int) -> Prediction:
    """Match a noisy pair by a network that takes a pair and gives disparity."""
    images = as_image(left, "left"), as_image(right, "right")
    check_pair(*images, patch_size=1)

    def run(left: Map, right: Map) -> tuple[Map, Map | None]:
        found, confidence = _run(recipe, [_prepare(left, recipe), _prepare(right, recipe)], left.shape)
        return _in_px(found, recipe), confidence

    disparity, confidence = run(*images)
    if confidence is None:
        mirrored, _ = run(*(np.ascontiguousarray(image[:, ::-1]) for image in images[::-1]))
        confidence = lr_confidence(disparity, mirrored[:, ::-1])
    return Prediction(disparity, disparity, confidence)


def denoise(recipe: Recipe, image: Map) -> Map:
    """Return an image without its noise, in [0, 1]; gray if the network is."""
    found, _ = _run(recipe, [_prepare(image, recipe)], image.shape, image_out=True)
    low, high = recipe.range
    values = (found * np.array(recipe.std) + np.array(recipe.mean) - low) / (high - low)
    if recipe.channels == "BGR":
        values = values[:, :, ::-1]
    if not np.isfinite(values).all():
        raise InputError(f"The image that {str(recipe.model)!r} gives holds NaN or infinity.")
    return np.ascontiguousarray(np.clip(values, 0, 1), np.float32)


def predict_completion(
    recipe: Recipe, sparse: Method, left: Map, right: Map, scene: Scene, max_disparity: int
) -> Prediction:
    """Match a noisy pair by a sparse method, and complete its depth by a network that also sees the left image."""
    start = sparse(left, right, scene, max_disparity)
    image = as_image(left, "left")
    depth = _as_batch(invert(start.disparity, missing=0.0)[:, :, None], recipe)
    found, confidence = _run(recipe, [_prepare(DENOISERS[recipe.denoiser](image), recipe), depth], image.shape)
    disparity = invert(_in_px(found, recipe), missing=np.nan)
    return Prediction(disparity, disparity, fill_confidence(start.confidence) if confidence is None else confidence)


def _prepare(image: Map, recipe: Recipe) -> Map:
    """Return an image in [0, 1] as the network's input."""
    channels = image
    if recipe.channels == "gray":
        channels = image.mean(axis=2, keepdims=True)
    elif image.shape[2] == 1:
        channels = np.repeat(image, 3, axis=2)
    if recipe.channels == "BGR":
        channels = channels[:, :, ::-1]
    low, high = recipe.range
    values = (low + (high - low) * channels - np.array(recipe.mean)) / np.array(recipe.std)
    return _as_batch(values.astype(np.float32), recipe)


def _as_batch(values: Map, recipe: Recipe) -> Map:
    """Pad ``(H, W, C)`` to the multiple and put it in the network's layout, a batch of one.

    On the right and below: columns keep their numbers, and so do disparities.
    """
    height, width = values.shape[:2]
    padded = np.pad(values, ((0, -height % recipe.multiple), (0, -width % recipe.multiple), (0, 0)), mode="edge")
    ordered = np.moveaxis(padded, -1, 0) if recipe.layout == "NCHW" else padded
    return np.ascontiguousarray(ordered[None])


def _in_px(found: NDArray[Any], recipe: Recipe) -> Map:
    values = np.where(np.isfinite(found), found, np.nan) * (recipe.sign * recipe.scale)
    return np.asarray(values[:, :, 0], np.float32)


def _run(
    recipe: Recipe, arrays: list[Map], shape: tuple[int, ...], *, image_out: bool = False
) -> tuple[NDArray[Any], Map | None]:
    """Return the output as ``(H, W, C)`` without padding, and the confidence if the model gives one."""
    outputs = [recipe.output, recipe.confidence] if recipe.confidence else [recipe.output]
    advice = "Check 'kind', 'layout', 'channels' and 'multiple'."
    found = run_model(recipe.model, arrays, outputs, f"method {recipe.name!r}", advice)
    maps = [_crop(values, arrays[0], recipe, shape, image_out and i == 0) for i, values in enumerate(found)]
    return maps[0], fill_confidence(maps[1][:, :, 0]) if recipe.confidence else None


def _crop(values: NDArray[Any], given: Map, recipe: Recipe, shape: tuple[int, ...], image_out: bool) -> NDArray[Any]:
    """Return an output as ``(H, W, C)`` without the padding; a map may come with or without axes of length one."""
    height, width = given.shape[2:] if recipe.layout == "NCHW" else given.shape[1:3]
    channels = recipe.planes if image_out else 1
    array = np.asarray(values)
    expected = (1, channels, height, width) if recipe.layout == "NCHW" else (1, height, width, channels)
    is_map = channels == 1 and array.squeeze().shape == tuple(length for length in expected if length != 1)
    if not (is_map or array.shape == expected) or array.dtype.kind != "f":
        raise InputError(
            f"{str(recipe.model)!r} gives {array.dtype} of shape {array.shape}, but must give floats of shape "
            f"{expected}. Export it at full size."
        )
    array = array.reshape(expected).astype(np.float64)
    ordered: NDArray[Any] = np.moveaxis(array[0], 0, -1) if recipe.layout == "NCHW" else array[0]
    return ordered[: shape[0], : shape[1]]


def read_recipe(file: Path) -> Recipe:
    """Read and check a TOML file; see the head of this module and :func:`load_network`."""
    what = f"The recipe {str(file)!r}"
    values = {"name": file.stem} | toml.read_toml(file, "The recipe")
    if values.get("channels") == "grey":  # as it was spelled before
        values["channels"] = "gray"
    toml.check_keys(what, values, list(_CHECKS), required=("model", "kind"))
    toml.check_values(what, values, _CHECKS)
    chosen: dict[str, Any] = {
        key: tuple(map(float, value)) if isinstance(value, list) else value for key, value in values.items()
    }
    chosen["model"] = (file.parent / chosen["model"]).resolve()
    if not chosen["model"].is_file():
        raise SettingsError(
            f"{what}: 'model' names {str(chosen['model'])!r}, which is not there. Paths are relative to the recipe."
        )
    recipe = Recipe(**chosen)
    for key in ("mean", "std"):
        count = len(getattr(recipe, key))
        if count not in (1, recipe.planes):
            raise SettingsError(
                f"{what}: {key!r} must have 1 or {recipe.planes} values for channels {recipe.channels!r}, not {count}."
            )
    return recipe
