"""Fitting a field of junctions: the schedule, and what must not change a result (rest, tiles, padding)."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from agreement import assert_maps_agree
from devices import DEVICES, ON_REAL_DEVICES, on_devices, sized
from kernel_calls import FieldState, on, plain_map_of
from pictures import as_planes, draw_blocks

from scotopic import fit_junctions
from scotopic.errors import InputError
from scotopic.patch_grid import patch_axis, spans
from scotopic.settings import JunctionSettings
from scotopic.stages.junctions.fit import Junctions, to_planes
from scotopic.stages.junctions.geometry import distances, reconstruction, wedge_colors, wedges

SEARCH_ONLY = JunctionSettings(patch_size=12, stride=4, search_steps=30, refine_steps=0, candidates=9)
REFINED = JunctionSettings(patch_size=12, stride=4, search_steps=2, refine_steps=12, search_every=4, candidates=9)

on_each_device = pytest.mark.parametrize("device", DEVICES)
on_each_real_device = pytest.mark.parametrize("device", ON_REAL_DEVICES)


def assert_same_bits(first: Junctions, second: Junctions) -> None:
    for name in ("parameters", "boundary_map", "color_map"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name), err_msg=name)


@on_devices("search_steps, refine_steps, search_every", [(2, 12, 4), (2, 12, 5)], [(1, 2, 2), (0, 3, 2)])
def test_the_schedule_is_that_of_the_method(
    device: str, search_steps: int, refine_steps: int, search_every: int
) -> None:
    picture = draw_blocks(*sized(device, (36, 44), (12, 12)), 3, noise=0.2)
    settings = replace(REFINED, search_steps=search_steps, refine_steps=refine_steps, search_every=search_every)
    field = FieldState(device, as_planes(picture), settings)

    for _ in range(settings.search_steps):
        field.search()
    field.rebuild()
    gradient_steps = 0
    for step in range(1, refine_steps + 1):
        share = (step - 1) / (refine_steps - 1)
        weights = share * 0.5, share * 0.1  # lb = 0.5 f, lc = 0.1 f, f from 0 to 1
        before = field.color_map
        if step % search_every == 0:
            field.search(*weights)
            field.rebuild(0, *weights)
        else:
            gradient_steps += 1
            field.rebuild(gradient_steps, *weights)
    result = fit_junctions(picture, settings, device=device)

    np.testing.assert_array_equal(result.parameters, field.parameters)
    if refine_steps % search_every == 0:  # the last maps come from the last search
        np.testing.assert_array_equal(result.boundary_map, field.boundary_map)
        np.testing.assert_array_equal(result.color_map, np.moveaxis(field.color_map, 0, -1))
    else:  # the maps of a gradient step are those before it; the result's are those of its parameters
        assert not np.array_equal(result.boundary_map, field.boundary_map)
    assert not np.array_equal(before, field.color_map)


@on_each_device
def test_without_refinement_the_maps_are_plain(device: str) -> None:
    height, width, search_steps = sized(device, (36, 44, 3), (12, 12, 1))
    picture = draw_blocks(height, width, 3, noise=0.2)
    field = FieldState(device, as_planes(picture), SEARCH_ONLY)
    for _ in range(search_steps):
        field.search()
    field.rebuild()

    result = fit_junctions(picture, replace(SEARCH_ONLY, search_steps=search_steps), device=device)

    np.testing.assert_array_equal(result.parameters, field.parameters)
    np.testing.assert_array_equal(result.color_map, np.moveaxis(field.color_map, 0, -1))


@on_each_device
def test_skipping_patches_at_rest_changes_no_bit_and_saves_nearly_all_the_work(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    height, width, search_steps = sized(device, (60, 76, 30), (12, 16, 2))
    picture, settings = draw_blocks(height, width, 1, noise=0.3), replace(SEARCH_ONLY, search_steps=search_steps)
    field = FieldState(device, as_planes(picture), settings)
    for _ in range(search_steps):
        field.search()
    fit, searched = type(field.fit), []
    step = fit.search

    def counted(self: object, *weights: float, only_moving: bool = False) -> bool:
        searched.append(int(self.moving.sum()) if only_moving else patches)
        return step(self, *weights, only_moving=only_moving)

    monkeypatch.setattr(fit, "search", counted)
    patches = field.parameters[..., 0].size
    result = fit_junctions(picture, settings, device=device)

    np.testing.assert_array_equal(result.parameters, field.parameters)
    assert searched[0] == patches
    assert searched == sorted(searched, reverse=True)
    assert sum(searched) < 5 * patches


@pytest.mark.parametrize("device", ["cpu"])
def test_the_cpu_searches_none_but_the_moving_patches(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    from scotopic.backends.cpu import junction_kernels as kernels

    step, searched = kernels.search_step, []

    def counted(first: int, stop: int, active: np.ndarray, *others: object) -> None:
        if first == 0:  # one of the ranges of each step
            searched.append(active.size)
        step(first, stop, active, *others)

    monkeypatch.setattr(kernels, "search_step", counted)
    result = fit_junctions(draw_blocks(60, 76, 1, noise=0.3), SEARCH_ONLY, device=device)

    patches = result.parameters[..., 0].size
    assert searched[0] == patches
    assert searched == sorted(searched, reverse=True)
    assert sum(searched) < 5 * patches


@on_devices("tile", [1, 4, 5, 100], [1])
def test_tiles_of_the_search_phase_equal_the_untiled_fit_bit_for_bit(device: str, tile: int) -> None:
    height, width, search_steps = sized(device, (59, 81, 3), (11, 15, 1))
    picture = draw_blocks(height, width, 3, noise=0.2)
    settings = replace(SEARCH_ONLY, patch_size=sized(device, 12, 11), search_steps=search_steps, tile_margin=2)
    untiled = fit_junctions(picture, replace(settings, tile=1000), device=device)

    tiled = fit_junctions(picture, replace(settings, tile=tile), device=device)

    assert_same_bits(tiled, untiled)


@on_each_device
def test_refined_tiles_whose_margin_holds_the_whole_image_equal_the_untiled_fit(device: str) -> None:
    height, width, tile = sized(device, (44, 60, 4), (12, 16, 1))
    picture = draw_blocks(height, width, 1, noise=0.2)
    settings = sized(device, REFINED, replace(REFINED, search_steps=0, refine_steps=2))
    untiled = fit_junctions(picture, replace(settings, tile=1000), device=device)

    tiled = fit_junctions(picture, replace(settings, tile=tile, tile_margin=1000), device=device)

    assert_same_bits(tiled, untiled)


@on_each_real_device
def test_refined_tiles_with_a_small_margin_differ_little(device: str) -> None:
    picture = draw_blocks(76, 92, 1, noise=0.1)
    untiled = fit_junctions(picture, replace(REFINED, tile=1000), device=device)

    tiled = fit_junctions(picture, replace(REFINED, tile=8, tile_margin=3), device=device)

    assert_maps_agree(tiled.boundary_map, untiled.boundary_map, 0.05, outliers=0.05)
    assert_maps_agree(tiled.color_map, untiled.color_map, 0.02, outliers=0.05)


@pytest.mark.parametrize(("count", "tile", "margin"), [(1, 1, 0), (10, 4, 2), (9, 3, 0), (128, 128, 8), (130, 128, 8)])
def test_spans_keep_every_patch_once_and_fit_no_more_than_a_tile_and_its_margins(
    count: int, tile: int, margin: int
) -> None:
    pieces = list(spans(count, tile, margin))

    assert [k for piece in pieces for k in range(piece.start, piece.stop)] == list(range(count))
    for piece in pieces:
        assert piece.stop - piece.start <= tile
        assert piece.first == max(piece.start - margin, 0)
        assert piece.last == min(piece.stop + margin, count)


@on_devices(
    "shape, settings",
    itertools.product([(12, 12), (13, 12), (23, 31), (24, 35)], [SEARCH_ONLY, REFINED]),
    [((13, 12), replace(REFINED, search_steps=0, refine_steps=2))],
)
def test_an_image_is_padded_to_whole_patches_by_its_edge_and_the_maps_are_cropped_back(
    device: str, shape: tuple[int, int], settings: JunctionSettings
) -> None:
    height, width = shape
    picture = draw_blocks(height, width, 3, noise=0.1)
    # The smallest 12 + 4 n that holds the image
    down, right = (next(k for k in range(4) if (length + k - 12) % 4 == 0) for length in shape)
    padded = np.concatenate([picture, np.repeat(picture[-1:], down, axis=0)], axis=0)
    padded = np.concatenate([padded, np.repeat(padded[:, -1:], right, axis=1)], axis=1)

    result = fit_junctions(picture, settings, device=device)
    whole = fit_junctions(padded, settings, device=device)

    planes = on(device).run(to_planes, [picture], settings)
    np.testing.assert_array_equal(planes[0], as_planes(padded))
    assert result.boundary_map.shape == shape
    assert result.color_map.shape == (*shape, 3)
    assert result.parameters.shape == ((height + down - 12) // 4 + 1, (width + right - 12) // 4 + 1, 5)
    np.testing.assert_array_equal(result.parameters, whole.parameters)
    np.testing.assert_array_equal(result.boundary_map, whole.boundary_map[:height, :width])
    np.testing.assert_array_equal(result.color_map, whole.color_map[:height, :width])


@on_each_device
def test_binning_fits_the_means_of_pixels_at_the_means_of_their_places(device: str) -> None:
    height, width, search_steps = sized(device, (48, 64, 2), (16, 20, 1))
    picture = draw_blocks(height, width, 3, noise=0.2)
    settings = replace(SEARCH_ONLY, patch_size=16, stride=4, search_steps=search_steps, binning=2)
    means = np.zeros((3, height // 2, width // 2), np.float32)
    for dy, dx in np.ndindex(2, 2):
        means += as_planes(picture)[:, dy::2, dx::2] / 4
    axis = np.linspace(-1, 1, 16)
    assert_maps_agree(patch_axis(16, 2), (axis[::2] + axis[1::2]) / 2, 1e-6)
    field = FieldState(device, means, settings)
    for _ in range(search_steps):
        field.search()

    result = fit_junctions(picture, settings, device=device)

    apart = np.abs(result.parameters - field.parameters).max(axis=-1)
    assert_maps_agree(apart, np.zeros_like(apart), 1e-9, outliers=0.02)
    # The maps are drawn at full size all the same, in the colors of the full image.
    plain = plain_map_of(device, picture, result.parameters, replace(settings, binning=1))
    assert_maps_agree(result.color_map, plain, 1e-6 if device == "cpu" else 1e-4)


@on_each_real_device
@pytest.mark.parametrize("binning", [1, 2])
def test_an_edge_is_found_where_it_is(device: str, binning: int) -> None:
    picture = np.full((48, 64), 0.25, np.float32)
    picture[:, 33:] = 0.75
    settings = JunctionSettings(patch_size=16, stride=4, search_steps=5, refine_steps=40, search_every=20)

    field = fit_junctions(picture, replace(settings, binning=binning), device=device)

    # The edge lies between columns 32 and 33: the strongest boundary of each row is one of them, or next to one.
    strongest = field.boundary_map[:, 20:46].argmax(axis=1) + 20
    assert_maps_agree(strongest, np.full(48, 32.5), 0.5, outliers=0.15)
    assert_maps_agree(strongest, np.full(48, 32.5), 1.5)
    assert field.boundary_map[:, 31:35].max(axis=1).mean() > 0.4  # b within a pixel, 2/15 of the half patch, is 0.36
    assert np.median(field.boundary_map[:, :20]) < 0.1
    assert_maps_agree(field.color_map[:, :31], np.full((48, 31, 1), 0.25), 0.03, outliers=0.05)
    assert_maps_agree(field.color_map[:, 35:], np.full((48, 29, 1), 0.75), 0.03, outliers=0.05)


@on_each_real_device
def test_gray_in_three_channels_is_fitted_as_gray(device: str) -> None:
    gray = draw_blocks(36, 44, 1, noise=0.2)

    one = fit_junctions(gray, SEARCH_ONLY, device=device)
    three = fit_junctions(np.repeat(gray, 3, axis=2), SEARCH_ONLY, device=device)

    # The objective is three times as large everywhere, so the same candidates win.
    apart = np.abs(one.parameters - three.parameters).max(axis=-1)
    assert_maps_agree(apart, np.zeros_like(apart), 1e-9, outliers=0.05)
    assert_maps_agree(three.color_map, np.repeat(one.color_map, 3, axis=2), 0.01, outliers=0.05)


@on_each_device
def test_the_plain_map_is_the_mean_of_reconstructions_in_plain_colors(device: str) -> None:
    settings = JunctionSettings(patch_size=8, stride=8)
    picture = draw_blocks(16, 16, 3, noise=0.1)
    parameters = np.random.default_rng(0).uniform(-1, 1, (2, 2, 5))

    result = plain_map_of(device, picture, parameters, settings)

    for i, j in np.ndindex(2, 2):  # patches side by side: the mean is over one of them
        here = slice(8 * i, 8 * i + 8), slice(8 * j, 8 * j + 8)
        u = wedges(*distances(parameters[i, j], 8))
        assert_maps_agree(result[here], reconstruction(u, wedge_colors(u, picture[here].astype(np.float64))), 1e-4)


def test_progress_rises_to_the_end() -> None:
    heard: list[float] = []

    fit_junctions(draw_blocks(40, 40, 1, noise=0.2), replace(REFINED, tile=4), progress=heard.append)

    assert heard == sorted(heard)
    assert heard[0] > 0
    assert 0.9 < heard[-1] <= 1


def test_a_picture_of_the_structure_is_dark_on_boundaries_and_uses_the_full_range() -> None:
    colors = np.linspace(0.4, 0.6, 64 * 64, dtype=np.float32).reshape(64, 64, 1)
    boundaries = np.zeros((64, 64), np.float32)
    boundaries[:, 20] = 1
    field = Junctions(np.zeros((1, 1, 5)), boundaries, colors, JunctionSettings())

    picture, without = field.render(), field.render(boundaries=False)

    assert picture.shape == (64, 64, 3)
    assert picture.dtype == np.uint8
    assert (without.min(), without.max()) == (0, 255)
    assert_maps_agree(picture[:, 20], 0.1 * without[:, 20], 1.0)  # nine tenths darker on a full boundary
    np.testing.assert_array_equal(np.delete(picture, 20, axis=1), np.delete(without, 20, axis=1))


@pytest.mark.parametrize("shape", [(39, 60), (60, 39), (1, 1)])
def test_an_image_smaller_than_a_patch_is_refused_by_name(shape: tuple[int, int]) -> None:
    with pytest.raises(InputError, match=rf"night.*{shape[1]} x {shape[0]} px.*40 x 40"):
        fit_junctions(np.zeros(shape, np.float32), name="night")
