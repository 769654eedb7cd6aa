"""How ``scotopic video`` ends when it cannot go on: what it says, and what it leaves."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import PROGRAM
from video_runs import (
    COUNT,
    HEIGHT,
    NAMES,
    OPTIONS,
    WIDTH,
    fail,
    listing,
    read_video,
    report_of,
    run,
    succeed,
    write_source,
)

from scotopic.cli import clip
from scotopic.errors import OutputError
from scotopic.io import read_image, write_png
from scotopic.preview import draw_video_frame
from scotopic.result import Match


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_source(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def matched(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of matching the folders."""
    folder = tmp_path_factory.mktemp("matched") / "new" / "out"
    succeed(source / "left", source / "right", "-o", folder)
    return folder


@pytest.fixture
def copied(source: Path, tmp_path: Path) -> Path:
    """The same folders and videos, to be damaged."""
    return Path(shutil.copytree(source, tmp_path / "copied"))


def check_nothing_left(folder: Path) -> None:
    assert not folder.exists()
    assert not folder.parent.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["left", "absent"], "'absent'.*No such file"),
        (["left", "left/notes.txt"], "'left/notes.txt'.*video"),
        (["left/f8.png", "right/f8.png"], "'left/f8.png'.*folder"),
        (["left", "empty"], "'empty'.*no frames"),
        (["left", "right.avi"], "'right.avi'.*96 x 62 px.*96 x 63 px"),
        (["left", "right", "--start", "4"], "4"),
        (["left.avi", "right.avi", "--start", "9"], "9"),
        (["left", "right", "--maps", "exr"], "--maps exr.*npz, pfm, none"),
        (["left", "right", "--fps", "0"], "fps.*0"),
        (["left", "right", "--preset", "nice"], "'nice'"),
        (["left", "right", "--set", "patch_size=64"], "'left'.*96 x 63 px.*64 x 64 px"),
        (["left", "right", "--set", "speed=3"], "'speed'"),
        (
            ["left", "right", "--preset", "fast", "--set", "max_cells=9"],
            "'max_cells'",
        ),  # a setting, but of the preset best
        (["left", "right", "--device", "tpu"], "'tpu'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_used_is_one_line_and_nothing_is_left(
    copied: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    (copied / "empty").mkdir()
    monkeypatch.chdir(copied)

    result = run(*arguments, "-o", "new/out", "--max-disparity", 16)

    assert result.exit_code == 2, result.output
    line = result.stderr.splitlines()[-1]
    assert line.startswith("error: ")
    assert re.search(message, line), line
    check_nothing_left(copied / "new" / "out")


def test_lengths_that_differ_are_both_named_and_the_shortest_can_be_taken(copied: Path, tmp_path: Path) -> None:
    (copied / "right" / NAMES[3]).unlink()
    out = tmp_path / "new" / "out"

    message = fail(copied / "left", copied / "right", "-o", out)

    assert re.search("4.* 3", message)
    assert "--shortest" in message
    check_nothing_left(out)
    succeed(copied / "left", copied / "right", "-o", out, "--shortest")
    report = report_of(out)
    assert (report["pairs"], report["pairs_expected"], report["complete"]) == (3, 3, True)


def test_a_missing_encoder_is_said_in_words(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scotopic.io.video._ENCODER", "libnone")

    message = fail(source / "left", source / "right", "-o", tmp_path / "out")

    assert re.search(r"libnone.*pip install", message)
    assert not (tmp_path / "out").exists()


BREAK = {
    "size": lambda path: write_png(path, np.zeros((HEIGHT, WIDTH - 1, 3), np.uint8)),
    "kind": lambda path: write_png(path, np.zeros((HEIGHT, WIDTH), np.uint8)),
    "unreadable": lambda path: path.write_bytes(path.read_bytes()[:500]),
}
FOUND = {
    "size": rf"(?i)frame 2 of '\S*right'.*{WIDTH - 1} x {HEIGHT} px.*{WIDTH} x {HEIGHT} px",
    "kind": r"(?i)frame 2 of '\S*right'.*1 channel.*3 channel",
    "unreadable": r"(?i)frame 2.*'\S*right/f10.png'",
}


@pytest.mark.parametrize("how", BREAK)
def test_a_bad_frame_is_named_and_what_was_finished_is_kept(
    copied: Path, matched: Path, tmp_path: Path, how: str
) -> None:
    BREAK[how](copied / "right" / NAMES[2])
    out = tmp_path / "out"

    message = fail(copied / "left", copied / "right", "-o", out)

    assert re.search(FOUND[how], message), message
    assert message.endswith(f"The 2 pairs matched until then are in {str(out)!r}.")
    check_kept(out, matched, 2)
    assert re.search(FOUND[how], report_of(out)["stopped_by"])


def check_kept(out: Path, matched: Path, count: int) -> None:
    """What a run has left that was stopped after some frames: whole, playable, said to be incomplete."""
    report = report_of(out)
    names = [f"frames/{number:06d}.npz" for number in range(count)]
    assert listing(out) == {"video.mp4", "report.json", *names}
    for name in names:
        assert (out / name).read_bytes() == (matched / name).read_bytes()
    assert len(read_video(out / "video.mp4")) == count
    assert (report["pairs"], len(report["frames"]), report["complete"]) == (count, count, False)


def test_a_video_that_was_cut_short_is_matched_up_to_the_frame_that_is_named(copied: Path, tmp_path: Path) -> None:
    data = (copied / "right.avi").read_bytes()
    (copied / "right.avi").write_bytes(data[: len(data) * 6 // 10])
    out = tmp_path / "out"

    message = fail(copied / "left.avi", copied / "right.avi", "-o", out)

    found = re.search(r"(?i)frame (\d) of '\S*right.avi'.* 4 frames.*cut short.*--count (\d)", message)
    assert found, message
    whole = int(found[1])
    assert 1 <= whole < COUNT
    assert found[2] == found[1]
    report = report_of(out)
    assert (report["pairs"], report["pairs_expected"], report["complete"]) == (whole, COUNT, False)
    assert len(read_video(out / "video.mp4")) == whole
    succeed(copied / "left.avi", copied / "right.avi", "-o", tmp_path / "part", "--count", whole)


def test_a_disk_that_fills_up_leaves_what_was_saved(
    source: Path, matched: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from scotopic.io.frames import write_frame_maps

    def write(folder: Path, number: int, *rest: Any, **others: Any) -> None:
        if number >= 2:
            raise OutputError("The disk is full.")
        write_frame_maps(folder, number, *rest, **others)

    monkeypatch.setattr(clip, "write_frame_maps", write)

    message = fail(source / "left", source / "right", "-o", tmp_path)

    assert "The disk is full. The 2 pairs" in message
    report = report_of(tmp_path)
    assert (report["pairs"], report["complete"]) == (2, False)
    assert listing(tmp_path / "frames") == {"000000.npz", "000001.npz"}


def test_a_link_that_leads_nowhere_is_a_missing_frame_and_not_none(copied: Path, tmp_path: Path) -> None:
    for view, name in (("left", NAMES[1]), ("right", NAMES[2])):  # as many are left of both, but not the same
        (copied / view / name).unlink()
        (copied / view / name).symlink_to(tmp_path / "gone.png")

    message = fail(copied / "left", copied / "right", "-o", tmp_path / "out")

    assert re.search(r"Frame 1.*left/f9\.png.*No such file", message)


def test_given_levels_are_for_frames_of_one_type(copied: Path, tmp_path: Path) -> None:
    for name in NAMES:
        write_png(copied / "left" / name, 16 * read_image(copied / "left" / name).astype(np.uint16))

    message = fail(copied / "left", copied / "right", "-o", tmp_path / "out", "--bits", 12)

    assert re.search(r"uint16 \(left\) and uint8 \(right\)", message)


def test_two_runs_do_not_write_to_one_new_folder_at_once(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("fcntl", reason="locks are those of POSIX systems")
    views, messages = (source / "left", source / "right"), list[str]()

    def start_another(match: Match, *rest: Any) -> Any:
        if not messages:
            messages.append("")  # only from the first frame of the first run
            messages.append(fail(*views, "-o", tmp_path, "--overwrite", "--maps", "pfm"))
        return draw_video_frame(match, *rest)

    monkeypatch.setattr(clip, "draw_video_frame", start_another)
    succeed(*views, "-o", tmp_path)

    assert "Another run is writing its results" in messages[1]
    assert {path.suffix for path in (tmp_path / "frames").iterdir()} == {".npz"}
    assert report_of(tmp_path)["complete"]


# --- interruption ---------------------------------------------------------------------------------------------------


def test_an_interruption_leaves_a_video_that_plays_and_the_finished_frames(
    source: Path, matched: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Match] = []

    def interrupt(match: Match, *rest: Any) -> Any:
        if len(seen) == 3:
            raise KeyboardInterrupt
        seen.append(match)
        return draw_video_frame(match, *rest)

    monkeypatch.setattr(clip, "draw_video_frame", interrupt)

    result = run(source / "left", source / "right", "-o", tmp_path, *OPTIONS)

    assert result.exit_code == 130
    assert result.stderr.splitlines()[-1].startswith("interrupted")
    report = report_of(tmp_path)
    assert (report["complete"], report["stopped_by"]) == (False, "interrupted")
    assert len(read_video(tmp_path / "video.mp4")) == 3
    for path in (tmp_path / "frames").iterdir():
        assert path.read_bytes() == (matched / "frames" / path.name).read_bytes()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_is_stopped_from_outside_ends_at_once_and_leaves_whole_files(
    source: Path, matched: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    for view in ("left", "right"):
        (tmp_path / view).mkdir()
        for k in range(300):
            (tmp_path / view / f"{k}.png").symlink_to(source / view / NAMES[k % COUNT])
    arguments = ["video", tmp_path / "left", tmp_path / "right", "-o", tmp_path / "out", *OPTIONS]
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *map(str, arguments)], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("1/300"):
            break

    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=60)

    assert (process.returncode, stdout) == (code, "")
    assert "Traceback" not in stderr
    assert "pairs matched until then are in" in stderr
    report = report_of(tmp_path / "out")
    done = report["pairs"]
    assert 1 <= done < 300
    names = [f"frames/{k:06d}.npz" for k in range(done)]
    assert listing(tmp_path / "out") == {"video.mp4", "report.json", *names}
    for k, name in enumerate(names):
        assert (tmp_path / "out" / name).read_bytes() == (matched / f"frames/{k % COUNT:06d}.npz").read_bytes()
    assert done - 1 <= len(read_video(tmp_path / "out" / "video.mp4")) <= done
