"""Depth maps as depth cameras and ROS store them: 16-bit PNG in millimeters, 0 where there is none."""

import os

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError
from scotopic.io.disparity import check_map
from scotopic.io.images import read_image, write_png

FARTHEST = 65.535  #: meters; what is farther has no place in 16 bits, and is stored as none


def write_depth_png(path: str | os.PathLike[str], depth: NDArray[np.floating]) -> None:
    """Write a depth map, ``H x W`` meters, NaN where there is none, as 16-bit PNG: millimeters, 0 where there is none.

    That is what RealSense stores and what ROS calls ``16UC1``. Depths are rounded to whole millimeters. Those beyond
    :data:`FARTHEST`, and below half a millimeter, become none.

    Raises :class:`InputError` if the array is not such a map, and :class:`OutputError` if the file cannot be written.
    """
    millimeters = np.rint(
        np.nan_to_num(check_map(depth, path), nan=0.0, posinf=0.0, neginf=0.0).astype(np.float64) * 1000
    )
    stored = np.where((millimeters >= 0) & (millimeters <= 65535), millimeters, 0).astype(np.uint16)
    write_png(path, stored)


def read_depth_png(path: str | os.PathLike[str]) -> NDArray[np.float32]:
    """Read a depth map, ``H x W`` meters, NaN where there is none, from a 16-bit PNG in millimeters.

    Raises :class:`InputError` if the file is missing or damaged, or is no such map.
    """
    stored = read_image(path)
    if stored.dtype != np.uint16 or stored.ndim != 2:
        raise InputError(
            f"{os.fspath(path)!r} has shape {stored.shape} and type {stored.dtype}, but a depth map in millimeters has "
            "one channel of 16 bits."
        )
    return np.where(stored == 0, np.float32(np.nan), stored.astype(np.float32) / np.float32(1000))
