"""``scotopic video`` with the options of ``scotopic match``: calibration, rectification, points, levels; its bar."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
from calibration_files import HEIGHT as RIG_HEIGHT
from calibration_files import WIDTH as RIG_WIDTH
from calibration_files import example_rig, store
from made_match import made_match
from video_runs import NAMES, WIDTH, fail, listing, match_frames, report_of, succeed, write_source

from scotopic.colormap import turbo
from scotopic.depth import Calibration, read_calibration, rectify
from scotopic.io import read_image, read_npz, read_pfm, write_png
from scotopic.layout import depth_ticks
from scotopic.preview import draw_video_frame

CALIB = f"{WIDTH} 47.5 31 0.1 2.5\n"  # fx, cx, cy, baseline in m, doffs


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_source(tmp_path_factory.mktemp("source"))
    (folder / "calib.txt").write_text(CALIB)
    return folder


def test_a_calibration_adds_the_depth_of_the_formula_to_every_frame(source: Path, tmp_path: Path) -> None:
    succeed(source / "left", source / "right", "-o", tmp_path, "--calib", source / "calib.txt", "--ply", "--count", 2)

    names = {f"frames/{number:06d}{ending}" for number in range(2) for ending in (".npz", "-points.ply")}
    assert listing(tmp_path) == {"video.mp4", "report.json", *names}
    for number in range(2):
        maps = read_npz(tmp_path / f"frames/{number:06d}.npz")
        known = np.isfinite(maps["disparity"])
        expected = 0.1 * WIDTH / (maps["disparity"][known].astype(np.float64) + 2.5)
        np.testing.assert_allclose(maps["depth"][known], expected, rtol=1e-6)
        assert np.isnan(maps["depth"][~known]).all()
        assert (maps["depth_uncertainty"][np.isfinite(maps["depth_uncertainty"])] > 0).all()
        trimesh = pytest.importorskip("trimesh", reason="needs trimesh: pip install trimesh, or the extra 'test'")
        points = np.asarray(trimesh.load(tmp_path / f"frames/{number:06d}-points.ply").vertices, np.float32)
        np.testing.assert_array_equal(points[:, 2], maps["depth"][known])
    calibration = report_of(tmp_path)["calibration"]
    assert (calibration["baseline_m"], calibration["rectified_by_scotopic"]) == (0.1, False)
    assert "calib.txt" in calibration["source"]


def test_points_alone_and_plain_files_of_the_depth_can_be_had_and_replaced(source: Path, tmp_path: Path) -> None:
    options = (source / "left", source / "right", "-o", tmp_path, "--calib", source / "calib.txt", "--count", 1)

    succeed(*options, "--maps", "none", "--ply")
    assert listing(tmp_path / "frames") == {"000000-points.ply"}
    for name in ("video.mp4", "report.json"):
        (tmp_path / name).unlink()
    assert "000000-points.ply" in fail(*options, "--maps", "none")  # which would leave points of another run
    succeed(*options, "--maps", "pfm", "--overwrite")

    kinds = ("disparity.pfm", "confidence.pfm", "reason.png", "depth.pfm", "depth_uncertainty.pfm")
    assert listing(tmp_path / "frames") == {f"000000-{kind}" for kind in kinds}
    disparity, depth = (read_pfm(tmp_path / f"frames/000000-{name}.pfm") for name in ("disparity", "depth"))
    known = np.isfinite(disparity)
    np.testing.assert_allclose(depth[known], 0.1 * WIDTH / (disparity[known] + np.float64(2.5)), rtol=1e-6)
    assert np.isposinf(depth[~known]).all()


def test_pictures_of_each_frame_can_be_had_in_one_color_scale(source: Path, tmp_path: Path) -> None:
    views = source / "left", source / "right"
    succeed(*views, "-o", tmp_path, "--calib", source / "calib.txt", "--png", "--count", 2)

    kinds = (".npz", "-disparity_color.png", "-confidence.png", "-mask.png", "-depth.png")
    assert listing(tmp_path / "frames") == {f"{number:06d}{kind}" for number in range(2) for kind in kinds}
    for number in range(2):
        maps = read_npz(tmp_path / f"frames/{number:06d}.npz")
        known = np.isfinite(maps["disparity"])
        pictures = {kind: read_image(tmp_path / f"frames/{number:06d}{kind}") for kind in kinds[1:]}
        np.testing.assert_array_equal(pictures["-mask.png"], np.where(known, 255, 0))
        np.testing.assert_array_equal(pictures["-confidence.png"], np.rint(255 * maps["confidence"]))
        millimeters = 1000 * 0.1 * WIDTH / (maps["disparity"][known].astype(np.float64) + 2.5)
        assert np.abs(pictures["-depth.png"][known] - millimeters).max() <= 0.51
        assert (pictures["-depth.png"][~known] == 0).all()
        # The search from 0 to 15 px spans the map with 8 % of room below and 2 % above.
        position = (maps["disparity"][known] / 15 + 0.08) / 1.1
        colors = pictures["-disparity_color.png"][known].astype(int)
        assert np.abs(colors - turbo(position[None])[0]).max() <= 12  # a step of the map, where rounding differs

    (tmp_path / "video.mp4").unlink()
    (tmp_path / "report.json").unlink()
    assert "000000-" in fail(*views, "-o", tmp_path, "--maps", "none")
    succeed(*views, "-o", tmp_path, "--maps", "none", "--count", 1, "--overwrite")
    assert listing(tmp_path) == {"video.mp4", "report.json"}


def test_without_a_calibration_nothing_is_in_meters(source: Path, tmp_path: Path) -> None:
    succeed(source / "left", source / "right", "-o", tmp_path, "--count", 1)

    assert set(read_npz(tmp_path / "frames/000000.npz")) == {"disparity", "confidence", "reason", "format"}
    assert "calibration" not in report_of(tmp_path)


@pytest.mark.parametrize("option", [("--ply",), ("--rectify",), ("--unit", "mm")], ids=lambda words: words[0])
def test_options_that_need_a_calibration_say_so(source: Path, tmp_path: Path, option: tuple[str, ...]) -> None:
    message = fail(source / "left", source / "right", "-o", tmp_path / "out", *option)

    assert f"{option[0]} needs a calibration" in message
    assert not (tmp_path / "out").exists()


def test_a_calibration_is_never_replaced(source: Path, tmp_path: Path) -> None:
    (tmp_path / "video.mp4").write_text(CALIB)
    views = source / "left", source / "right"

    assert "input" in fail(*views, "-o", tmp_path, "--calib", tmp_path / "video.mp4", "--overwrite")

    assert (tmp_path / "video.mp4").read_text() == CALIB


def test_a_rig_is_rectified_frame_by_frame_as_one_pair_is(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    rig = store(tmp_path / "rig.yml", **example_rig())
    frames = random.integers(0, 256, (2, 2, RIG_HEIGHT, RIG_WIDTH), np.uint8)
    for view, name in zip(frames, ("left", "right"), strict=True):
        (tmp_path / name).mkdir()
        for number, frame in enumerate(view):
            write_png(tmp_path / name / f"{number}.png", frame)

    succeed(tmp_path / "left", tmp_path / "right", "-o", tmp_path / "out", "--calib", rig, "--rectify")

    calibration = read_calibration(rig, size=(RIG_WIDTH, RIG_HEIGHT))
    for number in range(2):
        left, right, _ = rectify(frames[0, number], frames[1, number], calibration)
        expected = match_frames(left, right)
        maps = read_npz(tmp_path / f"out/frames/{number:06d}.npz")
        np.testing.assert_array_equal(maps["disparity"], expected.disparity)
    report = report_of(tmp_path / "out")
    assert report["calibration"]["rectified_by_scotopic"] is True
    assert any("calibration is of these views" in words for words in report["assumed"])


def test_levels_are_given_as_for_images(source: Path, tmp_path: Path) -> None:
    for view in ("left", "right"):  # six bits above a black level of 64, in files of 16
        (tmp_path / view).mkdir()
        for name in NAMES[:2]:
            stored = read_image(source / view / name) // 4 + np.uint16(64)
            write_png(tmp_path / view / name, stored.astype(np.uint16))

    views = tmp_path / "left", tmp_path / "right"
    succeed(*views, "-o", tmp_path / "out", "--black", 64, "--white", 127)

    for number, name in enumerate(NAMES[:2]):
        frames = [read_image(source / view / name) // 4 for view in ("left", "right")]
        expected = match_frames(*((frame / 63).astype(np.float32) for frame in frames))
        maps = read_npz(tmp_path / f"out/frames/{number:06d}.npz")
        # Scaled in another order of float operations, so not equal to the last bit.
        same = np.isclose(maps["disparity"], expected.disparity, atol=0.01, equal_nan=True)
        assert same.mean() > 0.99
        assert expected.coverage > 0.1
    levels = report_of(tmp_path / "out")["levels"]
    assert levels == {"black": pytest.approx(64 / 65535), "white": pytest.approx(127 / 65535)}
    assert "white and bits" in fail(*views, "-o", tmp_path / "other", "--bits", 12, "--white", 127)
    assert "--bits 17" in fail(*views, "-o", tmp_path / "other", "--bits", 17)


# --- what a frame shows ---------------------------------------------------------------------------------------------


def test_a_frame_has_a_bar_of_all_colors_beside_the_pictures() -> None:
    match = made_match(np.full((200, 300), 7.0))

    picture = draw_video_frame(match, 3)

    right = picture[:200, 600:]
    columns = [column for column in np.swapaxes(right, 0, 1) if is_color_scale(column)]
    assert len(columns) >= 8


def is_color_scale(column: np.ndarray) -> bool:
    """Whether a column of a picture holds the whole color map, high values at the top, and nothing else but ground."""
    rows = np.flatnonzero(column.max(axis=1) > 30)
    if len(rows) < 150:
        return False
    inside = column[rows[0] : rows[-1] + 1]
    return bool(np.abs(inside.astype(int) - turbo(np.linspace(1, 0, len(inside)))).max() <= 12)


def test_the_coverage_stands_below_the_pictures() -> None:
    match = made_match(np.full((100, 300), 7.0))
    less = dataclasses.replace(match, reason=np.where(np.arange(300) < 150, 0, match.reason | 1).astype(np.uint8))
    assert (match.coverage, less.coverage) == (1.0, 0.5)

    full, half = draw_video_frame(match, 3), draw_video_frame(less, 3)

    assert full.shape == half.shape
    changed = (full != half).any(axis=2)
    assert not changed[:100].any()
    assert changed[100:].any()


def test_the_number_of_the_frame_changes_nothing_but_a_few_letters() -> None:
    match = made_match(np.full((100, 300), 7.0))

    first, later = draw_video_frame(match, 1), draw_video_frame(match, 86)

    assert first.shape == later.shape
    assert 0 < (first != later).any(axis=2).mean() < 0.02


@pytest.mark.parametrize("doffs", [0.0, 30.0, -5.0])
@pytest.mark.parametrize(("fx", "baseline"), [(700.0, 0.06), (1200.0, 0.54), (300.0, 0.01)])
def test_the_bar_says_meters_at_the_disparities_of_the_formula(fx: float, baseline: float, doffs: float) -> None:
    calibration = Calibration(fx=fx, fy=fx, cx=0.0, cy=0.0, baseline=baseline, doffs=doffs)

    ticks = depth_ticks((-5.0, 65.0), calibration, 8)

    assert len(ticks) >= 2
    for label, disparity in ticks.items():
        meters = re.fullmatch(r"([\d.]+) m", label)
        assert meters, label
        assert float(meters[1]) == pytest.approx(fx * baseline / (disparity + doffs))
        assert -5 <= disparity <= 65
    assert min(np.diff(sorted(ticks.values()))) >= 70 / 8  # labels do not touch


def test_with_a_calibration_the_bar_alone_changes() -> None:
    match = made_match(np.full((200, 300), 7.0))
    calibration = Calibration(fx=700.0, fy=700.0, cx=150.0, cy=100.0, baseline=0.1)

    pixels, meters = draw_video_frame(match, 1), draw_video_frame(match, 1, calibration)

    assert np.array_equal(pixels[:, :600], meters[:, :600])
    width = min(pixels.shape[1], meters.shape[1])
    assert not np.array_equal(pixels[:, 600:width], meters[:, 600:width])


def test_frames_too_wide_for_a_screen_are_shrunk() -> None:
    picture = draw_video_frame(made_match(np.full((60, 4000), 7.0)), 1)

    assert 3840 < picture.shape[1] < 4200
    assert picture.shape[0] < 400
