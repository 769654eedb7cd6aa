"""``scotopic burst``: all frames as one answer for one of them."""

from __future__ import annotations

import json
from pathlib import Path

import command_line
import cv2
import numpy as np
import pytest
import tifffile
from moving_room import BASELINE, FIT, HEIGHT, OPTIONS, PRESET, STEP, WIDTH, noisy_frames, render_moved, write_frames

import scotopic
from scotopic.depth import Calibration
from scotopic.io import read_image, read_pfm
from scotopic.result import FILES, Match

COUNT = 4
RIG = Calibration(fx=WIDTH, fy=WIDTH, cx=(WIDTH - 1) / 2, cy=0.38 * (HEIGHT - 1), baseline=BASELINE)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_frames(tmp_path_factory.mktemp("source"), noisy_frames(COUNT))


@pytest.fixture(scope="module")
def answered(source: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The results for the third frame, and what was said meanwhile."""
    out = tmp_path_factory.mktemp("burst") / "new"
    views = source / "left", source / "right"
    calibrated = "--calib", source / "calib.txt", "--ply"
    result = command_line.succeed("burst", *views, "-o", out, *OPTIONS, "--reference", 2, *calibrated)
    return out, result.stderr


def report_of(folder: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / "report.json").read_text())
    return found


def test_it_writes_what_match_writes_and_frames_and_poses(answered: tuple[Path, str]) -> None:
    folder, _ = answered
    depth = {"depth.pfm", "depth_uncertainty.pfm", "depth.png", "points.ply"}
    assert {path.name for path in folder.iterdir()} == {*FILES, *depth, "frames.pfm", "trajectory.txt"}
    assert {*report_of(folder)["files"]} == {path.name for path in folder.iterdir()}  # type: ignore[misc]


@pytest.mark.parametrize("command", ["burst", "video"])
def test_a_search_range_that_ends_before_the_scene_is_told_of_once(source: Path, tmp_path: Path, command: str) -> None:
    views = source / "left", source / "right"

    short, long = (
        command_line.succeed(command, *views, "-o", tmp_path / str(last), *OPTIONS, "--max-disparity", last)
        for last in (12, 64)
    )

    assert short.stderr.count("of the end of the search range, 12") == 1
    assert "of the end of the search range" not in long.stderr


@pytest.mark.parametrize("command", ["burst", "video"])
def test_results_never_come_among_the_frames(source: Path, command: str) -> None:
    views = source / "left", source / "right"
    before = sorted(path.name for path in source.rglob("*"))
    for out in (*views, source / "left" / ".." / "right"):
        result = command_line.run(command, *views, "-o", out, *OPTIONS, "--overwrite")

        assert "is an input" in command_line.error_line(result)
    assert sorted(path.name for path in source.rglob("*")) == before


def test_the_answer_is_that_of_match_burst(answered: tuple[Path, str]) -> None:
    folder, _ = answered
    left, right = zip(*noisy_frames(COUNT), strict=True)

    expected = scotopic.match_burst(left, right, "fast", "cpu", reference=2, calibration=RIG, **FIT)

    found = Match.load(folder)
    for name in ("disparity", "confidence", "frames", "fused_left", "burst_poses"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
    assert expected.frames is not None
    np.testing.assert_array_equal(read_pfm(folder / "frames.pfm"), expected.frames)
    assert expected.frames.max() > 1.5


def test_the_poses_are_seen_from_the_reference(answered: tuple[Path, str]) -> None:
    poses = np.loadtxt(answered[0] / "trajectory.txt")

    np.testing.assert_array_equal(poses[2], np.eye(4)[:3].ravel())
    moved = STEP * BASELINE * (np.arange(COUNT) - 2)  # to the right
    assert np.abs(poses[:, 3] - moved).max() < 0.5 * STEP * BASELINE


def test_progress_is_shown_for_each_doubling_and_the_report_says_what_was_fused(answered: tuple[Path, str]) -> None:
    folder, said = answered

    assert "4/4 frames, coverage" in said
    fusion = report_of(folder)["fusion"]
    assert isinstance(fusion, dict)
    assert (fusion["reference"], fusion["frames"], fusion["left_out"]) == (2, COUNT, [])
    assert fusion["camera_assumed"] is False
    assert fusion["mean_frames"] > 1.1


def test_frames_that_show_something_else_are_left_out_and_have_no_pose(tmp_path: Path) -> None:
    random = np.random.default_rng(0).integers(0, 256, (2, HEIGHT, WIDTH, 3), np.uint8)
    write_frames(tmp_path, [*noisy_frames(2), (random[0], random[1])])
    views = tmp_path / "left", tmp_path / "right"

    result = command_line.succeed("burst", *views, "-o", tmp_path / "out", *OPTIONS)

    assert "2 of 3 frames" in result.stdout
    assert "focal length equal to the width" in result.stderr
    assert np.isnan(np.loadtxt(tmp_path / "out/trajectory.txt")).all(axis=1).tolist() == [False, False, True]


def test_a_part_keeps_its_numbers_and_results_are_replaced_only_when_told(source: Path, tmp_path: Path) -> None:
    views = source / "left", source / "right"
    part = ("--start", 1, "--count", 1)
    command_line.succeed("burst", *views, "-o", tmp_path, *OPTIONS, *part)
    fusion = report_of(tmp_path)["fusion"]
    assert isinstance(fusion, dict)
    assert (fusion["reference"], fusion["frames"]) == (1, 1)
    single = scotopic.match(source / "left/1.png", source / "right/1.png", "fast", "cpu", **FIT)
    np.testing.assert_array_equal(Match.load(tmp_path).disparity, single.disparity)

    message = command_line.error_line(command_line.run("burst", *views, "-o", tmp_path, *OPTIONS, *part))
    assert "--overwrite" in message
    missing = command_line.run("burst", *views, "-o", tmp_path / "new", *OPTIONS, *part, "--reference", 0)
    assert "no frame 0" in command_line.error_line(missing)
    assert not (tmp_path / "new").exists()


def test_photon_counts_and_pages_of_a_tiff_are_frames(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for k, name in enumerate(("left", "right")):
        counts = random.poisson([4 * np.mean(render_moved(step)[k], axis=2) for step in (0, 0, 1, 1)])
        np.save(tmp_path / f"{name}.npy", counts)
        sums = np.minimum(counts[0::2] + counts[1::2], 16) * 15
        tifffile.imwrite(tmp_path / f"{name}.tif", sums.astype(np.uint8), photometric="minisblack")

    command_line.succeed(
        *("burst", tmp_path / "left.npy", tmp_path / "right.npy", "-o", tmp_path / "counts", *PRESET),
        *("--kind", "counts", "--white", 8, "--group", 2),
    )
    command_line.succeed(
        "burst", tmp_path / "left.tif", tmp_path / "right.tif", "-o", tmp_path / "tiff", *PRESET, "--white", 240
    )

    for name in ("counts", "tiff"):  # the same photons, on the same scale
        report = report_of(tmp_path / name)
        assert report["fusion"]["frames"] == 2  # type: ignore[index]
        assert report["coverage"] > 0.02  # type: ignore[operator]
    counted, pages = (Match.load(tmp_path / name) for name in ("counts", "tiff"))
    np.testing.assert_allclose(counted.left_image, pages.left_image, atol=1e-6)


def test_more_frames_than_a_burst_can_have_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "planes.npy", np.zeros((257, 64, 8), np.uint8))
    both = tmp_path / "planes.npy", tmp_path / "planes.npy"

    result = command_line.run("burst", *both, "-o", tmp_path / "out", *OPTIONS, "--kind", "bit-planes")

    assert "more than 256 frames" in command_line.error_line(result)


def test_the_preview_shows_the_fused_image_too(answered: tuple[Path, str], source: Path) -> None:
    picture, single = read_image(answered[0] / "preview.png"), read_image(source / "left/2.png")

    # The noise of the recorded panel is found in the picture, and so is the fused one, which it is not.
    fused = Match.load(answered[0]).fused_left
    assert fused is not None
    clean = (255 * np.clip(fused, 0, 1)).round().astype(np.uint8)
    for panel in (single, clean):
        found = cv2.matchTemplate(picture, np.repeat(np.repeat(panel, 2, 0), 2, 1), cv2.TM_CCOEFF_NORMED)
        assert found.max() > 0.98
