"""``scotopic video --batch``: many clips, one after the other or on a cluster."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import command_line
import pytest
from typer.testing import Result
from video_runs import OPTIONS, report_of, write_source

from scotopic.cli import batch
from scotopic.cli.batch import read_clips
from scotopic.errors import InputError
from scotopic.evaluation.cluster import NO_DASHBOARD


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_source(tmp_path_factory.mktemp("source"))


def write_list(folder: Path, source: Path, *names: str, broken: str = "") -> Path:
    lines = [f"{source / 'left'},{source / 'right'},{name}" for name in names if name != broken]
    lines += [f"{source / 'nothing'},{source / 'right'},{broken}"] if broken else []
    path = folder / "clips.csv"
    path.write_text("\n".join(["left, right, out", *lines]) + "\n")
    return path


def run(clips: Path, *more: object) -> Result:
    return command_line.run("video", "--batch", clips, "--count", 1, *OPTIONS, *more)


def times(folder: Path) -> list[int]:
    return sorted(path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file())


def test_every_clip_is_matched_once_and_one_that_fails_stops_none(source: Path, tmp_path: Path) -> None:
    clips = write_list(tmp_path, source, "a", "b", broken="c")

    first = run(clips)

    assert first.exit_code == 1
    assert all(report_of(tmp_path / name)["complete"] for name in ("a", "b"))
    assert "1 of 3 clips failed" in first.stderr
    assert "nothing" in first.stderr
    assert first.stdout.count("done") == 2
    assert "failed" in first.stdout
    written = times(tmp_path / "a")

    again = run(clips, "--json")

    assert again.exit_code == 1
    assert "2 of 3 clips are done already" in again.stderr
    assert times(tmp_path / "a") == written
    summary = json.loads(again.stdout)["clips"]
    assert [each["reused"] for each in summary] == [True, True, False]
    assert [each["error"] is None for each in summary] == [True, True, False]
    assert summary[0]["pairs"] == 1


def test_a_clip_is_matched_again_if_its_inputs_or_options_change_or_it_was_interrupted(
    source: Path, tmp_path: Path
) -> None:
    clips = write_list(tmp_path, source, "a")
    assert run(clips).exit_code == 0

    other = run(clips, "--set", "p1=11")
    assert other.exit_code == 1
    assert "--overwrite" in other.stderr  # complete results of other settings
    assert run(clips, "--set", "p1=11", "--overwrite").exit_code == 0
    assert report_of(tmp_path / "a")["settings"]["matching"]["p1"] == 11

    written = times(tmp_path / "a")
    report = report_of(tmp_path / "a")
    (tmp_path / "a/report.json").write_text(json.dumps({**report, "complete": False}))
    assert run(clips, "--set", "p1=11").exit_code == 0  # what a run has left is replaced
    assert times(tmp_path / "a")[-1] > written[-1]
    for name in ("report.json", "video.mp4"):  # as if it had been killed
        (tmp_path / "a" / name).unlink()
    assert run(clips, "--set", "p1=11").exit_code == 0
    assert report_of(tmp_path / "a")["complete"]


@pytest.mark.parametrize("lost", ["video.mp4", "frames/000000.npz", "frames/000000-mask.png"])
def test_a_clip_of_which_a_file_is_gone_is_matched_again(source: Path, tmp_path: Path, lost: str) -> None:
    clips = write_list(tmp_path, source, "a")
    assert run(clips, "--png").exit_code == 0
    (tmp_path / "a" / lost).unlink()

    result = run(clips, "--png")

    assert result.exit_code == 0, result.stderr
    assert "done already" not in result.stderr
    assert (tmp_path / "a" / lost).is_file()


def test_changed_frames_are_noticed_by_their_content(source: Path, tmp_path: Path) -> None:
    views = write_source(tmp_path)
    clips = write_list(tmp_path, views, "a")
    assert run(clips).exit_code == 0
    frame = tmp_path / "left" / "f8.png"
    frame.write_bytes((tmp_path / "left" / "f9.png").read_bytes())

    result = run(clips, "--overwrite")

    assert "done already" not in result.stderr
    assert result.exit_code == 0


def replace_while(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, change: Callable[[], object]) -> None:
    """Make a change once, before the function of this name is called for the first time."""
    function = getattr(owner, name)
    waiting = [change]

    def called(*args: object, **keywords: object) -> object:
        while waiting:
            waiting.pop()()
        return function(*args, **keywords)

    monkeypatch.setattr(owner, name, called)


def test_results_are_kept_under_the_name_of_the_files_that_they_were_made_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = write_source(tmp_path)
    clips = write_list(tmp_path, views, "a", "b")
    frame = tmp_path / "left" / "f8.png"
    before, after = frame.read_bytes(), (tmp_path / "left" / "f9.png").read_bytes()
    # The file of both clips is replaced when the first one has been taken down, and put back for the next run.
    replace_while(monkeypatch, batch, "match_clip", lambda: frame.write_bytes(after))

    first = run(clips)
    frame.write_bytes(before)
    again = run(clips)

    assert first.exit_code == 1
    assert "a: The inputs changed while they were read" in first.stderr
    assert "b: " not in first.stderr  # made of the new file, and called so
    assert "done already" not in again.stderr
    assert "--overwrite" in again.stderr  # the results of b are of another file
    assert report_of(tmp_path / "a")["complete"]


def test_clips_that_another_batch_has_done_meanwhile_are_done(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clips = write_list(tmp_path, source, "a", "b")
    only_b = tmp_path / "b.csv"
    only_b.write_text(clips.read_text().replace(",a\n", ",c\n"))
    replace_while(monkeypatch, batch, "match_clip", lambda: run(only_b))

    result = run(clips, "--json")

    assert result.exit_code == 0, result.stderr
    assert [each["reused"] for each in json.loads(result.stdout)["clips"]] == [False, True]


def test_a_cluster_does_the_same(source: Path, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="needs Dask: the extra 'bench'")
    clips = write_list(tmp_path, source, "a", "b", broken="c")
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, **NO_DASHBOARD) as cluster:
        result = run(clips, "--scheduler", cluster.scheduler_address)

    assert result.exit_code == 1
    assert all(report_of(tmp_path / name)["complete"] for name in ("a", "b"))
    assert not (tmp_path / "c").exists()
    assert "1 of 3 clips failed" in result.stderr


def test_a_plain_run_knows_nothing_of_batches(source: Path, tmp_path: Path) -> None:
    views = source / "left", source / "right"
    command_line.succeed("video", *views, "-o", tmp_path, "--count", 1, *OPTIONS)

    assert {"batch", "fusion"} & {*report_of(tmp_path)} == set()


# --- the list -------------------------------------------------------------------------------------------------------


def test_paths_are_relative_to_the_list_and_calibrations_are_for_each_clip_or_all(tmp_path: Path) -> None:
    path = tmp_path / "clips.csv"
    path.write_text("\ufeffleft,right,out,calib\n l , r,o,a.yml; b.yml\n\n/l2,/r2,/o2,\n", encoding="utf-8")

    first, second = read_clips(path, [Path("all.txt")])

    assert (first.left, first.right, first.out) == (tmp_path / "l", tmp_path / "r", tmp_path / "o")
    assert first.calib == (tmp_path / "a.yml", tmp_path / "b.yml")
    assert (second.left, second.out, second.calib) == (Path("/l2"), Path("/o2"), (Path("all.txt"),))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "first line"),
        ("left,right\na,b\n", "first line"),
        ("left,right,out,calibration\na,b,c,d\n", "first line"),
        ("left,right,out\n", "names no clips"),
        ("left,right,out\na,b\n", "Line 2 .* each column"),
        ("left,right,out\na,b,c,d\n", "Line 2 .* each column"),
        ("left,right,out\na,b,c\nd,e,./c\n", "Line 3 .* of another clip"),
        ("left,right,out,out\na,b,c,d\n", "each once"),
        ("left,right,out\na,b,c\0\n", "Line 2 .* null character"),
        (f"left,right,out\n{200_000 * 'a'},b,c\n", "cannot be read as a list"),
        ('left,right,out\na,b,"c', "cannot be read as a list"),
    ],
)
def test_a_list_that_cannot_be_used_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "clips.csv").write_text(text)

    with pytest.raises(InputError, match=message):
        read_clips(tmp_path / "clips.csv", ())


def test_a_name_in_quotes_may_have_any_character(tmp_path: Path) -> None:
    path = tmp_path / "clips.csv"
    path.write_bytes('left,right,out\r\n"a,\u2028b","c\nd",e\r\n'.encode())

    (clip,) = read_clips(path, ())

    assert (clip.left, clip.right, clip.out) == (tmp_path / "a,\u2028b", tmp_path / "c\nd", tmp_path / "e")


@pytest.mark.parametrize(
    "arguments",
    [(), ("left", "right"), ("left", "right", "-o", "out", "--scheduler", "tcp://x:1"), ("left", "--batch", "x.csv")],
)
def test_one_clip_or_a_list_of_them(arguments: tuple[str, ...]) -> None:
    message = command_line.error_line(command_line.run("video", *arguments))

    assert "--batch" in message
