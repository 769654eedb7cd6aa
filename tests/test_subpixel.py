"""Disparities between the candidates: against formulas, each device against the definition, and in a whole match."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from agreement import assert_maps_agree
from devices import DEVICES
from kernel_calls import Calls, on

import scotopic
from scotopic.stages.sgm import reference_refined, refine_between
from scotopic.subpixel import flank_offset, parabola_offset

random = np.random.default_rng
PLACES = np.linspace(-0.5, 0.5, 21)
SAMPLES = np.arange(-2, 3)[:, None]


@pytest.fixture(params=DEVICES)
def there(request: pytest.FixtureRequest) -> Calls:
    """Each device."""
    return on(request.param)


def offsets_of(costs: np.ndarray) -> np.ndarray:
    weight, weighted = flank_offset(list(costs))
    return np.asarray(weighted / weight)


def shifted_texture(shift: float, height: int = 96, width: int = 192) -> tuple[np.ndarray, np.ndarray]:
    """A smooth texture beside a plain part, and what a view sees in which all of it lies `shift` px to the left.

    The shift is exact: a factor in the spectrum of rows that are repeated.
    """
    rows = random(0).normal(size=(height, 256, 1))
    frequency, down = np.fft.rfftfreq(256)[None, :, None], np.fft.fftfreq(height)[:, None, None]
    spectrum = np.fft.rfft2(rows, axes=(0, 1)) * np.exp(-2 * (np.pi * 1.5) ** 2 * (frequency**2 + down**2))
    views = [
        np.fft.irfft2(spectrum * np.exp(2j * np.pi * frequency * each), s=(height, 256), axes=(0, 1))
        for each in (0.0, shift)
    ]
    scale = 0.12 / views[0].std()
    left, right = (np.clip(0.5 + scale * view[:, 32 : 32 + width], 0, 1).astype(np.float32) for view in views)
    left[: height // 3], right[: height // 3] = 0.5, 0.5
    return left, right


class TestFlanks:
    def test_the_minimum_of_an_absolute_value_is_found_exactly(self) -> None:
        np.testing.assert_allclose(offsets_of(np.abs(SAMPLES - PLACES)), PLACES, atol=1e-12)

    def test_the_minimum_of_a_parabola_is_found_within_a_sixteenth(self) -> None:
        found = offsets_of((SAMPLES - PLACES) ** 2)

        # For a minimum at f, 4 f / (2 (3 - 2 f)) to either side.
        np.testing.assert_allclose(found, 2 * PLACES / (3 - 2 * np.abs(PLACES)), atol=1e-12)
        assert np.abs(found - PLACES).max() < 1 / 16

    def test_a_parabola_is_drawn_to_the_middle_by_an_absolute_value(self) -> None:
        costs = np.abs(SAMPLES - 0.25)

        assert float(parabola_offset(*costs[1:4])[0]) == pytest.approx(0.25 / (2 * 0.75))

    def test_no_noise_puts_it_farther_than_half_a_sample_away(self) -> None:
        costs = random(1).normal(size=(5, 1000))

        assert np.abs(offsets_of(costs)).max() <= 0.5


class TestRefinement:
    @pytest.mark.parametrize("first", [0, -5])
    def test_it_is_what_the_definition_says(self, there: Calls, first: int) -> None:
        volume = random(2).random((9, 12, 17), np.float32)
        disparity = (first + random(3).random((12, 17)) * 10 - 1).astype(np.float32)  # some beyond the candidates

        found = there.run(refine_between, volume, disparity, first, 1.5)

        expected = reference_refined(volume.astype(np.float64), disparity.astype(np.float64), first, 1.5)
        assert_maps_agree(found, expected, 1e-4)

    def test_a_slanted_surface_is_found_from_whole_candidates(self, there: Calls) -> None:
        truth = 3 + 0.02 * np.arange(100)[None] + np.zeros((24, 1))  # a candidate in 50 px: 3.5 and 4.5 at 25 and 75
        volume = np.abs(np.arange(12)[:, None, None] - truth).astype(np.float32)

        found = there.run(refine_between, volume, np.round(truth).astype(np.float32), 0, 2.0)

        # Away from where the nearest candidate changes. The slope that counts as flat shrinks a change by 1 %.
        same = np.r_[8:17, 33:67, 83:92]
        np.testing.assert_allclose(found[:, same], truth[:, same], atol=0.01)

    def test_a_few_candidates_have_no_flanks(self, there: Calls) -> None:
        disparity = np.float32([[0.3, 1.4]])

        np.testing.assert_array_equal(there.run(refine_between, np.ones((4, 1, 2), np.float32), disparity, 0, 2.0),
                                      disparity)  # fmt: skip


@pytest.mark.parametrize("shift", [10.0, 10.25, 10.5, 10.75])
def test_a_clear_texture_has_its_disparity_whatever_fraction_it_has(shift: float) -> None:
    # Refined or not, junctions do not count where an image is as clear as this one.
    found = scotopic.match(*shifted_texture(shift), "best", device="cpu", max_disparity=24, refine_steps=0, check=False)

    errors = found.disparity_all[44:-12, 36:-12] - shift  # of what both views see
    assert abs(float(np.median(errors))) < 0.06


@pytest.mark.parametrize("shift", [0.5, 1.5, 30.5])
def test_what_lies_at_an_end_of_the_search_range_is_not_drawn_away_from_it(shift: float) -> None:
    picture = scotopic.render_scene(192, 128).left
    move = np.float32([[1, 0, -shift], [0, 1, 0]])
    other = cv2.warpAffine(picture, move, (192, 128), borderMode=cv2.BORDER_REPLICATE)
    pair = scotopic.simulate_pair(picture, other, photons=2, read_noise=1)

    found = scotopic.match(*pair, max_disparity=32, device="cpu", check=False)

    inner = found.disparity_all[:, 40:]  # what the other view has too
    assert np.mean(np.abs(inner - shift) < 1) > 0.9
