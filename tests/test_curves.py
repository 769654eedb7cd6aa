"""Risk-coverage curves, held to formulas for known errors, to loops over every order, and to the plain score."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_data import reference_scene

from scotopic.backends import cpu_backend
from scotopic.errors import InputError, SettingsError
from scotopic.evaluation.curves import Curve, at_coverage, risk_coverage
from scotopic.evaluation.metrics import score
from scotopic.settings import JunctionSettings
from scotopic.stages.consistency import average_over_patches

NAN = np.nan


def curve_of(errors: object, confidence: object, thresholds: tuple[float, ...] = (1,), points: int = 200) -> Curve:
    """The curve of one row of pixels with these errors."""
    dense = np.array(errors, float)[None]
    return risk_coverage(dense, np.array(confidence, float)[None], np.zeros(dense.shape), 1, thresholds, points=points)


def brute_force_area(risk: np.ndarray) -> float:
    """AURC by its definition, one pixel after the other in the order given."""
    return sum(sum(risk[:k]) / k for k in range(1, len(risk) + 1)) / len(risk)


# --- areas, by formula ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 10, 1000])
def test_areas_of_the_errors_one_to_n_are_those_of_the_formulas(n: int) -> None:
    errors = np.random.default_rng(n).permutation(np.arange(1.0, n + 1))

    perfect, reverse, none = (curve_of(errors, each) for each in (-errors, errors, np.zeros(n)))

    # Mean of the first k: (k + 1) / 2 in rising order, n - (k - 1) / 2 in falling order.
    assert perfect.aurc == pytest.approx((n + 3) / 4)
    assert reverse.aurc == pytest.approx((3 * n + 1) / 4)
    assert none.aurc == pytest.approx((n + 1) / 2)
    assert perfect.epe_area.oracle == reverse.epe_area.oracle == none.epe_area.oracle == pytest.approx((n + 3) / 4)


def test_a_ranking_by_the_error_itself_loses_nothing_to_the_oracle() -> None:
    errors = np.random.default_rng(0).exponential(2.0, 5000).round(1)  # with many equals

    curve = curve_of(errors, -errors)

    assert curve.ause == pytest.approx(0.0, abs=1e-12)
    assert curve.ause >= 0.0
    assert curve.bad_area[1].ause == pytest.approx(0.0, abs=1e-10)
    np.testing.assert_allclose(curve.epe, curve.oracle_epe, rtol=1e-12)


def test_the_oracle_of_exponential_errors_has_the_area_of_the_integral() -> None:
    # Mean of the lowest share s of a unit exponential: (1/s) * integral of -log(1 - u) over u < s
    # = 1 + (1 - s) log(1 - s) / s; its integral over s in (0, 1) is 2 - pi^2 / 6.
    n = 20000
    errors = -np.log1p(-(np.arange(n) + 0.5) / n)

    assert curve_of(errors, np.zeros(n)).epe_area.oracle == pytest.approx(2 - math.pi**2 / 6, rel=1e-3)


def test_a_ranking_that_knows_nothing_has_the_mean_error_as_its_area() -> None:
    random = np.random.default_rng(1)
    errors = random.exponential(2.0, 200_000)

    shuffled, equal = curve_of(errors, random.random(errors.size)), curve_of(errors, np.ones(errors.size))

    assert equal.aurc == pytest.approx(errors.mean())
    # The mean of the first k scatters by 2 / sqrt(k); over all k that is about 2 sqrt(2 / n) = 0.006.
    assert shuffled.aurc == pytest.approx(errors.mean(), abs=0.03)


def test_the_area_with_equals_is_the_mean_over_every_order_that_they_could_have() -> None:
    errors = np.array([3.0, 0.0, 5.0, 1.0, 7.0, 2.0])
    confidence = np.array([2.0, 2.0, 2.0, 1.0, 1.0, 0.0])  # three, two and one alike
    orders = [
        (*first, *second, 5) for first in itertools.permutations((0, 1, 2)) for second in itertools.permutations((3, 4))
    ]

    curve = curve_of(errors, confidence, thresholds=(2,))

    assert curve.aurc == pytest.approx(np.mean([brute_force_area(errors[list(order)]) for order in orders]))
    bad = 100.0 * (errors > 2)
    assert curve.bad_area[2].aurc == pytest.approx(np.mean([brute_force_area(bad[list(order)]) for order in orders]))


def test_the_oracle_of_bad_pixels_keeps_the_good_ones_first() -> None:
    errors = [0.0, 9.0, 0.5, 9.0, 9.0]  # two good, three bad

    curve = curve_of(errors, np.zeros(5))

    assert curve.bad_area[1].oracle == pytest.approx(100 * (1 / 3 + 2 / 4 + 3 / 5) / 5)
    assert curve.bad_area[1].aurc == pytest.approx(60.0)


# --- points ---------------------------------------------------------------------------------------------------------


def noisy_case(seed: int = 0, shape: tuple[int, int] = (12, 15)) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A map with holes, a confidence in few steps, a truth with other holes."""
    random = np.random.default_rng(seed)
    truth = random.integers(0, 20, shape).astype(float)
    dense = truth + random.integers(-4, 5, shape)
    confidence = random.integers(0, 8, shape) / 8
    dense[random.random(shape) < 0.2] = NAN
    truth[random.random(shape) < 0.2] = NAN
    return dense, confidence, truth


@pytest.mark.parametrize("window", [1, 3])
@pytest.mark.parametrize("with_region", [False, True])
def test_each_point_is_the_score_of_the_answers_that_are_at_least_so_sure(window: int, with_region: bool) -> None:
    dense, confidence, truth = noisy_case()
    region = np.arange(15) + np.zeros((12, 1)) > 4 if with_region else None

    curve = risk_coverage(dense, confidence, truth, window, (1, 3), region)

    np.testing.assert_array_equal(curve.confidence, np.arange(8)[::-1] / 8)
    for i, least in enumerate(curve.confidence):
        expected = score(np.where(confidence >= least, dense, NAN), truth, window, (1, 3), region)
        assert curve.coverage[i] == pytest.approx(expected.coverage)
        assert curve.share[i] == pytest.approx(expected.pixels / curve.pixels)
        assert curve.epe[i] == pytest.approx(expected.epe)
        assert (curve.bad[1][i], curve.bad[3][i]) == pytest.approx((expected.bad[1], expected.bad[3]))
    assert curve.share[-1] == 1.0


def test_the_oracle_at_a_point_keeps_as_many_of_the_smallest_errors() -> None:
    curve = curve_of([5.0, 1.0, 0.0, 2.0], [4.0, 3.0, 3.0, 1.0])

    np.testing.assert_allclose(curve.epe, [5.0, 2.0, 2.0])
    np.testing.assert_allclose(curve.oracle_epe, [0.0, 1.0, 2.0])
    np.testing.assert_allclose(curve.oracle_bad[1], [0.0, 100 / 3, 50.0])


def test_coverage_counts_all_pixels_and_share_those_that_are_scored() -> None:
    dense = np.array([[1.0, 1.0, 1.0, NAN, 1.0]])
    confidence = np.array([[4.0, 3.0, 2.0, 9.0, 1.0]])
    truth = np.array([[NAN, 2.0, NAN, 0.0, 4.0]])

    curve = risk_coverage(dense, confidence, truth, thresholds=())

    # The surest answer has no truth: no error can be given until the second is in.
    np.testing.assert_allclose(curve.coverage, [0.4, 0.6, 0.8])
    np.testing.assert_allclose(curve.share, [0.5, 0.5, 1.0])
    np.testing.assert_allclose(curve.epe, [1.0, 1.0, 2.0])
    assert curve.pixels == 2
    assert curve.aurc == (1.0 + 2.0) / 2


def test_an_answer_without_confidence_counts_as_the_least_sure() -> None:
    curve = curve_of([1.0, 2.0, 6.0], [-5.0, NAN, -math.inf])

    np.testing.assert_array_equal(curve.confidence, [-5.0, -math.inf])
    np.testing.assert_allclose(curve.epe, [1.0, 3.0])


def test_fewer_points_change_neither_the_areas_nor_the_end() -> None:
    errors = np.random.default_rng(3).exponential(1.0, 1000)
    confidence = -errors + np.random.default_rng(4).normal(0, 1, 1000)

    full, thin = curve_of(errors, confidence, points=1000), curve_of(errors, confidence, points=10)

    assert (full.epe.size, thin.epe.size) == (1000, 10)
    np.testing.assert_allclose(thin.share, (np.arange(1, 11) / 10) ** 2, atol=0.002)
    assert set(thin.epe) <= set(full.epe)
    assert thin.epe[-1] == full.epe[-1]
    assert (thin.aurc, thin.ause) == (full.aurc, full.ause)


@pytest.mark.parametrize("missing", ["prediction", "truth"])
def test_without_a_scored_pixel_there_is_no_point_and_no_area(missing: str) -> None:
    dense, truth = np.ones((3, 4)), np.ones((3, 4))
    (dense if missing == "prediction" else truth)[:] = NAN

    curve = risk_coverage(dense, np.ones((3, 4)), truth)

    assert curve.pixels == curve.epe.size == curve.coverage.size == curve.bad[3].size == 0
    assert math.isnan(curve.aurc)
    assert math.isnan(curve.ause)


# --- invariance -----------------------------------------------------------------------------------------------------


def figures(curve: Curve) -> list[np.ndarray]:
    """Everything a curve says."""
    areas = [curve.epe_area, *curve.bad_area.values()]
    return [
        curve.confidence,
        curve.coverage,
        curve.share,
        curve.epe,
        curve.oracle_epe,
        *curve.bad.values(),
        *curve.oracle_bad.values(),
        np.array([(area.aurc, area.oracle) for area in areas]),
    ]


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.data())
def test_the_order_of_the_pixels_changes_no_bit(seed: int, data: st.DataObject) -> None:
    dense, confidence, truth = noisy_case(seed, (4, 6))
    dense = dense + np.random.default_rng(seed).random((4, 6))  # errors whose sums are rounded
    order = data.draw(st.permutations(range(24)))

    first = risk_coverage(dense, confidence, truth)
    second = risk_coverage(*(each.ravel()[order].reshape(4, 6) for each in (dense, confidence, truth)))

    for one, other in zip(figures(first), figures(second), strict=True):
        np.testing.assert_array_equal(one, other)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 3]), st.integers(0, 1))
def test_a_flip_of_all_maps_changes_nothing(seed: int, window: int, axis: int) -> None:
    maps = noisy_case(seed, (5, 7))

    first, second = risk_coverage(*maps, window), risk_coverage(*(np.flip(each, axis) for each in maps), window)

    for one, other in zip(figures(first), figures(second), strict=True):
        np.testing.assert_array_equal(one, other)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_only_the_order_of_the_confidence_matters_and_no_ranking_beats_the_oracle(seed: int) -> None:
    dense, confidence, truth = noisy_case(seed)

    first, second = risk_coverage(dense, confidence, truth), risk_coverage(dense, np.exp(3 * confidence) - 7, truth)

    for one, other in zip(figures(first)[1:], figures(second)[1:], strict=True):
        np.testing.assert_array_equal(one, other)
    assert first.epe_area.aurc >= first.epe_area.oracle - 1e-12
    assert (first.epe >= first.oracle_epe - 1e-12).all()


# --- matched coverage -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.03, 0.25, 0.5])
def test_the_surest_share_of_all_pixels_is_kept_to_the_pixel(share: float) -> None:
    random = np.random.default_rng(0)
    dense, confidence = random.random((20, 30)), random.random((20, 30))
    dense[:, :10] = NAN

    kept = at_coverage(dense, confidence, share)

    inside = np.isfinite(kept)
    assert inside.sum() == round(share * 600)
    np.testing.assert_array_equal(kept[inside], dense[inside].astype(np.float32))
    if inside.any():
        assert confidence[inside].min() > confidence[np.isfinite(dense) & ~inside].max()


def test_asking_for_more_than_there_is_gives_all_there_is() -> None:
    dense = np.array([[1.0, NAN, 3.0, np.inf]])

    np.testing.assert_array_equal(at_coverage(dense, np.ones((1, 4)), 0.9), [[1.0, NAN, 3.0, NAN]])


def test_a_cut_through_equal_confidences_is_exact_repeatable_and_leans_to_no_side() -> None:
    dense = np.ones((40, 60))

    kept = np.isfinite(at_coverage(dense, np.ones(dense.shape), 0.25))

    assert kept.sum() == 600
    np.testing.assert_array_equal(kept, np.isfinite(at_coverage(2 * dense, np.zeros(dense.shape), 0.25)))
    for half in (kept[:20], kept[20:], kept[:, :30], kept[:, 30:]):
        assert half.mean() == pytest.approx(0.25, abs=0.02)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0, 1), st.floats(0, 1))
def test_a_larger_share_holds_the_smaller_one(seed: int, one: float, other: float) -> None:
    dense, confidence, _ = noisy_case(seed)

    fewer, more = (np.isfinite(at_coverage(dense, confidence, share)) for share in sorted((one, other)))

    assert not (fewer & ~more).any()


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 10**6), st.data())
def test_the_coverage_of_another_map_is_met_exactly(size: int, data: st.DataObject) -> None:
    size = min(size, 2000)
    wanted = data.draw(st.integers(0, size))

    kept = at_coverage(np.ones((1, size)), np.arange(size)[None], wanted / size)

    assert np.isfinite(kept).sum() == wanted


@pytest.mark.reference
def test_on_a_published_scene_curve_and_matched_coverage_say_the_same() -> None:
    scene = reference_scene("middlebury", "Motorcycle")
    dense = average_over_patches(cpu_backend(), scene.patch_disparities["left"], scene.truth.shape, JunctionSettings())
    confidence = scene.boundaries["left"]

    curve = risk_coverage(dense, confidence, scene.truth, 19, points=20)

    assert curve.coverage[-1] == 1.0
    for i in (0, 10, -1):
        matched = score(at_coverage(dense, confidence, curve.coverage[i]), scene.truth, 19)
        assert (curve.epe[i], curve.bad[3][i], curve.coverage[i]) == pytest.approx(
            (matched.epe, matched.bad[3], matched.coverage)
        )


# --- bad input ------------------------------------------------------------------------------------------------------


def test_a_confidence_of_another_size_is_refused() -> None:
    with pytest.raises(InputError, match="confidence"):
        risk_coverage(np.ones((3, 4)), np.ones((4, 3)), np.ones((3, 4)))
    with pytest.raises(InputError, match="confidence"):
        at_coverage(np.ones((3, 4)), np.ones((4, 3)), 0.5)


def test_what_is_no_map_is_refused() -> None:
    with pytest.raises(InputError, match="dense"):
        at_coverage(np.ones(4), np.ones(4), 0.5)
    with pytest.raises(InputError, match="shapes"):
        risk_coverage(np.ones((3, 4)), np.ones((3, 4)), np.ones((3, 5)))


@pytest.mark.parametrize("share", [-0.1, 1.1, 28, NAN])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(SettingsError, match="share"):
        at_coverage(np.ones((3, 4)), np.ones((3, 4)), share)


@pytest.mark.parametrize("points", [0, -1, 2.5, True])
def test_a_number_of_points_that_is_none_is_refused(points: int) -> None:
    with pytest.raises(SettingsError, match="points"):
        curve_of([1.0], [1.0], points=points)
