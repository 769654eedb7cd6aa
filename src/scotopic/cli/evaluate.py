"""``scotopic evaluate``: score a disparity map from any source; ``scotopic benchmark``: run a plan and report."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.table import Table

from scotopic.cli import options
from scotopic.cli.console import CountDisplay, StageDisplay, make_table, print_result
from scotopic.errors import InputError, SettingsError
from scotopic.evaluation.answers import (
    Answers,
    Map,
    as_map,
    check_size,
    doubt_maps,
    read_answers,
    read_confidence,
)
from scotopic.evaluation.curves import Curve, at_coverage, risk_coverage
from scotopic.evaluation.metrics import EdgeBin, Score, check_thresholds, error_by_edge_distance, score
from scotopic.evaluation.records import threshold_name
from scotopic.io.images import read_mask
from scotopic.io.input_file import read_json

if TYPE_CHECKING:
    from scotopic.evaluation.benchmark import Status

Region = NDArray[np.bool_]

DEFAULT_WINDOWS = (19, 1)
COVERAGES = (5, 10, 25, 50, 100)  #: percent of all pixels, or of the region, at which a map with a confidence is scored
CURVE_POINTS = 100
INCOMPLETE = 1  #: exit code of a benchmark of which some tasks failed or were not run


@dataclass(frozen=True, eq=False)
class _Evaluation:
    """All scores at one window."""

    own: Score  # of the map as given
    edges: list[EdgeBin]
    most_confident: dict[int, Score]  # by the percentage of all pixels that is kept
    curve: Curve | None


def evaluate(
    prediction: Annotated[
        Path,
        typer.Argument(metavar="PRED", help="Disparity: PFM, 16-bit PNG, NPZ, NPY, or a folder of scotopic match."),
    ],
    truth: Annotated[Path, typer.Argument(metavar="GT", help="True disparity, in any of the same formats.")],
    confidence: Annotated[
        Path | None,
        typer.Option(metavar="C", help="Confidence, higher is surer, as PFM, PNG or NPZ; a match has its own."),
    ] = None,
    window: Annotated[
        list[int] | None,
        typer.Option(metavar="W", help="Odd side of the window in px; may be repeated; 19 and 1 by default."),
    ] = None,
    thresholds: Annotated[str, typer.Option(metavar="K,K,...", help="The K of Bad-K in px.")] = "1,3,5",
    region: Annotated[
        Path | None,
        typer.Option(metavar="MASK", help="Image of the pixels to score: 255, or 1 in a mask of 0 and 1."),
    ] = None,
    png_scale: Annotated[
        str | None,
        typer.Option(
            metavar="S[,S]", help="Disparity of a PNG is value / S, 0 unknown; 256 by default; or one S for PRED, GT."
        ),
    ] = None,
    truth_in_window: Annotated[
        bool,
        typer.Option(
            "--truth-in-window",
            help="Also score pixels without truth of their own, by the truth in their window, as the paper does.",
        ),
    ] = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Score a disparity map against the truth: errors, each with its coverage, and how well its confidence ranks."""
    windows = tuple(dict.fromkeys(window or DEFAULT_WINDOWS))
    limits = _parse_numbers(thresholds, "--thresholds", "1,3,5")
    check_thresholds(limits)
    scales = _parse_scales(png_scale)
    with StageDisplay(quiet) as display:
        with display.stage("reading"):
            answers, true, inside = _read_maps(prediction, truth, confidence, region, scales)
        with display.stage("scoring"):
            evaluations = [_evaluate(answers, true, inside, each, limits, not truth_in_window) for each in windows]
    for doubt in [] if quiet else doubt_maps(prediction, answers.disparity, true, truth):
        typer.echo(f"warning: {doubt}", err=True)
    height, width = true.shape
    summary = {
        "prediction": str(prediction),
        "truth": str(truth),
        "confidence": None if confidence is None else str(confidence),
        "region": None if region is None else str(region),
        "width": width,
        "height": height,
        "scored_pixels": "with truth in the window" if truth_in_window else "with truth of their own",
        "scores": [_as_dict(each) for each in evaluations],
    }
    text = _as_text(evaluations, "image" if region is None else "region", summary["scored_pixels"])
    print_result(summary, text, quiet, as_json)


def _evaluate(
    answers: Answers, truth: Map, region: Region | None, window: int, limits: list[float], own_truth: bool
) -> _Evaluation:
    own = score(answers.disparity, truth, window, limits, region, own_truth=own_truth)
    edges = error_by_edge_distance(answers.disparity, truth, window, limits, region, own_truth=own_truth)
    if answers.confidence is None:
        return _Evaluation(own, edges, {}, None)
    # Of the region: the answers outside it take no part in the choice.
    dense, part = (answers.dense, 1.0) if region is None else (np.where(region, answers.dense, np.nan), region.mean())
    kept = {share: at_coverage(dense, answers.confidence, part * share / 100) for share in COVERAGES}
    most_confident = {
        share: score(each, truth, window, limits, region, own_truth=own_truth) for share, each in kept.items()
    }
    curve = risk_coverage(
        answers.dense, answers.confidence, truth, window, limits, region, CURVE_POINTS, own_truth=own_truth
    )
    return _Evaluation(own, edges, most_confident, curve)


def _read_maps(
    prediction: Path, truth: Path, confidence: Path | None, region: Path | None, scales: tuple[float | None, ...]
) -> tuple[Answers, Map, Region | None]:
    """Read what is scored, against what, and where; all of one size."""
    answers = read_answers(prediction, scales[0])
    true_answers = read_answers(truth, scales[1])
    if scales[0] is not None and not (answers.is_scaled or true_answers.is_scaled):
        raise SettingsError(
            f"--png-scale has no effect: neither {str(prediction)!r} nor {str(truth)!r} is an image of whole numbers, "
            "and others are in px. Leave it out, or convert the file that is not in px."
        )
    true = true_answers.disparity
    check_size(truth, true, prediction, answers.disparity)
    if not np.isfinite(true).any():
        raise InputError(f"{str(truth)!r} has no known disparity in any pixel, so there is nothing to compare with.")
    if confidence is not None:
        values = read_confidence(confidence)
        check_size(confidence, values, prediction, answers.disparity)
        answers = replace(answers, confidence=values)
    inside = None
    if region is not None:
        inside = _read_region(region)
        check_size(region, inside, prediction, answers.disparity)
    return answers, true, inside


def _read_region(path: Path) -> Region:
    values = as_map(read_mask(path), path, "region")
    inside: Region = values == (255.0 if values.max() > 1 else 1.0)
    if not inside.any():
        raise InputError(
            f"The region {str(path)!r} is empty: no pixel has the value 255. Write 255 (or 1 in a mask of 0 and 1) "
            "where pixels are to be scored."
        )
    return inside


def _parse_numbers(text: str, option: str, example: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise SettingsError(f"{option} {text!r} is not a list of numbers. Write it like {example}.") from None


def _parse_scales(text: str | None) -> tuple[float | None, float | None]:
    """Return what to divide the PNGs of the prediction and of the truth by; ``None`` for the default."""
    if text is None:
        return None, None
    scales = _parse_numbers(text, "--png-scale", "256 or 256,100")
    if len(scales) > 2 or not all(math.isfinite(scale) and scale > 0 for scale in scales):
        raise SettingsError(
            f"--png-scale {text!r} must be one number above 0, or one for PRED and one for GT, such as 256,100."
        )
    return scales[0], scales[-1]


# --- output ---------------------------------------------------------------------------------------------------------


def score_as_dict(scored: Score) -> dict[str, Any]:
    """Return a score for JSON: units in the names, ``None`` where there is no number."""
    figures = {
        "coverage_percent": 100 * scored.coverage,
        "epe_px": scored.epe,
        "rms_px": scored.rms,
        "a50_px": scored.a50,
        "a90_px": scored.a90,
        "a99_px": scored.a99,
        **{f"bad_{threshold_name(k)}_percent": share for k, share in scored.bad.items()},
        "invalid_percent_of_truth": scored.invalid,
        **{f"bad_{threshold_name(k)}_percent_of_truth": share for k, share in scored.bad_of_truth.items()},
        **{f"total_{threshold_name(k)}_percent_of_truth": share for k, share in scored.total.items()},
    }
    counts = {"window_px": scored.window, "pixels": scored.pixels, "truth_pixels": scored.truth_pixels}
    return {**counts, **{name: _number(value) for name, value in figures.items()}}


def _as_dict(found: _Evaluation) -> dict[str, Any]:
    edges = [{"from_px": part.low, "to_px": _number(part.high), **score_as_dict(part.score)} for part in found.edges]
    surest = [{"asked_percent": share, **score_as_dict(each)} for share, each in found.most_confident.items()]
    return {
        **score_as_dict(found.own),
        "by_edge_distance": edges,
        "surest": surest,
        "risk_coverage": None if found.curve is None else _curve_as_dict(found.curve),
    }


def _curve_as_dict(curve: Curve) -> dict[str, Any]:
    columns = {
        "coverage_percent": 100 * curve.coverage,
        "share_of_scored": curve.share,
        "epe_px": curve.epe,
        **{f"bad_{threshold_name(k)}_percent": values for k, values in curve.bad.items()},
        "oracle_epe_px": curve.oracle_epe,
        **{f"oracle_bad_{threshold_name(k)}_percent": values for k, values in curve.oracle_bad.items()},
    }
    bad_areas = {f"bad_{threshold_name(k)}_percent": area for k, area in curve.bad_area.items()}
    areas = {"epe_px": curve.epe_area, **bad_areas}
    return {
        **{f"aurc_{name}": _number(area.aurc) for name, area in areas.items()},
        **{f"ause_{name}": _number(area.ause) for name, area in areas.items()},
        "points": {name: values.tolist() for name, values in columns.items()},
    }


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _as_text(evaluations: Sequence[_Evaluation], area: str, scored: str) -> list[str | Table]:
    curves = [each.curve for each in evaluations if each.curve is not None]
    return [
        _error_table(evaluations),
        f"px, and percent of the scored pixels, those {scored}; coverage: percent of all pixels of the {area} with a "
        "disparity",
        _middlebury_table([each.own for each in evaluations]),
        "percent of the pixels with truth, as Middlebury counts: total = bad or without a disparity (invalid)",
        *(
            f"ranking by confidence, W = {curve.window}: AURC {_format(curve.aurc, 3)} px, of which "
            f"{_format(curve.ause, 3)} px (AUSE) would vanish with a perfect ranking"
            for curve in curves
        ),
    ]


def _error_table(evaluations: Sequence[_Evaluation]) -> Table:
    bad = [f"Bad-{threshold_name(k)}" for k in evaluations[0].own.bad]
    table = make_table("pixels", "W", "coverage", "EPE", "RMS", "A50", "A90", "A99", *bad, first="left")
    rows = [("as given", each.own) for each in evaluations]
    shares = evaluations[0].most_confident
    rows += [(f"surest {share} %", each.most_confident[share]) for share in shares for each in evaluations]
    for name, each in rows:
        lengths = (_format(length, 2) for length in (each.epe, each.rms, each.a50, each.a90, each.a99))
        coverage = f"{_format(100 * each.coverage)} %"
        table.add_row(name, str(each.window), coverage, *lengths, *map(_format, each.bad.values()))
    return table


def _middlebury_table(scores: Sequence[Score]) -> Table:
    limits = [threshold_name(k) for k in scores[0].bad]
    table = make_table("W", "coverage", "invalid", *(f"bad {k}" for k in limits), *(f"total {k}" for k in limits))
    for each in scores:
        shares = (100 * each.coverage, each.invalid, *each.bad_of_truth.values(), *each.total.values())
        table.add_row(str(each.window), *map(_format, shares))
    return table


def _format(value: float, digits: int = 1) -> str:
    return f"{value:.{digits}f}" if math.isfinite(value) else "none"


# --- benchmark ------------------------------------------------------------------------------------------------------


def benchmark(
    out: options.Out,
    plan_file: Annotated[Path | None, typer.Argument(metavar="PLAN.toml", help="A plan of your own.")] = None,
    plan_name: Annotated[
        str | None,
        typer.Option(
            "--plan", help="A built-in plan: quick, table1, ablation, window-sweep, noise-sweep, light or stream."
        ),
    ] = None,
    data: Annotated[Path, typer.Option(help="Folder that holds the data sets.")] = Path(),
    methods: Annotated[
        list[str], typer.Option("--method", help="Run this method instead of the plan's; may be repeated.")
    ] = [],  # noqa: B006 - typer copies it
    photons: Annotated[list[float], typer.Option(help="Photon levels instead of the plan's; may be repeated.")] = [],  # noqa: B006
    frames: Annotated[
        list[str], typer.Option(help="Frames to average, or clean, instead of the plan's; may be repeated.")
    ] = [],  # noqa: B006
    scenes: Annotated[
        str | None, typer.Option(help="Scenes of one half of our split, tuning or checking, or all.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, max=10_000, help="Use this many noise seeds, from 0 on.")] = None,
    scheduler: Annotated[str | None, typer.Option(help="Address of a Dask scheduler, such as tcp://host:8786.")] = None,
    workers: Annotated[int, typer.Option(min=0, help="Run on a local Dask cluster with this many workers.")] = 0,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Run methods over data sets, noise levels and seeds; continue an earlier run; write a report."""
    from scotopic.evaluation.benchmark import run_benchmark
    from scotopic.evaluation.plan import load_plan
    from scotopic.evaluation.report import write_report

    if (plan_file is None) == (plan_name is None):
        raise SettingsError("Give one plan: either the file PLAN.toml or --plan NAME.")
    plan = load_plan(str(plan_file or plan_name)).with_changes(
        methods=tuple(methods) or None,
        photons=tuple(photons) or None,
        frames=tuple(int(text) if text.isdecimal() else text for text in frames) or None,
        seeds=tuple(range(seeds)) if seeds else None,
    )
    if scenes is not None:
        plan = plan.with_scenes(scenes)
    with CountDisplay(quiet) as display:

        def tell(status: "Status") -> None:
            text = "starting"
            if status.last is not None:
                task, error = status.last.task, status.last.error
                text = f"{task.dataset} {task.scene} {task.method}{f': {error}' if error else ''}"
            elif status.reuse and not quiet:
                typer.echo(status.reuse, err=True)
            display(status.done, status.total, text, status.resumed)

        def finish(status: "Status") -> None:
            if status.done:
                page = write_report(out)
                values.update(read_json(out / "results.json", "the results"))
                text.extend([*_make_tables(out), _what_is_done(status), f"the report is {page}"])

        values: dict[str, Any] = {}
        text: list[str | Table] = []
        status = run_benchmark(plan, data, out, scheduler=scheduler, workers=workers, tell=tell, finish=finish)
    if values:
        print_result(values, text, quiet, as_json)
    if status.failed or status.stopped:
        typer.echo(f"error: {_what_remains(status)}", err=True)
        raise typer.Exit(INCOMPLETE)


def _what_is_done(status: "Status") -> str:
    return f"{status.done - status.failed} results, {status.resumed} of them reused; {status.failed} tasks failed"


def _what_remains(status: "Status") -> str:
    """Say why a benchmark is not complete, and what to do."""
    good = status.done - status.failed
    parts = [status.stopped] if status.stopped else []
    if status.failed == status.total:
        parts.append(f"All {status.total} tasks failed.")
    elif status.failed:
        parts.append(f"{status.failed} of {status.total} tasks failed.")
    if status.failed and status.failure is not None:
        parts.append(f"The first error is: {status.failure}")
    remain = status.total - status.done
    waiting = f", {remain} not run" if remain else ""
    parts.append(f"{good} of {status.total} results are stored{waiting}. Give the same command again for the rest.")
    return " ".join(parts)


def _make_tables(folder: Path) -> list[Table]:
    """Return the tables for the terminal: own masks, each window, coverage beside every error."""
    from scotopic.evaluation.report import read_results
    from scotopic.evaluation.report.words import GAP, dataset_name, figure_name, number, unit

    results = read_results(folder)
    tables = []
    for group in results.groups:
        for window in results.shown_windows:
            found = results.table(group, window)
            headings = (f"{figure_name(name)}, {unit(name)}" for name in found.columns)
            table = make_table("method", *headings, first="left")
            table.title, table.title_justify = f"{dataset_name(group.dataset)}, {group.noise}, W = {window}", "left"
            for row in found.rows:
                if row.kind != "reported":
                    cells = (number(name, row.own[name].mean) if name in row.own else GAP for name in found.columns)
                    gaps = f" ({row.failed + row.missing} missing)" if row.failed + row.missing else ""
                    table.add_row(row.method + gaps, *cells)
            tables.append(table)
    return tables
