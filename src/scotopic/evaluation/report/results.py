"""The records of a folder, sorted and summarized."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scotopic.errors import InputError
from scotopic.evaluation.protocol import CLEAN
from scotopic.evaluation.records import Record
from scotopic.evaluation.report.summary import Group, Run, Table, tabulate
from scotopic.io.input_file import read_json

_DEFAULT_REFERENCE = "scotopic:paper"
_HEADLINE = 19  # the paper's window


@dataclass(frozen=True)
class Results:
    """A folder of results."""

    plan: dict[str, Any]  #: what ``plan.json`` says, empty where there is none
    groups: tuple[Group, ...]  #: data sets in the plan's order, noise levels rising
    methods: tuple[str, ...]  #: rows of every table, in the plan's order, then by name
    windows: tuple[int, ...]  #: those that were scored, rising
    thresholds: tuple[str, ...]  #: the K of Bad-K as they are written in records, rising
    reference: str | None  #: the method whose coverage the others are matched to; ``None`` where it has no record
    tables: tuple[Table, ...]  #: one for each group and window, in this order
    remarks: tuple[str, ...]  #: what was left out or could not be read, in sentences

    @property
    def coverages(self) -> tuple[float, ...]:
        """The percentages at which the plan wants to see all methods; often none."""
        return tuple(float(share) for share in self.plan.get("coverages") or ())

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

    def by_dataset(self) -> dict[str, list[Group]]:
        """Return the groups, noise levels rising, by data set."""
        found: dict[str, list[Group]] = {}
        for group in self.groups:
            found.setdefault(group.dataset, []).append(group)
        return found

    def table(self, group: Group, window: int) -> Table:
        """Return the table of a group and window."""
        return next(table for table in self.tables if table.group is group and table.window == window)


def read_results(folder: Path) -> Results:
    """Read ``records/*.json`` of a folder and, if the benchmark was run by a plan, ``plan.json``; make the tables.

    A record that cannot be read is left out, with a remark. Raises :class:`InputError` if there is no record.
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
        raise InputError(f"There are no records of a benchmark in {str(folder)!r}. Run scotopic benchmark first.")
    records, left_out = _one_range_each(records, plan.get("max_disparity"))
    if left_out:
        remarks.append(f"{left_out} records of another disparity range are left out.")
    methods = _in_order([str(m) for m in plan.get("methods", [])], {record.task.method for record in records})
    wanted = [str(plan["matched_to"])] if plan.get("matched_to") else []
    present = {record.task.method for record in records if record.error is None}
    reference = next((name for name in [*wanted, _DEFAULT_REFERENCE] if name in present), None)
    groups = _groups(records, [str(d.get("kind")) for d in plan.get("datasets", [])])
    windows = tuple(sorted({int(window) for record in records for window in record.scores})) or (_HEADLINE,)
    known = {k for record in records for scores in record.scores.values() for k in scores["bad"]}
    thresholds = tuple(sorted(known, key=float)) or ("1", "3", "5")
    tables = tuple(tabulate(group, w, methods, thresholds, reference) for group in groups for w in windows)
    return Results(plan, groups, methods, windows, thresholds, reference, tables, tuple(remarks))


def _read_plan(path: Path) -> tuple[dict[str, Any], list[str]]:
    if not path.exists():
        return {}, []
    try:
        plan = read_json(path, "a plan")
    except InputError as error:
        return {}, [f"plan.json is not shown: {str(error).replace(str(path), path.name)}"]
    return (plan, []) if isinstance(plan, dict) else ({}, ["plan.json holds no plan and is not shown."])


def _one_range_each(records: list[Record], wanted: int | None) -> tuple[list[Record], int]:
    """Keep one record of each method and run: that of the plan's disparity range, else of the widest."""
    kept: dict[tuple[Any, ...], Record] = {}
    for record in records:
        task = record.task
        key = (task.dataset, task.scene, task.method, task.photons, task.read_noise, task.frames, task.seed)
        rank = (task.max_disparity == wanted, task.max_disparity)
        other = kept.get(key)
        if other is None or rank > (other.task.max_disparity == wanted, other.task.max_disparity):
            kept[key] = record
    return list(kept.values()), len(records) - len(kept)


def _in_order(first: list[str], present: set[str]) -> tuple[str, ...]:
    return (*dict.fromkeys(first), *sorted(present - set(first)))


def _groups(records: list[Record], datasets: list[str]) -> tuple[Group, ...]:
    order = _in_order(datasets, {record.task.dataset for record in records})
    sorted_records: dict[tuple[str, float, float, float], list[Record]] = {}
    for record in records:
        task = record.task
        frames = math.inf if task.frames == CLEAN else task.frames  # no noise comes last
        sorted_records.setdefault((task.dataset, task.photons, task.read_noise, frames), []).append(record)
    groups = []
    for key in sorted(sorted_records, key=lambda key: (order.index(key[0]), key[1:])):
        by_method: dict[str, dict[Run, Record]] = {}
        for record in sorted_records[key]:
            by_method.setdefault(record.task.method, {})[record.task.scene, record.task.seed] = record
        runs = sorted({run for by_run in by_method.values() for run in by_run})
        frames = CLEAN if key[3] == math.inf else int(key[3])
        groups.append(Group(*key[:3], tuple(runs), by_method, frames))
    return tuple(groups)
