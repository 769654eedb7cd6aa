"""Work shared out among threads. Kernels run on one thread each and release the interpreter meanwhile.

Numba's own parallel loops take it about three times as long to compile.
"""

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import lru_cache
from threading import Barrier, Thread
from typing import Any

import numba

from scotopic.progress import Share, unheard
from scotopic.stopping import end_if_stopped

_called: set[object] = set()  # kernels, or functions that call them, that have been called before
_RANGES_PER_THREAD = 8  # so that a thread whose ranges take longer gets fewer


def share_out(work: Callable[..., object], count: int, *arguments: Any, progress: Share = unheard) -> None:
    """Call ``work(first, stop, *arguments)`` for ranges that make up ``range(count)``, from several threads at a time.

    The ranges depend on the number of threads, so the results must not depend on the ranges.

    Parameters
    ----------
    work
        What to do for a range, in any order and beside any other.
    count
        How much there is to do.
    *arguments
        What to give to every call.
    progress
        Told, from the calling thread, how much of it is done. What it raises ends the work.
    """
    threads = max(1, min(int(numba.get_num_threads()), count))
    length = max(1, -(-count // (_RANGES_PER_THREAD * threads)))
    starts = iter(range(0, count, length))  # the next one is taken by one thread alone

    def run(report: Share = unheard) -> None:
        for first in starts:
            stop = min(first + length, count)
            work(first, stop, *arguments)
            report(stop / count)

    end_if_stopped()
    others: list[Future[None]] = []
    try:
        kernel = getattr(work, "__code__", type(work))  # the same for every closure
        if threads > 1 and kernel not in _called:
            # If it has to be compiled, that is for this thread, which can be interrupted; the others could only wait.
            work(first := next(starts), min(first + length, count), *arguments)
            _called.add(kernel)
        others += (_pool().submit(run) for _ in range(threads - 1))
        run(progress)
    finally:
        for _ in starts:  # after an error nothing is begun any more
            pass
        wait(others)
    for other in others:
        other.result()
    progress(1.0)


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    count = int(numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]
    pool = ThreadPoolExecutor(count, "scotopic")
    # Its threads are started by another one, which Ctrl-C does not reach. Interrupted between the start of a thread and
    # its entry in a list, the pool would not know of it, and the program would wait for it forever at its end.
    starter = Thread(target=_start_threads, args=(pool, count), daemon=True)
    starter.start()
    starter.join()
    return pool


def _start_threads(pool: ThreadPoolExecutor, count: int) -> None:
    together = Barrier(count)  # no thread is done before all are there
    try:
        wait([pool.submit(together.wait) for _ in range(count)])
    except RuntimeError:  # the program is ending already: let go those that wait for the rest
        together.abort()


if hasattr(os, "register_at_fork"):  # threads do not survive a fork
    os.register_at_fork(after_in_child=_pool.cache_clear)
