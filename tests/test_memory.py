"""GPU memory is planned before it is asked for."""

from dataclasses import replace

import pytest

from scotopic.errors import DeviceError
from scotopic.pipelines.memory import PAINTED_BYTES, SMALLEST_TILE, fitted, pair_bytes, tile_bytes
from scotopic.settings import Settings, make_settings

LARGE = (3000, 4000, 3)


def needed_bytes(settings: Settings, shape: tuple[int, int, int] = LARGE) -> int:
    return pair_bytes(settings, shape) + tile_bytes(settings.junctions, shape) + PAINTED_BYTES


def test_a_pair_needs_at_least_what_its_arrays_hold() -> None:
    settings = make_settings("fast", max_disparity=256)
    height, width, channels = LARGE
    # Both views: image, color map and plain map of all channels, boundary map; and the scaled and summed costs.
    maps = 2 * 4 * height * width * (3 * channels + 1)
    patches = ((height - 40) // 8 + 1) * ((width - 40) // 8 + 1)

    assert pair_bytes(settings, LARGE) > maps + 6 * 256 * patches


@pytest.mark.parametrize("change", [{"max_disparity": 64}, {"stride": 16}])
def test_less_is_needed_for_fewer_candidates_or_patches(change: dict[str, int]) -> None:
    assert needed_bytes(make_settings("fast", **{"max_disparity": 256, **change})) < needed_bytes(
        make_settings("fast", max_disparity=256)
    )


def test_settings_that_fit_stay_as_they_are() -> None:
    settings = make_settings("paper", max_disparity=256)

    assert fitted(settings, LARGE, free=needed_bytes(settings)) == settings


def test_tiles_shrink_until_they_fit() -> None:
    settings = make_settings("paper", max_disparity=256)

    smaller = fitted(settings, LARGE, free=needed_bytes(settings) - 1)

    assert smaller.junctions.tile < settings.junctions.tile
    assert needed_bytes(smaller) < needed_bytes(settings)
    assert replace(smaller, junctions=settings.junctions) == settings  # nothing else changes


def test_when_the_smallest_tile_does_not_fit_it_is_said_before_the_work() -> None:
    settings = make_settings("paper", max_disparity=256)
    least = needed_bytes(replace(settings, junctions=replace(settings.junctions, tile=SMALLEST_TILE)))

    assert fitted(settings, LARGE, free=least).junctions.tile == SMALLEST_TILE
    with pytest.raises(DeviceError, match=r"GPU memory: found \d+ MiB.*at least \d+ MiB.*4000 x 3000.*max_disparity"):
        fitted(settings, LARGE, free=least - 1)
