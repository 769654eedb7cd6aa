"""The match of a picture inside its edges: what each part knows by itself."""

from __future__ import annotations

import numpy as np
import pytest
from devices import DEVICES, sized
from kernel_calls import Calls, on

from scotopic.backends import cpu_backend
from scotopic.settings import InnerMatchSettings, make_settings
from scotopic.stages.color_costs import build_color_volume
from scotopic.stages.confidence import weigh_margin
from scotopic.stages.consistency import lr_difference
from scotopic.stages.inner_match import (
    InnerMatch,
    cut_penalties,
    mean_margin,
    mix_margins,
    prepare_inner_match,
    reference_cut_penalties,
    solve_inside,
)
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

    found = mean_margin(margin, inner, InnerMatchSettings(inner_share=0.25))

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

    inside = [
        solve_inside(backend, each, settings)[1]
        for each in prepare_inner_match(backend, volume, (left, right), 0.1**2, settings)
    ]
    inner = weigh_margin(
        backend, inside[0].margin, lr_difference(backend, inside[0].disparity, inside[1].disparity), settings.score
    )

    middle, around = np.s_[32:40, 52:60], np.s_[4:20, 40:72]
    assert np.abs(solved[0][0][middle] - near).max() < 1  # the wall takes the disparity of the thing
    ordinary, cut = (np.median(each[middle]) / np.median(each[around]) for each in (margin, inner))
    assert ordinary > 0.4
    assert cut < ordinary / 2


def costs_of_one_disparity(wanted: int, slope: float, shape: tuple[int, int] = (3, 12)) -> np.ndarray:
    costs = slope * np.abs(np.arange(8) - wanted).astype(np.float32)
    return np.ascontiguousarray(np.broadcast_to(costs[:, None, None], (8, *shape)))


def test_the_match_with_the_larger_costs_decides_and_its_weight_counts(there: Calls) -> None:
    # One match costs |d - 2| for each pixel, the other 1.5 |d - 5|; nothing is to be paid for a change. The sum is
    # least at 5, and with half of the weight, .75 |d - 5|, at 2.
    free, uniform = np.zeros((3, 12), np.int32), np.full((3, 12, 3), 0.5, np.float32)

    def match(backend, volume, inner, penalties, image, weight):  # type: ignore[no-untyped-def]
        settings = make_settings("best", p1=0, p2=0, max_disparity=8, cost_steps=4, inner_weight=weight)
        costs = prepare_inner_match(backend, inner, (image, image), 1.0, settings)
        begun, _ = solve_inside(backend, costs[0], settings)
        return solve_pixels(backend, volume, settings, penalties, is_left=True, begun=begun)[0]

    volume, inner = costs_of_one_disparity(2, 1.0), costs_of_one_disparity(5, 1.5)
    for weight, expected in ((1.0, 5), (0.5, 2)):
        found = there.run(match, volume.copy(), inner.copy(), free, uniform, weight)
        np.testing.assert_array_equal(np.floor(found + 0.5), expected)


def test_the_margin_inside_edges_does_not_depend_on_the_weight(there: Calls) -> None:
    def margin(backend, inner, image, weight):  # type: ignore[no-untyped-def]
        settings = make_settings("best", p1=0, p2=0, max_disparity=8, cost_steps=4, inner_weight=weight)
        costs = prepare_inner_match(backend, inner, (image, image), 1.0, settings)
        return solve_inside(backend, costs[0], settings)[1].margin

    inner, image = costs_of_one_disparity(5, 1.5), np.full((3, 12, 3), 0.5, np.float32)
    for weight in (0.5, 2.0):
        # The next rival is two candidates away, 3 more for each of eight paths.
        np.testing.assert_allclose(there.run(margin, inner.copy(), image, weight), 8 * 3)


def test_without_weight_there_is_no_second_match() -> None:
    backend, image = cpu_backend(), np.full((3, 12, 3), 0.5, np.float32)
    settings = make_settings("best", max_disparity=8, inner_weight=0)

    assert prepare_inner_match(backend, costs_of_one_disparity(5, 1.5), (image, image), 1.0, settings) == []


def test_what_the_views_disagree_on_inside_edges_counts_less() -> None:
    backend, settings = cpu_backend(), make_settings("best", inner_share=1.0, lr_slack=0.5)
    margin, level = np.full((1, 9), 4, np.float32), np.full((1, 9), 2, np.float32)
    left, right = InnerMatch(level, margin), InnerMatch(level + np.float32(1.5), margin)

    found = mix_margins(backend, margin, left, right, settings)

    np.testing.assert_allclose(found[0, 3:8], 4 * np.exp(-1.0), rtol=1e-5)  # 1.5 px less the slack of 0.5
