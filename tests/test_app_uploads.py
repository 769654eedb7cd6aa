"""The web page without a browser: uploaded images and calibrations, and the pairs made of them."""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import command_line
import cv2
import numpy as np
import pytest
import tifffile
from app_visitors import LIMITS, upload

import scotopic
from scotopic.app import html, inputs, work
from scotopic.app.inputs import OWN, ROOMS, SIDES, Request
from scotopic.app.session import Job, Limits, Session, Sessions, View
from scotopic.errors import InputError, SettingsError
from scotopic.io import read_disparity, read_image, write_png
from scotopic.io.images import TURNED


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


def test_where_too_many_wait_for_a_match_an_upload_is_refused_in_a_sentence(tmp_path: Path) -> None:
    pytest.importorskip("gradio", reason="needs the extra app: pip install 'scotopic[app]'")
    from scotopic.app.page import FULL, _Behavior

    with Sessions(Limits(results=1), tmp_path) as sessions:
        waiting = sessions.of("waiting")
        waiting.pair.accept("left", View("a.png", noise()))
        waiting.waiting.append(Job())
        receive = _Behavior(sessions, *3 * [None])._receiver(OWN, "right")  # type: ignore[arg-type]
        payload = {"path": str(upload(tmp_path, "b.png", noise()))}
        with sessions.listening("waiting"):
            _, shown, _ = receive(payload, SimpleNamespace(session_hash="other"))

        assert FULL in shown
        assert waiting.holds_data
        assert not sessions.of("other").holds_data


def test_an_upload_is_kept_as_recorded_and_its_file_removed(visitor: Session, tmp_path: Path) -> None:
    deep = np.random.default_rng(0).integers(0, 65536, (64, 96), np.uint16)
    path = upload(tmp_path, "my left.png", deep)

    picture = inputs.receive_view(visitor, "left", path, LIMITS)

    np.testing.assert_array_equal(picture.pixels, deep)
    assert (picture.name, picture.size) == ("my left.png", (96, 64))
    assert visitor.pair.views == {"left": picture}
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
    assert visitor.pair.views == {}
    assert not path.parent.exists()


def test_an_image_that_is_cut_short_is_refused_in_the_readers_words(visitor: Session, tmp_path: Path) -> None:
    path = upload(tmp_path, "cut.png", noise())
    path.write_bytes(path.read_bytes()[:-300])

    with pytest.raises(InputError, match=r"right image 'cut.png'"):
        inputs.receive_view(visitor, "right", path, LIMITS)


def test_a_refused_view_is_shown_as_an_error_until_a_good_one_replaces_it(visitor: Session, tmp_path: Path) -> None:
    visitor.pair.refuse("left", "The left image 'text.png' holds no readable image.")
    inputs.receive_view(visitor, "right", upload(tmp_path, "b.png", noise()), LIMITS)

    assert "text.png" in html.views(visitor, OWN)
    assert 'role="alert"' in html.views(visitor, OWN)
    assert "b.png" in html.views(visitor, OWN)
    with pytest.raises(InputError, match=r"text\.png.*no readable image"):  # not only that it is missing
        inputs.prepare_pair(visitor, Request(OWN), LIMITS)
    assert "alert" not in html.views(visitor, next(iter(ROOMS)))

    inputs.receive_view(visitor, "left", upload(tmp_path, "a.png", noise()), LIMITS)
    assert "alert" not in html.views(visitor, OWN)


def test_a_refused_view_takes_the_place_of_an_earlier_good_one(visitor: Session, tmp_path: Path) -> None:
    inputs.receive_view(visitor, "left", upload(tmp_path, "a.png", noise()), LIMITS)

    visitor.pair.refuse("left", "The left image 'text.png' holds no readable image.")

    assert "left" not in visitor.pair.views


def test_swapping_exchanges_the_views_and_what_is_wrong_with_them(visitor: Session, tmp_path: Path) -> None:
    first, second = (
        inputs.receive_view(visitor, side, upload(tmp_path, f"{side}.png", noise()), LIMITS) for side in inputs.SIDES
    )

    visitor.pair.swap()
    assert visitor.pair.views == {"right": first, "left": second}
    titles = [title.partition(",")[0] for _, (title, _) in sorted(inputs.thumbnails(visitor, OWN).items())]
    assert titles == ["Left: right.png", "Right: left.png"]

    visitor.pair.refuse("left", "The left image 'x.png' is cut short.")
    visitor.pair.swap()
    assert visitor.pair.views == {"left": first}
    assert visitor.pair.problems == {"right": "The right image 'x.png' is cut short."}


def test_an_upload_with_opaque_alpha_is_taken_without_it(visitor: Session, tmp_path: Path) -> None:
    opaque = np.dstack([noise()[..., ::-1], np.full((64, 96), 255, np.uint8)])  # OpenCV has blue first
    path = upload(tmp_path, "opaque.png", noise())
    assert cv2.imwrite(str(path), opaque)

    np.testing.assert_array_equal(inputs.receive_view(visitor, "left", path, LIMITS).pixels, noise())


@pytest.mark.filterwarnings("ignore:A file says:scotopic.errors.PairWarning")
@pytest.mark.parametrize("side", ["left", "right"])
def test_the_visitor_is_told_of_an_image_that_is_to_be_turned(visitor: Session, tmp_path: Path, side: str) -> None:
    for each in ("left", "right"):
        tags = [(274, "H", 1, 6, True)] if each == side else []
        path = upload(tmp_path, f"{each}.tif", b"")
        tifffile.imwrite(path, noise(), extratags=tags)
        inputs.receive_view(visitor, each, path, LIMITS)

    pair = inputs.prepare_pair(visitor, Request(OWN, photons=None), LIMITS)

    assert [each for each in pair.warnings if "to be turned" in each] == [TURNED]


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


def test_photons_are_counted_at_the_white_of_the_format_as_by_the_command(visitor: Session, tmp_path: Path) -> None:
    scene = scotopic.render_scene(96, 64)
    for side, view in (("left", scene.left), ("right", scene.right)):
        write_png(tmp_path / f"{side}.png", np.rint(np.clip(view, 0, 1) * 4095).astype(np.uint16))  # of 65535
        pixels = (tmp_path / f"{side}.png").read_bytes()
        inputs.receive_view(visitor, side, upload(tmp_path, f"{side}.png", pixels), LIMITS)
    command_line.succeed("simulate", *(tmp_path / f"{side}.png" for side in SIDES), "-o", tmp_path / "dark")

    pair = inputs.prepare_pair(visitor, Request(OWN, photons=2), LIMITS)

    for side, view in zip(SIDES, pair.frames[0], strict=True):
        np.testing.assert_array_equal(view, read_image(tmp_path / "dark" / f"{side}.png"))
    assert sum("Photons are counted at its white" in each for each in pair.warnings) == 1


def drop_views(visitor: Session, folder: Path) -> None:
    scene = scotopic.render_scene(96, 64)
    for side, view in (("left", scene.left), ("right", scene.right)):
        inputs.receive_view(visitor, side, upload(folder, f"{side}.png", inputs.to_uint8(view)), LIMITS)


@pytest.mark.filterwarnings("ignore:The calibration does not say:scotopic.errors.PairWarning")
@pytest.mark.parametrize("when", ["before the match", "after it"])
def test_a_calibration_of_other_images_is_doubted_on_the_page(visitor: Session, tmp_path: Path, when: str) -> None:
    drop_views(visitor, tmp_path)
    twice_as_large = upload(tmp_path, "calib.txt", b"192 95.5 63.5 0.25 0\n")  # of 192 x 128 px, which it does not say
    if when == "before the match":
        inputs.receive_calibration(visitor, [twice_as_large])
    work.run(visitor, PLAIN, Job(), LIMITS)
    if when == "after it":
        assert "does not say the size" not in html.resting(visitor)
        inputs.receive_calibration(visitor, [twice_as_large])
        assert work.recalibrate(visitor, PLAIN)

    assert "does not say the size" in html.resting(visitor)
    assert visitor.outcome is not None
    assert "about 192 x 128 px" in visitor.outcome.about["calibration"]["warning"]


PLAIN = Request(OWN, photons=None, preset="fast", max_disparity=16)
METRIC = ("depth.pfm", "points.ply")


def test_without_a_calibration_nothing_is_in_meters(visitor: Session, tmp_path: Path) -> None:
    pytest.importorskip("PIL", reason="comes with the extra app")
    drop_views(visitor, tmp_path)

    found = work.run(visitor, PLAIN, Job(), LIMITS)

    assert found.calibration is None
    assert found.about["calibration"] is None
    assert not set(METRIC) & set(work.available_files(visitor))
    for name in METRIC:
        with pytest.raises(InputError, match=f"no file '{name}'"):
            work.write_file(visitor, name)
    with zipfile.ZipFile(work.write_file(visitor, "all.zip")) as archive:
        names = {Path(name).name for name in archive.namelist()}
        assert json.loads(archive.read("scotopic/report.json"))["calibration"] is None
    assert "disparity.pfm" in names
    assert not set(METRIC) & names
    y, x = np.argwhere(found.match.mask)[0]
    assert "disparity" in work.describe_pixel(visitor, x, y)
    assert "depth" not in work.describe_pixel(visitor, x, y)
    assert "without scale" in html.viewer_state(visitor)["geometry"]
    assert len(work.points(visitor)[0])  # which can still be turned
    assert "need a calibration" in html.files(visitor)


def test_focal_length_and_baseline_on_the_page_are_a_calibration_if_both_are_given(
    visitor: Session, tmp_path: Path
) -> None:
    pytest.importorskip("PIL", reason="comes with the extra app")
    drop_views(visitor, tmp_path)

    told = inputs.prepare_pair(visitor, replace(PLAIN, focal_length=500.0, baseline=0.2), LIMITS).calibration

    assert told is not None
    assert (told.fx, told.baseline) == (500.0, 0.2)
    assert told.source.startswith("as given on the page")
    for one in ({"focal_length": 500.0}, {"baseline": 0.2}):
        with pytest.raises(SettingsError, match="both"):
            inputs.prepare_pair(visitor, replace(PLAIN, **one), LIMITS)


def test_a_calibration_that_comes_after_the_match_gives_its_depth(visitor: Session, tmp_path: Path) -> None:
    pytest.importorskip("PIL", reason="comes with the extra app")
    drop_views(visitor, tmp_path)
    found, version = work.run(visitor, PLAIN, Job(), LIMITS), visitor.version
    inputs.receive_calibration(visitor, [upload(tmp_path, "calib.txt", b"96 47.5 31.5 250 0\n")])

    assert work.recalibrate(visitor, replace(PLAIN, unit="mm"))

    assert visitor.version > version
    shown = found.match.disparity
    depth = read_disparity(work.write_file(visitor, "depth.pfm"))
    np.testing.assert_allclose(depth, 96 * 0.25 / np.where(shown > 0, shown, np.nan), rtol=1e-5)  # Z = f B / d
    y, x = np.argwhere(shown > 0)[0]
    assert f"depth {96 * 0.25 / shown[y, x]:.3g} m" in work.describe_pixel(visitor, x, y)
    assert work.recalibrate(visitor, replace(PLAIN, unit="cm"))  # the unit, corrected later
    again = read_disparity(work.write_file(visitor, "depth.pfm"))
    np.testing.assert_allclose(again, 10 * depth, rtol=1e-5)
    report = json.loads(work.write_file(visitor, "report.json").read_text())
    assert report["calibration"]["baseline_m"] == 2.5


def test_a_calibration_is_not_used_for_a_result_that_it_does_not_belong_to(visitor: Session, tmp_path: Path) -> None:
    pytest.importorskip("PIL", reason="comes with the extra app")
    assert not work.recalibrate(visitor, PLAIN)  # no result
    drop_views(visitor, tmp_path)
    work.run(visitor, PLAIN, Job(), LIMITS)
    inputs.receive_calibration(visitor, [upload(tmp_path, "calib.txt", b"96 47.5 31.5 0.25 0\n")])
    assert not work.recalibrate(visitor, replace(PLAIN, rectify_first=True))
    inputs.receive_view(visitor, "left", upload(tmp_path, "other.png", noise()), LIMITS)

    assert not work.recalibrate(visitor, PLAIN)

    assert visitor.outcome is not None
    assert visitor.outcome.calibration is None


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


def test_every_room_can_be_shown_and_searches_all_of_its_disparities(
    visitor: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, room in list(ROOMS.items()):
        monkeypatch.setitem(ROOMS, name, replace(room, frames=1))  # the first of a clip says it all
        titles = [title for title, _ in inputs.thumbnails(visitor, name).values()]
        pair = inputs.prepare_pair(visitor, Request(name, photons=None), LIMITS)
        assert titles == ["Left", "Right"]
        assert pair.truth is not None
        assert pair.truth.max() < room.max_disparity
        assert pair.frames[0][0].dtype == np.uint8
