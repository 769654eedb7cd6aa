"""Bursts: means with the noise that the sensor says, and shifts that are known because they were made."""

from __future__ import annotations

import math
from pathlib import Path

import cv2
import numpy as np
import pytest

import scotopic
from scotopic.errors import InputError, SettingsError
from scotopic.io import write_png
from scotopic.sensor import Sensor, estimate_shifts, merge_burst, simulate
from scotopic.sensor.burst import shift_image

FINE = 2  # the scene is drawn so many times larger, so that shifts of half a pixel are exact


@pytest.fixture(scope="module")
def large() -> np.ndarray:
    return scotopic.render_scene(width=FINE * 224, height=FINE * 160).left


def moved_views(large: np.ndarray, shifts: np.ndarray, photons: float | None) -> list[np.ndarray]:
    """Views of 192 x 128 px, each moved by a multiple of half a pixel and darkened."""
    views = []
    for number, (dx, dy) in enumerate(np.rint(shifts * FINE).astype(int)):
        top, left = FINE * 16 - dy, FINE * 16 - dx
        piece = large[top : top + FINE * 128, left : left + FINE * 192]
        clean = piece.reshape(128, FINE, 192, FINE, 3).mean(axis=(1, 3))
        views.append(clean if photons is None else simulate(clean, photons, 2.0, seed=number))
    return views


def made_shifts(count: int, reach: float = 8.0, seed: int = 0) -> np.ndarray:
    shifts = np.rint(np.random.default_rng(seed).uniform(-reach, reach, (count, 2)) * FINE) / FINE
    shifts[0] = 0
    return shifts


@pytest.mark.parametrize(
    ("photons", "count", "allowed"),
    [(None, 4, 0.06), (32, 8, 0.15), (8, 8, 0.3), (2, 8, 0.7), (2, 16, 0.7)],
)
def test_shifts_are_found_to_fractions_of_a_pixel_even_at_two_photons(
    large: np.ndarray, photons: float | None, count: int, allowed: float
) -> None:
    true = made_shifts(count)

    found = estimate_shifts(moved_views(large, true, photons))

    assert np.abs(found - true).max() < allowed
    np.testing.assert_array_equal(found[0], [0, 0])


def test_in_the_dark_shifts_are_nearer_than_those_of_phase_correlation(large: np.ndarray) -> None:
    true = made_shifts(8)
    views = moved_views(large, true, 2)
    window = cv2.createHanningWindow((192, 128), cv2.CV_32F)
    gray = [view.mean(axis=2).astype(np.float32) for view in views]

    ours = estimate_shifts(views)

    theirs = np.array([cv2.phaseCorrelate(gray[0], view, window)[0] for view in gray])
    assert np.abs(ours - true).mean() < 0.2 * np.abs(theirs - true).mean()


def test_aligned_and_merged_a_dark_burst_is_nearer_to_the_scene_than_merely_merged(large: np.ndarray) -> None:
    true = made_shifts(16, reach=5)
    frames = moved_views(large, true, 2)
    # What 16 frames of the first view would average to.
    expected = Sensor.paper().mean(moved_views(large, true[:1], None)[0])

    inside = (slice(12, -12), slice(12, -12))
    merged, aligned = (merge_burst(frames, align=align).image[inside] for align in (False, True))

    blurred = [cv2.GaussianBlur(image - expected[inside].astype(np.float32), (0, 0), 2) for image in (merged, aligned)]
    assert np.std(blurred[1]) < 0.7 * np.std(blurred[0])


def test_the_border_of_an_aligned_burst_is_the_mean_of_the_frames_that_saw_it(large: np.ndarray) -> None:
    shifts = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, -5.0]])
    views = moved_views(large, shifts, None)

    merged = merge_burst(views, align=True)

    # Of edge pixels that are repeated, errors reach a tenth of the range.
    assert np.abs(merged.image - views[0]).max() < 0.05
    # The second frame did not see the right edge, nor the third the top one.
    assert np.abs(merged.image - views[0])[:4, -4:].max() < 1e-6


def test_a_mean_of_frames_has_the_variance_that_its_sensor_says() -> None:
    frames = [simulate(np.full((200, 200), 0.4), 2, 2, seed=number) for number in range(10)]

    recording = merge_burst(frames, Sensor.paper())

    assert recording.sensor is not None
    assert recording.sensor.frames == 10
    expected = float(recording.sensor.noise_variance(0.4))
    assert recording.image.var() == pytest.approx(expected, rel=5 * math.sqrt(2 / 40_000))
    assert recording.image.mean() == pytest.approx(
        float(Sensor.paper().mean(0.4)), abs=5 * math.sqrt(expected / 40_000)
    )


def test_a_burst_is_a_list_of_arrays_or_files_a_stack_or_a_tiff_of_pages(tmp_path: Path) -> None:
    stack = np.random.default_rng(0).integers(0, 65535, (5, 12, 16, 3)).astype(np.uint16)
    paths = [tmp_path / f"{number}.png" for number in range(5)]
    for path, frame in zip(paths, stack, strict=True):
        write_png(path, frame)
    cv2.imwritemulti(str(tmp_path / "pages.tiff"), [np.ascontiguousarray(frame[:, :, ::-1]) for frame in stack])

    expected = stack.mean(axis=0) / 65535
    for frames in (stack, list(stack), paths, tmp_path / "pages.tiff"):
        recording = merge_burst(frames)
        np.testing.assert_allclose(recording.image, expected, atol=1e-6)
        assert recording.assumed["frames"] == 5


def test_gray_stacks_are_frames_first() -> None:
    stack = np.random.default_rng(0).random((5, 12, 16))

    np.testing.assert_allclose(merge_burst(stack).image[..., 0], stack.mean(axis=0), atol=1e-6)


def test_moving_by_whole_pixels_changes_no_value() -> None:
    image = np.random.default_rng(0).random((9, 12, 3)).astype(np.float32)

    moved = shift_image(image, 2, -3)

    np.testing.assert_array_equal(moved[:-3, 2:], image[3:, :-2])


def test_shifts_are_reported() -> None:
    frames = np.random.default_rng(0).random((3, 48, 64))

    assumed = merge_burst(frames, align=True, max_shift=4).assumed

    assert np.shape(assumed["shifts_px"]) == (3, 2)
    assert "correlated" in assumed["noise"]


@pytest.mark.parametrize(
    ("frames", "words"),
    [
        ([], "no frames"),
        (np.zeros((4, 4)), r"\(frames, H, W\)"),
        (np.zeros((48, 64, 3)), r"\(frames, H, W\)"),  # a color image, not 48 frames
        (3, "int"),
        ([np.zeros((4, 4)), np.zeros((4, 5))], "frame 1"),
    ],
)
def test_what_is_no_burst_is_refused(frames: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        merge_burst(frames)


def test_a_file_without_pages_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "text.tiff").write_text("no pages")

    with pytest.raises(InputError, match=r"text\.tiff"):
        merge_burst(tmp_path / "text.tiff")


@pytest.mark.parametrize("max_shift", [-1, 12.5, math.nan])
def test_a_largest_shift_that_makes_no_sense_is_refused(max_shift: float) -> None:
    with pytest.raises(SettingsError, match="max_shift"):
        estimate_shifts([np.zeros((48, 64))] * 2, max_shift)
