"""Small networks whose outcome is known by formula, as ONNX files. A test that imports this is skipped without onnx."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="builds graphs with onnx, which is not installed: pip install onnx")
pytest.importorskip("onnxruntime", reason="runs graphs with onnxruntime: pip install 'scotopic[bench]'")

ANY = (1, None, None, None)


def save_model(
    path: Path,
    nodes: list[Any],
    inputs: dict[str, tuple[int | None, ...]],
    outputs: tuple[str, ...] = ("out",),
    constants: dict[str, Any] | None = None,
) -> None:
    """Write a graph; constants are float32, or int64 where they are given as lists."""
    helper = onnx.helper
    stored = {
        name: np.array(value, np.int64 if isinstance(value, list) else np.float32)
        for name, value in (constants or {}).items()
    }
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in outputs],
        [onnx.numpy_helper.from_array(value, name) for name, value in stored.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(path))


def node(kind: str, inputs: list[str], output: str = "out", **attributes: Any) -> Any:
    return onnx.helper.make_node(kind, inputs, [output], **attributes)


def first_channel(path: Path, axis: int = 1, shape: tuple[int | None, ...] = ANY, channel: int = 0) -> None:
    """A "stereo network" whose disparity is a channel of its left image, so that its input can be read off."""
    constants = {"from": [channel], "to": [channel + 1], "axis": [axis]}
    nodes = [node("Slice", ["left", "from", "to", "axis"], "cut"), node("Mul", ["right", "zero"], "none")]
    nodes += [node("Slice", ["none", "from", "to", "axis"], "nothing"), node("Add", ["cut", "nothing"])]
    save_model(path, nodes, {"left": shape, "right": shape}, constants=constants | {"zero": 0.0})
