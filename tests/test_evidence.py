"""What speaks for each disparity: each step against its definition, or against a case worked by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scotopic.evidence import on_cpu as engine
from scotopic.evidence.solve import reference_costs, reference_costs_along, solve_along, solve_view

from scotopic.backends.device import steps
from scotopic.result import Reason
from scotopic.sensor.estimate import NoiseCurve
from scotopic.settings import EvidenceSettings, MatchingSettings, make_settings
from scotopic.stages.channels import Channel, Pair, band_kernel, gather, gaussian, with_its_noise
from scotopic.stages.confidence import calibrated, explain
from scotopic.stages.evidence_volume import Features, blurs, join, reference_volume
from scotopic.stages.noise import ROUNDING, Light, measure_light, noise_line
from scotopic.stages.resolution import SINGLE, clarity, eased
from scotopic.stages.surfaces import reference_planes

SETTINGS = EvidenceSettings()
random = np.random.default_rng


def textured(height: int, width: int, channels: int = 3, seed: int = 0) -> np.ndarray:
    """Smooth random texture, not in step with any window."""
    return engine.blurred(random(seed).standard_normal((height, width, channels)).astype(np.float32), 1.5) + 0.5


def shifted_pair(shift: int, shape: tuple[int, int, int] = (40, 60, 3), noise: float = 0.02) -> Pair:
    """A pair of one disparity, its "junctions" being the clean texture."""
    height, width, channels = shape
    wide = textured(height, width + 2 * abs(shift), channels)
    left, right = wide[:, abs(shift) : abs(shift) + width], wide[:, abs(shift) + shift : abs(shift) + shift + width]
    left, right = np.ascontiguousarray(left), np.ascontiguousarray(right)
    grains = random(1).normal(0, noise, (2, *shape)).astype(np.float32)
    return Pair(left + grains[0], right + grains[1], left, right, noise**2)


def curve(mean: list[float], variance: list[float]) -> NoiseCurve:
    ones = np.ones(len(mean))
    return NoiseCurve(np.array(mean), np.array(variance), ones, ones)


class TestNoise:
    def test_a_line_is_found_exactly(self) -> None:
        mean = [0.1, 0.3, 0.5, 0.9]

        assert noise_line(curve(mean, [0.01 + 0.02 * m for m in mean])) == pytest.approx((0.01, 0.02))

    def test_noise_that_falls_with_light_counts_as_constant(self) -> None:
        constant, slope = noise_line(curve([0.2, 0.6], [0.2, 0.1]))

        assert slope == 0
        assert constant == pytest.approx((0.2 / 0.2 + 0.1 / 0.1) / (1 / 0.2 + 1 / 0.1))  # weights are 1 / variance

    def test_pure_shot_noise_has_no_constant_but_that_of_rounding(self) -> None:
        constant, slope = noise_line(curve([0.1, 0.5, 0.9], [0.0, 0.0052, 0.009]))

        assert constant == pytest.approx(ROUNDING)
        assert slope > 0

    def test_after_stabilizing_noise_is_as_said_in_dark_and_bright(self) -> None:
        a, b = 1e-4, 0.01
        ramp = np.linspace(0.02, 0.9, 240, dtype=np.float32)[None, :, None] * np.ones((160, 1, 1), np.float32)
        views = [
            (ramp + random(seed).standard_normal(ramp.shape) * np.sqrt(a + b * ramp)).astype(np.float32)
            for seed in (0, 1)
        ]

        light = measure_light(engine, views, SETTINGS)
        noise = light.stabilized(views[0]) - light.stabilized(ramp)

        assert light.slope == pytest.approx(b, rel=0.1)
        assert light.constant == pytest.approx(a, abs=b * 0.02)  # it matters only beside the light of the darkest part
        for part in (noise[:, 20:80], noise[:, 160:]):
            assert part.var() == pytest.approx(light.variance, rel=0.15)

    def test_even_noise_leaves_the_images_as_they_are(self) -> None:
        views = [(0.5 + 0.1 * random(seed).standard_normal((96, 96, 1))).astype(np.float32) for seed in (0, 1)]

        light = measure_light(engine, views, SETTINGS)

        assert light.stabilized(views[0]) is views[0]
        assert light.recorded(views[0]) is views[0]
        assert light.variance == pytest.approx(0.01, rel=0.1)

    def test_recorded_values_come_back(self) -> None:
        light, values = Light(0.001, 0.02, 7.0, 1 / 49), np.linspace(0, 1, 11)

        np.testing.assert_allclose(light.recorded(light.stabilized(values)), values, atol=1e-12)

    def test_an_image_too_small_for_a_curve_has_a_noise_all_the_same(self) -> None:
        views = [random(seed).random((12, 12, 3), np.float32) for seed in (0, 1)]

        light = measure_light(engine, views, SETTINGS)

        assert light.variance == pytest.approx(1 / 12, rel=0.2)  # of a uniform variable

    def test_no_image_is_less_noisy_than_rounding(self) -> None:
        assert measure_light(engine, [np.zeros((12, 12, 1), np.float32)] * 2, SETTINGS).variance == ROUNDING


class TestChannels:
    @pytest.mark.parametrize(("scale", "ratio"), [(1.0, 2.0), (1.0, 4.0), (2.0, 1.6)])
    def test_the_band_kernels_energy_and_area_are_the_sums_of_the_definition(self, scale: float, ratio: float) -> None:
        narrow, wide = gaussian(scale), gaussian(scale * ratio)
        narrow = np.pad(narrow, (wide.size - narrow.size) // 2)
        h = np.outer(narrow, narrow) - np.outer(wide, wide)
        size = h.shape[0]
        padded = np.pad(h, size - 1)
        correlation = np.array(
            [[(padded[i : i + size, j : j + size] * h).sum() for j in range(2 * size - 1)] for i in range(2 * size - 1)]
        )

        energy, area = band_kernel(scale, ratio)

        assert energy == pytest.approx((h**2).sum(), rel=1e-6)
        assert area == pytest.approx((correlation**2).sum() / (h**2).sum() ** 2, rel=1e-6)

    @pytest.mark.parametrize(("left", "right"), [(0.4, 0.5), (-0.8, 0.9), (1.2, 1.1), (0.0, 0.3)])
    def test_the_cost_is_minus_the_log_of_the_likelihood_ratio(self, left: float, right: float) -> None:
        S, N = 0.7, 0.3

        def log_density(covariance: np.ndarray) -> float:
            seen = np.array([left, right])
            return -0.5 * float(seen @ np.linalg.inv(covariance) @ seen)  # but for its constant

        same, unrelated = np.array([[S + N, S], [S, S + N]]), (S + N) * np.eye(2)
        flat = np.ones((9, 9, 1))
        channel = Channel(left * flat, right * flat, np.array([S]), np.array([N]), 1.0, 1.0)

        cost = reference_volume([channel], [0])

        np.testing.assert_allclose(cost, log_density(unrelated) - log_density(same), atol=1e-12)

    def test_a_component_without_signal_says_nothing(self) -> None:
        noise = random(0).random((9, 9, 1))

        assert not reference_volume([Channel(noise, -noise, np.zeros(1), np.ones(1), 1.0, 1.0)], [0, 1]).any()

    def test_twice_the_signal_and_twice_the_noise_change_nothing(self) -> None:
        pair = shifted_pair(3)
        twice = Pair(
            *(2 * each for each in (pair.left, pair.right, pair.left_junctions, pair.right_junctions)), 4e-4 * 4
        )

        once, doubled = (
            engine.add_up(join(engine, gather(engine, each, SETTINGS)), range(6)) for each in (pair, twice)
        )

        np.testing.assert_allclose(doubled, once, atol=2e-3 * once.std())

    def test_a_brighter_view_changes_nothing(self) -> None:
        pair = shifted_pair(3)
        brighter = Pair(pair.left, pair.right + np.float32(0.2), pair.left_junctions, pair.right_junctions + 0.2, 4e-4)

        plain, lit = (
            engine.add_up(join(engine, gather(engine, each, SETTINGS)), range(6)) for each in (pair, brighter)
        )

        np.testing.assert_allclose(lit, plain, atol=5e-3 * plain.std())

    def test_the_image_counts_by_its_light(self) -> None:
        pairs = [shifted_pair(2, noise=noise) for noise in (0.01, 2.0)]
        clear, dark = (clarity(engine, pair, make_settings("best")) for pair in pairs)
        weights = [gather(engine, pair, SETTINGS)[-1].weight for pair in pairs]

        assert clear > 10 > 1 > dark
        assert weights == pytest.approx([SETTINGS.image_weight * clear, SETTINGS.image_weight * dark**2])

    def test_noise_that_is_not_white_is_measured_in_the_quiet_parts(self) -> None:
        grains = random(2).standard_normal((2, 64, 96, 1)).astype(np.float32)
        views = [engine.blurred(each, 1.5) for each in grains]  # demosaiced noise, and nothing else
        white = float(views[0].var()) / 10  # what differences of neighbors make of it
        flat = np.zeros_like(views[0])

        pair = with_its_noise(engine, Pair(*views, flat, flat, white), SETTINGS)
        channel = gather(engine, pair, SETTINGS)[0]

        assert not pair.is_white
        assert pair.variance > 2 * white
        assert channel.noise[0] > 0.5 * engine.band(views[0], 1.0, 4.0).var()

    def test_the_surest_disparity_is_the_shift(self) -> None:
        for shift in (4, -3):
            volume = engine.add_up(join(engine, gather(engine, shifted_pair(shift), SETTINGS)), range(-6, 7))

            found = volume[:, 10:-10, 12:-12].argmin(axis=0) - 6
            assert (np.abs(found - shift) <= 1).all()
            assert (found == shift).mean() > 0.9


class TestVolume:
    @pytest.mark.parametrize("channels", [1, 3])
    @pytest.mark.parametrize("disparities", [range(5), range(-4, 3), range(30, 34)])
    def test_it_adds_up_to_the_definition(self, channels: int, disparities: range) -> None:
        found = gather(engine, shifted_pair(2, (25, 31, channels)), SETTINGS)

        volume, expected = engine.add_up(join(engine, found), disparities), reference_volume(found, disparities)

        # Nested blurs, each cut at three sigma, differ from one blur by that cut.
        np.testing.assert_allclose(volume, expected, atol=0.02 * expected.std())

    def test_one_window_is_exact(self) -> None:
        views = random(0).random((2, 15, 20, 2)).astype(np.float32)
        units = random(1).random((15, 20)).astype(np.float32)
        channel = Channel(*views, np.array([0.5, 0.2]), np.array([0.1, 0.4]), 2.0, 3.0, units)

        volume = engine.add_up(join(engine, [channel]), range(-3, 4))

        np.testing.assert_allclose(volume, reference_volume([channel], range(-3, 4)), rtol=1e-4, atol=1e-4)

    def test_products_repeat_the_last_column_beyond_the_edge(self) -> None:
        left, right = np.float32([[[1, 1, 1, 1]]]), np.float32([[[1, 2, 3, 4]]])
        sharp = 1e-3  # a blur that blurs nothing

        volume = engine.add_up([Features(left, right, sharp)], range(-5, 6))

        expected = [[right[0, 0, min(max(x - d, 0), 3)] for x in range(4)] for d in range(-5, 6)]
        np.testing.assert_array_equal(volume[:, 0], expected)

    def test_nested_blurs_make_every_window(self) -> None:
        features = [Features(None, None, window) for window in (8.0, 4.0, 1.0)]
        widths = blurs(features)

        for k, each in enumerate(features):
            assert math.sqrt(sum(width**2 for width in widths[k:])) == pytest.approx(each.window)

    def test_channels_of_one_window_share_their_features(self) -> None:
        found = gather(engine, shifted_pair(2), SETTINGS)

        scales = [SETTINGS.finest_scale * 2**k for k in range(SETTINGS.scales)]
        windows = {SETTINGS.junction_window, SETTINGS.cross_window, *(max(s, SETTINGS.band_window) for s in scales)}
        assert [each.window for each in join(engine, found)] == sorted(windows, reverse=True)


class TestSolving:
    @pytest.mark.parametrize("is_left", [True, False])
    @pytest.mark.parametrize("first", [0, -3, 5])
    def test_whole_costs_are_those_of_the_definition(self, first: int, is_left: bool) -> None:
        volume = random(0).normal(0, 3, (7, 6, 11)).astype(np.float32)

        found = engine.whole_costs(volume, 0.1, first, is_left=is_left)

        off = np.abs(found.astype(int) - reference_costs(volume, 0.1, first, is_left=is_left))
        assert off.max() <= 1  # a half may round either way
        assert (off == 0).mean() > 0.99
        assert (found.min(axis=2) == 0).all()

    def test_hopeless_costs_are_cut_at_the_largest_number(self) -> None:
        volume = np.float32([0, 1e9]).reshape(2, 1, 1)

        np.testing.assert_array_equal(engine.whole_costs(volume, 0.1, 0, is_left=True), [[[0, 32767]]])

    def test_the_right_view_sees_the_left_volume_sheared(self) -> None:
        volume = np.arange(12, dtype=np.float32).reshape(2, 1, 6)  # candidates 1 and 2

        found = engine.whole_costs(volume, 1.0, 1, is_left=False)

        # Right pixel x at d is left pixel x + d: 0..5 at d = 1, 6..11 at d = 2; from each pixel's lowest.
        pairs = [(min(x + 1, 5), 6 + min(x + 2, 5)) for x in range(6)]
        np.testing.assert_array_equal(found[0], [(0, b - a) for a, b in pairs])

    def test_the_spread_is_the_mean_deviation_over_disparity(self) -> None:
        volume = random(3).normal(5, 2, (9, 8, 7)).astype(np.float32)

        assert engine.spread(volume) == pytest.approx(volume.astype(np.float64).std(axis=0).mean(), rel=1e-5)
        assert engine.spread(np.ones((3, 4, 5), np.float32)) == 1.0

    def test_between_candidates_the_parabola_has_its_minimum(self) -> None:
        sums = np.int32([[[9, 4, 1, 2, 9], [1, 2, 3, 4, 5], [5, 4, 3, 2, 1], [2, 2, 2, 2, 2]]])
        best = sums.argmin(axis=2) + 10

        found = engine.between(sums, best, 10)

        # (4 - 2) / (2 (4 - 2 + 2)) = 1/4; nothing beyond the ends, nothing where all is flat
        np.testing.assert_array_equal(found, np.float32([[12.25, 10, 14, 10]]))

    def test_the_clearer_the_images_the_less_a_pixel_needs_its_neighbors(self) -> None:
        settings = make_settings("best", p1=40, p2=800, cross_window=3.0, band_window=1.5, confidence_reach=4.0)
        found = [eased(settings, clear) for clear in (0.1, 1.0, 16.0)]

        assert found[0] is found[1] is settings
        assert (found[2].matching.p1, found[2].matching.p2) == (5, 100)  # over 16^(3/4)
        assert found[2].evidence is not None
        assert found[2].evidence.cross_window == 0.75
        assert found[2].evidence.confidence_reach == 1.0
        assert found[2].evidence.band_window == SINGLE  # 1.5 / 4 would be less than a pixel sees

    def test_two_candidates_have_nothing_between_them(self) -> None:
        assert engine.between(np.int32([[[3, 1]]]), np.int64([[1]]), 0) == 1


class TestAlongSurfaces:
    @pytest.mark.parametrize("first", [0, -3, 5])
    def test_costs_count_from_the_surface(self, first: int) -> None:
        volume = random(0).normal(size=(7, 9, 11)).astype(np.float32)
        surface = random(1).uniform(first - 2, first + 9, (9, 11)).astype(np.float32)

        costs, start = engine.costs_along(volume, 0.1, surface, first)

        expected_costs, expected_start = reference_costs_along(volume, 0.1, surface, first)
        np.testing.assert_array_equal(start, expected_start)
        assert np.abs(costs.astype(int) - expected_costs).max() <= 1  # at a half, the last bit may decide otherwise
        assert (costs != expected_costs).mean() < 0.02

    def test_a_slant_costs_nothing(self) -> None:
        # A floor that is level in no direction, seen faintly: penalties for steps make one level of it.
        height, width, candidates = 24, 20, 20
        y, x = np.mgrid[:height, :width].astype(np.float32)
        truth = 2 + np.float32(0.4) * y + np.float32(0.2) * x
        off = np.abs(np.arange(candidates)[:, None, None] - truth)
        volume = np.minimum(off, 3).astype(np.float32) + random(2).normal(0, 2.5, (candidates, height, width))
        settings = make_settings("best", p1=2000, p2=20000, max_disparity=candidates)
        assert settings.evidence is not None
        matching, unit = steps("matching", "cpu"), engine.spread(volume.astype(np.float32))

        level, _ = solve_view(engine, matching, volume.astype(np.float32), unit, settings, is_left=True)
        along = solve_along(engine, matching, volume.astype(np.float32), unit, settings, truth)

        errors = [float(np.abs(each - truth).mean()) for each in (along, level)]
        assert errors[0] < 0.4 < 0.8 < errors[1]

    def test_views_that_agree_are_averaged(self) -> None:
        left = np.float32([[0.0, 0.0, 2.0, 2.4, 9.0]])
        right = np.float32([[2.0, 1.8, 0.0, 0.0, 7.0]])

        # Partners: 0 - 0, 1 - 0, 2 - 2, 3 - 2 (2.4 lands at 0.6, nearest 1), 4 - 9 beyond the edge.
        np.testing.assert_allclose(engine.fused(left, right), [[0.0, 0.0, 2.0, 2.1, 9.0]], atol=1e-6)


class TestScore:
    def test_a_field_of_one_sureness_keeps_it(self) -> None:
        score = engine.agreed(np.full((30, 40), 5.0, np.float32), SETTINGS)

        np.testing.assert_allclose(score, 5.0 + SETTINGS.confidence_floor, rtol=1e-5)

    def test_one_unsure_pixel_speaks_against_all_around_it(self) -> None:
        sure = np.full((41, 41), 8.0, np.float32)
        sure[20, 20] = 0
        settings = EvidenceSettings(confidence_blur=0.05, confidence_reach=2.0, confidence_floor=0.5)

        score = engine.agreed(sure, settings)

        # The weight w of the pixel in the blur: the logarithm of the score is the mean of logarithms.
        weight = gaussian(2.0)[6] * gaussian(2.0)[6 + 3]
        assert score[20, 23] == pytest.approx(8.5 ** (1 - weight) * 0.5**weight, rel=1e-3)


class TestPlanes:
    def test_one_round_is_that_of_the_definition(self) -> None:
        noisy = random(0).normal(10, 1, (13, 17)).astype(np.float32)
        sure = random(1).random((13, 17)).astype(np.float32) + np.float32(0.01)
        settings = EvidenceSettings(plane_sigma=3.0, plane_ridge=5.0, plane_rounds=1)

        found = engine.planes(noisy, sure - np.float32(1e-6), settings)

        np.testing.assert_allclose(found, reference_planes(noisy, sure, noisy, 3.0, 1.5, 5.0), atol=1e-4)

    def test_a_slanted_surface_stays(self) -> None:
        y, x = np.mgrid[:24, :30].astype(np.float32)
        surface = 5 + 0.02 * x - 0.03 * y
        settings = EvidenceSettings(plane_ridge=1e-6)

        np.testing.assert_allclose(engine.planes(surface, np.ones_like(surface), settings), surface, atol=1e-3)

    def test_a_jump_stays_sharp_and_noise_goes(self) -> None:
        true = np.where(np.arange(60) < 30, 4.0, 14.0) * np.ones((40, 1))
        noisy = (true + random(0).normal(0, 0.4, true.shape)).astype(np.float32)

        found = engine.planes(noisy, np.ones_like(noisy), SETTINGS)

        assert np.abs(found - true).mean() < 0.4 * np.abs(noisy - true).mean()
        assert np.abs(found - true).max() < 1.5

    def test_sure_pixels_outweigh_a_wild_one(self) -> None:
        values, sure = np.full((17, 17), 3.0, np.float32), np.ones((17, 17), np.float32)
        values[8, 8], sure[8, 8] = 4.0, 0.0

        assert engine.planes(values, sure, SETTINGS)[8, 8] == pytest.approx(3.0, abs=1e-3)


class TestConfidence:
    def test_it_rises_with_the_score_from_nothing_to_its_top(self) -> None:
        constants = {"confidence_top": 0.9, "confidence_middle": 12.0, "confidence_slope": 2.0, "confidence_power": 0.5}

        found = calibrated(np.float32([0, 2, 4, 8, 1e6]), 9.0, EvidenceSettings(**constants))

        # top / (1 + (middle / (score unit^power))^slope): scores count threefold here
        np.testing.assert_allclose(found, [0, 0.9 / 5, 0.45, 0.9 / 1.25, 0.9], rtol=1e-5)
        assert found.dtype == np.float32

    def test_views_that_disagree_are_less_sure(self) -> None:
        found = engine.sureness(np.float32([4, 4, 4, 4]), np.float32([0, 0.5, 1.5, np.inf]), 0.5)

        np.testing.assert_allclose(found, [4, 4, 4 / math.e, 0], rtol=1e-6)

    def test_the_views_disagree_by_the_difference_at_the_partner(self) -> None:
        left = np.float32([[1, 1, 1.4, 0, 2]])
        right = np.float32([[1, 3, 0, 7, 9]])

        found = engine.disagreement(left, right)

        # partners at -1 (outside), 0, 0.6 -> 1, 3, 2
        np.testing.assert_allclose(found, [[np.inf, 0, 1.6, 7, 2]], rtol=1e-6)

    def test_reasons_say_what_speaks_against_a_pixel(self) -> None:
        settings = MatchingSettings(min_confidence=0.5, left_right_threshold=1.0)

        found = explain(np.float32([0.5, 0.4, 0.4, 0.4, 0.9]), np.float32([0, 0.2, 1.0, np.inf, np.inf]), settings)

        assert list(found) == [Reason.OK, Reason.AMBIGUOUS, Reason.LEFT_RIGHT, Reason.OUT_OF_VIEW, Reason.OK]


class TestSizes:
    def test_halving_averages_and_repeats_an_odd_edge(self) -> None:
        image = np.arange(9, dtype=np.float32).reshape(3, 3, 1)

        found = engine.halved(image)[..., 0]

        np.testing.assert_array_equal(found, [[2, 3.5], [6.5, 8]])  # (0 1 3 4), (2 2 5 5), (6 7 6 7), (8 8 8 8)

    def test_enlarging_puts_averages_at_their_centers(self) -> None:
        ramp = np.float32([[0, 1, 2, 3]])

        found = engine.enlarged(ramp, 2, (2, 7))

        assert found.shape == (2, 7)
        # Pixel k of the large map lies at (k + 1/2) / 2 - 1/2 of the small one; ends are repeated.
        np.testing.assert_allclose(found[0], np.clip((np.arange(7) + 0.5) / 2 - 0.5, 0, 3), atol=1e-6)

    def test_signal_over_noise_does_not_see_a_lamp(self) -> None:
        dark = (0.1 * random(0).standard_normal((80, 80, 1))).astype(np.float32)
        lamp = dark.copy()
        lamp[10:20, 10:20] += 50 * random(1).random((10, 10, 1), np.float32)

        assert engine.signal_to_noise(lamp, 0.01, SETTINGS) < 0.3

    def test_moments_and_axes_are_those_of_numpy(self) -> None:
        views = random(0).standard_normal((2, 12, 14, 3)).astype(np.float32)
        rows = views.reshape(-1, 3).astype(np.float64)
        axes: Any = np.linalg.qr(random(1).standard_normal((3, 3)))[0]

        np.testing.assert_allclose(engine.second_moments(*views), rows.T @ rows / len(rows), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(engine.turned(views[0], axes), views[0] @ axes, atol=1e-5)
