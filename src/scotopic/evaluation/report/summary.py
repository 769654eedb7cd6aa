"""From records to tables: means over scenes, spread over seeds, coverage beside every error.

Two comparisons stand in a table. *At its own mask* a method is scored on the pixels that it chose to answer; a sparse
method and a dense one are then not comparable. *At matched coverage* every method keeps as many of its surest pixels as
the reference method answers on the same scene, noise and seed, and its error there is read off its own risk-coverage
curve.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from scotopic.evaluation.methods.reported import REPORTED
from scotopic.evaluation.records import Record
from scotopic.evaluation.report.results import Group, Piece, Results

Mask = Literal["own", "matched"]
Kind = Literal["run", "ceiling", "reported"]

# At its own mask a method competes with those that answer about as much: shares of the image, in percent.
CLASSES = (("sparse", 10.0), ("partial", 70.0), ("dense", float("inf")))
_REPORTED_NOISE = (2.0, 2.0)  # photons and read noise of the paper's tables
# Coverages are shares of whole pixels: a curve's end that is the same number of pixels may differ by rounding.
_SAME_COVERAGE = 1e-6


@dataclass(frozen=True)
class Figure:
    """A number of a table.

    Attributes
    ----------
    mean
        Mean over seeds of the plain means over scenes.
    spread
        Standard deviation (n - 1) of the seeds' means; ``None`` for one seed.
    pieces
        How many scenes x seeds it is taken over.
    """

    mean: float
    spread: float | None
    pieces: int


@dataclass(frozen=True)
class Row:
    """A method in a table.

    Attributes
    ----------
    method
        Its name.
    kind
        Whether it was run, is a ceiling that sees the clean pair, or is a figure reported by others.
    own
        At its own mask: ``epe``, ``rms``, ``bad-K``, ``a50``, ``a90``, ``a99``, ``coverage``; and of the whole curve
        ``aurc``, ``ause``. What does not exist is not there.
    matched
        At matched coverage: ``epe``, ``bad-K``, ``coverage``.
    seconds
        How long it took.
    failed, missing, silent
        How many pieces failed, were never run, or ended without a single scored pixel.
    best
        What is shown in bold, as ``(mask, figure)``.
    note
        The coverage of a reported method where the paper has a word for it and no number.
    spec
        The method here that a reported one is to be held against, if any.
    """

    method: str
    kind: Kind
    own: dict[str, Figure]
    matched: dict[str, Figure] = field(default_factory=dict)
    seconds: Figure | None = None
    failed: int = 0
    missing: int = 0
    silent: int = 0
    best: frozenset[tuple[Mask, str]] = frozenset()
    note: str = ""
    spec: str | None = None

    @property
    def coverage_class(self) -> str | None:
        """With whom it competes at its own mask; ``None`` where its coverage is unknown."""
        coverage = self.own.get("coverage")
        return None if coverage is None else next(name for name, end in CLASSES if coverage.mean < end)


@dataclass(frozen=True)
class Table:
    """A data set at a noise level, judged with one window."""

    group: Group
    window: int
    reference: str | None
    errors: tuple[str, ...]  #: ``epe`` and the ``bad-K``, in the order of the columns
    rows: tuple[Row, ...]

    def row(self, method: str) -> Row:
        """Return the row of a method that was run."""
        return next(row for row in self.rows if row.method == method and row.kind != "reported")


def tabulate(results: Results, group: Group, window: int) -> Table:
    """Summarize a data set at a noise level.

    Parameters
    ----------
    results
        The folder.
    group
        One of its groups.
    window
        Side of the metric's window.

    Returns
    -------
    Table
        With a row for every method of the folder, also where all of it is missing, and for every figure that the paper
        reports for this data set, noise and window.
    """
    errors = ("epe", *(f"bad-{k}" for k in results.thresholds))
    rows = [_row(group, method, window, results.reference) for method in results.methods]
    ran = mark_best(rows, errors, len(group.pieces))
    return Table(group, window, results.reference, errors, (*ran, *reported(group, window)))


def average(values: Mapping[Piece, float | None]) -> Figure | None:
    """Return the mean over scenes for each seed, then mean and spread over the seeds; gaps do not count.

    Examples
    --------
    >>> average({("a", 0): 1.0, ("b", 0): 3.0, ("a", 1): 4.0, ("b", 1): None})
    Figure(mean=3.0, spread=1.4142135623730951, pieces=3)
    """
    by_seed: dict[int, list[float]] = {}
    for (_, seed), value in sorted(values.items()):
        if value is not None:
            by_seed.setdefault(seed, []).append(value)
    means = [statistics.fmean(found) for _, found in sorted(by_seed.items())]
    if not means:
        return None
    spread = statistics.stdev(means) if len(means) > 1 else None
    return Figure(statistics.fmean(means), spread, sum(map(len, by_seed.values())))


def own_figures(record: Record, window: int) -> dict[str, float | None]:
    """Return the figures of a record at its own mask, and the areas of its curve, in one flat dictionary."""
    scores: dict[str, Any] = record.scores.get(str(window)) or {}
    curve: dict[str, Any] = record.curves.get(str(window)) or {}
    figures = {name: scores.get(name) for name in ("epe", "rms", "a50", "a90", "a99", "coverage")}
    figures |= {f"bad-{k}": value for k, value in (scores.get("bad") or {}).items()}
    return figures | {name: curve.get(name) for name in ("aurc", "ause")}


def figures_at(record: Record, window: int, coverage: float | None) -> dict[str, float]:
    """Read the errors of a method off its risk-coverage curve.

    Parameters
    ----------
    record
        Of the method.
    window
        Side of the metric's window.
    coverage
        Where to read, in percent of the image; ``None`` where the reference has none.

    Returns
    -------
    dict of str to float
        ``epe``, ``bad-K`` and ``coverage``; empty where the curve does not reach so far, or there is nothing to match.
        Between points a curve is straight. Before its first point it is level: there lie pixels of equal confidence,
        and any choice among them has their mean error in expectation.
    """
    curve: dict[str, Any] = record.curves.get(str(window)) or {}
    points: Sequence[float] = curve.get("coverage") or []
    if not coverage or not points or coverage > points[-1] + _SAME_COVERAGE:
        return {}
    lines = {"epe": curve["epe"], **{f"bad-{k}": line for k, line in curve["bad"].items()}}
    found = {name: _read_off(points, line, coverage) for name, line in lines.items()}
    return {**found, "coverage": float(coverage)} if np.isfinite(found["epe"]) else {}


def mean_line(
    records: Iterable[Record], window: int, figure: str, points: int = 60
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean risk-coverage curve of some records: coverage in percent, and the error there.

    It is drawn only as far as every one of the curves goes, since a mean over fewer and fewer scenes along a line would
    show the scenes that drop out, not the method. Records without a curve do not count.
    """
    curves = [curve for record in records if _line(curve := record.curves.get(str(window)) or {}, figure)]
    if not curves:
        return np.zeros(0), np.zeros(0)
    end = min(curve["coverage"][-1] for curve in curves)
    start = min(max(curve["coverage"][0] for curve in curves), end)
    at = np.geomspace(start, end, points) if start < end else np.array([end])
    at[-1] = end  # whatever the rounding of the logarithms
    return at, np.mean([np.interp(at, curve["coverage"], _line(curve, figure)) for curve in curves], axis=0)


def mark_best(rows: Sequence[Row], errors: Sequence[str], pieces: int) -> list[Row]:
    """Mark the least errors, as they are shown, where a comparison is fair.

    At matched coverage all methods compete; at their own masks only those of one class of coverage. A ceiling does not
    compete, nor does a mean over fewer scenes than the others', and whoever competes alone has not won.
    """
    best: dict[str, set[tuple[Mask, str]]] = {row.method: set() for row in rows}
    fields: list[tuple[Mask, str | None, Callable[[Row], dict[str, Figure]]]] = [
        ("matched", None, lambda row: row.matched),
        *(("own", name, lambda row: row.own) for name, _ in CLASSES),
    ]
    for mask, division, figures in fields:
        entrants = [row for row in rows if row.kind == "run" and (division in (None, row.coverage_class))]
        for name in errors:
            shown = {
                row.method: round(figures(row)[name].mean, decimals(name))
                for row in entrants
                if name in figures(row) and figures(row)[name].pieces == pieces
            }
            if len(shown) > 1:
                for method in (method for method, value in shown.items() if value == min(shown.values())):
                    best[method].add((mask, name))
    return [replace(row, best=frozenset(best[row.method])) for row in rows]


def decimals(name: str) -> int:
    """Return how many decimals of a figure are shown."""
    return 1 if name.startswith("bad-") else 2


def is_ceiling(method: str) -> bool:
    """Whether a method sees the clean pair, and so shows what no noise would give."""
    return method.startswith("clean+")


def variants(methods: Sequence[str]) -> dict[str, list[str]]:
    """Return the ablations by the method that they are ablations of: ``A+x`` and ``A+y`` by ``A``.

    Examples
    --------
    >>> variants(["a", "a+x", "b+y"])
    {'a': ['a+x']}
    """
    found = {base: [method for method in methods if method.startswith(f"{base}+")] for base in methods}
    return {base: others for base, others in found.items() if others}


def paired_difference(group: Group, method: str, base: str, window: int, name: str) -> Figure | None:
    """Return by how much a figure of a method differs from another's, over the pieces that both have."""
    others = group.scored(base)
    differences: dict[Piece, float | None] = {}
    for piece, record in group.scored(method).items():
        mine = own_figures(record, window).get(name)
        other = own_figures(others[piece], window).get(name) if piece in others else None
        differences[piece] = None if mine is None or other is None else mine - other
    return average(differences)


def reported(group: Group, window: int) -> list[Row]:
    """Return what the paper reports for a data set, noise and window (METHOD.md section 8); often nothing."""
    if (group.photons, group.read_noise) != _REPORTED_NOISE:
        return []
    rows = []
    for found in REPORTED:
        if (found.dataset, found.window) != (group.dataset, window):
            continue
        values = {"epe": found.epe, "bad-1": found.bad1, "bad-3": found.bad3, "bad-5": found.bad5}
        if not isinstance(found.coverage, str):
            values["coverage"] = found.coverage
        own = {name: Figure(value, None, found.scenes) for name, value in values.items()}
        note = found.coverage if isinstance(found.coverage, str) else ""
        rows.append(Row(found.method, "reported", own, note=note, spec=found.spec))
    return rows


def _row(group: Group, method: str, window: int, reference: str | None) -> Row:
    scored = group.scored(method)
    own = {piece: own_figures(record, window) for piece, record in scored.items()}
    targets = {
        piece: own_figures(record, window)["coverage"]
        for piece, record in (group.scored(reference) if reference else {}).items()
    }
    if method == reference:  # what it answers itself, rather than what a curve with few points says of it
        kept = [name for figures in own.values() for name in figures if name in ("epe", "coverage") or "bad-" in name]
        matched = {piece: {n: v for n in kept if (v := figures[n]) is not None} for piece, figures in own.items()}
    else:
        matched = {piece: figures_at(record, window, targets.get(piece)) for piece, record in scored.items()}
    return Row(
        method=method,
        kind="ceiling" if is_ceiling(method) else "run",
        own=_averages(own),
        matched=_averages(matched),
        seconds=average({piece: record.seconds for piece, record in scored.items()}),
        failed=len(group.failed(method)),
        missing=len(group.missing(method)),
        silent=sum(figures.get("epe") is None for figures in own.values()),
    )


def _averages(by_piece: Mapping[Piece, Mapping[str, float | None]]) -> dict[str, Figure]:
    names = dict.fromkeys(name for figures in by_piece.values() for name in figures)
    means = {name: average({piece: figures.get(name) for piece, figures in by_piece.items()}) for name in names}
    return {name: figure for name, figure in means.items() if figure is not None}


def _line(curve: Mapping[str, Any], figure: str) -> Sequence[float]:
    """The errors along a curve; empty where there are none."""
    risks = curve.get("bad", {})
    line: Sequence[float] = curve.get("epe", []) if figure == "epe" else risks.get(figure.removeprefix("bad-"), [])
    return line


def _read_off(points: Sequence[float], line: Sequence[float | None], coverage: float) -> float:
    return float(np.interp(coverage, points, np.array(line, np.float64)))
