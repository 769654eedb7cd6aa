"""Which results of an earlier run belong to a plan, and why the others do not."""

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from zipfile import is_zipfile

from scotopic.errors import InputError
from scotopic.evaluation.plan import Plan
from scotopic.evaluation.records import Record, Task, failure_path, maps_path, record_path, scene_path, threshold_name
from scotopic.io import atomic_path
from scotopic.io.input_file import read_input_text


@dataclass(frozen=True)
class Reuse:
    """What a folder has of a plan."""

    done: int  #: how many tasks have a result
    missing: list[tuple[Task, Plan]]  #: the others, each with the plan that it is to be scored by
    summary: str  #: both in words; empty where there is nothing from an earlier run
    warnings: list[str]  #: of the results that are reused


def find_reusable(tasks: Sequence[Task], plan: Plan, folder: Path) -> Reuse:
    """Find the results of tasks in a folder.

    A result is reused if its record is of the same task with the same inputs, and has every window and threshold of the
    plan. If it only lacks some of them, the task is run again and scored with those of the record too.
    """
    earlier, failed = _earlier_tasks(folder / "records"), _earlier_tasks(folder / "failures")
    missing: list[tuple[Task, Plan]] = []
    reasons: Counter[str] = Counter()
    warnings: list[str] = []
    for task in tasks:
        slot = replace(task, inputs=None)
        reason, scored = _why_missing(task, plan, folder, earlier.get(slot, []), slot in failed)
        if reason is None:
            warnings += Record.load(record_path(folder, task)).warnings
        else:
            reasons[reason] += 1
            missing.append((task, scored))
    new = reasons.pop("", 0)
    done = len(tasks) - len(missing)
    if not (done or reasons):
        return Reuse(0, missing, "", [])
    words = [f"{done} of {len(tasks)} reused"]
    if reasons:
        causes = [f"{cause} ({count})" if len(reasons) > 1 else cause for cause, count in reasons.most_common()]
        words.append(f"{reasons.total()} run again: {', '.join(causes)}")
    if new:
        words.append(f"{new} new")
    return Reuse(done, missing, "; ".join(words), warnings)


def _why_missing(
    task: Task, plan: Plan, folder: Path, earlier: list[Task], has_failed: bool
) -> tuple[str | None, Plan]:
    """Return why a task has to be run, and by which plan it is to be scored: ``None`` if not, "" if it is new.

    `earlier` are tasks that have a result and differ from this one in their inputs alone.
    """
    path = record_path(folder, task)
    if path.exists():
        try:
            record = Record.load(path)
        except InputError:
            return "the record cannot be read", plan
        windows = tuple(sorted({*plan.windows, *map(int, record.scores)}))
        known = {float(k) for scores in record.scores.values() for k in scores["bad"]}
        thresholds = tuple(sorted({*plan.thresholds, *known}))
        wanted = set(map(threshold_name, plan.thresholds))
        scored = plan.with_changes(windows=windows, thresholds=thresholds)
        if not all(str(w) in record.scores and wanted <= set(record.scores[str(w)]["bad"]) for w in plan.windows):
            return "other windows or thresholds are asked for", scored
        return _why_without_maps(folder, task), scored
    if has_failed:
        return "failed last time", plan
    nearest = min((_changes(task, other) for other in earlier), key=lambda changes: len(changes), default=[])
    return " and ".join(nearest), plan


def _why_without_maps(folder: Path, task: Task) -> str | None:
    """Return why there would be no pictures of a task that has a record; ``None`` if its files are there and whole."""
    files = maps_path(folder, task), scene_path(folder, task)
    if not all(file.exists() for file in files):
        return "the maps are missing"
    # The directory of a ZIP file is its end, so that one that was cut short has none.
    return None if all(map(is_zipfile, files)) else "the maps are damaged"


def _changes(task: Task, earlier: Task) -> list[str]:
    if task.inputs is None or earlier.inputs is None:
        return ["an earlier version of scotopic did not note what its results depend on"]
    return task.inputs.changes_from(earlier.inputs)


def _earlier_tasks(folder: Path) -> dict[Task, list[Task]]:
    """Return the tasks that have a record in a folder, each with its inputs, by the task without them."""
    found: dict[Task, list[Task]] = {}
    for path in sorted(folder.glob("[!.]*.json")):
        with suppress(InputError):
            task = Record.load(path).task
            found.setdefault(replace(task, inputs=None), []).append(task)
    return found


def forget_failures(tasks: Sequence[Task], folder: Path) -> None:
    """Remove the failures that these tasks had with other inputs, such as a broken file that has been mended since."""
    failed = _earlier_tasks(folder / "failures")
    for task in tasks:
        for other in failed.get(replace(task, inputs=None), []):
            if other != task:
                failure_path(folder, other).unlink(missing_ok=True)


def write_plan(plan: Plan, tasks: Sequence[Task], folder: Path) -> None:
    """Write ``plan.json``: the plan, and the tasks whose results the report is to show; whole or not at all."""
    path = folder / "plan.json"
    text = json.dumps({**asdict(plan), "tasks": [asdict(task) for task in tasks]}, indent=1, allow_nan=False) + "\n"
    with suppress(InputError):
        if path.exists() and read_input_text(path, "a plan") == text:
            return
    with atomic_path(path) as temporary:
        temporary.write_text(text)
