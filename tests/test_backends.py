"""The seam between stages and devices: one set of typed signatures, and kernels that follow every constant."""

from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agreement import assert_maps_agree
from devices import CPU, CUDA, DEVICES, backend_of
from kernel_calls import FieldState, on
from pictures import as_planes, draw_blocks

import scotopic
from scotopic.backends.protocol import Backend, JunctionFit
from scotopic.settings import JunctionSettings
from scotopic.stages.junctions import geometry, reference

SOURCE = Path(scotopic.__file__).parent

# Signatures


def methods(protocol: type) -> list[str]:
    return [name for name, value in vars(protocol).items() if inspect.isfunction(value) and name[0] != "_"]


def parameters(function: Any) -> list[tuple[str, Any, Any]]:
    """Name, kind and default of each parameter."""
    return [(each.name, each.kind, each.default) for each in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize("device", DEVICES)
def test_each_backend_has_the_methods_of_the_protocol_with_its_parameters(device: str) -> None:
    backend = type(backend_of(device))
    fit = type(FieldState(device, np.zeros((1, 8, 8), np.float32), JunctionSettings(patch_size=8)).fit)

    for protocol, implementation in ((Backend, backend), (JunctionFit, fit)):
        assert len(methods(protocol)) > 1
        for name in methods(protocol):
            assert parameters(getattr(implementation, name)) == parameters(getattr(protocol, name)), name


@pytest.mark.parametrize("device", DEVICES)
def test_each_backend_has_the_attributes_of_the_protocol(device: str) -> None:
    backend = backend_of(device)
    fit = FieldState(device, np.zeros((1, 8, 8), np.float32), JunctionSettings(patch_size=8)).fit

    for protocol, made in ((Backend, backend), (JunctionFit, fit)):
        for name in protocol.__annotations__:
            assert hasattr(made, name), name
    assert backend.name == device
    for name in methods(import_module("scotopic.arrays").Namespace):
        assert callable(getattr(backend.xp, name)), name


@pytest.mark.parametrize("name", ["backends/protocol.py", "arrays.py"])
def test_nothing_is_left_untyped_at_the_seam(name: str) -> None:
    tree = ast.parse((SOURCE / name).read_text(encoding="utf-8"))

    words = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    words |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert "Any" not in words
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            assert all(each.annotation is not None for each in given if each.arg != "self"), node.name
            assert node.returns is not None, node.name


# Fast math assumes that every number is finite


FAST_MATH = [path for path in sorted(SOURCE.rglob("*.py")) if '"fastmath": True' in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("path", FAST_MATH, ids=lambda path: path.stem)
def test_kernels_in_fast_math_know_no_infinity(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    words = {"inf", "infinity", "nan", "isinf", "isnan", "isfinite", "nan_to_num"}

    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name):
            word = node.attr if isinstance(node, ast.Attribute) else node.id
            assert word.lower() not in words, f"line {node.lineno}"
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            assert node.value.lower().strip("+-") not in words, f"line {node.lineno}"


def test_there_are_kernels_in_fast_math() -> None:
    assert {"junction_kernels", "matching_kernels", "evidence_kernels"} <= {path.stem for path in FAST_MATH}


# Constants

CHANGES: list[dict[str, Any]] = [
    {"ETA": 0.03}, {"DELTA": 0.12}, {"LIFT": 0.4}, {"ETA": 0.02, "DELTA": 0.03, "LIFT": 0.05}
]  # fmt: skip


def disturbed_field(device: str) -> FieldState:
    """A field of random junctions, some of them with a sector that vanishes, and random maps."""
    rows, columns, size, stride = 2, 3, 8, 5
    picture = draw_blocks(size + stride * (rows - 1), size + stride * (columns - 1), 3, noise=0.1, side=size)
    field = FieldState(device, as_planes(picture), JunctionSettings(patch_size=size, stride=stride, candidates=7))
    random, junctions = np.random.default_rng(0), field.parameters
    junctions[..., :3] = random.uniform(-7, 7, (rows, columns, 3))
    junctions[0, :, :3] = 1 + random.uniform(0, 0.3, (columns, 3))
    junctions[..., 3:] = random.uniform(-0.8, 0.8, (rows, columns, 2))
    field.parameters, field.boundary_map = junctions, random.random(picture.shape[:2]).astype(np.float32) ** 3
    field.color_map = np.clip(field.planes + random.normal(0, 0.1, field.planes.shape), 0, 1).astype(np.float32)
    return field


def assert_kernels_follow_the_reference(device: str) -> dict[str, np.ndarray]:
    """Maps, gradient, search and costs of a field, each against the reference; returns what they give."""
    weights = 0.4, 0.08
    field = disturbed_field(device)
    before, settings = field.parameters, field.settings
    image, colors = (np.moveaxis(each, 0, -1).astype(np.float64) for each in (field.planes, field.color_map))
    boundaries = field.boundary_map.astype(np.float64)
    slope = reference.gradient(before, image, boundaries, colors, *weights, settings, step=1e-5)
    maps = reference.global_maps(before, image, colors, weights[1], settings)
    found = reference.search_step(before, image, boundaries, colors, *weights, settings)
    plain = reference.global_maps(before, image, None, 0.0, settings)[1]

    searched = disturbed_field(device)
    searched.search(*weights)
    field.rebuild(1, *weights)

    assert_maps_agree(field.boundary_map, maps[0], 1e-4)
    assert_maps_agree(np.moveaxis(field.color_map, 0, -1), maps[1], 1e-4)
    assert_maps_agree(field.gradients, slope, 5e-6, outliers=0.04)  # a difference may span a kink
    apart = np.abs(searched.parameters - found).max(axis=-1)
    assert_maps_agree(apart, np.zeros_like(apart), 1e-5, outliers=0.17)  # one near tie of six
    drawn = on(device).draw_plain_maps(field.planes[None], before[None], settings)[0]
    assert_maps_agree(np.moveaxis(drawn, 0, -1), plain, 2e-6)
    return {"boundaries": field.boundary_map, "colors": field.color_map, "slope": field.gradients}


@pytest.mark.parametrize("device", [CPU])
@pytest.mark.parametrize("changes", CHANGES, ids=lambda changes: "-".join(changes))
def test_a_changed_constant_of_junctions_is_followed_by_the_kernels(
    device: str, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = assert_kernels_follow_the_reference(device)

    for name, value in changes.items():
        monkeypatch.setattr(f"scotopic.constants.{name}", value)
        monkeypatch.setattr(geometry, name, value)
    changed = assert_kernels_follow_the_reference(device)

    assert any(np.abs(changed[name] - usual[name]).max() > 1e-3 for name in usual)


@pytest.mark.parametrize("device", [CPU])
def test_changed_constants_of_adam_are_followed_by_the_kernels(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"ADAM_BETAS": (0.8, 0.9), "ADAM_GAINS": (0.2, 0.1), "ADAM_EPSILON": 1e-3}.items():
        monkeypatch.setattr(f"scotopic.constants.{name}", value)
        monkeypatch.setattr(reference, name, value)
    field = disturbed_field(device)
    before, rates = field.parameters, np.array([0.003] * 3 + [0.03] * 2)
    first = second = np.zeros_like(before)

    for count in (1, 2):
        field.rebuild(count, 0.4, 0.08)
        before, first, second = reference.adam_step(before, field.gradients, first, second, count, rates)
        assert_maps_agree(field.parameters, before, 1e-12)


@pytest.mark.parametrize("device", [CPU])
def test_other_directions_are_followed_by_the_kernels(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from scotopic.stages import sgm

    random = np.random.default_rng(0)
    costs = random.integers(0, 1025, (4, 5, 6)).astype(np.int16)
    penalties = random.integers(50, 201, (4, 5)).astype(np.int32)
    for directions in ([(0, 1), (0, -1), (1, 0), (-1, 0)], [(1, -1)]):
        monkeypatch.setattr("scotopic.backends.cpu.matching.DIRECTIONS", directions)
        monkeypatch.setattr(sgm, "DIRECTIONS", directions)

        total = on(device).aggregate(costs, penalties, 20)

        np.testing.assert_array_equal(total, sgm.reference_aggregate(costs, penalties, 20))


# A GPU's kernels are compiled with the constants in them, once in a process; so they are changed before that.
OTHER_CONSTANTS = """
import sys
sys.path.insert(0, {tests!r})
from scotopic import constants
from scotopic.stages.junctions import geometry
for name, value in {{"ETA": 0.03, "DELTA": 0.08, "LIFT": 0.2}}.items():
    setattr(constants, name, value)
    setattr(geometry, name, value)
from test_backends import assert_kernels_follow_the_reference
assert_kernels_follow_the_reference("cuda")
"""


@pytest.mark.parametrize("device", [CUDA])
def test_the_kernels_of_a_gpu_are_compiled_with_other_constants(device: str) -> None:
    script = OTHER_CONSTANTS.format(tests=os.path.dirname(__file__))

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
