"""The command, end to end: what it writes, what it says, how it fails."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner, Result

import scotopic
from scotopic.cli import app
from scotopic.cli.commands import JUNCTION_FILES, SIMULATION_FILES
from scotopic.cli.demo import DEMO_FILES
from scotopic.evaluation.metrics import score
from scotopic.io import read_image, read_pfm, write_pfm, write_png
from scotopic.result import Reason
from scotopic.result import FILES, Match
from scotopic.sensor import simulate_pair, to_uint8
from scotopic.warmup import COMPILING, LOADING

FAST = ("--preset", "fast", "--max-disparity", "16")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def succeed(*arguments: object) -> Result:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


def contents(folder: Path, without: str = "") -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != without}


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with left.png and right.png, 96 x 64 px, noisy, and gray.png of the same size."""
    folder = tmp_path_factory.mktemp("pair")
    scene = scotopic.render_scene(width=96, height=64)
    for name, view in zip(("left", "right"), simulate_pair(scene.left, scene.right), strict=True):
        write_png(folder / f"{name}.png", to_uint8(view))
    write_png(folder / "gray.png", to_uint8(scene.left[..., 1]))
    return folder


@pytest.fixture(scope="session")
def matched(pair: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of matching the pair."""
    folder = tmp_path_factory.mktemp("matched") / "out"
    succeed("match", pair / "left.png", pair / "right.png", "-o", folder, *FAST)
    return folder


# --- match ----------------------------------------------------------------------------------------------------------


def test_match_writes_the_promised_files_and_nothing_else(matched: Path) -> None:
    assert set(contents(matched)) == set(FILES)


def test_match_gives_what_the_call_gives(pair: Path, matched: Path) -> None:
    called = scotopic.match(pair / "left.png", pair / "right.png", preset="fast", max_disparity=16)

    loaded = Match.load(matched)

    assert np.array_equal(loaded.disparity, called.disparity, equal_nan=True)
    assert loaded.settings == called.settings
    assert 0 < loaded.coverage < 1


def test_the_disparity_file_has_infinity_where_there_is_none(matched: Path) -> None:
    loaded = Match.load(matched)

    disparity = read_pfm(matched / "disparity.pfm")

    assert np.array_equal(np.isposinf(disparity), loaded.reason != Reason.OK)
    assert np.isfinite(read_pfm(matched / "disparity_all.pfm")).all()


def test_two_runs_give_the_same_bytes_whatever_the_threads(pair: Path, matched: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"

    succeed("match", pair / "left.png", pair / "right.png", "-o", again, *FAST, "--threads", 1)

    assert contents(again, without="report.json") == contents(matched, without="report.json")


def test_the_report_tells_version_settings_timings_and_coverage(matched: Path) -> None:
    report = json.loads((matched / "report.json").read_text())

    assert report["scotopic"] == scotopic.__version__
    assert report["settings"]["preset"] == "fast"
    assert report["settings"]["matching"]["max_disparity"] == 16
    assert report["coverage"] == pytest.approx(np.isfinite(read_pfm(matched / "disparity.pfm")).mean())
    assert {"junctions", "costs right", "consistency"} <= report["timings_seconds"].keys()
    assert LOADING not in report["timings_seconds"]


def test_options_and_settings_reach_the_method(pair: Path, tmp_path: Path) -> None:
    succeed(
        *("match", pair / "left.png", pair / "right.png", "-o", tmp_path / "out", "--preset", "fast"),
        *("--min-disparity", "-8", "--max-disparity", "8"),
        *("--set", "p1=30", "--set", "symmetric=false", "--set", "boundary_threshold = 0.2"),
    )

    matching = Match.load(tmp_path / "out").settings.matching
    assert (matching.min_disparity, matching.max_disparity) == (-8, 8)
    assert (matching.p1, matching.symmetric, matching.boundary_threshold) == (30, False, 0.2)


def test_a_constant_image_gives_an_empty_match_not_an_error(tmp_path: Path) -> None:
    write_png(tmp_path / "flat.png", np.full((48, 64), 90, np.uint8))

    succeed("match", tmp_path / "flat.png", tmp_path / "flat.png", "-o", tmp_path / "out", *FAST)

    assert np.isposinf(read_pfm(tmp_path / "out" / "disparity.pfm")).all()
    assert (Match.load(tmp_path / "out").reason == Reason.NO_STRUCTURE).all()


def test_results_are_replaced_only_when_told(pair: Path, tmp_path: Path) -> None:
    (tmp_path / "disparity.pfm").write_bytes(b"dear")
    arguments = ("match", pair / "left.png", pair / "right.png", "-o", tmp_path, *FAST)

    refused = run(*arguments)

    assert refused.exit_code == 2
    assert "disparity.pfm" in refused.stderr
    assert "--overwrite" in refused.stderr
    assert "junctions" not in refused.stderr  # before the work, not after it
    assert contents(tmp_path) == {"disparity.pfm": b"dear"}
    succeed(*arguments, "--overwrite")
    assert read_pfm(tmp_path / "disparity.pfm").shape == (64, 96)


# --- the other commands ---------------------------------------------------------------------------------------------


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

    printed = succeed("demo").stdout
    out = json.loads(succeed("demo", "--json").stdout)  # the second time, over the first

    folder = tmp_path / "scotopic-demo"
    for word in ("W = 19", "W = 1", "EPE", "Bad-1", "Bad-3", "coverage", "scotopic-demo/preview.png"):
        assert word in printed
    assert set(contents(folder)) == set(DEMO_FILES)
    truth, disparity = read_pfm(folder / "truth.pfm"), read_pfm(folder / "disparity.pfm")
    assert np.array_equal(truth, scotopic.render_scene().disparity_left)
    for found, window in zip(out["scores"], (19, 1), strict=True):
        expected = score(disparity, truth, window)
        assert found["window_px"] == window
        assert found["epe_px"] == pytest.approx(expected.epe)
        assert found["bad_3_percent"] == pytest.approx(expected.bad[3])
        assert found["coverage_percent"] == pytest.approx(100 * np.isfinite(disparity).mean())
    assert json.loads((folder / "scores.json").read_text())["scores"] == out["scores"]
    # Its inputs are files too, and give the same match.
    again = scotopic.match(folder / "left.png", folder / "right.png", preset="fast", max_disparity=64)
    assert np.array_equal(again.disparity, Match.load(folder).disparity, equal_nan=True)


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
    assert all(Path(folder).is_absolute() for folder in found["kernel_cache"])
    printed = succeed("info").stdout
    assert scotopic.__version__ in printed
    assert all(name in printed for name in scotopic.PRESETS)


def test_the_version_is_that_of_the_package() -> None:
    assert succeed("--version").stdout == f"scotopic {scotopic.__version__}\n"


# --- what is printed ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["match", "junctions", "simulate", "info"])
def test_json_is_all_that_stands_on_stdout_and_quiet_silences_the_rest(
    pair: Path, tmp_path: Path, command: str
) -> None:
    inputs: dict[str, list[object]] = {
        "match": [pair / "left.png", pair / "right.png", *FAST],
        "junctions": [pair / "left.png", "--preset", "fast"],
        "simulate": [pair / "left.png", pair / "right.png"],
        "info": [],
    }
    arguments = [command, *inputs[command]]
    out = [] if command == "info" else ["-o", tmp_path / "out"]

    as_json = succeed(*arguments, *out, "--json")

    result = json.loads(as_json.stdout)
    assert result["scotopic"] == scotopic.__version__
    if out:
        assert result["folder"] == str(tmp_path / "out")
        assert set(result["files"]) == set(contents(tmp_path / "out"))
        out[1] = tmp_path / "silent"
    silent = succeed(*arguments, *out, "--quiet")
    assert silent.output == ""


def test_stages_are_lines_on_stderr_where_there_is_no_terminal(pair: Path, tmp_path: Path) -> None:
    result = succeed("match", pair / "left.png", pair / "right.png", "-o", tmp_path / "out", *FAST)

    lines = result.stderr.splitlines()
    stages = [*json.loads((tmp_path / "out" / "report.json").read_text())["timings_seconds"], "saving"]
    assert lines == [f"{LOADING} ...", *(f"{stage} ..." for stage in stages)]
    assert "\x1b" not in result.output


def test_stages_are_bars_on_a_terminal(pair: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich then takes any stream for a terminal
    monkeypatch.setenv("COLUMNS", "100")

    result = succeed("match", pair / "left.png", pair / "right.png", "-o", tmp_path / "out", *FAST)

    last = result.stderr[result.stderr.rindex("junctions") :]
    assert all(stage in last for stage in ("costs left", "costs right", "matching right", "consistency"))
    assert "100%" in last


def test_paths_that_look_like_markup_are_printed_as_they_are(pair: Path, tmp_path: Path) -> None:
    folder = tmp_path / "[bold]out[/bold] :smile:"

    result = succeed("simulate", pair / "left.png", pair / "right.png", "-o", folder)

    assert str(folder) in result.stdout


def test_help_imports_neither_numba_nor_opencv() -> None:
    code = (
        "import sys\n"
        "from scotopic.cli import app\n"
        "app(['match', '--help'], standalone_mode=False)\n"
        "print(sorted({'numba', 'cv2'} & sys.modules.keys()))"
    )

    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert result.stdout.splitlines()[-1] == "[]"
    assert "--max-disparity" in result.stdout


# --- bad input ------------------------------------------------------------------------------------------------------


def make_bad_images(folder: Path) -> None:
    random = np.random.default_rng(0)
    noise = random.integers(0, 256, (64, 96, 3), np.uint8)
    write_png(folder / "smaller.png", noise[:60])
    write_png(folder / "gray.png", noise[..., 0])
    write_png(folder / "tiny.png", noise[:39])
    (folder / "text.png").write_text("not an image")
    (folder / "cut.png").write_bytes((folder / "smaller.png").read_bytes()[:-200])
    cv2.imwrite(str(folder / "alpha.png"), np.dstack([noise, noise[..., :1]]))
    for name, value in (("nan", np.nan), ("inf", np.inf), ("unscaled", 200.0)):
        pixels = (noise / 255).astype(np.float32)
        pixels[3, 5] = value
        write_pfm(folder / f"{name}.pfm", pixels)


BAD_IMAGES: dict[str, tuple[str, str, str]] = {
    # left, right, what the message must name
    "missing left": ("absent.png", "right.png", "left image.*absent.png.*No such file"),
    "missing right": ("left.png", "absent.png", "right image.*absent.png.*No such file"),
    "folder": (".", "right.png", "left image.*found a folder"),
    "not an image": ("left.png", "text.png", "right image.*text.png.*found no readable image"),
    "cut short": ("cut.png", "right.png", "left image.*cut.png.*found no readable image"),
    "different sizes": ("left.png", "smaller.png", "left image .* and right image .*96 x 64 px.*96 x 60 px.*same size"),
    "different channels": ("left.png", "gray.png", "left image .* and right image .*3 channel.*1 channel"),
    "smaller than a patch": ("tiny.png", "tiny.png", "left image .* and right image .*96 x 39 px.*40 x 40 px"),
    "nan": ("nan.pfm", "right.png", "left image.*nan.pfm.*NaN.*row 3, column 5"),
    "inf": ("left.png", "inf.pfm", "right image.*inf.pfm.*infinite"),
    "unscaled": ("left.png", "unscaled.pfm", "right image.*unscaled.pfm.*to 200.*divide"),
    "alpha": ("alpha.png", "right.png", "left image.*alpha.png.*found an alpha channel"),
}

BAD_SETTINGS: dict[str, tuple[list[str], str]] = {
    "empty range": (["--max-disparity", "0"], "disparity range.*0 to 0"),
    "reversed range": (["--min-disparity", "20", "--max-disparity", "10"], "disparity range.*20 to 10.*swap"),
    "range wider than the image": (["--max-disparity", "97"], "disparity range.*97.*96 px wide"),
    "unknown preset": (["--preset", "nice"], "preset.*'nice'.*paper, fast, best"),
    "unknown setting": (["--set", "color=3"], "--set.*'color'.*patch_size"),
    "name of a parameter that is no setting": (["--set", "preset=fast"], "--set.*'preset'.*patch_size"),
    "not a number": (["--set", "p1=many"], "'p1'.*'many'.*whole number"),
    "not a whole number": (["--set", "p1=1.5"], "'p1'.*'1.5'.*whole number"),
    "no value": (["--set", "p1"], "--set.*'p1'.*KEY=VALUE"),
    "given twice": (["--set", "p1=1", "--set", "p1=2"], "'p1' twice"),
    "given as option and setting": (["--max-disparity", "16", "--set", "max_disparity=8"], "'max_disparity' twice"),
    "unknown device": (["--device", "tpu"], "device.*'tpu'.*auto, cpu, cuda"),
    "no threads": (["--threads", "0"], "--threads.*found 0"),
    "more threads than CPUs": (["--threads", "100000"], "--threads.*found 100000"),
}


def check_failure(result: Result, message: str, out: Path) -> None:
    """One line that names the input, exit code 2, and nothing left behind."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    line = result.stderr.removesuffix("\n")
    assert "\n" not in line
    assert line.startswith("error: ")
    assert re.search(message, line), line
    assert not out.exists()
    assert not out.parent.exists()


@pytest.mark.parametrize("case", BAD_IMAGES)
def test_match_refuses_bad_images_in_one_line_and_leaves_nothing(pair: Path, tmp_path: Path, case: str) -> None:
    make_bad_images(tmp_path)
    left, right, message = BAD_IMAGES[case]
    paths = [tmp_path / name if (tmp_path / name).exists() else pair / name for name in (left, right)]

    result = run("match", *paths, "-o", tmp_path / "new" / "out", "--preset", "fast")

    check_failure(result, message, tmp_path / "new" / "out")


@pytest.mark.parametrize("case", BAD_SETTINGS)
def test_match_refuses_bad_settings_in_one_line_and_leaves_nothing(pair: Path, tmp_path: Path, case: str) -> None:
    arguments, message = BAD_SETTINGS[case]

    result = run("match", pair / "left.png", pair / "right.png", "-o", tmp_path / "new" / "out", *arguments)

    check_failure(result, message, tmp_path / "new" / "out")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["junctions", "absent.png"], "absent.png.*No such file"),
        (["junctions", "tiny.png"], "tiny.png.*96 x 39 px"),
        (["junctions", "gray.png", "--preset", "nice"], "'nice'"),
        (["junctions", "gray.png", "--set", "p1=20"], "--set.*'p1'"),  # a setting, but of the matching
        (["junctions", "gray.png", "--device", "tpu"], "'tpu'"),
        (["simulate", "absent.png", "gray.png"], "left image.*absent.png"),
        (["simulate", "gray.png", "smaller.png"], "left and right"),
        (["simulate", "gray.png", "gray.png", "--photons", "0"], "photons.*found 0"),
        (["simulate", "gray.png", "gray.png", "--read-noise", "-1"], "read_noise.*found -1"),
        (["simulate", "gray.png", "gray.png", "--seed", "-1"], "seed.*found -1"),
        (["simulate", "smaller.png", "bright.pfm"], "right image to simulate.*to 1.5"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_the_other_commands_refuse_bad_input_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    make_bad_images(tmp_path)
    write_pfm(tmp_path / "bright.pfm", np.full((60, 96, 3), 1.5, np.float32))
    monkeypatch.chdir(tmp_path)

    result = run(*arguments, "-o", "new/out")

    check_failure(result, message, tmp_path / "new" / "out")


def test_a_file_in_the_place_of_the_folder_is_refused_before_the_work(pair: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"dear")

    result = run("match", pair / "left.png", pair / "right.png", "-o", tmp_path / "out")

    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert len(result.stderr.splitlines()) == 1
    assert str(tmp_path / "out") in result.stderr
    assert contents(tmp_path) == {"out": b"dear"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_refused_before_the_work(pair: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        result = run("match", pair / "left.png", pair / "right.png", "-o", tmp_path / "out")
    finally:
        tmp_path.chmod(0o700)

    check_failure(result, "out.*permissions", tmp_path / "out" / "never")


@pytest.mark.parametrize(
    "arguments", [["match"], ["match", "a", "b"], ["shine"], ["simulate", "a", "b", "--seed", "x"]]
)
def test_wrong_usage_exits_with_2_and_says_so_on_stderr(arguments: list[str]) -> None:
    result = run(*arguments)

    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Usage" in result.stderr


def test_memory_that_runs_out_is_one_line(pair: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run_out(*_: Any, **__: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(sys.modules["scotopic.cli.match"], "match_pair", run_out)

    result = run("match", pair / "left.png", pair / "right.png", "-o", tmp_path / "new" / "out")

    check_failure(result, "memory.*smaller image", tmp_path / "new" / "out")


# --- interruption ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_is_stopped_ends_at_once_and_leaves_nothing(
    pair: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    # Whoever runs the tests in the background may have made their children deaf to Ctrl-C.
    program = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\nfrom scotopic.cli import main; main()"
    )
    arguments = [
        "match",
        pair / "left.png",
        pair / "right.png",
        "-o",
        tmp_path / "out",
        "--set",
        "refine_steps=1000000",
    ]
    process = subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("junctions"):
            break

    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=60)

    assert process.returncode == code
    assert stdout == ""
    assert "Traceback" not in stderr
    assert len(stderr.splitlines()) == (1 if number == signal.SIGINT else 0)
    assert not (tmp_path / "out").exists()


def test_an_interruption_while_saving_leaves_whole_files_only(
    pair: Path, matched: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_half(file: Any, **_: Any) -> None:
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez_compressed", write_half)

    result = run("match", pair / "left.png", pair / "right.png", "-o", tmp_path / "out", *FAST)

    assert result.exit_code == 130
    assert result.stderr.splitlines()[-1].startswith("interrupted")
    found = contents(tmp_path / "out")
    assert "match.npz" not in found
    assert found.items() <= contents(matched).items()


# --- warming up -----------------------------------------------------------------------------------------------------


def test_compilation_is_announced_when_it_happens_and_not_otherwise(
    pair: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import numba

    cold = numba.njit(lambda x: x + 1)  # not cached, so it has to be compiled on its first call
    monkeypatch.setattr("scotopic.warmup._match_tiny_pair", lambda: cold(1))
    arguments = ("match", pair / "left.png", pair / "right.png", *FAST, "-o")

    first, second = succeed(*arguments, tmp_path / "first"), succeed(*arguments, tmp_path / "second")

    assert f"{COMPILING} ..." in first.stderr.splitlines()
    assert COMPILING not in second.stderr


def test_after_the_warm_up_no_match_needs_another_kernel() -> None:
    # In a process of its own, where nothing else has loaded kernels.
    code = """
import numpy as np, scotopic
from scotopic.warmup import _dispatchers, warm_up
kernels = lambda: {d.py_func.__qualname__: tuple(d.signatures) for d in _dispatchers()}
warm_up()
warm = kernels()
assert warm["search_step"] and warm["sweep"]
pair = np.random.default_rng(0).integers(0, 256, (2, 56, 72, 3), np.uint8)
few = dict(max_disparity=8, search_steps=2, device="cpu")
scotopic.match(*pair, preset="fast", **few)
scotopic.match(*pair, preset="paper", refine_steps=3, search_every=2, **few)
scotopic.match(*pair[..., 0], preset="fast", min_disparity=-8, symmetric=False, adaptive_p2=False, **few)
assert kernels() == warm, {name for name in warm if warm[name] != kernels()[name]}
"""
    subprocess.run([sys.executable, "-c", code], check=True)
