"""A whole match in plain NumPy from given junctions: what every device is held to, slow and without any kernel."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pictures import draw_blocks

from scotopic.result import Reason
from scotopic.settings import JunctionMatchingSettings, JunctionSettings, PatchMatchingSettings
from scotopic.stages.consistency import Consistency
from scotopic.stages.junctions.fit import Junctions
from scotopic.stages.junctions.reference import global_maps
from scotopic.stages.patch_costs import View, reference_patch_costs
from scotopic.stages.sgm import reference_aggregate

Image = NDArray[np.float32]


def random_pair(height: int, width: int, channels: int, *, disparity: int = 2, seed: int = 0) -> tuple[Image, Image]:
    """Return two noisy views of one flat scene, ``x_right = x_left - disparity``."""
    scene = draw_blocks(height, width + disparity, channels, seed=seed, side=6)
    noise = np.random.default_rng(seed).normal(0, 0.05, (2, height, width, channels))
    left, right = (scene[:, :width] + noise[0], scene[:, disparity:] + noise[1])
    return np.clip(left, 0, 1).astype(np.float32), np.clip(right, 0, 1).astype(np.float32)


def pad_to_patches(image: NDArray[Any], settings: JunctionSettings) -> NDArray[Any]:
    """Return an image with its edges repeated until whole patches cover it."""
    padding = [(0, -(length - settings.patch_size) % settings.stride) for length in image.shape[:2]]
    return np.pad(image, [*padding, (0, 0)], mode="edge")


def count_patches(shape: tuple[int, ...], settings: JunctionSettings) -> tuple[int, int]:
    """Return the rows and columns of the patches that cover an image."""
    rows, columns = (math.ceil((length - settings.patch_size) / settings.stride) + 1 for length in shape[:2])
    return rows, columns


def random_junctions(image: Image, settings: JunctionSettings, seed: int = 0) -> Junctions[np.ndarray]:
    """Return junctions anywhere, with the maps that they give: a match is defined for any, not only for a good fit."""
    random = np.random.default_rng(seed)
    patches = count_patches(image.shape, settings)
    angles, vertices = random.uniform(-7, 7, (*patches, 3)), random.uniform(-1, 1, (*patches, 2))
    parameters = np.concatenate([angles, vertices], axis=2)
    maps = global_maps(parameters, pad_to_patches(image.astype(np.float64), settings), None, 0.0, settings)
    height, width, _ = image.shape
    boundaries, colors = (np.ascontiguousarray(each[:height, :width], np.float32) for each in maps)
    return Junctions(parameters, boundaries, colors, settings)


def reference_scaled(costs: NDArray[Any], settings: PatchMatchingSettings) -> NDArray[np.int16]:
    """Return costs scaled to ``0 .. volume_range`` and floored; invalid cells cost 1.5 x the largest."""
    valid = costs >= 0
    if not valid.any():
        return np.zeros(costs.shape, np.int16)
    values = np.where(valid, costs, np.float32(1.5) * costs.max()).astype(np.float32)
    if values.max() == values.min():
        return np.zeros(costs.shape, np.int16)
    share = (values - values.min()) / (values.max() - values.min())
    return np.asarray(np.floor(share * np.float32(settings.volume_range)), np.int16)


def reference_penalties(junctions: Junctions[np.ndarray], settings: PatchMatchingSettings) -> NDArray[np.int32]:
    """Return ``P2`` of each patch, from the strongest boundary inside it."""
    found = np.full(junctions.parameters.shape[:2], settings.p2, np.int32)
    size, stride = junctions.settings.patch_size, junctions.settings.stride
    if settings.adaptive_p2:
        for i, j in np.ndindex(found.shape):
            patch = junctions.boundary_map[i * stride : i * stride + size, j * stride : j * stride + size]
            falling = settings.p2 * math.exp(-settings.p2_decay * float(patch.max()))
            found[i, j] = math.floor(max(falling, settings.p2_min))
    return found


def reference_average(values: NDArray[Any], shape: tuple[int, int], settings: JunctionSettings) -> Image:
    """Return at each pixel the mean over the patches that contain it."""
    size, stride = settings.patch_size, settings.stride
    total, count = np.zeros(shape), np.zeros(shape)
    for i, j in np.ndindex(values.shape):
        place = np.s_[i * stride : i * stride + size, j * stride : j * stride + size]
        total[place] += values[i, j]
        count[place] += 1
    return np.asarray(total / count, np.float32)


def reference_check(
    left: Image,
    right: Image,
    margin: Image,
    left_boundaries: Image,
    right_boundaries: Image,
    settings: PatchMatchingSettings,
) -> Consistency[np.ndarray]:
    """Return what the left-right check keeps, pixel by pixel."""
    height, width = left.shape
    reason, confidence = np.zeros(left.shape, np.uint8), np.zeros(left.shape, np.float32)
    for y, x in np.ndindex(height, width):
        place = np.float32(x) - left[y, x]
        column = int(min(max(place, 0), width - 1))
        difference = abs(left[y, x] - right[y, column])
        clearness = 1 - math.exp(-margin[y, x] / (8 * max(settings.p1, 1)))
        confidence[y, x] = clearness * math.exp(-difference)
        if left_boundaries[y, x] <= settings.boundary_threshold:
            reason[y, x] = Reason.NO_STRUCTURE
        elif difference >= settings.left_right_threshold:
            reason[y, x] = Reason.LEFT_RIGHT if 0 <= place <= width - 1 else Reason.OUT_OF_VIEW
        elif settings.mask_right and right_boundaries[y, column] <= settings.boundary_threshold:
            reason[y, x] = Reason.NO_STRUCTURE_RIGHT
        elif confidence[y, x] < settings.min_confidence:
            reason[y, x] = Reason.AMBIGUOUS
    return Consistency(np.where(reason == Reason.OK, left, np.float32(np.nan)), reason, confidence)


def reference_match(
    pair: tuple[Image, Image],
    fields: tuple[Junctions[np.ndarray], Junctions[np.ndarray]],
    settings: JunctionMatchingSettings,
) -> dict[str, NDArray[Any]]:
    """Return the maps of a match by their names in :class:`scotopic.Match`."""
    matching = settings.matching
    # The color map of these junctions is in plain colors: the mean map that the matching needs.
    views = [View(image, field, field.color_map) for image, field in zip(pair, fields, strict=True)]
    pixels = []
    for view, other, is_left in ((*views, True), (*views[::-1], False)):
        costs = reference_patch_costs(view, other, matching, is_left=is_left).astype(np.float32)
        penalties = reference_penalties(view.junctions, matching)
        total = reference_aggregate(reference_scaled(costs, matching), penalties, matching.p1)
        best = total.argmin(axis=2)
        far = np.abs(np.arange(total.shape[2]) - best[..., None]) > 1
        never = np.iinfo(np.int64).max
        rival = np.where(far, total, never).min(axis=2)
        margin = np.where(rival < never, rival - total.min(axis=2), 0)
        chosen = best + matching.min_disparity
        height, width = view.image.shape[:2]
        pixels.append(
            [reference_average(values, (height, width), view.junctions.settings) for values in (chosen, margin)]
        )
    (left, left_margin), (right, _) = pixels
    kept = reference_check(left, right, left_margin, *(field.boundary_map for field in fields), matching)
    return {
        "disparity": kept.disparity, "disparity_all": left, "right_disparity": right, "confidence": kept.confidence,
        "reason": kept.reason, "left_image": pair[0], "right_image": pair[1],
        "left_boundaries": fields[0].boundary_map, "right_boundaries": fields[1].boundary_map,
        "left_colors": fields[0].color_map, "right_colors": fields[1].color_map,
    }  # fmt: skip
