"""Matching with fields of junctions that are known already."""

from __future__ import annotations

import numpy as np
import pytest

import scotopic
from scotopic.errors import InputError
from scotopic.stages.junctions.fit import Junctions

QUICK = {"patch_size": 16, "stride": 4, "candidates": 7, "refine_steps": 4, "search_every": 2, "binning": 1}


@pytest.fixture(scope="module")
def pair() -> tuple[np.ndarray, np.ndarray]:
    scene = scotopic.render_scene(width=96, height=48)
    return scotopic.simulate_pair(scene.left, scene.right, photons=8, read_noise=1, seed=0)


@pytest.fixture(scope="module")
def fields(pair: tuple[np.ndarray, np.ndarray]) -> tuple[Junctions, Junctions]:
    settings = scotopic.make_settings("fast", **QUICK).junctions
    return tuple(scotopic.fit_junctions(image, settings, device="cpu") for image in pair)


def test_the_pairs_own_junctions_give_the_same_match_as_fitting_them_again(pair, fields) -> None:
    fitted = scotopic.match(*pair, "fast", "cpu", max_disparity=24, **QUICK)

    given = scotopic.match(*pair, "fast", "cpu", junctions=fields, max_disparity=24)

    np.testing.assert_array_equal(given.disparity_all, fitted.disparity_all)
    np.testing.assert_array_equal(given.reason, fitted.reason)
    np.testing.assert_array_equal(given.confidence, fitted.confidence)
    assert given.settings == fitted.settings


def test_other_matching_settings_apply_to_given_junctions(pair, fields) -> None:
    loose = scotopic.match(*pair, "fast", junctions=fields, max_disparity=24)
    strict = scotopic.match(*pair, "fast", junctions=fields, max_disparity=24, boundary_threshold=0.3)

    np.testing.assert_array_equal(strict.disparity_all, loose.disparity_all)
    assert strict.mask.sum() < loose.mask.sum()
    assert not (strict.mask & ~loose.mask).any()


def test_junctions_of_another_size_are_refused_with_both_sizes(pair, fields) -> None:
    with pytest.raises(InputError, match=r"96 x 48.*96 x 32"):
        scotopic.match(pair[0][:32], pair[1][:32], "fast", junctions=fields, max_disparity=24)


def test_junctions_fitted_differently_are_refused(pair, fields) -> None:
    other = scotopic.fit_junctions(pair[1], scotopic.make_settings("fast", **{**QUICK, "candidates": 5}).junctions)

    with pytest.raises(InputError, match="different settings"):
        scotopic.match(*pair, "fast", junctions=(fields[0], other), max_disparity=24)
