"""Running a plan: resuming, failing pieces, clusters."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from benchmark_runs import SCENES, finished_records, records_of, small_plan, write_scenes
from command_line import error_line, run, succeed

from scotopic.errors import InputError, SettingsError
from scotopic.evaluation.benchmark import Status, list_scenes, run_benchmark
from scotopic.evaluation.cluster import NO_DASHBOARD, open_cluster
from scotopic.evaluation.plan import DatasetPlan, Plan, load_plan, shipped_plans
from scotopic.evaluation.records import Task, maps_path
from scotopic.evaluation.report import read_results
from scotopic.evaluation.split import split_scenes
from scotopic.io import read_pfm, write_pfm


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_scenes(tmp_path / "data")


def test_every_scene_method_and_seed_gets_a_record_with_coverage_beside_each_error(data: Path, tmp_path: Path) -> None:
    status = run_benchmark(small_plan(seeds=(0, 1)), data, tmp_path / "out")

    records = records_of(tmp_path / "out")
    assert status.done == len(records) == 3 * 2 * 2
    assert {(r.task.scene, r.task.method, r.task.seed) for r in records.values()} == {
        (scene, method, seed) for scene in SCENES for method in ("opencv:sgbm", "opencv:bm") for seed in (0, 1)
    }
    for record in records.values():
        assert record.error is None
        assert set(record.scores) == {"1", "5"}
        assert all("coverage_percent" in score and "epe" in score for score in record.scores.values())


def test_the_method_that_others_are_matched_to_keeps_its_own_figures(data: Path, tmp_path: Path) -> None:
    plan = small_plan("opencv:sgbm", "opencv:bm", matched_to="opencv:sgbm")
    run_benchmark(plan, data, tmp_path / "out")
    (tmp_path / "out" / "plan.json").write_text(json.dumps(asdict(plan)))
    results = read_results(tmp_path / "out")

    row = results.table(results.groups[0], 5).row("opencv:sgbm")

    assert row.matched["epe"] == row.own["epe"]
    assert row.matched["coverage_percent"] == row.own["coverage_percent"]


@pytest.mark.parametrize(("wanted", "is_told"), [("opencv:sgbm", False), ("opencv:nothing", True)])
def test_a_method_to_match_to_that_has_no_result_is_told(
    data: Path, tmp_path: Path, wanted: str, is_told: bool
) -> None:
    plan = small_plan("opencv:sgbm", matched_to=wanted)
    run_benchmark(plan, data, tmp_path / "out")

    results = read_results(tmp_path / "out")

    assert (results.reference is None) == is_told
    assert any(f"{wanted}, whose coverage" in remark for remark in results.remarks) == is_told


def test_a_second_run_redoes_nothing_and_says_so(data: Path, tmp_path: Path) -> None:
    run_benchmark(small_plan(), data, tmp_path / "out")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.*")}
    told: list[Status] = []

    status = run_benchmark(small_plan(), data, tmp_path / "out", tell=told.append)

    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.*")} == before
    assert (status.resumed, status.done, status.total) == (6, 6, 6)
    assert told == [status]


def test_a_new_window_is_scored_although_the_rest_is_there(data: Path, tmp_path: Path) -> None:
    run_benchmark(small_plan("opencv:sgbm"), data, tmp_path / "out")

    status = run_benchmark(small_plan("opencv:sgbm").with_changes(windows=(1, 5, 7)), data, tmp_path / "out")

    assert status.resumed == 0
    assert all(set(r.scores) == {"1", "5", "7"} for r in records_of(tmp_path / "out").values())


KILLED_IN_THE_MIDDLE = """
import os, signal, sys, threading, time
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from benchmark_runs import finished_records, small_plan
from scotopic.evaluation.benchmark import run_benchmark
data, out = map(Path, sys.argv[1:3])
def kill():
    while len(finished_records(out)) < 5:
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGKILL)
threading.Thread(target=kill, daemon=True).start()
run_benchmark(small_plan(seeds=tuple(range(6))), data, out)
"""


def test_a_killed_run_goes_on_where_it_stopped(data: Path, tmp_path: Path) -> None:
    out, here = tmp_path / "out", str(Path(__file__).parent)
    subprocess.run([sys.executable, "-c", KILLED_IN_THE_MIDDLE, str(data), str(out), here], check=False)
    finished = {path: path.stat().st_mtime_ns for path in finished_records(out)}
    assert 5 <= len(finished) < 3 * 2 * 6, "the run was to be killed in its middle"

    status = run_benchmark(small_plan(seeds=tuple(range(6))), data, out)

    assert status.resumed == len(finished)
    assert {path: path.stat().st_mtime_ns for path in finished} == finished
    assert len(records_of(out)) == 3 * 2 * 6


def test_a_broken_scene_is_named_and_the_others_still_run(data: Path, tmp_path: Path) -> None:
    broken = data / "mine" / "barn" / "disp0.pfm"
    broken.write_bytes(broken.read_bytes()[:100])

    run_benchmark(small_plan("opencv:sgbm"), data, tmp_path / "out")

    outcome = {r.task.scene: r for r in records_of(tmp_path / "out").values()}
    assert outcome["attic"].error is None
    assert outcome["cellar"].error is None
    assert "disp0.pfm" in str(outcome["barn"].error)
    assert outcome["barn"].scores == {}


def test_what_failed_is_tried_again_once_it_is_mended(data: Path, tmp_path: Path) -> None:
    broken = data / "mine" / "barn" / "disp0.pfm"
    whole = broken.read_bytes()
    broken.write_bytes(whole[:100])
    run_benchmark(small_plan("opencv:sgbm"), data, tmp_path / "out")
    broken.write_bytes(whole)

    status = run_benchmark(small_plan("opencv:sgbm"), data, tmp_path / "out")

    assert status.resumed == 2
    assert all(r.error is None for r in records_of(tmp_path / "out").values())


def test_a_local_cluster_needs_no_port_of_its_own() -> None:
    pytest.importorskip("distributed", reason="needs Dask: pip install 'scotopic[bench]'")
    with socket.socket() as taken:
        with contextlib.suppress(OSError):  # taken already
            taken.bind(("127.0.0.1", 8787))  # where Dask has its dashboard; it warns, an error here, if it cannot
            taken.listen()
        with open_cluster(None, workers=1) as client:
            assert client.submit(sum, [1, 2]).result() == 3


def test_a_cluster_whose_worker_is_killed_gives_the_numbers_of_a_local_run(data: Path, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="needs Dask: pip install 'scotopic[bench]'")
    plan = small_plan(seeds=tuple(range(8)))
    run_benchmark(plan, data, tmp_path / "local")
    killed = []

    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, **NO_DASHBOARD) as cluster:

        def kill_one(status: Status) -> None:
            if status.done == 3 and not killed:
                pid = next(iter(cluster.workers.values())).process.pid
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

        status = run_benchmark(plan, data, tmp_path / "cluster", scheduler=cluster.scheduler_address, tell=kill_one)

    assert killed, "a worker was to be killed"
    assert status.done == 3 * 2 * 8
    local, remote = records_of(tmp_path / "local"), records_of(tmp_path / "cluster")
    assert local.keys() == remote.keys()
    for key in local:
        assert remote[key].error is None
        assert (local[key].scores, local[key].curves) == (remote[key].scores, remote[key].curves)


def test_frames_and_clean_pairs_are_levels_of_light(data: Path, tmp_path: Path) -> None:
    plan = small_plan("opencv:sgbm", frames=(1, 4, "clean"), seeds=(0, 1))

    run_benchmark(plan, data, tmp_path / "out")

    tasks = [record.task for record in records_of(tmp_path / "out").values()]
    assert sorted((t.frames, t.seed) for t in tasks if t.scene == "barn") == [(0, 0), (1, 0), (1, 1), (4, 0), (4, 1)]
    results = read_results(tmp_path / "out")
    assert [group.level for group in results.groups] == ["1 frame", "4 frames", "as it is"]
    errors = [results.table(group, 1).row("opencv:sgbm").own["coverage_percent"].mean for group in results.groups]
    assert errors == sorted(errors)  # more light, more answers


def test_a_record_of_an_earlier_version_has_the_name_that_it_had() -> None:
    before = {"dataset": "d", "scene": "s", "method": "m", "photons": 2.0, "read_noise": 2.0, "seed": 0}
    before |= {"max_disparity": 128}
    digest = hashlib.sha256(json.dumps(before, sort_keys=True).encode()).hexdigest()[:10]

    assert Task(**before).key == f"d-s-m_2_2_0_{digest}"
    assert len({Task(**before, frames=frames).key for frames in (0, 1, 2)}) == 3


def test_scenes_of_further_folders_are_added_if_they_are_there(data: Path, tmp_path: Path) -> None:
    (data / "mine" / "cellar").rename(data / "cellar")
    (data / "more").mkdir()
    (data / "cellar").rename(data / "more" / "cellar")
    part = DatasetPlan("folder", ("mine",), more=("nowhere", "more", "../data/more"))
    plan = Plan("small", (part,), ("opencv:sgbm",), max_disparity=32)

    assert list_scenes(plan, data) == {"folder": list(SCENES)}
    run_benchmark(plan, data, tmp_path / "out")
    assert all(record.error is None for record in records_of(tmp_path / "out").values())


def test_two_scenes_of_one_name_are_refused_unless_they_are_one(data: Path) -> None:
    (data / "more").mkdir()
    shutil.copytree(data / "mine" / "attic", data / "more" / "attic")
    part = DatasetPlan("folder", ("mine",), more=("more",))
    plan = Plan("small", (part,), ("opencv:sgbm",), max_disparity=32)

    assert list_scenes(plan, data) == {"folder": list(SCENES)}  # the copy is the same scene
    shutil.copy(data / "mine" / "cellar" / "im0.png", data / "more" / "attic" / "im0.png")
    with pytest.raises(InputError, match=r"'attic'.*mine.*more.*Rename"):
        list_scenes(plan, data)
    others = replace(part, scenes=("cellar",))
    assert list_scenes(replace(plan, datasets=(others,)), data) == {"folder": ["cellar"]}


def test_a_half_of_a_data_set_that_is_not_split_is_refused() -> None:
    """It stood for all scenes."""
    with pytest.raises(SettingsError, match=r"'folder' of the plan is not split"):
        DatasetPlan("folder", ("mine",), scenes="checking")


def test_where_truth_is_sparse_coverage_is_of_the_points_with_truth(data: Path, tmp_path: Path) -> None:
    for scene in SCENES:
        path = data / "mine" / scene / "disp0.pfm"
        truth = read_pfm(path)
        truth[:, ::2] = np.inf  # half of the columns are unknown
        truth[:, :40] = np.inf  # and those in which OpenCV has no answer
        write_pfm(path, truth)
    plan = Plan("night", (DatasetPlan("night", ("mine",), frames=("clean",)),), ("opencv:sgbm",), max_disparity=32)

    run_benchmark(plan.with_changes(windows=(1,)), data, tmp_path / "out")

    for record in records_of(tmp_path / "out").values():
        with np.load(maps_path(tmp_path / "out", record.task)) as maps:
            answered = np.isfinite(maps["disparity"])
        known = np.isfinite(read_pfm(data / "mine" / record.task.scene / "disp0.pfm"))
        expected = 100 * answered[known].mean()
        assert record.scores["1"]["coverage_percent"] == pytest.approx(expected)
        assert record.curves["1"]["coverage_percent"][-1] == pytest.approx(100)


def test_the_light_plan_runs_on_the_checking_half_unless_another_is_asked_for() -> None:
    plan = load_plan("light")

    assert plan.frames == (1, 2, 4, 8, 16, 32, "clean")
    assert [part.scene_names for part in plan.datasets] == [
        split_scenes("checking", "middlebury2014"),
        split_scenes("checking", "instereo2k"),
        (),  # the one night
    ]
    assert plan.with_scenes("tuning").datasets[0].scene_names == split_scenes("tuning", "middlebury2014")
    assert plan.with_scenes("tuning").datasets[2] == plan.datasets[2]
    assert plan.with_scenes("all").datasets[0].scene_names == ()
    with pytest.raises(SettingsError, match=r"training.*tuning"):
        plan.with_scenes("training")


@pytest.mark.parametrize("name", shipped_plans())
def test_shipped_plans_load_and_name_methods_that_exist(name: str) -> None:
    from scotopic.evaluation.methods import get_method

    plan = load_plan(name)

    for method in plan.methods:
        assert get_method(method).name == method.replace(":", "-")


def test_the_window_sweep_has_every_odd_window_from_1_to_19() -> None:
    assert load_plan("window-sweep").windows == tuple(range(1, 20, 2))


def test_the_noise_sweep_has_the_levels_of_the_protocol() -> None:
    assert load_plan("noise-sweep").photons == (1, 2, 4, 8, 16, 32)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("methods = ['opencv:sgbm']", "datasets"),
        ("color = 1", "color"),
        ("methods = [\n", "plan.toml"),
        ("methods = ['a']\nwindows = [4]\n[[datasets]]\nkind = 'folder'\nfolders = ['x']", "windows"),
        ("methods = ['a']\n[[datasets]]\nkind = 'folder'\nfolder = 'x'", "folder"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused_by_name(tmp_path: Path, text: str, word: str) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(text)

    with pytest.raises((SettingsError, InputError), match=word):
        load_plan(path)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("method = ['a']", "methods"),
        ("max-disparity = 64", "max_disparity"),
        ("methods = ['a']\n[[datasets]]\nkind = 'folder'\nfolder = ['x']", "folders"),
    ],
)
def test_a_mistyped_key_of_a_plan_is_answered_with_the_one_that_was_meant(
    tmp_path: Path, text: str, meant: str
) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(text)

    with pytest.raises(SettingsError, match=rf"Did you mean '{meant}'\?"):
        load_plan(path)


def test_mistyped_names_in_a_plan_are_answered_with_those_that_were_meant(tmp_path: Path) -> None:
    from scotopic.evaluation import open_dataset
    from scotopic.evaluation.methods import get_method

    with pytest.raises(InputError, match=r"Did you mean 'light'\?"):
        load_plan("ligth")
    with pytest.raises(SettingsError, match=r"Did you mean 'scotopic:best'\?"):
        get_method("scotopic:bset")
    with pytest.raises(SettingsError, match=r"Did you mean 'middlebury2014'\?"):
        open_dataset("Middlebury-2014", tmp_path)


def test_a_data_set_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="mine"):
        run_benchmark(small_plan(), tmp_path, tmp_path / "out")


def test_records_hold_no_nan_but_null(data: Path, tmp_path: Path) -> None:
    run_benchmark(small_plan("opencv:sgbm").with_changes(photons=(0.5,)), data, tmp_path / "out")

    for path in (tmp_path / "out" / "records").glob("*.json"):
        json.loads(path.read_text(), parse_constant=lambda constant: pytest.fail(f"found {constant}"))


def test_the_command_changes_frames_and_scenes_of_a_plan(data: Path, tmp_path: Path) -> None:
    pytest.importorskip("plotly", reason="the report needs plotly: pip install 'scotopic[bench]'")
    plan, out = tmp_path / "plan.toml", tmp_path / "out"
    plan.write_text("title = 'mine'\nmethods = ['opencv:bm']\n[[datasets]]\nkind = 'folder'\nfolders = ['mine']\n")
    given = ("benchmark", plan, "--data", data, "-o", out)

    succeed(*given, "--frames", "2", "--frames", "clean", "--quiet")

    assert {record.task.frames for record in records_of(out).values()} == {0, 2}
    assert "tuning" in error_line(run(*given, "--scenes", "training"))
    for word in ("dark", "²"):
        assert "frames" in error_line(run(*given, "--frames", word))
