"""What one visitor has, and how long it lives: nothing here is shared between two of them."""

from __future__ import annotations

import secrets
import shutil
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from scotopic.depth import Calibration
from scotopic.evaluation.method import Prediction
from scotopic.progress import Progress
from scotopic.result import Match
from scotopic.warmup import COMPILING

Map = NDArray[np.float32]


@dataclass(frozen=True)
class Limits:
    """What a visitor may ask of this machine.

    Attributes
    ----------
    upload_bytes
        Size of one file.
    pixels
        Of one view. Time and memory grow with it; checked before the file is decoded.
    disparities
        Width of the search, px.
    results
        How many visitors' images and results are kept at once; those of the one heard of longest ago go first.
    idle_seconds
        A visitor who has not been heard of for so long is forgotten, even if the browser never said good-bye.
    """

    upload_bytes: int = 32 * 2**20
    pixels: int = 4_000_000
    disparities: int = 512
    results: int = 8
    idle_seconds: float = 2 * 3600.0


class Cancelled(Exception):  # noqa: N818 - it is not an error
    """The visitor asked for the work to stop, or left."""


class Job:
    """One run of the matcher, which can be told to stop."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self.stage, self.share = "waiting", 0.0

    def cancel(self) -> None:
        """Ask the work to stop at its next report of progress."""
        self._stop.set()

    @property
    def cancelled(self) -> bool:
        """Whether it was asked to stop."""
        return self._stop.is_set()

    def watch(self, progress: Progress) -> Progress:
        """Return a progress that notes where the work is, passes it on, and stops the work once it was cancelled."""

        def report(stage: str, share: float) -> None:
            self.stage, self.share = stage, share
            progress(stage, share)
            # Not in the middle of the compiler, which calls this from within; it ends by itself, once per machine.
            if self.cancelled and stage != COMPILING:
                raise Cancelled

        return report


@dataclass(frozen=True, eq=False)
class Picture:
    """An uploaded view, as recorded.

    Attributes
    ----------
    name
        What its file was called.
    pixels
        As :func:`~scotopic.io.read_image` gave them.
    """

    name: str
    pixels: NDArray[Any]

    @property
    def size(self) -> tuple[int, int]:
        """Width and height, px."""
        return self.pixels.shape[1], self.pixels.shape[0]


@dataclass(frozen=True, eq=False)
class Outcome:
    """A finished run, with all that the page shows of it.

    Attributes
    ----------
    match
        What was found, with the method's own mask.
    truth
        True disparity, px; ``None`` where it is not known.
    calibration
        Of the images as they were matched.
    about
        What ``report.json`` says besides: noise, calibration, how the pair looks.
    warnings
        What to tell the visitor of the pair.
    """

    match: Match
    truth: Map | None
    calibration: Calibration
    about: dict[str, Any]
    warnings: tuple[str, ...] = ()


@dataclass(eq=False)
class Session:
    """One visitor.

    Attributes
    ----------
    token
        Names this session in addresses; nobody can guess it, and nobody else is told.
    folder
        For files on their way to the browser; made when needed, removed with the session.
    """

    folder: Path
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    pictures: dict[str, Picture] = field(default_factory=dict)  #: by ``"left"`` and ``"right"``
    calibration_files: tuple[tuple[str, bytes], ...] = ()  #: name and content
    waiting: deque[Job] = field(default_factory=deque)  #: asked for, in this order, and not begun
    job: Job | None = None  #: the one that was begun last
    outcome: Outcome | None = None
    rival: Prediction | None = None  #: what OpenCV's SGBM found on the same pair
    threshold: float = 0.0  #: pixels less sure than this are hidden, and left out of files
    stamp: int = 0  #: raised with every result, so that no browser shows an older one
    seen: float = field(default_factory=time.monotonic)
    closed: bool = False

    def working_folder(self) -> Path:
        """Return a new folder within this session's, for one download; whoever asks removes it."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(dir=self.folder))

    def begin(self) -> Job:
        """Return the job whose turn it is: the first that waits, or a new one for who did not announce theirs."""
        self.job = self.waiting.popleft() if self.waiting else Job()
        return self.job

    def cancel(self) -> bool:
        """Stop what runs and what waits; returns whether there was anything."""
        jobs = [*self.waiting, *([self.job] if self.job is not None else [])]
        for job in jobs:
            job.cancel()
        return bool(jobs)

    def keep(self, outcome: Outcome) -> None:
        """Replace the result; one that comes after the visitor has left is dropped."""
        if not self.closed:
            self.outcome, self.rival = outcome, None
            self.threshold = outcome.match.settings.matching.min_confidence
            self.stamp += 1

    @property
    def holds_something(self) -> bool:
        """Whether there are images or a result."""
        return self.outcome is not None or bool(self.pictures)

    def forget(self) -> None:
        """Drop images and result, to make room."""
        self.outcome = self.rival = None
        self.pictures.clear()
        self.calibration_files = ()

    def close(self) -> None:
        """Stop the work, drop everything and remove the folder."""
        self.closed = True
        self.cancel()
        self.forget()
        shutil.rmtree(self.folder, ignore_errors=True)


class Sessions:
    """All visitors of one server, by the key that their browser sends; a context that removes every trace at its end.

    Parameters
    ----------
    limits
        What each may ask for.
    root
        Folder for temporary files; a new private one by default. Removed at the end.
    clock
        Seconds; for tests.
    """

    def __init__(
        self, limits: Limits | None = None, root: Path | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.limits = limits or Limits()
        self.root = Path(tempfile.mkdtemp(prefix="scotopic-app-")) if root is None else root
        self._clock = clock
        self._lock = threading.Lock()
        self._by_key: dict[str, Session] = {}
        self._by_token: dict[str, Session] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close_all()

    def __len__(self) -> int:
        return len(self._by_key)

    @property
    def uploads(self) -> Path:
        """Where the web server puts what is uploaded, before it is taken in."""
        return self.root / "uploads"

    def of(self, key: str) -> Session:
        """Return the session of a visitor, begun at the first call; those long unheard of are ended on the way."""
        with self._lock:
            now = self._clock()
            stale = [k for k, s in self._by_key.items() if k != key and now - s.seen > self.limits.idle_seconds]
            ended = [self._remove(each) for each in stale]
            if key not in self._by_key:
                session = Session(self.root / "sessions" / secrets.token_hex(16), seen=now)
                self._by_key[key] = self._by_token[session.token] = session
            found = self._by_key[key]
            found.seen = now
        for session in ended:
            session.close()
        return found

    def by_token(self, token: str) -> Session | None:
        """Return the session that an address names, or ``None``."""
        with self._lock:
            found = self._by_token.get(token)
            if found is not None:
                found.seen = self._clock()
            return found

    def make_room(self) -> None:
        """Drop what belongs to those heard of longest ago, beyond as many as are kept."""
        with self._lock:
            holding = sorted((s for s in self._by_key.values() if s.holds_something), key=lambda s: s.seen)
            for session in holding[: max(len(holding) - self.limits.results, 0)]:
                session.forget()

    def close(self, key: str) -> None:
        """End a visitor's session, if there is one."""
        with self._lock:
            session = self._remove(key) if key in self._by_key else None
        if session is not None:
            session.close()

    def close_all(self) -> None:
        """End all sessions and remove the folder of them all."""
        with self._lock:
            ended = [self._remove(key) for key in list(self._by_key)]
        for session in ended:
            session.close()
        shutil.rmtree(self.root, ignore_errors=True)

    def _remove(self, key: str) -> Session:
        session = self._by_key.pop(key)
        del self._by_token[session.token]
        return session
