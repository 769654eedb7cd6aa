"""Stereo video in: two videos or two folders of frames, read in step.

Frames are taken as recorded: 8 bits red, green, blue from a video, whatever the image files hold from a folder; nothing
is linearized, scaled or turned by metadata.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from scotopic.errors import InputError
from scotopic.io.images import as_image, read_image
from scotopic.io.video import VideoFile

Frame = NDArray[Any]  #: ``H x W`` or ``H x W x 3`` RGB, of any type that :func:`scotopic.io.as_image` takes

#: Endings of the files in a folder that are taken for frames.
IMAGE_ENDINGS = (
    ".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp", ".pgm", ".ppm", ".pnm", ".pfm",
)  # fmt: skip


class FrameFolder:
    """A folder of images, in natural order: ``frame2`` before ``frame10``.

    Parameters
    ----------
    folder
        Files without an ending of :data:`IMAGE_ENDINGS`, and hidden ones, are passed over.

    Raises
    ------
    InputError
        It cannot be read, or holds no frames.
    """

    def __init__(self, folder: Path) -> None:
        self.path, self.title = str(folder), repr(str(folder))
        try:
            found = [path for path in folder.iterdir() if path.is_file() and not path.name.startswith(".")]
        except OSError as error:
            raise InputError(
                f"{self.title}: cannot be opened ({error.strerror}), expected a folder of frames; check the path"
            ) from error
        self._paths = sorted((path for path in found if path.suffix.lower() in IMAGE_ENDINGS), key=_naturally)
        if not self._paths:
            raise InputError(
                f"{self.title}: found no frames among {len(found)} files, expected images called "
                f"*{', *'.join(IMAGE_ENDINGS)}; check the folder"
            )
        self.total, self.slack, self.fps = len(self._paths), 0, None

    def read(self, start: int) -> Iterator[Frame]:
        """Yield the frames from number ``start`` on, reading each when it is asked for."""
        for number, path in enumerate(self._paths[start:], start):
            try:
                frame = read_image(path)
                if frame.dtype.kind == "f":
                    as_image(frame, repr(str(path)))  # refuses what is not finite or not scaled
            except InputError as error:
                raise InputError(f"frame {number}: {error}") from error
            yield frame

    def name(self, number: int) -> str:
        """Return the name of a frame's file."""
        return self._paths[number].name

    def close(self) -> None:
        """There is nothing to let go of."""


Frames = FrameFolder | VideoFile  #: of one view


def open_frames(path: Path) -> Frames:
    """Open a folder of frames or a video.

    Raises
    ------
    InputError
        It is neither, or cannot be read.
    """
    if path.is_dir():
        return FrameFolder(path)
    if path.suffix.lower() in IMAGE_ENDINGS:  # OpenCV would go on to its neighbors by their numbers
        raise InputError(
            f"{str(path)!r}: found the name of an image, expected a video or a folder of frames; give the folder that "
            "it is in, or match one pair with 'scotopic match'"
        )
    return VideoFile(path)


class StereoFrames:
    """The pairs of two views: frames of the same number, all of one size.

    Parameters
    ----------
    left, right
        The views.
    start
        Number of the first frame to take.
    count
        At most so many; all if left out.
    shortest
        End with the shorter view, rather than ask that both are equally long.

    Attributes
    ----------
    first
        The first pair, read ahead to learn the size.
    shape
        Of every frame, ``(height, width, channels)``.
    total
        How many pairs there will be; ``None`` where no file says.
    start
        Number of the first.

    Raises
    ------
    InputError
        The views are not equally long, have no such first frame, or their first frames differ in size.
    """

    def __init__(
        self, left: Frames, right: Frames, *, start: int = 0, count: int | None = None, shortest: bool = False
    ) -> None:
        self.left, self.right, self.start, self._shortest = left, right, start, shortest
        self._stop = None if count is None else start + count
        if not shortest:
            _check_lengths(left, right)
        for view in (left, right):
            if view.total is not None and start >= view.total + view.slack:
                raise InputError(
                    f"--start: found {start}, expected at most {view.total - 1}, the last frame of {view.title}; "
                    "lower it"
                )
        ends = [end for end in (left.total, right.total, self._stop) if end is not None]
        self.total = max(min(ends) - start, 1) if ends else None
        self._left, self._right = left.read(start), right.read(start)
        frames = self._next(start)
        if frames is None:
            raise InputError(
                f"{left.title} and {right.title}: found no frame {start} in both, expected at least one pair; lower "
                "--start"
            )
        self.first = self._of_one_size(start, frames, _shape(frames[0]))
        self.shape = _shape(frames[0])

    def __iter__(self) -> Iterator[tuple[Frame, Frame]]:
        """Yield the pairs, once."""
        yield self.first
        for number in itertools.count(self.start + 1):
            if number == self._stop or (pair := self._next(number)) is None:
                return
            yield self._of_one_size(number, pair, self.shape)

    def _next(self, number: int) -> tuple[Frame, Frame] | None:
        frames = next(self._left, None), next(self._right, None)
        if frames[0] is None or frames[1] is None:
            ended, other = (self.left, self.right) if frames[0] is None else (self.right, self.left)
            if (frames[0] is None and frames[1] is None) or self._shortest:
                return None
            raise InputError(
                f"frame {number}: found the end of {ended.title} after {number} frames, but not of {other.title}, "
                "expected the same number; pass --shortest to end with the shorter one"
            )
        return frames[0], frames[1]

    def _of_one_size(
        self, number: int, pair: tuple[Frame, Frame], expected: tuple[int, int, int]
    ) -> tuple[Frame, Frame]:
        for view, frame in zip((self.left, self.right), pair, strict=True):
            if _shape(frame) != expected:
                raise InputError(
                    f"frame {number} of {view.title}: found {_in_words(_shape(frame))}, expected {_in_words(expected)} "
                    f"as in the first frame of {self.left.title}; make all frames of one size and kind"
                )
        return pair


@contextmanager
def open_pairs(
    left: Path, right: Path, *, start: int = 0, count: int | None = None, shortest: bool = False
) -> Iterator[StereoFrames]:
    """Open two videos or folders of frames for :class:`StereoFrames`, which has the parameters and errors."""
    views: list[Frames] = []
    try:
        for path in (left, right):
            views.append(open_frames(path))
        yield StereoFrames(*views, start=start, count=count, shortest=shortest)
    finally:
        for view in views:
            view.close()


def _check_lengths(left: Frames, right: Frames) -> None:
    if left.total is None or right.total is None:
        return
    if abs(left.total - right.total) > max(left.slack, right.slack):
        raise InputError(
            f"{left.title} and {right.title}: found {left.total} and {right.total} frames, expected the same number; "
            "complete the shorter one, or pass --shortest to end with it"
        )


def _shape(frame: Frame) -> tuple[int, int, int]:
    return frame.shape[0], frame.shape[1], frame.shape[2] if frame.ndim == 3 else 1


def _in_words(shape: tuple[int, ...]) -> str:
    return f"{shape[1]} x {shape[0]} px with {shape[2]} channel(s)"


def _naturally(path: Path) -> tuple[list[str | int], str]:
    """Sort numbers in names by their value; text and numbers alternate, so that only like is compared with like."""
    parts = re.split(r"(\d+)", path.name)
    return [int(part) if place % 2 else part.lower() for place, part in enumerate(parts)], path.name
