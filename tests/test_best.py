"""The preset ``best`` from end to end: what it promises of any pair."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

import scotopic
from scotopic.backends import cpu_backend
from scotopic.errors import SettingsError
from scotopic.result import ARRAYS, Match, Reason
from scotopic.settings import (
    PRESETS,
    ChannelSettings,
    EvidenceMatchingSettings,
    MatchingSettings,
    Settings,
    make_settings,
)
from scotopic.stages.channels import Pair
from scotopic.stages.confidence import estimate_deviation
from scotopic.stages.resolution import adapt_patches, shrink_pair, widen_search

WIDTH, HEIGHT, LARGEST = 144, 96, 18  # a room whose disparities run from 1.9 to 14 px
FEW: dict[str, Any] = {
    "device": "cpu",
    "patch_size": 24,
    "refine_steps": 0,
}  # a quicker fit than the preset's


@lru_cache(maxsize=4)
def room(seed: int = 0) -> Any:
    return scotopic.render_scene(WIDTH, HEIGHT, seed)


def pair(photons: float = 8.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    scene = room(seed)
    return scotopic.simulate_pair(scene.left, scene.right, photons=photons, read_noise=2, seed=seed)


def best(left: np.ndarray, right: np.ndarray, **overrides: Any) -> Match:
    return scotopic.match(left, right, "best", **{**FEW, "max_disparity": LARGEST, **overrides})


@pytest.fixture(scope="module")
def found() -> Match:
    return best(*pair())


def median_error(disparity: np.ndarray, seed: int = 0) -> float:
    return float(np.nanmedian(np.abs(disparity - room(seed).disparity_left)))


def test_every_map_is_there(found: Match) -> None:
    for name in ARRAYS:
        assert getattr(found, name).shape[:2] == (HEIGHT, WIDTH), name
        assert getattr(found, name).dtype == (np.uint8 if name == "reason" else np.float32), name
    assert np.isfinite(found.disparity_all).all()
    assert np.isfinite(found.right_disparity).all()
    assert found.settings.preset == "best"
    assert "evidence" in found.timings


def test_what_is_kept_is_what_is_sure_enough(found: Match) -> None:
    kept = found.confidence >= found.settings.matching.min_confidence
    assert kept.mean() > found.settings.score.sparse_share  # so that nothing else decides

    np.testing.assert_array_equal(found.mask, kept)
    np.testing.assert_array_equal(np.isfinite(found.disparity), kept)
    np.testing.assert_array_equal(found.disparity[kept], found.disparity_all[kept])
    assert 0 <= found.confidence.min() <= found.confidence.max() <= 1
    assert set(np.unique(found.reason[~kept])) <= {
        Reason.AMBIGUOUS, Reason.LEFT_RIGHT, Reason.OUT_OF_VIEW, Reason.OCCLUDED, Reason.SATURATED
    }  # fmt: skip


def test_the_deviation_goes_with_the_confidence(found: Match) -> None:
    np.testing.assert_array_equal(found.deviation, estimate_deviation(found.confidence))

    assert found.deviation.shape == found.disparity.shape
    assert found.deviation.dtype == np.float32


def test_what_the_right_camera_does_not_see_is_out_of_view_at_any_size() -> None:
    for size in ({"fine_snr": 1e9}, {"fine_snr": 0.0}):
        result = best(*pair(), **size, min_confidence=1.0)  # nothing is kept, so that every pixel has its reason

        assert (result.reason[:, 0] == Reason.OUT_OF_VIEW).all()
        assert (result.reason[:, LARGEST:] != Reason.OUT_OF_VIEW).mean() > 0.99
        assert (result.reason == Reason.LEFT_RIGHT).any()


def test_disparities_stay_in_the_range_that_was_searched(found: Match) -> None:
    for each in (found.disparity_all, found.right_disparity):
        assert each.min() >= 0
        assert each.max() <= LARGEST - 1


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_noisy_room_is_matched(seed: int) -> None:
    result = best(*pair(8.0, seed))
    truth, seen = room(seed).disparity_left, room(seed).visible_left
    error = np.abs(result.disparity_all - truth)
    surest = result.confidence >= np.quantile(result.confidence, 0.8)

    # At eight photons; measured on ten other seeds: 0.30 to 0.42, and 0.95 to 0.99 of the surest fifth.
    assert np.median(error[seen]) < 0.8
    assert (error[surest] <= 1).mean() > 0.75


@pytest.mark.parametrize("photons", [2.0, 1000.0])
def test_any_light_will_do(photons: float) -> None:
    result = best(*pair(photons))

    assert median_error(result.disparity_all) < (3.0 if photons == 2 else 0.7)


def test_surer_pixels_err_less(found: Match) -> None:
    error = np.abs(found.disparity_all - room().disparity_left).ravel()
    order = np.argsort(-found.confidence.ravel(), kind="stable")
    fifths = [float((error[part] <= 1).mean()) for part in np.array_split(order, 5)]

    assert fifths[0] > fifths[2] > fifths[4]


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_view_that_is_darker_changes_nothing_essential(found: Match, side: str) -> None:
    left, right = pair()
    scaled = (left * 0.94, right) if side == "left" else (left, right * 0.94)

    result = best(*scaled)

    # The fit of junctions is not convex: a change of 1e-5 moves as much.
    assert np.median(np.abs(result.disparity_all - found.disparity_all)) < 0.6
    assert median_error(result.disparity_all) < median_error(found.disparity_all) + 0.15


def test_a_pair_of_half_the_contrast_gives_the_same(found: Match) -> None:
    """Signal and noise halved: the evidence is in units of the noise."""
    result = best(*(view * np.float32(0.5) for view in pair()))

    assert np.median(np.abs(result.disparity_all - found.disparity_all)) < 0.1


def test_disparities_may_be_negative(found: Match) -> None:
    left, right = pair()

    back = best(right, left, min_disparity=1 - LARGEST, max_disparity=1)

    # With the views swapped, the left one's map is what was the right one's, negated.
    assert back.disparity_all.max() <= 0
    assert np.median(np.abs(-back.disparity_all - found.right_disparity)) < 0.5
    assert float(np.median(np.abs(-back.disparity_all - room().disparity_right))) < 1.0


def test_gray_and_three_times_gray_are_the_same_pair() -> None:
    left, right = (view.mean(axis=2) for view in pair())

    gray = best(left, right)
    colored = best(*(np.repeat(view[..., None], 3, axis=2) for view in (left, right)))

    assert gray.left_colors.shape == (HEIGHT, WIDTH, 1)
    # Three equal channels hold the noise three times over, which the noise of one channel does not know.
    assert np.median(np.abs(gray.disparity_all - colored.disparity_all)) < 0.5


@pytest.mark.parametrize(("height", "width"), [(61, 83), (24, 24), (25, 97)])
def test_odd_and_tiny_sizes_work(height: int, width: int) -> None:
    left, right = (view[-height:, :width] for view in pair())

    result = best(left, right, max_disparity=min(LARGEST, width))

    assert result.disparity_all.shape == (height, width)
    assert np.isfinite(result.disparity_all).all()


def test_a_tiny_patch_and_a_single_candidate_work() -> None:
    left, right = (view[:12, :12] for view in pair())

    result = best(left, right, patch_size=12, stride=4, max_disparity=1)

    np.testing.assert_array_equal(result.disparity_all, np.zeros((12, 12)))


@pytest.mark.parametrize("which", ["left", "right", "both"])
def test_a_view_of_one_color_gives_an_empty_match(which: str) -> None:
    left, right = pair()
    flat = np.full_like(left, 0.5)

    result = best(flat if which != "right" else left, flat if which != "left" else right)

    assert (result.reason == Reason.NO_STRUCTURE).all()
    assert np.isnan(result.disparity).all()
    assert not result.confidence.any()


@pytest.mark.parametrize("seed", [3, 4, 6])
def test_of_read_noise_alone_nothing_is_kept(seed: int) -> None:
    black = np.zeros((120, 160, 3), np.float32)

    result = scotopic.match(*scotopic.simulate_pair(black, black, 20, 1, seed=seed), "best", "cpu", max_disparity=32)

    assert not result.mask.any()
    assert result.confidence.max() < 0.2


@pytest.mark.parametrize("photons", [0.3, 2, 200])
@pytest.mark.parametrize("level", [0.1, 0.9])
@pytest.mark.parametrize("channels", [1, 3])
def test_of_noise_alone_nothing_is_kept(photons: float, level: float, channels: int) -> None:
    plain = np.full((48, 64, channels), level, np.float32)

    assert not best(*scotopic.simulate_pair(plain, plain, photons, 0.5, seed=1)).mask.any()


def test_random_dots_are_matched_though_they_are_as_white_as_noise() -> None:
    dots = np.random.default_rng(0).random((96, 136, 1), np.float32)

    result = best(dots[:, :128], dots[:, 6:134])  # 6 px apart

    assert result.coverage > 0.8
    assert np.median(np.abs(result.disparity[result.mask] - 6)) < 0.25


@pytest.mark.parametrize(("first", "end"), [(40, 41), (40, 46)])
@pytest.mark.parametrize("photons", [2, 20])
def test_a_short_range_where_nothing_lies_is_not_answered(first: int, end: int, photons: float) -> None:
    result = best(*pair(photons), min_disparity=first, max_disparity=end)  # the room ends at 14 px

    assert result.coverage < 0.05
    assert ((result.disparity_all >= first) & (result.disparity_all <= end - 1)).all()


@pytest.mark.parametrize(("first", "end"), [(4, 10), (0, 8)])
def test_a_short_range_is_answered_where_the_scene_lies_in_it(first: int, end: int) -> None:
    result, truth = best(*pair(20), min_disparity=first, max_disparity=end), room().disparity_left
    inside = (truth > first) & (truth < end - 1)

    assert result.mask[inside].mean() > 0.7
    # A pixel beside the range may be off by less than one and be right.
    far = (truth < first - 2) | (truth > end + 1)
    assert result.mask[far].mean() < 0.15


def test_clean_noiseless_views_are_no_trouble() -> None:
    scene = room()

    assert median_error(best(scene.left, scene.right).disparity_all) < 0.7


def test_the_same_bits_come_again_with_any_number_of_threads(found: Match) -> None:
    code = f"""
import os
os.environ["NUMBA_NUM_THREADS"] = "2"  # also where there is one core
import hashlib, sys
import numba, cv2
sys.path.insert(0, {str(__file__.rpartition("/")[0])!r})
from test_best import best, pair
from scotopic.result import ARRAYS
for threads in (1, 2):
    numba.set_num_threads(threads); cv2.setNumThreads(threads)
    result = best(*pair())
    print(hashlib.sha256(b"".join(getattr(result, name).tobytes() for name in ARRAYS)).hexdigest())
"""
    runs = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()

    again = best(*pair())

    assert len(runs) == 2
    assert runs[0] == runs[1]
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(again, name), getattr(found, name), err_msg=name)


def test_a_stream_of_pairs_gives_what_single_pairs_give(found: Match) -> None:
    matcher = scotopic.Matcher("best", (HEIGHT, WIDTH, 3), **{**FEW, "max_disparity": LARGEST})

    (result,) = matcher.run([pair()])

    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(result, name), getattr(found, name), err_msg=name)


def test_given_junctions_are_used_instead_of_fitting() -> None:
    left, right = pair()
    fit = make_settings("best", patch_size=24, refine_steps=0).junctions
    fields = scotopic.fit_junctions(left, fit, device="cpu"), scotopic.fit_junctions(right, fit, device="cpu")

    result = scotopic.match(left, right, "best", "cpu", junctions=fields, max_disparity=LARGEST)

    np.testing.assert_array_equal(result.left_boundaries, fields[0].boundary_map)
    np.testing.assert_allclose(result.left_colors, fields[0].color_map, atol=1e-3)
    assert median_error(result.disparity_all) < 1


def test_colors_are_those_of_the_image_not_of_its_transform() -> None:
    scene = room()
    ramp = np.sqrt(scene.left), np.sqrt(scene.right)  # bright and dark parts, so that noise differs between them
    left, right = scotopic.simulate_pair(*ramp, photons=200, read_noise=0.5, seed=0)

    result = best(left, right)

    assert np.abs(result.left_colors - ramp[0]).mean() < 0.12  # stabilized values are off by ten times this


class TestSize:
    def made(self, noise: float) -> Pair:
        # Texture in half of the picture, so that the other half tells its noise.
        texture = np.random.default_rng(0).random((64, 96, 1), np.float32)
        texture[:, ::2] *= 0
        grain = np.random.default_rng(1).normal(0, noise, texture.shape).astype(np.float32)
        return Pair(*[texture + grain] * 2, texture, texture, noise**2)

    @pytest.mark.parametrize(
        ("first", "end", "small"), [(0, 128, (0, 64)), (0, 5, (0, 3)), (-7, 4, (-4, 2)), (3, 4, (1, 2))]
    )
    def test_the_range_of_disparities_shrinks_with_the_images(
        self, first: int, end: int, small: tuple[int, int]
    ) -> None:
        settings = replace(make_settings("best"), matching=MatchingSettings(min_disparity=first, max_disparity=end))

        half, chosen = shrink_pair(cpu_backend(), self.made(0.1), settings, 2)

        assert (chosen.matching.min_disparity, chosen.matching.max_disparity) == small
        assert half.left.shape == (32, 48, 1)
        assert half.variance == pytest.approx(0.1**2 / 4)

    @pytest.mark.parametrize(
        ("asked", "width", "searched"),
        [
            ((0, 32), 640, (0, 32)),
            ((5, 90), 640, (5, 90)),
            ((40, 46), 640, (27, 59)),
            ((2, 6), 640, (0, 32)),
            ((-4, 0), 640, (-18, 14)),
            ((60, 64), 64, (32, 64)),
            ((3, 9), 20, (0, 20)),
            ((-9, 3), 12, (-12, 12)),
        ],
    )
    def test_a_short_range_is_searched_with_what_lies_around(
        self, asked: tuple[int, int], width: int, searched: tuple[int, int]
    ) -> None:
        matching = MatchingSettings(min_disparity=asked[0], max_disparity=asked[1])

        wide = widen_search(replace(make_settings("best"), matching=matching), width)

        assert wide.matching.disparities == range(*searched)


class TestSettings:
    def test_overrides_reach_the_evidence(self) -> None:
        settings = make_settings("best", cross_weight="700", scales=3, local_units="false", p1=10)

        assert isinstance(settings, EvidenceMatchingSettings)
        assert settings.channels == ChannelSettings(cross_weight=700.0, scales=3, local_units=False)
        assert settings.matching.p1 == 10

    def test_other_presets_have_no_evidence(self) -> None:
        with pytest.raises(SettingsError, match="cross_weight"):
            make_settings("fast", cross_weight=1.0)

    @pytest.mark.parametrize(
        "wrong",
        [{"scales": 0}, {"smallest_patch": 2.0}, {"quiet_quantile": 1.5}, {"band_ratio": 1.0}, {"plane_sigma": -1.0},
         {"cross_weight": float("inf")}, {"cost_steps": 2000}, {"max_cells": 0}, {"scales": 9}, {"scales": 1.5},
         {"group_count": 24}, {"group_count": 8}, {"group_count": 128}, {"group_count": 16, "group_reach": 2},
         {"group_reach": 33}, {"group_share": 0.0}, {"surface_passes": -1}, {"confidence_floor": 0.0},
         {"fine_snr": -1.0}, {"noise_floor_quantile": 1.5}, {"fine_group_reach": 3}, {"fine_window": 0.0},
         {"fine_p2": 0}],
    )  # fmt: skip
    def test_values_out_of_range_are_refused_by_name(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(SettingsError, match=next(iter(wrong))):
            make_settings("best", **wrong)

    def test_no_name_stands_for_two_settings(self) -> None:
        settings = PRESETS["best"]
        names = [set(part) for part in settings.as_dict().values() if isinstance(part, dict)]

        assert len(set.union(*names)) == sum(len(part) for part in names)

    def test_they_come_back_from_a_dictionary_also_from_one_of_old(self) -> None:
        for settings in PRESETS.values():
            assert Settings.from_dict(settings.as_dict()) == settings
        # Earlier versions had one part for the evidence, and the same matching settings for every preset.
        old = {
            "preset": "best",
            "junctions": {**PRESETS["best"].as_dict()["junctions"], "binning": 1},
            "matching": {"p1": 52, "p2": 1040, "min_confidence": 0.25, "mask_right": False, "adaptive_p2": False},
            "evidence": {"largest_clarity": 50.0, "agreement_slack": 0.25, "confidence_middle": 117.0},
        }
        read = Settings.from_dict(old)
        assert isinstance(read, EvidenceMatchingSettings)
        assert (read.matching.min_confidence, read.junctions.binning) == (0.25, 1)
        assert (read.resolution.max_snr, read.score.lr_slack) == (50.0, 0.25)

    @pytest.mark.parametrize(
        ("noise", "snr", "patch_size", "stride"),
        # With the noise, and with the root of the ratio to it if that is less, down to a quarter.
        [
            (0.8, 9, 40, 8),
            (0.4, 9, 40, 8),
            (0.2, 9, 20, 4),
            (0.28, 9, 28, 6),
            (0, 9, 10, 2),
            (0, 0.04, 20, 4),
            (0, 0, 40, 8),
        ],
    )
    def test_patches_shrink_with_the_noise(self, noise: float, snr: float, patch_size: int, stride: int) -> None:
        settings = make_settings(
            "best", patch_size=40, stride=8, full_patch_noise=0.4, full_patch_snr=0.01, smallest_patch=0.25
        )
        assert isinstance(settings, EvidenceMatchingSettings)

        junctions = adapt_patches(settings, noise**2, snr)

        assert (junctions.patch_size, junctions.stride) == (patch_size, stride)

    def test_patches_stay_large_where_the_noise_is_correlated(self) -> None:
        settings = make_settings("best", patch_size=40, stride=8, full_patch_noise=0.4)
        assert isinstance(settings, EvidenceMatchingSettings)

        assert adapt_patches(settings, 0.1**2, 9.0).patch_size < 40
        assert adapt_patches(settings, 0.1**2, 9.0, is_correlated=True).patch_size == 40

    def test_patches_are_never_too_small_for_a_junction(self) -> None:
        settings = make_settings("best", patch_size=6, stride=2, smallest_patch=0.01)
        assert isinstance(settings, EvidenceMatchingSettings)

        junctions = adapt_patches(settings, 0.0, 1e9)

        assert (junctions.patch_size, junctions.stride) == (4, 2)

    def test_settings_that_are_gone_are_left_out_with_a_word(self) -> None:
        with pytest.warns(DeprecationWarning, match="fits is gone"):
            assert make_settings("best", fits=4) == make_settings("best")
