"""Evidence matching, preset ``best``: evidence of several kinds for each disparity of each pixel, one call per stage.

Where it goes beyond the paper: the paper matches patches, each with one disparity, by squared differences on a scale
set by the image's extremes. Here every pixel is matched, by likelihood ratios in units of the pair's own noise, and
what junctions see is one kind of evidence among several. ``docs/best.md`` has the equations and what each stage is
worth.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic

from scotopic.arrays import Array
from scotopic.backends.protocol import Backend
from scotopic.progress import Share, Stage, Stopwatch
from scotopic.result import Match
from scotopic.settings import EvidenceMatchingSettings, JunctionSettings
from scotopic.stages.census import build_fine_volume, choose_census_scale
from scotopic.stages.channels import Pair, build_channels, detect_correlated_noise
from scotopic.stages.color_costs import add_color_volume, weigh_colors_in_the_dark
from scotopic.stages.confidence import (
    UNSEEN,
    ConfidenceCalibration,
    calibrate,
    choose_calibration,
    keep_confident,
    measure_relief,
    smooth_score,
    weigh_margin,
)
from scotopic.stages.consistency import fill_occlusions, find_hidden, lr_difference, merge_views
from scotopic.stages.denoising import denoise_color_maps
from scotopic.stages.equalization import compare_exposure, equalize_exposure
from scotopic.stages.evidence_volume import build_volume, weigh_by_light
from scotopic.stages.inner_margin import ENOUGH_COLOR, measure_inner_margin, mix_margins
from scotopic.stages.junctions.fit import Junctions, fit_fields
from scotopic.stages.local_light import remove_local_light
from scotopic.stages.noise import NoiseModel, drop_equal_channels, estimate_noise
from scotopic.stages.resolution import (
    GUESS,
    SnrEstimate,
    adapt_patches,
    adapt_to_fine,
    adapt_to_quietest,
    choose_size,
    enlarge,
    estimate_snr,
    measure_snr,
    relax_for_snr,
    return_to_range,
    shrink_maps,
    shrink_pair,
    widen_search,
)
from scotopic.stages.sgm import edge_penalties, refine_between, solve_along, solve_pixels, uniform_penalties
from scotopic.stages.surfaces import SPACING, fit_planes
from scotopic.stages.votes import add_votes

NOISE = Stage("noise", "estimate the pair's noise and stabilize its variance")
JUNCTIONS = Stage("junctions", "describe each view by coarse structure that survives noise", 40)
EVIDENCE = Stage(
    "evidence", "what speaks for each disparity of each pixel, at a size where there is something to see", 25
)
MATCHING = (
    Stage("matching left", "semi-global matching of the left pixels"),
    Stage("matching right", "semi-global matching of the right pixels"),
)
SURFACES = Stage("surfaces", "score each pixel, solve the left view again along surfaces, fit planes to both views", 6)
CONFIDENCE = Stage("confidence", "back to full size; calibrate the score and keep what is sure enough")
STAGES = (NOISE, JUNCTIONS, EVIDENCE, *MATCHING, SURFACES, CONFIDENCE)


def match_evidence(
    backend: Backend[Array],
    images: Sequence[Array],
    settings: EvidenceMatchingSettings,
    clock: Stopwatch,
    given: Sequence[Junctions[Array]] | None = None,
    light: Sequence[Array] | None = None,
) -> Match:
    """Match two images; arguments as for :func:`scotopic.pipelines.junction_matching.match_junctions`.

    ``light``, of both views, is how much light each pixel rests on, as a share of what most pixels rest on.
    """
    asked, settings = settings, widen_search(settings, images[0].shape[1])
    shape, disparities = (images[0].shape[0], images[0].shape[1]), settings.matching.disparities

    with clock.stage(NOISE):
        views = drop_equal_channels(backend, images)
        noise = estimate_noise(backend, views, settings.noise)
        stabilized = [noise.stabilize(image) for image in views]
        snr = estimate_snr(backend, stabilized, noise.variance, settings)

    with clock.stage(JUNCTIONS) as report:
        patches = adapt_patches(settings, noise.variance, snr.image_snr, is_correlated=snr.has_correlated_noise)
        colors, boundaries = describe_views(backend, stabilized, noise, patches, given, report)

    with clock.stage(EVIDENCE) as report:
        pair = Pair(stabilized[0], stabilized[1], colors[0], colors[1], noise.variance)
        evidence = gather_evidence(backend, pair, snr, settings, report)
        volume, small, factor = evidence.volume, evidence.settings, evidence.factor
        if light is not None:
            light = shrink_maps(backend, light, factor)
            weigh_by_light(backend, volume, light, small.matching.disparities)
        backend.normalize_volume(volume)

    with clock.stage(MATCHING[0]):
        left, margin = solve_pixels(backend, volume, small, evidence.penalties[0], is_left=True)
        margin = margin * evidence.margin_share
    with clock.stage(MATCHING[1]):
        right, _ = solve_pixels(backend, volume, small, evidence.penalties[1], is_left=False)

    with clock.stage(SURFACES):
        if snr.has_detail and snr.has_clear_pixels and settings.votes.vote_count > 0:
            left = solve_with_votes(backend, evidence, left, right, margin)
            # The votes follow surfaces too, and along them the left view would be solved a third time for nothing.
            small = replace(small, surfaces=replace(small.surfaces, surface_passes=0))
        inner = evidence.inner_margin
        if inner is not None:
            margin = mix_margins(margin, inner, small.score)
        denoised = tuple(noise.restore(view) for view in evidence.views)
        lit = () if light is None else (light[0],)
        work = partial(follow_surfaces, backend, small, factor)
        merged, difference, hidden, score = backend.replayed((small, factor), work, volume, left, right, margin, *lit)
        del evidence, volume

    with clock.stage(CONFIDENCE):
        calibration = choose_calibration(snr, has_inner_margin=inner is not None)
        work = partial(read_confidence, backend, calibration, disparities, factor, shape)
        dense, right, difference, hidden, confidence = backend.replayed(
            (calibration, disparities, factor, shape), work, merged, right, difference, hidden, score
        )
        ranges = asked.matching.disparities, disparities
        dense, right, confidence = return_to_range(backend, (dense, right), confidence, *ranges)
        if not snr.has_structure:
            confidence = backend.xp.clip(confidence, max=GUESS)
        disparity, reason = keep_confident(
            backend, dense, confidence, difference, hidden, images[0], settings.matching, settings.score.sparse_share
        )

    return Match.from_arrays(
        asked,
        clock.timings,
        denoised=denoised,
        disparity=disparity,
        disparity_all=dense,
        right_disparity=right,
        confidence=confidence,
        reason=reason,
        left_image=images[0],
        right_image=images[1],
        left_boundaries=boundaries[0],
        right_boundaries=boundaries[1],
        left_colors=noise.restore(colors[0]) + backend.xp.zeros_like(images[0]),
        right_colors=noise.restore(colors[1]) + backend.xp.zeros_like(images[1]),
    )


@dataclass(frozen=True, eq=False)
class Evidence(Generic[Array]):
    """A volume to be solved, and how: ``P2`` of each pixel of both views, the settings, and the working size.

    ``views`` are the images that it was drawn from, as clear as they got. Margins count ``margin_share`` times. Where
    denoised colors say enough, there is the margin that pixels have inside their own edges too.
    """

    volume: Array
    views: tuple[Array, Array]
    penalties: tuple[Array, Array]
    settings: EvidenceMatchingSettings
    factor: int
    margin_share: float = 1.0
    inner_margin: Array | None = None


def gather_evidence(
    backend: Backend[Array], pair: Pair[Array], snr: SnrEstimate, settings: EvidenceMatchingSettings, report: Share
) -> Evidence[Array]:
    """Return fine evidence in light that shows detail, and coarse evidence in the dark."""
    factor = choose_size(pair.left.shape[:2], snr, settings)
    gather = gather_fine if snr.has_detail else gather_coarse
    return gather(backend, pair, snr, settings, factor, report)


def gather_coarse(
    backend: Backend[Array],
    pair: Pair[Array],
    snr: SnrEstimate,
    settings: EvidenceMatchingSettings,
    factor: int,
    report: Share,
) -> Evidence[Array]:
    """Return the evidence of structure that survives noise, and of colors, with ``factor x factor`` pixels averaged."""
    color_weight = 0.0 if snr.has_correlated_noise else weigh_colors_in_the_dark(snr.image_snr, settings.colors)
    pair, settings = shrink_pair(backend, pair, settings, factor)
    pair = detect_correlated_noise(backend, pair, settings)
    if not snr.has_clear_pixels:
        pair = denoise_color_maps(backend, pair, settings.denoising, settings.channels)
    settings = relax_for_snr(settings, measure_snr(backend, pair, settings))
    if color_weight < 1:  # in so little light the costs say nothing between the candidates
        settings = replace(settings, surfaces=replace(settings.surfaces, subpixel_reach=0.0))
    disparities, views = settings.matching.disparities, (pair.left_colors, pair.right_colors)
    # Before the volume is begun, which a GPU then works on without another wait for the host.
    compared = in_same_light(backend, views, pair.variance, settings, factor) if color_weight > 0 else None
    inner = None
    if compared and color_weight >= ENOUGH_COLOR:
        inner = measure_inner_margin(backend, compared, pair.variance, settings)
    volume = build_volume(backend, build_channels(backend, pair, settings), disparities, report)
    if compared:
        add_color_volume(backend, volume, compared, pair.variance, disparities, settings.colors, color_weight)
    same = uniform_penalties(backend, pair.left, settings.matching.p2)
    return Evidence(volume, views, (same, same), settings, factor, inner_margin=inner)


def gather_fine(
    backend: Backend[Array],
    pair: Pair[Array],
    snr: SnrEstimate,
    settings: EvidenceMatchingSettings,
    factor: int,
    report: Share,
) -> Evidence[Array]:
    """Return the evidence of single pixels: of clear images their census, else census and colors, denoised."""
    pair, settings = shrink_pair(backend, pair, adapt_to_fine(settings, snr), factor)
    fine, disparities = settings.fine, settings.matching.disparities
    views = pair.left, pair.right
    if not snr.has_clear_pixels:
        if snr.has_correlated_noise:
            pair = detect_correlated_noise(backend, pair, adapt_to_quietest(settings))
        denoising = replace(settings.denoising, group_share=1.0, group_reach=fine.fine_group_reach)
        pair = denoise_color_maps(backend, pair, denoising, settings.channels)
        views = pair.left_colors, pair.right_colors
    compared = in_same_light(backend, views, pair.variance, settings, factor, is_clear=snr.has_clear_pixels)
    scale, colors = choose_census_scale(pair.variance, fine), settings.colors
    has_colors = not (snr.has_clear_pixels or snr.has_correlated_noise)
    inner = measure_inner_margin(backend, compared, pair.variance, settings) if has_colors else None
    volume = build_fine_volume(backend, compared, scale, disparities, fine, report)
    if has_colors:
        add_color_volume(backend, volume, compared, pair.variance, disparities, colors, colors.color_share)
    contrast = max(fine.edge_contrast, fine.edge_noise * pair.variance**0.5)
    p1, p2 = settings.matching.p1, settings.matching.p2
    penalties = tuple(edge_penalties(backend, view, p1, p2, contrast) for view in views)
    share = 1 / fine.correlated_p1 if snr.leaves_correlated_noise else 1.0  # a margin holds that much more of P1
    return Evidence(volume, views, (penalties[0], penalties[1]), settings, factor, share, inner)


def in_same_light(
    backend: Backend[Array],
    views: tuple[Array, Array],
    noise_variance: float,
    settings: EvidenceMatchingSettings,
    factor: int,
    *,
    is_clear: bool = False,
) -> tuple[Array, Array]:
    """Return two views with the exposure of the left one and, where light differs by region, that of the right one."""
    left, right = views
    right = equalize_exposure(backend, right, compare_exposure(backend, *views, settings.matching.disparities, factor))
    return remove_local_light(backend, left, right, noise_variance, settings, factor, is_clear=is_clear), right


def solve_with_votes(
    backend: Backend[Array], evidence: Evidence[Array], left: Array, right: Array, margin: Array
) -> Array:
    """Return the disparity of the left view, solved again with the votes of like colors added to the volume.

    The right view keeps its first solution. Votes are cast for left pixels, hidden ones too: along a right pixel's row
    of the volume, those of a hidden wall would speak for it against the thing that hides it.
    """
    volume, settings, factor = evidence.volume, evidence.settings, evidence.factor
    weights = weigh_margin(backend, margin, lr_difference(backend, left, right), settings.score)
    surface = fit_wide_planes(backend, left, weights, settings, factor)
    first = settings.matching.min_disparity
    add_votes(backend, volume, evidence.views[0], left, surface, weights, first, factor, settings.votes)
    return solve_pixels(backend, volume, settings, evidence.penalties[0], is_left=True)[0]


def fit_wide_planes(
    backend: Backend[Array], disparity: Array, weights: Array, settings: EvidenceMatchingSettings, factor: int
) -> Array:
    """Return wide planes through a solution; at full size every other pixel of those that half size looks at."""
    spacing = 2 * SPACING if factor == 1 else SPACING
    return fit_planes(backend, disparity, weights, settings.surfaces.wide, spacing=spacing)


def follow_surfaces(
    backend: Backend[Array],
    settings: EvidenceMatchingSettings,
    factor: int,
    volume: Array,
    left: Array,
    right: Array,
    margin: Array,
    light: Array | None = None,
) -> list[Array]:
    """Return the disparity of the left view, solved again along surfaces and with what is hidden filled in.

    With it come the difference between the views, where the right one sees something nearer, and the score.
    """
    difference = lr_difference(backend, left, right)
    weights = weigh_margin(backend, margin, difference, settings.score)
    if light is not None:
        weights = weights * light**0.5
    score = smooth_score(backend, weights, settings.score)
    for _ in range(settings.surfaces.surface_passes):
        left = solve_along(backend, volume, settings, fit_wide_planes(backend, left, weights, settings, factor))
    threshold = settings.matching.left_right_threshold
    is_consistent, hidden = difference <= threshold, find_hidden(backend, left, right, threshold)
    merged = merge_views(backend, left, right)
    if settings.surfaces.subpixel_reach > 0:
        first, reach = settings.matching.min_disparity, settings.surfaces.subpixel_reach
        refined = refine_between(backend, volume, merged, first, reach)
        merged = backend.xp.where(is_consistent, refined, merged)
    merged = fill_occlusions(backend, merged, is_consistent)
    merged = fit_planes(backend, merged, weights * is_consistent, settings.surfaces.local)
    return [merged, difference, hidden, score]


def read_confidence(
    backend: Backend[Array],
    calibration: ConfidenceCalibration,
    disparities: range,
    factor: int,
    shape: tuple[int, int],
    merged: Array,
    right: Array,
    difference: Array,
    hidden: Array,
    score: Array,
) -> list[Array]:
    """Return at full size the disparities of both views, their difference, what is hidden, and the confidence."""
    xp, full = backend.xp, partial(enlarge, backend, factor=factor, shape=shape)
    dense, right = (xp.clip(full(each * factor), min=disparities[0], max=disparities[-1]) for each in (merged, right))
    confidence = full(calibrate(backend, score, measure_relief(backend, merged, factor), calibration))
    difference = full(xp.clip(difference, min=0, max=UNSEEN)) * factor
    return [dense, right, difference, full(xp.astype(hidden, xp.float32)) > 0.5, confidence]


def describe_views(
    backend: Backend[Array],
    images: Sequence[Array],
    noise: NoiseModel,
    settings: JunctionSettings,
    given: Sequence[Junctions[Array]] | None,
    report: Share,
) -> tuple[list[Array], list[Array]]:
    """Return the color and boundary maps of both views, fitted here or those of given junctions."""
    if given is not None:
        channels = images[0].shape[2]
        colors = [noise.stabilize(field.color_map[..., :channels]) for field in given]
        return colors, [field.boundary_map for field in given]

    def fit(*views: Array) -> list[Junctions[Array]]:
        return fit_fields(backend, views, settings, report)

    fields = backend.replayed(settings, fit, *images)
    return [field.color_map for field in fields], [field.boundary_map for field in fields]
