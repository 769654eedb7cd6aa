"""Poses of a sequence from features: OpenCV's ORB or SIFT, and PnP with RANSAC, from each frame to the next.

Features of a left view that are found again on their row of the right view are points in space; where the next left
view shows them gives the motion. Views are blurred and stretched first, without which there are no features in the
dark. A frame with too few points is taken to move as the one before it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from scotopic.evaluation.method import Map, Matrix, Prediction
from scotopic.evaluation.methods.streams import as_clear_gray, frames_of
from scotopic.evaluation.scene import Scene
from scotopic.evaluation.sequence import Pair, StereoSequence

BLUR = 2.0  #: px
MOST = 4000  #: features of a view
RATIO = 0.8  #: of the distances to the best and second best feature (Lowe, 2004)
ROW = 2.0  #: px that the two views of a point may differ in their row
LEAST = 8  #: points that a motion must rest on
REPROJECTION = 2.0  #: px; points further off are outliers


def _orb() -> Any:
    import cv2

    return cv2.ORB.create(nfeatures=MOST, fastThreshold=5)


def _sift() -> Any:
    import cv2

    return cv2.SIFT.create(nfeatures=MOST, contrastThreshold=0.01)


FEATURES: dict[str, Callable[[], Any]] = {"orb": _orb, "sift": _sift}


def predict_poses(name: str, left: Map, right: Map, scene: Scene, max_disparity: int) -> Prediction:
    """Find the poses of a sequence; there are no disparities."""
    sequence, recorded = frames_of(scene)
    nothing = np.full(left.shape[:2], np.nan, np.float32)
    return Prediction(nothing, nothing, nothing, poses=tuple(find_poses(name, sequence, recorded, max_disparity)))


def find_poses(name: str, sequence: StereoSequence, recorded: tuple[Pair, ...], max_disparity: int) -> list[Matrix]:
    """Return the pose of each frame, from its left camera to the first."""
    import cv2

    cv2.setRNGSeed(0)  # RANSAC: the same poses every time
    finder = FEATURES[name]()
    views = [[finder.detectAndCompute(as_clear_gray(view, BLUR), None) for view in pair] for pair in recorded]
    poses, velocity = [np.eye(4)], np.eye(4)
    for (left, right), (ahead, _) in pairwise(views):
        motion = _find_motion(sequence, left, right, ahead, max_disparity)
        velocity = velocity if motion is None else motion
        poses.append(poses[-1] @ np.linalg.inv(velocity))
    return poses


def _find_motion(sequence: StereoSequence, left: Any, right: Any, ahead: Any, max_disparity: int) -> Matrix | None:
    """Return the motion that takes points of one left camera to the next; nothing where too few are found."""
    import cv2

    c = sequence.calibration
    points, places = [], []
    to_right = dict(_pairs(left, right))
    for here, there in _pairs(left, ahead):
        if here not in to_right:
            continue
        x, y = left[0][here].pt
        right_x, right_y = right[0][to_right[here]].pt
        q = x - right_x + c.doffs
        if abs(y - right_y) <= ROW and q > 0 and x - right_x < max_disparity:
            depth = c.fx * c.baseline / q
            points.append(((x - c.cx) / c.fx * depth, (y - c.cy) / c.fy * depth, depth))
            places.append(ahead[0][there].pt)
    if len(points) < LEAST:
        return None
    camera = np.array([[c.fx, 0, c.cx], [0, c.fy, c.cy], [0, 0, 1]])
    is_found, turn, shift, inliers = cv2.solvePnPRansac(
        np.array(points), np.array(places), camera, np.zeros(4), reprojectionError=REPROJECTION, iterationsCount=1000
    )
    if not is_found or inliers is None or len(inliers) < LEAST:
        return None
    motion = np.eye(4)
    motion[:3, :3], motion[:3, 3] = cv2.Rodrigues(turn)[0], np.ravel(shift)
    return motion


def _pairs(one: Any, other: Any) -> list[tuple[int, int]]:
    """Return the features of one view that are clearly one of another's."""
    import cv2

    if one[1] is None or other[1] is None or len(other[1]) < 2:
        return []
    norm = cv2.NORM_HAMMING if one[1].dtype == np.uint8 else cv2.NORM_L2
    found = cv2.BFMatcher(norm).knnMatch(one[1], other[1], k=2)
    return [(a.queryIdx, a.trainIdx) for a, b in found if a.distance < RATIO * b.distance]
