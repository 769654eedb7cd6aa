"""Colors as evidence, and views of unequal exposure: each part against its definition on each device."""

from __future__ import annotations

import numpy as np
import pytest
from devices import DEVICES, on_devices, sized
from kernel_calls import Calls, on
from rooms import room

import scotopic
from scotopic.progress import unheard
from scotopic.settings import ColorSettings
from scotopic.stages.color_costs import (
    add_color_volume,
    choose_color_scale,
    reference_color_volume,
    weigh_colors_in_the_dark,
)
from scotopic.stages.equalization import compare_exposure, equalize_exposure, fit_deciles

random = np.random.default_rng


@pytest.fixture(params=DEVICES)
def there(request: pytest.FixtureRequest) -> Calls:
    """Each device."""
    return on(request.param)


class TestColorVolume:
    @on_devices(
        "channels, disparities",
        [(channels, each) for channels in (1, 3) for each in (range(5), range(-6, 3), range(28, 36), range(-36, -28))],
        [(1, range(-2, 2)), (3, range(10, 15))],
    )
    def test_it_is_the_definition(self, device: str, channels: int, disparities: range) -> None:
        left, right = random(0).random((2, *sized(device, (12, 31), (5, 13)), channels), np.float32)

        found = on(device).color_volume(left, right, disparities, 0.2, 1.5, unheard)

        expected = reference_color_volume(left.astype(float), right.astype(float), 0.2, disparities, 1.5)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
        assert found.dtype == np.float32

    def test_costs_are_bounded_and_a_difference_of_the_scale_costs_a_half(self, there: Calls) -> None:
        left = np.zeros((6, 9, 3), np.float32)

        costs = [there.color_volume(left, left + off, range(1), 0.1, 1.0, unheard) for off in (0.0, 0.1, 1e4)]

        for found, expected in zip(costs, (0.0, 0.5, 1.0), strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-5)

    def test_both_volumes_are_added_in_units_of_their_spread(self, there: Calls) -> None:
        images = list(random(1).random((2, *sized(there.device, (16, 24), (6, 12)), 3), np.float32))
        before = random(2).random((4, *images[0].shape[:2]), np.float32)

        def add(backend, volume, left, right):  # type: ignore[no-untyped-def]
            add_color_volume(backend, volume, (left, right), 0.04, range(4), ColorSettings(color_noise=1.0), 3.0)
            return volume

        found = there.run(add, before.copy(), *images)

        left, right = (image.astype(float) for image in images)
        colors = reference_color_volume(left, right, 0.2, range(4), ColorSettings().color_window)
        parts = [each / each.std(axis=0).mean() for each in (before.astype(float), colors)]
        np.testing.assert_allclose(found, parts[0] + 3 * parts[1], rtol=1e-3, atol=1e-3)

    def test_the_scale_follows_the_noise_and_the_weight_the_light(self) -> None:
        settings = ColorSettings(color_contrast=0.01, color_noise=0.5, color_snr=0.3)

        assert choose_color_scale(0.0, settings) == 0.01
        assert choose_color_scale(0.2**2, settings) == pytest.approx(0.1)
        assert [weigh_colors_in_the_dark(q, settings) for q in (0.0, 0.15, 0.6)] == pytest.approx([0, 0.5, 1])


class TestUnequalExposure:
    def views(self, width: int, height: int) -> tuple[np.ndarray, np.ndarray]:
        scene = room(width, height)
        return scene.left, scene.right

    def test_the_fit_finds_gain_and_offset(self) -> None:
        left = np.linspace(0.1, 0.9, 10)

        gain, offset, misfit = fit_deciles(left, (left - 0.2) / 1.5)

        # To 12 binary places of the gain and of the means of 0.5 and 0.2.
        assert gain == 1.5
        assert offset == pytest.approx(0.2, abs=2**-12)
        assert misfit == pytest.approx(0, abs=1e-12)

    @pytest.mark.parametrize("off", [1e-6, -1e-6])
    def test_the_last_places_of_the_deciles_do_not_change_the_fit(self, off: float) -> None:
        left = np.linspace(0.1, 0.9, 10)
        right = (left - 0.21) / 1.4

        assert fit_deciles(left, right * (1 + off))[:2] == fit_deciles(left, right)[:2]

    @pytest.mark.parametrize("value", [0.0, 0.4])
    def test_views_of_one_color_differ_by_an_offset(self, there: Calls, value: float) -> None:
        left = np.full((24, 32, 1), 0.5, np.float32)

        exposure = there.run(compare_exposure, left, np.full_like(left, value), range(8))

        assert exposure.gains == pytest.approx([1.0])
        assert exposure.offsets == pytest.approx([0.5 - value], abs=2**-12)

    @pytest.mark.parametrize("shift", [64, -64])
    def test_what_only_one_view_sees_does_not_count(self, there: Calls, shift: int) -> None:
        # That is black in one view and white in the other, so that the deciles of the whole views differ by much.
        blocks = random(5).random((8, 20, 1), np.float32)
        wide = np.repeat(np.repeat(blocks, 12, axis=0), 12, axis=1)
        alone = np.zeros((len(wide), abs(shift), 1), np.float32)
        near, far = np.concatenate([alone, wide], axis=1), np.concatenate([wide, alone + 1], axis=1)
        left, right = (near, far) if shift > 0 else (far, near)

        exposure = there.run(compare_exposure, left, 0.5 * right + 0.2, range(-80, 81))

        # The blur mixes a little of it into what is beside it.
        np.testing.assert_allclose(exposure.gains, 2.0, rtol=0.15)

    def test_another_exposure_of_each_color_is_undone(self, there: Calls) -> None:
        left, right = self.views(240, 160)
        gains, offsets = np.array([0.5, 0.7, 0.9], np.float32), np.array([0.1, 0.0, -0.05], np.float32)

        plain = there.run(compare_exposure, left, right, range(28))
        changed = there.run(compare_exposure, left, right * gains + offsets, range(28))

        np.testing.assert_allclose(plain.gains, 1, atol=0.1)
        np.testing.assert_allclose(changed.gains, 1 / gains, rtol=0.1)
        undone = there.run(equalize_exposure, right * gains + offsets, changed)
        np.testing.assert_allclose(undone, right, atol=0.06)

    def test_a_pair_of_unequal_exposure_is_matched_like_an_equal_one(self) -> None:
        """In the light of 32 frames, where colors count."""
        scene, frames = room(240, 160), [(2.0, 2.0, seed) for seed in range(32)]
        pairs = [scotopic.simulate_pair(scene.left, scene.right, *frame) for frame in frames]
        left, right = (np.mean(each, axis=0, dtype=np.float32) for each in zip(*pairs, strict=True))
        few = {"refine_steps": 0, "group_rounds": 0, "surface_passes": 0, "plane_rounds": 0, "check": False}

        plain, changed = (
            scotopic.match(left, each, device="cpu", max_disparity=32, **few)
            for each in (right, np.float32(0.6) * right + 0.1)
        )

        wrong = [np.abs(each.disparity_all - scene.disparity_left)[scene.visible_left] > 1 for each in (plain, changed)]
        assert wrong[0].mean() < 0.5
        assert wrong[1].mean() < 1.1 * wrong[0].mean() + 0.01
