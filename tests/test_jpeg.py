"""Damage inside JPEG data: what libjpeg would fill up is noticed, and whole files of every kind are read."""

import struct
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from rooms import room

from scotopic.errors import InputError
from scotopic.io import jpeg, read_image
from scotopic.io.image_messages import image_from_message
from scotopic.io.jpeg import has_damaged_codes

SAMPLING = {"4:4:4": 0x111111, "4:2:2": 0x211111, "4:2:0": 0x221111, "4:4:0": 0x121111, "4:1:1": 0x411111}


def encode(image: NDArray[np.uint8], *options: int) -> bytes:
    done, data = cv2.imencode(".jpg", image, options)
    assert done
    return bytes(data.tobytes())


def picture(width: int = 160, height: int = 120) -> NDArray[np.uint8]:
    scene = room(width, height)
    return np.clip(np.rint(scene.left[:, :, ::-1] * 255), 0, 255).astype(np.uint8)


@pytest.mark.parametrize("size", [(1, 1), (8, 8), (17, 1), (37, 23), (64, 48)])
@pytest.mark.parametrize("sampling", SAMPLING)
def test_whole_files_of_every_kind_have_no_damage(size: tuple[int, int], sampling: str) -> None:
    image = cv2.resize(picture(), size)
    for quality in (1, 75, 100):
        options = [cv2.IMWRITE_JPEG_QUALITY, quality, cv2.IMWRITE_JPEG_SAMPLING_FACTOR, SAMPLING[sampling]]
        for more in (
            [cv2.IMWRITE_JPEG_RST_INTERVAL, 1],
            [cv2.IMWRITE_JPEG_OPTIMIZE, 1],
            [cv2.IMWRITE_JPEG_PROGRESSIVE, 1],
            [],
        ):
            assert not has_damaged_codes(encode(image, *options, *more)), (quality, more)
        assert not has_damaged_codes(encode(np.ascontiguousarray(image[:, :, 0]), *options))


@pytest.mark.parametrize("rows", [1, -1])
def test_a_file_with_fewer_or_more_blocks_than_its_size_needs_is_damaged(rows: int) -> None:
    data = bytearray(encode(picture(64, 48), cv2.IMWRITE_JPEG_SAMPLING_FACTOR, SAMPLING["4:4:4"]))
    place = data.index(b"\xff\xc0") + 5  # after marker, length and bits of SOF0 (T.81, B.2.2): the height
    data[place : place + 2] = (48 + 8 * rows).to_bytes(2, "big")  # a row of blocks more or less

    assert has_damaged_codes(bytes(data))


@pytest.mark.parametrize("kind", ["plain", "restart", "gray", "message", "tiff"])
def test_what_libjpeg_would_fill_up_is_refused(tmp_path: Path, kind: str) -> None:
    image, path = picture(), tmp_path / ("damaged.tif" if kind == "tiff" else "damaged.jpg")
    if kind == "gray":
        image = np.ascontiguousarray(image[:, :, 0])
    data = encode(image, *([cv2.IMWRITE_JPEG_RST_INTERVAL, 4] if kind == "restart" else []))
    if kind == "tiff":
        data = jpeg_tiff(data, image.shape)
    path.write_bytes(data)
    np.testing.assert_array_equal(read_image(path).shape, image.shape)

    noticed = 0
    places = np.linspace(0.2, 0.8, 20) * len(data)
    for place in places.astype(int):
        changed = data[:place] + bytes(300) + data[place + 300 :]
        try:
            if kind == "message":
                image_from_message(Compressed(changed))
            else:
                path.write_bytes(changed)
                read_image(path)
        except InputError:
            noticed += 1
    # Codes fall into step again, by chance in the right one: not all can be noticed.
    assert noticed >= 0.75 * len(places)


class Compressed:
    """A ``sensor_msgs/CompressedImage``."""

    format = "jpeg"

    def __init__(self, data: bytes) -> None:
        self.data = data


def jpeg_tiff(data: bytes, shape: tuple[int, ...]) -> bytes:
    """Return a TIFF file whose only strip is a JPEG file, as compression 7 has it."""
    tags = [(256, shape[1]), (257, shape[0]), (258, 8), (259, 7), (262, 6), (273, 140), (277, 3), (278, shape[0])]
    tags += [(279, len(data)), (530, 2 | 2 << 16)]
    kinds = {258: 3, 530: 3}
    entries = b"".join(
        struct.pack("<HHII", tag, kinds.get(tag, 4), 2 if tag == 530 else 1, value) for tag, value in tags
    )
    head = b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + b"\0" * 4
    assert len(head) <= 140
    return head.ljust(140, b"\0") + data


@pytest.mark.parametrize("filler", [b"\x12", b"\x12\x34", b"\0" * 40, b"\xff" * 7])
def test_what_cameras_leave_before_the_end_is_no_damage(filler: bytes) -> None:
    data = encode(picture())

    assert not has_damaged_codes(data[:-2] + filler + data[-2:])


def test_without_compiled_code_the_answer_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Any:
        raise OSError("no space left on device")

    monkeypatch.setattr(jpeg, "_compiled", fail)
    data = encode(picture(64, 48))

    assert not has_damaged_codes(data)
    assert has_damaged_codes(data[: len(data) // 2] + bytes(100) + data[len(data) // 2 + 100 :])


def test_odd_headers_are_left_to_the_decoder() -> None:
    data = encode(picture(32, 32))
    random = np.random.default_rng(0)
    end = data.index(b"\xff\xda") + 14
    for _ in range(300):
        changed = bytearray(data)
        changed[int(random.integers(2, end))] = int(random.integers(256))
        has_damaged_codes(bytes(changed))  # raises nothing, whatever the headers say
