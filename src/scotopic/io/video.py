"""Videos: read frame by frame as recorded, and written so that they play in every browser; both by PyAV."""

import itertools
import os
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError, OutputError, PairWarning, SettingsError
from scotopic.io.atomic import atomic_path
from scotopic.io.images import TURNED, check_pixels
from scotopic.io.input_file import check_memory, explain, open_input, plain_file_size, reading
from scotopic.io.jpeg import has_damaged_codes

Picture = NDArray[np.uint8]  #: ``H x W x 3`` RGB

#: What we write: VP9 in MP4. Browsers play it, and its encoder, libvpx, has a permissive license.
CODEC = "vp9"

_ENCODER = "libvpx-vp9"
# As fast as it gets. Quality is constant (crf, without a bit rate), high enough that small text stays sharp.
_ENCODER_OPTIONS = {"deadline": "realtime", "cpu-used": "8", "row-mt": "1", "crf": "24", "b": "0"}
_CONTAINER_OPTIONS = {"movflags": "faststart"}  # the index first: players begin before they have all of it
_BT709, _LIMITED_RANGE = 1, 1  # FFmpeg's numbers of the colors that players assume of a video


# --- reading --------------------------------------------------------------------------------------------------------


class VideoFile:
    """A video file; raises :class:`InputError` if it is missing or FFmpeg cannot decode it.

    `total` frames and `fps` are ``None`` if the file does not say. `total` may be wrong by `slack`: in files that do
    not count their frames it follows from duration and rate. A frame may have `max_pixels`.
    """

    values = None  #: as recorded
    is_turned = False  #: whether a frame that was read is to be turned to be seen upright

    def __init__(self, path: Path, *, max_pixels: int | None = None) -> None:
        self.path, self.title = str(path), repr(str(path))
        size = plain_file_size(path, "a video or a folder of frames")
        container = _open_container(path)
        if container is None:
            raise InputError(
                f"{self.title} ({size} bytes) is not a video that FFmpeg can decode, or is cut short. Check that it "
                "plays, fetch it again, or convert it."
            )
        self._container, self._max_pixels = container, max_pixels
        self._times: list[float | None] = []  # of the frames that were decoded, s
        stream = container.streams.video[0]
        self._is_jpeg = stream.codec_context.name == "mjpeg"
        stream.thread_type = "SLICE" if self._is_jpeg else "AUTO"  # of JPEG a packet is a frame, at once
        try:
            self._check_size(*(max(int(side or 0), 0) for side in (stream.width, stream.height)))
            with open_input(path) as file:
                head = file.read(12)
            self._is_cut = is_cut_short(path)
        except BaseException:
            self.close()
            raise
        rate = float(stream.average_rate or stream.guessed_rate or 0)
        self.fps = rate if 0 < rate < 10_000 else None
        begin, self._end = _shown_from_to(container, stream)
        count = 0.0 if self._end is None else (self._end - begin) * rate
        by_duration = int(count + 0.5) if 0.5 <= count < 2**31 else None
        self.total = int(stream.frames) if 0 < stream.frames < 2**31 else by_duration
        is_exact = stream.frames > 0 and (head[4:8] == b"ftyp" or _is_avi(head))  # MP4, MOV and AVI count their frames
        if head[4:8] == b"ftyp" and by_duration is not None and by_duration < stream.frames:
            # A part was cut off without encoding the rest again: by a mark where to begin, the edit list.
            self.total, is_exact = by_duration, False
        self.slack = 0 if self.total is None or is_exact else max(1, self.total // 100)
        self._is_mp4 = head[4:8] == b"ftyp"

    def count_frames(self) -> None:
        """Count the frames where `total` may be far off, as it is if their rate varies; nothing is decoded."""
        # Of an MP4 file there may be more frames than are shown.
        if self.slack and not self._is_mp4 and (found := _count_frames(Path(self.path))):
            self.total = found

    def read(self, start: int) -> Iterator[NDArray[Any]]:
        """Yield the frames from number ``start`` on. Those before are decoded too: seeking is not exact.

        uint8 RGB; of a video with more than 8 bits uint16, gray or RGB (:func:`_values`).

        Raises :class:`InputError` at a frame that cannot be decoded, or of which the decoder had to invent a part. In a
        file that is cut short that is also the last frame that can: decoders fill up what is missing of it, with gray
        or with the frame before.
        """
        if not self._is_cut:
            yield from self._decode(start)
            return
        held: NDArray[Any] | None = None
        number = start
        for frame in self._decode(start):
            if held is not None:
                yield held
                number += 1
            held = frame
        raise self._broken(number, start)

    def _decode(self, start: int) -> Iterator[NDArray[Any]]:
        import av

        frames = self._frames()
        for number in itertools.count():
            cause = None
            try:
                frame, is_whole = next(frames, (None, False))
            except (av.FFmpegError, OSError, ValueError) as error:
                frame, is_whole, cause = None, False, error
            is_whole = is_whole or (frame is not None and number < start)
            if frame is None and cause is None and self._may_end(number):
                return
            if frame is None or not is_whole:
                if self._is_cut:
                    return
                raise self._broken(number, start) from cause
            self._times.append(frame.time)
            if number >= start:
                if number == start and frame.rotation:
                    self.is_turned = True
                    warnings.warn(TURNED, PairWarning, stacklevel=4)
                self._check_size(frame.width, frame.height)  # which may be another than the file announces
                with reading(self.path, "a video", "Convert it to another format."):
                    pixels = _values(frame)
                yield pixels

    def _frames(self) -> Iterator[tuple[Any, bool]]:
        """Yield the frames as FFmpeg decodes them, and whether nothing of them was invented, as far as can be known.

        Of a file that is cut short only the last one can be damaged, which :meth:`read` knows.
        """
        import av

        is_first = True
        for packet in self._container.demux(video=0):
            is_whole = self._is_cut or not (self._is_jpeg and packet.size and has_damaged_codes(bytes(packet)))
            try:
                decoded = packet.decode()
            except av.FFmpegError:
                if is_first:  # a recording may begin between two frames that stand by themselves
                    continue
                raise
            for frame in decoded:
                is_first = False
                yield frame, is_whole and (self._is_cut or not frame.is_corrupt)

    def _may_end(self, number: int) -> bool:
        """Return whether a file can be whole that has so many frames."""
        if self.total is None or number >= self.total - self.slack:
            return number > 0
        # Where the frames are not counted, their rate may vary.
        last = self._times[-1] if self._times and self.slack else None
        return last is not None and self._end is not None and last >= self._end - 2 * self.slack / (self.fps or 25)

    def _check_size(self, width: int, height: int) -> None:
        check_pixels(self.title, width, height, self._max_pixels)
        check_memory(self.title, f"frames of {width} x {height} px", 12 * width * height)

    def _broken(self, number: int, start: int) -> InputError:
        fewer = f", or pass count={number - start} to take the frames before it" if number > start else ""
        return InputError(
            f"Frame {number} of {self.title} cannot be read. The file announces {self.total or 'at least 1'} frames, "
            f"so it is broken or cut short. Fetch it again{fewer}."
        )

    def time(self, number: int) -> float | None:
        """Return when a frame that was read is shown, in seconds after the first; ``None`` if the file does not say."""
        first, time = self._times[0], self._times[number]
        return None if first is None or time is None else time - first

    def name(self, number: int) -> None:
        """Return ``None``: a frame of a video has no file of its own."""

    def close(self) -> None:
        """Close the file."""
        self._container.close()


def _open_container(path: Path) -> Any:
    """Open a video by PyAV; return ``None`` if it cannot, or if there is no picture in it."""
    import av

    # From PyAV 19 on metadata that are no text do no harm; before, they are to be ignored.
    ignoring: dict[str, Any] = {} if int(av.__version__.split(".")[0]) >= 19 else {"metadata_errors": "ignore"}
    with suppress(av.FFmpegError, OSError, ValueError):
        container = av.open(os.path.abspath(path), **ignoring)
        if container.streams.video and container.streams.video[0].codec_context is not None:
            return container
        container.close()
    return None


def _shown_from_to(container: Any, stream: Any) -> tuple[float, float | None]:
    """Return the time of the first frame, in seconds, and that at which a file says that it ends, if it does."""
    begin = 0.0 if container.start_time is None else container.start_time / 1e6
    if stream.duration is not None and stream.time_base is not None:
        return begin, begin + float(stream.duration * stream.time_base)
    if container.duration is None:
        return begin, None
    # What Matroska calls the duration is the time of the end.
    is_end = "matroska" in container.format.name
    return begin, container.duration / 1e6 + (0.0 if is_end else begin)


def _values(frame: Any) -> NDArray[Any]:
    """Return what a frame holds.

    That is uint8 RGB, converted where it is stored otherwise. With more than 8 bits it is uint16: gray, and colors
    that are stored as red, green and blue, as they are; others as RGB over the full scale of 65535.
    """
    form, parts = frame.format, frame.format.components
    if max(part.bits for part in parts) <= 8:
        return np.asarray(frame.to_ndarray(format="rgb24"))
    kept = parts[:3] if form.is_rgb else parts[:1]
    is_gray = len(parts) == 1
    if (is_gray or (form.is_rgb and len({part.plane for part in kept}) == 3)) and _holds_low_bits(form):
        planes = [_plane(frame, part.plane, ">u2" if form.is_big_endian else "<u2") for part in kept]
        return planes[0] if is_gray else np.stack(planes, axis=-1)
    return np.asarray(frame.to_ndarray(format="gray16le" if is_gray else "rgb48le"))


def _holds_low_bits(form: Any) -> bool:
    """Whether a value is a whole number in the lowest bits of two bytes."""
    return all(8 < part.bits <= 16 for part in form.components) and "msb" not in form.name


def _plane(frame: Any, number: int, kind: str) -> NDArray[np.uint16]:
    plane = frame.planes[number]
    rows = np.frombuffer(plane, kind).reshape(-1, plane.line_size // 2)  # with what fills up a row
    return np.ascontiguousarray(rows[: frame.height, : frame.width], np.uint16)


def is_video(head: bytes) -> bool:
    """Return whether a file that begins with these 12 bytes is an AVI, MP4, MOV, Matroska or WebM video.

    FFmpeg opens far more, among it playlists, which name other files; those of strangers must not get there.
    """
    return _is_avi(head) or head[4:8] in _FIRST_BOXES or head[:4] == _EBML


def _is_avi(head: bytes) -> bool:
    return (head[:4], head[8:12]) == (b"RIFF", b"AVI ")


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


# --- writing --------------------------------------------------------------------------------------------------------


class VideoWriter:
    """Writes pictures of one size to a temporary file that will be at `path`; made by :func:`video_file`.

    `frames` counts the pictures that were written.
    """

    def __init__(self, path: Path, temporary: Path, fps: float) -> None:
        import av

        self.path, self.codec, self.fps, self.frames = path, CODEC, fps, 0
        self._temporary = temporary
        with self._failing():
            self._container = av.open(str(temporary), "w", format="mp4", options=_CONTAINER_OPTIONS)
            try:
                rate = Fraction(fps).limit_denominator(1001)  # 30000 / 1001 is the rate of American television
                stream = self._container.add_stream(_ENCODER, rate=rate, options=_ENCODER_OPTIONS)
            except ValueError as error:
                raise OutputError(
                    f"This PyAV has no encoder {_ENCODER}, which the video needs. Install PyAV from PyPI: pip install "
                    "--force-reinstall av."
                ) from error
        self._stream = cast(Any, stream)  # to the types it could be one of sound
        self._stream.pix_fmt = "yuv420p"  # the one that all players have
        context = self._stream.codec_context
        context.color_primaries = context.color_trc = context.colorspace = _BT709
        context.color_range = _LIMITED_RANGE

    def write(self, picture: Picture) -> None:
        """Append a picture, ``(H, W, 3)`` RGB, padded with black to the even sides that the codec needs."""
        import av

        height, width = picture.shape[:2]
        padded = np.pad(picture, ((0, height % 2), (0, width % 2), (0, 0)))
        if self.frames == 0:
            self._stream.height, self._stream.width = padded.shape[:2]
        frame = av.VideoFrame.from_ndarray(padded, format="rgb24")
        with self._failing():
            converted = frame.reformat(format="yuv420p", dst_colorspace=_BT709, dst_color_range=_LIMITED_RANGE)
            self._container.mux(self._stream.encode(converted))
        self.frames += 1

    def finish(self) -> None:
        """Complete the file, and check that all of it is there."""
        with self._failing():
            try:
                if self.frames:
                    self._container.mux(self._stream.encode())
            finally:
                self._container.close()
        found = _count_frames(self._temporary)
        if found != self.frames:
            raise OutputError(
                f"Writing {str(self.path)!r} failed: it has {found} of {self.frames} frames. Free some space or choose "
                "another folder."
            )

    def drop(self) -> None:
        """Close the file, whatever state it is in: it will be removed."""
        with suppress(Exception):
            self._container.close()

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Turn what FFmpeg raises into our error."""
        import av

        try:
            yield
        except (av.FFmpegError, OSError) as error:
            raise OutputError(
                f"Writing {str(self.path)!r} failed: {explain(error)}. Free some space or choose another folder."
            ) from error


@contextmanager
def video_file(path: Path, fps: float) -> Iterator[VideoWriter]:
    """Write a video under a temporary name. However the block ends, the pictures written so far become a whole video.

    `path` ends in ``.mp4``; `fps` is pictures per second. Raises :class:`SettingsError` if `fps` is out of range, and
    :class:`OutputError` if the file cannot be written.
    """
    if not 0.01 <= fps <= 1000:
        raise SettingsError(f"fps={fps:g} is not a usable rate. Choose 0.01 to 1000 pictures per second.")
    stopped: BaseException | None = None
    with atomic_path(path) as temporary:
        writer = VideoWriter(path, temporary, fps)
        try:
            yield writer
        except BaseException as error:
            if writer.frames == 0:
                writer.drop()
                raise
            stopped = error
        writer.finish()
    if stopped is not None:
        raise stopped


def _count_frames(path: Path) -> int:
    """Return how many frames a video holds, without decoding them; 0 if it cannot be opened."""
    import av

    container = _open_container(path)
    if container is None:
        return 0
    with suppress(av.FFmpegError, OSError), container:
        return sum(packet.size > 0 for packet in container.demux(video=0))
    return 0
