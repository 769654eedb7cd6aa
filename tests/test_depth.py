"""Depth, its uncertainty and points in space, held to the formula, to OpenCV and to real calibrations."""

import math
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ply_files import read_ply
from reference_data import SCENES, data_folder
from rooms import room

import scotopic
from scotopic.depth import (
    Calibration,
    depth_from_disparity,
    depth_uncertainty,
    disparity_uncertainty,
    point_cloud,
    points_from_disparity,
    read_calibration,
)
from scotopic.errors import InputError, OutputError
from scotopic.io import read_pfm

CALIBRATION = Calibration(fx=500.0, fy=500.0, cx=12.5, cy=8.25, baseline=0.12, doffs=7.0)


def disparities(height: int = 20, width: int = 30, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(1, 60, (height, width)).astype(np.float32)


def test_depth_is_baseline_times_focal_length_over_disparity() -> None:
    # 0.12 m * 500 px / (5 + 7) px
    assert depth_from_disparity(np.array([[5.0]]), CALIBRATION)[0, 0] == pytest.approx(5.0)


@pytest.mark.parametrize("d", [np.nan, np.inf, -np.inf, -7.0, -7.5, -1000.0])
def test_what_has_no_depth_has_none(d: float) -> None:
    disparity = np.array([[d, 5.0]], np.float32)

    depth = depth_from_disparity(disparity, CALIBRATION)
    points = points_from_disparity(disparity, CALIBRATION)
    spread = depth_uncertainty(disparity, CALIBRATION, 1.0)

    assert np.isnan(depth[0, 0])
    assert np.isnan(points[0, 0]).all()
    assert np.isnan(spread[0, 0])
    assert np.isfinite([depth[0, 1], spread[0, 1], *points[0, 1]]).all()


@pytest.mark.parametrize("fy", [500.0, 510.0])
def test_points_and_q_agree_with_opencv(fy: float) -> None:
    rig = Calibration(fx=500.0, fy=fy, cx=12.5, cy=8.25, baseline=0.12, doffs=7.0)
    disparity = disparities()

    theirs = cv2.reprojectImageTo3D(disparity, rig.q)

    np.testing.assert_allclose(points_from_disparity(disparity, rig), theirs, rtol=2e-6, atol=1e-6)
    np.testing.assert_allclose(depth_from_disparity(disparity, rig), theirs[..., 2], rtol=2e-6)


@pytest.mark.parametrize("scene", SCENES["middlebury"])
def test_known_pixels_of_middlebury_have_the_depth_of_the_formula(scene: str) -> None:
    folder = data_folder() / "data" / "middlebury2014_q" / scene
    truth = read_pfm(folder / "disp0.pfm")
    known = np.argwhere(np.isfinite(truth))[:: truth.size // 50]
    numbers = dict(line.split("=") for line in (folder / "calib.txt").read_text().split("\n") if "=" in line)
    focal = float(numbers["cam0"].strip("[").split()[0])

    depth = depth_from_disparity(truth, read_calibration(folder / "calib.txt"))

    for y, x in known:
        millimeters = float(numbers["baseline"]) * focal / (float(truth[y, x]) + float(numbers["doffs"]))
        assert depth[y, x] == pytest.approx(millimeters / 1000, rel=1e-6)


@given(
    fx=st.floats(10, 5000),
    baseline=st.floats(0.01, 2),
    doffs=st.floats(-50, 50),
    d=st.floats(0.5, 300),
    scale=st.sampled_from([0.25, 0.5, 2.0]),
)
def test_depth_does_not_depend_on_the_size_of_the_image(
    fx: float, baseline: float, doffs: float, d: float, scale: float
) -> None:
    if d + doffs < 0.1:
        return
    rig = Calibration(fx=fx, fy=fx, cx=0.0, cy=0.0, baseline=baseline, doffs=doffs, width=400, height=400)
    other = rig.resized(int(400 * scale), int(400 * scale))
    full, resized = (baseline * each.fx / (shift + each.doffs) for each, shift in ((rig, d), (other, d * scale)))

    assert math.isclose(full, resized, rel_tol=1e-9)


def test_uncertainty_is_the_first_order_one() -> None:
    disparity = np.array([[5.0, 53.0]])

    spread = depth_uncertainty(disparity, CALIBRATION, 0.5)

    depth = np.array([60 / 12, 60 / 60])
    np.testing.assert_allclose(spread[0], depth**2 / (500 * 0.12) * 0.5, rtol=1e-6)
    # and the depth really moves by so much when the disparity does, as long as that is little
    little = 1e-3
    moved = 60 / (disparity + 7 - little) - 60 / (disparity + 7)
    np.testing.assert_allclose(depth_uncertainty(disparity, CALIBRATION, little), moved, rtol=1e-3)


@pytest.mark.parametrize("right", [np.zeros((3, 5)), np.zeros((4, 6)), np.zeros((3, 6), complex)])
def test_disparities_of_two_views_that_do_not_fit_are_refused(right: np.ndarray) -> None:
    with pytest.raises(InputError, match="The disparities of the two views"):
        disparity_uncertainty(np.zeros((3, 6)), right)


def test_infinity_is_no_disparity_to_compare_with() -> None:
    right = np.array([[1.0, np.inf, 1.0, 1.0]])

    spread = disparity_uncertainty(np.ones((1, 4)), right)  # pixel x is compared with x - 1

    np.testing.assert_allclose(spread, [[np.nan, 12**-0.5, np.nan, 12**-0.5]])


def test_drawn_disparities_scatter_in_depth_as_the_uncertainty_says() -> None:
    random = np.random.default_rng(0)
    drawn = (40 + 0.5 * random.standard_normal((400, 500))).astype(np.float32)

    scatter = depth_from_disparity(drawn, CALIBRATION).std()

    expected = depth_uncertainty(np.array([[40.0]]), CALIBRATION, 0.5)[0, 0]
    assert scatter == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("sigma", [-1.0, np.full((2, 3), 1.0)])
def test_an_impossible_uncertainty_is_refused(sigma: object) -> None:
    with pytest.raises(InputError, match="uncertainty"):
        depth_uncertainty(np.ones((4, 4)), CALIBRATION, sigma)  # type: ignore[arg-type]


def test_disparity_uncertainty_comes_from_the_two_views() -> None:
    left = np.full((1, 12), 3.0, np.float32)
    right = np.full((1, 12), 3.0, np.float32)
    right[0, 5] = 5.0  # the partner of column 8

    sigma = disparity_uncertainty(left, right)

    assert sigma[0, 7] == pytest.approx(math.sqrt(1 / 12))
    assert sigma[0, 8] == pytest.approx(math.sqrt(2**2 / 2 + 1 / 12))
    assert np.isnan(sigma[0, :3]).all()  # their partners lie out of view


def test_what_is_averaged_over_patches_is_uncertain_beside_an_edge() -> None:
    left = np.full((9, 40), 4.0, np.float32)
    left[:, 20:] = 10.0
    left[4, 12] = np.nan

    sigma = disparity_uncertainty(left, left, patch_size=5)

    assert sigma[4, 38] == pytest.approx(math.sqrt(1 / 12))  # both views say 10, far from the edge
    # Columns 19 to 23: one of five columns is 4, the others 10; partner at column 11 says 4.
    assert sigma[4, 21] == pytest.approx(math.sqrt(6**2 / 2 + 1 / 12 + 0.2 * 0.8 * 6**2))
    assert np.isfinite(sigma[4, 13])  # the unknown neighbor is left out
    assert sigma[4, 13] == pytest.approx(math.sqrt(1 / 12), rel=1e-5)


def test_without_patches_an_edge_adds_nothing() -> None:
    left = np.full((9, 40), 4.0, np.float32)
    left[:, 20:] = 10.0
    right = np.full((9, 40), 4.0, np.float32)  # column 21 lands at 11, where the right view has 4

    sigma = disparity_uncertainty(left, right, patch_size=None)

    assert sigma[4, 21] == pytest.approx(math.sqrt(6**2 / 2 + 1 / 12))
    assert sigma[4, 18] == pytest.approx(math.sqrt(1 / 12))


def test_a_map_of_another_size_than_the_calibration_is_refused() -> None:
    rig = Calibration(fx=500.0, fy=500.0, cx=0.0, cy=0.0, baseline=0.1, width=640, height=480)

    with pytest.raises(InputError, match="640 x 480"):
        depth_from_disparity(np.ones((240, 320)), rig)


# --- point clouds ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def matched() -> scotopic.Match:
    scene = room(192, 96)
    return scotopic.match(scene.left, scene.right, preset="fast", max_disparity=32)


def test_a_cloud_has_a_point_for_every_disparity_with_its_color_and_confidence(matched: scotopic.Match) -> None:
    rig = Calibration(fx=192.0, fy=192.0, cx=95.5, cy=36.1, baseline=0.1)

    cloud = point_cloud(matched, rig)

    rows, columns = np.nonzero(matched.mask & (matched.disparity > 0))
    assert len(cloud) == len(rows) > 100
    # Back in the image: x = fx X / Z + cx, and the disparity is fx B / Z.
    x, y, z = cloud.points.astype(np.float64).T
    np.testing.assert_allclose(192 * x / z + 95.5, columns, atol=1e-3)
    np.testing.assert_allclose(192 * y / z + 36.1, rows, atol=1e-3)
    np.testing.assert_allclose(192 * 0.1 / z, matched.disparity[rows, columns], rtol=1e-5)
    np.testing.assert_array_equal(cloud.confidence, matched.confidence[rows, columns])
    np.testing.assert_allclose(cloud.colors / 255, matched.left_colors[rows, columns], atol=0.5 / 255 + 1e-6)


def test_a_cloud_takes_colors_of_another_picture_and_leaves_out_what_is_far_or_unsure(matched: scotopic.Match) -> None:
    rig = Calibration(fx=192.0, fy=192.0, cx=95.5, cy=36.1, baseline=0.1)
    gray = np.full(matched.disparity.shape, 0.2, np.float32)
    everything = point_cloud(matched, rig)
    limit = float(np.median(everything.points[:, 2]))

    near = point_cloud(matched, rig, gray, max_depth=limit, min_confidence=0.5)

    assert 0 < len(near) < len(everything)
    assert near.points[:, 2].max() <= limit
    assert near.confidence.min() >= 0.5
    assert (near.colors == 51).all()  # 0.2 of 255
    with pytest.raises(InputError, match="192 x 96"):
        point_cloud(matched, rig, gray[:-1])


def test_a_cloud_is_saved_and_not_overwritten(matched: scotopic.Match, tmp_path: Path) -> None:
    cloud = point_cloud(matched, Calibration(fx=192.0, fy=192.0, cx=95.5, cy=36.1, baseline=0.1))
    path = tmp_path / "cloud.ply"

    cloud.save(path)
    back = read_ply(path)

    for name in ("points", "colors", "confidence"):
        np.testing.assert_array_equal(getattr(back, name), getattr(cloud, name))
    with pytest.raises(OutputError, match="already holds"):
        cloud.save(path)
    cloud.save(path, overwrite=True)
