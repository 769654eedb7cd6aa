"""Running a plan: every task once, each result on disk as soon as it is there, on this machine or a Dask cluster."""

import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import INPUT_WARNINGS, InputError, PairWarning, ScotopicError
from scotopic.evaluation.cluster import ClusterLostError, open_cluster, run_on_cluster
from scotopic.evaluation.curves import risk_coverage
from scotopic.evaluation.datasets import DATASETS, Dataset, open_dataset
from scotopic.evaluation.datasets.files import Place
from scotopic.evaluation.inputs import digest_file, find_inputs, with_inputs
from scotopic.evaluation.method import Prediction
from scotopic.evaluation.methods import get_method
from scotopic.evaluation.metrics import score
from scotopic.evaluation.plan import DatasetPlan, Plan
from scotopic.evaluation.pose_errors import pose_errors
from scotopic.evaluation.protocol import record_scene
from scotopic.evaluation.records import Record, Task, failure_path, maps_path, scene_path, threshold_name
from scotopic.evaluation.reuse import find_reusable, forget_failures, write_plan
from scotopic.evaluation.scene import Scene
from scotopic.io import atomic_path, claim_folder
from scotopic.io.masks import masked_to_nan
from scotopic.io.replacement import locked_folder
from scotopic.sensor import to_uint8

Arrays = dict[str, NDArray[Any]]
_MAPS = ("disparity", "dense", "confidence")  # of a prediction


@dataclass(frozen=True)
class Outcome:
    """What a task yields: its record, its maps, and the noisy input that they belong to."""

    record: Record
    maps: Arrays
    scene: Arrays


@dataclass(frozen=True)
class Status:
    """How far a benchmark is."""

    done: int  #: tasks, those that failed among them
    total: int
    resumed: int  #: of those done, how many an earlier run had finished
    last: Record | None
    failed: int = 0  #: of those done
    failure: str | None = None  #: the first error
    reuse: str = ""  #: what is reused of an earlier run and why the rest is not, in words
    stopped: str = ""  #: why the rest was not run, in words


def open_part(part: DatasetPlan, root: Path) -> Dataset:
    """Open a data set of a plan: the scenes of its folder, and of those further folders that exist.

    Raises :class:`InputError` if it is not there, or if two folders hold different scenes of one name.
    """
    first = open_dataset(part.kind, part.locate(root), part.scale)
    others = [open_dataset(part.kind, root / more, part.scale) for more in part.more if (root / more).is_dir()]
    places: dict[str, Place] = {}
    for place in (place for dataset in (first, *others) for place in dataset.places):
        kept = places.setdefault(place.name, place)
        if (not part.scene_names or place.name in part.scene_names) and not _is_same_scene(part.kind, kept, place):
            raise InputError(
                f"Two scenes of data set {part.kind!r} have the name {place.name!r}: {str(kept.folder)!r} and "
                f"{str(place.folder)!r}. Rename one of the folders, so that their results can be told apart."
            )
    return replace(first, places=tuple(places[name] for name in sorted(places)))


def _is_same_scene(kind: str, one: Place, other: Place) -> bool:
    """Whether two places hold one scene: the same folder, which may be found under two paths, or a copy of it."""
    if one == other or one.folder.resolve() == other.folder.resolve():
        return True
    files = [{path.relative_to(each.folder): path for path in DATASETS[kind].files(each)} for each in (one, other)]
    both = files[0].keys() & files[1].keys()
    return bool(both) and all(digest_file(files[0][name]) == digest_file(files[1][name]) for name in both)


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
    """Run one task. If it fails, the record says why, so that other tasks go on; it also keeps the warnings."""
    with _noting_warnings() as told:
        outcome = _run_task(task, plan, root)
    return replace(outcome, record=replace(outcome.record, warnings=list(dict.fromkeys(told))))


@contextmanager
def _noting_warnings() -> Iterator[list[str]]:
    """Note warnings about the input instead of showing them, wherever the task runs."""
    told: list[str] = []
    with warnings.catch_warnings():
        for category in INPUT_WARNINGS:
            warnings.simplefilter("always", category)
        warnings.showwarning = partial(_note_warning, told, warnings.showwarning)
        yield told


def _note_warning(
    told: list[str], show_others: Callable[..., None], message: Warning | str, category: type[Warning], *place: Any
) -> None:
    if issubclass(category, INPUT_WARNINGS):
        told.append(str(message))
    else:
        show_others(message, category, *place)


def _run_task(task: Task, plan: Plan, root: Path) -> Outcome:
    maps: Arrays = {}
    inputs: Arrays = {}
    try:
        with _noting_warnings():  # about the folder, not the task: they are told when the plan is checked
            dataset = open_part(next(part for part in plan.datasets if part.kind == task.dataset), root)
        _check_inputs(task, dataset)
        scene = dataset.load(task.scene)
        noise = (task.photons, task.read_noise, task.seed, task.frames)
        left, right, scene = record_scene(scene, *noise, is_clean=DATASETS[dataset.kind].is_clean)
        inputs = {"left": to_uint8(left), "truth": scene.truth.astype(np.float16)}
        method = get_method(task.method)
        start = time.perf_counter()
        answer = method(left, right, scene, min(task.max_disparity, left.shape[1]))
        seconds = time.perf_counter() - start
        height, width = scene.truth.shape
        prediction = _check_prediction(answer, (height, width))
        seconds = seconds if prediction.seconds is None else prediction.seconds
        with np.errstate(over="ignore"):
            maps = {name: getattr(prediction, name).astype(np.float16) for name in _MAPS}
        record = Record(task, *_score_windows(prediction, scene, plan), seconds, width, height)
        beyond, motion = _percent_beyond(scene, task.max_disparity), _score_poses(prediction, scene)
        record = replace(record, beyond_percent=beyond, motion=motion)
        _check_inputs(task, dataset)
    except ScotopicError as error:
        record = Record(task, error=str(error))
    except (
        Exception,
        SystemExit,
    ) as error:  # another author's method may fail in any way; the table goes on without it
        record = Record(task, error=f"{type(error).__name__}: {error!s:.300}")
    return Outcome(record, maps, inputs)


def _check_prediction(answer: Any, shape: tuple[int, int]) -> Prediction:
    """Return what a method answered with its maps as arrays, or raise :class:`InputError` if it cannot be scored."""
    if not isinstance(answer, Prediction):
        raise InputError(f"The method returned a {type(answer).__name__}, not a scotopic.evaluation.Prediction.")
    maps = {name: np.asarray(masked_to_nan(getattr(answer, name))) for name in _MAPS}
    for name, values in maps.items():
        kinds = "fiub" if name == "confidence" else "fiu"
        if values.shape != shape or values.dtype.kind not in kinds:
            raise InputError(
                f"The {name} that the method returned has shape {values.shape} and type {values.dtype}, but must be a "
                f"number for each pixel, {shape}."
            )
    seconds = None if answer.seconds is None else float(answer.seconds)
    if seconds is not None and not 0 <= seconds < math.inf:
        raise InputError(f"The method cannot have taken {seconds} seconds.")
    return Prediction(**maps, seconds=seconds, poses=answer.poses, covariances=answer.covariances)


def _check_inputs(task: Task, dataset: Dataset) -> None:
    """Raise :class:`InputError` if the result would not depend on what the task says.

    A file may be replaced while the benchmark runs, and a worker may have another version or other files.
    """
    if task.inputs is not None and (changes := find_inputs(task, dataset).changes_from(task.inputs)):
        raise InputError(
            f"Since the benchmark began, {' and '.join(changes)}; on a cluster, workers may differ. Run it again."
        )


def _percent_beyond(scene: Scene, max_disparity: int) -> float:
    """Return the percentage of the true disparities that candidates ``0 <= d < max_disparity`` do not reach."""
    known = scene.truth[np.isfinite(scene.truth)]
    return 100 * float((known >= max_disparity).mean()) if known.size else 0.0


def _score_windows(prediction: Prediction, scene: Scene, plan: Plan) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the scores at the method's own mask and its risk-coverage curves, by window."""
    scores, curves = {}, {}
    region = np.isfinite(scene.truth) if DATASETS[scene.dataset].has_sparse_truth else None
    for window in plan.windows:
        truth = scene.truth if window == 1 else scene.truth_paper
        own = score(prediction.disparity, truth, window, plan.thresholds, region)
        scores[str(window)] = {
            **{name: _finite(getattr(own, name)) for name in ("epe", "rms", "a50", "a90", "a99")},
            "bad": {threshold_name(k): _finite(share) for k, share in own.bad.items()},
            "coverage_percent": 100 * own.coverage,
        }
        curve = risk_coverage(prediction.dense, prediction.confidence, truth, window, plan.thresholds, region)
        curves[str(window)] = {
            "coverage_percent": (100 * curve.coverage).tolist(),
            "epe": curve.epe.tolist(),
            "bad": {threshold_name(k): values.tolist() for k, values in curve.bad.items()},
            "aurc": _finite(curve.aurc),
            "ause": _finite(curve.ause),
        }
    return scores, curves


def _score_poses(prediction: Prediction, scene: Scene) -> dict[str, float | None]:
    """Return the errors of the poses of a sequence; nothing for a method that has none."""
    if scene.sequence is None or prediction.poses is None:
        return {}
    found = pose_errors(scene.sequence, prediction.poses, prediction.covariances)
    return {name: _finite(value) for name, value in asdict(found).items()}


def _finite(value: float) -> float | None:
    """The value for JSON, which has no NaN: the error of no pixels becomes ``None``."""
    return value if math.isfinite(value) else None


def store(outcome: Outcome, folder: Path) -> None:
    """Write the outcome of a task: its maps first, then the record that says they are there.

    A failure leaves its record alone, beside that of an earlier success if there is one; a success removes it.
    """
    task = outcome.record.task
    if outcome.record.error is not None:
        outcome.record.save(folder)
        return
    for path, arrays in ((scene_path(folder, task), outcome.scene), (maps_path(folder, task), outcome.maps)):
        if arrays:
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_path(path) as temporary, temporary.open("wb") as file:
                np.savez_compressed(file, allow_pickle=False, **arrays)
    outcome.record.save(folder)
    failure_path(folder, task).unlink(missing_ok=True)


def check_plan(plan: Plan, root: Path) -> tuple[list[Task], list[Dataset]]:
    """Return the tasks of a plan, each once, and its data sets.

    Raises :class:`InputError` or :class:`SettingsError` if a data set or one of its scenes is not there, or if there is
    no method that one of the plan's specs names. The model of a network may be missing: then its tasks fail.
    """
    for spec in plan.methods:
        get_method(spec)
    datasets = [open_part(part, root) for part in plan.datasets]
    return list(dict.fromkeys(plan.tasks(list_scenes(plan, root)))), datasets


@contextmanager
def _claimed(folder: Path) -> Iterator[None]:
    """Make a folder for results, and keep other benchmarks out of it: the report is of one plan."""
    with locked_folder(claim_folder(folder, ())):
        yield


def _inputs_on_cluster(client: Any, tasks: list[Task], datasets: list[Dataset]) -> list[Task]:
    """Return tasks with their inputs as a worker has them: its versions, models and device are those that count."""
    _, found = next(run_on_cluster(client, with_inputs, [(tasks, datasets)]))
    if isinstance(found, str):
        raise InputError(f"The workers of the cluster cannot run this benchmark: {found}")
    return found


def run_benchmark(
    plan: Plan,
    root: Path,
    folder: Path,
    *,
    scheduler: str | None = None,
    workers: int = 0,
    tell: Callable[[Status], None] = lambda status: None,
    finish: Callable[[Status], None] = lambda status: None,
) -> Status:
    """Run what is missing of a plan on the data sets in `root` and store each result in `folder` at once.

    Tasks run in this process, on the workers of a Dask `scheduler` that see `root` under the same path, or on a local
    Dask cluster of so many `workers`. `tell` is called at the start and after each task, and `finish` at the end, while
    the folder is still kept from other benchmarks: a report that is written then is of this one. A result is reused if
    everything that it depends on is the same (:class:`~scotopic.evaluation.records.Inputs`). The plan with its tasks is
    written to ``plan.json`` of the folder, for the report.

    There is a warning for each that a result was found with, also in an earlier run.

    Raises :class:`InputError` or :class:`SettingsError`, before anything is written, if the plan cannot be run, and
    :class:`OutputError` if the folder cannot be written or another benchmark runs in it. The status that is returned
    tells of tasks that failed, and of a cluster that was lost.
    """
    root = root.resolve()
    told: set[str] = set()
    with _noting_warnings() as doubts:
        tasks, datasets = check_plan(plan, root)
    _warn_once(doubts, told)
    with open_cluster(scheduler, workers) as client, ExitStack() as opened:
        tasks = _inputs_on_cluster(client, tasks, datasets) if client else with_inputs(tasks, datasets)
        opened.enter_context(_claimed(folder))
        reuse = find_reusable(tasks, plan, folder)
        jobs = [(task, each, root) for task, each in reuse.missing]
        write_plan(plan, tasks, folder)
        forget_failures(tasks, folder)
        status = Status(reuse.done, len(tasks), reuse.done, None, reuse=reuse.summary)
        tell(status)
        _warn_once(reuse.warnings, told)
        outcomes: Iterable[Outcome] = (run_task(*job) for job in jobs)
        if client:
            outcomes = (
                found if isinstance(found, Outcome) else Outcome(Record(job[0], error=found), {}, {})
                for job, found in run_on_cluster(client, run_task, jobs)
            )
        try:
            for outcome in outcomes:
                store(outcome, folder)
                _warn_once(outcome.record.warnings, told)
                error = outcome.record.error
                failed = status.failed + (error is not None)
                status = replace(status, done=status.done + 1, failed=failed, last=outcome.record)
                status = replace(status, failure=status.failure or error)
                tell(status)
        except ClusterLostError as error:
            status = replace(status, stopped=str(error))
        finish(status)
    return status


def _warn_once(texts: Iterable[str], told: set[str]) -> None:
    for text in dict.fromkeys(texts):
        if text not in told:
            warnings.warn(text, PairWarning, stacklevel=3)
    told.update(texts)
