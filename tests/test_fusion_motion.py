"""The motion between two pairs, with its covariance, in light and in the dark."""

from __future__ import annotations

import numpy as np
import pytest
from devices import DEVICES, backend_of
from moving_scene import MovingScene, sway

from scotopic.backends import cpu_backend
from scotopic.fusion.geometry import Rays, StereoCamera, exponential, inverse, project
from scotopic.fusion.motion import Motion, View, derivatives, estimate_motion, sandwich
from scotopic.subpixel import nearest_pixel

SCENE = MovingScene()


def template_of(scene: MovingScene, pose: np.ndarray | None = None) -> list[View[np.ndarray]]:
    """A template without noise: what the scene shows, at half size."""
    backend, picture = cpu_backend(), scene.draw(pose)
    width = picture.disparity.shape[1]
    # The right view's disparity: that of the left pixel that lands there; the wall's where none does.
    right = np.full_like(picture.disparity, picture.disparity.min())
    columns = np.arange(width)
    for row, values in enumerate(picture.disparity):
        places = nearest_pixel(columns - values).astype(int)
        order = np.argsort(values, kind="stable")
        inside = order[(places[order] >= 0) & (places[order] < width)]
        right[row, places[inside]] = values[inside]
    weight = np.ones_like(backend.halve(right))
    return [
        View(backend.halve(image), backend.halve(disparity) / 2, weight)
        for image, disparity in ((picture.left, picture.disparity), (picture.right, right))
    ]


def reprojection(scene: MovingScene, found: np.ndarray, true: np.ndarray) -> float:
    """Mean distance, px, between where the points of the first view are seen by two motions."""
    disparity = scene.draw().disparity
    rays = Rays.of_view(cpu_backend(), scene.camera, disparity.shape, False)
    places = (scene.camera.projection(motion, False).numbers() for motion in (found, true))
    one, other = (project(cpu_backend(), rays, disparity, place) for place in places)
    return float(np.hypot(one[0] - other[0], one[1] - other[1]).mean())


def find(scene: MovingScene, pair: tuple[np.ndarray, np.ndarray], starts: list[np.ndarray] | None = None) -> Motion:
    return estimate_motion(cpu_backend(), scene.camera, template_of(scene), pair, starts or [np.eye(4)])


@pytest.mark.parametrize(
    "twist",
    [
        [0, 0, 0, 0, 0, 0],
        [0.2, 0, 0, 0, 0, 0],
        [0, 0.15, 0.4, 0, 0, 0],
        [0, 0, 0, 0.02, -0.02, 0.03],
        [-0.2, 0.1, -0.3, 0.01, 0.02, -0.02],
    ],
)
def test_a_motion_is_found_to_a_small_part_of_a_pixel(twist: list[float]) -> None:
    pose = exponential(np.array(twist))
    seen = SCENE.draw(pose)

    found = find(SCENE, (seen.left, seen.right))

    assert reprojection(SCENE, found.matrix, inverse(pose)) < 0.1
    assert found.gain == pytest.approx((1, 1), abs=0.15)  # interpolation takes a little contrast away


def test_exposure_and_black_level_do_not_move_it() -> None:
    pose = sway(2)
    seen = SCENE.draw(pose)

    found = find(SCENE, (0.5 * seen.left + 0.1, 0.7 * seen.right + 0.05))

    assert reprojection(SCENE, found.matrix, inverse(pose)) < 0.1
    assert found.gain == pytest.approx((0.5, 0.7), rel=0.15)


def test_a_step_ahead_is_found_from_one_of_several_starts() -> None:
    pose = exponential(np.array([0, 0, 2.2, 0, 0.01, 0]))
    seen = SCENE.draw(pose)
    starts = [np.eye(4), exponential(np.array([0, 0, -1.0, 0, 0, 0])), exponential(np.array([0, 0, -2.5, 0, 0, 0]))]

    found = find(SCENE, (seen.left, seen.right), starts)

    assert reprojection(SCENE, found.matrix, inverse(pose)) < 0.2


def test_its_covariance_is_honest_in_the_dark() -> None:
    """The error, squared and in units of the covariance, is 6 in the mean for 6 numbers."""
    pose = sway(1)
    squares, distances = [], []
    for seed in range(24):
        found = find(SCENE, SCENE.dark(pose, 8, seed))
        error = inverse(inverse(pose)) @ found.matrix  # exp(e): the twist before the motion that is left
        rotation = error[:3, :3]
        twist = np.r_[error[:3, 3], rotation[2, 1], rotation[0, 2], rotation[1, 0]]
        squares.append(twist @ np.linalg.solve(found.covariance, twist))
        distances.append(reprojection(SCENE, found.matrix, inverse(pose)))

    assert 3 < np.mean(squares) < 12
    assert np.mean(distances) < 0.5


def test_a_shift_and_a_turn_that_look_alike_are_known_as_badly_as_they_show() -> None:
    """Through a long lens, all points about as far, the two differ by little; in other units than px, by nothing.

    If each change of place by 1 px shows alike, the slopes are ``a`` times the flow and their noise ``m`` times it;
    then the covariance is ``m / a^2`` times the inverse of the flow.
    """
    camera = StereoCamera(600.0, 1.0, 79.5, 47.5)
    rays = Rays.of_view(cpu_backend(), camera, (96, 160), False)
    q = np.random.default_rng(0).uniform(20, 22, (96, 160)).astype(np.float32)
    places = np.concatenate([each.reshape(6, -1) for each in derivatives(cpu_backend(), camera, rays, q)], axis=1)
    flow = places.astype(np.float64) @ places.T.astype(np.float64) / q.size
    slopes, noise = 5.0, 3.0

    found = sandwich(slopes * flow, np.sqrt(noise) * np.linalg.cholesky(flow), flow)

    expected = noise / slopes**2 * np.linalg.inv(flow)
    assert np.linalg.cond(flow) > 1e6
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6 * np.abs(expected).max())


def test_along_a_direction_that_does_not_show_little_is_known() -> None:
    """As where all edges are upright: the smallest slope that counts is a thousandth of the largest."""
    flow = np.diag([4.0, 4.0, 1.0, 900.0, 900.0, 100.0])
    slopes = flow * np.diag([1.0, 0.0, 1.0, -0.1, 1.0, 1.0])

    found = sandwich(slopes, np.sqrt(flow), flow)

    lengths = flow.diagonal()
    expected = np.where([0, 1, 0, 1, 0, 0], 1e6, 1.0) / lengths
    np.testing.assert_allclose(found, np.diag(expected), atol=1e-9)
    assert np.isinf(sandwich(-flow, np.sqrt(flow), flow).diagonal()).all()


def test_another_scene_is_not_alike() -> None:
    same, other = SCENE.dark(sway(1), 16, 0), MovingScene(seed=7).dark(sway(1), 16, 0)

    assert find(SCENE, same).likeness > 8
    assert find(SCENE, other).likeness < 5


def test_nothing_depends_on_an_image_that_is_darker_than_its_noise() -> None:
    """A pair of noise alone is like nothing, and its motion is not known."""
    rng = np.random.default_rng(0)
    noise = [rng.normal(0.5, 0.3, (96, 160, 3)).astype(np.float32) for _ in range(2)]

    found = find(SCENE, (noise[0], noise[1]))

    assert found.likeness < 5
    assert np.all(np.isfinite(found.matrix))


@pytest.mark.parametrize("device", DEVICES)
def test_both_devices_find_the_same_motion(device: str) -> None:
    backend = backend_of(device)
    pose = sway(2)
    pair = SCENE.dark(pose, 32, 0)
    template = [
        View(*(backend.asarray(each) for each in (view.image, view.disparity, view.weight)))
        for view in template_of(SCENE)
    ]

    found = estimate_motion(backend, SCENE.camera, template, [backend.asarray(image) for image in pair], [np.eye(4)])

    expected = find(SCENE, pair)
    assert np.allclose(found.matrix, expected.matrix, atol=1e-4)
    assert np.allclose(found.covariance, expected.covariance, rtol=1e-2, atol=1e-9)
