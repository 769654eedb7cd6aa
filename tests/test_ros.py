"""The ROS messages, field by field as ``stereo_msgs/DisparityImage`` and REP 118 define them."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from made_match import made_match

from scotopic.depth import Calibration
from scotopic.errors import SettingsError
from scotopic.interop import confidence_image, depth_image, disparity_image

NOWHERE = np.nan
DISPARITY = np.array([[4.0, NOWHERE, 7.25], [NOWHERE, 10.5, 32.0]])
RIG = SimpleNamespace(fx=500.0, baseline=0.12, doffs=3.5, cx=1.0, cy=0.5)


def pixels(message: dict[str, Any]) -> np.ndarray:
    image = message["image"]
    return np.frombuffer(image["data"], "<f4").reshape(image["height"], image["width"])


def test_the_message_has_the_fields_of_its_definition() -> None:
    message = disparity_image(made_match(DISPARITY), RIG, frame_id="left_optical", stamp=12.25)

    assert set(message) == {
        "header", "image", "f", "t", "valid_window", "min_disparity", "max_disparity", "delta_d",
    }  # fmt: skip
    assert message["header"] == {"stamp": {"sec": 12, "nanosec": 250_000_000}, "frame_id": "left_optical"}
    assert set(message["image"]) == {"header", "height", "width", "encoding", "is_bigendian", "step", "data"}
    assert message["image"]["header"] == message["header"]
    assert set(message["valid_window"]) == {"x_offset", "y_offset", "height", "width", "do_rectify"}


def test_the_image_is_32fc1_row_by_row() -> None:
    image = disparity_image(made_match(DISPARITY), RIG)["image"]

    assert (image["encoding"], image["is_bigendian"]) == ("32FC1", 0)
    assert (image["height"], image["width"], image["step"]) == (2, 3, 12)
    assert len(image["data"]) == image["step"] * image["height"]


def test_depth_by_the_messages_own_formula_is_depth() -> None:
    match = made_match(DISPARITY)

    message = disparity_image(match, RIG)

    known = match.mask
    # The definition: Z = f T / d; ours: Z = fx baseline / (d + doffs).
    depth = message["f"] * message["t"] / pixels(message)[known]
    np.testing.assert_allclose(depth, 500 * 0.12 / (DISPARITY[known] + 3.5), rtol=1e-6)


@pytest.mark.parametrize("doffs", [0.0, 3.5, -20.0])
@pytest.mark.parametrize("first", [0, -8, 4])
def test_whatever_is_below_the_range_is_what_has_no_answer(first: int, doffs: float) -> None:
    match = made_match(DISPARITY, min_disparity=first)

    message = disparity_image(match, fx=500, baseline=0.12, doffs=doffs)

    np.testing.assert_array_equal(pixels(message) >= message["min_disparity"], match.mask)
    assert message["min_disparity"] == first + doffs
    assert message["max_disparity"] == 63 + doffs  # the largest that was searched
    assert pixels(message).max() <= message["max_disparity"]


@pytest.mark.parametrize("doffs", np.linspace(-30, 30, 41) + 0.1234)
def test_the_first_disparity_of_the_search_has_an_answer_whatever_doffs_is(doffs: float) -> None:
    match = made_match(np.full((2, 3), 4.0), min_disparity=4)

    message = disparity_image(match, fx=500, baseline=0.12, doffs=doffs)

    # Messages hold both as float32; nodes compare them there.
    assert (pixels(message) >= np.float32(message["min_disparity"])).all()


@pytest.mark.parametrize(
    ("first", "end", "window"), [(0, 64, (0, 100)), (10, 64, (10, 90)), (-20, 64, (0, 100)), (-20, -4, (0, 95))]
)
def test_the_window_holds_every_column_that_can_have_an_answer(first: int, end: int, window: tuple[int, int]) -> None:
    match = made_match(np.full((4, 100), np.nan), min_disparity=first, max_disparity=end)

    message = disparity_image(match, RIG)["valid_window"]

    # Column by column: is there a candidate whose partner x - d lies in the right image?
    possible = [any(0 <= x - d < 100 for d in range(first, end)) for x in range(100)]
    assert (message["x_offset"], message["width"]) == window == (possible.index(True), sum(possible))
    assert (message["y_offset"], message["height"]) == (0, 4)


def test_numbers_stand_in_for_an_object_and_go_before_its_own() -> None:
    match = made_match(DISPARITY)

    assert disparity_image(match, fx=500.0, baseline=0.12, doffs=3.5) == disparity_image(match, RIG)
    assert disparity_image(match, RIG, baseline=0.5)["t"] == 0.5
    assert disparity_image(match, fx=500, baseline=0.12)["min_disparity"] == 0  # no doffs: none


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ({}, "no fx and no baseline"), ({"fx": 500.0}, "no baseline"), ({"fx": 0.0, "baseline": 0.1}, "fx = 0"),
        ({"fx": 500.0, "baseline": float("nan")}, "baseline = nan"), ({"fx": "far", "baseline": 1}, "'far'"),
        ({"fx": 500.0, "baseline": 0.1, "doffs": float("inf")}, "doffs = inf"),
        ({"fx": 500.0, "baseline": 0.1, "stamp": -1.0}, "stamp"),
    ],
)  # fmt: skip
def test_a_calibration_that_lacks_something_is_refused_by_its_name(numbers: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        disparity_image(made_match(DISPARITY), **numbers)


@pytest.mark.parametrize("make", [disparity_image, depth_image])
def test_a_calibration_of_images_of_another_size_is_refused(make: Callable[..., dict[str, Any]]) -> None:
    match = made_match(DISPARITY)
    rig = Calibration(fx=500.0, fy=500.0, cx=1.0, cy=0.5, baseline=0.12, width=3, height=2)

    make(match, rig)
    with pytest.raises(SettingsError, match="3 x 2 px, but the calibration is for 6 x 4 px"):
        make(match, rig.resized(6, 4))


def test_the_stamp_of_a_message_is_kept_to_the_nanosecond() -> None:
    stamp = SimpleNamespace(sec=1_700_000_000, nanosec=123_456_789)  # a float of seconds would be off by 100 ns

    for message in (
        disparity_image(made_match(DISPARITY), RIG, stamp=stamp),
        depth_image(made_match(DISPARITY), RIG, stamp=stamp),
        confidence_image(made_match(DISPARITY), stamp=stamp),
    ):
        assert message["header"]["stamp"] == {"sec": 1_700_000_000, "nanosec": 123_456_789}


def test_depth_is_meters_or_millimeters_as_rep_118_says() -> None:
    match = made_match(np.array([[4.0, NOWHERE, -3.4]]), min_disparity=-8)
    expected = 500 * 0.12 / (4 + 3.5)  # Z = fx B / (d + doffs)

    meters, millimeters = (depth_image(match, RIG, encoding=encoding) for encoding in ("32FC1", "16UC1"))

    first = np.frombuffer(meters["data"], "<f4")
    np.testing.assert_allclose(first, [expected, np.nan, 60 / 0.1], rtol=1e-5)
    second = np.frombuffer(millimeters["data"], "<u2")
    assert second.tolist() == [round(1000 * expected), 0, 0]  # 600 m do not fit into 16 bits of millimeters
    assert (meters["encoding"], meters["step"], millimeters["encoding"], millimeters["step"]) == (
        "32FC1",
        12,
        "16UC1",
        6,
    )
    with pytest.raises(SettingsError, match="8UC1"):
        depth_image(match, RIG, encoding="8UC1")


def test_confidence_is_an_image_of_its_own() -> None:
    match = made_match(DISPARITY)

    message = confidence_image(match, frame_id="left_optical", stamp=1.5)

    np.testing.assert_array_equal(np.frombuffer(message["data"], "<f4").reshape(2, 3), match.confidence)
    assert (message["encoding"], message["height"], message["width"], message["step"]) == ("32FC1", 2, 3, 12)
    assert message["header"]["frame_id"] == "left_optical"
