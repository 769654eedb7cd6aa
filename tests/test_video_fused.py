"""``scotopic video --fuse``: frames with the light of those before them, where the cameras were, and one map."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import command_line
import numpy as np
import pytest
from made_match import made_match
from moving_room import BASELINE, FIT, HEIGHT, OPTIONS, PRESET, STEP, WIDTH, noisy_frames, render_moved, write_frames
from ply_files import read_ply
from video_runs import listing, read_video, report_of

import scotopic
from scotopic.cli.fused import SceneMap
from scotopic.colormap import colorize
from scotopic.depth import Calibration
from scotopic.io import read_npz, read_pfm
from scotopic.preview import searched_range
from scotopic.result import FILES, Match

COUNT = 5
RIG = Calibration(fx=WIDTH, fy=WIDTH, cx=(WIDTH - 1) / 2, cy=0.38 * (HEIGHT - 1), baseline=BASELINE)


def succeed(source: Path, out: Path, *more: object) -> str:
    result = command_line.succeed("video", source / "left", source / "right", "-o", out, *OPTIONS, *more)
    return result.stderr


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_frames(tmp_path_factory.mktemp("source"), noisy_frames(COUNT))


@pytest.fixture(scope="module")
def matches() -> list[Match]:
    """What the class finds in the same frames."""
    matcher = scotopic.Matcher("fast", device="cpu", fuse=4, calibration=RIG, **FIT)
    return list(matcher.run(noisy_frames(COUNT)))


@pytest.fixture(scope="module")
def fused(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("fused")
    said = succeed(source, out, "--fuse", 4, "--calib", source / "calib.txt", "--ply", "--fps", 10)
    assert "assumed" not in said
    return out


def test_it_writes_maps_video_trajectories_map_and_report(fused: Path) -> None:
    assert listing(fused) == {
        *("video.mp4", "report.json", "trajectory.txt", "trajectory_tum.txt", "map.ply"),
        *(f"frames/{number:06d}.npz" for number in range(COUNT)),
    }


def test_a_first_frame_that_shows_only_what_is_infinitely_far_leaves_a_map_of_the_others() -> None:
    camera = Calibration(fx=100.0, fy=100.0, cx=15.5, cy=11.5, baseline=0.1)
    image, frames = np.full((24, 32, 3), 0.5, np.float32), np.ones((24, 32), np.float32)
    scene = SceneMap(camera)

    for disparity in (0.0, 5.0):  # the sky, then a wall at 100 * 0.1 / 5 = 2 m
        match = made_match(np.full((24, 32), disparity))
        scene.add(replace(match, pose=np.eye(4), frames=frames, fused_left=image, fused_right=image))

    assert scene.report() == {"file": "map.ply", "voxel_m": pytest.approx(2 / 100), "points": 24 * 32}


def test_the_maps_are_those_of_the_matcher_with_pose_and_frames(fused: Path, matches: list[Match]) -> None:
    for number, match in enumerate(matches):
        found = read_npz(fused / f"frames/{number:06d}.npz")
        names = {"disparity", "confidence", "reason", "disparity_all", "frames", "pose", "pose_covariance"}
        assert {*found} == {*names, "depth", "depth_uncertainty", "format"}
        for name in names:
            np.testing.assert_array_equal(found[name], getattr(match, name), err_msg=name)
    assert matches[-1].frames is not None
    assert matches[-1].frames.max() > 1.5


def test_the_trajectories_are_the_poses_of_the_frames_and_the_cameras_move_as_they_did(
    fused: Path, matches: list[Match]
) -> None:
    kitti, tum = (np.loadtxt(fused / name) for name in ("trajectory.txt", "trajectory_tum.txt"))

    poses = np.array([match.pose for match in matches])
    np.testing.assert_allclose(kitti, poses[:, :3].reshape(COUNT, 12), atol=1e-8)
    np.testing.assert_allclose(tum[:, 0], np.arange(COUNT) / 10)
    np.testing.assert_allclose(tum[:, 1:4], poses[:, :3, 3], atol=1e-8)
    moved = STEP * BASELINE * np.arange(COUNT)  # to the right
    assert np.abs(kitti[:, 3] - moved).max() < 0.5 * STEP * BASELINE


def test_the_video_shows_fused_image_disparity_and_confidence(fused: Path, matches: list[Match]) -> None:
    frames = read_video(fused / "video.mp4")

    last = frames[-1][:HEIGHT, : 3 * WIDTH].astype(float)
    match = matches[-1]
    assert match.fused_left is not None
    expected = np.hstack(
        [
            255 * np.clip(match.fused_left, 0, 1),
            colorize(match.disparity, searched_range(match.settings.matching)),
            np.repeat(255 * match.confidence[..., None], 3, axis=2),
        ]
    )
    # The codec keeps the means of blocks.
    blocks = [each.reshape(HEIGHT // 8, 8, 3 * WIDTH // 8, 8, 3).mean(axis=(1, 3)) for each in (last, expected)]
    assert np.abs(blocks[0] - blocks[1]).mean() < 8
    assert len(frames) == COUNT


def test_the_map_holds_the_kept_points_of_all_frames_in_the_first_cameras_frame(
    fused: Path, matches: list[Match]
) -> None:
    found = read_ply(fused / "map.ply")
    entry = report_of(fused)["fusion"]["map"]

    depth = BASELINE * WIDTH / matches[0].disparity.astype(np.float64)
    assert entry["voxel_m"] == pytest.approx(np.nanmedian(depth) / WIDTH, rel=1e-6)
    cubes = set()
    for match in matches:
        assert match.pose is not None
        rows, columns = np.nonzero(match.mask)
        z = BASELINE * WIDTH / match.disparity[rows, columns].astype(np.float64)
        points = np.stack([(columns - RIG.cx) * z / RIG.fx, (rows - RIG.cy) * z / RIG.fy, z], axis=1)
        cubes |= {*map(tuple, np.floor((points @ match.pose[:3, :3].T + match.pose[:3, 3]) / entry["voxel_m"]))}
    # Points are rounded to float32 before they fall into cubes.
    assert len(found.points) == entry["points"] == pytest.approx(len(cubes), rel=0.01)
    of_found = {*map(tuple, np.floor(found.points / entry["voxel_m"]))}
    assert len(of_found & cubes) > 0.98 * len(cubes)
    assert found.colors is not None
    assert found.colors.std() > 20


def test_the_report_says_how_frames_were_fused(fused: Path) -> None:
    report = report_of(fused)

    entry = report["fusion"]
    assert (entry["fuse"], entry["camera_assumed"]) == (4, False)
    assert entry["restarts"] == entry["skipped"] == entry["pose_unknown"] == []
    assert report["frames"][0]["mean_frames"] == 1
    assert report["frames"][-1]["mean_frames"] > 1.5
    assert report["points"] is False  # there are none of single frames


def test_without_a_calibration_the_assumed_camera_is_said(source: Path, tmp_path: Path) -> None:
    said = succeed(source, tmp_path, "--fuse", 4, "--count", 2, "--maps", "pfm")

    words = "focal length equal to the width, principal point in the middle; lengths in baselines"
    assert sum(words in line for line in said.splitlines()) == 1
    entry = report_of(tmp_path)["fusion"]
    assert (entry["camera"], entry["camera_assumed"], entry["map"]) == (words, True, None)
    assert read_pfm(tmp_path / "frames/000001-frames.pfm").max() > 1.1
    assert np.isfinite(read_pfm(tmp_path / "frames/000001-disparity_all.pfm")).all()
    # In baselines.
    assert np.loadtxt(tmp_path / "trajectory.txt")[1, 3] == pytest.approx(STEP, abs=0.5 * STEP)


def test_cuts_and_black_frames_are_in_the_report_and_not_in_the_map(tmp_path: Path) -> None:
    pairs = noisy_frames(2)
    black = np.zeros_like(pairs[0][0])
    other = np.random.default_rng(1).integers(0, 256, (2, *black.shape), np.uint8)  # nothing of the room
    write_frames(tmp_path, [(black, black), *pairs, (black, black), (other[0], other[1])])

    succeed(tmp_path, tmp_path / "out", "--fuse", 4, "--calib", tmp_path / "calib.txt", "--ply")

    report = report_of(tmp_path / "out")
    assert (report["fusion"]["skipped"], report["fusion"]["restarts"]) == ([0, 3], [4])
    assert report["fusion"]["pose_unknown"] == [4]
    assert [frame["pose_known"] for frame in report["frames"]] == [False, True, True, False, False]
    assert np.loadtxt(tmp_path / "out/trajectory.txt").shape == (5, 12)
    times = np.loadtxt(tmp_path / "out/trajectory_tum.txt")[:, 0]
    np.testing.assert_allclose(times, np.array([1, 2]) / 25)
    kept = sum(np.isfinite(read_npz(tmp_path / f"out/frames/00000{k}.npz")["disparity"]).sum() for k in (1, 2))
    assert 0 < report["fusion"]["map"]["points"] <= kept


def test_a_plain_run_in_the_place_of_a_fused_one_leaves_nothing_of_it(source: Path, tmp_path: Path) -> None:
    succeed(source, tmp_path, "--fuse", 2, "--count", 1)
    (tmp_path / "map.ply").write_text("mine")

    succeed(source, tmp_path, "--count", 1, "--overwrite")

    assert "fusion" not in report_of(tmp_path)
    assert not (tmp_path / "trajectory.txt").exists()
    (tmp_path / "trajectory.txt").write_text("mine")
    succeed(source, tmp_path, "--count", 1, "--overwrite")
    assert (tmp_path / "trajectory.txt").read_text() == "mine"


def test_an_early_end_leaves_the_trajectory_of_the_frames_before(source: Path, tmp_path: Path) -> None:
    pairs = noisy_frames(3)
    write_frames(tmp_path, pairs)
    (tmp_path / "left/2.png").write_bytes(b"broken")

    result = command_line.run(
        "video", tmp_path / "left", tmp_path / "right", "-o", tmp_path / "out", *OPTIONS, "--fuse", 4
    )

    assert result.exit_code == 2
    assert report_of(tmp_path / "out")["complete"] is False
    assert np.loadtxt(tmp_path / "out/trajectory.txt").shape == (2, 12)


def test_a_stalled_camera_is_in_the_report_and_the_user_is_told(tmp_path: Path) -> None:
    pairs = noisy_frames(2)
    write_frames(tmp_path, [pairs[0], pairs[0], pairs[0], pairs[1]])
    options = "--fuse", 4, "--calib", tmp_path / "calib.txt"

    said = succeed(tmp_path, tmp_path / "out", *options)
    quiet = succeed(tmp_path, tmp_path / "quiet", *options, "--quiet")

    assert said.count("warning: Pair 1 has both views of the pair before again") == 1
    assert quiet == ""
    report = report_of(tmp_path / "out")
    assert (report["fusion"]["repeated"], report["fusion"]["restarts"]) == ([1, 2], [])
    assert [frame["mean_frames"] for frame in report["frames"][:3]] == [1, 1, 1]
    assert report["frames"][3]["mean_frames"] <= 2
    first, again = (read_npz(tmp_path / f"out/frames/00000{number}.npz")["disparity"] for number in (0, 2))
    np.testing.assert_array_equal(again, first)


def test_bit_planes_are_frames_of_a_video(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    views = [render_moved(0), render_moved(1)]
    for k, name in enumerate(("left", "right")):
        flux = np.repeat([0.5 * np.mean(pair[k], axis=2) for pair in views], 8, axis=0)  # photons per plane
        np.save(tmp_path / f"{name}.npy", np.packbits(random.random(flux.shape) < -np.expm1(-flux), axis=2))

    command_line.succeed(
        *("video", tmp_path / "left.npy", tmp_path / "right.npy", "-o", tmp_path / "out", *PRESET),
        *("--kind", "bit-planes", "--group", 8, "--white", 0.5, "--fuse", 4),
    )

    report = report_of(tmp_path / "out")
    assert (report["pairs"], report["channels"]) == (2, 1)
    assert "flux over 0.5 photons per plane, 8 bit planes in a frame" in report["assumed"]
    assert report["frames"][1]["mean_frames"] > 1.1
    assert report["mean_coverage"] > 0.05


@pytest.mark.parametrize("arguments", [("--fuse", 1), ("--fuse", 257), ("--kind", "raw"), ("--group", 2)])
def test_what_makes_no_sense_is_refused(source: Path, tmp_path: Path, arguments: tuple[object, ...]) -> None:
    views = source / "left", source / "right"

    result = command_line.run("video", *views, "-o", tmp_path / "out", *OPTIONS, *arguments)

    assert result.exit_code == 2
    assert re.search(str(arguments[0]).strip("-"), result.stderr)
    assert not (tmp_path / "out").exists()


def test_json_is_the_report(source: Path, tmp_path: Path) -> None:
    arguments = (source / "left", source / "right", "-o", tmp_path, *OPTIONS, "--fuse", 2, "--count", 1, "--json")

    result = command_line.succeed("video", *arguments)

    assert json.loads(result.stdout)["fusion"] == report_of(tmp_path)["fusion"]


def test_results_of_other_commands_leave_nothing_of_a_video_and_a_video_nothing_of_them(
    source: Path, tmp_path: Path
) -> None:
    pair = source / "left/0.png", source / "right/0.png"
    (tmp_path / "mine.txt").write_text("mine")
    succeed(source, tmp_path, "--fuse", 2, "--count", 2, "--png")

    command_line.succeed("match", *pair, "-o", tmp_path, *OPTIONS, "--overwrite")

    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {*FILES, "mine.txt"}
    succeed(source, tmp_path, "--count", 1, "--overwrite")
    left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {"video.mp4", "report.json", "frames/000000.npz", "mine.txt"}


def test_a_burst_of_the_pictures_of_a_video_keeps_them(source: Path, tmp_path: Path) -> None:
    succeed(source, tmp_path, "--count", 2, "--png", "--maps", "none")
    for path in (tmp_path / "frames").glob("*-mask.png"):
        path.unlink()
    pictures = {path.name: path.read_bytes() for path in (tmp_path / "frames").iterdir()}

    command_line.succeed(
        *("burst", tmp_path / "frames", tmp_path / "frames", "-o", tmp_path, *OPTIONS, "--count", 1, "--overwrite")
    )

    assert {path.name: path.read_bytes() for path in (tmp_path / "frames").iterdir()} == pictures
    assert not (tmp_path / "video.mp4").exists()
