"""The method of ``preset="best"``, one call per step: evidence of several kinds for each disparity of each pixel.

Where it leaves the paper: the paper matches patches, each with one disparity, by squared differences on a scale set by
the image's extremes. Here every pixel is matched, by likelihood ratios in units of the pair's own noise, and what
junctions see is one kind of evidence among several. ``docs/best.md`` has the equations and what each step is worth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from scotopic.device import steps, to_device, wait
from scotopic.evidence.channels import Pair, gather, with_its_noise
from scotopic.evidence.clarity import clarity, eased
from scotopic.evidence.confidence import FAR, calibrated
from scotopic.evidence.groups import clarified
from scotopic.evidence.noise import Light, measure_light
from scotopic.evidence.solve import solve_along, solve_view
from scotopic.evidence.volume import join
from scotopic.junctions import Junctions
from scotopic.junctions.fit import fit_fields
from scotopic.progress import Progress, Share, Stopwatch, silent
from scotopic.result import Match
from scotopic.settings import Settings


def follow_best(
    images: Sequence[Any],
    settings: Settings,
    device: str,
    *,
    junctions: tuple[Junctions, Junctions] | None = None,
    progress: Progress = silent,
    timed: bool = True,
) -> Match:
    """Follow the method on two images that have been checked; arguments as for :func:`scotopic.match.follow`."""
    assert settings.evidence is not None
    evidence, shape = settings.evidence, images[0].shape[:2]
    engine, matching = steps("evidence", device), steps("matching", device)
    clock = Stopwatch(progress, partial(wait, device) if timed else None)

    # 1. How noisy is the pair? Make the noise alike everywhere.
    with clock.stage("noise"):
        images = [to_device(image, device) for image in images]
        light = measure_light(engine, images, evidence)
        even = [light.stabilized(image) for image in images]

    # 2. Describe each image by coarse structure that survives noise, with patches of several sizes.
    with clock.stage("junctions") as report:
        colors, boundaries = junction_maps(even, settings, light, device, junctions, report)

    # 3. What speaks for each disparity of each pixel, in nats, at a size where there is something to see.
    with clock.stage("evidence") as report:
        pair = Pair(even[0], even[1], colors[0], colors[1], light.variance)
        factor = working_size(engine, pair, settings)
        pair, small = at_size(engine, pair, settings, factor)
        pair = with_its_noise(engine, pair, evidence)
        if factor > 1:  # in good light junctions and images say it all
            pair = clarified(engine, pair, evidence)
        small = eased(small, clarity(engine, pair, settings))
        assert small.evidence is not None
        evidence = small.evidence
        features = join(engine, gather(engine, pair, evidence))
        disparities = range(small.matching.min_disparity, small.matching.max_disparity or 0)
        volume = engine.add_up(features, disparities, report)
        del features

    # 4. The disparities that together fit the evidence best, in both views.
    with clock.stage("matching left"):
        unit = engine.spread(volume)
        left, margin = solve_view(engine, matching, volume, unit, small, is_left=True)
    with clock.stage("matching right"):
        right, _ = solve_view(engine, matching, volume, unit, small, is_left=False)

    # 5. How sure each pixel is; the left view again, along surfaces; planes through what both views say.
    with clock.stage("surfaces"):
        apart = engine.disagreement(left, right)
        sure = engine.sureness(margin, apart, evidence.agreement_slack)
        score = engine.agreed(sure, evidence)
        for _ in range(evidence.surface_passes):
            surface = engine.planes(left, sure, evidence.of_surfaces())
            left = solve_along(engine, matching, volume, unit, small, surface)
        del volume
        flat = engine.planes(engine.fused(left, right), sure, evidence)

    # 6. Back to full size; keep what is sure enough.
    with clock.stage("confidence"):
        full = partial(engine.enlarged, factor=factor, shape=shape)
        ends = settings.matching.min_disparity, (settings.matching.max_disparity or 1) - 1
        dense, of_right = (engine.within(full(each * factor), *ends) for each in (flat, right))
        confidence = calibrated(full(score), unit, evidence)
        apart = full(engine.within(apart, 0.0, FAR)) * factor
        disparity, reason = engine.keep(dense, confidence, apart, settings.matching)

    return Match(
        disparity=disparity,
        disparity_all=dense,
        right_disparity=of_right,
        confidence=confidence,
        reason=reason,
        left_image=images[0],
        right_image=images[1],
        left_boundaries=boundaries[0],
        right_boundaries=boundaries[1],
        left_colors=light.recorded(colors[0]),
        right_colors=light.recorded(colors[1]),
        settings=settings,
        timings=clock.timings,
    )


def junction_maps(
    images: Sequence[Any],
    settings: Settings,
    light: Light,
    device: str,
    given: tuple[Junctions, Junctions] | None,
    report: Share,
) -> tuple[list[Any], list[Any]]:
    """Return the color and boundary maps of both views: means over the sizes of patches, or those of given fields."""
    assert settings.evidence is not None
    if given is not None:
        there = [field.to_device(device) for field in given]
        return [light.stabilized(field.color_map) for field in there], [field.boundary_map for field in there]
    sizes = settings.evidence.patch_sizes(settings.junctions)
    fits = []
    for k, size in enumerate(sizes):
        one = replace(settings.junctions, patch_size=size)
        done = partial(_part, report, k / len(sizes), 1 / len(sizes))
        fits.append(fit_fields(images, one, device=device, progress=done))
    views = list(zip(*fits, strict=True))
    colors = [sum(field.color_map for field in view) / len(view) for view in views]
    return colors, [sum(field.boundary_map for field in view) / len(view) for view in views]


def _part(report: Share, before: float, whole: float, share: float) -> None:
    report(before + whole * share)


def working_size(engine: Any, pair: Pair, settings: Settings) -> int:
    """Return how many pixels along a side become one: 1 in good light, 2 in the dark, more in a large image."""
    assert settings.evidence is not None
    assert settings.matching.max_disparity is not None
    seen = engine.signal_to_noise(pair.left, pair.variance, settings.evidence)
    factor = 1 if seen > settings.evidence.full_size_snr else 2
    height, width = pair.left.shape[:2]
    candidates = settings.matching.max_disparity - settings.matching.min_disparity
    while height * width * candidates > settings.evidence.max_cells * factor**3 and factor < min(height, width):
        factor *= 2
    return factor


def at_size(engine: Any, pair: Pair, settings: Settings, factor: int) -> tuple[Pair, Settings]:
    """Return the pair, and the settings with their range of disparities, with ``factor x factor`` pixels averaged."""
    images, variance = [pair.left, pair.right, pair.left_junctions, pair.right_junctions], pair.variance
    matching = settings.matching
    assert matching.max_disparity is not None
    first, last = matching.min_disparity, matching.max_disparity - 1
    while factor > 1:
        images, variance, factor = [engine.halved(image) for image in images], variance / 4, factor // 2
        first, last = first // 2, last // 2
    small = replace(matching, min_disparity=first, max_disparity=last + 1)
    left, right, left_junctions, right_junctions = images
    small_pair = Pair(left, right, left_junctions, right_junctions, variance)
    return small_pair, replace(settings, matching=small)
