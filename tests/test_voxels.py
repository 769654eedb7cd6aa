"""The map of a scene: points averaged in cubes, in bounded memory."""

from __future__ import annotations

import numpy as np
import pytest

from scotopic.depth.triangulate import PointCloud
from scotopic.depth.voxels import VoxelMap


def random_cloud(count: int, seed: int, spread: float = 3.0) -> PointCloud:
    random = np.random.default_rng(seed)
    points = random.uniform(-spread, spread, (count, 3)).astype(np.float32)
    return PointCloud(points, random.integers(0, 256, (count, 3), np.uint8), random.random(count, np.float32))


def means_by_hand(clouds: list[PointCloud], size: float) -> dict[tuple[int, ...], tuple[float, ...]]:
    """The mean of the points, colors and confidences of each cube, one after the other."""
    cubes: dict[tuple[int, ...], list[list[float]]] = {}
    for cloud in clouds:
        for point, color, confidence in zip(cloud.points, cloud.colors, cloud.confidence, strict=True):
            cube = tuple(int(np.floor(float(value) / size)) for value in point)
            cubes.setdefault(cube, []).append([*map(float, point), *map(float, color), float(confidence)])
    return {cube: tuple(np.mean(rows, axis=0)) for cube, rows in cubes.items()}


def assert_is(found: PointCloud, expected: dict[tuple[int, ...], tuple[float, ...]]) -> None:
    assert len(found) == len(expected)
    rows = np.array([expected[cube] for cube in sorted(expected)])  # which is the order of the keys
    np.testing.assert_allclose(found.points, rows[:, :3], atol=1e-5)
    np.testing.assert_allclose(found.colors, rows[:, 3:6], atol=0.51)
    np.testing.assert_allclose(found.confidence, rows[:, 6], atol=1e-5)


@pytest.mark.parametrize("most", [100_000, 20])  # 20: merged after every cloud
def test_each_cube_has_the_mean_of_what_falls_into_it(most: int) -> None:
    clouds = [random_cloud(200, seed, spread=1.0) for seed in range(3)]
    cubes = VoxelMap(1.0, most)

    for cloud in clouds:
        cubes.add(cloud)

    assert_is(cubes.cloud(), means_by_hand(clouds, 1.0))


def test_too_many_cubes_are_merged_as_if_they_had_been_larger_from_the_start() -> None:
    clouds = [random_cloud(300, seed) for seed in range(4)]
    cubes = VoxelMap(0.25, most=100)

    for cloud in clouds:
        cubes.add(cloud)
        assert len(cubes) <= 100

    assert cubes.size == 0.25 * 2 ** round(np.log2(cubes.size / 0.25)) > 0.25
    assert_is(cubes.cloud(), means_by_hand(clouds, cubes.size))


def test_points_count_by_their_weight() -> None:
    points = np.array([[0.1, 0.1, 0.1], [0.9, 0.9, 0.9]], np.float32)
    cubes = VoxelMap(1.0)

    cubes.add(PointCloud(points, np.array([[0] * 3, [100] * 3], np.uint8), np.ones(2, np.float32)), np.array([1.0, 3]))

    np.testing.assert_allclose(cubes.cloud().points, [[0.7, 0.7, 0.7]], rtol=1e-6)
    assert cubes.cloud().colors.tolist() == [[75, 75, 75]]


def test_points_beyond_a_million_cubes_are_left_out_and_nothing_is_a_map_too() -> None:
    far = np.array([[0, 0, 2.0**21], [0.5, 0.5, 0.5]], np.float32)
    cubes = VoxelMap(1.0)
    assert len(cubes) == len(cubes.cloud()) == 0

    cubes.add(PointCloud(far, np.zeros((2, 3), np.uint8), np.ones(2, np.float32)))
    cubes.add(PointCloud(far[:0], np.zeros((0, 3), np.uint8), np.ones(0, np.float32)))

    np.testing.assert_array_equal(cubes.cloud().points, far[1:])


def test_a_moved_cloud_is_where_the_pose_takes_it() -> None:
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = [[0, -1, 0], [1, 0, 0], [0, 0, 1]], [10, 0, 0]  # 90 degrees about z

    moved = PointCloud(np.array([[1, 2, 3]], np.float32), np.zeros((1, 3), np.uint8), np.ones(1, np.float32)).moved(
        pose
    )

    np.testing.assert_allclose(moved.points, [[8, 1, 3]])
