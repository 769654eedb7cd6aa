"""The confidence of evidence matching: the score, its calibration, the standard deviation and the reasons."""

from __future__ import annotations

import math

import numpy as np
import pytest
from devices import DEVICES
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
    LARGEST_RELIEF,
    SMALLEST_RELIEF,
    SPARSE_CONFIDENCE,
    UNSEEN,
    ConfidenceCalibration,
    calibrate,
    choose_calibration,
    choose_threshold,
    estimate_deviation,
    keep_confident,
    measure_relief,
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

    def test_it_is_the_logistic_function_of_the_score_and_the_relief_here_and_everywhere(self, there: Calls) -> None:
        score, relief = np.float32([[1, 4, 9, 9, 9]]), np.float32([[-2, -2, 0, -4, -2]])

        found = there.run(calibrate, score, relief, self.ANY)

        s = np.log(score.astype(np.float64))
        mean = (-2 * 1 - 2 * 16 + 0 * 81 - 4 * 81 - 2 * 81) / (1 + 16 + 3 * 81)
        odds = -0.5 + 0.3 * s + 0.2 * s**2 - 0.4 * relief - 0.1 * mean
        np.testing.assert_allclose(found, 1 / (1 + np.exp(-odds)), rtol=1e-5)
        assert found.dtype == np.float32

    @pytest.mark.parametrize("calibration", [ANY, *CALIBRATIONS])
    def test_it_never_falls_as_the_score_rises_and_is_lower_where_the_answer_is_rough(
        self, there: Calls, calibration: ConfidenceCalibration
    ) -> None:
        score = np.geomspace(0.05, 200, 30, dtype=np.float32).repeat(2)[None]
        rough = np.where(np.arange(60) % 2, np.float32(-1), np.float32(-3))[None]

        flat, steep = (there.run(calibrate, score, np.full_like(score, r), calibration) for r in (-3, -1))
        mixed = there.run(calibrate, score, rough, calibration)

        for each in (flat, steep):
            assert (np.diff(each) >= 0).all()
            assert 0 < each.min() < each.max() < 1
        assert (steep < flat).all()
        # Both see the same mean: in the dark only that counts, in better light also the pixel's own.
        other = there.run(calibrate, score, rough[:, ::-1].copy(), calibration)
        if calibration is CALIBRATIONS[0]:
            np.testing.assert_allclose(mixed, other, rtol=1e-6)
        else:
            assert ((mixed < other) == (np.arange(60) % 2 == 1)).all()

    def test_below_the_parabolas_minimum_all_scores_are_alike(self, there: Calls) -> None:
        minimum = math.exp(-0.3 / (2 * 0.2))
        score = np.float32([[minimum, 0.9 * minimum, 0.01]])

        low = there.run(calibrate, score, np.zeros_like(score), self.ANY)

        np.testing.assert_allclose(low, low[0, 0], rtol=1e-6)

    @pytest.mark.parametrize("factor", [1, 2])
    def test_the_relief_of_a_plane_is_its_slope_and_that_of_a_jump_is_bounded(self, there: Calls, factor: int) -> None:
        x = np.arange(64, dtype=np.float32)
        plane = np.broadcast_to(20 + x / 4, (48, 64)).copy()
        checkers = 100 * (((x + 1) // 2)[None] % 2) * np.ones((48, 1), np.float32)  # a jump beside every pixel

        slope, jumps, flat = (
            there.run(measure_relief, each, factor) for each in (plane, checkers, np.full_like(plane, 7))
        )

        middle = np.s_[:, 31:33]  # at the ends a plane has a neighbor on one side only
        np.testing.assert_allclose(slope[middle], math.log(0.25 + SMALLEST_RELIEF), atol=2e-3)
        np.testing.assert_allclose(jumps, math.log(LARGEST_RELIEF + SMALLEST_RELIEF), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(flat, math.log(SMALLEST_RELIEF), rtol=1e-5)

    @pytest.mark.parametrize(
        ("has_detail", "has_clear_pixels", "has_inner_margin", "kind"),
        [
            (False, False, False, 0),
            (True, False, False, 1),
            (False, False, True, 2),
            (True, False, True, 3),
            (True, True, False, 4),
        ],
    )
    def test_each_kind_of_light_has_its_calibration(
        self, has_detail: bool, has_clear_pixels: bool, has_inner_margin: bool, kind: int
    ) -> None:
        snr = SnrEstimate(1.0, 1.0, has_detail, has_clear_pixels)

        assert choose_calibration(snr, has_inner_margin=has_inner_margin) is CALIBRATIONS[kind]

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

    @pytest.mark.parametrize(
        ("surest", "min_confidence", "share", "threshold"),
        [
            (0.9, 0.5, 0.1, 0.5),  # enough are sure
            (0.4, 0.5, 0.1, 0.4),  # the surest tenth
            (0.1, 0.5, 0.1, SPARSE_CONFIDENCE),  # nothing is worth it
            (0.4, 0.5, 0.0, 0.5),  # not asked for
            (0.4, 0.51, 0.1, 0.51),  # more than even is asked for
            (0.1, 0.2, 0.1, 0.2),  # less than that is asked for
        ],
    )
    def test_where_nothing_is_sure_the_surest_pixels_are_kept(
        self, there: Calls, surest: float, min_confidence: float, share: float, threshold: float
    ) -> None:
        confidence = np.zeros((10, 20), np.float32)
        confidence[:, 4:7] = surest  # more than a tenth, so that the quantile does not lie between two values

        found = there.run(choose_threshold, confidence, min_confidence, share)

        assert found == pytest.approx(threshold)

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
