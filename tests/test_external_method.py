"""Disparity maps made elsewhere: where they are looked for, what their files mean, and how they are refused."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from shifted_scene import CANDIDATES, shifted_scene

from scotopic.errors import InputError, PairWarning, SettingsError
from scotopic.evaluation.method import Prediction
from scotopic.evaluation.methods import get_method
from scotopic.io import write_pfm, write_png

SCENE = shifted_scene(height=4, width=5)
SHAPE = SCENE.truth.shape
VALUES = np.arange(20, dtype=np.float32).reshape(SHAPE) / 4


def read(folder: Path) -> Prediction:
    return get_method(f"external:theirs={folder}")(SCENE.left, SCENE.right, SCENE, CANDIDATES)


def refusal(folder: Path) -> str:
    with pytest.raises(InputError) as caught:
        read(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def with_unknown(value: float) -> np.ndarray:
    values = VALUES.copy()
    values[1, 2] = value
    return values


def test_a_pfm_is_read_with_everything_that_is_not_finite_unknown(tmp_path: Path) -> None:
    for unknown in (np.inf, -np.inf, np.nan):
        write_pfm(tmp_path / "shifted.pfm", with_unknown(unknown))

        found = read(tmp_path)

        np.testing.assert_array_equal(found.disparity, with_unknown(np.nan))
        np.testing.assert_array_equal(found.dense, found.disparity)
        assert found.disparity.dtype == np.float32


def test_a_png_is_divided_by_256_with_zero_unknown(tmp_path: Path) -> None:
    write_png(tmp_path / "shifted.png", (VALUES * 256).astype(np.uint16))

    np.testing.assert_array_equal(read(tmp_path).disparity, np.where(VALUES == 0, np.nan, VALUES))


@pytest.mark.parametrize("name", ["disparity", "arr_0"])
def test_an_npz_is_read_by_name_or_by_having_none(tmp_path: Path, name: str) -> None:
    np.savez(tmp_path / "shifted.npz", **{name: with_unknown(np.nan).astype(np.float64)})

    np.testing.assert_array_equal(read(tmp_path).disparity, with_unknown(np.nan))


def test_the_folder_of_the_data_set_comes_first(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    write_pfm(tmp_path / "shifted.pfm", VALUES)
    write_pfm(tmp_path / "made" / "shifted.pfm", VALUES + 1)

    np.testing.assert_array_equal(read(tmp_path).disparity, VALUES + 1)


def test_answers_outside_the_candidates_are_scored_as_they_are(tmp_path: Path) -> None:
    write_pfm(tmp_path / "shifted.pfm", with_unknown(-3) + 100)

    assert read(tmp_path).disparity.min() >= 97
    assert np.isfinite(read(tmp_path).disparity).all()


@pytest.mark.parametrize("kind", ["unknown", "factor", "depth"])
def test_maps_that_are_no_disparities_get_the_warnings_of_evaluate(tmp_path: Path, kind: str) -> None:
    rows, columns = np.mgrid[:20, :30].astype(np.float32)
    truth = 4 + columns / 3 + rows / 7
    scene = replace(SCENE, left=np.zeros((20, 30, 3), np.float32), truth=truth)
    made = {"unknown": np.where(columns < 3, 0, truth), "factor": 1.5 * truth, "depth": 30 / truth}[kind]
    expected = {"unknown": "are exactly 0, apart from", "factor": "1.5 times the truth", "depth": "looks like a depth"}
    write_pfm(tmp_path / "shifted.pfm", made.astype(np.float32))

    with pytest.warns(PairWarning, match=expected[kind]):
        get_method(f"external:theirs={tmp_path}")(scene.left, scene.left, scene, CANDIDATES)


def test_confidence_is_read_beside_the_map_or_from_the_npz(tmp_path: Path) -> None:
    np.savez(tmp_path / "shifted.npz", disparity=VALUES, confidence=VALUES + 1)
    np.testing.assert_array_equal(read(tmp_path).confidence, VALUES + 1)

    write_pfm(tmp_path / "shifted_confidence.pfm", VALUES + 2)
    np.testing.assert_array_equal(read(tmp_path).confidence, VALUES + 2)


@pytest.mark.parametrize("ending", [".npy", ".npz"])
def test_confidence_may_have_any_of_the_formats(tmp_path: Path, ending: str) -> None:
    write_pfm(tmp_path / "shifted.pfm", VALUES)
    if ending == ".npy":
        np.save(tmp_path / "shifted_confidence.npy", VALUES + 2)
    else:
        np.savez(tmp_path / "shifted_confidence.npz", confidence=VALUES + 2)

    np.testing.assert_array_equal(read(tmp_path).confidence, VALUES + 2)


def test_a_map_in_two_formats_is_told_of_since_one_may_be_of_an_earlier_run(tmp_path: Path) -> None:
    write_pfm(tmp_path / "shifted.pfm", VALUES)
    np.save(tmp_path / "shifted.npy", VALUES + 1)

    with pytest.warns(PairWarning, match=r"shifted.pfm' is read, and not 'shifted.npy' beside it"):
        found = read(tmp_path)

    np.testing.assert_array_equal(found.disparity, VALUES)


def test_without_confidence_all_pixels_are_equally_sure(tmp_path: Path) -> None:
    write_pfm(tmp_path / "shifted.pfm", VALUES)

    np.testing.assert_array_equal(read(tmp_path).confidence, np.ones(SHAPE))


def test_confidence_that_is_not_finite_is_the_least(tmp_path: Path) -> None:
    write_pfm(tmp_path / "shifted.pfm", VALUES)
    write_pfm(tmp_path / "shifted_confidence.pfm", with_unknown(np.nan) + 3)

    np.testing.assert_array_equal(read(tmp_path).confidence, with_unknown(0) + 3)


def test_a_missing_map_is_named_with_both_places(tmp_path: Path) -> None:
    message = refusal(tmp_path)

    assert "made/shifted" in message
    assert repr(str(tmp_path / "made" / "shifted.pfm")) in message
    assert repr(str(tmp_path / "shifted.pfm")) in message


def test_maps_of_another_size_are_refused_with_the_file_and_both_sizes(tmp_path: Path) -> None:
    write_pfm(tmp_path / "shifted.pfm", np.zeros((8, 10), np.float32))
    assert "10 x 8 px" in refusal(tmp_path)
    assert "5 x 4 px" in refusal(tmp_path)
    assert "shifted.pfm" in refusal(tmp_path)

    write_pfm(tmp_path / "shifted.pfm", np.zeros((4, 5, 3), np.float32))
    assert "(4, 5, 3)" in refusal(tmp_path)

    write_pfm(tmp_path / "shifted.pfm", VALUES)
    write_pfm(tmp_path / "shifted_confidence.pfm", VALUES[:2])
    assert "5 x 2 px" in refusal(tmp_path)
    assert "shifted_confidence.pfm" in refusal(tmp_path)


def test_a_png_of_8_bits_is_refused(tmp_path: Path) -> None:
    write_png(tmp_path / "shifted.png", VALUES.astype(np.uint8))

    assert "8 bits" in refusal(tmp_path)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 and then nothing", b"Pf\n5 4\n-1\n"])
@pytest.mark.parametrize("ending", ["pfm", "png", "npz"])
def test_a_damaged_file_is_refused_by_name(tmp_path: Path, ending: str, content: bytes) -> None:
    (tmp_path / f"shifted.{ending}").write_bytes(content)

    assert f"shifted.{ending}" in refusal(tmp_path)


def test_an_npz_with_pickled_objects_is_refused_and_not_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "shifted.npz", disparity=np.array([{"a": 1}], dtype=object))

    assert "shifted.npz" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("arrays", "found"),
    [
        ({"a": VALUES, "b": VALUES}, "no 'disparity'"),
        ({"disparity": VALUES.astype(str)}, "channel of numbers"),
        ({"disparity": VALUES + 1j}, "channel of numbers"),
    ],
)
def test_an_npz_without_a_map_of_numbers_is_refused(tmp_path: Path, arrays: dict[str, np.ndarray], found: str) -> None:
    np.savez(tmp_path / "shifted.npz", **arrays)

    assert found in refusal(tmp_path)


def test_a_missing_folder_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere"):
        get_method(f"external:theirs={tmp_path / 'nowhere'}")


@pytest.mark.parametrize("text", ["", "theirs", "theirs=", "=folder", "a/b=folder", "../x=folder", "a:b=folder"])
def test_a_spec_without_a_usable_name_and_a_folder_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="external:"):
        get_method(f"external:{text}")


def test_the_name_of_a_built_in_method_is_taken(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="taken"):
        get_method(f"external:classical={tmp_path}")
    assert get_method(f"external:IGEV++={tmp_path}").name == "IGEV++"
