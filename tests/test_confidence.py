"""The confidence of evidence matching: the score, its calibration, the standard deviation and the reasons."""

from __future__ import annotations

import math

import numpy as np
import pytest
from devices import DEVICES, on_devices
from kernel_calls import Calls, on

from scotopic.backends.gaussian import gaussian_kernel
from scotopic.result import Reason
from scotopic.settings import (
    MatchingSettings,
    ScoreSettings,
)
from scotopic.stages.confidence import (
    CALIBRATIONS,
    DEVIATIONS,
    LARGEST_JUMP,
    UNSEEN,
    ConfidenceCalibration,
    calibrate,
    choose_calibration,
    estimate_deviation,
    keep_confident,
    measure_jumps,
    smooth_score,
    weigh_margin,
)
from scotopic.stages.resolution import (
    SnrEstimate,
)

random = np.random.default_rng


@pytest.fixture(params=DEVICES)
def there(request: pytest.FixtureRequest) -> Calls:
    """Each device."""
    return on(request.param)


class TestScore:
    def test_a_field_of_one_margin_keeps_it(self, there: Calls) -> None:
        settings = ScoreSettings()

        score = there.run(smooth_score, np.full((30, 40), 5.0, np.float32), settings)

        np.testing.assert_allclose(score, 5.0 + settings.confidence_floor, rtol=1e-5)

    def test_one_unsure_pixel_speaks_against_all_around_it(self, there: Calls) -> None:
        sure = np.full((41, 41), 8.0, np.float32)
        sure[20, 20] = 0
        settings = ScoreSettings(confidence_blur=0.05, confidence_reach=2.0, confidence_floor=0.5)

        score = there.run(smooth_score, sure, settings)

        # The weight w of the pixel in the blur: the logarithm of the score is the mean of logarithms.
        weight = gaussian_kernel(2.0)[6] * gaussian_kernel(2.0)[6 + 3]
        assert score[20, 23] == pytest.approx(8.5 ** (1 - weight) * 0.5**weight, rel=1e-3)

    def test_views_that_disagree_are_less_sure(self, there: Calls) -> None:
        margin, difference = np.float32([4, 4, 4, 4]), np.float32([0, 0.5, 1.5, np.inf])

        found = there.run(weigh_margin, margin, difference, ScoreSettings(lr_slack=0.5))

        np.testing.assert_allclose(found, [4, 4, 4 / math.e, 0], rtol=1e-6)


class TestConfidence:
    ANY = ConfidenceCalibration(-0.5, 0.3, 0.2, -0.4, -0.1)

    def test_it_is_the_logistic_function_of_the_score_and_the_jumps_beside_it(self, there: Calls) -> None:
        score, farther, nearer = (
            np.float32([[1, 4, 9, 9, 9]]),
            np.float32([[0, 0, 3, 0, 3]]),
            np.float32([[0, 0, 0, 2, 2]]),
        )

        found = there.run(calibrate, score, farther, nearer, self.ANY)

        s = np.log(score.astype(np.float64))
        odds = -0.5 + 0.3 * s + 0.2 * s**2 - 0.4 * np.log(1 + farther) - 0.1 * np.log(1 + nearer)
        np.testing.assert_allclose(found, 1 / (1 + np.exp(-odds)), rtol=1e-5)
        assert found.dtype == np.float32

    @pytest.mark.parametrize("calibration", [ANY, *CALIBRATIONS])
    def test_it_never_falls_as_the_score_rises_and_is_lower_beside_jumps(
        self, there: Calls, calibration: ConfidenceCalibration
    ) -> None:
        score = np.geomspace(0.05, 200, 60, dtype=np.float32)[None]
        none, some = np.zeros_like(score), np.full_like(score, 5.0)

        alone, above, below = (
            there.run(calibrate, score, *jumps, calibration) for jumps in ((none, none), (some, none), (none, some))
        )

        for each in (alone, above, below):
            assert (np.diff(each) >= 0).all()
            assert 0 < each.min() < each.max() < 1
        if calibration is CALIBRATIONS[0]:  # in the dark jumps do not count
            assert (above == alone).all()
            assert (below == alone).all()
            return
        assert (above < alone).all()
        assert (below < alone).all()
        # A pixel on the nearer side of a jump may be background that took the foreground's disparity.
        assert (above < below).all()

    def test_below_the_parabolas_minimum_all_scores_are_alike_and_so_are_the_largest_jumps(self, there: Calls) -> None:
        minimum = math.exp(-0.3 / (2 * 0.2))
        score, none = np.float32([[minimum, 0.9 * minimum, 0.01]]), np.zeros((1, 3), np.float32)
        jumps = np.float32([[LARGEST_JUMP, LARGEST_JUMP + 1, 1e4]])

        low = there.run(calibrate, score, none, none, self.ANY)
        beside = there.run(calibrate, np.full_like(score, 9), jumps, jumps, self.ANY)

        for found in (low, beside):
            np.testing.assert_allclose(found, found[0, 0], rtol=1e-6)

    @pytest.mark.parametrize(
        ("has_detail", "has_clear_pixels", "kind"),
        [(False, False, 0), (False, True, 0), (True, False, 1), (True, True, 2)],
    )
    def test_each_kind_of_light_has_its_calibration(self, has_detail: bool, has_clear_pixels: bool, kind: int) -> None:
        assert choose_calibration(SnrEstimate(1.0, 1.0, has_detail, has_clear_pixels)) == CALIBRATIONS[kind]

    @on_devices("reach", [0, 1, 2, 3, 9, 18, 40], [0, 1, 3, 18])
    def test_jumps_are_those_to_the_extremes_of_the_square_around_each_pixel(self, device: str, reach: int) -> None:
        disparity = random(0).normal(10, 5, (13, 17)).astype(np.float32)

        farther, nearer = on(device).run(measure_jumps, disparity, reach)

        for y, x in np.ndindex(disparity.shape):
            around = disparity[max(y - reach, 0) : y + reach + 1, max(x - reach, 0) : x + reach + 1]
            assert farther[y, x] == disparity[y, x] - around.min()
            assert nearer[y, x] == around.max() - disparity[y, x]

    def test_the_deviation_falls_as_the_confidence_rises(self) -> None:
        confidence = np.linspace(0, 1, 201, dtype=np.float32)

        found = estimate_deviation(confidence)

        assert found.dtype == np.float32
        assert (np.diff(found) <= 0).all()
        known, deviations = DEVIATIONS
        assert (found[0], found[-1]) == (np.float32(deviations[0]), np.float32(deviations[-1]))
        np.testing.assert_allclose(estimate_deviation(np.float32(known)), deviations, rtol=1e-5)
        between = estimate_deviation(np.float32([(known[3] + known[4]) / 2]))
        assert between[0] == pytest.approx((deviations[3] + deviations[4]) / 2)

    def test_reasons_say_what_speaks_against_a_pixel(self, there: Calls) -> None:
        settings = MatchingSettings(min_confidence=0.5, left_right_threshold=1.0)
        values, confidence = np.float32([[1, 2, 3, 4, 5, 6]]), np.float32([[0.5, 0.4, 0.4, 0.4, 0.4, 0.9]])
        difference = np.float32([[0, 0.2, 1.0, 1.0, UNSEEN, UNSEEN]])
        hidden, gray = np.array([[False, True, False, True, True, True]]), np.full((1, 6, 3), 0.5, np.float32)

        disparity, reason = there.run(keep_confident, values, confidence, difference, hidden, gray, settings)

        assert reason.dtype == np.uint8
        assert list(reason[0]) == [
            Reason.OK, Reason.AMBIGUOUS, Reason.LEFT_RIGHT, Reason.OCCLUDED, Reason.OUT_OF_VIEW, Reason.OK
        ]  # fmt: skip
        np.testing.assert_array_equal(disparity, np.float32([[1, np.nan, np.nan, np.nan, np.nan, 6]]))

    def test_what_is_white_in_every_channel_is_saturated_unless_the_views_disagree(self, there: Calls) -> None:
        settings = MatchingSettings(min_confidence=0.5, left_right_threshold=1.0)
        image = np.ones((4, 40, 3), np.float32)
        image[:, 20:, 1] = 0.9  # yellow or pink is not white
        unsure, agrees, disagrees = (np.full((4, 40), value, np.float32) for value in (0.1, 0.0, 5.0))
        hidden = np.zeros((4, 40), bool)

        (_, bright), (_, off) = (
            there.run(keep_confident, unsure, unsure, each, hidden, image, settings) for each in (agrees, disagrees)
        )

        assert (bright[:, :14] == Reason.SATURATED).all()  # six pixels are within reach of a blur of 1.5
        assert (bright[:, 20:] == Reason.AMBIGUOUS).all()
        assert (off == Reason.LEFT_RIGHT).all()
