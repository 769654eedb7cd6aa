"""Videos by OpenCV: read frame by frame as recorded, and written so that they play."""

import itertools
import os
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

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
        self._is_cut = is_cut_short(path)

    def read(self, start: int) -> Iterator[Picture]:
        """Yield the frames from number ``start`` on. Those before are decoded too: seeking is not exact.

        Raises :class:`InputError` at a frame that cannot be decoded. In a file that is cut short that is also the last
        frame that can: decoders fill up what is missing of it, with gray or with the frame before.
        """
        if not self._is_cut:
            yield from self._decode(start)
            return
        held: Picture | None = None
        number = start
        for frame in self._decode(start):
            if held is not None:
                yield held
                number += 1
            held = frame
        raise self._broken(number, start)

    def _decode(self, start: int) -> Iterator[Picture]:
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
                if self._is_cut:
                    return
                raise self._broken(number, start) from cause
            if frame is not None:
                yield np.ascontiguousarray(frame[:, :, ::-1])  # OpenCV has blue first

    def _broken(self, number: int, start: int) -> InputError:
        fewer = f", or pass count={number - start} to take the frames before it" if number > start else ""
        return InputError(
            f"Frame {number} of {self.title} cannot be read. The file announces {self.total or 'at least 1'} frames, "
            f"so it is broken or cut short. Fetch it again{fewer}."
        )

    def name(self, number: int) -> None:
        """Return ``None``: a frame of a video has no file of its own."""

    def close(self) -> None:
        """Close the file."""
        self._capture.release()


def is_cut_short(path: Path) -> bool:
    """Return whether a file of a known container (AVI, MP4, MOV, Matroska, WebM) has fewer bytes than it announces."""
    with open_input(path, "a video file") as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(12)
        if head[:4] == b"RIFF":  # AVI; files above 1 GiB go on with further parts
            return _riff_end(file, size) > size
        if head[4:8] in _FIRST_BOXES:
            return _boxes_end(file, size) > size
        if head[:4] == _EBML:
            return _segment_end(file) > size
    return False


_FIRST_BOXES = (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip")
_EBML, _SEGMENT = b"\x1a\x45\xdf\xa3", b"\x18\x53\x80\x67"


def _riff_end(file: BinaryIO, size: int) -> int:
    end = 0
    while end + 12 <= size:
        file.seek(end)
        name, length = struct.unpack("<4sI", file.read(8))
        if name != b"RIFF":
            return end  # something else after the video
        end += 8 + length
    return end


def _boxes_end(file: BinaryIO, size: int) -> int:
    """Return where the last box of an MP4 or MOV file ends: four bytes of length, four of type, content."""
    end = 0
    while end + 8 <= size:
        file.seek(end)
        length, _ = struct.unpack(">I4s", file.read(8))
        if length == 1:
            length = int.from_bytes(file.read(8), "big")
        if length == 0:  # to the end of the file
            return size
        if length < 8:
            return end
        end += length
    return end if end >= size else size + 1  # less than the head of a box is left


def _segment_end(file: BinaryIO) -> int:
    """Return where the segment of a Matroska file ends, which holds all frames; 0 if it does not say."""
    file.seek(4)
    start, header = _variable_length(file)
    if header is None:
        return 0
    file.seek(start + header)
    if file.read(4) != _SEGMENT:
        return 0
    start, length = _variable_length(file)
    return 0 if length is None else start + length


def _variable_length(file: BinaryIO) -> tuple[int, int | None]:
    """Read a length of EBML; return where the content begins, and the length, ``None`` if it is not known."""
    first = file.read(1)
    count = 9 - first[0].bit_length() if first and first[0] else 0  # leading zeros say how many bytes it has
    if count == 0:
        return file.tell(), None
    value = int.from_bytes(bytes([first[0] & (0xFF >> count)]) + file.read(count - 1), "big")
    return file.tell(), None if value == (1 << (7 * count)) - 1 else value


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
