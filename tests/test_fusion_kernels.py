"""The kernels of the fusion against their definitions, on every device."""

from __future__ import annotations

import numpy as np
import pytest
from devices import DEVICES
from kernel_calls import Calls, on

from scotopic.backends.protocol import Compared, Look, Projection
from scotopic.fusion.geometry import StereoCamera, exponential

HEIGHT, WIDTH, CHANNELS = 7, 9, 2
CAMERA = StereoCamera(12.0, 1.1, 4.2, 2.9, 0.5)
MOTION = exponential(np.array([0.15, -0.2, 0.3, 0.02, -0.03, 0.05]))


@pytest.fixture(params=DEVICES)
def there(request: pytest.FixtureRequest) -> Calls:
    return on(request.param)


def random(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).random(shape).astype(np.float32)


def numbers(of: Projection | Look) -> np.ndarray:
    return np.array(of.numbers(), np.float32)


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

    found = there.splat(q, numbers(CAMERA.projection(MOTION, is_right)))

    expected = np.zeros((HEIGHT, WIDTH))
    for x, y, near in zip(*(each.ravel() for each in places(q, is_right)), strict=True):
        for column in (int(np.floor(x)), int(np.floor(x)) + 1):
            for row in (int(np.floor(y)), int(np.floor(y)) + 1):
                if 0 <= column < WIDTH and 0 <= row < HEIGHT:
                    expected[row, column] = max(expected[row, column], near)
    assert (expected > 0).mean() > 0.5
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("is_right", [False, True])
def test_images_are_seen_at_the_nearest_pixel_unless_something_hides_it(there: Calls, is_right: bool) -> None:
    q, place = 1 + 4 * random(1, HEIGHT, WIDTH), CAMERA.projection(MOTION, is_right)
    images = [random(seed, HEIGHT, WIDTH, CHANNELS) for seed in (2, 3)]
    counts = [(random(seed, HEIGHT, WIDTH) > 0.2).astype(np.float32) for seed in (4, 5)]
    looks = [Look(place), Look(place, worth=0.5, gain=2.0, offset=0.125, step=(2, -1))]
    front = there.splat(q, numbers(place))

    found = there.look_back(images, counts, q, np.stack([numbers(look) for look in looks]), 0.5)

    total, weight = np.zeros((HEIGHT, WIDTH, CHANNELS)), np.zeros((HEIGHT, WIDTH))
    hidden = 0
    for i, j in np.ndindex(HEIGHT, WIDTH):
        x, y, near = (each[i, j] for each in places(q, is_right))
        column, row = int(np.floor(x + 0.5)), int(np.floor(y + 0.5))
        if not (0 <= column < WIDTH and 0 <= row < HEIGHT):
            continue
        if front[row, column] > near + 0.5:
            hidden += 1
            continue
        for image, count, look in zip(images, counts, looks, strict=True):
            before = row - look.step[1], column - look.step[0]
            if 0 <= before[0] < HEIGHT and 0 <= before[1] < WIDTH:
                weight[i, j] += look.worth * count[before]
                total[i, j] += look.worth * count[before] * (image[before] - look.offset) / look.gain
    assert hidden > 0
    assert {0, 0.5, 1, 1.5} == set(weight.ravel())
    np.testing.assert_allclose(found[0], total, atol=1e-6)
    np.testing.assert_allclose(found[1], weight)


def test_nothing_is_seen_of_what_is_behind_the_camera(there: Calls) -> None:
    q, image = np.ones((HEIGHT, WIDTH), np.float32), random(3, HEIGHT, WIDTH, 1)
    behind = np.eye(4)
    behind[2, 3] = -2 * CAMERA.focal

    projection = CAMERA.projection(behind, is_right=False)

    assert there.splat(q, numbers(projection)).max() == 0
    assert there.look_back([image], [np.ones_like(q)], q, numbers(Look(projection))[None], 1.0)[1].max() == 0


@pytest.mark.parametrize("channels", [1, 3])
def test_the_sums_of_a_comparison_are_those_of_the_definition(there: Calls, channels: int) -> None:
    shape = HEIGHT, WIDTH, channels
    views, places_of, expected = [], [], []
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
        views.append((image, jacobian, weight, q, other))
        places_of.append([CAMERA.projection(motion, is_right) for motion in (MOTION, np.eye(4))])
        expected.append(total)
    compared = Compared(*(there.place(np.stack(both)) for both in zip(*views, strict=True)))

    found = there.backend.compare(compared, list(zip(*places_of, strict=True)))

    assert found.dtype == np.float64
    np.testing.assert_allclose(found[0], expected, rtol=1e-4)
    alone = there.backend.compare(compared, [[places[1] for places in places_of]])  # whatever else is compared
    np.testing.assert_array_equal(found[1], alone[0])


@pytest.mark.parametrize("channels", [1, 3])
def test_the_gains_of_velocities_are_those_of_the_definition(there: Calls, channels: int) -> None:
    parts, margin, most = 3, 1, 2.0
    means, weights = random(9, 2, parts, channels, HEIGHT, WIDTH), random(10, 2, parts, HEIGHT, WIDTH)
    weights[weights < 0.3] = 0  # not seen
    certainty = 30 * random(11, 2, channels, HEIGHT, WIDTH)
    steps = np.array([[[0, 0], [1, 0], [2, -1]], [[-1, 1], [-3, 2], [-20, 0]], [[0, 0], [0, 9], [1, 1]]], np.int32)

    found = there.velocity_gains(means, weights, certainty, steps, most, margin)

    def misfits(view: int, y: int, x: int, moved: np.ndarray) -> list[float]:
        """How much each part but the newest differs from the mean of the newer ones; NaN where either is not seen."""
        values, light, differences = np.zeros((0, channels)), np.zeros(0), []
        for part, (right, down) in enumerate(moved):
            inside = 0 <= y - down < HEIGHT and 0 <= x - right < WIDTH
            place = (y - down, x - right) if inside else (0, 0)
            weight = float(weights[(view, part, *place)]) if inside else 0.0
            value = means[(view, part, slice(None), *place)].astype(np.float64)
            if weight > 0 and light.sum() > 0:
                newer = (values * light[:, None]).sum(axis=0) / light.sum()
                energy = ((value - newer) ** 2 * certainty[view, :, y, x]).mean() / (1 / light.sum() + 1 / weight)
                differences.append(min(float(energy), most))
            else:
                differences.append(np.nan)
            values, light = np.vstack([values, value]), np.append(light, weight)
        return differences

    expected = np.zeros((len(steps), 2, HEIGHT, WIDTH))
    for k, view, y, x in np.ndindex(expected.shape):
        if margin <= y < HEIGHT - margin and margin <= x < WIDTH - margin:
            rest, moved = misfits(view, y, x, 0 * steps[k]), misfits(view, y, x, steps[k])
            expected[k, view, y, x] = np.nansum(np.subtract(rest, moved))
    assert (expected > 0.1).sum() > 20
    assert (expected < -0.1).sum() > 20
    np.testing.assert_allclose(found, expected, atol=2e-5)
