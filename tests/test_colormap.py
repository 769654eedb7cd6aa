"""The colors of disparity: the range they span, and what a value and a missing value look like."""

import cv2
import numpy as np
import pytest

from scotopic.colormap import NO_VALUE, bar_range, color_range, color_scale, colorize, dim_gray, turbo

TURBO = cv2.applyColorMap(np.arange(256, dtype=np.uint8)[:, None], cv2.COLORMAP_TURBO)[:, 0, ::-1]


def test_the_range_runs_from_the_1st_to_the_99th_percentile_of_what_is_known() -> None:
    values = np.append(np.arange(101.0), [np.nan, np.inf])  # 0 to 100 px: percentile p is p

    assert color_range(values, (0, 5)) == pytest.approx((1, 99))


@pytest.mark.parametrize("nothing", [None, np.full((2, 3), np.nan, np.float32)])
def test_without_a_known_value_the_range_is_the_searched_one(nothing: np.ndarray | None) -> None:
    assert color_range(nothing, (3.0, 40.0)) == (3.0, 40.0)


def test_the_range_is_at_least_2_px_wide_about_its_middle() -> None:
    assert color_range(np.full(9, 7.0), (0, 5)) == (6.0, 8.0)
    assert color_range(None, (4.0, 4.5)) == (3.25, 5.25)


def test_a_value_has_its_place_in_the_map_and_a_missing_one_the_color_of_none() -> None:
    # The whole map spans 8 % more below and 2 % more above the range: 10 to 60 px becomes 6 to 61 px.
    assert bar_range((10.0, 60.0)) == pytest.approx((6, 61))
    picture = colorize(np.array([[10.0, 35.0, 60.0, 0.0, 99.0, np.nan, np.inf]]), (10.0, 60.0))

    places = np.array([4, 29, 54, 0, 55]) / 55
    np.testing.assert_array_equal(picture[0, :5], TURBO[np.rint(255 * places).astype(int)])
    assert [tuple(color) for color in picture[0, 5:].tolist()] == [NO_VALUE, NO_VALUE]


def test_a_background_shows_where_there_is_no_value() -> None:
    background = np.arange(12, dtype=np.uint8).reshape(1, 4, 3)

    picture = colorize(np.array([[1.0, np.nan, 2.0, np.nan]]), (0.0, 3.0), background)

    np.testing.assert_array_equal(picture[0, 1::2], background[0, 1::2])


def test_the_scale_has_the_colors_of_the_ends_of_the_range() -> None:
    np.testing.assert_array_equal(color_scale(2)[0], colorize(np.array([[10.0, 60.0]]), (10.0, 60.0))[0])
    np.testing.assert_array_equal(turbo(np.array([[-1.0, 2.0]]))[0], TURBO[[0, 255]])


def test_a_background_of_an_image_is_gray_and_darker_than_half() -> None:
    gray = dim_gray(np.random.default_rng(0).random((9, 7, 3)))

    assert (gray == gray[..., :1]).all()
    assert gray.max() < 128
