"""Networks exported to ONNX, as methods, each fed as its recipe says (:mod:`~scotopic.evaluation.methods.recipes`).

Inputs are given in the order of the model: left and right; one view at a time; left image and sparse map. A model whose
two inputs have left and right in their names may have the right one first.

**Confidence.** A stereo network without a confidence of its own is run a second time on the mirrored pair, in which the
right view is a left one. With the disparities ``D_L`` and ``D_R`` of the two views, ``confidence = 1 / (1 +
|D_L(x) - D_R(x - D_L(x))|)``, 0 where a pixel has no partner: the smallest left-right difference comes first. Depth
completion takes the sparse disparities as depth ``1 / d``, 0 where there is none, and gives depth back; its confidence
is that of the sparse method. Answers outside the range of candidates stay: dropping them would flatter the network.

**Noise.** A denoiser that must be told the noise is told what the benchmark added (``Scene.noise``); that is more than
others get. Where nobody knows the noise, as in a real recording, it is estimated from the pair. Where there is none,
the denoiser is not run.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError, ScotopicError, SettingsError
from scotopic.evaluation.method import Map, Method, Predict, Prediction
from scotopic.evaluation.methods.denoise import DENOISERS, estimate_noise
from scotopic.evaluation.methods.external import fill_confidence
from scotopic.evaluation.methods.feature_matching import match_features
from scotopic.evaluation.methods.opencv import lr_difference, match_sgbm
from scotopic.evaluation.methods.recipes import LEVELS, Recipe, read_recipe, shipped_recipe, shipped_recipes
from scotopic.evaluation.scene import Noise, Scene
from scotopic.inputs import check_pair
from scotopic.io import as_image
from scotopic.onnx_model import invert, onnx_device, run_model
from scotopic.sensor import noise_curve

FindMethod = Callable[[str], Method]


def load_network(file: str, find_method: FindMethod) -> Method:
    """Return the method that a TOML file describes; `find_method` finds the sparse method of a completion by its spec.

    Raises :class:`InputError` if the file is missing or not TOML, and :class:`SettingsError` if it has an unknown key
    or a value that makes no sense, or names a model that is not there.
    """
    recipe = read_recipe(Path(file))
    try:
        sparse = find_method(recipe.sparse) if recipe.kind == "completion" else None
        return Method(
            recipe.name,
            _predict_by(recipe, sparse),
            settings=recipe.settings + (sparse.settings if sparse else ""),
            files=partial(_files_of, recipe, sparse),
            libraries=(*recipe.libraries, *(sparse.libraries if sparse else ())),
            device=onnx_device,
        )
    except ScotopicError as error:
        raise SettingsError(f"The recipe {file!r} names a 'sparse' method that cannot be used. {error}") from error


def find_network(text: str) -> Method:
    """Return the method of ``NAME`` or ``NAME=FOLDER``, a recipe that ships with the package.

    Its model does not, and is looked for only when the method is called: a plan may name it on any machine. Raises
    :class:`SettingsError` if there is no such recipe.
    """
    name, equals, folder = text.partition("=")
    if name not in shipped_recipes() or (equals and not folder):
        raise SettingsError(
            f"There is no network {text!r}. Networks are {', '.join(shipped_recipes())}, each with =FOLDER after it if "
            "its model is in a folder of yours."
        )
    return Method(
        f"network-{name}",
        partial(_predict_shipped, name, folder or None),
        files=partial(_files_of_shipped, name, folder or None),
        libraries=("onnxruntime", "onnxruntime-gpu", "numba"),
        device=onnx_device,
    )


def _files_of(recipe: Recipe, sparse: Method | None, dataset: str, scene: str) -> list[Path]:
    return [*recipe.models, *(sparse.files(dataset, scene) if sparse else ())]


def _files_of_shipped(name: str, folder: str | None, dataset: str, scene: str) -> list[Path]:
    return shipped_recipe(name, folder).models


def _predict_shipped(
    name: str, folder: str | None, left: Map, right: Map, scene: Scene, max_disparity: int
) -> Prediction:
    return _predict_by(shipped_recipe(name, folder), None)(left, right, scene, max_disparity)


def _predict_by(recipe: Recipe, sparse: Method | None) -> Predict:
    if recipe.kind == "completion":
        if sparse is None:
            raise SettingsError(f"The recipe {recipe.name!r} completes a method, and must be used as onnx:FILE.toml.")
        return partial(predict_completion, recipe, sparse)
    kinds = {"stereo": predict_stereo, "features": predict_by_features, "denoiser": predict_denoised}
    return partial(kinds[recipe.kind], recipe)


def predict_stereo(recipe: Recipe, left: Map, right: Map, scene: Scene, max_disparity: int) -> Prediction:
    """Match a noisy pair by a network that takes a pair and gives disparity."""

    def run(left: Map, right: Map) -> tuple[Map, Map | None]:
        views = [_scale_values(view, recipe) for view in (left, right)]
        if recipe.views == "stacked":
            views = [np.concatenate(views, axis=2)]
        batches = [_as_batch(view, recipe) for view in views]
        found, confidence = _run(recipe, batches, left.shape, roles=("left", "right") if len(views) == 2 else ())
        return _in_px(found, recipe), confidence

    images = _prepare_pair(recipe, left, right, scene)
    disparity, confidence = run(*images)
    if confidence is None:
        mirrored, _ = run(*(np.ascontiguousarray(image[:, ::-1]) for image in images[::-1]))
        confidence = rank_by_difference(disparity, mirrored[:, ::-1])
    return Prediction(disparity, disparity, confidence)


def predict_by_features(recipe: Recipe, left: Map, right: Map, scene: Scene, max_disparity: int) -> Prediction:
    """Match a noisy pair by a network that gives each pixel of a view a vector, and semi-global matching."""
    features = []
    for image in _prepare_pair(recipe, left, right, scene):
        batch = _as_batch(_scale_values(image, recipe), recipe)
        found, _ = _run(recipe, [batch], image.shape, channels=None)
        features.append(np.ascontiguousarray(found, np.float32))
    disparity, of_right = match_features(features[0], features[1], max_disparity, recipe.p1, recipe.p2)
    return Prediction(disparity, disparity, rank_by_difference(disparity, of_right))


def predict_denoised(recipe: Recipe, left: Map, right: Map, scene: Scene, max_disparity: int) -> Prediction:
    """Denoise both views of a noisy pair by a network, then match them by SGBM."""
    images = _check(left, right)
    std = _noise_of(scene, images).std
    clean = [np.clip(denoise(recipe, image, std), 0, 1) for image in images]
    return match_sgbm(clean[0], clean[1], max_disparity)


def predict_completion(
    recipe: Recipe, sparse: Method, left: Map, right: Map, scene: Scene, max_disparity: int
) -> Prediction:
    """Match a noisy pair by a sparse method, and complete its depth by a network that also sees the left image."""
    start = sparse(left, right, scene, max_disparity)
    images = _check(left, right)
    noise = _noise_of(scene, images) if _asks_for_noise(recipe) else Noise(0.0)
    image = _prepare_view(recipe, images[0], noise, "nlm")
    depth = _as_batch(invert(start.disparity, missing=0.0)[:, :, None], recipe)
    found, confidence = _run(recipe, [_as_batch(_scale_values(image, recipe), recipe), depth], image.shape)
    disparity = invert(_in_px(found, recipe), missing=np.nan)
    return Prediction(disparity, disparity, fill_confidence(start.confidence) if confidence is None else confidence)


def denoise(recipe: Recipe, image: Map, std: float) -> Map:
    """Return an image in [0, 1] without its noise of standard deviation `std`; gray if the network is.

    A network that is told the noise and was trained for less of it sees a darker image, in which the noise is what it
    knows; the answer is brightened again. Values may leave [0, 1] a little.
    """
    if std == 0:
        return _choose_channels(image, recipe)
    most = np.inf if recipe.max_noise is None else recipe.max_noise / LEVELS
    gain = min(1.0, most / std)
    low, high = recipe.range
    values = _scale_values(_choose_channels(image, recipe) * np.float32(gain), recipe)
    level = gain * std * abs((high - low) / recipe.std[0])
    if recipe.noise_input == "channel":
        values = np.concatenate([values, np.full_like(values[:, :, :1], level)], axis=2)
    inputs = [_as_batch(values, recipe)]
    if recipe.noise_input == "value":
        inputs.append(np.full((1, 1, 1, 1), level, np.float32))
    found, _ = _run(recipe, inputs, image.shape, channels=recipe.planes)
    values = (found * np.array(recipe.std) + np.array(recipe.mean) - low) / (high - low)
    if recipe.channels == "BGR":
        values = values[:, :, ::-1]
    if not np.isfinite(values).all():
        raise InputError(f"The image that {str(recipe.model)!r} gives holds NaN or infinity.")
    return np.ascontiguousarray(values / gain, np.float32)


def rank_by_difference(left: Map, right: Map) -> Map:
    """Return a confidence that ranks left pixels by their left-right difference, the smallest first."""
    return np.asarray(1 / (1 + lr_difference(left, right)), np.float32)


def _check(left: Map, right: Map) -> tuple[Map, Map]:
    images = as_image(left, "left"), as_image(right, "right")
    check_pair(*images, patch_size=1)
    return images


def _prepare_pair(recipe: Recipe, left: Map, right: Map, scene: Scene) -> list[Map]:
    """Return both views in the network's channels and in [0, 1], denoised and stretched if the recipe says so."""
    images = _check(left, right)
    noise = _noise_of(scene, images) if _asks_for_noise(recipe) else Noise(0.0)
    return [_prepare_view(recipe, image, noise) for image in images]


def _asks_for_noise(recipe: Recipe) -> bool:
    return recipe.stretch or isinstance(recipe.denoiser, Recipe)


def _prepare_view(recipe: Recipe, image: Map, noise: Noise, denoiser: str | None = None) -> Map:
    chosen = recipe.denoiser or denoiser
    if isinstance(chosen, Recipe):
        image = denoise(chosen, image, noise.std)
    elif chosen is not None:
        image = DENOISERS[chosen](image)
    image = _choose_channels(image, recipe)
    if recipe.stretch:
        image = (image - np.float32(noise.black)) / np.float32(noise.white - noise.black)
    return np.asarray(np.clip(image, 0, 1), np.float32)


def _noise_of(scene: Scene, images: Sequence[Map]) -> Noise:
    """Return the noise of a scene as far as it is known, or estimate its standard deviation from the pair."""
    if scene.noise is not None:
        return scene.noise
    try:
        std = float(np.sqrt(np.median(noise_curve(list(images)).variance)))
    except InputError:  # too small, or mostly black
        std = float(np.mean([estimate_noise(image) for image in images]))
    return Noise(std)


def _choose_channels(image: Map, recipe: Recipe) -> Map:
    """Return an image as gray or with three channels, as the network wants it."""
    if recipe.channels == "gray":
        return image if image.shape[2] == 1 else image @ np.array(recipe.gray_weights, np.float32)[:, None]
    return np.repeat(image, 3, axis=2) if image.shape[2] == 1 else image


def _scale_values(image: Map, recipe: Recipe) -> Map:
    """Return an image in [0, 1], in the network's channels, with the network's values and order of channels."""
    low, high = recipe.range
    values = low + (high - low) * (image[:, :, ::-1] if recipe.channels == "BGR" else image)
    if recipe.normalize == "image":
        return np.asarray((values - values.mean()) / (values.std() or 1), np.float32)
    return np.asarray((values - np.array(recipe.mean)) / np.array(recipe.std), np.float32)


def _as_batch(values: Map, recipe: Recipe) -> Map:
    """Pad ``(H, W, C)`` to the multiple and put it in the network's layout, a batch of one.

    On the right and below: columns keep their numbers, and so do disparities.
    """
    height, width = values.shape[:2]
    sides = ((0, -height % recipe.multiple), (0, -width % recipe.multiple), (0, 0))
    padded = np.pad(values, sides, mode="reflect" if recipe.padding == "reflect" else "edge")
    ordered = np.moveaxis(padded, -1, 0) if recipe.layout == "NCHW" else padded
    return np.ascontiguousarray(ordered[None])


def _in_px(found: NDArray[Any], recipe: Recipe) -> Map:
    values = np.where(np.isfinite(found), found, np.nan) * (recipe.sign * recipe.scale)
    return np.asarray(values[:, :, 0], np.float32)


def _run(
    recipe: Recipe, arrays: list[Map], shape: tuple[int, ...], *, channels: int | None = 1, roles: Sequence[str] = ()
) -> tuple[NDArray[Any], Map | None]:
    """Return the output as ``(H, W, C)`` without padding, and the confidence if the model gives one.

    `channels` is how many the output must have, ``None`` for any number. `roles` are those of :func:`run_model`.
    """
    outputs = [recipe.output, recipe.confidence] if recipe.confidence else [recipe.output]
    advice = "Check 'kind', 'layout', 'channels', 'views', 'noise_input' and 'multiple'."
    found = run_model(recipe.model, arrays, outputs, f"method {recipe.name!r}", advice, roles=roles)
    maps = [_crop(values, arrays[0], recipe, shape, 1 if i else channels) for i, values in enumerate(found)]
    return maps[0], fill_confidence(maps[1][:, :, 0]) if recipe.confidence else None


def _crop(
    values: NDArray[Any], given: Map, recipe: Recipe, shape: tuple[int, ...], channels: int | None
) -> NDArray[Any]:
    """Return an output as ``(H, W, C)`` without the padding; a map may come with or without axes of length one."""
    is_first = recipe.layout == "NCHW"  # the axis of the channels
    height, width = given.shape[2:] if is_first else given.shape[1:3]
    array = np.asarray(values)
    if channels is None:
        channels = int(array.shape[1 if is_first else -1]) if array.ndim == 4 else 1
    expected = (1, channels, height, width) if is_first else (1, height, width, channels)
    is_map = channels == 1 and array.squeeze().shape == tuple(length for length in expected if length != 1)
    if not (is_map or array.shape == expected) or array.dtype.kind != "f":
        raise InputError(
            f"{str(recipe.model)!r} gives {array.dtype} of shape {array.shape}, but must give floats of shape "
            f"{expected}. Export it at full size."
        )
    array = array.reshape(expected).astype(np.float64)
    ordered: NDArray[Any] = np.moveaxis(array[0], 0, -1) if is_first else array[0]
    return ordered[: shape[0], : shape[1]]
