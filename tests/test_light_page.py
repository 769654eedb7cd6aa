"""The tables that benchmarks/light.py writes: every figure beside its coverage, ours first, and the page up to date."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def light() -> ModuleType:
    spec = importlib.util.spec_from_file_location("light", ROOT / "benchmarks" / "light.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def row(method: str, level: str, **changes: Any) -> dict[str, Any]:
    figures = {"epe": 1.234, "bad-1": 45.6, "bad-3": 7.8, "runs": 5}
    return {"dataset": "instereo2k", "window": 1, "coverage_percent": 28.0} | figures | {
        "method": method, "level": level, **changes,
    }  # fmt: skip


def test_a_table_has_a_row_for_each_level_and_a_gap_where_a_method_has_no_answer(light: ModuleType) -> None:
    rows = [row("network:hitnet", "clean"), row("network:hitnet", "8 frames"), row("network:hitnet", "1 frame")]

    text = light.tables([*rows, row("scotopic:best", "1 frame", epe=0.5)])

    assert text.splitlines() == [
        "**W = 1, pointwise, at 28 % coverage**",
        "",
        "| InStereo2K | `scotopic:best` | `hitnet` |",
        "| --- | --- | --- |",
        "| 1 frame | 0.50, 46, 8 | 1.23, 46, 8 |",
        "| 8 frames | \N{EN DASH} | 1.23, 46, 8 |",
        "| clean | \N{EN DASH} | 1.23, 46, 8 |",
    ]


def test_a_method_that_is_run_again_replaces_its_own_rows_alone(light: ModuleType) -> None:
    from scotopic.evaluation.plan import load_plan

    kept = {"measured": {"a": {"commit": "1"}}, "rows": [row("a", "clean"), row("b", "clean")]}
    plan = load_plan("light").with_changes(methods=("b",))

    merged = light.merge(kept, [row("b", "clean", epe=9.0)], plan, "checking")

    assert [(each["method"], each["epe"]) for each in merged["rows"]] == [("a", 1.234), ("b", 9.0)]
    assert merged["measured"]["a"] == {"commit": "1"}
    assert merged["measured"]["b"]["scenes"] == "checking"


def test_the_page_shows_what_was_measured(light: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "networks.md"
    page.write_text(light.PAGE.read_text(encoding="utf-8"), encoding="utf-8")

    light.write_tables(page, json.loads(light.RESULTS.read_text())["rows"])

    assert page.read_text(encoding="utf-8") == light.PAGE.read_text(encoding="utf-8")
