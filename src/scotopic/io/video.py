"""Videos in and out, through OpenCV: read frame by frame as recorded, and written so that they play."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError, OutputError, SettingsError
from scotopic.io.atomic import atomic_path
from scotopic.io.pfm import plain_file_size

Picture = NDArray[np.uint8]  #: ``H x W x 3`` RGB

#: What a video is written as, the first that this machine's OpenCV can: codec and ending.
CODECS = (("mp4v", ".mp4"), ("MJPG", ".avi"))


# --- reading --------------------------------------------------------------------------------------------------------


class VideoFile:
    """A video that OpenCV decodes.

    Parameters
    ----------
    path
        The file.

    Attributes
    ----------
    total
        How many frames there are; ``None`` where the file does not say.
    slack
        By how much that may be wrong: some files do not count their frames, and it follows from duration and rate.
    fps
        Frames per second; ``None`` where the file does not say.

    Raises
    ------
    InputError
        It is missing, or nothing that OpenCV decodes.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.title = str(path), repr(str(path))
        size = plain_file_size(path, "a video or a folder of frames")
        self._capture = _opened(path)
        if self._capture is None:
            raise InputError(
                f"{self.title}: found no readable video in {size} bytes, expected one that OpenCV decodes, whole; "
                "check that it plays, fetch it again, or convert it"
            )
        import cv2

        announced = self._capture.get(cv2.CAP_PROP_FRAME_COUNT)
        rate = self._capture.get(cv2.CAP_PROP_FPS)
        self.total = int(announced) if 0 < announced < 2**31 else None
        self.slack = 0 if self.total is None or _counts_its_frames(path) else max(1, self.total // 100)
        self.fps = rate if 0 < rate < 10_000 else None

    def read(self, start: int) -> Iterator[Picture]:
        """Yield the frames from number ``start`` on. Those before are decoded too: seeking is not exact."""
        import cv2

        for number in itertools.count():
            try:
                there = self._capture.grab()
                done, frame = self._capture.retrieve() if there and number >= start else (there, None)
            except cv2.error as error:
                raise InputError(
                    f"frame {number} of {self.title}: found {' '.join(str(error).split())}, expected a frame that can "
                    f"be decoded; fetch the video again{_or_less(number, start)}"
                ) from error
            if not there and not self._is_cut_short(number):
                return
            if not done:
                raise InputError(
                    f"frame {number} of {self.title}: found nothing readable, expected {self.total or 'at least 1'} "
                    f"frames as the file announces; it is broken or cut short: fetch it again{_or_less(number, start)}"
                )
            if frame is not None:
                yield np.ascontiguousarray(frame[:, :, ::-1])  # OpenCV has blue first

    def name(self, number: int) -> None:
        """A frame has no file of its own."""

    def close(self) -> None:
        """Let go of the file."""
        self._capture.release()

    def _is_cut_short(self, found: int) -> bool:
        if self.total is None:
            return found == 0
        return found < self.total - self.slack


def _counts_its_frames(path: Path) -> bool:
    """Whether a video's container stores the number of its frames: MP4, MOV and AVI do."""
    with path.open("rb") as file:
        head = file.read(12)
    return head[4:8] == b"ftyp" or (head[:4], head[8:]) == (b"RIFF", b"AVI ")


def _or_less(number: int, start: int) -> str:
    return f", or pass --count {number - start} to take what is there" if number > start else ""


def _opened(path: Path) -> Any:
    """Open a video with OpenCV, which turns nothing by metadata; ``None`` where it cannot."""
    import cv2

    with _quiet_ffmpeg():
        try:
            capture = cv2.VideoCapture(str(path))
        except cv2.error:
            return None
    if not capture.isOpened():
        return None
    capture.set(cv2.CAP_PROP_ORIENTATION_AUTO, 0)
    return capture


# --- writing --------------------------------------------------------------------------------------------------------


class VideoWriter:
    """Writes pictures of one size to a file; made by :func:`video_file`.

    Attributes
    ----------
    path
        Where the video will be.
    codec
        What it is encoded with.
    fps
        Pictures per second.
    frames
        How many were written.
    """

    def __init__(self, path: Path, codec: str, fps: float, size: tuple[int, int]) -> None:
        self.path, self.codec, self.fps, self.frames = path, codec, fps, 0
        self._size = size
        self._writer: Any = None

    def write(self, picture: Picture) -> None:
        """Append a picture, ``(H, W, 3)`` RGB, which is padded with black to even sides: codecs want them so."""
        height, width = picture.shape[:2]
        even = np.zeros((self._size[1], self._size[0], 3), np.uint8)
        even[:height, :width] = picture[:, :, ::-1]
        self._writer.write(even)
        self.frames += 1

    def begin(self, temporary: Path) -> None:
        """Open the file to write to."""
        self._writer = _writer(temporary, self.codec, self.fps, self._size)

    def finish(self, temporary: Path) -> None:
        """Complete the file, and make sure that it is: OpenCV does not tell of a full disk."""
        self._writer.release()
        found = _announced(temporary) if self.frames else 0
        if found != self.frames:
            raise OutputError(
                f"cannot write {str(self.path)!r}: found {found} of {self.frames} frames in it, expected all; free "
                "some space or choose another folder"
            )


@contextmanager
def video_file(target: Path, size: tuple[int, int], fps: float) -> Iterator[VideoWriter]:
    """Write a video under a temporary name; whatever ends the block, what was written until then becomes a whole video.

    Parameters
    ----------
    target
        The file without its ending, which follows the codec: the first of :data:`CODECS` that works here.
    size
        Width and height of the pictures.
    fps
        Pictures per second.

    Raises
    ------
    OutputError
        No codec works, or the file cannot be written.
    """
    even = size[0] + size[0] % 2, size[1] + size[1] % 2
    codec, ending = usable_codec(even, fps, target.parent)
    writer = VideoWriter(target.with_name(target.name + ending), codec, fps, even)
    stopped: BaseException | None = None
    with atomic_path(writer.path) as temporary:
        writer.begin(temporary)
        try:
            yield writer
        except BaseException as error:
            if writer.frames == 0:
                raise
            stopped = error
        finally:
            writer.finish(temporary)
    if stopped is not None:
        raise stopped


def usable_codec(size: tuple[int, int], fps: float, folder: Path) -> tuple[str, str]:
    """Return the first of :data:`CODECS` with which a picture of this size can be written to a folder and read back.

    Raises
    ------
    SettingsError
        The rate is no rate.
    OutputError
        None works.
    """
    if not 0.01 <= fps <= 1000:
        raise SettingsError(f"--fps: found {fps:g}, expected 0.01 to 1000 pictures per second; change it")
    with tempfile.TemporaryDirectory(prefix=".trial", dir=folder) as place:
        for codec, ending in CODECS:
            trial = Path(place) / f"trial{ending}"
            with suppress(OutputError):
                writer = _writer(trial, codec, fps, size)
                writer.write(np.zeros((size[1], size[0], 3), np.uint8))
                writer.release()
                if _announced(trial) == 1:
                    return codec, ending
    raise OutputError(
        f"cannot write a video of {size[0]} x {size[1]} px at {fps:g} per second: this OpenCV can do none of "
        f"{', '.join(codec for codec, _ in CODECS)}, expected one; install opencv-python-headless as pip offers it, or "
        "make the frames smaller"
    )


def _writer(path: Path, codec: str, fps: float, size: tuple[int, int]) -> Any:
    import cv2

    with _quiet_ffmpeg():
        try:
            writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*codec), fps, size)
        except cv2.error as error:
            raise OutputError(f"cannot write {str(path)!r}: {' '.join(str(error).split())}") from error
    if not writer.isOpened():
        raise OutputError(f"cannot write {str(path)!r}: OpenCV cannot encode {codec}; choose another folder")
    return writer


def _announced(path: Path) -> int:
    """How many frames a video says that it has; 0 where it cannot be opened."""
    import cv2

    capture = _opened(path)
    if capture is None:
        return 0
    try:
        return max(int(capture.get(cv2.CAP_PROP_FRAME_COUNT)), 0)
    finally:
        capture.release()


@contextmanager
def _quiet_ffmpeg() -> Iterator[None]:
    """Keep the lines of OpenCV and of the FFmpeg in it off the terminal: our message says what is wrong."""
    import cv2

    os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")  # read once, when the first video is opened
    level = cv2.utils.logging.getLogLevel()
    cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)
    try:
        yield
    finally:
        cv2.utils.logging.setLogLevel(level)
