"""Frames of the rendered room from cameras that move, for the tests of fused streams and bursts."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scotopic.demo import _build_room, _Room
from scotopic.io import write_png
from scotopic.sensor import simulate_pair, to_uint8

WIDTH, HEIGHT = 224, 144
STEP = 0.3  #: baselines to the right that the cameras move from frame to frame
BASELINE = 0.1  #: m
CALIBRATION = f"{WIDTH} {(WIDTH - 1) / 2} {0.38 * (HEIGHT - 1)} {BASELINE} 0\n"
PRESET = ("--preset", "fast", "--max-disparity", 24, "--device", "cpu")
OPTIONS = (*PRESET, "--set", "refine_steps=0")  #: a quicker fit than the preset's, which keeps more
FIT = {"max_disparity": 24, "refine_steps": 0}  #: the same in Python

Image = NDArray[np.float32]


@cache
def render_moved(step: float, seed: int = 0) -> tuple[Image, Image]:
    """Return both views, without noise, from cameras so many steps to the right of where they usually are."""
    surfaces = _build_room(np.random.default_rng(seed))
    shift = np.array([STEP * step, 0.0, 0.0])
    room = _Room([replace(each, corner=each.corner - shift) for each in surfaces], WIDTH, HEIGHT)
    x, y = np.meshgrid(np.arange(WIDTH, dtype=np.float64), np.arange(HEIGHT, dtype=np.float64))
    return room.render(0, x, y), room.render(1, x, y)


def noisy_frames(count: int, photons: float = 6.0) -> list[tuple[NDArray[np.uint8], NDArray[np.uint8]]]:
    """Return pairs of frames from moving cameras, in 8 bits."""
    pairs = [simulate_pair(*render_moved(k), photons=photons, read_noise=2, seed=k) for k in range(count)]
    return [(to_uint8(left), to_uint8(right)) for left, right in pairs]


def write_frames(folder: Path, pairs: list[tuple[NDArray[np.uint8], NDArray[np.uint8]]]) -> Path:
    """Write folders ``left`` and ``right`` of frames, and ``calib.txt``."""
    for k, view in enumerate(("left", "right")):
        (folder / view).mkdir(parents=True)
        for number, pair in enumerate(pairs):
            write_png(folder / view / f"{number}.png", pair[k])
    (folder / "calib.txt").write_text(CALIBRATION)
    return folder
