"""Patches filtered together: the kernels against the definition, and what the filter is for."""

from __future__ import annotations

import numpy as np
import pytest
from scotopic.evidence import on_cpu as engine

from scotopic.settings import EvidenceSettings
from scotopic.stages.channels import Pair
from scotopic.stages.denoising import (
    EVERY,
    SIZE,
    clarified,
    corners,
    cosines,
    hadamard,
    reference_filtered,
    reference_groups,
    window,
)

random = np.random.default_rng


def stripes(height: int, width: int, channels: int = 3) -> np.ndarray:
    """A texture that repeats every seven pixels, in colors of its own."""
    phase = 2 * np.pi * (np.arange(width) + 0.6 * np.arange(height)[:, None]) / 7
    return (0.5 + 0.2 * np.sin(phase)[..., None] * np.linspace(1, 0.4, channels)).astype(np.float32)


def noisy(image: np.ndarray, sigma: float, seed: int = 0) -> np.ndarray:
    return (image + random(seed).normal(0, sigma, image.shape)).astype(np.float32)


def test_transforms_keep_lengths_and_the_first_column_is_even() -> None:
    for matrix in (cosines(), hadamard(16)):
        np.testing.assert_allclose(matrix @ matrix.T, np.eye(len(matrix)), atol=1e-12)
    np.testing.assert_allclose(hadamard(8)[:, 0], 8**-0.5)
    # The first frequency of a patch is its sum over its side.
    np.testing.assert_allclose(cosines()[0], 1 / SIZE)
    assert window().reshape(SIZE, SIZE)[0, 0] < window().reshape(SIZE, SIZE)[3, 3]


@pytest.mark.parametrize("length", [8, 9, 10, 23, 24])
def test_patches_reach_from_end_to_end(length: int) -> None:
    found = corners(length)

    assert found[0] == 0
    assert set(np.diff(found)) <= {EVERY}
    assert length <= found[-1] + SIZE <= length + 1


def test_the_most_alike_patches_are_found() -> None:
    pilot = noisy(stripes(20, 26), 0.03)
    rows, columns = corners(20), corners(26)

    found = engine.cpu_kernels("evidence").find_groups(
        np.ascontiguousarray(np.moveaxis(pilot, -1, 0)), rows, columns, 8, 5
    )

    expected = reference_groups(pilot.astype(np.float64), 8, 5)
    np.testing.assert_array_equal(found, expected[..., 0] * (26 - SIZE + 1) + expected[..., 1])


@pytest.mark.parametrize(("shape", "count", "reach"), [((20, 26, 3), 8, 5), ((21, 27, 1), 16, 3), ((8, 30, 3), 2, 1)])
def test_the_filter_is_that_of_the_definition(shape: tuple[int, int, int], count: int, reach: int) -> None:
    image, pilot = noisy(stripes(*shape), 0.2), noisy(stripes(*shape), 0.05, seed=1)

    (found,) = engine.filtered([image], [pilot], 0.04, count, reach)

    expected = reference_filtered(image.astype(np.float64), pilot.astype(np.float64), 0.04, count, reach)
    np.testing.assert_allclose(found, expected, atol=2e-5)


def test_without_noise_nothing_changes_and_without_a_pilot_nothing_is_left() -> None:
    image = noisy(stripes(18, 24), 0.1)

    (same,), (gone,) = (
        engine.filtered([image], [pilot], variance, 4, 3)
        for pilot, variance in ((image, 1e-12), (np.zeros_like(image), 0.04))
    )

    np.testing.assert_allclose(same, image, atol=1e-4)
    np.testing.assert_allclose(gone, 0, atol=1e-6)


def pair_of(clean: np.ndarray, sigma: float) -> Pair:
    """A pair whose "junctions" see the texture through a blur, half as strong as it is."""
    coarse = engine.blurred(clean, 1.5)
    return Pair(noisy(clean, sigma), noisy(clean, sigma, seed=1), coarse, coarse, sigma**2)


def test_like_patches_bring_back_what_the_junctions_lost() -> None:
    clean = stripes(64, 80)
    pair = pair_of(clean, 0.3)

    found = clarified(engine, pair, EvidenceSettings(group_share=1.0))

    before, after = (((each - clean) ** 2).mean() for each in (pair.left_junctions, found.left_junctions))
    assert after < before / 2
    np.testing.assert_array_equal(found.left, pair.left)


def test_by_its_share_and_not_at_all_where_an_image_is_too_small() -> None:
    pair = pair_of(stripes(40, 48), 0.3)

    whole, half = (clarified(engine, pair, EvidenceSettings(group_share=share)) for share in (1.0, 0.5))

    mean = (whole.right_junctions + pair.right_junctions) / 2
    np.testing.assert_allclose(half.right_junctions, mean, atol=1e-6)
    assert clarified(engine, pair, EvidenceSettings(group_rounds=0)) is pair
    small = pair_of(stripes(18, 48), 0.3)
    assert clarified(engine, small, EvidenceSettings()) is small
