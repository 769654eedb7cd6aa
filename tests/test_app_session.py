"""The web page without a browser: jobs, and what is kept of a visitor for how long."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from app_visitors import LIMITS, SMALL, match_small_room, session_with_result
from rooms import room

import scotopic
from scotopic.app import html, inputs, work
from scotopic.app.inputs import OWN, Request
from scotopic.app.server import clean_up
from scotopic.app.session import Cancelled, Job, Limits, Outcome, Session, Sessions
from scotopic.errors import InputError, ScotopicError
from scotopic.pipelines import stages_of
from scotopic.progress import Stage
from scotopic.warmup import COMPILING


@pytest.fixture
def outcome() -> Outcome:
    return match_small_room()


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return session_with_result(tmp_path)


@pytest.fixture
def visitor(tmp_path: Path) -> Session:
    """A visitor who has done nothing yet."""
    return Session(tmp_path / "session")


def test_a_run_gives_what_the_library_gives_for_the_same_pair(outcome: Outcome) -> None:
    scene = room(192, 128)
    clean = (inputs.to_uint8(view).astype(np.float32) / 255 for view in (scene.left, scene.right))
    noisy = scotopic.simulate_pair(*clean, photons=2, read_noise=2)

    expected = scotopic.match(*(inputs.to_uint8(view) for view in noisy), preset="fast", max_disparity=32)

    np.testing.assert_array_equal(outcome.match.disparity, expected.disparity)
    np.testing.assert_array_equal(outcome.truth, scene.disparity_left)


@pytest.mark.parametrize(("last", "is_told"), [(12, True), (32, False)])
def test_a_search_range_that_ends_before_the_room_is_told_of(visitor: Session, last: int, is_told: bool) -> None:
    found = work.run(visitor, Request(SMALL, photons=20, preset="fast", max_disparity=last), Job(), LIMITS)

    assert any("of the end of the search range" in each for each in found.warnings) == is_told


@pytest.mark.parametrize("preset", sorted(scotopic.PRESETS))
def test_every_preset_is_passed_on(visitor: Session, preset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def note(left: object, right: object, settings: scotopic.Settings, **_: object) -> None:
        asked.append(settings)
        raise Cancelled

    monkeypatch.setattr(work, "match", note)
    with pytest.raises(Cancelled):
        work.run(visitor, Request(SMALL, preset=preset), Job(), LIMITS)

    assert asked == [scotopic.PRESETS[preset]]


def test_a_cancelled_run_stops_at_the_next_report_and_keeps_the_earlier_result(session: Session) -> None:
    job, earlier, stages = Job(), session.outcome, []

    def cancel_early(stage: str, share: float) -> None:
        stages.append(stage)
        if len(stages) == 4:
            job.cancel()

    with pytest.raises(Cancelled):
        work.run(session, Request(SMALL, preset="fast", max_disparity=32), job, LIMITS, cancel_early)

    assert len(stages) == 4
    assert session.outcome is earlier


def test_cancelling_ends_a_run_of_minutes_in_the_middle_of_a_stage(visitor: Session) -> None:
    begun = threading.Event()
    job = visitor.job = Job()

    def note(stage: str, share: float) -> None:
        if 0 < share < 1:
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
    assert visitor.cancel()
    thread.join(120)

    assert not thread.is_alive()
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


def test_progress_over_a_run_never_falls_and_ends_at_all_of_it() -> None:
    job = Job()
    job.stages = stages_of(scotopic.PRESETS["best"])
    report, shares = job.watch(lambda stage, share: None), []
    for stage in job.stages:
        for part in (0.0, 0.5, 1.0):
            report(stage.name, part)
            shares.append(job.total_share)

    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    report("a stage that is not listed", 0.25)
    assert job.total_share == 0.25


STAGES = (Stage("first", "a quarter", 1.0), Stage("second", "the rest", 3.0))


def test_the_time_left_follows_from_the_share_that_is_done_and_its_time() -> None:
    clock = [100.0]
    job = Job(lambda: clock[0])
    job.stages = STAGES
    report = job.watch(lambda stage, share: None)
    report("first", 0.0)
    assert job.seconds_left is None  # nothing is known yet

    clock[0] += 10
    report("first", 1.0)
    assert job.total_share == 0.25
    assert job.seconds_left == pytest.approx(30)  # a quarter in 10 s
    clock[0] += 12
    assert job.seconds_left == pytest.approx(18)  # it runs down between two reports
    report("second", 0.5)
    assert job.total_share == 0.625
    assert job.seconds_left == pytest.approx(22 * 0.375 / 0.625)
    clock[0] += 100
    assert job.seconds_left == 0


def test_compiling_has_a_time_left_of_its_own() -> None:
    clock = [0.0]
    job = Job(lambda: clock[0])
    job.stages = STAGES
    report = job.watch(lambda stage, share: None)
    for clock[0], share in ((1.0, 0.0), (21.0, 0.5)):
        report(COMPILING, share)
    assert job.seconds_left == pytest.approx(20)

    report("first", 0.0)

    assert job.seconds_left is None  # the run itself has only begun


def test_a_working_job_shows_stage_share_and_time_left() -> None:
    clock = [0.0]
    job = Job(lambda: clock[0])
    assert "Waiting in the queue" in html.working(job)
    job.stages = STAGES
    report = job.watch(lambda stage, share: None)
    for clock[0], share in ((1.0, 0.0), (11.0, 1.0)):
        report("first", share)

    shown = html.working(job)

    for part in ("First", "Stage 1 of 2: a quarter.", "about 30 s left", 'role="progressbar"', 'aria-valuenow="25"'):
        assert part in shown


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.0, "a few seconds"), (4.9, "a few seconds"), (6, "about 10 s"), (55, "about 55 s"), (56, "about 1 min"),
     (61, "about 2 min")],
)  # fmt: skip
def test_the_time_left_is_told_no_more_exactly_than_it_is_known(seconds: float, words: str) -> None:
    assert html.time_left(seconds) == f"{words} left"


def test_warnings_and_errors_look_and_sound_like_what_they_are() -> None:
    warning, problem, note = (html.status("<It>", kind) for kind in ("warning", "problem", ""))

    assert 'role="status"' in warning
    assert 'role="alert"' in problem
    for each, word in ((warning, "Warning."), (problem, "Error.")):
        assert word in each
        assert "<svg" in each
        assert "&lt;It&gt;" in each
    assert "<svg" not in note
    assert len({each.split('"')[1] for each in (warning, problem, note)}) == 3  # classes, and so colors


def test_the_warnings_of_a_result_stand_above_it(session: Session) -> None:
    assert session.outcome is not None
    session.outcome = replace(session.outcome, warnings=("The views are swapped.", "The images are dark."))

    shown = html.resting(session)

    assert "Matched in" in shown
    assert f"with the preset fast: {SMALL}." in shown
    assert shown.count("sc-warning") == 2
    assert shown.index("Matched in") < shown.index("swapped") < shown.index("dark")


def test_a_result_that_stays_says_what_it_is(session: Session, visitor: Session) -> None:
    """After a match that failed or was cancelled, the maps and files below are those of an earlier one."""
    for shown in (html.cancelled(session), html.failed(session, InputError("The left image is missing."))):
        assert shown.index("from before") < shown.index(f"with the preset fast: {SMALL}.")
    for shown in (html.cancelled(visitor), html.failed(visitor, InputError("The left image is missing."))):
        assert "before" not in shown


def test_the_stages_of_a_run_come_from_the_pipeline(visitor: Session) -> None:
    job = Job()

    found = work.run(visitor, Request(SMALL, preset="fast", max_disparity=32), job, LIMITS)

    assert [stage.name for stage in job.stages] == list(found.match.timings)


def test_a_stage_is_called_as_the_pipeline_calls_it() -> None:
    assert [html.stage_title(name) for name in ("costs left", "SGM")] == ["Costs left", "SGM"]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (Request("Cellar"), "no pair 'Cellar'.*Room"),
        (Request(SMALL, preset="slow"), "'slow'"),
        (Request(SMALL, min_disparity=20, max_disparity=10), "10.*20"),
        (Request(SMALL, max_disparity=5000), "0 to 5000 px is too wide.*512 px"),
        (Request(SMALL, min_disparity=-600), "-600 to 128 px is too wide.*512 px"),
        (Request(OWN, min_disparity=-600), "-600 to 0 px is too wide.*512 px"),
        (Request(SMALL, photons=-1.0), "photons"),
        (Request(OWN), "left and right image is missing"),
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
        assert work.error_message(InputError("The left image\n is missing.")) == "The left image is missing."
        assert not caplog.records
        assert work.error_message(RuntimeError("secret /home/me")) == work.INTERNAL_ERROR

    assert "secret" in caplog.text
    assert "Out of memory" in work.error_message(MemoryError())


# --- sessions ---------------------------------------------------------------------------------------------------------


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

    sessions.close(session)

    assert job.cancelled
    assert session.outcome is None
    assert not session.folder.exists()
    assert sessions.by_token(session.token) is None
    assert len(sessions) == 0
    sessions.close(session)  # twice does no harm


def test_a_visitor_who_is_not_heard_of_is_forgotten(sessions: Sessions) -> None:
    quiet, lively = sessions.of("quiet"), sessions.of("lively")
    now[0] = 90.0
    sessions.by_token(lively.token)
    now[0] = 110.0

    sessions.of("third")

    assert quiet.closed
    assert not lively.closed


def test_a_visitor_who_is_not_heard_of_is_forgotten_though_nobody_else_comes(sessions: Sessions) -> None:
    class OneMinute(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            before = self.is_set()
            self.set()
            return before

    crashed = sessions.of("crashed")
    now[0] = 110.0

    clean_up(sessions, OneMinute())

    assert crashed.closed
    assert len(sessions) == 0


def test_a_visitor_who_waits_for_a_long_match_is_not_forgotten_and_can_look_at_it(sessions: Sessions) -> None:
    waiting = sessions.of("waiting")
    with sessions.listening("waiting"):
        job = waiting.begin()
        now[0] = 250.0
        sessions.of("other")
        assert not job.cancelled
        now[0] = 500.0
        waiting.end(job)
    now[0] = 590.0

    sessions.of("third")
    assert not waiting.closed
    now[0] = 610.0
    sessions.of("third")
    assert waiting.closed


def test_of_many_results_the_ones_looked_at_last_are_kept(sessions: Sessions, outcome: Outcome) -> None:
    made = []
    for time_, key in enumerate("abc"):
        now[0] = float(time_)
        made.append(sessions.of(key))
        made[-1].keep(outcome)
    now[0] = 10.0
    sessions.by_token(made[0].token)

    sessions.free_memory()

    assert [each.outcome is None for each in made] == [False, True, False]
    with pytest.raises(InputError, match="dropped to make room"):
        work.describe_coverage(made[1])


def test_whoever_waits_for_a_match_keeps_what_was_uploaded(sessions: Sessions, outcome: Outcome) -> None:
    made = [sessions.of(key) for key in "abc"]
    for time_, session in enumerate(made):
        session.keep(outcome)
        session.last_seen = float(time_)
    made[0].waiting.append(Job())

    with sessions.listening("a"):
        sessions.free_memory()
        assert [each.holds_data for each in made] == [True, False, True]
        made[2].waiting.append(Job())
        made[1].keep(outcome)
        with sessions.listening("c"):
            sessions.free_memory()

    assert [each.holds_data for each in made] == [True, False, True]


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
