"""The primitives of the evidence on each device do what the definitions say, with any constant that they are given."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import assert_maps_agree
from devices import DEVICES, on_devices, sized
from kernel_calls import fetch, on, threads

from scotopic.backends.gaussian import cascade_blurs, gaussian_kernel
from scotopic.backends.protocol import Features
from scotopic.constants import MAX_COST
from scotopic.progress import unheard
from scotopic.settings import PlaneSettings
from scotopic.stages.channels import Channel
from scotopic.stages.evidence_volume import build_volume, pack_features, reference_volume
from scotopic.stages.sgm import reference_quantized, reference_quantized_along
from scotopic.stages.surfaces import fit_planes, reference_planes

on_each_device = pytest.mark.parametrize("device", DEVICES)
random = np.random.default_rng


def picture(height: int, width: int, channels: int = 3, seed: int = 0) -> np.ndarray:
    return random(seed).random((height, width, channels), np.float32)


# Images


def mirrored(length: int, offset: int) -> list[int]:
    """Where each pixel's neighbor at an offset is, mirrored at the first and the last pixel as often as it takes."""
    period = max(2 * (length - 1), 1)
    places = [(x + offset) % period for x in range(length)]
    return [min(place, period - place) if length > 1 else 0 for place in places]


def reference_blur(image: np.ndarray, sigma: float) -> np.ndarray:
    """A sum over neighbors along each axis, in float64."""
    kernel = gaussian_kernel(sigma)
    reach, out = kernel.size // 2, image.astype(np.float64)
    for axis in (0, 1):
        parts = [
            weight * np.take(out, mirrored(out.shape[axis], k - reach), axis=axis) for k, weight in enumerate(kernel)
        ]
        out = np.sum(parts, axis=0)
    return out


@on_each_device
@pytest.mark.parametrize("sigma", [0.5, 2.0, 8.0])
@pytest.mark.parametrize("shape", [(24, 31), (5, 40), (1, 7)])
def test_a_blur_mirrors_at_the_edges_however_wide(device: str, shape: tuple[int, int], sigma: float) -> None:
    image = picture(*shape)

    blurred, alone = on(device).blur(image, sigma), on(device).blur(np.ascontiguousarray(image[..., 1]), sigma)

    expected = reference_blur(image, sigma)
    assert_maps_agree(blurred, expected, 2e-6)
    assert_maps_agree(alone, expected[..., 1], 2e-6)


def test_a_gaussian_is_cut_at_three_sigma_and_keeps_the_mean() -> None:
    kernel = gaussian_kernel(2.0)

    assert kernel.size == 2 * 6 + 1
    assert kernel.sum() == pytest.approx(1)
    assert kernel[6 + 4] / kernel[6] == pytest.approx(np.exp(-0.5 * (4 / 2) ** 2))


@on_each_device
@pytest.mark.parametrize("factor", [2, 4])
def test_a_map_is_enlarged_linearly_between_the_centers_of_its_pixels(device: str, factor: int) -> None:
    values = picture(5, 7)[..., 0].copy()

    found = on(device).resize_linear(values, factor)

    # Pixel k of the large map lies at (k + 1/2) / factor - 1/2 of the small one; ends are repeated.
    expected = values.astype(np.float64)
    for axis, length in enumerate(values.shape):
        place = np.clip((np.arange(factor * length) + 0.5) / factor - 0.5, 0, length - 1)
        below = np.minimum(place.astype(int), length - 2)
        share = np.expand_dims(place - below, 1 - axis)
        expected = (1 - share) * expected.take(below, axis) + share * expected.take(below + 1, axis)
    assert_maps_agree(found, expected, 1e-6)


@on_each_device
def test_quantiles_moments_and_mixed_channels_are_those_of_numpy(device: str) -> None:
    there = on(device)
    views = random(0).standard_normal((2, 12, 14, 3)).astype(np.float32)
    rows = views.reshape(-1, 3).astype(np.float64)
    axes = np.linalg.qr(random(1).standard_normal((3, 3)))[0]

    for count in (1, 2, 3, 504):
        values = views.ravel()[:count]
        for q in (0.0, 0.2, 0.5, 1.0):
            assert there.quantile(values, q) == pytest.approx(float(np.quantile(values, q)), abs=1e-6)
    np.testing.assert_allclose(there.second_moments(views), rows.T @ rows / len(rows), rtol=1e-5, atol=1e-6)
    for matrix in (axes, axes[:, :1]):
        mixed = fetch(there.backend.mix_channels(there.place(views[0]), matrix))
        np.testing.assert_allclose(mixed, views[0] @ matrix, atol=1e-5)


# The volume


@on_devices("disparities", [range(5), range(-4, 3), range(30, 34)], [range(2), range(-2, 1), range(9, 11)])
def test_a_volume_of_one_window_is_the_definition(device: str, disparities: range) -> None:
    height, width = sized(device, (15, 20), (3, 7))
    views = random(0).random((2, height, width, 2)).astype(np.float32)
    units = random(1).random((height, width)).astype(np.float32)
    channel = Channel(*views, np.array([0.5, 0.2]), np.array([0.1, 0.4]), 2.0, 3.0, units)

    volume = on(device).run(build_volume, [channel], disparities)

    np.testing.assert_allclose(volume, reference_volume([channel], disparities), rtol=1e-4, atol=1e-4)


@on_each_device
def test_products_repeat_the_last_column_beyond_the_edge(device: str) -> None:
    left, right = np.float32([[[1, 1, 1, 1]]]), np.float32([[[1, 2, 3, 4]]])
    sharp = 1e-3  # a blur that blurs nothing

    volume = on(device).build_volume([Features(left, right, sharp)], range(-5, 6), unheard)

    expected = [[right[0, 0, min(max(x - d, 0), 3)] for x in range(4)] for d in range(-5, 6)]
    np.testing.assert_array_equal(volume[:, 0], expected)


@on_each_device
def test_every_set_of_features_is_blurred_by_its_own_window(device: str) -> None:
    height, width = sized(device, (24, 30), (4, 9))
    made = random(2).normal(size=(2, 2, 1, height, width)).astype(np.float32)
    windows, alone = (3.0, 1.0), []
    features = [Features(*each, window) for each, window in zip(made, windows, strict=True)]

    both = on(device).build_volume(features, range(1, 3), unheard)
    for each in features:
        partner = np.stack([np.take(each.right[0], np.maximum(np.arange(width) - d, 0), axis=1) for d in (1, 2)])
        alone.append(reference_blur(np.moveaxis(each.left[0] * partner, 0, -1), each.window))

    # Nested blurs, each cut at three sigma, differ from one blur by that cut.
    assert_maps_agree(np.moveaxis(both, 0, -1), alone[0] + alone[1], 0.02)


def test_nested_blurs_make_every_window() -> None:
    windows = [8.0, 4.0, 1.0]
    widths = cascade_blurs(windows)

    for k, window in enumerate(windows):
        assert sum(width**2 for width in widths[k:]) == pytest.approx(window**2)


@on_each_device
def test_a_volume_is_divided_by_its_mean_deviation_over_disparity(device: str) -> None:
    volume, there = random(3).normal(5, 2, (9, 8, 7)).astype(np.float32), on(device)
    found = there.place(volume.copy())

    there.backend.normalize_volume(found)

    expected = volume / volume.astype(np.float64).std(axis=0).mean()
    np.testing.assert_allclose(fetch(found), expected, rtol=1e-5)


@on_each_device
def test_a_flat_volume_stays_as_it_is(device: str) -> None:
    there = on(device)
    found = there.place(np.full((3, 4, 5), 2, np.float32))

    there.backend.normalize_volume(found)

    np.testing.assert_array_equal(fetch(found), np.full((3, 4, 5), 2, np.float32))


# Costs as integers


def assert_quantized(found: np.ndarray, expected: np.ndarray) -> None:
    """At a half, the last bit may decide otherwise."""
    assert found.dtype == np.int16
    assert_maps_agree(found, expected, 1)
    assert_maps_agree(found, expected, 0, outliers=0.02)


@on_each_device
@pytest.mark.parametrize("max_cost", [MAX_COST, 40])
@pytest.mark.parametrize("shear_from", [None, 0, -3, 5])
def test_costs_count_from_the_lowest(device: str, shear_from: int | None, max_cost: int) -> None:
    volume = random(0).normal(0, 3, (7, 6, 11)).astype(np.float32)

    found = on(device).quantize_costs(volume, 0.1, max_cost, shear_from)

    assert_quantized(found, reference_quantized(volume, 0.1, max_cost, shear_from))
    assert (found.min(axis=2) == 0).all()
    assert found.max() == max_cost or max_cost == MAX_COST


@on_each_device
@pytest.mark.parametrize("max_cost", [MAX_COST, 40])
def test_costs_count_from_each_pixels_own_first_candidate(device: str, max_cost: int) -> None:
    volume = random(0).normal(0, 3, (7, 9, 11)).astype(np.float32)
    start = random(1).integers(-8, 8, (9, 11)).astype(np.float32)

    found = on(device).quantize_costs_along(volume, 0.1, max_cost, start)

    assert_quantized(found, reference_quantized_along(volume, 0.1, max_cost, start))
    # Candidate k of a pixel is candidate start + k of the volume; those outside cost as much as the worst.
    plain = on(device).quantize_costs(volume, 0.1, max_cost, None)
    y, x = np.argwhere(start == 2)[0]
    np.testing.assert_array_equal(found[y, x], [*plain[y, x, 2:], plain[y, x].max(), plain[y, x].max()])


@on_each_device
def test_hopeless_costs_are_cut_at_the_largest_number(device: str) -> None:
    volume = np.float32([0, 1e9]).reshape(2, 1, 1)

    np.testing.assert_array_equal(on(device).quantize_costs(volume, 0.1, MAX_COST, None), [[[0, 32767]]])


@on_each_device
def test_the_right_view_sees_the_left_volume_sheared(device: str) -> None:
    volume = np.arange(12, dtype=np.float32).reshape(2, 1, 6)  # candidates 1 and 2

    found = on(device).quantize_costs(volume, 1.0, MAX_COST, 1)

    # Right pixel x at d is left pixel x + d: 0..5 at d = 1, 6..11 at d = 2; from each pixel's lowest.
    pairs = [(min(x + 1, 5), 6 + min(x + 2, 5)) for x in range(6)]
    np.testing.assert_array_equal(found[0], [(0, b - a) for a, b in pairs])


# Planes


@on_devices(
    "spacing, planes",
    [
        (spacing, PlaneSettings(sigma, 1.5, ridge, 1))
        for spacing, sigma, ridge in ((1, 3.0, 5.0), (2, 3.0, 5.0), (3, 2.5, 0.5), (2, 8.0, 60.0))
    ],
    [(1, PlaneSettings(1.0, 1.5, 5.0, 1)), (2, PlaneSettings(2.0, 1.5, 5.0, 1)), (3, PlaneSettings(2.5, 0.5, 1.0, 1))],
)
def test_one_round_of_planes_is_the_definition(device: str, spacing: int, planes: PlaneSettings) -> None:
    height, width = sized(device, (19, 24), (7, 9))
    y, x = np.mgrid[:height, :width]
    surface = 0.2 * x - 0.1 * y + np.where(x > width // 2, 6, 0)
    disparity = (surface + random(7).normal(0, 0.3, surface.shape)).astype(np.float32)
    present = surface.astype(np.float32)
    weights = random(8).random(surface.shape, np.float32) + np.float32(0.01)

    found = on(device).fit_planes(disparity, weights, present, planes, spacing)

    assert_maps_agree(found, reference_planes(disparity, weights, present, planes, spacing), 1e-3)


@on_each_device
def test_the_second_round_starts_from_the_first_ones_planes(device: str) -> None:
    disparity = random(0).normal(10, 1, sized(device, (13, 17), (5, 8))).astype(np.float32)
    weights = random(1).random(disparity.shape, np.float32) + np.float32(0.01)
    once, twice = (PlaneSettings(2.0, 1.5, 5.0, rounds) for rounds in (1, 2))

    found = on(device).run(fit_planes, disparity, weights, twice)

    first = on(device).run(fit_planes, disparity, weights, once)
    assert_maps_agree(found, reference_planes(disparity, weights, first, twice), 1e-3)


def run_a_while() -> list[bytes]:
    """A volume, its costs and planes; returns all that they give, bit by bit."""
    views = random(0).random((2, 20, 30, 3)).astype(np.float32)
    channel = Channel(*views, np.full(3, 0.5), np.full(3, 0.1), 2.0, 1.0)
    there = on("cpu")
    features = there.run(pack_features, [channel])
    volume = there.build_volume(features, range(6), unheard)
    planes = there.fit_planes(views[0, ..., 0], views[1, ..., 0], views[0, ..., 0], PlaneSettings(4, 1, 5, 1), 2)
    return [each.tobytes() for each in (volume, there.quantize_costs(volume, 0.1, MAX_COST, 0), planes)]


def test_one_thread_and_two_give_the_same_bits() -> None:
    found = []
    for count in (1, 2, 2):
        with threads(count):
            found.append(run_a_while())

    assert found[0] == found[1] == found[2]
