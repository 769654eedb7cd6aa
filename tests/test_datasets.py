"""Every data set, read back from its published layout at the right size, with the right values."""

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dataset_folders import (
    CALIBRATION,
    HEIGHT,
    KNOWN,
    MAKERS,
    PLANE,
    WIDTH,
    X,
    Y,
    calib,
    make_2006,
    make_eth3d,
    make_instereo,
    make_kitti,
    make_official,
    make_own,
    make_sdk,
    masked,
    pair,
    pfm,
    png,
    views,
)
from moving_rig import moving_rig, write_archives
from numpy.typing import NDArray
from reference_data import data_folder

from scotopic.depth import Calibration
from scotopic.errors import InputError, PairWarning
from scotopic.evaluation.datasets import DATASETS, open_dataset
from scotopic.evaluation.datasets.files import visible_in_both
from scotopic.evaluation.scene import Scene
from scotopic.io import write_pfm, write_png


def assert_holds(scene: Scene, truth: NDArray[np.floating], known: NDArray[np.bool_] = KNOWN) -> None:
    """The images of `views` and the truth, at the size on disk."""
    left, right = views()
    np.testing.assert_array_equal(scene.left, left / np.float32(255))
    np.testing.assert_array_equal(scene.right, right / np.float32(255))
    expected = np.where(known, truth, np.nan).astype(np.float32)
    np.testing.assert_array_equal(scene.truth, expected)
    np.testing.assert_array_equal(scene.truth_paper, expected)


def test_every_data_set_of_the_registry_is_tested_here() -> None:
    assert set(MAKERS) == set(DATASETS)


def test_the_protocol_scales_of_the_paper_are_the_defaults() -> None:
    assert (DATASETS["middlebury2014"].scale, DATASETS["instereo2k"].scale) == (0.2, 0.5)


def test_middlebury_2014_official_layout_is_read(tmp_path: Path) -> None:
    make_official(tmp_path, "Bike-perfect")
    make_official(tmp_path, "Bike-imperfect")

    dataset = open_dataset("middlebury2014", tmp_path, scale=1.0)
    scene = dataset.load("Bike-perfect")

    assert dataset.names == ("Bike-imperfect", "Bike-perfect")
    assert len(dataset) == 2
    assert_holds(scene, PLANE)
    assert scene.calibration == CALIBRATION
    assert scene.max_disparity == 70
    assert (scene.dataset, scene.name, scene.scale) == ("middlebury2014", "Bike-perfect", 1.0)
    # The point at x lies at x - d of the right view, whose truth there is the same plane, a quarter px less per column.
    there = np.floor(X - PLANE + 0.5).astype(int)  # the nearest column, halves upward
    agrees = KNOWN & (there >= 0) & ((there > 2) | (Y > 1)) & ((X - there) / 4 <= 1.0)
    assert 0 < agrees.mean() < 1
    np.testing.assert_array_equal(scene.visible, agrees)


@pytest.mark.parametrize("truth", ["disp0GT.pfm", "disp0.pfm"])
def test_the_evaluation_sdk_is_read_with_either_name_of_the_truth(tmp_path: Path, truth: str) -> None:
    make_sdk(tmp_path)
    (tmp_path / "trainingF" / "Bike" / "disp0GT.pfm").rename(tmp_path / "trainingF" / "Bike" / truth)

    scene = open_dataset("middlebury2014", tmp_path, scale=1.0).load("Bike")

    assert_holds(scene, PLANE)
    assert scene.calibration == CALIBRATION
    assert scene.visible is not None
    np.testing.assert_array_equal(scene.visible, (X + Y) % 3 == 2)


@pytest.mark.parametrize(("folder", "size"), [("trainingF", 1.0), ("trainingH", 0.5), ("trainingQ", 0.25)])
def test_the_name_of_an_sdk_folder_tells_its_size(tmp_path: Path, folder: str, size: float) -> None:
    make_sdk(tmp_path, f"{folder}/Bike")

    for given in (tmp_path, tmp_path / folder, tmp_path / folder / "Bike"):
        scene = open_dataset("middlebury2014", given).load("Bike")

        assert scene.truth.shape == (round(HEIGHT * 0.2 / size), round(WIDTH * 0.2 / size))
        assert scene.scale == 0.2


def test_of_several_sizes_the_smallest_that_need_not_be_enlarged_is_taken(tmp_path: Path) -> None:
    for folder in ("trainingF", "trainingH", "trainingQ"):
        make_sdk(tmp_path, f"{folder}/Bike")

    def chosen(scale: float | None, size: str | None = None) -> str:
        return open_dataset("middlebury2014", tmp_path, scale, size).places[0].folder.parent.name

    assert chosen(None) == "trainingQ"
    assert chosen(0.25) == "trainingQ"
    assert chosen(0.3) == "trainingH"
    assert chosen(1.0) == "trainingF"
    assert chosen(None, size="half") == "trainingH"


@pytest.mark.parametrize(
    ("name", "width", "size"),
    [
        ("Adirondack", 718, 0.25),
        ("Adirondack", 1436, 0.5),
        ("Adirondack", 2872, 1.0),
        ("Couch", 575, 0.25),  # among the narrowest of 2014
        ("ArtL", 1388, 1.0),  # older: as wide at full size as others at half
        ("Teddy", 450, 0.25),
    ],
)
def test_the_width_tells_the_size_of_scenes_in_a_folder_without_a_name(
    tmp_path: Path, name: str, width: int, size: float
) -> None:
    scene_folder = tmp_path / "scenes" / name
    scene_folder.mkdir(parents=True)
    for view, image in zip(("im0.png", "im1.png"), views(5, width), strict=True):
        write_png(scene_folder / view, image)
    write_pfm(scene_folder / "disp0.pfm", np.full((5, width), 40, np.float32))

    scene = open_dataset("middlebury2014", tmp_path / "scenes").load(name)

    assert scene.truth.shape == (max(1, round(5 * 0.2 / size)), round(width * 0.2 / size))
    np.testing.assert_allclose(scene.truth, 40 * 0.2 / size, rtol=1e-6)
    assert scene.visible is None
    assert scene.calibration is None


def test_a_width_that_tells_nothing_asks_for_the_size(tmp_path: Path) -> None:
    make_sdk(tmp_path, "scenes/Bike")

    with pytest.raises(InputError, match=rf"'.*Bike' are {WIDTH} px wide.*State the size"):
        open_dataset("middlebury2014", tmp_path / "scenes").load("Bike")

    scene = open_dataset("middlebury2014", tmp_path / "scenes", size="quarter").load("Bike")
    assert scene.truth.shape == (round(HEIGHT * 0.8), round(WIDTH * 0.8))


@pytest.mark.parametrize("kind", ["middlebury2005", "middlebury2006"])
@pytest.mark.parametrize(("folder", "divisor"), [("FullSize", 1), ("HalfSize", 2), ("ThirdSize", 3)])
def test_middlebury_2005_and_2006_store_full_size_disparities_at_every_size(
    tmp_path: Path, kind: str, folder: str, divisor: int
) -> None:
    make_2006(tmp_path, f"{folder}/Aloe")

    scene = open_dataset(kind, tmp_path, scale=1 / divisor).load("Aloe")

    assert_holds(scene, (5 + X).astype(np.float32) / np.float32(divisor))
    assert scene.dataset == kind
    assert scene.visible is not None


@pytest.mark.parametrize(("width", "divisor"), [(1282, 1), (641, 2), (427, 3)])
def test_the_width_tells_the_size_of_middlebury_2006_too(tmp_path: Path, width: int, divisor: int) -> None:
    scene_folder = tmp_path / "scenes" / "Aloe"
    scene_folder.mkdir(parents=True)
    for name, image in zip(("view1.png", "view5.png"), views(6, width), strict=True):
        write_png(scene_folder / name, image)
    write_png(scene_folder / "disp1.png", np.full((6, width), 90, np.uint8))

    scene = open_dataset("middlebury2006", tmp_path / "scenes").load("Aloe")

    assert scene.truth.shape == (round(6 * divisor / 3), 427)
    np.testing.assert_allclose(scene.truth, 30, rtol=1e-6)  # a third of full size, whatever lies on disk


@pytest.mark.parametrize("given", ["", "test", "test/000040"])
def test_instereo2k_is_stored_in_hundredths(tmp_path: Path, given: str) -> None:
    make_instereo(tmp_path)
    make_instereo(tmp_path, "train/000001")

    dataset = open_dataset("instereo2k", tmp_path / given, scale=1.0)

    assert dataset.names == ("000040",)
    stored = np.rint(PLANE * 100)
    assert_holds(dataset.load("000040"), stored.astype(np.float32) / np.float32(100))


def test_eth3d_is_read_with_its_mask_and_calibration(tmp_path: Path) -> None:
    make_eth3d(tmp_path)

    scene = open_dataset("eth3d", tmp_path).load("forest_1l")

    assert_holds(scene, PLANE)
    assert scene.calibration == CALIBRATION
    assert scene.visible is not None
    np.testing.assert_array_equal(scene.visible, (X + Y) % 3 == 2)


@pytest.mark.parametrize("given", ["", "training"])
def test_kitti_2015_is_read_with_its_occlusions_and_calibration(tmp_path: Path, given: str) -> None:
    make_kitti(tmp_path)

    dataset = open_dataset("kitti2015", tmp_path / given)
    scene = dataset.load("000007_10")

    assert dataset.names == ("000007_10",)  # _11 is the next frame, without truth
    assert_holds(scene, PLANE)
    assert scene.visible is not None
    np.testing.assert_array_equal(scene.visible, KNOWN & (X > 9))
    assert scene.calibration is not None
    # A camera lies at minus the fourth column over the focal length; that of z, 0.003, moves both alike.
    expected = Calibration(fx=720, fy=720, cx=600, cy=170, baseline=382.5 / 720, doffs=0, width=WIDTH, height=HEIGHT)
    assert scene.calibration.baseline == pytest.approx(expected.baseline, rel=1e-12)
    assert replace(scene.calibration, baseline=expected.baseline) == expected


@pytest.mark.parametrize("truth", ["disp0.pfm", "disp.pfm", "disp0.png", "disp.png"])
@pytest.mark.parametrize("images", [("im0.png", "im1.png"), ("left.png", "right.png"), ("im0.tif", "im1.tif")])
def test_own_pairs_are_read_with_truth_in_either_format(tmp_path: Path, truth: str, images: tuple[str, str]) -> None:
    scene_folder = pair(tmp_path / "desk")
    for made, name in zip(("im0.png", "im1.png"), images, strict=True):
        (scene_folder / made).rename(scene_folder / name)
    if truth.endswith(".pfm"):
        pfm(scene_folder / truth, PLANE)
    else:
        png(scene_folder / truth, PLANE, 256)

    for given in (tmp_path, scene_folder):
        assert_holds(open_dataset("folder", given).load("desk"), PLANE)


@pytest.mark.parametrize("kind", ["folder", "eth3d", "sequence"])
def test_scenes_that_are_links_have_the_names_of_the_links(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("first", "second"):
        target = tmp_path / "store" / place / "scene"
        if kind == "sequence":
            write_archives(target, moving_rig(2))
        else:
            pfm(pair(target) / "disp0GT.pfm", PLANE)
        (tmp_path / "data").mkdir(exist_ok=True)
        (tmp_path / "data" / place).symlink_to(target)

    assert open_dataset(kind, tmp_path / "data").names == ("first", "second")
    monkeypatch.chdir(tmp_path / "data" / "first")
    assert open_dataset(kind, ".").names == (tmp_path.joinpath("store/first/scene").name,)  # "." is where a link led to


def test_own_pairs_need_no_truth(tmp_path: Path) -> None:
    pair(tmp_path / "desk")

    scene = open_dataset("folder", tmp_path).load("desk")

    assert np.isnan(scene.truth).all()
    assert np.isnan(scene.truth_paper).all()
    assert (scene.visible, scene.calibration, scene.max_disparity) == (None, None, None)


def test_a_mask_of_zeros_and_ones_means_the_ones(tmp_path: Path) -> None:
    folder = pair(tmp_path / "scene")
    pfm(folder / "disp0.pfm", PLANE)
    visible = masked(folder / "mask0nocc.png")
    write_png(folder / "mask0nocc.png", visible.astype(np.uint8))

    found = open_dataset("folder", tmp_path).load("scene").visible
    assert found is not None
    np.testing.assert_array_equal(found, visible)

    write_png(folder / "mask0nocc.png", np.zeros(visible.shape, np.uint8))
    with pytest.raises(InputError, match=r"mask0nocc\.png' marks no pixel as visible"):
        open_dataset("folder", tmp_path).load("scene")


@pytest.mark.parametrize("unknown", [0.0, -1.0, 9999.0])
def test_truth_that_seems_to_mark_what_is_unknown_by_a_number_gets_a_warning(tmp_path: Path, unknown: float) -> None:
    folder = pair(tmp_path / "scene")
    write_pfm(folder / "disp0.pfm", np.where(KNOWN, PLANE, unknown).astype(np.float32))

    with pytest.warns(PairWarning, match=f"% of '.*disp0.pfm' are exactly {unknown:g}, apart from the rest"):
        open_dataset("folder", tmp_path).load("scene")


def test_own_pairs_take_a_truth_of_the_right_view_and_a_calibration(tmp_path: Path) -> None:
    scene_folder = pair(tmp_path / "desk")
    everywhere = np.ones_like(KNOWN)
    pfm(scene_folder / "disp0.pfm", np.full_like(PLANE, 5), everywhere)
    pfm(scene_folder / "disp1.pfm", np.full_like(PLANE, 5), everywhere)
    (scene_folder / "calib.txt").write_text(calib())

    scene = open_dataset("folder", tmp_path).load("desk")

    assert scene.visible is not None
    np.testing.assert_array_equal(scene.visible, X >= 5)  # the others lie left of the right view
    assert scene.calibration == CALIBRATION


def test_the_left_right_check_finds_what_a_nearer_object_hides() -> None:
    # A card of disparity 10 covers columns 14 to 19 of the left view, 4 to 9 of the right; behind it all is at 4.
    left = np.where((X >= 14) & (X < 20), 10, 4).astype(np.float32)
    right = np.where((X >= 4) & (X < 10), 10, 4).astype(np.float32)

    visible = visible_in_both(left, right)

    background = (X < 14) | (X >= 20)
    hidden = background & (X - 4 >= 4) & (X - 4 < 10)
    np.testing.assert_array_equal(visible, ~hidden & (X - left >= 0))


@pytest.mark.parametrize(("difference", "same"), [(1.0, True), (1.25, False)])
def test_the_left_right_check_allows_one_pixel(difference: float, same: bool) -> None:
    left = np.full((1, 9), 3, np.float32)

    assert visible_in_both(left, left + np.float32(difference))[0, 3:].all() == same


def test_a_data_set_can_be_sent_to_another_process(tmp_path: Path) -> None:
    make_own(tmp_path)
    dataset = open_dataset("folder", tmp_path)

    sent = pickle.loads(pickle.dumps(dataset))

    assert sent == dataset
    np.testing.assert_array_equal(sent.load("desk").truth, dataset.load("desk").truth)


@pytest.mark.reference
def test_the_shared_middlebury_scenes_are_known_to_be_of_quarter_size() -> None:
    dataset = open_dataset("middlebury2014", data_folder() / "data" / "middlebury2014_q")

    scene = dataset.load("Motorcycle")

    assert dataset.names == ("Adirondack", "Motorcycle", "Piano", "Playtable", "Vintage")
    assert scene.left.shape == (398, 593, 3)  # the size that DATA.md gives
    assert scene.max_disparity == 56  # ndisp 70 x 0.8
    assert scene.calibration is not None
    assert scene.calibration.fx == pytest.approx(999.421 * 0.8)
    assert scene.visible is not None
    assert 0.5 < scene.visible.mean() < 1


@pytest.mark.reference
def test_the_shared_instereo2k_scenes_are_visible_in_both_views_nearly_everywhere() -> None:
    dataset = open_dataset("instereo2k", data_folder() / "data" / "instereo2k")

    assert dataset.names == ("000040", "000240", "000840", "001240")
    for name in dataset:
        scene = dataset.load(name)
        assert scene.visible is not None
        known = np.isfinite(scene.truth)
        assert not (scene.visible & ~known).any()
        assert scene.visible[known].mean() > 0.7


@pytest.mark.reference
def test_the_shared_night_pair_is_an_own_pair_with_sparse_truth() -> None:
    scene = open_dataset("folder", data_folder() / "data" / "night").load("robotcar_nighttime_00001")

    assert scene.left.shape == (820, 1280, 3)
    # Both as DATA.md has them.
    assert 100 * np.isfinite(scene.truth).mean() == pytest.approx(6.7, abs=0.1)
    assert 255 * scene.left.mean() == pytest.approx(9.6, abs=0.1)
