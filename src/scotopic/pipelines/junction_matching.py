"""Junction matching, presets ``paper`` and ``fast``: the method of Wang et al. (2026), one call per stage.

Each view is described by a field of junctions; its patches are matched to the other view by semi-global matching in
which jumps are cheap at boundaries; what both views agree on is kept.
"""

from collections.abc import Sequence

from scotopic.arrays import Array
from scotopic.backends.protocol import Backend
from scotopic.progress import Stage, Stopwatch
from scotopic.result import Match
from scotopic.settings import JunctionMatchingSettings
from scotopic.stages.consistency import average_over_patches, check_views
from scotopic.stages.junctions.fit import Junctions, fit_fields
from scotopic.stages.patch_costs import build_patch_costs, make_view, scale_costs
from scotopic.stages.sgm import jump_penalties

JUNCTIONS = Stage("junctions", "describe each view by coarse structure that survives noise", 90)
COSTS = (
    Stage("costs left", "compare the left view's patches with the right view", 4),
    Stage("costs right", "compare the right view's patches with the left view", 4),
)
MATCHING = (
    Stage("matching left", "semi-global matching of the left patches"),
    Stage("matching right", "semi-global matching of the right patches"),
)
CONSISTENCY = Stage("consistency", "keep what both views agree on, where structure was seen")
STAGES = (JUNCTIONS, COSTS[0], MATCHING[0], COSTS[1], MATCHING[1], CONSISTENCY)


def match_junctions(
    backend: Backend[Array],
    images: Sequence[Array],
    settings: JunctionMatchingSettings,
    clock: Stopwatch,
    given: Sequence[Junctions[Array]] | None = None,
) -> Match:
    """Match two images; the arrays of the result are the backend's.

    Parameters
    ----------
    images
        Both views, ``(H, W, C)`` float32, checked.
    settings
        With the disparity range fixed.
    clock
        Times the stages and reports them.
    given
        Both views' junctions, where they have been fitted already.
    """
    shape, matching = (images[0].shape[0], images[0].shape[1]), settings.matching

    with clock.stage(JUNCTIONS) as report:
        fields = given or fit_fields(backend, images, settings.junctions, report)
        views = [make_view(backend, image, field) for image, field in zip(images, fields, strict=True)]

    disparities, margins = [], []  # at each pixel
    for k, view in enumerate(views):
        with clock.stage(COSTS[k]) as report:
            raw = build_patch_costs(backend, view, views[1 - k], matching, is_left=k == 0, progress=report)
            costs = scale_costs(backend, raw, matching)
            del raw
        with clock.stage(MATCHING[k]):
            totals = backend.aggregate(costs, jump_penalties(backend, view.junctions, matching), matching.p1)
            best, margin = backend.select(totals)
            del costs, totals
            found = backend.xp.stack([best + matching.min_disparity, margin])
            disparity, margin = average_over_patches(backend, found, shape, settings.junctions)
            disparities.append(disparity)
            margins.append(margin)

    with clock.stage(CONSISTENCY):
        boundaries = [field.boundary_map for field in fields]
        left, right = disparities
        kept = check_views(backend, left, right, margins[0], boundaries[0], boundaries[1], matching)

    return Match.from_arrays(
        settings,
        clock.timings,
        disparity=kept.disparity,
        disparity_all=left,
        right_disparity=right,
        confidence=kept.confidence,
        reason=kept.reason,
        left_image=images[0],
        right_image=images[1],
        left_boundaries=boundaries[0],
        right_boundaries=boundaries[1],
        left_colors=fields[0].color_map,
        right_colors=fields[1].color_map,
    )
