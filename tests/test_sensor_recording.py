"""Recordings: values as recorded unless asked otherwise, and a record of what was assumed."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import pytest
from rooms import room

import scotopic
from scotopic.errors import InputError, SettingsError
from scotopic.io import as_image, write_png
from scotopic.sensor import Recording, Sensor, linearize, read_picture, read_recording


def numbers(dtype: type) -> np.ndarray:
    return np.random.default_rng(0).integers(0, np.iinfo(dtype).max, (6, 8, 3), dtype=dtype, endpoint=True)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("suffix", [".png", ".tiff"])
def test_values_are_as_recorded_over_full_scale(tmp_path: Path, suffix: str, dtype: type) -> None:
    pixels, path = numbers(dtype), tmp_path / f"image{suffix}"
    cv2.imwrite(str(path), pixels[:, :, ::-1])

    recording = read_recording(path)

    np.testing.assert_allclose(recording.image, pixels / np.iinfo(dtype).max, rtol=1e-6)
    assert recording.assumed["linearized"] is None
    assert str(np.iinfo(dtype).max) in recording.assumed["values"]
    assert recording.assumed["file"] == str(path)


@pytest.mark.parametrize("kind", ["counts", "bit-planes", "raw"])
def test_what_is_linear_already_is_not_linearized_without_a_word(tmp_path: Path, kind: str) -> None:
    np.save(tmp_path / "planes.npy", np.ones((2, 8, 8), np.uint8))

    with pytest.raises(SettingsError, match="linear already"):
        read_recording(tmp_path / "planes.npy", kind, response="srgb", white=None if kind == "raw" else 2.0)


def test_an_unknown_treatment_of_mosaics_is_refused_whatever_the_file_is(tmp_path: Path) -> None:
    write_png(tmp_path / "image.png", numbers(np.uint8))

    with pytest.raises(SettingsError, match="binned, demosaiced, mosaic"):
        read_recording(tmp_path / "image.png", color="binnned")


def test_srgb_is_linearized_on_request_and_that_is_said(tmp_path: Path) -> None:
    write_png(tmp_path / "image.png", numbers(np.uint8))

    recording = read_picture(tmp_path / "image.png", response="srgb")

    np.testing.assert_allclose(recording.image, linearize(numbers(np.uint8) / 255), atol=1e-6)
    assert recording.assumed["linearized"] == "from srgb"


def test_a_recording_is_taken_for_an_image() -> None:
    scene = room(96, 64)
    left, right = Recording(scene.left), Recording(scene.right)
    chosen = {"preset": "fast", "patch_size": 16, "stride": 8, "max_disparity": 16, "refine_steps": 0}

    result = scotopic.match(left, right, **chosen)

    np.testing.assert_array_equal(as_image(left, "left"), scene.left)
    np.testing.assert_array_equal(result.disparity_all, scotopic.match(scene.left, scene.right, **chosen).disparity_all)


def test_numpy_takes_a_recording_in_any_type_and_copies_on_request() -> None:
    recording = Recording(np.ones((2, 2, 1), np.float32))

    assert np.asarray(recording, np.float64).dtype == np.float64
    copied = np.array(recording, copy=True)
    copied[:] = 0
    assert recording.image.all()


def test_the_report_is_json_and_carries_the_sensor() -> None:
    recording = Recording(np.ones((2, 2, 1), np.float32), Sensor.paper(), {"kind": "image"})

    report = json.loads(json.dumps(recording.report()))

    assert report["kind"] == "image"
    assert report["sensor"]["photons"] == 2
    assert Recording(recording.image).report() == {"sensor": None}


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.png"):
        read_recording(tmp_path / "none.png")
