"""The records of a folder, sorted and summarized."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from scotopic.errors import InputError
from scotopic.evaluation.protocol import CLEAN
from scotopic.evaluation.records import Record, Task, threshold_name
from scotopic.evaluation.report.summary import Group, Run, Table, tabulate
from scotopic.evaluation.toml_files import is_number
from scotopic.io.input_file import read_json

T = TypeVar("T")

_DEFAULT_REFERENCE = "scotopic:paper"
_HEADLINE = 19  # the paper's window
_LEAST_BEYOND = 0.1  # percent of a scene's true disparities beyond the candidates that is worth a remark


@dataclass(frozen=True)
class Results:
    """A folder of results."""

    plan: dict[str, Any]  #: what ``plan.json`` says, empty where there is none
    groups: tuple[Group, ...]  #: data sets in the plan's order, noise levels rising
    methods: tuple[str, ...]  #: rows of every table, in the plan's order, then by name
    windows: tuple[int, ...]  #: those that were scored and that the plan, if there is one, asks for, rising
    thresholds: tuple[str, ...]  #: likewise the K of Bad-K, as they are written in records
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
    """Read the records of a folder and, if the benchmark was run by a plan, ``plan.json``; make the tables.

    Only the plan's tasks are shown, with what each depends on; other results in the folder are counted in a remark. A
    record that cannot be read is left out, with a remark. Raises :class:`InputError` if there is no record.
    """
    plan, remarks = _read_plan(folder / "plan.json")
    records = _load_records(folder, remarks)
    planned = _planned_tasks(plan, remarks)
    if planned is None:  # by an earlier version, or without a plan: all that is there
        records, left_out = _one_range_each(records, plan.get("max_disparity"))
        if left_out:
            remarks.append(f"{left_out} records of another disparity range are left out.")
    else:
        records = _choose_planned(records, planned, remarks)
    if not records:
        raise InputError(f"There are no records of a benchmark in {str(folder)!r}. Run scotopic benchmark first.")
    remarks += _range_remarks(records) + _external_remarks(records)
    remarks += dict.fromkeys(told for record in records for told in record.warnings)
    methods = _in_order([str(m) for m in plan.get("methods") or []], {record.task.method for record in records})
    wanted = [str(plan["matched_to"])] if plan.get("matched_to") else []
    present = {record.task.method for record in records if record.error is None}
    reference = next((name for name in [*wanted, _DEFAULT_REFERENCE] if name in present), None)
    if wanted and wanted[0] not in (reference, _DEFAULT_REFERENCE):
        instead = "They are not matched." if reference is None else f"They are matched to {reference} instead."
        remarks.append(f"{wanted[0]}, whose coverage the others were to be matched to, has no result. {instead}")
    groups = _groups(records, planned or [], [str(d.get("kind")) for d in plan.get("datasets") or []])
    scored = {int(window) for record in records for window in record.scores}
    windows = tuple(sorted(_asked(scored, plan.get("windows")))) or (_HEADLINE,)
    known = {k for record in records for scores in record.scores.values() for k in scores["bad"]}
    limits = None if plan.get("thresholds") is None else map(threshold_name, filter(is_number, plan["thresholds"]))
    thresholds = tuple(sorted(_asked(known, limits), key=float)) or ("1", "3", "5")
    tables = tuple(tabulate(group, w, methods, thresholds, reference) for group in groups for w in windows)
    return Results(plan, groups, methods, windows, thresholds, reference, tables, tuple(remarks))


def _asked(found: set[T], wanted: Iterable[T] | None) -> set[T]:
    """Return what a plan asks for: records that are reused may hold more, and others of the same table not."""
    return found if wanted is None else found & set(wanted) or found


def _read_plan(path: Path) -> tuple[dict[str, Any], list[str]]:
    if not path.exists():
        return {}, []
    try:
        plan = read_json(path, "a plan")
    except InputError as error:
        return {}, [f"plan.json is not shown: {str(error).replace(str(path), path.name)}"]
    return (plan, []) if _is_plan(plan) else ({}, ["plan.json holds no plan and is not shown."])


def _is_plan(values: object) -> bool:
    """Whether the entries that the report uses are what a benchmark writes; there may be others."""
    if not isinstance(values, dict):
        return False
    kinds: dict[str, Any] = {
        "methods": str, "datasets": dict, "coverages": (int, float), "windows": int, "thresholds": (int, float),
    }  # fmt: skip
    lists = [(values.get(name), kind) for name, kind in kinds.items() if values.get(name) is not None]
    return all(isinstance(found, list) and all(isinstance(each, kind) for each in found) for found, kind in lists)


def _load_records(folder: Path, remarks: list[str]) -> list[Record]:
    """Return the record of each task: its result, or its failure where there is none.

    There is a remark on each file that cannot be read, and on failures beside a result.
    """
    found: dict[str, Record] = {}
    for path in (*sorted(folder.glob("records/[!.]*.json")), *sorted(folder.glob("failures/[!.]*.json"))):
        try:  # names with a dot are what a killed run was about to write
            record = Record.load(path)
        except InputError as error:
            remarks.append(str(error).replace(str(path), path.name))
            continue
        task = record.task
        if found.setdefault(task.key, record) is not record and record.error is not None:
            remarks.append(
                f"{task.dataset} {task.scene}, {task.method}: the last run failed ({record.error}). The result of an "
                "earlier one is shown."
            )
    return list(found.values())


def _planned_tasks(plan: dict[str, Any], remarks: list[str]) -> list[Task] | None:
    if "tasks" not in plan:
        return None
    try:
        return [Task.from_json(values) for values in plan["tasks"]]
    except (TypeError, ValueError, AttributeError, OverflowError):
        remarks.append("The tasks in plan.json cannot be read, so all results in the folder are shown.")
        return None


def _choose_planned(records: list[Record], tasks: list[Task], remarks: list[str]) -> list[Record]:
    """Return the records of the plan's tasks; add remarks on tasks without one, and on other results in the folder."""
    wanted = {task.key for task in tasks}
    chosen = [record for record in records if record.task.key in wanted]
    others = sum(record.error is None for record in records if record.task.key not in wanted)
    if others:
        remarks.append(
            f"{others} other results in the folder are not shown: they are not in the last plan, or of other data, "
            "settings or versions."
        )
    if len(chosen) < len(wanted):
        remarks.append(f"{len(wanted) - len(chosen)} of {len(wanted)} tasks of the plan have not been run.")
    return chosen


def _range_remarks(records: list[Record]) -> list[str]:
    """Return a remark on each data set whose truth goes beyond the candidates, where no method can be right."""
    beyond: dict[tuple[str, int], dict[str, float]] = {}
    for record in records:
        if record.beyond_percent >= _LEAST_BEYOND:
            key = record.task.dataset, record.task.max_disparity
            beyond.setdefault(key, {})[record.task.scene] = record.beyond_percent
    return [
        f"The truth of {dataset} goes beyond the {candidates} candidates of the plan in {', '.join(sorted(scenes))}: "
        f"up to {max(scenes.values()):.1f} % of its pixels, which no method can match. Raise max_disparity."
        for (dataset, candidates), scenes in beyond.items()
    ]


def _external_remarks(records: list[Record]) -> list[str]:
    """Return a remark on each folder of maps whose one map of a scene is scored at several noise levels or seeds."""
    noises: dict[str, set[str]] = {}
    for record in records:
        if record.task.method.startswith("external:"):
            noises.setdefault(record.task.method, set()).add(record.task.noise_key)
    return [
        f"{method} has one map of each scene, which is scored with each of {len(found)} noise levels and seeds. Give "
        "each of them a run and a folder of its own."
        for method, found in noises.items()
        if len(found) > 1
    ]


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


def _groups(records: list[Record], planned: list[Task], datasets: list[str]) -> tuple[Group, ...]:
    order = _in_order(datasets, {record.task.dataset for record in records})
    sorted_records: dict[tuple[str, float, float, float], list[Record]] = {}
    for record in records:
        sorted_records.setdefault(_group_key(record.task), []).append(record)
    groups = []
    for key in sorted(sorted_records, key=lambda key: (order.index(key[0]), key[1:])):
        by_method: dict[str, dict[Run, Record]] = {}
        for record in sorted_records[key]:
            by_method.setdefault(record.task.method, {})[record.task.scene, record.task.seed] = record
        tasks = [*(record.task for record in sorted_records[key]), *(t for t in planned if _group_key(t) == key)]
        runs = sorted({(task.scene, task.seed) for task in tasks})
        frames = CLEAN if key[3] == math.inf else int(key[3])
        scale = next((task.inputs.scale for task in tasks if task.inputs is not None), None)
        groups.append(Group(*key[:3], tuple(runs), by_method, frames, scale))
    return tuple(groups)


def _group_key(task: Task) -> tuple[str, float, float, float]:
    frames = math.inf if task.frames == CLEAN else task.frames  # no noise comes last
    return task.dataset, task.photons, task.read_noise, frames
