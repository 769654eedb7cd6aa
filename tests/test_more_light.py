"""More light never gives a worse answer, also in small crops that have texture everywhere."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from reference_data import data_folder

import scotopic
from scotopic.backends import cpu_backend
from scotopic.io import as_image, read_disparity
from scotopic.settings import EvidenceMatchingSettings, make_settings
from scotopic.stages.noise import drop_equal_channels, estimate_noise
from scotopic.stages.resolution import SnrEstimate, choose_size, estimate_snr

LIGHT = (1, 2, 5, 10, 20, 30, 50, 100)  # photons at white
CROPS = ((0, 330), (75, 110), (150, 220))  # row and column of the corner; 300 x 200 px each

Image = NDArray[np.float32]


@cache
def crop(corner: tuple[int, int], is_gray: bool) -> tuple[Image, Image, Image]:
    """Left, right and true disparity of a part of Motorcycle."""
    folder = data_folder() / "data" / "middlebury2014_q" / "Motorcycle"
    rows, columns = (slice(start, start + size) for start, size in zip(corner, (200, 300), strict=True))
    left, right = (as_image(folder / name, name)[rows, columns] for name in ("im0.png", "im1.png"))
    if is_gray:
        left, right = (view.mean(axis=2, keepdims=True) for view in (left, right))
    return left, right, read_disparity(folder / "disp0.pfm")[rows, columns]


def estimate(pair: tuple[Image, Image], settings: EvidenceMatchingSettings) -> SnrEstimate:
    backend = cpu_backend()
    views = drop_equal_channels(backend, [as_image(view, "view") for view in pair])
    noise = estimate_noise(backend, views, settings.noise)
    return estimate_snr(backend, [noise.stabilize(view) for view in views], noise.variance, settings)


@pytest.mark.reference
@pytest.mark.parametrize("is_gray", [True, False], ids=["gray", "color"])
@pytest.mark.parametrize("corner", CROPS)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_estimate_rises_with_light_and_the_working_size_never_flips_back(
    corner: tuple[int, int], is_gray: bool, seed: int
) -> None:
    settings = make_settings("best", max_disparity=64)
    assert isinstance(settings, EvidenceMatchingSettings)
    left, right, _ = crop(corner, is_gray)

    found = [estimate(scotopic.simulate_pair(left, right, photons, 2, seed=seed), settings) for photons in LIGHT]

    for one, other in pairwise(found):
        assert other.image_snr >= 0.95 * one.image_snr - 0.02  # the seed's share
        assert other.band_snr >= 0.95 * one.band_snr - 0.02
    # Fewer pixels that become one: a finer answer.
    sizes = [choose_size(left.shape[:2], each, settings) for each in found]
    assert sizes == sorted(sizes, reverse=True)
    assert [each.has_clear_pixels for each in found] == sorted(each.has_clear_pixels for each in found)


@pytest.mark.reference
def test_the_error_does_not_rise_with_light() -> None:
    left, right, truth = crop((0, 330), True)
    visible = np.isfinite(truth) & (np.arange(truth.shape[1]) >= truth)

    wrong = []
    for photons in (10, 40):
        pair = scotopic.simulate_pair(left, right, photons, 2, seed=0)
        found = scotopic.match(*pair, max_disparity=64, device="cpu")
        wrong.append((np.abs(found.disparity_all - truth)[visible] > 1).mean())

    assert wrong[1] < wrong[0] + 0.02
