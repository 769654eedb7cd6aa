"""Running a plan: every task once, each result on disk as soon as it is there, on this machine or a Dask cluster."""

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError, ScotopicError
from scotopic.evaluation.curves import risk_coverage
from scotopic.evaluation.datasets import DATASETS, Dataset, open_dataset
from scotopic.evaluation.method import Prediction
from scotopic.evaluation.methods import get_method
from scotopic.evaluation.metrics import score
from scotopic.evaluation.plan import DatasetPlan, Plan
from scotopic.evaluation.protocol import record_scene
from scotopic.evaluation.records import Record, Task, maps_path, scene_path
from scotopic.evaluation.scene import Scene
from scotopic.io import atomic_path
from scotopic.optional import import_optional
from scotopic.sensor import to_uint8

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Outcome:
    """What a task yields: its record, its maps, and the noisy input that they belong to."""

    record: Record
    maps: Arrays
    scene: Arrays


@dataclass(frozen=True)
class Status:
    """How far a benchmark is."""

    done: int
    total: int
    resumed: int  #: of those done, how many an earlier run had finished
    last: Record | None


def open_part(part: DatasetPlan, root: Path) -> Dataset:
    """Open a data set of a plan: the scenes of its folder, and of those further folders that exist.

    Raises :class:`InputError` if it is not there.
    """
    first = open_dataset(part.kind, part.locate(root), part.scale)
    others = [open_dataset(part.kind, root / more, part.scale) for more in part.more if (root / more).is_dir()]
    # By name, the first of each: the same folder may be found under two paths.
    places = {place.name: place for dataset in (*others[::-1], first) for place in dataset.places}
    return replace(first, places=tuple(places[name] for name in sorted(places)))


def list_scenes(plan: Plan, root: Path) -> dict[str, list[str]]:
    """Return the names of the scenes that each data set of a plan holds.

    Raises :class:`InputError` if a data set is not there, or lacks a scene that the plan names.
    """
    found = {}
    for part in plan.datasets:
        names = list(open_part(part, root).names)
        for name in part.scene_names:
            if name not in names:
                raise InputError(
                    f"Data set {part.kind!r} has no scene {name!r}. Its scenes are {', '.join(names[:20])}."
                )
        found[part.kind] = list(part.scene_names) or names
    return found


def run_task(task: Task, plan: Plan, root: Path) -> Outcome:
    """Run one task. If it fails, the record says why, so that other tasks go on."""
    maps: Arrays = {}
    inputs: Arrays = {}
    try:
        part = next(part for part in plan.datasets if part.kind == task.dataset)
        scene = open_part(part, root).load(task.scene)
        noise = (task.photons, task.read_noise, task.seed, task.frames)
        left, right, scene = record_scene(scene, *noise, is_clean=DATASETS[part.kind].is_clean)
        inputs = {"left": to_uint8(left), "truth": scene.truth.astype(np.float16)}
        method = get_method(task.method)
        start = time.perf_counter()
        prediction = method(left, right, scene, min(task.max_disparity, left.shape[1]))
        seconds = time.perf_counter() - start if prediction.seconds is None else prediction.seconds
        maps = {name: getattr(prediction, name).astype(np.float16) for name in ("disparity", "dense", "confidence")}
        height, width = scene.truth.shape
        record = Record(task, *_score_windows(prediction, scene, plan), seconds, width, height)
    except ScotopicError as error:
        record = Record(task, error=str(error))
    except Exception as error:  # another author's method may fail in any way; the table goes on without it
        record = Record(task, error=f"{type(error).__name__}: {error!s:.300}")
    return Outcome(record, maps, inputs)


def _score_windows(prediction: Prediction, scene: Scene, plan: Plan) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the scores at the method's own mask and its risk-coverage curves, by window."""
    scores, curves = {}, {}
    region = np.isfinite(scene.truth) if DATASETS[scene.dataset].has_sparse_truth else None
    for window in plan.windows:
        truth = scene.truth if window == 1 else scene.truth_paper
        own = score(prediction.disparity, truth, window, plan.thresholds, region)
        scores[str(window)] = {
            **{name: _finite(getattr(own, name)) for name in ("epe", "rms", "a50", "a90", "a99")},
            "bad": {f"{k:g}": _finite(share) for k, share in own.bad.items()},
            "coverage_percent": 100 * own.coverage,
        }
        curve = risk_coverage(prediction.dense, prediction.confidence, truth, window, plan.thresholds, region)
        curves[str(window)] = {
            "coverage_percent": (100 * curve.coverage).tolist(),
            "epe": curve.epe.tolist(),
            "bad": {f"{k:g}": values.tolist() for k, values in curve.bad.items()},
            "aurc": _finite(curve.aurc),
            "ause": _finite(curve.ause),
        }
    return scores, curves


def _finite(value: float) -> float | None:
    """The value for JSON, which has no NaN: the error of no pixels becomes ``None``."""
    return value if math.isfinite(value) else None


def is_finished(task: Task, plan: Plan, folder: Path) -> bool:
    """Whether a task has a record without an error already, scored with every window and threshold of the plan."""
    path = folder / "records" / f"{task.key}.json"
    if not path.exists() or not maps_path(folder, task).exists():
        return False
    try:
        record = Record.load(path)
    except InputError:
        return False
    wanted = {f"{t:g}" for t in plan.thresholds}
    windows = [record.scores.get(str(w)) for w in plan.windows]
    return record.error is None and all(w is not None and wanted <= set(w["bad"]) for w in windows)


def store(outcome: Outcome, folder: Path) -> None:
    """Write the outcome of a task: its maps first, then the record that says they are there."""
    task = outcome.record.task
    for path, arrays in ((scene_path(folder, task), outcome.scene), (maps_path(folder, task), outcome.maps)):
        if arrays:
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_path(path) as temporary, temporary.open("wb") as file:
                np.savez_compressed(file, allow_pickle=False, **arrays)
    outcome.record.save(folder)


def run_benchmark(
    plan: Plan,
    root: Path,
    folder: Path,
    *,
    scheduler: str | None = None,
    workers: int = 0,
    tell: Callable[[Status], None] = lambda status: None,
) -> Status:
    """Run what is missing of a plan on the data sets in `root` and store each result in `folder` at once.

    Tasks run in this process, on the workers of a Dask `scheduler` that see `root` under the same path, or on a local
    Dask cluster of so many `workers`. `tell` is called at the start and after each task.
    """
    tasks = list(plan.tasks(list_scenes(plan, root)))
    missing = [task for task in tasks if not is_finished(task, plan, folder)]
    resumed = len(tasks) - len(missing)
    status = Status(resumed, len(tasks), resumed, None)
    tell(status)
    outcomes: Iterable[Outcome] = (run_task(task, plan, root) for task in missing)
    if scheduler or workers:
        outcomes = _run_on_dask(missing, plan, root, scheduler, workers)
    for outcome in outcomes:
        store(outcome, folder)
        status = Status(status.done + 1, len(tasks), resumed, outcome.record)
        tell(status)
    return status


def _run_on_dask(tasks: list[Task], plan: Plan, root: Path, scheduler: str | None, workers: int) -> Iterator[Outcome]:
    """Run tasks on a cluster. A worker that dies costs the task it was at: Dask gives it to another one."""
    dask = import_optional("distributed", "bench", "a cluster")
    try:
        cluster = (
            None if scheduler else dask.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
        )
        client = dask.Client(scheduler or cluster, timeout=20)
    except (OSError, ValueError) as error:
        raise InputError(f"Cannot reach the Dask scheduler {scheduler!r}: {error!s:.120}. Start it first.") from error
    try:
        futures = {client.submit(run_task, task, plan, root.resolve(), pure=False, retries=2): task for task in tasks}
        for future in dask.as_completed(futures):
            try:
                # Its status says nothing: a result that was still on a worker which has died is computed again.
                outcome = future.result()
            except Exception as error:  # the task killed every worker that tried it
                words = f"lost by the cluster: {type(error).__name__}: {error!s:.200}"
                outcome = Outcome(Record(futures[future], error=words), {}, {})
            yield outcome
            future.release()
    finally:
        client.close()
        if cluster is not None:
            cluster.close()
