"""Masked arrays: what is masked gets no disparity and says so, and does not disturb what is not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import cv2
import numpy as np
import pytest
from made_match import made_match
from rooms import room

import scotopic
from scotopic.cv import StereoScotopic
from scotopic.depth import Calibration, depth_from_disparity, depth_uncertainty, disparity_uncertainty
from scotopic.errors import InputError
from scotopic.evaluation.curves import at_coverage, risk_coverage
from scotopic.evaluation.metrics import score
from scotopic.io import (
    as_image,
    read_disparity,
    write_disparity,
    write_npz,
    write_pfm,
    write_ply,
    write_png,
    write_submission,
)
from scotopic.io.masks import fill_masked, pixel_mask
from scotopic.result import Match, Reason
from scotopic.sensor import Recording, estimate_shifts, flux_from_bits, flux_variance, merge_burst, to_uint8
from scotopic.settings import make_settings

SETTINGS: dict[str, Any] = {"preset": "fast", "device": "cpu", "max_disparity": 16}
SHIFT = 6  # px of disparity of the whole scene


def shifted_pair() -> tuple[np.ndarray, np.ndarray]:
    """A pair of bars whose disparity is SHIFT everywhere, gray, in [0, 1]."""
    columns = np.arange(96 + SHIFT)
    rows = np.arange(64)[:, None]
    scene = 0.5 + 0.4 * np.sign(np.sin(columns / 5) * np.sin(rows / 7 + columns / 30))
    return scene[:, :96].astype(np.float32), scene[:, SHIFT : 96 + SHIFT].astype(np.float32)


@pytest.fixture(scope="module")
def plain() -> Match:
    return scotopic.match(*shifted_pair(), **SETTINGS)


def test_masked_pixels_of_the_left_view_are_given_that_reason() -> None:
    left, right = shifted_pair()
    mask = np.zeros(left.shape, bool)
    mask[20:40, 30:60] = True
    hidden = left.copy()
    hidden[mask] = np.nan  # whatever lies under the mask

    found = scotopic.match(np.ma.masked_array(hidden, mask), right, **SETTINGS)

    np.testing.assert_array_equal(found.reason == Reason.MASKED, mask)
    assert np.isnan(found.disparity[mask]).all()
    assert (found.confidence[mask] == 0).all()
    assert found.report()["reasons"]["masked"] == mask.mean()


def test_pixels_whose_partner_is_masked_lose_their_disparity() -> None:
    left, right = shifted_pair()
    mask = np.zeros(right.shape, bool)
    mask[10:50, 50] = True

    found = scotopic.match(left, np.ma.masked_array(right, mask), **SETTINGS)

    rows, columns = np.nonzero(found.reason == Reason.MASKED)
    assert len(rows) > 5
    assert ((rows >= 10) & (rows < 50)).all()
    partner = np.floor(columns - found.disparity_all[rows, columns] + 0.5)  # x_right = x_left - d, nearest pixel
    assert (partner == 50).all()


def test_a_masked_partner_comes_before_other_reasons() -> None:
    found = made_match(np.full((40, 60), 6.0))
    unsure = np.zeros((40, 60), bool)
    unsure[10:20] = True
    found = replace(
        found,
        disparity=np.where(unsure, np.float32(np.nan), found.disparity),
        reason=np.where(unsure, Reason.AMBIGUOUS, Reason.OK).astype(np.uint8),
    )
    right = np.zeros((40, 60), bool)
    right[:, 30] = True

    masked = found.masked(None, right)

    np.testing.assert_array_equal(masked.reason == Reason.MASKED, np.roll(right, 6, axis=1))  # x_left = x_right + d


def test_the_surest_pixels_are_those_that_are_not_masked() -> None:
    confidence = np.linspace(0.1, 0.49, 10_000, dtype=np.float32).reshape(100, 100)
    confidence[:10] = 0.9  # a tenth of the picture is sure, and masked
    disparity = np.where(confidence > 0.5, np.float32(6), np.float32(np.nan))
    found = replace(
        made_match(disparity),
        settings=make_settings("best", max_disparity=16),
        disparity_all=np.full((100, 100), 6, np.float32),
        confidence=confidence,
        reason=np.where(confidence > 0.5, Reason.OK, Reason.LEFT_RIGHT).astype(np.uint8),
    )
    left = np.zeros((100, 100), bool)
    left[:10] = True

    masked = found.masked(left, None)

    expected = np.zeros(10_000, bool)
    expected[-250:] = True  # 2.5 % of the picture
    np.testing.assert_array_equal(masked.mask.ravel(), expected)
    np.testing.assert_array_equal(np.isfinite(masked.disparity), masked.mask)


def test_hot_pixels_that_are_masked_do_not_spoil_the_rest(plain: Match) -> None:
    left, right = shifted_pair()
    hot = np.random.default_rng(0).random(left.shape) < 0.01
    bright = np.where(hot, np.float32(2.0), left)

    masked = scotopic.match(np.ma.masked_array(bright, hot), right, **SETTINGS)

    assert masked.coverage > plain.coverage / 2
    assert np.median(np.abs(masked.disparity[masked.mask] - SHIFT)) < 1
    assert (masked.reason[hot] == Reason.MASKED).all()


def test_every_way_in_honors_the_mask() -> None:
    left, right = (np.repeat(view[..., None], 3, axis=2) for view in shifted_pair())
    mask = np.zeros(left.shape, bool)
    mask[20:30, 30:50, 1] = True  # one channel is enough
    masked, expected = np.ma.masked_array(left, mask), mask.any(axis=2)

    settings = {name: value for name, value in SETTINGS.items() if name != "preset"}
    batch = np.ma.masked_array(np.moveaxis(masked.data, -1, 0)[None], np.moveaxis(mask, -1, 0)[None])
    (from_batch,) = scotopic.match(batch, np.moveaxis(right, -1, 0)[None], layout="BCHW", **SETTINGS)
    (streamed,) = scotopic.Matcher("fast", **settings).run([(masked, right)])
    opencv = StereoScotopic.create(0, 16, preset="fast", device="cpu")
    opencv.compute(np.ma.masked_array((255 * left).astype(np.uint8), mask), (255 * right).astype(np.uint8))
    last = opencv.getMatch()
    assert last is not None
    for found in (scotopic.match(masked, right, **SETTINGS), from_batch, streamed, last):
        np.testing.assert_array_equal(found.reason == Reason.MASKED, expected)


MASK = np.zeros((64, 96), bool)
MASK[20:40, 30:60] = True


@pytest.mark.parametrize(
    "mask",
    [MASK.astype(np.uint8), 255 * MASK.astype(np.uint8), MASK.astype(int), MASK.astype(float), MASK.tolist(),
     MASK[..., None]],
    ids=["uint8", "255", "int", "float", "list", "HW1"],
)  # fmt: skip
def test_a_recording_may_mark_its_masked_pixels_by_any_numbers(mask: Any) -> None:
    left, right = shifted_pair()
    expected = scotopic.match(np.ma.masked_array(left, MASK), right, **SETTINGS)

    found = scotopic.match(Recording(left, mask=mask), right, **SETTINGS)

    np.testing.assert_array_equal(found.disparity, expected.disparity)
    np.testing.assert_array_equal(found.reason == Reason.MASKED, expected.reason == Reason.MASKED)


@pytest.mark.parametrize(
    "mask", [MASK[:32], MASK.T, MASK.ravel(), np.array(True), "all", np.full(MASK.shape, "x")],
    ids=["half", "turned", "flat", "one", "word", "words"],
)  # fmt: skip
def test_a_mask_that_is_not_of_its_image_is_refused(mask: Any) -> None:
    left, right = shifted_pair()

    with pytest.raises(InputError, match=r"mask of shape .* Give one of bool, H x W"):
        scotopic.match(Recording(left, mask=mask), right, **SETTINGS)


def test_a_method_called_mask_is_no_mask() -> None:
    class Frame:  # as those of pandas are
        def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
            return shifted_pair()[0]

        def mask(self) -> None: ...

    np.testing.assert_array_equal(as_image(Frame(), "left"), as_image(shifted_pair()[0], "left"))


def test_masks_are_those_of_the_time_when_a_pair_was_read() -> None:
    left, right = shifted_pair()

    def one_buffer() -> Iterator[tuple[Any, np.ndarray]]:  # as drivers have it: the next frame takes the same place
        buffer: Any = np.ma.masked_array(left.copy(), np.zeros(left.shape, bool))
        for number in range(4):
            buffer.mask[:] = False
            buffer.mask[:, 20 * number : 20 * number + 10] = True
            yield buffer, right

    found = scotopic.Matcher(**SETTINGS).run(one_buffer())

    for number, match in enumerate(found):
        masked = np.flatnonzero((match.reason == Reason.MASKED).all(axis=0))
        assert masked.tolist() == list(range(20 * number, 20 * number + 10))


def test_a_mask_that_hides_everything_or_nothing(plain: Match) -> None:
    left, right = shifted_pair()

    nothing = scotopic.match(np.ma.masked_array(left, np.zeros(left.shape, bool)), right, **SETTINGS)
    everything = scotopic.match(np.ma.masked_all_like(left), right, **SETTINGS)

    np.testing.assert_array_equal(nothing.disparity, plain.disparity)
    assert (everything.reason == Reason.MASKED).all()


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_whatever_lies_under_a_mask_gives_no_warning(kind: type) -> None:
    left, right = shifted_pair()
    mask = np.zeros(left.shape, bool)
    mask[20:40, 30:60] = True
    left = left.astype(kind)
    # Memory that was never written may hold NaN that signals, at which conversions warn.
    left.view(np.uint32 if kind is np.float32 else np.uint64)[mask] = 0x7FA00000 if kind is np.float32 else 0x7FF4 << 48

    found = scotopic.match(np.ma.masked_array(left, mask), right, **SETTINGS)

    np.testing.assert_array_equal(found.reason == Reason.MASKED, mask)


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.float32, bool])
def test_masked_pixels_are_filled_from_their_neighbors(kind: type) -> None:
    image = np.zeros((20, 30), kind)
    image[:, 15:] = 1 if kind is bool else 100
    mask = np.zeros(image.shape, bool)
    mask[5:8, 20:28] = True
    mask[5:8, 2:6] = True

    filled = fill_masked(np.where(mask, np.array(1, kind), image), mask)

    assert filled.dtype == image.dtype
    np.testing.assert_array_equal(filled, image)  # flat on either side, so a mean of neighbors is the value
    assert pixel_mask(image) is None


@pytest.mark.parametrize("size", [(60, 80), (61, 83)])
def test_a_mask_that_leaves_a_single_pixel_is_filled_with_it(size: tuple[int, int]) -> None:
    mask = np.ones(size, bool)
    mask[20, 30] = False

    filled = fill_masked(np.where(mask, np.float32(9), np.float32(0.25)), mask)

    np.testing.assert_allclose(filled, 0.25, rtol=1e-6)


def test_a_wide_frame_that_is_masked_continues_what_is_inside() -> None:
    mask = np.ones((150, 200, 3), bool)
    mask[60:90, 80:120] = False
    ramp = np.broadcast_to(np.linspace(0, 1, 200, dtype=np.float32)[None, :, None], mask.shape)

    filled = fill_masked(np.where(mask, np.float32(5), ramp), mask[..., 0])

    np.testing.assert_array_equal(filled[60:90, 80:120], ramp[60:90, 80:120])
    assert filled.min() >= ramp[0, 80, 0] - 0.02
    assert filled.max() <= ramp[0, 119, 0] + 0.02
    assert np.abs(filled[75, 79] - ramp[75, 79]).max() < 0.02  # beside the edge nearly the edge


@pytest.mark.parametrize("kind", [np.float32, np.uint16])
def test_a_large_hole_has_the_noise_of_the_rest(kind: type) -> None:
    light = np.repeat([[20.0], [80.0]], 100, axis=0) * np.ones((1, 300))  # photons, in the upper and the lower half
    scale = 1 / 200 if kind is np.float32 else 100
    image = (np.random.default_rng(1).poisson(light) * scale).astype(kind)
    mask = np.zeros(image.shape, bool)
    mask[:, 100:] = True

    filled = fill_masked(image, mask)

    assert filled.dtype == kind
    np.testing.assert_array_equal(filled[~mask], image[~mask])
    for half, photons in ((slice(0, 70), 20), (slice(130, 200), 80)):
        hole = filled[half, 104:130] / scale
        assert hole.mean() == pytest.approx(photons, rel=0.3)
        assert hole.std() == pytest.approx(photons**0.5, rel=0.35)  # of Poisson noise
    np.testing.assert_array_equal(fill_masked(image, mask), filled)


def test_a_large_mask_does_not_spoil_the_rest_in_the_dark() -> None:
    scene = room(192, 128)
    noisy = scotopic.simulate_pair(scene.left, scene.right, 2, 2, seed=0)
    hood = np.zeros((128, 192), bool)
    hood[96:], hood[:, 160:] = True, True
    views = [np.ma.masked_array(view, np.broadcast_to(hood[..., None], view.shape)) for view in noisy]

    plain = scotopic.match(*noisy, "best", "cpu", max_disparity=32)
    found = scotopic.match(*views, "best", "cpu", max_disparity=32)

    # Filled smoothly, the pair seemed to have less noise than it has.
    errors = [np.abs(each.disparity_all - scene.disparity_left)[~hood].mean() for each in (plain, found)]
    assert errors[1] < 1.25 * errors[0]
    assert found.confidence[~hood].mean() > 0.75 * plain.confidence[~hood].mean()


def test_maps_that_are_masked_are_unknown_there(tmp_path: Any) -> None:
    disparity = np.ma.masked_array(np.full((4, 5), 8.0, np.float32), np.eye(4, 5, dtype=bool))
    expected = np.where(np.eye(4, 5, dtype=bool), np.nan, 8.0)

    depth = depth_from_disparity(disparity, Calibration(fx=100.0, fy=100.0, cx=2.0, cy=2.0, baseline=0.1))
    write_disparity(tmp_path / "map.pfm", disparity)

    np.testing.assert_allclose(depth, 100 * 0.1 / expected, rtol=1e-6)  # Z = f B / d
    np.testing.assert_array_equal(read_disparity(tmp_path / "map.pfm"), expected)
    assert np.isfinite(as_image(np.ma.masked_invalid([[0.5, np.nan], [0.5, 0.5]]), "left")).all()


def test_no_writer_stores_what_is_under_a_mask(tmp_path: Any) -> None:
    mask = np.eye(4, 5, dtype=bool)
    values = np.ma.masked_array(np.full((4, 5), 8.0, np.float32), mask)
    expected = np.where(mask, np.nan, 8.0)

    write_submission(tmp_path, "ours", values, values, 1.0)
    write_pfm(tmp_path / "map.pfm", values)
    write_npz(tmp_path / "map.npz", {"disparity": values}, 1)

    for name in ("disp0ours.pfm", "disp0ours_s.pfm", "map.pfm", "map.npz"):
        np.testing.assert_array_equal(read_disparity(tmp_path / name), expected)
    for write, masked in ((write_npz, {"reason": values.astype(np.uint8)}), (write_png, values.astype(np.uint8))):
        with pytest.raises(InputError, match="masked"):
            write(tmp_path / "other", *((masked, 1) if write is write_npz else (masked,)))  # type: ignore[operator]
    points = np.ma.masked_array(np.ones((4, 3), np.float32), np.eye(4, 3, dtype=bool))
    with pytest.raises(InputError, match="3 of 4 points are not finite"):
        write_ply(tmp_path / "points.ply", points)
    with pytest.raises(InputError, match="masked"):
        write_ply(tmp_path / "points.ply", points.filled(1), colors=points.astype(np.uint8))


def test_scores_and_uncertainties_leave_out_what_is_masked() -> None:
    mask = np.eye(4, 5, dtype=bool)
    dense, truth = np.ma.masked_array(np.full((4, 5), 8.0), mask), np.full((4, 5), 7.0)
    confidence = np.ma.masked_array(np.where(mask, 1.0, 0.5), mask)
    camera = Calibration(fx=100.0, fy=100.0, cx=2.0, cy=2.0, baseline=0.1)

    np.testing.assert_array_equal(np.isnan(at_coverage(dense, np.ones((4, 5)), 1.0)), mask)
    surest = at_coverage(np.full((4, 5), 8.0), confidence, 1 - mask.mean())
    np.testing.assert_array_equal(np.isnan(surest), mask)  # of unknown confidence, so last
    assert risk_coverage(truth, confidence, truth).confidence[0] == 0.5
    np.testing.assert_array_equal(np.isnan(depth_uncertainty(truth, camera, confidence)), mask)
    flat = np.ma.masked_array(np.zeros((4, 5), np.float32), mask)
    np.testing.assert_array_equal(np.isnan(disparity_uncertainty(flat, np.zeros((4, 5), np.float32))), mask)
    np.testing.assert_array_equal(np.isnan(disparity_uncertainty(np.zeros((4, 5), np.float32), flat)), mask)


def test_a_region_does_not_hold_what_is_masked_in_it() -> None:
    errors, inside = np.array([[1.0, 2.0, 4.0]]), np.ma.masked_array([[True, True, True]], [[False, False, True]])

    scored = score(errors, np.zeros((1, 3)), 1, region=inside)

    assert (scored.pixels, scored.epe) == (2, 1.5)


def test_8_bits_keep_the_mask() -> None:
    pixels = to_uint8(np.ma.masked_array([[1.0, np.nan]], [[False, True]]))

    assert isinstance(pixels, np.ma.MaskedArray)
    assert (pixels[0, 0], pixels.mask.tolist()) == (255, [[False, True]])


def test_the_flux_of_masked_pixels_is_unknown() -> None:
    ones = np.ma.masked_array([0, 99], [False, True])

    flux, saturated = flux_from_bits(ones, 10)

    np.testing.assert_array_equal(flux, [0, np.nan])
    assert not saturated.any()
    np.testing.assert_array_equal(flux_variance(np.ma.masked_array(flux, ones.mask), 10), [0, np.nan])


@pytest.mark.parametrize("under", [0.0, 50.0])
def test_what_is_masked_does_not_decide_how_frames_are_shifted(under: float) -> None:
    frame = cv2.GaussianBlur(np.random.default_rng(0).random((64, 80)), (0, 0), 3.0)
    frame = (frame - frame.min()) / np.ptp(frame)
    mask = np.zeros(frame.shape, bool)
    mask[25:30, 35:45] = True
    frames = [np.ma.masked_array(np.where(mask, under, np.roll(frame, shift, 1)), mask) for shift in (0, 3)]

    np.testing.assert_allclose(estimate_shifts(frames), [[0, 0], [3, 0]], atol=0.1)


def test_a_burst_is_the_mean_of_the_frames_in_which_a_pixel_is_not_masked() -> None:
    frames = [np.full((24, 32), value, np.uint8) for value in (40, 80, 120)]
    masks = [np.zeros((24, 32), bool) for _ in frames]
    masks[0][2:5, 3:9] = True
    for mask in masks:
        mask[10:14, 10:14] = True

    merged = merge_burst([np.ma.masked_array(*each) for each in zip(frames, masks, strict=True)])

    assert merged.mask is not None
    np.testing.assert_array_equal(merged.mask, masks[2])
    np.testing.assert_allclose(merged.image[2:5, 3:9], 100 / 255, rtol=1e-6)  # of the second and the third
    np.testing.assert_allclose(merged.image[20:, :3], 80 / 255, rtol=1e-6)


def test_the_mask_of_a_frame_moves_with_it_when_a_burst_is_aligned() -> None:
    scene = cv2.GaussianBlur(np.random.default_rng(0).random((64, 96)), (0, 0), 3)
    scene = (scene - scene.min()) / np.ptp(scene)
    masks = [np.zeros(scene.shape, bool) for _ in range(2)]
    masks[0][20:24, 30:34] = True
    masks[1][20:24, 35:39] = True  # the same place of the scene, 5 px farther right
    frames = [np.ma.masked_array(each, mask) for each, mask in zip((scene, np.roll(scene, 5, 1)), masks, strict=True)]

    merged = merge_burst(frames, align=True)

    assert merged.mask is not None
    assert merged.mask[20:24, 30:34].all()
    assert merged.mask[:, :28].sum() + merged.mask[:, 36:].sum() == 0
