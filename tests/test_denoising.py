"""Patches filtered together: the kernels against the definition, and what the filter is for."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import assert_maps_agree
from devices import CPU, CUDA, on_devices
from kernel_calls import fetch, on

from scotopic.settings import ChannelSettings, DenoisingSettings
from scotopic.stages.channels import Pair
from scotopic.stages.denoising import (
    SIZE,
    cosines,
    denoise_color_maps,
    hadamard,
    kaiser_window,
    patch_filter,
    reference_filtered,
    reference_groups,
)

random = np.random.default_rng
on_the_cpu = pytest.mark.parametrize("device", [CPU])


def stripes(height: int, width: int, channels: int = 3) -> np.ndarray:
    """A texture that repeats every seven pixels, in colors of its own."""
    phase = 2 * np.pi * (np.arange(width) + 0.6 * np.arange(height)[:, None]) / 7
    return (0.5 + 0.2 * np.sin(phase)[..., None] * np.linspace(1, 0.4, channels)).astype(np.float32)


def noisy(image: np.ndarray, sigma: float, seed: int = 0) -> np.ndarray:
    return (image + random(seed).normal(0, sigma, image.shape)).astype(np.float32)


@pytest.mark.parametrize("size", [4, SIZE])
def test_transforms_keep_lengths_and_the_first_column_is_uniform(size: int) -> None:
    for matrix in (cosines(size), hadamard(16)):
        np.testing.assert_allclose(matrix @ matrix.T, np.eye(len(matrix)), atol=1e-12)
    np.testing.assert_allclose(hadamard(8)[:, 0], 8**-0.5)
    # The first frequency of a patch is its sum over its side.
    np.testing.assert_allclose(cosines(size)[0], 1 / size**0.5)
    window = kaiser_window(size).reshape(size, size)
    assert window[0, 0] < window[size // 2, size // 2]


# Shape, patches in a group, how far apart, side of a patch, and from one to the next: the method's and others.
FULL = [
    ((20, 26, 3), 16, 5, 8, 2),
    ((21, 27, 1), 32, 6, 8, 2),
    ((11, 30, 3), 16, 3, 8, 2),
    ((19, 22, 1), 16, 4, 4, 2),
    ((17, 19, 3), 16, 4, 4, 3),
    ((24, 37, 1), 16, 5, 16, 4),
]
SMALL = [((11, 12, 3), 4, 1, 8, 2), ((9, 8, 1), 2, 2, 4, 3)]


@on_devices("shape, count, reach, size, stride", FULL, SMALL)
def test_the_filter_is_that_of_the_definition(
    device: str, shape: tuple[int, int, int], count: int, reach: int, size: int, stride: int
) -> None:
    image, pilot = noisy(stripes(*shape), 0.2), noisy(stripes(*shape), 0.05, seed=1)
    tables = patch_filter(count, reach, size, stride)

    found = on(device).filter_similar_patches(image, pilot, 0.04, tables)

    expected = reference_filtered(image.astype(np.float64), pilot.astype(np.float64), 0.04, tables)
    assert_maps_agree(found, expected, 2e-5)


@on_devices("size, stride", [(8, 2), (4, 2), (4, 4)], [(4, 2)])
def test_the_most_similar_patches_are_found(device: str, size: int, stride: int) -> None:
    shape, tables = ((20, 28), patch_filter(16, 5, size, stride)) if device == "cpu" else (
        (2 * size, 3 * size), patch_filter(4, 2, size, stride)
    )  # fmt: skip
    pilot = noisy(stripes(*shape), 0.03)
    planes = np.ascontiguousarray(np.moveaxis(pilot, -1, 0))
    tops, lefts = (np.arange(0, length - size + 1, stride) for length in shape)

    if device == "cpu":
        from scotopic.backends.cpu.evidence_kernels import make_find_groups

        found = np.empty((len(tops), len(lefts), tables.count), np.int32)
        make_find_groups(size)(0, len(tops), planes, tops, lefts, tables.reach, found)
    else:
        from scotopic.backends.cuda.evidence import find_groups

        found = fetch(find_groups(on(device).place(planes), tables)[0])

    corners = reference_groups(pilot.astype(np.float64), tables)
    expected = corners[..., 0] * (shape[1] - size + 1) + corners[..., 1]
    np.testing.assert_array_equal(found.reshape(expected.shape), expected)


@pytest.mark.parametrize("device", [CUDA])
def test_rows_searched_some_at_a_time_find_what_rows_searched_at_once_find(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from scotopic.backends.cuda.evidence import find_groups

    planes = np.moveaxis(noisy(stripes(11, 10), 0.03), -1, 0)
    pilot, tables = on(device).place(np.ascontiguousarray(planes)), patch_filter(4, 1, 4, 2)

    at_once = fetch(find_groups(pilot, tables)[0])
    three_rows_of_cells = 3 * 5 * 9  # which are two rows of patches
    monkeypatch.setattr("scotopic.backends.cuda.evidence.BAND_CELLS", three_rows_of_cells)
    np.testing.assert_array_equal(fetch(find_groups(pilot, tables)[0]), at_once)


@on_the_cpu
def test_without_noise_nothing_changes_and_without_a_pilot_nothing_is_left(device: str) -> None:
    image, tables = noisy(stripes(18, 24), 0.1), patch_filter(4, 3)

    same = on(device).filter_similar_patches(image, image, 1e-12, tables)
    gone = on(device).filter_similar_patches(image, np.zeros_like(image), 0.04, tables)

    np.testing.assert_allclose(same, image, atol=1e-4)
    np.testing.assert_allclose(gone, 0, atol=1e-6)


def pair_of(device: str, clean: np.ndarray, sigma: float) -> Pair[np.ndarray]:
    """A pair whose "junctions" see the texture through a blur, half as strong as it is."""
    coarse = on(device).blur(clean, 1.5)
    return Pair(noisy(clean, sigma), noisy(clean, sigma, seed=1), coarse, coarse, sigma**2)


def denoised(device: str, pair: Pair[np.ndarray], **settings: float) -> Pair[np.ndarray]:
    found: Pair[np.ndarray] = on(device).run(denoise_color_maps, pair, DenoisingSettings(**settings), ChannelSettings())
    return found


@on_the_cpu
def test_similar_patches_bring_back_what_the_junctions_lost(device: str) -> None:
    clean = stripes(64, 80)
    pair = pair_of(device, clean, 0.3)

    found = denoised(device, pair, group_share=1.0)

    before, after = (((each - clean) ** 2).mean() for each in (pair.left_colors, found.left_colors))
    assert after < before / 2
    np.testing.assert_array_equal(found.left, pair.left)


@on_the_cpu
def test_by_its_share_and_not_at_all_where_an_image_is_too_small(device: str) -> None:
    pair = pair_of(device, stripes(40, 48), 0.3)

    whole, half = (denoised(device, pair, group_share=share) for share in (1.0, 0.5))

    np.testing.assert_allclose(half.right_colors, (whole.right_colors + pair.right_colors) / 2, atol=1e-6)
    small = pair_of(device, stripes(18, 48), 0.3)
    for unchanged, given in ((denoised(device, pair, group_rounds=0), pair), (denoised(device, small), small)):
        np.testing.assert_array_equal(unchanged.left_colors, given.left_colors)
        np.testing.assert_array_equal(unchanged.right_colors, given.right_colors)
