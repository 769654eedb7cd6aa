"""The margin that a part of the picture has by itself, cut off at its edges."""

from __future__ import annotations

import numpy as np
import pytest
from devices import DEVICES, sized
from kernel_calls import Calls, on

from scotopic.backends import cpu_backend
from scotopic.settings import ScoreSettings, make_settings
from scotopic.stages.color_costs import build_color_volume
from scotopic.stages.confidence import weigh_margin
from scotopic.stages.consistency import lr_difference
from scotopic.stages.inner_margin import cut_penalties, measure_inner_margin, mix_margins, reference_cut_penalties
from scotopic.stages.sgm import solve_pixels, uniform_penalties

random = np.random.default_rng


@pytest.fixture(params=DEVICES)
def there(request: pytest.FixtureRequest) -> Calls:
    """Each device."""
    return on(request.param)


class TestPenalties:
    @pytest.mark.parametrize("channels", [1, 3])
    def test_they_are_the_definition(self, there: Calls, channels: int) -> None:
        images = random(0).random((2, *sized(there.device, (23, 31), (9, 12)), channels), np.float32)

        found = there.run(cut_penalties, list(images), 1040, 0.1)

        for penalties, image in zip(found, images, strict=True):
            assert penalties.dtype == np.int32
            expected = reference_cut_penalties(image.astype(np.float64), 1040, 0.1)
            np.testing.assert_allclose(penalties, expected, atol=1)  # rounded down, so that the last place may differ

    def test_a_jump_costs_half_at_the_contrast_all_of_it_far_below_and_nothing_far_above(self, there: Calls) -> None:
        # A ramp rises by as much from pixel to pixel, whatever the blur.
        ramps = [np.broadcast_to(step * np.arange(40, dtype=np.float32)[None, :, None], (12, 40, 3)) for step in (1, 9)]

        half, none = there.run(cut_penalties, [ramp.copy() for ramp in ramps], 1040, 1.0)
        full, _ = there.run(cut_penalties, [ramps[0] / 9, ramps[0]], 1040, 1.0)

        middle = np.s_[4:8, 10:30]
        np.testing.assert_allclose(half[middle], 520, atol=1)
        assert (none[middle] <= 1).all()
        assert (full[middle] >= 1039).all()


def test_margins_are_mixed_as_a_geometric_mean() -> None:
    margin, inner = np.float32([[1, 4, 9, 5]]), np.float32([[16, 4, 1, 0]])

    found = mix_margins(margin, inner, ScoreSettings(inner_share=0.25))

    np.testing.assert_allclose(found, [[16**0.25, 4, 9**0.75, 0]], rtol=1e-5)


def test_a_plain_part_is_not_sure_of_the_disparity_of_what_encloses_it() -> None:
    # A near thing of many colors with an arm above and one below; between them a plain white wall that goes on beyond
    # the picture. Its own edge says that it is no nearer than the thing, and no more.
    backend, near, hole = cpu_backend(), 8, np.s_[24:48, 40:]
    colors = 0.7 * np.repeat(np.repeat(random(3).random((18, 30, 3), np.float32), 4, axis=0), 4, axis=1)
    colors[hole] = 1.0
    left, right = colors[:, :-near], colors[:, near:]
    settings = make_settings("best", max_disparity=16)
    volume = build_color_volume(backend, (left, right), 0.1**2, range(16), settings.colors)
    solved = [
        solve_pixels(backend, volume, settings, uniform_penalties(backend, left, settings.matching.p2), is_left=is_left)
        for is_left in (True, False)
    ]
    margin = weigh_margin(backend, solved[0][1], lr_difference(backend, solved[0][0], solved[1][0]), settings.score)

    inner = measure_inner_margin(backend, (left, right), 0.1**2, settings)
    assert inner is not None

    middle, around = np.s_[32:40, 52:60], np.s_[4:20, 40:72]
    assert np.abs(solved[0][0][middle] - near).max() < 1  # the wall takes the disparity of the thing
    ordinary, cut = (np.median(each[middle]) / np.median(each[around]) for each in (margin, inner))
    assert ordinary > 0.4
    assert cut < ordinary / 2
