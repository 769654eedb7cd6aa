"""Small pairs and quick settings for the tests of a whole match."""

from typing import Any

import numpy as np
from pictures import draw_blocks

import scotopic
from scotopic import Match
from scotopic.result import ARRAYS

QUICK: dict[str, Any] = {
    "preset": "paper", "patch_size": 12, "stride": 4, "search_steps": 2, "refine_steps": 6, "search_every": 3,
    "candidates": 9, "max_disparity": 12, "device": "cpu",
}  # fmt: skip


def shifted_pair(disparity: int, channels: int = 3, noise: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Two views of one flat scene, 96 x 64 px, parallel to the cameras: ``x_right = x_left - d``."""
    scene = draw_blocks(64, 96 + disparity, channels, seed=1, noise=noise, side=20)
    return scene[:, :96], scene[:, disparity:]


def match_noisy(pair: tuple[np.ndarray, np.ndarray], **overrides: Any) -> Match:
    chosen = {"patch_size": 16, "stride": 4, "max_disparity": 24, "refine_steps": 20, "search_every": 10, **overrides}
    return scotopic.match(*pair, "fast", "cpu", **chosen)


def assert_same_match(first: Match, second: Match) -> None:
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name), err_msg=name)
