"""Which module may import which: data and imports flow one way, and nothing goes round in circles."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import scotopic

ROOT = Path(scotopic.__file__).parent

#: Packages and modules from low to high; a module belongs to the longest name that it begins with.
LAYERS = (
    ("errors", "progress", "optional", "subpixel", "colormap", "stopping"),
    ("settings", "constants", "arrays", "patch_grid"),
    ("io", "backends.device"),
    ("inputs", "levels", "sensor", "depth", "onnx_model"),
    ("backends", "kernel_cache"),
    ("stages",),
    ("layout", "preview", "result"),
    ("pipelines",),
    ("fusion",),
    ("api",),
    ("streams",),
    ("interop", "warmup", "cv"),
    ("evaluation", "demo"),
    ("app", "cli", "__main__"),
)
HOMES = {home: number for number, layer in enumerate(LAYERS) for home in layer}


@cache
def modules() -> dict[str, ast.Module]:
    """The syntax tree of every module, by its name without ``scotopic.``"""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"), str(path))
    return found


INNER = [name for name in modules() if name]  #: all but the package itself


@cache
def imports(name: str, lazily: bool = True) -> frozenset[str]:
    """The modules that a module imports, also later than at its beginning, or then alone.

    What is imported for types alone is never imported; and the version, which the package itself holds, is for all.
    """
    found = set()
    for node in statements(modules()[name], lazily):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} has a relative import"
            inner = [f"{node.module}.{alias.name}" for alias in node.names if alias.name != "__version__"]
            found |= {each if inside(each) in modules() else str(node.module) for each in inner}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and inside(node.value) in INNER:
            found.add(node.value)  # imported by its name
    return frozenset(inside(each) for each in found if each.partition(".")[0] == "scotopic")


def statements(node: ast.AST, lazily: bool) -> Iterator[ast.AST]:
    """Every node that is run, in functions too or not."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            continue
        if lazily or not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from statements(child, lazily)


def inside(full: str) -> str:
    """The name of a module without ``scotopic.``"""
    return full.removeprefix("scotopic").removeprefix(".")


def home_of(name: str) -> str:
    """The package or module of :data:`LAYERS` that a module belongs to."""
    parts = name.split(".")
    homes = [home for length in range(len(parts), 0, -1) if (home := ".".join(parts[:length])) in HOMES]
    assert homes, f"{name or 'the package itself'} is in no layer"
    return homes[0]


@pytest.mark.parametrize("name", INNER)
def test_no_module_imports_upward(name: str) -> None:
    layer = HOMES[home_of(name)]

    assert not {other for other in imports(name) - {""} if HOMES[home_of(other)] > layer}
    # The package itself gathers what most people call: only what stands above all of it may use it.
    assert "" not in imports(name) or layer == len(LAYERS) - 1


def circles(graph: dict[str, set[str]]) -> list[str]:
    """The nodes that lead back to themselves."""

    def reached_from(start: str) -> set[str]:
        found: set[str] = set()
        waiting = set(graph[start])
        while waiting:
            each = waiting.pop()
            if each not in found:
                found.add(each)
                waiting |= graph[each]
        return found

    return [name for name in graph if name in reached_from(name)]


def test_no_package_imports_one_that_imports_it() -> None:
    graph: dict[str, set[str]] = {home: set() for home in HOMES}
    for name in INNER:
        home = home_of(name)
        graph[home] |= {home_of(other) for other in imports(name) - {""}} - {home}

    assert not circles(graph)


def test_no_module_imports_one_that_is_importing_it() -> None:
    assert not circles({name: set(imports(name, lazily=False)) - {""} for name in INNER})


def test_in_the_core_no_import_goes_round_at_all() -> None:
    core = [name for name in INNER if name.partition(".")[0] in ("backends", "stages", "pipelines", "api")]

    assert not circles({name: {other for other in imports(name) if other in core} for name in core})


@pytest.mark.parametrize("name", [name for name in INNER if name.startswith("backends")])
def test_a_backend_knows_nothing_of_stages_and_pipelines(name: str) -> None:
    assert not {other for other in imports(name) if other.partition(".")[0] in ("stages", "pipelines", "api")}


@pytest.mark.parametrize(
    "name", [name for name in INNER if name.endswith("_cpu") or re.search(r"\.cpu\..*_kernels$", name)]
)
def test_cpu_kernels_import_nothing_of_ours(name: str) -> None:
    # Numba's cache watches only the file that a kernel stands in: what came from another one would stay as it was.
    assert not imports(name)
