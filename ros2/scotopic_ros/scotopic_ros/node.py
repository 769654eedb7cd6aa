"""The node: stereo images in, disparity, depth and confidence out.

Pairs are matched in a thread of their own. While one is matched, only the latest of those that arrive is kept, so that
a slow machine drops frames instead of falling behind. Nothing is matched while nobody listens.
"""

import array
import threading
import traceback
import warnings
from typing import Any

import message_filters
import rclpy
from rcl_interfaces.msg import ParameterDescriptor, SetParametersResult
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import CameraInfo, CompressedImage, Image
from stereo_msgs.msg import DisparityImage

from scotopic import Matcher
from scotopic.backends.device import resolve_device
from scotopic.depth import calibration_from_camera_info, rectify
from scotopic.errors import DarkImageWarning, PairWarning, ScotopicError, SettingsError
from scotopic.interop import confidence_image, depth_image, disparity_image
from scotopic.interop.ros import DEPTH_ENCODINGS
from scotopic.io.image_messages import image_from_message
from scotopic.result import Match
from scotopic.settings import Settings, describe_settings, make_settings
from scotopic.warmup import warm_up
from scotopic_ros.latest import Latest

#: Parameters that are fixed when the node starts: default and meaning.
FIXED: dict[str, tuple[Any, str]] = {
    "preset": ("best", "best, fast or paper"),
    "device": ("auto", "auto, cpu or cuda"),
    "depth_encoding": ("32FC1", "32FC1: meters, NaN where there is none; 16UC1: millimeters, 0 where there is none"),
    "rectify": (False, "rectify the images by their camera_info first"),
    "image_transport": ("raw", "raw, or compressed for CompressedImage topics"),
    "sync_tolerance": (0.01, "largest difference of the times of a pair, seconds"),
    "queue_size": (5, "messages of each topic that are kept to find pairs among them"),
}
_DEFAULT_MAX_DISPARITY = 128  # what None stands for, unless images are narrower; ROS has no None
_QUIET_SECONDS = 10.0  # between two equal lines of the log


class StereoNode(Node):
    """Subscribes to a rectified pair and its ``camera_info``, and publishes what :class:`scotopic.Matcher` finds."""

    def __init__(self) -> None:
        super().__init__("scotopic")
        fixed = {
            name: self.declare_parameter(name, default, ParameterDescriptor(description=meaning, read_only=True)).value
            for name, (default, meaning) in FIXED.items()
        }
        self._preset, self._device, self._rectify = fixed["preset"], fixed["device"], fixed["rectify"]
        self._depth_encoding = fixed["depth_encoding"]
        resolve_device(self._device)  # raises if there is no such device
        if self._depth_encoding not in DEPTH_ENCODINGS:
            raise SettingsError(f"depth_encoding is {self._depth_encoding!r}. Choose {' or '.join(DEPTH_ENCODINGS)}.")
        if fixed["image_transport"] not in ("raw", "compressed"):
            raise SettingsError(f"image_transport is {fixed['image_transport']!r}. Choose raw or compressed.")
        self._defaults: dict[str, Any] = {}
        self._values: dict[str, Any] = {}
        for setting in describe_settings(make_settings(self._preset)):
            if setting.is_public:
                default = _DEFAULT_MAX_DISPARITY if setting.value is None else setting.value
                descriptor = ParameterDescriptor(description=setting.meaning)
                self._defaults[setting.name] = default
                self._values[setting.name] = self.declare_parameter(setting.name, default, descriptor).value
        self._settings = self._make_settings(self._values)
        self.add_on_set_parameters_callback(self._on_parameters)

        self._disparity = self.create_publisher(DisparityImage, "disparity", 1)
        self._depth = self.create_publisher(Image, "depth", 1)
        self._confidence = self.create_publisher(Image, "confidence", 1)
        self._matcher: Matcher | None = None
        self._made_for: tuple[Settings, tuple[int, ...]] | None = None
        self._received = self._dropped = 0
        self._latest: Latest[tuple[Any, Any, Any, Any]] = Latest()
        self._worker = threading.Thread(target=self._work, name="scotopic", daemon=True)
        self._worker.start()

        is_raw = fixed["image_transport"] == "raw"
        kind, ending = (Image, "") if is_raw else (CompressedImage, "/compressed")
        topics = [(kind, f"left/image_rect{ending}"), (kind, f"right/image_rect{ending}")]
        topics += [(CameraInfo, "left/camera_info"), (CameraInfo, "right/camera_info")]
        self._subscribers = [
            message_filters.Subscriber(self, kind, topic, qos_profile=qos_profile_sensor_data) for kind, topic in topics
        ]
        self._synchronizer = message_filters.ApproximateTimeSynchronizer(
            self._subscribers, fixed["queue_size"], fixed["sync_tolerance"]
        )
        self._synchronizer.registerCallback(self._on_pair)

    # --- parameters -------------------------------------------------------------------------------------------------

    def _make_settings(self, values: dict[str, Any]) -> Settings:
        """Return the preset's settings with those that differ from its own."""
        changed = {name: value for name, value in values.items() if value != self._defaults[name]}
        return make_settings(self._preset, **changed)

    def _on_parameters(self, parameters: list[Any]) -> SetParametersResult:
        """Take new settings, or say why not; the next pair is matched with them."""
        given = {each.name: each.value for each in parameters if each.name in self._defaults}
        try:
            settings = self._make_settings({**self._values, **given})
        except ScotopicError as error:
            return SetParametersResult(successful=False, reason=str(error))
        self._values.update(given)
        self._settings = settings
        return SetParametersResult(successful=True)

    # --- pairs ------------------------------------------------------------------------------------------------------

    def _on_pair(self, left: Any, right: Any, left_info: Any, right_info: Any) -> None:
        """Keep a pair for the worker, in place of one that it has not begun."""
        if not any(each.get_subscription_count() for each in (self._disparity, self._depth, self._confidence)):
            return
        self._received += 1
        if self._latest.put((left, right, left_info, right_info)):
            self._dropped += 1
            self.get_logger().info(
                f"{self._dropped} of {self._received} pairs dropped, because matching takes longer than a frame. Use "
                "preset fast, a smaller max_disparity, smaller images or a GPU to drop fewer.",
                throttle_duration_sec=_QUIET_SECONDS,
            )

    def _work(self) -> None:
        """Match pairs until the node ends."""
        self._guarded(self._warm_up)
        while (pair := self._latest.take()) is not None:
            self._guarded(lambda pair=pair: self._match(*pair))

    def _warm_up(self) -> None:
        """Get the kernels ready before the first pair, which takes half a minute the first time."""
        if resolve_device(self._device) == "cpu":
            self.get_logger().info("Getting the kernels ready; the first time this takes up to half a minute.")
            warm_up()
        self.get_logger().info(f"Ready: {self._preset} on {resolve_device(self._device)}.")

    def _guarded(self, act: Any) -> None:
        """Log what goes wrong, and go on: the next pair may be better."""
        try:
            with warnings.catch_warnings(record=True) as told:  # about the pair; a robot's log is where they are seen
                warnings.simplefilter("always", DarkImageWarning)
                warnings.simplefilter("always", PairWarning)
                act()
            for each in told:
                self.get_logger().warning(str(each.message), throttle_duration_sec=_QUIET_SECONDS)
        except ScotopicError as error:
            self.get_logger().error(str(error), throttle_duration_sec=_QUIET_SECONDS)
        except Exception:  # else the thread would end without a word
            self.get_logger().error(traceback.format_exc(), throttle_duration_sec=_QUIET_SECONDS)

    def _match(self, left: Any, right: Any, left_info: Any, right_info: Any) -> None:
        pair = image_from_message(left, "The left image"), image_from_message(right, "The right image")
        calibration = calibration_from_camera_info(left_info, right_info)
        if self._rectify:
            *views, calibration = rectify(*pair, calibration)
            pair = views[0], views[1]
        else:
            calibration = calibration.for_image(pair[0].shape[1], pair[0].shape[0])
        (match,) = self._matcher_for(pair[0].shape).run([pair])
        self._publish(match, calibration, {"frame_id": left.header.frame_id, "stamp": left.header.stamp})

    def _matcher_for(self, shape: tuple[int, ...]) -> Matcher:
        """Return the matcher for the present settings and the size of the images; a new one if either changed."""
        settings = self._settings
        if self._matcher is None or self._made_for != (settings, shape):
            self._matcher = Matcher(settings, shape, self._device)
            self._made_for = settings, shape
        return self._matcher

    def _publish(self, match: Match, calibration: Any, header: dict[str, Any]) -> None:
        if self._disparity.get_subscription_count():
            self._disparity.publish(fill_message(DisparityImage(), disparity_image(match, calibration, **header)))
        if self._depth.get_subscription_count():
            fields = depth_image(match, calibration, encoding=self._depth_encoding, **header)
            self._depth.publish(fill_message(Image(), fields))
        if self._confidence.get_subscription_count():
            self._confidence.publish(fill_message(Image(), confidence_image(match, **header)))

    def destroy_node(self) -> None:
        """End the worker, then the node."""
        self._latest.close()
        self._worker.join()
        super().destroy_node()


def fill_message(message: Any, fields: dict[str, Any]) -> Any:
    """Set the fields of a message, nested as they are, and return it."""
    for name, value in fields.items():
        if isinstance(value, dict):
            fill_message(getattr(message, name), value)
        else:
            # rclpy checks an array of bytes at once, but bytes one by one.
            setattr(message, name, array.array("B", value) if isinstance(value, bytes) else value)
    return message


def main() -> None:
    """Run the node until it is interrupted."""
    rclpy.init()
    try:
        node = StereoNode()
    except ScotopicError as error:
        rclpy.try_shutdown()
        raise SystemExit(f"error: {error}") from error
    try:
        rclpy.spin(node)
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    finally:
        node.destroy_node()
        rclpy.try_shutdown()


if __name__ == "__main__":
    main()
