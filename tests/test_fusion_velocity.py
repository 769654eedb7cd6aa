"""Things that move by themselves: how fast is found, and their own past is added to them."""

from __future__ import annotations

import numpy as np
import pytest
from devices import DEVICES
from kernel_calls import fetch, on
from moving_scene import BOARD, MovingScene, sway

from scotopic.backends import cpu_backend
from scotopic.fusion.velocity import find_moving
from scotopic.fusion.window import Frame, Moving, fuse_views
from scotopic.settings import NoiseSettings
from scotopic.stages.noise import estimate_noise

SCENE = MovingScene(height=128, width=192)
PHOTONS = 8.0
PIXEL = BOARD / SCENE.focal  # baselines by which the board moves for one px
Window = list[Frame[np.ndarray]]


def window(speed: float, numbers: range | list[int] = range(16), moves: bool = False, seed: int = 0) -> Window:
    """Frames, the newest first, of a board that moves to the right by `speed` px a frame."""
    frames = []
    for k in reversed(numbers):
        pose = sway(k) if moves else np.eye(4)
        pair = SCENE.dark(pose, PHOTONS, 100 * seed + k, board_shift=speed * k * PIXEL)
        frames.append(Frame(pair, (None, None), pose, number=k))
    return frames


def find(frames: Window, speed: float, moves: bool = False) -> list[Moving[np.ndarray]]:
    """What moves, by the true disparities of both views."""
    newest = frames[0].number
    disparities = disparities_of(speed * newest * PIXEL, sway(newest) if moves else None)
    noise = estimate_noise(cpu_backend(), frames[0].images, NoiseSettings())
    return find_moving(cpu_backend(), SCENE.camera, frames[0], frames[1:], disparities, noise, 1.0)


def disparities_of(shift: float, pose: np.ndarray | None = None) -> list[np.ndarray]:
    """True disparities of both views."""
    beside = np.eye(4) if pose is None else pose.copy()
    beside[:3, 3] += beside[:3, 0]
    return [SCENE.draw(each, board_shift=shift).disparity for each in (pose, beside)]


def board(shift: float, is_right: bool = False) -> np.ndarray:
    """Pixels of the board, which is nearer than the wall, for a rig at rest."""
    pose = np.eye(4)
    pose[0, 3] = float(is_right)
    disparity = SCENE.draw(pose, board_shift=shift).disparity
    return np.asarray(disparity > (disparity.min() + disparity.max()) / 2)


@pytest.mark.parametrize("speed", [1.0, -0.5])
def test_the_velocity_of_a_board_is_found_where_the_board_is(speed: float) -> None:
    found = find(window(speed), speed)

    assert found[0].velocity == (speed, 0.0)
    for view in (0, 1):
        there, marked = board(15 * speed * PIXEL, is_right=view == 1), found[0].pixels[view]
        assert (marked & there).sum() > 0.75 * there.sum()
        assert (marked & there).sum() > 0.75 * marked.sum()  # the test looks at blocks, and reaches beyond an edge


def test_a_board_is_found_from_cameras_that_move() -> None:
    found = find(window(1.0, moves=True), 1.0, moves=True)

    assert found[0].velocity == (1.0, 0.0)


@pytest.mark.parametrize("device", DEVICES)
def test_every_device_finds_the_same(device: str) -> None:
    frames, there = window(2.0, range(8)), on(device)
    placed = [
        Frame((there.place(left), there.place(right)), (None, None), each.pose, number=each.number)
        for each in frames
        for left, right in [each.images]
    ]
    noise = estimate_noise(cpu_backend(), frames[0].images, NoiseSettings())
    disparities = disparities_of(14 * PIXEL)

    (found,) = find_moving(
        there.backend, SCENE.camera, placed[0], placed[1:], [there.place(each) for each in disparities], noise, 1.0
    )

    (expected,) = find_moving(cpu_backend(), SCENE.camera, frames[0], frames[1:], disparities, noise, 1.0)
    assert found.velocity == expected.velocity == (2.0, 0.0)
    for one, other in zip(found.pixels, expected.pixels, strict=True):
        assert (fetch(one) != other).mean() < 0.01  # rounding decides at a threshold


@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_nothing_moves_in_a_scene_at_rest(moves: bool, seed: int) -> None:
    assert find(window(0.0, moves=moves, seed=seed), 0.0, moves) == []


def test_noise_alone_does_not_move() -> None:
    rng = np.random.default_rng(0)
    gray = [rng.poisson(2.0, (2, 128, 192, 3)).astype(np.float32) / 4 for _ in range(16)]
    frames = [Frame((left, right), (None, None), np.eye(4), number=-k) for k, (left, right) in enumerate(gray)]
    noise = estimate_noise(cpu_backend(), frames[0].images, NoiseSettings())
    flat = np.full((128, 192), 8.0, np.float32)

    assert find_moving(cpu_backend(), SCENE.camera, frames[0], frames[1:], [flat, flat], noise, 1.0) == []


def test_lost_frames_count_as_time() -> None:
    numbers = [0, 1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 14, 15, 16, 17, 18]

    found = find(window(1.0, numbers), 1.0)

    assert found[0].velocity == (1.0, 0.0)
    assert found[0].step(7) == (7, 0)


@pytest.mark.parametrize("count", [1, 7])
def test_few_frames_tell_nothing(count: int) -> None:
    assert find(window(1.0, range(count)), 1.0) == []


def test_what_moves_gets_the_light_of_its_own_past() -> None:
    frames = window(1.0)
    now = SCENE.draw(board_shift=15 * PIXEL)
    noise = estimate_noise(cpu_backend(), frames[0].images, NoiseSettings())

    views = [
        fuse_views(
            cpu_backend(), SCENE.camera, frames[0], frames[1:], disparities_of(15 * PIXEL), noise, moving=moving
        )[0]
        for moving in ([], find(frames, 1.0))
    ]

    inner = board(15 * PIXEL) & np.roll(board(15 * PIXEL), 12, axis=1) & np.roll(board(15 * PIXEL), -12, axis=1)
    errors = [np.sqrt(((each.image - now.left)[inner] ** 2).mean()) for each in views]
    alone = np.sqrt(((frames[0].images[0] - now.left)[inner] ** 2).mean())
    assert np.median(views[1].frames[inner]) > 12 > np.median(views[0].frames[inner])
    assert errors[1] < alone / 3  # sqrt(16) = 4 times less noise, but for what is half a pixel out of place
    assert errors[1] < 0.8 * errors[0]


def test_what_comes_from_beyond_an_edge_does_not_count() -> None:
    image = np.ones((8, 8, 1), np.float32)
    frames = [Frame((image, image), (None, None), np.eye(4), number=k) for k in (1, 0)]
    everywhere = np.ones((8, 8), bool)
    noise = estimate_noise(cpu_backend(), [image + 0.1 * np.eye(8, dtype=np.float32)[..., None]], NoiseSettings())
    moving = Moving((2.0, 0.0), (everywhere, everywhere))

    views = fuse_views(
        cpu_backend(), SCENE.camera, frames[0], frames[1:], 2 * [4 * image[..., 0]], noise, moving=[moving]
    )

    for view in views:
        np.testing.assert_array_equal(view.frames, np.where(np.arange(8) < 2, 1, 2) + 0 * view.frames)
        np.testing.assert_array_equal(view.image, image)
