"""As much of ROS 2 as the node needs, without ROS.

Messages have the fields of their real definitions, which rosbags ships, and check types as rclpy's do: a NumPy number
is no float, and unknown fields are errors. Parameters know read-only and the callbacks that may refuse a change.
"""

from __future__ import annotations

import sys
from array import array
from queue import Queue
from threading import Condition
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("rosbags", reason="needs rosbags: pip install 'scotopic[ros]'")

from rosbags.interfaces import Nodetype
from rosbags.typesys import Stores, get_typestore

STORE = get_typestore(Stores.ROS2_HUMBLE)
_NUMBERS = {"float32": float, "float64": float, "bool": bool, "string": str}


class Message:
    """A message with the fields of its definition, each with its default."""

    kind = ""

    def __init__(self, **given: Any) -> None:
        for name, field in STORE.fielddefs[self.kind][1]:
            object.__setattr__(self, name, _default(field))
        for name, value in given.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        fields = dict(STORE.fielddefs[self.kind][1])
        assert name in fields, f"{self.kind} has no field {name}"
        _check(fields[name], value, f"{self.kind}.{name}")
        object.__setattr__(self, name, value)


def message_class(kind: str) -> type[Message]:
    return type(kind.rpartition("/")[2], (Message,), {"kind": kind})


def _default(field: Any) -> Any:
    node, details = field
    if node == Nodetype.NAME:
        return message_class(details)()
    if node == Nodetype.BASE:
        return _NUMBERS.get(details[0], int)()
    (_, (name, _)), length = details
    code = {"uint8": "B", "float64": "d"}.get(name)
    return array(code, [0] * length) if code else []


def _check(field: Any, value: Any, where: str) -> None:
    node, details = field
    if node == Nodetype.BASE:
        kind = _NUMBERS.get(details[0], int)
        assert isinstance(value, kind), f"{where} is a {type(value).__name__}, not a {kind.__name__}"
        if kind is int:
            assert type(value) is int, f"{where} is a {type(value).__name__}"
            low, high = {"uint8": (0, 255), "int32": (-(2**31), 2**31 - 1)}.get(details[0], (0, 2**32 - 1))
            assert low <= value <= high, f"{where} = {value}"
    elif node == Nodetype.NAME:
        assert isinstance(value, Message), where
        assert value.kind == details, where
    else:
        assert isinstance(value, array | list), f"{where} is a {type(value).__name__}, which rclpy checks slowly"


class Publisher:
    """Collects what is published. Somebody listens unless a test says otherwise."""

    def __init__(self, kind: type[Message], topic: str) -> None:
        self.kind, self.topic, self.listeners, self._published = kind, topic, 1, Queue()

    def get_subscription_count(self) -> int:
        return self.listeners

    def publish(self, message: Message) -> None:
        assert isinstance(message, Message)
        assert message.kind == self.kind.kind
        self._published.put(message)

    def wait(self) -> Any:
        """Return the next message; raise ``Empty`` if none comes."""
        return self._published.get(timeout=120)

    def is_silent(self) -> bool:
        return self._published.empty()


class Logger:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self._changed = Condition()

    def info(self, text: str, **_: Any) -> None:
        with self._changed:
            self.lines.append(text)
            self._changed.notify_all()

    def wait_for(self, words: str) -> None:
        """Wait until a line has these words."""
        with self._changed:
            assert self._changed.wait_for(lambda: any(words in line for line in self.lines), 120), self.lines

    error = warning = info


class Node:
    """The part of ``rclpy.node.Node`` that the node uses; `overrides` are what a launch file would give."""

    overrides: dict[str, Any] = {}  # noqa: RUF012 - a test replaces it

    def __init__(self, name: str) -> None:
        self.name, self.publishers, self.parameters, self.callbacks = name, {}, {}, []
        self.logger, self.destroyed = Logger(), False

    def declare_parameter(self, name: str, default: Any, descriptor: Any) -> SimpleNamespace:
        assert name not in self.parameters
        assert type(default) in (str, int, float, bool), f"{name}: ROS has no parameter of {type(default)}"
        value = self.overrides.get(name, default)
        assert type(value) is type(default)
        self.parameters[name] = SimpleNamespace(name=name, value=value, descriptor=descriptor)
        return self.parameters[name]

    def add_on_set_parameters_callback(self, callback: Any) -> None:
        self.callbacks.append(callback)

    def set_parameters(self, **changes: Any) -> Any:
        """Change parameters as ``ros2 param set`` does; return the result of the callback that decided."""
        changed = [SimpleNamespace(name=name, value=value) for name, value in changes.items()]
        for each in changed:
            assert not self.parameters[each.name].descriptor.read_only, f"{each.name} is read-only"
        for callback in self.callbacks:
            result = callback(changed)
            if not result.successful:
                return result
        for each in changed:
            self.parameters[each.name].value = each.value
        return result

    def create_publisher(self, kind: type[Message], topic: str, _depth: int) -> Publisher:
        self.publishers[topic] = Publisher(kind, topic)
        return self.publishers[topic]

    def get_logger(self) -> Logger:
        return self.logger

    def destroy_node(self) -> None:
        self.destroyed = True


class Synchronizer:
    """``message_filters.ApproximateTimeSynchronizer``; tests hand it the pairs."""

    def __init__(self, filters: list[Any], queue_size: int, slop: float) -> None:
        self.filters, self.queue_size, self.slop, self.deliver = filters, queue_size, slop, None

    def registerCallback(self, callback: Any) -> None:  # noqa: N802 - ROS's name
        self.deliver = callback


def _subscriber(_node: Any, kind: type[Message], topic: str, qos_profile: Any) -> SimpleNamespace:
    return SimpleNamespace(kind=kind, topic=topic, qos_profile=qos_profile)


class _Described:
    """A message of ``rcl_interfaces`` with whatever it is given."""

    def __init__(self, **given: Any) -> None:
        self.description, self.read_only, self.reason = "", False, ""
        vars(self).update(given)


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the stub where the node imports ROS from."""
    modules: dict[str, dict[str, Any]] = {
        "rclpy": {"init": lambda: None, "spin": lambda node: None, "try_shutdown": lambda: None},
        "rclpy.node": {"Node": Node},
        "rclpy.qos": {"qos_profile_sensor_data": "sensor data"},
        "rclpy.executors": {"ExternalShutdownException": type("ExternalShutdownException", (Exception,), {})},
        "message_filters": {"Subscriber": _subscriber, "ApproximateTimeSynchronizer": Synchronizer},
        "rcl_interfaces": {},
        "rcl_interfaces.msg": {"ParameterDescriptor": _Described, "SetParametersResult": _Described},
        "sensor_msgs": {},
        "sensor_msgs.msg": {
            name: message_class(f"sensor_msgs/msg/{name}") for name in ("Image", "CompressedImage", "CameraInfo")
        },
        "stereo_msgs": {},
        "stereo_msgs.msg": {"DisparityImage": message_class("stereo_msgs/msg/DisparityImage")},
    }
    for name, content in modules.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
