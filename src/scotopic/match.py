"""The method, one call per step: read this file to know what scotopic does."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.device import resolve_device
from scotopic.io import as_image, image_title
from scotopic.junctions import Junctions, fit_junctions
from scotopic.junctions.fit import check_fields, plain_map
from scotopic.matching import (
    Reason,
    View,
    aggregate,
    check_views,
    cost_volume,
    jump_penalties,
    scale_volume,
    select,
    spread_over_pixels,
)
from scotopic.progress import Progress, Stopwatch, silent
from scotopic.result import Match
from scotopic.settings import resolve
from scotopic.validation import check_pair, is_constant

Image = NDArray[Any] | str | PathLike[str]


def match(
    left: Image,
    right: Image,
    preset: str = "paper",
    device: str = "auto",
    *,
    junctions: tuple[Junctions, Junctions] | None = None,
    progress: Progress = silent,
    **overrides: Any,
) -> Match:
    """Match a rectified, noisy stereo pair.

    Parameters
    ----------
    left, right
        Arrays (uint8, uint16 or float in [0, 1]; grey or RGB) or paths, of the same size, ``x_right = x_left - d``.
    preset
        ``"paper"``, the published method to the letter, or ``"fast"``, the same method at a small fraction of the cost.
    device
        ``"auto"``, ``"cpu"`` or ``"cuda"``.
    junctions
        The two views' fields of junctions, where they are known already: to try other matching settings on them, or
        fitted by other means. Their settings replace the preset's.
    progress
        Called with the stage's name and the share of it that is done.
    **overrides
        Any field of :class:`~scotopic.settings.JunctionSettings` or :class:`~scotopic.settings.MatchingSettings`, such
        as ``max_disparity=64``.

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
    settings = resolve(preset, **overrides)
    if junctions is not None:
        settings = replace(settings, junctions=junctions[0].settings)
    device = resolve_device(device)
    images = as_image(left, "left"), as_image(right, "right")
    check_pair(
        *images, settings.junctions.patch_size, names=f"{image_title(left, 'left')} and {image_title(right, 'right')}"
    )
    shape = images[0].shape[:2]
    settings = replace(settings, matching=settings.matching.for_width(shape[1]))
    if any(is_constant(image) for image in images):
        return Match.empty(images[0], images[1], settings, Reason.NO_STRUCTURE)
    if junctions is not None:
        check_fields(junctions, shape)
    clock = Stopwatch(progress)

    # 1. Describe each image by coarse structure that survives noise.
    views = []
    for side, (image, name) in enumerate(zip(images, ("left", "right"), strict=True)):
        with clock.stage(f"junctions {name}") as report:
            if junctions is None:
                field = fit_junctions(image, settings.junctions, device=device, progress=report)
            else:
                field = junctions[side]
            views.append(View(image, field, plain_map(image, field.parameters, settings.junctions, device)))
    left_view, right_view = views

    # 2. and 3. Match the patches of each view to the other view, with jumps in disparity cheap at boundaries.
    disparities, margins = [], []
    for view, other, name in ((left_view, right_view, "left"), (right_view, left_view, "right")):
        with clock.stage(f"costs {name}") as report:
            raw = cost_volume(view, other, settings.matching, is_left=name == "left", device=device, progress=report)
            volume = scale_volume(raw, settings.matching)
            del raw
        with clock.stage(f"matching {name}"):
            penalties = jump_penalties(view.junctions, settings.matching)
            total = aggregate(volume, penalties, settings.matching, device=device)
            patch_disparity, patch_margin = select(total, settings.matching, device=device)
            del volume, total
            disparities.append(spread_over_pixels(patch_disparity, shape, settings.junctions))
            margins.append(spread_over_pixels(patch_margin, shape, settings.junctions))

    # 4. Keep what both views agree on, where structure was seen.
    with clock.stage("consistency"):
        left_boundaries, right_boundaries = (view.junctions.boundary_map for view in views)
        checked = check_views(
            disparities[0], disparities[1], margins[0], left_boundaries, right_boundaries, settings.matching
        )

    return Match(
        disparity=np.where(checked.reason == Reason.OK, disparities[0], np.float32(np.nan)),
        disparity_all=disparities[0],
        right_disparity=disparities[1],
        confidence=checked.confidence,
        reason=checked.reason,
        left_image=images[0],
        right_image=images[1],
        left_boundaries=left_boundaries,
        right_boundaries=right_boundaries,
        left_colours=left_view.junctions.colour_map,
        right_colours=right_view.junctions.colour_map,
        settings=settings,
        timings=clock.timings,
    )
