"""The kernels of the fusion against their definitions, on every device."""

from __future__ import annotations

import numpy as np
import pytest
from devices import DEVICES
from kernel_calls import Calls, fetch, on

from scotopic.backends.protocol import Compared
from scotopic.fusion.geometry import StereoCamera, exponential

HEIGHT, WIDTH, CHANNELS = 7, 9, 2
CAMERA = StereoCamera(12.0, 1.1, 4.2, 2.9, 0.5)
MOTION = exponential(np.array([0.15, -0.2, 0.3, 0.02, -0.03, 0.05]))


@pytest.fixture(params=DEVICES)
def there(request: pytest.FixtureRequest) -> Calls:
    return on(request.param)


def random(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).random(shape).astype(np.float32)


def places(q: np.ndarray, is_right: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Column, row and q of every point after the motion, by way of its place in space."""
    i, j = np.mgrid[: q.shape[0], : q.shape[1]]
    center = CAMERA.cx + (CAMERA.doffs if is_right else 0)
    rays = np.stack([j - center, (i - CAMERA.cy) * CAMERA.aspect, np.full(q.shape, CAMERA.focal)], axis=-1)
    step = np.array([float(is_right), 0, 0])  # the right camera is one baseline to the right
    points = (rays / q[..., None] + step) @ MOTION[:3, :3].T + MOTION[:3, 3] - step
    x, y, z = np.moveaxis(points, -1, 0)
    return x * CAMERA.focal / z + center, y * CAMERA.focal / (z * CAMERA.aspect) + CAMERA.cy, CAMERA.focal / z


@pytest.mark.parametrize("is_right", [False, True])
def test_the_nearest_point_is_in_front(there: Calls, is_right: bool) -> None:
    q = 1 + 4 * random(0, HEIGHT, WIDTH)

    found = fetch(there.backend.splat(there.place(q), CAMERA.projection(MOTION, is_right)))

    expected = np.zeros((HEIGHT, WIDTH))
    for x, y, near in zip(*(each.ravel() for each in places(q, is_right)), strict=True):
        for column in (int(np.floor(x)), int(np.floor(x)) + 1):
            for row in (int(np.floor(y)), int(np.floor(y)) + 1):
                if 0 <= column < WIDTH and 0 <= row < HEIGHT:
                    expected[row, column] = max(expected[row, column], near)
    assert (expected > 0).mean() > 0.5
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("is_right", [False, True])
def test_an_image_is_seen_at_the_nearest_pixel_unless_something_hides_it(there: Calls, is_right: bool) -> None:
    q, image = 1 + 4 * random(1, HEIGHT, WIDTH), random(2, HEIGHT, WIDTH, CHANNELS)
    projection = CAMERA.projection(MOTION, is_right)
    front = fetch(there.backend.splat(there.place(q), projection))

    found = there.backend.look_back(there.place(image), there.place(q), projection, 0.5)

    seen, is_seen = (fetch(each) for each in found)
    hidden = 0
    for i, j in np.ndindex(HEIGHT, WIDTH):
        x, y, near = (each[i, j] for each in places(q, is_right))
        column, row = int(np.floor(x + 0.5)), int(np.floor(y + 0.5))
        inside = 0 <= column < WIDTH and 0 <= row < HEIGHT
        is_free = inside and bool(front[row, column] <= near + 0.5)
        hidden += inside and not is_free
        assert is_seen[i, j] == is_free
        if inside:
            np.testing.assert_array_equal(seen[i, j], image[row, column])
    assert hidden > 0


def test_nothing_is_seen_of_what_is_behind_the_camera(there: Calls) -> None:
    q, image = np.ones((HEIGHT, WIDTH), np.float32), random(3, HEIGHT, WIDTH, 1)
    behind = np.eye(4)
    behind[2, 3] = -2 * CAMERA.focal

    projection = CAMERA.projection(behind, is_right=False)

    assert fetch(there.backend.splat(there.place(q), projection)).max() == 0
    assert not fetch(there.backend.look_back(there.place(image), there.place(q), projection, 1.0)[1]).any()


@pytest.mark.parametrize("channels", [1, 3])
def test_the_sums_of_a_comparison_are_those_of_the_definition(there: Calls, channels: int) -> None:
    shape = HEIGHT, WIDTH, channels
    views, expected = [], []
    for is_right in (False, True):
        image, other = random(4, *shape), random(5, *shape)
        jacobian, weight = random(6, 6, *shape), random(7, HEIGHT, WIDTH)
        q = 1 + 4 * random(8, HEIGHT, WIDTH)
        x, y, _ = places(q, is_right)
        total = np.zeros((9, 3))
        for i, j in np.ndindex(HEIGHT, WIDTH):
            if not (0 <= x[i, j] <= WIDTH - 1 and 0 <= y[i, j] <= HEIGHT - 1):
                continue
            left, top = min(int(x[i, j]), WIDTH - 2), min(int(y[i, j]), HEIGHT - 2)
            a, b = x[i, j] - left, y[i, j] - top
            between = np.array([[(1 - a) * (1 - b), a * (1 - b)], [(1 - a) * b, a * b]])
            for c in range(channels):
                s = (between * other[top : top + 2, left : left + 2, c]).sum()
                row = np.array([1, image[i, j, c], s, *jacobian[:, i, j, c]])
                total += weight[i, j] * np.outer(row, row[:3])
        arrays = [there.place(each) for each in (image, jacobian, weight, q, other)]
        views.append(Compared(*arrays, CAMERA.projection(MOTION, is_right)))
        expected.append(total)

    found = there.backend.compare(views)

    assert all(each.dtype == np.float64 for each in found)
    np.testing.assert_allclose(found, expected, rtol=1e-4)
