"""The strong classical baseline: what blur and per-pixel semi-global matching reach without any structure.

1. Blur both views by a Gaussian of sigma 4.
2. Mean squared difference over windows of 15 px, for each disparity; the right view is continued by replication.
3. Scale the volume to ``0 .. 1024`` by its largest cost and floor.
4. Semi-global matching per pixel along eight directions, ``P1 = 60``, ``P2 = 600``, for either view.
5. Keep what both views agree on up to 1 px.
6. Confidence: ``M / (M + 8 P1)`` times ``exp(-max(difference - 1, 0))``, with ``M`` the margin of the best sum of path
   costs over the best one at least two pixels away. Among the pixels kept it ranks by the margin alone.
"""

import numpy as np
from numpy.typing import NDArray

from scotopic.backends import cpu_backend
from scotopic.backends.device import import_kernels
from scotopic.evaluation.method import Map, Prediction
from scotopic.evaluation.methods.opencv import lr_difference
from scotopic.evaluation.scene import Scene
from scotopic.inputs import check_pair
from scotopic.io import as_image
from scotopic.subpixel import parabola_offset

BLUR = 4.0  #: standard deviation of the Gaussian in px
RADIUS = 7  #: of the window in px
P1, P2 = 60, 600
VOLUME_RANGE = 1024
_BAND = 40  # lines that share running sums


def predict_classical(left: Map, right: Map, scene: Scene, max_disparity: int, *, subpixel: bool = False) -> Prediction:
    """Match a noisy pair; `subpixel` refines each disparity by the parabola through the path costs around the best."""
    import cv2

    images = as_image(left, "left"), as_image(right, "right")
    check_pair(*images, patch_size=1)
    # OpenCV drops the axis of a single channel.
    views: list[Map] = [
        np.asarray(cv2.GaussianBlur(image, (0, 0), BLUR), np.float32).reshape(image.shape) for image in images
    ]
    candidates = min(max_disparity, views[0].shape[1])
    disparity, margin = _match_view(views[0], views[1], candidates, subpixel)
    # In the mirror the right view is a left one.
    of_right = _match_view(views[1][:, ::-1], views[0][:, ::-1], candidates, subpixel)[0][:, ::-1]
    difference = lr_difference(disparity, of_right)
    confidence = margin / (margin + 8.0 * P1) * np.exp(-np.maximum(difference - 1, 0))
    kept = (difference <= 1) & (margin > 0)  # without a margin there was nothing to see
    return Prediction(
        np.where(kept, disparity, np.float32(np.nan)), np.ascontiguousarray(disparity), confidence.astype(np.float32)
    )


def _match_view(view: Map, other: Map, candidates: int, subpixel: bool) -> tuple[Map, NDArray[np.int64]]:
    """Return the disparity and the margin of each pixel of a view whose partners lie to the left."""
    backend = cpu_backend()
    volume = scale_costs(ssd_volume(view, other, candidates))
    penalties = np.full(volume.shape[:2], P2, np.int32)
    total = backend.aggregate(volume, penalties, P1)
    best, margin = backend.select(total)
    disparity = best.astype(np.float32)
    return (disparity + offset_of_minimum(total, best) if subpixel else disparity), margin


def ssd_volume(view: Map, other: Map, candidates: int, radius: int = RADIUS) -> Map:
    """Return the mean squared difference of windows, ``(H, W, D)``, their edges replicated.

    `view` and `other` are ``(H, W, C)`` float32; the partner of column ``x`` at disparity ``d`` is ``max(x - d, 0)``.
    """
    from scotopic.backends.cpu.threads import share_out

    kernels = import_kernels("scotopic.evaluation._cpu")
    mirrored = np.pad(other[:, ::-1], ((0, 0), (0, candidates - 1), (0, 0)), mode="edge")
    planes = [np.ascontiguousarray(np.moveaxis(image, -1, 0), np.float32) for image in (view, mirrored)]
    volume = np.empty((*view.shape[:2], candidates), np.float32)
    share_out(kernels.ssd_volume, -(-len(volume) // _BAND), *planes, radius, _BAND, volume)
    return volume


def reference_ssd_volume(view: Map, other: Map, candidates: int, radius: int = RADIUS) -> NDArray[np.float64]:
    """Return what :func:`ssd_volume` returns, straight from the definition, in float64."""
    height, width = view.shape[:2]
    volume = np.empty((height, width, candidates))
    for d in range(candidates):
        partner = np.maximum(np.arange(width) - d, 0)
        squares = ((view.astype(np.float64) - other[:, partner]) ** 2).mean(axis=-1)
        side = 2 * radius + 1
        windows = np.lib.stride_tricks.sliding_window_view(np.pad(squares, radius, mode="edge"), (side, side))
        volume[:, :, d] = windows.mean(axis=(2, 3))
    return volume


def scale_costs(volume: Map) -> NDArray[np.int16]:
    """Scale costs from 0 up so that the largest is ``VOLUME_RANGE``, and floor; all 0 where there is no difference."""
    top = volume.max()
    if not top > 0:
        return np.zeros(volume.shape, np.int16)
    return np.asarray(volume * (np.float32(VOLUME_RANGE) / top), np.int16)


def offset_of_minimum(total: NDArray[np.int32], best: NDArray[np.int64]) -> Map:
    """Return how far the sum of path costs is lowest from its best candidate, in ``[-0.5, 0.5]`` px.

    0 for the first and last candidate, which have one neighbor only.
    """
    candidates = total.shape[2]
    inner = (best > 0) & (best < candidates - 1)
    near = np.clip(best[:, :, None] + np.array((-1, 0, 1)), 0, candidates - 1)
    before, here, after = np.moveaxis(np.take_along_axis(total, near, axis=2).astype(np.float64), 2, 0)
    return np.where(inner, parabola_offset(before, here, after), 0).astype(np.float32)
