"""The photon transfer curve recovers a camera that is known, within its own standard errors."""

from __future__ import annotations

import math

import numpy as np
import pytest

from scotopic.errors import InputError
from scotopic.sensor import Sensor, photon_transfer

LIGHT = (0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8)
CAMERA = Sensor.from_data_sheet(gain=16 / 3, read_noise=3.0, bits=16, black_level=1600)


def flat(light: float, seed: int, frames: int = 4, side: int = 64, pattern: float = 0.05) -> np.ndarray:
    """Frames of a wall whose pixels differ by 5 % of their light: a fixed pattern that must cancel."""
    fixed = 1 + pattern * np.clip(np.random.default_rng(0).standard_normal((side, side)), -3, 3)
    stack = [
        CAMERA.simulate(np.clip(light * fixed, 0, 1), np.random.SeedSequence([seed, number]))
        for number in range(frames)
    ]
    return np.rint(np.stack(stack) * 65535).astype(np.uint16)


def exposures(seed: int) -> list[np.ndarray]:
    return [flat(light, 100 * seed + number) for number, light in enumerate(LIGHT)]


@pytest.mark.parametrize("seed", range(4))
def test_gain_read_noise_and_black_of_a_known_camera_are_recovered(seed: int) -> None:
    curve = photon_transfer(exposures(seed), dark=flat(0.0, 100 * seed + 99))

    # Standard error of a variance from three neighboring differences of n pixels: v sqrt((2 * 3 + 2) / (9 n)).
    pixels = 64 * 64
    assert abs(curve.sensor.gain - CAMERA.gain) < 4 * curve.gain_error
    assert curve.gain_error < 0.02 * CAMERA.gain
    read_error = CAMERA.read_noise * (0.5 * math.sqrt(8 / (9 * pixels)) + curve.gain_error / CAMERA.gain)
    assert abs(curve.sensor.read_noise - CAMERA.read_noise) < 4 * read_error
    assert curve.sensor.black * 65535 == pytest.approx(1600, abs=4 * 16 / math.sqrt(4 * pixels))


def test_pixels_that_are_masked_in_a_frame_are_left_out() -> None:
    hot = np.zeros((64, 64), bool)
    hot[::7, ::7] = True
    random = np.random.default_rng(0)

    def masked(stack: np.ndarray) -> np.ma.MaskedArray:
        spoiled = np.where(hot, random.integers(0, 65535, stack.shape, np.uint16), stack)
        return np.ma.masked_array(spoiled, np.broadcast_to(hot, stack.shape))

    dark, lit = flat(0.0, 99), exposures(0)
    # Of the same frames, only the good pixels, in a row.
    expected = photon_transfer([stack[:, None, ~hot] for stack in lit], dark=dark[:, None, ~hot]).sensor

    assert photon_transfer([masked(stack) for stack in lit], dark=masked(dark)).sensor == expected


def test_the_variance_of_each_exposure_is_shot_plus_read_noise() -> None:
    curve = photon_transfer(exposures(1), dark=flat(0.0, 199))

    gain = CAMERA.gain
    expected = gain * (curve.mean - CAMERA.black) + (3 * gain) ** 2
    assert np.all(np.abs(curve.variance - expected) < 5 * curve.variance_error)
    assert curve.mean.size == 1 + len(LIGHT)


def test_a_saturated_exposure_is_left_out() -> None:
    with_white = photon_transfer([*exposures(2), flat(1.0, 7)], dark=flat(0.0, 8))

    assert with_white.used.tolist() == [True] * (1 + len(LIGHT)) + [False]
    assert abs(with_white.sensor.gain - CAMERA.gain) < 4 * with_white.gain_error


def test_flickering_light_does_not_count_as_noise() -> None:
    flicker = (1.0, 1.1, 0.9, 1.05)
    stacks = [
        np.concatenate([flat(light * factor, 10 * number + turn, frames=1) for turn, factor in enumerate(flicker)])
        for number, light in enumerate(LIGHT[2:6])
    ]

    curve = photon_transfer(stacks, black=CAMERA.black)

    # Counted as noise, 10 % of the light would be a hundred times the variance; brightening a frame by 10 % costs 2 %.
    assert curve.sensor.gain == pytest.approx(CAMERA.gain, rel=0.02 + 4 * curve.gain_error / CAMERA.gain)


def test_a_known_black_level_stands_in_for_dark_frames() -> None:
    curve = photon_transfer(exposures(0), black=CAMERA.black)

    assert curve.sensor.black == CAMERA.black
    assert abs(curve.sensor.gain - CAMERA.gain) < 4 * curve.gain_error


def test_the_sensor_is_that_of_the_curve() -> None:
    sensor = Sensor.from_flat_fields(exposures(0), flat(0.0, 99))

    assert sensor == photon_transfer(exposures(0), flat(0.0, 99)).sensor
    assert "photon transfer" in sensor.source
    assert sensor.steps == 65535


def test_fractions_of_full_scale_give_what_integers_give() -> None:
    whole = Sensor.from_flat_fields(exposures(0), black=CAMERA.black)

    floats = Sensor.from_flat_fields([stack / 65535 for stack in exposures(0)], black=CAMERA.black)

    assert floats.photons == pytest.approx(whole.photons)
    assert floats.steps is None


@pytest.mark.parametrize(
    ("stacks", "words"),
    [
        ([], "no exposures"),
        ([flat(0.1, 0)], "Only 1 of 1 exposures"),
        ([flat(0.1, 0), flat(0.2, 1)[:1]], "Exposure 1"),
        ([flat(0.1, 0), flat(0.2, 1)[:, :32]], "frames of shape"),
        ([flat(0.1, 0), flat(0.2, 1).astype(np.int32)], "int32"),
        ([flat(0.1, 0).astype(np.int32), flat(0.2, 1).astype(np.int32)], "uint16"),
        ([flat(0.1, 0)[0], flat(0.2, 1)[0]], "at least two frames"),
        ([flat(1.0, 0), flat(1.0, 1)], "add shorter ones"),
    ],
)
def test_flat_fields_that_cannot_be_used_are_refused_with_what_to_do(stacks: list[np.ndarray], words: str) -> None:
    with pytest.raises(InputError, match=words):
        photon_transfer(stacks)


@pytest.mark.parametrize("black", [None, 0.0, 0.5 * CAMERA.black])
def test_a_black_level_that_is_too_low_is_not_taken_for_a_camera_without_read_noise(black: float | None) -> None:
    # Then the variance g (value - B) + (g r)^2 is below 0 where there is no light, by g (B - black) = 16/3 x 800 DN^2,
    # and the read noise, (16/3 x 3)^2 DN^2, is far from making up for it.
    with pytest.raises(InputError, match=r"black level is not .* but higher\. Pass dark frames, or black"):
        photon_transfer(exposures(0), black=black)


@pytest.mark.parametrize("seed", range(4))
def test_a_camera_without_read_noise_may_be_without_dark_frames(seed: int) -> None:
    counter = Sensor(200, 0.0, steps=200)
    stacks = [
        np.stack([counter.simulate(np.full((64, 64), light), 100 * seed + 10 * k + turn) for turn in range(4)])
        for k, light in enumerate((0.1, 0.3, 0.6))
    ]

    found = photon_transfer(stacks, white=1.0)

    assert found.sensor.photons == pytest.approx(200, rel=4 * found.gain_error / counter.gain)


def test_denoised_frames_are_noticed() -> None:
    dim, bright = flat(0.1, 0), flat(0.6, 1)
    smooth = np.broadcast_to(np.rint(bright.mean(axis=0)).astype(np.uint16), bright.shape)

    with pytest.raises(InputError, match="not denoised"):
        photon_transfer([dim, smooth], black=CAMERA.black)
