"""The tables that benchmarks/stream.py writes: means over sequences, gaps where some lack, and the page up to date."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from scotopic.evaluation.datasets.sequences import read_sequence
from scotopic.evaluation.methods import get_method
from scotopic.evaluation.pose_errors import pose_errors
from scotopic.evaluation.records import Record, Task

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def stream() -> ModuleType:
    spec = importlib.util.spec_from_file_location("stream", ROOT / "benchmarks" / "stream.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def row(sequence: str, method: str, frames: int = 16, **changes: Any) -> dict[str, Any]:
    light = {"photons": 2.0, "read_noise": 2.0, "seed": 0, "seconds": 1.5, "device": "cpu"}
    errors = {f"W{window}@{coverage}": [1.234, 45.6, 7.8] for window in (1, 19) for coverage in (28, 100)}
    return {"sequence": sequence, "method": method, "frames": frames} | light | errors | changes


def test_a_table_has_means_over_sequences_and_a_gap_where_one_lacks(stream: ModuleType) -> None:
    rows = [row("a-sway", "none"), row("b-sway", "none", **{"W1@28": [2.234, 55.6, 17.8]}), row("a-static", "none")]
    rows += [row("a-sway", "fusion"), {k: v for k, v in row("b-sway", "fusion").items() if k != "W1@28"}]

    text = stream.tables(rows)

    table = text[text.index("**W = 1, pointwise, at 28 % coverage**") :].splitlines()[2:6]
    assert table == [
        "| EPE, Bad-1, Bad-3 | static | sway |",
        "| --- | --- | --- |",
        "| one pair | 1.23, 46, 8 | 1.73, 51, 13 |",
        "| **fusion** | \N{EN DASH} | \N{EN DASH} |",
    ]
    assert "After 16 frames; means over 2 sequences." in text


def test_poses_of_sequences_without_truth_are_shown_by_light(stream: ModuleType) -> None:
    errors = {"translation_percent": 2.5, "rotation_per_length": 0.0123, "seconds": 0.5}
    rows = [row("kitti_sequence", "fusion", photons=light, **errors) for light in (32.0, 8.0)]
    rows = [{name: value for name, value in each.items() if not name.startswith("W")} for each in rows]

    text = stream.tables(rows)

    assert "### KITTI" in text
    assert "EPE" not in text
    lines = [line for line in text.splitlines() if "fusion" in line]
    gaps = " | ".join(["\N{EN DASH}"] * 3)
    assert lines[:2] == [f"| as recorded, {light} photons | **fusion** | 2.5 | 0.012 | {gaps} |" for light in (8, 32)]


def test_rows_that_are_measured_again_replace_their_own(stream: ModuleType) -> None:
    kept = [row("a-sway", "none"), row("a-sway", "fusion", seconds=9.0), row("b-sway", "fusion")]

    merged = stream.merge(kept, [row("a-sway", "fusion", seconds=2.0)])

    assert [(each["sequence"], each["method"], each["seconds"]) for each in merged] == [
        ("a-sway", "fusion", 2.0), ("a-sway", "none", 1.5), ("b-sway", "fusion", 1.5),
    ]  # fmt: skip


def test_a_row_reads_errors_off_the_curve_at_its_coverage(stream: ModuleType) -> None:
    task = Task("sequence", "a-sway", "stream:best", 2.0, 2.0, 0, frames=4)
    curve = {"coverage_percent": [10, 46], "epe": [1.0, 2.0], "bad": {"1": [10.0, 20.0], "3": [0.0, 6.0]}}
    motion = {"step_px": 0.25, "nees": None}

    found = stream.one_row(
        Record(task, curves={"1": curve}, seconds=2.0, motion=motion), "c", {"stream:best": "fusion"}
    )

    assert (found["method"], found["frames"], found["seconds"], found["step_px"]) == ("fusion", 4, 2.0, 0.25)
    assert found["W1@28"] == [1.5, 15.0, 3.0]  # halfway between the two points
    assert "nees" not in found
    assert "W1@100" not in found  # the curve ends before


def test_every_row_of_the_table_is_a_method(stream: ModuleType) -> None:
    for method in stream.METHODS:
        get_method(stream.spec_of(method, "best"))
    assert set(stream.TITLES) == set(stream.METHODS)


def test_the_room_is_a_sequence_whose_poses_fit_its_truth(stream: ModuleType, tmp_path: Path) -> None:
    stream.write_room(tmp_path / "room_forward", "forward", 2)

    sequence = read_sequence(tmp_path / "room_forward")

    assert len(sequence) == 2
    assert sequence.poses is not None
    np.testing.assert_allclose(sequence.poses[1][:3, 3], [0.02, 0.0, 0.2])
    assert pose_errors(sequence, sequence.poses).step_px == pytest.approx(0.0, abs=1e-6)


def test_the_tool_is_called_for_the_scenes_that_are_missing(stream: ModuleType, tmp_path: Path) -> None:
    tool = tmp_path / "tool.py"
    tool.write_text(
        "import sys\nfrom pathlib import Path\nPath(sys.argv[2] + '.txt').write_text(' '.join(sys.argv[1:]))"
    )
    options = SimpleNamespace(
        room=False, scenes=[Path("Piano")], motion=["sway+object"], made=tmp_path, frames=[1, 4], tool=tool
    )

    (folder,) = stream._made(options)

    assert folder == tmp_path / "Piano-sway+object"
    assert Path(f"{folder}.txt").read_text() == f"Piano {folder} --motion sway --frames 4 --object"


def test_the_page_shows_what_was_measured(stream: ModuleType, tmp_path: Path) -> None:
    if not stream.RESULTS.exists():
        pytest.skip("nothing has been measured yet")
    copy = tmp_path / "fusion.md"
    copy.write_text(stream.PAGE.read_text())

    stream.write_tables(copy, json.loads(stream.RESULTS.read_text()))

    assert copy.read_text() == stream.PAGE.read_text()
