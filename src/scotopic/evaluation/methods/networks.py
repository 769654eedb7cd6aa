"""Networks exported to ONNX, as methods. A small TOML file says how to feed one::

    model = "igev.onnx"        # beside this file, or anywhere
    kind = "stereo"            # "stereo", "denoiser" (then SGBM), "completion"
    name = "IGEV++"            # in the table; the file's own name without it
    layout = "NCHW"            # or "NHWC"
    channels = "RGB"           # or "BGR", "gray"
    range = [0, 255]           # what black and white become
    mean = [0.0]               # then taken away and divided by: one value, or one per channel
    std = [1.0]
    multiple = 32              # both sides are padded to it by replication, on the right and below
    sign = 1                   # -1 where the network gives x_right - x_left
    scale = 1.0                # times the output is px
    output = "disparity"       # which output; the first without it
    confidence = "certainty"   # an output that says how sure each pixel is (optional)
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

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError, SettingsError
from scotopic.evaluation.method import Map, Method, Prediction
from scotopic.evaluation.methods.denoise import DENOISERS
from scotopic.evaluation.methods.external import NAME, fill_confidence
from scotopic.evaluation.methods.extras import import_extra
from scotopic.evaluation.methods.opencv import agreement, agreement_around, match_sgbm
from scotopic.evaluation.scene import Scene
from scotopic.inputs import check_pair
from scotopic.io import as_image

KINDS = ("stereo", "denoiser", "completion")
_INPUTS = {"stereo": 2, "denoiser": 1, "completion": 2}


@dataclass(frozen=True)
class Recipe:
    """What the TOML file says; see the head of this module."""

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


def load_network(file: str, find_method: Callable[[str], Method]) -> Method:
    """Return the method that a TOML file describes.

    Parameters
    ----------
    file
        Path of the TOML file.
    find_method
        Finds the sparse method of a completion by its spec.

    Raises
    ------
    SettingsError
        The file is missing or no TOML, has a key that is unknown or a value that makes no sense, or names a model that
        is not there; the message names file and key.
    """
    recipe = read_recipe(Path(file))
    if recipe.kind == "stereo":
        return StereoNetwork(recipe)
    if recipe.kind == "denoiser":
        return DenoiserNetwork(recipe)
    try:
        return CompletionNetwork(recipe, find_method(recipe.sparse))
    except (SettingsError, InputError) as error:
        raise SettingsError(f"{file!r}, key 'sparse': {error}") from error


class StereoNetwork:
    """A network that takes a pair and gives disparity."""

    def __init__(self, recipe: Recipe) -> None:
        self.name = recipe.name
        self.recipe = recipe

    def __call__(self, left: Map, right: Map, scene: Scene, max_disparity: int) -> Prediction:
        """Match a noisy pair."""
        images = as_image(left, "left"), as_image(right, "right")
        check_pair(*images, patch_size=1)
        disparity, confidence = self._disparity(*images)
        if confidence is None:
            of_right = self._disparity(*(np.ascontiguousarray(image[:, ::-1]) for image in images[::-1]))[0][:, ::-1]
            confidence = agreement_around(agreement(disparity, of_right))
        return Prediction(disparity, disparity, confidence)

    def _disparity(self, left: Map, right: Map) -> tuple[Map, Map | None]:
        found, confidence = _run(self.recipe, [_prepare(left, self.recipe), _prepare(right, self.recipe)], left.shape)
        return _scaled(found, self.recipe), confidence


class DenoiserNetwork:
    """A network that denoises one view at a time, then SGBM."""

    def __init__(self, recipe: Recipe) -> None:
        self.name = recipe.name
        self.recipe = recipe

    def __call__(self, left: Map, right: Map, scene: Scene, max_disparity: int) -> Prediction:
        """Match a noisy pair."""
        views = [self.denoise(as_image(view, name)) for view, name in ((left, "left"), (right, "right"))]
        return match_sgbm(views[0], views[1], max_disparity)

    def denoise(self, image: Map) -> Map:
        """Return an image without its noise, in [0, 1]; gray if the network is."""
        recipe = self.recipe
        found, _ = _run(recipe, [_prepare(image, recipe)], image.shape, image_out=True)
        low, high = recipe.range
        values = (found * np.array(recipe.std) + np.array(recipe.mean) - low) / (high - low)
        if recipe.channels == "BGR":
            values = values[:, :, ::-1]
        if not np.isfinite(values).all():
            raise InputError(f"{str(recipe.model)!r}: found NaN or infinity in its image, expected finite values")
        return np.ascontiguousarray(np.clip(values, 0, 1), np.float32)


class CompletionNetwork:
    """A network that completes sparse depth with the help of an image."""

    def __init__(self, recipe: Recipe, sparse: Method) -> None:
        self.name = recipe.name
        self.recipe = recipe
        self.sparse = sparse

    def __call__(self, left: Map, right: Map, scene: Scene, max_disparity: int) -> Prediction:
        """Match a noisy pair."""
        recipe = self.recipe
        start = self.sparse(left, right, scene, max_disparity)
        image = as_image(left, "left")
        known = np.isfinite(start.disparity) & (start.disparity > 0)
        depth = np.where(known, 1 / np.where(known, start.disparity, 1), 0).astype(np.float32)[:, :, None]
        guide = _prepare(DENOISERS[recipe.denoiser](image), recipe)
        found, confidence = _run(recipe, [guide, _batched(depth, recipe)], image.shape)
        depth_out = _scaled(found, recipe)
        usable = depth_out > 0
        disparity = np.where(usable, 1 / np.where(usable, depth_out, 1), np.float32(np.nan))
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
    return _batched(values.astype(np.float32), recipe)


def _batched(values: Map, recipe: Recipe) -> Map:
    """Pad ``(H, W, C)`` to the multiple and put it in the network's layout, a batch of one.

    On the right and below: columns keep their numbers, and so do disparities.
    """
    height, width = values.shape[:2]
    padded = np.pad(values, ((0, -height % recipe.multiple), (0, -width % recipe.multiple), (0, 0)), mode="edge")
    ordered = np.moveaxis(padded, -1, 0) if recipe.layout == "NCHW" else padded
    return np.ascontiguousarray(ordered[None])


def _scaled(found: NDArray[Any], recipe: Recipe) -> Map:
    values = np.where(np.isfinite(found), found, np.nan) * (recipe.sign * recipe.scale)
    return np.asarray(values[:, :, 0], np.float32)


def _run(
    recipe: Recipe, arrays: list[Map], shape: tuple[int, ...], *, image_out: bool = False
) -> tuple[NDArray[Any], Map | None]:
    """Return the output as ``(H, W, C)`` without padding, and the confidence if the model gives one."""
    session = _session(str(recipe.model), recipe.model.stat().st_mtime_ns, recipe.name)
    inputs, outputs = session.get_inputs(), [output.name for output in session.get_outputs()]
    if len(inputs) != _INPUTS[recipe.kind]:
        raise SettingsError(
            f"{str(recipe.model)!r}: found {len(inputs)} inputs, expected {_INPUTS[recipe.kind]} for kind "
            f"{recipe.kind!r}; export it so, or change 'kind'"
        )
    wanted = [recipe.output or outputs[0], *([recipe.confidence] if recipe.confidence else [])]
    for key, name in zip(("output", "confidence"), wanted, strict=False):
        if name not in outputs:
            raise SettingsError(
                f"{str(recipe.model)!r}, key {key!r}: found {name!r}, expected one of {', '.join(outputs)}; change it"
            )
    try:
        found = session.run(wanted, {place.name: array for place, array in zip(inputs, arrays, strict=True)})
    except Exception as error:  # the runtime has a class per failure, none of which it documents
        raise InputError(
            f"{str(recipe.model)!r}: found {' '.join(str(error).split()):.300}, expected a model that runs on inputs "
            f"of shape {', '.join(str(array.shape) for array in arrays)}; check 'layout', 'channels' and 'multiple'"
        ) from error
    maps = [_cropped(values, arrays[0], recipe, shape, image_out and i == 0) for i, values in enumerate(found)]
    return maps[0], fill_confidence(maps[1][:, :, 0]) if recipe.confidence else None


def _cropped(values: NDArray[Any], given: Map, recipe: Recipe, shape: tuple[int, ...], image_out: bool) -> NDArray[Any]:
    """Return an output as ``(H, W, C)`` without the padding; a map may come with or without axes of length one."""
    height, width = given.shape[2:] if recipe.layout == "NCHW" else given.shape[1:3]
    channels = (1 if recipe.channels == "gray" else 3) if image_out else 1
    array = np.asarray(values)
    expected = (1, channels, height, width) if recipe.layout == "NCHW" else (1, height, width, channels)
    fits = array.shape == expected if channels > 1 else _without_ones(array.shape) == _without_ones(expected)
    if not fits or array.dtype.kind != "f":
        raise InputError(
            f"{str(recipe.model)!r}: found an output of shape {array.shape} and type {array.dtype}, expected floats of "
            f"shape {expected}; export it at full size"
        )
    array = array.reshape(expected).astype(np.float64)
    ordered: NDArray[Any] = np.moveaxis(array[0], 0, -1) if recipe.layout == "NCHW" else array[0]
    return ordered[: shape[0], : shape[1]]


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(length for length in shape if length != 1)


@lru_cache(maxsize=4)
def _session(model: str, changed: int, name: str) -> Any:
    """Load a model once; kept outside the method, so that a method can be sent to another process."""
    runtime = import_extra("onnxruntime", name)
    available = runtime.get_available_providers()
    providers = [p for p in ("CUDAExecutionProvider", "CPUExecutionProvider") if p in available]
    try:
        return runtime.InferenceSession(model, providers=providers)
    except Exception as error:  # as above
        raise InputError(
            f"{model!r}: found {' '.join(str(error).split()):.300}, expected a model that onnxruntime can load; export "
            "it again"
        ) from error


def read_recipe(file: Path) -> Recipe:
    """Read and check a TOML file; see the head of this module.

    Raises
    ------
    SettingsError
        Naming file and key.
    """
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:  # ValueError: no TOML, or no text
        raise SettingsError(
            f"{str(file)!r}: found {error}, expected a TOML file; check the path and the file"
        ) from error
    for key in values:
        if key not in _CHECKS:
            raise SettingsError(
                f"{str(file)!r}, key {key!r}: found an unknown key, expected one of {', '.join(_CHECKS)}; change it or "
                "leave it out"
            )
    for key in ("model", "kind"):
        if key not in values:
            raise SettingsError(f"{str(file)!r}, key {key!r}: found none, expected {_CHECKS[key][1]}; add it")
    chosen: dict[str, Any] = {"name": file.stem} | values
    for key, value in chosen.items():
        check, expected = _CHECKS[key]
        if not check(value):
            raise SettingsError(f"{str(file)!r}, key {key!r}: found {value!r}, expected {expected}; change it")
        if isinstance(value, list):
            chosen[key] = tuple(float(number) for number in value)
    chosen["model"] = (file.parent / chosen["model"]).resolve()
    if not chosen["model"].is_file():
        raise SettingsError(
            f"{str(file)!r}, key 'model': found no file {str(chosen['model'])!r}, expected an ONNX model; correct the "
            "path, which is relative to the TOML file"
        )
    recipe = Recipe(**chosen)
    planes = 1 if recipe.channels == "gray" else 3
    for key in ("mean", "std"):
        if len(getattr(recipe, key)) not in (1, planes):
            raise SettingsError(
                f"{str(file)!r}, key {key!r}: found {len(getattr(recipe, key))} values, expected 1 or {planes} for "
                f"channels {recipe.channels!r}; change it"
            )
    return recipe


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_numbers(value: object) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(_is_number(number) for number in value)


def _one_of(*choices: object) -> tuple[Callable[[Any], bool], str]:
    return lambda value: value in choices and not isinstance(value, bool), f"one of {', '.join(map(str, choices))}"


_TEXT: tuple[Callable[[Any], bool], str] = (lambda value: isinstance(value, str) and value != "", "a name")
_CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "model": (_TEXT[0], "the path of an ONNX model"),
    "kind": _one_of(*KINDS),
    "name": (
        lambda value: isinstance(value, str) and NAME.fullmatch(value) is not None,
        "letters, digits, blanks and ._+- from a letter or digit on",
    ),
    "layout": _one_of("NCHW", "NHWC"),
    "channels": _one_of("RGB", "BGR", "gray"),
    "range": (
        lambda value: _is_numbers(value) and len(value) == 2 and value[0] != value[1],
        "two different numbers, for black and white",
    ),
    "mean": (_is_numbers, "a list of numbers"),
    "std": (lambda value: _is_numbers(value) and all(value), "a list of numbers other than 0"),
    "multiple": (
        lambda value: isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 4096,
        "a whole number from 1 to 4096",
    ),
    "sign": _one_of(1, -1),
    "scale": (lambda value: _is_number(value) and value > 0, "a number above 0"),
    "output": _TEXT,
    "confidence": _TEXT,
    "sparse": (_TEXT[0], "the spec of a method"),
    "denoiser": _one_of(*DENOISERS),
}
