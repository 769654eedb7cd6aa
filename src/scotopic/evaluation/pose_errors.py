"""How far estimated poses are from the true ones.

**Relative errors, by KITTI's definition** (Geiger, Lenz and Urtasun, 2012). For each frame ``i`` and each length, ``j``
is the first frame that lies at least as far from it along the true path. With ``D`` the motion from ``j`` to ``i``::

    E = D_estimated^-1 D_true,   translation error = |t(E)| / length,   rotation error = angle(E) / length

averaged over all segments. ``length`` is that of the true path from ``i`` to ``j``. KITTI's lengths are 100 to 800 m; a
shorter path is measured at eighths of its own length.

**Reprojection error.** Points of a frame at their true depth, seen from another frame: the mean distance, in px,
between where they are seen with the true and with the estimated motion.

**NEES**, the normalized estimation error squared: ``e^T C^-1 e`` with ``e`` the twist from the estimated to the true
pose and ``C`` its stated covariance. Its expectation is 6 if the covariance is honest.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from scotopic.depth import Calibration
from scotopic.evaluation.sequence import StereoSequence
from scotopic.fusion.geometry import Matrix, inverse, logarithm

KITTI_LENGTHS = tuple(100.0 * k for k in range(1, 9))  #: m


@dataclass(frozen=True)
class PoseErrors:
    """How far a trajectory is off; NaN where nothing is known, or the rig does not move."""

    translation_percent: float = math.nan  #: of the length of the path
    rotation_per_length: float = math.nan  #: degrees per unit of the calibration's lengths
    step_px: float = math.nan  #: reprojection error from each frame to the one before it, mean
    last_px: float = math.nan  #: reprojection error from the last frame to the first
    nees: float = math.nan  #: mean over the frames after the first


def pose_errors(
    sequence: StereoSequence, poses: Sequence[Matrix], covariances: Sequence[Matrix] | None = None
) -> PoseErrors:
    """Return the errors of the estimated poses of a sequence's first frames."""
    if sequence.poses is None or len(poses) < 2:
        return PoseErrors()
    true = sequence.poses[: len(poses)]
    translation, rotation = relative_errors(true, poses)
    step, last = math.nan, math.nan
    if sequence.truths is not None:
        numbers = range(1, len(poses))
        step = float(np.mean([reprojection_error(sequence, poses, k, k - 1) for k in numbers]))
        last = reprojection_error(sequence, poses, len(poses) - 1, 0)
    nees = math.nan
    if covariances is not None:
        found = [normalized_error(*each) for each in zip(true[1:], poses[1:], covariances[1:], strict=True)]
        known = [value for value in found if not math.isnan(value)]
        nees = float(np.mean(known)) if known else math.nan
    return PoseErrors(translation, rotation, step, last, nees)


def relative_errors(true: Sequence[Matrix], estimated: Sequence[Matrix]) -> tuple[float, float]:
    """Return translation error in percent and rotation error in degrees per unit of length, by KITTI's definition.

    Examples
    --------
    A rig that moves ahead by 1 each frame, and an estimate that is 2 % too short:

    >>> import numpy as np
    >>> def ahead(step):
    ...     return [np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, step * k], [0, 0, 0, 1.0]]) for k in range(9)]
    >>> [round(error, 6) for error in relative_errors(ahead(1.0), ahead(0.98))]
    [2.0, 0.0]
    """
    translations, rotations = [], []
    for i, j, length in segments(true):
        error = inverse(inverse(estimated[i]) @ estimated[j]) @ (inverse(true[i]) @ true[j])
        translations.append(100 * float(np.linalg.norm(error[:3, 3])) / length)
        rotations.append(math.degrees(float(np.linalg.norm(logarithm(error)[3:]))) / length)
    return (float(np.mean(translations)), float(np.mean(rotations))) if translations else (math.nan, math.nan)


def segments(true: Sequence[Matrix]) -> Iterator[tuple[int, int, float]]:
    """Yield first frame, last frame and length of every segment of a path that errors are measured over."""
    steps = [float(np.linalg.norm(b[:3, 3] - a[:3, 3])) for a, b in pairwise(true)]
    path = np.concatenate(([0.0], np.cumsum(steps)))
    total = float(path[-1])
    lengths = [length for length in KITTI_LENGTHS if length <= total] or [total * k / 8 for k in range(1, 9)]
    if total <= 0:
        return
    for i in range(len(true)):
        for length in lengths:
            j = int(np.searchsorted(path, path[i] + length * (1 - 1e-9)))
            if j < len(true):
                yield i, j, float(path[j] - path[i])


def reprojection_error(sequence: StereoSequence, poses: Sequence[Matrix], frame: int, other: int) -> float:
    """Return the mean distance between where points of a frame are seen in another by true and by estimated motion."""
    assert sequence.poses is not None
    assert sequence.truths is not None
    calibration, truth = sequence.calibration, sequence.truths[frame]
    true_motion = inverse(sequence.poses[other]) @ sequence.poses[frame]
    estimated_motion = inverse(poses[other]) @ poses[frame]
    seen, expected = (_seen_at(calibration, truth, motion) for motion in (estimated_motion, true_motion))
    height, width = truth.shape
    inside = (expected[0] >= 0) & (expected[0] <= width - 1) & (expected[1] >= 0) & (expected[1] <= height - 1)
    distance = np.hypot(seen[0] - expected[0], seen[1] - expected[1])[inside]
    return float(distance.mean()) if distance.size else math.nan


def _seen_at(calibration: Calibration, disparity: NDArray[np.float32], motion: Matrix) -> tuple[Matrix, Matrix]:
    """Return column and row at which the points of a left view are seen after a motion; NaN where depth is unknown."""
    c = calibration
    y, x = np.mgrid[: disparity.shape[0], : disparity.shape[1]].astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        depth = c.fx * c.baseline / (disparity.astype(np.float64) + c.doffs)
        points = np.stack([(x - c.cx) / c.fx * depth, (y - c.cy) / c.fy * depth, depth])
        moved = np.tensordot(motion[:3, :3], points, 1) + motion[:3, 3, None, None]
        front = np.where(moved[2] > 0, moved[2], np.nan)
        return c.fx * moved[0] / front + c.cx, c.fy * moved[1] / front + c.cy


def normalized_error(true: Matrix, estimated: Matrix, covariance: Matrix) -> float:
    """Return the NEES of a pose whose covariance is that of a twist after it; NaN where nothing is known of it."""
    if not np.isfinite(covariance).all():
        return math.nan
    twist = logarithm(true @ inverse(estimated))
    return float(twist @ np.linalg.pinv(covariance, hermitian=True) @ twist)
