"""The web page without a browser: uploaded images and calibrations, and the pairs made of them."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from app_visitors import LIMITS, upload

import scotopic
from scotopic.app import inputs, work
from scotopic.app.inputs import OWN, ROOMS, Request
from scotopic.app.session import Job, Session
from scotopic.errors import InputError, SettingsError


@pytest.fixture
def visitor(tmp_path: Path) -> Session:
    """A visitor who has done nothing yet."""
    return Session(tmp_path / "session")


def noise(height: int = 64, width: int = 96) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)


def huge_png() -> bytes:
    """A small file that claims to be 40000 x 40000 px."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 40_000, 40_000, 8, 2, 0, 0, 0)
    body = zlib.compress(bytes(1000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def test_only_paths_in_the_folder_of_uploads_are_believed(tmp_path: Path) -> None:
    mine = upload(tmp_path, "mine.txt", b"mine")
    (tmp_path / "secret.txt").write_bytes(b"secret")
    (tmp_path / "uploads" / "link").symlink_to(tmp_path / "secret.txt")
    uploads = tmp_path / "uploads"

    assert inputs.find_uploads({"path": str(mine)}, uploads) == [mine]
    assert inputs.find_uploads([{"path": str(mine)}] * 2, uploads) == [mine, mine]
    others: list[object] = [
        {"path": str(tmp_path / "secret.txt")}, {"path": f"{uploads}/../secret.txt"}, {"path": str(uploads / "link")},
        {"path": str(uploads)}, {"path": str(mine) + "\0"}, {"path": None}, {}, None, "mine.txt", [str(mine)],
    ]  # fmt: skip
    for payload in others:
        with pytest.raises(InputError, match="not here"):
            inputs.find_uploads(payload, uploads)


def test_an_upload_is_kept_as_recorded_and_its_file_removed(visitor: Session, tmp_path: Path) -> None:
    deep = np.random.default_rng(0).integers(0, 65536, (64, 96), np.uint16)
    path = upload(tmp_path, "my left.png", deep)

    picture = inputs.receive_view(visitor, "left", path, LIMITS)

    np.testing.assert_array_equal(picture.pixels, deep)
    assert (picture.name, picture.size) == ("my left.png", (96, 64))
    assert visitor.views == {"left": picture}
    assert not path.parent.exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("text.png", b"not an image", r"left image 'text.png' holds no readable image"),
        ("empty.png", b"", r"left image 'empty.png' holds no readable image"),
        ("huge.png", huge_png(), "left image 'huge.png' has 1600 megapixels; the limit is 4"),
        ("big.bin", bytes(33 * 2**20), "left image 'big.bin' has 33 MiB; the limit is 32 MiB"),
    ],
    ids=["text", "empty", "too many pixels", "too many bytes"],
)
def test_a_bad_upload_is_refused_by_its_own_name_and_removed(
    visitor: Session, tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    path = upload(tmp_path, name, content)

    with pytest.raises(InputError, match=message) as caught:
        inputs.receive_view(visitor, "left", path, LIMITS)

    assert str(tmp_path) not in str(caught.value)
    assert visitor.views == {}
    assert not path.parent.exists()


def test_an_image_that_is_cut_short_is_refused_in_the_readers_words(visitor: Session, tmp_path: Path) -> None:
    path = upload(tmp_path, "cut.png", noise())
    path.write_bytes(path.read_bytes()[:-300])

    with pytest.raises(InputError, match=r"right image 'cut.png'"):
        inputs.receive_view(visitor, "right", path, LIMITS)


def test_own_images_are_matched_as_recorded_with_the_depth_of_their_calibration(
    visitor: Session, tmp_path: Path
) -> None:
    scene = scotopic.render_scene(96, 64)
    for side, view in (("left", scene.left), ("right", scene.right)):
        inputs.receive_view(visitor, side, upload(tmp_path, f"{side}.png", inputs.to_uint8(view)), LIMITS)
    calibration = upload(tmp_path, "calib.txt", b"96 47.5 31.5 250 0\n")
    assert inputs.receive_calibration(visitor, [calibration]) == "calib.txt"
    assert not calibration.exists()

    found = work.run(visitor, Request(OWN, photons=None, preset="fast", max_disparity=16, unit="mm"), Job(), LIMITS)

    assert found.calibration.baseline == 0.25
    assert found.about["noise"] == "as recorded"
    assert found.truth is None
    assert str(tmp_path) not in json.dumps(found.about)
    np.testing.assert_array_equal(found.match.left_image, inputs.to_uint8(scene.left).astype(np.float32) / 255)
    assert not visitor.folder.exists() or not any(visitor.folder.iterdir())


def test_without_a_calibration_the_forms_numbers_are_assumed_and_named_so(visitor: Session, tmp_path: Path) -> None:
    for side in ("left", "right"):
        inputs.receive_view(visitor, side, upload(tmp_path, f"{side}.png", noise()), LIMITS)

    plain = inputs.prepare_pair(visitor, Request(OWN, photons=None), LIMITS)
    told = inputs.prepare_pair(visitor, Request(OWN, photons=None, focal_length=500.0, baseline=0.2), LIMITS)

    assert (plain.calibration.fx, plain.calibration.baseline) == (96.0, 0.1)
    assert (told.calibration.fx, told.calibration.baseline) == (500.0, 0.2)
    assert plain.calibration.source.startswith("assumed")


def test_bad_calibrations_are_refused_in_sentences_without_our_folders(visitor: Session, tmp_path: Path) -> None:
    for side in ("left", "right"):
        inputs.receive_view(visitor, side, upload(tmp_path, f"{side}.png", noise()), LIMITS)
    with pytest.raises(SettingsError, match=r"To rectify.*calibration"):
        inputs.prepare_pair(visitor, Request(OWN, rectify_first=True), LIMITS)
    inputs.receive_calibration(visitor, [upload(tmp_path, "odd.txt", b"hello world\n")])

    with pytest.raises(InputError, match=r"^calibration 'odd.txt'") as caught:
        inputs.prepare_pair(visitor, Request(OWN), LIMITS)

    assert str(tmp_path) not in str(caught.value)
    with pytest.raises(InputError, match="3 calibration files"):
        inputs.receive_calibration(visitor, [upload(tmp_path, f"{k}.txt", b"1") for k in range(3)])


def test_views_of_two_sizes_are_refused_by_their_names(visitor: Session, tmp_path: Path) -> None:
    inputs.receive_view(visitor, "left", upload(tmp_path, "a.png", noise(64)), LIMITS)
    inputs.receive_view(visitor, "right", upload(tmp_path, "b.png", noise(60)), LIMITS)

    with pytest.raises(InputError, match=r"'a.png'.*'b.png'.*96 x 64.*96 x 60"):
        inputs.prepare_pair(visitor, Request(OWN), LIMITS)


def test_every_room_can_be_shown_and_searches_all_of_its_disparities(visitor: Session) -> None:
    for name, room in ROOMS.items():
        titles = [title for title, _ in inputs.thumbnails(visitor, name)]
        pair = inputs.prepare_pair(visitor, Request(name, photons=None), LIMITS)
        assert titles == ["Left", "Right"]
        assert pair.truth is not None
        assert pair.truth.max() < room.max_disparity
        assert pair.left.dtype == np.uint8
