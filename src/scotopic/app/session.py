"""The data of one visitor, and how long it lives; visitors share nothing."""

import secrets
import shutil
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from scotopic.depth import Calibration
from scotopic.evaluation.method import Prediction
from scotopic.io.video import VideoFile
from scotopic.progress import Progress, Stage
from scotopic.result import Match
from scotopic.warmup import COMPILING

Map = NDArray[np.float32]

PREFIX = "look"  #: first part of the address of every session
WAITING = "waiting in the queue"  #: stage of a job that has not begun
_LEAST_SHARE, _LEAST_SECONDS = 0.03, 1.0  # of the work that are done before the time left is guessed


@dataclass(frozen=True)
class Limits:
    """What a visitor may ask of this machine."""

    upload_bytes: int = 32 * 2**20  #: size of one file
    pixels: int = 4_000_000  #: of one view; time and memory grow with it. Checked before the file is decoded
    frames: int = 32  #: of a clip; of a longer one the first are taken
    clip_pixels: int = 32_000_000  #: of all frames of one view; of a larger clip the first frames are taken
    disparities: int = 512  #: width of the search range, px
    results: int = 8  #: how many visitors' images and results are kept; the least recently active lose theirs first
    idle_seconds: float = 2 * 3600.0  #: a session ends after this long without a request, if the browser did not end it


class Fused(NamedTuple):
    """How many frames of a clip have been fused, and how many it has."""

    frames: int
    total: int

    def __str__(self) -> str:
        return f"{self.frames} of {self.total}"


class Cancelled(Exception):  # noqa: N818 - it is not an error
    """The visitor cancelled the work, or left."""


class Job:
    """One run of the matcher, which can be cancelled. Tests give their own ``clock``, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.cancelled = False
        self.stages: tuple[Stage, ...] = ()  #: the run's stages in order, once they are known
        self.stage, self.share = WAITING, 0.0  #: the stage that runs, and the share of it that is done
        self.rounds, self.round = 1, 0  #: how often the stages are gone through, and how often they have been
        self.fused: Fused | None = None  #: how much of a clip the result rests on that is shown meanwhile
        self._clock = clock
        self._part, self._begun = "", 0.0  # the stage, or all that are listed, to which the time left belongs; since
        self._end: float | None = None  # when that will be done

    def cancel(self) -> None:
        """Stop the work at its next report of progress."""
        self.cancelled = True

    @property
    def position(self) -> int | None:
        """Index of the stage that runs among the run's stages, or ``None`` if it is not one of them."""
        return next((k for k, stage in enumerate(self.stages) if stage.name == self.stage), None)

    @property
    def total_share(self) -> float:
        """Share of the whole run that is done, by the weights of its stages; that of the stage if it is not listed."""
        share = min(max(self.share, 0.0), 1.0)
        if self.position is None:
            return share
        done = sum(stage.weight for stage in self.stages[: self.position]) + share * self.stages[self.position].weight
        return (self.round + done / sum(stage.weight for stage in self.stages)) / self.rounds

    @property
    def seconds_left(self) -> float | None:
        """How long the run, or a stage that is not listed, will still take; ``None`` before there is a guess."""
        return None if self._end is None else max(self._end - self._clock(), 0.0)

    def watch(self, progress: Progress) -> Progress:
        """Return a progress that notes where the work is, passes it on, and stops the work once it is cancelled."""

        def report(stage: str, share: float) -> None:
            self.stage, self.share = stage, share
            self._foresee_end()
            progress(stage, share)
            # Not inside the compiler, which calls this; it ends by itself, and runs once per machine.
            if self.cancelled and stage != COMPILING:
                raise Cancelled

        return report

    def _foresee_end(self) -> None:
        """Guess the end from the share that is done and the time that it took."""
        part, now = self.stage if self.position is None else "", self._clock()
        if part != self._part or not self._begun:
            self._part, self._begun, self._end = part, now, None
        share, seconds = self.total_share, now - self._begun
        if share >= _LEAST_SHARE and seconds >= _LEAST_SECONDS:
            self._end = self._begun + seconds / share


@dataclass(frozen=True, eq=False)
class View:
    """An uploaded view: the name of its file, and its pixels as recorded; of a clip, those of its first frame."""

    name: str
    pixels: NDArray[Any]
    later: tuple[NDArray[Any], ...] = ()  #: the other frames of a clip
    warnings: tuple[str, ...] = ()  #: about the upload, for the visitor
    video: VideoFile | None = None  #: the file of a clip that is one video, which knows the times of its frames
    files: tuple[str, ...] = ()  #: the names of the images of a clip, one for each frame, if it came as such

    @property
    def frames(self) -> tuple[NDArray[Any], ...]:
        """All frames, in order."""
        return self.pixels, *self.later

    @property
    def size(self) -> tuple[int, int]:
        """Width and height, px."""
        return self.pixels.shape[1], self.pixels.shape[0]


@dataclass(frozen=True, eq=False)
class Outcome:
    """A finished run, with all that the page shows of it."""

    match: Match  #: with the method's own mask
    truth: Map | None  #: true disparity, px, if known
    calibration: Calibration | None  #: of the images as they were matched; without one there is no depth in meters
    about: dict[str, Any]  #: what ``report.json`` says besides: noise, calibration, the check of the pair
    warnings: tuple[str, ...] = ()  #: about the pair, for the visitor
    views: tuple[View, ...] = ()  #: the visitor's own, as they were uploaded
    is_rectified: bool = False  #: whether we have rectified them, so that another calibration needs another match
    fused: Fused | None = None  #: how much of a clip it rests on


@dataclass(eq=False)
class Uploads:
    """What a visitor has uploaded for both sides: two images, or two clips."""

    kind: str  #: what it is called on each side
    views: dict[str, View] = field(default_factory=dict)  #: by ``"left"`` and ``"right"``
    problems: dict[str, str] = field(default_factory=dict)  #: why the last upload of a view was refused, likewise

    def accept(self, side: str, view: View) -> None:
        """Take an uploaded view."""
        self.views[side] = view
        self.problems.pop(side, None)

    def refuse(self, side: str, problem: str) -> None:
        """Note why an uploaded view cannot be used; an earlier one on this side is no longer the visitor's choice."""
        self.views.pop(side, None)
        self.problems[side] = problem

    def swap(self) -> None:
        """Make the left view the right one and the right one the left."""
        other = {"left": "right", "right": "left"}
        self.views = {other[side]: view for side, view in self.views.items()}
        self.problems = {
            other[side]: problem.replace(f"{side} {self.kind}", f"{other[side]} {self.kind}", 1)
            for side, problem in self.problems.items()
        }

    def clear(self) -> None:
        """Forget them."""
        self.views.clear()
        self.problems.clear()


@dataclass(eq=False)
class Session:
    """One visitor."""

    folder: Path  #: for files on their way to the browser; created when needed, removed with the session
    #: Names this session in addresses; it cannot be guessed, and only this visitor's page knows it.
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    pair: Uploads = field(default_factory=lambda: Uploads("image"))
    clip: Uploads = field(default_factory=lambda: Uploads("clip"))
    calibration_files: tuple[tuple[str, bytes], ...] = ()  #: name and content
    waiting: deque[Job] = field(default_factory=deque)  #: requested, in this order, and not begun
    job: Job | None = None  #: the one that was begun last
    begun: list[Job] = field(default_factory=list)  #: that have begun to wait for the matcher, and have not ended
    outcome: Outcome | None = None
    sgbm: Prediction | None = None  #: OpenCV's result on the same pair
    threshold: float = 0.0  #: pixels of lower confidence are hidden, and left out of files
    version: int = 0  #: raised with every result, so that no browser shows an older one
    last_seen: float = field(default_factory=time.monotonic)
    closed: bool = False

    @property
    def address(self) -> str:
        """Where this session's data are served, relative to the page."""
        return f"{PREFIX}/{self.token}"

    @property
    def holds_data(self) -> bool:
        """Whether there are images or a result."""
        return bool(self.pair.views or self.clip.views) or self.outcome is not None

    def working_folder(self) -> Path:
        """Return a new folder inside this session's; the caller removes it."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(dir=self.folder))

    @property
    def is_busy(self) -> bool:
        """Whether a job of this visitor waits or runs."""
        return any(not job.cancelled for job in (*self.waiting, *self.begun))

    def begin(self) -> Job:
        """Return the job whose turn it is: the first that waits, or a new one if none was announced."""
        self.job = self.waiting.popleft() if self.waiting else Job()
        self.begun.append(self.job)
        return self.job

    def end(self, job: Job) -> None:
        """Note that a job is done, cancelled or has failed."""
        if job in self.begun:
            self.begun.remove(job)

    def cancel(self) -> bool:
        """Cancel what runs and what waits; return whether there was anything."""
        jobs = [*self.waiting, *self.begun, *([self.job] if self.job is not None else [])]
        for job in jobs:
            job.cancel()
        return bool(jobs)

    def keep(self, outcome: Outcome, *, is_refined: bool = False) -> None:
        """Replace the result, by the same one refined or by another; drop it if the visitor has left."""
        if not self.closed:
            self.outcome, self.sgbm = outcome, None
            if not is_refined:
                self.threshold = outcome.match.settings.matching.min_confidence
            self.version += 1

    def forget(self) -> None:
        """Drop images and result, to free memory."""
        self.outcome = self.sgbm = None
        self.pair.clear()
        self.clip.clear()
        self.calibration_files = ()

    def close(self) -> None:
        """Cancel the work, drop everything and remove the folder."""
        self.closed = True
        self.cancel()
        self.forget()
        shutil.rmtree(self.folder, ignore_errors=True)


class Sessions:
    """All visitors of one server, by the key that their browser sends; as a context, it removes everything at its end.

    Temporary files are kept in ``root``, by default a new private folder. Tests give their own ``clock``, in seconds.
    """

    def __init__(
        self, limits: Limits | None = None, root: Path | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.limits = limits or Limits()
        self.root = Path(tempfile.mkdtemp(prefix="scotopic-app-")) if root is None else root
        self._clock = clock
        self._lock = threading.Lock()
        self._by_key: dict[str, Session] = {}
        self._listeners: Counter[str] = Counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close_all()

    def __len__(self) -> int:
        return len(self._by_key)

    @property
    def uploads(self) -> Path:
        """Where the web server puts uploads before they are read."""
        return self.root / "uploads"

    def of(self, key: str) -> Session:
        """Return the session of a visitor, created at the first call, or if it has ended."""
        self.close_idle(key)
        with self._lock:
            if key not in self._by_key:
                self._by_key[key] = Session(self.root / "sessions" / secrets.token_hex(16))
            found = self._by_key[key]
            found.last_seen = self._clock()
        return found

    def close_idle(self, key: str = "") -> None:
        """End the sessions that are idle, as after a browser has crashed, but not that of `key`."""
        with self._lock:
            now = self._clock()
            for each, session in self._by_key.items():
                if each == key or self._is_awaited(each, session):
                    session.last_seen = now
            idle = [k for k, s in self._by_key.items() if now - s.last_seen > self.limits.idle_seconds]
            closing = [self._by_key.pop(each) for each in idle]
        for session in closing:
            session.close()

    @contextmanager
    def listening(self, key: str) -> Iterator[None]:
        """Note, while the block runs, that a visitor, or whoever asked for one job, listens to what comes of it."""
        with self._lock:
            self._listeners[key] += 1
        try:
            yield
        finally:
            with self._lock:
                self._listeners[key] -= 1
                if self._listeners[key] <= 0:
                    del self._listeners[key]
                if key in self._by_key:  # what came is there to be looked at
                    self._by_key[key].last_seen = self._clock()

    def _is_awaited(self, key: str, session: Session) -> bool:
        """Return whether a visitor waits for a match, which may take long."""
        return session.is_busy and key in self._listeners

    def is_listening(self, key: str | None) -> bool:
        """Return whether anybody listens to the jobs of this key."""
        return key is not None and key in self._listeners

    def remove_abandoned(self, seconds: float) -> None:
        """Remove uploads that no page has taken in for this long, whatever they are called and whatever they are."""
        try:
            entries = list(self.uploads.iterdir())
        except OSError:  # nothing was uploaded yet
            return
        for entry in entries:
            with suppress(OSError):  # it is being removed by others; the rest is not
                is_folder = entry.is_dir() and not entry.is_symlink()
                inside = [entry, *entry.iterdir()] if is_folder else [entry]
                if time.time() - max(each.lstat().st_ctime for each in inside) > seconds:
                    shutil.rmtree(entry) if is_folder else entry.unlink()

    def by_token(self, token: str) -> Session | None:
        """Return the session that an address names, or ``None``."""
        with self._lock:
            found = next((session for session in self._by_key.values() if session.token == token), None)
            if found is not None:
                found.last_seen = self._clock()
            return found

    def free_memory(self) -> None:
        """Drop the data of the least recently active visitors, beyond the number that is kept.

        Not of those who wait for a match: if they are that many, the last who came has no room.
        """
        with self._lock:
            holding = {key: session for key, session in self._by_key.items() if session.holds_data}
            idle = [session for key, session in holding.items() if not self._is_awaited(key, session)]
            idle.sort(key=lambda session: session.last_seen)
            for session in idle[: max(len(holding) - self.limits.results, 0)]:
                session.forget()

    def close(self, session: Session) -> None:
        """End a visitor's session."""
        with self._lock:
            self._by_key = {key: each for key, each in self._by_key.items() if each is not session}
        session.close()

    def close_all(self) -> None:
        """End all sessions and remove the folder of them all."""
        for session in list(self._by_key.values()):
            self.close(session)
        shutil.rmtree(self.root, ignore_errors=True)
