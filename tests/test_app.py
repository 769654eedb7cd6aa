"""What the web page does, without a browser: its functions on a session."""

from __future__ import annotations

import json
import logging
import shutil
import struct
import sys
import threading
import time
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scotopic
from scotopic.app import inputs, work
from scotopic.app.inputs import OWN, ROOMS, Request
from scotopic.app.pictures import REASONS, as_png
from scotopic.app.session import Cancelled, Job, Limits, Outcome, Session, Sessions
from scotopic.errors import InputError, ScotopicError, SettingsError
from scotopic.io import read_disparity, read_image, read_pfm, read_ply, write_png
from scotopic.result import Reason

SMALL = "Room, small (192 x 128)"
LIMITS = Limits()


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    """The small room, matched once."""
    session = Session(Path("unused"))
    return work.run(session, Request(SMALL, preset="fast", max_disparity=32), Job(), LIMITS)


@pytest.fixture(scope="module")
def best() -> Outcome:
    """The same by the preset best, whose mask is a threshold on confidence alone."""
    return work.run(Session(Path("unused")), Request(SMALL, preset="best", max_disparity=32), Job(), LIMITS)


@pytest.fixture
def session(outcome: Outcome, tmp_path: Path) -> Session:
    """A visitor who has matched the small room."""
    fresh = Session(tmp_path / "session")
    fresh.keep(outcome)
    return fresh


@pytest.fixture
def visitor(tmp_path: Path) -> Session:
    """A visitor who has done nothing yet."""
    return Session(tmp_path / "session")


def upload(folder: Path, name: str, pixels: np.ndarray | bytes) -> Path:
    """Put a file where the web server would: alone in a folder."""
    path = folder / "uploads" / name.replace(".", "-") / name
    path.parent.mkdir(parents=True)
    if isinstance(pixels, bytes):
        path.write_bytes(pixels)
    else:
        write_png(path, pixels)
    return path


# --- matching -------------------------------------------------------------------------------------------------------


def test_a_run_gives_what_the_library_gives_for_the_same_pair(outcome: Outcome) -> None:
    scene = scotopic.render_scene(192, 128)
    clean = (inputs.to_uint8(view).astype(np.float32) / 255 for view in (scene.left, scene.right))
    noisy = scotopic.simulate_pair(*clean, photons=2, read_noise=2)

    expected = scotopic.match(*(inputs.to_uint8(view) for view in noisy), preset="fast", max_disparity=32)

    np.testing.assert_array_equal(outcome.match.disparity, expected.disparity)
    np.testing.assert_array_equal(outcome.truth, scene.disparity_left)


@pytest.mark.parametrize("preset", sorted(scotopic.PRESETS))
def test_every_preset_is_passed_on(visitor: Session, preset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def note(left: object, right: object, preset: str, **_: object) -> None:
        asked.append(preset)
        raise Cancelled

    monkeypatch.setattr(work, "match", note)
    with pytest.raises(Cancelled):
        work.run(visitor, Request(SMALL, preset=preset), Job(), LIMITS)

    assert asked == [preset]


def test_a_cancelled_run_stops_at_the_next_report_and_keeps_the_earlier_result(session: Session) -> None:
    job, earlier, stages = Job(), session.outcome, []

    def cancel_early(stage: str, share: float) -> None:
        stages.append(stage)
        if stage == "junctions":
            job.cancel()

    with pytest.raises(Cancelled):
        work.run(session, Request(SMALL, preset="fast", max_disparity=32), job, LIMITS, cancel_early)

    assert stages.count("junctions") == 1
    assert stages[-1] == "junctions"
    assert session.outcome is earlier


def test_cancelling_ends_a_run_of_minutes_within_seconds(visitor: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = threading.Event()
    job = visitor.job = Job()

    def note(stage: str, share: float) -> None:
        if stage == "junctions" and share > 0:
            begun.set()

    raised: list[BaseException] = []

    def run() -> None:
        try:
            work.run(visitor, Request("Room (384 x 256)", preset="paper"), job, LIMITS, note)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert begun.wait(120)
    start = time.perf_counter()
    assert visitor.cancel()
    thread.join(30)

    assert not thread.is_alive()
    assert time.perf_counter() - start < 10
    assert isinstance(raised[0], Cancelled)
    assert visitor.outcome is None


def test_cancelling_reaches_jobs_that_wait_and_not_those_asked_for_later(visitor: Session) -> None:
    assert not visitor.cancel()
    visitor.waiting.extend([Job(), Job()])
    running = visitor.begin()

    assert visitor.cancel()
    visitor.waiting.append(Job())

    assert running.cancelled
    assert [visitor.begin().cancelled for _ in range(3)] == [True, False, False]


def test_a_result_that_comes_after_the_visitor_has_left_is_dropped(visitor: Session, outcome: Outcome) -> None:
    visitor.close()

    visitor.keep(outcome)

    assert visitor.outcome is None


def test_progress_over_a_run_never_falls() -> None:
    share, shares = 0.0, []
    for stage in ("loading kernels", "junctions", "something new", "costs left", "junctions", "consistency"):
        for part in (0.0, 0.5, 1.0, 2.0):
            share = work.overall(stage, part, share)
            shares.append(share)

    assert shares == sorted(shares)
    assert shares[-1] == 1.0


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (Request("Cellar"), "pair.*'Cellar'.*Room"),
        (Request(SMALL, preset="slow"), "preset.*'slow'"),
        (Request(SMALL, min_disparity=20, max_disparity=10), "disparity range.*20 to 10"),
        (Request(SMALL, max_disparity=5000), "disparity range.*5000.*at most 512"),
        (Request(SMALL, photons=-1.0), "photons"),
        (Request(OWN), "left and right image.*found none.*drop the file"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_in_a_sentence(
    visitor: Session, request_: Request, message: str
) -> None:
    with pytest.raises(ScotopicError, match=message):
        work.run(visitor, request_, Job(), LIMITS)


def test_an_expected_failure_is_told_in_its_own_words_and_others_in_neutral_ones(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR, "scotopic.app"):
        assert work.sentence(InputError("left image: found\n none")) == "left image: found none"
        assert not caplog.records
        assert work.sentence(RuntimeError("secret /home/me")) == work.NEUTRAL

    assert "secret" in caplog.text
    assert "Memory ran out" in work.sentence(MemoryError())


# --- looking --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threshold", [0.0, 0.1, 0.35, 0.8])
def test_the_mask_is_what_min_confidence_gives(outcome: Outcome, threshold: float) -> None:
    left, right = outcome.match.left_image, outcome.match.right_image
    expected = scotopic.match(left, right, preset="fast", max_disparity=32, min_confidence=threshold)

    masked = work.masked(outcome.match, threshold)

    np.testing.assert_array_equal(masked.disparity, expected.disparity)
    np.testing.assert_array_equal(masked.reason, expected.reason)
    assert masked.settings == expected.settings


@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.5, 0.7])
def test_the_mask_of_best_can_be_widened_and_narrowed(best: Outcome, threshold: float) -> None:
    left, right = best.match.left_image, best.match.right_image
    expected = scotopic.match(left, right, preset="best", max_disparity=32, min_confidence=threshold)

    masked = work.masked(best.match, threshold)

    np.testing.assert_array_equal(masked.disparity, expected.disparity)
    np.testing.assert_array_equal(masked.mask, expected.mask)


def test_the_slider_begins_where_the_preset_has_its_own_threshold(best: Outcome, tmp_path: Path) -> None:
    session = Session(tmp_path / "session")

    session.keep(best)

    assert session.threshold == best.match.settings.matching.min_confidence > 0
    assert work.masked(best.match, session.threshold) is best.match


def test_a_higher_threshold_covers_less_and_says_so(session: Session) -> None:
    words = []
    for threshold in (0.0, 0.2, 0.5, 1.0):
        work.set_threshold(session, threshold)
        words.append(work.coverage_in_words(session))
    shares = [float(each.split()[1]) for each in words]

    assert shares == sorted(shares, reverse=True)
    assert len(set(shares)) > 2
    assert "ambiguous" in words[-1]


@pytest.mark.parametrize(("given", "kept"), [(None, 0.0), (float("nan"), 0.0), (-1.0, 0.0), (0.25, 0.25), (7.0, 1.0)])
def test_a_threshold_stays_between_0_and_1(session: Session, given: float | None, kept: float) -> None:
    assert work.set_threshold(session, given) == kept


def test_the_slider_ends_where_almost_nothing_is_left(session: Session) -> None:
    assert session.outcome is not None
    end = work.most_sure(session.outcome)

    assert round(20 * end, 9) % 1 == 0
    assert work.masked(session.outcome.match, end - 0.05).coverage > 0
    assert work.masked(session.outcome.match, end).coverage == 0


def test_redrawing_after_the_mask_moved_is_quick(session: Session) -> None:
    times = []
    for threshold in np.linspace(0, 1, 11):
        start = time.perf_counter()
        work.set_threshold(session, float(threshold))
        work.coverage_in_words(session)
        as_png(work.draw(session, "disparity"))
        times.append(time.perf_counter() - start)

    assert np.median(times) < 0.15  # 0.02 s on an idle machine


@pytest.mark.parametrize("kind", [kind for kind in work.MAPS if kind not in ("rival", "bar")])
def test_every_map_is_drawn_at_the_size_of_the_image(session: Session, kind: str) -> None:
    drawn = work.draw(session, kind)

    assert drawn.shape == (128, 192, 3)
    assert drawn.dtype == np.uint8
    assert drawn.std() > 0


def test_hidden_pixels_lose_their_color_and_the_others_keep_it(session: Session) -> None:
    before = work.draw(session, "disparity")
    work.set_threshold(session, 0.3)
    after = work.draw(session, "disparity")
    assert session.outcome is not None
    found = session.outcome.match
    hidden = found.mask & (found.confidence < 0.3)

    assert hidden.any()
    np.testing.assert_array_equal(before[~hidden], after[~hidden])
    assert (after[hidden].max(axis=1) == after[hidden].min(axis=1)).all()  # gray


def test_every_reason_has_words_and_a_color_of_its_own() -> None:
    assert set(REASONS) == set(Reason)
    assert len({color for _, color in REASONS.values()}) == len(Reason)


@pytest.mark.parametrize("kind", ["rival", "nonsense", "../secret"])
def test_a_map_that_is_not_there_is_refused(session: Session, kind: str) -> None:
    with pytest.raises(InputError, match="map: found no"):
        work.draw(session, kind)


def test_a_pixel_reads_as_the_maps_say_and_its_depth_as_the_formula(session: Session) -> None:
    assert session.outcome is not None
    found, calibration = session.outcome.match, session.outcome.calibration
    y, x = np.argwhere(found.mask)[100]

    reading = work.read_pixel(session, float(x), float(y))

    assert (reading.x, reading.y) == (x, y)
    assert reading.disparity == found.disparity[y, x]
    assert reading.confidence == found.confidence[y, x]
    assert reading.depth == pytest.approx(calibration.baseline * calibration.fx / found.disparity[y, x])
    assert f"disparity {found.disparity[y, x]:.2f} px" in reading.in_words()
    assert " m " in reading.in_words()


def test_a_pixel_without_an_answer_says_why(session: Session) -> None:
    assert session.outcome is not None
    reason = session.outcome.match.reason
    for kind in (Reason.NO_STRUCTURE, Reason.LEFT_RIGHT):
        y, x = np.argwhere(reason == kind)[0]
        reading = work.read_pixel(session, float(x), float(y))
        assert reading.disparity is None
        assert REASONS[kind][0] in reading.in_words()

    work.set_threshold(session, 1.0)
    y, x = np.argwhere(reason == Reason.OK)[0]
    assert "not sure enough" in work.read_pixel(session, float(x), float(y)).in_words()


@pytest.mark.parametrize(("x", "y"), [(-1.0, 0.0), (192.0, 0.0), (0.0, 128.0), (float("nan"), 0.0)])
def test_a_pixel_outside_is_refused(session: Session, x: float, y: float) -> None:
    with pytest.raises(InputError, match="pixel: found"):
        work.read_pixel(session, x, y)


def test_points_are_those_of_the_cloud_without_the_farthest(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    places, colors, step = work.points(session)
    assert session.outcome is not None
    kept = int(session.outcome.match.mask.sum())
    assert step == 1
    assert 0.95 * kept < len(places) == len(colors) <= kept

    monkeypatch.setattr(work, "MOST_POINTS", 100)
    fewer, _, step = work.points(session)
    assert len(fewer) <= 100
    np.testing.assert_array_equal(fewer, places[::step])

    work.set_threshold(session, 1.0)
    assert len(work.points(session)[0]) == 0


def test_nothing_can_be_looked_at_before_there_is_a_result(visitor: Session) -> None:
    for look in (work.coverage_in_words, work.points, work.compare, work.available_files):
        with pytest.raises(InputError, match=r"result: found none.*match the pair"):
            look(visitor)


# --- comparing ------------------------------------------------------------------------------------------------------


def test_the_comparison_has_coverage_and_errors_of_both(session: Session) -> None:
    from scotopic.evaluation.metrics import score

    rows = work.compare(session)

    assert [(row.name, row.window) for row in rows] == [
        ("scotopic, fast", 1), ("scotopic, fast", 19), ("OpenCV SGBM", 1), ("OpenCV SGBM", 19)
    ]  # fmt: skip
    assert session.outcome is not None
    assert session.rival is not None
    expected = score(session.outcome.match.disparity, session.outcome.truth, 19)
    assert (rows[1].coverage, rows[1].epe) == (pytest.approx(expected.coverage), pytest.approx(expected.epe))
    assert work.draw(session, "rival").shape == (128, 192, 3)


def test_without_truth_the_comparison_has_coverage_alone(session: Session) -> None:
    assert session.outcome is not None
    session.outcome = replace(session.outcome, truth=None)

    rows = work.compare(session)

    assert [row.window for row in rows] == [None, None]
    assert all(np.isnan(row.epe) and 0 <= row.coverage <= 100 for row in rows)


def test_a_search_below_0_cannot_be_compared(session: Session) -> None:
    assert session.outcome is not None
    found = session.outcome.match
    matching = replace(found.settings.matching, min_disparity=-4)
    below = replace(found, settings=replace(found.settings, matching=matching))
    session.outcome = replace(session.outcome, match=below)

    with pytest.raises(SettingsError, match="search from -4"):
        work.compare(session)


# --- files ----------------------------------------------------------------------------------------------------------


def test_every_file_opens_and_holds_what_is_shown(session: Session) -> None:
    work.set_threshold(session, 0.2)
    assert session.outcome is not None
    shown = work.masked(session.outcome.match, 0.2)

    files = {name: work.write_file(session, name) for name in work.available_files(session)}

    for name in ("disparity.pfm", "disparity.tiff", "disparity.npz"):
        np.testing.assert_array_equal(read_disparity(files[name]), shown.disparity)
    np.testing.assert_allclose(read_disparity(files["disparity.png"]), shown.disparity, atol=1 / 256)
    np.testing.assert_array_equal(read_pfm(files["confidence.pfm"]), shown.confidence)
    depth = read_disparity(files["depth.pfm"])
    np.testing.assert_allclose(depth, 192 * 0.3 / shown.disparity, rtol=1e-5)
    assert len(read_ply(files["points.ply"]).points) == shown.mask.sum()
    assert read_image(files["preview.png"]).shape[2] == 3
    report = json.loads(files["report.json"].read_text())
    assert report["coverage"] == shown.coverage
    assert report["noise"]["photons"] == 2.0
    assert report["settings"]["matching"]["min_confidence"] == 0.2
    with zipfile.ZipFile(files["all.zip"]) as archive:
        inside = {Path(name).name for name in archive.namelist()}
        assert archive.testzip() is None
    assert {*work.available_files(session), "match.npz"} - {"all.zip"} <= inside
    with zipfile.ZipFile(files["middlebury.zip"]) as archive:
        assert len(archive.namelist()) == 3


def test_files_lie_alone_in_folders_of_the_session_and_go_with_it(session: Session) -> None:
    paths = [work.write_file(session, name) for name in ("disparity.pfm", "disparity.pfm", "all.zip")]

    assert len({path.parent for path in paths}) == 3
    assert all(list(path.parent.iterdir()) == [path] for path in paths)
    assert all(path.is_relative_to(session.folder) for path in paths)
    session.close()
    assert not session.folder.exists()


@pytest.mark.parametrize("name", ["../../etc/passwd", "match.py", "", "disparity.pfm/.."])
def test_other_files_are_not_given_out(session: Session, name: str) -> None:
    with pytest.raises(InputError, match="file: found"):
        work.write_file(session, name)

    assert not session.folder.exists()


def test_a_search_that_kitti_cannot_store_has_no_such_file(session: Session) -> None:
    assert session.outcome is not None
    found = session.outcome.match
    matching = replace(found.settings.matching, max_disparity=300)
    wide = replace(found, settings=replace(found.settings, matching=matching))
    # The images are narrower than that, so the range is checked on ones that are not.
    wide = replace(wide, disparity=np.pad(wide.disparity, ((0, 0), (0, 200))))
    session.outcome = replace(session.outcome, match=wide)

    assert "disparity.png" not in work.available_files(session)


# --- uploads --------------------------------------------------------------------------------------------------------


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

    assert inputs.uploaded({"path": str(mine)}, uploads) == [mine]
    assert inputs.uploaded([{"path": str(mine)}] * 2, uploads) == [mine, mine]
    others: list[object] = [
        {"path": str(tmp_path / "secret.txt")}, {"path": f"{uploads}/../secret.txt"}, {"path": str(uploads / "link")},
        {"path": str(uploads)}, {"path": str(mine) + "\0"}, {"path": None}, {}, None, "mine.txt", [str(mine)],
    ]  # fmt: skip
    for payload in others:
        with pytest.raises(InputError, match="upload: found that the file is not here"):
            inputs.uploaded(payload, uploads)


def test_an_upload_is_kept_as_recorded_and_its_file_removed(visitor: Session, tmp_path: Path) -> None:
    pytest.importorskip("PIL", reason="comes with the extra app")
    deep = np.random.default_rng(0).integers(0, 65536, (64, 96), np.uint16)
    path = upload(tmp_path, "my left.png", deep)

    picture = inputs.receive(visitor, "left", path, LIMITS)

    np.testing.assert_array_equal(picture.pixels, deep)
    assert (picture.name, picture.size) == ("my left.png", (96, 64))
    assert visitor.pictures == {"left": picture}
    assert not path.parent.exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("text.png", b"not an image", "left image 'text.png': found no readable image in 12 bytes"),
        ("empty.png", b"", "left image 'empty.png': found no readable image in 0 bytes"),
        ("huge.png", huge_png(), "left image 'huge.png': found hundreds of megapixels, expected at most 4"),
        ("big.bin", bytes(33 * 2**20), "left image 'big.bin': found 33 MiB, expected at most 32"),
    ],
    ids=["text", "empty", "too many pixels", "too many bytes"],
)
def test_a_bad_upload_is_refused_by_its_own_name_and_removed(
    visitor: Session, tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    pytest.importorskip("PIL", reason="comes with the extra app")
    path = upload(tmp_path, name, content)

    with pytest.raises(InputError, match=message) as caught:
        inputs.receive(visitor, "left", path, LIMITS)

    assert str(tmp_path) not in str(caught.value)
    assert visitor.pictures == {}
    assert not path.parent.exists()


def test_an_image_that_is_cut_short_is_refused_in_the_readers_words(visitor: Session, tmp_path: Path) -> None:
    pytest.importorskip("PIL", reason="comes with the extra app")
    path = upload(tmp_path, "cut.png", noise())
    path.write_bytes(path.read_bytes()[:-300])

    with pytest.raises(InputError, match=r"^right image 'cut.png': found no readable image"):
        inputs.receive(visitor, "right", path, LIMITS)


def test_own_images_are_matched_as_recorded_with_the_depth_of_their_calibration(
    visitor: Session, tmp_path: Path
) -> None:
    pytest.importorskip("PIL", reason="comes with the extra app")
    scene = scotopic.render_scene(96, 64)
    for side, view in (("left", scene.left), ("right", scene.right)):
        inputs.receive(visitor, side, upload(tmp_path, f"{side}.png", inputs.to_uint8(view)), LIMITS)
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
    pytest.importorskip("PIL", reason="comes with the extra app")
    for side in ("left", "right"):
        inputs.receive(visitor, side, upload(tmp_path, f"{side}.png", noise()), LIMITS)

    plain = inputs.prepare(visitor, Request(OWN, photons=None), LIMITS)
    told = inputs.prepare(visitor, Request(OWN, photons=None, focal_length=500.0, baseline=0.2), LIMITS)

    assert (plain.calibration.fx, plain.calibration.baseline) == (96.0, 0.1)
    assert (told.calibration.fx, told.calibration.baseline) == (500.0, 0.2)
    assert plain.calibration.source.startswith("assumed")


def test_bad_calibrations_are_refused_in_sentences_without_our_folders(visitor: Session, tmp_path: Path) -> None:
    pytest.importorskip("PIL", reason="comes with the extra app")
    for side in ("left", "right"):
        inputs.receive(visitor, side, upload(tmp_path, f"{side}.png", noise()), LIMITS)
    with pytest.raises(SettingsError, match="rectify: found no calibration"):
        inputs.prepare(visitor, Request(OWN, rectify_first=True), LIMITS)
    inputs.receive_calibration(visitor, [upload(tmp_path, "odd.txt", b"hello world\n")])

    with pytest.raises(InputError, match=r"^calibration 'odd.txt'.*hello world") as caught:
        inputs.prepare(visitor, Request(OWN), LIMITS)

    assert str(tmp_path) not in str(caught.value)
    with pytest.raises(InputError, match="found 3 files"):
        inputs.receive_calibration(visitor, [upload(tmp_path, f"{k}.txt", b"1") for k in range(3)])


def test_views_of_two_sizes_are_refused_by_their_names(visitor: Session, tmp_path: Path) -> None:
    pytest.importorskip("PIL", reason="comes with the extra app")
    inputs.receive(visitor, "left", upload(tmp_path, "a.png", noise(64)), LIMITS)
    inputs.receive(visitor, "right", upload(tmp_path, "b.png", noise(60)), LIMITS)

    with pytest.raises(InputError, match=r"left image 'a.png' and right image 'b.png'.*same size"):
        inputs.prepare(visitor, Request(OWN), LIMITS)


def test_every_room_can_be_shown_and_searches_all_of_its_disparities(visitor: Session) -> None:
    for name, room in ROOMS.items():
        titles = [title for title, _ in inputs.views(visitor, name)]
        pair = inputs.prepare(visitor, Request(name, photons=None), LIMITS)
        assert titles == ["Left", "Right"]
        assert pair.truth is not None
        assert pair.truth.max() < room.max_disparity == inputs.suggestion(name)[1]
        assert pair.left.dtype == np.uint8


# --- sessions -------------------------------------------------------------------------------------------------------


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[Sessions]:
    with Sessions(Limits(results=2, idle_seconds=100), tmp_path / "root", clock=lambda: now[0]) as made:
        now[0] = 0.0
        yield made


now = [0.0]


def test_visitors_share_nothing(sessions: Sessions, outcome: Outcome) -> None:
    one, other = sessions.of("one"), sessions.of("other")
    one.keep(outcome)

    assert sessions.of("one") is one
    assert other.outcome is None
    assert one.token != other.token
    assert len(one.token) >= 32
    assert one.folder != other.folder
    assert sessions.by_token(one.token) is one
    assert sessions.by_token("one") is None


def test_a_visitor_who_leaves_takes_everything_along(sessions: Sessions, outcome: Outcome) -> None:
    session = sessions.of("one")
    job = session.job = Job()
    session.keep(outcome)
    work.write_file(session, "disparity.pfm")

    sessions.close("one")

    assert job.cancelled
    assert session.outcome is None
    assert not session.folder.exists()
    assert sessions.by_token(session.token) is None
    assert len(sessions) == 0
    sessions.close("one")  # twice does no harm


def test_a_visitor_who_is_not_heard_of_is_forgotten(sessions: Sessions) -> None:
    quiet, lively = sessions.of("quiet"), sessions.of("lively")
    now[0] = 90.0
    sessions.by_token(lively.token)
    now[0] = 110.0

    sessions.of("third")

    assert quiet.closed
    assert not lively.closed


def test_of_many_results_the_ones_looked_at_last_are_kept(sessions: Sessions, outcome: Outcome) -> None:
    made = []
    for time_, key in enumerate("abc"):
        now[0] = float(time_)
        made.append(sessions.of(key))
        made[-1].keep(outcome)
    now[0] = 10.0
    sessions.by_token(made[0].token)

    sessions.make_room()

    assert [each.outcome is None for each in made] == [False, True, False]
    with pytest.raises(InputError, match="dropped to make room"):
        work.coverage_in_words(made[1])


def test_at_the_end_no_folder_is_left(tmp_path: Path, outcome: Outcome) -> None:
    with Sessions(root=tmp_path / "root") as made:
        for key in "ab":
            made.of(key).keep(outcome)
            work.write_file(made.of(key), "disparity.npz")
        assert made.root.exists()

    assert not made.root.exists()


def test_the_folder_of_all_is_private(tmp_path: Path) -> None:
    made = Sessions()
    try:
        assert made.root.stat().st_mode & 0o077 == 0
    finally:
        shutil.rmtree(made.root)


# --- addresses and the command --------------------------------------------------------------------------------------


@pytest.fixture
def addresses(outcome: Outcome, tmp_path: Path) -> Iterator[tuple[Any, Session]]:
    """The addresses behind the page, and a session with a result."""
    applications = pytest.importorskip("starlette.applications", reason="comes with the extra app")
    testclient = pytest.importorskip("starlette.testclient")
    from scotopic.app.routes import routes

    with Sessions(root=tmp_path / "root") as made:
        session = made.of("somebody")
        session.keep(outcome)
        with testclient.TestClient(applications.Starlette(routes=routes(made))) as client:
            yield client, session


def test_pictures_pixels_and_points_have_addresses_that_nobody_may_keep(addresses: tuple[Any, Session]) -> None:
    client, session = addresses
    base = f"/look/{session.token}"

    picture, pixel, points = (client.get(base + path) for path in ("/maps/disparity.png", "/pixel?x=3&y=4", "/points"))

    assert picture.content.startswith(b"\x89PNG")
    assert pixel.json()["words"].startswith("(3, 4)")
    assert len(points.content) == 15 * len(work.points(session)[0])
    assert all(each.headers["cache-control"] == "no-store" for each in (picture, pixel, points))


def test_a_file_is_removed_once_it_is_sent(addresses: tuple[Any, Session], tmp_path: Path) -> None:
    client, session = addresses

    answer = client.get(f"/look/{session.token}/files/disparity.pfm")

    (tmp_path / "got.pfm").write_bytes(answer.content)
    assert session.outcome is not None
    np.testing.assert_array_equal(read_disparity(tmp_path / "got.pfm"), session.outcome.match.disparity)
    assert "attachment" in answer.headers["content-disposition"]
    assert list(session.folder.iterdir()) == []


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/look/guess/maps/disparity.png", 404, "session has ended"),
        ("/look/TOKEN/maps/rival.png", 422, "found no 'rival'"),
        ("/look/TOKEN/pixel?x=1e9&y=0", 422, "expected a number"),
        ("/look/TOKEN/pixel?x=5", 422, "expected a number"),
        ("/look/TOKEN/pixel?x=500&y=0", 422, "inside 192 x 128"),
        ("/look/TOKEN/files/secret.txt", 422, "file: found"),
        ("/look/TOKEN/files/..%2F..%2Fsecret.txt", 404, ""),
    ],
)
def test_a_bad_address_is_answered_in_a_sentence(
    addresses: tuple[Any, Session], path: str, status: int, words: str
) -> None:
    client, session = addresses

    answer = client.get(path.replace("TOKEN", session.token))

    assert answer.status_code == status
    assert words in answer.text
    assert "Traceback" not in answer.text


def test_a_fault_of_ours_is_answered_without_its_trace(
    addresses: tuple[Any, Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, session = addresses

    def fail(*_: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(work, "draw", fail)
    answer = client.get(f"/look/{session.token}/maps/disparity.png")

    assert (answer.status_code, answer.text) == (500, work.NEUTRAL)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--port", "0"], "error: --port: found 0"),
        (["--port", "70000"], "error: --port: found 70000"),
        (["--max-megapixels", "0"], "error: --max-megapixels: found 0"),
    ],
)
def test_the_command_refuses_what_it_cannot_do(arguments: list[str], message: str) -> None:
    from typer.testing import CliRunner

    from scotopic.cli import app

    result = CliRunner().invoke(app, ["app", "--no-browser", *arguments])

    assert result.exit_code == 2
    assert message in result.stderr


def test_without_gradio_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from scotopic.cli import app

    monkeypatch.setitem(sys.modules, "gradio", None)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    result = CliRunner().invoke(app, ["app", "--no-browser"])

    assert result.exit_code == 2
    assert "pip install 'scotopic[app]'" in result.stderr
    assert list(tmp_path.iterdir()) == []
