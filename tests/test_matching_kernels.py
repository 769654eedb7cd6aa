"""The matching kernels of each device do what the reference says; the rest is held to loops and to cases by hand."""

import itertools
import math
from importlib import import_module

import numpy as np
import pytest
from agreement import assert_maps_agree
from devices import CUDA, DEVICES, REAL_GPU, on_devices, sized
from kernel_calls import Calls, on, threads
from pictures import draw_blocks
from reference_match import count_patches, reference_average, reference_check, reference_penalties, reference_scaled

from scotopic.result import Reason
from scotopic.settings import JunctionSettings, PatchMatchingSettings
from scotopic.stages.consistency import average_over_patches, check_views
from scotopic.stages.junctions.fit import Junctions
from scotopic.stages.junctions.geometry import distances, reconstruction, wedge_colors, wedges
from scotopic.stages.patch_costs import View, build_patch_costs, reference_patch_costs, scale_costs
from scotopic.stages.sgm import jump_penalties, reference_aggregate


@pytest.fixture(params=DEVICES)
def matching(request: pytest.FixtureRequest) -> Calls:
    """Each device."""
    return on(request.param)


def make_view(
    height: int, width: int, channels: int = 1, *, patch_size: int = 8, stride: int = 4, seed: int = 0
) -> View:
    """A view with random junctions and random maps: costs are defined for any, not only for a good fit."""
    settings = JunctionSettings(patch_size=patch_size, stride=stride)
    random = np.random.default_rng(seed)
    image = draw_blocks(height, width, channels, seed=seed, noise=0.2, side=12)
    plain = draw_blocks(height, width, channels, seed=seed + 100, noise=0.05, side=12)
    rows, columns = count_patches(image.shape, settings)
    parameters = np.concatenate(
        [random.uniform(-7, 7, (rows, columns, 3)), random.uniform(-1, 1, (rows, columns, 2))], axis=2
    )
    return View(image, Junctions(parameters, random.random((height, width), np.float32), plain, settings), plain)


@on_devices(
    "shape, grid, disparities, channels, symmetric, is_left",
    [
        (*case, channels, symmetric, is_left)
        for case, channels, symmetric, is_left in [
            *itertools.product(
                [
                    ((20, 28), (8, 4), (0, 9)),
                    ((23, 30), (8, 4), (-7, 6)),  # not whole patches
                    ((21, 33), (7, 3), (4, 33)),  # an odd patch, and partners beyond the image
                    ((25, 27), (9, 9), (-27, -20)),  # patches side by side, the last one mostly padding
                    ((12, 12), (12, 5), (-12, 12)),  # one patch, every possible disparity
                    ((18, 40), (8, 1), (3, 4)),  # one candidate
                ],
                (1, 3),
                (True, False),
                (True, False),
            ),
            # More candidates than a block of a GPU has.
            (((24, 300), (16, 8), (-20, 280)), 1, True, False),
            (((24, 300), (16, 8), (-20, 280)), 3, False, True),
        ]
    ],
    [
        ((8, 16), (8, 4), (0, 6), 3, True, True),
        ((8, 16), (8, 4), (-2, 5), 1, True, False),
        ((9, 14), (8, 4), (-3, 4), 1, False, True),  # not whole patches
        ((7, 19), (7, 3), (8, 19), 1, True, False),  # an odd patch, and partners beyond the image
        ((9, 12), (9, 9), (-12, -6), 3, False, False),  # patches side by side, the last one mostly padding
        ((9, 9), (9, 5), (-9, 9), 1, True, True),  # one patch, every possible disparity
        ((8, 9), (8, 1), (3, 4), 3, True, True),  # one candidate
    ],
)
def test_costs_equal_the_definition(
    device: str,
    shape: tuple[int, int],
    grid: tuple[int, int],
    disparities: tuple[int, int],
    channels: int,
    symmetric: bool,
    is_left: bool,
) -> None:
    view, other = (make_view(*shape, channels, patch_size=grid[0], stride=grid[1], seed=seed) for seed in (1, 2))
    settings = PatchMatchingSettings(min_disparity=disparities[0], max_disparity=disparities[1], symmetric=symmetric)
    expected = reference_patch_costs(view, other, settings, is_left=is_left)

    costs = on(device).run(build_patch_costs, view, other, settings, is_left=is_left)

    np.testing.assert_array_equal(costs == -1, expected == -1)
    assert_maps_agree(costs, expected, 2e-5)


def direct_cost(view: View, other: View, row: int, column: int, shift: int, weights: tuple[float, ...]) -> float:
    """Cost of one patch by loops over its pixels, the definition word for word; NaN where the cell is invalid."""
    size, stride = view.junctions.settings.patch_size, view.junctions.settings.stride
    top, left = row * stride, column * stride
    raw = view.image[top : top + size, left : left + size].astype(np.float64)
    u = wedges(*distances(view.junctions.parameters[row, column], size))
    own = reconstruction(u, wedge_colors(u, raw))
    errors = np.zeros(3)
    partners = 0
    for i, j in np.ndindex(size, size):
        x = left + j + shift
        if 0 <= x < other.image.shape[1]:
            partners += 1
            errors[0] += ((own[i, j] - other.image[top + i, x]) ** 2).mean()
            errors[1] += ((raw[i, j] - other.plain_map[top + i, x]) ** 2).mean()
            errors[2] += ((own[i, j] - other.plain_map[top + i, x]) ** 2).mean()
    if partners < size * size / 2:
        return math.nan
    return float(np.dot(weights, errors) / partners)


BY_HAND = [
    (PatchMatchingSettings(max_disparity=10), (1, 1, 2)),
    (PatchMatchingSettings(min_disparity=-9, max_disparity=-2, reconstruction_weight=0.5), (1, 1, 0.5)),
    (PatchMatchingSettings(max_disparity=6, reconstruction_weight=0.0), (1, 1, 0)),
    (PatchMatchingSettings(max_disparity=6, symmetric=False), (1, 0, 0)),
]


@on_devices(
    "settings, weights, is_left",
    [(*case, is_left) for case in BY_HAND for is_left in (True, False)],
    [(*case, is_left) for case, is_left in zip(BY_HAND[:2], (True, False), strict=True)],
)
def test_costs_equal_a_loop_over_the_pixels(
    device: str, settings: PatchMatchingSettings, weights: tuple[float, ...], is_left: bool
) -> None:
    view, other = (make_view(8, 24, 3, seed=seed) for seed in (3, 4))

    costs = on(device).run(build_patch_costs, view, other, settings, is_left=is_left)

    assert settings.max_disparity is not None
    assert costs.shape == (1, 5, settings.max_disparity - settings.min_disparity)
    for column, k in np.ndindex(costs.shape[1:]):
        d = settings.min_disparity + k
        expected = direct_cost(view, other, 0, column, -d if is_left else d, weights)
        assert costs[0, column, k] == pytest.approx(-1 if math.isnan(expected) else expected, abs=2e-5)


def test_a_shifted_view_costs_nothing_at_its_shift(matching: Calls) -> None:
    view = make_view(*sized(matching.device, (16, 40), (12, 28)), 1, seed=5)
    u = wedges(*distances(view.junctions.parameters, 8))
    # One patch, in place of the picture: its own reconstruction, shifted by 3, is all that the other view shows.
    patch = view.image[4:12, 16:24].astype(np.float64)
    painted = reconstruction(u[1, 4], wedge_colors(u[1, 4], patch))
    seen = np.full_like(view.image, 0.5)
    seen[4:12, 13:21] = painted
    settings = PatchMatchingSettings(max_disparity=8, symmetric=False)

    costs = matching.run(build_patch_costs, view, View(seen, view.junctions, seen), settings, is_left=True)

    assert costs[1, 4].argmin() == 3
    assert costs[1, 4, 3] == pytest.approx(0, abs=1e-6)
    assert costs[1, 4, [1, 2, 4, 5]].min() > 1e-4


def test_scaling_takes_the_smallest_cost_to_zero_and_one_and_a_half_times_the_largest_to_the_top(
    matching: Calls,
) -> None:
    volume = np.array([[[0.2, 0.6, -1.0], [1.0, 0.35, 0.9]]], np.float32)

    scaled = matching.run(scale_costs, volume, PatchMatchingSettings())

    # invalid = 1.5, so (cost - 0.2) / 1.3 * 1024, floored
    assert scaled.dtype == np.int16
    np.testing.assert_array_equal(scaled, [[[0, 315, 1024], [630, 118, 551]]])


def test_where_every_cell_is_valid_the_largest_cost_is_the_top(matching: Calls) -> None:
    scaled = matching.run(
        scale_costs, np.array([[[0.5, 1.0, 2.5]]], np.float32), PatchMatchingSettings(volume_range=100)
    )

    np.testing.assert_array_equal(scaled, [[[0, 25, 100]]])


@pytest.mark.parametrize("invalid", [0.0, 0.2])
def test_scaled_costs_are_the_same_integers_on_each_device(matching: Calls, invalid: float) -> None:
    random = np.random.default_rng(0)
    volume = random.exponential(0.1, (7, 20, 19)).astype(np.float32)
    volume[random.random(volume.shape) < invalid] = -1

    scaled = matching.run(scale_costs, volume, PatchMatchingSettings())

    np.testing.assert_array_equal(scaled, reference_scaled(volume, PatchMatchingSettings()))


@pytest.mark.parametrize("value", [-1.0, 0.0, 0.5])
def test_costs_that_are_all_alike_or_all_invalid_favor_nothing(matching: Calls, value: float) -> None:
    np.testing.assert_array_equal(
        matching.run(scale_costs, np.full((2, 3, 4), value, np.float32), PatchMatchingSettings()), 0
    )


@on_devices(
    "shape, p1",
    itertools.product(
        [(5, 7, 9), (1, 6, 4), (6, 1, 4), (1, 1, 5), (4, 5, 1), (3, 8, 2), (9, 4, 33), (8, 9, 300)], [0, 20, 700]
    ),
    [((3, 4, 9), 20), ((1, 6, 4), 0), ((6, 1, 4), 700), ((1, 1, 5), 20), ((2, 3, 1), 20), ((3, 2, 33), 20)],
)
def test_path_costs_equal_the_definition_exactly(device: str, shape: tuple[int, int, int], p1: int) -> None:
    random = np.random.default_rng(shape[0])
    volume = random.integers(0, 1025, shape).astype(np.int16)
    penalties = random.integers(50, 201, shape[:2]).astype(np.int32)

    total = on(device).aggregate(volume, penalties, p1)

    np.testing.assert_array_equal(total, reference_aggregate(volume, penalties, p1))


def test_the_largest_costs_and_penalties_do_not_overflow(matching: Calls) -> None:
    random = np.random.default_rng(0)
    shape = sized(matching.device, (40, 3, 6), (12, 2, 4))
    volume = random.choice(np.array([0, 32767], np.int16), shape)
    penalties = np.full(shape[:2], 1_000_000, np.int32)

    total = matching.aggregate(volume, penalties, 1_000_000)

    np.testing.assert_array_equal(total, reference_aggregate(volume, penalties, 1_000_000))


def test_path_costs_of_two_patches_by_hand(matching: Calls) -> None:
    volume = np.array([[[0, 100, 300, 300], [300, 300, 300, 0]]], np.int16)
    penalties = np.array([[60, 30]], np.int32)

    total = matching.aggregate(volume, penalties, 20)

    # Six of eight directions bring nothing. To the second patch: stay, one step for 20 more, or jump for P2 of the
    # first, 60: 0, 20, 60, 60. To the first one: jump for P2 of the second, 30, cheaper than two steps: 30, 30, 20, 0.
    np.testing.assert_array_equal(total, 8 * volume.astype(np.int32) + [[[30, 30, 20, 0], [0, 20, 60, 60]]])


def test_paths_run_along_all_eight_directions(matching: Calls) -> None:
    # A middle patch without an opinion takes that of its neighbors: each adds its path to it.
    for neighbor in [(0, 0), (0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1), (2, 2)]:
        volume = np.zeros((3, 3, 8), np.int16)
        volume[neighbor] = [900, 900, 900, 0, 900, 900, 900, 900]

        total = matching.aggregate(volume, np.full((3, 3), 50, np.int32), 20)

        np.testing.assert_array_equal(total[1, 1], [50, 50, 20, 0, 20, 50, 50, 50])


def test_the_lowest_sum_is_selected_the_first_on_a_tie_with_its_margin_over_distant_rivals(matching: Calls) -> None:
    total = np.array([[[9, 4, 5, 7, 4], [3, 1, 2, 8, 6], [1, 1, 1, 1, 1]]], np.int32)

    index, margin = matching.select(total)

    np.testing.assert_array_equal(index, [[1, 1, 0]])
    np.testing.assert_array_equal(margin, [[0, 5, 0]])  # rivals two or more away: 4 (the tie), 6, 1


@pytest.mark.parametrize("candidates", [3, 32, 33, 150])
def test_selection_is_that_of_a_loop(matching: Calls, candidates: int) -> None:
    total = np.random.default_rng(candidates).integers(0, 300, (3, 4, candidates)).astype(np.int32)

    index, margin = matching.select(total)

    for i, j in np.ndindex(3, 4):
        best = int(total[i, j].argmin())
        rivals = [total[i, j, k] for k in range(candidates) if abs(k - best) > 1]
        assert index[i, j] == best
        assert margin[i, j] == (min(rivals) - total[i, j, best] if rivals else 0)


@pytest.mark.parametrize("candidates", [1, 2])
def test_without_distant_rivals_the_margin_is_nothing(matching: Calls, candidates: int) -> None:
    total = np.arange(candidates, dtype=np.int32).reshape(1, 1, -1)

    index, margin = matching.select(total)

    assert (index.item(), margin.item()) == (0, 0)


@pytest.mark.parametrize("grid", [(8, 4), (7, 7), (9, 2)])
def test_a_jump_costs_less_the_stronger_the_boundary_in_the_patch(matching: Calls, grid: tuple[int, int]) -> None:
    junctions = make_view(22, 31, patch_size=grid[0], stride=grid[1], seed=6).junctions
    junctions.boundary_map[:] **= 20  # mostly weak
    junctions.boundary_map[:9, :9] = 0  # and none at all in the first patch

    penalties = matching.run(jump_penalties, junctions, PatchMatchingSettings())

    np.testing.assert_array_equal(penalties, reference_penalties(junctions, PatchMatchingSettings()))
    assert penalties[0, 0] == 200
    assert len(np.unique(penalties)) > 4


def test_a_jump_costs_p2_everywhere_when_it_is_fixed_and_never_less_than_its_floor(matching: Calls) -> None:
    junctions = make_view(20, 20, seed=6).junctions
    junctions.boundary_map[:] = 1

    for options, expected in (
        ({"adaptive_p2": False}, 200),
        ({}, 50),  # 200 e^-2 = 27
        ({"p2_min": 0}, 27),
        ({"p2": 400, "p2_decay": 1.0}, 147),
    ):
        penalties = matching.run(jump_penalties, junctions, PatchMatchingSettings(**options))
        np.testing.assert_array_equal(penalties, expected)


@pytest.mark.parametrize(
    ("shape", "grid"),
    [((20, 28), (8, 4)), ((23, 30), (8, 4)), ((21, 33), (7, 3)), ((9, 20), (9, 9)), ((10, 11), (5, 1))],
)
def test_a_pixel_gets_the_mean_of_the_patches_that_contain_it(
    matching: Calls, shape: tuple[int, int], grid: tuple[int, int]
) -> None:
    settings = JunctionSettings(patch_size=grid[0], stride=grid[1])
    values = np.random.default_rng(0).integers(-20, 100, count_patches(shape, settings))

    pixels = matching.run(average_over_patches, values, shape, settings)

    assert_maps_agree(pixels, reference_average(values, shape, settings), 1e-5)


class TestCheckOfViews:
    """One row of eight pixels; a disparity of 2 in both views, structure everywhere, unless a test says otherwise."""

    @pytest.fixture(autouse=True)
    def _take(self, matching: Calls) -> None:
        self.matching = matching

    def check(self, **changes: object) -> tuple[list[Reason], np.ndarray]:
        maps = {
            "left": [2.0] * 8, "right": [2.0] * 8, "margin": [1000.0] * 8, "left_boundaries": [0.5] * 8,
            "right_boundaries": [0.5] * 8,
        }  # fmt: skip
        settings = {name: value for name, value in changes.items() if name not in maps}
        maps.update({name: value for name, value in changes.items() if name in maps})  # type: ignore[misc]
        rows = {name: np.array([values], np.float32) for name, values in maps.items()}
        result = self.matching.run(check_views, *rows.values(), PatchMatchingSettings(**settings))  # type: ignore[arg-type]
        assert result.reason.dtype == np.uint8
        assert result.confidence.dtype == result.disparity.dtype == np.float32
        np.testing.assert_array_equal(result.disparity, np.where(result.reason == Reason.OK, rows["left"], np.nan))
        return [Reason(int(code)) for code in result.reason[0]], result.confidence[0]

    def test_views_that_agree_are_kept_also_at_the_side_where_the_partner_column_is_clamped(self) -> None:
        assert self.check()[0] == [Reason.OK] * 8

    def test_a_boundary_at_the_threshold_is_no_structure(self) -> None:
        reasons, _ = self.check(left_boundaries=[0.0, 0.125, 0.126, 1, 1, 1, 1, 1], boundary_threshold=0.125)

        assert reasons == [Reason.NO_STRUCTURE] * 2 + [Reason.OK] * 6

    def test_a_difference_at_the_threshold_is_a_mismatch(self) -> None:
        # Pixels 4 and 5 look at columns 2 and 3 of the right view.
        reasons, _ = self.check(right=[2, 2, 3, 2.9, 2, 2, 2, 2])

        assert reasons == [Reason.OK] * 4 + [Reason.LEFT_RIGHT] + [Reason.OK] * 3

    def test_a_mismatch_outside_the_right_image_is_out_of_view(self) -> None:
        # Pixels 0 and 1 land at -2 and -1, outside; 2 lands on column 0. All three read the clamped column 0.
        reasons, _ = self.check(right=[9, 2, 2, 2, 2, 2, 2, 2])

        assert reasons == [Reason.OUT_OF_VIEW] * 2 + [Reason.LEFT_RIGHT] + [Reason.OK] * 5

    def test_negative_disparities_leave_on_the_other_side(self) -> None:
        reasons, _ = self.check(left=[-2] * 8, right=[-2] * 7 + [-9], min_disparity=-10)

        # Pixel 5 lands on column 7; 6 and 7 land beyond it.
        assert reasons == [Reason.OK] * 5 + [Reason.LEFT_RIGHT] + [Reason.OUT_OF_VIEW] * 2

    def test_the_target_column_is_truncated_not_rounded(self) -> None:
        # From 4 by 1.25 to 2.75: column 2, not 3.
        right = [9, 9, 1.25, 9, 9, 9, 9, 9]

        reasons, _ = self.check(left=[1.25] * 8, right=right)

        assert reasons[4] == Reason.OK
        assert reasons[5] == Reason.LEFT_RIGHT

    def test_the_right_boundary_is_asked_for_only_with_mask_right_and_at_the_partner(self) -> None:
        right_boundaries = [1, 1, 1, 0.1, 1, 1, 1, 1]  # the partner of pixel 5

        assert self.check(right_boundaries=right_boundaries)[0] == [Reason.OK] * 8
        assert self.check(right_boundaries=right_boundaries, mask_right=True)[0] == (
            [Reason.OK] * 5 + [Reason.NO_STRUCTURE_RIGHT] + [Reason.OK] * 2
        )

    def test_low_confidence_is_ambiguous_when_asked_for(self) -> None:
        margin = [1000, 1000, 1000, 5, 1000, 1000, 1000, 1000]  # 1 - exp(-5 / 160) = 0.03

        assert self.check(margin=margin)[0] == [Reason.OK] * 8
        assert self.check(margin=margin, min_confidence=0.5)[0] == (
            [Reason.OK] * 3 + [Reason.AMBIGUOUS] + [Reason.OK] * 4
        )

    def test_no_structure_comes_before_a_mismatch_and_a_mismatch_before_the_rest(self) -> None:
        everything = {
            "margin": [0] * 8, "right": [2, 2, 2, 9, 9, 2, 2, 2], "right_boundaries": [0] * 8, "mask_right": True,
            "min_confidence": 0.5, "left_boundaries": [1, 1, 1, 1, 1, 0, 1, 1],
        }  # fmt: skip

        reasons, _ = self.check(**everything)

        assert reasons[5] == Reason.NO_STRUCTURE  # also a mismatch
        assert reasons[6] == Reason.LEFT_RIGHT  # also no structure on the right
        assert reasons[7] == Reason.NO_STRUCTURE_RIGHT  # also ambiguous

    def test_confidence_is_the_margin_in_steps_of_p1_times_the_agreement(self) -> None:
        _, confidence = self.check(
            margin=[0, 160, 160, 160, 320, 80, 1e6, 160], right=[2, 2, 2.5, 5, 2, 2, 2, 2], p1=20
        )

        clarity = [1 - math.exp(-m / 160) for m in (0, 160, 160, 160, 320, 80, 1e6, 160)]
        difference = [0, 0, 0, 0, 0.5, 3, 0, 0]
        expected = [c * math.exp(-d) for c, d in zip(clarity, difference, strict=True)]
        assert_maps_agree(confidence, expected, 1e-6)

    @pytest.mark.parametrize("p1", [0, 20])
    def test_confidence_stays_between_nothing_and_one(self, p1: int) -> None:
        random = np.random.default_rng(0)
        left, right = random.uniform(-30, 30, (2, 16, 40)).astype(np.float32)
        margin = (random.exponential(300, (16, 40)) * (random.random((16, 40)) > 0.2)).astype(np.float32)
        boundaries = random.random((2, 16, 40), np.float32)

        confidence = self.matching.run(
            check_views, left, right, margin, *boundaries, PatchMatchingSettings(min_disparity=-30, p1=p1)
        ).confidence

        assert 0 <= confidence.min() < 0.01
        assert 0.1 < confidence.max() <= 1

    @pytest.mark.parametrize("mask_right", [False, True])
    @pytest.mark.parametrize("min_confidence", [0.0, 0.3])
    def test_every_device_keeps_the_same_pixels(self, mask_right: bool, min_confidence: float) -> None:
        random = np.random.default_rng(1)
        left = random.uniform(-6, 25, (15, 40)).astype(np.float32)
        right = (np.median(left) + random.normal(0, 4, (15, 40))).astype(np.float32)
        margin = random.exponential(300, (15, 40)).astype(np.float32)
        boundaries = random.random((2, 15, 40), np.float32)
        settings = PatchMatchingSettings(
            min_disparity=-6, left_right_threshold=4.0, boundary_threshold=0.3, mask_right=mask_right,
            min_confidence=min_confidence,
        )  # fmt: skip
        expected = reference_check(left, right, margin, *boundaries, settings)

        found = self.matching.run(check_views, left, right, margin, *boundaries, settings)

        assert len(np.unique(expected.reason)) == 4 + mask_right + (min_confidence > 0)  # every reason that there is
        np.testing.assert_array_equal(found.reason, expected.reason)
        np.testing.assert_array_equal(found.disparity, expected.disparity)
        assert_maps_agree(found.confidence, expected.confidence, 1e-6)


def run_a_while(matching: Calls, shape: tuple[int, int]) -> list[bytes]:
    """Costs, path costs and selection; returns all that they give, bit by bit."""
    views = [make_view(*shape, 3, seed=seed) for seed in (7, 8)]
    settings = PatchMatchingSettings(max_disparity=20)
    costs = matching.run(build_patch_costs, *views, settings, is_left=True)
    penalties = matching.run(jump_penalties, views[0].junctions, settings)
    total = matching.aggregate(matching.run(scale_costs, costs, settings), penalties, settings.p1)
    return [a.tobytes() for a in (costs, total, *matching.select(total))]


def test_one_thread_and_two_give_the_same_bits() -> None:
    found = []
    for count in (1, 2, 2):
        with threads(count):
            found.append(run_a_while(on("cpu"), (40, 64)))

    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("device", [pytest.param("cuda", marks=REAL_GPU)])
def test_runs_on_a_gpu_give_the_same_bits(device: str) -> None:
    runs = [run_a_while(on(device), (240, 320)) for _ in range(4)]

    assert all(run == runs[0] for run in runs)


@pytest.mark.parametrize("device", [CUDA])
def test_patches_painted_some_at_a_time_and_candidates_in_blocks_cost_the_same(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    matching, settings = on(device), PatchMatchingSettings(min_disparity=-2, max_disparity=5)
    views = [make_view(8, 16, 3, seed=seed) for seed in (7, 8)]
    at_once = matching.run(build_patch_costs, *views, settings, is_left=True)
    gpu = import_module("scotopic.backends.cuda.matching")
    monkeypatch.setattr(gpu, "PAINTED_BYTES", 2 * 8 * 3 * 8 * 8)  # two patches of three
    monkeypatch.setitem(gpu.COSTS, "BLOCK", 4)  # seven candidates are two blocks, the second one not full

    by_parts = matching.run(build_patch_costs, *views, settings, is_left=True)

    np.testing.assert_array_equal(by_parts, at_once)
