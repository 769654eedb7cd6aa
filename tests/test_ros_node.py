"""The ROS 2 node of ros2/: with a stub of ROS here, and with ROS itself where there is one."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import sys
import threading
import xml.etree.ElementTree as ET
from array import array
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import cv2
import numpy as np
import pytest
import ros_stub
import yaml

import scotopic
from scotopic.settings import PRESETS, public_settings

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "ros2" / "scotopic_ros"
SIZE, SHIFT = (64, 96), 6  # rows, columns; px of disparity of the whole scene
FOCAL, BASELINE = 100.0, 0.12


def shifted_pair() -> tuple[np.ndarray, np.ndarray]:
    """A pair of bars, uint8, whose disparity is SHIFT everywhere."""
    columns, rows = np.arange(SIZE[1] + SHIFT), np.arange(SIZE[0])[:, None]
    scene = 127 + 100 * np.sign(np.sin(columns / 5) * np.sin(rows / 7 + columns / 30))
    return scene[:, : SIZE[1]].astype(np.uint8), scene[:, SHIFT:].astype(np.uint8)


def load_node() -> ModuleType:
    for name in ("scotopic_ros.node", "scotopic_ros.latest", "scotopic_ros"):
        sys.modules.pop(name, None)
    return importlib.import_module("scotopic_ros.node")


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The node's module, on the stub of ROS."""
    ros_stub.install(monkeypatch)
    monkeypatch.syspath_prepend(str(PACKAGE))
    module = load_node()
    monkeypatch.setattr(module, "warm_up", lambda: None)
    yield module
    for name in ("scotopic_ros.node", "scotopic_ros.latest", "scotopic_ros"):
        sys.modules.pop(name, None)


@pytest.fixture
def start(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Start a node with these parameters; it is ended after the test."""
    nodes = []

    def start(**parameters: Any) -> Any:
        given = {"preset": "fast", "device": "cpu", "max_disparity": 16, **parameters}
        monkeypatch.setattr(ros_stub.Node, "overrides", given)
        nodes.append(module.StereoNode())
        return nodes[-1]

    yield start
    for node in nodes:
        node.destroy_node()
        assert node.destroyed
        assert not node._worker.is_alive()


def messages(nanosec: int = 123_456_789, compressed: bool = False, **changes: Any) -> list[Any]:
    """Left image, right image, and the two camera_info of one moment."""
    found = []
    for image in shifted_pair():
        kind = ros_stub.message_class(f"sensor_msgs/msg/{'CompressedImage' if compressed else 'Image'}")
        if compressed:
            message = kind(format="png", data=array("B", cv2.imencode(".png", image)[1].tobytes()))
        else:
            message = kind(
                height=SIZE[0], width=SIZE[1], encoding="mono8", step=SIZE[1], data=array("B", image.tobytes())
            )
        message.header.stamp.sec, message.header.stamp.nanosec = 1_700_000_000, nanosec
        message.header.frame_id = "left_optical"
        found.append(message)
    for offset in (0.0, BASELINE):
        info = ros_stub.message_class("sensor_msgs/msg/CameraInfo")(height=SIZE[0], width=SIZE[1])
        info.p = array("d", [FOCAL, 0, 47.5, -FOCAL * offset, 0, FOCAL, 31.5, 0, 0, 0, 1, 0])
        for name, value in changes.items():
            setattr(info, name, value)
        found.append(info)
    return found


def test_what_is_odd_about_a_pair_is_in_the_log(start: Any) -> None:
    node = start()
    pair = messages()
    for message in pair[:2]:
        message.data = array("B", [value // 16 for value in message.data])

    node._synchronizer.deliver(*pair)

    node.logger.wait_for("% of the range of their format")
    assert node.publishers["disparity"].wait() is not None


def test_a_pair_becomes_disparity_depth_and_confidence(start: Any) -> None:
    node = start()

    node._synchronizer.deliver(*messages())

    disparity, depth, confidence = (node.publishers[topic].wait() for topic in ("disparity", "depth", "confidence"))
    for message in (disparity, disparity.image, depth, confidence):
        stamp = message.header.stamp
        assert (stamp.sec, stamp.nanosec) == (1_700_000_000, 123_456_789)  # to the nanosecond, as in the left image
        assert message.header.frame_id == "left_optical"
    assert (disparity.f, disparity.t) == (FOCAL, pytest.approx(BASELINE))
    pixels = np.frombuffer(disparity.image.data, "<f4").reshape(SIZE)
    known = pixels >= disparity.min_disparity
    assert known.sum() > 100
    assert np.median(pixels[known]) == pytest.approx(SHIFT, abs=1)
    meters = np.frombuffer(depth.data, "<f4").reshape(SIZE)
    np.testing.assert_allclose(meters[known], FOCAL * BASELINE / pixels[known], rtol=1e-5)  # Z = f B / d
    assert np.isnan(meters[~known]).all()
    sure = np.frombuffer(confidence.data, "<f4").reshape(SIZE)
    assert sure.min() >= 0
    assert sure.max() <= 1


def test_depth_can_be_millimeters_and_images_compressed(start: Any) -> None:
    node = start(depth_encoding="16UC1", image_transport="compressed")
    assert [each.topic for each in node._synchronizer.filters[:2]] == [
        "left/image_rect/compressed", "right/image_rect/compressed",
    ]  # fmt: skip

    node._synchronizer.deliver(*messages(compressed=True))

    depth = node.publishers["depth"].wait()
    pixels = np.frombuffer(node.publishers["disparity"].wait().image.data, "<f4")
    millimeters = np.frombuffer(depth.data, "<u2")
    known = pixels >= 0
    assert depth.encoding == "16UC1"
    np.testing.assert_array_equal(millimeters[known], np.rint(1000 * FOCAL * BASELINE / pixels[known]))
    assert (millimeters[~known] == 0).all()


def test_images_are_rectified_by_their_camera_info_on_request(start: Any, module: ModuleType) -> None:
    node = start(rectify=True)
    matrix = array("d", [FOCAL, 0, 47.5, 0, FOCAL, 31.5, 0, 0, 1])
    unit = array("d", [1, 0, 0, 0, 1, 0, 0, 0, 1])

    node._synchronizer.deliver(*messages(k=matrix, r=unit, d=array("d", [0] * 5), distortion_model="plumb_bob"))

    pixels = np.frombuffer(node.publishers["disparity"].wait().image.data, "<f4")
    assert np.median(pixels[pixels >= 0]) == pytest.approx(SHIFT, abs=1)
    node._synchronizer.deliver(*messages())  # without the cameras before rectification
    node.logger.wait_for("not the cameras before rectification")


def test_every_public_setting_of_the_preset_is_a_parameter_with_its_meaning(module: ModuleType, start: Any) -> None:
    for preset in PRESETS:
        node = start(preset=preset)
        expected = public_settings(PRESETS[preset])

        assert set(node.parameters) == {*module.FIXED, *expected}
        for name, value in expected.items():
            parameter = node.parameters[name]
            assert parameter.descriptor.description
            assert not parameter.descriptor.read_only
            assert name == "max_disparity" or parameter.value == value
        assert node._settings.preset == preset


def test_a_setting_changes_while_the_node_runs_and_a_wrong_one_is_refused(start: Any) -> None:
    node = start()
    node._synchronizer.deliver(*messages(1))
    first = node.publishers["disparity"].wait()

    assert node.set_parameters(min_disparity=2, max_disparity=12).successful
    refused = node.set_parameters(max_disparity=1)
    node._synchronizer.deliver(*messages(2))
    second = node.publishers["disparity"].wait()

    assert (first.min_disparity, first.max_disparity) == (0, 15)
    assert (second.min_disparity, second.max_disparity) == (2, 11)
    assert not refused.successful
    assert "max_disparity" in refused.reason
    with pytest.raises(AssertionError, match="read-only"):
        node.set_parameters(preset="best")


def test_a_slow_node_drops_pairs_and_matches_the_latest(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    node = start()
    begun, go_on, matched = threading.Semaphore(0), threading.Semaphore(0), []

    def slow(left: Any, *_: Any) -> None:
        matched.append(left.header.stamp.nanosec)
        begun.release()
        go_on.acquire(timeout=120)

    monkeypatch.setattr(node, "_match", slow)
    node._synchronizer.deliver(*messages(0))
    assert begun.acquire(timeout=120)
    for number in (1, 2, 3, 4):  # while the first is matched
        node._synchronizer.deliver(*messages(number))
    go_on.release()
    assert begun.acquire(timeout=120)
    go_on.release()

    assert matched == [0, 4]
    assert any("3 of 5 pairs dropped" in line for line in node.logger.lines)


def test_nothing_is_matched_while_nobody_listens(start: Any) -> None:
    node = start()
    for publisher in node.publishers.values():
        publisher.listeners = 0

    node._synchronizer.deliver(*messages(1))
    node.publishers["confidence"].listeners = 1
    node._synchronizer.deliver(*messages(2))

    assert node.publishers["confidence"].wait().header.stamp.nanosec == 2
    assert node.publishers["disparity"].is_silent()
    assert node.publishers["depth"].is_silent()


@pytest.mark.parametrize(
    ("wrong", "words"), [({"p": array("d", [0] * 12)}, "not calibrated"), ({"height": 10}, "96 x 10")]
)
def test_a_pair_that_cannot_be_used_is_logged_and_the_next_one_is_matched(
    start: Any, wrong: dict[str, Any], words: str
) -> None:
    node = start()

    node._synchronizer.deliver(*messages(1, **wrong))
    node.logger.wait_for(words)
    node._synchronizer.deliver(*messages(2))

    assert node.publishers["disparity"].wait().header.stamp.nanosec == 2


def test_images_of_another_size_are_matched_too(start: Any) -> None:
    node = start()
    node._synchronizer.deliver(*messages(1))
    node.publishers["disparity"].wait()
    smaller = messages(2, height=48)
    for message in smaller[:2]:
        message.height, message.data = 48, message.data[: 48 * SIZE[1]]

    node._synchronizer.deliver(*smaller)

    assert node.publishers["disparity"].wait().image.height == 48


@pytest.mark.parametrize(
    "wrong", [{"preset": "worst"}, {"device": "tpu"}, {"depth_encoding": "8UC1"}, {"image_transport": "theora"}]
)
def test_parameters_that_make_no_sense_end_the_node_with_a_word(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch, wrong: dict[str, str]
) -> None:
    monkeypatch.setattr(ros_stub.Node, "overrides", {"preset": "fast", **wrong})

    with pytest.raises(SystemExit, match=next(iter(wrong.values()))):
        module.main()


# The package


def test_the_package_is_one_that_colcon_can_build() -> None:
    manifest = ET.parse(PACKAGE / "package.xml").getroot()
    setup = ast.parse((PACKAGE / "setup.py").read_text())
    files = [node.value for node in ast.walk(setup) if isinstance(node, ast.Constant) and isinstance(node.value, str)]

    assert manifest.findtext("name") == "scotopic_ros"
    assert manifest.findtext("version") == scotopic.__version__
    assert scotopic.__version__ in files
    assert manifest.findtext("license") == "Apache-2.0"
    assert manifest.findtext("export/build_type") == "ament_python"
    for name in ("package.xml", "launch/stereo.launch.py", "config/stereo.yaml"):
        assert name in files
        assert (PACKAGE / name).is_file()
    assert (PACKAGE / "resource" / "scotopic_ros").is_file()
    used = set(re.findall(r"^(?:from|import) (\w+)", (PACKAGE / "scotopic_ros" / "node.py").read_text(), re.MULTILINE))
    of_ros = {name for name in used if name in {"rclpy", "message_filters"} or name.endswith(("_msgs", "_interfaces"))}
    assert of_ros <= {each.text for each in manifest.findall("exec_depend")}


def test_the_file_of_parameters_sets_parameters_that_there_are(start: Any, module: ModuleType) -> None:
    content = yaml.safe_load((PACKAGE / "config" / "stereo.yaml").read_text())
    given = content["/**"]["ros__parameters"]

    node = start(**{**given, "device": "cpu"})

    assert set(given) <= set(node.parameters)
    assert set(module.FIXED) <= set(given)


def test_the_launch_file_describes_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    def record(name: str) -> Any:
        return lambda *args, **keywords: SimpleNamespace(kind=name, args=args, **keywords)

    for module, names in {
        "launch": ["LaunchDescription"], "launch.actions": ["DeclareLaunchArgument"],
        "launch.substitutions": ["LaunchConfiguration"], "launch_ros": [], "launch_ros.actions": ["Node"],
        "launch_ros.substitutions": ["FindPackageShare"],
    }.items():  # fmt: skip
        stub = ModuleType(module)
        vars(stub).update({name: record(name) for name in names})
        monkeypatch.setitem(sys.modules, module, stub)
    spec = importlib.util.spec_from_file_location("stereo_launch", PACKAGE / "launch" / "stereo.launch.py")
    assert spec is not None
    assert spec.loader is not None
    launch = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(launch)

    (*arguments, node) = launch.generate_launch_description().args[0]

    assert (node.package, node.executable) == ("scotopic_ros", "stereo_node")
    declared = {argument.args[0] for argument in arguments}
    assert {remapping[1].args[0] for remapping in node.remappings} <= declared


def test_the_page_names_every_parameter_and_topic(start: Any) -> None:
    page = (ROOT / "docs" / "ros.md").read_text()

    for preset in PRESETS:
        node = start(preset=preset)
        names = [*node.parameters, *node.publishers, *(each.topic for each in node._synchronizer.filters)]
        assert not [name for name in names if f"`{name}`" not in page]


# With ROS itself


@pytest.mark.skipif(importlib.util.find_spec("rclpy") is None, reason="needs ROS 2 (rclpy)")
def test_with_ros_a_published_pair_comes_back_as_disparity(monkeypatch: pytest.MonkeyPatch) -> None:
    import rclpy
    from rclpy.parameter import Parameter
    from sensor_msgs.msg import CameraInfo, Image
    from stereo_msgs.msg import DisparityImage

    monkeypatch.syspath_prepend(str(PACKAGE))
    rclpy.init(args=["--ros-args", "-p", "preset:=fast", "-p", "device:=cpu", "-p", "max_disparity:=16"])
    node = load_node().StereoNode()
    camera = rclpy.create_node("camera")
    executor = rclpy.executors.SingleThreadedExecutor()
    executor.add_node(node)
    executor.add_node(camera)
    found: list[Any] = []
    try:
        camera.create_subscription(DisparityImage, "disparity", found.append, 1)
        kinds = {"left/image_rect": Image, "right/image_rect": Image}
        kinds |= {"left/camera_info": CameraInfo, "right/camera_info": CameraInfo}
        publishers = [camera.create_publisher(kind, topic, 10) for topic, kind in kinds.items()]
        number = 0
        while not found:
            for publisher, made in zip(publishers, messages(number), strict=True):
                real = publisher.msg_type()
                for name in [each for each in made.__dict__ if each not in ("header", "roi")]:
                    setattr(real, name, getattr(made, name))
                real.header.stamp.sec, real.header.stamp.nanosec = 1_700_000_000, number
                publisher.publish(real)
            executor.spin_once(timeout_sec=0.1)
            number += 1
            assert number < 1200
        assert found[0].image.width == SIZE[1]
        (refused,) = node.set_parameters([Parameter("max_disparity", value=-5)])
        assert not refused.successful
    finally:
        node.destroy_node()
        camera.destroy_node()
        rclpy.try_shutdown()
