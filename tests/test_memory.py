"""GPU memory is planned before it is asked for."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from devices import REAL_GPU

import scotopic
from scotopic.errors import DeviceError
from scotopic.pipelines.memory import PAINTED_BYTES, SMALLEST_TILE, fit_to_memory, pair_bytes, tile_bytes
from scotopic.settings import PRESETS, Settings, make_settings

LARGE, MIDDLE = (3000, 4000, 3), (1200, 1600, 3)
on_each_preset = pytest.mark.parametrize("preset", PRESETS)


def needed_bytes(settings: Settings, shape: tuple[int, int, int] = LARGE) -> int:
    return pair_bytes(settings, shape) + tile_bytes(settings.junctions, shape) + PAINTED_BYTES


def test_a_pair_of_patches_needs_at_least_what_its_arrays_hold() -> None:
    settings = make_settings("fast", max_disparity=256)
    height, width, channels = LARGE
    # Both views: image, color map and plain map of all channels, boundary map; and the scaled and summed costs.
    maps = 2 * 4 * height * width * (3 * channels + 1)
    patches = ((height - 40) // 8 + 1) * ((width - 40) // 8 + 1)

    assert pair_bytes(settings, LARGE) > maps + 6 * 256 * patches


def test_a_pair_of_pixels_needs_at_least_what_its_arrays_hold() -> None:
    shape = (400, 600, 3)
    settings = make_settings("best", max_disparity=64)
    height, width, channels = shape
    # Both views: image, color map and boundary map; and at full size the volume, its integer costs and their sums.
    maps = 2 * 4 * height * width * (2 * channels + 1)

    assert pair_bytes(settings, shape) > maps + (4 + 2 + 4) * 64 * height * width


def test_the_volume_of_a_large_image_stays_within_its_cells() -> None:
    # Images are halved until the volume has at most max_cells: more disparities than that need no more memory.
    few, many = (pair_bytes(make_settings("best", max_disparity=count), MIDDLE) for count in (256, 512))
    half = pair_bytes(make_settings("best", max_disparity=256, max_cells=2**25), MIDDLE)

    assert half < few == many


@pytest.mark.parametrize(
    ("preset", "change"),
    [
        ("fast", {"max_disparity": 64}),
        ("fast", {"stride": 16}),
        ("best", {"max_disparity": 2}),
        ("best", {"stride": 16}),
    ],
)
def test_less_is_needed_for_fewer_candidates_or_patches(preset: str, change: dict[str, int]) -> None:
    less, more = (
        needed_bytes(make_settings(preset, **{"max_disparity": 256, **each}), MIDDLE) for each in (change, {})
    )

    assert less < more


@on_each_preset
def test_settings_that_fit_stay_as_they_are(preset: str) -> None:
    settings = make_settings(preset, max_disparity=256)

    assert fit_to_memory(settings, LARGE, free=needed_bytes(settings)) == settings


@on_each_preset
def test_tiles_shrink_until_they_fit(preset: str) -> None:
    settings = make_settings(preset, max_disparity=256)

    smaller = fit_to_memory(settings, LARGE, free=needed_bytes(settings) - 1)

    assert smaller.junctions.tile < settings.junctions.tile
    assert needed_bytes(smaller) < needed_bytes(settings)
    assert replace(smaller, junctions=settings.junctions) == settings  # nothing else changes


@on_each_preset
def test_when_the_smallest_tile_does_not_fit_it_is_said_before_the_work(preset: str) -> None:
    settings = make_settings(preset, max_disparity=256)
    least = needed_bytes(replace(settings, junctions=replace(settings.junctions, tile=SMALLEST_TILE)))

    assert fit_to_memory(settings, LARGE, free=least).junctions.tile == SMALLEST_TILE
    with pytest.raises(DeviceError, match=r"4000 x 3000 px needs at least \d+ MiB.*only \d+ MiB.*max_disparity"):
        fit_to_memory(settings, LARGE, free=least - 1)


@pytest.mark.parametrize("device", [pytest.param("cuda", marks=REAL_GPU)])
@pytest.mark.parametrize("shape", [(480, 640, 3), (900, 1200, 1), (900, 1200, 3)])
@pytest.mark.parametrize(
    ("preset", "options"),
    [
        ("fast", {"max_disparity": 128}),
        ("fast", {"max_disparity": 16}),
        ("best", {"max_disparity": 128}),
        ("best", {"max_disparity": 16}),
        ("best", {"max_disparity": 128, "full_size_snr": 0.0}),  # at full size, whatever the noise
        ("best", {"max_disparity": 16, "full_size_snr": 0.0}),
    ],
)
def test_a_match_uses_no_more_than_was_planned(
    device: str, preset: str, options: dict[str, Any], shape: tuple[int, int, int]
) -> None:
    import torch

    settings = make_settings(preset, **options)
    pair = np.random.default_rng(0).random((2, *shape), np.float32)
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()

    scotopic.match(*pair, preset, device, **options)

    assert torch.cuda.max_memory_allocated() - before <= needed_bytes(settings, shape)
