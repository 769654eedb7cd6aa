"""GPU memory is planned before it is asked for."""

from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from devices import CUDA, INTERPRETED, REAL_GPU

import scotopic
from scotopic.errors import DeviceError
from scotopic.pipelines.memory import PAINTED_BYTES, SMALLEST_TILE, fit_to_memory, pair_bytes, tile_bytes
from scotopic.settings import PRESETS, Settings, make_settings

LARGE, MIDDLE = (3000, 4000, 3), (1200, 1600, 3)
on_each_preset = pytest.mark.parametrize("preset", PRESETS)


def needed_bytes(settings: Settings, shape: tuple[int, int, int] = LARGE) -> int:
    return pair_bytes(settings, shape) + tile_bytes(settings, shape) + PAINTED_BYTES


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


@pytest.mark.parametrize("preset", ["fast", "best"])
@pytest.mark.parametrize("change", [{"max_disparity": 64}, {"stride": 16}])
def test_less_is_needed_for_fewer_candidates_or_patches(preset: str, change: dict[str, int]) -> None:
    shape = (296, 392, 3)  # whole patches, and few enough cells for full size
    less, more = (needed_bytes(make_settings(preset, **{"max_disparity": 256, **each}), shape) for each in (change, {}))

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


# What is planned against what is used


def picture_pair(shape: tuple[int, int, int]) -> np.ndarray:
    """Two views of blocks with a little noise: clear enough to be matched at full size where that is asked for."""
    random, (height, width, channels) = np.random.default_rng(0), shape
    blocks = np.kron(random.random((2, height // 4, width // 4, channels)), np.ones((1, 4, 4, 1)))
    return (0.9 * blocks + 0.02 * random.random((2, *shape))).astype(np.float32)


# In any light, whatever the noise: coarse evidence, fine evidence of denoised images, and of the images themselves.
# Blocks everywhere leave no quiet place to tell texture from correlated noise, so the noise is said to be white.
LIGHTS: list[dict[str, Any]] = [
    {"fine_snr": 1e9, "full_size_snr": 1e9},
    {"fine_snr": 0.0, "full_size_snr": 1e9, "correlated_factor": 1e9},
    {"fine_snr": 0.0, "full_size_snr": 0.0, "correlated_factor": 1e9},
]
# With few candidates the maps take more than the volume.
USES: list[tuple[str, dict[str, Any]]] = [
    ("paper", {"max_disparity": 64, "refine_steps": 2, "search_every": 2}),
    *(("fast", {"max_disparity": count}) for count in (64, 4)),
    *(("best", {"max_disparity": count, **light}) for count in (128, 32, 4) for light in LIGHTS),
    *(("best", {"max_disparity": 64, "max_cells": cells, **light}) for cells in (2**18, 2**16) for light in LIGHTS),
]
on_each_use = pytest.mark.parametrize(("preset", "options"), USES, ids=lambda each: str(each).replace(" ", ""))


@pytest.fixture
def without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels compute nothing, and what they would fill holds anything, so that only torch's own work takes time.

    Two buffers whose size does not depend on the pair are small, so that they do not hide what does.
    """
    import torch

    class Nothing:
        def __getitem__(self, _: object) -> Any:
            return lambda *arguments, **named: None

    for name in ("junction", "matching", "evidence", "image"):
        module = import_module(f"scotopic.backends.cuda.{name}_kernels")
        for kernel in [key for key, value in vars(module).items() if hasattr(value, "run") and hasattr(value, "fn")]:
            monkeypatch.setattr(module, kernel, Nothing())

    def anything(*size: Any, **options: Any) -> Any:
        return (torch.rand if options["dtype"].is_floating_point else torch.zeros)(*size, **options)

    monkeypatch.setattr(torch, "empty", anything)
    monkeypatch.setattr(torch, "empty_like", lambda like: anything(like.shape, dtype=like.dtype))
    monkeypatch.setattr(torch.Tensor, "new_empty", lambda like, size: anything(size, dtype=like.dtype))
    for module_name in ("scotopic.pipelines.memory", "scotopic.backends.cuda.evidence"):
        monkeypatch.setattr(f"{module_name}.BAND_CELLS", 2**12)
    monkeypatch.setattr("scotopic.backends.cuda.matching.PAINTED_BYTES", 2**18)


@pytest.mark.parametrize("device", [CUDA])
@pytest.mark.skipif(not INTERPRETED, reason="a GPU counts by itself")
@pytest.mark.parametrize("channels", [1, 3])
@on_each_use
def test_the_tensors_of_a_match_take_no_more_than_was_planned(
    device: str, preset: str, options: dict[str, Any], channels: int, without_kernels: None
) -> None:
    from live_tensors import LiveTensors

    shape = (96, 128, channels)
    planned = needed_bytes(make_settings(preset, **options), shape) - PAINTED_BYTES + 2**18

    with LiveTensors() as tensors:
        scotopic.match(*picture_pair(shape), preset, device, **options)

    # Not for nothing, either: at full size a half of it is used, and at half size the volume is an eighth.
    assert planned / 8 < tensors.peak <= planned


@pytest.mark.parametrize("device", [pytest.param("cuda", marks=REAL_GPU)])
@pytest.mark.parametrize("shape", [(480, 640, 3), (900, 1200, 1), (900, 1200, 3)])
@on_each_use
def test_a_match_on_a_gpu_takes_no_more_than_was_planned(
    device: str, preset: str, options: dict[str, Any], shape: tuple[int, int, int]
) -> None:
    import torch

    planned, before = needed_bytes(make_settings(preset, **options), shape), torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()

    scotopic.match(*picture_pair(shape), preset, device, **options)

    assert torch.cuda.max_memory_allocated() - before <= planned
