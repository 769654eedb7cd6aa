"""From records to tables: means over scenes, spread over seeds, coverage beside every error.

A table makes two comparisons. *At its own mask* a method is scored on the pixels that it chose to answer; a sparse
method and a dense one are then not comparable. *At matched coverage* every method keeps as many of its most certain
pixels as the reference method answers on the same scene, noise and seed, and its error there is read off its own
risk-coverage curve. A *run* is a scene with a noise seed.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from scotopic.evaluation.datasets import DATASETS
from scotopic.evaluation.methods.reported import REPORTED, WINDOW
from scotopic.evaluation.protocol import CLEAN
from scotopic.evaluation.records import Record

Run = tuple[str, int]  #: scene and seed
Mask = Literal["own", "matched"]
Kind = Literal["run", "ceiling", "reported"]

# At its own mask a method competes with those of similar coverage, in percent of the image.
CLASSES = (("sparse", 10.0), ("partial", 70.0), ("dense", float("inf")))
_REPORTED_NOISE = (2.0, 2.0)  # photons and read noise of the paper's tables
# Coverages are shares of whole pixels: a curve's end that is the same number of pixels may differ by rounding.
_SAME_COVERAGE = 1e-6


@dataclass(frozen=True)
class Group:
    """Everything that was run on one data set at one noise level."""

    dataset: str
    photons: float
    read_noise: float
    #: The scenes and seeds of the plan, or that any method has a record of: what a complete method has figures for.
    runs: tuple[Run, ...]
    records: dict[str, dict[Run, Record]]  #: by method and run; failed ones among them
    frames: int = 1  #: how many were averaged; 0 for pairs without noise of ours
    scale: float | None = None  #: size of the scenes over full size, if the records say it

    @property
    def scenes(self) -> list[str]:
        """Names of the scenes, sorted."""
        return sorted({scene for scene, _ in self.runs})

    @property
    def seeds(self) -> list[int]:
        """The noise seeds, sorted."""
        return sorted({seed for _, seed in self.runs})

    @property
    def noise(self) -> str:
        """The noise level in words."""
        if self.frames == CLEAN:
            return "no noise added"
        photons = "1 photon" if self.photons == 1 else f"{self.photons:g} photons"
        what = "after" if self.is_sequences else "mean of"
        frames = f"{what} {self.frames} frames, " if self.frames > 1 else ""
        return f"{frames}{photons}, read noise {self.read_noise:g}"

    @property
    def is_sequences(self) -> bool:
        """Whether its scenes are sequences, of which so many frames were fused rather than averaged."""
        return self.dataset in DATASETS and DATASETS[self.dataset].has_frames

    @property
    def level(self) -> str:
        """The number of frames in a word."""
        if self.frames == CLEAN:
            return "clean" if self.dataset in DATASETS and DATASETS[self.dataset].is_clean else "as it is"
        return f"{self.frames} frame{'s' if self.frames > 1 else ''}"

    def scored(self, method: str) -> dict[Run, Record]:
        """Return the records of a method that did not fail."""
        return {run: record for run, record in self.records.get(method, {}).items() if record.error is None}

    def failed(self, method: str) -> dict[Run, Record]:
        """Return the records of a method that failed."""
        return {run: record for run, record in self.records.get(method, {}).items() if record.error is not None}

    def missing(self, method: str) -> list[Run]:
        """Return the runs for which a method left nothing at all."""
        return [run for run in self.runs if run not in self.records.get(method, {})]


@dataclass(frozen=True)
class Figure:
    """A number of a table."""

    mean: float  #: over seeds, of the plain means over scenes
    spread: float | None  #: standard deviation (n - 1) of the seeds' means; ``None`` for one seed
    runs: int  #: how many scenes x seeds it is taken over


@dataclass(frozen=True)
class Row:
    """A method in a table."""

    method: str
    kind: Kind  #: whether it was run, is a ceiling that sees the clean pair, or is a figure reported by others
    #: At its own mask: ``epe``, ``rms``, ``bad-K``, ``a50``, ``a90``, ``a99``, ``coverage_percent``; and of the whole
    #: curve ``aurc``, ``ause``. What does not exist is not there.
    own: dict[str, Figure]
    matched: dict[str, Figure] = field(default_factory=dict)  #: at matched coverage: ``epe``, ``bad-K`` and coverage
    seconds: Figure | None = None
    done: int = 0  #: how many runs ended with a score
    failed: int = 0
    missing: int = 0  #: how many were never started
    unanswered: int = 0  #: how many ended without a single answer
    unscored: int = 0  #: how many have answers, but none where there is truth
    best: frozenset[tuple[Mask, str]] = frozenset()  #: what is shown in bold, as ``(mask, figure)``
    note: str = ""  #: the coverage of a reported method where the paper has a word for it and no number
    spec: str | None = None  #: the method here that a reported one should be compared with, if any

    @property
    def coverage_class(self) -> str | None:
        """With whom it competes at its own mask; ``None`` where its coverage is unknown."""
        coverage = self.own.get("coverage_percent")
        return None if coverage is None else next(name for name, end in CLASSES if coverage.mean < end)


@dataclass(frozen=True)
class Table:
    """A data set at a noise level, scored with one window."""

    group: Group
    window: int
    reference: str | None  #: the method whose coverage the others are matched to
    errors: tuple[str, ...]  #: ``epe`` and the ``bad-K``, in the order of the columns
    rows: tuple[Row, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The figures shown for a mask: every error, and the coverage beside them."""
        return (*self.errors, "coverage_percent")

    def row(self, method: str) -> Row:
        """Return the row of a method that was run."""
        return next(row for row in self.rows if row.method == method and row.kind != "reported")


def tabulate(
    group: Group, window: int, methods: Sequence[str], thresholds: Sequence[str], reference: str | None
) -> Table:
    """Summarize a data set at a noise level.

    The table has a row for every method, also where all of its runs are missing, and for every figure that the paper
    reports for this data set, noise and window.
    """
    errors = ("epe", *(f"bad-{k}" for k in thresholds))
    rows = [_without_other_errors(_row(group, method, window, reference), errors) for method in methods]
    rows = mark_best(rows, errors, len(group.runs))
    return Table(group, window, reference, errors, (*rows, *reported_rows(group, window)))


def average(values: Mapping[Run, float | None]) -> Figure | None:
    """Return the mean over scenes for each seed, then mean and spread over the seeds; gaps do not count.

    Examples
    --------
    >>> average({("a", 0): 1.0, ("b", 0): 3.0, ("a", 1): 4.0, ("b", 1): None})
    Figure(mean=3.0, spread=1.4142135623730951, runs=3)
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
    figures = {name: scores.get(name) for name in ("epe", "rms", "a50", "a90", "a99", "coverage_percent")}
    figures |= {f"bad-{k}": value for k, value in (scores.get("bad") or {}).items()}
    return figures | {name: curve.get(name) for name in ("aurc", "ause")}


def matched_figures(record: Record, window: int, reference: Record | None) -> dict[str, float]:
    """Return ``epe``, ``bad-K`` and ``coverage_percent`` of a record at the coverage of the reference's.

    They are read off the method's risk-coverage curve; the dictionary is empty where the curve does not reach so far,
    or there is nothing to match, since the reference has no answer. The reference itself has its own figures, not those
    of a curve with few points.
    """
    own = {} if reference is None else own_figures(reference, window)
    if not own.get("coverage_percent"):
        return {}
    if record is reference:
        kept = ("epe", "coverage_percent")
        found = beside_errors(own)
        return {name: v for name, v in found.items() if v is not None and (name in kept or name.startswith("bad-"))}
    return figures_at(record, window, own["coverage_percent"])


def is_unscored(figures: Mapping[str, float | None]) -> bool:
    """Whether a method has answers, but none where there is truth: there is no error, and not for lack of answers."""
    return figures.get("epe") is None and bool(figures.get("coverage_percent"))


def beside_errors(figures: Mapping[str, float | None]) -> dict[str, float | None]:
    """Return the figures of a run without a coverage that no error belongs to: a table has means of both."""
    return {**figures, "coverage_percent": None} if is_unscored(figures) else dict(figures)


def curve_lines(record: Record, window: int) -> dict[str, Sequence[float]]:
    """Return a record's risk-coverage curve: ``coverage_percent``, ``epe`` and ``bad-K`` of each of its points."""
    curve: dict[str, Any] = record.curves.get(str(window)) or {}
    bad = {f"bad-{k}": line for k, line in (curve.get("bad") or {}).items()}
    return {name: curve.get(name) or [] for name in ("coverage_percent", "epe")} | bad


def figures_at(record: Record, window: int, coverage: float | None) -> dict[str, float]:
    """Read the errors of a method off its risk-coverage curve at a coverage in percent.

    Between points a curve is straight. Before its first point it is level: there lie pixels of equal confidence, and
    any choice among them has their mean error in expectation.
    """
    lines = curve_lines(record, window)
    points = lines.pop("coverage_percent")
    if not coverage or not points or coverage > points[-1] + _SAME_COVERAGE:
        return {}
    found = {name: float(np.interp(coverage, points, np.array(line, np.float64))) for name, line in lines.items()}
    return {**found, "coverage_percent": float(coverage)} if np.isfinite(found["epe"]) else {}


def figures_at_coverage(group: Group, method: str, window: int, coverage: float) -> dict[str, Figure]:
    """Return the mean errors of a method's most certain pixels at a coverage in percent.

    There are none where the method does not answer so much in one of the runs, failed or was not run: a mean over fewer
    scenes than others have would compare the scenes. Runs in which no method has an error, such as those of a scene
    without truth, do not count; the figures say how many are left.
    """
    scored = {name: group.scored(name) for name in group.records}
    runs = {run for records in scored.values() for run, record in records.items() if curve_lines(record, window)["epe"]}
    mine = scored.get(method, {})
    found = {run: figures_at(mine[run], window, coverage) if run in mine else {} for run in runs}
    return _averages(found) if found and all(found.values()) else {}


def motion_figures(group: Group, method: str) -> dict[str, Figure]:
    """Return the mean errors of a method's poses, as far as they are known; nothing for a method without poses."""
    return _averages({run: record.motion for run, record in group.scored(method).items()})


def mean_line(
    records: Iterable[Record], window: int, figure: str, points: int = 60
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean risk-coverage curve of some records: coverage in percent, and the error there.

    It goes only as far as every one of the curves, since a mean over fewer and fewer scenes along a line would show the
    scenes that drop out, not the method. Records without a curve do not count.
    """
    curves = [curve_lines(record, window) for record in records]
    found = [(lines["coverage_percent"], lines[figure]) for lines in curves if lines.get(figure)]
    if not found:
        return np.zeros(0), np.zeros(0)
    end = min(coverage[-1] for coverage, _ in found)
    start = min(max(coverage[0] for coverage, _ in found), end)
    at = np.geomspace(start, end, points) if start < end else np.array([end])
    at[-1] = end  # whatever the rounding of the logarithms
    return at, np.mean([np.interp(at, coverage, line) for coverage, line in found], axis=0)


def mark_best(rows: Sequence[Row], errors: Sequence[str], runs: int) -> list[Row]:
    """Mark the least errors, as they are shown, where a comparison is fair.

    At matched coverage all methods compete; at their own masks only those of one class of coverage. A ceiling does not
    compete, nor does a mean over fewer scenes than the others', and a method without a competitor is not best.
    """
    best: dict[str, set[tuple[Mask, str]]] = {row.method: set() for row in rows}
    contests: list[tuple[Mask, str | None]] = [("matched", None), *(("own", name) for name, _ in CLASSES)]
    for mask, only in contests:
        for name in errors:
            shown = {
                row.method: round(figure.mean, decimals(name))
                for row in rows
                if row.kind == "run" and only in (None, row.coverage_class)
                if (figure := getattr(row, mask).get(name)) is not None and figure.runs == runs
            }
            if len(shown) > 1:
                for method in (method for method, value in shown.items() if value == min(shown.values())):
                    best[method].add((mask, name))
    return [replace(row, best=frozenset(best[row.method])) for row in rows]


def decimals(name: str) -> int:
    """Return how many decimals of a figure are shown."""
    return 1 if name.startswith("bad-") else 2


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
    """Return by how much a figure of a method differs from another's, over the runs that both have."""
    mine, others = (
        {run: own_figures(record, window).get(name) for run, record in group.scored(each).items()}
        for each in (method, base)
    )
    pairs = [(run, value, others.get(run)) for run, value in mine.items()]
    return average({run: value - other for run, value, other in pairs if value is not None and other is not None})


def reported_rows(group: Group, window: int) -> list[Row]:
    """Return what the paper reports for a data set, scale, noise and window; often nothing."""
    if (group.photons, group.read_noise) != _REPORTED_NOISE or group.frames != 1:
        return []
    if group.scale is not None and group.scale != DATASETS[group.dataset].scale:
        return []  # errors in px at another size
    rows = []
    for found in REPORTED:
        if (found.dataset, WINDOW) == (group.dataset, window):
            own = {name: Figure(value, None, found.scenes) for name, value in found.figures.items()}
            note = "" if "coverage_percent" in own else "dense"
            rows.append(Row(found.method, "reported", own, note=note, spec=found.spec))
    return rows


def _row(group: Group, method: str, window: int, reference: str | None) -> Row:
    scored = group.scored(method)
    references = group.scored(reference) if reference else {}
    own = {run: own_figures(record, window) for run, record in scored.items()}
    matched = {run: matched_figures(record, window, references.get(run)) for run, record in scored.items()}
    return Row(
        method=method,
        # A ceiling sees the clean pair, or the true motion: what no noise would give.
        kind="ceiling" if method.startswith("clean+") or method.endswith("+oracle") else "run",
        own=_averages({run: beside_errors(figures) for run, figures in own.items()}),
        matched=_averages(matched),
        seconds=average({run: record.seconds for run, record in scored.items()}),
        done=len(scored),
        failed=len(group.failed(method)),
        missing=len(group.missing(method)),
        unanswered=sum(figures.get("epe") is None and not is_unscored(figures) for figures in own.values()),
        unscored=sum(map(is_unscored, own.values())),
    )


def _without_other_errors(row: Row, errors: Sequence[str]) -> Row:
    """Return a row without the Bad-K that only some of its records hold, of an earlier plan."""
    own, matched = (
        {name: figure for name, figure in figures.items() if name in errors or not name.startswith("bad-")}
        for figures in (row.own, row.matched)
    )
    return replace(row, own=own, matched=matched)


def _averages(by_run: Mapping[Run, Mapping[str, float | None]]) -> dict[str, Figure]:
    names = dict.fromkeys(name for figures in by_run.values() for name in figures)
    means = {name: average({run: figures.get(name) for run, figures in by_run.items()}) for name in names}
    return {name: figure for name, figure in means.items() if figure is not None}
