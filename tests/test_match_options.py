"""What the options of the paper's ablations do."""

import itertools

import numpy as np
import pytest
from match_pairs import assert_same_match, match_noisy
from rooms import room

import scotopic
from scotopic import Match, Reason


@pytest.fixture(scope="module")
def noisy_pair() -> tuple[np.ndarray, np.ndarray]:
    """A scene of several depths at a photon level of 2."""
    scene = room(160, 96)
    return scotopic.simulate_pair(scene.left, scene.right, photons=2, read_noise=2, seed=0)


@pytest.fixture(scope="module")
def noisy_match(noisy_pair: tuple[np.ndarray, np.ndarray]) -> Match:
    return match_noisy(noisy_pair)


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
    truth = room(160, 96).disparity_left
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
