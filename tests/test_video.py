"""``scotopic video``, end to end: what it writes of two videos or folders of frames, and what it leaves if it fails."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner, Result

import scotopic
from scotopic.cli import app
from scotopic.errors import InputError, OutputError, SettingsError
from scotopic.io import read_disparity, read_image, read_npz, read_pfm, write_png
from scotopic.io.frames import FrameFolder, open_pairs
from scotopic.io.video import VideoFile, usable_codec, video_file
from scotopic.result import Reason
from scotopic.preview import draw_side_by_side
from scotopic.result import Match
from scotopic.sensor import simulate_pair, to_uint8

Frame = NDArray[Any]

COMMAND = importlib.import_module("scotopic.cli.video")  # scotopic.cli.video is the function of this name

WIDTH, HEIGHT, COUNT = 96, 63, 4  # an odd height: codecs want even ones
NAMES = ("f8.png", "f9.png", "f10.png", "f11.png")  # f10 comes before f8 in the order of letters
SETTINGS: dict[str, Any] = {"max_disparity": 16, "patch_size": 24, "refine_steps": 4}
OPTIONS = ("--max-disparity", 16, "--set", "patch_size=24", "--set", "refine_steps=4", "--device", "cpu")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["video", *(str(argument) for argument in arguments)])


def succeed(*arguments: object) -> Result:
    result = run(*arguments, *OPTIONS)
    assert result.exit_code == 0, result.output
    return result


def fail(*arguments: object) -> str:
    """Run what must fail, and give its one line."""
    result = run(*arguments, *OPTIONS)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    last = result.stderr.splitlines()[-1]
    assert last.startswith("error: ")
    return last


def listing(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def report_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return found


def read_video(path: Path) -> list[Frame]:
    """Every frame that OpenCV decodes, RGB."""
    capture = cv2.VideoCapture(str(path))
    frames = []
    while (found := capture.read())[0]:
        frames.append(found[1][:, :, ::-1])
    capture.release()
    return frames


def write_video(path: Path, frames: Sequence[Frame], codec: str = "MJPG", fps: float = 12.5) -> None:
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*codec), fps, frames[0].shape[1::-1])
    for frame in frames:
        writer.write(np.ascontiguousarray(frame[:, :, ::-1]))
    writer.release()


def match_frames(left: Frame | Path, right: Frame | Path) -> Match:
    return scotopic.match(left, right, preset="fast", device="cpu", **SETTINGS)


def assert_maps_of(path: Path, expected: Match) -> None:
    """The file of a frame holds a match's maps, equal to the bit."""
    maps = read_npz(path)
    assert set(maps) == {"disparity", "confidence", "reason", "format"}
    for name in ("disparity", "confidence", "reason"):
        values = getattr(expected, name)
        assert maps[name].dtype == values.dtype
        assert np.array_equal(maps[name], values, equal_nan=values.dtype.kind == "f"), name


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders left and right of noisy frames; left.avi and right.avi of the same, one row less, at 12.5 per second."""
    folder = tmp_path_factory.mktemp("source")
    scene = scotopic.render_scene(width=WIDTH, height=HEIGHT)
    noisy = [simulate_pair(scene.left, scene.right, photons=20, seed=seed) for seed in range(COUNT)]
    for k, view in enumerate(("left", "right")):
        (folder / view).mkdir()
        frames = [to_uint8(pair[k]) for pair in noisy]
        for name, frame in zip(NAMES, frames, strict=True):
            write_png(folder / view / name, frame)
        (folder / view / "notes.txt").write_text("not a frame")
        (folder / view / ".f0.png").write_text("not a frame")
        write_video(folder / f"{view}.avi", [frame[:-1] for frame in frames])
    return folder


@pytest.fixture(scope="session")
def matched(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of matching the folders."""
    folder = tmp_path_factory.mktemp("matched") / "new" / "out"
    succeed(source / "left", source / "right", "-o", folder)
    return folder


@pytest.fixture
def copied(source: Path, tmp_path: Path) -> Path:
    """The same folders and videos, to be damaged."""
    return Path(shutil.copytree(source, tmp_path / "copied"))


# --- what it writes -------------------------------------------------------------------------------------------------


def test_folders_of_frames_give_a_video_maps_and_a_report(matched: Path) -> None:
    assert listing(matched) == {
        report_of(matched)["video"]["file"],
        "report.json",
        *(f"frames/{number:06d}.npz" for number in range(COUNT)),
    }


def test_the_maps_are_those_of_the_call_for_each_pair_in_natural_order(source: Path, matched: Path) -> None:
    for number, name in enumerate(NAMES):
        expected = match_frames(source / "left" / name, source / "right" / name)
        assert 0 < expected.coverage < 1
        assert_maps_of(matched / "frames" / f"{number:06d}.npz", expected)


def test_the_maps_of_a_frame_are_a_disparity_map_to_every_reader(matched: Path) -> None:
    path = matched / "frames" / "000001.npz"

    disparity = read_disparity(path)

    with np.load(path, allow_pickle=False) as file:
        assert int(file["format"]) == 1
        assert np.array_equal(disparity, file["disparity"], equal_nan=True)
        assert np.array_equal(np.isfinite(disparity), file["reason"] == Reason.OK)


def test_the_video_shows_each_left_frame_beside_its_disparity_dark_where_there_is_none(
    source: Path, matched: Path
) -> None:
    frames = read_video(matched / report_of(matched)["video"]["file"])

    assert len(frames) == COUNT
    for number, frame in enumerate(frames):
        assert frame.shape == (HEIGHT + 1, 2 * WIDTH, 3)
        left = read_image(source / "left" / NAMES[number])
        # The codec blurs the noise: compare means over blocks of 7 x 8 px, which it keeps.
        blocks = [view[:HEIGHT, :WIDTH].reshape(9, 7, 12, 8, 3).mean(axis=(1, 3)) for view in (frame, left)]
        assert np.abs(blocks[0] - blocks[1]).mean() < 8
        shown = frame[:HEIGHT, WIDTH:].max(axis=2)
        kept = read_npz(matched / "frames" / f"{number:06d}.npz")["reason"] == Reason.OK
        assert shown[~kept].mean() < 60
        assert shown[kept].mean() > 150


def test_one_disparity_has_one_color_in_all_frames() -> None:
    def drawn(*disparities: float) -> Frame:
        image = np.zeros((1, len(disparities), 3), np.float32)
        empty = Match.empty(image, image, scotopic.make_settings("fast", max_disparity=3), Reason.NO_STRUCTURE)
        object.__setattr__(empty, "disparity", np.array([disparities], np.float32))
        return draw_side_by_side(empty)[0, len(disparities) :]

    near, far = drawn(2.0, 1.0, np.nan), drawn(1.0, 0.0, 0.5)

    assert np.array_equal(near[1], far[0])
    assert near[2].max() < 30  # dark
    assert len({tuple(color) for color in (*near, *far)}) == 5


def test_the_report_tells_settings_counts_coverage_speed_and_what_was_assumed(source: Path, matched: Path) -> None:
    report = report_of(matched)

    assert report["format"] == 1
    assert (report["width"], report["height"], report["channels"]) == (WIDTH, HEIGHT, 3)
    assert report["settings"]["preset"] == "fast"
    assert report["settings"]["matching"]["max_disparity"] == 16
    assert report["left"] == {"path": str(source / "left"), "frames": COUNT, "fps": None}
    assert (report["pairs"], report["pairs_expected"], report["complete"]) == (COUNT, COUNT, True)
    assert report["stopped_by"] is None
    assert [frame["frame"] for frame in report["frames"]] == list(range(COUNT))
    assert [frame["left"] for frame in report["frames"]] == list(NAMES)
    for number, frame in enumerate(report["frames"]):
        known = np.isfinite(read_disparity(matched / "frames" / f"{number:06d}.npz"))
        assert frame["coverage"] == pytest.approx(known.mean())
    assert report["pairs_per_second"] > 0
    assert any("25 frames per second" in words for words in report["assumed"])
    assert any("no linearization" in words for words in report["assumed"])


def test_videos_are_matched_as_opencv_decodes_them_at_their_own_rate(source: Path, tmp_path: Path) -> None:
    succeed(source / "left.avi", source / "right.avi", "-o", tmp_path)

    left, right = (read_video(source / f"{view}.avi") for view in ("left", "right"))
    assert len(left) == COUNT
    for number in range(COUNT):
        assert_maps_of(tmp_path / "frames" / f"{number:06d}.npz", match_frames(left[number], right[number]))
    report = report_of(tmp_path)
    assert (report["left"]["frames"], report["left"]["fps"], report["video"]["fps"]) == (COUNT, 12.5, 12.5)
    assert report["frames"][0]["left"] is None
    capture = cv2.VideoCapture(str(tmp_path / report["video"]["file"]))
    assert (capture.get(cv2.CAP_PROP_FRAME_COUNT), capture.get(cv2.CAP_PROP_FPS)) == (COUNT, 12.5)


@pytest.mark.parametrize("kind", ["", ".avi"], ids=["folders", "videos"])
def test_a_part_can_be_matched_and_keeps_its_numbers(source: Path, tmp_path: Path, kind: str) -> None:
    left, right = source / f"left{kind}", source / f"right{kind}"
    succeed(left, right, "-o", tmp_path / "all")

    succeed(left, right, "-o", tmp_path / "part", "--start", 1, "--count", 2, "--fps", 5)

    names = {"frames/000001.npz", "frames/000002.npz"}
    report = report_of(tmp_path / "part")
    assert listing(tmp_path / "part") == {*names, report["video"]["file"], "report.json"}
    for name in names:
        assert (tmp_path / "part" / name).read_bytes() == (tmp_path / "all" / name).read_bytes()
    assert (report["start"], report["pairs"], report["video"]["fps"]) == (1, 2, 5)
    assert report["complete"]


def test_maps_can_be_plain_files(matched: Path, source: Path, tmp_path: Path) -> None:
    succeed(source / "left", source / "right", "-o", tmp_path, "--maps", "pfm", "--count", 1)

    maps = read_npz(matched / "frames" / "000000.npz")
    name = tmp_path / "frames" / "000000"
    disparity = read_pfm(f"{name}-disparity.pfm")
    assert np.array_equal(np.where(np.isposinf(disparity), np.nan, disparity), maps["disparity"], equal_nan=True)
    assert np.array_equal(read_pfm(f"{name}-confidence.pfm"), maps["confidence"])
    assert np.array_equal(read_image(f"{name}-reason.png"), maps["reason"])
    assert len(list((tmp_path / "frames").iterdir())) == 3


def test_maps_can_be_left_out(source: Path, tmp_path: Path) -> None:
    succeed(source / "left", source / "right", "-o", tmp_path, "--maps", "none", "--count", 1)

    assert {path.name for path in tmp_path.iterdir()} == {report_of(tmp_path)["video"]["file"], "report.json"}


def test_gray_frames_of_16_bits_keep_all_their_bits(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for view in ("left", "right"):
        (tmp_path / view).mkdir()
        write_png(tmp_path / view / "0.png", random.integers(0, 65536, (41, 63), np.uint16))

    succeed(tmp_path / "left", tmp_path / "right", "-o", tmp_path / "out")

    expected = match_frames(tmp_path / "left" / "0.png", tmp_path / "right" / "0.png")
    assert_maps_of(tmp_path / "out" / "frames" / "000000.npz", expected)
    assert report_of(tmp_path / "out")["channels"] == 1


def test_a_dark_frame_in_the_middle_has_no_answer_and_stops_nothing(copied: Path, tmp_path: Path) -> None:
    write_png(copied / "left" / NAMES[1], np.zeros((HEIGHT, WIDTH, 3), np.uint8))

    succeed(copied / "left", copied / "right", "-o", tmp_path / "out")

    assert [frame["coverage"] > 0 for frame in report_of(tmp_path / "out")["frames"]] == [True, False, True, True]


def test_progress_goes_to_stderr_and_the_answer_to_stdout(source: Path, tmp_path: Path) -> None:
    arguments = (source / "left", source / "right", "--count", 2)

    loud = succeed(*arguments, "-o", tmp_path / "loud")
    silent = succeed(*arguments, "-o", tmp_path / "silent", "--quiet")
    answer = succeed(*arguments, "-o", tmp_path / "json", "--json")

    assert re.search(r"^2/2 pairs, \S+ per second$", loud.stderr, re.MULTILINE)
    assert "2 pairs" in loud.stdout
    assert silent.output == ""
    assert json.loads(answer.stdout) == {**report_of(tmp_path / "json"), "folder": str(tmp_path / "json")}


def test_two_rates_are_warned_of(copied: Path, tmp_path: Path) -> None:
    write_video(copied / "right.avi", read_video(copied / "right.avi"), fps=25)

    result = succeed(copied / "left.avi", copied / "right.avi", "-o", tmp_path / "out", "--count", 1)

    assert "warning: found 12.5 and 25 frames per second" in result.stderr
    assert report_of(tmp_path / "out")["video"]["fps"] == 12.5


# --- where it writes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["video.mp4", "report.json", "frames/000007.npz", "frames/000000-disparity.pfm"])
def test_results_of_an_earlier_run_are_not_touched_unless_told(source: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "frames").mkdir()
    for each in (name, "mine.txt", "frames/mine.txt"):
        (tmp_path / each).write_bytes(b"dear")
    arguments = (source / "left", source / "right", "-o", tmp_path, "--count", 1)

    message = fail(*arguments)

    assert name.rpartition("/")[2] in message
    assert "--overwrite" in message
    assert listing(tmp_path) == {name, "mine.txt", "frames/mine.txt"}
    succeed(*arguments, "--overwrite")
    file = report_of(tmp_path)["video"]["file"]
    assert listing(tmp_path) == {file, "report.json", "frames/000000.npz", "mine.txt", "frames/mine.txt"}


def test_an_earlier_run_survives_one_that_fails_before_its_first_frame(copied: Path, tmp_path: Path) -> None:
    arguments = (copied / "left", copied / "right", "-o", tmp_path / "out")
    succeed(*arguments)
    before = {name: (tmp_path / "out" / name).read_bytes() for name in listing(tmp_path / "out")}
    (copied / "left" / NAMES[0]).write_bytes(b"broken")

    fail(*arguments, "--overwrite")

    assert {name: (tmp_path / "out" / name).read_bytes() for name in listing(tmp_path / "out")} == before


def test_the_input_is_never_replaced(copied: Path) -> None:
    shutil.copytree(copied / "left", copied / "frames")
    shutil.copy(copied / "left.avi", copied / "video.avi")
    before = listing(copied)

    assert "input" in fail(copied / "frames", copied / "right", "-o", copied, "--overwrite")
    assert "input" in fail(copied / "video.avi", copied / "right.avi", "-o", copied, "--overwrite")

    assert listing(copied) == before


def test_the_next_codec_is_taken_where_the_first_does_not_work(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scotopic.io.video.CODECS", (("none", ".mp4"), ("MJPG", ".avi")))

    succeed(source / "left", source / "right", "-o", tmp_path, "--count", 2)

    assert report_of(tmp_path)["video"]["codec"] == "MJPG"
    assert len(read_video(tmp_path / "video.avi")) == 2


def test_no_codec_at_all_is_said_in_words(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scotopic.io.video.CODECS", (("none", ".mp4"),))

    message = fail(source / "left", source / "right", "-o", tmp_path / "out")

    assert re.search(r"192 x 64 px.*none.*opencv-python-headless", message)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("codec", [("mp4v", ".mp4"), ("MJPG", ".avi")])
@pytest.mark.parametrize("size", [(2, 2), (7, 5), (64, 48)])
def test_a_video_of_any_size_is_written_whole_by_either_codec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: tuple[str, str], size: tuple[int, int]
) -> None:
    monkeypatch.setattr("scotopic.io.video.CODECS", (codec,))

    with video_file(tmp_path / "video", size, 24.0) as film:
        for level in (0, 120, 240):
            film.write(np.full((size[1], size[0], 3), level, np.uint8))
        assert not (tmp_path / film.path.name).exists()

    frames = read_video(tmp_path / f"video{codec[1]}")
    assert [frame.shape for frame in frames] == [(size[1] + size[1] % 2, size[0] + size[0] % 2, 3)] * 3
    assert [round(float(frame[0, 0].mean()), -1) for frame in frames] == pytest.approx([0, 120, 240], abs=20)


def test_a_video_that_is_not_whole_on_the_disk_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scotopic.io.video.usable_codec", lambda *_: ("MJPG", ".avi"))
    monkeypatch.setattr("scotopic.io.video._announced", lambda _: 0)

    def write() -> None:
        with video_file(tmp_path / "video", (64, 48), 24.0) as film:
            film.write(np.zeros((48, 64, 3), np.uint8))

    with pytest.raises(OutputError, match="0 of 1 frames"):
        write()

    assert listing(tmp_path) == set()


@pytest.mark.parametrize("fps", [0.0, -1.0, float("nan"), float("inf"), 1e6])
def test_a_rate_that_is_none_is_refused(tmp_path: Path, fps: float) -> None:
    with pytest.raises(SettingsError, match="--fps"):
        usable_codec((64, 48), fps, tmp_path)


# --- how it fails ---------------------------------------------------------------------------------------------------


def check_nothing_left(folder: Path) -> None:
    assert not folder.exists()
    assert not folder.parent.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["left", "absent"], "'absent'.*No such file"),
        (["left", "left/notes.txt"], r"'left/notes.txt': found no readable video in 11 bytes"),
        (["left/f8.png", "right/f8.png"], "'left/f8.png'.*folder.*scotopic match"),
        (["left", "empty"], "'empty': found no frames"),
        (["left", "right.avi"], "'right.avi'.*96 x 62 px.*96 x 63 px"),
        (["left", "right", "--start", "4"], "--start: found 4, expected at most 3"),
        (["left.avi", "right.avi", "--start", "9"], "--start: found 9, expected at most 3"),
        (["left", "right", "--maps", "exr"], "--maps: found 'exr'.*npz, pfm, none"),
        (["left", "right", "--fps", "0"], "--fps: found 0"),
        (["left", "right", "--preset", "nice"], "'nice'"),
        (["left", "right", "--set", "patch_size=64"], "'left': found 96 x 63 px.*64 x 64 px"),
        (["left", "right", "--set", "speed=3"], "'speed'"),
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

    assert "4 and 3 frames" in message
    assert "--shortest" in message
    check_nothing_left(out)
    succeed(copied / "left", copied / "right", "-o", out, "--shortest")
    report = report_of(out)
    assert (report["pairs"], report["pairs_expected"], report["complete"]) == (3, 3, True)


def test_a_file_that_does_not_announce_its_length_may_still_end_early(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (copied / "right" / NAMES[3]).unlink()
    views: list[Any] = [FrameFolder(copied / view) for view in ("left", "right")]
    for view in views:
        view.total = None
    monkeypatch.setattr("scotopic.io.frames.open_frames", lambda path: views[path.name == "right"])

    with open_pairs(copied / "left", copied / "right", shortest=True) as pairs:
        assert (pairs.total, len(list(pairs))) == (None, 3)
    with (
        open_pairs(copied / "left", copied / "right") as pairs,
        pytest.raises(InputError, match=r"frame 3: .*right' after 3 frames.*--shortest"),
    ):
        list(pairs)


BREAK = {
    "size": lambda path: write_png(path, np.zeros((HEIGHT, WIDTH - 1, 3), np.uint8)),
    "kind": lambda path: write_png(path, np.zeros((HEIGHT, WIDTH), np.uint8)),
    "unreadable": lambda path: path.write_bytes(path.read_bytes()[:500]),
}
FOUND = {
    "size": rf"frame 2 of '\S*right': found {WIDTH - 1} x {HEIGHT} px.*expected {WIDTH} x {HEIGHT} px",
    "kind": r"frame 2 of '\S*right': found .*1 channel.*expected .*3 channel",
    "unreadable": r"frame 2: '\S*right/f10.png': found no readable image",
}


@pytest.mark.parametrize("how", BREAK)
def test_a_bad_frame_is_named_and_what_was_finished_is_kept(
    copied: Path, matched: Path, tmp_path: Path, how: str
) -> None:
    BREAK[how](copied / "right" / NAMES[2])
    out = tmp_path / "out"

    message = fail(copied / "left", copied / "right", "-o", out)

    assert re.search(FOUND[how], message), message
    assert f"the 2 pairs matched until then are in {str(out)!r}" in message
    check_kept(out, matched, 2)
    assert re.search(FOUND[how], report_of(out)["stopped_by"])


def check_kept(out: Path, matched: Path, count: int) -> None:
    """What a run has left that was stopped after some frames: whole, playable, said to be incomplete."""
    report = report_of(out)
    names = [f"frames/{number:06d}.npz" for number in range(count)]
    assert listing(out) == {report["video"]["file"], "report.json", *names}
    for name in names:
        assert (out / name).read_bytes() == (matched / name).read_bytes()
    assert len(read_video(out / report["video"]["file"])) == count
    assert (report["pairs"], len(report["frames"]), report["complete"]) == (count, count, False)


def test_a_video_that_was_cut_short_is_matched_up_to_the_frame_that_is_named(copied: Path, tmp_path: Path) -> None:
    data = (copied / "right.avi").read_bytes()
    (copied / "right.avi").write_bytes(data[: len(data) * 6 // 10])
    out = tmp_path / "out"

    message = fail(copied / "left.avi", copied / "right.avi", "-o", out)

    found = re.search(r"frame (\d) of '\S*right.avi': .*expected 4 frames.*cut short.*--count (\d)", message)
    assert found, message
    whole = int(found[1])
    assert 1 <= whole < COUNT
    assert found[2] == found[1]
    report = report_of(out)
    assert (report["pairs"], report["pairs_expected"], report["complete"]) == (whole, COUNT, False)
    assert len(read_video(out / report["video"]["file"])) == whole
    succeed(copied / "left.avi", copied / "right.avi", "-o", tmp_path / "part", "--count", whole)


def test_a_video_that_lost_its_end_mark_is_refused(tmp_path: Path) -> None:
    write_video(tmp_path / "whole.mp4", [np.zeros((48, 64, 3), np.uint8)] * 3, "mp4v")
    data = (tmp_path / "whole.mp4").read_bytes()
    (tmp_path / "cut.mp4").write_bytes(data[: len(data) // 2])

    assert VideoFile(tmp_path / "whole.mp4").total == 3
    with pytest.raises(InputError, match=r"cut\.mp4.*no readable video"):
        VideoFile(tmp_path / "cut.mp4")


def test_a_disk_that_fills_up_leaves_what_was_saved(
    source: Path, matched: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from scotopic.io.frame_maps import write_frame_maps

    def write(folder: Path, number: int, *rest: Any) -> None:
        if number >= 2:
            raise OutputError("no space left")
        write_frame_maps(folder, number, *rest)

    monkeypatch.setattr(COMMAND, "write_frame_maps", write)

    message = fail(source / "left", source / "right", "-o", tmp_path)

    assert "no space left; the 2 pairs" in message
    report = report_of(tmp_path)
    assert (report["pairs"], report["complete"]) == (2, False)
    assert listing(tmp_path / "frames") == {"000000.npz", "000001.npz"}


# --- interruption ---------------------------------------------------------------------------------------------------


def test_an_interruption_leaves_a_video_that_plays_and_the_finished_frames(
    source: Path, matched: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Match] = []

    def interrupt(match: Match) -> Any:
        if len(seen) == 3:
            raise KeyboardInterrupt
        seen.append(match)
        return draw_side_by_side(match)

    monkeypatch.setattr(COMMAND, "draw_side_by_side", interrupt)

    result = run(source / "left", source / "right", "-o", tmp_path, *OPTIONS)

    assert result.exit_code == 130
    assert result.stderr.splitlines()[-1].startswith("interrupted")
    report = report_of(tmp_path)
    assert (report["complete"], report["stopped_by"]) == (False, "interrupted")
    assert len(read_video(tmp_path / report["video"]["file"])) == 3
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
    # Whoever runs the tests in the background may have made their children deaf to Ctrl-C.
    program = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\nfrom scotopic.cli import main; main()"
    )
    arguments = ["video", tmp_path / "left", tmp_path / "right", "-o", tmp_path / "out", *OPTIONS]
    process = subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
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
    assert listing(tmp_path / "out") == {report["video"]["file"], "report.json", *names}
    for k, name in enumerate(names):
        assert (tmp_path / "out" / name).read_bytes() == (matched / f"frames/{k % COUNT:06d}.npz").read_bytes()
    assert done - 1 <= len(read_video(tmp_path / "out" / report["video"]["file"])) <= done
