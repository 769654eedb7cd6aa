"""Ways to put the light of earlier frames into the present one, from none to what the true motion allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.api import match
from scotopic.backends import cpu_backend, cuda_backend
from scotopic.backends.device import to_numpy
from scotopic.errors import InputError
from scotopic.evaluation.streams.sequence import Image, Pair, StereoSequence
from scotopic.fusion.geometry import StereoCamera
from scotopic.fusion.stream import light_of
from scotopic.fusion.tracker import FusedPair
from scotopic.fusion.window import Frame, fuse_view
from scotopic.kernel_cache import guard_kernel_cache
from scotopic.levels import find_levels
from scotopic.pipelines import run_pipeline
from scotopic.pipelines.memory import fit_to_memory
from scotopic.result import Match
from scotopic.settings import NoiseSettings, Settings
from scotopic.stages.noise import estimate_noise

FLOW_BLUR = 3.0  #: px; optical flow finds nothing in frames of two photons unless they are blurred first


@dataclass(frozen=True)
class Window:
    """The frames that a present one, the last, is fused with."""

    sequence: StereoSequence
    recorded: Sequence[Pair]  #: as the sensor recorded them, the present one last

    @property
    def present(self) -> int:
        """The number of the present frame in the sequence."""
        return len(self.recorded) - 1


#: Matches the present pair of a window with the light of its other frames.
MatchWindow = Callable[[Window, Settings, str], Match]


def match_alone(window: Window, settings: Settings, device: str) -> Match:
    """Match the present pair without any other."""
    return match(*window.recorded[-1], settings, device)


def match_mean(window: Window, settings: Settings, device: str) -> Match:
    """Match the plain mean of all frames: right if nothing moves."""
    left, right = (np.mean(views, axis=0, dtype=np.float32) for views in zip(*window.recorded, strict=True))
    return match(left, right, settings, device)


def match_flow(window: Window, settings: Settings, device: str) -> Match:
    """Match the mean of all frames, each view warped to the present one by OpenCV's optical flow (DIS)."""
    left, right = (_warp_by_flow(views) for views in zip(*window.recorded, strict=True))
    return match(left, right, settings, device)


def match_oracle(window: Window, settings: Settings, device: str) -> Match:
    """Match what fusion would see if it knew the true poses and disparities."""
    sequence, now = window.sequence, window.present
    if sequence.poses is None or sequence.truths is None:
        raise InputError(f"{sequence.name!r} has no true poses and disparities, so there is no oracle.")
    if device == "cuda":
        backend: Any = cuda_backend()
        settings = fit_to_memory(settings, sequence.shape)
    else:
        backend = cpu_backend()
        guard_kernel_cache()
    camera = StereoCamera.from_calibration(sequence.calibration)
    levels = find_levels(*window.recorded[0])
    frames = []
    for pair, pose in zip(window.recorded, sequence.poses, strict=False):
        placed = backend.asarray(levels.apply(pair[0])), backend.asarray(levels.apply(pair[1]))
        in_baselines = pose.copy()
        in_baselines[:3, 3] /= camera.unit
        frames.append(Frame(placed, (None, None), in_baselines))
    noise = estimate_noise(backend, frames[0].images, NoiseSettings())
    left_truth = filled(sequence.truths[now])
    truths = backend.asarray(left_truth), backend.asarray(disparity_of_right(left_truth))
    left, right = (
        fuse_view(backend, camera, frames[-1], frames[-2::-1], truth, noise, view) for view, truth in enumerate(truths)
    )
    fused = FusedPair(left, right, frames[-1].pose, np.zeros((6, 6)))
    result = run_pipeline(device, [left.image, right.image], settings, light=light_of(backend, fused))
    return result.to_numpy()


ALIGNMENTS: dict[str, MatchWindow] = {
    "none": match_alone,
    "mean": match_mean,
    "flow": match_flow,
    "oracle": match_oracle,
}


def filled(disparity: Image) -> Image:
    """Return a disparity map whose unknown pixels have that of the farther of their neighbors along the row."""
    known = np.isfinite(disparity)
    columns = np.arange(disparity.shape[1])
    before = np.maximum.accumulate(np.where(known, columns, -1), axis=1)
    after = np.minimum.accumulate(np.where(known, columns, columns.size)[:, ::-1], axis=1)[:, ::-1]
    sides = [
        np.where(
            (at >= 0) & (at < columns.size),
            np.take_along_axis(disparity, np.clip(at, 0, columns.size - 1), axis=1),
            np.inf,
        )
        for at in (before, after)
    ]
    farther = np.minimum(*sides)
    least = float(np.nanmin(disparity)) if known.any() else 0.0
    return np.where(known, disparity, np.where(np.isfinite(farther), farther, least)).astype(np.float32)


def disparity_of_right(left: Image) -> Image:
    """Return the disparity of the right view: the nearest of the points of the left one that it sees at each pixel."""
    height, width = left.shape
    columns = np.arange(width) - left
    right = np.full((height, width), -np.inf, np.float32)
    rows = np.broadcast_to(np.arange(height)[:, None], left.shape)
    for column in (np.floor(columns), np.floor(columns) + 1):
        inside = (column >= 0) & (column < width)
        np.maximum.at(right, (rows[inside], column[inside].astype(np.intp)), left[inside])
    return filled(np.where(np.isfinite(right), right, np.float32(np.nan)))


def _warp_by_flow(views: Sequence[Image]) -> Image:
    import cv2

    flow_of = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
    present = views[-1]
    reference = _gray_for_flow(present)
    total = present.astype(np.float64)
    y, x = np.mgrid[: present.shape[0], : present.shape[1]].astype(np.float32)
    for view in views[:-1]:
        flow: NDArray[Any] = flow_of.calc(reference, _gray_for_flow(view), None)
        places = (x + flow[..., 0], y + flow[..., 1])
        warped = cv2.remap(view, *places, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        total += warped.reshape(present.shape)
    return (total / len(views)).astype(np.float32)


def _gray_for_flow(view: Image) -> NDArray[np.uint8]:
    """Return a view in the 8 bits that the flow works on, blurred, and stretched over them."""
    import cv2

    gray = np.asarray(cv2.GaussianBlur(view.mean(axis=2, dtype=np.float32), (0, 0), FLOW_BLUR), np.float32)
    low, high = np.quantile(gray, (0.005, 0.995))
    return np.clip((gray - low) / max(float(high - low), 1e-6) * 255, 0, 255).astype(np.uint8)


def maps_of(found: Match) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return the disparity at the method's mask, at every pixel, and the confidence, as NumPy arrays."""
    disparity, dense, confidence, mask = to_numpy(found.disparity, found.disparity_all, found.confidence, found.mask)
    return disparity, dense, confidence + mask
