"""ROS image messages: every encoding against its definition, byte by byte."""

from __future__ import annotations

from array import array
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
import pytest

from scotopic.errors import InputError
from scotopic.io.image_messages import ENCODINGS, image_from_message


def message(data: bytes, encoding: str, height: int = 2, width: int = 4, **changes: Any) -> SimpleNamespace:
    fields: dict[str, Any] = {
        "height": height, "width": width, "encoding": encoding, "is_bigendian": 0, "step": len(data) // height,
        "data": array("B", data),  # as rclpy has it
    }  # fmt: skip
    return SimpleNamespace(**{**fields, **changes})


@pytest.mark.parametrize("encoding", ["mono8", "8UC1"])
def test_gray_bytes_are_pixels(encoding: str) -> None:
    found = image_from_message(message(bytes(range(8)), encoding))

    np.testing.assert_array_equal(found, [[0, 1, 2, 3], [4, 5, 6, 7]])
    assert found.dtype == np.uint8


@pytest.mark.parametrize("encoding", ["mono16", "16UC1"])
@pytest.mark.parametrize("is_big", [0, 1])
def test_the_order_of_bytes_is_heeded(encoding: str, is_big: int) -> None:
    values = np.arange(8, dtype=np.uint16).reshape(2, 4) * 1000
    data = values.astype(">u2" if is_big else "<u2").tobytes()

    found = image_from_message(message(data, encoding, is_bigendian=is_big))

    np.testing.assert_array_equal(found, values)
    assert found.dtype == np.uint16


def test_floats_stay_floats() -> None:
    values = np.linspace(0, 1, 8, dtype="<f4").reshape(2, 4)

    np.testing.assert_array_equal(image_from_message(message(values.tobytes(), "32FC1")), values)


@pytest.mark.parametrize("order", ["rgb", "bgr", "rgba", "bgra"])
@pytest.mark.parametrize("bits", [8, 16])
def test_color_becomes_rgb_and_alpha_is_dropped(order: str, bits: int) -> None:
    colors = {"r": 10, "g": 20, "b": 30, "a": 255}
    pixel = np.array([colors[each] for each in order], f"<u{bits // 8}")

    found = image_from_message(message(np.tile(pixel, 8).tobytes(), f"{order}{bits}"))

    np.testing.assert_array_equal(found, np.broadcast_to([10, 20, 30], (2, 4, 3)))


@pytest.mark.parametrize("cell", ["rggb", "bggr", "gbrg", "grbg"])
@pytest.mark.parametrize("bits", [8, 16])
def test_a_mosaic_of_one_color_becomes_that_color(cell: str, bits: int) -> None:
    colors = {"r": 10, "g": 20, "b": 30}
    mosaic = np.tile(np.array([colors[each] for each in cell], f"<u{bits // 8}").reshape(2, 2), (4, 4))

    found = image_from_message(message(mosaic.tobytes(), f"bayer_{cell}{bits}", 8, 8))

    np.testing.assert_array_equal(found[2:-2, 2:-2], np.broadcast_to([10, 20, 30], (4, 4, 3)))


@pytest.mark.parametrize(("encoding", "luma_first"), [("yuv422", 0), ("uyvy", 0), ("yuv422_yuy2", 1), ("yuyv", 1)])
def test_yuv_without_chroma_is_gray(encoding: str, luma_first: bool) -> None:
    # BT.601: 16 is black, 235 white; chroma of 128 is none.
    pair = [235, 128, 235, 128] if luma_first else [128, 235, 128, 235]

    found = image_from_message(message(bytes(pair * 4), encoding))

    assert found.shape == (2, 4, 3)
    assert found.min() >= 254


def test_rows_may_be_padded_also_after_the_last_one_or_not() -> None:
    rows = bytes([1, 2, 3, 4, 99, 99, 5, 6, 7, 8, 99, 99])

    for data in (rows, rows[:-2]):
        np.testing.assert_array_equal(image_from_message(message(data, "mono8", step=6)), [[1, 2, 3, 4], [5, 6, 7, 8]])


@pytest.mark.parametrize("suffix", [".png", ".jpg"])
def test_compressed_images_are_decoded(suffix: str) -> None:
    color = np.full((8, 8, 3), (200, 100, 50), np.uint8)
    data = cv2.imencode(suffix, color[:, :, ::-1])[1].tobytes()

    found = image_from_message(SimpleNamespace(format="rgb8; jpeg", data=data))

    np.testing.assert_allclose(found.astype(int), color, atol=3)


@pytest.mark.parametrize("cell", ["rggb", "bggr", "gbrg", "grbg"])
@pytest.mark.parametrize("bits", [8, 16])
def test_a_mosaic_that_is_compressed_is_one_as_if_it_were_not(cell: str, bits: int) -> None:
    mosaic = np.random.default_rng(0).integers(0, 2**bits, (8, 10)).astype(f"<u{bits // 8}")
    plain = image_from_message(message(mosaic.tobytes(), f"bayer_{cell}{bits}", 8, 10))

    data = cv2.imencode(".png", mosaic)[1].tobytes()
    found = image_from_message(SimpleNamespace(format=f"bayer_{cell}{bits}; png compressed ", data=data))

    np.testing.assert_array_equal(found, plain)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"encoding": "sepia"}, "sepia"), ({"width": 0}, "not a size"), ({"height": 3}, "bytes"),
        ({"step": 3}, "rows of 3"),
        ({"width": 5}, "5 x 2"), ({"height": 100_000, "width": 100_000}, "GiB"), ({"data": "text"}, "no bytes"),
        ({"data": array("B")}, "0 bytes"),
    ],
)  # fmt: skip
def test_a_message_that_contradicts_itself_is_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        image_from_message(SimpleNamespace(**{**vars(message(bytes(8), "mono8")), **wrong}))


def test_what_is_no_compressed_image_is_refused() -> None:
    with pytest.raises(InputError, match="no readable image"):
        image_from_message(SimpleNamespace(format="jpeg", data=b"\xff\xd8\xff nothing"))


def test_every_encoding_is_tested_here() -> None:
    tested = {"mono8", "8UC1", "mono16", "16UC1", "32FC1", "8UC3", "16UC3", "yuv422", "uyvy", "yuv422_yuy2", "yuyv"}
    tested |= {f"{order}{bits}" for order in ("rgb", "bgr", "rgba", "bgra") for bits in (8, 16)}
    tested |= {f"bayer_{cell}{bits}" for cell in ("rggb", "bggr", "gbrg", "grbg") for bits in (8, 16)}

    assert set(ENCODINGS) == tested
    three = np.array([[1, 2, 3]] * 8, np.uint8)
    np.testing.assert_array_equal(image_from_message(message(three.tobytes(), "8UC3"))[0, 0], [3, 2, 1])
