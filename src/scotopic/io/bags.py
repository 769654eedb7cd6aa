"""ROS bags: the images of one topic as frames, and the ``camera_info`` beside them.

ROS 1 ``.bag``, ROS 2 ``.mcap`` and ``.db3``, and the folders that ROS 2 writes, read by the package rosbags. A view is
named as ``drive.mcap:/left/image_raw``. Messages are decoded by the definitions that rosbags ships, never by those in
the file, and compressed parts may not take more memory than any other input.
"""

import os
import struct
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError
from scotopic.io.image_messages import image_from_message
from scotopic.io.images import as_image
from scotopic.io.input_file import memory_limit, plain_file_size, reading
from scotopic.optional import import_optional

BAG_SUFFIXES = (".bag", ".mcap", ".db3")
IMAGE_TYPES = ("sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage")
CAMERA_TYPE = "sensor_msgs/msg/CameraInfo"
#: Largest difference of the times of two frames of a pair, in ns; also at most half of the time between two frames.
TOLERANCE = 20_000_000

_METADATA = "metadata.yaml"  # in the folder of a ROS 2 bag
_METADATA_LIMIT = 2**24  # bytes
_LEAST_IN_ORDER = 0.75  # of the frames, whose headers have times that grow; else the times of the recording are taken
_PIECE = 2**24  # bytes that are decompressed at once
_STAMP_END = 12  # bytes of a message up to the end of the time in its header
_ADVICE = "Check it with 'ros2 bag info' or 'rosbag info', reindex it, or fetch it again."


# --- names ----------------------------------------------------------------------------------------------------------


def is_bag(path: Path) -> bool:
    """Return whether a path looks like a bag: by its suffix, or as a folder with ``metadata.yaml``."""
    return path.suffix.lower() in BAG_SUFFIXES or os.path.isfile(path / _METADATA)


def split_topic(path: Path) -> tuple[Path, str] | None:
    """Return bag and topic of ``drive.mcap:/left/image_raw``; ``None`` if the path does not name a topic of a bag."""
    bag, _, topic = path.as_posix().rpartition(":/")
    if not bag or os.path.lexists(path) or not (is_bag(Path(bag)) or os.path.isdir(bag)):
        return None
    return Path(bag), f"/{topic}"


def camera_info_topic(topic: str) -> str:
    """Return where ROS's drivers publish the calibration of the camera whose images a topic has: beside them."""
    name = topic.removesuffix("/compressed")
    return f"{name.rpartition('/')[0]}/camera_info"


# --- one topic ------------------------------------------------------------------------------------------------------


class BagTopic:
    """The images of one topic of a bag, as frames.

    Raises :class:`InputError` if the bag cannot be read or has no such images, and :class:`ScotopicError` if rosbags is
    not installed.

    Attributes
    ----------
    recorded
        The time in ns at which each message was recorded.
    stamps
        The time of each frame in ns: that of its header, without frames that came late, twice or without a time; or
        that of its recording, if these are more than a few.
    by_header
        Whether `stamps` are those of the headers.
    camera_info
        The calibration in the ``camera_info`` beside the images; ``None`` if there is none, or if it changes.
    """

    slack, values = 0, None

    def __init__(self, bag: Path, topic: str) -> None:
        self.path = f"{bag}:{topic}"
        self.title = repr(self.path)
        self._bag, self._reader = bag, _open_reader(bag)
        try:
            self._connections = self._find(topic)
            self._is_ros2 = _is_ros2(bag)
            written, self.recorded = self._read_stamps()
            self._kept = _in_order(written)
            self.stamps, self.by_header = [written[number] for number in self._kept], True
            if len(self._kept) < _LEAST_IN_ORDER * len(written):
                self.use_recording_times()
            infos = _camera_infos(bag, self._reader, camera_info_topic(topic))
            self.camera_info = infos[0][1] if len(infos) == 1 else None
        except BaseException:
            self.close()
            raise

    @property
    def total(self) -> int:
        """How many frames there are."""
        return len(self._kept)

    @property
    def fps(self) -> float | None:
        """Frames per second, on average, those that form no pair included; ``None`` if there are fewer than two."""
        span = self.recorded[-1] - self.recorded[0]
        return 1e9 * (len(self.recorded) - 1) / span if span > 0 else None

    def keep(self, numbers: list[int]) -> None:
        """Leave out all frames but these."""
        self.stamps = [self.stamps[number] for number in numbers]
        self._kept = [self._kept[number] for number in numbers]

    def read(self, start: int) -> Iterator[NDArray[Any]]:
        """Yield the frames from number ``start`` on, decoding each when it is needed."""
        number = start
        for index, (raw, kind, _) in enumerate(self._messages(self._connections)):
            if number >= self.total:
                return
            if index < self._kept[number]:
                continue
            title = f"Frame {number} of {self.title}"
            with reading(title, "an image message", _ADVICE):
                frame = image_from_message(_decode(raw, kind, self._is_ros2), title)
                if frame.dtype.kind == "f":
                    as_image(frame, "", title=title)  # raises if values are not finite or not scaled
            yield frame
            number += 1

    def name(self, number: int) -> str:
        """Return the time of a frame in seconds, as ROS writes it."""
        return "{}.{:09d}".format(*divmod(self.stamps[number], 10**9))

    def time(self, number: int) -> float:
        """Return the time of a frame in seconds."""
        return self.stamps[number] / 1e9

    def close(self) -> None:
        """Close the bag."""
        with reading(self._bag, "a bag", _ADVICE):
            self._reader.close()

    def _find(self, topic: str) -> list[Any]:
        found = [each for each in self._reader.connections if each.topic == topic]
        images = [each for each in found if each.msgtype in IMAGE_TYPES]
        if images:
            return images
        known = image_topics(self._reader)
        has = f"images in {', '.join(known)}" if known else "no topic with images"
        kind = f"{str(found[0].msgtype)[:60]} messages, not images" if found else "no messages"
        raise InputError(f"{str(self._bag)!r} has {kind} in {topic[:200]!r}. It has {has}.")

    def _messages(self, connections: list[Any]) -> Iterator[tuple[bytes, str, int]]:
        with reading(self._bag, "a bag", _ADVICE):
            for connection, time, raw in self._reader.messages(connections=connections):
                yield raw, connection.msgtype, time

    def use_recording_times(self) -> None:
        """Take the times of the recording, whatever the headers say."""
        self.by_header, self.stamps, self._kept = False, self.recorded, list(range(len(self.recorded)))

    def _read_stamps(self) -> tuple[list[int], list[int]]:
        """Return the times in the headers, 0 where there is none, and those of the recording."""
        written, recorded = [], []
        for raw, _, time in self._messages(self._connections):
            written.append(_header_stamp(raw, self._is_ros2))
            recorded.append(time)
        if not recorded:
            raise InputError(f"{self.title} has no frames. Record it again.")
        return written, recorded


def _in_order(times: list[int]) -> list[int]:
    """Return the numbers of the frames whose times grow, as many as there can be, without those that have no time."""
    ends: list[int] = []  # the least time at which one, two, three ... frames in order end,
    last: list[int] = []  # and the number of the frame that has it
    before: dict[int, int] = {}
    for number, time in enumerate(times):
        if time > 0:
            place = bisect_left(ends, time)
            ends[place : place + 1], last[place : place + 1] = [time], [number]
            if place:
                before[number] = last[place - 1]
    found = last[-1:]
    while found and found[-1] in before:
        found.append(before[found[-1]])
    return found[::-1]


def read_camera_info(bag: Path, topic: str) -> Any:
    """Return the calibration in a ``camera_info`` topic of a bag; raise :class:`InputError` if there is not one."""
    with closing(_open_reader(bag)) as reader:
        found = _camera_infos(bag, reader, topic)
        if not found:
            known = sorted({str(each.topic) for each in reader.connections if each.msgtype == CAMERA_TYPE})
            has = f"It has {', '.join(known)}." if known else "It has no calibration at all."
            raise InputError(f"{str(bag)!r} has no camera_info in {topic[:200]!r}. {has}")
    if len(found) > 1:  # zoom, another resolution, or calibrated on the way
        (begin, _), (change, _) = found
        raise InputError(
            f"The calibration in {topic[:200]!r} of {str(bag)!r} changes {(change - begin) / 1e9:.3f} s after its "
            "first message, so it is not that of all frames. Cut the bag there, or give a calibration file."
        )
    return found[0][1]


def camera_info_paths(left: Path, right: Path) -> list[Path]:
    """Return ``BAG:TOPIC`` of the calibrations beside two image topics, for ``read_calibration``.

    Nothing if the two are not topics of bags, or not both have a calibration.
    """
    paths = []
    for view in (left, right):
        named = split_topic(view)
        if named is None:
            return []
        topic = camera_info_topic(named[1])
        with closing(_open_reader(named[0])) as reader:
            infos = _camera_infos(named[0], reader, topic)
        if not any(np.any(info.p if hasattr(info, "p") else info.P) for _, info in infos):  # zeros: not calibrated
            return []
        paths.append(Path(f"{named[0]}:{topic}"))
    return paths


def _camera_infos(bag: Path, reader: Any, topic: str) -> list[tuple[int, Any]]:
    """Return the first message of a ``camera_info`` topic, and the first one that differs from it, with their times."""
    found: list[tuple[int, Any]] = []
    connections = [each for each in reader.connections if (each.topic, each.msgtype) == (topic, CAMERA_TYPE)]
    if not connections:
        return found
    last = b""
    with reading(f"{bag}:{topic}", "a camera_info message", _ADVICE):
        for _, time, raw in reader.messages(connections=connections):
            if raw[_STAMP_END:] != last:
                last, info = raw[_STAMP_END:], _decode(raw, CAMERA_TYPE, _is_ros2(bag))
                if not found or not _is_same_camera(found[0][1], info):
                    found.append((time, info))
            if len(found) > 1:
                break
    return found


def _is_same_camera(one: Any, other: Any) -> bool:
    """Whether two messages have the same calibration, but for rounding."""
    numbers = [
        np.concatenate(
            [
                np.ravel([getattr(info, name) for name in ("width", "height", "binning_x", "binning_y")]),
                np.ravel([getattr(info.roi, name) for name in ("x_offset", "y_offset", "width", "height")]),
                *(np.ravel(getattr(info, name, getattr(info, name.upper(), ()))) for name in "dkrp"),
            ]
        )
        for info in (one, other)
    ]
    first, second = numbers
    return first.shape == second.shape and bool(np.allclose(first, second, rtol=1e-4, atol=1e-6, equal_nan=True))


def _decode(raw: bytes, kind: str, is_ros2: bool) -> Any:
    store = _types(is_ros2)
    return store.deserialize_cdr(raw, kind) if is_ros2 else store.deserialize_ros1(raw, kind)


def _is_ros2(bag: Path) -> bool:
    return bag.suffix.lower() != ".bag" or os.path.isdir(bag)


def _header_stamp(raw: bytes, is_ros2: bool) -> int:
    """Return the time in the header, in ns, without decoding the image after it; 0 if there is none."""
    # ROS 2: four bytes about the encoding, of which the second says if it is little-endian. ROS 1: a sequence number.
    order = ">" if is_ros2 and raw[1:2] == b"\x00" else "<"
    if len(raw) < _STAMP_END:
        return 0
    seconds, nanoseconds = struct.unpack_from(f"{order}II", raw, 4)
    return int(seconds) * 10**9 + int(nanoseconds)


def image_topics(reader: Any) -> list[str]:
    """Return the topics of an open bag that hold images."""
    return sorted({str(each.topic) for each in reader.connections if each.msgtype in IMAGE_TYPES})


def open_topic(path: Path) -> BagTopic:
    """Open ``drive.mcap:/left/image_raw``; raise :class:`InputError`, which lists the topics, if none is named."""
    named = split_topic(path)
    if named is not None:
        return BagTopic(*named)
    reader = _open_reader(path)
    with reading(path, "a bag", _ADVICE):
        topics = image_topics(reader)
        reader.close()
    has = f"It has images in {', '.join(topics)}." if topics else "It has no images."
    example = topics[0] if topics else "/left/image_raw"
    raise InputError(f"{str(path)!r} is a bag. Say which topic of it, such as '{path}:{example}'. {has}")


# --- two topics -----------------------------------------------------------------------------------------------------


def pair_by_time(left: BagTopic, right: BagTopic) -> None:
    """Leave in two views only the frames that were taken together, so that frames with one number form a pair.

    Cameras drop frames, each its own, so the number of a message says little. Both times are of one clock, that of the
    headers or, unless both views have those, that of the recording. A pair's times differ by at most
    :data:`TOLERANCE`, and by at most half of the time between two frames. Raises :class:`InputError` if there are none.
    """
    if left.by_header != right.by_header:  # a recording is later than the camera, perhaps by a whole frame
        left.use_recording_times()
        right.use_recording_times()
    tolerance = min(TOLERANCE, *(_period(view.stamps) // 2 for view in (left, right)))
    pairs: list[tuple[int, int]] = []
    first = second = 0
    while first < len(left.stamps) and second < len(right.stamps):
        later = left.stamps[first] - right.stamps[second]
        if abs(later) > tolerance:
            first, second = first + (later < 0), second + (later > 0)
        # The times of a recording jitter: the next frame of one view may be nearer than this one.
        elif second + 1 < len(right.stamps) and abs(left.stamps[first] - right.stamps[second + 1]) < abs(later):
            second += 1
        elif first + 1 < len(left.stamps) and abs(left.stamps[first + 1] - right.stamps[second]) < abs(later):
            first += 1
        else:
            pairs.append((first, second))
            first, second = first + 1, second + 1
    if not pairs:
        times = [np.array(view.stamps[:1000], np.float64) for view in (left, right)]
        nearest = np.abs(np.subtract.outer(*times)).min() / 1e6
        raise InputError(
            f"No two frames of {left.title} and {right.title} were taken within {tolerance / 1e6:.3g} ms; the nearest "
            f"are {nearest:.3g} ms apart. Check that the topics are of one rig, and that its cameras are synchronized."
        )
    left.keep([pair[0] for pair in pairs])
    right.keep([pair[1] for pair in pairs])


def _period(stamps: list[int]) -> int:
    """Return the median time between two frames."""
    return int(np.median(np.diff(stamps))) if len(stamps) > 1 else 2 * TOLERANCE


# --- rosbags --------------------------------------------------------------------------------------------------------


def _open_reader(bag: Path) -> Any:
    rosbags = _rosbags()
    if os.path.isdir(bag):
        if not os.path.isfile(bag / _METADATA):
            raise InputError(f"{str(bag)!r} is a folder without {_METADATA}, so not a bag of ROS 2.")
        for path in bag.iterdir():
            if path.name == _METADATA and plain_file_size(path, "a bag") > _METADATA_LIMIT:
                raise InputError(f"{str(path)!r} is too large to describe a bag. {_ADVICE}")
            if not os.path.isdir(path):
                plain_file_size(path, "a bag")  # no pipe, which nobody writes to
    elif plain_file_size(bag, "a bag") == 0:
        raise InputError(f"{str(bag)!r} is empty. {_ADVICE}")
    kind = rosbags.Reader2 if _is_ros2(bag) else rosbags.Reader1
    with reading(bag, "a bag", _ADVICE):
        reader = kind(bag)
        reader.open()
        if getattr(reader, "compression_mode", None) == "message":
            reader.close()
            raise InputError(
                f"{str(bag)!r} is compressed message by message, which is not read here. Convert it with 'ros2 bag "
                "convert'."
            )
    return reader


@cache
def _rosbags() -> SimpleNamespace:
    """Import rosbags, and limit the memory that what it decompresses may take."""
    import_optional("rosbags", "ros", "Reading bags")
    import bz2
    import sys

    from lz4.frame import LZ4FrameDecompressor  # comes with rosbags, like zstd
    from rosbags.rosbag1 import Reader as Reader1
    from rosbags.rosbag1.reader import decompressors
    from rosbags.rosbag2 import Reader as Reader2
    from rosbags.rosbag2.storage_mcap import DECOMPRESSORS

    if sys.version_info >= (3, 14):
        from compression.zstd import ZstdDecompressor
    else:
        from backports.zstd import ZstdDecompressor

    makers: dict[str, Callable[[], Any]] = {
        "bz2": bz2.BZ2Decompressor, "lz4": LZ4FrameDecompressor, "zstd": ZstdDecompressor,
    }  # fmt: skip
    for table in (decompressors, DECOMPRESSORS):
        for name in [name for name in table if name in makers]:
            table[name] = _limited(makers[name])
    return SimpleNamespace(Reader1=Reader1, Reader2=Reader2)


def _limited(make: Callable[[], Any]) -> Callable[..., bytes]:
    """Return a function that decompresses as rosbags' own does, but never more than the memory that is allowed."""

    def decompress(data: bytes, _announced: int = 0) -> bytes:
        limit, total, pieces = memory_limit(), 0, []
        while data:  # one frame after the other
            decoder = make()
            while not decoder.eof:
                piece = decoder.decompress(data, max_length=_PIECE)
                data, total = b"", total + len(piece)
                if total > limit:
                    raise InputError(
                        f"A part of the bag decompresses to more than {limit / 2**30:.3g} GiB. Check the bag or, if it "
                        "is right, set the environment variable SCOTOPIC_MAX_GIB."
                    )
                if not piece and decoder.needs_input:
                    raise EOFError("compressed data are cut short")
                pieces.append(piece)
            data = decoder.unused_data or b""
        return b"".join(pieces)

    return decompress


@cache
def _types(is_ros2: bool) -> Any:
    from rosbags.typesys import Stores, get_typestore

    return get_typestore(Stores.ROS2_HUMBLE if is_ros2 else Stores.ROS1_NOETIC)
