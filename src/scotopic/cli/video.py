"""``scotopic video``: two videos or two folders of frames, matched pair by pair while they are read."""

import os
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from scotopic.api import Matcher
from scotopic.backends.device import resolve_device
from scotopic.cli import console, options
from scotopic.depth.rectification import PairCheck, check_rectified
from scotopic.errors import OutputError, ScotopicError, SettingsError
from scotopic.inputs import check_size
from scotopic.io.frames import MAP_KINDS, StereoFrames, frame_map_files, open_pairs, write_frame_maps
from scotopic.io.replacement import Replacement
from scotopic.io.video import CODECS, VideoWriter, video_file
from scotopic.preview import draw_side_by_side, searched_colors
from scotopic.result import Match
from scotopic.warmup import warm_up

FORMAT = 1  #: version of the video's ``report.json``
FRAMES = "frames"  #: folder of the maps, inside the folder of the results
VIDEO_FILES = (*(f"video{ending}" for _, ending in CODECS), "report.json")  #: one of the videos is written

_DEFAULT_FPS = 25.0
_SAVERS = min(4, os.cpu_count() or 1)
_LINE_SECONDS = 5.0  # between two lines of progress where there is no terminal for a bar


def video(
    left: Annotated[Path, typer.Argument(metavar="LEFT", help="Left video, or a folder of its frames; rectified.")],
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
    assignments: options.Assignments = [],  # noqa: B006 - typer copies it
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
    resolve_device(device)
    console.refuse_inputs(out / FRAMES, [left, right])
    with (
        console.results_folder(out, VIDEO_FILES, overwrite, inputs=[left, right]) as folder,
        # Maps of an earlier run may be there only if they are to be replaced.
        console.results_folder(folder / FRAMES, earlier, overwrite)
        if (earlier := frame_map_files(folder / FRAMES)) or maps != "none"
        else nullcontext(),
        console.limited_threads(threads),
        ExitStack() as opened,
    ):
        with console.StageDisplay(quiet) as display:
            with display.stage(f"skipping to frame {start}") if start else nullcontext():
                pairs = opened.enter_context(open_pairs(left, right, start=start, count=count, shortest=shortest))
            check_size(pairs.shape, settings.junctions.patch_size, pairs.left.title)
            matcher = Matcher(settings, pairs.shape, device, check=False)  # it is checked below, for the report
            if matcher.device == "cpu":
                warm_up(display)
            checked = check_rectified(*pairs.first, min_disparity=settings.matching.min_disparity)
        if not quiet:
            for each in checked.warnings:
                typer.echo(f"warning: {each}", err=True)
        rate, rate_source = _choose_rate(fps, pairs, quiet)
        height, width, _ = pairs.shape
        results = _Results(folder, maps, pairs, matcher, rate_source, checked)
        with (
            results.reported(quiet),
            video_file(results.place / "video", (2 * width, height), rate) as film,
            console.CountDisplay(quiet, _LINE_SECONDS) as count_display,
            closing(matcher.run(pairs)) as matches,
        ):
            results.film = film
            for match in matches:
                results.add(match)
                count_display(results.count, pairs.total, f"pairs, {results.rate:.3g} per second")
    report = results.report(None)
    done = f"{results.count} pairs, {results.rate:.3g} per second; coverage {100 * report['mean_coverage']:.1f} %"
    text = [done, f"results in {folder}, see {folder / film.path.name}"]
    console.print_result({**report, "folder": str(folder)}, text, quiet, as_json)


class _Results:
    """Writes the frames and their maps as they come, and the report at the end, however the run ends.

    Where there are results of an earlier run, the new ones are written beside them, to `place`, and take their place in
    one step when the run is complete.
    """

    def __init__(
        self, folder: Path, maps: str, pairs: StereoFrames, matcher: Matcher, rate_source: str, checked: PairCheck
    ) -> None:
        self._folder, self._maps, self._pairs, self._matcher = folder, maps, pairs, matcher
        self._rate_source, self._checked = rate_source, checked
        self._earlier = [name for name in VIDEO_FILES if os.path.lexists(folder / name)]
        self._earlier += [f"{FRAMES}/{name}" for name in frame_map_files(folder / FRAMES)]
        self._replacement = Replacement(folder) if self._earlier else None
        self.place = folder if self._replacement is None else self._replacement.stage
        if self._replacement is not None and maps != "none":
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
        arguments = self.place / FRAMES, number, self._maps, match.disparity, match.confidence, match.reason
        self._pending.append((record, self._savers.submit(write_frame_maps, *arguments)))
        self._wait_for_savers(2 * _SAVERS)
        assert self.film is not None
        self.film.write(draw_side_by_side(match))
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
        height, width, channels = pairs.shape
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
                "the views are rectified, and frames with the same number were taken at the same time",
                "values as recorded, over the format's full scale; no linearization, no rotation by metadata",
                f"{self.film.fps:g} frames per second: {self._rate_source}",
            ],
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
            "maps": self._maps,
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
