"""``scotopic evaluate``: a disparity map, made by anything, against the truth."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from scotopic.cli import options
from scotopic.cli.session import Display, answer
from scotopic.errors import InputError, SettingsError
from scotopic.evaluation.answers import Answers, Map, as_map, check_size, read_answers, read_confidence
from scotopic.evaluation.curves import Curve, at_coverage, risk_coverage
from scotopic.evaluation.metrics import EdgeBin, Score, check_thresholds, error_by_edge_distance, score
from scotopic.io import read_image

if TYPE_CHECKING:
    from rich.table import Table

DEFAULT_WINDOWS = (19, 1)
COVERAGES = (5, 10, 25, 50, 100)  #: percent of all pixels at which a method with a confidence is shown
CURVE_POINTS = 100


@dataclass(frozen=True, eq=False)
class _Case:
    """What is to be judged, by what, and where; maps of one size."""

    answers: Answers
    truth: Map
    region: NDArray[np.bool_] | None


@dataclass(frozen=True, eq=False)
class _Verdict:
    """All there is to say of a case at one window."""

    own: Score  # the map as it was given
    edges: list[EdgeBin]
    surest: dict[int, Score]  # by the percentage of all pixels that was asked for
    curve: Curve | None


def evaluate(
    prediction: Annotated[
        Path, typer.Argument(metavar="PRED", help="Disparity: PFM, 16-bit PNG, NPZ, or a folder of scotopic match.")
    ],
    truth: Annotated[Path, typer.Argument(metavar="GT", help="True disparity, in any of the same formats.")],
    confidence: Annotated[
        Path | None,
        typer.Option(metavar="C", help="Confidence, higher is surer, as PFM, PNG or NPZ; a match brings its own."),
    ] = None,
    window: Annotated[
        list[int] | None,
        typer.Option(metavar="W", help="Odd side of the window in px; may be repeated; 19 and 1 by default."),
    ] = None,
    thresholds: Annotated[str, typer.Option(metavar="K,K,...", help="The K of Bad-K in px.")] = "1,3,5",
    region: Annotated[
        Path | None,
        typer.Option(metavar="MASK", help="Image of the pixels to judge: 255, or 1 in a mask of 0 and 1."),
    ] = None,
    png_scale: Annotated[
        str | None,
        typer.Option(
            metavar="S[,S]", help="Disparity of a PNG is value / S, 0 unknown; 256 by default; or one S for PRED, GT."
        ),
    ] = None,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Score a disparity map against the truth: errors, each with its coverage, and how well its confidence ranks."""
    windows = window or list(DEFAULT_WINDOWS)
    limits = _parse_numbers(thresholds, "--thresholds", "1,3,5")
    check_thresholds(limits)
    scales = _parse_scales(png_scale)
    with Display(quiet) as display:
        with display.stage("reading"):
            case = _read_case(prediction, truth, confidence, region, scales)
        with display.stage("scoring"):
            verdicts = [_judge(case, each, limits) for each in windows]
    height, width = case.truth.shape
    summary = {
        "prediction": str(prediction),
        "truth": str(truth),
        "confidence": None if confidence is None else str(confidence),
        "region": None if region is None else str(region),
        "width": width,
        "height": height,
        "scores": [_as_dict(each) for each in verdicts],
    }
    answer(summary, _in_words(verdicts, whole="image" if region is None else "region"), quiet=quiet, as_json=as_json)


def _judge(case: _Case, window: int, limits: list[float]) -> _Verdict:
    answers, truth, region = case.answers, case.truth, case.region
    own = score(answers.disparity, truth, window, limits, region)
    edges = error_by_edge_distance(answers.disparity, truth, window, thresholds=limits, region=region)
    if answers.confidence is None:
        return _Verdict(own, edges, {}, None)
    kept = {share: at_coverage(answers.dense, answers.confidence, share / 100) for share in COVERAGES}
    surest = {share: score(each, truth, window, limits, region) for share, each in kept.items()}
    curve = risk_coverage(answers.dense, answers.confidence, truth, window, limits, region, CURVE_POINTS)
    return _Verdict(own, edges, surest, curve)


# --- files ----------------------------------------------------------------------------------------------------------


def _read_case(
    prediction: Path, truth: Path, confidence: Path | None, region: Path | None, scales: tuple[float | None, ...]
) -> _Case:
    answers = read_answers(prediction, scales[0])
    true = read_answers(truth, scales[1]).disparity
    check_size(truth, true, prediction, answers.disparity)
    if not np.isfinite(true).any():
        raise InputError(f"{str(truth)!r}: found no known disparity, expected the truth of some pixels; check the file")
    if confidence is not None:
        sureness = read_confidence(confidence)
        check_size(confidence, sureness, prediction, answers.disparity)
        answers = replace(answers, confidence=sureness)
    inside = None
    if region is not None:
        inside = _read_region(region)
        check_size(region, inside, prediction, answers.disparity)
    return _Case(answers, true, inside)


def _read_region(path: Path) -> NDArray[np.bool_]:
    values = as_map(read_image(path), path, "region")
    marked = 255.0 if values.max() > 1 else 1.0
    inside: NDArray[np.bool_] = values == marked
    if not inside.any():
        raise InputError(
            f"{str(path)!r}: found no pixel of value 255, expected a mask with 255 where pixels are to be judged (or 1 "
            "in a mask of 0 and 1); write it so"
        )
    return inside


# --- options --------------------------------------------------------------------------------------------------------


def _parse_numbers(text: str, option: str, example: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise SettingsError(f"{option}: found {text!r}, expected numbers like {example}; correct it") from None


def _parse_scales(text: str | None) -> tuple[float | None, float | None]:
    """What to divide the PNGs of the prediction and of the truth by; ``None`` if it was not said."""
    if text is None:
        return None, None
    scales = _parse_numbers(text, "--png-scale", "256 or 256,100")
    if len(scales) > 2 or not all(math.isfinite(scale) and scale > 0 for scale in scales):
        raise SettingsError(
            f"--png-scale: found {text!r}, expected one number above 0, or one for PRED and one for GT; try 256 or "
            "256,100"
        )
    return scales[0], scales[-1]


# --- answers --------------------------------------------------------------------------------------------------------


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _as_dict(verdict: _Verdict) -> dict[str, Any]:
    edges = [{"from_px": part.low, "to_px": _number(part.high), **_score_as_dict(part.score)} for part in verdict.edges]
    surest = [{"asked_percent": share, **_score_as_dict(each)} for share, each in verdict.surest.items()]
    return {
        **_score_as_dict(verdict.own),
        "by_edge_distance": edges,
        "surest": surest,
        "risk_coverage": None if verdict.curve is None else _curve_as_dict(verdict.curve),
    }


def _score_as_dict(scored: Score) -> dict[str, Any]:
    figures = {
        "coverage_percent": 100 * scored.coverage,
        "epe_px": scored.epe,
        "rms_px": scored.rms,
        "a50_px": scored.a50,
        "a90_px": scored.a90,
        "a99_px": scored.a99,
        **{f"bad_{k:g}_percent": share for k, share in scored.bad.items()},
        "invalid_percent_of_truth": scored.invalid,
        **{f"bad_{k:g}_percent_of_truth": share for k, share in scored.bad_of_truth.items()},
        **{f"total_{k:g}_percent_of_truth": share for k, share in scored.total.items()},
    }
    counts = {"window_px": scored.window, "pixels": scored.pixels, "truth_pixels": scored.truth_pixels}
    return {**counts, **{name: _number(value) for name, value in figures.items()}}


def _curve_as_dict(curve: Curve) -> dict[str, Any]:
    risks = {"epe_px": curve.epe, **{f"bad_{k:g}_percent": curve.bad[k] for k in curve.bad}}
    oracles = {"epe_px": curve.oracle_epe, **{f"bad_{k:g}_percent": curve.oracle_bad[k] for k in curve.oracle_bad}}
    columns = {
        "coverage_percent": 100 * curve.coverage,
        "share_of_scored": curve.share,
        **risks,
        **{f"oracle_{name}": values for name, values in oracles.items()},
    }
    areas = {"epe_px": curve.epe_area, **{f"bad_{k:g}_percent": area for k, area in curve.bad_area.items()}}
    return {
        **{f"aurc_{name}": _number(area.aurc) for name, area in areas.items()},
        **{f"ause_{name}": _number(area.ause) for name, area in areas.items()},
        "points": {name: values.tolist() for name, values in columns.items()},
    }


def _in_words(verdicts: list[_Verdict], whole: str) -> list[str | Table]:
    curves = [each.curve for each in verdicts if each.curve is not None]
    return [
        _error_table(verdicts),
        f"px, and percent of the scored pixels; coverage: percent of all pixels of the {whole} with an answer",
        _sparse_table([each.own for each in verdicts]),
        "percent of the pixels with truth, by Middlebury's convention: total = bad or without an answer (invalid)",
        *(
            f"ranking by confidence, W = {curve.window}: AURC {_shown(curve.aurc, 3)} px, of which "
            f"{_shown(curve.ause, 3)} px (AUSE) would vanish with a perfect ranking"
            for curve in curves
        ),
    ]


def _error_table(verdicts: list[_Verdict]) -> Table:
    bad = [f"Bad-{k:g}" for k in verdicts[0].own.bad]
    table = _table("answers", "W", "coverage", "EPE", "RMS", "A50", "A90", "A99", *bad)
    rows = [("as given", each.own) for each in verdicts]
    rows += [(f"surest {share} %", each.surest[share]) for share in verdicts[0].surest for each in verdicts]
    for name, each in rows:
        lengths = (_shown(length, 2) for length in (each.epe, each.rms, each.a50, each.a90, each.a99))
        shares = (_shown(share) for share in each.bad.values())
        table.add_row(name, str(each.window), f"{_shown(100 * each.coverage)} %", *lengths, *shares)
    return table


def _sparse_table(scores: list[Score]) -> Table:
    limits = [f"{k:g}" for k in scores[0].bad]
    table = _table("W", "coverage", "invalid", *(f"bad {k}" for k in limits), *(f"total {k}" for k in limits))
    for each in scores:
        shares = (100 * each.coverage, each.invalid, *each.bad_of_truth.values(), *each.total.values())
        table.add_row(str(each.window), *(_shown(share) for share in shares))
    return table


def _table(*headings: str) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "answers" else "right")
    return table


def _shown(value: float, digits: int = 1) -> str:
    return f"{value:.{digits}f}" if math.isfinite(value) else "none"
