"""Points, motions and disparities of a rig that moves."""

import numpy as np
import pytest
from moving_scene import MovingScene, sway

from scotopic.backends import cpu_backend
from scotopic.backends.protocol import Look
from scotopic.depth import Calibration
from scotopic.fusion.geometry import Rays, StereoCamera, adjoint, exponential, inverse, project
from scotopic.fusion.motion import derivatives
from scotopic.fusion.warp import HIDDEN, carry_disparity

CAMERA = StereoCamera(100.0, 1.25, 30.0, 20.0, 3.0)
TWIST = np.array([0.2, -0.1, 0.3, 0.02, -0.03, 0.05])


def points_of(disparity: np.ndarray, is_right: bool) -> np.ndarray:
    """The points of every pixel in the left camera's frame, from the pinhole model, in baselines."""
    y, x = np.mgrid[: disparity.shape[0], : disparity.shape[1]].astype(np.float64)
    z = CAMERA.focal / (disparity + CAMERA.doffs)
    center = CAMERA.cx + (CAMERA.doffs if is_right else 0)
    fy = CAMERA.focal / CAMERA.aspect
    return np.stack([(x - center) * z / CAMERA.focal + is_right, (y - CAMERA.cy) * z / fy, z], axis=-1)


@pytest.mark.parametrize("is_right", [False, True])
def test_points_are_seen_where_the_pinhole_model_puts_them(is_right: bool) -> None:
    disparity = np.random.default_rng(0).uniform(4, 20, (40, 60)).astype(np.float32)
    motion = exponential(TWIST)
    moved = points_of(disparity, is_right) @ motion[:3, :3].T + motion[:3, 3]
    x = CAMERA.focal * (moved[..., 0] - is_right) / moved[..., 2] + CAMERA.cx + CAMERA.doffs * is_right
    y = CAMERA.focal / CAMERA.aspect * moved[..., 1] / moved[..., 2] + CAMERA.cy

    rays, place = (
        Rays.of_view(cpu_backend(), CAMERA, disparity.shape, is_right),
        CAMERA.projection(motion, is_right).numbers(),
    )
    column, row, q = project(cpu_backend(), rays, disparity + np.float32(CAMERA.doffs), place)

    assert np.allclose(column, x, atol=2e-3)
    assert np.allclose(row, y, atol=2e-3)
    assert np.allclose(q, CAMERA.focal / moved[..., 2], atol=1e-3)


@pytest.mark.parametrize("is_right", [False, True])
def test_the_derivatives_are_those_of_the_projection(is_right: bool) -> None:
    backend = cpu_backend()
    q = np.random.default_rng(1).uniform(4, 20, (20, 30))
    rays = Rays.of_view(backend, CAMERA, q.shape, is_right)
    step = 1e-3
    for axis, (du, dv) in enumerate(zip(*derivatives(backend, CAMERA, rays, q), strict=True)):
        twist = np.zeros(6)
        twist[axis] = step
        places = (CAMERA.projection(exponential(sign * twist), is_right).numbers() for sign in (1, -1))
        ahead, behind = (project(cpu_backend(), rays, q, place) for place in places)
        assert np.allclose((ahead[0] - behind[0]) / (2 * step), du, atol=0.05)
        assert np.allclose((ahead[1] - behind[1]) / (2 * step), dv, atol=0.05)


def test_motions_are_rigid_and_can_be_undone() -> None:
    motion = exponential(TWIST)

    assert np.allclose(motion[:3, :3] @ motion[:3, :3].T, np.eye(3))
    assert np.linalg.det(motion[:3, :3]) == pytest.approx(1)
    assert np.allclose(inverse(motion) @ motion, np.eye(4))
    assert np.allclose(exponential(TWIST / 3) @ exponential(TWIST / 3) @ exponential(TWIST / 3), motion)
    assert np.allclose(exponential(1e-6 * TWIST)[:3, 3], 1e-6 * TWIST[:3], rtol=1e-4)


def test_the_adjoint_carries_twists_through_a_motion() -> None:
    motion, twist = exponential(TWIST), np.array([0.1, 0.2, -0.1, 0.03, 0.01, -0.02])

    assert np.allclose(motion @ exponential(twist), exponential(adjoint(motion) @ twist) @ motion)


def test_without_a_calibration_the_focal_length_is_the_width() -> None:
    camera = StereoCamera.assumed((100, 200, 3))

    assert (camera.focal, camera.aspect, camera.cx, camera.cy, camera.doffs) == (200, 1, 99.5, 49.5, 0)
    given = StereoCamera.from_calibration(Calibration(fx=300, fy=150, cx=1, cy=2, baseline=0.5, doffs=4))
    assert (given.focal, given.aspect, given.unit, given.doffs) == (300, 2, 0.5, 4)


def test_half_size_keeps_rays() -> None:
    half = CAMERA.halved()  # pixel 7 of the half image is the mean of pixels 14 and 15

    assert (7 - half.cx) / half.focal == pytest.approx((14.5 - CAMERA.cx) / CAMERA.focal)


def test_a_wall_ahead_comes_nearer_when_the_rig_moves_on() -> None:
    scene = MovingScene()
    camera, disparity = scene.camera, np.full((96, 160), scene.focal / 10, np.float32)
    ahead = exponential(np.array([0, 0, 2.0, 0, 0, 0]))  # the pose: two baselines ahead

    carried = carry_disparity(cpu_backend(), camera, disparity, inverse(ahead), False)

    assert np.allclose(carried[20:-20, 20:-20], scene.focal / 8, atol=1e-3)


def test_what_is_in_front_hides_what_is_behind() -> None:
    scene = MovingScene()
    pose = sway(5)
    before, after = scene.draw(), scene.draw(pose)

    carried = carry_disparity(cpu_backend(), scene.camera, before.disparity, inverse(pose), False)

    wrong = np.abs(carried - after.disparity)[8:-8, 20:-20] > 1
    assert wrong.mean() < 0.03  # the board's outline, a pixel or so wide
    look = np.array([Look(scene.camera.projection(pose, False)).numbers()], np.float32)
    q, everywhere = after.disparity + np.float32(scene.camera.doffs), np.ones_like(after.disparity)
    seen, is_seen = cpu_backend().look_back([before.left], [everywhere], q, look, HIDDEN)
    inside = is_seen[8:-8, 20:-20] > 0
    assert 0.8 < inside.mean() < 1  # what the board hid from the first view is not seen there
    difference = np.abs(seen - after.left).max(axis=2)[8:-8, 20:-20]
    assert np.median(difference[inside]) < 0.03  # half a pixel of this texture
    assert np.quantile(difference[inside], 0.97) < 0.15
