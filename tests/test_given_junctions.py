"""Matching with fields of junctions that are known already."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from rooms import room

import scotopic
from scotopic.errors import InputError, SettingsError
from scotopic.stages.junctions.fit import Junctions

QUICK = {"patch_size": 16, "stride": 4, "candidates": 7, "refine_steps": 4, "search_every": 2, "binning": 1}
# One fit, to the images as they are: the same that is given.
ALIKE: dict[str, dict[str, Any]] = {"fast": {}, "best": {"full_patch_noise": 0, "stabilize_above": 1e9}}

Pair = tuple[np.ndarray, np.ndarray]
Fields = tuple[Junctions, Junctions]
on_each_pipeline = pytest.mark.parametrize("preset", ALIKE)


@pytest.fixture(scope="module")
def pair() -> Pair:
    scene = room(96, 48)
    return scotopic.simulate_pair(scene.left, scene.right, photons=8, read_noise=1, seed=0)


@pytest.fixture(scope="module")
def fields(pair: Pair) -> Fields:
    settings = scotopic.make_settings("fast", **QUICK).junctions
    left, right = (scotopic.fit_junctions(image, settings, device="cpu") for image in pair)
    return left, right


@on_each_pipeline
def test_the_pairs_own_junctions_give_the_same_match_as_fitting_them_again(
    pair: Pair, fields: Fields, preset: str
) -> None:
    options = {"max_disparity": 24, **ALIKE[preset]}

    fitted = scotopic.match(*pair, preset, "cpu", **options, **QUICK)
    given = scotopic.match(*pair, preset, "cpu", junctions=fields, **options)

    for name in ("disparity_all", "reason", "confidence", "left_boundaries", "right_colors"):
        np.testing.assert_array_equal(getattr(given, name), getattr(fitted, name), err_msg=name)
    assert given.settings == fitted.settings


def test_other_matching_settings_apply_to_given_junctions(pair: Pair, fields: Fields) -> None:
    loose = scotopic.match(*pair, "fast", junctions=fields, max_disparity=24)
    strict = scotopic.match(*pair, "fast", junctions=fields, max_disparity=24, boundary_threshold=0.3)

    np.testing.assert_array_equal(strict.disparity_all, loose.disparity_all)
    assert strict.mask.sum() < loose.mask.sum()
    assert not (strict.mask & ~loose.mask).any()


def test_given_maps_are_evidence_of_their_own(pair: Pair, fields: Fields) -> None:
    flat = tuple(replace(field, color_map=np.full_like(field.color_map, 0.5)) for field in fields)

    seen, unseen = (scotopic.match(*pair, "best", "cpu", junctions=each, max_disparity=24) for each in (fields, flat))

    assert (seen.disparity_all != unseen.disparity_all).mean() > 0.5
    # What is given comes back as it was: stabilized for the work, then restored.
    np.testing.assert_allclose(seen.left_colors, fields[0].color_map, atol=1e-5)
    np.testing.assert_array_equal(seen.left_boundaries, fields[0].boundary_map)


@on_each_pipeline
def test_junctions_of_another_size_are_refused_with_both_sizes(pair: Pair, fields: Fields, preset: str) -> None:
    with pytest.raises(InputError, match=r"96 x 48.*96 x 32"):
        scotopic.match(pair[0][:32], pair[1][:32], preset, junctions=fields, max_disparity=24)


@on_each_pipeline
def test_junctions_of_a_gray_image_are_refused_with_a_color_pair(pair: Pair, fields: Fields, preset: str) -> None:
    gray = tuple(scotopic.fit_junctions(image.mean(axis=2), fields[0].settings, device="cpu") for image in pair)

    with pytest.raises(InputError, match=r"'color_map' of the junctions has shape \(48, 96, 1\).*\(48, 96, 3\)"):
        scotopic.match(*pair, preset, "cpu", junctions=gray, max_disparity=24)


@on_each_pipeline
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"parameters": lambda values: values[:2, :2]}, r"'parameters' .*\(9, 21, 5\)"),
        ({"parameters": lambda values: values * np.nan}, "'parameters' .*finite"),
        ({"boundary_map": lambda values: values * 255}, "'boundary_map' .*from 0 to 1"),
        ({"boundary_map": lambda values: (values > 0.5).astype(np.uint8)}, "'boundary_map' .*uint8.*floats"),
        ({"color_map": lambda values: values * np.inf}, "'color_map' .*finite"),
        ({"settings": lambda settings: replace(settings, patch_size=24)}, r"'parameters' .*\(9, 21, 5\).*\(7, 19, 5\)"),
    ],
)
def test_junctions_that_cannot_be_are_refused(
    pair: Pair, fields: Fields, preset: str, change: dict[str, Any], words: str
) -> None:
    changed = tuple(
        replace(field, **{name: to(getattr(field, name)) for name, to in change.items()}) for field in fields
    )

    with pytest.raises(InputError, match=words):
        scotopic.match(*pair, preset, "cpu", junctions=changed, max_disparity=24)


@on_each_pipeline
def test_junctions_fitted_differently_are_refused(pair: Pair, fields: Fields, preset: str) -> None:
    other = replace(fields[1], settings=replace(fields[1].settings, candidates=5))

    with pytest.raises(InputError, match="different settings"):
        scotopic.match(*pair, preset, junctions=(fields[0], other), max_disparity=24)


def test_what_is_no_pair_of_fields_is_refused(pair: Pair, fields: Fields) -> None:
    wrong: list[Any] = [fields[0], fields[:1], pair]
    for junctions in wrong:
        with pytest.raises(InputError, match=r"\(left, right\)"):
            scotopic.match(*pair, "fast", junctions=junctions, max_disparity=24)


def test_settings_of_a_fit_that_are_none_are_refused(pair: Pair) -> None:
    wrong: list[Any] = [QUICK, "fast", scotopic.make_settings("fast")]
    for settings in wrong:
        with pytest.raises(SettingsError, match="JunctionSettings"):
            scotopic.fit_junctions(pair[0], settings)
