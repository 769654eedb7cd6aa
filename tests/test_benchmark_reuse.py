"""A result is reused only where everything that it depends on is the same, and a rerun says what is not."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmark_folder import METHODS as FAKE_METHODS
from benchmark_folder import make_folder, make_record
from benchmark_runs import finished_records, records_of, small_plan, write_scenes

import scotopic.evaluation.inputs
from scotopic.errors import InputError, PairWarning, SettingsError
from scotopic.evaluation.benchmark import Status, run_benchmark
from scotopic.evaluation.method import Prediction
from scotopic.evaluation.methods import METHODS
from scotopic.evaluation.plan import DatasetPlan, Plan
from scotopic.evaluation.records import Record, Task, maps_path, scene_path
from scotopic.evaluation.report import read_results, write_report
from scotopic.evaluation.report.summary import Group, reported_rows
from scotopic.io import read_pfm, write_pfm

CHANGED_FILES = "1 run again: the scene's files changed"


def answer_five(left: Any, right: Any, scene: Any, max_disparity: int) -> Prediction:
    five = np.full(left.shape[:2], 5, np.float32)
    return Prediction(five, five, np.ones_like(five))


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three scenes, and a method "five" that takes no time."""
    monkeypatch.setitem(METHODS, "five", answer_five)
    return write_scenes(tmp_path / "data")


def run_again(plan: Plan, data: Path, out: Path) -> str:
    """Run a plan and return what it says of an earlier run."""
    told: list[Status] = []
    run_benchmark(plan, data, out, tell=told.append)
    return told[0].reuse


# --- what is reused -------------------------------------------------------------------------------------------------


def test_the_same_plan_on_the_same_data_is_reused_wherever_they_lie(data: Path, tmp_path: Path) -> None:
    assert run_again(small_plan("five"), data, tmp_path / "out") == ""
    moved = shutil.copytree(data, tmp_path / "moved")  # with other times

    assert run_again(small_plan("five"), data, tmp_path / "out") == "3 of 3 reused"
    assert run_again(small_plan("five"), moved, tmp_path / "out") == "3 of 3 reused"


def test_another_scale_is_run_again_and_the_first_one_stays(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_benchmark(small_plan("five"), data, out)
    first = {path: path.read_bytes() for path in finished_records(out)}

    words = run_again(small_plan("five", scale=0.5), data, out)

    assert words == "0 of 3 reused; 3 run again: the scale changed from 1 to 0.5"
    assert {record.width for record in records_of(out).values()} == {128, 64}
    assert {path: path.read_bytes() for path in first} == first
    assert run_again(small_plan("five"), data, out) == "3 of 3 reused"


@pytest.mark.parametrize("file", ["im0.png", "im1.png", "disp0.pfm"])
def test_other_images_or_truth_of_the_same_names_are_run_again(data: Path, tmp_path: Path, file: str) -> None:
    run_benchmark(small_plan("five"), data, tmp_path / "out")
    path = data / "mine" / "barn" / file
    before = path.stat()
    shutil.copyfile(data / "mine" / "attic" / file, path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # as some tools leave it

    assert run_again(small_plan("five"), data, tmp_path / "out") == f"2 of 3 reused; {CHANGED_FILES}"
    assert run_again(small_plan("five"), data, tmp_path / "out") == "3 of 3 reused"


def test_files_that_come_to_a_scene_count_if_they_are_read(data: Path, tmp_path: Path) -> None:
    run_benchmark(small_plan("five"), data, tmp_path / "out")

    (data / "mine" / "barn" / "notes.txt").write_text("a dark barn")
    assert run_again(small_plan("five"), data, tmp_path / "out") == "3 of 3 reused"
    shutil.copyfile(data / "mine" / "barn" / "disp0.pfm", data / "mine" / "barn" / "disp1.pfm")  # tells what is visible
    assert run_again(small_plan("five"), data, tmp_path / "out") == f"2 of 3 reused; {CHANGED_FILES}"


def test_maps_that_were_made_again_are_scored_again(data: Path, tmp_path: Path) -> None:
    maps = tmp_path / "maps"
    maps.mkdir()
    for scene in ("attic", "barn", "cellar"):
        truth = read_pfm(data / "mine" / scene / "disp0.pfm")
        write_pfm(maps / f"{scene}.pfm", truth + 2)
    plan = small_plan(f"external:mine={maps}")
    run_benchmark(plan, data, tmp_path / "out")
    write_pfm(maps / "barn.pfm", read_pfm(data / "mine" / "barn" / "disp0.pfm") + 3)
    write_pfm(maps / "cellar_confidence.pfm", np.ones((64, 128), np.float32))

    words = run_again(plan, data, tmp_path / "out")

    assert words == "1 of 3 reused; 2 run again: the method's model or maps changed"
    results = read_results(tmp_path / "out")
    epe = {scene: r.scores["1"]["epe"] for (scene, _), r in results.groups[0].scored(plan.methods[0]).items()}
    assert epe == pytest.approx({"attic": 2, "barn": 3, "cellar": 2}, abs=1e-5)  # by construction


def test_a_network_counts_by_its_content_wherever_its_weights_are(data: Path, tmp_path: Path) -> None:
    graphs = pytest.importorskip("onnx_graphs", reason="builds graphs with onnx, which is not installed")
    model, recipe = tmp_path / "net.onnx", tmp_path / "net.toml"

    def save(disparity: float, weights: str | None = None) -> None:
        nodes = [graphs.node("Mul", ["left", "zero"], "none"), graphs.node("Mul", ["right", "zero"], "nothing")]
        nodes += [graphs.node("Add", ["none", "nothing"], "empty"), graphs.node("Add", ["empty", "d"], "all")]
        nodes += [graphs.node("Slice", ["all", "from", "to", "axis"])]
        constants = {"zero": 0.0, "d": np.full((1, 1, 1, 128), disparity), "from": [0], "to": [1], "axis": [1]}
        graphs.save_model(model, nodes, {"left": graphs.ANY, "right": graphs.ANY}, constants=constants)
        if weights is not None:
            (tmp_path / weights).unlink(missing_ok=True)  # or it would be added to
            loaded = graphs.onnx.load(str(model))
            graphs.onnx.save(loaded, str(model), save_as_external_data=True, location=weights, size_threshold=100)

    def found() -> set[float]:
        records = read_results(tmp_path / "out").groups[0].scored(plan.methods[0]).values()
        return {float(np.load(maps_path(tmp_path / "out", record.task))["disparity"].max()) for record in records}

    recipe.write_text('model = "net.onnx"\nkind = "stereo"\n')
    plan = small_plan(f"onnx:{recipe}")
    changed = "0 of 3 reused; 3 run again: the method's model or maps changed"
    save(4.0)
    run_benchmark(plan, data, tmp_path / "out")
    save(6.0)
    assert run_again(plan, data, tmp_path / "out") == changed
    assert found() == {6}
    save(6.0, "weights.bin")
    assert run_again(plan, data, tmp_path / "out") == changed
    same = model.read_bytes()
    save(7.0, "weights.bin")
    model.write_bytes(same)  # its other file alone has changed
    assert run_again(plan, data, tmp_path / "out") == changed
    assert found() == {7}
    assert run_again(plan, data, tmp_path / "out") == "3 of 3 reused"
    recipe.write_text('model = "net.onnx"\nkind = "stereo"\nscale = 2.0\n')
    assert "the method's settings changed" in run_again(plan, data, tmp_path / "out")
    assert found() == {14}


def test_other_settings_of_a_preset_are_run_again(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = small_plan("scotopic:fast")
    monkeypatch.setattr("scotopic.evaluation.methods.ours.match", _match_stub)
    monkeypatch.setattr("scotopic.evaluation.methods.ours.is_constant", lambda image: True)  # no junctions to fit
    run_benchmark(plan, data, tmp_path / "out")
    changed = replace(scotopic.PRESETS["fast"], matching=replace(scotopic.PRESETS["fast"].matching, p1=7))

    monkeypatch.setitem(scotopic.PRESETS, "fast", changed)  # type: ignore[arg-type]

    assert run_again(plan, data, tmp_path / "out") == "0 of 3 reused; 3 run again: the method's settings changed"


def _match_stub(left: Any, *_: Any, **__: Any) -> Any:
    from made_match import made_match

    return made_match(np.full(left.shape[:2], 3.0))


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("CODE", "0.2.0 abc", "scotopic changed"),
        ("_version", lambda name: "9.9" if name == "numpy" else None, "libraries changed"),
    ],
)
def test_another_version_is_run_again(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: object, words: str
) -> None:
    run_benchmark(small_plan("five"), data, tmp_path / "out")

    monkeypatch.setattr(scotopic.evaluation.inputs, name, value)

    assert f"0 of 3 reused; 3 run again: {words}" in run_again(small_plan("five"), data, tmp_path / "out")


def test_another_device_is_run_again(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scotopic.evaluation.methods.ours.predict_ours", answer_five)
    monkeypatch.setitem(METHODS, "scotopic:fast", answer_five)
    run_benchmark(small_plan("scotopic:fast"), data, tmp_path / "out")

    monkeypatch.setattr("scotopic.evaluation.methods._own_device", lambda: "cuda")

    assert "the device changed from cpu to cuda" in run_again(small_plan("scotopic:fast"), data, tmp_path / "out")


def test_a_method_of_ones_own_is_run_again_when_its_file_changes(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "own_method.py"
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # or a change within a second would not be seen
    text = Path(__file__).read_text()
    start = text.index("def answer_five")
    body = text[start : text.index("\n\n\n", start)]
    head = "from typing import Any\nimport numpy as np\nfrom scotopic.evaluation.method import Prediction\n"

    for number, words in (("5", ""), ("5", "3 of 3 reused"), ("6", "3 run again: the method's settings changed")):
        file.write_text(f"{head}\n{body.replace(', 5,', f', {number},')}\n")
        sys.modules.pop("own_method", None)
        importlib.invalidate_caches()
        monkeypatch.setitem(METHODS, "five", importlib.import_module("own_method").answer_five)

        assert words in run_again(small_plan("five"), data, tmp_path / "out")
    sys.modules.pop("own_method", None)


def test_another_function_under_the_same_name_is_run_again(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make_method(disparity: float) -> Any:
        def answer(left: Any, right: Any, scene: Any, max_disparity: int) -> Prediction:
            found = answer_five(left, right, scene, max_disparity)
            return Prediction(found.disparity * 0 + disparity, found.dense, found.confidence)

        return answer

    for disparity, words in ((3.0, "0 of 3 reused"), (4.0, "0 of 3 reused"), (4.0, "3 of 3 reused")):
        run_benchmark(small_plan("five"), data, tmp_path / "out")
        monkeypatch.setitem(METHODS, "five", make_method(disparity))
        assert words in run_again(small_plan("five"), data, tmp_path / "out")


def test_records_that_do_not_say_what_they_depend_on_are_run_again(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_benchmark(small_plan("five"), data, out)
    for path in finished_records(out):  # as an earlier version wrote them
        values = json.loads(path.read_text())
        del values["task"]["inputs"]
        path.write_text(json.dumps(values | {"format": 2}))
        path.rename(path.with_name(f"older-{path.name}"))

    words = run_again(small_plan("five"), data, out)

    assert words.startswith("0 of 3 reused; 3 run again: an earlier version")


def test_each_reason_is_counted(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_benchmark(small_plan("five"), data, out)
    maps_path(out, next(r.task for r in records_of(out).values() if r.task.scene == "attic")).unlink()
    shutil.copyfile(data / "mine" / "attic" / "im0.png", data / "mine" / "barn" / "im0.png")

    words = run_again(small_plan("five", seeds=(0, 1)), data, out)

    assert words.startswith("1 of 6 reused; 2 run again: ")
    assert "the maps are missing (1)" in words
    assert "the scene's files changed (1)" in words
    assert words.endswith("; 3 new")


def test_windows_and_thresholds_of_earlier_runs_are_kept(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_benchmark(small_plan("five"), data, out)

    words = run_again(small_plan("five").with_changes(windows=(7,), thresholds=(2.0,)), data, out)

    assert words == "0 of 3 reused; 3 run again: other windows or thresholds are asked for"
    for record in records_of(out).values():
        assert set(record.scores) == {"1", "5", "7"}
        assert all(set(scores["bad"]) == {"1", "2", "3", "5"} for scores in record.scores.values())
    assert run_again(small_plan("five"), data, out) == "3 of 3 reused"


def test_a_level_is_the_same_however_it_is_written(data: Path, tmp_path: Path) -> None:
    run_benchmark(small_plan("five", photons=(8,), read_noise=2), data, tmp_path / "out")

    assert run_again(small_plan("five", photons=(8.0,), read_noise=2.0), data, tmp_path / "out") == "3 of 3 reused"


def test_the_report_has_the_windows_and_thresholds_of_the_last_plan_alone(data: Path, tmp_path: Path) -> None:
    """Some records hold those of an earlier plan too: a mean over these scenes would stand for all."""
    out = tmp_path / "out"
    run_benchmark(small_plan("five", windows=(1, 3, 5), thresholds=(0.5, 1)), data, out)
    truth = read_pfm(data / "mine" / "attic" / "disp0.pfm")
    write_pfm(data / "mine" / "attic" / "disp0.pfm", truth + 1)

    assert run_again(small_plan("five", thresholds=(1,)), data, out).endswith(CHANGED_FILES)

    results = read_results(out)
    assert (results.windows, results.thresholds) == ((1, 5), ("1",))
    for row in (row for table in results.tables for row in table.rows):
        assert (row.done, row.unanswered) == (3, 0)
        assert {figure.runs for figure in row.own.values()} == {3}


def test_thresholds_that_differ_late_are_told_apart(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of errors of 2 px, all are above a threshold just below it, and none above one just above it."""
    below, above = 1.9999999, 2.0000001

    def answer_off_by_two(left: Any, right: Any, scene: Any, max_disparity: int) -> Prediction:
        off = scene.truth + np.float32(2)
        return Prediction(off, off, np.ones_like(off))

    monkeypatch.setitem(METHODS, "five", answer_off_by_two)
    for path in data.glob("mine/*/disp0.pfm"):  # a truth for which the sum is exact
        write_pfm(path, np.full_like(read_pfm(path), 8))
    for threshold, share in ((below, 100.0), (above, 0.0)):
        run_benchmark(small_plan("five", thresholds=(threshold,)), data, tmp_path / "out")
        for record in records_of(tmp_path / "out").values():
            assert {float(k): value for k, value in record.scores["1"]["bad"].items()}[threshold] == share


@pytest.mark.parametrize("path", [maps_path, scene_path])
def test_maps_that_were_cut_short_are_made_again(data: Path, tmp_path: Path, path: Callable[..., Path]) -> None:
    run_benchmark(small_plan("five"), data, tmp_path / "out")
    task = next(iter(records_of(tmp_path / "out").values())).task
    whole = path(tmp_path / "out", task).read_bytes()
    path(tmp_path / "out", task).write_bytes(whole[: len(whole) // 2])

    words = run_again(small_plan("five"), data, tmp_path / "out")

    assert words == "2 of 3 reused; 1 run again: the maps are damaged"
    np.load(path(tmp_path / "out", task))


def test_a_file_that_is_replaced_while_a_benchmark_runs_gives_no_result(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replace_truth(left: Any, right: Any, scene: Any, max_disparity: int) -> Prediction:
        if scene.name == "barn":
            write_pfm(data / "mine" / "barn" / "disp0.pfm", np.full((64, 128), 9, np.float32))
        return answer_five(left, right, scene, max_disparity)

    monkeypatch.setitem(METHODS, "five", replace_truth)

    status = run_benchmark(small_plan("five"), data, tmp_path / "out")

    assert status.failed == 1
    assert "the scene's files changed" in str(status.failure)


def test_a_record_that_was_renamed_or_edited_is_refused(data: Path, tmp_path: Path) -> None:
    run_benchmark(small_plan("five"), data, tmp_path / "out")
    path = finished_records(tmp_path / "out")[0]
    path.write_text(path.read_text().replace('"scale": 1.0', '"scale": 0.5'))

    with pytest.raises(InputError, match="renamed or edited"):
        Record.load(path)
    assert run_again(small_plan("five"), data, tmp_path / "out").endswith("1 run again: the record cannot be read")


# --- what a plan may say --------------------------------------------------------------------------------------------


def test_two_data_sets_of_one_kind_are_refused() -> None:
    parts = (DatasetPlan("folder", ("mine",)), DatasetPlan("folder", ("others",)))

    with pytest.raises(SettingsError, match="more"):
        Plan("two", parts, ("opencv:bm",))


def test_what_a_plan_names_twice_is_run_once(data: Path, tmp_path: Path) -> None:
    status = run_benchmark(small_plan("five", "five", seeds=(0, 0)), data, tmp_path / "out")

    assert status.total == status.done == 3


# --- what the report shows ------------------------------------------------------------------------------------------


def test_the_report_shows_the_last_plan_alone(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_benchmark(small_plan("five", "opencv:bm", seeds=(0, 1)), data, out)
    run_benchmark(small_plan("five", scale=0.5), data, out)

    results = read_results(out)

    assert results.methods == ("five",)
    (group,) = results.groups
    assert (group.seeds, group.scale) == ([0], 0.5)
    assert {record.width for record in group.scored("five").values()} == {64}
    assert any("12 other results" in remark for remark in results.remarks)


def test_what_was_not_run_counts_as_missing(data: Path, tmp_path: Path) -> None:
    run_benchmark(small_plan("five"), data, tmp_path / "out")
    for path in finished_records(tmp_path / "out"):
        if "barn" in path.name:
            path.unlink()

    results = read_results(tmp_path / "out")

    assert results.tables[0].row("five").missing == 1
    assert any("1 of 3 tasks" in remark for remark in results.remarks)


def test_pictures_of_two_scales_are_kept_apart(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_benchmark(small_plan("five"), data, out)
    run_benchmark(small_plan("five", scale=0.5), data, out)

    for record in records_of(out).values():
        with np.load(scene_path(out, record.task)) as scene:
            assert scene["truth"].shape == (record.height, record.width)


@pytest.mark.parametrize(("scale", "is_shown"), [(0.2, True), (None, True), (0.7, False)])
def test_the_papers_figures_stand_beside_results_of_its_size_only(scale: float | None, is_shown: bool) -> None:
    group = Group("middlebury2014", 2.0, 2.0, (), {}, 1, scale)

    assert bool(reported_rows(group, 19)) == is_shown


def test_truth_beyond_the_candidates_is_told(data: Path, tmp_path: Path) -> None:
    for scene, share in (("barn", 0.25), ("attic", 0.0)):
        truth = np.full((64, 128), 4, np.float32)
        truth[: int(64 * share)] = 40
        write_pfm(data / "mine" / scene / "disp0.pfm", truth)
    run_benchmark(small_plan("five"), data, tmp_path / "out")

    percent = {record.task.scene: record.beyond_percent for record in records_of(tmp_path / "out").values()}
    assert (percent["barn"], percent["attic"]) == (25, 0)
    remarks = [remark for remark in read_results(tmp_path / "out").remarks if "max_disparity" in remark]
    assert len(remarks) == 1
    assert "barn" in remarks[0]
    assert "25.0 %" in remarks[0]
    assert "attic" not in remarks[0]


def test_warnings_of_results_that_are_reused_are_told_again(data: Path, tmp_path: Path) -> None:
    file = data / "mine" / "barn" / "disp0.pfm"
    truth = read_pfm(file)
    truth[:5] = -100  # what some write for unknown
    write_pfm(file, truth)

    for _ in range(2):
        with pytest.warns(PairWarning, match=r"barn.disp0\.pfm' are exactly -100") as told:
            run_benchmark(small_plan("five", seeds=(0, 1)), data, tmp_path / "out")
        assert len(told) == 1

    remarks = read_results(tmp_path / "out").remarks
    assert ["are exactly -100" in each for each in remarks] == [True]


def test_scenes_that_were_moved_are_told_of_no_more(data: Path, tmp_path: Path) -> None:
    (data / "mine" / "more").mkdir()
    (data / "mine" / "cellar").rename(data / "mine" / "more" / "cellar")
    with pytest.warns(PairWarning, match=r"mine.more' are not taken") as told:
        run_benchmark(small_plan("five"), data, tmp_path / "out")
    assert len(told) == 1

    (data / "mine" / "more" / "cellar").rename(data / "mine" / "cellar")
    (data / "mine" / "more").rmdir()

    assert run_again(small_plan("five"), data, tmp_path / "out") == "2 of 3 reused; 1 new"


def test_maps_that_stand_for_several_seeds_are_told(data: Path, tmp_path: Path) -> None:
    for scene in ("attic", "barn", "cellar"):
        shutil.copyfile(data / "mine" / scene / "disp0.pfm", tmp_path / f"{scene}.pfm")
    method = f"external:mine={tmp_path}"

    run_benchmark(small_plan(method), data, tmp_path / "out")
    assert read_results(tmp_path / "out").remarks == ()
    run_benchmark(small_plan(method, seeds=(0, 1)), data, tmp_path / "out")
    assert any("one map of each scene" in remark for remark in read_results(tmp_path / "out").remarks)


def test_no_table_of_an_earlier_plan_is_left(tmp_path: Path) -> None:
    pytest.importorskip("plotly", reason="the report needs plotly: pip install 'scotopic[bench]'")
    methods = {"scotopic:paper": FAKE_METHODS["scotopic:paper"]}
    make_folder(tmp_path, photons=(1, 2), methods=methods, gaps=False)
    write_report(tmp_path)
    (tmp_path / "tables" / "mine.tex").write_text("of the user")
    assert list(tmp_path.glob("tables/*_photons1_*.tex"))
    for path in (*tmp_path.glob("records/*_1_2_*.json"),):
        path.unlink()
    write_report(tmp_path)

    assert not list(tmp_path.glob("tables/*_photons1_*.tex"))
    assert list(tmp_path.glob("tables/*_photons2_*.tex"))
    assert (tmp_path / "tables" / "mine.tex").exists()


def test_a_report_that_cannot_be_written_leaves_the_earlier_one_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("plotly", reason="the report needs plotly: pip install 'scotopic[bench]'")
    make_folder(tmp_path, methods={"classical": FAKE_METHODS["classical"]}, gaps=False)
    write_report(tmp_path)
    names = ("results.json", "results.csv", "report.html")
    before = {name: (tmp_path / name).read_bytes() for name in names}
    make_record(Task("middlebury2014", "Piano", "more", 2.0, 2.0, 0), FAKE_METHODS["classical"], 1).save(tmp_path)
    write = Path.write_text

    def fail_at_the_page(path: Path, *given: Any, **options: Any) -> int:
        if path.name == "report.html":
            raise OSError(28, "No space left on device")
        return write(path, *given, **options)

    monkeypatch.setattr(Path, "write_text", fail_at_the_page)
    with pytest.raises(scotopic.ScotopicError, match="No space left"):
        write_report(tmp_path)

    assert {name: (tmp_path / name).read_bytes() for name in names} == before
