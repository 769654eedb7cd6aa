"""A benchmark that fails destroys nothing, says what happened and what remains, and does not exit with 0."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmark_runs import SCENES, finished_records, records_of, small_plan, write_scenes
from command_line import error_line, run, succeed
from test_benchmark_reuse import answer_five

import scotopic.evaluation.report
from scotopic.errors import InputError, OutputError
from scotopic.evaluation.benchmark import Status, run_benchmark
from scotopic.evaluation.cluster import ClusterLostError
from scotopic.evaluation.method import Prediction
from scotopic.evaluation.methods import METHODS
from scotopic.evaluation.plan import Plan
from scotopic.evaluation.records import failure_path, maps_path
from scotopic.evaluation.report import read_results, write_report

PLAN = "title = 'mine'\nmethods = ['five']\nphotons = [8]\n[[datasets]]\nkind = 'folder'\nfolders = ['mine']\n"
BROKEN = "it is broken today"


broken_scenes: set[str] = set()


def answer_unless_broken(left: Any, right: Any, scene: Any, max_disparity: int) -> Prediction:
    if scene.name in broken_scenes:
        raise RuntimeError(BROKEN)
    return answer_five(left, right, scene, max_disparity)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    broken_scenes.clear()
    monkeypatch.setitem(METHODS, "five", answer_unless_broken)
    return write_scenes(tmp_path / "data")


@pytest.fixture
def command(data: Path, tmp_path: Path) -> tuple[object, ...]:
    pytest.importorskip("plotly", reason="the report needs plotly: pip install 'scotopic[bench]'")
    (tmp_path / "plan.toml").write_text(PLAN)
    return "benchmark", tmp_path / "plan.toml", "--data", data, "-o", tmp_path / "out"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# --- a plan that cannot be run --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (("'five'", "'magic'"), "magic"),
        (("'five'", "'onnx:nowhere.toml'"), "nowhere"),
        (("'five'", "'external:mine=nowhere'"), "nowhere"),
        (("'mine']\n", "'nowhere']\n"), "nowhere"),
        (("'mine']\n", "'mine']\nscenes = ['castle']\n"), "castle"),
        (("'mine']\n", "'mine']\nscale = 2\n"), "scale"),
    ],
)
def test_a_plan_that_cannot_be_run_changes_nothing(
    command: tuple[object, ...], tmp_path: Path, change: tuple[str, str], word: str
) -> None:
    run_benchmark(small_plan("five"), tmp_path / "data", tmp_path / "out")
    before = contents(tmp_path / "out")
    (tmp_path / "plan.toml").write_text(PLAN.replace(*change))

    assert word in error_line(run(*command, "--quiet"))
    assert contents(tmp_path / "out") == before


def test_a_scheduler_that_cannot_be_reached_changes_nothing(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed = pytest.importorskip("distributed", reason="needs Dask: pip install 'scotopic[bench]'")

    def refuse(*_: object, **__: object) -> None:
        raise OSError("Timed out")

    monkeypatch.setattr(distributed, "Client", refuse)
    with pytest.raises(InputError, match="tcp://localhost:1"):
        run_benchmark(small_plan("five"), data, tmp_path / "out", scheduler="tcp://localhost:1")
    assert not (tmp_path / "out").exists()


def test_two_benchmarks_do_not_write_to_one_folder_at_once(data: Path, tmp_path: Path) -> None:
    pytest.importorskip("fcntl", reason="locks are those of POSIX systems")

    def start_another(status: Status) -> None:
        if status.done == 1:
            with pytest.raises(OutputError, match="Another run"):
                run_benchmark(small_plan("five", seeds=(5,)), data, tmp_path / "out")

    assert run_benchmark(small_plan("five"), data, tmp_path / "out", tell=start_another).done == 3
    assert {task["seed"] for task in json.loads((tmp_path / "out" / "plan.json").read_text())["tasks"]} == {0}


def test_the_report_is_written_before_another_benchmark_may_begin(
    command: tuple[object, ...], data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the last task and the report another plan would put its own in the place of the first one's."""
    pytest.importorskip("fcntl", reason="locks are those of POSIX systems")
    begun: list[Path] = []

    def write_after_another_begins(folder: Path) -> Path:
        begun.append(folder)
        with pytest.raises(OutputError, match="Another run"):
            run_benchmark(small_plan("five", seeds=(5,)), data, folder)
        return write_report(folder)

    monkeypatch.setattr(scotopic.evaluation.report, "write_report", write_after_another_begins)

    assert [table["seeds"] for table in json.loads(succeed(*command, "--json").stdout)["tables"]] == [[0], [0]]
    assert begun


# --- tasks that fail ------------------------------------------------------------------------------------------------


def test_a_failure_never_replaces_a_result(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    run_benchmark(small_plan("five"), data, out)
    before = contents(out / "records") | contents(out / "maps") | contents(out / "scenes")
    more = small_plan("five").with_changes(windows=(1, 5, 7))
    broken_scenes.update(SCENES)

    status = run_benchmark(more, data, out)

    assert status.failed == 3
    assert contents(out / "records") | contents(out / "maps") | contents(out / "scenes") == before
    results = read_results(out)
    assert results.tables[0].row("five").done == 3
    assert sum(BROKEN in remark for remark in results.remarks) == 3

    broken_scenes.clear()
    assert run_benchmark(more, data, out).failed == 0
    assert all(set(record.scores) == {"1", "5", "7"} for record in records_of(out).values())
    assert not list(out.glob("failures/*"))
    assert read_results(out).remarks == ()


def test_a_scene_that_breaks_keeps_its_result_for_when_it_is_mended(data: Path, tmp_path: Path) -> None:
    out, file = tmp_path / "out", data / "mine" / "barn" / "disp0.pfm"
    run_benchmark(small_plan("five"), data, out)
    before = {path: path.read_bytes() for path in finished_records(out)}
    whole = file.read_bytes()
    file.write_bytes(whole[:100])

    broken = run_benchmark(small_plan("five"), data, out)

    assert (broken.resumed, broken.failed) == (2, 1)
    assert read_results(out).tables[0].row("five").failed == 1
    file.write_bytes(whole)
    assert run_benchmark(small_plan("five"), data, out).resumed == 3
    assert {path: path.read_bytes() for path in finished_records(out)} == before
    assert read_results(out).tables[0].row("five").failed == 0


def test_a_run_that_fails_in_part_exits_with_an_error_and_reports_the_rest(
    command: tuple[object, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken_scenes.add("barn")

    result = run(*command, "--json", "--quiet")

    assert result.exit_code == 1
    message = result.stderr.splitlines()[-1]
    assert message.startswith("error: 1 of 3 tasks failed.")
    assert BROKEN in message
    assert "2 of 3 results are stored" in message
    assert len(json.loads(result.stdout)["failures"]) == 1
    assert BROKEN in (tmp_path / "out" / "report.html").read_text()

    broken_scenes.clear()
    again = succeed(*command)
    assert "2 of 3 reused; 1 run again: failed last time" in again.stderr


def test_a_run_in_which_everything_fails_says_so(command: tuple[object, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    broken_scenes.update(SCENES)

    result = run(*command, "--quiet")

    assert result.exit_code == 1
    assert "All 3 tasks failed." in result.stderr
    assert BROKEN in result.stderr


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda five: sys.exit(3), "SystemExit: 3"),
        (lambda five: None, "returned a NoneType, not a scotopic.evaluation.Prediction"),
        (lambda five: replace(five, disparity=five.disparity[1:]), "disparity that the method returned has shape"),
        (lambda five: replace(five, disparity=five.disparity > 4), "and type bool, but must be a number"),
        (lambda five: replace(five, seconds=float("nan")), "cannot have taken nan seconds"),
    ],
)
def test_a_method_that_answers_nonsense_fails_alone(
    command: tuple[object, ...], monkeypatch: pytest.MonkeyPatch, answer: Any, words: str
) -> None:
    monkeypatch.setitem(METHODS, "nonsense", lambda *given: answer(answer_five(*given)))

    result = run(*command, "--method", "nonsense", "--method", "five")

    assert result.exit_code == 1
    assert words in result.stderr.splitlines()[-1]
    assert f"error: {len(SCENES)} of {2 * len(SCENES)} tasks failed" in result.stderr


def test_a_method_may_answer_in_other_types(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(*given: Any) -> Prediction:
        five = answer_five(*given)
        masked = np.ma.masked_array(five.disparity + 2, np.eye(*five.disparity.shape, dtype=bool))
        return Prediction(masked, five.dense.tolist(), five.dense > 0, seconds=np.float32(0.5))  # type: ignore[arg-type]

    monkeypatch.setitem(METHODS, "five", answer)
    run_benchmark(small_plan("five"), data, tmp_path / "out")

    records = records_of(tmp_path / "out").values()
    assert [record.seconds for record in records] == [0.5] * len(SCENES)
    for record in records:
        with np.load(maps_path(tmp_path / "out", record.task)) as maps:
            shape = maps["disparity"].shape
            np.testing.assert_array_equal(maps["disparity"], np.where(np.eye(*shape), np.nan, 7))


@pytest.mark.parametrize("seeds", [10**9, 10**20])
def test_more_seeds_than_anybody_can_wait_for_are_refused(tmp_path: Path, seeds: int) -> None:
    found = run("benchmark", "--plan", "quick", "--data", tmp_path, "-o", tmp_path / "out", "--seeds", seeds)

    assert found.exit_code == 2
    assert "'--seeds'" in found.stderr
    assert "10000" in found.stderr  # typer words it in several ways


def test_a_missing_model_fails_its_tasks_alone(data: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    network = f"network:hitnet={tmp_path / 'empty'}"

    status = run_benchmark(small_plan("five", network), data, tmp_path / "out")

    assert (status.done, status.failed) == (6, 3)
    assert "SCOTOPIC_NETWORKS" in str(status.failure)


# --- clusters -------------------------------------------------------------------------------------------------------


def test_a_lost_scheduler_is_an_error_that_says_what_remains(
    command: tuple[object, ...], data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(plan: Plan, root: Path, folder: Path, **options: Any) -> Status:
        def run_two(client: Any, function: Any, jobs: list[Any]) -> Iterator[Any]:
            yield from ((job, function(*job)) for job in jobs[:2])
            raise ClusterLostError("The Dask scheduler tcp://here:1 was lost.")

        monkeypatch.setattr("scotopic.evaluation.benchmark.run_on_cluster", run_two)
        return run_benchmark(plan, root, folder, **options)

    monkeypatch.setattr("scotopic.evaluation.benchmark.open_cluster", _StubCluster)
    monkeypatch.setattr("scotopic.evaluation.benchmark.run_benchmark", lose)

    result = run(*command, "--workers", 1, "--quiet")

    assert result.exit_code == 1
    assert result.stderr == (
        "error: The Dask scheduler tcp://here:1 was lost. 2 of 3 results are stored, 1 not run. "
        "Give the same command again for the rest.\n"
    )
    assert len(finished_records(tmp_path / "out")) == 2
    assert not list(tmp_path.glob("out/failures/*"))
    assert (tmp_path / "out" / "report.html").exists()


class _StubCluster:
    def __init__(self, scheduler: str | None, workers: int) -> None:
        pass

    def __enter__(self) -> object:
        return object()

    def __exit__(self, *_: object) -> None:
        pass


def _address_in(file: Path) -> str:
    """The scheduler's address. The file exists, empty, for a moment before it is whole."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
            return str(json.loads(file.read_text())["address"])
        time.sleep(0.05)
    raise AssertionError("the scheduler did not start within a minute")


def test_a_scheduler_that_is_killed_is_noticed(data: Path, tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="needs Dask: pip install 'scotopic[bench]'")
    file = tmp_path / "scheduler.json"
    processes: list[subprocess.Popen[bytes]] = []

    def start(kind: str, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", "--no-dashboard", *options]
        processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        return processes[-1]

    try:
        scheduler = start("scheduler", "--port", "0", "--host", "127.0.0.1", "--scheduler-file", str(file))
        address = _address_in(file)
        start("worker", address, "--nthreads", "1", "--no-nanny")

        def kill(status: Status) -> None:
            if status.done == 2:
                scheduler.kill()

        plan = small_plan("opencv:bm", seeds=tuple(range(8)))
        status = run_benchmark(plan, data, tmp_path / "out", scheduler=address, tell=kill)
    finally:
        for process in processes:
            process.kill()
            process.wait()

    assert address in status.stopped
    assert 2 <= status.done < status.total
    assert status.failed == 0
    assert len(finished_records(tmp_path / "out")) == status.done
    assert run_benchmark(plan, data, tmp_path / "out").resumed == status.done


def test_a_worker_with_other_files_gives_no_result(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run_elsewhere(client: Any, function: Any, jobs: list[Any]) -> Iterator[Any]:
        for job in jobs:
            yield job, function(*job)
            monkeypatch.setattr("scotopic.evaluation.inputs.CODE", "0.0.9 of the worker")

    monkeypatch.setattr("scotopic.evaluation.benchmark.open_cluster", _StubCluster)
    monkeypatch.setattr("scotopic.evaluation.benchmark.run_on_cluster", run_elsewhere)

    status = run_benchmark(small_plan("five"), data, tmp_path / "out", workers=1)

    assert status.failed == 2
    assert "scotopic changed" in str(status.failure)
    assert all(
        failure_path(tmp_path / "out", r.task).exists() for r in records_of(tmp_path / "out").values() if r.error
    )
