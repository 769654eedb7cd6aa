"""Bit planes and photon counts: rates, flux and its noise, against the formulas and NumPy's own packing."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import FAST, error_line, run, succeed
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

import scotopic
from scotopic.errors import InputError, ScotopicError, SettingsError
from scotopic.sensor import (
    Sensor,
    common_white,
    count_bits,
    flux_from_bits,
    flux_variance,
    read_bit_planes,
    read_counts,
    read_recording,
)


def planes_of(flux: np.ndarray, count: int, seed: int = 0) -> np.ndarray:
    """Bit planes of a flux: a bit is set where at least one photon came."""
    return np.random.default_rng(seed).poisson(flux, (count, *flux.shape)) > 0


# Packing


def test_planes_of_a_byte_for_each_pixel_are_not_taken_for_packed_ones() -> None:
    planes = planes_of(np.full((16, 32), 0.2), 5)

    with pytest.raises(InputError, match=r"a byte of 0 or 1 for each pixel.*astype\(bool\).*packbits"):
        read_bit_planes(planes.astype(np.uint8))
    hot = np.zeros((5, 16, 32), np.bool_)
    hot[:, 3, 7] = True  # in the lowest bit of its byte
    np.testing.assert_array_equal(read_bit_planes(np.packbits(hot, axis=2)).image[..., 0], hot[0])


@given(
    bits=st_numpy.arrays(bool, st.tuples(st.integers(1, 5), st.integers(1, 4), st.integers(1, 21))),
    order=st.sampled_from(["big", "little"]),
)
@settings(deadline=None)
def test_bits_packed_by_numpy_are_counted_as_they_were(bits: np.ndarray, order: str) -> None:
    packed = np.packbits(bits, axis=2, bitorder=order)

    ones, planes = count_bits(packed, width=bits.shape[2], bit_order=order)

    assert planes == bits.shape[0]
    np.testing.assert_array_equal(ones, bits.sum(axis=0))
    np.testing.assert_array_equal(count_bits(bits)[0], ones)


def test_the_leftmost_pixel_is_the_highest_bit() -> None:
    ones, _ = count_bits(np.array([[[0b10000001, 0b01000000]]], np.uint8))

    assert np.flatnonzero(ones[0]).tolist() == [0, 7, 9]


def test_color_planes_are_packed_along_the_width_too() -> None:
    bits = planes_of(np.full((5, 16, 3), 0.4), 9)

    np.testing.assert_array_equal(count_bits(np.packbits(bits, axis=2))[0], bits.sum(axis=0))


def test_a_file_larger_than_what_is_unpacked_at_once_is_counted_whole(tmp_path: Path) -> None:
    bits = planes_of(np.linspace(0, 3, 6 * 24).reshape(6, 24), 200)
    np.save(tmp_path / "cube.npy", np.packbits(bits, axis=2))

    ones, planes = count_bits(tmp_path / "cube.npy")

    assert planes == 200
    np.testing.assert_array_equal(ones, bits.sum(axis=0))


def test_some_planes_can_be_picked(tmp_path: Path) -> None:
    bits = planes_of(np.full((6, 24), 0.5), 100)
    np.save(tmp_path / "cube.npy", np.packbits(bits, axis=2))

    ones, planes = count_bits(tmp_path / "cube.npy", first=30, planes=50)

    assert planes == 50
    np.testing.assert_array_equal(ones, bits[30:80].sum(axis=0))
    with pytest.raises(InputError, match="100 planes"):
        count_bits(tmp_path / "cube.npy", first=60, planes=50)


@pytest.mark.parametrize("order", ["big", "little"])
def test_raw_files_without_a_shape_are_told_theirs(tmp_path: Path, order: str) -> None:
    bits = planes_of(np.full((6, 20), 0.5), 10)
    (tmp_path / "raw.bin").write_bytes(np.packbits(bits, axis=2, bitorder=order).tobytes())

    ones, planes = count_bits(tmp_path / "raw.bin", width=20, height=6, bit_order=order)

    assert planes == 10
    np.testing.assert_array_equal(ones, bits.sum(axis=0))
    with pytest.raises(SettingsError, match="width and height"):
        count_bits(tmp_path / "raw.bin")
    with pytest.raises(InputError, match="multiple of 21"):
        count_bits(tmp_path / "raw.bin", width=20, height=7)


# Flux


def test_flux_is_minus_the_logarithm_of_the_empty_share() -> None:
    flux, saturated = flux_from_bits([0, 25, 50, 99, 100], 100)

    np.testing.assert_allclose(flux, [0, -math.log(0.75), math.log(2), math.log(100), math.log(200)])
    assert saturated.tolist() == [False, False, False, False, True]


@given(st.integers(1, 10_000))
def test_a_saturated_pixel_has_more_flux_than_any_other_and_a_finite_one(planes: int) -> None:
    flux, saturated = flux_from_bits([max(planes - 1, 0), planes], planes)

    assert math.isfinite(flux[1])
    assert flux[1] > flux[0]
    assert saturated[1]


@pytest.mark.parametrize("true", [0.02, 0.3, 1.5])
def test_a_known_flux_is_recovered_with_the_noise_of_the_formula(true: float) -> None:
    planes, pixels = 400, 80 * 80
    bits = planes_of(np.full((80, 80), true), planes, seed=2)

    flux, saturated = flux_from_bits(bits.sum(axis=0), planes)

    # Var = p / ((1 - p) n) with p = 1 - exp(-f), which is (exp(f) - 1) / n; the bias of the logarithm is half of it.
    variance = (math.exp(true) - 1) / planes
    assert float(flux_variance(true, planes)) == pytest.approx(variance)
    assert not saturated.any()
    assert flux.mean() == pytest.approx(true + variance / 2, abs=5 * math.sqrt(variance / pixels))
    assert flux.var() == pytest.approx(variance, rel=5 * math.sqrt(2 / pixels) + 2 * variance)


def test_by_default_the_image_is_the_share_of_planes_as_recorded() -> None:
    bits = planes_of(np.linspace(0, 8, 16 * 40).reshape(16, 40), 30)

    recording = read_bit_planes(np.packbits(bits, axis=2))

    assert recording.image.shape == (16, 40, 1)
    np.testing.assert_allclose(recording.image[..., 0], bits.mean(axis=0), rtol=1e-6)
    assert recording.assumed["linearized"] is None
    assert recording.assumed["planes"] == 30
    assert recording.assumed["saturated_percent"] == pytest.approx(100 * bits.all(axis=0).mean())


def test_flux_is_scaled_by_white_and_dark_counts_are_taken_off() -> None:
    flux, dark, planes = np.linspace(0.1, 1.0, 8 * 24).reshape(8, 24), 0.05, 20_000
    bits = planes_of(flux + dark, planes, seed=1)

    recording = read_bit_planes(np.packbits(bits, axis=2), white=2.0, dark_flux=dark)

    error = np.sqrt(np.expm1(flux + dark) / planes) / 2
    assert np.all(np.abs(recording.image[..., 0] - flux / 2) < 5 * error)
    assert "binary" in recording.assumed["linearized"]


def test_dark_counts_of_each_pixel_are_those_of_all_of_its_colors() -> None:
    bits = np.random.default_rng(0).random((64, 8, 16, 3)) < 0.3
    dark = np.linspace(0, 0.1, 8 * 16).reshape(8, 16)

    recording = read_bit_planes(bits, white=1.0, dark_flux=dark)

    flux = -np.log1p(-bits.mean(axis=0))
    np.testing.assert_allclose(recording.image, flux - dark[..., None], atol=1e-6)


@pytest.mark.parametrize(
    "dark",
    [
        np.full((8, 8, 1), 0.05),  # which NumPy would take for eight images
        np.full((2, 8, 8), 0.05),
        np.full(8, 0.05),
        math.nan,
        -0.05,
        np.ma.masked_array(np.full((8, 8), 0.05), np.eye(8)),
    ],
)
def test_dark_counts_that_are_not_those_of_the_pixels_are_refused(dark: Any) -> None:
    bits = np.random.default_rng(0).random((64, 8, 8)) < 0.3

    with pytest.raises(InputError, match="dark_flux"):
        read_bit_planes(bits, white=1.0, dark_flux=dark)


def test_one_white_serves_both_views() -> None:
    left, right = np.linspace(0, 1, 101), np.linspace(0, 3, 101)

    assert common_white(left, right, share=1.0) == 3
    # Of 202 values half are below 0.75: 75 % of the first, 25 % of the second.
    assert common_white(left, right, share=0.5) == pytest.approx(0.75, abs=0.02)
    with pytest.raises(InputError, match="black"):
        common_white(np.zeros(5))
    with pytest.raises(SettingsError, match="share"):
        common_white(left, share=0)


# Counts


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32, np.float32])
def test_counts_are_summed_and_scaled_by_white(tmp_path: Path, dtype: type) -> None:
    counts = np.random.default_rng(0).poisson(3.0, (7, 12, 16)).astype(dtype)
    np.save(tmp_path / "counts.npy", counts)

    recording = read_counts(tmp_path / "counts.npy", white=10)

    np.testing.assert_allclose(recording.image[..., 0], np.minimum(counts.sum(axis=0) / 70, 1), rtol=1e-6)
    assert recording.sensor == Sensor(70, 0.0, steps=70)
    assert recording.assumed["values"] == "sum of 7 frames, over 10 photons per frame"


def test_the_sensor_of_a_sum_has_the_noise_of_the_sum() -> None:
    frames, white, light, read_noise = 20, 5.0, 0.4, 1.5
    random = np.random.default_rng(0)
    counts = np.maximum(0, np.rint(random.poisson(white * light, (frames, 200, 200))))

    recording = read_counts(counts, white)

    # A sum of Poisson counts has its mean as variance: 20 * 5 * 0.4 over the square of 100.
    assert recording.image.var() == pytest.approx(40 / 100**2, rel=5 * math.sqrt(2 / 40_000))
    assert recording.sensor is not None
    assert float(recording.sensor.noise_variance(light)) == pytest.approx(40 / 100**2, rel=0.01)
    with_reading = read_counts(counts, white, read_noise=read_noise).sensor
    assert with_reading is not None
    assert with_reading.read_noise == pytest.approx(math.sqrt(20) * 1.5)


@pytest.mark.parametrize(
    ("shape", "image_shape"),
    [((6, 8), (6, 8, 1)), ((6, 8, 3), (6, 8, 3)), ((4, 6, 8), (6, 8, 1)), ((4, 6, 8, 3), (6, 8, 3))],
)
def test_counts_may_be_one_frame_or_many_gray_or_colored(shape: tuple[int, ...], image_shape: tuple[int, ...]) -> None:
    assert read_counts(np.ones(shape, np.uint8), white=4).image.shape == image_shape


def test_counts_above_white_become_white_and_are_reported() -> None:
    recording = read_counts(np.array([[0, 5, 10, 20]], np.uint16), white=10)

    assert recording.image[0, :, 0].tolist() == [0, 0.5, 1, 1]
    assert recording.assumed["above_white_percent"] == 25


# What is refused


def test_an_array_is_never_guessed(tmp_path: Path) -> None:
    np.save(tmp_path / "stack.npy", np.zeros((4, 6, 8), np.uint8))

    with pytest.raises(InputError, match="counts") as caught:
        read_recording(tmp_path / "stack.npy")
    assert "bit-planes" in str(caught.value)
    with pytest.raises(SettingsError, match="white"):
        read_recording(tmp_path / "stack.npy", "counts")
    assert read_recording(tmp_path / "stack.npy", "counts", white=3).image.shape == (6, 8, 1)
    assert read_recording(tmp_path / "stack.npy", "bit-planes").image.shape == (6, 64, 1)
    with pytest.raises(SettingsError, match="kind"):
        read_recording(tmp_path / "stack.npy", "movie")


@pytest.mark.parametrize(
    "planes",
    [np.zeros((4, 6), np.uint8), np.zeros((2, 2, 2, 2), np.uint8), np.zeros((2, 2, 2)), np.zeros((0, 2, 2), bool)],
)
def test_what_are_no_bit_planes_is_refused(planes: np.ndarray) -> None:
    with pytest.raises(InputError, match="packbits"):
        read_bit_planes(planes)


@pytest.mark.parametrize(
    "counts", [np.full((4, 4), -1), np.full((4, 4), 0.5), np.full((4, 4), np.nan), np.full((2, 2, 2, 2), 1), np.ones(3)]
)
def test_what_are_no_counts_is_refused(counts: np.ndarray) -> None:
    with pytest.raises(InputError, match="counts"):
        read_counts(counts, white=1)


@pytest.mark.parametrize(
    "wrong",
    [{"bit_order": "middle"}, {"first": -1}, {"planes": 0}, {"white": 0.0}, {"white": math.nan}, {"dark_flux": 0.1}],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        read_bit_planes(np.zeros((3, 4, 2), np.uint8), **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(("width", "good"), [(16, True), (9, True), (8, False), (17, False), (0, False)])
def test_a_width_must_fit_the_packed_one(width: int, good: bool) -> None:
    packed = np.zeros((3, 4, 2), np.uint8)
    if good:
        assert count_bits(packed, width=width)[0].shape == (4, width)
    else:
        with pytest.raises(InputError, match="does not fit a width of"):
            count_bits(packed, width=width)


def test_files_that_are_no_arrays_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.npy").write_text("no array")
    (tmp_path / "empty.npy").write_bytes(b"")
    np.savez(tmp_path / "archive.npz", a=np.zeros(3))
    (tmp_path / "archive.npz").rename(tmp_path / "archive.npy")
    np.save(tmp_path / "objects.npy", np.array([{}, {}], dtype=object))

    for name in ("text.npy", "empty.npy", "archive.npy", "objects.npy", "none.npy"):
        with pytest.raises(InputError, match=name):
            read_counts(tmp_path / name, white=1)
        with pytest.raises(InputError, match=name):
            read_bit_planes(tmp_path / name)


def test_changed_bytes_in_an_array_file_never_crash(tmp_path: Path) -> None:
    np.save(tmp_path / "whole.npy", np.random.default_rng(0).integers(0, 255, (4, 6, 8)).astype(np.uint8))
    whole = (tmp_path / "whole.npy").read_bytes()
    random = np.random.default_rng(1)
    for _ in range(300):
        changed = bytearray(whole)
        changed[random.integers(0, 128)] = random.integers(256)
        path = tmp_path / "changed.npy"
        path.write_bytes(bytes(changed[: random.integers(1, len(changed) + 1)]))
        for kind in ("counts", "bit-planes"):
            try:
                image = read_recording(path, kind, white=255).image
            except ScotopicError:
                continue
            assert np.isfinite(image).all()


def test_the_commands_take_the_size_of_bit_planes(tmp_path: Path) -> None:
    planes = np.random.default_rng(0).random((2, 16, 50, 61)) < 0.3
    for name, view in zip(("left", "right"), planes, strict=True):
        np.save(tmp_path / f"{name}.npy", np.packbits(view, axis=2))
        (tmp_path / f"{name}.bin").write_bytes(np.packbits(view, axis=2).tobytes())
    for command, suffix, more in (
        ("match", "npy", ()),
        ("match", "bin", ("--height", 50)),
        ("burst", "npy", ("--group", 8)),
        ("video", "bin", ("--height", 50, "--group", 8)),
    ):
        views = tmp_path / f"left.{suffix}", tmp_path / f"right.{suffix}"
        out = tmp_path / f"{command}-{suffix}"
        succeed(command, *views, "-o", out, *FAST, "--kind", "bit-planes", "--width", 61, *more)

        report = json.loads((out / "report.json").read_text())
        assert (report["width"], report["height"]) == (61, 50)
    shares = planes[0].mean(axis=0, dtype=np.float64)[..., None].astype(np.float32)
    np.testing.assert_array_equal(scotopic.Match.load(tmp_path / "match-npy").left_image, shares)

    for kind in ("image", "counts"):
        views = tmp_path / "left.npy", tmp_path / "right.npy"
        told = run("match", *views, "-o", tmp_path / "new", "--kind", kind, "--white", 1, "--width", 61)
        assert "width is for bit planes" in error_line(told)


def test_the_message_of_a_command_is_a_sentence(tmp_path: Path) -> None:
    np.save(tmp_path / "left.npy", np.zeros((8, 1, 80, 128), np.uint8))
    path = str(tmp_path / "left.npy")

    told = error_line(run("match", path, path, "-o", tmp_path / "out", "--kind", "counts", "--white", 1))

    assert told.startswith(f"error: left image: The file of photon counts {path!r} has shape (8, 1, 80, 128).")
    told = error_line(run("match", path, path, "-o", tmp_path / "out"))
    assert told.startswith(f"error: left image {path!r} is an array")


def test_the_commands_take_the_bit_order(tmp_path: Path) -> None:
    planes = np.random.default_rng(0).random((2, 16, 50, 64)) < 0.3
    shares = planes[0].mean(axis=0, dtype=np.float64)[..., None].astype(np.float32)
    for name, view in zip(("left", "right"), planes, strict=True):
        np.save(tmp_path / f"{name}.npy", np.packbits(view, axis=2, bitorder="little"))
    views = tmp_path / "left.npy", tmp_path / "right.npy"
    of_planes = *FAST, "--kind", "bit-planes"

    np.testing.assert_array_equal(read_recording(views[0], "bit-planes", bit_order="little").image, shares)
    for command, more in (("match", ()), ("burst", ("--group", 16)), ("video", ("--group", 16, "--fuse", 2))):
        succeed(command, *views, "-o", tmp_path / command, *of_planes, "--bit-order", "little", *more)
    for command in ("match", "burst"):
        np.testing.assert_array_equal(scotopic.Match.load(tmp_path / command).left_image, shares)
    film = np.load(tmp_path / "video/frames/000000.npz")["disparity"]
    np.testing.assert_allclose(film, scotopic.Match.load(tmp_path / "burst").disparity)  # of the same frame

    for command in ("match", "burst", "video"):
        told = error_line(run(command, *views, "-o", tmp_path / "new", *of_planes, "--bit-order", "middle"))
        assert "must be 'big' or 'little', not 'middle'" in told
        of_counts = *FAST, "--kind", "counts", "--white", 1, "--bit-order", "big"
        told = error_line(run(command, *views, "-o", tmp_path / "new", *of_counts))
        assert "--bit-order is for bit planes" in told
