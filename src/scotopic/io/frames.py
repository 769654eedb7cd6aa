"""Stereo video: two videos, folders of frames, TIFF stacks or topics of a ROS bag, read in step, and each frame's maps.

Frames are taken as recorded: RGB of 8 bits from a video, or all bits of one that has more, and whatever image files or
messages hold. Nothing is linearized, scaled or rotated by metadata.
"""

import itertools
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError, PairWarning
from scotopic.io.bags import BagTopic, is_bag, open_topic, pair_by_time, split_topic
from scotopic.io.disparity import NPZ_FORMAT, write_disparity
from scotopic.io.images import as_image, as_recorded, decode_pages, read_image, write_png
from scotopic.io.npz import write_npz
from scotopic.io.pfm import write_pfm
from scotopic.io.video import VideoFile

Frame = NDArray[Any]  #: ``H x W`` or ``H x W x 3`` RGB, of any type that :func:`scotopic.io.as_image` takes

#: Suffixes of the files in a folder that are frames.
IMAGE_SUFFIXES = (
    ".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp", ".pgm", ".ppm", ".pnm", ".pfm",
)  # fmt: skip
FRAMES = "frames"  #: folder of the maps of a video, inside the folder of its results
MAP_KINDS = ("npz", "pfm", "none")  #: how maps can be written, or not at all

# A number in a name: a time in seconds with all its digits, as Unix counts them, or whole. Not "1.9" before "1.10".
_NUMBER = re.compile(r"[0-9]{10,}\.[0-9]+|[0-9]+")
_SPLIT = re.compile(f"({_NUMBER.pattern})")
_LONGEST_NUMBER = 20  # characters; what has more is a checksum or the like
_MAP_NAME = re.compile(
    r"\d{6,}(\.npz|-(disparity|disparity_all|confidence|frames|depth|depth_uncertainty)\.pfm|-points\.ply"
    r"|-(reason|disparity_color|confidence|mask|depth)\.png)"
)


class FrameSource(Protocol):
    """The frames of one view, numbered from 0."""

    path: str
    title: str  #: how errors name it

    @property
    def total(self) -> int | None: ...  # frames, ``None`` if that is not known, wrong by `slack` at most
    @property
    def slack(self) -> int: ...
    @property
    def fps(self) -> float | None: ...
    @property
    def values(self) -> str | None: ...  # what they are, in words; ``None`` if as recorded

    def read(self, start: int) -> Iterator[Frame]: ...
    def name(self, number: int) -> str | None: ...  # of the frame's own file
    def close(self) -> None: ...


class FrameFolder:
    """A folder of images, in natural order: ``frame2`` before ``frame10``.

    Hidden files, and those without one of :data:`IMAGE_SUFFIXES`, are ignored. Raises :class:`InputError` if the folder
    cannot be read or holds no frames.
    """

    slack, fps, values = 0, None, None

    def __init__(self, folder: Path) -> None:
        self.path, self.title = str(folder), repr(str(folder))
        try:
            # A link that leads nowhere is a frame too, and refused when it is read: without it, later frames of this
            # view would be matched with earlier ones of the other.
            found = [path for path in folder.iterdir() if not (os.path.isdir(path) or path.name.startswith("."))]
        except OSError as error:
            raise InputError(f"The folder {self.title} cannot be opened: {error.strerror}. Check the path.") from error
        self.paths = sorted(
            (path for path in found if path.suffix.lower() in IMAGE_SUFFIXES), key=lambda path: natural_order(path.name)
        )
        if not self.paths:
            raise InputError(
                f"The folder {self.title} holds no frames: none of its {len(found)} files ends in "
                f"{', '.join(IMAGE_SUFFIXES)}."
            )
        self.total = len(self.paths)

    def read(self, start: int) -> Iterator[Frame]:
        """Yield the frames from number ``start`` on, reading each when it is needed."""
        for number, path in enumerate(self.paths[start:], start):
            try:
                frame = read_image(path)
                if frame.dtype.kind == "f":
                    as_image(frame, "", title=repr(str(path)))  # raises if values are not finite or not scaled
            except InputError as error:
                raise InputError(f"Frame {number}: {error}") from error
            yield frame

    def name(self, number: int) -> str:
        """Return the name of a frame's file."""
        return self.paths[number].name

    def close(self) -> None:
        """Do nothing: no file is kept open."""


class TiffStack:
    """A TIFF file of several pages, each a frame; raises :class:`InputError` if it cannot be read."""

    slack, fps, values = 0, None, None

    def __init__(self, path: Path) -> None:
        self.path, self.title = str(path), repr(str(path))
        self._pages = decode_pages(path, several=True)
        self.total = len(self._pages)

    def read(self, start: int) -> Iterator[Frame]:
        """Yield the frames from number ``start`` on."""
        for number, page in enumerate(self._pages[start:], start):
            title = f"Frame {number} of {self.title}"
            frame = as_recorded(page, title)
            as_image(frame, "", title=title)  # raises if its values cannot be used
            yield frame

    def name(self, number: int) -> None:
        """Return ``None``: a page has no file of its own."""

    def close(self) -> None:
        """Do nothing: all of the file has been read."""


def open_frames(path: Path) -> FrameSource:
    """Open a folder of frames, a video, a TIFF stack or a topic of a bag; raise :class:`InputError` if it is none."""
    if split_topic(path) is not None or is_bag(path):
        return open_topic(path)
    if os.path.isdir(path):
        return FrameFolder(path)
    if path.suffix.lower() in (".tif", ".tiff") and (stack := TiffStack(path)).total > 1:
        return stack
    if path.suffix.lower() in IMAGE_SUFFIXES:  # OpenCV would go on to the next numbered images
        raise InputError(f"{str(path)!r} is an image, not a video. Give a video or the folder of the frames.")
    return VideoFile(path)


class StereoFrames:
    """The pairs of frames of the same number in two views, all of one size, ``count`` at most from ``start`` on.

    Of two topics of bags only frames that were taken together are counted (:func:`~scotopic.io.bags.pair_by_time`).

    With ``shortest`` they stop at the end of the shorter view; else views of different length are an
    :class:`InputError`, as are views without frame ``start`` and first frames that differ in size.
    """

    def __init__(
        self, left: FrameSource, right: FrameSource, *, start: int = 0, count: int | None = None, shortest: bool = False
    ) -> None:
        self.left, self.right, self.start, self._shortest = left, right, start, shortest
        self.pairing = "frames with the same number were taken at the same time"  #: what is assumed of them, in words
        self.camera_infos: tuple[Any, Any] | None = None  #: ROS's calibration of the two cameras, where a bag has it
        if isinstance(left, BagTopic) and isinstance(right, BagTopic):
            pair_by_time(left, right)
            clock = "in their headers" if left.by_header else "of their recording"
            recorded = f"{len(left.recorded)} left and {len(right.recorded)} right frames"
            self.pairing = f"{left.total} pairs of {recorded}, by the times {clock}"
            if left.camera_info is not None and right.camera_info is not None:
                self.camera_infos = left.camera_info, right.camera_info
        self._has_told = False
        self.doubt = _doubt_pairing(left, right)  #: what to tell the user if pairs seem to be of different times
        self._stop = None if count is None else start + count
        if not shortest and _differ_in_length(left, right):
            for view in (left, right):
                if isinstance(view, VideoFile):
                    view.count_frames()
            if _differ_in_length(left, right):
                raise InputError(
                    f"{left.title} and {right.title} have {left.total} and {right.total} frames. Complete the shorter "
                    "one, or pass shortest=True to stop at its end."
                )
        totals = [view.total for view in (left, right) if view.total is not None]
        for view in (left, right):
            if view.total is not None and start >= view.total + view.slack:
                raise InputError(f"start={start} is past the last frame of {view.title}, {view.total - 1}. Lower it.")
        ends = totals + ([] if self._stop is None else [self._stop])
        self.total = max(min(ends) - start, 1) if ends else None  #: how many pairs there will be, if known
        self._left, self._right = left.read(start), right.read(start)
        first = self._next(start)
        if first is None:
            raise InputError(f"{left.title} and {right.title} have no frame {start} in common. Lower start.")
        self.first = first  #: the first pair, read ahead to learn the size
        self.shape = np.atleast_3d(first[0]).shape  #: of every frame, ``(height, width, channels)``
        self._check_size(start, first)

    def __iter__(self) -> Iterator[tuple[Frame, Frame]]:
        """Yield the pairs, once."""
        yield self.first
        for number in itertools.count(self.start + 1):
            if number == self._stop or (pair := self._next(number)) is None:
                return
            self._check_size(number, pair)
            yield pair

    def time(self, number: int) -> float | None:
        """Return when a pair that was read was taken, in seconds, if the left view says."""
        return self.left.time(number) if isinstance(self.left, BagTopic | VideoFile) else None

    def _next(self, number: int) -> tuple[Frame, Frame] | None:
        left, right = next(self._left, None), next(self._right, None)
        if left is not None and right is not None:
            self._check_times(number)
            return left, right
        if (left is None and right is None) or self._shortest:
            return None
        ended, other = (self.left, self.right) if left is None else (self.right, self.left)
        raise InputError(
            f"{ended.title} ends after {number} frames, but {other.title} has more. Complete it, or pass "
            "shortest=True to stop there."
        )

    def _check_times(self, number: int) -> None:
        """Warn, once, if two videos show the frames of a pair at different times: a camera may have dropped one."""
        if not (isinstance(self.left, VideoFile) and isinstance(self.right, VideoFile)) or self._has_told:
            return
        times = self.left.time(number), self.right.time(number)
        doubt = doubt_times(number, times, self.left.fps, (self.left.title, self.right.title))
        if doubt is not None:
            self._has_told = True
            warnings.warn(doubt, PairWarning, stacklevel=4)

    def _check_size(self, number: int, pair: tuple[Frame, Frame]) -> None:
        for view, frame in zip((self.left, self.right), pair, strict=True):
            found, first = (
                f"{shape[1]} x {shape[0]} px with {shape[2]} channel(s)"
                for shape in (np.atleast_3d(frame).shape, self.shape)
            )
            if found != first:
                raise InputError(
                    f"Frame {number} of {view.title} has {found}, but the first frame of {self.left.title} has {first}."
                    " All frames must have one size and kind."
                )


def _differ_in_length(left: FrameSource, right: FrameSource) -> bool:
    if left.total is None or right.total is None:
        return False
    return abs(left.total - right.total) > max(left.slack, right.slack)


def doubt_times(
    number: int, times: tuple[float | None, float | None], fps: float | None, titles: tuple[str, str]
) -> str | None:
    """Return what to tell the user if two videos show the frames of a pair at different times, in s after the first."""
    left, right = times
    if left is None or right is None or abs(left - right) <= 0.5 / (fps or 25):
        return None
    return (
        f"Frame {number} is shown {left:.3f} s after the first one in {titles[0]}, but {right:.3f} s in {titles[1]}. A "
        "frame may be missing in one of them: check that the views of a pair show one moment."
    )


@contextmanager
def open_pairs(
    left: Path,
    right: Path,
    *,
    start: int = 0,
    count: int | None = None,
    shortest: bool = False,
    open_view: Callable[[Path], FrameSource] = open_frames,
) -> Iterator[StereoFrames]:
    """Open two views as :class:`StereoFrames`, which documents the parameters and errors."""
    with closing(open_view(left)) as first, closing(open_view(right)) as second:
        yield StereoFrames(first, second, start=start, count=count, shortest=shortest)


def _doubt_pairing(left: FrameSource, right: FrameSource) -> str | None:
    """Return what speaks against the pairs, if something does."""
    if isinstance(left, BagTopic) and isinstance(right, BagTopic) and not left.by_header:
        return (
            "The headers of the two topics do not have times that grow, so pairs are formed by the times of the "
            "recording. These may be late by a frame or more: check that the views of a pair show one moment."
        )
    if isinstance(left, FrameFolder) and isinstance(right, FrameFolder):
        return doubt_names([path.name for path in left.paths], [path.name for path in right.paths])
    return None


def doubt_names(left: Sequence[str], right: Sequence[str]) -> str | None:
    """Return what looks wrong if the numbers in two lists of files do not go along: each may lack other frames.

    Counters may begin at different numbers, and times may differ by less than half of the time between two frames. Of
    several numbers in a name the last one counts that is not the same in all: others tell the camera, or the exposure.
    """
    names = list(zip(left, right, strict=False))
    found = [[_NUMBER.findall(Path(name).stem) for name in pair] for pair in names]
    places = range(1, min((len(numbers) for pair in found for numbers in pair), default=0) + 1)
    columns = ([[numbers[-place] for numbers in pair] for pair in found] for place in places)
    counting = next((column for column in columns if any(pair != column[0] for pair in column)), None)
    if counting is None or any(len(number) >= _LONGEST_NUMBER for pair in counting for number in pair):
        return None
    values = np.array(counting, np.float64)
    lag = values[:, 0] - values[:, 1]
    # The median, but one that occurs: if half of the pairs lag by a frame, none lags by half a one.
    middle = np.sort(lag)[[(len(lag) - 1) // 2, len(lag) // 2]]
    usual = middle[np.abs(middle - lag[0]).argmin()]
    apart = np.abs(lag - usual) > np.median(np.abs(np.diff(values[:, 0]))) / 2
    if not apart.any():
        return None
    first = int(np.argmax(apart))
    return (
        f"Pair {first} is {names[first][0]!r} and {names[first][1]!r}, whose numbers do not go along with those of "
        "other pairs. A frame may be missing in one of the views: remove its partner from the other."
    )


def natural_order(name: str) -> tuple[list[str | Decimal], str]:
    """Return a key that sorts numbers in names by value; text and numbers alternate, so that like meets like."""
    parts = _SPLIT.split(name)
    return [Decimal(part) if place % 2 else part.lower() for place, part in enumerate(parts)], name


# --- the maps of a frame, in one compact file or in plain ones ------------------------------------------------------


def write_frame_maps(
    folder: Path,
    number: int,
    kind: str,
    disparity: NDArray[np.float32],
    confidence: NDArray[np.float32],
    reason: NDArray[np.uint8],
    *,
    arrays: Mapping[str, NDArray[Any]] = {},
    **others: NDArray[np.float32],
) -> None:
    """Write the maps of frame `number` of a video, in one of :data:`MAP_KINDS`; each file whole or not at all.

    ``npz``: ``000000.npz`` with ``disparity`` (float32 px, NaN where there is none), ``confidence`` (float32 in
    [0, 1]), ``reason`` (uint8) and ``format``. To :func:`~scotopic.io.read_disparity` it is like any disparity map.
    ``pfm``: ``000000-disparity.pfm`` (+inf where there is none), ``000000-confidence.pfm`` and ``000000-reason.png``.
    `others`, such as the depth, are maps like the disparity; `arrays`, such as the pose, are for ``npz`` alone.
    """
    name = f"{number:06d}"
    if kind == "npz":
        maps = {"disparity": disparity, "confidence": confidence, "reason": reason, **others, **arrays}
        write_npz(folder / f"{name}.npz", maps, NPZ_FORMAT)
    elif kind == "pfm":
        for what, values in {"disparity": disparity, **others}.items():
            write_disparity(folder / f"{name}-{what}.pfm", values)
        write_pfm(folder / f"{name}-confidence.pfm", confidence)
        write_png(folder / f"{name}-reason.png", reason)


def frame_map_files(folder: Path) -> list[str]:
    """Return the names of the files of frames in a folder, maps, pictures and points, in order."""
    if not os.path.isdir(folder):
        return []
    return sorted(path.name for path in folder.iterdir() if _MAP_NAME.fullmatch(path.name))
