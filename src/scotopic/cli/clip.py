"""One clip of ``scotopic video``: matched pair by pair while it is read, its results written as they come."""

import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer

from scotopic.api import warn_about_range
from scotopic.backends.device import resolve_device
from scotopic.cli import console
from scotopic.cli.calibrated import Cameras, check_options, find_calibration, print_warnings
from scotopic.cli.fused import MAP_FILE, TRAJECTORY_FILES, FusedResults
from scotopic.cli.stream import ASSUMED_CAMERA, Taken, Views
from scotopic.errors import OutputError, ScotopicError
from scotopic.io import write_depth_png, write_png
from scotopic.io.atomic import remove_leftovers
from scotopic.io.frames import FRAMES, StereoFrames, frame_map_files, write_frame_maps
from scotopic.io.replacement import Replacement
from scotopic.io.video import VideoWriter, video_file
from scotopic.preview import draw_maps, draw_video_frame, searched_colors, searched_range
from scotopic.result import Match
from scotopic.settings import Settings
from scotopic.streams import Matcher
from scotopic.warmup import warm_up

FORMAT = 1  #: version of the video's ``report.json``
VIDEO_FILES = ("video.mp4", "report.json")

_DEFAULT_FPS = 25.0
_SAVERS = min(4, os.cpu_count() or 1)
_LINE_SECONDS = 5.0  # between two lines of progress where there is no terminal for a bar


@dataclass(frozen=True)
class Clip:
    """Two streams of frames, their calibration, and where their results go."""

    left: Path
    right: Path
    out: Path
    calib: tuple[Path, ...] = ()

    def resolved(self) -> "Clip":
        """Return the clip with absolute paths."""
        left, right, out = (path.resolve() for path in (self.left, self.right, self.out))
        return Clip(left, right, out, tuple(path.resolve() for path in self.calib))


@dataclass(frozen=True)
class ClipOptions:
    """How clips are matched, and what is written of them."""

    settings: Settings
    taken: Taken
    kinds: "FrameFiles"
    fuse: int | None = None
    scene_map: bool = False  #: whether the points of all frames are written, which are fused
    fps: float | None = None
    device: str = "auto"
    threads: int | None = None
    overwrite: bool = False
    notes: Mapping[str, Any] = field(default_factory=dict)  #: further entries of the report


def match_clip(
    clip: Clip, options: ClipOptions, quiet: bool, check: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """Match a clip and write its results; return its report.

    `check` is called when all pairs are matched; if it raises, the results are not complete.
    """
    calib = clip.calib or find_calibration(clip.left, clip.right, quiet)
    has_points = options.kinds.ply or options.scene_map
    needing = {"--ply": has_points, "--rectify": options.taken.rectify, "--unit": options.taken.unit is not None}
    check_options(calib, needing)
    resolve_device(options.device)
    inputs = [clip.left, clip.right, *calib]
    console.refuse_inputs(clip.out / FRAMES, inputs)
    with (
        console.results_folder(
            clip.out, (*VIDEO_FILES, *_fused_files(options)), options.overwrite, inputs=inputs
        ) as folder,
        # Maps of an earlier run may be there only if they are to be replaced.
        console.results_folder(folder / FRAMES, earlier, options.overwrite, inputs=inputs)
        if (earlier := frame_map_files(folder / FRAMES)) or options.kinds.any
        else nullcontext(),
        console.limited_threads(options.threads),
        ExitStack() as opened,
    ):
        remove_leftovers(folder / VIDEO_FILES[0])
        with console.StageDisplay(quiet) as display:
            start = options.taken.start
            with display.stage(f"skipping to frame {start}") if start else nullcontext():
                views = opened.enter_context(options.taken.open(clip.left, clip.right, calib, options.settings))
            calibration = views.cameras.calibration
            matcher = Matcher(
                options.settings,
                views.shape,
                options.device,
                normalize=views.levels is None,
                check=False,  # the views have been checked, for the report
                fuse=options.fuse,
                calibration=calibration,
            )
            if matcher.device == "cpu":
                warm_up(display, options.settings)
        if not quiet:
            print_warnings(views.checked, options.taken.rectify, views.unfit, views.pairs.doubt)
            if options.fuse is not None and calibration is None:
                typer.echo(f"no calibration, so this camera is assumed: {ASSUMED_CAMERA}", err=True)
        rate, rate_source = _choose_rate(options.fps, views.pairs, quiet)
        earlier_run = [*VIDEO_FILES, *console.earlier_files(folder, inputs)]
        results = _Results(folder, options, views, matcher, rate_source, earlier_run)
        with (
            results.reported(quiet),
            video_file(results.place / "video.mp4", rate) as film,
            console.CountDisplay(quiet, _LINE_SECONDS) as count_display,
            closing(matcher.run(views)) as matches,
        ):
            results.film = film
            is_told = False
            for match in matches:
                is_told = is_told or warn_about_range(match)
                results.add(match)
                count_display(results.count, views.pairs.total, f"pairs, {results.rate:.3g} per second")
            check()
    return results.report(None)


@dataclass(frozen=True)
class FrameFiles:
    """Which files are written of each frame: maps of a kind, pictures, points."""

    maps: str
    png: bool
    ply: bool

    @property
    def any(self) -> bool:
        """Whether there are any."""
        return self.maps != "none" or self.png or self.ply

    def names(self, number: int) -> list[str]:
        """Return the name of one file of each kind that a frame has."""
        maps = {"npz": [".npz"], "pfm": ["-disparity.pfm"], "none": []}[self.maps]
        ends = [*maps, *(["-mask.png"] if self.png else []), *(["-points.ply"] if self.ply else [])]
        return [f"{number:06d}{end}" for end in ends]

    def write(self, folder: Path, number: int, match: Match, cameras: Cameras) -> None:
        """Write the files of a frame."""
        depth = cameras.depth_maps(match)
        maps, arrays = depth, dict[str, Any]()
        if match.frames is not None:
            maps = {**depth, "disparity_all": match.disparity_all, "frames": match.frames}
            arrays = {"pose": match.pose, "pose_covariance": match.pose_covariance}
        if self.maps != "none":
            write_frame_maps(
                folder, number, self.maps, match.disparity, match.confidence, match.reason, arrays=arrays, **maps
            )
        if self.png:
            ends = searched_range(match.settings.matching)  # one color scale for all frames, that of the video
            for name, picture in draw_maps(match, ends).items():
                write_png(folder / f"{number:06d}-{name}.png", picture)
            if depth:
                write_depth_png(folder / f"{number:06d}-depth.png", depth["depth"])
        if self.ply:
            cameras.write_points(folder / f"{number:06d}-points.ply", match)


class _Results:
    """Writes the frames and their maps as they come, and the report at the end, however the run ends.

    Where there are results of an earlier run, the new ones are written beside them, to `place`, and take their place in
    one step when the run is complete.
    """

    def __init__(
        self,
        folder: Path,
        options: ClipOptions,
        views: Views,
        matcher: Matcher,
        rate_source: str,
        earlier: Sequence[str],
    ) -> None:
        self._folder, self._options, self._kinds, self._views = folder, options, options.kinds, views
        self._pairs, self._matcher, self._rate_source = views.pairs, matcher, rate_source
        self._fused: FusedResults | None = None
        if options.fuse is not None:
            self._fused = FusedResults(options.fuse, views.cameras.calibration, options.scene_map)
        maps = [f"{FRAMES}/{name}" for name in frame_map_files(folder / FRAMES)]
        self._earlier = [name for name in {*earlier, *maps} if os.path.lexists(folder / name)]
        self._replacement = Replacement(folder) if self._earlier else None
        self.place = folder if self._replacement is None else self._replacement.stage
        if self._replacement is not None and options.kinds.any:
            (self.place / FRAMES).mkdir()
        self._savers = ThreadPoolExecutor(_SAVERS, "scotopic-maps")  # compressing takes longer than matching on a GPU
        self._pending: deque[tuple[dict[str, Any], Future[None]]] = deque()
        self._saved: list[dict[str, Any]] = []
        self._times = [time.perf_counter()]  # of the start, and of the end of each pair
        self.film: VideoWriter | None = None

    @property
    def count(self) -> int:
        """How many pairs are done."""
        return len(self._times) - 1

    @property
    def rate(self) -> float:
        """Pairs per second; the first, which sets everything up, counts only while it is the only one."""
        since = 1 if self.count > 1 else 0
        return (self.count - since) / max(self._times[-1] - self._times[since], 1e-9)

    def add(self, match: Match) -> None:
        """Write the match of the next pair."""
        number = self._pairs.start + self.count
        kept = match.confidence[match.mask]
        record = {
            "frame": number,
            "left": self._pairs.left.name(number),
            "right": self._pairs.right.name(number),
            "coverage": match.coverage,
            "mean_confidence_kept": float(kept.mean()) if kept.size else None,
            "seconds": sum(match.timings.values()),
        }
        if self._fused is not None:
            record |= self._fused.add(number, match, self.count in self._matcher.repeated)
        saving = self._savers.submit(self._kinds.write, self.place / FRAMES, number, match, self._views.cameras)
        self._pending.append((record, saving))
        self._wait_for_savers(2 * _SAVERS)
        assert self.film is not None
        self.film.write(draw_video_frame(match, number, self._views.cameras.calibration))
        self._times.append(time.perf_counter())

    @contextmanager
    def reported(self, quiet: bool) -> Iterator[None]:
        """Write the report after the block, and replace earlier results; if it fails, say what was finished before."""
        try:
            yield
            self._wait_for_savers(0)
            self._finish(None)
            if self._replacement is not None:
                self._replacement.finish(self._earlier)
        except BaseException as error:
            while self._pending:
                with suppress(OutputError):
                    self._wait_for_savers(len(self._pending) - 1)
            finished = self._leave(error)
            if finished and isinstance(error, ScotopicError):
                raise type(error)(f"{error} {finished}") from error
            if finished and not quiet:
                typer.echo(finished, err=True)
            raise
        finally:
            self._savers.shutdown()

    def _leave(self, error: BaseException) -> str:
        """Keep what was finished before an error, and return where it is."""
        kept = ""
        if self._replacement is not None and self._replacement.is_done:
            return f"The new results in {str(self._folder)!r} are complete."
        if self._saved:
            with suppress(OutputError):
                self._finish(error)
            kept = f"The {len(self._saved)} pairs matched until then are in {str(self.place)!r}."
        if self._replacement is None:
            return kept
        self._replacement.keep() if kept else self._replacement.drop()
        return f"The earlier results in {str(self._folder)!r} are unchanged. {kept}".strip()

    def _finish(self, error: BaseException | None) -> None:
        """Write what follows from all frames."""
        assert self.film is not None
        if self._fused is not None:
            rate = self.film.fps
            self._fused.write(
                self.place, lambda number: number / rate if (taken := self._pairs.time(number)) is None else taken
            )
        console.write_json(self.place / "report.json", self.report(error))

    def report(self, error: BaseException | None) -> dict[str, Any]:
        """Return the content of ``report.json``."""
        from scotopic import __version__

        assert self.film is not None
        pairs, settings = self._pairs, self._matcher.settings
        coverage = [record["coverage"] for record in self._saved]
        cause = str(error) if isinstance(error, ScotopicError) else "interrupted"
        return {
            "scotopic": __version__,
            "format": FORMAT,
            **self._views.report(),
            "device": self._matcher.device,
            "settings": settings.as_dict(),
            "assumed": [
                *self._views.assumptions(),
                f"{self.film.fps:g} frames per second: {self._rate_source}",
            ],
            "levels": None if self._views.levels is None else self._views.levels.as_dict(),
            **self._views.cameras.report(),
            "pair_check": self._views.checked.as_dict(),  # of the first pair
            "start": pairs.start,
            "pairs": len(self._saved),
            "pairs_expected": pairs.total,
            "complete": error is None,
            "stopped_by": None if error is None else cause,
            "video": {
                "file": self.film.path.name,
                "codec": self.film.codec,
                "fps": self.film.fps,
                "colors_px": searched_colors(settings.matching),
            },
            "files": [*VIDEO_FILES, *_fused_files(self._options)],  # beside those of single frames
            "maps": self._kinds.maps,
            "pictures": self._kinds.png,
            "points": self._kinds.ply,
            "seconds": self._times[-1] - self._times[0],
            "pairs_per_second": self.rate,
            "mean_coverage": sum(coverage) / max(len(coverage), 1),
            **({} if self._fused is None else {"fusion": self._fused.report()}),
            **self._options.notes,
            "frames": self._saved,
        }

    def _wait_for_savers(self, most: int) -> None:
        """Wait until at most this many frames are still being saved."""
        while len(self._pending) > most:
            record, saved = self._pending.popleft()
            saved.result()
            self._saved.append(record)


def _fused_files(options: ClipOptions) -> tuple[str, ...]:
    """Return the names of the files that a fused clip has more than others."""
    if options.fuse is None:
        return ()
    return (*TRAJECTORY_FILES, MAP_FILE) if options.scene_map else TRAJECTORY_FILES


def _choose_rate(given: float | None, pairs: StereoFrames, quiet: bool) -> tuple[float, str]:
    """Return the frames per second of the video to be written, and where they come from."""
    left, right = pairs.left.fps, pairs.right.fps
    if left and right and abs(left - right) > 0.001 * left and not quiet:
        typer.echo(
            f"warning: LEFT has {left:.4g} frames per second and RIGHT {right:.4g}; frames with the same number are "
            "matched all the same",
            err=True,
        )
    if given is not None:
        return given, "as given"
    if left or right:
        return left or right or _DEFAULT_FPS, f"as {(pairs.left if left else pairs.right).title} says"
    return _DEFAULT_FPS, "the frames do not say"
