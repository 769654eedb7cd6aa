"""One call from a pair to a match: what holds for any input, what is recovered, and the same for any way to ask."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agreement import assert_maps_agree
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_calls import threads
from match_pairs import QUICK, assert_same_match, match_noisy, shifted_pair
from pictures import draw_blocks
from rooms import room

import scotopic
from scotopic import Reason
from scotopic.backends import cpu_backend
from scotopic.errors import InputError, PairWarning
from scotopic.inputs import shows_nothing
from scotopic.io import write_png
from scotopic.pipelines import stage_names
from scotopic.result import ARRAYS
from scotopic.stages.consistency import average_over_patches, check_views
from scotopic.stages.patch_costs import build_patch_costs, make_view, scale_costs
from scotopic.stages.sgm import jump_penalties


@pytest.fixture(scope="module")
def noisy_pair() -> tuple[np.ndarray, np.ndarray]:
    """A scene of several depths at a photon level of 2."""
    scene = room(160, 96)
    return scotopic.simulate_pair(scene.left, scene.right, photons=2, read_noise=2, seed=0)


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


@pytest.mark.filterwarnings("ignore::scotopic.errors.DarkImageWarning")
@pytest.mark.filterwarnings("ignore::scotopic.errors.PairWarning")  # equal images are among the pairs
@given(pair=pairs(), chosen=overrides())
@settings(max_examples=100, deadline=None)
def test_any_pair_gives_a_whole_match_and_is_left_as_it_was(
    pair: tuple[np.ndarray, np.ndarray], chosen: dict[str, Any]
) -> None:
    before = [view.copy() for view in pair]

    result = scotopic.match(*pair, "paper", "cpu", **chosen)

    shape, channels = pair[0].shape[:2], 3 if pair[0].ndim == 3 and pair[0].shape[2] == 3 else 1
    for name in ARRAYS:
        expected = (*shape, channels) if name.endswith(("image", "colors")) else shape
        assert getattr(result, name).shape == expected, name
        assert getattr(result, name).dtype == (np.uint8 if name == "reason" else np.float32), name
    np.testing.assert_array_equal(np.isnan(result.disparity), result.reason != Reason.OK)
    np.testing.assert_array_equal(result.disparity[result.mask], result.disparity_all[result.mask])
    assert np.isin(result.reason, list(Reason)).all()
    empty = any(shows_nothing(view) for view in (result.left_image, result.right_image))
    for disparities in (result.disparity_all, result.right_disparity):
        known = disparities[~np.isnan(disparities)]
        assert known.size == (0 if empty else disparities.size)
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


@pytest.mark.parametrize("preset", ["best", "fast"])
@pytest.mark.parametrize(("photons", "size"), [(1, (128, 192)), (20, (128, 192)), (60, (64, 96))])
def test_a_few_single_photons_show_nothing(preset: str, photons: int, size: tuple[int, int]) -> None:
    random = np.random.default_rng(photons)
    views = [np.zeros(size, np.uint16) for _ in range(2)]
    for view in views:
        view.flat[random.choice(view.size, photons, replace=False)] = 1

    result = scotopic.match(*views, preset, max_disparity=32, check=False)

    assert (result.reason == Reason.NO_STRUCTURE).all()
    assert (result.confidence == 0).all()
    for fuse in (None, 4):
        (streamed,) = scotopic.Matcher(preset, max_disparity=32, check=False, fuse=fuse).run([views])
        assert (streamed.reason == Reason.NO_STRUCTURE).all()
    with pytest.raises(InputError, match="Frame 0 shows nothing"):
        scotopic.match_burst([views[0]], [views[1]], preset, max_disparity=32)


@pytest.mark.parametrize("preset", ["best", "fast"])
def test_values_too_small_for_float32_to_tell_apart_show_nothing(preset: str) -> None:
    result = scotopic.match(*(view * np.float32(1e-40) for view in shifted_pair(6)), preset, max_disparity=16)

    assert (result.reason == Reason.NO_STRUCTURE).all()


def test_a_small_spot_in_the_dark_is_no_photon() -> None:
    left = np.zeros((128, 192), np.float32)
    left[60:64, 100:104] = 1

    result = scotopic.match(left, np.roll(left, -6, axis=1), max_disparity=32)

    np.testing.assert_allclose(result.disparity_all[60:64, 100:104], 6, atol=0.5)


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


@pytest.mark.parametrize("preset", ["fast", "best"])
@pytest.mark.parametrize("photons", [2, 20])
def test_a_search_range_that_ends_before_the_scene_is_doubted_and_one_that_does_not_is_not(
    preset: str, photons: float
) -> None:
    scene = scotopic.render_scene(320, 208, seed=1)  # up to 31 px, a third of it beyond 16
    pair = scotopic.simulate_pair(scene.left, scene.right, photons, 2, seed=1)
    short = {"min_disparity": -16, "max_disparity": 16}  # beyond a range of less than 32 px best looks by itself

    with pytest.warns(PairWarning, match=r"% of the disparities are within 4 px of the end of the search range, 16"):
        scotopic.match(*pair, preset, **short)
    scotopic.match(*pair, preset, max_disparity=40)  # a warning would be an error here
    scotopic.match(*pair, preset, **short, check=False)


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
    backend = cpu_backend()
    views = [make_view(backend, image, scotopic.fit_junctions(image, fit, device="cpu")) for image in noisy_pair]
    pixels = []
    for view, other, is_left in ((*views, True), (*views[::-1], False)):
        costs = scale_costs(backend, build_patch_costs(backend, view, other, matching, is_left=is_left), matching)
        totals = backend.aggregate(costs, jump_penalties(backend, view.junctions, matching), matching.p1)
        best, margin = backend.select(totals)
        pixels.append([average_over_patches(backend, values, (96, 160), fit) for values in (best, margin)])
    (left, left_margin), (right, _) = pixels
    boundaries = [view.junctions.boundary_map for view in views]
    checked = check_views(backend, left, right, left_margin, *boundaries, matching)

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

    for name in ARRAYS:
        assert len({getattr(run, name).tobytes() for run in runs}) == 1, name


def test_auto_is_the_cpu_where_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scotopic.backends.device.why_no_gpu", lambda: "no GPU")
    pair = shifted_pair(6)

    assert_same_match(scotopic.match(*pair, **{**QUICK, "device": "auto"}), scotopic.match(*pair, **QUICK))


@pytest.mark.parametrize("chosen", [QUICK, {**QUICK, "preset": "best"}], ids=["paper", "best"])
def test_the_settings_of_a_result_give_the_same_result_again(chosen: dict[str, Any]) -> None:
    pair = shifted_pair(6)
    first = scotopic.match(*pair, **chosen)

    again = scotopic.match(*pair, first.settings, "cpu")

    assert_same_match(again, first)
    assert again.settings == first.settings
    assert scotopic.match(*pair, first.settings, "cpu", max_disparity=8).settings.matching.max_disparity == 8


@pytest.mark.parametrize("is_tensor", [False, True], ids=["numpy", "torch"])
def test_channels_first_and_batches_give_what_single_images_give(is_tensor: bool) -> None:
    pairs = [shifted_pair(6), shifted_pair(3)]
    expected = [scotopic.match(*pair, **QUICK) for pair in pairs]
    lefts, rights = (np.stack([np.moveaxis(pair[side], -1, 0) for pair in pairs]) for side in (0, 1))
    if is_tensor:
        torch = pytest.importorskip("torch")
        lefts, rights = torch.as_tensor(lefts), torch.as_tensor(rights)

    batch = scotopic.match(lefts, rights, layout="BCHW", **QUICK)
    single = scotopic.match(lefts[1], rights[1], layout="CHW", **QUICK)
    stream = list(scotopic.Matcher(**QUICK).run([(lefts, rights)], layout="BCHW"))

    for found in (batch, stream):
        assert len(found) == 2
        for one, other in zip(found, expected, strict=True):
            assert_same_match(one, other)
    assert_same_match(single, expected[1])


def test_a_layout_that_does_not_fit_is_refused() -> None:
    left, right = shifted_pair(6)

    with pytest.raises(InputError, match="C x H x W"):
        scotopic.match(left, right, layout="CHW")
    with pytest.raises(InputError, match="'NHWC'"):
        scotopic.match(left, right, layout="NHWC")  # type: ignore[call-overload]
    one = np.moveaxis(left, -1, 0)[None]
    with pytest.raises(InputError, match="1 left and 2 right"):
        scotopic.match(one, np.concatenate([one, one]), layout="BCHW")


def test_the_result_names_the_settings_that_were_used() -> None:
    result = scotopic.match(*shifted_pair(6), "fast", patch_size=16, stride=8, min_confidence=0.2)

    used = result.settings
    assert (used.preset, used.junctions.patch_size, used.junctions.stride) == ("fast", 16, 8)
    assert used.matching.min_confidence == 0.2
    assert used.matching.max_disparity == 96  # 128 would be wider than the image


@pytest.mark.parametrize("chosen", [QUICK, {**QUICK, "preset": "best"}], ids=["paper", "best"])
def test_each_stage_is_reported_from_its_beginning_to_its_end_and_timed(chosen: dict[str, Any]) -> None:
    heard: list[tuple[str, float]] = []

    result = scotopic.match(*shifted_pair(6), progress=lambda *event: heard.append(event), **chosen)

    stages = [(name, [share for _, share in events]) for name, events in itertools.groupby(heard, lambda e: e[0])]
    assert tuple(name for name, _ in stages) == stage_names(result.settings)
    for _, shares in stages:
        assert shares[0] == 0
        assert shares[-1] == 1
        assert shares == sorted(shares)
    assert list(result.timings) == [name for name, _ in stages]
    assert all(seconds >= 0 for seconds in result.timings.values())
