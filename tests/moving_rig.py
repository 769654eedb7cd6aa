"""A rig that moves through the rendered room: frames with exact truth, in memory and on disk."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np

from scotopic.demo import render_scene
from scotopic.evaluation.sequence import Matrix, StereoSequence
from scotopic.io import write_png
from scotopic.sensor import to_uint8


def pose_of(shift: tuple[float, float, float] = (0.0, 0.0, 0.0), degrees: float = 0.0) -> Matrix:
    """A pose: a shift in baselines, and a turn about the vertical axis."""
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = cv2.Rodrigues(np.deg2rad([0.0, degrees, 0.0]))[0], shift
    return pose


def moving_rig(frames: int = 3, width: int = 96, height: int = 64) -> StereoSequence:
    """Frames of a rig that moves by 0.05 baselines to the right and 0.1 ahead each, and turns by 0.1 degrees."""
    poses = tuple(pose_of((0.05 * k, 0.0, 0.1 * k), 0.1 * k) for k in range(frames))
    scenes = [render_scene(width, height, pose=pose) for pose in poses]
    pairs = tuple((scene.left, scene.right) for scene in scenes)
    truths = tuple(scene.disparity_left for scene in scenes)
    return StereoSequence("rig", pairs, scenes[0].calibration, poses, truths)


def write_archives(folder: Path, sequence: StereoSequence, known: np.ndarray | None = None) -> Path:
    """Write a sequence as one archive for each frame."""
    assert sequence.poses is not None
    folder.mkdir(parents=True)
    for k, (left, right) in enumerate(sequence.pairs):
        arrays = {"clean_left": to_uint8(left), "clean_right": to_uint8(right), "pose": sequence.poses[k]}
        arrays |= {"left": arrays["clean_right"], "right": arrays["clean_left"], "disparity": sequence.truth(k)}
        np.savez_compressed(
            folder / f"{k:03d}.npz", allow_pickle=False, **arrays | ({} if known is None else {"known": known})
        )
    c = sequence.calibration
    (folder / "calib.txt").write_text(f"{c.fx} {c.cx} {c.cy} {c.baseline} {c.doffs}\n")
    return folder


def write_kitti(folder: Path, sequence: StereoSequence) -> Path:
    """Write a sequence in KITTI's layout; as theirs, without a line break at the end of the calibration."""
    assert sequence.poses is not None
    for view, name in enumerate(("image_l", "image_r")):
        (folder / name).mkdir(parents=True)
        for k, pair in enumerate(sequence.pairs):
            write_png(folder / name / f"{k:06d}.png", to_uint8(pair[view]))
    c = sequence.calibration
    rows = [[c.fx, 0, c.cx, shift, 0, c.fy, c.cy, 0, 0, 0, 1, 0] for shift in (0.0, -c.fx * c.baseline)]
    (folder / "calib.txt").write_text("\n".join(" ".join(f"{value:.12e}" for value in row) for row in rows))
    lines = [" ".join(f"{value:.9e}" for value in pose[:3].ravel()) for pose in sequence.poses]
    (folder / "poses.txt").write_text("\n".join(lines) + "\n")
    return folder
