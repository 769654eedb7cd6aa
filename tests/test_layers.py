"""Which module may import which: data and imports flow one way, and nothing goes round in circles."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

import scotopic

ROOT = Path(scotopic.__file__).parent

#: Packages and modules from low to high; a module belongs to the longest name that it begins with.
LAYERS = (
    ("errors", "progress", "optional", "subpixel", "colormap", "onnx_model"),
    ("settings", "constants", "arrays", "patch_grid"),
    ("io", "backends.device"),
    ("inputs", "sensor", "depth"),
    ("backends",),
    ("stages",),
    ("result",),
    ("preview",),
    ("pipelines",),
    ("api",),
    ("interop", "warmup", "cv"),
    ("evaluation", "demo"),
    ("",),  # the package itself, which gathers what most people call
    ("app", "cli", "__main__"),
)


@cache
def modules() -> dict[str, ast.Module]:
    """The syntax tree of every module, by its name without ``scotopic.``"""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"), str(path))
    return found


@cache
def imports(name: str) -> frozenset[str]:
    """The modules that a module imports, at its beginning or later, also for types alone."""
    found = set()
    for node in ast.walk(modules()[name]):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} has a relative import"
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {each if inside(each) in modules() else str(node.module) for each in inner}
    return frozenset(inside(each) for each in found if each.partition(".")[0] == "scotopic")


def inside(full: str) -> str:
    """The name of a module without ``scotopic.``"""
    return full.removeprefix("scotopic").removeprefix(".")


def layer_of(name: str) -> int:
    """The number of a module's layer, 0 the lowest."""
    homes = {home: number for number, layer in enumerate(LAYERS) for home in layer}
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        home = ".".join(parts[:length])
        if home in homes:
            return homes[home]
    raise AssertionError(f"{name} is in no layer: put it into LAYERS")


@pytest.mark.parametrize("name", [name for name in modules() if name])
def test_no_module_imports_upward(name: str) -> None:
    upward = {other for other in imports(name) if layer_of(other) > layer_of(name)}

    assert not upward


def reached_from(name: str) -> set[str]:
    """Every module that is imported by a module, or by one that it imports."""
    found: set[str] = set()
    waiting = set(imports(name))
    while waiting:
        each = waiting.pop()
        if each and each not in found:
            found.add(each)
            waiting |= imports(each)
    return found


def test_no_import_goes_round_in_a_circle() -> None:
    in_circles = [name for name in modules() if name and name in reached_from(name)]

    assert not in_circles


@pytest.mark.parametrize("name", [name for name in modules() if name.startswith("backends")])
def test_a_backend_knows_nothing_of_stages_and_pipelines(name: str) -> None:
    assert not {other for other in imports(name) if other.partition(".")[0] in ("stages", "pipelines", "api")}


@pytest.mark.parametrize("name", [name for name in modules() if name.endswith("_kernels") and "cpu" in name])
def test_cpu_kernels_import_nothing_of_ours(name: str) -> None:
    # Numba's cache watches only the file that a kernel stands in: what came from another one would stay as it was.
    assert not imports(name)
