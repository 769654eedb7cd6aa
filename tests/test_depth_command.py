"""``scotopic match`` with a calibration: depth, points, other formats, and warnings about the pair."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from calibration_files import HEIGHT, MIDDLEBURY, WIDTH, example_rig, store
from command_line import error_line, write_pair
from command_line import run as run_command
from command_line import succeed as succeed_command
from numpy.typing import NDArray
from reference_data import data_folder
from rooms import room
from typer.testing import Result

from scotopic.cli.match import DEPTH_FILES, POINTS_FILE
from scotopic.depth import read_calibration
from scotopic.io import read_disparity, read_image, read_kitti_png, read_pfm, write_png
from scotopic.preview import draw_preview
from scotopic.result import FILES, Match
from scotopic.sensor import simulate_pair, to_uint8
from scotopic.stages.confidence import DEVIATIONS

FAST = ("--preset", "fast", "--set", "refine_steps=0", "--max-disparity", "32")  # a quicker fit than the preset's
QUICK_BEST = ("--set", "refine_steps=0", "--set", "group_rounds=0", "--set", "plane_rounds=0")
CALIB = "192 95.5 36.1 0.1 2.5\n"


def succeed(*arguments: object) -> Result:
    return succeed_command("match", *arguments)


def refused(*arguments: object) -> str:
    result = run_command("match", *arguments)
    assert result.stderr.count("\n") == 1
    return error_line(result)


def read_points(path: Path) -> NDArray[np.float32]:
    """Return the points of a PLY file, by a reader that is not ours."""
    trimesh = pytest.importorskip("trimesh", reason="needs trimesh: pip install trimesh, or the extra 'test'")
    return np.asarray(trimesh.load(path).vertices, np.float32)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with left.png, right.png and calib.txt, 192 x 96 px."""
    folder = write_pair(tmp_path_factory.mktemp("pair"), width=192, height=96, photons=20)
    (folder / "calib.txt").write_text(CALIB)
    return folder


@pytest.fixture(scope="module")
def results(pair: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    folder = tmp_path_factory.mktemp("results")
    formats = [word for name in ("png", "tiff", "npz", "middlebury") for word in ("--format", name)]
    result = succeed(
        *(pair / "left.png", pair / "right.png", "-o", folder / "out", *FAST, "--json", *formats),
        *("--calib", pair / "calib.txt", "--ply"),
    )
    return folder / "out", result


def test_depth_is_the_formula_at_every_pixel_with_a_disparity(results: tuple[Path, Result]) -> None:
    disparity = Match.load(results[0]).disparity.astype(np.float64)

    depth = read_pfm(results[0] / "depth.pfm")

    known = np.isfinite(disparity)
    np.testing.assert_allclose(depth[known], 0.1 * 192 / (disparity[known] + 2.5), rtol=1e-6)
    assert np.isposinf(depth[~known]).all()


def test_depth_is_also_a_png_in_millimeters_and_0_where_there_is_none(results: tuple[Path, Result]) -> None:
    disparity = Match.load(results[0]).disparity.astype(np.float64)

    stored = read_image(results[0] / "depth.png")

    known = np.isfinite(disparity)
    assert stored.dtype == np.uint16
    assert known.any()
    assert np.abs(stored[known] - 1000 * 0.1 * 192 / (disparity[known] + 2.5)).max() <= 0.501
    assert (stored[~known] == 0).all()


def test_depth_and_fill_are_in_the_preview_if_asked_for(
    pair: Path, results: tuple[Path, Result], tmp_path: Path
) -> None:
    found = Match.load(results[0])
    calibration = read_calibration(pair / "calib.txt").for_image(192, 96)
    np.testing.assert_array_equal(read_image(results[0] / "preview.png"), draw_preview(found, calibration=calibration))

    succeed(pair / "left.png", pair / "right.png", "-o", tmp_path / "out", *FAST, "--fill")

    np.testing.assert_array_equal(read_image(tmp_path / "out" / "preview.png"), draw_preview(found, filled=True))


def test_the_uncertainty_follows_from_the_two_views(results: tuple[Path, Result]) -> None:
    found = Match.load(results[0])

    spread = read_pfm(results[0] / "depth_uncertainty.pfm")

    y, x = (int(each[len(each) // 2]) for each in np.nonzero(found.mask & np.isfinite(spread)))
    d = float(found.disparity[y, x])
    other = float(found.right_disparity[y, round(x - d)])
    depth = 0.1 * 192 / (d + 2.5)
    size = found.settings.junctions.patch_size
    top, left = y - (size - 1) // 2, x - (size - 1) // 2
    patch = found.disparity_all[max(0, top) : top + size, max(0, left) : left + size].astype(np.float64)
    sigma = np.sqrt((d - other) ** 2 / 2 + 1 / 12 + patch.var())
    assert spread[y, x] == pytest.approx(depth**2 / (192 * 0.1) * sigma, rel=1e-3)


def test_the_uncertainty_of_best_goes_with_its_confidence(pair: Path, tmp_path: Path) -> None:
    views = pair / "left.png", pair / "right.png"
    succeed(*views, "-o", tmp_path, "--max-disparity", 32, *QUICK_BEST, "--calib", pair / "calib.txt")
    found = Match.load(tmp_path)

    spread = read_pfm(tmp_path / "depth_uncertainty.pfm")

    # dZ = f B / (d + offset)^2 times the standard deviation in px, which is linear between those of the calibration.
    sigma = np.interp(found.confidence[found.mask], *DEVIATIONS)
    expected = 0.1 * 192 / (found.disparity[found.mask].astype(np.float64) + 2.5) ** 2 * sigma
    np.testing.assert_allclose(spread[found.mask], expected, rtol=1e-3)
    assert found.mask.any()
    assert not np.isfinite(spread[~found.mask]).any()


def test_the_cloud_has_the_points_of_the_depth(results: tuple[Path, Result]) -> None:
    depth = read_pfm(results[0] / "depth.pfm")

    points = read_points(results[0] / POINTS_FILE)

    np.testing.assert_array_equal(points[:, 2], depth[np.isfinite(depth)])
    assert json.loads(results[1].stdout)["ply"] == str(results[0] / POINTS_FILE)


@pytest.mark.parametrize("flag", [(), ("--ply",)])
def test_the_cloud_can_have_a_name_of_its_own(pair: Path, tmp_path: Path, flag: tuple[str, ...]) -> None:
    options = (*flag, "--ply-file", tmp_path / "cloud.ply", "--calib", pair / "calib.txt", *FAST)

    succeed(pair / "left.png", pair / "right.png", "-o", tmp_path / "out", *options)

    assert len(read_points(tmp_path / "cloud.ply")) == Match.load(tmp_path / "out").mask.sum()
    assert not (tmp_path / "out" / POINTS_FILE).exists()


def test_the_flag_for_the_cloud_does_not_take_the_option_after_it(pair: Path, tmp_path: Path) -> None:
    views = pair / "left.png", pair / "right.png"

    succeed(*views, "--calib", pair / "calib.txt", "--ply", *FAST, "-o", tmp_path / "out")

    assert (tmp_path / "out" / POINTS_FILE).exists()
    assert Match.load(tmp_path / "out").settings.preset == "fast"


def test_the_report_says_which_calibration_and_its_units(results: tuple[Path, Result]) -> None:
    report = json.loads((results[0] / "report.json").read_text())

    assert report["calibration"]["baseline_m"] == 0.1
    assert report["calibration"]["depth_unit"] == "m"
    assert "calib.txt" in report["calibration"]["source"]
    assert "taken as m" in report["calibration"]["source"]
    assert report["calibration"]["rectified_by_scotopic"] is False
    assert "warnings" in report["pair_check"]
    assert json.loads(results[1].stdout)["calibration"] == report["calibration"]


def test_every_format_holds_the_same_disparity(results: tuple[Path, Result]) -> None:
    disparity = Match.load(results[0]).disparity

    for name in ("disparity.tiff", "disparity.npz", "disparity.pfm"):
        np.testing.assert_array_equal(read_disparity(results[0] / name), disparity)
    np.testing.assert_allclose(read_kitti_png(results[0] / "disparity.png"), disparity, atol=1 / 256)
    np.testing.assert_array_equal(read_disparity(results[0] / "disp0scotopic_s.pfm"), disparity)
    np.testing.assert_array_equal(
        read_disparity(results[0] / "disp0scotopic.pfm"), Match.load(results[0]).disparity_all
    )
    assert float((results[0] / "timescotopic.txt").read_text()) > 0


def test_nothing_else_is_written_and_all_of_it_is_listed(results: tuple[Path, Result]) -> None:
    listed = json.loads(results[1].stdout)["files"]

    assert {path.name for path in results[0].iterdir()} == set(listed)
    assert {*FILES, *DEPTH_FILES, POINTS_FILE} < set(listed)


def test_without_a_calibration_there_is_no_depth(pair: Path, tmp_path: Path) -> None:
    succeed(pair / "left.png", pair / "right.png", "-o", tmp_path / "out", *FAST)

    assert {path.name for path in (tmp_path / "out").iterdir()} == set(FILES)


# --- what is refused, before any work -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (("--ply",), "--calib"),
        (("--ply-file", "cloud.ply"), "--calib"),
        (("--rectify",), "--calib"),
        (("--unit", "mm"), "--calib"),
        (("--format", "gif"), "Choose one of png, tiff"),
        (("--format", "png", "--format", "png"), "twice"),
        (("--format", "png", "--min-disparity", "-4"), "Choose tiff"),
        (("--calib", "a", "--calib", "b", "--calib", "c"), "3 times"),
    ],
)
def test_options_that_cannot_work_are_refused_at_once(
    pair: Path, tmp_path: Path, options: tuple[str, ...], found: str
) -> None:
    assert found in refused(pair / "left.png", pair / "right.png", "-o", tmp_path / "out", *FAST, *options)
    assert list(tmp_path.iterdir()) == []


def test_a_broken_calibration_is_named_with_its_line_and_leaves_nothing(pair: Path, tmp_path: Path) -> None:
    path = tmp_path / "calib.txt"
    path.write_text(MIDDLEBURY.replace("baseline=176.252", "baseline=wide"))

    message = refused(pair / "left.png", pair / "right.png", "-o", tmp_path / "out", *FAST, "--calib", path)

    assert re.search("calib.txt'.*line 4.*'wide'", message)
    assert list(tmp_path.iterdir()) == [path]


def test_a_calibration_of_another_shape_of_image_is_refused(pair: Path, tmp_path: Path) -> None:
    (tmp_path / "calib.txt").write_text(MIDDLEBURY)

    message = refused(
        pair / "left.png", pair / "right.png", "-o", tmp_path / "out", *FAST, "--calib", tmp_path / "calib.txt"
    )

    assert "718 x 496" in message


def test_a_calibration_that_is_scaled_is_said_to_be(pair: Path, tmp_path: Path) -> None:
    matrix = "[384 0 191.5; 0 384 72.7; 0 0 1]"
    sides = "width=384\nheight=192\n"  # twice as large, or cropped to half of it
    (tmp_path / "calib.txt").write_text(f"cam0={matrix}\ncam1={matrix}\ndoffs=0\nbaseline=100\n{sides}")

    result = succeed(pair / "left.png", pair / "right.png", "-o", tmp_path, *FAST, "--calib", tmp_path / "calib.txt")

    assert "warning: The calibration is for images of 384 x 192 px. It is scaled to 192 x 96 px" in result.stderr
    used = json.loads((tmp_path / "report.json").read_text())["calibration"]
    assert used["fx_px"] == 192
    assert used["source"].endswith("; scaled from 384 x 192 px")


def test_an_existing_cloud_is_not_overwritten(pair: Path, tmp_path: Path) -> None:
    (tmp_path / "cloud.ply").write_text("mine")
    options = (*FAST, "--calib", pair / "calib.txt", "--ply-file", tmp_path / "cloud.ply")

    assert "--overwrite" in refused(pair / "left.png", pair / "right.png", "-o", tmp_path / "out", *options)
    assert (tmp_path / "cloud.ply").read_text() == "mine"
    assert not (tmp_path / "out").exists()


def test_an_input_is_never_the_cloud_whatever_is_allowed(pair: Path, tmp_path: Path) -> None:
    options = (*FAST, "--calib", pair / "calib.txt", "--ply-file", pair / "left.png", "--overwrite")

    assert "the input" in refused(pair / "left.png", pair / "right.png", "-o", tmp_path / "out", *options)


# --- the pair -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def larger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("larger")
    scene = room(288, 192)
    views = simulate_pair(scene.left, scene.right, photons=8)
    for name, view in (("left", views[0]), ("right", views[1]), ("low", np.roll(views[1], 3, axis=0))):
        write_png(folder / f"{name}.png", to_uint8(view))
    return folder


@pytest.mark.parametrize(
    ("names", "words"),
    [(("left", "low"), "unrectified"), (("right", "left"), "swapped")],
)
def test_a_bad_pair_is_warned_of_and_matched_all_the_same(
    larger: Path, tmp_path: Path, names: tuple[str, str], words: str
) -> None:
    images = [larger / f"{name}.png" for name in names]

    result = succeed(*images, "-o", tmp_path / "out", *FAST)

    assert re.search(f"warning: .*{words}", result.stderr)
    assert ("--calib FILE --rectify" in result.stderr) == (words == "unrectified")
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert any(words in each for each in report["pair_check"]["warnings"])


def test_a_good_pair_is_not_warned_of(larger: Path, tmp_path: Path) -> None:
    result = succeed(larger / "left.png", larger / "right.png", "-o", tmp_path / "out", *FAST)

    assert "warning" not in result.stderr


def test_a_rig_is_rectified_on_request(larger: Path, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for name in ("left", "right"):
        write_png(tmp_path / f"{name}.png", random.integers(0, 256, (HEIGHT, WIDTH), np.uint8))
    rig = store(tmp_path / "rig.yml", **example_rig())

    succeed(
        *(tmp_path / "left.png", tmp_path / "right.png", "-o", tmp_path / "out", *FAST),
        *("--calib", rig, "--rectify"),
    )

    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["calibration"]["rectified_by_scotopic"] is True
    assert report["calibration"]["baseline_m"] == pytest.approx(float(np.linalg.norm(example_rig()["T"])), rel=1e-6)


@pytest.mark.reference
def test_a_middlebury_scene_with_its_calibration_gives_the_depth_of_the_formula(tmp_path: Path) -> None:
    folder = data_folder() / "data" / "middlebury2014_q" / "Motorcycle"

    succeed(
        *(folder / "im0.png", folder / "im1.png", "-o", tmp_path / "out", *FAST[:-1], "70"),
        *("--calib", folder / "calib.txt", "--ply"),
    )

    disparity = read_pfm(tmp_path / "out" / "disparity.pfm").astype(np.float64)
    depth = read_pfm(tmp_path / "out" / "depth.pfm")
    known = np.isfinite(disparity)
    assert known.mean() > 0.01
    # From calib.txt: cam0=[999.421 ...], doffs=32.778, baseline=193.001 mm.
    np.testing.assert_allclose(depth[known], 0.193001 * 999.421 / (disparity[known] + 32.778), rtol=1e-6)
    # And where the answer is right, so is the depth: the truth of most kept pixels is within 3 px.
    true = read_pfm(folder / "disp0.pfm").astype(np.float64)
    both = known & np.isfinite(true)
    assert np.median(np.abs(depth[both] / (0.193001 * 999.421 / (true[both] + 32.778)) - 1)) < 0.05
    assert len(read_points(tmp_path / "out" / POINTS_FILE)) == np.count_nonzero(known)


def test_points_have_the_denoised_colors_that_the_app_gives_them(results: tuple[Path, Result]) -> None:
    trimesh = pytest.importorskip("trimesh", reason="needs trimesh: pip install trimesh, or the extra 'test'")
    found = Match.load(results[0])
    colors = np.asarray(trimesh.load(results[0] / POINTS_FILE).visual.vertex_colors)[:, :3]
    kept = np.isfinite(found.disparity)

    # The structure's colors, their contrast stretched: each channel of the points follows left_colors, not the noise.
    field = found.left_colors[kept]
    noisy = found.left_image[kept]
    assert len(colors) == kept.sum()
    for channel in range(3):
        close = np.corrcoef(colors[:, channel], field[:, channel])[0, 1]
        assert close > 0.99
        assert close > np.corrcoef(colors[:, channel], noisy[:, channel])[0, 1]
