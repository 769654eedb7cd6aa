"""The evidence's steps on a GPU do what the CPU's do, which are held to the definitions elsewhere."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
from agreement import assert_maps_agree
from devices import CUDA, sized
from scotopic.evidence.solve import reference_costs, reference_costs_along

from scotopic.backends.device import steps, to_device, to_numpy
from scotopic.settings import MatchingSettings, make_settings
from scotopic.stages.evidence_volume import Features
from scotopic.stages.surfaces import reference_planes

pytest.importorskip("cv2", reason="the CPU's steps blur with OpenCV, which is not installed")
pytestmark = pytest.mark.parametrize("device", [CUDA])
random = np.random.default_rng


def picture(height: int, width: int, channels: int = 3, seed: int = 0) -> np.ndarray:
    return random(seed).random((height, width, channels), np.float32)


def both(device: str) -> tuple[ModuleType, ModuleType]:
    return steps("evidence", "cpu"), steps("evidence", device)


def on(device: str, *arrays: np.ndarray) -> list[Any]:
    return [to_device(array, device) for array in arrays]


def back(value: Any) -> np.ndarray:
    return to_numpy(value)[0]


@pytest.mark.parametrize("sigma", [0.5, 2.0, 8.0])
@pytest.mark.parametrize("shape", [(24, 31), (5, 40), (1, 7)])
def test_a_blur_mirrors_at_the_edges_however_wide(device: str, shape: tuple[int, int], sigma: float) -> None:
    cpu, gpu = both(device)
    image = picture(*shape)
    (there,) = on(device, image)

    assert_maps_agree(back(gpu.blurred(there, sigma)), cpu.blurred(image, sigma), 2e-6)
    assert_maps_agree(back(gpu.blurred(there[..., 0], sigma)), cpu.blurred(image[..., 0].copy(), sigma), 2e-6)


@pytest.mark.parametrize("shape", [(12, 14), (13, 15)])
def test_sizes_change_alike(device: str, shape: tuple[int, int]) -> None:
    cpu, gpu = both(device)
    image = picture(*shape)
    (there,) = on(device, image)

    assert_maps_agree(back(gpu.halved(there)), cpu.halved(image), 1e-6)
    for factor in (1, 2, 4):
        full = (shape[0] * factor - factor // 2, shape[1] * factor - factor // 2)
        expected = cpu.enlarged(image[..., 0].copy(), factor, full)
        assert_maps_agree(back(gpu.enlarged(there[..., 0].contiguous(), factor, full)), expected, 1e-6)


@pytest.mark.parametrize("channels", [1, 3])
def test_what_is_measured_of_a_pair_is_the_same(device: str, channels: int) -> None:
    cpu, gpu = both(device)
    left, right = picture(20, 26, channels), picture(20, 26, channels, seed=1)
    there = on(device, left, right)
    axes = np.linalg.qr(random(2).normal(size=(channels, channels)))[0]
    weights = random(3).random(channels)

    np.testing.assert_allclose(gpu.second_moments(*there), cpu.second_moments(left, right), rtol=1e-5)
    np.testing.assert_allclose(gpu.quiet_energy(*there, 2.0, 0.2), cpu.quiet_energy(left, right, 2.0, 0.2), rtol=1e-5)
    assert_maps_agree(back(gpu.turned(there[0], axes)), cpu.turned(left, axes), 1e-5)
    assert_maps_agree(back(gpu.weighed(there[0], weights)), cpu.weighed(left, weights), 1e-5)
    assert_maps_agree(back(gpu.local_signal(there[0], 2.0, 0.1)), cpu.local_signal(left, 2.0, 0.1), 1e-5)
    evidence = make_settings("best").evidence
    for variance in (1e-4, 0.05):
        expected = cpu.signal_to_noise(left, variance, evidence)
        np.testing.assert_allclose(gpu.signal_to_noise(there[0], variance, evidence), expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("shape", [(40, 61), (18, 18), (17, 60)])
def test_noise_is_measured_in_the_same_blocks(device: str, shape: tuple[int, int], channels: int) -> None:
    cpu, gpu = both(device)
    images = [picture(*shape, channels, seed=seed) for seed in (0, 1)]
    images[0][:20] = 0.25  # blocks of one color do not count

    for found, expected in zip(gpu.block_statistics(on(device, *images)), cpu.block_statistics(images), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("disparities", [range(5), range(-3, 3), range(6, 14)])
def test_the_volume_adds_up_to_the_same(device: str, disparities: range) -> None:
    cpu, gpu = both(device)
    made = random(0)
    height, width = sized(device, (40, 60), (6, 9))
    sets = [made.normal(size=(2, count, height, width)).astype(np.float32) for count in (3, 5)]
    features = [Features(left, right, window) for (left, right), window in zip(sets, (3.0, 1.0), strict=True)]
    there = [Features(*on(device, each.left, each.right), each.window) for each in features]

    volume = gpu.add_up(there, disparities)

    expected = cpu.add_up(features, disparities)
    assert_maps_agree(back(volume), expected, 1e-4)
    np.testing.assert_allclose(gpu.spread(volume), cpu.spread(expected), rtol=1e-4)


@pytest.mark.parametrize("is_left", [True, False])
@pytest.mark.parametrize("first", [0, -4, 3])
def test_costs_are_counted_alike(device: str, first: int, is_left: bool) -> None:
    volume = random(1).normal(size=(6, 7, 11)).astype(np.float32)
    _, gpu = both(device)

    found = back(gpu.whole_costs(*on(device, volume), 0.01, first, is_left=is_left))

    expected = reference_costs(volume, 0.01, first, is_left=is_left)
    assert found.dtype == np.int16
    assert_maps_agree(found, expected, 1, outliers=0.0)
    assert (found != expected).mean() < 0.02  # at a half, the last bit may decide otherwise


@pytest.mark.parametrize("channels", [1, 3])
def test_like_patches_are_filtered_together_alike(device: str, channels: int) -> None:
    cpu, gpu = both(device)
    height, width, count, reach = sized(device, (61, 80, 16, 12), (11, 12, 4, 1))
    images = [cpu.blurred(picture(height, width, channels, seed=seed), 1.0) for seed in range(4)]

    found = gpu.filtered(on(device, *images[:2]), on(device, *images[2:]), 0.01, count, reach)

    for ours, theirs in zip(found, cpu.filtered(images[:2], images[2:], 0.01, count, reach), strict=True):
        assert_maps_agree(back(ours), theirs, 1e-5)


@pytest.mark.parametrize("first", [0, -4, 3])
def test_costs_are_counted_alike_along_a_surface(device: str, first: int) -> None:
    volume = random(1).normal(size=(6, 7, 11)).astype(np.float32)
    surface = random(2).uniform(first - 2, first + 8, (7, 11)).astype(np.float32)
    _, gpu = both(device)

    found, start = gpu.costs_along(*on(device, volume), 0.01, *on(device, surface), first)

    expected, expected_start = reference_costs_along(volume, 0.01, surface, first)
    np.testing.assert_array_equal(back(start), expected_start)
    assert_maps_agree(back(found), expected, 1, outliers=0.0)
    assert (back(found) != expected).mean() < 0.02


def test_what_lies_between_candidates_and_between_views_is_found_alike(device: str) -> None:
    cpu, gpu = both(device)
    total = random(4).integers(0, 4000, (9, 12, 7), np.int32)
    best = total.argmin(axis=2) - 2
    there, index = on(device, total, best)

    assert_maps_agree(back(gpu.between(there, index, -2)), cpu.between(total, best, -2), 1e-6)
    assert_maps_agree(back(gpu.as_float(index, 0.25)), cpu.as_float(best, 0.25), 1e-6)
    left, right = random(5).uniform(-3, 9, (2, 9, 12)).astype(np.float32)
    apart = cpu.disagreement(left, right)
    found = back(gpu.disagreement(*on(device, left, right)))
    np.testing.assert_array_equal(np.isinf(found), np.isinf(apart))
    assert_maps_agree(np.nan_to_num(found, posinf=0), np.nan_to_num(apart, posinf=0), 1e-6)
    assert_maps_agree(back(gpu.fused(*on(device, left, right))), cpu.fused(left, right), 1e-6)
    margin = random(6).random((9, 12), np.float32)
    evidence = make_settings("best").evidence
    assert_maps_agree(back(gpu.agreed(*on(device, margin), evidence)), cpu.agreed(margin, evidence), 1e-5)
    assert_maps_agree(back(gpu.sureness(*on(device, margin, apart), 0.5)), cpu.sureness(margin, apart, 0.5), 1e-6)
    settings = MatchingSettings(max_disparity=16, min_confidence=0.4)
    for ours, theirs in zip(
        gpu.keep(*on(device, left, margin, apart), settings), cpu.keep(left, margin, apart, settings), strict=True
    ):
        np.testing.assert_array_equal(back(ours), theirs)


def test_planes_are_those_of_the_definition(device: str) -> None:
    _, gpu = both(device)
    height, width = sized(device, (24, 30), (7, 9))
    y, x = np.mgrid[:height, :width]
    surface = 0.2 * x - 0.1 * y + np.where(x > width // 2, 6, 0)
    disparity = (surface + random(7).normal(0, 0.3, surface.shape)).astype(np.float32)
    sure = random(8).random(surface.shape, np.float32)
    evidence = make_settings("best", plane_sigma=2.0 if not sized(device, 1, 0) else 8.0, plane_rounds=1).evidence
    assert evidence is not None

    found = back(gpu.planes(*on(device, disparity, sure), evidence))

    weights = sure + np.float32(1e-6)
    expected = reference_planes(
        disparity, weights, disparity, evidence.plane_sigma, evidence.plane_tau, evidence.plane_ridge
    )
    assert_maps_agree(found, expected, 1e-3)
