"""``scotopic video``: two videos or two folders of frames, matched pair by pair while they are read."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Annotated, Any, Self

import typer

from scotopic.api import Matcher
from scotopic.backends.device import resolve_device
from scotopic.cli import options
from scotopic.cli.session import Display, answer, limited_threads, results_folder, write_json
from scotopic.errors import OutputError, ScotopicError, SettingsError
from scotopic.inputs import check_size
from scotopic.io.frame_maps import KINDS, frame_map_files, write_frame_maps
from scotopic.io.frames import StereoFrames, open_pairs
from scotopic.io.video import CODECS, VideoWriter, video_file
from scotopic.preview import draw_side_by_side, searched_colors
from scotopic.result import Match
from scotopic.settings import JunctionSettings, MatchingSettings, make_settings
from scotopic.warmup import warm_up

FORMAT = 1  #: version of the video's ``report.json``
FRAMES = "frames"  #: folder of the maps, in the folder of the results
VIDEO_FILES = (*(f"video{ending}" for _, ending in CODECS), "report.json")  #: one of the videos is written

_ASSUMED_FPS = 25.0
_SAVERS = min(4, os.cpu_count() or 1)
_EVERY = 5.0  # seconds between two lines where there is no terminal for a bar


def video(
    left: Annotated[Path, typer.Argument(metavar="LEFT", help="Left video, or a folder of its frames; rectified.")],
    right: Annotated[Path, typer.Argument(metavar="RIGHT", help="Right one, with as many frames of the same size.")],
    out: options.Out,
    preset: options.Preset = "fast",
    max_disparity: Annotated[
        int | None, typer.Option(help="Where the search ends, in px, itself excluded; 128 or the width by default.")
    ] = None,
    min_disparity: Annotated[
        int | None, typer.Option(help="Where the search begins, in px; may be negative; 0 by default.")
    ] = None,
    start: Annotated[int, typer.Option(min=0, help="Number of the first frame to match, counted from 0.")] = 0,
    count: Annotated[int | None, typer.Option(min=1, help="Match so many pairs; all by default.")] = None,
    shortest: Annotated[bool, typer.Option("--shortest", help="End with the shorter one of the two.")] = False,
    fps: Annotated[
        float | None, typer.Option(help="Frames per second of the video that is written; as LEFT, or 25, by default.")
    ] = None,
    maps: Annotated[str, typer.Option(metavar="KIND", help="Write each frame's maps as npz, pfm or none.")] = "npz",
    device: options.Device = "auto",
    assignments: options.Assignments = [],  # noqa: B006 - typer copies it
    overwrite: options.Overwrite = False,
    threads: options.Threads = None,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Match a stereo video: a side-by-side video, and for each frame disparity, confidence and reasons."""
    overrides = options.parse_settings(
        assignments, [JunctionSettings, MatchingSettings], max_disparity=max_disparity, min_disparity=min_disparity
    )
    patch_size = make_settings(preset, **overrides).junctions.patch_size
    resolve_device(device)
    if maps not in KINDS:
        raise SettingsError(f"--maps: found {maps!r}, expected one of {', '.join(KINDS)}; choose one of these")
    with (
        results_folder(out, VIDEO_FILES, overwrite, inputs=[left, right]) as folder,
        _maps_folder(folder / FRAMES, maps, overwrite, inputs=[left, right]),
        limited_threads(threads),
        ExitStack() as opened,
    ):
        with Display(quiet) as display:
            with display.stage(f"going to frame {start}") if start else nullcontext():
                pairs = opened.enter_context(open_pairs(left, right, start=start, count=count, shortest=shortest))
            check_size(pairs.first[0], patch_size, pairs.left.title)
            matcher = Matcher(preset, pairs.shape, device, **overrides)
            if matcher.device == "cpu":
                warm_up(display)
        rate, rate_from = _rate(fps, pairs, quiet)
        height, width, _ = pairs.shape
        results = _Results(folder, maps, pairs, matcher)
        with (
            results.reported(quiet),
            video_file(folder / "video", (2 * width, height), rate) as film,
            _Bar(quiet, pairs.total) as show,
            closing(matcher.run(pairs)) as matches,
        ):
            results.film, results.rate_from = film, rate_from
            for match in matches:
                results.add(match)
                show(results.speed)
    report = results.report(None)
    answer(
        {**report, "folder": str(folder)},
        [
            f"{results.speed}, mean coverage {100 * report['mean_coverage']:.1f} %",
            f"results in {folder}, see {film.path}",
        ],
        quiet=quiet,
        as_json=as_json,
    )


class _Results:
    """What is written of a video: its frames and their maps while they come, the report at the end, however it ends."""

    def __init__(self, folder: Path, maps: str, pairs: StereoFrames, matcher: Matcher) -> None:
        self._folder, self._maps, self._pairs, self._matcher = folder, maps, pairs, matcher
        self._savers = ThreadPoolExecutor(_SAVERS, "scotopic-maps")  # compressing takes longer than matching on a GPU
        self._saving: deque[tuple[dict[str, Any], Future[None]]] = deque()
        self._saved: list[dict[str, Any]] = []
        self.speed = _Speed()
        self.film: VideoWriter | None = None
        self.rate_from = ""

    def add(self, match: Match) -> None:
        """Write a match, the next in order."""
        number = self._pairs.start + self.speed.done
        if self.speed.done == 0:
            self._remove_earlier()
        arguments = self._folder / FRAMES, number, self._maps, match.disparity, match.confidence, match.reason
        self._saving.append((self._about(number, match), self._savers.submit(write_frame_maps, *arguments)))
        self._settle(2 * _SAVERS)
        assert self.film is not None
        self.film.write(draw_side_by_side(match))
        self.speed.one_more()

    @contextmanager
    def reported(self, quiet: bool) -> Iterator[None]:
        """Write the report after the block; if it was stopped, say what it has left."""
        try:
            yield
            self._settle(0)
        except BaseException as error:
            while self._saving:
                with suppress(OutputError):
                    self._settle(len(self._saving) - 1)
            if not self._saved:
                raise
            with suppress(OutputError):
                write_json(self._folder / "report.json", self.report(error))
            left = f"the {len(self._saved)} pairs matched until then are in {str(self._folder)!r}"
            if isinstance(error, ScotopicError):
                raise type(error)(f"{error}; {left}") from error
            if not quiet:
                typer.echo(left, err=True)
            raise
        finally:
            self._savers.shutdown()
        write_json(self._folder / "report.json", self.report(None))

    def report(self, stopped: BaseException | None) -> dict[str, Any]:
        """Return what ``report.json`` holds."""
        from scotopic import __version__

        assert self.film is not None
        pairs, settings = self._pairs, self._matcher.settings
        height, width, channels = pairs.shape
        coverage = [record["coverage"] for record in self._saved]
        words = str(stopped) if isinstance(stopped, ScotopicError) else "interrupted"
        return {
            "scotopic": __version__,
            "format": FORMAT,
            "left": {"path": pairs.left.path, "frames": pairs.left.total, "fps": pairs.left.fps},
            "right": {"path": pairs.right.path, "frames": pairs.right.total, "fps": pairs.right.fps},
            "width": width,
            "height": height,
            "channels": channels,
            "device": self._matcher.device,
            "settings": settings.as_dict(),
            "assumed": [
                "the views are rectified, and frames of the same number were taken at the same time",
                "values as recorded, over the format's full scale; no linearization, no turning by metadata",
                f"{self.film.fps:g} frames per second: {self.rate_from}",
            ],
            "start": pairs.start,
            "pairs": len(self._saved),
            "pairs_expected": pairs.total,
            "complete": stopped is None,
            "stopped_by": None if stopped is None else words,
            "video": {
                "file": self.film.path.name,
                "codec": self.film.codec,
                "fps": self.film.fps,
                "colors_px": searched_colors(settings.matching),
            },
            "maps": self._maps,
            "seconds": self.speed.seconds,
            "pairs_per_second": self.speed.rate,
            "mean_coverage": sum(coverage) / max(len(coverage), 1),
            "frames": self._saved,
        }

    def _settle(self, most: int) -> None:
        """Wait until at most so many frames are still being saved."""
        while len(self._saving) > most:
            about, saved = self._saving.popleft()
            saved.result()
            self._saved.append(about)

    def _about(self, number: int, match: Match) -> dict[str, Any]:
        kept = match.confidence[match.mask]
        return {
            "frame": number,
            "left": self._pairs.left.name(number),
            "right": self._pairs.right.name(number),
            "coverage": match.coverage,
            "mean_confidence_kept": float(kept.mean()) if kept.size else None,
            "seconds": sum(match.timings.values()),
        }

    def _remove_earlier(self) -> None:
        """Remove an earlier run's results, which --overwrite allows: those of two videos must not mix."""
        names = (*VIDEO_FILES, *(f"{FRAMES}/{name}" for name in frame_map_files(self._folder / FRAMES)))
        for name in names:
            try:
                (self._folder / name).unlink(missing_ok=True)
            except OSError as error:
                raise OutputError(
                    f"cannot replace {str(self._folder / name)!r} ({error.strerror}), expected permission; choose "
                    "another folder"
                ) from error


class _Speed:
    """How many pairs are done, and how fast; the first, which sets everything up, does not count for the speed."""

    def __init__(self) -> None:
        self.done = 0
        self._begun = self._first = self._last = time.perf_counter()

    def one_more(self) -> None:
        self._last = time.perf_counter()
        self.done += 1
        if self.done == 1:
            self._first = self._last

    @property
    def seconds(self) -> float:
        """From the beginning to the last pair."""
        return self._last - self._begun

    @property
    def rate(self) -> float:
        """Pairs per second."""
        since, pairs = (self._first, self.done - 1) if self.done > 1 else (self._begun, self.done)
        return pairs / max(self._last - since, 1e-9)

    def __str__(self) -> str:
        return f"{self.done} pairs, {self.rate:.3g} per second"


class _Bar:
    """Pairs done, of how many, and how fast: a bar on a terminal, else a line now and then, on stderr."""

    def __init__(self, quiet: bool, total: int | None) -> None:
        self._quiet, self._total = quiet, total
        self._told = -_EVERY

    def __enter__(self) -> Self:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        columns = (
            TextColumn("matching"), BarColumn(20), MofNCompleteColumn(), TextColumn("{task.description}"),
            TimeRemainingColumn(),
        )  # fmt: skip
        self._bars = Progress(*columns, console=console) if console.is_terminal and not self._quiet else None
        if self._bars:
            self._bars.start()
            self._task = self._bars.add_task("", total=self._total)
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars:
            self._bars.stop()

    def __call__(self, speed: _Speed) -> None:
        """Show how far the work is."""
        if self._bars:
            self._bars.update(self._task, completed=speed.done, description=f"{speed.rate:.3g} pairs/s")
        elif not self._quiet and (speed.seconds - self._told >= _EVERY or speed.done == self._total):
            self._told = speed.seconds
            of = "" if self._total is None else f"/{self._total}"
            typer.echo(f"{speed.done}{of} pairs, {speed.rate:.3g} per second", err=True)


@contextmanager
def _maps_folder(folder: Path, maps: str, overwrite: bool, inputs: Sequence[Path]) -> Iterator[None]:
    """Claim the folder of the maps, in which none of an earlier run may be unless they are to be replaced."""
    for source in inputs:
        with suppress(OSError, ValueError):
            if os.path.samefile(folder, source):
                raise OutputError(
                    f"cannot write to folder {str(folder)!r}: it is the input {str(source)!r}, expected another; "
                    "choose another folder for the results"
                )
    earlier = frame_map_files(folder)
    if maps == "none" and not earlier:
        yield
        return
    with results_folder(folder, earlier, overwrite):
        yield


def _rate(given: float | None, pairs: StereoFrames, quiet: bool) -> tuple[float, str]:
    """Return the frames per second of the video to be written, and whence they are known."""
    left, right = pairs.left.fps, pairs.right.fps
    if left and right and abs(left - right) > 0.001 * left and not quiet:
        typer.echo(
            f"warning: found {left:.4g} and {right:.4g} frames per second, expected the same; frames of the same "
            "number are taken for pairs",
            err=True,
        )
    if given is not None:
        return given, "as told"
    if left or right:
        return left or right or _ASSUMED_FPS, f"as {(pairs.left if left else pairs.right).title} says"
    return _ASSUMED_FPS, "the frames do not say"
