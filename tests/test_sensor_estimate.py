"""The noise of a picture from the picture itself: on scenes made by code, and on the shared ones where they are."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

import cv2
import numpy as np
import pytest
from reference_data import SCENES as REFERENCES
from reference_data import data_folder, reference_scene
from rooms import room

from scotopic.errors import InputError
from scotopic.io import as_image, write_png
from scotopic.sensor import Sensor, noise_curve, simulate, simulate_pair, to_uint8
from scotopic.sensor.estimate import block_moments, rounding_steps

SCENES = (
    "middlebury2014_q/Adirondack/im0.png", "middlebury2014_q/Motorcycle/im0.png", "middlebury2014_q/Piano/im0.png",
    "middlebury2014_q/Playtable/im0.png", "middlebury2014_q/Vintage/im0.png", "instereo2k/test/000040/left.png",
    "instereo2k/test/000840/left.png", "instereo2k/test/001240/left.png",
)  # fmt: skip


@cache
def clean_scene(name: str) -> np.ndarray:
    """A shared scene at the size of the paper's experiments."""
    image = as_image(data_folder() / "data" / name, name)
    factor = 0.8 if name.startswith("middlebury") else 0.5
    return np.clip(cv2.resize(image, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA), 0, 1)


def spread(sensor: Sensor, level: float) -> float:
    """Standard deviation that the unclipped line gives at a level of light."""
    a, b = sensor.variance_line
    return math.sqrt(a * level * (sensor.white - sensor.black) + b)


@pytest.fixture(scope="module")
def rendered() -> np.ndarray:
    return room().left


def test_what_is_masked_is_left_out(rendered: np.ndarray) -> None:
    left, right = (simulate(rendered, 50, 2, seed) for seed in (0, 1))
    mask = np.zeros(left.shape, bool)
    mask[-left.shape[0] // 3 :] = True
    hidden = np.ma.masked_array(np.where(mask, np.nan, left), mask)  # whatever lies under it

    found = Sensor.estimate(hidden, np.ma.masked_array(right, mask))

    # What is not masked, alone; fifty-one levels are fifty photons.
    rest = slice(None, -left.shape[0] // 3)
    expected = Sensor.estimate(left[rest], right[rest])
    assert (found.photons, found.steps) == (expected.photons, expected.steps) == (50, 50)
    assert found.read_noise == pytest.approx(expected.read_noise, rel=0.05)


@pytest.mark.parametrize(("data_set", "name"), [(each, name) for each, names in REFERENCES.items() for name in names])
def test_noise_that_others_made_is_recognized(data_set: str, name: str) -> None:
    # The published implementation's own inputs: photon level 2, read noise 2, in 8 bits.
    images = reference_scene(data_set, name).images

    found = Sensor.estimate(images["left"], images["right"])

    assert found.photons == 2
    assert found.read_noise == pytest.approx(2.0, rel=0.06)


@pytest.mark.parametrize("photons", [2, 8, 32])
@pytest.mark.parametrize("name", SCENES)
def test_the_papers_noise_is_recognized_on_the_shared_scenes(name: str, photons: int) -> None:
    clean = clean_scene(name)

    found = Sensor.estimate(to_uint8(simulate(clean, photons, 2.0, seed=1)))

    assert found.photons == photons  # by the number of levels
    assert found.read_noise == pytest.approx(2.0, rel=0.15)
    assert spread(found, float(clean.mean())) == pytest.approx(
        spread(Sensor.paper(photons, 2.0), float(clean.mean())), rel=0.05
    )


@pytest.mark.parametrize("photons", [2, 8, 32, 200])
@pytest.mark.parametrize("name", SCENES[::2])
def test_without_levels_to_count_the_noise_of_an_8_bit_camera_is_found_as_well(name: str, photons: int) -> None:
    clean = clean_scene(name)
    camera = Sensor(photons, 2.0, steps=255)

    found = Sensor.estimate(camera.simulate(clean, seed=2))

    # How much noise there is; what part of it is read noise only a scene with dark and bright areas tells.
    assert spread(found, float(clean.mean())) == pytest.approx(spread(camera, float(clean.mean())), rel=0.07)
    assert 0.4 < found.photons / photons < 2.5


@pytest.mark.parametrize("name", SCENES[::2])
def test_a_clean_picture_is_found_clean(name: str) -> None:
    found = Sensor.estimate(data_folder() / "data" / name)

    # What these cameras left: at most a step or so of 8 bits.
    assert spread(found, 0.5) < 1.5 / 255


@pytest.mark.parametrize(("photons", "read_noise"), [(2, 2.0), (2, 1.0), (8, 2.0), (8, 4.0), (32, 2.0)])
def test_noise_on_a_rendered_scene_is_recovered(rendered: np.ndarray, photons: int, read_noise: float) -> None:
    found = Sensor.estimate(simulate(rendered, photons, read_noise, seed=3))

    assert found.photons == photons
    assert found.read_noise == pytest.approx(read_noise, rel=0.1)
    assert "number of levels" in found.source


@pytest.mark.parametrize("photons", [20, 100, 1000])
def test_photons_and_read_noise_of_flat_areas_are_told_apart(photons: int) -> None:
    steps = np.kron(np.linspace(0.05, 0.95, 16).reshape(4, 4), np.ones((100, 100)))
    camera = Sensor(photons, 3.0, steps=4095)

    found = Sensor.estimate(camera.simulate(steps, seed=4))

    assert found.photons == pytest.approx(photons, rel=0.1)
    assert found.read_noise == pytest.approx(3.0, rel=0.3)


def test_two_views_tell_more_than_one(rendered: np.ndarray) -> None:
    left, right = simulate_pair(rendered, room().right, 8, 2)

    pooled = Sensor.estimate(left, right)

    assert noise_curve([left, right]).error.mean() < noise_curve([left]).error.mean()
    assert pooled.read_noise == pytest.approx(2.0, rel=0.15)
    assert "pair" in pooled.source


def test_a_black_level_that_is_given_is_taken_into_account() -> None:
    steps = np.kron(np.linspace(0.0, 0.95, 16).reshape(4, 4), np.ones((100, 100)))
    camera = Sensor(100, 4.0, black=0.2, steps=4095)

    found = Sensor.estimate(camera.simulate(steps, seed=4), black=0.2)

    assert found.photons == pytest.approx(100, rel=0.1)
    assert found.read_noise == pytest.approx(4.0, rel=0.2)


def test_values_of_a_known_response_are_linearized_first() -> None:
    steps = np.kron(np.linspace(0.1, 0.9, 16).reshape(4, 4), np.ones((100, 100)))
    camera = Sensor(400, 2.0, steps=255, response="srgb")

    found = Sensor.estimate(camera.simulate(steps, seed=4), response="srgb")

    assert found.response == "srgb"
    assert found.photons == pytest.approx(400, rel=0.15)


def test_files_and_arrays_give_the_same(tmp_path: Path, rendered: np.ndarray) -> None:
    noisy = to_uint8(simulate(rendered, seed=1))
    write_png(tmp_path / "noisy.png", noisy)

    assert Sensor.estimate(tmp_path / "noisy.png") == Sensor.estimate(noisy)


@pytest.mark.parametrize(
    ("values", "steps"),
    [
        ([0, 127 / 255, 1], 2), ([0, 0.5, 1], 2), (np.arange(9) / 8, 8), (np.floor(255 * np.arange(33) / 32) / 255, 32),
        (np.arange(6) / 32, 32), (np.arange(256) / 255, 255), (np.arange(11) / 255, 255),
        (np.arange(4096) / 4095, 4095), (np.linspace(0, 1, 500) ** 1.7, None), ([0.3], None),
    ],
)  # fmt: skip
def test_the_steps_of_rounded_values_are_counted(values: list[float], steps: int | None) -> None:
    assert rounding_steps([np.array(values, np.float32)]) == steps


@pytest.mark.parametrize(
    "image", [np.zeros((200, 200), np.float32), np.full((200, 200), 0.3), np.random.default_rng(0).random((30, 30))]
)
def test_an_image_that_says_nothing_is_refused_with_what_to_do(image: np.ndarray) -> None:
    with pytest.raises(InputError, match="Use a larger or better exposed image, or flat fields"):
        Sensor.estimate(image)


def test_large_images_are_measured_a_part_at_a_time_with_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    planes = np.random.default_rng(0).random((2, 3, 40, 56))

    at_once = block_moments(planes)
    monkeypatch.setattr("scotopic.sensor.estimate._MOST_VALUES", 40 * 56)

    for found, expected in zip(block_moments(planes), at_once, strict=True):
        np.testing.assert_array_equal(found, expected)
