"""The noise model, held to its own distribution summed up term by term."""

import math

import numpy as np
import pytest

from scotopic.errors import InputError, SettingsError
from scotopic.sensor import linearize, record, simulate, simulate_pair, to_uint8

PIXELS = 200_000


def level_probabilities(intensity: float, photons: float, read_noise: float) -> dict[float, float]:
    """Probability of each recorded level: Poisson + Gauss, saturated at ceil(photons), rounded, at most 1."""
    top = math.ceil(photons)
    mean = photons * intensity

    def below(edge: float, count: int) -> float:  # P(count + read noise < edge)
        if read_noise == 0:
            return float(count < edge)
        return 0.5 * (1 + math.erf((edge - count) / (read_noise * math.sqrt(2))))

    probabilities = dict.fromkeys(range(top + 1), 0.0)
    for count in range(int(mean + 12 * math.sqrt(mean)) + 30):
        poisson = math.exp(-mean + count * math.log(mean) - math.lgamma(count + 1)) if mean > 0 else float(count == 0)
        for level in probabilities:
            low = 0.0 if level == 0 else below(level - 0.5, count)
            high = 1.0 if level == top else below(level + 0.5, count)
            probabilities[level] += poisson * (high - low)
    return {min(level / photons, 1.0): probability for level, probability in probabilities.items()}


@pytest.mark.parametrize(("photons", "read_noise"), [(2.0, 2.0), (2.0, 0.0), (3.0, 0.7), (1.5, 1.0), (0.4, 0.3)])
@pytest.mark.parametrize("intensity", [0.0, 0.3, 1.0])
def test_levels_occur_as_often_as_the_noise_model_says(intensity: float, photons: float, read_noise: float) -> None:
    recorded = simulate(np.full(PIXELS, intensity), photons, read_noise, seed=3)

    expected = level_probabilities(intensity, photons, read_noise)
    assert set(np.unique(recorded)) <= {np.float32(level) for level in expected}
    for level, probability in expected.items():
        share = float(np.mean(recorded == np.float32(level)))
        # Five standard deviations of a binomial share.
        assert abs(share - probability) <= 5 * math.sqrt(probability * (1 - probability) / PIXELS) + 1e-12


@pytest.mark.parametrize(("intensity", "mean"), [(0.0, 0.31), (1.0, 0.65)])
def test_mean_response_at_the_papers_photon_level_is_that_of_the_method_page(intensity: float, mean: float) -> None:
    probabilities = level_probabilities(intensity, photons=2.0, read_noise=2.0)
    formula = sum(level * probability for level, probability in probabilities.items())
    spread = math.sqrt(sum((level - formula) ** 2 * probability for level, probability in probabilities.items()))

    recorded = simulate(np.full(PIXELS, intensity))

    assert formula == pytest.approx(mean, abs=0.01)
    assert float(recorded.mean()) == pytest.approx(formula, abs=5 * spread / math.sqrt(PIXELS))
    assert float(recorded.std()) == pytest.approx(spread, abs=5 * spread / math.sqrt(PIXELS))


def test_many_photons_without_read_noise_give_the_image_back() -> None:
    image = np.linspace(0.1, 0.9, 50)

    recorded = simulate(image, photons=1e8, read_noise=0.0)

    np.testing.assert_allclose(recorded, image, atol=6 / math.sqrt(1e8))  # six standard deviations of shot noise


def test_result_is_float32_of_the_shape_given_and_the_image_is_untouched() -> None:
    image = np.random.default_rng(0).random((7, 5, 3)).astype(np.float32)
    before = image.copy()

    recorded = simulate(image)

    assert recorded.dtype == np.float32
    assert recorded.shape == image.shape
    np.testing.assert_array_equal(image, before)


def test_the_seed_decides_the_noise() -> None:
    image = np.full((40, 40), 0.5)

    np.testing.assert_array_equal(simulate(image, seed=4), simulate(image, seed=4))
    assert np.any(simulate(image, seed=4) != simulate(image, seed=5))


def test_the_two_views_of_a_pair_have_independent_noise() -> None:
    image = np.full(PIXELS, 0.5)

    left, right = simulate_pair(image, image, seed=1)

    assert abs(np.corrcoef(left, right)[0, 1]) < 5 / math.sqrt(PIXELS)


def test_a_pair_is_decided_by_its_seed_and_settings() -> None:
    image = np.full((30, 30), 0.5)

    first, second = simulate_pair(image, image, 3.0, 1.0, seed=2), simulate_pair(image, image, 3.0, 1.0, seed=2)

    np.testing.assert_array_equal(first, second)
    assert set(np.unique(first)) == {np.float32(k / 3) for k in range(4)}
    assert np.any(np.array(first) != np.array(simulate_pair(image, image, 3.0, 1.0, seed=3)))


@pytest.mark.parametrize("photons", [0.0, -1.0, math.nan, math.inf])
def test_a_photon_level_that_is_not_above_zero_is_refused(photons: float) -> None:
    with pytest.raises(SettingsError, match="photons"):
        simulate(np.zeros((4, 4)), photons=photons)


@pytest.mark.parametrize("read_noise", [-0.1, math.nan, math.inf])
def test_read_noise_that_is_negative_or_endless_is_refused(read_noise: float) -> None:
    with pytest.raises(SettingsError, match="read_noise"):
        simulate(np.zeros((4, 4)), read_noise=read_noise)


@pytest.mark.parametrize("seed", [-1, 0.5, "0", None])
def test_what_is_no_seed_is_refused(seed: int) -> None:
    with pytest.raises(SettingsError, match="seed"):
        simulate_pair(np.zeros((4, 4)), np.zeros((4, 4)), seed=seed)


@pytest.mark.parametrize("image", [np.array([0.5, np.nan]), np.array([0.0, 200.0]), np.array([-0.2]), np.array([0, 1])])
def test_an_image_that_is_not_float_in_0_to_1_is_refused(image: np.ndarray) -> None:
    with pytest.raises(InputError, match="image to simulate"):
        simulate(image)


def test_levels_are_stored_as_the_papers_files_have_them() -> None:
    np.testing.assert_array_equal(to_uint8(np.array([0.0, 0.5, 1.0], np.float32)), [0, 127, 255])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_eight_bit_values_survive_the_way_to_float_and_back(dtype: type) -> None:
    stored = np.arange(256, dtype=np.uint8)

    np.testing.assert_array_equal(to_uint8(stored.astype(dtype) / dtype(255)), stored)


def test_storing_clips_what_overshoots_and_floors_the_rest() -> None:
    np.testing.assert_array_equal(to_uint8(np.array([-0.5, 1.5, 99.9 / 255])), [0, 255, 99])


@pytest.mark.parametrize("image", [np.array([np.nan]), np.array([3])])
def test_storing_refuses_what_is_not_a_finite_float(image: np.ndarray) -> None:
    with pytest.raises(InputError, match="8 bits"):
        to_uint8(image)


def test_a_masked_image_keeps_its_mask() -> None:
    clean = np.full((8, 12, 3), 0.5)
    mask = np.zeros(clean.shape, bool)
    mask[:, :4] = True
    unknown = np.ma.masked_array(np.where(mask, np.nan, clean), mask)

    left, right = simulate_pair(unknown, clean)

    np.testing.assert_array_equal(np.ma.getmaskarray(left), mask)
    assert not np.ma.isMaskedArray(right)
    assert set(np.unique(left[~mask])) == {0.0, 0.5, 1.0}
    assert [np.ma.getmaskarray(change(left)).tolist() for change in (linearize, record)] == [mask.tolist()] * 2


def test_the_same_seed_gives_the_same_pair_whatever_it_was_used_for() -> None:
    clean, seed = np.full((8, 12), 0.5), np.random.SeedSequence(3)

    pairs = [simulate_pair(clean, clean, seed=each) for each in (seed, seed, 3)]

    for left, right in pairs:
        np.testing.assert_array_equal(left, pairs[0][0])
        np.testing.assert_array_equal(right, pairs[0][1])
        assert (left != right).any()
