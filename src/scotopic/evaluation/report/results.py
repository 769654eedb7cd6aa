"""The records of a folder, sorted: which method has what on which scene, and what is missing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scotopic.errors import InputError
from scotopic.evaluation.records import Record

Piece = tuple[str, int]  #: scene and seed

_DEFAULT_REFERENCE = "scotopic:paper"
_HEADLINE = 19  # the paper's window


@dataclass(frozen=True)
class Group:
    """Everything that was run on one data set at one noise level.

    Attributes
    ----------
    dataset, photons, read_noise
        Which.
    pieces
        The scenes and seeds that any method has a record of: what a complete method has figures for.
    records
        By method and piece; failed ones among them.
    """

    dataset: str
    photons: float
    read_noise: float
    pieces: tuple[Piece, ...]
    records: dict[str, dict[Piece, Record]]

    @property
    def scenes(self) -> list[str]:
        """Names of the scenes, sorted."""
        return sorted({scene for scene, _ in self.pieces})

    @property
    def seeds(self) -> list[int]:
        """The noise seeds, sorted."""
        return sorted({seed for _, seed in self.pieces})

    @property
    def noise(self) -> str:
        """The noise level in words."""
        photons = "1 photon" if self.photons == 1 else f"{self.photons:g} photons"
        return f"{photons}, read noise {self.read_noise:g}"

    def scored(self, method: str) -> dict[Piece, Record]:
        """Return the records of a method that did not fail."""
        return {piece: record for piece, record in self.records.get(method, {}).items() if record.error is None}

    def failed(self, method: str) -> dict[Piece, Record]:
        """Return the records of a method that failed."""
        return {piece: record for piece, record in self.records.get(method, {}).items() if record.error is not None}

    def missing(self, method: str) -> list[Piece]:
        """Return the pieces for which a method left nothing at all."""
        return [piece for piece in self.pieces if piece not in self.records.get(method, {})]


@dataclass(frozen=True)
class Results:
    """A folder of results.

    Attributes
    ----------
    plan
        What ``plan.json`` says, empty where there is none.
    groups
        Data sets in the plan's order, noise levels rising.
    methods
        Rows of every table, in the plan's order, then by name.
    windows
        Windows that were scored, rising.
    thresholds
        The K of Bad-K as they are written in records, rising.
    reference
        The method whose coverage the others are matched to, or ``None`` where it has no record.
    remarks
        What was left out or could not be read, in sentences.
    """

    plan: dict[str, Any]
    groups: tuple[Group, ...]
    methods: tuple[str, ...]
    windows: tuple[int, ...]
    thresholds: tuple[str, ...]
    reference: str | None
    remarks: tuple[str, ...]

    @property
    def title(self) -> str:
        """What the report is called."""
        return str(self.plan.get("title") or "Benchmark")

    @property
    def headline(self) -> int:
        """The window of the first tables and plots: the paper's 19, or the widest."""
        return _HEADLINE if _HEADLINE in self.windows else self.windows[-1]

    @property
    def shown_windows(self) -> list[int]:
        """The windows that have tables: the headline and the pointwise error, or the narrowest there is."""
        return [self.headline] + [window for window in self.windows[:1] if window != self.headline]


def read_results(folder: Path) -> Results:
    """Read every record of a folder.

    Parameters
    ----------
    folder
        With ``records/*.json`` and, if the benchmark was run by a plan, ``plan.json``.

    Returns
    -------
    Results
        A record that cannot be read is left out, with a remark.

    Raises
    ------
    InputError
        There is no record, or none with a score or an error.
    """
    plan, remarks = _read_plan(folder / "plan.json")
    records: list[Record] = []
    for path in sorted((folder / "records").glob("*.json")):
        if path.name.startswith("."):  # what a killed run was about to write
            continue
        try:
            records.append(Record.load(path))
        except InputError as error:
            remarks.append(str(error).replace(str(path), path.name))
    if not records:
        raise InputError(
            f"{str(folder)!r}: found no records of a benchmark, expected records/*.json; run scotopic benchmark first"
        )
    records, left_out = _one_range_each(records, plan.get("max_disparity"))
    if left_out:
        remarks.append(f"{left_out} records of another disparity range are left out.")
    methods = _in_order([str(m) for m in plan.get("methods", [])], {record.task.method for record in records})
    wanted = [str(plan["matched_to"])] if plan.get("matched_to") else []
    present = {record.task.method for record in records if record.error is None}
    reference = next((name for name in [*wanted, _DEFAULT_REFERENCE] if name in present), None)
    windows = {int(window) for record in records for window in record.scores}
    thresholds = {k for record in records for scores in record.scores.values() for k in scores["bad"]}
    return Results(
        plan=plan,
        groups=_groups(records, [str(d.get("kind")) for d in plan.get("datasets", [])]),
        methods=methods,
        windows=tuple(sorted(windows)) or (_HEADLINE,),
        thresholds=tuple(sorted(thresholds, key=float)) or ("1", "3", "5"),
        reference=reference,
        remarks=tuple(remarks),
    )


def _read_plan(path: Path) -> tuple[dict[str, Any], list[str]]:
    if not path.exists():
        return {}, []
    try:
        plan = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        return {}, [f"plan.json: found {error!s:.100}, expected the plan that was run; it is not shown."]
    return (plan, []) if isinstance(plan, dict) else ({}, ["plan.json: found no plan; it is not shown."])


def _one_range_each(records: list[Record], wanted: int | None) -> tuple[list[Record], int]:
    """Keep one record of each piece: that of the plan's disparity range, else of the widest."""
    kept: dict[tuple[Any, ...], Record] = {}
    for record in records:
        task = record.task
        key = (task.dataset, task.scene, task.method, task.photons, task.read_noise, task.seed)
        rank = (task.max_disparity == wanted, task.max_disparity)
        other = kept.get(key)
        if other is None or rank > (other.task.max_disparity == wanted, other.task.max_disparity):
            kept[key] = record
    return list(kept.values()), len(records) - len(kept)


def _in_order(first: list[str], present: set[str]) -> tuple[str, ...]:
    return (*dict.fromkeys(first), *sorted(present - set(first)))


def _groups(records: list[Record], datasets: list[str]) -> tuple[Group, ...]:
    order = _in_order(datasets, {record.task.dataset for record in records})
    sorted_records: dict[tuple[str, float, float], list[Record]] = {}
    for record in records:
        task = record.task
        sorted_records.setdefault((task.dataset, task.photons, task.read_noise), []).append(record)
    groups = []
    for dataset, photons, read_noise in sorted(sorted_records, key=lambda key: (order.index(key[0]), key[1:])):
        by_method: dict[str, dict[Piece, Record]] = {}
        pieces = set()
        for record in sorted_records[dataset, photons, read_noise]:
            piece = (record.task.scene, record.task.seed)
            pieces.add(piece)
            by_method.setdefault(record.task.method, {})[piece] = record
        groups.append(Group(dataset, photons, read_noise, tuple(sorted(pieces)), by_method))
    return tuple(groups)
