"""Results are replaced in one step: a folder holds the old set or the new one, whenever the process is killed."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from command_line import FAST, error_line, run, succeed, write_pair
from video_runs import OPTIONS, report_of, write_source

from scotopic.errors import OutputError
from scotopic.io import claim_folder, replaced_files, write_png
from scotopic.io.replacement import NOTICE, UNFINISHED, Replacement, settle
from scotopic.result import Match

OLD = {"a.pfm": b"old a", "b.png": b"old b", "frames/000001.npz": b"old one"}
NEW = {"a.pfm": b"new a", "c.json": b"new c", "frames/000000.npz": b"new zero"}
OTHERS = {"mine.txt": b"mine", "frames/mine.txt": b"mine too"}

#: Runs a program that is killed, as by the system, at the Nth change it makes to names in a folder.
KILLED_AT = """
import os, signal, sys
left = int(sys.argv.pop(1))
def counted(change):
    def changed(*arguments, **options):
        global left
        if os.environ.get("ONLY", "") in str(arguments[-1]):
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return change(*arguments, **options)
    return changed
for name in ("replace", "rename", "link", "symlink", "unlink", "rmdir", "mkdir"):
    setattr(os, name, counted(getattr(os, name)))
"""


def replace_and_be_killed(number: int, folder: Path) -> bool:
    """Replace the files of a folder in a process that is killed at the Nth change of a name; return if it lived."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about threads of other tests, which the child does not use
        child = os.fork()
    if child == 0:
        try:
            exec(KILLED_AT.replace("int(sys.argv.pop(1))", str(number)), {})
            with replaced_files(folder, OLD) as stage:
                fill(stage, NEW)
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def fill(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def shown(folder: Path) -> dict[str, bytes]:
    """What a reader finds in the folder: all files but the hidden ones and those of an unfinished set."""
    found = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not name.startswith((".scotopic", UNFINISHED)) and name != NOTICE:
            found[name] = path.read_bytes()
    return found


def said(folder: Path) -> str | None:
    """Which set the folder says that it holds; ``None`` if nothing was interrupted."""
    if (folder / UNFINISHED).is_dir():
        assert "earlier ones, whole" in (folder / UNFINISHED / "README.txt").read_text()
        return "earlier"
    if not (folder / NOTICE).is_file():
        return None
    return "new" if "the new results" in (folder / NOTICE).read_text() else "earlier"


def test_a_kill_at_any_change_of_a_name_leaves_all_old_or_all_new(tmp_path: Path) -> None:
    outcomes = []
    for number in range(200):
        folder = tmp_path / str(number)
        fill(folder, OLD | OTHERS)

        done = replace_and_be_killed(number, folder)

        found, which = shown(folder), said(folder)
        assert found in (OLD | OTHERS, NEW | OTHERS), (number, found)
        if which is not None:
            assert found == ((NEW if which == "new" else OLD) | OTHERS), number
        settle(folder)
        assert shown(folder) == found, number
        assert not (folder / NOTICE).exists()
        assert not any(path.is_symlink() or path.name.startswith(".scotopic") for path in folder.rglob("*")), number
        outcomes.append("new" if found == NEW | OTHERS else "old")
        if done:
            break
    assert done, "the last run was to be left alone"
    assert outcomes == sorted(outcomes, reverse=True)  # old until one step, new from there on
    assert outcomes.count("old") > 10
    assert outcomes.count("new") > 10


def test_after_a_kill_the_next_run_replaces_the_results_as_if_nothing_had_happened(tmp_path: Path) -> None:
    fill(tmp_path, OLD | OTHERS)
    assert not replace_and_be_killed(9, tmp_path)

    claim_folder(tmp_path, OLD, overwrite=True)
    with replaced_files(tmp_path, OLD) as stage:
        fill(stage, NEW)

    assert shown(tmp_path) == NEW | OTHERS
    assert sorted(os.listdir(tmp_path)) == ["a.pfm", "c.json", "frames", "mine.txt"]


def test_an_error_while_writing_or_replacing_leaves_the_old_set_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, OLD | OTHERS)
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def write_and_fail() -> None:
        with replaced_files(tmp_path, OLD) as stage:
            fill(stage, {"a.pfm": b"new a"})
            raise full

    with pytest.raises(OutputError, match="No space left"):
        write_and_fail()
    assert shown(tmp_path) == OLD | OTHERS
    assert not (tmp_path / UNFINISHED).exists()

    link, made = os.symlink, []

    def fail_later(*arguments: str) -> None:
        made.append(arguments)
        if len(made) == 4:
            raise full
        link(*arguments)

    def write_and_replace() -> None:
        with replaced_files(tmp_path, OLD) as stage:
            fill(stage, NEW)

    monkeypatch.setattr(os, "symlink", fail_later)
    with pytest.raises(OutputError, match="No space left"):
        write_and_replace()
    assert shown(tmp_path) == OLD | OTHERS
    assert sorted(os.listdir(tmp_path)) == ["a.pfm", "b.png", "frames", "mine.txt"]


def test_where_there_are_no_links_the_files_are_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: str) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "symlink", refuse)
    fill(tmp_path, OLD | OTHERS)

    with replaced_files(tmp_path, OLD) as stage:
        fill(stage, NEW)

    assert shown(tmp_path) == NEW | OTHERS


def test_two_runs_do_not_write_to_one_folder_at_the_same_time(tmp_path: Path) -> None:
    first = Replacement(tmp_path)

    with pytest.raises(OutputError, match="Another run"):
        Replacement(tmp_path)

    first.drop()
    Replacement(tmp_path).drop()


def test_a_folder_of_somebody_else_is_not_removed(tmp_path: Path) -> None:
    fill(tmp_path, {f"{UNFINISHED}/thesis.txt": b"dear"})

    with pytest.raises(OutputError, match="not made by scotopic"):
        Replacement(tmp_path)

    assert (tmp_path / UNFINISHED / "thesis.txt").read_bytes() == b"dear"


# --- the commands ---------------------------------------------------------------------------------------------------

#: Runs each command that it is told in a copy of itself, so that modules and kernels are loaded once.
COMMANDS = (
    KILLED_AT
    + """
import json
import cv2
cv2.setNumThreads(1)  # threads do not survive in a copy
from scotopic.cli import main
from scotopic.settings import PRESETS
from scotopic.warmup import warm_up
warm_up(lambda *_: None, PRESETS["fast"])
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        left, os.environ["ONLY"], *sys.argv[1:] = json.loads(line)
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        main()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
)


@pytest.fixture(scope="module")
def kill_command() -> Iterator[Callable[..., int]]:
    """Runs a command, killed at the Nth change of a name that contains a word, and returns its exit code."""
    never = str(sys.maxsize)
    one_thread = os.environ | {"NUMBA_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", COMMANDS, never],
        env=one_thread,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:

        def kill(number: int, only: str, *arguments: object) -> int:
            assert process.stdin is not None
            assert process.stdout is not None
            print(json.dumps([number, only, *map(str, arguments)]), file=process.stdin, flush=True)
            return int(process.stdout.readline())

        yield kill


DEPTH_FILES = {"depth.pfm", "depth.png", "depth_uncertainty.pfm"}


def test_match_killed_while_saving_leaves_all_old_or_all_new(kill_command: Callable[..., int], tmp_path: Path) -> None:
    write_pair(tmp_path)
    out, first = tmp_path / "out", tmp_path / "first"
    (tmp_path / "calib.txt").write_text("100 48 32 0.1 0\n")
    views = ("match", tmp_path / "left.png", tmp_path / "right.png")
    succeed(*views, "-o", first, *FAST, "--calib", tmp_path / "calib.txt")
    old, outcomes = shown(first), []
    for number in (12, 45, 60, 75):  # while files are written, while they are replaced, and while it tidies up
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(first, out)

        code = kill_command(number, "out/", *views, "-o", out, "--preset", "fast", "--max-disparity", 24, "--overwrite")

        assert code == -signal.SIGKILL
        found = shown(out)
        if found != old:  # all of the new set: no depth without a calibration, and one search range in every file
            assert set(found) == set(old) - DEPTH_FILES
            assert Match.load(out).settings.matching.max_disparity == 24
            assert all(found[name] != old[name] for name in ("disparity_all.pfm", "match.npz", "report.json"))
        outcomes.append("earlier" if found == old else "new")
        assert said(out) in (None, outcomes[-1])
    assert set(outcomes) == {"earlier", "new"}
    succeed(*views, "-o", out, *FAST, "--overwrite")
    assert set(os.listdir(out)) == set(old) - DEPTH_FILES
    assert Match.load(out).settings.matching.max_disparity == 16


def test_match_removes_files_of_the_earlier_result_that_the_new_one_does_not_have(tmp_path: Path) -> None:
    write_pair(tmp_path)
    (tmp_path / "calib.txt").write_text("100 48 32 0.1 0\n")
    arguments = ("match", tmp_path / "left.png", tmp_path / "right.png", "-o", tmp_path / "out", *FAST)
    succeed(*arguments, "--calib", tmp_path / "calib.txt", "--ply", "--format", "tiff", "--fill")
    (tmp_path / "out" / "mine.pfm").write_bytes(b"mine")

    succeed(*arguments, "--overwrite")

    plain = set(os.listdir(succeed(*arguments[:3], "-o", tmp_path / "plain", *FAST) and tmp_path / "plain"))
    assert set(os.listdir(tmp_path / "out")) == plain | {"mine.pfm"}


def test_a_full_disk_while_match_is_saving_leaves_the_old_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pair(tmp_path)
    arguments = ("match", tmp_path / "left.png", tmp_path / "right.png", "-o", tmp_path / "out")
    succeed(*arguments, *FAST)
    old = shown(tmp_path / "out")

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(np, "savez_compressed", fail)

    line = error_line(run(*arguments, "--preset", "fast", "--max-disparity", "24", "--overwrite"))

    assert "No space left" in line
    assert shown(tmp_path / "out") == old
    assert set(os.listdir(tmp_path / "out")) == set(old)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_source(tmp_path_factory.mktemp("source"))


def test_video_killed_at_any_point_leaves_all_old_or_all_new(
    kill_command: Callable[..., int], source: Path, tmp_path: Path
) -> None:
    out, first = tmp_path / "out", tmp_path / "first"
    views = ("video", source / "left", source / "right", *OPTIONS)
    succeed(*views, "--count", 3, "-o", first)
    old, outcomes = shown(first), []
    new = {f"frames/00000{k}-{what}" for k in (1, 2) for what in ("disparity.pfm", "confidence.pfm", "reason.png")}
    for number in (30, 50, 60, 75):  # while frames are written, while files are replaced, and while it tidies up
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(first, out)
        changed = ("--start", 1, "--maps", "pfm", "--count", 2, "--overwrite")

        assert kill_command(number, "out/", *views, "-o", out, *changed) == -signal.SIGKILL

        found = shown(out)
        if found != old:
            assert set(found) == {"report.json", report_of(out)["video"]["file"], *new}
            assert (report_of(out)["start"], report_of(out)["complete"]) == (1, True)
        outcomes.append("earlier" if found == old else "new")
        assert said(out) in (None, outcomes[-1])
    assert set(outcomes) == {"earlier", "new"}
    succeed(*views, "-o", out, "--count", 3, "--overwrite")
    assert set(shown(out)) == set(old)
    assert not (out / UNFINISHED).exists()


def test_a_video_that_fails_in_its_middle_leaves_the_old_results_and_the_new_ones_beside_them(
    source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    succeed("video", source / "left", source / "right", "-o", out, *OPTIONS)
    old = shown(out)
    for view in ("left", "right"):
        (tmp_path / view).mkdir()
        for k, path in enumerate(sorted((source / view).glob("f*.png"))):
            (tmp_path / view / f"{k}.png").write_bytes(path.read_bytes())
    write_png(tmp_path / "right" / "2.png", np.zeros((9, 9, 3), np.uint8))

    line = error_line(run("video", tmp_path / "left", tmp_path / "right", "-o", out, *OPTIONS, "--overwrite"))

    assert "2 pairs matched until then are in" in line
    assert UNFINISHED in line
    assert "earlier results" in line
    assert shown(out) == old
    assert {path.name for path in (out / UNFINISHED / "frames").iterdir()} == {"000000.npz", "000001.npz"}
