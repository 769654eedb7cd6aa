"""Raw files: a DNG written here, byte for byte known, read back as light above black."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from rooms import room

import scotopic
from scotopic.errors import InputError, PairWarning, ScotopicError, SettingsError
from scotopic.sensor import Sensor, read_raw, read_recording

BLACK, WHITE = 64, 1023
PROFILE = (0.004, 1e-6, 0.002, 4e-6, 0.006, 1e-6)  # S and O of red, green, blue


def rawpy() -> Any:
    return pytest.importorskip("rawpy", reason="needs the extra 'raw': pip install 'scotopic[raw]'")


def write_dng(
    path: Path,
    mosaic: np.ndarray,
    profile: tuple[float, ...] | None = PROFILE,
    black: tuple[Any, ...] = ("H", 1, BLACK),
    pattern: tuple[int, ...] = (0, 1, 1, 2),
    orientation: int = 1,
) -> Path:
    """Write a mosaic as the least that is a DNG file; `black` is type, count and value of the tag BlackLevel."""
    tags = [
        (50706, "B", 4, (1, 4, 0, 0), True),  # DNGVersion
        (50708, "s", 0, "Made Up", True),  # UniqueCameraModel
        (274, "H", 1, orientation, True),
        (33421, "H", 2, (2, 2), True),  # CFARepeatPatternDim
        (33422, "B", 4, pattern, True),  # CFAPattern: 0 red, 1 green, 2 blue
        (50714, *black, True),
        (50717, "H", 1, WHITE, True),
        (50721, "2i", 9, tuple(n for v in np.eye(3, dtype=int).ravel() for n in (int(v), 1)), True),  # ColorMatrix1
        (50778, "H", 1, 21, True),  # CalibrationIlluminant1
        (50728, "2I", 3, (1, 1, 1, 1, 1, 1), True),  # AsShotNeutral
    ]
    if profile is not None:
        tags.append((51041, "d", len(profile), profile, True))
    tifffile.imwrite(path, mosaic, photometric="CFA", extratags=tags, metadata=None, software=None)
    return path


def mosaic_of(red: int, green: int, other_green: int, blue: int, height: int = 64, width: int = 96) -> np.ndarray:
    cell = np.array([[red, green], [other_green, blue]], np.uint16)
    return np.tile(cell, (height // 2, width // 2))


def light(number: float) -> float:
    return (number - BLACK) / (WHITE - BLACK)


def test_a_binned_pixel_is_one_cell_of_the_mosaic_above_black(tmp_path: Path) -> None:
    rawpy()
    path = write_dng(tmp_path / "a.dng", mosaic_of(164, 264, 364, 464))

    recording = read_raw(path)

    assert recording.image.shape == (32, 48, 3)
    assert recording.image.dtype == np.float32
    expected = [light(164), (light(264) + light(364)) / 2, light(464)]
    np.testing.assert_allclose(recording.image, np.broadcast_to(expected, (32, 48, 3)), rtol=1e-6)


@pytest.mark.parametrize(
    ("pattern", "order"), [((0, 1, 1, 2), "rgb"), ((2, 1, 1, 0), "bgr"), ((1, 0, 2, 1), "grbg"), ((1, 2, 0, 1), "gbrg")]
)
def test_colors_are_red_green_blue_whatever_the_mosaic(tmp_path: Path, pattern: tuple[int, ...], order: str) -> None:
    rawpy()
    value = {0: 164, 1: 264, 2: 464}
    path = write_dng(tmp_path / f"{order}.dng", mosaic_of(*(value[color] for color in pattern)), pattern=pattern)

    for color in ("binned", "demosaiced"):
        image = read_raw(path, color).image
        # LibRaw's result is in whole 65535ths.
        np.testing.assert_allclose(image[10, 12], [light(164), light(264), light(464)], atol=2 / 65535)


def test_noise_below_black_is_kept_and_the_mosaic_is_as_recorded(tmp_path: Path) -> None:
    rawpy()
    numbers = np.random.default_rng(0).integers(0, WHITE + 1, (64, 96)).astype(np.uint16)

    image = read_raw(write_dng(tmp_path / "a.dng", numbers), "mosaic").image

    assert image.shape == (64, 96, 1)
    np.testing.assert_allclose(image[..., 0], (numbers - float(BLACK)) / (WHITE - BLACK), rtol=1e-5, atol=1e-7)
    assert image.min() < 0


def test_demosaiced_is_full_size_and_not_stretched_by_its_brightest_pixels(tmp_path: Path) -> None:
    rawpy()
    dim = read_raw(write_dng(tmp_path / "dim.dng", mosaic_of(74, 74, 74, 74)), "demosaiced").image

    assert dim.shape == (64, 96, 3)
    np.testing.assert_allclose(dim, light(74), atol=2 / 65535)


@pytest.mark.filterwarnings("ignore:A file says:scotopic.errors.PairWarning")
def test_a_picture_is_not_turned_by_its_metadata(tmp_path: Path) -> None:
    rawpy()
    path = write_dng(tmp_path / "turned.dng", mosaic_of(164, 264, 364, 464), orientation=6)

    assert read_raw(path).image.shape == (32, 48, 3)
    assert read_raw(path, "demosaiced").image.shape == (64, 96, 3)


def test_a_picture_that_is_to_be_turned_gets_a_warning(tmp_path: Path) -> None:
    rawpy()
    with pytest.warns(PairWarning, match="to be turned"):
        read_raw(write_dng(tmp_path / "turned.dng", mosaic_of(164, 264, 364, 464), orientation=6))


def test_the_recording_says_what_was_assumed_and_has_the_files_sensor(tmp_path: Path) -> None:
    rawpy()
    recording = read_recording(write_dng(tmp_path / "a.dng", mosaic_of(164, 264, 364, 464)))

    report = recording.report()
    assert report["kind"] == "raw"
    assert "black level 64" in report["values"]
    assert "white level 1023" in report["values"]
    assert report["sensor"]["source"] == "the DNG file's noise profile"


def test_the_noise_profile_gives_photons_and_read_noise(tmp_path: Path) -> None:
    path = write_dng(tmp_path / "a.dng", mosaic_of(164, 264, 364, 464))

    green = Sensor.from_dng(path, channel=1)

    # variance = S x + O: photons 1 / S, read noise sqrt(O) / S.
    assert green.photons == pytest.approx(1 / 0.002)
    assert green.read_noise == pytest.approx(0.002 / 0.002)
    assert green.steps == WHITE - BLACK
    assert green.floor == pytest.approx(-BLACK / (WHITE - BLACK))
    a, b = green.variance_line
    assert a == pytest.approx(0.002)
    assert b == pytest.approx(4e-6 + 1 / (12 * (WHITE - BLACK) ** 2))
    assert Sensor.from_dng(path).photons == pytest.approx(1 / 0.004)  # mean of the three


def test_one_profile_may_stand_for_all_channels(tmp_path: Path) -> None:
    path = write_dng(tmp_path / "a.dng", mosaic_of(164, 264, 364, 464), profile=(0.01, 1e-4))

    assert Sensor.from_dng(path).photons == pytest.approx(100)
    assert Sensor.from_dng(path).read_noise == pytest.approx(1.0)
    with pytest.raises(SettingsError, match="channel"):
        Sensor.from_dng(path, channel=1)


@pytest.mark.parametrize(
    ("black", "level"), [(("H", 1, 100), 100), (("2I", 4, (60, 1, 64, 1, 64, 1, 136, 2)), 64), (("I", 1, 7), 7)]
)
def test_black_levels_are_read_as_numbers_or_fractions(tmp_path: Path, black: tuple[Any, ...], level: float) -> None:
    path = write_dng(tmp_path / "a.dng", mosaic_of(164, 264, 364, 464), black=black)

    assert Sensor.from_dng(path).floor == pytest.approx(-level / (WHITE - level))


def test_the_profile_of_a_raw_image_below_a_preview_is_found(tmp_path: Path) -> None:
    with tifffile.TiffWriter(tmp_path / "a.dng") as file:
        file.write(np.zeros((8, 8, 3), np.uint8), photometric="rgb", subifds=1, metadata=None)
        tags = [(51041, "d", 2, (0.01, 1e-4), True), (50717, "H", 1, 4095, True),
                (33421, "H", 2, (2, 2), True), (33422, "B", 4, (0, 1, 1, 2), True)]  # fmt: skip
        file.write(np.zeros((16, 16), np.uint16), photometric="CFA", metadata=None, extratags=tags)

    sensor = Sensor.from_dng(tmp_path / "a.dng")

    assert sensor.photons == pytest.approx(100)
    assert sensor.steps == 4095


def test_simulated_raw_noise_has_the_profile_that_the_file_states(tmp_path: Path) -> None:
    rawpy()
    sensor = Sensor(500, 3.0, floor=-BLACK / (WHITE - BLACK), steps=WHITE - BLACK)
    values = sensor.simulate(np.full((256, 256), 0.3))
    numbers = np.rint(values * (WHITE - BLACK) + BLACK).astype(np.uint16)
    path = write_dng(tmp_path / "a.dng", numbers, profile=(1 / 500, (3 / 500) ** 2))

    recording = read_raw(path, "mosaic")

    assert recording.sensor is not None
    expected = float(recording.sensor.noise_variance(0.3))
    # Five standard errors of the variance of 65536 pixels.
    assert recording.image.var() == pytest.approx(expected, rel=5 * np.sqrt(2 / 256**2))


def test_green_of_a_binned_pixel_has_half_the_noise_and_that_is_said(tmp_path: Path) -> None:
    rawpy()
    sensor = Sensor(500, 3.0, floor=-BLACK / (WHITE - BLACK), steps=WHITE - BLACK)
    numbers = np.rint(sensor.simulate(np.full((256, 256), 0.3)) * (WHITE - BLACK) + BLACK).astype(np.uint16)

    recording = read_raw(write_dng(tmp_path / "a.dng", numbers))

    expected = float(sensor.noise_variance(0.3)) * np.array([1.0, 0.5, 1.0])
    np.testing.assert_allclose(recording.image.var(axis=(0, 1)), expected, rtol=5 * np.sqrt(2 / 128**2))
    assert "half the variance" in recording.assumed["noise"]


def test_two_raw_views_can_be_matched_as_they_are(tmp_path: Path) -> None:
    rawpy()
    scene = room(96, 64)
    views = []
    for name, view in (("left", scene.left), ("right", scene.right)):
        mosaic = np.empty((128, 192), np.uint16)
        for row, column, channel in ((0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 2)):
            mosaic[row::2, column::2] = np.rint(BLACK + (WHITE - BLACK) * view[..., channel])
        views.append(read_raw(write_dng(tmp_path / f"{name}.dng", mosaic)))
        np.testing.assert_allclose(views[-1].image, view, atol=0.51 / (WHITE - BLACK))

    result = scotopic.match(*views, preset="fast", patch_size=16, stride=8, max_disparity=16, refine_steps=0)

    np.testing.assert_array_equal(result.left_image, views[0].image)


def test_a_dng_without_a_profile_has_no_sensor_and_says_what_to_do(tmp_path: Path) -> None:
    rawpy()
    path = write_dng(tmp_path / "a.dng", mosaic_of(164, 264, 364, 464), profile=None)

    assert read_raw(path).sensor is None
    with pytest.raises(InputError, match="from_flat_fields"):
        Sensor.from_dng(path)


@pytest.mark.parametrize("profile", [(0.0, 1e-6), (-0.1, 0.0), (0.1, -1e-3), (0.1, 1e-4, 0.1), (float("nan"), 0.0)])
def test_a_profile_that_makes_no_sense_is_refused(tmp_path: Path, profile: tuple[float, ...]) -> None:
    path = write_dng(tmp_path / "a.dng", mosaic_of(164, 264, 364, 464), profile=profile)

    with pytest.raises(InputError, match="noise profile"):
        Sensor.from_dng(path)


def test_what_is_no_raw_file_is_refused_by_name(tmp_path: Path) -> None:
    rawpy()
    (tmp_path / "text.dng").write_text("not a raw file")
    whole = write_dng(tmp_path / "whole.dng", mosaic_of(164, 264, 364, 464)).read_bytes()
    (tmp_path / "cut.dng").write_bytes(whole[:300])
    (tmp_path / "shorter.dng").write_bytes(whole[:-1])

    for name in ("text.dng", "cut.dng", "shorter.dng", "none.dng"):
        with pytest.raises(InputError, match=name) as caught:
            read_raw(tmp_path / name)
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match=r"text\.dng"):
        Sensor.from_dng(tmp_path / "text.dng")
    with pytest.raises(InputError, match="folder"):
        read_raw(tmp_path)


def test_bytes_changed_anywhere_in_the_tags_never_crash(tmp_path: Path) -> None:
    whole = write_dng(tmp_path / "whole.dng", mosaic_of(164, 264, 364, 464)).read_bytes()
    random = np.random.default_rng(0)
    for _ in range(300):
        changed = bytearray(whole)
        for position in random.integers(0, 700, 3):  # the tags are there, before the pixels
            changed[position] = random.integers(256)
        path = tmp_path / "changed.dng"
        path.write_bytes(bytes(changed[: random.integers(8, len(changed))] if random.random() < 0.3 else changed))
        try:
            sensor = Sensor.from_dng(path)
        except ScotopicError:
            continue
        assert sensor.photons > 0


def test_an_unknown_color_is_refused_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="binned, demosaiced, mosaic"):
        read_raw(tmp_path / "a.dng", "gray")


def test_without_rawpy_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.dng").write_bytes(b"II*\0")
    monkeypatch.setitem(sys.modules, "rawpy", None)

    with pytest.raises(ScotopicError, match=r"'rawpy'.*pip install 'scotopic\[raw\]'"):
        read_raw(os.fspath(tmp_path / "a.dng"))


def test_the_old_spelling_of_color_still_works_and_warns(tmp_path: Path) -> None:
    rawpy()
    path = write_dng(tmp_path / "a.dng", mosaic_of(164, 264, 364, 464))

    for reader in (read_raw, read_recording):
        with pytest.warns(DeprecationWarning, match="'color'"):
            assert reader(path, colour="mosaic").image.shape == (64, 96, 1)  # type: ignore[call-arg]
