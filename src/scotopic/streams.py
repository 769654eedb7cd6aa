"""Streams of pairs, matched one by one or fused, and bursts."""

from __future__ import annotations

import threading
import warnings
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from copy import deepcopy
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from scotopic.api import Pair, find_pair_levels, warn_about_pair
from scotopic.backends import cpu_backend, cuda_backend
from scotopic.backends.device import interpreted, is_on_gpu, resolve_device, to_numpy
from scotopic.depth import Calibration
from scotopic.errors import InputError, PairWarning, SettingsError, lists_parameters
from scotopic.fusion.burst import Burst, leave_out_repeats
from scotopic.fusion.geometry import StereoCamera
from scotopic.fusion.stream import (
    FusedStream,
    MatchFused,
    camera_for,
    check_fuse,
    describe_fused,
    in_unit,
    light_of,
    mask_unseen,
    restore_colors,
    valid_pixels,
    with_own_arrays,
)
from scotopic.inputs import (
    Image,
    Layout,
    check_pair,
    check_size,
    full_shape,
    pairs_in_layout,
    shows_nothing,
    take_image,
    take_two,
)
from scotopic.io.masks import Mask, pixel_mask
from scotopic.kernel_cache import guard_kernel_cache
from scotopic.levels import Levels
from scotopic.pipelines import run_pipeline
from scotopic.pipelines.memory import fit_to_memory
from scotopic.progress import Progress, silent
from scotopic.result import Match
from scotopic.settings import EvidenceMatchingSettings, Settings, settings_for
from scotopic.stages.consistency import Reason

if TYPE_CHECKING:
    from scotopic.backends.cuda.recordings import Recordings
    from scotopic.pipelines.cuda_graph import GraphRunner

_STARTING = threading.Lock()  # held while a matcher notes that it runs; not its own, which could not be pickled
_Prepared = tuple[list[Any], tuple[Mask | None, Mask | None]]  # two images, and which of their pixels are masked


@lists_parameters
def match_burst(
    left: Sequence[Image],
    right: Sequence[Image],
    preset: str | Settings = "best",
    device: str = "auto",
    *,
    reference: int = 0,
    calibration: Calibration | None = None,
    normalize: bool = True,
    progress: Progress = silent,
    **overrides: Any,
) -> Match:
    """Match all frames of a burst as one pair: that of the reference frame, with the light of all others.

    The cameras may move, and the scene may stand still or move; frames that show something else are left out.

    Parameters
    ----------
    left, right
        The frames of both views, as :func:`scotopic.match` takes images; up to 256 of one size.
    preset, device, normalize, progress, **overrides
        As for :func:`scotopic.match`. Progress is reported for each match; there are about ``log2`` of the number of
        frames.
    reference
        The number of the frame that the answer is for.
    calibration
        As for :class:`Matcher`.

    Returns
    -------
    Match
        Of the reference frame, with `frames`, the fused images and `burst_poses`; its `pose` is the identity.

    Examples
    --------
    >>> import scotopic
    >>> scene = scotopic.render_scene(width=96, height=64)
    >>> pairs = [scotopic.simulate_pair(scene.left, scene.right, 8, 2, seed=seed) for seed in range(4)]
    >>> result = scotopic.match_burst(*zip(*pairs), preset="fast", max_disparity=16)
    >>> float(result.frames.max())
    4.0
    """
    how: dict[str, Any] = {"reference": reference, "calibration": calibration, "normalize": normalize}
    answers = refine_burst(left, right, preset, device, **how, progress=progress, **overrides)
    result = deque(answers, maxlen=1).pop()  # only the last is kept
    if (doubt := result.doubt_range()) is not None:
        warnings.warn(doubt, PairWarning, stacklevel=2)
    return result


def refine_burst(
    left: Sequence[Image],
    right: Sequence[Image],
    preset: str | Settings = "best",
    device: str = "auto",
    *,
    reference: int = 0,
    calibration: Calibration | None = None,
    normalize: bool = True,
    progress: Progress = silent,
    **overrides: Any,
) -> Generator[Match, None, None]:
    """Yield the answers on the way to that of :func:`match_burst`: of one frame, two, four, and so on to all.

    Between them, progress is told of the stage ``"alignment"``.
    """
    for name, frames in (("left", left), ("right", right)):
        if isinstance(frames, str | PathLike) or not hasattr(frames, "__len__"):
            raise InputError(
                f"The {name} frames are a {type(frames).__name__}. Give a list of images or of their paths."
            )
    if isinstance(reference, bool) or not isinstance(reference, int | np.integer):
        raise InputError(f"reference is the number of a frame, not {reference!r}.")
    if len(left) != len(right):
        raise InputError(f"The burst has {len(left)} left and {len(right)} right frames. Give pairs.")
    if not -len(left) <= reference < len(left):
        raise InputError(f"The burst has {len(left)} frames, so there is no frame {reference} to be the reference.")
    check_fuse(len(left))
    settings = settings_for("match_burst", preset, overrides)
    matcher = Matcher(settings, device=device, normalize=normalize, fuse=len(left), calibration=calibration)
    yield from matcher.refine(list(zip(left, right, strict=True)), reference % len(left), progress)


@lists_parameters
class Matcher:
    """Matches a stream of pairs of one size: a camera, a video, a folder of frames.

    What one pair needs is set up once and used again for each. While a pair is matched the next one is read and
    prepared; on a GPU, upload, work and download of neighboring pairs overlap, and ``paper`` and ``fast`` are recorded
    once as a CUDA graph, so that their many small steps cost no launches.

    Parameters
    ----------
    preset
        As for :func:`scotopic.match`; ``"fast"`` for the highest rate.
    shape
        Of every image: ``(height, width)``, gray, or ``(height, width, channels)``. That of the first pair by default.
    device
        ``"auto"``, ``"cpu"`` or ``"cuda"``.
    normalize
        As for :func:`scotopic.match`; each pair has levels of its own, or all those of the first with `fuse`.
    check
        As for :func:`scotopic.match`, of the first pair of each stream.
    fuse
        How many pairs to fuse: each pair is matched with the light of those before it, carried along with the motion of
        the cameras, and each match also has the pose, its covariance, the number of frames behind each pixel, and the
        fused images (:class:`Match`). ``None`` matches each pair by itself.
    calibration
        Of the rectified images, for `fuse`: poses are then in meters. Without one a focal length equal to the width and
        an axis through the middle are assumed, and poses are in baselines.
    **overrides
        As for :func:`scotopic.match`.

    Examples
    --------
    >>> import scotopic
    >>> scene = scotopic.render_scene(width=96, height=64)
    >>> frames = [scotopic.simulate_pair(scene.left, scene.right, 2, 2, seed=seed) for seed in range(3)]
    >>> matcher = scotopic.Matcher("fast", scene.left.shape, max_disparity=16)
    >>> [result.disparity.shape for result in matcher.run(frames)]
    [(64, 96), (64, 96), (64, 96)]
    """

    def __init__(
        self,
        preset: str | Settings = "best",
        shape: tuple[int, ...] | None = None,
        device: str = "auto",
        *,
        normalize: bool = True,
        check: bool | None = None,
        fuse: int | None = None,
        calibration: Calibration | None = None,
        **overrides: Any,
    ) -> None:
        self.device = resolve_device(device)
        self._normalize, self._check = normalize, check
        self.settings = settings_for("Matcher", preset, overrides)
        self.fuse = None if fuse is None else check_fuse(fuse)
        if not isinstance(calibration, Calibration | None):
            raise SettingsError(
                f"calibration is a {type(calibration).__name__}, not a scotopic.depth.Calibration. Read files with "
                "scotopic.depth.read_calibration."
            )
        self.calibration = calibration
        self.shape: tuple[int, int, int] | None = None
        self._stream: FusedStream[Any] | None = None
        self._is_running = False
        self._runner: _CpuRunner | GraphRunner | None = None
        self._recordings: Recordings | None = None
        if shape is not None:
            self._fix_shape(full_shape(shape))

    def _fix_shape(self, shape: tuple[int, int, int]) -> None:
        check_size(shape, self.settings.junctions.patch_size, "shape")
        self.shape = shape
        self.settings = replace(self.settings, matching=self.settings.matching.for_width(shape[1]))

    @lists_parameters
    def run(self, pairs: Iterable[Any], layout: Layout = "HWC") -> Generator[Match, None, None]:
        """Yield the match of each pair, in order. With `fuse` a stream goes on where the last run has ended.

        Parameters
        ----------
        pairs
            Of arrays, paths or tensors, as :func:`scotopic.match` takes them. Read two pairs ahead.
        layout
            ``"HWC"``, ``"CHW"``, or ``"BCHW"``: then each item is two batches, and each of their pairs gives a match.

        Raises
        ------
        InputError
            A pair cannot be used; the message says which. The pairs before it have been yielded. Or, with `fuse`,
            another run has not ended.
        Exception
            Whatever ``pairs`` raises, after the pairs before it.
        """
        is_new = self._stream is None
        run = self._run_apart if self.fuse is None else self._run_fused
        with closing(run(pairs_in_layout(pairs, layout))) as matches:
            for result in matches:
                if is_new and self._check is not False and (doubt := result.doubt_range()) is not None:
                    warnings.warn(doubt, PairWarning, stacklevel=2)
                is_new = False
                yield result

    def _run_apart(self, pairs: Iterable[Any]) -> Generator[Match, None, None]:
        """Yield the match of each pair by itself."""
        waiting: list[Any] = []
        is_first = True
        failure: Exception | None = None
        with closing(self._prepared(pairs)) as prepared:
            while True:
                try:
                    pair = next(prepared, None)
                except Exception as error:  # of the source: what came before it is still matched
                    failure = error
                    break
                if pair is None:
                    break
                if is_first:
                    warn_about_pair(pair[0], self.settings, self.device, self._check)
                    is_first = False
                waiting.append(self._begin(pair))
                if len(waiting) > 1:
                    yield self._end(*waiting.pop(0))
        while waiting:
            yield self._end(*waiting.pop(0))
        if failure is not None:
            raise failure

    def _run_fused(self, pairs: Iterable[Any]) -> Generator[Match, None, None]:
        """Yield the match of each pair with the light of those before it; none can begin before the last has ended."""
        with self._alone(), closing(self._prepared(pairs)) as prepared:
            for images, masks in prepared:
                if self._stream is None:
                    warn_about_pair(images, self.settings, self.device, self._check)
                    assert self.shape is not None
                    assert self.fuse is not None
                    backend, run = self._fused_runner(silent)
                    self._stream = FusedStream(backend, run, self.settings, self.shape, self.fuse, self.calibration)
                with self._recorded():
                    result = self._stream.match(images, masks, self._find_levels)
                yield result

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Refuse to run twice at the same time: the light of two streams would be added up."""
        with _STARTING:
            if self._is_running:
                raise InputError(
                    "This Matcher is running already, in another thread or in a loop that has not ended. With fuse all "
                    "of its pairs are one stream. Make a Matcher for each stream, or close the other run first."
                )
            self._is_running = True
        try:
            yield
        finally:
            self._is_running = False

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: a copy does not run, whatever this one does, and records for itself."""
        return {**vars(self), "_is_running": False, "_recordings": None}

    def __copy__(self) -> Self:
        """Return a copy that has a stream of its own, so that the light of two is not added up."""
        return deepcopy(self)

    def refine(self, pairs: Sequence[Pair], reference: int, progress: Progress) -> Generator[Match, None, None]:
        """Yield the answers of :func:`refine_burst`."""
        prepared = [self._take(number, pair) for number, pair in enumerate(pairs)]
        taken, masks = [images for images, _ in prepared], [masks for _, masks in prepared]
        recorded = taken[reference]
        if any(shows_nothing(image) for image in recorded):
            raise InputError(f"Frame {reference} shows nothing, so it cannot be the reference. Choose another.")
        levels, (backend, run) = self._find_levels(recorded), self._fused_runner(progress)
        usable = [None if any(shows_nothing(image) for image in pair) else pair for pair in taken]
        leave_out_repeats(usable, reference)
        placed = [
            None if pair is None else tuple(backend.asarray(levels.apply(image)) for image in pair) for pair in usable
        ]
        assert self.shape is not None
        camera = camera_for(self.calibration, self.shape)
        valid = [valid_pixels(backend, each) for each in masks]
        burst: Burst[Any] = Burst(backend, camera, placed, valid, reference)
        answers = burst.fused(progress)
        while True:
            with self._recorded():
                if (fused := next(answers, None)) is None:
                    return
                result = run([fused.left.image, fused.right.image], light_of(backend, fused))
                burst.learn(result, fused)
            poses = np.full((len(pairs), 4, 4), np.nan)
            for number, pose in burst.poses.items():
                poses[number], _ = in_unit(pose, np.zeros((6, 6)), camera.unit)
            described = describe_fused(result, fused, camera.unit, levels, recorded)
            yield with_own_arrays(replace(mask_unseen(described, fused, masks[reference]), burst_poses=poses))

    @property
    def camera(self) -> StereoCamera | None:
        """The cameras that a fused stream is seen by: the calibration's, or assumed; ``None`` before the first pair."""
        return None if self.shape is None else camera_for(self.calibration, self.shape)

    @property
    def repeated(self) -> tuple[int, ...]:
        """Numbers of the pairs of a fused stream, from 0 on, of which a view was that of the pair before: no new light.

        A camera that has stalled sends such pairs. There is a :class:`~scotopic.errors.PairWarning` of each stall.
        """
        return () if self._stream is None else tuple(self._stream.repeated)

    def _find_levels(self, images: Sequence[Any]) -> Levels:
        return find_pair_levels(images) if self._normalize else Levels()

    def _fused_runner(self, progress: Progress) -> tuple[Any, MatchFused]:
        """Return the device's backend and what matches fused images on it."""
        settings = self.settings
        if self.device == "cpu":
            guard_kernel_cache()
            return cpu_backend(), partial(_match_fused, settings, progress)
        assert self.shape is not None
        settings = fit_to_memory(settings, self.shape)
        if isinstance(settings, EvidenceMatchingSettings):

            def run(images: list[Any], light: list[Any]) -> Match:
                return run_pipeline("cuda", images, settings, light=light, progress=progress, timed=False)

            return cuda_backend(), run
        runner = self._new_runner()  # recorded as a graph
        return cuda_backend(), lambda images, light: runner.end(runner.begin(images))

    def _recorded(self) -> AbstractContextManager[None]:
        """Return a block in which a GPU records and replays the work of fusing, whatever of it is done again."""
        if self.device == "cpu" or interpreted():
            return nullcontext()
        if self._recordings is None:
            from scotopic.backends.cuda.recordings import FUSED, Recordings

            self._recordings = Recordings(FUSED)
        return cuda_backend().recording(self._recordings)

    def _prepared(self, pairs: Iterable[Any]) -> Generator[_Prepared, None, None]:
        """Yield checked images and their masks, each pair taken while the one before it is matched."""
        source = enumerate(pairs)

        def next_pair() -> _Prepared | None:
            item = next(source, None)
            return None if item is None else self._take(*item)

        with ThreadPoolExecutor(1, "scotopic-pairs") as reader:
            coming = reader.submit(next_pair)
            while (images := coming.result()) is not None:
                coming = reader.submit(next_pair)
                yield images

    def _take(self, number: int, pair: Any) -> _Prepared:
        left, right = take_two(pair, number)
        try:
            images = [take_image(left, "left"), take_image(right, "right")]
            if self.device == "cpu":
                images = list(to_numpy(*images))
            check_pair(images[0], images[1], self.settings.junctions.patch_size)
        except InputError as error:
            raise InputError(f"Pair {number}: {error}") from error
        found = tuple(images[0].shape)
        if self.shape is None:
            self._fix_shape(found)
        if found != self.shape:
            raise InputError(
                f"Pair {number} has images of shape {found}, but this Matcher was made for {self.shape}. Resize them, "
                "or make another Matcher."
            )
        return images, (pixel_mask(left), pixel_mask(right))

    def _begin(self, prepared: _Prepared) -> tuple[_Prepared, Any]:
        """Start on a pair; return what :meth:`_end` needs. There may be nothing to match in a view."""
        if self._runner is None:
            self._runner = self._new_runner()
        images, _ = prepared
        if any(shows_nothing(image) for image in images):
            return prepared, None
        levels = self._find_levels(images)
        return prepared, (levels, self._runner.begin([levels.apply(image) for image in images]))

    def _end(self, prepared: _Prepared, ticket: Any) -> Match:
        images, masks = prepared
        if ticket is None:
            empty = Match.empty(images[0], images[1], self.settings, Reason.NO_STRUCTURE).masked(*masks)
            return empty.to_device(self.device) if is_on_gpu(images[0]) else empty
        assert self._runner is not None
        levels, started = ticket
        result = restore_colors(self._runner.end(started), levels)
        return replace(result, left_image=images[0], right_image=images[1]).masked(*masks)

    def _new_runner(self) -> _CpuRunner | GraphRunner:
        if self.device == "cpu":
            return _CpuRunner(self.settings)
        from scotopic.pipelines.cuda_graph import GraphRunner

        assert self.shape is not None
        return GraphRunner(self.shape, self.settings)


class _CpuRunner:
    """As a :class:`GraphRunner`. The CPU has nothing to overlap with: a pair is matched when it is asked for."""

    def __init__(self, settings: Settings) -> None:
        guard_kernel_cache()
        self._settings = settings

    def begin(self, images: list[Any]) -> list[Any]:
        return images

    def end(self, images: list[Any]) -> Match:
        return run_pipeline("cpu", images, self._settings)


def _match_fused(settings: Settings, progress: Progress, images: list[Any], light: list[Any]) -> Match:
    """Match fused images on the CPU; a function of the module, so that a stream can be pickled."""
    return run_pipeline("cpu", images, settings, light=light, progress=progress)
