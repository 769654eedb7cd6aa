"""Errors of poses, against what the formulas give for motions that are wrong by a known amount."""

from __future__ import annotations

import math

import numpy as np
import pytest
from moving_rig import moving_rig, pose_of

from scotopic.demo import render_scene
from scotopic.evaluation.pose_errors import (
    normalized_error,
    pose_errors,
    relative_errors,
    reprojection_error,
    segments,
)
from scotopic.evaluation.sequence import Matrix, StereoSequence
from scotopic.fusion.geometry import exponential, logarithm


def ahead(step: float, frames: int, degrees: float = 0.0) -> list[Matrix]:
    """Poses of a rig that moves ahead by so much each frame, and looks more and more aside."""
    return [pose_of((0.0, 0.0, step * k), degrees * k) for k in range(frames)]


@pytest.mark.parametrize("size", [1e-7, 1e-4, 1e-2, 1.0, 2.5])
def test_the_logarithm_undoes_the_exponential(size: float) -> None:
    twist = size * np.array([0.5, -0.2, 0.3, 0.4, -0.6, 0.2]) / np.linalg.norm([0.4, -0.6, 0.2])

    np.testing.assert_allclose(logarithm(exponential(twist)), twist, rtol=1e-7, atol=1e-12)


def test_a_path_too_long_by_two_percent_has_that_translation_error_and_no_rotation_error() -> None:
    translation, rotation = relative_errors(ahead(1.0, 17), ahead(1.02, 17))

    assert translation == pytest.approx(2.0)
    assert rotation == pytest.approx(0.0, abs=1e-9)


def test_a_turn_that_is_not_there_is_an_error_per_length() -> None:
    # 0.3 degrees a frame, 1.5 a frame apart: 0.2 degrees per unit of length, over segments of any length.
    _, rotation = relative_errors(ahead(1.5, 9), ahead(1.5, 9, degrees=0.3))

    assert rotation == pytest.approx(0.2)


def test_lengths_are_those_of_kitti_where_the_path_is_long_enough_and_else_eighths_of_it() -> None:
    long, short = list(segments(ahead(50.0, 6))), list(segments(ahead(1.0, 9)))

    # 250 in all: 100 is two frames on, from four of the frames; 200 four frames on, from two of them.
    assert [(i, j) for i, j, _ in long] == [(0, 2), (0, 4), (1, 3), (1, 5), (2, 4), (3, 5)]
    # 8 in all: lengths 1 to 8, which begin at as many frames as leave room for them.
    assert sorted(length for *_, length in short) == sorted(float(k) for k in range(1, 9) for _ in range(9 - k))


def test_a_length_between_two_frames_is_divided_by_the_path_to_the_later_one() -> None:
    # Four steps of 1: eighths are 0.5 to 4, and 0.5 is measured over 1.
    found = [(i, j, length) for i, j, length in segments(ahead(1.0, 5)) if i == 0]

    assert found == [(0, j, float(j)) for j in (1, 1, 2, 2, 3, 3, 4, 4)]


def test_a_rig_that_stands_still_has_no_relative_error() -> None:
    assert all(math.isnan(error) for error in relative_errors(ahead(0.0, 4), ahead(0.1, 4)))


def test_a_shift_to_the_side_moves_each_point_by_that_share_of_its_disparity() -> None:
    # A point of disparity d is seen d pixels further left from one baseline to the right.
    scene = render_scene(64, 48)
    sequence = StereoSequence(
        "rest", ((scene.left, scene.right),) * 2, scene.calibration, (np.eye(4),) * 2, (scene.disparity_left,) * 2
    )

    found = reprojection_error(sequence, [np.eye(4), pose_of((0.25, 0.0, 0.0))], 1, 0)

    assert found == pytest.approx(0.25 * float(scene.disparity_left.mean()), rel=1e-5)


def test_true_poses_explain_the_truth_of_every_frame() -> None:
    """Of a point that both frames see, the disparity in the other frame is that of its depth there."""
    sequence = moving_rig(2)
    assert sequence.poses is not None
    c, motion = sequence.calibration, np.linalg.inv(sequence.poses[0]) @ sequence.poses[1]
    truth = sequence.truth(1).astype(np.float64)
    y, x = np.mgrid[: truth.shape[0], : truth.shape[1]]
    points = np.stack([(x - c.cx) / truth, (y - c.cy) / truth, c.fx / truth])
    moved = np.tensordot(motion[:3, :3], points, 1) + motion[:3, 3, None, None]
    column, row = (np.rint(c.fx * moved[k] / moved[2] + (c.cx, c.cy)[k]).astype(int) for k in (0, 1))
    inside = (column >= 0) & (column < truth.shape[1]) & (row >= 0) & (row < truth.shape[0])

    error = np.abs(sequence.truth(0)[row[inside], column[inside]] - (c.fx / moved[2])[inside])

    assert np.quantile(error, 0.9) < 0.5  # half a pixel from its place, on slanted surfaces


def test_the_error_of_true_poses_is_zero_and_nothing_is_known_without_them() -> None:
    sequence = moving_rig(3)
    assert sequence.poses is not None
    found = pose_errors(sequence, sequence.poses, [np.eye(6)] * 3)
    unknown = pose_errors(StereoSequence("rig", sequence.pairs, sequence.calibration), sequence.poses)

    for error in (found.translation_percent, found.rotation_per_length, found.step_px, found.last_px, found.nees):
        assert error == pytest.approx(0.0, abs=1e-6)
    assert all(math.isnan(error) for error in vars(unknown).values())


def test_the_normalized_error_counts_standard_deviations() -> None:
    # Two standard deviations along one axis and one along another: 4 + 1.
    covariance = np.diag([0.01, 0.01, 0.01, 1e-6, 1e-6, 1e-6])
    true = pose_of((1.0, 2.0, 3.0), 10.0)
    twist = np.array([0.2, 0.0, 0.0, 0.0, 0.0, 1e-3])

    assert normalized_error(exponential(twist) @ true, true, covariance) == pytest.approx(5.0)
    assert math.isnan(normalized_error(true, true, np.diag(np.full(6, np.inf))))  # after a cut


def test_over_many_poses_with_honest_covariance_the_normalized_error_is_six() -> None:
    random = np.random.default_rng(0)
    root = 0.01 * random.standard_normal((6, 6))
    true = pose_of((0.3, 0.1, 0.5), 4.0)

    found = [
        normalized_error(exponential(root @ random.standard_normal(6)) @ true, true, root @ root.T) for _ in range(500)
    ]

    assert np.mean(found) == pytest.approx(6.0, abs=4 * math.sqrt(12 / 500))  # a chi-squared mean, at 4 standard errors
