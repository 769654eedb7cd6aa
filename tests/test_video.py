"""``scotopic video``, end to end: what it writes of two videos or folders of frames."""

from __future__ import annotations

import json
import re
import shutil
from fractions import Fraction
from pathlib import Path

import av
import command_line
import numpy as np
import pytest
from video_runs import (
    COUNT,
    HEIGHT,
    NAMES,
    SET,
    WIDTH,
    Frame,
    assert_maps_of,
    fail,
    listing,
    match_frames,
    read_video,
    report_of,
    succeed,
    write_source,
    write_video,
)

import scotopic
from scotopic.io import read_disparity, read_image, read_npz, read_pfm, write_png
from scotopic.preview import draw_side_by_side
from scotopic.result import Match, Reason


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


def test_folders_of_frames_give_a_video_maps_and_a_report(matched: Path) -> None:
    assert listing(matched) == {
        "video.mp4",
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
    frames = read_video(matched / "video.mp4")

    assert len(frames) == COUNT
    for number, frame in enumerate(frames):
        assert frame.shape[0] % 2 == frame.shape[1] % 2 == 0
        left = read_image(source / "left" / NAMES[number])
        # The codec blurs the noise: compare means over blocks of 7 x 8 px, which it keeps.
        blocks = [view[:HEIGHT, :WIDTH].reshape(9, 7, 12, 8, 3).mean(axis=(1, 3)) for view in (frame, left)]
        assert np.abs(blocks[0] - blocks[1]).mean() < 8
        shown = frame[:HEIGHT, WIDTH : 2 * WIDTH].max(axis=2)
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
    with av.open(str(tmp_path / "video.mp4")) as container:
        stream = container.streams.video[0]
        assert (stream.frames, stream.average_rate) == (COUNT, Fraction(25, 2))


@pytest.mark.parametrize("kind", ["", ".avi"], ids=["folders", "videos"])
def test_a_part_can_be_matched_and_keeps_its_numbers(source: Path, tmp_path: Path, kind: str) -> None:
    left, right = source / f"left{kind}", source / f"right{kind}"
    succeed(left, right, "-o", tmp_path / "all")

    succeed(left, right, "-o", tmp_path / "part", "--start", 1, "--count", 2, "--fps", 5)

    names = {"frames/000001.npz", "frames/000002.npz"}
    report = report_of(tmp_path / "part")
    assert listing(tmp_path / "part") == {*names, "video.mp4", "report.json"}
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

    assert {path.name for path in tmp_path.iterdir()} == {"video.mp4", "report.json"}


def test_gray_frames_of_16_bits_keep_all_their_bits(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for view in ("left", "right"):
        (tmp_path / view).mkdir()
        write_png(tmp_path / view / "0.png", random.integers(0, 65536, (41, 63), np.uint16))

    succeed(tmp_path / "left", tmp_path / "right", "-o", tmp_path / "out")

    expected = match_frames(tmp_path / "left" / "0.png", tmp_path / "right" / "0.png")
    assert_maps_of(tmp_path / "out" / "frames" / "000000.npz", expected)
    assert report_of(tmp_path / "out")["channels"] == 1


def test_any_setting_of_best_the_default_can_be_given(source: Path, tmp_path: Path) -> None:
    command_line.succeed(*("video", source / "left", source / "right", "-o", tmp_path, "--count", 1, *SET))

    settings = scotopic.make_settings("best", max_disparity=16, patch_size=24, refine_steps=4)
    views = source / "left" / NAMES[0], source / "right" / NAMES[0]
    expected = scotopic.match(*views, device="cpu", max_disparity=16, patch_size=24, refine_steps=4)
    assert_maps_of(tmp_path / "frames" / "000000.npz", expected)
    assert report_of(tmp_path)["settings"] == settings.as_dict()


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


def test_what_a_killed_run_has_left_of_its_video_is_removed(source: Path, tmp_path: Path) -> None:
    others = {".hidden.mp4", ".0123456789abcdef.tmp.npz", "0123456789abcdef.tmp.mp4"}
    for name in (".0123456789abcdef.tmp.mp4", *others):
        (tmp_path / name).write_bytes(b"")

    succeed(source / "left", source / "right", "-o", tmp_path, "--count", 1, "--maps", "none")

    assert listing(tmp_path) == {"video.mp4", "report.json", *others}


def test_two_rates_are_warned_of(copied: Path, tmp_path: Path) -> None:
    write_video(copied / "right.avi", read_video(copied / "right.avi"), fps=25)

    result = succeed(copied / "left.avi", copied / "right.avi", "-o", tmp_path / "out", "--count", 1)

    assert re.search("warning: .*12.5 .*25", result.stderr)
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
    assert listing(tmp_path) == {"video.mp4", "report.json", "frames/000000.npz", "mine.txt", "frames/mine.txt"}


def test_an_earlier_run_survives_one_that_fails_before_its_first_frame(copied: Path, tmp_path: Path) -> None:
    arguments = (copied / "left", copied / "right", "-o", tmp_path / "out")
    succeed(*arguments)
    before = {name: (tmp_path / "out" / name).read_bytes() for name in listing(tmp_path / "out")}
    (copied / "left" / NAMES[0]).write_bytes(b"broken")

    fail(*arguments, "--overwrite")

    assert {name: (tmp_path / "out" / name).read_bytes() for name in listing(tmp_path / "out")} == before


def test_the_input_is_never_replaced(copied: Path) -> None:
    shutil.copytree(copied / "left", copied / "frames")
    shutil.copy(copied / "left.avi", copied / "video.mp4")
    before = listing(copied)

    assert "input" in fail(copied / "frames", copied / "right", "-o", copied, "--overwrite")
    assert "input" in fail(copied / "video.mp4", copied / "right.avi", "-o", copied, "--overwrite")

    assert listing(copied) == before
