"""Small pictures with strong structure, made by code, for the tests of the engine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def draw_blocks(
    height: int, width: int, channels: int = 1, *, seed: int = 0, noise: float = 0.0, side: int = 24
) -> NDArray[np.float32]:
    """Return upright and slanted blocks of random colors over each other, ``(H, W, C)`` float32 in [0, 1].

    Parameters
    ----------
    height, width, channels
        Size of the picture.
    seed
        Of the colors, places and noise.
    noise
        Standard deviation of the normal noise that is added before clipping.
    side
        About how long a block's sides are, in pixels.
    """
    random = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width].astype(np.float64)
    picture = np.empty((height, width, channels))
    picture[:] = random.random(channels)
    for _ in range(3 * height * width // side**2 + 3):
        angle = random.choice([0.0, random.uniform(0, np.pi)])
        center_x, center_y = random.uniform(0, width), random.uniform(0, height)
        half = random.uniform(0.3, 0.8, 2) * side
        along = np.cos(angle) * (x - center_x) + np.sin(angle) * (y - center_y)
        across = np.cos(angle) * (y - center_y) - np.sin(angle) * (x - center_x)
        picture[(np.abs(along) < half[0]) & (np.abs(across) < half[1])] = random.random(channels)
    picture += noise * random.standard_normal(picture.shape)
    return np.clip(picture, 0, 1).astype(np.float32)


def as_planes(picture: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return ``(H, W, C)`` as the planes ``(C, H, W)`` that kernels take."""
    return np.ascontiguousarray(np.moveaxis(picture, -1, 0))
