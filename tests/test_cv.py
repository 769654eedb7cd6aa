"""The drop-in for OpenCV: a small program written for ``cv2.StereoSGBM`` runs with one line changed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from pictures import draw_blocks
from rooms import room

import scotopic
from scotopic.cv import StereoScotopic
from scotopic.errors import InputError, SettingsError
from scotopic.sensor import to_uint8

#: Coarser than the presets, for speed.
QUICK: dict[str, Any] = {"patch_size": 16, "stride": 4, "refine_steps": 0, "device": "cpu"}
FAST: dict[str, Any] = {"preset": "fast", **QUICK}


def small_program(create: Callable[..., Any], folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What a robot's code does with OpenCV: read, match, drop the invalid, scale to pixels, reproject."""
    left, right = (cv2.imread(str(folder / f"{side}.png")) for side in ("left", "right"))
    matcher = create(minDisparity=0, numDisparities=32, blockSize=5, P1=8 * 3 * 25, P2=32 * 3 * 25, uniquenessRatio=5)
    matcher.setSpeckleWindowSize(50)
    matcher.setSpeckleRange(2)
    raw = matcher.compute(left, right)
    valid = raw >= matcher.getMinDisparity() * 16
    disparity = raw.astype(np.float32) / 16.0
    q = np.array([[1, 0, 0, -128], [0, 1, 0, -80], [0, 0, 0, 256], [0, 0, 1, 0]], np.float64)
    points = cv2.reprojectImageTo3D(disparity, q)
    return raw, valid, points


@pytest.mark.parametrize("create", [cv2.StereoSGBM_create, StereoScotopic.create], ids=["opencv", "scotopic"])
def test_a_program_written_for_opencv_runs_with_either(tmp_path: Path, create: Callable[..., Any]) -> None:
    # What a program sets for OpenCV's own cost is named in a warning.
    expected = pytest.warns(UserWarning, match="blockSize, P1, P2, uniquenessRatio")
    scene = room(256, 160)
    for side, view in (("left", scene.left), ("right", scene.right)):
        cv2.imwrite(str(tmp_path / f"{side}.png"), to_uint8(view)[:, :, ::-1])

    with nullcontext() if create is cv2.StereoSGBM_create else expected:
        raw, valid, points = small_program(create, tmp_path)

    assert raw.dtype == np.int16
    assert raw.shape == (160, 256)
    assert set(np.unique(raw[~valid])) == {-16}  # (minDisparity - 1) * 16
    assert valid.mean() > 0.2
    error = np.abs(raw[valid] / 16 - scene.disparity_left[valid])
    assert np.median(error) < 1
    assert np.mean(error > 5) < 0.1
    # The scene's focal length is its width and its baseline 1: depth is 256 / d.
    near = valid & (np.abs(raw / 16 - scene.disparity_left) < 0.5)
    np.testing.assert_allclose(points[near][:, 2], 256 / (raw[near] / 16), rtol=1e-4)


def blocks(shift: int, channels: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """A pair of 8-bit views in which everything is shifted by so many pixels to the left, or right where negative."""
    wide = to_uint8(draw_blocks(64, 160, channels, seed=3))
    views = wide[:, 32:128], wide[:, 32 + shift : 128 + shift]
    return tuple(np.ascontiguousarray(view if channels == 3 else view[..., 0]) for view in views)  # type: ignore[return-value]


@pytest.mark.parametrize(("shift", "first"), [(6, 0), (-5, -16), (20, 12), (3, -8)])
@pytest.mark.parametrize("channels", [1, 3])
def test_disparities_are_right_wherever_the_search_begins(shift: int, first: int, channels: int) -> None:
    matcher = StereoScotopic.create(first, 16, **FAST)

    disparity = matcher.compute(*blocks(shift, channels))

    valid = disparity != (first - 1) * 16
    assert valid.mean() > 0.2  # a fifth has no partner in view at a shift of 20
    assert np.median(np.abs(disparity[valid] / 16 - shift)) < 0.1
    assert np.mean(np.abs(disparity[valid] / 16 - shift) > 1) < 0.05
    assert disparity[~valid].min(initial=32767) == (first - 1) * 16


@pytest.mark.parametrize("preset", scotopic.PRESETS)
def test_values_are_those_of_the_match_in_sixteenths(preset: str) -> None:
    matcher = StereoScotopic.create(0, 16, preset=preset, **QUICK)
    left, right = blocks(6)

    disparity = matcher.compute(left, right)

    direct = scotopic.match(left[..., ::-1], right[..., ::-1], preset, max_disparity=16, **QUICK)
    expected = np.where(direct.mask, np.rint(16 * np.nan_to_num(direct.disparity)), -16)
    np.testing.assert_array_equal(disparity, expected)
    found = matcher.getMatch()
    assert found is not None
    np.testing.assert_array_equal(found.reason, direct.reason)


def test_blue_comes_first_as_opencv_has_it() -> None:
    left, right = blocks(6)

    matcher = StereoScotopic.create(0, 16, **FAST)
    matcher.compute(left, right)

    found = matcher.getMatch()
    assert found is not None
    np.testing.assert_allclose(found.left_image, left[..., ::-1] / np.float32(255), rtol=1e-6)
    matcher.clear()
    assert matcher.getMatch() is None


def test_a_result_array_is_filled_as_in_opencv() -> None:
    left, right = blocks(6)
    matcher = StereoScotopic.create(0, 16, **FAST)
    mine, other = np.zeros(left.shape[:2], np.int16), np.zeros((3, 3), np.int16)

    assert matcher.compute(left, right, mine) is mine
    np.testing.assert_array_equal(mine, matcher.compute(left, right, other))
    assert not other.any()


@pytest.mark.parametrize("preset", ["fast", "best"])
def test_speckles_are_removed_as_opencv_does(preset: str) -> None:
    left, right = blocks(6)
    given: dict[str, Any] = {"preset": preset, **QUICK}
    plain = StereoScotopic.create(0, 16, **given).compute(left, right)
    filtered = StereoScotopic.create(0, 16, speckleWindowSize=200, speckleRange=1, **given).compute(left, right)

    expected = plain.copy()
    cv2.filterSpeckles(expected, -16, 200, 16)
    np.testing.assert_array_equal(filtered, expected)


def test_a_looser_check_of_the_views_keeps_more() -> None:
    noisy = [
        to_uint8(np.clip(view / 255 + 0.2 * np.random.default_rng(1).standard_normal(view.shape), 0, 1))
        for view in blocks(6)
    ]
    kept = [
        float((StereoScotopic.create(0, 16, disp12MaxDiff=allowed, **FAST).compute(*noisy) != -16).mean())
        for allowed in (-1, 0, 1, 8)
    ]

    assert kept[0] == kept[1] == kept[2]  # the preset's own, 1 px
    assert kept[3] > kept[2]


def test_what_means_nothing_here_is_kept_and_changes_nothing() -> None:
    left, right = blocks(6)
    plain = StereoScotopic.create(0, 16, **FAST)
    with pytest.warns(UserWarning, match="'fast': blockSize, P1, P2, preFilterCap, uniquenessRatio, mode"):
        loaded = StereoScotopic.create(0, 16, 11, 600, 2400, 0, 31, 10, mode=1, **FAST)

    np.testing.assert_array_equal(loaded.compute(left, right), plain.compute(left, right))
    kept = [
        getattr(loaded, f"get{name}")() for name in ("BlockSize", "P1", "P2", "PreFilterCap", "UniquenessRatio", "Mode")
    ]
    assert kept == [11, 600, 2400, 31, 10, 1]


@pytest.mark.parametrize("name", ["BlockSize", "P1", "P2", "PreFilterCap", "UniquenessRatio", "Mode", "Disp12MaxDiff"])
def test_a_parameter_without_effect_is_named_in_one_warning_of_a_matcher(name: str) -> None:
    for _ in range(2):
        matcher = StereoScotopic.create(0, 16)  # with the preset best
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for value in (1, 2):
                getattr(matcher, f"set{name}")(value)
        assert len(caught) == 1
        assert name.lower() in str(caught[0].message).lower()
        assert caught[0].filename == __file__


def test_parameters_that_act_or_keep_their_value_do_not_warn() -> None:
    matcher = StereoScotopic.create(0, 16, 3, 0, 0, preset="fast")
    for name in ("MinDisparity", "NumDisparities", "Disp12MaxDiff", "SpeckleWindowSize", "SpeckleRange"):
        getattr(matcher, f"set{name}")(2)


@pytest.mark.filterwarnings("ignore:Without effect:UserWarning")
def test_every_parameter_of_sgbm_can_be_set_and_read_as_there() -> None:
    ours, theirs = StereoScotopic.create(), cv2.StereoSGBM_create()
    names = [name[3:] for name in dir(theirs) if name.startswith("set")]
    assert len(names) == 11

    for value, name in enumerate(names, start=1):
        value = value % 4 if name == "Mode" else 16 * value
        for matcher in (ours, theirs):
            getattr(matcher, f"set{name}")(value)
        assert getattr(ours, f"get{name}")() == getattr(theirs, f"get{name}")() == value
    missing = {name for name in dir(theirs) if not name.startswith("_")} - set(dir(ours))
    assert missing == {"read", "save", "write"}  # files of OpenCV's parameters


@pytest.mark.filterwarnings("ignore:Without effect:UserWarning")
def test_sgbm_takes_its_parameters_in_this_order() -> None:
    values = (16, 32, 5, 100, 200, 1, 3, 4, 50, 2, 1)
    names = (
        "MinDisparity", "NumDisparities", "BlockSize", "P1", "P2", "Disp12MaxDiff", "PreFilterCap", "UniquenessRatio",
        "SpeckleWindowSize", "SpeckleRange", "Mode",
    )  # fmt: skip

    for matcher in (StereoScotopic.create(*values), cv2.StereoSGBM_create(*values)):
        assert tuple(getattr(matcher, f"get{name}")() for name in names) == values


def test_a_search_wider_than_the_image_is_that_of_the_image() -> None:
    left, right = blocks(6)

    wide, all_of_it = (StereoScotopic.create(0, count, **FAST).compute(left, right) for count in (2000, 96))
    beyond = StereoScotopic.create(200, 64, **FAST).compute(left, right)

    np.testing.assert_array_equal(wide, all_of_it)
    assert set(np.unique(beyond)) == {199 * 16}  # no pixel has a partner there


@pytest.mark.parametrize(
    "wrong",
    [{"numDisparities": 0}, {"minDisparity": 0.5}, {"mode": 4}, {"minDisparity": 5000}, {"speckleRange": True},
     {"preset": "nice"}, {"max_disparity": 64}, {"patchsize": 8}],
    ids=str,
)  # fmt: skip
def test_parameters_that_make_no_sense_are_refused_at_once(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=str(next(iter(wrong.values() if "preset" in wrong else wrong)))):
        StereoScotopic.create(**wrong)


def test_the_match_of_an_earlier_pair_is_not_given_for_the_last() -> None:
    left, right = blocks(6)
    matcher = StereoScotopic.create(0, 16, **FAST)
    for spoil in (lambda: matcher.compute(left, right[:, :-4]), lambda: matcher.setMinDisparity(500)):
        matcher.setMinDisparity(0)
        matcher.compute(left, right)
        assert matcher.getMatch() is not None
        with suppress(InputError):
            spoil()
            matcher.compute(left, right)  # beyond the width of the image

        assert matcher.getMatch() is None


def test_pairs_that_cannot_be_matched_are_refused() -> None:
    matcher = StereoScotopic.create(0, 16)
    left, right = blocks(6)

    with pytest.raises(InputError, match="96 x 64"):
        matcher.compute(left, right[:, 1:])
    with pytest.raises(InputError, match=r"cv2\.imread"):
        matcher.compute("left.png", "right.png")
    with pytest.raises(InputError, match=r"'left.png'.*cv2\.imread"):  # read here, it would have red first
        matcher.compute(Path("left.png"), Path("right.png"))
    with pytest.raises(InputError, match=r"left image is None, as cv2\.imread"):
        matcher.compute(None, right)  # what cv2.imread gives for a missing file
    with pytest.raises(InputError, match="patch"):
        matcher.compute(left[:20], right[:20])


def test_disparities_that_do_not_fit_into_sixteenths_are_refused() -> None:
    image = np.zeros((40, 2200), np.uint8)

    with pytest.raises(SettingsError, match="up to 2099 px do not fit"):
        StereoScotopic.create(minDisparity=1000, numDisparities=1100, preset="fast").compute(image, image)


def test_an_array_for_the_result_that_is_read_only_is_refused_before_the_work() -> None:
    given = np.zeros((64, 96), np.int16)
    given.flags.writeable = False
    matcher = StereoScotopic.create(numDisparities=16, preset="fast")

    with pytest.raises(InputError, match="read-only"):
        matcher.compute(np.zeros((64, 96), np.uint8), np.zeros((64, 96), np.uint8), given)
