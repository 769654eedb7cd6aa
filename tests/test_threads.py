"""Work shared out among threads: all of it is done once, and what goes wrong is heard."""

from __future__ import annotations

import multiprocessing
import sys
import threading

import numpy as np
import pytest
from kernel_calls import threads

pytest.importorskip("numba")
from scotopic.backends.cpu.threads import share_out


@pytest.mark.parametrize("count", [0, 1, 2, 7, 100])
@pytest.mark.parametrize("workers", [1, 2])
def test_everything_is_done_once(count: int, workers: int) -> None:
    done = np.zeros(count, np.int64)

    def work(first: int, stop: int, amount: int) -> None:
        done[first:stop] += amount

    with threads(workers):
        share_out(work, count, 3)

    np.testing.assert_array_equal(done, 3)


def test_progress_rises_to_one_and_is_told_by_the_caller() -> None:
    told: list[float] = []
    tellers = set()

    def tell(share: float) -> None:
        told.append(share)
        tellers.add(threading.get_ident())

    share_out(lambda first, stop: None, 50, progress=tell)

    assert told == sorted(told)
    assert told[-1] == 1
    assert tellers == {threading.get_ident()}


def test_the_caller_is_the_first_to_call_a_kernel_since_it_can_be_interrupted_while_it_compiles() -> None:
    callers: list[int] = []

    def work(first: int, stop: int) -> None:
        callers.append(threading.get_ident())
        if len(callers) == 1:
            raise KeyboardInterrupt

    with threads(2), pytest.raises(KeyboardInterrupt):
        share_out(work, 100)

    assert callers == [threading.get_ident()]


@pytest.mark.parametrize("place", [0, 99])
def test_an_error_in_any_range_reaches_the_caller(place: int) -> None:
    def work(first: int, stop: int) -> None:
        if first <= place < stop:
            raise ValueError("this range is bad")

    with pytest.raises(ValueError, match="this range is bad"):
        share_out(work, 100)


def test_a_progress_that_raises_ends_the_work() -> None:
    def stop_it(share: float) -> None:
        raise KeyboardInterrupt

    begun: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        share_out(lambda first, stop: begun.append(first), 1000, progress=stop_it)

    count = len(begun)
    assert share_out(lambda first, stop: None, 10) is None
    assert len(begun) == count


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_process_that_was_forked_has_threads_of_its_own() -> None:
    share_out(lambda first, stop: None, 100)
    answers = multiprocessing.get_context("fork").SimpleQueue()

    def ask() -> None:
        total: list[int] = []
        share_out(lambda first, stop: total.append(stop - first), 100)
        answers.put(sum(total))

    child = multiprocessing.get_context("fork").Process(target=ask)
    child.start()
    child.join(120)

    assert child.exitcode == 0
    assert answers.get() == 100
