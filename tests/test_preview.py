"""The preview shows every panel whole, in the right colors, at any size."""

from dataclasses import replace

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from scotopic.depth import Calibration
from scotopic.preview import (
    REASON_COLORS,
    as_picture,
    draw_junctions,
    draw_maps,
    draw_preview,
    reasons_in_words,
    sparse_in_words,
)
from scotopic.result import Match, Reason
from scotopic.settings import JunctionSettings, make_settings
from scotopic.stages.junctions.fit import Junctions

TURBO = cv2.applyColorMap(np.arange(256, dtype=np.uint8)[:, None], cv2.COLORMAP_TURBO)[:, 0, ::-1]


def make_match(
    width: int = 80,
    height: int = 60,
    channels: int = 3,
    disparity: NDArray[np.float32] | float | None = None,
    kept: NDArray[np.bool_] | None = None,
) -> Match:
    """A match with a ramp of disparities from 0 to 31 px (or those given), all kept (or those told)."""
    random = np.random.default_rng(0)
    image = random.integers(0, 3, (height, width, channels)).astype(np.float32) / 2
    values = np.linspace(0, 31, width, dtype=np.float32) if disparity is None else np.float32(disparity)
    everywhere = np.broadcast_to(values, (height, width)).astype(np.float32)
    keep = np.ones((height, width), bool) if kept is None else kept
    plane = np.full((height, width), 0.5, np.float32)
    return Match(
        disparity=np.where(keep, everywhere, np.float32(np.nan)),
        disparity_all=everywhere,
        right_disparity=everywhere,
        confidence=plane,
        reason=np.where(keep, Reason.OK, Reason.LEFT_RIGHT).astype(np.uint8),
        left_image=image,
        right_image=image,
        left_boundaries=np.zeros((height, width), np.float32),
        right_boundaries=np.zeros((height, width), np.float32),
        left_colors=image,
        right_colors=image,
        settings=make_settings("fast", max_disparity=32),
    )


def is_turbo(picture: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Which pixels have a saturated color of the map (its dark ends are close to the grays of the rest)."""
    numbers, colors = (each.astype(np.int32) @ (1 << 16, 1 << 8, 1) for each in (picture, TURBO))
    return np.isin(numbers, colors[np.ptp(TURBO.astype(np.int32), axis=1) > 100])


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("width", "height"), [(40, 40), (45, 200), (64, 48), (400, 60), (384, 256), (900, 300)])
def test_any_size_gives_a_picture_of_a_size_for_a_screen(width: int, height: int, channels: int) -> None:
    picture = draw_preview(make_match(width, height, channels))

    assert picture.dtype == np.uint8
    assert picture.shape[2] == 3
    assert 300 <= picture.shape[1] <= 2100
    assert 200 <= picture.shape[0] <= 1600


@pytest.mark.parametrize(("width", "height"), [(1600, 1200), (40, 3000), (4000, 40)])
def test_the_largest_images_are_shrunk(width: int, height: int) -> None:
    picture = draw_preview(make_match(width, height, channels=1))

    assert picture.shape[1] <= 2100
    assert picture.shape[0] <= 1600


def test_an_image_that_fits_is_shown_pixel_by_pixel() -> None:
    match = make_match(384, 256)
    shown = as_picture(match.left_image)

    picture = draw_preview(match)

    starts = np.lib.stride_tricks.sliding_window_view(picture[..., 1], 32, axis=1) == shown[0, :32, 1]
    y, x = np.argwhere(starts.all(axis=2))[0]
    assert np.array_equal(picture[y : y + 256, x : x + 384], shown)


def test_a_tiny_image_is_enlarged_without_blur() -> None:
    # 40 px become 320 px, the least that is shown: every pixel is a square of 8 x 8 px.
    match = make_match(40, 40, channels=1)
    shown = as_picture(match.left_image).repeat(8, axis=0).repeat(8, axis=1)

    picture = draw_preview(match)

    starts = np.lib.stride_tricks.sliding_window_view(picture[..., 0], 160, axis=1) == shown[0, :160]
    y, x = np.argwhere(starts.all(axis=2))[0]
    assert np.array_equal(picture[y : y + 320, x : x + 320, 1], shown)


def test_wide_images_are_stacked_and_others_stand_side_by_side() -> None:
    wide, ordinary = draw_preview(make_match(600, 100)), draw_preview(make_match(200, 150))

    assert wide.shape[1] < 2 * 600
    assert ordinary.shape[1] > 3 * 200


def test_near_and_far_have_the_colors_at_the_ends_of_turbo() -> None:
    # Half the pixels at 5 px, half at 25 px: the bar runs from 5 - 0.08 x 20 to 25 + 0.02 x 20 px, so that these are
    # at 0.08 / 1.1 and 1.08 / 1.1 of the color map.
    values = np.repeat(np.float32([5, 25]), 192)

    picture = draw_preview(make_match(384, 256, disparity=values))

    for share in (0.08 / 1.1, 1.08 / 1.1):
        color = TURBO[round(255 * share)]
        assert (picture == color).all(axis=2).sum() >= 192 * 256


def test_a_few_wild_values_do_not_squeeze_the_colors() -> None:
    values = np.full((200, 200), 10, np.float32)
    values[:, 100:] = 20
    calm = draw_preview(make_match(200, 200, disparity=values))
    values[:2, :50] = 10_000  # 0.25 % of the pixels

    wild = draw_preview(make_match(200, 200, disparity=values))

    assert (calm != wild).any(axis=2).mean() < 0.01


def test_pixels_without_disparity_are_dark_gray() -> None:
    nowhere = np.zeros((256, 384), bool)
    half = nowhere.copy()
    half[:, :192] = True

    colored = [is_turbo(draw_preview(make_match(384, 256, 1, 15.0, kept))).sum() for kept in (nowhere, half)]

    # What the color bar has, the empty one has too; the other has half of the panel on top, in the middle of the map.
    assert colored[1] - colored[0] == 192 * 256


def test_an_empty_match_shows_the_searched_range() -> None:
    # From 0 to 31 px: a match with exactly these percentiles has the same bar.
    image = make_match().left_image
    empty = Match.empty(image, image, make_settings("fast", max_disparity=32), Reason.NO_STRUCTURE)
    full = make_match(disparity=np.repeat(np.float32([0, 31]), 40))

    bar, same, other = (draw_preview(each)[:280, -90:] for each in (empty, full, make_match(disparity=3.0)))

    assert np.array_equal(bar, same)
    assert not np.array_equal(bar, other)


def test_the_ends_of_a_constant_disparity_are_two_px_apart() -> None:
    # 7 px: the bar runs from 6 - 0.16 to 8 + 0.04 px, and 7 px is at 1.16 / 2.2 of the map.
    picture = draw_preview(make_match(384, 256, disparity=7.0))

    assert (picture == TURBO[round(255 * 1.16 / 2.2)]).all(axis=2).sum() >= 384 * 256


def test_the_truth_stands_beside_the_result_in_the_same_colors() -> None:
    truth = np.full((256, 384), 12, np.float32)
    truth[:, :192] = 4
    color = TURBO[round(255 * 0.08 / 1.1)]  # 4 px is the lower end
    match = make_match(384, 256, disparity=4.0)

    picture = draw_preview(match, truth)

    assert (picture == color).all(axis=2).sum() >= 384 * 256 + 192 * 256


def count_color(picture: NDArray[np.uint8], color: object) -> int:
    return int((picture == np.array(color, np.uint8)).all(axis=2).sum())


def test_the_confidence_is_a_panel_in_grays() -> None:
    match = make_match(384, 256)
    match.confidence[:] = np.linspace(0.2, 0.9, 384, dtype=np.float32)
    expected = np.rint(255 * np.linspace(0.2, 0.9, 384, dtype=np.float32)).astype(np.uint8)

    picture = draw_preview(match)

    starts = np.lib.stride_tricks.sliding_window_view(picture[..., 1], 32, axis=1) == expected[:32]
    y, x = np.argwhere(starts.all(axis=2))[0]
    assert (picture[y : y + 256, x : x + 384] == expected[:, None]).all()


def test_reasons_are_a_panel_with_a_legend_of_those_that_occur() -> None:
    match = make_match(384, 256, channels=1)
    match.reason[:, :100] = Reason.OCCLUDED
    match.reason[:, 100:150] = Reason.OUT_OF_VIEW

    picture = draw_preview(match)

    for kind, columns in ((Reason.OK, 234), (Reason.OCCLUDED, 100), (Reason.OUT_OF_VIEW, 50)):
        swatch = count_color(picture, REASON_COLORS[kind]) - 256 * columns
        assert 50 < swatch < 500, kind
    for kind in set(Reason) - {Reason.OK, Reason.OCCLUDED, Reason.OUT_OF_VIEW}:
        assert count_color(picture, REASON_COLORS[kind]) < 50, kind


def test_every_reason_has_a_color_of_its_own() -> None:
    assert set(REASON_COLORS) == set(Reason)
    assert len(set(REASON_COLORS.values())) == len(Reason)


def test_the_depth_is_a_panel_if_there_is_a_calibration() -> None:
    # Half the pixels at 1 m, half at 3 m, so that the bar runs from 1 - 0.02 x 2 to 3 + 0.08 x 2 m, near at its top.
    calibration = Calibration(fx=300.0, fy=300.0, cx=0.0, cy=0.0, baseline=0.1)
    values = np.repeat(np.float32([30, 10]), 192)
    match = make_match(384, 256, disparity=values)

    without, picture = draw_preview(match), draw_preview(match, calibration=calibration)

    for share, name in ((0.08 / 1.1, "far"), (1.08 / 1.1, "near")):
        color = TURBO[round(255 * share)]  # in the disparity panel too, where half is at each end of the range
        added = count_color(picture, color) - count_color(without, color)
        assert 192 * 256 <= added < 192 * 256 + 2000, name


def test_the_filled_disparity_is_a_panel_if_asked_for() -> None:
    kept = np.zeros((256, 384), bool)
    kept[:, :192] = True
    match = make_match(384, 256, 1, 15.0, kept)
    color = TURBO[round(255 * 1.16 / 2.2)]  # in the middle of 14 to 16 px

    without, picture = draw_preview(match), draw_preview(match, filled=True)

    assert count_color(picture, color) - count_color(without, color) >= 384 * 256


def test_maps_as_pictures_say_what_the_numbers_say() -> None:
    kept = np.zeros((60, 80), bool)
    kept[:, :40] = True
    match = make_match(80, 60, 3, np.repeat(np.float32([5, 25]), 40), kept | (np.arange(80) > 60))
    match.confidence[:] = 0.2

    pictures = draw_maps(match)

    assert set(pictures) == {"disparity_color", "confidence", "mask"}
    assert np.array_equal(pictures["mask"], np.where(np.isfinite(match.disparity), 255, 0))
    assert (pictures["confidence"] == 51).all()
    colored = pictures["disparity_color"]
    assert colored.shape == (60, 80, 3)
    assert (colored[:, :40] == TURBO[round(255 * 0.08 / 1.1)]).all()
    assert (colored[:, 61:] == TURBO[round(255 * 1.08 / 1.1)]).all()
    assert colored[:, 40:61].max() < 30  # dark where there is none


def test_nothing_is_cut_at_the_edges() -> None:
    every_reason = make_match(45, 200, channels=1)
    every_reason.reason[:] = np.arange(200)[:, None] % len(Reason)

    for match in (every_reason, make_match(64, 48), make_match(600, 100), make_match(900, 700)):
        picture = draw_preview(match)
        background = picture[0, 0]
        for edge in (picture[:4], picture[-4:], picture[:, :4], picture[:, -4:]):
            assert (edge == background).all()


def test_a_field_of_junctions_stands_beside_its_image() -> None:
    image = np.zeros((64, 96, 1), np.float32)
    image[:, 48:] = 1
    boundaries = np.zeros((64, 96), np.float32)
    boundaries[:, 47:49] = 1
    field = Junctions(np.zeros((4, 8, 5)), boundaries, image, JunctionSettings())

    picture = draw_junctions(image, field)

    # Enlarged fourfold: two white halves; that of the structure is narrower by the boundary of one pixel.
    assert picture.dtype == np.uint8
    white = (picture == 255).all(axis=2).sum()
    assert white == 64 * 4 * (48 + 47) * 4


def test_reasons_are_named_with_their_shares_the_largest_first() -> None:
    reason = np.zeros((2, 5), np.uint8)
    reason[0] = Reason.LEFT_RIGHT
    reason[1, :2] = Reason.NO_STRUCTURE

    assert reasons_in_words(reason) == ["views disagree 50.0 %", "no structure 20.0 %"]
    assert reasons_in_words(np.zeros((2, 2), np.uint8)) == []


def test_values_become_8_bits_rounded_and_clipped() -> None:
    values = np.float32([[[-0.5], [0.0], [0.5], [1.0], [1.5]]])

    assert as_picture(values).tolist() == [[0, 0, 128, 255, 255]]


@pytest.mark.parametrize(("confidence", "words"), [(0.5, ""), (0.3, "a confidence of 0.30 in the mean")])
def test_pixels_that_are_less_sure_than_asked_for_are_told(confidence: float, words: str) -> None:
    found = make_match()
    found = replace(
        found,
        settings=make_settings("best", max_disparity=32),
        confidence=np.full(found.confidence.shape, confidence, np.float32),
    )

    assert words in sparse_in_words(found)
    assert bool(sparse_in_words(found)) == bool(words)
