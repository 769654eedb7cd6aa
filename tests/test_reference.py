"""The published results: maps and disparities that follow from the published parameters, and one scene end to end."""

from functools import cache, lru_cache

import numpy as np
import pytest
from agreement import assert_maps_agree
from devices import ON_REAL_DEVICES
from kernel_calls import FieldState, on, plain_map_of
from pictures import as_planes
from reference_data import SCENES, SIDES, reference_scene

import scotopic
from scotopic.evaluation import score
from scotopic.evaluation.curves import at_coverage
from scotopic.settings import JunctionSettings, PatchMatchingSettings
from scotopic.stages.junctions.fit import Junctions
from scotopic.stages.patch_costs import View, build_patch_costs, scale_costs
from scotopic.stages.sgm import jump_penalties

pytestmark = pytest.mark.reference

VIEWS = [(data_set, name, side) for data_set, names in SCENES.items() for name in names for side in SIDES]
MATCHING = PatchMatchingSettings(max_disparity=128)


@lru_cache(maxsize=4)  # two scenes: all sixteen views would fill the memory
def view_from_published_parameters(data_set: str, name: str, side: str, device: str) -> View:
    """The view with the maps that its published parameters give."""
    scene = reference_scene(data_set, name)
    settings, image = JunctionSettings(), scene.images[side]
    field = FieldState(device, as_planes(image), settings)
    field.parameters = scene.parameters[side]
    field.rebuild()
    plain = plain_map_of(device, image, field.parameters, settings)
    return View(image, Junctions(field.parameters, field.boundary_map, plain, settings), plain)


@cache
def patch_disparities(data_set: str, name: str, side: str, device: str) -> np.ndarray:
    """The disparity of each patch that follows from the published parameters of both views."""
    view, other = (
        view_from_published_parameters(data_set, name, which, device) for which in (side, *set(SIDES) - {side})
    )
    there = on(device)
    raw = there.run(build_patch_costs, view, other, MATCHING, is_left=side == "left")
    penalties = there.run(jump_penalties, view.junctions, MATCHING)
    best, _ = there.select(there.aggregate(there.run(scale_costs, raw, MATCHING), penalties, MATCHING.p1))
    return best


@pytest.mark.parametrize("device", ON_REAL_DEVICES)
@pytest.mark.parametrize(("data_set", "name", "side"), VIEWS)
def test_boundary_maps_follow_from_the_published_parameters(data_set: str, name: str, side: str, device: str) -> None:
    view = view_from_published_parameters(data_set, name, side, device)

    assert_maps_agree(view.junctions.boundary_map, reference_scene(data_set, name).boundaries[side], 1e-3)


# Costs are floored to integers, and the published float32 cost of a cell or two of a view lies so near one that the
# order of summation decides; the paths through such a cell carry the choice to a few neighbors. Exact arithmetic in
# float64 has the same two views below 99.9 %: Motorcycle right with 99.78 %, Vintage left with 99.83 %; the fourteen
# others reach it. So a view may miss by that much; a data set as a whole may not. A GPU sums in another order still,
# and may differ from the CPU by half a percent more.
MAY_DIFFER = {"cpu": {"view": 0.003, "data set": 0.001}, "cuda": {"view": 0.008, "data set": 0.006}}


@pytest.mark.parametrize("device", ON_REAL_DEVICES)
@pytest.mark.parametrize(("data_set", "name", "side"), VIEWS)
def test_patch_disparities_follow_from_the_published_parameters(
    data_set: str, name: str, side: str, device: str
) -> None:
    found = patch_disparities(data_set, name, side, device)

    assert_maps_agree(
        found, reference_scene(data_set, name).patch_disparities[side], 0, outliers=MAY_DIFFER[device]["view"]
    )


@pytest.mark.parametrize("device", ON_REAL_DEVICES)
@pytest.mark.parametrize("data_set", SCENES)
def test_of_all_patches_of_a_data_set_a_thousandth_may_differ(data_set: str, device: str) -> None:
    views = [(name, side) for name in SCENES[data_set] for side in SIDES]
    found = np.concatenate([patch_disparities(data_set, *view, device).ravel() for view in views])
    published = np.concatenate(
        [reference_scene(data_set, name).patch_disparities[side].ravel() for name, side in views]
    )

    assert_maps_agree(found, published, 0, outliers=MAY_DIFFER[device]["data set"])


@pytest.mark.parametrize("device", ON_REAL_DEVICES)
def test_the_fast_preset_stays_near_the_published_result_on_motorcycle(device: str) -> None:
    scene = reference_scene("middlebury", "Motorcycle")

    result = scotopic.match(scene.images["left"], scene.images["right"], "fast", device, max_disparity=128)

    # DATA.md, row middlebury_Motorcycle. Rounding alone moves one scene by some 20 %; the comparison on the mean of all
    # scenes, which is the one that counts, takes minutes and is a benchmark.
    found = score(result.disparity, scene.truth, window=19)
    assert found.epe <= 1.5 * 0.721
    assert found.coverage >= 0.5 * 0.0659


@pytest.mark.parametrize("device", ON_REAL_DEVICES)
def test_the_best_preset_has_less_than_the_published_error_at_four_times_the_coverage(device: str) -> None:
    scene = reference_scene("middlebury", "Motorcycle")

    result = scotopic.match(scene.images["left"], scene.images["right"], "best", device, max_disparity=128)

    # The same row: two thirds of the published error at its coverage, and less than all of it at 28 %.
    for share, part in ((0.0659, 0.67), (0.28, 1.0)):
        kept = at_coverage(result.disparity_all, result.confidence, share)
        assert score(kept, scene.truth, window=19).epe < part * 0.721
