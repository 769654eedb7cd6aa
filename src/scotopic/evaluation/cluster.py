"""Running the tasks of a benchmark on a Dask cluster."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any, TypeVar

from scotopic.errors import InputError, ScotopicError
from scotopic.optional import import_optional

Job = TypeVar("Job", bound=tuple[Any, ...])
Found = TypeVar("Found")


#: Options of a local cluster: no dashboard, and for what Dask serves in its place any port instead of 8787.
NO_DASHBOARD: dict[str, Any] = {"dashboard_address": "127.0.0.1:0", "scheduler_kwargs": {"dashboard": False}}


class ClusterLostError(ScotopicError):
    """The scheduler of a cluster no longer answers."""


@contextmanager
def open_cluster(scheduler: str | None, workers: int) -> Iterator[Any]:
    """Yield a client of a Dask scheduler, or of a local cluster of so many workers; ``None`` if neither is asked for.

    Raises :class:`InputError` if the scheduler cannot be reached.
    """
    if not (scheduler or workers):
        yield None
        return
    dask = import_optional("distributed", "bench", "a cluster")
    cluster = None
    try:
        if not scheduler:
            cluster = dask.LocalCluster(n_workers=workers, threads_per_worker=1, **NO_DASHBOARD)
        client = dask.Client(scheduler or cluster, timeout=20)
    except (OSError, ValueError) as error:
        raise InputError(f"Cannot reach the Dask scheduler {scheduler!r}: {error!s:.120}. Start it first.") from error
    try:
        yield client
    finally:
        client.close()
        if cluster is not None:
            cluster.close()


def run_on_cluster(
    client: Any, function: Callable[..., Found], jobs: Sequence[Job]
) -> Iterator[tuple[Job, Found | str]]:
    """Call a function with the arguments of each job; yield each job when it is done, with its result or the error.

    A worker that dies costs the job it was at: Dask gives it to another one. A job that kills every worker that tries
    it gets an error. Raises :class:`ClusterLostError` if the scheduler is lost.
    """
    dask = import_optional("distributed", "bench", "a cluster")
    address = client.scheduler.address if client.scheduler is not None else "of the cluster"
    futures = {client.submit(function, *job, pure=False, retries=2): job for job in jobs}
    for future in dask.as_completed(futures):
        try:
            # Its status says nothing: a result that was still on a worker which has died is computed again.
            found: Found | str = future.result()
        except Exception as error:  # the function itself raises nothing
            if isinstance(error, CancelledError | OSError) or client.status != "running":
                raise ClusterLostError(f"The Dask scheduler {address} was lost.") from error
            found = f"lost by the cluster: {type(error).__name__}: {error!s:.200}"
        yield futures[future], found
        future.release()
