"""The present pair of a stream, matched with the light of the frames before it: by fusion, and by simpler means.

``stream:PRESET`` is fusion (:class:`scotopic.Matcher` with `fuse`). Beside it: ``+mean``, the plain mean of the frames;
``+flow``, the mean of the frames warped to the present one by OpenCV's optical flow; and ``+oracle``, a ceiling, which
fuses by the true poses and disparities. ``scotopic:PRESET`` uses no other frame.
"""

from __future__ import annotations

import hashlib
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.api import match
from scotopic.backends import cpu_backend, cuda_backend
from scotopic.backends.device import resolve_device, to_numpy
from scotopic.errors import InputError, SettingsError
from scotopic.evaluation.method import Map, Matrix, Predict, Prediction
from scotopic.evaluation.scene import Scene
from scotopic.evaluation.sequence import Pair, StereoSequence
from scotopic.fusion.geometry import StereoCamera
from scotopic.fusion.stream import MOST, light_of
from scotopic.fusion.tracker import FusedPair
from scotopic.fusion.window import Frame, fuse_views
from scotopic.kernel_cache import guard_kernel_cache
from scotopic.levels import find_levels
from scotopic.pipelines import run_pipeline
from scotopic.pipelines.memory import fit_to_memory
from scotopic.result import Match
from scotopic.settings import PRESETS, NoiseSettings, Settings, make_settings
from scotopic.stages.noise import estimate_noise
from scotopic.streams import Matcher

FLOW_BLUR = 3.0  #: px; in frames of a few photons optical flow finds nothing unless they are blurred first


def method_of(text: str) -> Predict:
    """Return the method of ``PRESET`` or ``PRESET+ALIGNMENT``, or raise :class:`SettingsError`."""
    preset, _, alignment = text.partition("+")
    if preset not in PRESETS or (alignment and alignment not in ALIGNMENTS):
        raise SettingsError(
            f"There is no method 'stream:{text}'. It is stream: and a preset ({', '.join(PRESETS)}), alone or with one "
            f"of {', '.join(f'+{name}' for name in ALIGNMENTS)}."
        )
    return partial(predict_aligned, preset, alignment) if alignment else partial(predict_fused, preset)


def method_specs() -> tuple[str, ...]:
    """Return the specs of all methods for streams."""
    return tuple(f"stream:{preset}{end}" for preset in PRESETS for end in ("", *(f"+{name}" for name in ALIGNMENTS)))


def settings_of(predict: Predict) -> str:
    """Return every setting of a method that :func:`method_of` has made, as text."""
    assert isinstance(predict, partial)
    return repr(make_settings(predict.args[0]))


def frames_of(scene: Scene | None) -> tuple[StereoSequence, tuple[Pair, ...]]:
    """Return a sequence and its recorded frames up to the present one, or raise :class:`InputError`."""
    if scene is None or scene.sequence is None:
        name = "" if scene is None else f" {scene.name!r} of {scene.dataset}"
        raise InputError(f"The scene{name} is a single pair; this method needs a sequence.")
    return scene.sequence, scene.recorded


# --- fusion ---------------------------------------------------------------------------------------------------------


class _Stream:
    """A stream that has been matched up to some frame. It can go on: the next task often has more of its frames."""

    def __init__(self, settings: Settings, sequence: StereoSequence) -> None:
        self._matcher = Matcher(settings, fuse=MOST, calibration=sequence.calibration)
        self._seconds: list[float] = []
        self.poses: list[Matrix] = []
        self.covariances: list[Matrix] = []

    def match(self, recorded: Sequence[Pair]) -> Match:
        """Match the frames that have not been, and return the last match."""
        results = self._matcher.run(recorded[len(self.poses) :])
        while len(self.poses) < len(recorded):
            start = time.perf_counter()
            found = next(results)
            self._seconds.append(time.perf_counter() - start)
            self.poses.append(np.asarray(found.pose, np.float64))
            self.covariances.append(np.asarray(found.pose_covariance, np.float64))
        return found

    @property
    def seconds(self) -> float:
        """How long a pair takes: the median, without the first, which has no other to be aligned with."""
        return statistics.median(self._seconds[1:] or self._seconds)


_last: dict[str, _Stream] = {}  # at most one: what it depends on, and how far it has come


def predict_fused(preset: str, left: Map, right: Map, scene: Scene, max_disparity: int) -> Prediction:
    """Match the frames of a stream one after the other, each with the light of those before it."""
    sequence, recorded = frames_of(scene)
    settings = make_settings(preset, max_disparity=max_disparity)
    digest = hashlib.sha256(repr((settings, resolve_device("auto"), sequence.calibration)).encode())
    for view in recorded[0]:
        digest.update(view.tobytes())
    key = digest.hexdigest()
    if key not in _last or len(_last[key].poses) >= len(recorded):
        _last.clear()
        _last[key] = _Stream(settings, sequence)
    stream = _last[key]
    maps = maps_of(stream.match(recorded))
    return Prediction(*maps, stream.seconds, tuple(stream.poses), tuple(stream.covariances))


def maps_of(found: Match) -> tuple[Map, Map, Map]:
    """Return what a prediction is made of; the confidence is higher by 1 where the match has a disparity."""
    disparity, dense, confidence, mask = to_numpy(found.disparity, found.disparity_all, found.confidence, found.mask)
    return disparity, dense, confidence + mask


# --- other alignments -----------------------------------------------------------------------------------------------


def predict_aligned(preset: str, alignment: str, left: Map, right: Map, scene: Scene, max_disparity: int) -> Prediction:
    """Match the present pair with the light of the others, aligned in another way than by fusion."""
    sequence, recorded = frames_of(scene)
    settings = make_settings(preset, max_disparity=max_disparity)
    return Prediction(*maps_of(ALIGNMENTS[alignment](sequence, recorded, settings)))


def match_mean(sequence: StereoSequence, recorded: Sequence[Pair], settings: Settings) -> Match:
    """Match the plain mean of all frames: right if nothing moves."""
    left, right = (np.asarray(np.mean(views, axis=0, dtype=np.float32)) for views in zip(*recorded, strict=True))
    return match(left, right, settings)


def match_flow(sequence: StereoSequence, recorded: Sequence[Pair], settings: Settings) -> Match:
    """Match the mean of all frames, each view warped to the present one by OpenCV's optical flow (DIS)."""
    left, right = (_warp_by_flow(views) for views in zip(*recorded, strict=True))
    return match(left, right, settings)


def match_oracle(sequence: StereoSequence, recorded: Sequence[Pair], settings: Settings) -> Match:
    """Match what fusion would see if it knew the true poses and disparities."""
    if sequence.poses is None or sequence.truths is None:
        raise InputError(f"Sequence {sequence.name!r} has no true poses and disparities, so it has no oracle.")
    device, shape = resolve_device("auto"), recorded[0][0].shape
    if device == "cuda":
        backend: Any = cuda_backend()
        settings = fit_to_memory(settings, shape)
    else:
        backend = cpu_backend()
        guard_kernel_cache()
    camera, levels = StereoCamera.from_calibration(sequence.calibration), find_levels(*recorded[0])
    frames = []
    for pair, pose in zip(recorded, sequence.poses, strict=False):
        placed = [backend.asarray(levels.apply(view)) for view in pair]
        in_baselines = pose.copy()
        in_baselines[:3, 3] /= camera.unit
        frames.append(Frame((placed[0], placed[1]), (None, None), in_baselines))
    noise = estimate_noise(backend, frames[0].images, NoiseSettings())
    truth = fill_from_farther(sequence.truths[len(recorded) - 1])
    disparities = [backend.asarray(disparity) for disparity in (truth, seen_from_right(truth))]
    views = fuse_views(backend, camera, frames[-1], frames[-2::-1], disparities, noise)
    fused = FusedPair(*views, frames[-1].pose, np.zeros((6, 6)))
    return run_pipeline(device, [view.image for view in views], settings, light=light_of(backend, fused))


#: Ways to put the light of earlier frames into the present one.
ALIGNMENTS: dict[str, Callable[[StereoSequence, Sequence[Pair], Settings], Match]] = {
    "mean": match_mean,
    "flow": match_flow,
    "oracle": match_oracle,
}


def fill_from_farther(disparity: Map) -> Map:
    """Return a disparity map with the unknown pixels filled from the farther of their neighbors along the row."""
    known, columns = np.isfinite(disparity), np.arange(disparity.shape[1])
    before = np.maximum.accumulate(np.where(known, columns, -1), axis=1)
    after = np.minimum.accumulate(np.where(known, columns, columns.size)[:, ::-1], axis=1)[:, ::-1]
    farther = np.full(disparity.shape, np.inf, np.float32)
    for column in (before, after):
        values = np.take_along_axis(disparity, np.clip(column, 0, columns.size - 1), axis=1)
        farther = np.where((column >= 0) & (column < columns.size), np.minimum(farther, values), farther)
    least = np.nanmin(disparity) if known.any() else np.float32(0)
    return np.where(known, disparity, np.where(np.isfinite(farther), farther, least)).astype(np.float32)


def seen_from_right(disparity: Map) -> Map:
    """Return the disparity of the right view: of the points that the left one sees, the nearest at each pixel."""
    height, width = disparity.shape
    place = np.floor(np.arange(width) - disparity)
    rows = np.broadcast_to(np.arange(height)[:, None], disparity.shape)
    right = np.full(disparity.shape, -np.inf, np.float32)
    for column in (place, place + 1):
        inside = (column >= 0) & (column < width)
        np.maximum.at(right, (rows[inside], column[inside].astype(np.intp)), disparity[inside])
    return fill_from_farther(np.where(np.isfinite(right), right, np.float32(np.nan)))


def _warp_by_flow(views: Sequence[Map]) -> Map:
    import cv2

    flow_of, present = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM), views[-1]
    reference, total = as_clear_gray(present, FLOW_BLUR), present.astype(np.float64)
    y, x = np.mgrid[: present.shape[0], : present.shape[1]].astype(np.float32)
    for view in views[:-1]:
        flow: NDArray[Any] = flow_of.calc(
            reference, as_clear_gray(view, FLOW_BLUR), np.zeros((*present.shape[:2], 2), np.float32)
        )
        warped = cv2.remap(view, x + flow[..., 0], y + flow[..., 1], cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        total += np.asarray(warped).reshape(present.shape)
    return (total / len(views)).astype(np.float32)


def as_clear_gray(view: Map, blur: float) -> NDArray[np.uint8]:
    """Return a view in 8-bit gray, blurred, and stretched over the range, as OpenCV's flow and features work best."""
    import cv2

    gray = np.asarray(cv2.GaussianBlur(view.mean(axis=2, dtype=np.float32), (0, 0), blur), np.float32)
    low, high = np.quantile(gray, (0.005, 0.995))
    return np.asarray(np.clip((gray - low) / max(float(high - low), 1e-6) * 255, 0, 255), np.uint8)
