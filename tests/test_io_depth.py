"""Depth maps as depth cameras and ROS store them."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from scotopic.errors import InputError
from scotopic.io import read_depth_png, write_depth_png, write_png


def test_depth_is_stored_in_whole_millimeters_and_0_where_there_is_none(tmp_path: Path) -> None:
    meters = np.float32([[2.0, 0.75, 1.2346, 65.535], [np.nan, np.inf, 65.6, 1e30], [0.0004, 0.0, -1.0, -np.inf]])

    write_depth_png(tmp_path / "depth.png", meters)

    stored = cv2.imread(str(tmp_path / "depth.png"), cv2.IMREAD_UNCHANGED)
    assert stored.dtype == np.uint16
    assert stored.tolist() == [[2000, 750, 1235, 65535], [0, 0, 0, 0], [0, 0, 0, 0]]


def test_depth_is_read_in_meters_and_nan_where_there_is_none(tmp_path: Path) -> None:
    write_png(tmp_path / "depth.png", np.uint16([[0, 1, 1500, 65535]]))

    depth = read_depth_png(tmp_path / "depth.png")

    np.testing.assert_allclose(depth, np.float32([[np.nan, 0.001, 1.5, 65.535]]), rtol=1e-6)
    assert depth.dtype == np.float32


@pytest.mark.parametrize("pixels", [np.zeros((2, 3), np.uint8), np.zeros((2, 3, 3), np.uint16)])
def test_what_is_no_depth_in_16_bits_is_refused(tmp_path: Path, pixels: np.ndarray) -> None:
    write_png(tmp_path / "depth.png", pixels)

    with pytest.raises(InputError, match=r"depth\.png.*one channel of 16 bits"):
        read_depth_png(tmp_path / "depth.png")


def test_what_is_no_map_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="H x W"):
        write_depth_png(tmp_path / "depth.png", np.zeros((2, 3, 3), np.float32))
    assert list(tmp_path.iterdir()) == []
