"""The window metric, held to a loop that is slow and plain, and to cases worked out by hand."""

import math

import numpy as np
import pytest

from scotopic.errors import InputError, SettingsError
from scotopic.evaluation import score, window_error

NAN = np.nan


def brute_force_error(prediction: np.ndarray, truth: np.ndarray, window: int) -> np.ndarray:
    """METHOD.md section 7, word for word: edges replicated, smallest difference over valid truth."""
    half = window // 2
    padded = np.pad(truth, half, mode="edge")
    error = np.full(prediction.shape, NAN)
    for y, x in np.ndindex(prediction.shape):
        candidates = np.abs(prediction[y, x] - padded[y : y + window, x : x + window])
        if np.isfinite(candidates).any():
            error[y, x] = candidates[np.isfinite(candidates)].min()
    return error


@pytest.mark.parametrize("window", [1, 3, 7, 19])
@pytest.mark.parametrize("shape", [(12, 17), (1, 9), (25, 3), (1, 1)])
def test_error_equals_the_loop_over_replicated_windows(shape: tuple[int, int], window: int) -> None:
    random = np.random.default_rng(window)
    prediction = random.uniform(0, 40, shape)
    truth = random.uniform(0, 40, shape)
    prediction[random.random(shape) < 0.3] = NAN
    truth[random.random(shape) < 0.6] = NAN

    np.testing.assert_array_equal(window_error(prediction, truth, window), brute_force_error(prediction, truth, window))


def test_window_of_one_is_the_pointwise_error() -> None:
    prediction = np.array([[5.0, 2.0, NAN, 7.0]])
    truth = np.array([[4.0, 4.5, 1.0, NAN]])

    np.testing.assert_array_equal(window_error(prediction, truth, 1), [[1.0, 2.5, NAN, NAN]])


def test_a_right_value_is_forgiven_inside_the_window_and_not_beyond_it() -> None:
    truth = np.full((5, 9), 10.0)
    truth[2, 8] = 30.0
    prediction = np.full((5, 9), NAN)
    prediction[2, 5] = prediction[2, 6] = 30.0  # three and two columns from where it is true

    error = window_error(prediction, truth, 5)

    assert error[2, 5] == 20.0
    assert error[2, 6] == 0.0


def test_infinite_truth_counts_as_unknown() -> None:
    np.testing.assert_array_equal(window_error(np.array([[3.0, 3.0]]), np.array([[np.inf, 5.0]]), 1), [[NAN, 2.0]])


def test_score_gives_mean_shares_and_coverage_of_a_hand_made_map() -> None:
    prediction = np.array([[10.0, 10.0, 10.0, 10.0, 10.0], [NAN, NAN, NAN, NAN, NAN]])
    truth = np.array([[10.0, 11.0, 14.0, 16.0, NAN], [0.0, 0.0, 0.0, 0.0, 0.0]])

    result = score(prediction, truth, window=1)

    assert result.epe == (0 + 1 + 4 + 6) / 4
    # Above K, not from K on: the error of exactly 1 px is not bad at K = 1.
    assert result.bad == {1: 50.0, 3: 50.0, 5: 25.0}
    assert result.coverage == 50.0  # five of ten pixels are predicted, also the one without truth
    assert result.pixels == 4
    assert result.window == 1


def test_thresholds_are_those_asked_for() -> None:
    result = score(np.array([[1.0, 2.0]]), np.array([[1.4, 2.8]]), window=1, thresholds=(0.5, 2))

    assert result.bad == {0.5: 50.0, 2: 0.0}


def test_an_empty_prediction_has_no_error_and_no_coverage() -> None:
    result = score(np.full((4, 4), NAN), np.ones((4, 4)))

    assert math.isnan(result.epe)
    assert all(math.isnan(share) for share in result.bad.values())
    assert (result.coverage, result.pixels) == (0.0, 0)


def test_a_prediction_without_any_truth_has_coverage_but_no_error() -> None:
    result = score(np.ones((4, 4)), np.full((4, 4), NAN))

    assert math.isnan(result.epe)
    assert (result.coverage, result.pixels) == (100.0, 0)


def test_the_maps_of_the_caller_stay_as_they_are() -> None:
    prediction, truth = np.array([[np.inf, 1.0]]), np.array([[np.inf, 2.0]])

    score(prediction, truth, window=1)

    np.testing.assert_array_equal(prediction, [[np.inf, 1.0]])
    np.testing.assert_array_equal(truth, [[np.inf, 2.0]])


@pytest.mark.parametrize("window", [0, -3, 2, 18, 3.0, True])
def test_a_window_that_is_not_odd_and_positive_is_refused(window: int) -> None:
    with pytest.raises(SettingsError, match="odd"):
        window_error(np.ones((4, 4)), np.ones((4, 4)), window)


@pytest.mark.parametrize("threshold", [-1.0, NAN, np.inf])
def test_a_threshold_that_is_no_distance_is_refused(threshold: float) -> None:
    with pytest.raises(SettingsError, match="thresholds"):
        score(np.ones((4, 4)), np.ones((4, 4)), thresholds=(threshold,))


@pytest.mark.parametrize(
    ("first", "second"), [((4, 4), (4, 5)), ((4, 4, 1), (4, 4, 1)), ((0, 4), (0, 4)), ((4,), (4,))]
)
def test_maps_that_do_not_fit_are_refused(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="shapes"):
        score(np.ones(first), np.ones(second))
