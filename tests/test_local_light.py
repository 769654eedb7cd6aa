"""Light that differs by region: noticed, taken off, and left alone where it is the same."""

from __future__ import annotations

import numpy as np
import pytest
from devices import DEVICES, sized
from kernel_calls import Calls, on
from rooms import room

import scotopic
from scotopic.settings import make_settings
from scotopic.stages.evidence_volume import reference_blur
from scotopic.stages.local_light import LEAST_WEIGHT, average_around, measure_spread, remove_local_light

random = np.random.default_rng
SETTINGS = make_settings("best", max_disparity=32)


@pytest.fixture(params=DEVICES)
def there(request: pytest.FixtureRequest) -> Calls:
    """Each device."""
    return on(request.param)


def lamp(height: int, width: int) -> np.ndarray:
    """What a lamp adds to a view, bright on its right, dark on its left, ``(H, W)``."""
    rows, columns = np.mgrid[:height, :width].astype(np.float32)
    near = np.exp(-((columns / width - 0.75) ** 2 + (rows / height - 0.4) ** 2) / 0.2)
    return np.asarray(0.4 * near - 0.1, np.float32)


class TestAverage:
    @pytest.mark.parametrize("channels", [1, 3])
    def test_it_is_the_weighted_mean_around_each_pixel(self, there: Calls, channels: int) -> None:
        shape = sized(there.device, (23, 31), (9, 12))
        values, weights = random(0).random((*shape, channels), np.float32), random(1).random(shape, np.float32)

        found = there.run(average_around, values, weights, 2.0)

        total = reference_blur(weights.astype(float), 2.0) + LEAST_WEIGHT
        for c in range(channels):
            expected = reference_blur((values[..., c] * weights).astype(float), 2.0) / total
            np.testing.assert_allclose(found[..., c], expected, rtol=1e-4, atol=1e-6)

    def test_without_any_weight_it_is_nothing(self, there: Calls) -> None:
        values = np.ones((9, 12, 3), np.float32)

        assert not there.run(average_around, values, np.zeros((9, 12), np.float32), 2.0).any()


class TestSpread:
    def test_light_that_varies_by_a_share_of_the_brightness_has_this_spread(self, there: Calls) -> None:
        view = random(2).random((9, 12, 3), np.float32)

        found = there.run(measure_spread, 0.3 * view + 5, np.ones((9, 12), np.float32), view)

        assert found == pytest.approx(0.3, rel=1e-3)

    def test_what_has_no_weight_does_not_count(self, there: Calls) -> None:
        view, light = random(3).random((2, 9, 12, 3), np.float32)
        weights = np.zeros((9, 12), np.float32)

        assert there.run(measure_spread, light, weights, view) == 0
        weights[4, 5] = 1
        assert there.run(measure_spread, light, weights, view) == pytest.approx(0, abs=1e-6)


class TestRemoval:
    @pytest.mark.parametrize("is_clear", [False, True])
    def test_the_left_view_gets_the_light_of_the_right_one(self, is_clear: bool) -> None:
        scene = room(384, 256)
        added = lamp(256, 384)

        found = on("cpu").run(
            remove_local_light, scene.left, scene.right + added[..., None], 0.0, SETTINGS, 1, is_clear=is_clear
        )

        # A left pixel x has the light of its partner x - d.
        rows, columns = np.mgrid[:256, :384]
        expected = added[rows, np.clip(np.rint(columns - scene.disparity_left), 0, 383).astype(int)]
        off = (found - scene.left).mean(axis=2) - expected
        assert np.abs(off[scene.visible_left]).mean() < 0.25 * np.abs(expected - expected.mean()).mean()

    def test_views_in_the_same_light_stay_as_they_are(self) -> None:
        scene = room(384, 256)

        found = on("cpu").run(remove_local_light, scene.left, scene.right, 0.0, SETTINGS, 1)

        np.testing.assert_array_equal(found, scene.left)

    def test_devices_agree(self) -> None:
        left = np.repeat(np.repeat(random(5).random((6, 10, 1), np.float32), 6, axis=0), 6, axis=1)
        right = np.roll(left, -4, axis=1) + lamp(36, 60)[..., None]
        settings = make_settings("best", max_disparity=8)

        found = [on(device).run(remove_local_light, left, right, 0.0, settings, 2) for device in ("cpu", DEVICES[-1])]

        np.testing.assert_allclose(found[0], found[-1], atol=1e-4)
        assert np.abs(found[0] - left).max() > 0.05

    def test_views_of_one_color_stay_as_they_are(self, there: Calls) -> None:
        left = np.full((16, 24, 1), 0.5, np.float32)

        found = there.run(remove_local_light, left, left, 0.0, make_settings("best", max_disparity=4), 2)

        np.testing.assert_array_equal(found, left)


def test_views_that_are_lit_from_opposite_sides_are_matched_like_those_in_equal_light() -> None:
    """In the light of 32 frames, where colors count; as they are 40 % are wrong, for 20 % in equal light."""
    scene, ramp = room(240, 160), np.linspace(-0.3, 0.3, 240, dtype=np.float32)[None, :, None]
    left, right = 0.7 * scene.left, 0.7 * scene.right
    few = {"max_disparity": 32, "refine_steps": 0, "group_rounds": 0, "check": False}
    wrong = []
    for pair in ((left, right), (left * (1 - ramp), right * (1 + ramp))):
        recorded = [scotopic.simulate_pair(*pair, 2.0, 2.0, seed) for seed in range(32)]
        views = (np.mean(each, axis=0, dtype=np.float32) for each in zip(*recorded, strict=True))
        found = scotopic.match(*views, device="cpu", **few)
        wrong.append(float((np.abs(found.disparity_all - scene.disparity_left)[scene.visible_left] > 1).mean()))

    assert wrong[0] < 0.3
    assert wrong[1] < 1.25 * wrong[0] + 0.01
