"""The public surface: its names, its import, and the examples in its documentation."""

import doctest
import importlib
import inspect
import pkgutil
import subprocess
import sys

import pytest

import scotopic

HEAVY = ("numba", "cv2", "torch", "triton", "typer", "rich", "gradio", "scotopic.evaluation", "scotopic.cli")
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(scotopic.__path__, "scotopic.")
    if not module.name.endswith("__main__")  # which would run the command
)


def test_match_takes_a_pair_a_preset_and_a_device_in_this_order() -> None:
    parameters = inspect.signature(scotopic.match).parameters

    assert list(parameters)[:4] == ["left", "right", "preset", "device"]
    assert (parameters["preset"].default, parameters["device"].default) == ("best", "auto")


def test_everything_starts_from_best() -> None:
    for start in (scotopic.match, scotopic.Matcher, scotopic.make_settings):
        assert inspect.signature(start).parameters["preset"].default == "best"


def test_no_public_name_hides_a_module() -> None:
    modules = {name.removeprefix("scotopic.") for name in MODULES}

    assert not modules & set(scotopic.__all__)


def test_old_names_still_work_and_say_the_new_one() -> None:
    with pytest.warns(DeprecationWarning, match="make_settings"):
        assert scotopic.resolve is scotopic.make_settings


def test_the_reasons_keep_their_codes() -> None:
    # They are stored in files.
    assert {reason.name: reason.value for reason in scotopic.Reason} == {
        "OK": 0, "NO_STRUCTURE": 1, "LEFT_RIGHT": 2, "OUT_OF_VIEW": 3, "NO_STRUCTURE_RIGHT": 4, "AMBIGUOUS": 5,
        "OCCLUDED": 6, "SATURATED": 7,
        "MASKED": 8,
    }  # fmt: skip


def run(code: str) -> str:
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return result.stdout.strip()


def test_importing_loads_nothing_heavy() -> None:
    loaded = run(f"import scotopic, sys; print([name for name in {HEAVY} if name in sys.modules])")

    assert loaded == "[]"


@pytest.mark.parametrize("name", ["cv.StereoScotopic", "interop.disparity_image", "evaluation.score"])
def test_what_the_pages_call_by_its_full_name_needs_no_import_of_its_own(name: str) -> None:
    assert run(f"import scotopic; print(callable(scotopic.{name}))") == "True"


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
    assert doctest.testmod(sys.modules[name]).failed == 0


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder(exclude_empty=True)
    shown = {test.name for name in MODULES if load(name) for test in finder.find(sys.modules[name]) if test.examples}

    assert {"scotopic.api.match", "scotopic.api.fit_junctions", "scotopic.settings.make_settings"} <= shown
