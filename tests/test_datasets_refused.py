"""Data sets that cannot be read: the folder, scene or file is named, and the other scenes are read."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from dataset_folders import (
    HEIGHT,
    LEFT_IMAGES,
    MAKERS,
    WIDTH,
    calib,
    make_eth3d,
    make_instereo,
    make_kitti,
    make_own,
    make_sdk,
    views,
)

from scotopic.errors import InputError, PairWarning, SettingsError
from scotopic.evaluation.datasets import DATASETS, open_dataset
from scotopic.io import write_png


@pytest.mark.parametrize("kind", MAKERS)
def test_one_broken_scene_is_named_and_does_not_stop_the_others(tmp_path: Path, kind: str) -> None:
    MAKERS[kind](tmp_path)
    name = next(iter(open_dataset(kind, tmp_path)))
    if kind == "kitti2015":
        make_kitti(tmp_path, "000008")
        broken, file = "000008_10", tmp_path / "training" / "image_2" / "000008_10.png"
    else:
        place = open_dataset(kind, tmp_path).places[0].folder
        broken, file = "zz", place.parent / "zz" / LEFT_IMAGES.get(kind, "im0.png")
        shutil.copytree(place, place.parent / "zz")
    file.write_bytes(file.read_bytes()[:-40])

    dataset = open_dataset(kind, tmp_path)

    assert set(dataset.names) == {name, broken}
    assert dataset.load(name).truth.size
    with pytest.raises(InputError, match=r"cut short|not a zip file") as caught:
        dataset.load(broken)
    assert repr(str(file)) in str(caught.value)


def test_an_empty_folder_beside_scenes_is_a_broken_scene_and_not_skipped(tmp_path: Path) -> None:
    make_eth3d(tmp_path)
    (tmp_path / "lost").mkdir()
    (tmp_path / ".cache").mkdir()
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "notes.txt").write_text("not a scene")

    dataset = open_dataset("eth3d", tmp_path)

    assert dataset.names == ("forest_1l", "lost")
    with pytest.raises(InputError, match=r"lost.im0\.png"):
        dataset.load("lost")


@pytest.mark.parametrize("kind", [kind for kind in MAKERS if kind != "kitti2015"])
def test_scenes_one_level_deeper_than_others_are_told_of(tmp_path: Path, kind: str) -> None:
    MAKERS[kind](tmp_path)
    place = open_dataset(kind, tmp_path).places[0]
    shutil.copytree(place.folder, place.folder.parent / "more" / "deep")

    with pytest.warns(PairWarning, match=r"Scenes in '.*more' are not taken") as told:
        found = open_dataset(kind, tmp_path)

    assert "deep" not in found.names
    assert len(told) == 1


@pytest.mark.parametrize(
    ("copies", "expected"),
    [
        ({"disp.png": "disp0.png"}, ["disp0.png' is read, and not 'disp.png' beside it"]),
        ({"right.png": "right.tif"}, ["right.png' is read, and not 'right.tif' beside it"]),
        (
            {"left.png": "im0.png", "right.png": "im1.png"},
            ["im0.png' is read, and not 'left.png'", "im1.png' is read, and not 'right.png'"],
        ),
    ],
)
def test_files_that_may_be_meant_as_well_as_those_of_a_scene_are_told_of(
    tmp_path: Path, copies: dict[str, str], expected: list[str]
) -> None:
    make_own(tmp_path)
    for file, copy in copies.items():
        shutil.copy(tmp_path / "desk" / file, tmp_path / "desk" / copy)

    with pytest.warns(PairWarning) as told:
        open_dataset("folder", tmp_path).load("desk")

    assert len(told) == len(expected)
    assert all(words in str(each.message) for words, each in zip(expected, told, strict=True))


def test_a_broken_pfm_is_named(tmp_path: Path) -> None:
    make_eth3d(tmp_path)
    file = tmp_path / "forest_1l" / "disp0GT.pfm"
    file.write_bytes(file.read_bytes()[:-4])

    with pytest.raises(InputError, match=r"disp0GT\.pfm' is not a readable PFM.*cut short"):
        open_dataset("eth3d", tmp_path).load("forest_1l")


def test_missing_truth_is_named(tmp_path: Path) -> None:
    make_sdk(tmp_path)
    (tmp_path / "trainingF" / "Bike" / "disp0GT.pfm").unlink()

    with pytest.raises(InputError, match=r"disp0\.pfm' cannot be opened"):
        open_dataset("middlebury2014", tmp_path).load("Bike")


def test_truth_of_another_size_is_named_with_both_sizes(tmp_path: Path) -> None:
    make_instereo(tmp_path)
    write_png(tmp_path / "test" / "000040" / "left_disp.png", np.full((HEIGHT, WIDTH - 1), 700, np.uint16))

    with pytest.raises(InputError, match=r"left_disp\.png' is 23 x 6, but the image beside it is 24 x 6"):
        open_dataset("instereo2k", tmp_path).load("000040")


def test_views_of_two_sizes_are_refused(tmp_path: Path) -> None:
    make_own(tmp_path)
    write_png(tmp_path / "desk" / "right.png", views(HEIGHT, WIDTH - 2)[1])

    with pytest.raises(InputError, match=r"right\.png' is 22 x 6 of 3 channels, 'left\.png' is 24 x 6"):
        open_dataset("folder", tmp_path).load("desk")


def test_truth_made_for_viewing_is_refused(tmp_path: Path) -> None:
    make_own(tmp_path)
    write_png(tmp_path / "desk" / "disp.png", np.full((HEIGHT, WIDTH), 80, np.uint8))

    with pytest.raises(InputError, match=r"disp\.png' holds uint8 values instead of 16 bits"):
        open_dataset("folder", tmp_path).load("desk")

    write_png(tmp_path / "desk" / "disp.png", views()[0])
    with pytest.raises(InputError, match=r"disp\.png' has 3 channels instead of one"):
        open_dataset("folder", tmp_path).load("desk")


def test_a_pair_with_one_view_is_a_broken_scene(tmp_path: Path) -> None:
    make_own(tmp_path)
    (tmp_path / "desk" / "right.png").unlink()

    with pytest.raises(InputError, match="desk' holds no complete pair"):
        open_dataset("folder", tmp_path).load("desk")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (calib(width=99), f"' is for images of 99 x {HEIGHT} px.* is {WIDTH} x {HEIGHT}"),
        (calib().replace("baseline=176.25", "baseline=wide"), "' line 4: 'wide' in baseline"),
        (calib().replace("cam0=", "camera="), "': 'cam0' is missing"),
        (calib().replace("1000.5 0 11.5", "1000.5 nan 11.5"), "' line 1: 'nan' in cam0"),
    ],
)
def test_a_calibration_that_cannot_be_right_is_named(tmp_path: Path, text: str, message: str) -> None:
    make_eth3d(tmp_path)
    (tmp_path / "forest_1l" / "calib.txt").write_text(text)

    with pytest.raises(InputError, match=rf"calib\.txt{message}"):
        open_dataset("eth3d", tmp_path).load("forest_1l")


@pytest.mark.parametrize("kind", DATASETS)
def test_a_folder_without_scenes_is_named_with_what_it_holds_and_the_layout_expected(tmp_path: Path, kind: str) -> None:
    with pytest.raises(InputError, match="it holds nothing") as empty:
        open_dataset(kind, tmp_path)
    (tmp_path / "holiday.jpg").write_bytes(b"")
    with pytest.raises(InputError, match=r"it holds 'holiday\.jpg'") as odd:
        open_dataset(kind, tmp_path)
    with pytest.raises(InputError, match="does not exist") as missing:
        open_dataset(kind, tmp_path / "nowhere")
    with pytest.raises(InputError, match="is not a folder"):
        open_dataset(kind, tmp_path / "holiday.jpg")

    for caught in (empty, odd, missing):
        assert DATASETS[kind].layout in str(caught.value)
        assert str(tmp_path) in str(caught.value)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir(mode=0)
    try:
        with pytest.raises(InputError, match="closed"):
            open_dataset("folder", folder)
    finally:
        folder.chmod(0o700)


def test_unknown_kinds_sizes_scales_and_scenes_are_refused_with_the_choices(tmp_path: Path) -> None:
    make_own(tmp_path)

    with pytest.raises(SettingsError, match=r"'middlebury' is unknown\..* Choose one of middlebury2014, "):
        open_dataset("middlebury", tmp_path)
    with pytest.raises(SettingsError, match=r"no size 'third'\. Choose full or half or quarter"):
        open_dataset("middlebury2014", tmp_path, size="third")
    with pytest.raises(SettingsError, match=r"scale.* 2"):
        open_dataset("folder", tmp_path, scale=2)
    with pytest.raises(InputError, match=r"no scene 'chair' in .*, which has 'desk'"):
        open_dataset("folder", tmp_path).load("chair")
