"""Disparity maps in every format: they come back, other readers agree, and damaged files are refused."""

import os
import re
import zipfile
from pathlib import Path

import cv2
import numpy as np
import pytest
import tifffile
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from scotopic.errors import InputError, OutputError
from scotopic.io import (
    read_disparity,
    read_kitti_png,
    read_npz,
    read_pfm,
    read_tiff,
    write_disparity,
    write_kitti_png,
    write_npz,
    write_submission,
    write_tiff,
)
from scotopic.io.disparity import SUFFIXES

MAPS = npst.arrays(
    np.float32,
    npst.array_shapes(min_dims=2, max_dims=2, max_side=7),
    elements=st.just(np.nan) | st.floats(0, 255, width=32),
)


def example(seed: int = 0) -> np.ndarray:
    values = np.random.default_rng(seed).uniform(0, 200, (9, 14)).astype(np.float32)
    values[2, 3:6] = np.nan
    return values


def opencv_reads(path: Path) -> np.ndarray:
    image = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    assert image is not None
    return image


# --- one call for all -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".pfm", ".tif", ".tiff", ".npz"])
@given(values=MAPS)
@settings(max_examples=30, deadline=None)
def test_float_formats_come_back_exactly(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, values: np.ndarray
) -> None:
    path = tmp_path_factory.getbasetemp() / f"map{suffix}"

    write_disparity(path, values)

    np.testing.assert_array_equal(read_disparity(path), values)


@given(values=MAPS)
@settings(max_examples=60, deadline=None)
def test_sixteen_bits_come_back_within_half_a_step(
    tmp_path_factory: pytest.TempPathFactory, values: np.ndarray
) -> None:
    path = tmp_path_factory.getbasetemp() / "map.png"

    write_disparity(path, values)
    back = read_disparity(path)

    np.testing.assert_array_equal(np.isnan(back), np.isnan(values))
    # Half a step, but 0 is taken: the smallest stored value is 1 / 256.
    assert np.all(np.isnan(values) | (np.abs(back - values) <= np.where(values < 1 / 512, 1 / 256, 0.5001 / 256)))


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("unknown", [np.nan, np.inf, -np.inf])
def test_every_format_has_its_mark_for_none(tmp_path: Path, suffix: str, unknown: float) -> None:
    path = tmp_path / f"map{suffix}"

    write_disparity(path, np.array([[1.0, unknown], [2.0, 3.0]]))

    np.testing.assert_array_equal(read_disparity(path), [[1, np.nan], [2, 3]])


def test_an_unknown_ending_is_refused_with_those_that_are_known(tmp_path: Path) -> None:
    for act in (lambda: write_disparity(tmp_path / "map.bmp", example()), lambda: read_disparity(tmp_path / "map.bmp")):
        with pytest.raises(InputError, match=r"\.pfm, \.png, \.tif"):
            act()


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("bad", [np.zeros((2, 2), np.uint8), np.zeros(4), np.zeros((2, 2, 3)), np.zeros((0, 3))])
def test_what_is_no_map_is_not_written(tmp_path: Path, suffix: str, bad: np.ndarray) -> None:
    with pytest.raises(InputError, match="shape"):
        write_disparity(tmp_path / f"map{suffix}", bad)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_damaged_file_is_refused_by_name(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"map{suffix}"
    path.write_bytes(b"nothing of the kind")

    with pytest.raises(InputError, match=re.escape(path.name)):
        read_disparity(path)


@pytest.mark.parametrize("suffix", [".pfm", ".png", ".tiff", ".npz"])
def test_a_cut_file_is_refused(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"map{suffix}"
    write_disparity(path, example())
    path.write_bytes(path.read_bytes()[:-20])

    with pytest.raises(InputError):
        read_disparity(path)


# --- against OpenCV -------------------------------------------------------------------------------------------------


def test_opencv_reads_our_png_as_kitti_means_it(tmp_path: Path) -> None:
    values = example()

    write_kitti_png(tmp_path / "map.png", values)

    theirs = opencv_reads(tmp_path / "map.png")
    assert theirs.dtype == np.uint16
    np.testing.assert_array_equal(theirs, np.where(np.isnan(values), 0, np.rint(np.nan_to_num(values) * 256)))


def test_we_read_a_png_that_opencv_wrote(tmp_path: Path) -> None:
    pixels = np.array([[0, 256, 384], [1, 65535, 2]], np.uint16)
    cv2.imwrite(str(tmp_path / "map.png"), pixels)

    np.testing.assert_array_equal(
        read_kitti_png(tmp_path / "map.png"), np.array([[np.nan, 1, 1.5], [1 / 256, 65535 / 256, 2 / 256]], np.float32)
    )


@pytest.mark.parametrize("bits", [16, 32])
def test_opencv_reads_our_tiff(tmp_path: Path, bits: int) -> None:
    values = example()

    write_tiff(tmp_path / "map.tiff", values, bits)

    theirs = opencv_reads(tmp_path / "map.tiff")
    expected = values if bits == 32 else np.where(np.isnan(values), 0, np.rint(np.nan_to_num(values) * 256))
    assert theirs.dtype == (np.float32 if bits == 32 else np.uint16)
    np.testing.assert_array_equal(theirs, expected)


@pytest.mark.parametrize("kind", [np.uint16, np.float32])
def test_we_read_a_tiff_that_opencv_wrote(tmp_path: Path, kind: type) -> None:
    pixels = np.array([[512, 256, 384], [1, 60000, 2]]).astype(kind)
    cv2.imwrite(str(tmp_path / "map.tiff"), pixels)

    np.testing.assert_array_equal(
        read_tiff(tmp_path / "map.tiff"), pixels.astype(np.float32) / (256 if kind is np.uint16 else 1)
    )


# --- what else files hold -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("bits", "meaning"), [(32, "value, NaN = none"), (16, "value / 256, 0 = none")])
def test_a_tiff_says_what_its_values_mean(tmp_path: Path, bits: int, meaning: str) -> None:
    write_tiff(tmp_path / "map.tiff", example(), bits)

    with tifffile.TiffFile(tmp_path / "map.tiff") as file:
        assert file.pages[0].description == meaning
        values = file.pages[0].asarray()
    expected = np.nan_to_num(example()) * 256 if bits == 16 else example()
    np.testing.assert_allclose(values, expected, atol=0.5 if bits == 16 else 0)


def test_npz_has_a_version_and_no_pickles(tmp_path: Path) -> None:
    path = tmp_path / "map.npz"
    write_disparity(path, example())
    with np.load(path, allow_pickle=False) as file:
        assert int(file["format"]) == 1
        np.testing.assert_array_equal(file["disparity"], example())

    write_npz(path, {"disparity": example()}, 2)
    with pytest.raises(InputError, match="Upgrade"):
        read_disparity(path)
    np.savez(path, disparity=example())  # of others, without a version
    np.testing.assert_array_equal(read_disparity(path), example())
    np.savez(path, disparity=np.array([[{"a": 1}]], object))
    with pytest.raises(InputError, match=r"map\.npz"):
        read_disparity(path)
    with pytest.raises(InputError, match="cannot be stored"):
        write_npz(path, {"a": np.array([None], object)}, 1)


def test_an_npz_whose_header_claims_gigabytes_is_refused_before_they_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "map.npz"
    write_npz(path, {"disparity": np.zeros((10, 10), np.float32)}, 1)
    with zipfile.ZipFile(path) as archive:
        content = archive.read("disparity.npy")
    lie = content.replace(b"(10, 10), }" + b" " * 14, b"(1000000000, 10), }" + b" " * 6)
    assert len(lie) == len(content)
    assert lie != content
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("disparity.npy", lie)

    with pytest.raises(InputError, match="claims 40000000000 bytes"):
        read_npz(path)


def test_the_same_map_gives_the_same_bytes(tmp_path: Path) -> None:
    for suffix in (".pfm", ".png", ".tiff", ".npz"):
        for name in ("one", "two"):
            write_disparity(tmp_path / f"{name}{suffix}", example())
        assert (tmp_path / f"one{suffix}").read_bytes() == (tmp_path / f"two{suffix}").read_bytes(), suffix


# --- what 16 bits cannot hold ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [-0.5, 256.0, 1e9])
def test_what_sixteen_bits_cannot_hold_is_refused(tmp_path: Path, value: float) -> None:
    values = np.array([[1.0, value]])

    with pytest.raises(InputError, match="PFM, NPZ or 32-bit TIFF"):
        write_kitti_png(tmp_path / "map.png", values)
    with pytest.raises(InputError, match="PFM, NPZ or 32-bit TIFF"):
        write_tiff(tmp_path / "map.tiff", values, 16)
    assert list(tmp_path.iterdir()) == []


# --- Middlebury's submission ----------------------------------------------------------------------------------------


def test_a_submission_has_middleburys_names_and_comes_back(tmp_path: Path) -> None:
    dense, sparse = np.full((3, 4), 5.0), np.full((3, 4), 5.0)
    sparse[1] = np.nan

    folder = write_submission(tmp_path / "trainingQ" / "Adirondack", "ALG", dense, sparse, 2.5)

    assert sorted(os.listdir(folder)) == ["disp0ALG.pfm", "disp0ALG_s.pfm", "timeALG.txt"]
    assert np.isposinf(read_pfm(folder / "disp0ALG_s.pfm")[1]).all()
    assert float((folder / "timeALG.txt").read_text()) == 2.5
    np.testing.assert_array_equal(read_disparity(folder / "disp0ALG.pfm"), dense)
    np.testing.assert_array_equal(read_disparity(folder / "disp0ALG_s.pfm"), sparse)


def test_a_submission_is_not_overwritten_nor_half_written(tmp_path: Path) -> None:
    values = np.ones((3, 4))
    write_submission(tmp_path, "ALG", values, values, 1.0)

    with pytest.raises(OutputError, match="already holds"):
        write_submission(tmp_path, "ALG", values, values, 1.0)
    with pytest.raises(InputError, match="shape"):
        write_submission(tmp_path / "new", "ALG", values, values[:2], 1.0)
    with pytest.raises(InputError, match="method name"):
        write_submission(tmp_path / "new", "../ALG", values, values, 1.0)
    with pytest.raises(InputError, match="seconds"):
        write_submission(tmp_path / "new", "ALG", values, values, float("nan"))
    assert not (tmp_path / "new").exists()


def test_values_beyond_single_precision_are_unknown(tmp_path: Path) -> None:
    np.savez(tmp_path / "map.npz", disparity=np.array([[1e300, 2.0], [-1e300, np.inf]]))

    np.testing.assert_array_equal(read_disparity(tmp_path / "map.npz"), np.array([[np.nan, 2], [np.nan, np.nan]]))
