"""Trajectories in the formats of KITTI and TUM."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from scotopic.io.trajectory import quaternion, write_kitti, write_tum

Matrix = NDArray[np.float64]


def turn(axis: tuple[float, float, float], angle: float) -> Matrix:
    """The rotation about an axis, by Rodrigues' formula."""
    x, y, z = np.asarray(axis) / np.linalg.norm(axis)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross


def pose(rotation: Matrix, place: tuple[float, float, float]) -> Matrix:
    found = np.eye(4)
    found[:3, :3], found[:3, 3] = rotation, place
    return found


@pytest.mark.parametrize("angle", [0.0, 1e-8, 0.3, np.pi / 2, np.pi - 1e-6, np.pi])
@pytest.mark.parametrize("axis", [(1.0, 0, 0), (0, 1.0, 0), (0, 0, -1.0), (1.0, -2.0, 0.5)])
def test_a_quaternion_is_axis_times_sine_and_cosine_of_half_the_angle(
    axis: tuple[float, float, float], angle: float
) -> None:
    found = quaternion(turn(axis, angle))

    expected = np.array([*(np.sin(angle / 2) * np.asarray(axis) / np.linalg.norm(axis)), np.cos(angle / 2)])
    assert min(np.abs(found - expected).max(), np.abs(found + expected).max()) < 1e-7  # q and -q are one rotation
    assert found[3] >= 0


def test_kitti_has_the_first_three_rows_of_each_pose(tmp_path: Path) -> None:
    poses = [np.eye(4), pose(turn((0, 1.0, 0), 0.1), (0.25, -1.0, 3e-5))]

    write_kitti(tmp_path / "t.txt", poses)

    np.testing.assert_allclose(np.loadtxt(tmp_path / "t.txt"), [each[:3].ravel() for each in poses], rtol=1e-9)


def test_tum_has_time_place_and_quaternion(tmp_path: Path) -> None:
    poses = [np.eye(4), pose(turn((0, 0, 1.0), np.pi / 2), (1.0, 2.0, 3.0))]

    write_tum(tmp_path / "t.txt", zip((0.0, 0.04), poses, strict=True))

    half = np.sqrt(0.5)
    expected = [[0, 0, 0, 0, 0, 0, 0, 1], [0.04, 1, 2, 3, 0, 0, half, half]]
    np.testing.assert_allclose(np.loadtxt(tmp_path / "t.txt"), expected, atol=1e-8)
