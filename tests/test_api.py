"""The public surface: its names, its import, and the examples in its documentation."""

import doctest
import importlib
import inspect
import pkgutil
import subprocess
import sys

import pytest

import scotopic

NAMES = {
    "PRESETS", "Junctions", "Match", "Matcher", "Reason", "ScotopicError", "Settings", "fit_junctions", "match",
    "render_scene", "make_settings", "simulate", "simulate_pair",
}  # fmt: skip
HEAVY = ("numba", "cv2", "torch", "triton", "typer", "rich", "gradio", "scotopic.evaluation", "scotopic.cli")
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(scotopic.__path__, "scotopic.")
    if not module.name.endswith("__main__")  # which would run the command
)


def test_the_public_names_are_these() -> None:
    assert set(scotopic.__all__) == NAMES
    assert set(dir(scotopic)) >= NAMES


@pytest.mark.parametrize("name", sorted(NAMES - {"PRESETS"}))
def test_a_public_name_explains_itself(name: str) -> None:
    documentation = inspect.getdoc(getattr(scotopic, name))

    assert documentation
    assert len(documentation.split()) > 3


def test_match_takes_a_pair_a_preset_and_a_device_in_this_order() -> None:
    parameters = inspect.signature(scotopic.match).parameters

    assert list(parameters)[:4] == ["left", "right", "preset", "device"]
    assert (parameters["preset"].default, parameters["device"].default) == ("best", "auto")


def test_the_reasons_keep_their_codes() -> None:
    # They are stored in files.
    assert {reason.name: reason.value for reason in scotopic.Reason} == {
        "OK": 0, "NO_STRUCTURE": 1, "LEFT_RIGHT": 2, "OUT_OF_VIEW": 3, "NO_STRUCTURE_RIGHT": 4, "AMBIGUOUS": 5,
    }  # fmt: skip


def run(code: str) -> str:
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return result.stdout.strip()


def test_importing_loads_nothing_heavy() -> None:
    loaded = run(f"import scotopic, sys; print([name for name in {HEAVY} if name in sys.modules])")

    assert loaded == "[]"


def test_importing_takes_less_than_three_tenths_of_a_second() -> None:
    code = "import time; start = time.perf_counter(); import scotopic; print(time.perf_counter() - start)"
    run(code)  # so that bytecode and files are where they will be from now on

    assert min(float(run(code)) for _ in range(3)) < 0.3


def load(name: str) -> bool:
    """Import a module of the package; False where it needs what only an extra brings, and that is missing."""
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "triton", "gradio"):
            raise
        return False
    return True


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_the_documentation_give_what_they_say(name: str) -> None:
    if not load(name):
        pytest.skip("needs an extra: pip install 'scotopic[gpu,app]'")
    # By the table: scotopic.match is a function, and hides the module of that name from an import statement.
    module = sys.modules[name]

    assert doctest.testmod(module).failed == 0


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder(exclude_empty=True)
    shown = {test.name for name in MODULES if load(name) for test in finder.find(sys.modules[name]) if test.examples}

    assert {"scotopic.match.match", "scotopic.stages.junctions.fit.fit_junctions", "scotopic.settings.make_settings"} <= shown
