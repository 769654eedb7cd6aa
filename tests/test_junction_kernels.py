"""The junction kernels of each device do what the reference in NumPy says, and the same with any number of threads."""

import numpy as np
import pytest
from agreement import assert_maps_agree
from kernel_calls import DEVICES, FieldState, threads
from pictures import as_planes, draw_blocks

from scotopic.junctions import reference
from scotopic.junctions.geometry import objective
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


def pictures_of(field: FieldState) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Image, boundary map and colour map as the reference takes them."""
    image, colours = (np.moveaxis(planes, 0, -1).astype(np.float64) for planes in (field.planes, field.colour_map))
    return image, field.boundary_map.astype(np.float64), colours


def patch_objective(field: FieldState, parameters: np.ndarray, weights: tuple[float, float]) -> np.ndarray:
    """The reference's objective of every patch."""
    return objective(
        parameters, *(reference.cut_patches(each, field.settings) for each in pictures_of(field)), *weights
    )


def assert_steps_agree(
    field: FieldState, actual: np.ndarray, expected: np.ndarray, weights: tuple[float, float] = NO_WEIGHTS
) -> None:
    """Nearly all patches reach the same junction; the others, at a near tie in float32, one that is as good."""
    apart = np.abs(actual - expected).max(axis=-1)
    assert_maps_agree(apart, np.zeros_like(apart), 1e-9, outliers=0.1)
    reached, lowest = (patch_objective(field, parameters, weights) for parameters in (actual, expected))
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
        expected = reference.search_step(field.parameters, *pictures_of(field), *weights, field.settings)
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


def finite_differences(field: FieldState, weights: tuple[float, float]) -> np.ndarray:
    """The reference's gradient, wide enough for a difference to rise above rounding."""
    return reference.gradient(field.parameters, *pictures_of(field), *weights, field.settings, step=1e-5)


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


def test_the_reference_of_the_adam_step_follows_the_textbook(device: str) -> None:
    start, slope, nothing = np.zeros(5), np.array([2.0, -2.0, 0.5, 1.0, -4.0]), np.zeros(5)

    # In the first step the moments, unbiased, are the slope and its square: each parameter moves by its whole rate.
    moved, first, second = reference.adam_step(start, slope, nothing, nothing, 1, np.full(5, 0.01))

    np.testing.assert_allclose(moved, -0.01 * np.sign(slope), rtol=1e-6)
    np.testing.assert_allclose(first, 0.5 * slope)
    np.testing.assert_allclose(second, 0.01 * slope**2)


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
    field = disturb(make_field(device, grid, channels, 5, 11))
    image, _, colours = pictures_of(field)
    boundary_map, colour_map = reference.global_maps(field.parameters, image, colours, colour_weight, field.settings)

    field.sweep(0, 0.0, colour_weight)

    assert_maps_agree(field.boundary_map, boundary_map, 1e-4)
    assert_maps_agree(np.moveaxis(field.colour_map, 0, -1), colour_map, 1e-4)


def test_the_reference_takes_the_mean_of_the_patches_over_a_pixel(device: str) -> None:
    patches = np.array([1.0, 3.0, 5.0])[None, :, None, None] * np.ones((1, 3, 4, 4))

    # Three patches of 4 x 4 every 2 px, of values 1, 3 and 5: two columns of each alone at the ends, pairs between.
    mean = reference.mean_of_patches(patches, JunctionSettings(patch_size=4, stride=2))

    np.testing.assert_array_equal(mean, np.tile([1, 1, 2, 2, 4, 4, 5, 5], (4, 1)))


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
