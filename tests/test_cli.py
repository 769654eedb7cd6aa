"""What all commands share: options, what is printed, how failures and interruptions end."""

from __future__ import annotations

import inspect
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from command_line import FAST, PROGRAM, check_failure, contents, error_line, run, succeed, write_pair

import scotopic
from scotopic.app.inputs import Request
from scotopic.cli import app, demo, match, video
from scotopic.cv import StereoScotopic
from scotopic.warmup import COMPILING, LOADING


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pair(tmp_path_factory.mktemp("pair"))


# --- options --------------------------------------------------------------------------------------------------------


COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
WITH_VALUE = [
    (name, option.opts[0])
    for name, command in COMMANDS.items()
    for option in command.params
    if option.param_type_name == "option" and not option.is_flag
]


@pytest.mark.parametrize(("command", "option"), WITH_VALUE)
def test_no_option_takes_the_next_option_for_its_value(command: str, option: str) -> None:
    other = "--no-browser" if command == "app" else "--quiet"

    result = run(command, option, other)

    assert result.exit_code == 2
    message = " ".join(result.stderr.replace("│", " ").split())
    assert f"'{option}" in message
    assert f"expected a value, but {other} follows" in message


@pytest.mark.parametrize(("command", "option"), WITH_VALUE)
@pytest.mark.parametrize("is_joined", [False, True])
def test_no_option_takes_an_empty_value(command: str, option: str, is_joined: bool) -> None:
    is_short = not option.startswith("--")

    result = run(command, *([f"{option}="] if is_joined and not is_short else [option, ""]))

    assert result.exit_code == 2
    message = " ".join(result.stderr.replace("│", " ").split())
    assert f"'{option}" in message
    assert "it is empty" in message


def test_an_empty_path_is_not_the_current_folder(pair: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    for views in ((pair / "left.png", pair / "right.png"), ("", pair / "right.png")):
        assert run("match", *views, "-o", "", *FAST).exit_code == 2
    assert run("video", "", "", "-o", "out", *FAST).exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_values_that_look_like_options_can_still_be_given(pair: Path, tmp_path: Path) -> None:
    views = pair / "left.png", pair / "right.png"

    succeed("match", *views, f"--out={tmp_path / 'out'}", *FAST, "--min-disparity", "-4", "--threads", 1)

    assert scotopic.Match.load(tmp_path / "out").settings.matching.min_disparity == -4


def test_every_way_to_match_starts_from_best() -> None:
    starts = [
        inspect.signature(each).parameters["preset"].default
        for each in (match, video, demo, scotopic.match, scotopic.Matcher)
    ]
    starts += [inspect.signature(StereoScotopic.create).parameters["preset"].default, Request("Room").preset]

    assert set(starts) == {"best"}


@pytest.mark.parametrize("command", ["match", "video", "demo"])
def test_the_help_of_commands_that_match_says_how_to_be_faster(command: str) -> None:
    assert "--preset fast" in " ".join(succeed(command, "--help").stdout.split())


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
    assert all(stage in last for stage in json.loads((tmp_path / "out" / "report.json").read_text())["timings_seconds"])
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


# --- failures -------------------------------------------------------------------------------------------------------


def fail_in_match(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(sys.modules["scotopic.cli.match"], "match_pair", fail)


@pytest.mark.parametrize(
    ("advice", "shown"),
    [
        ("Pass overwrite=True to replace it.", "Pass --overwrite to replace it."),
        ("Say unit='mm' if so.", "Say --unit mm if so."),
        ("Try max_disparity=64 or fps=3.", "Try --max-disparity 64 or fps=3."),  # match has no --fps
        ("Lower max_disparity.", "Lower --max-disparity."),
        ("Set p1=30, or the setting 'max_disparity'.", "Set p1=30, or the setting 'max_disparity'."),
    ],
)
def test_arguments_that_an_error_advises_are_shown_as_the_options_of_the_command(
    pair: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, advice: str, shown: str
) -> None:
    fail_in_match(monkeypatch, scotopic.ScotopicError(f"It failed.\n{advice}"))

    result = run("match", pair / "left.png", pair / "right.png", "-o", tmp_path / "out")

    assert error_line(result) == f"error: It failed. {shown}"


def test_memory_that_runs_out_is_one_line(pair: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_in_match(monkeypatch, MemoryError())

    result = run("match", pair / "left.png", pair / "right.png", "-o", tmp_path / "new" / "out", "--quiet")

    check_failure(result, "Out of memory.*smaller images", tmp_path / "new" / "out")


@pytest.mark.parametrize(
    "arguments", [["match"], ["match", "a", "b"], ["shine"], ["simulate", "a", "b", "--seed", "x"]]
)
def test_wrong_usage_exits_with_2_and_says_so_on_stderr(arguments: list[str]) -> None:
    result = run(*arguments)

    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Usage" in result.stderr


# --- interruption ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_is_stopped_ends_at_once_and_leaves_nothing(
    pair: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
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
        [sys.executable, "-c", PROGRAM, *map(str, arguments)], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
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


def test_an_interruption_while_saving_leaves_nothing(
    pair: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("match", pair / "left.png", pair / "right.png", *FAST, "-o")

    def write_half(file: Any, **_: Any) -> None:
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez_compressed", write_half)

    result = run(*arguments, tmp_path / "out")

    assert result.exit_code == 130
    assert result.stderr.splitlines()[-1].startswith("interrupted")
    assert not (tmp_path / "out").exists()


# --- warming up -----------------------------------------------------------------------------------------------------


def test_compilation_is_announced_when_it_happens_and_not_otherwise(
    pair: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import numba

    cold = numba.njit(lambda x: x + 1)  # not cached, so it has to be compiled on its first call
    monkeypatch.setattr("scotopic.warmup._match_tiny_pairs", lambda _: cold(1))
    arguments = ("match", pair / "left.png", pair / "right.png", *FAST, "-o")

    first, second = succeed(*arguments, tmp_path / "first"), succeed(*arguments, tmp_path / "second")

    assert f"{COMPILING} ..." in first.stderr.splitlines()
    assert COMPILING not in second.stderr


def test_after_the_warm_up_no_match_needs_another_kernel() -> None:
    # In a process of its own, where nothing else has loaded kernels.
    code = """
import numpy as np, scotopic
from scotopic.settings import PRESETS
from scotopic.warmup import warm_up
from scotopic.kernel_cache import kernels_of
kernels = lambda: {d.py_func.__qualname__: tuple(d.signatures) for d in kernels_of()}
pair = np.random.default_rng(0).integers(0, 256, (2, 56, 72, 3), np.uint8)
few = dict(max_disparity=8, search_steps=2, device="cpu")
warm_up(lambda *_: None, PRESETS["best"])
warm = kernels()
assert warm["search_step"] and warm["sweep"] and not warm["paint_row"]
scotopic.match(*pair, preset="best", **few)
scotopic.match(*pair, preset="best", full_size_snr=1e9, **few)
assert kernels() == warm, {name for name in warm if warm[name] != kernels()[name]}
warm_up(lambda *_: None, PRESETS["fast"])
warm = kernels()
assert warm["paint_row"]
scotopic.match(*pair, preset="fast", **few)
scotopic.match(*pair, preset="paper", refine_steps=3, search_every=2, **few)
scotopic.match(*pair[..., 0], preset="fast", min_disparity=-8, symmetric=False, adaptive_p2=False, **few)
assert kernels() == warm, {name for name in warm if warm[name] != kernels()[name]}
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_advice_names_options_with_their_values_and_without_quotes(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((2, 48, 64), np.uint8))

    message = error_line(run("video", tmp_path / "a.npy", tmp_path / "a.npy", "-o", tmp_path / "out"))

    assert "--kind counts for" in message
    assert "--kind bit-planes for" in message
