"""Two textured planes, a wall and a board before it, seen exactly by a rig that moves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from scotopic.depth import Calibration
from scotopic.fusion.geometry import StereoCamera, exponential
from scotopic.sensor import simulate_pair

WALL, BOARD = 12.0, 7.0  #: baselines from the first camera
BOARD_EDGES = (-1.6, -1.0, 1.2, 1.2)  #: baselines: left, top, right, bottom


class Picture(NamedTuple):
    """Both views, float32 in [0, 1], and the left view's disparity."""

    left: np.ndarray
    right: np.ndarray
    disparity: np.ndarray


@dataclass(frozen=True)
class MovingScene:
    """The scene for images of one size; lengths are in baselines."""

    height: int = 96
    width: int = 160
    focal: float = 150.0
    seed: int = 0
    channels: int = 3

    @property
    def camera(self) -> StereoCamera:
        return StereoCamera(self.focal, 1.0, (self.width - 1) / 2, (self.height - 1) / 2)

    @property
    def calibration(self) -> Calibration:
        return Calibration(
            fx=self.focal, fy=self.focal, cx=(self.width - 1) / 2, cy=(self.height - 1) / 2, baseline=1.0
        )

    def draw(self, pose: np.ndarray | None = None, board_shift: float = 0.0) -> Picture:
        """Return what the rig sees from a pose, the board moved to the right by itself; not to be written to."""
        return _draw(self, (np.eye(4) if pose is None else pose).tobytes(), board_shift)

    def dark(self, pose: np.ndarray | None, photons: float, seed: int, board_shift: float = 0.0):  # type: ignore[no-untyped-def]
        """Return a noisy pair from a pose."""
        picture = self.draw(pose, board_shift)
        return simulate_pair(picture.left, picture.right, photons, 2, seed=seed)

    def _view(self, pose: np.ndarray, shift: float, board_shift: float) -> tuple[np.ndarray, np.ndarray]:
        y, x = np.mgrid[: self.height, : self.width].astype(np.float64)
        camera = self.camera
        rays = np.stack([x - camera.cx, y - camera.cy, np.full_like(x, camera.focal)], axis=-1) / camera.focal
        rays = rays @ pose[:3, :3].T
        place = pose[:3, 3] + pose[:3, 0] * shift
        image, nearest = np.zeros((*x.shape, self.channels)), np.full(x.shape, np.inf)
        for number, depth in enumerate((WALL, BOARD)):
            along = (depth - place[2]) / rays[..., 2]  # in units of the ray, whose z in the camera's frame is 1
            column, row = place[0] + along * rays[..., 0], place[1] + along * rays[..., 1]
            is_seen = np.ones(x.shape, bool)
            if number == 1:
                column = column - board_shift
                left, top, right, bottom = BOARD_EDGES
                is_seen = (column > left) & (column < right) & (row > top) & (row < bottom)
            is_front = is_seen & (along < nearest)
            image[is_front] = self._texture(number, column[is_front], row[is_front])
            nearest[is_front] = along[is_front]
        return image.astype(np.float32), (camera.focal / nearest).astype(np.float32)

    def _texture(self, number: int, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        rng = np.random.default_rng(100 * self.seed + number)
        total = np.full((*x.shape, self.channels), rng.uniform(0.3, 0.7))
        for _ in range(14):
            fx, fy = rng.normal(0, 5.0, 2)
            strength, phase = rng.uniform(0.02, 0.07, self.channels), rng.uniform(0, 2 * np.pi, self.channels)
            total += strength * np.sin((fx * x + fy * y)[..., None] + phase)
        return np.clip(total, 0, 1)


@lru_cache(maxsize=128)  # many tests look at the same frames
def _draw(scene: MovingScene, pose_bytes: bytes, board_shift: float) -> Picture:
    pose = np.frombuffer(pose_bytes).reshape(4, 4)
    left, disparity = scene._view(pose, 0.0, board_shift)
    right, _ = scene._view(pose, 1.0, board_shift)
    for each in (left, right, disparity):
        each.flags.writeable = False
    return Picture(left, right, disparity)


def sway(frame: int) -> np.ndarray:
    """Return the pose of a frame of a gentle motion: a few pixels from frame to frame."""
    a = 2 * np.pi * frame / 24
    return exponential(np.array([0.4 * np.sin(a), 0.1 * np.sin(2 * a), 0.3 * (1 - np.cos(a)), 0, 0.02 * np.sin(a), 0]))
