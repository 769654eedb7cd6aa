"""Streams that are fused, and what happens to them: motion, cuts, lost frames, flicker, noise, things that move."""

from __future__ import annotations

import copy
import hashlib
import pickle
import re
import subprocess
import sys
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from moving_scene import MovingScene, sway

import scotopic
from scotopic.backends import cpu_backend
from scotopic.errors import DarkImageWarning, InputError, PairWarning, SettingsError
from scotopic.fusion.geometry import StereoCamera
from scotopic.fusion.window import Frame, fuse_views
from scotopic.pipelines import run_pipeline
from scotopic.result import ARRAYS, FUSED_ARRAYS
from scotopic.settings import NoiseSettings
from scotopic.stages.noise import estimate_noise
from scotopic.streams import refine_burst

SCENE = MovingScene()
PHOTONS = 32.0
LARGEST = {"max_disparity": 28}
# A quicker fit than that of best, and neither its filter of like patches nor its planes, which take most of its time.
# Tests of coverage use the preset as it is: a fit that is not refined keeps more.
QUICK = {**LARGEST, "refine_steps": 0, "group_rounds": 0, "surface_passes": 0, "plane_rounds": 0}
Pairs = list[tuple[np.ndarray, np.ndarray]]


def frames(numbers: Iterable[int], scene: MovingScene = SCENE, seed: int = 0) -> Pairs:
    """Noisy pairs of some frames of the motion."""
    return [scene.dark(sway(k), PHOTONS, 100 * seed + k) for k in numbers]


def run(pairs: Pairs, fuse: int | None = 8, **options: object) -> list[scotopic.Match]:
    matcher = scotopic.Matcher("best", device="cpu", fuse=fuse, calibration=SCENE.calibration, **QUICK, **options)
    return list(matcher.run(pairs))


def wrong(match: scotopic.Match, frame: int, scene: MovingScene = SCENE) -> float:
    """Share of all pixels that are more than 2 px off."""
    return float((np.abs(match.disparity_all - scene.draw(sway(frame)).disparity) > 2).mean())


@pytest.fixture(scope="module", autouse=True)
def remembered() -> Iterator[None]:
    """Match the same images once: most streams here begin alike. That the answer is the same again is a test below."""
    known: dict[object, scotopic.Match] = {}

    def match_once(
        device: str,
        images: list[np.ndarray],
        settings: object,
        *,
        light: list[np.ndarray] | None = None,
        **others: object,
    ) -> scotopic.Match:
        given = b"".join(np.ascontiguousarray(each).tobytes() for each in [*images, *(light or [])])
        key = device, repr(settings), light is None, hashlib.sha256(given).hexdigest()
        if key not in known:
            known[key] = run_pipeline(device, images, settings, light=light, **others)  # type: ignore[arg-type]
        return copy.deepcopy(known[key])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scotopic.streams.run_pipeline", match_once)
        yield


@pytest.fixture(scope="module")
def fused() -> list[scotopic.Match]:
    return run(frames(range(6)))


def test_light_adds_up_along_the_motion(fused: list[scotopic.Match]) -> None:
    inner = (slice(12, -12), slice(24, -24))

    counts = [float(np.median(each.frames[inner])) for each in fused]
    assert counts[:3] == pytest.approx([1, 2, 3], abs=0.3)
    assert min(counts[4:]) > 4  # places are not quite right, and this light shows it
    clear = SCENE.draw(sway(5)).left[inner]
    errors = [
        float(np.sqrt(((image[inner] - clear) ** 2).mean())) for image in (fused[5].left_image, fused[5].fused_left)
    ]
    # Six frames have sqrt(6) = 2.4 times less noise; half a pixel's uncertainty of place takes some of it back.
    assert errors[1] < errors[0] / 1.7


def test_poses_follow_the_rig(fused: list[scotopic.Match]) -> None:
    for number, each in enumerate(fused):
        assert each.pose is not None
        assert each.pose_covariance is not None
        expected = sway(number)
        assert np.allclose(each.pose[:3, 3], expected[:3, 3], atol=0.1)  # baselines; a pixel is 0.08 at the wall
        assert np.allclose(each.pose[:3, :3], expected[:3, :3], atol=0.006)
        assert np.all(np.linalg.eigvalsh(each.pose_covariance) >= -1e-12)


def test_poses_are_in_the_unit_of_the_calibration(fused: list[scotopic.Match]) -> None:
    meters = replace(SCENE.calibration, baseline=0.25)
    matcher = scotopic.Matcher("best", device="cpu", fuse=8, calibration=meters, **QUICK)

    found = list(matcher.run(frames(range(2))))[1]

    assert np.allclose(found.pose[:3, 3], 0.25 * fused[1].pose[:3, 3])
    assert np.allclose(found.pose_covariance[:3, :3], 0.0625 * fused[1].pose_covariance[:3, :3])
    assert np.allclose(found.pose_covariance[3:, 3:], fused[1].pose_covariance[3:, 3:])


def test_without_fusion_a_stream_is_as_before() -> None:
    pairs = frames(range(2))

    for found, pair in zip(run(pairs, None), pairs, strict=True):
        alone = scotopic.match(*pair, "best", "cpu", **QUICK)
        assert found.pose is found.frames is found.fused_left is None
        assert np.array_equal(found.disparity_all, alone.disparity_all)


def test_the_same_bytes_again_with_the_preset_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scotopic.streams.run_pipeline", run_pipeline)
    pairs = frames(range(2))

    first, second = (
        list(scotopic.Matcher("best", device="cpu", fuse=8, calibration=SCENE.calibration, **LARGEST).run(pairs))
        for _ in range(2)
    )

    for one, other in zip(first, second, strict=True):
        assert np.array_equal(one.pose, other.pose)
        assert one.fused_left.tobytes() == other.fused_left.tobytes()
        assert one.disparity_all.tobytes() == other.disparity_all.tobytes()
    assert wrong(first[1], 1) < wrong(first[0], 0) + 0.02  # light that was fused makes nothing worse


def test_one_thread_and_two_give_the_same_bytes() -> None:
    """Nine frames of a board that moves by itself, so that it is looked for and followed too."""
    code = f"""
import os
os.environ["NUMBA_NUM_THREADS"] = "2"  # also where there is one core
import hashlib, sys
import numba, cv2
sys.path.insert(0, {str(Path(__file__).parent)!r})
import scotopic
from moving_scene import BOARD, MovingScene, sway
scene = MovingScene()
pairs = [scene.dark(sway(k), 32, k, board_shift=2 * k * BOARD / scene.focal) for k in range(9)]
names = "pose", "pose_covariance", "frames", "fused_left", "fused_right", "disparity_all", "confidence"
for threads in (1, 2):
    numba.set_num_threads(threads); cv2.setNumThreads(threads)
    options = dict(max_disparity=28, refine_steps=0)
    matcher = scotopic.Matcher("fast", device="cpu", fuse=9, calibration=scene.calibration, **options)
    found = [getattr(each, name).tobytes() for each in matcher.run(pairs) for name in names]
    print(hashlib.sha256(b"".join(found)).hexdigest())
"""
    runs = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()

    assert len(runs) == 2
    assert runs[0] == runs[1]


def test_no_more_frames_are_kept_than_are_fused() -> None:
    found = run(frames(range(5)), fuse=3)

    assert max(float(each.frames.max()) for each in found) <= 3 + 1e-3


def test_what_is_kept_of_a_stream_does_not_grow() -> None:
    scene = MovingScene(height=96, width=104)
    matcher = scotopic.Matcher("fast", device="cpu", fuse=4, max_disparity=16, refine_steps=0, check=False)
    sizes = []
    for k in range(12):
        (_,) = matcher.run([scene.dark(sway(k % 24), PHOTONS, k)])
        sizes.append(len(pickle.dumps(matcher)))

    assert max(sizes[6:]) <= 1.01 * sizes[5]  # all that is kept, since it can go on from there


def test_a_rig_at_rest_gives_the_mean_of_its_frames() -> None:
    pairs = [SCENE.dark(None, PHOTONS, seed) for seed in range(4)]

    last = run(pairs)[-1]

    mean = np.mean([pair[0] for pair in pairs], axis=0)
    same = np.isclose(last.fused_left, mean, atol=1e-5).all(axis=2)
    assert same.mean() > 0.95  # all but what the test for change took for one


def test_a_cut_starts_anew_within_a_frame() -> None:
    other = MovingScene(seed=3)
    found = run([*frames(range(3)), *frames(range(3), other, 1)])

    assert float(found[3].frames.max()) == 1
    assert np.isinf(found[3].pose_covariance.diagonal()).all()
    fresh = run(frames(range(3), other, 1))
    assert wrong(found[3], 0, other) <= wrong(fresh[0], 0, other) + 0.02
    assert float(np.median(found[4].frames)) == pytest.approx(2, abs=0.3)
    assert wrong(found[5], 2, other) <= wrong(fresh[2], 2, other) + 0.02


def test_three_lost_frames_are_bridged() -> None:
    found = run(frames([0, 1, 2, 6, 7]))

    assert float(np.median(found[3].frames)) > 3
    assert np.allclose(found[3].pose[:3, 3], sway(6)[:3, 3], atol=0.08)
    assert wrong(found[3], 6) <= wrong(run(frames([6]))[0], 6) + 0.02


def test_half_the_exposure_is_found_and_used() -> None:
    pairs = frames(range(5))
    half = [0.5 * image for image in pairs[3]]
    found = run([*pairs[:3], (half[0], half[1]), pairs[4]])

    assert float(np.median(found[3].frames)) > 2.5  # a frame of half the contrast is worth a quarter
    assert wrong(found[3], 3) <= wrong(run([pairs[3]])[0], 3) + 0.02
    fused_mean = float(found[3].fused_left.mean())
    assert fused_mean == pytest.approx(float(found[2].fused_left.mean()), rel=0.1)  # in the first frame's values
    assert float(np.median(found[4].frames)) > 3


@pytest.mark.parametrize("rate", [0.9, 0.8])
def test_light_that_fades_is_followed(rate: float) -> None:
    exposures = [rate**k for k in range(5)]
    found = run([(each * left, each * right) for each, (left, right) in zip(exposures, frames(range(5)), strict=True)])

    expected = np.cumsum(np.square(exposures))  # a frame of half the contrast is worth a quarter
    np.testing.assert_allclose([np.median(each.frames) for each in found], expected, rtol=0.03)


def test_light_that_rises_counts_in_frames_of_the_brightest() -> None:
    exposures = [1.1 ** (k - 5) for k in range(6)]
    found = run([(each * left, each * right) for each, (left, right) in zip(exposures, frames(range(6)), strict=True)])

    expected = [sum(1.1 ** (-2 * j) for j in range(k + 1)) for k in range(6)]
    np.testing.assert_allclose([np.median(each.frames) for each in found], expected, rtol=0.05)


@pytest.mark.parametrize(("reference", "rate"), [(0, 0.9), (2, 1.1), (4, 0.8)])
def test_the_frames_of_a_burst_may_differ_in_exposure(reference: int, rate: float) -> None:
    exposures = np.array([rate ** (k - 4) if rate > 1 else rate**k for k in range(5)])  # at most 1
    pairs = [(each * left, each * right) for each, (left, right) in zip(exposures, frames(range(5)), strict=True)]

    found = scotopic.match_burst(
        *zip(*pairs, strict=True), device="cpu", reference=reference, calibration=SCENE.calibration, **QUICK
    )

    expected = np.minimum((exposures / exposures[reference]) ** 2, 1).sum()  # brighter frames count as one
    assert float(np.median(found.frames)) == pytest.approx(expected, rel=0.03)


def test_a_frame_of_noise_is_passed_over() -> None:
    rng = np.random.default_rng(0)
    noise = [rng.uniform(0, 1, (96, 160, 3)).astype(np.float32) for _ in range(2)]
    pairs = frames(range(4))

    found = run([*pairs[:3], (noise[0], noise[1]), pairs[3]])

    assert float(found[3].frames.max()) == 1
    assert float(np.median(found[4].frames)) > 3  # the stream before the noise goes on
    assert np.all(np.isfinite(found[4].pose_covariance))
    assert wrong(found[4], 3) <= wrong(run([pairs[3]])[0], 3) + 0.02


@pytest.mark.parametrize("view", [0, 1])
def test_an_unplugged_camera_is_passed_over(view: int) -> None:
    pairs = frames(range(4))
    black = list(pairs[3])
    black[view] = np.zeros_like(black[view])

    found = run([*pairs[:3], (black[0], black[1]), pairs[3]])

    assert float(found[3].frames.max()) == 0
    assert set(np.unique(found[3].reason)) == {int(scotopic.Reason.NO_STRUCTURE)}
    assert np.array_equal(found[3].pose, found[2].pose)
    assert float(np.median(found[4].frames)) > 3
    assert wrong(found[4], 3) <= wrong(run([pairs[3]])[0], 3) + 0.02


def test_what_moves_by_itself_leaves_no_ghost() -> None:
    """The board jumps aside in the last frame: there the past is not used, elsewhere it is."""
    backend, camera = cpu_backend(), SCENE.camera
    pairs = [SCENE.dark(None, PHOTONS, seed) for seed in range(7)] + [SCENE.dark(None, PHOTONS, 7, board_shift=0.9)]
    window = [Frame((left, right), (None, None), np.eye(4)) for left, right in pairs]
    now = SCENE.draw(None, board_shift=0.9)
    noise = estimate_noise(backend, window[0].images, NoiseSettings())

    view, _ = fuse_views(backend, camera, window[7], window[6::-1], 2 * [now.disparity], noise)

    changed = np.abs(now.left - SCENE.draw().left).max(axis=2) > 0.25
    assert np.median(view.frames[changed]) < 2
    assert np.median(view.frames[~changed]) > 7
    ghost, honest = (float(np.abs(image - now.left)[changed].mean()) for image in (view.image, pairs[7][0]))
    assert ghost <= 1.1 * honest


def test_masked_pixels_are_filled_from_other_frames() -> None:
    pairs = frames(range(3))
    hidden = np.zeros((96, 160), bool)
    hidden[40:50, 70:90] = True
    masked = np.ma.MaskedArray(pairs[2][0], np.broadcast_to(hidden[..., None], pairs[2][0].shape))

    found = run([*pairs[:2], (masked, pairs[2][1])])

    assert float(np.median(found[2].frames[hidden])) == pytest.approx(2, abs=0.3)
    assert not np.any(found[2].reason[hidden] == scotopic.Reason.MASKED)


def test_results_with_fusion_are_saved_and_read_again(fused: list[scotopic.Match], tmp_path) -> None:  # type: ignore[no-untyped-def]
    fused[2].save(tmp_path / "out")

    again = scotopic.Match.load(tmp_path / "out")

    for name in ("pose", "pose_covariance", "frames", "fused_left", "fused_right"):
        assert np.array_equal(getattr(again, name), getattr(fused[2], name)), name


@pytest.mark.parametrize("fuse", [0, -1, 257, 2.5, True])
def test_a_number_of_frames_that_makes_no_sense_is_refused(fuse: object) -> None:
    with pytest.raises(SettingsError, match="number of pairs to fuse"):
        scotopic.Matcher("fast", fuse=fuse)  # type: ignore[arg-type]


def test_a_burst_is_one_answer_for_its_reference() -> None:
    pairs = frames(range(5))
    left, right = zip(*pairs, strict=True)

    answers = list(refine_burst(left, right, "best", "cpu", reference=2, calibration=SCENE.calibration, **QUICK))

    assert [round(float(np.median(each.frames))) for each in answers] == [1, 2, 4, 5]
    last = scotopic.match_burst(left, right, "best", "cpu", reference=2, calibration=SCENE.calibration, **QUICK)
    assert np.array_equal(last.disparity_all, answers[-1].disparity_all)
    assert np.array_equal(last.left_image, pairs[2][0])
    assert np.array_equal(last.pose, np.eye(4))
    clear = SCENE.draw(sway(2)).left
    single, fused = (float(np.abs(image - clear).mean()) for image in (pairs[2][0], last.fused_left))
    assert fused < single / 1.6


@pytest.mark.parametrize("others_see_it", [False, True])
def test_what_is_masked_in_a_burst_is_masked_unless_another_frame_shows_it(others_see_it: bool) -> None:
    pairs = frames(range(3))
    hidden = np.zeros((96, 160, 3), bool)
    hidden[36:60, 70:110] = True
    left = [np.ma.MaskedArray(np.where(hidden, 0.9, image).astype(np.float32), hidden) for image, _ in pairs]
    if others_see_it:
        left[1:] = [image for image, _ in pairs[1:]]

    found = scotopic.match_burst(
        left, [image for _, image in pairs], "best", "cpu", calibration=SCENE.calibration, **QUICK
    )

    inside = np.s_[42:54, 78:102]  # the camera sways by some pixels
    is_masked = found.reason[inside] == scotopic.Reason.MASKED
    if others_see_it:
        assert not is_masked.any()
        assert float(np.median(found.frames[inside])) == pytest.approx(2, abs=0.3)
    else:
        assert is_masked.all()
        assert np.isnan(found.disparity[inside]).all()


def test_a_burst_leaves_out_frames_that_show_something_else() -> None:
    pairs = [*frames(range(3)), *frames([0], MovingScene(seed=3)), (np.zeros((96, 160, 3)), np.zeros((96, 160, 3)))]
    left, right = zip(*pairs, strict=True)

    found = scotopic.match_burst(left, right, "best", "cpu", calibration=SCENE.calibration, **QUICK)

    assert round(float(np.median(found.frames))) == 3


def test_a_burst_says_what_is_wrong_with_it() -> None:
    pairs = frames(range(2))
    left, right = zip(*pairs, strict=True)

    with pytest.raises(InputError, match="2 left and 1 right"):
        scotopic.match_burst(left, right[:1])
    with pytest.raises(InputError, match="no frame 2"):
        scotopic.match_burst(left, right, reference=2)
    with pytest.raises(InputError, match="shows nothing"):
        scotopic.match_burst([0 * left[0], left[1]], right, "fast", "cpu")


def test_a_stream_that_is_pickled_goes_on_where_it_was() -> None:
    pairs = frames(range(3))
    matcher = scotopic.Matcher("fast", device="cpu", fuse=4, max_disparity=32, refine_steps=0)
    list(matcher.run(pairs[:2]))

    (found,) = pickle.loads(pickle.dumps(matcher)).run(pairs[2:])

    (expected,) = matcher.run(pairs[2:])
    assert float(expected.frames.max()) > 2
    np.testing.assert_array_equal(found.frames, expected.frames)
    np.testing.assert_array_equal(found.disparity, expected.disparity)


def test_two_streams_are_not_mixed_in_one_matcher() -> None:
    pairs = frames(range(2))
    matcher = scotopic.Matcher("fast", device="cpu", fuse=4, max_disparity=32)
    running = matcher.run(pairs)
    next(running)

    with pytest.raises(InputError, match="Make a Matcher for each"):
        next(matcher.run(pairs))
    copy = pickle.loads(pickle.dumps(matcher))

    assert float(next(running).frames.max()) > 1  # nothing was lost of the first
    assert float(next(copy.run(pairs[1:])).frames.max()) > 1
    running.close()
    assert float(next(matcher.run(frames([2]))).frames.max()) > 2  # goes on where it was


@pytest.mark.parametrize("make_copy", [copy.copy, copy.deepcopy, lambda matcher: pickle.loads(pickle.dumps(matcher))])
def test_a_copy_goes_on_with_a_stream_of_its_own(make_copy: Any) -> None:
    matcher = scotopic.Matcher("fast", device="cpu", fuse=8, max_disparity=32, refine_steps=0)
    list(matcher.run(frames(range(2))))
    other = make_copy(matcher)
    (expected,) = other.run(frames([2]))

    (found,) = matcher.run(frames([2]))

    np.testing.assert_array_equal(found.frames, expected.frames)
    np.testing.assert_array_equal(found.disparity_all, expected.disparity_all)


def test_a_camera_is_assumed_where_none_is_given() -> None:
    matcher = scotopic.Matcher("fast", device="cpu", fuse=4, max_disparity=32, refine_steps=0)

    found = list(matcher.run(frames(range(2))))

    assert matcher.camera == StereoCamera.assumed((96, 160))
    assert np.all(np.isfinite(found[1].pose))


def beyond_infinity(shift: int) -> Pairs:
    """Pairs whose right view begins a few columns later, so that all disparities are smaller by that: doffs."""
    width = SCENE.width - shift
    return [(left[:, :width], right[:, shift:]) for left, right in frames(range(3))]


ABOUT_INFINITY = r"% of the disparities are below 0 px, which these cameras have at infinity"


# The wall has a disparity of 150 / 12 = 12.5 px, the board of 150 / 7 = 21.4.
@pytest.mark.parametrize(("shift", "doffs"), [(25, 0.0), (25, 25.0), (8, 0.0)])
def test_motion_is_doubted_where_disparities_are_farther_than_infinity(shift: int, doffs: float) -> None:
    pairs = beyond_infinity(shift)
    camera = replace(SCENE.calibration, doffs=doffs)
    options: dict[str, Any] = {"device": "cpu", "calibration": camera, **QUICK, "min_disparity": -shift}
    matcher = scotopic.Matcher("best", fuse=4, check=False, **{**options, "max_disparity": 28 - shift})

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        list(matcher.run(pairs))
        list(refine_burst(*zip(*pairs, strict=True), "best", **{**options, "max_disparity": 28 - shift}))

    doubts = [each for each in told if "at infinity" in str(each.message)]
    assert len(doubts) == (2 if shift - doffs > 21.4 else 0)  # once for the stream, once for the burst
    assert all(re.search(ABOUT_INFINITY, str(each.message)) for each in doubts)


def test_a_camera_that_stands_still_on_one_frame_loses_nothing() -> None:
    (pair,) = frames([0])
    # With the same noise in both, a denoised template has much less contrast than the frame: no change of exposure.
    matcher = scotopic.Matcher("fast", device="cpu", fuse=2, calibration=SCENE.calibration, check=False, **LARGEST)
    noisy = [np.clip(view + np.random.default_rng(3).normal(0, 0.2, view.shape), 0, 1) for view in pair]
    with pytest.warns(PairWarning, match="Pair 1 has both views of the pair before again"):
        found = list(matcher.run([(noisy[0], noisy[1])] * 4))

    assert matcher.repeated == (1, 2, 3)
    for each in found:
        np.testing.assert_allclose(each.fused_left, each.left_image, atol=1e-3)
        assert each.coverage == pytest.approx(found[0].coverage, rel=0.02)


def test_the_path_of_a_calibration_is_refused_at_once() -> None:
    with pytest.raises(SettingsError, match=r"calibration is a str.*read_calibration"):
        scotopic.Matcher("fast", device="cpu", fuse=4, calibration="calib.txt")  # type: ignore[arg-type]


def test_the_number_of_pairs_to_fuse_may_be_of_numpy() -> None:
    assert scotopic.Matcher("fast", device="cpu", fuse=np.int64(4)).fuse == 4


@pytest.mark.parametrize(
    ("left", "reference", "words"),
    [
        ("left.tif", 0, "left frames are a str"),
        (Path("left.tif"), 0, "left frames are a .*Path"),
        ((image for image in ()), 0, "left frames are a generator"),
        ([np.zeros((64, 96))], 0.0, "reference is the number of a frame, not 0.0"),
        ([np.zeros((64, 96))], None, "reference is the number of a frame, not None"),
    ],
)
def test_bursts_that_are_no_lists_and_odd_references_are_refused(left: Any, reference: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        scotopic.match_burst(left, [np.zeros((64, 96))], "fast", reference=reference)


def test_pairs_in_which_nothing_is_found_are_matched_one_by_one() -> None:
    random = np.random.default_rng(0)
    noise = [tuple(random.integers(0, 256, (48, 80), np.uint8) for _ in range(2)) for _ in range(3)]
    found = list(scotopic.Matcher("fast", device="cpu", fuse=2, check=False, max_disparity=16).run(noise))

    assert [float(each.frames.max()) for each in found] == [1, 1, 1]
    assert np.isinf(found[2].pose_covariance.diagonal()).all()


def test_a_scene_after_a_cut_has_levels_of_its_own() -> None:
    bright = [tuple(np.rint(255 * np.clip(view, 0, 1)).astype(np.uint8) for view in pair) for pair in frames(range(2))]
    dark = [  # a tunnel: a sixteenth of the light, in another place
        tuple(np.rint(16 * np.clip(view, 0, 1)).astype(np.uint8) for view in pair)
        for pair in frames(range(2), MovingScene(seed=5))
    ]
    few = {**LARGEST, "refine_steps": 0, "check": False}
    matcher = scotopic.Matcher("fast", device="cpu", fuse=2, calibration=SCENE.calibration, **few)
    with pytest.warns(DarkImageWarning):
        found = list(matcher.run([*bright, *dark]))
    with pytest.warns(DarkImageWarning):
        alone = scotopic.match(*dark[0], "fast", "cpu", **few)

    assert float(found[2].frames.max()) == 1
    np.testing.assert_allclose(found[2].disparity, alone.disparity, atol=0.05)
    np.testing.assert_allclose(found[2].left_colors, alone.left_colors, atol=1e-4)
    assert found[2].coverage > 0.02


def exposed(pair: tuple[np.ndarray, ...], exposure: float) -> tuple[np.ndarray, ...]:
    """A pair of 8 bits."""
    return tuple(np.rint(255 * exposure * np.clip(view, 0, 1)).astype(np.uint8) for view in pair)


@pytest.mark.filterwarnings("ignore::scotopic.errors.DarkImageWarning")
@pytest.mark.parametrize(("first", "then"), [(0.5, 1.0), (1 / 16, 1.0), (1.0, 0.4)])
def test_the_light_of_the_first_frame_does_not_set_the_coverage_for_ever(first: float, then: float) -> None:
    pairs = frames(range(6))
    later = [exposed(pair, then) for pair in pairs[2:]]
    found, fresh = (
        list(
            scotopic.Matcher("fast", device="cpu", fuse=4, calibration=SCENE.calibration, check=False, **LARGEST).run(
                each
            )
        )
        for each in ([*(exposed(pair, first) for pair in pairs[:2]), *later], later)
    )

    assert found[-1].fused_left.mean() == pytest.approx(found[-1].left_image.mean(), rel=0.05)
    assert float(np.median(found[-1].frames)) == pytest.approx(4, abs=0.3)
    assert found[-1].coverage > 0.6 * fresh[-1].coverage > 0.01


def test_a_dark_frame_counts_by_its_light() -> None:
    pairs = frames(range(2))

    found = run([exposed(pairs[0], 0.5), exposed(pairs[1], 1.0)])[-1]

    assert float(np.median(found.frames)) == pytest.approx(1.25, abs=0.15)  # half of the contrast is a quarter


def test_a_frame_that_is_sent_again_is_no_new_light() -> None:
    pairs = frames(range(4))
    stalled = [pairs[0], pairs[1], pairs[1], pairs[1], pairs[2], pairs[3]]
    copied = [tuple(image.copy() for image in pair) for pair in stalled]

    with pytest.warns(PairWarning, match="Pair 2 has both views") as told:
        found = run(copied)  # type: ignore[arg-type]

    expected = run(pairs)
    assert len(told) == 1
    assert [round(float(np.median(each.frames)), 1) for each in found[1:4]] == [2, 2, 2]
    for repeated in found[2:4]:
        assert np.array_equal(repeated.disparity_all, found[1].disparity_all)
        assert np.array_equal(repeated.pose, found[1].pose)
    assert float(found[5].frames.max()) <= 4 + 1e-3
    assert float(np.median(found[5].frames)) == pytest.approx(float(np.median(expected[3].frames)), abs=0.5)


@pytest.mark.filterwarnings("ignore:Pair 2 has both views")
def test_what_is_done_to_a_result_does_not_change_those_that_follow() -> None:
    pairs = frames(range(3))
    pairs.insert(2, (pairs[1][0].copy(), pairs[1][1].copy()))  # a camera that stalls is given the last answer again
    options: dict[str, Any] = {"device": "cpu", "fuse": 4, "max_disparity": 32, "refine_steps": 0}
    expected = list(scotopic.Matcher("fast", **options).run(pairs))

    for match, other in zip(scotopic.Matcher("fast", **options).run(pairs), expected, strict=True):
        for name in (*ARRAYS, *FUSED_ARRAYS):
            np.testing.assert_array_equal(getattr(match, name), getattr(other, name), name)
            getattr(match, name)[:] = 0  # as by somebody who draws into the image, or fills in the map


def test_what_is_done_to_an_answer_of_a_burst_does_not_change_those_that_follow() -> None:
    left, right = zip(*frames(range(4)), strict=True)
    options: dict[str, Any] = {"device": "cpu", "max_disparity": 32, "refine_steps": 0}
    expected = list(refine_burst(left, right, "fast", **options))

    for match, other in zip(refine_burst(left, right, "fast", **options), expected, strict=True):
        for name in (*ARRAYS, *FUSED_ARRAYS):
            np.testing.assert_array_equal(getattr(match, name), getattr(other, name), name)
            getattr(match, name)[:] = 0


@pytest.mark.parametrize("view", [0, 1])
def test_the_light_of_one_stalled_camera_counts_once(view: int) -> None:
    pairs = [SCENE.dark(None, PHOTONS, seed) for seed in range(4)]
    half = list(pairs[3])
    half[view] = pairs[2][view].copy()

    with pytest.warns(PairWarning, match=f"Pair 3 has the {('left', 'right')[view]} view of the pair before again"):
        found = run([*pairs[:3], (half[0], half[1])])

    assert float(found[3].frames.max()) <= 3 + 1e-3


def test_frames_that_a_burst_has_twice_count_once() -> None:
    pairs = frames(range(3))
    left, right = zip(*pairs, strict=True)

    with pytest.warns(PairWarning, match=r"2 of 5 frames \(0, 4\) repeat others"):
        found = scotopic.match_burst(
            [left[1], *left, left[2]],
            [right[1], *right, right[2]],
            "best",
            "cpu",
            reference=2,
            calibration=SCENE.calibration,
            **QUICK,
        )

    assert float(found.frames.max()) <= 3 + 1e-3
    assert np.isnan(found.burst_poses[[0, 4]]).all()
    assert np.isfinite(found.burst_poses[1:4]).all()
