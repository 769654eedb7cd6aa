"""The protocol's shrinking, held to formulas and to the published results' own ground truth."""

import math
from dataclasses import replace

import numpy as np
import pytest
from reference_data import SCENES, data_folder
from shifted_scene import shifted_scene

from scotopic.depth import Calibration
from scotopic.errors import DarkImageWarning, SettingsError
from scotopic.evaluation.datasets import open_dataset
from scotopic.evaluation.protocol import (
    CLEAN,
    Recording,
    at_scale,
    known_noise,
    record_scene,
    shrink_image,
    shrink_mask,
    shrink_truth,
    shrink_truth_paper,
)
from scotopic.evaluation.scene import Noise
from scotopic.sensor import simulate_pair

NAN = np.float32(np.nan)
CALIBRATION = Calibration(fx=1000, fy=1000, cx=9.5, cy=4.5, baseline=0.16, doffs=30)
PLACES = {"middlebury": ("middlebury2014", "middlebury2014_q"), "instereo": ("instereo2k", "instereo2k")}


def recording(height: int = 8, width: int = 20, size: float = 1.0) -> Recording:
    """A ramp of intensities, disparity 10 everywhere."""
    ramp = np.linspace(0, 1, height * width * 3, dtype=np.float32).reshape(height, width, 3)
    return Recording(ramp, ramp[:, ::-1].copy(), np.full((height, width), 10, np.float32), size=size)


@pytest.mark.reference
@pytest.mark.parametrize(("family", "name"), [(family, name) for family, names in SCENES.items() for name in names])
def test_both_truths_are_those_of_the_reference_results(family: str, name: str) -> None:
    kind, folder = PLACES[family]
    with np.load(data_folder() / "reference" / f"{family}_{name}.npz") as file:
        nearest, paper, noisy = file["gt_nearest"], file["gt_paper"], file["left"]

    scene = open_dataset(kind, data_folder() / "data" / folder).load(name)

    assert scene.left.shape == scene.right.shape == noisy.shape
    np.testing.assert_array_equal(np.nan_to_num(scene.truth, nan=0.0), nearest)
    # Area averaging may add in another order: a few last bits of a float32 of up to 180.
    np.testing.assert_allclose(np.nan_to_num(scene.truth_paper, nan=0.0), paper, rtol=0, atol=5e-5)
    np.testing.assert_array_equal(np.isnan(scene.truth_paper), paper == 0)


@pytest.mark.reference
def test_the_clean_image_is_the_one_under_the_noise_of_the_reference() -> None:
    with np.load(data_folder() / "reference" / "middlebury_Motorcycle.npz") as file:
        recorded = file["left"].astype(np.float64) / 255
    scene = open_dataset("middlebury2014", data_folder() / "data" / "middlebury2014_q").load("Motorcycle")

    ours = simulate_pair(scene.left, scene.right, photons=2, read_noise=2, seed=0)[0]

    # The mean response is a function of the clean level alone: where levels are equal, so are the means, to within
    # five standard errors of two samples with a deviation of 0.45, which the photon level and the read noise give.
    for low in np.arange(0.0, 0.9, 0.1):
        chosen = (scene.left >= low) & (scene.left < low + 0.1)
        error = 0.45 * np.sqrt(2 / np.count_nonzero(chosen))
        assert abs(recorded[chosen].mean() - ours[chosen].mean()) < 5 * error + 1e-3  # 127 / 255 is not quite 0.5


def test_an_image_shrinks_by_area_averaging() -> None:
    image = np.arange(16, dtype=np.float32).reshape(4, 4, 1) / np.float32(16)

    shrunk = shrink_image(image, 0.5)

    # Mean of each 2 x 2 block: first element + (0 + 1 + 4 + 5) / 4.
    np.testing.assert_allclose(shrunk[:, :, 0] * 16, [[2.5, 4.5], [10.5, 12.5]])


def test_nearest_neighbor_keeps_measured_values_and_unknown_pixels() -> None:
    truth = np.array([[4, 6, NAN, 8], [1, 1, 1, 1]], np.float32)

    shrunk = shrink_truth(truth, 0.5)

    np.testing.assert_array_equal(shrunk, [[4 * 0.5, NAN]])


def test_the_papers_truth_mixes_zeros_in_at_holes_and_drops_what_is_all_hole() -> None:
    truth = np.array([[4, NAN, NAN, NAN], [4, NAN, NAN, NAN]], np.float32)

    shrunk = shrink_truth_paper(truth, 0.5)

    np.testing.assert_array_equal(shrunk, [[(4 + 0 + 4 + 0) / 4 * 0.5, NAN]])


def test_what_is_known_to_be_infinitely_far_stays_known_in_the_papers_truth() -> None:
    truth = np.array([[0, 0, NAN, 0, 3, -3], [0, 0, NAN, NAN, 3, -3]], np.float32)

    np.testing.assert_array_equal(shrink_truth_paper(truth, 1), truth)
    np.testing.assert_array_equal(shrink_truth_paper(truth, 0.5), [[0, 0, 0]])


def test_a_mask_takes_the_same_pixels_as_the_truth() -> None:
    truth = np.random.default_rng(5).uniform(1, 90, (37, 53)).astype(np.float32)

    mask = shrink_mask(truth > 45, 0.8)

    np.testing.assert_array_equal(mask, shrink_truth(truth, 0.8) / np.float32(0.8) > 45)


@pytest.mark.parametrize(("size", "factor"), [(1.0, 0.2), (0.5, 0.4), (0.25, 0.8)])
def test_the_scale_is_relative_to_full_size_whatever_lies_on_disk(size: float, factor: float) -> None:
    scene = at_scale(recording(50, 100, size), 0.2, "middlebury2014", "Ramp")

    assert scene.left.shape == (round(50 * factor), round(100 * factor), 3)
    assert scene.scale == 0.2
    np.testing.assert_allclose(scene.truth, 10 * factor, rtol=1e-6)
    np.testing.assert_allclose(scene.truth_paper, 10 * factor, rtol=1e-6)


def test_depth_is_the_same_at_every_scale() -> None:
    on_disk = Recording(**{**vars(recording(10, 20)), "calibration": CALIBRATION, "max_disparity": 70})

    scene = at_scale(on_disk, 0.5, "folder", "Ramp")

    found = scene.calibration
    assert found is not None
    assert found.fx * found.baseline / (5 + found.doffs) == pytest.approx(1000 * 0.16 / (10 + 30))
    assert (found.width, found.height) == (10, 5)
    # 9.5 is the middle of pixels 0 to 19, 4.5 that of pixels 0 to 9, and so on.
    assert (found.cx, found.cy) == (4.5, 2.0)
    assert scene.max_disparity == 35


def test_a_scene_at_its_own_size_is_not_resampled() -> None:
    on_disk = recording(7, 9, size=1 / 3)

    scene = at_scale(on_disk, 1 / 3, "middlebury2006", "Ramp")

    np.testing.assert_array_equal(scene.left, on_disk.left)
    np.testing.assert_array_equal(scene.truth, on_disk.truth)
    assert not np.shares_memory(scene.truth, on_disk.truth)


def test_nothing_is_enlarged() -> None:
    with pytest.raises(SettingsError, match=r"'Ramp'.*0\.5 of full size: only 0\.25"):
        at_scale(recording(size=0.25), 0.5, "middlebury2014", "Ramp")


@pytest.mark.parametrize("scale", [0, -1, 1.5, float("nan"), True, "0.2"])
def test_a_scale_that_is_no_share_of_full_size_is_refused(scale: float) -> None:
    with pytest.raises(SettingsError, match="scale must be a share"):
        at_scale(recording(), scale, "folder", "Ramp")


def test_a_level_of_light_is_the_mean_of_frames_with_noise_of_their_own() -> None:
    scene = shifted_scene(8, 12)

    left, right, noisy = record_scene(scene, 2, 2, seed=3, frames=4)

    frames = [simulate_pair(scene.left, scene.right, 2, 2, 3 + 1000 * k) for k in range(4)]
    np.testing.assert_allclose(left, np.mean([frame[0] for frame in frames], axis=0), atol=1e-6)
    np.testing.assert_allclose(right, np.mean([frame[1] for frame in frames], axis=0), atol=1e-6)
    one = record_scene(scene, 2, 2, seed=3)
    np.testing.assert_array_equal(one[0], frames[0][0])
    assert noisy.noise is not None
    assert one[2].noise is not None
    assert noisy.noise.std == pytest.approx(one[2].noise.std / 2)  # the square root of four frames


def test_no_two_frames_share_their_noise_whatever_the_seeds() -> None:
    scene = shifted_scene(8, 12)

    def frames(seed: int) -> list[np.ndarray]:
        """Frame k is what the sum of k + 1 frames has beyond that of k."""
        sums = [n * record_scene(scene, 2, 2, seed, n)[0].astype(float) for n in (1, 2, 3)]
        return list(np.diff([0 * sums[0], *sums], axis=0).round(3))

    found = [frame for seed in (0, 1, 999, 1000, 1001, 2000, 10**6) for frame in frames(seed)]

    assert len({frame.tobytes() for frame in found}) == len(found)


def test_no_frames_leave_a_clean_pair_as_it_is_and_a_real_one_with_noise_that_nobody_knows() -> None:
    scene = shifted_scene(8, 12)

    left, right, clean = record_scene(scene, 2, 2, seed=0, frames=CLEAN)

    np.testing.assert_array_equal(left, scene.left)
    np.testing.assert_array_equal(right, scene.right)
    assert clean.noise == Noise(0.0)
    assert record_scene(scene, 2, 2, seed=0, frames=CLEAN, is_clean=False)[2].noise is None


@pytest.mark.parametrize("frames", [CLEAN, 1])
def test_methods_are_given_a_real_pair_with_white_at_one_however_its_camera_stores_it(frames: int) -> None:
    scene = shifted_scene()
    dark = replace(scene, left=scene.left / 16, right=scene.right / 16)  # 12 bits in a file of 16

    with pytest.warns(DarkImageWarning) as told:
        left, right, _ = record_scene(dark, 1e6, 0, seed=0, frames=frames, is_clean=False)

    assert "black was put at 0 and white at 0.0625" in str(told[-1].message)
    assert ("Photons are counted at its white" in str(told[0].message)) == bool(frames)
    step = 16 / 255 if frames else 0  # noise of ours is stored in 8 bits
    np.testing.assert_allclose(left, scene.left, atol=0.6 * step)
    np.testing.assert_allclose(right, scene.right, atol=0.6 * step)


def test_known_noise_is_that_of_three_levels_at_two_photons() -> None:
    def moments(light: float) -> tuple[float, float]:
        """Mean and variance of 0, 1/2 and 1, which the count plus noise rounds to, count by count."""
        mean = square = 0.0
        for count in range(40):
            weight = math.exp(-light) * light**count / math.factorial(count)
            below, above = (0.5 * math.erfc((count - edge) / 2 / math.sqrt(2)) for edge in (0.5, 1.5))
            mean += weight * (0.5 * (above - below) + 1 - above)
            square += weight * (0.25 * (above - below) + 1 - above)
        return mean, square - mean**2

    noise = known_noise(2, 2)

    assert noise.black == pytest.approx(moments(0)[0], abs=1e-6)
    assert noise.white == pytest.approx(moments(2)[0], abs=1e-6)
    worst = max(moments(2 * k / 64)[1] for k in range(65))
    assert noise.std == pytest.approx(math.sqrt(worst), abs=1e-6)
