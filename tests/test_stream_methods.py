"""Ways to fuse the frames of a sequence, each against what must hold of it, and the plan that runs them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from moving_rig import moving_rig, pose_of, write_archives
from shifted_scene import shifted_scene

from scotopic.demo import render_scene
from scotopic.errors import InputError, SettingsError
from scotopic.evaluation.benchmark import run_benchmark
from scotopic.evaluation.datasets import open_dataset
from scotopic.evaluation.methods import get_method, streams
from scotopic.evaluation.methods.odometry import find_poses
from scotopic.evaluation.methods.streams import fill_from_farther, seen_from_right
from scotopic.evaluation.plan import DatasetPlan, Plan, load_plan
from scotopic.evaluation.pose_errors import pose_errors
from scotopic.evaluation.protocol import record_scene
from scotopic.evaluation.records import Record
from scotopic.evaluation.report.results import read_results
from scotopic.evaluation.report.summary import motion_figures
from scotopic.evaluation.report.write import as_json, write_report
from scotopic.evaluation.scene import Scene
from scotopic.evaluation.sequence import StereoSequence


@pytest.fixture(scope="module")
def rig() -> StereoSequence:
    return moving_rig(4, 96, 64)


def scene_of(rig: StereoSequence, folder: Path, frames: int, photons: float = 1e6) -> Scene:
    """A sequence as methods see it, nearly without noise unless said."""
    write_archives(folder / "rig", rig)
    return record_scene(open_dataset("sequence", folder).load("rig"), photons, 0, 0, frames)[2]


@pytest.fixture
def matched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[np.ndarray, np.ndarray]]:
    """The pairs that were matched, in place of matching them."""
    seen: list[tuple[np.ndarray, np.ndarray]] = []

    def answer(left: Any) -> SimpleNamespace:
        nothing = np.zeros(left.shape[:2], np.float32)
        return SimpleNamespace(disparity=nothing, disparity_all=nothing, confidence=nothing, mask=nothing > 0)

    def match(left: Any, right: Any, settings: Any) -> SimpleNamespace:
        seen.append((left, right))
        return answer(left)

    def run_pipeline(device: str, images: Any, settings: Any, light: Any) -> SimpleNamespace:
        seen.append(tuple(images))
        return answer(images[0])

    monkeypatch.setattr(streams, "match", match)
    monkeypatch.setattr(streams, "run_pipeline", run_pipeline)
    monkeypatch.setattr(streams, "resolve_device", lambda device: "cpu")
    return seen


def run(spec: str, scene: Scene) -> Any:
    left, right = scene.recorded[-1]
    return get_method(spec)(left, right, scene, 32)


def test_the_mean_is_that_of_all_frames_as_they_are(rig: StereoSequence, tmp_path: Path, matched: list[Any]) -> None:
    scene = scene_of(rig, tmp_path, 3)

    run("stream:fast+mean", scene)

    for view in (0, 1):
        np.testing.assert_allclose(
            matched[0][view], np.mean([pair[view] for pair in scene.recorded], axis=0), atol=1e-6
        )


@pytest.mark.parametrize("spec", ["stream:fast+flow", "stream:fast+oracle"])
def test_aligned_frames_show_the_present_better_than_their_mean(
    rig: StereoSequence, tmp_path: Path, matched: list[Any], spec: str
) -> None:
    scene = scene_of(rig, tmp_path, 4)

    run("stream:fast+mean", scene)
    run(spec, scene)

    away = [[np.abs(pair[view] - scene.recorded[-1][view]).mean() for view in (0, 1)] for pair in matched]
    assert (np.array(away[1]) < 0.6 * np.array(away[0])).all()


def test_frames_at_rest_are_their_mean_for_the_oracle_too(tmp_path: Path, matched: list[Any]) -> None:
    still = render_scene(96, 64)
    pairs = ((still.left, still.right),) * 3
    rest = StereoSequence("rest", pairs, still.calibration, (np.eye(4),) * 3, (still.disparity_left,) * 3)
    scene = scene_of(rest, tmp_path, 3, photons=8)

    run("stream:fast+mean", scene)
    run("stream:fast+oracle", scene)

    # Each pixel falls on itself; only where the test for change takes noise for something else is it another.
    same = np.abs(np.asarray(matched[1]) - np.asarray(matched[0])) < 1e-4
    assert same.mean() > 0.8


def test_gaps_of_a_disparity_map_are_filled_from_the_farther_side() -> None:
    gap = np.nan
    found = fill_from_farther(np.array([[gap, 5, gap, 2, gap], [gap, gap, gap, gap, gap]], np.float32))

    np.testing.assert_array_equal(found, [[5, 5, 2, 2, 2], [2, 2, 2, 2, 2]])


def test_the_right_view_of_a_disparity_map_shows_the_nearest_points() -> None:
    scene = render_scene(96, 64)

    found = seen_from_right(scene.disparity_left)

    error = np.abs(found - scene.disparity_right)[scene.visible_right]
    assert np.quantile(error, 0.9) < 0.3  # of points half a pixel away on a slanted surface
    assert np.isfinite(found).all()


def test_a_stream_goes_on_where_the_last_task_stopped(
    rig: StereoSequence, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[int] = []

    class Matcher:
        def __init__(self, settings: Any, *, fuse: int, calibration: Any) -> None:
            self.done = 0

        def run(self, pairs: Any) -> Any:
            runs.append(len(pairs))
            for left, _ in pairs:
                self.done += 1
                nothing = np.full(left.shape[:2], self.done, np.float32)
                yield SimpleNamespace(
                    disparity=nothing, disparity_all=nothing, confidence=nothing, mask=nothing > 0,
                    pose=pose_of((0.1 * self.done, 0.0, 0.0)), pose_covariance=np.eye(6),
                )  # fmt: skip

    monkeypatch.setattr(streams, "Matcher", Matcher)
    write_archives(tmp_path / "rig", rig)
    loaded = open_dataset("sequence", tmp_path).load("rig")

    found = [run("stream:fast", record_scene(loaded, 2, 2, 0, frames)[2]) for frames in (1, 3, 3, 2)]
    other = run("stream:fast", record_scene(loaded, 2, 2, 1, 2)[2])

    assert runs == [1, 2, 3, 2, 2]  # one frame and two more; less or as much, or other noise, begins again
    assert [each.dense[0, 0] for each in (*found, other)] == [1, 3, 3, 2, 2]
    assert [len(each.poses) for each in found] == [1, 3, 3, 2]
    assert found[1].poses[2][0, 3] == pytest.approx(0.3)


def test_features_find_the_motion_in_the_light() -> None:
    poses = tuple(pose_of((0.1 * k, 0.0, 0.1 * k), 0.3 * k) for k in range(3))
    scenes = [render_scene(288, 192, pose=pose) for pose in poses]
    pairs = tuple((scene.left, scene.right) for scene in scenes)
    truths = tuple(scene.disparity_left for scene in scenes)
    sequence = StereoSequence("rig", pairs, scenes[0].calibration, poses, truths)

    found = pose_errors(sequence, find_poses("sift", sequence, pairs, 64))

    assert found.step_px < 0.5
    assert found.rotation_per_length < 0.5  # degrees per baseline, of a true 2.1


@pytest.mark.parametrize("spec", ["stream:fast", "stream:best+mean", "odometry:orb"])
def test_a_method_for_streams_says_that_a_single_pair_is_none(spec: str) -> None:
    scene = shifted_scene()

    with pytest.raises(InputError, match="'shifted' of made is a single pair; this method needs a sequence"):
        get_method(spec)(scene.left, scene.right, scene, 16)


@pytest.mark.parametrize("spec", ["stream:nothing", "stream:best+luck", "stream:"])
def test_an_unknown_method_for_streams_is_refused_with_the_choices(spec: str) -> None:
    with pytest.raises(SettingsError, match=r"\+mean, \+flow, \+oracle"):
        get_method(spec)


# --- the plan -------------------------------------------------------------------------------------------------------


def test_the_plan_measures_sequences_by_frames_and_kitti_by_light() -> None:
    plan = load_plan("stream")
    tasks = list(plan.tasks({"sequence": ["a"], "kitti_sequence": ["b"]}))

    levels = {part.kind: {(t.photons, t.frames) for t in tasks if t.dataset == part.kind} for part in plan.datasets}

    assert levels == {"sequence": {(2, n) for n in (1, 2, 4, 8, 16)}, "kitti_sequence": {(8, 16), (32, 16)}}


def test_a_benchmark_of_a_sequence_records_errors_and_poses(rig: StereoSequence, tmp_path: Path) -> None:
    write_archives(tmp_path / "data" / "rig", rig)
    plan = Plan(
        "Rig", (DatasetPlan("sequence", ("data",)),), ("opencv:sgbm", "odometry:orb"), (1000.0,), (2,), 0.0,
        matched_to="opencv:sgbm", max_disparity=32,
    )  # fmt: skip

    status = run_benchmark(plan, tmp_path, tmp_path / "out")

    assert (status.done, status.failed) == (2, 0)
    results = read_results(tmp_path / "out")
    (group,) = results.groups
    assert group.noise == "after 2 frames, 1000 photons, read noise 0"
    (matched,) = group.scored("opencv:sgbm").values()
    (poses,) = group.scored("odometry:orb").values()
    assert matched.scores["1"]["coverage_percent"] > 20
    assert matched.motion == {}
    assert set(poses.motion) == {"translation_percent", "rotation_per_length", "step_px", "last_px", "nees"}
    assert poses.motion["nees"] is None  # it has no covariance
    assert poses.motion["step_px"] == poses.motion["last_px"]  # two frames
    assert motion_figures(group, "odometry:orb")["step_px"].mean == poses.motion["step_px"]
    assert '"step_px"' in as_json(results)
    assert Record.load(next((tmp_path / "out" / "records").glob("*odometry*"))).motion == poses.motion
    pytest.importorskip("plotly", reason="the report needs plotly: pip install 'scotopic[bench]'")
    page = write_report(tmp_path / "out").read_text(encoding="utf-8")
    shown = page[page.index('<section id="motion">') :]
    assert f"{poses.motion['step_px']:.3g}</td>" in shown
    assert "odometry:orb" in shown
