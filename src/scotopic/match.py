"""The method, one call per step: read this file to know what scotopic does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from scotopic.best import follow_best
from scotopic.device import is_on_gpu, resolve_device, steps, to_device, to_numpy, wait
from scotopic.io import image_title
from scotopic.junctions import Junctions
from scotopic.junctions.fit import check_fields, fit_fields, plain_map
from scotopic.matching import Reason, View
from scotopic.memory import fitted
from scotopic.progress import Progress, Stopwatch, silent
from scotopic.result import Match
from scotopic.settings import Settings, make_settings
from scotopic.tensors import take_image
from scotopic.validation import check_pair, is_constant

if TYPE_CHECKING:
    from scotopic.depth.completion import Fill

Image = NDArray[Any] | str | PathLike[str]  # or a torch tensor, which is not named here so as not to import it


def match(
    left: Image,
    right: Image,
    preset: str = "best",
    device: str = "auto",
    *,
    junctions: tuple[Junctions, Junctions] | None = None,
    fill: Fill | None = None,
    progress: Progress = silent,
    **overrides: Any,
) -> Match:
    """Match a rectified, noisy stereo pair.

    Parameters
    ----------
    left, right
        Arrays (uint8, uint16 or float in [0, 1]; gray or RGB) or paths, of the same size, ``x_right = x_left - d``.
        Torch tensors that are on the GPU stay there, and the result is made of such tensors.
    preset
        ``"best"``, the most accurate answer that needs no learning; ``"paper"``, the published method to the letter; or
        ``"fast"``, the same method at a small fraction of the cost.
    device
        ``"auto"``, ``"cpu"`` or ``"cuda"``. ``auto`` takes the GPU where there is one.
    junctions
        The two views' fields of junctions, where they are known already: to try other matching settings on them, or
        fitted by other means. Their settings replace the preset's.
    fill
        How to make :attr:`Match.filled`, where it is not to be by planes between boundaries: a callable that takes the
        left image without its noise, the disparity and its confidence, and returns the disparity of every pixel; or
        the ONNX file of a depth-completion network (see :mod:`scotopic.depth.completion`).
    progress
        Called with the stage's name and the share of it that is done.
    **overrides
        Any field of :class:`~scotopic.settings.JunctionSettings`, :class:`~scotopic.settings.MatchingSettings` or, with
        ``"best"``, :class:`~scotopic.settings.EvidenceSettings`, such as ``max_disparity=64``.

    Returns
    -------
    Match
        Disparity where it can be trusted, how sure it is, and why not elsewhere.

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
    settings = make_settings(preset, **overrides)
    if fill is not None:
        _check(fill)
    if junctions is not None:
        settings = replace(settings, junctions=junctions[0].settings)
    device = resolve_device(device, left, right)
    names = f"{image_title(left, 'left')} and {image_title(right, 'right')}"
    images = take_image(left, "left"), take_image(right, "right")
    check_pair(*images, settings.junctions.patch_size, names=names)
    settings = replace(settings, matching=settings.matching.for_width(images[0].shape[1]))
    if junctions is not None:
        check_fields(junctions, images[0].shape[:2])
    if any(is_constant(image) for image in images):
        result = Match.empty(*images, settings, Reason.NO_STRUCTURE)
    else:
        if device == "cuda":
            settings = fitted(settings, images[0].shape)
        result = follow(images, settings, device, junctions=junctions, progress=progress)
    if fill is not None:
        result = _completed(result, fill)
    if is_on_gpu(left):
        return result.to_device(device)
    return replace(result, left_image=images[0], right_image=images[1]).to_numpy()


def _check(fill: Fill) -> None:
    from scotopic.depth.completion import check_fill  # what few ask for is not imported with the package

    check_fill(fill)


def _completed(result: Match, fill: Fill) -> Match:
    """Fill a match by other means than ours; they are given NumPy arrays."""
    from scotopic.depth.completion import complete

    image, disparity, confidence = to_numpy(result.left_colors, result.disparity, result.confidence)
    return replace(result, completed=complete(fill, image, disparity, confidence))


def follow(
    images: Sequence[Any],
    settings: Settings,
    device: str,
    *,
    junctions: tuple[Junctions, Junctions] | None = None,
    progress: Progress = silent,
    timed: bool = True,
) -> Match:
    """Follow the method on two images that have been checked; the arrays of the result are the device's own.

    ``timed`` waits for the device after each stage, so that the timings mean something.
    """
    if settings.evidence is not None:
        return follow_best(images, settings, device, junctions=junctions, progress=progress, timed=timed)
    images = [to_device(image, device) for image in images]
    shape = images[0].shape[:2]
    matching = steps("matching", device)
    clock = Stopwatch(progress, partial(wait, device) if timed else None)

    # 1. Describe each image by coarse structure that survives noise.
    with clock.stage("junctions") as report:
        if junctions is None:
            fields = fit_fields(images, settings.junctions, device=device, progress=report)
        else:
            fields = [field.to_device(device) for field in junctions]
        views = [
            View(image, field, plain_map(image, field.parameters, settings.junctions, device=device))
            for image, field in zip(images, fields, strict=True)
        ]

    # 2. and 3. Match the patches of each view to the other view, with jumps in disparity cheap at boundaries.
    disparities, margins = [], []
    for view, other, name in ((views[0], views[1], "left"), (views[1], views[0], "right")):
        with clock.stage(f"costs {name}") as report:
            raw = matching.cost_volume(view, other, settings.matching, is_left=name == "left", progress=report)
            volume = matching.scale_volume(raw, settings.matching)
            del raw
        with clock.stage(f"matching {name}"):
            penalties = matching.jump_penalties(view.junctions, settings.matching)
            total = matching.aggregate(volume, penalties, settings.matching)
            patch_disparity, patch_margin = matching.select(total, settings.matching)
            del volume, total
            disparities.append(matching.spread_over_pixels(patch_disparity, shape, settings.junctions))
            margins.append(matching.spread_over_pixels(patch_margin, shape, settings.junctions))

    # 4. Keep what both views agree on, where structure was seen.
    with clock.stage("consistency"):
        boundaries = [field.boundary_map for field in fields]
        kept = matching.check_views(*disparities, margins[0], *boundaries, settings.matching)

    return Match(
        disparity=kept.disparity,
        disparity_all=disparities[0],
        right_disparity=disparities[1],
        confidence=kept.confidence,
        reason=kept.reason,
        left_image=images[0],
        right_image=images[1],
        left_boundaries=boundaries[0],
        right_boundaries=boundaries[1],
        left_colors=fields[0].color_map,
        right_colors=fields[1].color_map,
        settings=settings,
        timings=clock.timings,
    )
