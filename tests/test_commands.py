"""The smaller commands, end to end: ``junctions``, ``simulate``, ``demo`` and ``info``."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import cv2
import numpy as np
import pytest
from command_line import FAST, check_failure, contents, error_line, make_bad_images, run, succeed, write_pair
from rooms import room

import scotopic
from scotopic.cli.commands import DEMO_FILES, JUNCTION_FILES, SIMULATION_FILES
from scotopic.cli.console import results_folder
from scotopic.evaluation.metrics import score
from scotopic.io import read_image, read_pfm, write_pfm
from scotopic.result import FILES
from scotopic.sensor import simulate_pair, to_uint8


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pair(tmp_path_factory.mktemp("pair"))


@pytest.mark.parametrize("name", ["left.png", "gray.png"])
def test_junctions_writes_maps_a_preview_and_the_parameters(pair: Path, tmp_path: Path, name: str) -> None:
    succeed("junctions", pair / name, "-o", tmp_path / "out", "--preset", "fast", "--set", "stride=4")

    assert set(contents(tmp_path / "out")) == set(JUNCTION_FILES)
    settings = scotopic.make_settings("fast", stride=4).junctions
    field = scotopic.fit_junctions(pair / name, settings)
    with np.load(tmp_path / "out" / "junctions.npz") as file:
        assert np.array_equal(file["parameters"], field.parameters)
        assert np.array_equal(file["boundary_map"], field.boundary_map)
        assert np.array_equal(file["color_map"], field.color_map)
    boundaries = read_image(tmp_path / "out" / "boundaries.png")
    assert np.array_equal(boundaries, np.rint(field.boundary_map * 255))
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["settings"]["stride"] == 4
    # Patches of 40 px, 4 px apart, on 96 x 64 px.
    assert (report["patch_rows"], report["patch_columns"]) == ((64 - 40) // 4 + 1, (96 - 40) // 4 + 1)


@pytest.mark.parametrize("name", ["left.png", "gray.png"])
def test_simulate_writes_the_noise_of_the_sensor_model_and_its_settings(pair: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / "out"
    clean = read_image(pair / name)
    expected = simulate_pair(clean / np.float32(255), clean / np.float32(255), photons=3, read_noise=0.5, seed=7)

    succeed(*("simulate", pair / name, pair / name, "-o", out, "--photons", 3, "--read-noise", 0.5, "--seed", 7))

    assert set(contents(out)) == set(SIMULATION_FILES)
    assert np.array_equal(read_image(out / "left.png"), to_uint8(expected[0]))
    assert np.array_equal(read_image(out / "right.png"), to_uint8(expected[1]))
    report = json.loads((out / "report.json").read_text())
    assert (report["photons"], report["read_noise"], report["seed"]) == (3, 0.5, 7)


def test_simulate_never_replaces_its_own_input(pair: Path, tmp_path: Path) -> None:
    (tmp_path / "left.png").write_bytes((pair / "left.png").read_bytes())
    before = contents(tmp_path)

    result = run("simulate", tmp_path / "left.png", pair / "right.png", "-o", tmp_path, "--overwrite")

    assert result.exit_code == 2
    assert "would replace the input" in result.stderr
    assert contents(tmp_path) == before


def test_demo_matches_its_scene_and_scores_the_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    quick = ("--set", "refine_steps=0")
    unfiltered = ("--set", "group_rounds=0", "--set", "surface_passes=0", "--set", "plane_rounds=0")

    printed = succeed("demo", *quick, *unfiltered).stdout
    out = json.loads(succeed("demo", "--preset", "fast", *quick, "--set", "p1=30", "--json").stdout)  # over the first

    folder = tmp_path / "scotopic-demo"
    for word in ("W = 19", "W = 1", "EPE", "Bad-1", "Bad-3", "coverage", "scotopic-demo/preview.png", "--preset best"):
        assert word in printed
    assert set(contents(folder)) == set(DEMO_FILES)
    truth, disparity = read_pfm(folder / "truth.pfm"), read_pfm(folder / "disparity.pfm")
    assert np.array_equal(truth, room().disparity_left)
    for found, window in zip(out["scores"], (19, 1), strict=True):
        expected = score(disparity, truth, window)
        assert found["window_px"] == window
        assert found["epe_px"] == pytest.approx(expected.epe)
        assert found["bad_3_percent"] == pytest.approx(expected.bad[3])
        assert found["coverage_percent"] == pytest.approx(100 * np.isfinite(disparity).mean())
    assert json.loads((folder / "scores.json").read_text())["scores"] == out["scores"]


def test_the_command_that_demo_prints_gives_the_same_match(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    printed = succeed("demo", "-o", "a dark room", "--preset", "fast", "--set", "refine_steps=0").stdout
    (command,) = [line.partition(": ")[2] for line in printed.splitlines() if line.startswith("the same by hand")]
    name, *arguments = shlex.split(command)
    succeed(*arguments)

    assert name == "scotopic"
    assert Path("again/disparity.pfm").read_bytes() == Path("a dark room/disparity.pfm").read_bytes()


def test_demo_in_a_chosen_folder_does_not_replace_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "truth.pfm").write_bytes(b"dear")

    result = run("demo", "-o", tmp_path)

    assert result.exit_code == 2
    assert "truth.pfm" in result.stderr
    assert contents(tmp_path) == {"truth.pfm": b"dear"}


def test_info_tells_versions_devices_presets_and_the_cache() -> None:
    found = json.loads(succeed("info", "--json").stdout)

    assert found["scotopic"] == scotopic.__version__
    assert found["numpy"] == np.__version__
    assert found["opencv"] == cv2.__version__
    assert found["cpus"] == os.cpu_count()
    assert found["devices"]["cpu"] == "available"
    assert found["presets"].keys() == scotopic.PRESETS.keys()
    assert found["presets"]["paper"] == {}
    assert found["presets"]["fast"]["binning"] == scotopic.PRESETS["fast"].junctions.binning
    assert found["presets"]["best"]["binning"] == scotopic.PRESETS["best"].junctions.binning
    assert all(Path(folder).is_absolute() for folder in found["kernel_cache"])
    printed = succeed("info").stdout
    assert scotopic.__version__ in printed
    assert all(name in printed for name in scotopic.PRESETS)


def test_no_command_leaves_results_of_another_beside_its_own(
    pair: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scotopic.cli.commands.render_scene", lambda: room(96, 64))
    out = tmp_path / "out"
    (tmp_path / "kept").mkdir()
    views = [pair / "left.png", pair / "right.png"]
    quick = ("-o", out, "--preset", "fast", "--set", "stride=8", "--set", "refine_steps=0", "--overwrite")
    commands = {
        "match": (FILES, ("match", *views, *quick, "--max-disparity", 16)),
        "junctions": (JUNCTION_FILES, ("junctions", views[0], *quick)),
        "simulate": (SIMULATION_FILES, ("simulate", *views, "-o", out, "--overwrite")),
        "demo": (DEMO_FILES, ("demo", *quick, "--max-disparity", 16)),
    }
    for name in ("match", "junctions", "match", "simulate", "demo", "simulate", "match", "demo", "match"):
        files, command = commands[name]
        succeed(*command)
        (out / "notes.txt").write_text("mine")

        assert set(contents(out)) == {*files, "notes.txt"}, name
        assert json.loads((out / "report.json").read_text())["files"] == list(files)


@pytest.mark.parametrize("command", ["match", "junctions", "simulate", "demo", "burst", "video"])
def test_two_commands_do_not_work_in_one_folder(pair: Path, tmp_path: Path, command: str) -> None:
    out, frames = tmp_path / "out", tmp_path / "frames"
    frames.mkdir()
    for number in range(2):
        (frames / f"{number}.png").write_bytes((pair / "left.png").read_bytes())
    inputs = {"match": [pair / "left.png"] * 2, "junctions": [pair / "left.png"], "simulate": [pair / "left.png"] * 2}
    given = {"demo": [], **inputs}.get(command, [frames, frames])
    preset = () if command == "simulate" else ("--preset", "fast")

    with results_folder(out, FILES, overwrite=False):  # as the first command does while it works
        refused = run(command, *given, "-o", out, *preset)

        assert "Another run is writing its results" in error_line(refused)
        assert out.is_dir()
        assert contents(out) == {}
    succeed("simulate", pair / "left.png", pair / "right.png", "-o", out)


def test_what_is_simulated_can_be_matched_in_its_own_folder(pair: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    succeed("simulate", pair / "left.png", pair / "right.png", "-o", out)

    succeed("match", out / "left.png", out / "right.png", "-o", out, "--overwrite", *FAST)
    succeed("simulate", out / "left.png", out / "right.png", "-o", tmp_path / "again")

    assert set(contents(out)) == {*FILES, "left.png", "right.png"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["junctions", "absent.png"], "absent.png.*No such file"),
        (["junctions", "tiny.png"], "tiny.png.*96 x 39"),
        (["junctions", "gray.png", "--preset", "nice"], "'nice'"),
        (["junctions", "gray.png", "--set", "p1=20"], "'p1'.*junctions"),  # a setting, but of the matching
        (["junctions", "gray.png", "--device", "tpu"], "'tpu'"),
        (["simulate", "absent.png", "gray.png"], "left image.*absent.png"),
        (["simulate", "gray.png", "smaller.png"], "96 x 64.*96 x 60"),
        (["simulate", "gray.png", "gray.png", "--photons", "0"], "photons.* 0"),
        (["simulate", "gray.png", "gray.png", "--read-noise", "-1"], "-1"),
        (["simulate", "gray.png", "gray.png", "--seed", "-1"], "seed.*-1"),
        (["simulate", "smaller.png", "bright.pfm"], "right image.*1.5"),
        (["demo", "--set", "color=3"], "'color'"),
        (["demo", "--device", "tpu"], "'tpu'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_refused_in_one_line_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    make_bad_images(tmp_path)
    write_pfm(tmp_path / "bright.pfm", np.full((60, 96, 3), 1.5, np.float32))
    monkeypatch.chdir(tmp_path)

    result = run(*arguments, "-o", "new/out")

    check_failure(result, message, tmp_path / "new" / "out")
