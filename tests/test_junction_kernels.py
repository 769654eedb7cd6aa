"""The junction kernels of each device do what the reference in NumPy says, and the same with any number of threads."""

import itertools
from importlib import import_module

import numpy as np
import pytest
from agreement import assert_maps_agree
from devices import CUDA, DEVICES, INTERPRETED, REAL_GPU, on_devices, sized
from kernel_calls import FieldState, fetch, on, plain_map_of, threads
from pictures import as_planes, draw_blocks

from scotopic.settings import JunctionSettings
from scotopic.stages.junctions import reference
from scotopic.stages.junctions.geometry import distances, objective, reconstruction, wedge_colors, wedges

GRIDS = [(40, 8), (20, 4), (21, 5), (12, 12)]  # patch size and stride
NO_WEIGHTS, WEIGHTS = (0.0, 0.0), (0.4, 0.08)  # lb and lc
# On the GPU what is done once per patch is float32 too: a slope of 0.1 is known to some 2e-6.
GRADIENT_ERROR = {"cpu": 2e-6, "cuda": 5e-6}

on_each_device = pytest.mark.parametrize("device", DEVICES)


def make_field(
    device: str,
    grid: tuple[int, int],
    channels: int = 1,
    rows: int = 3,
    columns: int = 4,
    seed: int = 0,
    **settings: object,
) -> FieldState:
    """A noisy picture of so many patches, with junctions at rest."""
    size, stride = grid
    picture = draw_blocks(
        size + (rows - 1) * stride, size + (columns - 1) * stride, channels, seed=seed, noise=0.1, side=size
    )
    return FieldState(device, as_planes(picture), JunctionSettings(patch_size=size, stride=stride, **settings))


def disturb(field: FieldState, seed: int = 0) -> FieldState:
    """Put random junctions in the field, and random global maps."""
    random = np.random.default_rng(seed)
    parameters, boundary_map = field.parameters, field.boundary_map
    parameters[..., :3] = random.uniform(-7, 7, parameters[..., :3].shape)
    parameters[..., 3:] = random.uniform(-0.8, 0.8, parameters[..., 3:].shape)
    boundary_map[:] = random.random(boundary_map.shape) ** 3
    field.parameters, field.boundary_map = parameters, boundary_map
    colors = np.clip(field.planes + random.normal(0, 0.1, field.planes.shape), 0, 1)
    field.color_map = colors.astype(np.float32)
    return field


def pictures_of(field: FieldState) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Image, boundary map and color map as the reference takes them."""
    image, colors = (np.moveaxis(planes, 0, -1).astype(np.float64) for planes in (field.planes, field.color_map))
    return image, field.boundary_map.astype(np.float64), colors


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
    assert_maps_agree(apart, np.zeros_like(apart), PLACE[field.device], outliers=0.1)
    reached, lowest = (patch_objective(field, parameters, weights) for parameters in (actual, expected))
    assert_maps_agree(reached / lowest, np.ones_like(lowest), 2e-3)


# How near a search step comes to the reference's place: the GPU takes the directions of the angles in float32.
PLACE = {"cpu": 1e-9, "cuda": 1e-5}


@on_devices(
    "grid, channels, weights",
    itertools.product(GRIDS, (1, 3), (NO_WEIGHTS, WEIGHTS)),
    [((12, 6), 1, NO_WEIGHTS), ((12, 6), 3, WEIGHTS), ((7, 3), 3, NO_WEIGHTS), ((8, 8), 1, (0.4, 0.8))],
)
def test_search_steps_go_where_plain_coordinate_descent_goes(
    device: str, grid: tuple[int, int], channels: int, weights: tuple[float, float]
) -> None:
    rows, columns, candidates, reach = sized(device, (2, 3, 31, 3.0), (1, 2, 31, 1.0))
    field = make_field(device, grid, channels, rows, columns, candidates=candidates, vertex_range=reach)
    if weights != NO_WEIGHTS:
        disturb(field)

    for _ in range(sized(device, 2, 1)):
        expected = reference.search_step(field.parameters, *pictures_of(field), *weights, field.settings)
        field.search(*weights)
        assert_steps_agree(field, field.parameters, expected, weights)
        field.parameters = expected


@on_each_device
def test_of_equal_candidates_the_first_is_kept(device: str) -> None:
    planes = np.full((1, 16, 16), 0.5, np.float32)
    field = FieldState(device, planes, JunctionSettings(patch_size=16, stride=8))

    field.search()

    # In a patch of one color every candidate fits. The first angle offset is 0; the first vertex offset is -3, taken
    # for x0, for y0, and along each of the three angles, all of which point along x.
    np.testing.assert_array_equal(field.parameters, [[[0, 0, 0, -3 - 3 * 3, -3]]])


@on_each_device
def test_a_search_step_touches_the_active_patches_only_and_says_which_moved(device: str) -> None:
    grid, rows, columns, active = sized(device, ((20, 4), 3, 4, [1, 4, 6, 11]), ((8, 8), 1, 2, [1]))
    field, everyone = (make_field(device, grid, 1, rows, columns) for _ in range(2))
    everyone.search()
    moving = np.zeros((rows, columns), np.uint8)
    moving.flat[active] = 1
    field.moving = moving

    field.search(only_moving=True)

    flat, flat_everyone = field.parameters.reshape(-1, 5), everyone.parameters.reshape(-1, 5)
    np.testing.assert_array_equal(flat[active], flat_everyone[active])
    assert (np.delete(flat, active, axis=0) == 0).all()
    np.testing.assert_array_equal(field.moving.ravel()[active], (flat[active] != 0).any(axis=1))
    assert field.moving.sum() == field.moving.ravel()[active].sum()
    for _ in range(30):
        field.search(only_moving=True)
    assert not field.moving.any()


@on_each_device
def test_a_search_step_of_all_patches_wakes_those_at_rest(device: str) -> None:
    field, fresh = (make_field(device, (8, 8), 1, 1, 1) for _ in range(2))
    field.moving = np.zeros((1, 1), np.uint8)

    field.search()
    fresh.search()

    np.testing.assert_array_equal(field.parameters, fresh.parameters)
    assert field.moving.all()


def finite_differences(field: FieldState, weights: tuple[float, float]) -> np.ndarray:
    """The reference's gradient, wide enough for a difference to rise above rounding."""
    return reference.gradient(field.parameters, *pictures_of(field), *weights, field.settings, step=1e-5)


@on_devices(
    "grid, channels, weights",
    itertools.product(GRIDS, (1, 3), (NO_WEIGHTS, (0.5, 0.0), (0.0, 0.1), WEIGHTS)),
    [((12, 6), 1, WEIGHTS), ((7, 3), 3, NO_WEIGHTS), ((7, 3), 1, (0.5, 0.0)), ((8, 8), 3, (0.0, 0.1))],
)
def test_the_analytic_gradient_is_that_of_finite_differences(
    device: str, grid: tuple[int, int], channels: int, weights: tuple[float, float]
) -> None:
    field = disturb(make_field(device, grid, channels, *sized(device, (6, 6), (2, 3))), seed=channels)
    expected = finite_differences(field, weights)

    field.rebuild(1, *weights)

    assert np.median(np.abs(expected)) > 1e-4  # there is a gradient to compare
    assert_maps_agree(field.gradients, expected, GRADIENT_ERROR[device], outliers=0.01)  # a difference may span a kink


@on_each_device
def test_the_gradient_knows_the_lift_of_a_vanishing_sector(device: str) -> None:
    rows, columns = sized(device, (6, 6), (2, 3))
    field = disturb(make_field(device, sized(device, (20, 4), (12, 6)), 3, rows, columns))
    random, parameters = np.random.default_rng(1), field.parameters
    angles = random.uniform(0.5, 5.5, (rows, columns, 1)) + random.uniform(0, 0.25, (rows, columns, 3))
    parameters[..., :3] = angles
    field.parameters = parameters
    expected = finite_differences(field, WEIGHTS)

    field.rebuild(1, *WEIGHTS)

    assert np.median(np.abs(expected)) > 1e-4
    assert_maps_agree(field.gradients, expected, GRADIENT_ERROR[device], outliers=0.01)


@on_each_device
def test_adam_steps_follow_the_textbook(device: str) -> None:
    field = disturb(make_field(device, *sized(device, ((20, 4), 3), ((8, 8), 3, 1, 2))))
    before, rates = field.parameters, np.array([0.003] * 3 + [0.03] * 2)
    first, second = np.zeros_like(before), np.zeros_like(before)

    for step in range(1, sized(device, 6, 4)):
        field.rebuild(step, *WEIGHTS)

        # Kingma and Ba, algorithm 1, with betas 0.5 and 0.99
        first = 0.5 * first + (1 - 0.5) * field.gradients
        second = 0.99 * second + (1 - 0.99) * field.gradients**2
        unbiased = first / (1 - 0.5**step), second / (1 - 0.99**step)
        before = before - rates * unbiased[0] / (np.sqrt(unbiased[1]) + 1e-8)
        assert_maps_agree(field.parameters, before, 1e-12)
    assert_maps_agree(field.first, first, 1e-12)
    assert_maps_agree(field.second, second, 1e-12)


def test_the_reference_of_the_adam_step_follows_the_textbook() -> None:
    start, slope, nothing = np.zeros(5), np.array([2.0, -2.0, 0.5, 1.0, -4.0]), np.zeros(5)

    # In the first step the moments, unbiased, are the slope and its square: each parameter moves by its whole rate.
    moved, first, second = reference.adam_step(start, slope, nothing, nothing, 1, np.full(5, 0.01))

    np.testing.assert_allclose(moved, -0.01 * np.sign(slope), rtol=1e-6)
    np.testing.assert_allclose(first, 0.5 * slope)
    np.testing.assert_allclose(second, 0.01 * slope**2)


@on_each_device
def test_without_a_step_number_the_parameters_stay(device: str) -> None:
    field = disturb(make_field(device, *sized(device, ((20, 4),), ((8, 8), 1, 1, 2))))
    before = field.parameters

    field.rebuild(0, *WEIGHTS)

    np.testing.assert_array_equal(field.parameters, before)


MAP_GRIDS = list(itertools.product([*GRIDS, (40, 40), (9, 2)], (1, 3), (0.0, 0.1)))
SMALL_MAP_GRIDS = [((12, 6), 1, 0.0), ((7, 3), 3, 0.1), ((8, 8), 3, 0.0), ((5, 2), 1, 0.1), ((9, 7), 1, 0.0)]


@on_devices("grid, channels, color_weight", MAP_GRIDS, SMALL_MAP_GRIDS)
def test_the_global_maps_are_means_over_the_patches_that_contain_a_pixel(
    device: str, grid: tuple[int, int], channels: int, color_weight: float
) -> None:
    field = disturb(make_field(device, grid, channels, *sized(device, (5, 11), (2, 3))))
    image, _, colors = pictures_of(field)
    boundary_map, color_map = reference.global_maps(field.parameters, image, colors, color_weight, field.settings)

    field.rebuild(0, 0.0, color_weight)

    assert_maps_agree(field.boundary_map, boundary_map, 1e-4)
    assert_maps_agree(np.moveaxis(field.color_map, 0, -1), color_map, 1e-4)


@on_devices("grid, channels, color_weight", MAP_GRIDS[4:8], [((7, 3), 3, 0.1), ((12, 6), 1, 0.0)])
def test_maps_drawn_from_parameters_alone_are_those_of_the_reference(
    device: str, grid: tuple[int, int], channels: int, color_weight: float
) -> None:
    field = disturb(make_field(device, grid, channels, *sized(device, (5, 11), (2, 2))))
    image, _, colors = pictures_of(field)
    expected = reference.global_maps(field.parameters, image, colors, color_weight, field.settings)

    boundaries, painted = on(device).draw_maps(
        field.planes[None], field.parameters[None], field.color_map[None], color_weight, field.settings
    )

    assert_maps_agree(boundaries[0], expected[0], 1e-4)
    assert_maps_agree(np.moveaxis(painted[0], 0, -1), expected[1], 1e-4)


@on_devices("grid, channels", itertools.product(GRIDS, (1, 3)), [((7, 3), 3), ((8, 8), 1)])
def test_the_plain_map_is_that_of_the_reference_to_the_last_bits_of_float32(
    device: str, grid: tuple[int, int], channels: int
) -> None:
    field = disturb(make_field(device, grid, channels, *sized(device, (4, 5), (2, 2))))
    image, _, _ = pictures_of(field)
    _, expected = reference.global_maps(field.parameters, image, None, 0.0, field.settings)

    found = plain_map_of(device, image.astype(np.float32), field.parameters, field.settings)

    assert_maps_agree(found, expected, 2e-6)


@pytest.mark.parametrize("device", [CUDA])
def test_painted_patches_are_the_reconstructions_of_the_reference(device: str) -> None:
    grid, rows, columns = sized(device, ((20, 4), 3, 5), ((7, 3), 2, 2))
    field = disturb(make_field(device, grid, 3, rows, columns))
    gpu, fit = import_module("scotopic.backends.cuda.junctions"), field.settings
    u = wedges(*distances(field.parameters, fit.patch_size))
    patches = reference.cut_patches(pictures_of(field)[0], fit)
    expected = np.stack([reconstruction(u, wedge_colors(u, patches)), patches], axis=-1)
    expected = np.moveaxis(expected, -2, 2).reshape(rows * columns, 3, -1, 2)  # each beside its raw pixel

    planes, parameters = on(device).place([field.planes[None], field.parameters[None]])
    drawings = gpu.draw_plainly(planes, parameters, fit)
    painted = [planes.new_zeros((count, *expected.shape[1:])) for count in (1, 2)]
    gpu.paint_patches(drawings, planes[0], columns, 0, fit, painted[0])
    gpu.paint_patches(drawings, planes[0], columns, 1, fit, painted[1])

    assert_maps_agree(np.concatenate(fetch(painted)), expected[:3], 2e-6)


def test_the_reference_takes_the_mean_of_the_patches_over_a_pixel() -> None:
    patches = np.array([1.0, 3.0, 5.0])[None, :, None, None] * np.ones((1, 3, 4, 4))

    # Three patches of 4 x 4 every 2 px, of values 1, 3 and 5: two columns of each alone at the ends, pairs between.
    mean = reference.mean_of_patches(patches, JunctionSettings(patch_size=4, stride=2))

    np.testing.assert_array_equal(mean, np.tile([1, 1, 2, 2, 4, 4, 5, 5], (4, 1)))


@on_each_device
def test_the_maps_of_an_adam_step_are_those_before_it(device: str) -> None:
    size = sized(device, ((20, 4), 3), ((8, 8), 3, 1, 2))
    stepped, still = (disturb(make_field(device, *size, angle_rate=0.1, vertex_rate=0.1)) for _ in range(2))

    stepped.rebuild(1, *WEIGHTS)
    still.rebuild(0, *WEIGHTS)

    assert (stepped.parameters != still.parameters).all()
    np.testing.assert_array_equal(stepped.boundary_map, still.boundary_map)
    np.testing.assert_array_equal(stepped.color_map, still.color_map)


@on_each_device
def test_views_side_by_side_do_not_see_each_other(device: str) -> None:
    grid, rows, columns = sized(device, ((20, 4), 3, 4), ((7, 3), 1, 1))
    alone = [disturb(make_field(device, grid, 3, rows, columns, seed=seed), seed) for seed in (1, 2)]
    together = FieldState(device, np.stack([field.planes for field in alone]), alone[0].settings)
    for name in ("parameters", "boundary_map", "color_map"):
        setattr(together, name, np.stack([getattr(field, name) for field in alone]))

    for field in (*alone, together):
        field.rebuild(1, *WEIGHTS)
        field.search(*WEIGHTS)

    for name in ("parameters", "gradients", "boundary_map", "color_map", "moving"):
        for view, field in enumerate(alone):
            np.testing.assert_array_equal(getattr(together, name)[view], getattr(field, name), err_msg=name)


@pytest.mark.parametrize("device", [CUDA])
@pytest.mark.skipif(not INTERPRETED, reason="on a GPU every patch is cut into tiles")
def test_a_patch_in_several_tiles_is_the_patch_in_one(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one, several = (disturb(make_field(device, (7, 3), 3, 1, 1)) for _ in range(2))
    one.rebuild(1, *WEIGHTS)
    one.search(*WEIGHTS)
    # As on a GPU, where a tile has a fixed size; 49 pixels are two tiles, the second one not full.
    gpu = import_module("scotopic.backends.cuda.junctions")
    monkeypatch.setattr(gpu, "_tiles", lambda config, pixels: {**config, "BLOCK": 32})

    several.rebuild(1, *WEIGHTS)
    several.search(*WEIGHTS)

    assert_maps_agree(several.gradients, one.gradients, 1e-6)
    assert_maps_agree(several.parameters, one.parameters, 1e-6)
    assert_maps_agree(several.boundary_map, one.boundary_map, 1e-5)
    assert_maps_agree(several.color_map, one.color_map, 1e-5)


def run_a_while(device: str) -> list[bytes]:
    """A search step, Adam steps and a coupled search step; returns all that they leave, bit by bit."""
    field = make_field(device, (12, 4), 3, 9, 23)
    field.search()
    field.rebuild()
    for step in range(1, 4):
        field.rebuild(step, *WEIGHTS)
    field.search(*WEIGHTS)
    field.rebuild(0, *WEIGHTS)
    return [a.tobytes() for a in (field.parameters, field.gradients, field.boundary_map, field.color_map)]


def test_one_thread_two_threads_and_another_run_give_the_same_bits() -> None:
    runs = []
    for count in (1, 2, 2):
        with threads(count):
            runs.append(run_a_while("cpu"))

    assert runs[0] == runs[1] == runs[2]


@pytest.mark.parametrize("device", [pytest.param("cuda", marks=REAL_GPU)])
def test_runs_on_a_gpu_give_the_same_bits(device: str) -> None:
    runs = [run_a_while(device) for _ in range(4)]

    assert all(run == runs[0] for run in runs)
