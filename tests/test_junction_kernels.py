"""The junction kernels of each device do what the reference in NumPy says, and the same with any number of threads."""

import numpy as np
import pytest
from agreement import assert_maps_agree
from kernel_calls import DEVICES, FieldState, threads
from pictures import as_planes, cut_patches, draw_blocks

from scotopic.junctions.geometry import boundary, distances, objective, reconstruction, wedge_colours, wedges
from scotopic.settings import JunctionSettings

GRIDS = [(40, 8), (20, 4), (21, 5), (12, 12)]  # patch size and stride
NO_WEIGHTS, WEIGHTS = (0.0, 0.0), (0.4, 0.08)  # lb and lc

pytestmark = pytest.mark.parametrize("device", DEVICES)


def make_field(
    device: str, grid: tuple[int, int], channels: int = 1, rows: int = 3, columns: int = 4, seed: int = 0
) -> FieldState:
    """A noisy picture of so many patches, with junctions at rest."""
    size, stride = grid
    picture = draw_blocks(
        size + (rows - 1) * stride, size + (columns - 1) * stride, channels, seed=seed, noise=0.1, side=size
    )
    return FieldState.at_rest(device, as_planes(picture), JunctionSettings(patch_size=size, stride=stride))


def disturb(field: FieldState, seed: int = 0) -> FieldState:
    """Put random junctions in the field, and random global maps."""
    random = np.random.default_rng(seed)
    field.parameters[..., :3] = random.uniform(-7, 7, field.parameters[..., :3].shape)
    field.parameters[..., 3:] = random.uniform(-0.8, 0.8, field.parameters[..., 3:].shape)
    field.boundary_map[:] = random.random(field.boundary_map.shape) ** 3
    field.colour_map[:] = np.clip(field.planes + random.normal(0, 0.1, field.planes.shape), 0, 1)
    return field


def patch_objective(
    field: FieldState, parameters: np.ndarray, boundary_weight: float, colour_weight: float
) -> np.ndarray:
    """The reference's objective of every patch, for parameters ``(..., rows, columns, 5)``."""
    size, stride = field.settings.patch_size, field.settings.stride
    return objective(
        parameters,
        cut_patches(field.planes, size, stride),
        cut_patches(field.boundary_map[None], size, stride)[..., 0],
        cut_patches(field.colour_map, size, stride),
        boundary_weight,
        colour_weight,
    )


def reference_search_step(field: FieldState, boundary_weight: float, colour_weight: float) -> np.ndarray:
    """METHOD section 1, "Search step", in plain words: returns the parameters after it."""
    angle_offsets, vertex_offsets = 2 * np.pi * np.arange(31) / 31, np.linspace(-3, 3, 31)
    best = field.parameters.copy()

    def keep_best(trials: np.ndarray) -> np.ndarray:
        values = patch_objective(field, trials, boundary_weight, colour_weight)
        first_lowest = values.argmin(axis=0)[None, ..., None]
        return np.take_along_axis(trials, first_lowest, axis=0)[0]

    for k in range(5):
        trials = np.repeat(best[None], 31, axis=0)
        trials[..., k] += (angle_offsets if k < 3 else vertex_offsets)[:, None, None]
        best = keep_best(trials)
    for k in range(3):
        trials = np.repeat(best[None], 31, axis=0)
        trials[..., 3] += np.cos(best[..., k]) * vertex_offsets[:, None, None]
        trials[..., 4] += np.sin(best[..., k]) * vertex_offsets[:, None, None]
        best = keep_best(trials)
    return best


def assert_steps_agree(
    field: FieldState, actual: np.ndarray, expected: np.ndarray, weights: tuple[float, float] = NO_WEIGHTS
) -> None:
    """Nearly all patches reach the same junction; the others, at a near tie in float32, one that is as good."""
    apart = np.abs(actual - expected).max(axis=-1)
    assert_maps_agree(apart, np.zeros_like(apart), 1e-9, outliers=0.1)
    reached, lowest = (patch_objective(field, parameters, *weights) for parameters in (actual, expected))
    assert_maps_agree(reached / lowest, np.ones_like(lowest), 2e-3)


@pytest.mark.parametrize("weights", [NO_WEIGHTS, WEIGHTS], ids=["data term", "all terms"])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("grid", GRIDS)
def test_search_steps_go_where_plain_coordinate_descent_goes(
    device: str, grid: tuple[int, int], channels: int, weights: tuple[float, float]
) -> None:
    field = make_field(device, grid, channels)
    if weights != NO_WEIGHTS:
        disturb(field)

    for _ in range(2):
        expected = reference_search_step(field, *weights)
        field.search(*weights)
        assert_steps_agree(field, field.parameters, expected, weights)
        field.parameters[:] = expected


def test_of_equal_candidates_the_first_is_kept(device: str) -> None:
    planes = np.full((1, 16, 16), 0.5, np.float32)
    field = FieldState.at_rest(device, planes, JunctionSettings(patch_size=16, stride=8))

    field.search()

    # In a patch of one colour every candidate fits. The first angle offset is 0; the first vertex offset is -3, taken
    # for x0, for y0, and along each of the three angles, all of which point along x.
    np.testing.assert_array_equal(field.parameters, [[[0, 0, 0, -3 - 3 * 3, -3]]])


def test_a_search_step_touches_the_active_patches_only_and_says_which_moved(device: str) -> None:
    field, everyone = (make_field(device, (20, 4)) for _ in range(2))
    everyone.search()
    active = np.array([1, 4, 6, 11])

    moved = field.search(active=active)

    flat, flat_everyone = field.parameters.reshape(-1, 5), everyone.parameters.reshape(-1, 5)
    np.testing.assert_array_equal(flat[active], flat_everyone[active])
    assert (np.delete(flat, active, axis=0) == 0).all()
    np.testing.assert_array_equal(moved, (flat[active] != 0).any(axis=1))
    for _ in range(30):
        moved = field.search(active=active)
    np.testing.assert_array_equal(moved, [False] * 4)


def finite_differences(field: FieldState, weights: tuple[float, float], width: float = 1e-5) -> np.ndarray:
    """Central differences of the reference's objective by the five parameters of each patch."""
    slopes = np.empty_like(field.parameters)
    for k in range(5):
        values = []
        for sign in (1, -1):
            shifted = field.parameters.copy()
            shifted[..., k] += sign * width
            values.append(patch_objective(field, shifted, *weights))
        slopes[..., k] = (values[0] - values[1]) / (2 * width)
    return slopes


@pytest.mark.parametrize("weights", [NO_WEIGHTS, (0.5, 0.0), (0.0, 0.1), WEIGHTS], ids=["data", "lb", "lc", "all"])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("grid", GRIDS)
def test_the_analytic_gradient_is_that_of_finite_differences(
    device: str, grid: tuple[int, int], channels: int, weights: tuple[float, float]
) -> None:
    field = disturb(make_field(device, grid, channels, 6, 6), seed=channels)
    expected = finite_differences(field, weights)

    field.sweep(1, *weights, rates=(0.0, 0.0))

    assert np.median(np.abs(expected)) > 1e-4  # there is a gradient to compare
    assert_maps_agree(field.gradients, expected, 2e-6, outliers=0.01)  # a difference may span a kink


def test_the_gradient_knows_the_lift_of_a_vanishing_sector(device: str) -> None:
    field = disturb(make_field(device, (20, 4), 3, 6, 6))
    random = np.random.default_rng(1)
    field.parameters[..., :3] = random.uniform(0.5, 5.5, (6, 6, 1)) + random.uniform(0, 0.25, (6, 6, 3))
    expected = finite_differences(field, WEIGHTS)

    field.sweep(1, *WEIGHTS, rates=(0.0, 0.0))

    assert np.median(np.abs(expected)) > 1e-4
    assert_maps_agree(field.gradients, expected, 2e-6, outliers=0.01)


def test_adam_steps_follow_the_textbook(device: str) -> None:
    field = disturb(make_field(device, (20, 4), 3))
    before, rates = field.parameters.copy(), np.array([0.003] * 3 + [0.03] * 2)
    first, second = np.zeros_like(before), np.zeros_like(before)

    for step in range(1, 6):
        field.sweep(step, *WEIGHTS)

        # Kingma and Ba, algorithm 1, with betas 0.5 and 0.99
        first = 0.5 * first + (1 - 0.5) * field.gradients
        second = 0.99 * second + (1 - 0.99) * field.gradients**2
        unbiased = first / (1 - 0.5**step), second / (1 - 0.99**step)
        before = before - rates * unbiased[0] / (np.sqrt(unbiased[1]) + 1e-8)
        assert_maps_agree(field.parameters, before, 1e-12)


def test_without_a_step_number_the_parameters_stay(device: str) -> None:
    field = disturb(make_field(device, (20, 4)))
    before = field.parameters.copy()

    field.sweep(0, *WEIGHTS)

    np.testing.assert_array_equal(field.parameters, before)


@pytest.mark.parametrize("colour_weight", [0.0, 0.1])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("grid", [*GRIDS, (40, 40), (9, 2)])
def test_the_global_maps_are_means_over_the_patches_that_contain_a_pixel(
    device: str, grid: tuple[int, int], channels: int, colour_weight: float
) -> None:
    size, stride = grid
    field = disturb(make_field(device, grid, channels, 5, 11))
    u = wedges(*distances(field.parameters, size))
    pulled = cut_patches(field.colour_map, size, stride)
    painted = reconstruction(u, wedge_colours(u, cut_patches(field.planes, size, stride), pulled, colour_weight))
    drawn = boundary(*distances(field.parameters, size))

    field.sweep(0, 0.0, colour_weight)

    count = np.zeros(field.boundary_map.shape)
    colours, boundaries = np.zeros(field.planes.shape), np.zeros(field.boundary_map.shape)
    for i, j in np.ndindex(5, 11):
        here = slice(i * stride, i * stride + size), slice(j * stride, j * stride + size)
        count[here] += 1
        boundaries[here] += drawn[i, j]
        colours[:, *here] += np.moveaxis(painted[i, j], -1, 0)
    assert_maps_agree(field.boundary_map, boundaries / count, 1e-4)
    assert_maps_agree(field.colour_map, colours / count, 1e-4)


def test_the_maps_of_an_adam_step_are_those_before_it(device: str) -> None:
    stepped, still = (disturb(make_field(device, (20, 4), 3)) for _ in range(2))

    stepped.sweep(1, *WEIGHTS, rates=(0.1, 0.1))
    still.sweep(0, *WEIGHTS)

    assert (stepped.parameters != still.parameters).all()
    np.testing.assert_array_equal(stepped.boundary_map, still.boundary_map)
    np.testing.assert_array_equal(stepped.colour_map, still.colour_map)


def run_a_while(device: str, thread_count: int) -> list[bytes]:
    """A search step, Adam steps and a coupled search step; returns all that they leave, bit by bit."""
    field = make_field(device, (12, 4), 3, 9, 23)
    with threads(thread_count):
        field.search()
        field.sweep()
        for step in range(1, 4):
            field.sweep(step, *WEIGHTS)
        field.search(*WEIGHTS)
        field.sweep(0, *WEIGHTS)
    return [a.tobytes() for a in (field.parameters, field.gradients, field.boundary_map, field.colour_map)]


def test_one_thread_two_threads_and_another_run_give_the_same_bits(device: str) -> None:
    one = run_a_while(device, 1)

    assert run_a_while(device, 2) == one
    assert run_a_while(device, 2) == one
