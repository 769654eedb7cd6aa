"""What all tests share: the devices, and what is left of the tests where only the GPU path's packages are installed."""

from __future__ import annotations

import re
from collections.abc import Generator

import pytest
from devices import describe_cuda

try:  # where only the GPU path's packages are installed, it may be missing
    from hypothesis import settings
except ImportError:
    pass
else:
    # No example has a time limit, as no test has: on a busy machine any of them can take a second.
    settings.register_profile("unhurried", deadline=None)
    settings.load_profile("unhurried")

# What scotopic needs but its GPU path does not: a machine may have torch, triton and numpy alone. There, modules of
# tests that import one of these are skipped as a whole, so that the others can run.
_NOT_ON_THE_GPU = re.compile(r"No module named '(av|cv2|numba|rich|typer)[.']")


@pytest.fixture
def quick_presets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Presets that refine no fit, filter nothing and fit no planes: for programs that shall run, whatever they find."""
    from scotopic.settings import PRESETS, make_settings

    few = {"refine_steps": 0, "group_rounds": 0, "surface_passes": 0, "plane_rounds": 0}
    monkeypatch.setitem(PRESETS, "fast", make_settings("fast", refine_steps=0))
    monkeypatch.setitem(PRESETS, "best", make_settings("best", **few))


def pytest_report_header() -> str:
    return f"cuda kernels: {describe_cuda()}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests of the compiler first: what they compile lies in the cache for all others."""
    items.sort(key=lambda item: item.path.name != "test_compilation.py")  # the others stay in their order


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    missing = _NOT_ON_THE_GPU.search(str(report.longrepr)) if report.failed else None
    if missing:
        report.outcome = "skipped"
        report.longrepr = (str(collector.path), 0, f"Skipped: needs {missing[1]}, which is not installed")
    return report
