"""A clean scene of one disparity, made by code, for the tests of the methods."""

from __future__ import annotations

import cv2
import numpy as np

from scotopic.evaluation.scene import Scene

SHIFT = 6  #: disparity of every pixel
CANDIDATES = 16  #: what the tests search over


def shifted_scene(height: int = 64, width: int = 120, channels: int = 3, *, shift: int = SHIFT) -> Scene:
    """Return a scene of smooth random texture with ``x_right = x_left - shift`` everywhere."""
    noise = np.random.default_rng(0).standard_normal((height, width + shift, channels)).astype(np.float32)
    texture = cv2.GaussianBlur(noise, (0, 0), 2.0).reshape(noise.shape)
    texture = ((texture - texture.min()) / (texture.max() - texture.min())).astype(np.float32)
    truth = np.full((height, width), shift, np.float32)
    return Scene(
        dataset="made",
        name="shifted",
        left=np.ascontiguousarray(texture[:, :width]),
        right=np.ascontiguousarray(texture[:, shift:]),
        truth=truth,
        truth_paper=truth,
        visible=None,
        calibration=None,
        scale=1.0,
    )
