"""The web page without a browser: exploring a result, comparing it, and its files."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from app_visitors import match_small_room, session_with_result

import scotopic
from scotopic.app import pictures, work
from scotopic.app.session import Outcome, Session
from scotopic.app.work import REASONS
from scotopic.errors import InputError, SettingsError
from scotopic.evaluation.methods import opencv
from scotopic.io import read_disparity, read_image, read_pfm
from scotopic.result import Match, Reason
from scotopic.settings import make_settings


@pytest.fixture
def outcome() -> Outcome:
    return match_small_room()


@pytest.fixture
def best() -> Outcome:
    """The same with the preset best, whose mask is a threshold on confidence alone."""
    return match_small_room("best")


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return session_with_result(tmp_path)


@pytest.mark.parametrize("threshold", [0.0, 0.35, 0.8])
def test_the_mask_is_what_min_confidence_gives(outcome: Outcome, threshold: float) -> None:
    left, right = outcome.match.left_image, outcome.match.right_image
    expected = scotopic.match(left, right, preset="fast", max_disparity=32, min_confidence=threshold)

    masked = work.apply_threshold(outcome.match, threshold)

    np.testing.assert_array_equal(masked.disparity, expected.disparity)
    np.testing.assert_array_equal(masked.reason, expected.reason)
    assert masked.settings == expected.settings


@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.7])
def test_the_mask_of_best_can_be_widened_and_narrowed(best: Outcome, threshold: float) -> None:
    left, right = best.match.left_image, best.match.right_image
    expected = scotopic.match(left, right, preset="best", max_disparity=32, min_confidence=threshold)

    masked = work.apply_threshold(best.match, threshold)

    np.testing.assert_array_equal(masked.disparity, expected.disparity)
    np.testing.assert_array_equal(masked.mask, expected.mask)


def test_no_threshold_brings_an_answer_to_views_of_one_color() -> None:
    view = np.full((40, 60, 3), 0.5, np.float32)
    nothing = Match.empty(view, view, make_settings("best", max_disparity=16), Reason.NO_STRUCTURE)

    assert work.apply_threshold(nothing, 0.0).coverage == 0


@pytest.mark.parametrize("threshold", [0.0, 0.3])
def test_a_lower_threshold_brings_back_nothing_whose_partner_is_masked(best: Outcome, threshold: float) -> None:
    mask = np.zeros(best.match.reason.shape, bool)
    mask[:, ::3] = True
    expected = replace(best.match, reason=work.apply_threshold(best.match, threshold).reason).masked(None, mask)

    found = work.apply_threshold(best.match.masked(None, mask), threshold)

    np.testing.assert_array_equal(found.mask, expected.mask)


def test_the_slider_begins_where_the_preset_has_its_own_threshold(best: Outcome, tmp_path: Path) -> None:
    session = Session(tmp_path / "session")

    session.keep(best)

    assert session.threshold == best.match.settings.matching.min_confidence > 0
    assert work.apply_threshold(best.match, session.threshold) is best.match


def test_a_higher_threshold_covers_less_and_says_so(session: Session) -> None:
    words = []
    for threshold in (0.0, 0.2, 0.5, 1.0):
        work.set_threshold(session, threshold)
        words.append(work.describe_coverage(session))
    shares = [float(each.split()[1]) for each in words]

    assert shares == sorted(shares, reverse=True)
    assert len(set(shares)) > 2
    assert "ambiguous" in words[-1]


@pytest.mark.parametrize(("given", "kept"), [(None, 0.0), (float("nan"), 0.0), (-1.0, 0.0), (0.25, 0.25), (7.0, 1.0)])
def test_a_threshold_stays_between_0_and_1(session: Session, given: float | None, kept: float) -> None:
    assert work.set_threshold(session, given) == kept


def test_the_slider_ends_where_almost_nothing_is_left(session: Session) -> None:
    assert session.outcome is not None
    end = work.largest_threshold(session.outcome)

    assert round(20 * end, 9) % 1 == 0
    assert work.apply_threshold(session.outcome.match, end - 0.05).coverage > 0
    assert work.apply_threshold(session.outcome.match, end).coverage == 0


@pytest.mark.parametrize("kind", [kind for kind in pictures.MAPS if kind not in ("sgbm", "bar")])
def test_every_map_is_drawn_at_the_size_of_the_image(session: Session, kind: str) -> None:
    drawn = pictures.draw(session, kind)

    assert drawn.shape == (128, 192, 3)
    assert drawn.dtype == np.uint8
    assert drawn.std() > 0


def test_hidden_pixels_lose_their_color_and_the_others_keep_it(session: Session) -> None:
    before = pictures.draw(session, "disparity")
    work.set_threshold(session, 0.3)
    after = pictures.draw(session, "disparity")
    assert session.outcome is not None
    found = session.outcome.match
    hidden = found.mask & (found.confidence < 0.3)

    assert hidden.any()
    np.testing.assert_array_equal(before[~hidden], after[~hidden])
    assert (after[hidden].max(axis=1) == after[hidden].min(axis=1)).all()  # gray


def test_every_reason_has_words_and_a_color_of_its_own() -> None:
    assert set(REASONS) == set(Reason)
    assert len({color for _, color in REASONS.values()}) == len(Reason)


@pytest.mark.parametrize("kind", ["sgbm", "nonsense", "../secret"])
def test_a_map_that_is_not_there_is_refused(session: Session, kind: str) -> None:
    with pytest.raises(InputError, match="no map"):
        pictures.draw(session, kind)


def test_a_pixel_reads_as_the_maps_say_and_its_depth_as_the_formula(session: Session) -> None:
    assert session.outcome is not None
    found, calibration, truth = session.outcome.match, session.outcome.calibration, session.outcome.truth
    assert truth is not None
    y, x = (int(each) for each in np.argwhere(found.mask)[100])
    depth = calibration.baseline * calibration.fx / found.disparity[y, x]

    assert work.describe_pixel(session, x + 0.7, float(y)) == (
        f"({x}, {y}) · disparity {found.disparity[y, x]:.2f} px · depth {depth:.3g} m · "
        f"confidence {found.confidence[y, x]:.2f} · truth {truth[y, x]:.2f} px"
    )


def test_a_pixel_without_a_disparity_says_why(session: Session) -> None:
    assert session.outcome is not None
    reason = session.outcome.match.reason
    for kind in (Reason.NO_STRUCTURE, Reason.LEFT_RIGHT):
        y, x = np.argwhere(reason == kind)[0]
        assert f"no disparity: {REASONS[kind][0]}" in work.describe_pixel(session, float(x), float(y))

    work.set_threshold(session, 1.0)
    y, x = np.argwhere(reason == Reason.OK)[0]
    assert f"no disparity: {REASONS[Reason.AMBIGUOUS][0]}" in work.describe_pixel(session, float(x), float(y))


@pytest.mark.parametrize(("x", "y"), [(-1.0, 0.0), (192.0, 0.0), (0.0, 128.0), (float("nan"), 0.0)])
def test_a_pixel_outside_is_refused(session: Session, x: float, y: float) -> None:
    with pytest.raises(InputError, match="not inside the image of 192 x 128 px"):
        work.describe_pixel(session, x, y)


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


def test_nothing_can_be_looked_at_before_there_is_a_result(tmp_path: Path) -> None:
    visitor = Session(tmp_path)
    for look in (work.describe_coverage, work.points, work.compare, work.available_files):
        with pytest.raises(InputError, match=r"no result.*Match the pair"):
            look(visitor)


# --- comparing --------------------------------------------------------------------------------------------------------


def test_the_comparison_has_coverage_and_errors_of_both(session: Session) -> None:
    from scotopic.evaluation.metrics import score

    rows = work.compare(session)

    assert [(row.name, row.score and row.score.window) for row in rows] == [
        ("scotopic, fast", 1), ("scotopic, fast", 19), ("OpenCV SGBM", 1), ("OpenCV SGBM", 19)
    ]  # fmt: skip
    assert session.outcome is not None
    assert session.sgbm is not None
    assert rows[1].score == score(session.outcome.match.disparity, session.outcome.truth, 19)
    assert rows[1].coverage == pytest.approx(session.outcome.match.coverage)
    assert pictures.draw(session, "sgbm").shape == (128, 192, 3)


def test_without_truth_the_comparison_has_coverage_alone(session: Session) -> None:
    assert session.outcome is not None
    session.outcome = replace(session.outcome, truth=None)

    rows = work.compare(session)

    assert [row.score for row in rows] == [None, None]
    assert all(0 <= row.coverage <= 1 for row in rows)


@pytest.mark.parametrize("is_other", [False, True])
def test_a_comparison_is_kept_if_a_calibration_comes_meanwhile_and_not_if_another_result_does(
    session: Session, best: Outcome, monkeypatch: pytest.MonkeyPatch, is_other: bool
) -> None:
    original = opencv.match_sgbm

    def match_slowly(*given: Any) -> Any:
        assert session.outcome is not None
        session.outcome = best if is_other else replace(session.outcome, calibration=None)
        return original(*given)

    monkeypatch.setattr(opencv, "match_sgbm", match_slowly)
    work.compare(session)

    assert (session.sgbm is None) == is_other  # else its picture could not be drawn


def search_from(session: Session, first: int) -> None:
    """Make the session's result one of a search that began at this disparity."""
    assert session.outcome is not None
    found = session.outcome.match
    matching = replace(found.settings.matching, min_disparity=first)
    session.outcome = replace(
        session.outcome, match=replace(found, settings=replace(found.settings, matching=matching))
    )


def test_the_comparison_searches_the_range_of_the_match(session: Session) -> None:
    search_from(session, 8)

    work.compare(session)

    assert session.sgbm is not None
    found = session.sgbm.disparity[np.isfinite(session.sgbm.disparity)]
    assert found.size > 100
    assert found.min() >= 8
    assert found.max() < 32


def test_a_search_below_0_cannot_be_compared(session: Session) -> None:
    search_from(session, -4)

    with pytest.raises(SettingsError, match="began at -4 px"):
        work.compare(session)


# --- files ------------------------------------------------------------------------------------------------------------


def test_every_file_opens_and_holds_what_is_shown(session: Session) -> None:
    work.set_threshold(session, 0.2)
    assert session.outcome is not None
    shown = work.apply_threshold(session.outcome.match, 0.2)

    files = {name: work.write_file(session, name) for name in work.available_files(session)}

    for name in ("disparity.pfm", "disparity.tiff", "disparity.npz"):
        np.testing.assert_array_equal(read_disparity(files[name]), shown.disparity)
    np.testing.assert_allclose(read_disparity(files["disparity.png"]), shown.disparity, atol=1 / 256)
    np.testing.assert_array_equal(read_pfm(files["confidence.pfm"]), shown.confidence)
    depth = read_disparity(files["depth.pfm"])
    np.testing.assert_allclose(depth, 192 * 0.3 / shown.disparity, rtol=1e-5)
    trimesh = pytest.importorskip("trimesh", reason="needs trimesh: pip install trimesh, or the extra 'test'")
    assert len(trimesh.load(files["points.ply"]).vertices) == shown.mask.sum()
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
    with pytest.raises(InputError, match="no file"):
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
