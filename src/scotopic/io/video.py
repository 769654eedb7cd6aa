"""Videos by OpenCV: read frame by frame as recorded, and written so that they play."""

import itertools
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError, OutputError, SettingsError
from scotopic.io.atomic import atomic_path
from scotopic.io.images import call_opencv
from scotopic.io.input_file import check_memory, open_input, plain_file_size

Picture = NDArray[np.uint8]  #: ``H x W x 3`` RGB

#: Codecs and suffixes of the videos that we write, in order of preference: the first that OpenCV has here is used.
CODECS = (("mp4v", ".mp4"), ("MJPG", ".avi"))


# --- reading --------------------------------------------------------------------------------------------------------


class VideoFile:
    """A video file; raises :class:`InputError` if it is missing or OpenCV cannot decode it.

    `total` frames and `fps` are ``None`` if the file does not say. `total` may be wrong by `slack`: in files that do
    not count their frames it follows from duration and rate.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.title = str(path), repr(str(path))
        size = plain_file_size(path, "a video or a folder of frames")
        self._capture = _open_capture(path)
        if self._capture is None:
            raise InputError(
                f"{self.title} ({size} bytes) is not a video that OpenCV can decode, or is cut short. Check that it "
                "plays, fetch it again, or convert it."
            )
        import cv2

        announced = self._capture.get(cv2.CAP_PROP_FRAME_COUNT)
        rate = self._capture.get(cv2.CAP_PROP_FPS)
        self.total = int(announced) if 0 < announced < 2**31 else None
        width, height = (self._capture.get(side) for side in (cv2.CAP_PROP_FRAME_WIDTH, cv2.CAP_PROP_FRAME_HEIGHT))
        check_memory(self.title, f"frames of {width:.0f} x {height:.0f} px", int(12 * max(width, 0) * max(height, 0)))
        with open_input(path) as file:
            head = file.read(12)
        counts_its_frames = head[4:8] == b"ftyp" or (head[:4], head[8:]) == (b"RIFF", b"AVI ")  # MP4, MOV and AVI do
        self.slack = 0 if self.total is None or counts_its_frames else max(1, self.total // 100)
        self.fps = rate if 0 < rate < 10_000 else None

    def read(self, start: int) -> Iterator[Picture]:
        """Yield the frames from number ``start`` on. Those before are decoded too: seeking is not exact."""
        import cv2

        for number in itertools.count():
            cause = None
            try:
                there = self._capture.grab()
                done, frame = self._capture.retrieve() if there and number >= start else (there, None)
            except cv2.error as error:
                there, done, cause = True, False, error
            if not there and number >= (1 if self.total is None else self.total - self.slack):
                return
            if not done:
                fewer = f", or pass count={number - start} to take the frames before it" if number > start else ""
                raise InputError(
                    f"Frame {number} of {self.title} cannot be read. The file announces {self.total or 'at least 1'} "
                    f"frames, so it is broken or cut short. Fetch it again{fewer}."
                ) from cause
            if frame is not None:
                yield np.ascontiguousarray(frame[:, :, ::-1])  # OpenCV has blue first

    def name(self, number: int) -> None:
        """Return ``None``: a frame of a video has no file of its own."""

    def close(self) -> None:
        """Close the file."""
        self._capture.release()


def _open_capture(path: Path) -> Any:
    """Open a video with OpenCV, without rotation by metadata; return ``None`` if it cannot."""
    import cv2

    capture = call_opencv(cv2.VideoCapture, str(path))
    if capture is None or not capture.isOpened():
        return None
    capture.set(cv2.CAP_PROP_ORIENTATION_AUTO, 0)
    return capture


# --- writing --------------------------------------------------------------------------------------------------------


class VideoWriter:
    """Writes pictures of one size to a temporary file that will be at `path`; made by :func:`video_file`.

    `frames` counts the pictures that were written; `codec` is a four-character code.
    """

    def __init__(self, path: Path, temporary: Path, codec: str, fps: float, size: tuple[int, int]) -> None:
        self.path, self.codec, self.fps, self.frames = path, codec, fps, 0
        self._temporary, self._size = temporary, size
        self._writer = _open_writer(temporary, codec, fps, size)

    def write(self, picture: Picture) -> None:
        """Append a picture, ``(H, W, 3)`` RGB, padded with black to the even sides that codecs need."""
        height, width = picture.shape[:2]
        padded = np.zeros((self._size[1], self._size[0], 3), np.uint8)
        padded[:height, :width] = picture[:, :, ::-1]
        self._writer.write(padded)
        self.frames += 1

    def finish(self) -> None:
        """Complete the file and check it: OpenCV does not report a full disk."""
        self._writer.release()
        found = _count_frames(self._temporary) if self.frames else 0
        if found != self.frames:
            raise OutputError(
                f"Writing {str(self.path)!r} failed: it has {found} of {self.frames} frames. Free some space or choose "
                "another folder."
            )


@contextmanager
def video_file(target: Path, size: tuple[int, int], fps: float) -> Iterator[VideoWriter]:
    """Write a video under a temporary name. However the block ends, the pictures written so far become a whole video.

    `target` is the file without its suffix, which follows from the codec: the first of :data:`CODECS` that works here.
    `size` is width and height of the pictures, `fps` pictures per second. Raises :class:`OutputError` if no codec works
    or the file cannot be written.
    """
    even = size[0] + size[0] % 2, size[1] + size[1] % 2
    codec, suffix = usable_codec(even, fps, target.parent)
    path = target.with_name(target.name + suffix)
    stopped: BaseException | None = None
    with atomic_path(path) as temporary:
        writer = VideoWriter(path, temporary, codec, fps, even)
        try:
            yield writer
        except BaseException as error:
            if writer.frames == 0:
                raise
            stopped = error
        finally:
            writer.finish()
    if stopped is not None:
        raise stopped


def usable_codec(size: tuple[int, int], fps: float, folder: Path) -> tuple[str, str]:
    """Return the first of :data:`CODECS` with which a picture of this size can be written to a folder and read back.

    Raises :class:`OutputError` if there is none, and :class:`SettingsError` if `fps` is out of range.
    """
    if not 0.01 <= fps <= 1000:
        raise SettingsError(f"fps={fps:g} is not a usable rate. Choose 0.01 to 1000 pictures per second.")
    with tempfile.TemporaryDirectory(prefix=".trial", dir=folder) as place:
        for codec, suffix in CODECS:
            trial = Path(place) / f"trial{suffix}"
            with suppress(OutputError):
                writer = _open_writer(trial, codec, fps, size)
                writer.write(np.zeros((size[1], size[0], 3), np.uint8))
                writer.release()
                if _count_frames(trial) == 1:
                    return codec, suffix
    raise OutputError(
        f"This OpenCV can write a video of {size[0]} x {size[1]} px at {fps:g} per second with none of the codecs "
        f"{', '.join(codec for codec, _ in CODECS)}. Install opencv-python-headless from PyPI, or make the frames "
        "smaller."
    )


def _open_writer(path: Path, codec: str, fps: float, size: tuple[int, int]) -> Any:
    import cv2

    writer = call_opencv(cv2.VideoWriter, str(path), cv2.VideoWriter.fourcc(*codec), fps, size)
    if writer is None or not writer.isOpened():
        raise OutputError(f"Cannot write {str(path)!r}: OpenCV cannot encode {codec} there.")
    return writer


def _count_frames(path: Path) -> int:
    """Return how many frames a video says that it has; 0 if it cannot be opened."""
    import cv2

    capture = _open_capture(path)
    return 0 if capture is None else max(int(capture.get(cv2.CAP_PROP_FRAME_COUNT)), 0)
