"""Evidence matching, preset ``best``: evidence of several kinds for each disparity of each pixel, one call per stage.

Where it goes beyond the paper: the paper matches patches, each with one disparity, by squared differences on a scale
set by the image's extremes. Here every pixel is matched, by likelihood ratios in units of the pair's own noise, and
what junctions see is one kind of evidence among several. ``docs/best.md`` has the equations and what each stage is
worth.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from scotopic.arrays import Array
from scotopic.backends.protocol import Backend
from scotopic.progress import Share, Stage, Stopwatch
from scotopic.result import Match
from scotopic.settings import EvidenceMatchingSettings
from scotopic.stages.channels import Pair, build_channels, detect_correlated_noise
from scotopic.stages.confidence import UNSEEN, calibrate, keep_confident, smooth_score, weigh_margin
from scotopic.stages.consistency import lr_difference, merge_views
from scotopic.stages.denoising import denoise_color_maps
from scotopic.stages.evidence_volume import build_volume, measure_spread
from scotopic.stages.junctions.fit import Junctions, fit_fields
from scotopic.stages.noise import NoiseModel, estimate_noise
from scotopic.stages.resolution import choose_size, enlarge, measure_snr, relax_for_snr, shrink_pair
from scotopic.stages.sgm import solve_along, solve_pixels
from scotopic.stages.surfaces import fit_planes

NOISE = Stage("noise", "estimate the pair's noise and stabilize its variance")
JUNCTIONS = Stage("junctions", "describe each view by coarse structure, with patches of several sizes")
EVIDENCE = Stage("evidence", "what speaks for each disparity of each pixel, at a size where there is something to see")
MATCHING = (
    Stage("matching left", "semi-global matching of the left pixels"),
    Stage("matching right", "semi-global matching of the right pixels"),
)
SURFACES = Stage("surfaces", "score each pixel, solve the left view again along surfaces, fit planes to both views")
CONFIDENCE = Stage("confidence", "back to full size; calibrate the score and keep what is sure enough")
STAGES = (NOISE, JUNCTIONS, EVIDENCE, *MATCHING, SURFACES, CONFIDENCE)


def match_evidence(
    backend: Backend[Array],
    images: Sequence[Array],
    settings: EvidenceMatchingSettings,
    clock: Stopwatch,
    given: Sequence[Junctions[Array]] | None = None,
) -> Match:
    """Match two images; arguments as for :func:`scotopic.pipelines.junction_matching.match_junctions`."""
    shape, disparities = (images[0].shape[0], images[0].shape[1]), settings.matching.disparities

    with clock.stage(NOISE):
        noise = estimate_noise(backend, images, settings.noise)
        stabilized = [noise.stabilize(image) for image in images]

    with clock.stage(JUNCTIONS) as report:
        colors, boundaries = describe_views(backend, stabilized, noise, settings, given, report)

    with clock.stage(EVIDENCE) as report:
        pair = Pair(stabilized[0], stabilized[1], colors[0], colors[1], noise.variance)
        factor = choose_size(backend, pair, settings)
        pair, small = shrink_pair(backend, pair, settings, factor)
        pair = detect_correlated_noise(backend, pair, small)
        if factor > 1:  # in good light junctions and images say it all
            pair = denoise_color_maps(backend, pair, small.denoising, small.channels)
        small = relax_for_snr(small, measure_snr(backend, pair, small))
        channels = build_channels(backend, pair, small)
        volume = build_volume(backend, channels, small.matching.disparities, report)
        spread = measure_spread(backend, volume)
        del channels

    with clock.stage(MATCHING[0]):
        left, margin = solve_pixels(backend, volume, spread, small, is_left=True)
    with clock.stage(MATCHING[1]):
        right, _ = solve_pixels(backend, volume, spread, small, is_left=False)

    with clock.stage(SURFACES):
        difference = lr_difference(backend, left, right)
        weights = weigh_margin(backend, margin, difference, small.score)
        score = smooth_score(backend, weights, small.score)
        for _ in range(small.surfaces.surface_passes):
            surface = fit_planes(backend, left, weights, small.surfaces.wide)
            left = solve_along(backend, volume, spread, small, surface)
        del volume
        merged = fit_planes(backend, merge_views(backend, left, right), weights, small.surfaces.local)

    with clock.stage(CONFIDENCE):
        full = partial(enlarge, backend, factor=factor, shape=shape)
        dense, right = (
            backend.xp.clip(full(each * factor), min=disparities[0], max=disparities[-1]) for each in (merged, right)
        )
        confidence = calibrate(full(score), spread)
        difference = full(backend.xp.clip(difference, min=0, max=UNSEEN)) * factor
        disparity, reason = keep_confident(backend, dense, confidence, difference, settings.matching)

    return Match.from_arrays(
        settings,
        clock.timings,
        disparity=disparity,
        disparity_all=dense,
        right_disparity=right,
        confidence=confidence,
        reason=reason,
        left_image=images[0],
        right_image=images[1],
        left_boundaries=boundaries[0],
        right_boundaries=boundaries[1],
        left_colors=noise.restore(colors[0]),
        right_colors=noise.restore(colors[1]),
    )


def describe_views(
    backend: Backend[Array],
    images: Sequence[Array],
    noise: NoiseModel,
    settings: EvidenceMatchingSettings,
    given: Sequence[Junctions[Array]] | None,
    report: Share,
) -> tuple[list[Array], list[Array]]:
    """Return the color and boundary maps of both views: means over the patch sizes, or those of given junctions."""
    if given is not None:
        return [noise.stabilize(field.color_map) for field in given], [field.boundary_map for field in given]
    sizes = settings.description.patch_sizes(settings.junctions)
    fits = []
    for k, size in enumerate(sizes):
        one = replace(settings.junctions, patch_size=size)
        done = partial(_report_fit, report, k, len(sizes))
        fits.append(fit_fields(backend, images, one, done))
    views = list(zip(*fits, strict=True))
    colors = [_mean([field.color_map for field in view]) for view in views]
    return colors, [_mean([field.boundary_map for field in view]) for view in views]


def _report_fit(report: Share, fit: int, fits: int, share: float) -> None:
    report((fit + share) / fits)


def _mean(maps: Sequence[Array]) -> Array:
    total = maps[0]
    for each in maps[1:]:
        total = total + each
    mean: Array = total / len(maps)
    return mean
