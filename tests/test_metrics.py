"""The metrics, held to loops that are slow and plain, to cases worked out by hand, and to the published table."""

import itertools
import math
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_data import SCENES, reference_scene

from scotopic.backends import cpu_backend
from scotopic.errors import InputError, SettingsError
from scotopic.evaluation import metrics
from scotopic.evaluation.metrics import (
    edge_distance,
    error_by_edge_distance,
    reference_window_error,
    score,
    window_error,
)
from scotopic.settings import JunctionSettings, PatchMatchingSettings
from scotopic.stages.consistency import Reason, average_over_patches, check_views

NAN = np.nan


@pytest.fixture(autouse=True)
def kernel_for_small_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the kernel score all maps of these tests; otherwise small ones are left to the definition."""
    monkeypatch.setattr(metrics, "_SMALL", 0)


def brute_force_error(prediction: np.ndarray, truth: np.ndarray, window: int) -> np.ndarray:
    """The definition, word for word: edges replicated, smallest difference over valid truth."""
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

    expected = brute_force_error(prediction, truth, window)
    np.testing.assert_array_equal(window_error(prediction, truth, window), expected)
    np.testing.assert_array_equal(reference_window_error(prediction, truth, window), expected)


def test_nothing_is_compiled_for_small_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    prediction, truth = np.random.default_rng(0).uniform(0, 40, (2, 12, 17))
    monkeypatch.undo()
    monkeypatch.setattr("scotopic.backends.device.import_kernels", lambda name: pytest.fail(f"{name} is loaded"))

    for window in (3, 10**9 + 1):
        error = window_error(prediction, truth, window)
        np.testing.assert_array_equal(error, brute_force_error(prediction, truth, min(window, 35)))


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
    assert result.coverage == 0.5  # five of ten pixels are predicted, also the one without truth
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
    assert (result.coverage, result.pixels) == (1.0, 0)


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


@pytest.mark.parametrize("kind", [bool, complex, object])
def test_what_is_no_number_of_px_is_refused(kind: type) -> None:
    with pytest.raises(InputError, match=f"The truth has values of type {np.dtype(kind)}"):
        score(np.ones((3, 3)), np.ones((3, 3), kind))


@pytest.mark.parametrize(
    ("first", "second"), [((4, 4), (4, 5)), ((4, 4, 1), (4, 4, 1)), ((0, 4), (0, 4)), ((4,), (4,))]
)
def test_maps_that_do_not_fit_are_refused(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="shapes"):
        score(np.ones(first), np.ones(second))


# --- the kernel -----------------------------------------------------------------------------------------------------


def dense_maps(shape: tuple[int, int] = (398, 593)) -> tuple[np.ndarray, np.ndarray]:
    """A prediction at every pixel and a truth with holes, of the paper's size."""
    random = np.random.default_rng(0)
    truth = random.uniform(0, 60, shape)
    prediction = truth + random.normal(0, 3, shape)
    truth[random.random(shape) < 0.2] = NAN
    return prediction, truth


def test_the_kernel_equals_the_reference_on_a_whole_image() -> None:
    prediction, truth = dense_maps()

    np.testing.assert_array_equal(window_error(prediction, truth), reference_window_error(prediction, truth))


def test_a_wide_window_needs_no_memory_beyond_some_maps() -> None:
    prediction, truth = dense_maps()
    window_error(prediction, truth, 19)  # compiled, or read from the cache

    tracemalloc.start()
    window_error(prediction, truth, 19)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 8 * prediction.nbytes  # H x W x W^2 would be 361


@pytest.mark.parametrize("order", [np.asfortranarray, lambda a: np.flip(a, 1)[:, ::-1], lambda a: a.astype(np.float32)])
def test_the_layout_and_type_of_the_maps_do_not_matter(order: object) -> None:
    prediction, truth = (np.round(each * 4) / 4 for each in dense_maps((30, 40)))  # exact in float32 too

    np.testing.assert_array_equal(window_error(order(prediction), order(truth), 7), window_error(prediction, truth, 7))  # type: ignore[operator]


def test_a_window_larger_than_the_image_is_the_image() -> None:
    prediction, truth = dense_maps((6, 9))

    np.testing.assert_array_equal(window_error(prediction, truth, 10**12 + 1), window_error(prediction, truth, 17))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 3, 5]), st.sampled_from([0, 1, (0, 1)]))
def test_a_flip_of_both_maps_flips_the_error_and_keeps_the_score(seed: int, window: int, axis: int) -> None:
    random = np.random.default_rng(seed)
    prediction, truth = random.integers(0, 9, (2, 5, 8)).astype(float)
    prediction[random.random((5, 8)) < 0.3] = truth[random.random((5, 8)) < 0.3] = NAN
    flipped = np.flip(prediction, axis), np.flip(truth, axis)

    np.testing.assert_array_equal(
        window_error(*flipped, window), np.flip(window_error(prediction, truth, window), axis)
    )
    # Small whole numbers: their sums are exact in any order.
    np.testing.assert_equal(score(*flipped, window), score(prediction, truth, window))


def test_importing_the_metrics_loads_no_compiler() -> None:
    code = "import sys, scotopic.evaluation.metrics, scotopic.evaluation.curves; print('numba' in sys.modules)"

    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert result.stdout == "False\n"


# --- the other figures ----------------------------------------------------------------------------------------------


def test_rms_and_percentiles_of_a_hundred_and_one_known_errors() -> None:
    errors = np.random.default_rng(0).permutation(101).astype(float)[None]  # 0, 1, ..., 100 px

    result = score(errors, np.zeros((1, 101)), window=1)

    assert (result.a50, result.a90, result.a99) == (50.0, 90.0, 99.0)
    assert result.rms == pytest.approx(math.sqrt(100 * 101 * 201 / 6 / 101))  # n (n + 1) (2 n + 1) / 6


def test_by_middlebury_a_missing_answer_is_counted_apart_and_in_the_total() -> None:
    # Ten pixels: six right, two wrong, one of them by more than 3; one missing; one without truth.
    truth = np.array([[9.0] * 9 + [NAN]])
    prediction = np.array([[9.0] * 6 + [11.0, 14.0, NAN, 4.0]])

    result = score(prediction, truth, window=1, thresholds=(1, 3))

    assert result.truth_pixels == 9
    assert result.invalid == pytest.approx(100 / 9)
    assert result.bad_of_truth == pytest.approx({1: 200 / 9, 3: 100 / 9})
    assert result.total == pytest.approx({1: 300 / 9, 3: 200 / 9})
    assert result.bad == {1: 25.0, 3: 12.5}  # of the eight scored ones
    assert result.coverage == 0.9


def test_a_pixel_has_truth_if_the_window_holds_any() -> None:
    truth = np.full((7, 7), NAN)
    truth[3, 3] = 5.0
    prediction = np.full((7, 7), NAN)
    prediction[1, 1] = 8.0

    result = score(prediction, truth, window=5, thresholds=(1,))

    assert (result.truth_pixels, result.pixels) == (25, 1)
    assert result.invalid == 96.0
    assert result.total == {1: 100.0}


@pytest.mark.parametrize("share", [0.02, 0.3, 1.0])
def test_on_pixels_with_truth_of_their_own_the_error_falls_as_the_window_grows(share: float) -> None:
    prediction, truth = dense_maps((40, 50))
    truth[np.random.default_rng(2).random(truth.shape) > share] = NAN

    found = [score(prediction, truth, window, (2,), own_truth=True) for window in (1, 3, 9, 19)]

    assert {each.pixels for each in found} == {np.isfinite(truth).sum()} == {found[0].truth_pixels}
    for narrow, wide in itertools.pairwise(found):
        assert wide.epe <= narrow.epe
        assert wide.bad[2] <= narrow.bad[2]


def test_what_is_masked_is_unknown() -> None:
    prediction, truth = dense_maps((9, 13))
    hidden = np.random.default_rng(3).random((2, 9, 13)) < 0.3
    masked = [np.ma.masked_array(each, where) for each, where in zip((prediction, truth), hidden, strict=True)]
    plain = [np.where(where, NAN, each) for each, where in zip((prediction, truth), hidden, strict=True)]

    for window in (1, 3):
        assert score(*masked, window) == score(*plain, window)


def test_what_a_pixel_is_judged_by_matches_a_loop() -> None:
    prediction, truth = dense_maps((9, 13))
    prediction[::2, ::3] = NAN
    truth[2:8, 3:10] = NAN
    region = np.random.default_rng(1).random((9, 13)) < 0.6
    error = brute_force_error(prediction, truth, 3)
    padded = np.pad(truth, 1, mode="edge")
    errors, true, invalid, area, predicted = [], 0, 0, 0, 0
    for y, x in np.ndindex(truth.shape):
        if region[y, x]:
            area += 1
            predicted += bool(np.isfinite(prediction[y, x]))
            if np.isfinite(padded[y : y + 3, x : x + 3]).any():
                true += 1
                invalid += bool(np.isnan(prediction[y, x]))
                errors += [error[y, x]] if np.isfinite(error[y, x]) else []

    result = score(prediction, truth, 3, (2,), region)

    assert result.pixels == len(errors)
    assert result.epe == pytest.approx(np.mean(errors))
    assert result.coverage == pytest.approx(predicted / area)
    assert result.truth_pixels == true
    assert result.invalid == pytest.approx(100 * invalid / true)
    assert result.bad_of_truth[2] == pytest.approx(100 * sum(e > 2 for e in errors) / true)


def test_a_region_limits_who_is_judged_but_not_where_the_window_finds_its_truth() -> None:
    truth, prediction = np.array([[4.0, 8.0]]), np.array([[8.0, NAN]])
    region = np.array([[True, False]])

    assert score(prediction, truth, window=1, region=region).epe == 4.0
    assert score(prediction, truth, window=3, region=region).epe == 0.0
    assert score(prediction, truth, window=1, region=region).coverage == 1.0


@pytest.mark.parametrize(
    ("region", "message"),
    [
        (np.ones((3, 4), bool), "shape"),
        (np.full((4, 4), 255, np.uint8), "bool"),
        (np.zeros((4, 4), bool), "no pixel"),
    ],
)
def test_a_region_that_does_not_fit_is_refused(region: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        score(np.ones((4, 4)), np.ones((4, 4)), region=region)


# --- distance to an edge --------------------------------------------------------------------------------------------


def test_the_distance_to_an_edge_counts_from_both_sides_of_the_jump() -> None:
    truth = np.where(np.arange(8) < 3, 10.0, 12.5)[None].repeat(4, axis=0)

    np.testing.assert_array_equal(edge_distance(truth), [[2, 1, 0, 0, 1, 2, 3, 4]] * 4)
    assert np.isinf(edge_distance(np.minimum(truth, 12.0))).all()  # above a jump of 2, not from it on


def test_the_distance_to_an_edge_is_euclidean_as_a_loop_finds_it() -> None:
    random = np.random.default_rng(4)
    truth = np.where(random.random((12, 15)) < 0.03, 20.0, 5.0)
    truth[random.random(truth.shape) < 0.1] = NAN
    edge = np.zeros(truth.shape, bool)
    for y, x in np.ndindex(truth.shape):
        for v, u in ((y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)):
            if 0 <= v < truth.shape[0] and 0 <= u < truth.shape[1]:
                edge[y, x] |= abs(truth[y, x] - truth[v, u]) > 2
    assert edge.any()
    expected = [[np.hypot(*(np.argwhere(edge) - (y, x)).T).min() for x in range(15)] for y in range(12)]

    np.testing.assert_allclose(edge_distance(truth), expected, rtol=1e-6)


def test_errors_near_an_edge_and_far_from_it_are_told_apart() -> None:
    truth = np.where(np.arange(20) < 10, 5.0, 30.0)[None].repeat(3, axis=0)
    distance = edge_distance(truth)
    prediction = truth + np.where(distance < 2, 4.0, 0.5)
    prediction[0, distance[0] >= 2] = NAN

    near, far, farther, *_ = (each.score for each in error_by_edge_distance(prediction, truth, thresholds=(1,)))

    assert (near.epe, near.bad[1], near.coverage, near.pixels) == (4.0, 100.0, 1.0, 12)
    assert (far.epe, far.bad[1], far.pixels) == (0.5, 0.0, 8)  # two columns on each side, in two of three rows
    assert (farther.epe, farther.pixels) == (0.5, 16)
    assert far.coverage == pytest.approx(2 / 3)


def test_the_bins_together_hold_every_pixel_once() -> None:
    prediction, truth = dense_maps((40, 50))

    bins = error_by_edge_distance(prediction, truth, window=3)

    assert sum(part.score.pixels for part in bins) == score(prediction, truth, 3).pixels
    assert sum(part.score.truth_pixels for part in bins) == score(prediction, truth, 3).truth_pixels


def test_without_an_edge_everything_is_far_from_it_and_the_other_bins_are_empty() -> None:
    *near, far = error_by_edge_distance(np.ones((3, 3)), np.full((3, 3), 2.0))

    assert [each.score.pixels for each in near] == [0] * len(near)
    assert (far.high, far.score.pixels) == (math.inf, 9)
    assert math.isnan(near[0].score.coverage)
    assert math.isnan(near[0].score.epe)


# --- the published table --------------------------------------------------------------------------------------------

# Coverage in percent, then EPE, Bad-1, Bad-3, Bad-5 at W = 19 and at W = 1, from the notes of the reference data.
PUBLISHED = {
    "Adirondack": (1.67, 0.768, 18.02, 4.59, 4.26, 7.221, 81.54, 62.49, 49.93),
    "Motorcycle": (6.59, 0.721, 21.78, 5.81, 1.64, 2.950, 65.77, 26.81, 14.32),
    "Piano": (3.08, 0.618, 24.05, 2.38, 1.15, 3.306, 77.28, 38.43, 16.50),
    "Playtable": (6.39, 0.545, 15.98, 4.87, 0.55, 4.927, 81.64, 51.90, 33.38),
    "Vintage": (2.80, 1.163, 26.54, 15.95, 9.47, 5.260, 68.09, 41.08, 29.95),
    "000040": (4.04, 0.930, 23.96, 9.57, 4.97, 3.019, 56.57, 23.37, 12.71),
    "000840": (2.54, 0.756, 25.13, 8.07, 2.13, 1.905, 38.70, 17.16, 8.18),
    "001240": (2.97, 0.438, 13.17, 0.30, 0.00, 1.664, 34.43, 7.91, 5.73),
}


@pytest.mark.reference
@pytest.mark.parametrize(("data_set", "name"), [(group, name) for group, names in SCENES.items() for name in names])
def test_the_published_results_score_as_published(data_set: str, name: str) -> None:
    """To the digits of the table, and where those hang on a pixel that the file leaves undecided, as far as it does.

    The boundary maps are stored in 16 bits: where one reads as the number next to the threshold of 0.1, it cannot be
    seen on which side the pixel was. Taking in an undecided pixel of error e moves a mean m over n by (e - m) / n.
    """
    scene = reference_scene(data_set, name)
    shape = scene.truth.shape
    left, right = (
        average_over_patches(cpu_backend(), scene.patch_disparities[side], shape, JunctionSettings())
        for side in ("left", "right")
    )
    boundaries = scene.boundaries["left"]
    undecided = boundaries == np.float32(np.float16(0.1))
    nothing = np.zeros(shape, np.float32)

    def kept(boundaries: np.ndarray) -> np.ndarray:
        checked = check_views(
            cpu_backend(), left, right, nothing, boundaries, scene.boundaries["right"], PatchMatchingSettings()
        )
        return np.equal(checked.reason, Reason.OK)

    surely, perhaps = kept(boundaries), kept(np.where(undecided, 1.0, boundaries)) & undecided
    assert perhaps.sum() <= 10
    coverage, *published = PUBLISHED[name]

    for window, figures in ((19, published[:4]), (1, published[4:])):
        found = score(np.where(surely, left, np.nan), scene.truth, window)
        doubtful = window_error(np.where(perhaps, left, np.nan), scene.truth, window)
        doubtful = doubtful[~np.isnan(doubtful)]
        assert 100 * found.coverage == pytest.approx(coverage, abs=0.005 + 100 * perhaps.mean())
        slack = np.abs(doubtful - found.epe).sum() / found.pixels
        assert found.epe == pytest.approx(figures[0], abs=0.0005 + slack)
        for (limit, share), figure in zip(found.bad.items(), figures[1:], strict=True):
            slack = np.abs(100.0 * (doubtful > limit) - share).sum() / found.pixels
            assert share == pytest.approx(figure, abs=0.005 + slack)
