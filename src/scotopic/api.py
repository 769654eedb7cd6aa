"""What most people call: match a pair, fit junctions to one image. Streams are in :mod:`scotopic.streams`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from scotopic.backends import cpu_backend, cuda_backend
from scotopic.backends.device import is_on_gpu, resolve_device, to_numpy
from scotopic.depth.rectification import SAME_IMAGE, check_rectified, is_same_image
from scotopic.errors import DarkImageWarning, InputError, PairWarning, SettingsError, lists_parameters
from scotopic.fusion.stream import restore_colors
from scotopic.inputs import Image, Layout, check_pair, check_size, shows_nothing, split_pairs, take_image
from scotopic.io import image_title
from scotopic.io.masks import pixel_mask
from scotopic.kernel_cache import guard_kernel_cache
from scotopic.levels import Levels, find_levels
from scotopic.pipelines import run_pipeline
from scotopic.pipelines.memory import fit_to_memory
from scotopic.progress import Progress, Share, silent, unheard
from scotopic.result import Match
from scotopic.settings import JunctionSettings, Settings, settings_for
from scotopic.stages.consistency import Reason
from scotopic.stages.junctions.fit import Junctions, check_fields, fit_fields

if TYPE_CHECKING:
    from scotopic.stages.completion import Fill

Pair = tuple[Image, Image]
Fields = tuple[Junctions[np.ndarray], Junctions[np.ndarray]]


@overload
def match(
    left: Image,
    right: Image,
    preset: str | Settings = ...,
    device: str = ...,
    *,
    layout: Literal["HWC", "CHW"] = ...,
    junctions: Fields | None = ...,
    fill: Fill | None = ...,
    normalize: bool = ...,
    check: bool | None = ...,
    progress: Progress = ...,
    **overrides: Any,
) -> Match: ...
@overload
def match(
    left: Image, right: Image, preset: str | Settings = ..., device: str = ..., *, layout: Literal["BCHW"], **rest: Any
) -> list[Match]: ...
@lists_parameters
def match(
    left: Image,
    right: Image,
    preset: str | Settings = "best",
    device: str = "auto",
    *,
    layout: Layout = "HWC",
    junctions: Fields | None = None,
    fill: Fill | None = None,
    normalize: bool = True,
    check: bool | None = None,
    progress: Progress = silent,
    **overrides: Any,
) -> Match | list[Match]:
    """Match a rectified, noisy stereo pair.

    Parameters
    ----------
    left, right
        Arrays (uint8, uint16 or float in [0, 1]; gray or RGB) or paths, of the same size, ``x_right = x_left - d``.
        Torch tensors that are on the GPU stay there, and the result is made of such tensors. Pixels that are masked in
        a masked array get no disparity, nor do those whose partner is masked (``Reason.MASKED``): hot pixels, the
        camera's own hood, a logo.
    preset
        ``"best"``, the most accurate answer that needs no learning; ``"paper"``, the published method to the letter; or
        ``"fast"``, the same method at a small fraction of the cost. Or a :class:`Settings` object, such as
        ``result.settings``, to match with the same settings again.
    device
        ``"auto"``, ``"cpu"`` or ``"cuda"``. ``auto`` takes the GPU where there is one.
    layout
        ``"HWC"`` (or gray ``H x W``), ``"CHW"``, or ``"BCHW"`` for batches of pairs, which give a list of matches.
    junctions
        The two views' fields of junctions, where they are known already: to try other matching settings on them, or
        fitted by other means. Their settings replace the preset's.
    fill
        How to make :attr:`Match.filled` other than by planes between boundaries: a callable that takes the denoised
        left image, the disparity and its confidence, and returns the disparity of every pixel; or the ONNX file of a
        depth-completion network (see :mod:`scotopic.stages.completion`).
    normalize
        Scale a pair that uses less than half of the range of its format, such as 12 bits in a file of 16, so that it
        uses more (:mod:`scotopic.levels`). Less than a tenth gives a :class:`~scotopic.errors.DarkImageWarning` too.
        The images in the result stay as recorded. Not done where `junctions` are given.
    check
        Give a :class:`~scotopic.errors.PairWarning` if the pair is one image twice, swapped or not rectified, in the
        words of the commands (:func:`scotopic.depth.check_rectified`; 0.1 to 0.2 s on the CPU). By default on the CPU
        all of it, which is a small part of any match, and on the GPU, where it would be most of it, only whether the
        views are one image. ``False`` leaves it out.
    progress
        Called with the stage's name and the share of it that is done.
    **overrides
        Any setting of the preset's pipeline by name, such as ``max_disparity=64`` (:mod:`scotopic.settings`).

    Returns
    -------
    Match
        Disparity where it can be trusted, how sure it is, and why not elsewhere. A list of them for a batch.

    Raises
    ------
    ScotopicError
        An input or a setting cannot be used; the message says which, and what to do.

    References
    ----------
    Wang, Nguyen, Eom, Xu and Guo, "Non-Learning Low-light Stereo Vision", 2026.

    Examples
    --------
    >>> import scotopic
    >>> scene = scotopic.render_scene(width=192, height=96)
    >>> noisy = scotopic.simulate_pair(scene.left, scene.right, photons=2, read_noise=2)
    >>> result = scotopic.match(*noisy, preset="fast", max_disparity=32)
    >>> result.disparity.shape
    (96, 192)
    """
    settings = settings_for("match", preset, overrides)
    if fill is not None:
        from scotopic.stages.completion import check_fill  # few need it, so it is not imported with the package

        check_fill(fill)
    if junctions is not None:
        is_two = isinstance(junctions, Sequence) and len(junctions) == 2
        if not is_two or not all(isinstance(each, Junctions) for each in junctions):
            raise InputError(
                "junctions are those of both views, (left, right), as scotopic.fit_junctions returns them."
            )
        settings = replace(settings, junctions=junctions[0].settings)
    device = resolve_device(device, left, right)
    if layout == "HWC":
        return _match_one((left, right), settings, device, junctions, fill, normalize, check, progress)
    pairs = split_pairs(left, right, layout)
    found = [_match_one(pair, settings, device, junctions, fill, normalize, check, progress) for pair in pairs]
    return found if layout == "BCHW" else found[0]


def warn_about_pair(images: Sequence[Any], settings: Settings, device: str, check: bool | None) -> None:
    """Warn, in the words of the commands, about a pair of images that looks wrong; ``check`` as for :func:`match`."""
    found: tuple[str, ...] = ()
    if check or (check is None and device == "cpu"):
        found = check_rectified(*to_numpy(*images), min_disparity=settings.matching.min_disparity).warnings
    elif check is None and is_same_image(*images):
        found = (SAME_IMAGE,)
    for each in found:
        warnings.warn(each, PairWarning, stacklevel=4)  # where match was called


def warn_about_range(result: Match, stacklevel: int = 4) -> bool:
    """Warn, where :func:`match` was called, if the search range seems too short; return whether there was a warning."""
    if (doubt := result.doubt_range()) is None:
        return False
    warnings.warn(doubt, PairWarning, stacklevel=stacklevel)
    return True


def _match_one(
    pair: Pair,
    settings: Settings,
    device: str,
    junctions: Fields | None,
    fill: Fill | None,
    normalize: bool,
    check: bool | None,
    progress: Progress,
) -> Match:
    names = f"{image_title(pair[0], 'left')} and {image_title(pair[1], 'right')}"
    images = take_image(pair[0], "left"), take_image(pair[1], "right")
    check_pair(*images, settings.junctions.patch_size, names=names)
    settings = replace(settings, matching=settings.matching.for_width(images[0].shape[1]))
    if junctions is not None:
        check_fields(junctions, images[0].shape)
    warn_about_pair(images, settings, device, check)
    if any(shows_nothing(image) for image in images):
        result, levels = Match.empty(*images, settings, Reason.NO_STRUCTURE), Levels()
    else:
        # Given junctions were fitted to the recorded values.
        levels = find_pair_levels(images) if normalize and junctions is None else Levels()
        scaled = levels.apply(images[0]), levels.apply(images[1])
        if device == "cuda":
            settings = fit_to_memory(settings, images[0].shape)
        else:
            guard_kernel_cache()
        result = run_pipeline(device, scaled, settings, junctions=junctions, progress=progress)
    result = result.masked(pixel_mask(pair[0]), pixel_mask(pair[1]))
    if fill is not None:
        from scotopic.stages.completion import complete

        # Copies, since a callable may fill in the map that it is given.
        given = [each.copy() for each in to_numpy(result.left_colors, result.disparity, result.confidence)]
        result = replace(result, completed=complete(fill, given[0], given[1], given[2]))
    result = restore_colors(result, levels)
    result = replace(result, left_image=images[0], right_image=images[1])
    if is_on_gpu(pair[0]):
        return result.to_device(device)
    result = result.to_numpy()
    if check is not False:
        warn_about_range(result)
    return result


def find_pair_levels(images: Sequence[Any]) -> Levels:
    """Return the levels of a pair, with a warning where it uses little of its range."""
    levels = find_levels(*images)
    if levels.warning is not None:
        warnings.warn(levels.warning, DarkImageWarning, stacklevel=4)
    return levels


def fit_junctions(
    image: Image,
    settings: JunctionSettings | None = None,
    *,
    device: str = "auto",
    progress: Share = unheard,
    name: str = "image",
) -> Junctions[np.ndarray]:
    """Fit a field of junctions to one image.

    Parameters
    ----------
    image
        Array (uint8, uint16 or float in [0, 1]; gray or RGB) or path, at least one patch in size. It is padded to whole
        patches by repeating its edge; the maps are cropped back.
    settings
        :class:`~scotopic.settings.JunctionSettings`; the paper's by default.
    device
        ``"auto"``, ``"cpu"`` or ``"cuda"``. A tensor that is on the GPU gives a field of tensors there.
    progress
        Called with the share done.
    name
        What to call the image in errors.

    Returns
    -------
    Junctions

    References
    ----------
    Verbin and Zickler, "Field of Junctions: Extracting Boundary Structure at Low SNR", ICCV 2021.

    Examples
    --------
    >>> import numpy as np, scotopic
    >>> image = np.zeros((48, 48), np.float32)
    >>> image[:, 24:] = 1
    >>> field = scotopic.fit_junctions(image)
    >>> bool(field.boundary_map[24, 24] > 0.5 > field.boundary_map[24, 4])
    True
    """
    settings = JunctionSettings() if settings is None else settings
    if not isinstance(settings, JunctionSettings):
        raise SettingsError(
            f"settings is a {type(settings).__name__}. Pass scotopic.settings.JunctionSettings(...), or those of a "
            "preset: scotopic.make_settings('fast').junctions."
        )
    where = resolve_device(device, image)
    pixels = take_image(image, name)
    check_size(pixels.shape, settings.patch_size, name)
    if where == "cpu":
        guard_kernel_cache()
        return fit_fields(cpu_backend(), [pixels], settings, progress)[0]
    backend = cuda_backend()
    (field,) = fit_fields(backend, [backend.asarray(pixels)], settings, progress)
    return field if is_on_gpu(image) else field.to_numpy()  # type: ignore[return-value]
