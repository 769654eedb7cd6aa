"""Small ROS bags for the tests, written by rosbags: two image topics and their ``camera_info``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
import pytest

pytest.importorskip("rosbags", reason="needs rosbags: pip install 'scotopic[ros]'")

from rosbags.rosbag1 import Writer as Writer1
from rosbags.rosbag2 import StoragePlugin
from rosbags.rosbag2 import Writer as Writer2
from rosbags.typesys import Stores, get_typestore

FORMATS = ("bag", "mcap", "db3")
LEFT, RIGHT = "/stereo/left/image_raw", "/stereo/right/image_raw"
BASELINE, FOCAL = 0.12, 80.0  # meters, px
START = 1_700_000_000_000_000_000  # ns


def header(store: Any, stamp: int, is_ros2: bool) -> Any:
    seconds, nanoseconds = divmod(stamp, 10**9)
    time = store.types["builtin_interfaces/msg/Time"](sec=seconds, nanosec=nanoseconds)
    kind = store.types["std_msgs/msg/Header"]
    return kind(stamp=time, frame_id="camera") if is_ros2 else kind(seq=0, stamp=time, frame_id="camera")


def image_message(store: Any, image: np.ndarray, stamp: int, encoding: str, is_ros2: bool) -> Any:
    """An uncompressed image, or a compressed one if the encoding is the suffix of a file, such as ``.png``."""
    if encoding.startswith("."):
        pixels = image if image.ndim == 2 else image[:, :, ::-1]
        data = np.frombuffer(cv2.imencode(encoding, pixels)[1].tobytes(), np.uint8)
        kind = store.types["sensor_msgs/msg/CompressedImage"]
        return kind(header=header(store, stamp, is_ros2), format=f"rgb8; {encoding[1:]} compressed", data=data)
    return store.types["sensor_msgs/msg/Image"](
        header=header(store, stamp, is_ros2), height=image.shape[0], width=image.shape[1], encoding=encoding,
        is_bigendian=0, step=image.nbytes // image.shape[0], data=np.frombuffer(image.tobytes(), np.uint8),
    )  # fmt: skip


def camera_message(store: Any, size: tuple[int, int], offset: float, is_ros2: bool, focal: float = FOCAL) -> Any:
    """The calibration of a camera that sits `offset` meters to the right of the left one; images are rectified."""
    height, width = size
    matrix = [focal, 0, (width - 1) / 2, 0, focal, (height - 1) / 2, 0, 0, 1]
    rows = np.array(matrix).reshape(3, 3)
    projection = np.hstack([rows, [[-focal * offset], [0], [0]]]).ravel()
    values = {"d": np.zeros(5), "k": np.array(matrix, np.float64), "r": np.eye(3).ravel(), "p": projection}
    region = store.types["sensor_msgs/msg/RegionOfInterest"](
        x_offset=0, y_offset=0, height=0, width=0, do_rectify=False
    )
    return store.types["sensor_msgs/msg/CameraInfo"](
        header=header(store, START, is_ros2), height=height, width=width, distortion_model="plumb_bob", binning_x=0,
        binning_y=0, roi=region, **{name if is_ros2 else name.upper(): value for name, value in values.items()},
    )  # fmt: skip


def write_bag(
    path: Path,
    views: tuple[Sequence[np.ndarray], Sequence[np.ndarray]],
    *,
    stamps: tuple[Sequence[int], Sequence[int]] | None = None,
    headers: tuple[Sequence[int], Sequence[int]] | None = None,
    encoding: str = "mono8",
    topics: tuple[str, str] = (LEFT, RIGHT),
    with_cameras: bool = True,
    focals: Sequence[float] = (FOCAL,),
    compress: bool = False,
) -> Path:
    """Write a bag and return its path: of ROS 1 for ``.bag``, else of ROS 2, one file as ``ros2 bag record`` has it.

    `stamps` are the times of the recording, and of the headers too if there are no `headers`. With the first frames
    there is a ``camera_info`` each, of these focal lengths.
    """
    is_ros2 = path.suffix != ".bag"
    store = get_typestore(Stores.ROS2_HUMBLE if is_ros2 else Stores.ROS1_NOETIC)
    pack = store.serialize_cdr if is_ros2 else store.serialize_ros1
    times = stamps or tuple([START + 100_000_000 * number for number in range(len(view))] for view in views)
    messages: list[tuple[int, str, Any]] = []
    for topic, view, moments, taken, offset in zip(
        topics, views, times, headers or times, (0.0, BASELINE), strict=True
    ):
        if with_cameras and len(view):
            name = f"{topic.removesuffix('/compressed').rpartition('/')[0]}/camera_info"
            for moment, focal in zip(moments, focals, strict=False):
                messages.append((moment, name, camera_message(store, view[0].shape[:2], offset, is_ros2, focal)))
        for image, moment, at in zip(view, moments, taken, strict=True):
            messages.append((moment, topic, image_message(store, image, at, encoding, is_ros2)))
    target = path if not is_ros2 else path.with_suffix(".folder")
    if is_ros2:
        plugin = StoragePlugin.MCAP if path.suffix == ".mcap" else StoragePlugin.SQLITE3
        writer: Any = Writer2(target, version=9, storage_plugin=plugin)
        if compress:
            from rosbags.rosbag2 import CompressionFormat, CompressionMode

            writer.set_compression(CompressionMode.STORAGE, CompressionFormat.ZSTD)
    else:
        writer = Writer1(target)
        if compress:
            writer.set_compression(Writer1.CompressionFormat.LZ4)
    with writer:
        known: dict[str, Any] = {}
        for moment, topic, message in sorted(messages, key=lambda each: each[0]):
            kind = message.__msgtype__
            if topic not in known:
                known[topic] = writer.add_connection(topic, kind, typestore=store)
            writer.write(known[topic], moment, pack(message, kind))
    if is_ros2:
        (file,) = [each for each in target.iterdir() if each.suffix == path.suffix]
        path.write_bytes(file.read_bytes())
    return path


def folder_of(path: Path) -> Path:
    """The folder that ROS 2 would have written for a bag."""
    return path.with_suffix(".folder")


def camera_info(**changes: Any) -> SimpleNamespace:
    """A ``sensor_msgs/CameraInfo`` of ROS 2, of a rectified camera of 640 x 480 px."""
    matrix = np.array([[500.0, 0, 320], [0, 500, 240], [0, 0, 1]])
    fields: dict[str, Any] = {
        "width": 640, "height": 480, "distortion_model": "plumb_bob", "d": np.zeros(5), "k": matrix.ravel(),
        "r": np.eye(3).ravel(), "p": np.hstack([matrix, np.zeros((3, 1))]).ravel(), "binning_x": 0, "binning_y": 0,
        "roi": SimpleNamespace(x_offset=0, y_offset=0, width=0, height=0, do_rectify=False),
    }  # fmt: skip
    return SimpleNamespace(**{**fields, **changes})
