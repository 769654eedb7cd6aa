"""Calibration files of every kind, written from numbers that the tests know, and damage done to them."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

MIDDLEBURY = """cam0=[1038.018 0 322.037; 0 1038.018 243.393; 0 0 1]
cam1=[1038.018 0 375.308; 0 1038.018 243.393; 0 0 1]
doffs=53.271
baseline=176.252
width=718
height=496
ndisp=73
isint=0
vmin=8
vmax=65
dyavg=0.184
dymax=0.423
"""

# Numbers of the kind that KITTI's files of 2011_09_26 have; the matrices are made up but consistent.
KITTI_RAW = """calib_time: 09-Jan-2012 13:57:47
corner_dist: 9.950000e-02
S_02: 1.392000e+03 5.120000e+02
K_02: 9.600000e+02 0.000000e+00 6.960000e+02 0.000000e+00 9.600000e+02 2.240000e+02 0.000000e+00 0 1.000000e+00
D_02: -3.690000e-01 1.960000e-01 1.350000e-03 5.670000e-04 -6.770000e-02
R_rect_02: 1 0 0 0 1 0 0 0 1
S_rect_02: 1.242000e+03 3.750000e+02
P_rect_02: 7.200000e+02 0.000000e+00 6.000000e+02 4.500000e+01 0 7.200000e+02 1.700000e+02 0 0 0 1 0
S_03: 1.392000e+03 5.120000e+02
K_03: 9.500000e+02 0.000000e+00 6.900000e+02 0.000000e+00 9.500000e+02 2.200000e+02 0.000000e+00 0 1.000000e+00
D_03: -3.600000e-01 1.900000e-01 1.300000e-03 5.600000e-04 -6.700000e-02
R_rect_03: 1 0 0 0 1 0 0 0 1
S_rect_03: 1.242000e+03 3.750000e+02
P_rect_03: 7.200000e+02 0.000000e+00 6.060000e+02 -3.390000e+02 0 7.200000e+02 1.700000e+02 0 0 0 1 0
"""

KITTI_OBJECT = """P0: 700 0 600 0 0 700 180 0 0 0 1 0
P1: 700 0 600 -378 0 700 180 0 0 0 1 0
P2: 700 0 600 42 0 700 180 0 0 0 1 0
P3: 700 0 600 -336 0 700 180 0 0 0 1 0
R0_rect: 1 0 0 0 1 0 0 0 1
Tr_velo_to_cam: 0 -1 0 0 0 0 -1 0 1 0 0 0
"""

PLAIN = "500.5 320.25 240.75 0.12 3.5\n"

ROS = """image_width: 640
image_height: 480
camera_name: {name}
camera_matrix:
  rows: 3
  cols: 3
  data: [505.0, 0.0, 318.0, 0.0, 506.0, 242.0, 0.0, 0.0, 1.0]
distortion_model: plumb_bob
distortion_coefficients:
  rows: 1
  cols: 5
  data: [-0.1, 0.01, 0.001, -0.002, 0.0]
rectification_matrix:
  rows: 3
  cols: 3
  data: [1.0, 0.0, 0.0,
         0.0, 1.0, 0.0,
         0.0, 0.0, 1.0]
projection_matrix:
  rows: 3
  cols: 4
  data: [500.0, 0.0, 320.0, {shift}, 0.0, 500.0, 240.0, 0.0, 0.0, 0.0, 1.0, 0.0]
"""
ROS_LEFT, ROS_RIGHT = ROS.format(name="left", shift="0.0"), ROS.format(name="right", shift="-60.0")

WIDTH, HEIGHT = 320, 240


def example_rig() -> dict[str, NDArray[np.float64]]:
    """Return a rig of two cameras that are turned against each other a little, 0.1 m apart."""
    return {
        "K1": np.array([[300.0, 0, 160], [0, 301, 120], [0, 0, 1]]),
        "D1": np.array([[-0.12, 0.02, 0.001, -0.001, 0.0]]),
        "K2": np.array([[302.0, 0, 158], [0, 302, 122], [0, 0, 1]]),
        "D2": np.array([[-0.1, 0.03, -0.001, 0.001, 0.0]]),
        "R": cv2.Rodrigues(np.array([0.01, -0.02, 0.015]))[0],
        "T": np.array([[-0.1], [0.002], [0.001]]),
    }


def rectified_rig(rig: dict[str, NDArray[np.float64]]) -> dict[str, NDArray[np.float64]]:
    """Return OpenCV's rectification of it: R1, R2, P1, P2, Q."""
    given = cv2.stereoRectify(
        *(rig[key] for key in ("K1", "D1", "K2", "D2")),
        (WIDTH, HEIGHT),
        rig["R"],
        rig["T"],
        flags=cv2.CALIB_ZERO_DISPARITY,
        alpha=0,
    )
    return dict(zip(("R1", "R2", "P1", "P2", "Q"), given[:5], strict=True))


def store(path: Path, **entries: NDArray[np.float64] | int) -> Path:
    """Write a file as OpenCV's users do, by FileStorage: YAML or XML by its name."""
    storage = cv2.FileStorage(str(path), cv2.FILE_STORAGE_WRITE)
    for name, value in entries.items():
        storage.write(name, value)
    storage.release()
    return path


_FRAGMENTS = (
    b"", b" ", b"\n", b"\r\n", b"\t", b"#", b"=", b":", b"[", b"]", b";", b",", b"-", b"- ", b"0", b"9" * 12, b"1e400",
    b"nan", b"inf", b"1_0", b"\0", b"\xff", b"<", b">", b"&a;", b"!!", b"'", b'"', b"data: [1]", b"P1:", b"cam0=",
)  # fmt: skip
_NUMBERS = (
    b"nan", b"inf", b"-1", b"0", b"1e400", b"1e308", b"99999999999999999999", b"1,5", b"0x10", b"", b"1 2", b"2.5",
)  # fmt: skip


def damaged(random: np.random.Generator, content: bytes) -> bytes:
    """Damage a text file in one to three places: bytes, numbers, lines, or its end."""
    for _ in range(random.integers(1, 4)):
        kind = random.random()
        lines = content.split(b"\n")
        numbers = list(re.finditer(rb"[-+0-9.][-+0-9.eE]*", content))
        if kind < 0.35:
            place, gone = int(random.integers(len(content) + 1)), int(random.integers(0, 4))
            content = content[:place] + _FRAGMENTS[random.integers(len(_FRAGMENTS))] + content[place + gone :]
        elif kind < 0.45:
            place = int(random.integers(len(content) + 1))
            content = content[:place] + random.bytes(1) + content[place + 1 :]
        elif kind < 0.75 and numbers:
            number = numbers[random.integers(len(numbers))]
            other = _NUMBERS[random.integers(len(_NUMBERS))]
            content = content[: number.start()] + other + content[number.end() :]
        elif kind < 0.95 and len(lines) > 1:
            one, two = (int(random.integers(len(lines))) for _ in range(2))
            if kind < 0.82:
                del lines[one]
            elif kind < 0.88:
                lines.insert(two, lines[one])
            else:
                lines[one], lines[two] = lines[two], lines[one]
            content = b"\n".join(lines)
        else:
            content = content[: random.integers(len(content) + 1)]
    return content


@contextmanager
def no_hang(seconds: int = 5) -> Iterator[None]:
    """Fail what takes longer."""

    def stop(*_: object) -> None:
        raise TimeoutError("a damaged file took too long")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
