"""The pictures: noisy input, truth, and what each method made of it, in one color scale for each scene."""

import base64
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.colormap import NO_VALUE, Range, bar_range, color_range, color_scale, turbo
from scotopic.errors import InputError
from scotopic.evaluation.records import maps_path, scene_path
from scotopic.evaluation.report.results import Results
from scotopic.evaluation.report.summary import Group
from scotopic.io import read_npz
from scotopic.optional import import_optional

Picture = NDArray[np.uint8]

ERROR_RANGE: Range = (0.0, 5.0)  #: px; the end of the error's color scale is the K of Bad-5
LEVELS = 96  # colors of a scale: more than an eye tells apart, few enough for small files
_WIDEST = 640  # pixels across; wider maps are thinned, which the protocol's sizes never need
# Blue, pale, red: good and bad at a glance, also for the color-blind (ColorBrewer's RdYlBu, reversed).
_ERROR_COLORS = ((49, 90, 165), (116, 173, 209), (245, 240, 180), (244, 109, 67), (165, 0, 38))


def draw_gallery(folder: Path, results: Results, limit: int) -> Iterator[dict[str, Any]]:
    """Draw about `limit` scenes x noise levels of each data set, each at the first of its seeds, for the template."""
    for groups in results.by_dataset().values():
        for group, scene in choose_scenes(groups, limit):
            yield _draw_scene(folder, results, group, scene)


def choose_scenes(groups: list[Group], limit: int) -> list[tuple[Group, str]]:
    """Return which scenes of one data set are shown: spread over all of them, at every noise level (`groups`)."""
    shown = {id(group): {scene for runs in group.records.values() for scene, _ in runs} for group in groups}
    scenes = sorted(set().union(*shown.values()))
    count = min(len(scenes), max(1, limit // len(groups)))
    chosen = [scenes[k * len(scenes) // count] for k in range(count)]
    return [(group, scene) for scene in chosen for group in groups if scene in shown[id(group)]]


def _draw_scene(folder: Path, results: Results, group: Group, scene: str) -> dict[str, Any]:
    """Draw a scene, its pictures as data URIs, with words in place of every picture that cannot be drawn."""
    seed = min(seed for runs in group.records.values() for name, seed in runs if name == scene)
    records = {method: group.records.get(method, {}).get((scene, seed)) for method in results.methods}
    maps = {method: _load(maps_path(folder, record.task)) for method, record in records.items() if record}
    task = next(record.task for record in records.values() if record)
    source = _load(scene_path(folder, task))
    left, truth = source.get("left"), source.get("truth")
    known = [truth] if truth is not None else [each["disparity"] for each in maps.values() if "disparity" in each]
    values = np.concatenate([each.ravel().astype(np.float64) for each in known]) if known else None
    ends = color_range(values, (0.0, float(task.max_disparity)))

    def draw_panel(method: str) -> dict[str, Any]:
        record, disparity = records[method], maps.get(method, {}).get("disparity")
        panel = {"method": method, "record": record, "disparity": None, "error": None, "words": ""}
        if record is None:
            return panel | {"words": "not run"}
        if record.error is not None:
            return panel | {"words": record.error}
        if disparity is None:
            return panel | {"words": "its map was not kept"}
        panel["disparity"] = draw_disparity(disparity, ends)
        if truth is None or truth.shape != disparity.shape:
            return panel | {"words": "no truth of this size to compare with"}
        error = np.abs(disparity.astype(np.float64) - truth)
        return panel | {"error": _draw_map(error, ERROR_RANGE, _error_palette())}

    return {
        "group": group,
        "scene": scene,
        "seed": seed,
        "left": None if left is None else as_jpeg(left),
        "truth": None if truth is None else draw_disparity(truth, ends),
        "labels": _labels(ends, 5),  # along the color scale of disparity
        "panels": [draw_panel(method) for method in results.methods],
    }


def draw_disparity(disparity: NDArray[Any], ends: Range) -> str:
    """Return a disparity map in color as a data URI."""
    return _draw_map(disparity, bar_range(ends), turbo(np.linspace(0, 1, LEVELS)[None])[0])


def _draw_map(values: NDArray[Any], ends: Range, colors: Picture) -> str:
    """Return a map, not finite where it has no value, in colors ``(LEVELS, 3)`` as the data URI of an indexed PNG."""
    shown = _thin(values).astype(np.float64)
    known = np.isfinite(shown)
    share = (np.where(known, shown, ends[0]) - ends[0]) / (ends[1] - ends[0])
    index = np.where(known, 1 + (np.clip(share, 0, 1) * (LEVELS - 1)).round(), 0).astype(np.uint8)
    return _data_uri("png", indexed_png(index, np.concatenate([np.array([NO_VALUE], np.uint8), colors])))


def indexed_png(index: Picture, palette: Picture) -> bytes:
    """Return an indexed PNG of rows ``(H, W)`` of an RGB palette: a quarter of the bytes of one without a palette."""
    image = import_optional("PIL.Image", "bench", "a report").fromarray(index)
    image.putpalette(palette.tobytes())
    file = io.BytesIO()
    image.save(file, "PNG", compress_level=9)
    return file.getvalue()


def as_jpeg(image: Picture) -> str:
    """Return a noisy picture as the data URI of a JPEG: noise costs a PNG ten times the bytes."""
    import cv2

    shown = _thin(image)
    shown = shown[..., 0] if shown.ndim == 3 and shown.shape[2] == 1 else shown
    bgr = shown if shown.ndim == 2 else np.ascontiguousarray(shown[..., ::-1])
    _, data = cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, 55])
    return _data_uri("jpeg", data.tobytes())


def color_scales() -> dict[str, Any]:
    """Return both color scales as CSS gradients, and the labels of the error's."""
    *labels, last = _labels(ERROR_RANGE, 6)
    return {
        "disparity_gradient": _gradient(color_scale(20)[0]),
        "error_gradient": _gradient(_error_palette()[::5]),
        "error_labels": [*labels, f"{last} and more"],
    }


def _error_palette() -> Picture:
    at = np.linspace(0, len(_ERROR_COLORS) - 1, LEVELS)
    knots = np.array(_ERROR_COLORS, np.float64)
    channels = [np.interp(at, np.arange(len(knots)), knots[:, c]) for c in range(3)]
    return np.stack(channels, axis=1).round().astype(np.uint8)


def _gradient(colors: Picture) -> str:
    steps = ", ".join("#{:02x}{:02x}{:02x}".format(*color) for color in colors.tolist())
    return f"linear-gradient(to right, {steps})"


def _labels(ends: Range, count: int) -> list[str]:
    """Evenly spaced values along a scale."""
    digits = 0 if ends[1] - ends[0] >= count - 1 else 1
    return [f"{value:.{digits}f}" for value in np.linspace(*ends, count)]


def _load(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of a file, none where it is missing or broken: the page shows the gap."""
    try:
        return read_npz(path)
    except InputError:
        return {}


def _thin(image: NDArray[Any]) -> NDArray[Any]:
    step = -(-image.shape[1] // _WIDEST)
    return image[::step, ::step]


def _data_uri(kind: str, data: bytes) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(data).decode('ascii')}"
