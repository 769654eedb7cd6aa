"""Sequences: both layouts give what was written, frames go dark one by one, and what is missing is named."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from moving_rig import moving_rig, pose_of, write_archives, write_kitti

from scotopic.depth import read_calibration
from scotopic.errors import InputError, SettingsError
from scotopic.evaluation.datasets import open_dataset
from scotopic.evaluation.protocol import CLEAN, record_scene
from scotopic.evaluation.sequence import StereoSequence
from scotopic.sensor import simulate_pair, to_uint8


@pytest.fixture(scope="module")
def rig() -> StereoSequence:
    return moving_rig(3, 48, 32)


def as_stored(image: np.ndarray) -> np.ndarray:
    return np.asarray(to_uint8(image) / np.float32(255))


def test_archives_give_frames_poses_truth_and_calibration(tmp_path: Path, rig: StereoSequence) -> None:
    known = np.ones((32, 48), np.bool_)
    known[:, :5] = False
    write_archives(tmp_path / "rig", rig, known)

    found = open_dataset("sequence", tmp_path).load("rig").sequence

    assert found is not None
    assert found.poses is not None
    assert rig.poses is not None
    assert len(found) == 3
    assert (found.calibration.fx, found.calibration.cy, found.calibration.baseline) == (48.0, rig.calibration.cy, 1.0)
    for k in range(3):
        np.testing.assert_array_equal(found.pairs[k][1], as_stored(rig.pairs[k][1]))  # clean, not left and right
        np.testing.assert_array_equal(found.truth(k), np.where(known, rig.truth(k), np.nan))
        np.testing.assert_allclose(found.poses[k], rig.poses[k], atol=1e-12)


def test_kitti_gives_frames_poses_and_calibration_and_no_truth(tmp_path: Path, rig: StereoSequence) -> None:
    write_kitti(tmp_path / "drive", rig)

    scene = open_dataset("kitti_sequence", tmp_path / "drive").load("drive")

    assert scene.sequence is not None
    assert scene.sequence.poses is not None
    assert rig.poses is not None
    assert np.isnan(scene.truth).all()
    np.testing.assert_array_equal(scene.sequence.pairs[2][0], as_stored(rig.pairs[2][0]))
    np.testing.assert_allclose(scene.sequence.poses[2], rig.poses[2], atol=1e-8)
    assert scene.sequence.calibration.baseline == pytest.approx(1.0)
    assert (scene.sequence.calibration.width, scene.sequence.calibration.height) == (48, 32)


def test_poses_lead_to_the_first_frame_wherever_the_world_begins(tmp_path: Path, rig: StereoSequence) -> None:
    assert rig.poses is not None
    world = pose_of((10.0, -2.0, 5.0), 30.0)
    write_kitti(tmp_path, replace(rig, poses=tuple(world @ pose for pose in rig.poses)))

    found = open_dataset("sequence", tmp_path).load(tmp_path.name).sequence

    assert found is not None
    assert found.poses is not None
    np.testing.assert_allclose(found.poses[1], rig.poses[1], atol=1e-7)


def test_a_folder_of_both_layouts_is_a_data_set(tmp_path: Path, rig: StereoSequence) -> None:
    write_archives(tmp_path / "a", rig)
    write_kitti(tmp_path / "b", rig)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "made.txt").write_text("by hand")

    assert open_dataset("sequence", tmp_path).names == ("a", "b")


def test_each_frame_has_noise_of_its_own_and_the_last_is_the_pair(tmp_path: Path, rig: StereoSequence) -> None:
    scene = open_dataset("sequence", write_archives(tmp_path / "rig", rig)).load("rig")

    left, right, recorded = record_scene(scene, 2, 2, 7, frames=2)

    assert len(recorded.recorded) == 2
    expected = [simulate_pair(*(as_stored(view) for view in rig.pairs[k]), 2, 2, 7 + 1000 * k) for k in range(2)]
    for pair, wanted in zip(recorded.recorded, expected, strict=True):
        np.testing.assert_array_equal(pair, wanted)
    np.testing.assert_array_equal((left, right), expected[1])
    np.testing.assert_array_equal(recorded.truth, rig.truth(1))
    np.testing.assert_array_equal(recorded.left, as_stored(rig.pairs[1][0]))


def test_clean_frames_are_all_frames_as_they_are(tmp_path: Path, rig: StereoSequence) -> None:
    scene = open_dataset("sequence", write_archives(tmp_path / "rig", rig)).load("rig")

    left, _, recorded = record_scene(scene, 2, 2, 0, frames=CLEAN)

    assert len(recorded.recorded) == 3
    np.testing.assert_array_equal(left, as_stored(rig.pairs[2][0]))


def test_more_frames_than_there_are_is_an_error(tmp_path: Path, rig: StereoSequence) -> None:
    scene = open_dataset("sequence", write_archives(tmp_path / "rig", rig)).load("rig")

    with pytest.raises(InputError, match=r"'rig' has 3 frames, not 16"):
        record_scene(scene, 2, 2, 0, frames=16)


@pytest.mark.parametrize("frames", [2, CLEAN])
def test_a_method_that_writes_into_what_it_is_given_changes_nothing_for_the_next(
    tmp_path: Path, rig: StereoSequence, frames: int
) -> None:
    write_archives(tmp_path / "rig", rig)

    def record() -> list[np.ndarray]:
        loaded = open_dataset("sequence", tmp_path).load("rig")  # the frames are kept between two tasks
        left, right, scene = record_scene(loaded, 2, 2, 0, frames)
        assert scene.recorded is not None
        return [left, right, scene.left, scene.right, scene.truth, scene.truth_paper, *scene.recorded[0]]

    before = [array.copy() for array in record()]
    for array in record():
        array[:] = 0.25

    for again, first in zip(record(), before, strict=True):
        np.testing.assert_array_equal(again, first)


def test_a_sequence_is_not_scaled(tmp_path: Path, rig: StereoSequence) -> None:
    write_archives(tmp_path / "rig", rig)

    with pytest.raises(SettingsError, match="'rig' of sequence cannot be scaled"):
        open_dataset("sequence", tmp_path, scale=0.5).load("rig")


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("poses.txt", "1 0 0 0 0 1 0 0 0 0 1 0\n1 2 3\n", r"poses\.txt' line 2 is not 12 numbers"),
        ("poses.txt", "1 0 0 0 0 1 0 0 0 0 1 0\n", "has 3 frames, but 1 poses"),
        ("poses.txt", "2 0 0 0 0 2 0 0 0 0 2 0\n" * 3, r"poses\.txt' holds a pose that is no rotation"),
        ("poses.txt", "1 0 0 nan 0 1 0 0 0 0 1 0\n" * 3, r"poses\.txt' holds a pose that is no rotation"),
        ("poses.txt", "1 0 0 0 0 1 0 0 0 0 -1 0\n" * 3, r"poses\.txt' holds a pose that is no rotation"),
        ("poses.txt", "1 0 0 0 0 1 0 0 0 0 1 \ud800\n" * 3, r"poses\.txt' cannot be read"),
        ("calib.txt", None, r"has no calib\.txt"),
        ("image_r/000001.png", None, "hold pictures of different names"),
    ],
)
def test_what_is_missing_or_broken_is_named(
    tmp_path: Path, rig: StereoSequence, file: str, text: str | None, message: str
) -> None:
    write_kitti(tmp_path, rig)
    if text is None:
        (tmp_path / file).unlink()
    else:
        (tmp_path / file).write_bytes(text.encode(errors="surrogatepass"))  # not always UTF-8

    with pytest.raises(InputError, match=message):
        open_dataset("sequence", tmp_path).load(tmp_path.name)


def test_an_archive_without_images_is_named(tmp_path: Path, rig: StereoSequence) -> None:
    folder = write_archives(tmp_path / "rig", rig)
    np.savez(folder / "001.npz", left=np.zeros((32, 48, 3), np.uint8))

    with pytest.raises(InputError, match=r"001\.npz' has no array 'right'"):
        open_dataset("sequence", folder).load("rig")


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("pose", np.full((4, 4), "1"), "'pose' of <U1"),
        ("pose", np.diag([1.0, 1, 1, 0]), "no rotation and translation"),
        ("disparity", np.zeros((32, 48), [("a", "f4")]), "'disparity' of"),
        ("known", np.ones((31, 48), np.bool_), r"'known' of shape \(31, 48\)"),
        ("known", np.full((32, 48), "M8[s]"), "'known' of"),
        ("clean_left", np.full((32, 48, 4), "a"), "values of type <U1|shape"),
    ],
)
def test_an_archive_with_arrays_of_another_kind_is_named(
    tmp_path: Path, rig: StereoSequence, name: str, values: np.ndarray, message: str
) -> None:
    folder = write_archives(tmp_path / "rig", rig)
    np.savez(folder / "001.npz", **{**np.load(folder / "001.npz"), name: values})

    with pytest.raises(InputError, match=message):
        open_dataset("sequence", folder).load("rig")


# --- the calibration beside KITTI's frames ---------------------------------------------------------------------------

LEFT = "7.070912000000e+02 0.000000000000e+00 6.018873000000e+02 0.000000000000e+00 " + (
    "0.000000000000e+00 7.070912000000e+02 1.831104000000e+02 0.000000000000e+00 "
    "0.000000000000e+00 0.000000000000e+00 1.000000000000e+00 0.000000000000e+00"
)
RIGHT = LEFT.replace("6.018873000000e+02 0.000000000000e+00", "6.018873000000e+02 -3.798145000000e+02")


@pytest.mark.parametrize("end", ["", "\n"])
def test_two_projection_matrices_are_a_calibration(tmp_path: Path, end: str) -> None:
    (tmp_path / "calib.txt").write_text(f"{LEFT}\n{RIGHT}{end}")

    found = read_calibration(tmp_path / "calib.txt")

    assert (found.fx, found.cx, found.cy, found.doffs) == (707.0912, 601.8873, 183.1104, 0.0)
    assert found.baseline == pytest.approx(379.8145 / 707.0912)


@pytest.mark.parametrize("cut", [1, 2, 3, 5])
def test_a_matrix_that_may_be_cut_short_is_refused(tmp_path: Path, cut: int) -> None:
    (tmp_path / "calib.txt").write_text(f"{LEFT}\n{RIGHT}"[:-cut])

    with pytest.raises(InputError, match=re.escape("no line break")):
        read_calibration(tmp_path / "calib.txt")
