"""A whole match in plain NumPy from given junctions: what every device is held to, slow and without any kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from pictures import draw_blocks
from scotopic.junctions.on_cpu import to_planes
from scotopic.matching import View, check_views, jump_penalties, scale_volume, spread_over_pixels

from scotopic.settings import JunctionSettings, Settings
from scotopic.stages.junctions.fit import Junctions
from scotopic.stages.junctions.reference import global_maps
from scotopic.stages.patch_costs import reference_cost_volume
from scotopic.stages.sgm import reference_aggregate

Image = NDArray[np.float32]


def random_pair(height: int, width: int, channels: int, *, disparity: int = 2, seed: int = 0) -> tuple[Image, Image]:
    """Return two noisy views of one flat scene, ``x_right = x_left - disparity``."""
    scene = draw_blocks(height, width + disparity, channels, seed=seed, side=6)
    noise = np.random.default_rng(seed).normal(0, 0.05, (2, height, width, channels))
    left, right = (scene[:, :width] + noise[0], scene[:, disparity:] + noise[1])
    return np.clip(left, 0, 1).astype(np.float32), np.clip(right, 0, 1).astype(np.float32)


def random_junctions(image: Image, settings: JunctionSettings, seed: int = 0) -> Junctions:
    """Return junctions anywhere, with the maps that they give: a match is defined for any, not only for a good fit."""
    random = np.random.default_rng(seed)
    whole = np.moveaxis(to_planes([image], settings)[0], 0, -1).astype(np.float64)
    rows, columns = ((length - settings.patch_size) // settings.stride + 1 for length in whole.shape[:2])
    angles, vertices = random.uniform(-7, 7, (rows, columns, 3)), random.uniform(-1, 1, (rows, columns, 2))
    parameters = np.concatenate([angles, vertices], axis=2)
    maps = global_maps(parameters, whole, None, 0.0, settings)
    height, width, _ = image.shape
    boundaries, colors = (np.ascontiguousarray(each[:height, :width], np.float32) for each in maps)
    return Junctions(parameters, boundaries, colors, settings)


def reference_match(
    pair: tuple[Image, Image], fields: tuple[Junctions, Junctions], settings: Settings
) -> dict[str, NDArray[Any]]:
    """Return the maps of a match by their names in :class:`scotopic.Match`."""
    # The color map of these junctions is in plain colors: the mean map that the matching needs.
    views = [View(image, field, field.color_map) for image, field in zip(pair, fields, strict=True)]
    pixels = []
    for view, other, is_left in ((*views, True), (*views[::-1], False)):
        costs = reference_cost_volume(view, other, settings.matching, is_left=is_left).astype(np.float32)
        penalties = jump_penalties(view.junctions, settings.matching)
        total = reference_aggregate(scale_volume(costs, settings.matching), penalties, settings.matching)
        best = total.argmin(axis=2)
        far = np.abs(np.arange(total.shape[2]) - best[..., None]) > 1
        never = np.iinfo(np.int64).max
        rival = np.where(far, total, never).min(axis=2)
        margin = np.where(rival < never, rival - total.min(axis=2), 0)
        chosen = best + settings.matching.min_disparity
        shape = view.image.shape[:2]
        pixels.append([spread_over_pixels(values, shape, view.junctions.settings) for values in (chosen, margin)])
    (left, left_margin), (right, _) = pixels
    kept = check_views(left, right, left_margin, *(field.boundary_map for field in fields), settings.matching)
    return {
        "disparity": kept.disparity, "disparity_all": left, "right_disparity": right, "confidence": kept.confidence,
        "reason": kept.reason, "left_image": pair[0], "right_image": pair[1],
        "left_boundaries": fields[0].boundary_map, "right_boundaries": fields[1].boundary_map,
        "left_colors": fields[0].color_map, "right_colors": fields[1].color_map,
    }  # fmt: skip
