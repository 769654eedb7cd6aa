"""The stages of evidence matching: each against its definition, or against a case worked by hand, on each device."""

from __future__ import annotations

import math
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from devices import CPU, DEVICES, on_devices, sized
from kernel_calls import Calls, fetch, on

from scotopic.backends.gaussian import gaussian_kernel
from scotopic.sensor.estimate import NoiseCurve
from scotopic.settings import (
    EvidenceMatchingSettings,
    NoiseSettings,
    PlaneSettings,
    make_settings,
)
from scotopic.stages.channels import Channel, Pair, band, band_kernel, build_channels, detect_correlated_noise
from scotopic.stages.consistency import lr_difference, merge_views
from scotopic.stages.evidence_volume import build_volume, pack_features, reference_volume
from scotopic.stages.noise import ROUNDING, NoiseModel, estimate_noise, fit_noise_line
from scotopic.stages.resolution import (
    MIN_WINDOW,
    enlarge,
    measure_band_snr,
    measure_snr,
    relax_for_snr,
)
from scotopic.stages.sgm import solve_along, solve_pixels
from scotopic.stages.surfaces import fit_planes

random = np.random.default_rng


def best(**overrides: Any) -> EvidenceMatchingSettings:
    settings = make_settings("best", **overrides)
    assert isinstance(settings, EvidenceMatchingSettings)
    return settings


BEST = best()


@pytest.fixture(params=DEVICES)
def there(request: pytest.FixtureRequest) -> Calls:
    """Each device."""
    return on(request.param)


@pytest.fixture(params=[CPU])
def cpu(request: pytest.FixtureRequest) -> Calls:
    """The CPU, for what would take an interpreter long and is one code on all devices."""
    return on(request.param)


def textured(there: Calls, height: int, width: int, channels: int = 3, seed: int = 0) -> np.ndarray:
    """Smooth random texture, not in step with any window."""
    noise = random(seed).standard_normal((height, width, channels)).astype(np.float32)
    smooth: np.ndarray = there.blur(noise, 1.5)
    return smooth + np.float32(0.5)


def shifted_pair(
    there: Calls, shift: int, shape: tuple[int, int, int] = (40, 60, 3), noise: float = 0.02
) -> Pair[np.ndarray]:
    """A pair of one disparity, its "junctions" being the clean texture."""
    height, width, channels = shape
    wide = textured(there, height, width + 2 * abs(shift), channels)
    left, right = wide[:, abs(shift) : abs(shift) + width], wide[:, abs(shift) + shift : abs(shift) + shift + width]
    left, right = np.ascontiguousarray(left), np.ascontiguousarray(right)
    grains = random(1).normal(0, noise, (2, *shape)).astype(np.float32)
    return Pair(left + grains[0], right + grains[1], left, right, noise**2)


def volume_of(there: Calls, pair: Pair[np.ndarray], disparities: range) -> np.ndarray:
    volume: np.ndarray = there.run(build_volume, there.run(build_channels, pair, BEST), disparities)
    return volume


def curve(mean: list[float], variance: list[float]) -> NoiseCurve:
    ones = np.ones(len(mean))
    return NoiseCurve(np.array(mean), np.array(variance), ones, ones)


class TestNoise:
    def test_a_line_is_found_exactly(self) -> None:
        mean = [0.1, 0.3, 0.5, 0.9]

        assert fit_noise_line(curve(mean, [0.01 + 0.02 * m for m in mean])) == pytest.approx((0.01, 0.02))

    def test_noise_that_falls_with_light_counts_as_constant(self) -> None:
        constant, slope = fit_noise_line(curve([0.2, 0.6], [0.2, 0.1]))

        assert slope == 0
        assert constant == pytest.approx((0.2 / 0.2 + 0.1 / 0.1) / (1 / 0.2 + 1 / 0.1))  # weights are 1 / variance

    def test_pure_shot_noise_has_no_constant_but_that_of_rounding(self) -> None:
        constant, slope = fit_noise_line(curve([0.1, 0.5, 0.9], [0.0, 0.0052, 0.009]))

        assert constant == pytest.approx(ROUNDING)
        assert slope > 0

    def test_stabilized_noise_is_as_large_as_said_in_dark_and_bright(self, there: Calls) -> None:
        a, b = 1e-4, 0.01
        ramp = np.linspace(0.02, 0.9, 240, dtype=np.float32)[None, :, None] * np.ones((160, 1, 1), np.float32)
        views = [
            (ramp + random(seed).standard_normal(ramp.shape) * np.sqrt(a + b * ramp)).astype(np.float32)
            for seed in (0, 1)
        ]

        model = there.run(estimate_noise, views, NoiseSettings())
        noisy, clean = (fetch(model.stabilize(there.place(image))) for image in (views[0], ramp))

        assert model.slope == pytest.approx(b, rel=0.1)
        assert model.constant == pytest.approx(a, abs=b * 0.02)  # it matters only beside the light of the darkest part
        for part in (np.s_[:, 20:80], np.s_[:, 160:]):
            assert (noisy - clean)[part].var() == pytest.approx(model.variance, rel=0.15)
        restored, lowest = fetch(model.restore(there.place(noisy))), -model.constant / model.slope
        np.testing.assert_allclose(restored, np.maximum(views[0], lowest), atol=1e-5)

    def test_uniform_noise_leaves_the_images_as_they_are(self, there: Calls) -> None:
        views = [(0.5 + 0.1 * random(seed).standard_normal((96, 96, 1))).astype(np.float32) for seed in (0, 1)]

        model = there.run(estimate_noise, views, NoiseSettings())

        assert model.stabilize(views[0]) is views[0]
        assert model.restore(views[0]) is views[0]
        assert model.variance == pytest.approx(0.01, rel=0.1)

    def test_recorded_values_come_back(self) -> None:
        model, values = NoiseModel(0.001, 0.02, 7.0, 1 / 49), np.linspace(0, 1, 11)

        np.testing.assert_allclose(model.restore(model.stabilize(values)), values, atol=1e-12)

    def test_an_image_too_small_for_a_curve_has_a_noise_all_the_same(self, there: Calls) -> None:
        views = [random(seed).random((12, 12, 3), np.float32) for seed in (0, 1)]

        model = there.run(estimate_noise, views, NoiseSettings())

        assert model.variance == pytest.approx(1 / 12, rel=0.2)  # of a uniform variable

    def test_no_image_is_less_noisy_than_rounding(self, there: Calls) -> None:
        black = np.zeros((12, 12, 1), np.float32)

        assert there.run(estimate_noise, [black, black], NoiseSettings()).variance == ROUNDING


class TestChannels:
    @pytest.mark.parametrize(("scale", "ratio"), [(1.0, 2.0), (1.0, 4.0), (2.0, 1.6)])
    def test_the_band_kernels_energy_and_area_are_the_sums_of_the_definition(self, scale: float, ratio: float) -> None:
        narrow, wide = gaussian_kernel(scale), gaussian_kernel(scale * ratio)
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

    def test_the_widest_band_kernel_takes_no_more_memory_than_its_rows(self) -> None:
        tracemalloc.start()
        energy, area = band_kernel(500.0, 2.0)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()

        assert most < 2e6  # each array of its 6001 x 6001 weights would take 288 MB
        # Of so wide a band the sums are integrals: those of exp(-2 pi^2 s^2 q f^2) over both frequencies f.
        square, fourth = (
            sum((-1) ** k * math.comb(n, k) / (2 * math.pi * 500**2 * (n - k + 4 * k)) for k in range(n + 1))
            for n in (2, 4)
        )
        assert energy == pytest.approx(square, rel=0.02)  # kernels are cut at three sigma
        assert area == pytest.approx(fourth / square**2, rel=0.02)

    @pytest.mark.parametrize(("left", "right"), [(0.4, 0.5), (-0.8, 0.9), (1.2, 1.1), (0.0, 0.3)])
    def test_the_cost_is_minus_the_log_of_the_likelihood_ratio(self, left: float, right: float) -> None:
        S, N = 0.7, 0.3

        def log_density(covariance: np.ndarray) -> float:
            seen = np.array([left, right])
            return -0.5 * float(seen @ np.linalg.inv(covariance) @ seen)  # but for its constant

        same, unrelated = np.array([[S + N, S], [S, S + N]]), (S + N) * np.eye(2)
        flat = np.ones((9, 9, 1))
        channel = Channel(left * flat, right * flat, np.array([S]), np.array([N]), 1.0, 1.0)

        cost = reference_volume([channel], range(1))

        np.testing.assert_allclose(cost, log_density(unrelated) - log_density(same), atol=1e-12)

    def test_a_component_without_signal_says_nothing(self) -> None:
        noise = random(0).random((9, 9, 1))

        assert not reference_volume([Channel(noise, -noise, np.zeros(1), np.ones(1), 1.0, 1.0)], range(2)).any()

    def test_twice_the_signal_and_twice_the_noise_change_nothing(self, cpu: Calls) -> None:
        pair = shifted_pair(cpu, 3)
        twice = Pair(*(2 * each for each in (pair.left, pair.right, pair.left_colors, pair.right_colors)), 4e-4 * 4)

        once, doubled = (volume_of(cpu, each, range(6)) for each in (pair, twice))

        np.testing.assert_allclose(doubled, once, atol=2e-3 * once.std())

    def test_a_brighter_view_changes_nothing(self, cpu: Calls) -> None:
        pair = shifted_pair(cpu, 3)
        brighter = replace(pair, right=pair.right + np.float32(0.2), right_colors=pair.right_colors + np.float32(0.2))

        plain, lit = (volume_of(cpu, each, range(6)) for each in (pair, brighter))

        np.testing.assert_allclose(lit, plain, atol=5e-3 * plain.std())

    def test_the_image_counts_by_its_signal_to_noise_ratio(self, there: Calls) -> None:
        pairs = [shifted_pair(there, 2, noise=noise) for noise in (0.01, 2.0)]

        clear, dark = (there.run(measure_snr, pair, BEST) for pair in pairs)
        weights = [there.run(build_channels, pair, BEST)[-1].weight for pair in pairs]

        assert clear > 10 > 1 > dark
        full = BEST.channels.image_weight
        assert weights == pytest.approx([full * clear, full * dark**2], rel=1e-5)

    def test_noise_that_is_not_white_is_measured_in_the_quiet_parts(self, there: Calls) -> None:
        grains = random(2).standard_normal((2, 64, 96, 1)).astype(np.float32)
        views = [there.blur(each, 1.5) for each in grains]  # demosaiced noise, and nothing else
        white = float(views[0].var()) / 10  # what differences of neighbors make of it
        flat = np.zeros_like(views[0])

        pair = there.run(detect_correlated_noise, Pair(*views, flat, flat, white), BEST)
        channel = there.run(build_channels, pair, BEST)[0]

        assert not pair.is_white
        assert pair.variance > 2 * white
        assert channel.noise[0] > 0.5 * there.run(band, views[0], 1.0, 4.0).var()

    def test_white_noise_is_left_as_it_was_estimated(self, there: Calls) -> None:
        views = random(2).normal(0, 0.1, (2, 64, 96, 1)).astype(np.float32)

        pair = there.run(detect_correlated_noise, Pair(*views, *np.zeros_like(views), 0.01), BEST)

        assert pair.is_white
        assert pair.variance == 0.01

    def test_the_surest_disparity_is_the_shift(self, cpu: Calls) -> None:
        for shift in (4, -3):
            volume = volume_of(cpu, shifted_pair(cpu, shift), range(-6, 7))

            found = volume[:, 10:-10, 12:-12].argmin(axis=0) - 6
            assert (np.abs(found - shift) <= 1).all()
            assert (found == shift).mean() > 0.9


class TestVolume:
    @on_devices(
        "channels, disparities",
        [(channels, each) for channels in (1, 3) for each in (range(5), range(-4, 3), range(30, 34))],
        [(3, range(-1, 1)), (1, range(12, 14))],
    )
    def test_all_channels_add_up_to_the_definition(self, device: str, channels: int, disparities: range) -> None:
        shape = sized(device, (25, 31), (6, 13))
        found = on(device).run(build_channels, shifted_pair(on(device), 2, (*shape, channels)), BEST)

        volume, expected = on(device).run(build_volume, found, disparities), reference_volume(found, disparities)

        # Nested blurs, each cut at three sigma, differ from one blur by that cut.
        np.testing.assert_allclose(volume, expected, atol=0.02 * expected.std())

    def test_channels_of_one_window_share_their_features(self, there: Calls) -> None:
        channels = BEST.channels
        found = there.run(pack_features, there.run(build_channels, shifted_pair(there, 2), BEST))

        scales = [channels.finest_scale * 2**k for k in range(channels.scales)]
        windows = {channels.junction_window, channels.cross_window, *(max(s, channels.band_window) for s in scales)}
        assert [each.window for each in found] == sorted(windows, reverse=True)


class TestFeatures:
    @pytest.mark.parametrize("channels", [1, 3])
    @pytest.mark.parametrize("has_units", [False, True])
    def test_they_are_those_of_the_definition(self, there: Calls, channels: int, has_units: bool) -> None:
        generator = np.random.default_rng(3)
        left, right = generator.normal(0, 1, (2, 3, 5, channels)).astype(np.float32)
        units = generator.random((3, 5)).astype(np.float32) if has_units else None
        own, product = generator.normal(0, 1, (2, channels))

        placed = [None if each is None else there.place(each) for each in (left, right, units)]
        here, partner = (fetch(each) for each in there.backend.channel_features(*placed, own, product))

        g = np.ones((3, 5)) if units is None else units
        components = np.moveaxis(-g[..., None] * product * left, -1, 0)
        others = [np.ones((3, 5)), right**2 @ own, *np.moveaxis(right, -1, 0)]
        np.testing.assert_allclose(here, [g * (left**2 @ own), g, *components], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(partner, others, rtol=1e-5, atol=1e-6)

    def test_each_cell_is_weighed_by_both_of_its_pixels(self, there: Calls) -> None:
        generator = np.random.default_rng(4)
        volume, left, right = generator.random((4, 3, 6)), generator.random((3, 6)), generator.random((3, 6))
        placed = [there.place(each.astype(np.float32)) for each in (volume, left, right)]

        there.backend.weigh_cells(*placed, range(-1, 3))

        for k, d in enumerate(range(-1, 3)):
            partner = right[:, np.clip(np.arange(6) - d, 0, 5)]
            np.testing.assert_allclose(fetch(placed[0])[k], volume[k] * left * partner, rtol=1e-6)


class TestRows:
    def test_the_nearest_marks_of_a_row_are_found(self, there: Calls) -> None:
        marks = np.array([[0, 1, 0, 0, 1, 0], [0, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 1]], bool)

        before, after = there.nearest_marked(marks)

        np.testing.assert_array_equal(before, [[-1, 1, 1, 1, 4, 4], [-1] * 6, [0, 0, 0, 0, 0, 5]])
        np.testing.assert_array_equal(after, [[1, 1, 4, 4, 4, 6], [6] * 6, [0, 5, 5, 5, 5, 5]])

    def test_the_range_of_a_window_ends_at_the_edges(self, there: Calls) -> None:
        values = np.random.default_rng(5).normal(0, 1, (5, 7)).astype(np.float32)

        lowest, highest = there.window_range(values, 2)

        for i, j in np.ndindex(values.shape):
            around = values[max(i - 2, 0) : i + 3, max(j - 2, 0) : j + 3]
            assert (lowest[i, j], highest[i, j]) == (around.min(), around.max())


class TestSolving:
    def test_between_candidates_the_parabola_has_its_minimum(self, there: Calls) -> None:
        sums = np.int32([[[9, 4, 1, 2, 9], [1, 2, 3, 4, 5], [5, 4, 3, 2, 1], [2, 2, 2, 2, 2]]])

        found = there.subpixel(sums, sums.argmin(axis=2), 10)

        # (4 - 2) / (2 (4 - 2 + 2)) = 1/4; nothing beyond the ends, nothing where all is flat
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, np.float32([[12.25, 10, 14, 10]]))

    def test_two_candidates_have_nothing_between_them(self, there: Calls) -> None:
        assert there.subpixel(np.int32([[[3, 1]]]), np.int64([[1]]), 0) == 1

    def test_the_clearer_the_images_the_less_a_pixel_needs_its_neighbors(self) -> None:
        settings = best(p1=40, p2=800, cross_window=3.0, band_window=1.5, confidence_reach=4.0)
        dark, even, clear = (relax_for_snr(settings, snr) for snr in (0.1, 1.0, 16.0))

        assert dark is even is settings
        assert (clear.matching.p1, clear.matching.p2) == (5, 100)  # over 16^(3/4)
        assert clear.channels.cross_window == 0.75
        assert clear.score.confidence_reach == 1.0
        assert clear.channels.band_window == MIN_WINDOW  # 1.5 / 4 would be less than a pixel sees

    def test_a_slant_costs_nothing_along_its_surface(self, cpu: Calls) -> None:
        # A floor that is level in no direction, seen faintly: penalties for steps make one level of it.
        height, width, candidates = 24, 20, 20
        y, x = np.mgrid[:height, :width].astype(np.float32)
        truth = 2 + np.float32(0.4) * y + np.float32(0.2) * x
        off = np.abs(np.arange(candidates)[:, None, None] - truth)
        volume = (np.minimum(off, 3) + random(2).normal(0, 2.5, (candidates, height, width))).astype(np.float32)
        settings = best(p1=2000, p2=20000, max_disparity=candidates)
        cpu.backend.normalize_volume(volume)
        same = np.full((height, width), settings.matching.p2, np.int32)

        level, _ = cpu.run(solve_pixels, volume, settings, same, is_left=True)
        along = cpu.run(solve_along, volume, settings, truth)

        errors = [float(np.abs(each - truth).mean()) for each in (along, level)]
        assert errors[0] < 0.4 < 0.8 < errors[1]

    @on_devices("first", [0, -3], [-3])
    def test_where_each_pixel_is_sure_it_is_taken_at_its_word_by_both_views_and_along_a_surface(
        self, device: str, first: int
    ) -> None:
        # The cost is |d - 2| steps, everywhere: both views say 2, and the next rival is two steps away on eight paths.
        there, settings = on(device), best(p1=0, p2=0, min_disparity=first, max_disparity=first + 7, cost_steps=1)
        costs = np.abs(np.arange(first, first + 7) - (first + 2)).astype(np.float32)
        volume = np.ascontiguousarray(np.broadcast_to(costs[:, None, None], (7, 3, 4)))
        free = np.zeros((3, 4), np.int32)

        (left, margin), (right, _) = (
            there.run(solve_pixels, volume, settings, free, is_left=is_left) for is_left in (True, False)
        )
        along = there.run(solve_along, volume, settings, np.full((3, 4), first + 3.2, np.float32))

        for found in (left, right, along):
            np.testing.assert_array_equal(found, first + 2)
        np.testing.assert_array_equal(margin, 8 * 2)  # candidates two away; without penalties paths add nothing


class TestViews:
    def test_the_views_disagree_by_the_difference_at_the_partner(self, there: Calls) -> None:
        left = np.float32([[1, 1, 1.4, 0, 2]])
        right = np.float32([[1, 3, 0, 7, 9]])

        found = there.run(lr_difference, left, right)

        # partners at -1 (outside), 0 (the outermost column, which counts as outside), 0.6 -> 1, 3, 2
        np.testing.assert_allclose(found, [[np.inf, np.inf, 1.6, 7, 2]], rtol=1e-6)

    def test_the_outermost_columns_count_as_outside_but_for_what_does_not_move(self, there: Calls) -> None:
        left = np.float32([[0, 1, 0, -1, 0], [0.4, -1, 2, 1, -1]])

        found = there.run(lr_difference, left, np.zeros_like(left))

        # Partners at 0, 0, 2, 4, 4; then at -0.4 -> 0, 2, 0, 2, 5.
        np.testing.assert_allclose(found, [[0, np.inf, 0, np.inf, 0], [np.inf, 1, np.inf, 1, np.inf]])

    def test_views_that_agree_are_averaged(self, there: Calls) -> None:
        left = np.float32([[0.0, 0.0, 2.0, 2.4, 9.0]])
        right = np.float32([[2.0, 1.8, 0.0, 0.0, 7.0]])

        # Partners: 0 - 0, 1 - 0, 2 - 2, 3 - 2 (2.4 lands at 0.6, nearest 1), 4 - 9 beyond the edge.
        np.testing.assert_allclose(there.run(merge_views, left, right), [[0.0, 0.0, 2.0, 2.1, 9.0]], atol=1e-6)


class TestPlanes:
    LOCAL = BEST.surfaces.local

    def test_a_slanted_surface_stays(self, cpu: Calls) -> None:
        y, x = np.mgrid[:24, :30].astype(np.float32)
        surface = 5 + np.float32(0.02) * x - np.float32(0.03) * y

        found = cpu.run(fit_planes, surface, np.ones_like(surface), PlaneSettings(8.0, 1.5, 1e-6, 2))

        np.testing.assert_allclose(found, surface, atol=1e-3)

    def test_a_jump_stays_sharp_and_noise_goes(self, cpu: Calls) -> None:
        true = np.where(np.arange(60) < 30, 4.0, 14.0) * np.ones((40, 1))
        noisy = (true + random(0).normal(0, 0.4, true.shape)).astype(np.float32)

        found = cpu.run(fit_planes, noisy, np.ones_like(noisy), self.LOCAL)

        assert np.abs(found - true).mean() < 0.4 * np.abs(noisy - true).mean()
        assert np.abs(found - true).max() < 1.5

    def test_sure_pixels_outweigh_a_wild_one(self, cpu: Calls) -> None:
        values, sure = np.full((17, 17), 3.0, np.float32), np.ones((17, 17), np.float32)
        values[8, 8], sure[8, 8] = 4.0, 0.0

        assert cpu.run(fit_planes, values, sure, self.LOCAL)[8, 8] == pytest.approx(3.0, abs=1e-3)


class TestSizes:
    def test_halving_averages_and_repeats_an_odd_edge(self, there: Calls) -> None:
        image = np.arange(9, dtype=np.float32).reshape(3, 3, 1)

        found = there.halve(image)[..., 0]

        np.testing.assert_array_equal(found, [[2, 3.5], [6.5, 8]])  # (0 1 3 4), (2 2 5 5), (6 7 6 7), (8 8 8 8)

    def test_enlarging_puts_averages_at_their_centers(self, there: Calls) -> None:
        ramp = np.float32([[0, 1, 2, 3]])

        found = there.run(enlarge, ramp, 2, (2, 7))

        assert found.shape == (2, 7)
        # Pixel k of the large map lies at (k + 1/2) / 2 - 1/2 of the small one; ends are repeated.
        np.testing.assert_allclose(found[0], np.clip((np.arange(7) + 0.5) / 2 - 0.5, 0, 3), atol=1e-6)
        np.testing.assert_array_equal(there.run(enlarge, ramp, 1, (1, 4)), ramp)

    def test_the_size_is_not_chosen_by_a_lamp(self, there: Calls) -> None:
        dark = (0.1 * random(0).standard_normal((80, 80, 1))).astype(np.float32)
        lamp = dark.copy()
        lamp[10:20, 10:20] += 50 * random(1).random((10, 10, 1), np.float32)

        assert there.run(measure_band_snr, lamp, 0.01, BEST, False) < 0.3
