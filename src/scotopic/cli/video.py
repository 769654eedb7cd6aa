"""``scotopic video``: two videos, folders of frames or topics of a bag, matched pair by pair while they are read."""

import os
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from scotopic.api import Matcher
from scotopic.backends.device import resolve_device
from scotopic.cli import console, options
from scotopic.cli.calibrated import Cameras, check_options, find_calibration, print_warnings, read_cameras
from scotopic.depth.rectification import PairCheck, check_rectified
from scotopic.errors import OutputError, ScotopicError, SettingsError
from scotopic.inputs import check_size
from scotopic.io import as_image, write_depth_png, write_png
from scotopic.io.frames import (
    MAP_KINDS,
    Frame,
    StereoFrames,
    frame_map_files,
    open_pairs,
    write_frame_maps,
)
from scotopic.io.replacement import Replacement
from scotopic.io.video import VideoWriter, video_file
from scotopic.levels import Levels, given_levels
from scotopic.preview import draw_maps, draw_video_frame, searched_colors, searched_range
from scotopic.result import Match
from scotopic.warmup import warm_up

FORMAT = 1  #: version of the video's ``report.json``
FRAMES = "frames"  #: folder of the maps, inside the folder of the results
VIDEO_FILES = ("video.mp4", "report.json")

_DEFAULT_FPS = 25.0
_SAVERS = min(4, os.cpu_count() or 1)
_LINE_SECONDS = 5.0  # between two lines of progress where there is no terminal for a bar


def video(
    left: Annotated[Path, typer.Argument(metavar="LEFT", help="Left video, folder of frames or BAG:TOPIC; rectified.")],
    right: Annotated[Path, typer.Argument(metavar="RIGHT", help="Right one, with as many frames of the same size.")],
    out: options.Out,
    preset: options.Preset = "best",
    max_disparity: options.MaxDisparity = None,
    min_disparity: options.MinDisparity = None,
    start: Annotated[int, typer.Option(min=0, help="Number of the first frame to match, counted from 0.")] = 0,
    count: Annotated[int | None, typer.Option(min=1, help="Match this many pairs; all by default.")] = None,
    shortest: Annotated[bool, typer.Option("--shortest", help="End with the shorter of the two.")] = False,
    fps: Annotated[
        float | None, typer.Option(help="Frames per second of the written video; by default as LEFT, or 25.")
    ] = None,
    maps: Annotated[str, typer.Option(metavar="KIND", help="Write the maps of each frame as npz, pfm or none.")] = (
        "npz"
    ),
    calib: options.Calib = [],  # noqa: B006 - typer copies it
    unit: options.Unit = None,
    rectify_first: options.Rectify = False,
    ply: Annotated[
        bool, typer.Option("--ply", help="Also write the colored points of each frame as PLY; needs --calib.")
    ] = False,
    png: Annotated[
        bool,
        typer.Option(
            "--png",
            help="Also write pictures of each frame: disparity in color, confidence, mask; depth in mm with --calib.",
        ),
    ] = False,
    white: Annotated[float | None, typer.Option(help="Stored value that becomes white.")] = None,
    black: options.Black = None,
    bits: options.Bits = None,
    assignments: options.Assignments = [],  # noqa: B006
    device: options.Device = "auto",
    threads: options.Threads = None,
    overwrite: options.Overwrite = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Match a stereo video: a side-by-side video, and for each frame disparity, confidence and reasons.

    The default preset is best; --preset fast does many more pairs per second.
    """
    if maps not in MAP_KINDS:
        raise SettingsError(f"--maps {maps} is unknown. Choose one of {', '.join(MAP_KINDS)}.")
    settings = options.read_settings(preset, assignments, max_disparity=max_disparity, min_disparity=min_disparity)
    calib = calib or find_calibration(left, right, quiet)
    check_options(calib, {"--ply": ply, "--rectify": rectify_first, "--unit": unit is not None})
    resolve_device(device)
    kinds = FrameFiles(maps, png, ply)
    inputs = [left, right, *calib]
    console.refuse_inputs(out / FRAMES, inputs)
    with (
        console.results_folder(out, VIDEO_FILES, overwrite, inputs=inputs) as folder,
        # Maps of an earlier run may be there only if they are to be replaced.
        console.results_folder(folder / FRAMES, earlier, overwrite, inputs=inputs)
        if (earlier := frame_map_files(folder / FRAMES)) or kinds.any
        else nullcontext(),
        console.limited_threads(threads),
        ExitStack() as opened,
    ):
        with console.StageDisplay(quiet) as display:
            with display.stage(f"skipping to frame {start}") if start else nullcontext():
                pairs = opened.enter_context(open_pairs(left, right, start=start, count=count, shortest=shortest))
            check_size(pairs.shape, settings.junctions.patch_size, pairs.left.title)
            levels = given_levels(black, white, bits, pairs.first[0].dtype)
            cameras = read_cameras(calib, unit, rectify_first, pairs.shape)
            views = Views(levels, cameras)
            first = views.prepare(*pairs.first)
            matcher = Matcher(settings, np.atleast_3d(first[0]).shape, device, normalize=levels is None)
            if matcher.device == "cpu":
                warm_up(display)
            checked = check_rectified(*first, min_disparity=settings.matching.min_disparity)
        if not quiet:
            print_warnings(checked, rectify_first)
        rate, rate_source = _choose_rate(fps, pairs, quiet)
        results = _Results(folder, kinds, pairs, views, matcher, rate_source, checked)
        with (
            results.reported(quiet),
            video_file(results.place / "video.mp4", rate) as film,
            console.CountDisplay(quiet, _LINE_SECONDS) as count_display,
            closing(matcher.run(views.prepare(*pair) for pair in pairs)) as matches,
        ):
            results.film = film
            for match in matches:
                results.add(match)
                count_display(results.count, pairs.total, f"pairs, {results.rate:.3g} per second")
    report = results.report(None)
    done = f"{results.count} pairs, {results.rate:.3g} per second; coverage {100 * report['mean_coverage']:.1f} %"
    text = [done, f"results in {folder}, see {folder / film.path.name}"]
    console.print_result({**report, "folder": str(folder)}, text, quiet, as_json)


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

    def write(self, folder: Path, number: int, match: Match, cameras: Cameras) -> None:
        """Write the files of a frame."""
        depth = cameras.depth_maps(match)
        if self.maps != "none":
            write_frame_maps(folder, number, self.maps, match.disparity, match.confidence, match.reason, **depth)
        if self.png:
            ends = searched_range(match.settings.matching)  # one color scale for all frames, that of the video
            for name, picture in draw_maps(match, ends).items():
                write_png(folder / f"{number:06d}-{name}.png", picture)
            if depth:
                write_depth_png(folder / f"{number:06d}-depth.png", depth["depth"])
        if self.ply:
            cameras.write_points(folder / f"{number:06d}-points.ply", match)


@dataclass(frozen=True)
class Views:
    """How recorded frames become the views that are matched: scaled to given levels, then rectified."""

    levels: Levels | None
    cameras: Cameras

    def prepare(self, left: Frame, right: Frame) -> tuple[Frame, Frame]:
        """Return the views of a pair of frames; the frames themselves if there is nothing to do."""
        if self.levels is not None:
            left, right = (
                self.levels.apply_clipped(as_image(each, name)) for each, name in ((left, "left"), (right, "right"))
            )
        return self.cameras.rectify(left, right)

    def assumptions(self, pairing: str) -> list[str]:
        """Return what was taken for granted about the frames and how they were paired, in words."""
        given = "the views are rectified" if self.cameras.rectifier is None else "the calibration is of these views"
        scale = "the format's full scale" if self.levels is None else "the levels given"
        return [
            f"{given}, and {pairing}",
            f"values as recorded, over {scale}; no linearization, no rotation by metadata",
        ]


class _Results:
    """Writes the frames and their maps as they come, and the report at the end, however the run ends.

    Where there are results of an earlier run, the new ones are written beside them, to `place`, and take their place in
    one step when the run is complete.
    """

    def __init__(
        self,
        folder: Path,
        kinds: FrameFiles,
        pairs: StereoFrames,
        views: Views,
        matcher: Matcher,
        rate_source: str,
        checked: PairCheck,
    ) -> None:
        self._folder, self._kinds, self._pairs, self._views = folder, kinds, pairs, views
        self._matcher, self._rate_source, self._checked = matcher, rate_source, checked
        self._earlier = [name for name in VIDEO_FILES if os.path.lexists(folder / name)]
        self._earlier += [f"{FRAMES}/{name}" for name in frame_map_files(folder / FRAMES)]
        self._replacement = Replacement(folder) if self._earlier else None
        self.place = folder if self._replacement is None else self._replacement.stage
        if self._replacement is not None and kinds.any:
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
            console.write_json(self.place / "report.json", self.report(None))
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
                console.write_json(self.place / "report.json", self.report(error))
            kept = f"The {len(self._saved)} pairs matched until then are in {str(self.place)!r}."
        if self._replacement is None:
            return kept
        self._replacement.keep() if kept else self._replacement.drop()
        return f"The earlier results in {str(self._folder)!r} are unchanged. {kept}".strip()

    def report(self, error: BaseException | None) -> dict[str, Any]:
        """Return the content of ``report.json``."""
        from scotopic import __version__

        assert self.film is not None
        pairs, settings = self._pairs, self._matcher.settings
        height, width, channels = self._matcher.shape or pairs.shape
        coverage = [record["coverage"] for record in self._saved]
        cause = str(error) if isinstance(error, ScotopicError) else "interrupted"
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
                *self._views.assumptions(pairs.pairing),
                f"{self.film.fps:g} frames per second: {self._rate_source}",
            ],
            "levels": None if self._views.levels is None else self._views.levels.as_dict(),
            **self._views.cameras.report(),
            "pair_check": self._checked.as_dict(),  # of the first pair
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
            "maps": self._kinds.maps,
            "pictures": self._kinds.png,
            "points": self._kinds.ply,
            "seconds": self._times[-1] - self._times[0],
            "pairs_per_second": self.rate,
            "mean_coverage": sum(coverage) / max(len(coverage), 1),
            "frames": self._saved,
        }

    def _wait_for_savers(self, most: int) -> None:
        """Wait until at most this many frames are still being saved."""
        while len(self._pending) > most:
            record, saved = self._pending.popleft()
            saved.result()
            self._saved.append(record)


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
