"""One call from a pair to a match: what holds for any input, what is recovered, what is refused, what options do."""

import itertools
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from agreement import assert_maps_agree
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_calls import threads
from pictures import draw_blocks

import scotopic
from scotopic import Match, Reason, ScotopicError
from scotopic.errors import DeviceError, InputError, SettingsError
from scotopic.io import write_png
from scotopic.stages.junctions.fit import plain_map
from scotopic.matching import (
    View,
    aggregate,
    check_views,
    cost_volume,
    jump_penalties,
    scale_volume,
    select,
    spread_over_pixels,
)

QUICK: dict[str, Any] = {
    "preset": "paper", "patch_size": 12, "stride": 4, "search_steps": 2, "refine_steps": 6, "search_every": 3,
    "candidates": 9, "max_disparity": 12, "device": "cpu",
}  # fmt: skip
MAPS = (
    "disparity", "disparity_all", "right_disparity", "confidence", "reason", "left_image", "right_image",
    "left_boundaries", "right_boundaries", "left_colors", "right_colors",
)  # fmt: skip


def shifted_pair(disparity: int, channels: int = 3, noise: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Two views of one flat scene, 96 x 64 px, parallel to the cameras: ``x_right = x_left - d``."""
    scene = draw_blocks(64, 96 + disparity, channels, seed=1, noise=noise, side=20)
    return scene[:, :96], scene[:, disparity:]


@pytest.fixture(scope="module")
def noisy_pair() -> tuple[np.ndarray, np.ndarray]:
    """A scene of several depths at a photon level of 2."""
    scene = scotopic.render_scene(width=160, height=96)
    return scotopic.simulate_pair(scene.left, scene.right, photons=2, read_noise=2, seed=0)


def match_noisy(pair: tuple[np.ndarray, np.ndarray], **overrides: Any) -> Match:
    chosen = {"patch_size": 16, "stride": 4, "max_disparity": 24, "refine_steps": 20, "search_every": 10, **overrides}
    return scotopic.match(*pair, "fast", "cpu", **chosen)


@pytest.fixture(scope="module")
def noisy_match(noisy_pair: tuple[np.ndarray, np.ndarray]) -> Match:
    return match_noisy(noisy_pair)


# What holds for any input


@st.composite
def pairs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Two views of one size: any type, range of values, channels and memory layout that is accepted."""
    height, width = draw(st.integers(40, 72)), draw(st.integers(40, 72))
    channels = draw(st.sampled_from([(), (1,), (3,)]))
    dtype = draw(st.sampled_from([np.uint8, np.uint16, np.bool_, np.float16, np.float32, np.float64]))
    kind = draw(st.sampled_from(["blocks", "noise", "two levels", "one bright pixel"]))
    low, high = draw(st.sampled_from([(0.0, 1.0), (0.0, 0.01), (0.5, 0.5001), (-0.2, 1.3)]))
    seed = draw(st.integers(0, 1000))
    random = np.random.default_rng(seed)
    views = []
    for _ in range(2):
        values = random.random((height, width, *channels))
        if kind == "blocks":
            values = draw_blocks(height, width, *channels or (1,), seed=seed).reshape(values.shape).astype(float)
        elif kind == "two levels":
            values = np.round(values)
        elif kind == "one bright pixel":
            values = np.zeros_like(values)
            values[random.integers(height), random.integers(width)] = 1
        if dtype in (np.float16, np.float32, np.float64):
            view = (low + (high - low) * values).astype(dtype)
        elif dtype == np.bool_:
            view = values > 0.5
        else:
            view = np.round(np.iinfo(dtype).max * values * min(high, 1)).astype(dtype)
        layout = draw(st.sampled_from(["C", "F", "reversed"]))
        view = np.asfortranarray(view) if layout == "F" else view[::-1, ::-1] if layout == "reversed" else view
        view.setflags(write=False)
        views.append(view)
    return views[0], views[1]


@st.composite
def overrides(draw: st.DrawFn) -> dict[str, Any]:
    """Settings that make sense together and run in no time."""
    binning = draw(st.sampled_from([1, 2]))
    patch_size = draw(st.integers(8 // binning, 16 // binning)) * binning
    first = draw(st.integers(-20, 20))
    return {
        "patch_size": patch_size,
        "stride": draw(st.integers(2, patch_size // binning)) * binning,
        "binning": binning,
        "search_steps": draw(st.integers(0, 2)),
        "refine_steps": draw(st.integers(0, 3)),
        "search_every": draw(st.integers(1, 3)),
        "candidates": draw(st.integers(1, 5)),
        "tile": draw(st.sampled_from([3, 128])),
        "tile_margin": draw(st.integers(0, 2)),
        "min_disparity": first,
        "max_disparity": first + draw(st.integers(1, 20)),
        "symmetric": draw(st.booleans()),
        "adaptive_p2": draw(st.booleans()),
        "mask_right": draw(st.booleans()),
        "p1": draw(st.sampled_from([0, 20])),
        "boundary_threshold": draw(st.sampled_from([0.0, 0.1, 1.0])),
        "left_right_threshold": draw(st.sampled_from([0.0, 1.0, 100.0])),
        "min_confidence": draw(st.sampled_from([0.0, 0.3])),
    }


@given(pair=pairs(), chosen=overrides())
@settings(max_examples=100, deadline=None)
def test_any_pair_gives_a_whole_match_and_is_left_as_it_was(
    pair: tuple[np.ndarray, np.ndarray], chosen: dict[str, Any]
) -> None:
    before = [view.copy() for view in pair]

    result = scotopic.match(*pair, "paper", "cpu", **chosen)

    shape, channels = pair[0].shape[:2], 3 if pair[0].ndim == 3 and pair[0].shape[2] == 3 else 1
    for name in MAPS:
        expected = (*shape, channels) if name.endswith(("image", "colors")) else shape
        assert getattr(result, name).shape == expected, name
        assert getattr(result, name).dtype == (np.uint8 if name == "reason" else np.float32), name
    np.testing.assert_array_equal(np.isnan(result.disparity), result.reason != Reason.OK)
    np.testing.assert_array_equal(result.disparity[result.mask], result.disparity_all[result.mask])
    assert np.isin(result.reason, list(Reason)).all()
    constant = any((view == view[:1, :1]).all() for view in (result.left_image, result.right_image))
    for disparities in (result.disparity_all, result.right_disparity):
        known = disparities[~np.isnan(disparities)]
        assert known.size == (0 if constant else disparities.size)
        assert ((known >= chosen["min_disparity"]) & (known <= chosen["max_disparity"] - 1)).all()
    assert ((result.confidence >= 0) & (result.confidence <= 1)).all()
    for boundaries in (result.left_boundaries, result.right_boundaries):
        assert ((boundaries >= 0) & (boundaries <= 1.0001)).all()
    for colors, image in ((result.left_colors, result.left_image), (result.right_colors, result.right_image)):
        spread = max(float(np.ptp(image)), 1e-4)  # colors are weighted means of the image
        assert colors.min() >= image.min() - 0.01 * spread - 1e-4
        assert colors.max() <= image.max() + 0.01 * spread + 1e-4
    for view, copy in zip(pair, before, strict=True):
        np.testing.assert_array_equal(view, copy)


@pytest.mark.parametrize("which", ["left", "right", "both"])
@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
def test_a_constant_image_gives_an_empty_match(which: str, value: float) -> None:
    left, right = (view.copy() for view in shifted_pair(6))
    if which != "right":
        left[:] = [value, 0.25, value]
    if which != "left":
        right[:] = value

    result = scotopic.match(left, right, **QUICK)

    assert result.coverage == 0
    assert np.isnan(result.disparity).all()
    assert (result.reason == Reason.NO_STRUCTURE).all()
    assert (result.confidence == 0).all()
    np.testing.assert_array_equal(result.left_image, left)


def test_images_of_exactly_one_patch_are_matched() -> None:
    result = scotopic.match(*(view[:12, :12] for view in shifted_pair(2)), **{**QUICK, "max_disparity": 6})

    assert result.disparity.shape == (12, 12)


# What is recovered


@pytest.mark.parametrize("preset", ["paper", "fast"])
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_a_shift_is_recovered_within_a_pixel_to_either_side(preset: str, noise: float) -> None:
    left, right = shifted_pair(6, noise=noise)
    chosen = {"patch_size": 16, "stride": 4, "search_steps": 3, "refine_steps": 20, "search_every": 10}

    forth = scotopic.match(left, right, preset, max_disparity=16, **chosen)
    back = scotopic.match(right, left, preset, min_disparity=-15, max_disparity=1, **chosen)

    for result, disparity in ((forth, 6), (back, -6)):
        assert result.coverage > 0.15
        kept = result.disparity[result.mask]
        assert_maps_agree(kept, np.full_like(kept, disparity), 1.0, outliers=0.05)
        inner = result.right_disparity[:, 20:-20]  # of the right view, without what the left one cannot see
        assert np.median(inner) == disparity


def test_two_depths_are_told_apart() -> None:
    far, near = draw_blocks(64, 120, 3, seed=2, side=20), draw_blocks(64, 120, 3, seed=3, side=20)
    left, right = far[:, :96].copy(), far[:, 3:99].copy()
    left[16:48, 40:80], right[16:48, 28:68] = near[16:48, 40:80], near[16:48, 40:80]

    result = scotopic.match(left, right, "fast", patch_size=12, stride=4, max_disparity=20)

    inside, outside = np.zeros((64, 96), bool), np.ones((64, 96), bool)
    inside[24:40, 48:72] = True
    outside[4:60, 16:92] = False
    for area, disparity in ((inside, 12), (outside, 3)):
        found = result.disparity[area & result.mask]
        assert found.size > 50
        assert_maps_agree(found, np.full_like(found, disparity), 1.0, outliers=0.1)


def test_what_lies_outside_the_right_view_is_not_kept() -> None:
    left, right = shifted_pair(24)

    result = scotopic.match(left, right, "fast", patch_size=12, stride=4, max_disparity=32)

    lost = result.mask[:, :12]  # their partners would lie 12 px and more outside
    wrong = np.abs(result.disparity[:, :12][lost] - 24) > 1
    assert wrong.sum() < 0.05 * lost.size


def test_a_match_is_the_parts_of_the_method_put_together(noisy_pair: tuple[np.ndarray, np.ndarray]) -> None:
    chosen = scotopic.make_settings("fast", patch_size=16, stride=4, max_disparity=24, refine_steps=5, mask_right=True)
    fit, matching = chosen.junctions, chosen.matching
    views = []
    for image in noisy_pair:
        junctions = scotopic.fit_junctions(image, fit, device="cpu")
        views.append(View(image, junctions, plain_map(image, junctions.parameters, fit, device="cpu")))
    pixels = []
    for view, other, is_left in ((*views, True), (*views[::-1], False)):
        volume = scale_volume(cost_volume(view, other, matching, is_left=is_left), matching)
        chosen_patches = select(aggregate(volume, jump_penalties(view.junctions, matching), matching), matching)
        pixels.append([spread_over_pixels(values, (96, 160), fit) for values in chosen_patches])
    (left, left_margin), (right, _) = pixels
    boundaries = [view.junctions.boundary_map for view in views]
    checked = check_views(left, right, left_margin, *boundaries, matching)

    result = scotopic.match(
        *noisy_pair, "fast", "cpu", patch_size=16, stride=4, max_disparity=24, refine_steps=5, mask_right=True
    )

    expected = {
        "disparity": checked.disparity,
        "disparity_all": left, "right_disparity": right, "confidence": checked.confidence, "reason": checked.reason,
        "left_image": noisy_pair[0], "right_image": noisy_pair[1], "left_boundaries": boundaries[0],
        "right_boundaries": boundaries[1], "left_colors": views[0].junctions.color_map,
        "right_colors": views[1].junctions.color_map,
    }  # fmt: skip
    for name, values in expected.items():
        np.testing.assert_array_equal(getattr(result, name), values, err_msg=name)


# The same whatever way it is asked for


def test_paths_and_arrays_give_the_same(tmp_path: Path) -> None:
    pair = [np.round(255 * view).astype(np.uint8) for view in shifted_pair(6)]
    paths = [tmp_path / "left.png", tmp_path / "right.png"]
    for path, view in zip(paths, pair, strict=True):
        write_png(path, view)

    from_arrays = scotopic.match(*pair, **QUICK)

    for left, right in ((paths[0], paths[1]), (str(paths[0]), str(paths[1])), (paths[0], pair[1])):
        assert_same_match(scotopic.match(left, right, **QUICK), from_arrays)


def assert_same_match(first: Match, second: Match) -> None:
    for name in MAPS:
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name), err_msg=name)


def test_eight_bits_sixteen_bits_and_floats_agree() -> None:
    eight = [np.round(255 * view).astype(np.uint8) for view in shifted_pair(6)]

    expected = scotopic.match(*eight, **QUICK)

    # 257 v / 65535 is v / 255.
    assert_same_match(scotopic.match(*(np.uint16(257) * view for view in eight), **QUICK), expected)
    assert_same_match(scotopic.match(*(view / np.float32(255) for view in eight), **QUICK), expected)
    assert_same_match(scotopic.match(*(view / 255.0 for view in eight), **QUICK), expected)


def test_gray_images_may_have_a_channel_or_none() -> None:
    pair = shifted_pair(6, channels=1)

    assert_same_match(scotopic.match(*(view[..., 0] for view in pair), **QUICK), scotopic.match(*pair, **QUICK))


def test_two_runs_are_the_same_bits_with_one_thread_or_two(noisy_pair: tuple[np.ndarray, np.ndarray]) -> None:
    runs = []
    for count in (1, 2, 2):
        with threads(count):
            runs.append(match_noisy(noisy_pair))

    for name in MAPS:
        assert len({getattr(run, name).tobytes() for run in runs}) == 1, name


def test_auto_is_the_cpu_where_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scotopic.backends.device.why_no_gpu", lambda: "no GPU")
    pair = shifted_pair(6)

    assert_same_match(scotopic.match(*pair, **{**QUICK, "device": "auto"}), scotopic.match(*pair, **QUICK))


def test_the_result_names_the_settings_that_were_used() -> None:
    result = scotopic.match(*shifted_pair(6), "fast", patch_size=16, stride=8, min_confidence=0.2)

    used = result.settings
    assert (used.preset, used.junctions.patch_size, used.junctions.stride) == ("fast", 16, 8)
    assert used.matching.min_confidence == 0.2
    assert used.matching.max_disparity == 96  # 128 would be wider than the image


def test_each_stage_is_reported_from_its_beginning_to_its_end_and_timed() -> None:
    heard: list[tuple[str, float]] = []

    result = scotopic.match(*shifted_pair(6), progress=lambda *event: heard.append(event), **QUICK)

    stages = [(name, [share for _, share in events]) for name, events in itertools.groupby(heard, lambda e: e[0])]
    assert [name for name, _ in stages] == [
        "junctions", "costs left", "matching left", "costs right", "matching right", "consistency",
    ]  # fmt: skip
    for _, shares in stages:
        assert shares[0] == 0
        assert shares[-1] == 1
        assert shares == sorted(shares)
    assert list(result.timings) == [name for name, _ in stages]
    assert all(seconds >= 0 for seconds in result.timings.values())


# What is refused


def refusal(left: Any, right: Any, kind: type[ScotopicError], **overrides: Any) -> str:
    """The message with which a pair is refused: one line."""
    with pytest.raises(kind) as caught:
        scotopic.match(left, right, **overrides)
    message = str(caught.value)
    assert "\n" not in message
    assert "expected" in message or "use device" in message
    return message


def good() -> np.ndarray:
    return draw_blocks(48, 64, 3)


@pytest.mark.parametrize("side", ["left", "right"])
class TestBadImages:
    def refused(self, side: str, bad: Any) -> str:
        message = refusal(*((bad, good()) if side == "left" else (good(), bad)), kind=InputError)
        assert f"{side} image" in message
        return message

    def test_a_missing_file_is_named(self, side: str, tmp_path: Path) -> None:
        assert "nowhere.png" in self.refused(side, tmp_path / "nowhere.png")

    def test_an_unreadable_file_is_named(self, side: str, tmp_path: Path) -> None:
        (tmp_path / "text.png").write_text("not an image")

        assert "text.png" in self.refused(side, str(tmp_path / "text.png"))

    def test_a_file_with_alpha_is_named(self, side: str, tmp_path: Path) -> None:
        cv2.imwrite(str(tmp_path / "alpha.png"), np.full((48, 64, 4), 9, np.uint8))

        message = self.refused(side, tmp_path / "alpha.png")

        assert "alpha.png" in message
        assert "remove alpha" in message

    @pytest.mark.parametrize("channels", [2, 4])
    def test_two_or_four_channels_are_counted(self, side: str, channels: int) -> None:
        assert f"{channels} channels" in self.refused(side, np.zeros((48, 64, channels), np.float32))

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    def test_values_that_are_not_finite_are_located(self, side: str, value: float) -> None:
        image = good()
        image[7, 11, 1] = value

        message = self.refused(side, image)

        assert "NaN or infinite" in message
        assert "row 7, column 11" in message

    def test_floats_of_another_scale_are_recognized(self, side: str) -> None:
        assert "divide by" in self.refused(side, 255 * good())

    def test_what_is_no_image_is_named_by_its_type(self, side: str) -> None:
        assert "NoneType" in self.refused(side, None)
        assert "list" in self.refused(side, [[1.0, 2.0]])


@pytest.mark.parametrize("shape", [(48, 65, 3), (47, 64, 3), (48, 64, 1), (48, 64)])
def test_views_that_differ_are_refused_with_both_sizes(shape: tuple[int, ...]) -> None:
    message = refusal(good(), np.zeros(shape, np.float32), InputError)

    assert "64 x 48 px with 3 channel(s)" in message
    assert f"{shape[1]} x {shape[0]} px with {(*shape, 1)[2]} channel(s)" in message


def test_views_smaller_than_a_patch_are_refused_and_told_about_patch_size(tmp_path: Path) -> None:
    small = good()[:39]
    write_png(tmp_path / "small.png", np.round(255 * small).astype(np.uint8))

    message = refusal(small, small, InputError)
    assert "64 x 39 px" in message
    assert "40 x 40 px" in message
    assert "patch_size" in message
    assert "small.png" in refusal(tmp_path / "small.png", tmp_path / "small.png", InputError)


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ({"max_disparity": 0}, "found 0 to 0"),
        ({"min_disparity": 5, "max_disparity": 5}, "found 5 to 5"),
        ({"min_disparity": 9, "max_disparity": 5}, "found 9 to 5"),
        ({"max_disparity": -5}, "found 0 to -5"),
        ({"max_disparity": 65}, "64 px wide"),
        ({"min_disparity": -65, "max_disparity": 3}, "64 px wide"),
        ({"min_disparity": 64}, "64 px wide"),
    ],
)
def test_a_disparity_range_that_makes_no_sense_is_refused(chosen: dict[str, int], words: str) -> None:
    message = refusal(good(), good(), SettingsError, **chosen)

    assert "disparity range" in message
    assert words in message


def test_a_range_as_wide_as_the_image_is_accepted() -> None:
    left, right = shifted_pair(6)

    result = scotopic.match(left, right, **{**QUICK, "max_disparity": 96})

    assert result.settings.matching.max_disparity == 96


def test_an_unknown_preset_is_refused_with_those_there_are() -> None:
    message = refusal(good(), good(), SettingsError, preset="nice")

    assert "'nice'" in message
    assert "paper, fast" in message


def test_an_unknown_setting_is_refused_by_name_with_those_there_are() -> None:
    message = refusal(good(), good(), SettingsError, max_disparties=64)

    assert "'max_disparties'" in message
    assert "max_disparity" in message


def test_a_setting_out_of_range_is_refused_by_name() -> None:
    assert "'boundary_threshold': found 2" in refusal(good(), good(), SettingsError, boundary_threshold=2)


def test_cuda_is_refused_with_what_to_do_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scotopic.backends.device.why_no_gpu", lambda: "no GPU here")

    message = refusal(good(), good(), DeviceError, device="cuda")

    assert "no GPU here" in message
    assert "use device='cpu'" in message


def test_an_unknown_device_is_refused_with_those_there_are() -> None:
    message = refusal(good(), good(), DeviceError, device="tpu")

    assert "'tpu'" in message
    assert "auto, cpu, cuda" in message


# What the options of the ablations do


def test_a_fixed_p2_is_an_adaptive_one_that_does_not_decay(
    noisy_pair: tuple[np.ndarray, np.ndarray], noisy_match: Match
) -> None:
    fixed = match_noisy(noisy_pair, adaptive_p2=False)

    assert_same_match(fixed, match_noisy(noisy_pair, p2_decay=0.0))
    assert not np.array_equal(fixed.disparity_all, noisy_match.disparity_all)
    np.testing.assert_array_equal(fixed.left_boundaries, noisy_match.left_boundaries)


def test_a_higher_p2_makes_smoother_disparities(noisy_pair: tuple[np.ndarray, np.ndarray]) -> None:
    rough, smooth = (match_noisy(noisy_pair, adaptive_p2=False, p2=p2, p1=p1) for p1, p2 in ((2, 5), (100, 900)))

    variation = [float(np.abs(np.diff(result.disparity_all, axis=1)).mean()) for result in (rough, smooth)]
    assert variation[1] < 0.5 * variation[0]


def test_the_non_symmetric_cost_is_another_and_worse_one(
    noisy_pair: tuple[np.ndarray, np.ndarray], noisy_match: Match
) -> None:
    one_term = match_noisy(noisy_pair, symmetric=False)

    assert not np.array_equal(one_term.disparity_all, noisy_match.disparity_all)
    np.testing.assert_array_equal(one_term.left_colors, noisy_match.left_colors)
    truth = scotopic.render_scene(width=160, height=96).disparity_left
    errors = [np.abs(result.disparity_all - truth).mean() for result in (one_term, noisy_match)]
    assert errors[0] > errors[1]  # the paper's ablation: EPE 2.61 for 0.98


def test_masking_by_the_right_boundaries_only_removes(
    noisy_pair: tuple[np.ndarray, np.ndarray], noisy_match: Match
) -> None:
    masked = match_noisy(noisy_pair, mask_right=True)

    assert masked.mask.sum() < noisy_match.mask.sum()
    assert not (masked.mask & ~noisy_match.mask).any()
    assert set(np.unique(masked.reason[noisy_match.mask])) == {Reason.OK, Reason.NO_STRUCTURE_RIGHT}
    np.testing.assert_array_equal(masked.disparity_all, noisy_match.disparity_all)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("boundary_threshold", (0.0, 0.1, 0.3, 1.0)),
        ("left_right_threshold", (3.0, 1.0, 0.3, 0.0)),
        ("min_confidence", (0.0, 0.2, 0.6, 1.0)),
    ],
)
def test_a_stricter_threshold_keeps_less_and_only_of_what_was_kept(
    noisy_pair: tuple[np.ndarray, np.ndarray], name: str, values: tuple[float, ...]
) -> None:
    masks = [match_noisy(noisy_pair, search_steps=1, refine_steps=0, **{name: value}).mask for value in values]

    for looser, stricter in itertools.pairwise(masks):
        assert stricter.sum() < looser.sum()
        assert not (stricter & ~looser).any()


def test_the_reconstruction_weight_is_part_of_the_cost(
    noisy_pair: tuple[np.ndarray, np.ndarray], noisy_match: Match
) -> None:
    without = match_noisy(noisy_pair, reconstruction_weight=0.0)

    assert not np.array_equal(without.disparity_all, noisy_match.disparity_all)
