"""Stereo topics of ROS bags as frames: decoded as recorded, paired by time, with their calibration."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from command_line import FAST, run, succeed
from stereo_bags import BASELINE, FOCAL, FORMATS, LEFT, RIGHT, START, camera_info, folder_of, write_bag

from scotopic.depth import calibration_from_camera_info, read_calibration
from scotopic.errors import InputError, ScotopicError
from scotopic.io import write_png
from scotopic.io.bags import BagTopic, camera_info_paths, camera_info_topic, split_topic
from scotopic.io.frames import open_frames, open_pairs

SIZE = (48, 80)
MS = 1_000_000


def frames(count: int, seed: int = 0, channels: int = 0, kind: Any = np.uint8) -> list[np.ndarray]:
    shape = (count, *SIZE, channels) if channels else (count, *SIZE)
    top = np.iinfo(kind).max
    return list(np.random.default_rng(seed).integers(0, top + 1, shape).astype(kind))


def views(path: Path) -> tuple[Path, Path]:
    return Path(f"{path}:{LEFT}"), Path(f"{path}:{RIGHT}")


# SQLite has no compression of its own.
@pytest.mark.parametrize(
    ("suffix", "compress"), [*((each, False) for each in FORMATS), *((each, True) for each in FORMATS if each != "db3")]
)
def test_frames_come_out_as_they_were_recorded(tmp_path: Path, suffix: str, compress: bool) -> None:
    left, right = frames(3, 0), frames(3, 1)
    path = write_bag(tmp_path / f"drive.{suffix}", (left, right), compress=compress)

    with open_pairs(*views(path)) as pairs:
        found = list(pairs)

        assert pairs.total == 3
        assert pairs.left.fps == pytest.approx(10)
        assert pairs.left.name(1) == "1700000000.100000000"
    for (first, second), expected in zip(found, zip(left, right, strict=True), strict=True):
        np.testing.assert_array_equal(first, expected[0])
        np.testing.assert_array_equal(second, expected[1])


@pytest.mark.parametrize("name", ["drive", "drive.bag", "drive.mcap.folder"])
def test_the_folder_of_a_ros_2_bag_is_a_bag_too_whatever_its_name(tmp_path: Path, name: str) -> None:
    left, right = frames(2, 0), frames(2, 1)
    folder = folder_of(write_bag(tmp_path / "a.mcap", (left, right))).rename(tmp_path / name)

    with open_pairs(*views(folder), start=1) as pairs:
        ((first, _),) = list(pairs)

    np.testing.assert_array_equal(first, left[1])


@pytest.mark.parametrize("encoding", ["rgb8", "bgr8", ".png", "mono16"])
def test_color_is_red_first_and_depth_of_bits_is_kept(tmp_path: Path, encoding: str) -> None:
    color = {"mono16": 0}.get(encoding, 3)
    left = frames(1, 0, color, np.uint16 if encoding == "mono16" else np.uint8)
    stored = [image[:, :, ::-1] for image in left] if encoding == "bgr8" else left
    topics = (f"{LEFT}/compressed", f"{RIGHT}/compressed") if encoding == ".png" else (LEFT, RIGHT)
    path = write_bag(tmp_path / "drive.mcap", (stored, stored), encoding=encoding, topics=topics)

    topic = BagTopic(path, topics[0])

    np.testing.assert_array_equal(next(topic.read(0)), left[0])
    assert topic.camera_info is not None  # also beside compressed images
    topic.close()


def test_frames_are_paired_by_their_times_not_by_their_numbers(tmp_path: Path) -> None:
    left, right = frames(6, 0), frames(5, 1)
    # Every 50 ms; the left camera dropped its third frame, the right one its second and fifth; 3 ms between cameras.
    at_left = [START + 50 * MS * number for number in (0, 1, 3, 4, 5, 6)]
    at_right = [START + 50 * MS * number + 3 * MS for number in (0, 2, 3, 5, 6)]
    path = write_bag(tmp_path / "drive.mcap", (left, right), stamps=(at_left, at_right))

    with open_pairs(*views(path)) as pairs:
        found = list(pairs)

        assert "4 pairs of 6 left and 5 right frames" in pairs.pairing
    # Both cameras have the moments 0, 3, 5 and 6.
    for (first, second), (number, partner) in zip(found, ((0, 0), (2, 2), (4, 3), (5, 4)), strict=True):
        np.testing.assert_array_equal(first, left[number])
        np.testing.assert_array_equal(second, right[partner])


@pytest.mark.parametrize("without", [0, 1])
def test_two_views_are_paired_by_one_clock(tmp_path: Path, without: int) -> None:
    both = frames(6, 0), frames(6, 1)
    taken = [START + 50 * MS * number for number in range(6)]
    recorded = [moment + 50 * MS for moment in taken]  # one frame later
    headers = [taken, taken]
    headers[without] = [0] * 6  # the driver of one camera does not write when an image was taken
    path = write_bag(tmp_path / "drive.mcap", both, stamps=(recorded, recorded), headers=(headers[0], headers[1]))

    with open_pairs(*views(path)) as pairs:
        found = list(pairs)

    assert len(found) == 6
    for number, (first, second) in enumerate(found):
        np.testing.assert_array_equal(first, both[0][number])
        np.testing.assert_array_equal(second, both[1][number])


@pytest.mark.parametrize("oddity", ["late", "twice", "without a time"])
def test_a_frame_that_comes_late_does_not_change_the_clock_of_the_others(tmp_path: Path, oddity: str) -> None:
    both = frames(8, 0), frames(8, 1)
    taken = [START + 50 * MS * number for number in range(8)]
    sent = [*range(8)]
    if oddity == "late":
        sent[3:5] = [4, 3]
    headers = [taken[number] for number in sent]
    if oddity == "twice":
        headers[4] = taken[3]
    if oddity == "without a time":
        headers[0] = 0
    # The right camera's messages are recorded a frame later, so the times of the recording would pair the wrong frames.
    path = write_bag(
        tmp_path / "drive.mcap",
        ([both[0][number] for number in sent], both[1]),
        stamps=(taken, [moment + 50 * MS for moment in taken]),
        headers=(headers, taken),
    )

    with open_pairs(*views(path)) as pairs:
        found = list(pairs)
        moments = [round((pairs.time(number) - START / 1e9) / 0.05) for number in range(len(found))]

        assert pairs.pairing == "7 pairs of 8 left and 8 right frames, by the times in their headers"
        assert pairs.doubt is None
    assert set(range(8)) - set(moments) <= {0, 3, 4}
    for number, pair in zip(moments, found, strict=True):
        np.testing.assert_array_equal(pair[1], both[1][number])
        assert oddity == "twice" or np.array_equal(pair[0], both[0][number])


def test_pairs_by_the_times_of_the_recording_are_doubted(tmp_path: Path) -> None:
    times = [START + 50 * MS * number for number in range(4)]
    path = write_bag(
        tmp_path / "drive.mcap", (frames(4, 0), frames(4, 1)), stamps=(times, times), headers=(times[::-1], times)
    )

    with open_pairs(*views(path)) as pairs:
        assert pairs.pairing == "4 pairs of 4 left and 4 right frames, by the times of their recording"
        assert "times of the recording" in (pairs.doubt or "")


def test_of_frames_that_were_recorded_almost_together_the_nearest_form_a_pair(tmp_path: Path) -> None:
    both = frames(4, 0), frames(4, 1)
    # Every 33 ms; the third right frame was written late, nearer to the fourth left one than half of that.
    times = [[START + MS * moment for moment in moments] for moments in ((0, 33, 66, 99), (0, 33, 83, 99))]
    path = write_bag(tmp_path / "drive.mcap", both, stamps=(times[0], times[1]), headers=([0] * 4, [0] * 4))

    with open_pairs(*views(path)) as pairs:
        found = list(pairs)

    for (first, second), number in zip(found, (0, 1, 3), strict=True):
        np.testing.assert_array_equal(first, both[0][number])
        np.testing.assert_array_equal(second, both[1][number])


def test_cameras_that_never_look_at_the_same_time_are_refused(tmp_path: Path) -> None:
    at_left = [START + 100 * MS * number for number in range(3)]
    at_right = [moment + 40 * MS for moment in at_left]
    path = write_bag(tmp_path / "drive.mcap", (frames(3), frames(3)), stamps=(at_left, at_right))

    with pytest.raises(InputError, match="40 ms apart"), open_pairs(*views(path)):
        pass


@pytest.mark.parametrize("suffix", ["bag", "mcap"])
def test_camera_info_beside_the_images_is_the_calibration(tmp_path: Path, suffix: str) -> None:
    path = write_bag(tmp_path / f"drive.{suffix}", (frames(1), frames(1)))

    with open_pairs(*views(path)) as pairs:
        assert pairs.camera_infos is not None
        found = calibration_from_camera_info(*pairs.camera_infos)

    assert (found.fx, found.fy) == (FOCAL, FOCAL)
    assert found.baseline == pytest.approx(BASELINE)
    assert (found.cx, found.cy) == ((SIZE[1] - 1) / 2, (SIZE[0] - 1) / 2)
    assert (found.width, found.height) == (SIZE[1], SIZE[0])
    assert found.rig is not None


@pytest.mark.parametrize("suffix", ["bag", "mcap"])
def test_a_calibration_can_be_read_from_topics_of_a_bag(tmp_path: Path, suffix: str) -> None:
    path = write_bag(tmp_path / f"drive.{suffix}", (frames(1), frames(1)))
    topics = [Path(f"{path}:/stereo/{side}/camera_info") for side in ("left", "right")]

    found = read_calibration(*topics)

    assert (found.fx, found.baseline) == (FOCAL, pytest.approx(BASELINE))
    assert str(topics[0]) in found.source
    assert camera_info_paths(*views(path)) == topics
    with pytest.raises(InputError, match="one camera of a pair"):
        read_calibration(topics[0])
    with pytest.raises(InputError, match="always in m"):
        read_calibration(*topics, unit="mm")
    with pytest.raises(InputError, match="It has /stereo/left/camera_info"):
        read_calibration(Path(f"{path}:/nothing"), topics[1])


def test_the_match_command_takes_the_calibration_of_a_bag(tmp_path: Path) -> None:
    path = write_bag(tmp_path / "drive.mcap", (frames(1), frames(1)))
    for name, image in (("left", frames(1)[0]), ("right", frames(1, 1)[0])):
        write_png(tmp_path / f"{name}.png", image)
    calib = [text for side in ("left", "right") for text in ("--calib", f"{path}:/stereo/{side}/camera_info")]

    succeed("match", tmp_path / "left.png", tmp_path / "right.png", "-o", tmp_path / "out", *FAST, *calib)

    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["calibration"]["baseline_m"] == pytest.approx(BASELINE)


def test_without_camera_info_there_is_no_calibration(tmp_path: Path) -> None:
    path = write_bag(tmp_path / "drive.mcap", (frames(1), frames(1)), with_cameras=False)

    with open_pairs(*views(path)) as pairs:
        assert pairs.camera_infos is None
    assert camera_info_paths(*views(path)) == []
    assert camera_info_paths(tmp_path / "left.mp4", tmp_path / "right.mp4") == []


def test_binning_counts_also_if_the_size_is_not_given() -> None:
    right = np.array([500.0, 0, 320, -60, 0, 500, 240, 0, 0, 0, 1, 0])
    infos = [camera_info(width=0, height=0, binning_x=2, binning_y=2, p=p) for p in (camera_info().p, right)]

    found = calibration_from_camera_info(*infos)

    assert (found.fx, found.cx, found.width) == (250, 159.75, None)  # (320 + 1/2) / 2 - 1/2


def test_binning_and_region_of_interest_are_in_the_calibration() -> None:
    right = camera_info(p=np.array([500.0, 0, 320, -60, 0, 500, 240, 0, 0, 0, 1, 0]))
    plain = calibration_from_camera_info(camera_info(), right)
    binned = [camera_info(binning_x=2, binning_y=2, p=info.p) for info in (camera_info(), right)]
    region = right.roi.__class__(x_offset=100, y_offset=50, width=200, height=100, do_rectify=False)
    cropped = [camera_info(roi=region, p=info.p) for info in (camera_info(), right)]

    assert (plain.baseline, plain.cx) == (pytest.approx(60 / 500), 320)
    half = calibration_from_camera_info(*binned)
    # Coordinates count from the center of the first pixel: (320 + 1/2) / 2 - 1/2.
    assert (half.fx, half.cx, half.width) == (250, 159.75, 320)
    part = calibration_from_camera_info(*cropped)
    assert (part.fx, part.cx, part.cy, part.width, part.height) == (500, 220, 190, 200, 100)
    assert part.doffs == 0


def test_regions_of_interest_may_differ_in_their_columns_alone() -> None:
    right = np.array([500.0, 0, 320, -60, 0, 500, 240, 0, 0, 0, 1, 0])
    regions = [
        SimpleNamespace(x_offset=x, y_offset=y, width=200, height=100) for x, y in ((100, 50), (80, 50), (100, 51))
    ]
    left = camera_info(roi=regions[0])

    assert calibration_from_camera_info(left, camera_info(p=right, roi=regions[1])).doffs == 20
    for wrong in ({"roi": regions[2]}, {}, {"roi": regions[0], "binning_x": 2, "binning_y": 2}):
        with pytest.raises(InputError, match="rows"):
            calibration_from_camera_info(left, camera_info(p=right, **wrong))


@pytest.mark.parametrize(
    ("left", "right", "words"),
    [
        ({"p": np.zeros(12)}, {}, "not calibrated"), ({"p": np.zeros(9)}, {}, "9 numbers in P"),
        ({"width": 320}, {}, "320 x 480"), ({"p": np.full(12, np.nan)}, {}, "finite"), ({}, {}, "baseline"),
    ],
)  # fmt: skip
def test_cameras_that_are_not_calibrated_as_a_pair_are_refused(
    left: dict[str, Any], right: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        calibration_from_camera_info(camera_info(**left), camera_info(**right))


def test_names_of_topics_are_split_from_those_of_bags(tmp_path: Path) -> None:
    folder = tmp_path / "drive"
    folder.mkdir()
    (tmp_path / "odd:").mkdir()
    (tmp_path / "odd:/left").mkdir()

    assert split_topic(Path("drive.mcap:/left/image")) == (Path("drive.mcap"), "/left/image")
    assert split_topic(Path(f"{folder}:/left")) == (folder, "/left")
    assert split_topic(tmp_path / "odd:/left") is None  # a folder that is there goes before
    assert split_topic(Path("left.mp4")) is None
    assert camera_info_topic("/a/left/image_raw") == "/a/left/camera_info"
    assert camera_info_topic("/a/left/image_rect/compressed") == "/a/left/camera_info"


# What is refused


def test_a_bag_without_a_topic_and_a_wrong_topic_say_which_there_are(tmp_path: Path) -> None:
    path = write_bag(tmp_path / "drive.mcap", (frames(1), frames(1)))

    for wrong in (path, Path(f"{path}:/nothing"), Path(f"{path}:/stereo/left/camera_info"), folder_of(path)):
        with pytest.raises(InputError, match=f"{LEFT}, {RIGHT}"):
            open_frames(wrong)


def test_missing_empty_and_odd_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.mcap").write_bytes(b"")
    (tmp_path / "text.bag").write_text("no bag")
    (tmp_path / "text.db3").write_text("no bag")
    (tmp_path / "text.mcap").write_text("no bag at all, but longer than a head")
    os.mkfifo(tmp_path / "pipe.mcap")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "folder" / "metadata.yaml")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "metadata.yaml").write_text("rosbag2_bagfile_information: [1, {a: &b 2}, *b]")
    names = ("missing.mcap", "empty.mcap", "text.bag", "text.db3", "text.mcap", "pipe.mcap", "folder", "notes")

    for name in names:
        with pytest.raises(InputError, match=re.escape(name)):
            open_frames(Path(f"{tmp_path / name}:/left/image"))


@pytest.mark.parametrize("suffix", FORMATS)
def test_changed_bytes_in_a_bag_never_crash(tmp_path: Path, suffix: str) -> None:
    small = [image[:6, :8] for image in frames(2)]
    whole = write_bag(tmp_path / f"whole.{suffix}", (small, small)).read_bytes()
    random = np.random.default_rng(3)
    refused = 0
    for number in range(150):
        changed = bytearray(whole)
        for _ in range(random.integers(1, 8)):
            changed[random.integers(len(changed))] = random.integers(256)
        path = tmp_path / f"changed{number}.{suffix}"
        path.write_bytes(bytes(changed[: random.integers(1, len(changed) + 1)] if number % 3 else changed))
        try:
            with open_pairs(*views(path)) as pairs:
                for first, second in pairs:
                    assert first.shape == second.shape
        except ScotopicError:
            refused += 1
    assert refused > 50


@pytest.mark.parametrize("suffix", ["mcap", "bag"])
def test_a_bag_that_decompresses_to_more_than_the_limit_is_refused(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dark = [np.zeros((1000, 2000), np.uint8)] * 2
    path = write_bag(tmp_path / f"bomb.{suffix}", (dark, dark), compress=True)
    assert path.stat().st_size < 200_000
    monkeypatch.setenv("SCOTOPIC_MAX_GIB", "0.001")

    with pytest.raises(InputError, match=r"SCOTOPIC_MAX_GIB|GiB of memory"), open_pairs(*views(path)):
        pass


def test_the_error_names_the_frame_that_is_damaged(tmp_path: Path) -> None:
    left = frames(3)
    path = write_bag(tmp_path / "drive.mcap", (left, left))
    data = path.read_bytes()
    places = [match.start() for match in re.finditer(b"mono8", data)]
    (tmp_path / "odd.mcap").write_bytes(data[: places[2]] + b"sepia" + data[places[2] + 5 :])  # second left frame

    topic = BagTopic(tmp_path / "odd.mcap", LEFT)

    with pytest.raises(InputError, match=r"Frame 1 of .*sepia"):
        list(topic.read(0))
    topic.close()


# The command


@pytest.mark.parametrize("suffix", ["mcap", "db3"])
def test_the_video_command_takes_topics_of_a_bag(tmp_path: Path, suffix: str) -> None:
    scene = np.random.default_rng(0).integers(0, 256, (SIZE[0] // 8, SIZE[1] // 8 + 1)).astype(np.uint8)
    wide = np.kron(scene, np.ones((8, 8), np.uint8))
    left, right = wide[:, : SIZE[1]], wide[:, 4 : SIZE[1] + 4]  # x_right = x_left - 4
    path = write_bag(tmp_path / f"drive.{suffix}", ([left, left], [right, right]))

    succeed("video", *views(path), "-o", tmp_path / "out", *FAST, "--device", "cpu")

    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["pairs"] == 2
    assert report["frames"][1]["left"] == "1700000000.100000000"
    assert "2 pairs of 2 left and 2 right frames, by the times in their headers" in report["assumed"][0]
    assert report["calibration"]["baseline_m"] == pytest.approx(BASELINE)
    assert f"{path}:/stereo/left/camera_info" in report["calibration"]["source"]
    with np.load(tmp_path / "out" / "frames" / "000001.npz") as maps:
        known = np.isfinite(maps["disparity"])
        # Z = f B / d, by the camera_info beside the images
        np.testing.assert_allclose(maps["depth"][known], FOCAL * BASELINE / maps["disparity"][known], rtol=1e-5)
        assert np.nanmedian(maps["disparity"]) == pytest.approx(4, abs=1.5)  # the image is tiny


def test_cameras_of_a_bag_that_are_no_pair_are_a_warning_and_no_depth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stereo_bags.BASELINE", 0.0)  # each camera calibrated alone
    path = write_bag(tmp_path / "drive.mcap", (frames(1), frames(1, 1)))

    result = succeed("video", *views(path), "-o", tmp_path / "out", *FAST, "--device", "cpu")

    assert "no depth" in result.output
    assert "calibration" not in json.loads((tmp_path / "out" / "report.json").read_text())
    refused = run("video", *views(path), "-o", tmp_path / "other", *FAST, "--ply")
    assert refused.exit_code == 2
    assert "--ply needs a calibration" in refused.output


@pytest.mark.parametrize("suffix", ["bag", "mcap"])
def test_a_calibration_that_changes_is_not_that_of_all_frames(tmp_path: Path, suffix: str) -> None:
    both = frames(4), frames(4, 1)
    zoomed = write_bag(tmp_path / f"zoomed.{suffix}", both, focals=(FOCAL, FOCAL, 2 * FOCAL))
    steady = write_bag(tmp_path / f"steady.{suffix}", both, focals=(FOCAL, FOCAL * (1 + 1e-7), FOCAL))

    with open_pairs(*views(zoomed)) as pairs:
        assert pairs.camera_infos is None
    with pytest.raises(InputError, match=r"changes 0\.200 s after"):
        read_calibration(*camera_info_paths(*views(zoomed)))
    result = succeed("video", *views(zoomed), "-o", tmp_path / "out", *FAST, "--device", "cpu", "--count", 1)
    assert "no depth" in result.output
    with np.load(tmp_path / "out" / "frames" / "000000.npz") as maps:
        assert "depth" not in maps
    assert read_calibration(*camera_info_paths(*views(steady))).fx == pytest.approx(FOCAL)


def test_the_video_command_says_what_is_wrong_with_a_bag(tmp_path: Path) -> None:
    path = write_bag(tmp_path / "drive.mcap", (frames(1), frames(1)))

    result = run("video", path, path, "-o", tmp_path / "out", *FAST)

    assert result.exit_code == 2
    assert f"drive.mcap:{LEFT}" in result.output.replace("\n", "")


def test_the_trajectory_has_the_times_of_the_bag(tmp_path: Path) -> None:
    stamps = [START + MS * moment for moment in (0, 100, 1100)]  # a second was lost
    images = frames(3)
    path = write_bag(tmp_path / "drive.mcap", (images, images), stamps=(stamps, stamps))

    succeed("video", *views(path), "-o", tmp_path / "out", *FAST, "--fuse", 2, "--maps", "none")

    written = {line.split()[0] for line in (tmp_path / "out/trajectory_tum.txt").read_text().splitlines()}
    assert written <= {f"{START // 10**9 + moment:.6f}" for moment in (0, 0.1, 1.1)}
    assert f"{START // 10**9}.000000" in written
    with open_pairs(*views(path)) as pairs:
        assert [pairs.time(number) for number in range(3)] == [stamp / 1e9 for stamp in stamps]
