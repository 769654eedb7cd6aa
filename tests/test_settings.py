"""Settings: the paper's constants, presets as values, and refusals that name the setting."""

import dataclasses
import json
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scotopic
from scotopic.cv import StereoScotopic
from scotopic.errors import SettingsError
from scotopic.settings import (
    PRESETS,
    JunctionSettings,
    MatchingSettings,
    PatchMatchingSettings,
    Settings,
    describe_settings,
    make_settings,
    part_of_settings,
    public_settings,
)

#: Settings in px that time and memory grow with.
LENGTHS = (
    "finest_scale", "band_window", "junction_window", "junction_highpass", "cross_window", "cross_highpass",
    "color_window", "fine_window", "vote_gap", "vote_reach", "surface_sigma", "plane_sigma", "subpixel_reach",
    "confidence_blur", "confidence_reach",
)  # fmt: skip


def test_the_paper_preset_is_the_method_to_the_letter() -> None:
    paper = make_settings("paper")

    assert paper.junctions == JunctionSettings(
        patch_size=40, stride=8, search_steps=30, refine_steps=1000, search_every=50, candidates=31, vertex_range=3.0,
        boundary_weight=0.5, color_weight=0.1, angle_rate=0.003, vertex_rate=0.03, binning=1,
    )  # fmt: skip
    assert paper.matching == PatchMatchingSettings(
        min_disparity=0, reconstruction_weight=2.0, symmetric=True, p1=20, p2=200, p2_min=50, p2_decay=2.0,
        adaptive_p2=True, volume_range=1024, boundary_threshold=0.1, left_right_threshold=1.0, mask_right=False,
        min_confidence=0.0,
    )  # fmt: skip
    assert paper.matching.for_width(593).max_disparity == 128


def test_the_fast_preset_is_the_same_method_with_fewer_steps() -> None:
    paper, fast = make_settings("paper"), make_settings("fast")

    assert fast.matching == paper.matching
    assert (fast.junctions.patch_size, fast.junctions.stride) == (40, 8)
    assert fast.junctions.refine_steps < paper.junctions.refine_steps / 10


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_named_and_cannot_be_changed(name: str) -> None:
    settings = make_settings(name)

    assert settings.preset == name
    assert settings == PRESETS[name]
    for part, field in ((settings, "preset"), (settings.junctions, "stride"), (settings.matching, "p1")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(part, field, 1)


def test_overrides_go_where_they_belong_and_leave_the_preset_alone() -> None:
    changed = make_settings("fast", stride=4, p1=7, mask_right=True)

    assert (changed.junctions.stride, changed.matching.p1) == (4, 7)
    assert isinstance(changed.matching, PatchMatchingSettings)
    assert changed.matching.mask_right
    assert dataclasses.replace(changed.junctions, stride=8) == PRESETS["fast"].junctions
    assert (PRESETS["fast"].junctions.stride, PRESETS["fast"].matching.p1) == (8, 20)


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("stride", "4", 4),
        ("stride", 4.0, 4),
        ("min_disparity", "-12", -12),
        ("max_disparity", None, None),
        ("max_disparity", "64", 64),
        ("vertex_range", "1.5", 1.5),
        ("vertex_range", 2, 2.0),
        ("p2_decay", "1e-1", 0.1),
        ("symmetric", "false", False),
        ("symmetric", "Yes", True),
        ("mask_right", 1, True),
        ("mask_right", "0", False),
    ],
)
def test_values_may_come_as_words_from_the_command_line(name: str, given: Any, value: Any) -> None:
    settings = make_settings("paper", **{name: given})

    found = getattr(settings.junctions if hasattr(settings.junctions, name) else settings.matching, name)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("stride", "wide", "a whole number"),
        ("stride", 2.5, "a whole number"),
        ("stride", None, "a value of type int"),
        ("stride", True, "a whole number"),
        ("stride", float("nan"), "a whole number"),
        ("stride", float("inf"), "a whole number"),
        ("stride", [4], "a whole number"),
        ("stride", b"3", "a whole number"),
        ("stride", np.bool_(True), "a whole number"),
        ("vertex_range", bytearray(b"3"), "a number"),
        ("vertex_range", np.bytes_(b"3"), "a number"),
        ("vertex_range", "far", "a number"),
        ("vertex_range", float("nan"), "a number"),
        ("vertex_range", float("inf"), "between 0 and 100"),
        ("vertex_range", -0.5, "between 0 and"),
        ("symmetric", "perhaps", "true or false"),
        ("symmetric", 2, "true or false"),
        ("symmetric", None, "a value of type bool"),
        ("stride", 0, "between 1 and"),
        ("stride", 41, "at most patch_size, 40"),
        ("patch_size", 1, "between 2 and"),
        ("candidates", 0, "between 1 and"),
        ("search_every", 0, "between 1 and"),
        ("tile", 0, "between 1 and"),
        ("search_steps", -1, "between 0 and"),
        ("refine_steps", -1, "between 0 and"),
        ("tile_margin", -1, "between 0 and"),
        ("binning", 0, "between 1 and"),
        ("binning", 3, "a divisor of patch_size, 40, and of stride, 8"),
        ("binning", 16, "a divisor"),
        ("boundary_weight", -1, "between 0 and"),
        ("color_weight", -1, "between 0 and"),
        ("angle_rate", -1, "between 0 and"),
        ("vertex_rate", -1, "between 0 and"),
        ("p1", -1, "between 0 and 1000000"),
        ("p2", 1_000_001, "between 0 and 1000000"),
        ("p2_min", -5, "between 0 and 1000000"),
        ("volume_range", 0, "between 1 and 32767"),
        ("volume_range", 32768, "between 1 and 32767"),
        ("reconstruction_weight", -2, "between 0 and"),
        ("p2_decay", -2, "between 0 and"),
        ("left_right_threshold", -1, "between 0 and"),
        ("boundary_threshold", 1.5, "between 0 and 1"),
        ("min_confidence", -0.1, "between 0 and 1"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_by_name(name: str, given: Any, expected: str) -> None:
    with pytest.raises(SettingsError) as caught:
        make_settings("paper", **{name: given})

    message = str(caught.value)
    assert f"The setting {name} must be" in message
    assert f"not {given!r}." in message
    assert expected in message


def test_an_unknown_preset_and_an_unknown_setting_are_refused_with_those_there_are() -> None:
    with pytest.raises(SettingsError, match=r"no preset 'slow'. Choose one of paper, fast, best"):
        make_settings("slow")
    with pytest.raises(SettingsError, match=r"no setting 'strides'. Did you mean 'stride'\? .*max_disparity"):
        make_settings("paper", strides=4)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("max_disparty", "'max_disparity'"),
        ("max-disparity", "'max_disparity'"),
        ("maxDisparity", "'max_disparity'"),
        ("P1", "'p1'"),  # as the paper and OpenCV write it
        ("Stride", "'stride'"),
        ("disparity", "'min_disparity' or 'max_disparity'"),  # as near to one as to the other
        ("bondary_threshold", "'boundary_threshold' of paper and fast"),  # best has boundary_weight, which is less near
    ],
)
def test_a_mistyped_setting_is_answered_with_the_one_that_was_meant(given: str, meant: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(f"There is no setting {given!r}. Did you mean {meant}?")):
        make_settings("best", **{given: 1})


def test_settings_of_a_file_that_has_an_unknown_one_are_refused_in_the_same_words() -> None:
    values = make_settings("best").as_dict()
    values["matching"]["max_disparty"] = 1

    with pytest.raises(SettingsError, match=r"no setting 'max_disparty'\. Did you mean 'max_disparity'\?"):
        Settings.from_dict(values)


def test_nothing_is_suggested_where_nothing_is_near() -> None:
    with pytest.raises(SettingsError) as caught:
        make_settings("best", exposure=1)

    assert "Did you mean" not in str(caught.value)


def test_a_mistyped_preset_is_answered_with_the_one_that_was_meant() -> None:
    with pytest.raises(SettingsError, match=r"no preset 'bset'. Did you mean 'best'\?"):
        make_settings("bset")


@pytest.mark.parametrize(
    ("preset", "name", "owners"),
    [("best", "mask_right", "paper and fast"), ("best", "p2_min", "paper and fast"), ("fast", "cross_weight", "best")],
)
def test_a_setting_that_the_pipeline_does_not_use_is_refused_by_name(preset: str, name: str, owners: str) -> None:
    with pytest.raises(SettingsError, match=f"preset '{preset}' does not use the setting '{name}'.*{owners}"):
        make_settings(preset, **{name: 1})


@pytest.mark.parametrize("preset", PRESETS)
def test_about_ten_settings_are_for_users(preset: str) -> None:
    shown = public_settings(PRESETS[preset])

    assert 8 <= len(shown) <= 12
    assert {"min_disparity", "max_disparity", "p1", "p2", "min_confidence"} <= set(shown)
    assert set(shown) <= set(part_of_settings(PRESETS[preset]))


def test_settings_can_be_the_start_of_others() -> None:
    first = make_settings("fast", max_disparity=64)

    second = make_settings(first, p1=7)

    assert (second.matching.max_disparity, second.matching.p1) == (64, 7)
    assert make_settings(second) == second


def test_old_names_still_work_and_say_the_new_one() -> None:
    with pytest.warns(DeprecationWarning, match="color_weight"):
        settings = make_settings("paper", colour_weight=0.2)

    assert settings.junctions.color_weight == 0.2


@pytest.mark.parametrize(("first", "last"), [(0, 0), (7, 7), (8, 3), (0, -4), (-3, -9)])
def test_an_empty_or_reversed_range_is_refused(first: int, last: int) -> None:
    with pytest.raises(SettingsError, match=rf"max_disparity \({last}\) must be above min_disparity \({first}\)"):
        make_settings("paper", min_disparity=first, max_disparity=last)


@pytest.mark.parametrize(
    ("first", "last", "width", "resolved"),
    [
        (0, None, 593, 128),
        (0, None, 100, 100),
        (-20, None, 100, 100),
        (0, 100, 100, 100),
        (-100, 1, 100, 1),
        (130, None, 200, 131),
    ],
)
def test_the_range_is_fixed_for_a_width(first: int, last: int | None, width: int, resolved: int) -> None:
    settings = MatchingSettings(min_disparity=first, max_disparity=last)

    fixed = settings.for_width(width)

    assert fixed.max_disparity == resolved
    assert dataclasses.replace(fixed, max_disparity=last) == settings


@pytest.mark.parametrize(("first", "last"), [(0, 101), (-101, 0), (-101, None), (100, None)])
def test_a_range_wider_than_the_image_is_refused(first: int, last: int | None) -> None:
    with pytest.raises(SettingsError, match=r"images 100 px wide.*Lower max_disparity"):
        MatchingSettings(min_disparity=first, max_disparity=last).for_width(100)


def test_settings_survive_a_dictionary_and_json() -> None:
    settings = make_settings("fast", min_disparity=-4, vertex_range=2.5, symmetric=False)

    assert Settings.from_dict(json.loads(json.dumps(settings.as_dict()))) == settings


PAIR = [np.zeros((32, 48), np.float32)] * 2
TAKERS: dict[str, Callable[..., object]] = {
    "match": lambda **given: scotopic.match(*PAIR, **given),
    "Matcher": scotopic.Matcher,
    "match_burst": lambda **given: scotopic.match_burst(PAIR, PAIR, **given),
    "StereoScotopic.create": StereoScotopic.create,
}


@pytest.mark.parametrize(
    ("function", "given", "owner"),
    [
        ("match_burst", "fuse", "Matcher"),
        ("match_burst", "shape", "Matcher"),
        ("match_burst", "check", "match and Matcher"),
        ("match_burst", "layout", r"match and Matcher\.run"),
        ("match", "fuse", "Matcher"),
        ("match", "reference", "match_burst"),
        ("Matcher", "junctions", "match"),
        ("StereoScotopic.create", "calibration", "match_burst and Matcher"),
    ],
)
def test_a_parameter_of_another_function_is_refused_with_its_name(function: str, given: str, owner: str) -> None:
    with pytest.raises(SettingsError, match=f"{function} does not take {given!r}, a parameter of {owner}. Leave"):
        TAKERS[function](**{given: 1})


@pytest.mark.parametrize(
    ("function", "given", "meant"),
    [
        ("match", "normalise", "normalize"),
        ("Matcher", "calib", "calibration"),
        ("match_burst", "referense", "reference"),
        ("StereoScotopic.create", "num_disparities", "numDisparities"),
    ],
)
def test_a_mistyped_parameter_is_answered_with_the_one_that_was_meant(function: str, given: str, meant: str) -> None:
    with pytest.raises(SettingsError, match=rf"no setting {given!r}\. Did you mean {meant!r}\?"):
        TAKERS[function](**{given: 1})


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize(
    "value", [math.inf, -math.inf, math.nan, 1e300, -1e300, 10**30, np.array([1, 2]), [1], b"x", 1j]
)
def test_no_setting_takes_what_is_no_number_of_use(preset: str, value: object) -> None:
    for each in describe_settings(PRESETS[preset]):
        with pytest.raises(SettingsError, match=f"The setting {each.name} must be"):
            make_settings(preset, **{each.name: value})


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("finest_scale", 0.001, "between 0.25 and 1000"),
        ("band_ratio", 1.0, "between 1.1 and 16"),
        ("group_rounds", 1000, "between 0 and 16"),
        ("refine_steps", 10**7, "between 0 and 1000000"),
        ("plane_rounds", 1000, "between 0 and 100"),
        ("vertex_rate", 1e6, "between 0 and 10"),
        *((name, 1e9, "and 1000") for name in LENGTHS),
    ],
)
def test_what_would_not_end_or_fill_the_memory_is_refused(name: str, given: float, expected: str) -> None:
    with pytest.raises(SettingsError, match=f"The setting {name} must be between .* and .*, not") as caught:
        make_settings("best", **{name: given})

    assert expected in str(caught.value)


def test_bands_may_be_no_coarser_than_other_windows() -> None:
    make_settings("best", finest_scale=31.25, scales=4, band_ratio=4.0)

    with pytest.raises(
        SettingsError, match=r"must be at most 31\.25, since band_ratio 2\^\(scales - 1\) = 32 .* not 32"
    ):
        make_settings("best", finest_scale=32.0, scales=4, band_ratio=4.0)


@pytest.mark.parametrize("name", LENGTHS)
@pytest.mark.parametrize("is_least", [True, False])
def test_any_length_within_its_limits_gives_an_answer(name: str, is_least: bool) -> None:
    part = part_of_settings(PRESETS["best"])[name]
    (limits,) = (each.metadata for each in dataclasses.fields(getattr(PRESETS["best"], part)) if each.name == name)
    values = {name: limits["low" if is_least else "high"]}
    if name == "finest_scale" and not is_least:
        values |= {"finest_scale": 500.0, "scales": 1, "band_ratio": 2.0}
    if name == "vote_reach" and is_least:
        values |= {"vote_gap": 0.0}
    if name == "vote_gap" and not is_least:
        values |= {"vote_reach": 1000.0}
    pair = np.random.default_rng(0).random((2, 40, 48)).astype(np.float32)

    found = scotopic.match(*pair, "best", "cpu", max_disparity=8, check=False, fine_snr=0.0, **values)

    assert np.isfinite(found.disparity_all).all()
    assert np.isfinite(found.confidence).all()
