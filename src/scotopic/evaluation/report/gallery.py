"""The pictures: noisy input, truth, and what each method made of it, in one color scale for each scene."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from scotopic.evaluation.records import Record, Task, maps_path, scene_path
from scotopic.evaluation.report.results import Group, Results

Picture = NDArray[np.uint8]

ERROR_END = 5.0  #: px; the error at the end of its color scale, and of Bad-5
LEVELS = 96  # colors of a scale: more than an eye tells apart, few enough for small files
_NOTHING = (52, 55, 62)  # where a map has no value: no color of either scale
_WIDEST = 640  # pixels across; wider maps are thinned, which the protocol's sizes never need
# Blue, pale, red: good and bad at a glance, also for the color-blind (ColorBrewer's RdYlBu, reversed).
_ERROR_COLORS = ((49, 90, 165), (116, 173, 209), (245, 240, 180), (244, 109, 67), (165, 0, 38))


@dataclass(frozen=True)
class Panel:
    """One method on one scene: two pictures as data URIs, or the reason why there are none."""

    method: str
    record: Record | None
    disparity: str | None = None
    error: str | None = None
    words: str = ""


@dataclass(frozen=True)
class SceneView:
    """One scene of the gallery."""

    group: Group
    scene: str
    seed: int
    left: str | None
    truth: str | None
    ends: tuple[float, float]  #: disparities at the ends of the color scale
    panels: tuple[Panel, ...]


def chosen_scenes(groups: list[Group], limit: int) -> list[tuple[Group, str]]:
    """Return which scenes of one data set are shown: spread over all of them, at every noise level.

    Parameters
    ----------
    groups
        The noise levels of the data set.
    limit
        About how many scenes x noise levels to show.
    """
    scenes = sorted({scene for group in groups for scene in group.scenes})
    count = min(len(scenes), max(1, limit // len(groups)))
    picked = [scenes[k * len(scenes) // count] for k in range(count)]
    return [(group, scene) for scene in picked for group in groups if scene in group.scenes]


def draw_scene(folder: Path, results: Results, group: Group, scene: str) -> SceneView:
    """Draw a scene at the first of its seeds.

    Parameters
    ----------
    folder
        With ``scenes/`` and ``maps/``.
    results, group, scene
        Which.

    Returns
    -------
    SceneView
        With words in place of every picture that cannot be drawn.
    """
    seed = min(seed for name, seed in group.pieces if name == scene)
    records = {method: group.records.get(method, {}).get((scene, seed)) for method in results.methods}
    maps = {method: _load(maps_path(folder, record.task)) for method, record in records.items() if record}
    task = next(record.task for record in records.values() if record)
    source = _load(scene_path(folder, task))
    left, truth = source.get("left"), source.get("truth")
    ends = _ends(truth, [m["disparity"] for m in maps.values() if "disparity" in m], task)
    return SceneView(
        group=group,
        scene=scene,
        seed=seed,
        left=None if left is None else as_jpeg(left),
        truth=None if truth is None else as_map(truth, ends, turbo()),
        ends=ends,
        panels=tuple(_panel(method, records[method], maps.get(method, {}), truth, ends) for method in results.methods),
    )


def turbo() -> Picture:
    """Return the colors of disparity, ``(LEVELS, 3)`` RGB."""
    import cv2

    levels = np.linspace(16, 250, LEVELS).round().astype(np.uint8)  # its dark ends are lost on the dark of no value
    return np.ascontiguousarray(cv2.applyColorMap(levels[:, None], cv2.COLORMAP_TURBO)[:, 0, ::-1])


def error_colors() -> Picture:
    """Return the colors of the error, ``(LEVELS, 3)`` RGB."""
    at = np.linspace(0, len(_ERROR_COLORS) - 1, LEVELS)
    knots = np.array(_ERROR_COLORS, np.float64)
    channels = [np.interp(at, np.arange(len(knots)), knots[:, c]) for c in range(3)]
    return np.stack(channels, axis=1).round().astype(np.uint8)


def as_gradient(colors: Picture) -> str:
    """Return a scale as a CSS gradient from left to right."""
    steps = ", ".join("#{:02x}{:02x}{:02x}".format(*colors[k].tolist()) for k in range(0, LEVELS, 5))
    return f"linear-gradient(to right, {steps})"


def as_map(values: NDArray[Any], ends: tuple[float, float], colors: Picture) -> str:
    """Return a map in colors as the data URI of an indexed PNG.

    Parameters
    ----------
    values
        ``(H, W)``, not finite where there is no value.
    ends
        Values at the ends of the scale.
    colors
        The scale, ``(LEVELS, 3)``.
    """
    shown = _thinned(np.asarray(values, np.float64))
    known = np.isfinite(shown)
    share = (np.where(known, shown, ends[0]) - ends[0]) / (ends[1] - ends[0])
    index = np.where(known, 1 + (np.clip(share, 0, 1) * (LEVELS - 1)).round(), 0).astype(np.uint8)
    palette = np.concatenate([np.array([_NOTHING], np.uint8), colors])
    return _data_uri("png", indexed_png(index, palette))


def indexed_png(index: Picture, palette: Picture) -> bytes:
    """Return an indexed PNG: a quarter of the bytes that OpenCV's would need, which cannot write a palette.

    Parameters
    ----------
    index
        ``(H, W)``, rows of the palette.
    palette
        ``(N, 3)`` RGB, N at most 256.
    """
    height, width = index.shape

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    lines = np.concatenate([np.zeros((height, 1), np.uint8), index], axis=1)  # each line begins with its filter: none
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0))
        + chunk(b"PLTE", palette.tobytes())
        + chunk(b"IDAT", zlib.compress(lines.tobytes(), 9))
        + chunk(b"IEND", b"")
    )


def as_jpeg(image: Picture) -> str:
    """Return a noisy picture as the data URI of a JPEG: noise costs a PNG ten times the bytes."""
    import cv2

    shown = _thinned(image)
    shown = shown[..., 0] if shown.ndim == 3 and shown.shape[2] == 1 else shown
    bgr = shown if shown.ndim == 2 else np.ascontiguousarray(shown[..., ::-1])
    _, data = cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, 55])
    return _data_uri("jpeg", data.tobytes())


def _panel(
    method: str,
    record: Record | None,
    maps: dict[str, NDArray[Any]],
    truth: NDArray[Any] | None,
    ends: tuple[float, float],
) -> Panel:
    if record is None:
        return Panel(method, None, words="not run")
    if record.error is not None:
        return Panel(method, record, words=record.error)
    found = maps.get("disparity")
    if found is None:
        return Panel(method, record, words="its map was not kept")
    disparity = np.where(np.isfinite(found), found, np.nan).astype(np.float64)
    if truth is None or truth.shape != disparity.shape:
        return Panel(method, record, as_map(disparity, ends, turbo()), words="no truth of this size to compare with")
    error = as_map(np.abs(disparity - truth), (0.0, ERROR_END), error_colors())
    return Panel(method, record, as_map(disparity, ends, turbo()), error)


def _ends(truth: NDArray[Any] | None, maps: list[NDArray[Any]], task: Task) -> tuple[float, float]:
    """Disparities at the ends of the scale, from the truth if there is one; at least 2 px apart."""
    for values in [truth] if truth is not None else maps:
        known = values[np.isfinite(values)].astype(np.float64)
        if known.size:
            low, high = np.percentile(known, (1, 99)).tolist()
            lacking = max(2.0 - (high - low), 0.0) / 2
            return low - lacking, high + lacking
    return 0.0, float(task.max_disparity)


def _load(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of a file, none where it is missing or broken: the page shows the gap."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, EOFError, KeyError, BadZipFile, zlib.error):
        return {}


def _thinned(image: NDArray[Any]) -> NDArray[Any]:
    step = -(-image.shape[1] // _WIDEST)
    return image[::step, ::step]


def _data_uri(kind: str, data: bytes) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(data).decode('ascii')}"


def ticks(ends: tuple[float, float], count: int = 5) -> Iterator[tuple[float, str]]:
    """Yield evenly spaced places in [0, 1] along a scale with their labels."""
    digits = 0 if ends[1] - ends[0] >= count - 1 else 1
    for k in range(count):
        yield k / (count - 1), f"{ends[0] + (ends[1] - ends[0]) * k / (count - 1):.{digits}f}"
