"""The sensor model, held to its own distribution: sums over photon counts written out here, and large samples."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scotopic.sensor
from scotopic.errors import InputError, SettingsError
from scotopic.sensor import Sensor, estimate_shifts, linearize, record, simulate
from scotopic.sensor.moments import normal_cdf

PIXELS = 200_000


def counted_moments(intensity: float, photons: int, read_noise: float) -> tuple[float, float]:
    """Mean and variance of the paper's sensor, level by level: Poisson plus normal, rounded, clipped, over photons."""
    mean = photons * intensity

    def below(edge: float, count: int) -> float:
        return 0.5 * (1 + math.erf((edge - count) / (read_noise * math.sqrt(2))))

    shares = np.zeros(photons + 1)
    for count in range(int(mean + 12 * math.sqrt(mean)) + 30):
        poisson = math.exp(-mean + count * math.log(mean) - math.lgamma(count + 1)) if mean > 0 else float(count == 0)
        for level in range(photons + 1):
            low = 0.0 if level == 0 else below(level - 0.5, count)
            high = 1.0 if level == photons else below(level + 0.5, count)
            shares[level] += poisson * (high - low)
    levels = np.arange(photons + 1) / photons
    expected = float(shares @ levels)
    return expected, float(shares @ (levels - expected) ** 2)


@pytest.mark.parametrize(("photons", "read_noise"), [(2, 2.0), (3, 0.7), (8, 2.0), (32, 2.0)])
@pytest.mark.parametrize("level", [0.0, 0.3, 1.0])
def test_mean_and_variance_of_the_papers_sensor_are_those_of_its_levels(
    level: float, photons: int, read_noise: float
) -> None:
    sensor = Sensor.paper(photons, read_noise)

    mean, variance = counted_moments(level, photons, read_noise)
    assert float(sensor.mean(level)) == pytest.approx(mean, abs=1e-7)
    assert float(sensor.noise_variance(level)) == pytest.approx(variance, abs=1e-7)


@pytest.mark.parametrize(
    "sensor",
    [
        Sensor(8, 2, steps=255),
        Sensor(30, 2, black=0.05),
        Sensor(30, 2, black=0.05, steps=255, response="srgb"),
        Sensor(20, 3, response=2.2, steps=255),
        Sensor(3, 0.5, frames=4),
        Sensor(100, 3, floor=-0.2, steps=1000),
        Sensor(5000, 4, black=0.1, white=0.9),
    ],
    ids=str,
)
@pytest.mark.parametrize("level", [0.0, 0.2, 0.7, 1.0])
def test_a_large_sample_has_the_mean_and_variance_that_the_sensor_says(sensor: Sensor, level: float) -> None:
    sample = sensor.simulate(np.full(PIXELS, level), seed=5).astype(np.float64)

    mean, variance = float(sensor.mean(level)), float(sensor.noise_variance(level))
    centered = sample - sample.mean()
    kurtosis = float((centered**4).mean() / (centered**2).mean() ** 2)
    assert sample.mean() == pytest.approx(mean, abs=5 * math.sqrt(variance / PIXELS) + 1e-5)
    # Five standard errors of a variance, and the percent that normal counts cost above 400 photons.
    assert sample.var() == pytest.approx(variance, rel=5 * math.sqrt((kurtosis - 1) / PIXELS) + 0.01)


def test_where_nothing_clips_the_variance_is_the_line_of_shot_and_read_noise() -> None:
    sensor = Sensor(1000, 5, black=0.2, steps=4095)
    levels = np.array([0.1, 0.4, 0.7])

    gain = 0.8 / 1000
    expected = gain**2 * (1000 * levels + 25) + 1 / (12 * 4095**2)
    np.testing.assert_allclose(sensor.noise_variance(levels), expected, rtol=1e-6)
    a, b = sensor.variance_line
    np.testing.assert_allclose(a * (sensor.mean(levels) - sensor.black) + b, expected, rtol=1e-6)


def test_a_dark_pixel_of_a_camera_with_a_pedestal_keeps_the_noise_below_black() -> None:
    sensor = Sensor.from_data_sheet(gain=2.0, read_noise=3.0, bits=12, black_level=64)

    dark = sensor.simulate(np.zeros(PIXELS)) * 4095

    assert dark.mean() == pytest.approx(64, abs=5 * 6 / math.sqrt(PIXELS))  # 3 electrons are 6 DN
    assert dark.std() == pytest.approx(math.sqrt(36 + 1 / 12), rel=0.01)
    np.testing.assert_allclose(dark, np.rint(dark), atol=1e-3)


def test_numbers_of_a_data_sheet_become_fractions_of_full_scale() -> None:
    sensor = Sensor.from_data_sheet(
        gain=0.5, read_noise=2.0, bits=12, black_level=100, white_level=4000, full_scale=65535
    )

    assert sensor.photons == pytest.approx(3900 / 0.5)
    assert sensor.black == pytest.approx(100 / 65535)
    assert sensor.white == pytest.approx(4000 / 65535)
    assert sensor.gain * 65535 == pytest.approx(0.5)
    assert Sensor.from_data_sheet(1.0, 1.0, bits=10).bits == pytest.approx(10)


def test_averaging_frames_divides_the_variance_and_leaves_the_mean() -> None:
    one = Sensor.paper()
    many = one.averaged(16)

    levels = np.linspace(0, 1, 5)
    np.testing.assert_allclose(many.mean(levels), one.mean(levels))
    np.testing.assert_allclose(many.noise_variance(levels), one.noise_variance(levels) / 16)
    assert many.averaged(2).frames == 32
    assert "16 frames" in many.source


def test_many_levels_are_interpolated_as_they_are_computed() -> None:
    sensor = Sensor.paper()
    levels = np.linspace(0, 1, 5000).reshape(50, 100)

    np.testing.assert_allclose(sensor.noise_variance(levels)[:, 0], sensor.noise_variance(levels[:, 0]), atol=1e-6)


def test_programs_in_which_numpy_raises_can_measure_noise_and_shifts() -> None:
    frames = [simulate(np.full((64, 64), 0.5), 8, 1, seed) for seed in range(3)]

    with np.errstate(all="raise"):
        Sensor.paper().mean([0.0, 0.5, 1.0])
        estimate_shifts(frames)


def test_the_report_of_a_sensor_is_json() -> None:
    stored = json.loads(json.dumps(Sensor.paper().as_dict()))

    assert stored["photons"] == 2
    assert stored["variance_line"] == {"a": 0.5, "b": pytest.approx(1 + 0.25 / 12)}
    assert stored["source"] == "the paper's protocol"


@given(
    photons=st.floats(0.5, 1e5),
    read_noise=st.floats(0, 50),
    black=st.floats(0, 0.4),
    steps=st.one_of(st.none(), st.integers(1, 65535)),
    response=st.sampled_from(["linear", "srgb", 2.2]),
)
@settings(max_examples=40, deadline=None)
def test_whatever_the_sensor_means_rise_and_stay_between_floor_and_white(
    photons: float, read_noise: float, black: float, steps: int | None, response: str | float
) -> None:
    sensor = Sensor(photons, read_noise, black=black, steps=steps, response=response)

    mean = sensor.mean(np.linspace(0, 1, 9))
    variance = sensor.noise_variance(np.linspace(0, 1, 9))
    assert np.all(np.diff(mean) >= -1e-9)
    assert mean.min() >= -1e-9
    assert mean.max() <= 1 + 1e-9
    assert np.all((variance >= 0) & (variance <= 0.25 + 1e-9))  # no variable in [0, 1] has more


@given(st.lists(st.floats(-9, 9), min_size=1, max_size=20))
@settings(deadline=None)
def test_the_normal_distribution_function_is_that_of_math(values: list[float]) -> None:
    expected = [0.5 * math.erfc(-value / math.sqrt(2)) for value in values]

    np.testing.assert_allclose(normal_cdf(np.array(values)), expected, atol=1e-11)


@pytest.mark.parametrize(
    ("recorded", "light"), [(0.0, 0.0), (1.0, 1.0), (0.04045, 0.04045 / 12.92), (0.5, ((0.5 + 0.055) / 1.055) ** 2.4)]
)
def test_srgb_is_linearized_by_the_standards_formula(recorded: float, light: float) -> None:
    assert float(linearize(recorded, "srgb")) == pytest.approx(light, abs=1e-12)


@given(st.floats(-1, 1), st.sampled_from(["linear", "srgb", 1.8, 2.2]))
def test_recording_undoes_linearizing(value: float, response: str | float) -> None:
    assert float(record(linearize(value, response), response)) == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize(
    "wrong",
    [
        {"photons": 0}, {"photons": math.nan}, {"read_noise": -1}, {"read_noise": math.inf}, {"black": 1.0},
        {"white": 0.0}, {"floor": 0.1}, {"steps": 0}, {"frames": 0}, {"frames": 1.5}, {"frames": True},
        {"response": "log"}, {"response": -1.0}, {"response": True}, {"photons": "2"}, {"read_noise": None},
        {"photons": True}, {"steps": "255"}, {"steps": True}, {"white": [1.0]}, {"frames": math.inf},
    ],
    ids=str,
)  # fmt: skip
def test_a_sensor_that_makes_no_sense_is_refused_by_the_name_of_what_is_wrong(wrong: dict[str, float]) -> None:
    name = next(iter(wrong))
    with pytest.raises(SettingsError, match=name):
        Sensor(**{"photons": 2.0, "read_noise": 2.0, **wrong})


@pytest.mark.parametrize("full_scale", [0, -4095, math.nan])
def test_a_full_scale_that_is_none_is_refused(full_scale: float) -> None:
    with pytest.raises(SettingsError, match="full_scale must be above 0"):
        Sensor.from_data_sheet(0.5, 3.0, bits=12, full_scale=full_scale)


def test_levels_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(InputError, match="level"):
        Sensor.paper().mean([math.nan])
    with pytest.raises(InputError, match="level"):
        Sensor.paper().noise_variance(np.array(["dark"]))


def test_a_sensor_cannot_be_changed_and_its_source_does_not_make_it_another() -> None:
    sensor = Sensor.paper()

    with pytest.raises(dataclasses.FrozenInstanceError):
        sensor.photons = 3  # type: ignore[misc]
    assert sensor == dataclasses.replace(sensor, source="elsewhere")


def test_the_old_spelling_of_linearize_still_works_and_warns() -> None:
    with pytest.warns(DeprecationWarning, match="linearize"):
        assert scotopic.sensor.linearise is linearize
    with pytest.raises(AttributeError, match="linearised"):
        _ = scotopic.sensor.linearised
