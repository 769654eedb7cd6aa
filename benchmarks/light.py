"""Error against light: runs the plan ``light`` and writes its tables into ``docs/networks.md``.

    python benchmarks/light.py --method scotopic:best         # one column; the others stay as they are
    python benchmarks/light.py                                # every method of the plan, at every level

What a method reaches is kept in ``benchmarks/results/light.json`` with the commit at which it was measured. Scenes are
those of the checking half (``--scenes``); the networks must be there (docs/networks.md says where). A run that was
stopped goes on where it stopped when the same command is given again, as long as the folder of its results is there.
Results of a method that has changed since must be deleted first, or go to another folder (``-o``).
"""

import argparse
import json
import subprocess
from pathlib import Path
from typing import Any

from scotopic.evaluation.benchmark import Status, run_benchmark
from scotopic.evaluation.plan import Plan, load_plan
from scotopic.evaluation.records import Record
from scotopic.evaluation.report import read_results, write_report
from scotopic.evaluation.report.summary import figures_at_coverage
from scotopic.evaluation.report.words import dataset_name

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PAGE = ROOT / "benchmarks" / "results" / "light.json", ROOT / "docs" / "networks.md"
BEGIN, END = "<!-- tables of light, written by benchmarks/light.py -->", "<!-- end of the tables of light -->"
FIGURES = ("epe", "bad-1", "bad-3")
Row = dict[str, Any]


def main() -> None:
    """Run, keep, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared", help="folder that holds data and more")
    parser.add_argument("-o", "--out", type=Path, default=ROOT / "build" / "light", help="folder of the results")
    parser.add_argument("--method", action="append", help="instead of the plan's; may be repeated")
    parser.add_argument("--frames", nargs="+", default=["1", "8", "32", "clean"], help="levels of light")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--scenes", default="checking", help="half of the split")
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path, default=PAGE)
    arguments = parser.parse_args()
    plan = load_plan("light").with_scenes(arguments.scenes)
    plan = plan.with_changes(
        methods=tuple(arguments.method or plan.methods),
        frames=tuple(int(text) if text.isdigit() else text for text in arguments.frames),
        seeds=tuple(range(arguments.seeds)),
        thresholds=(1.0, 3.0),
    )
    run(plan, arguments.data, arguments.out)
    kept = json.loads(arguments.json.read_text()) if arguments.json.exists() else {}
    kept = merge(kept, measured_rows(arguments.out, plan), plan, arguments.scenes)
    arguments.json.write_text(json.dumps(kept, indent=1) + "\n")
    write_tables(arguments.page, kept["rows"])


def run(plan: Plan, data: Path, folder: Path) -> None:
    """Run what is missing of the plan, and write its report."""

    def tell(status: Status) -> None:
        task = status.last.task if status.last else None
        words = f" {task.dataset} {task.scene} {task.method} frames {task.frames}" if task else ""
        error = f": {status.last.error}" if status.last and status.last.error else ""
        print(f"{status.done} of {status.total}{words}{error}", flush=True)

    status = run_benchmark(plan, data, folder, tell=tell)
    print(f"the report is {write_report(folder)}")
    if status.failed:
        raise SystemExit(f"{status.failed} of {status.total} tasks failed, so the tables stay as they are.")


def measured_rows(folder: Path, plan: Plan) -> list[Row]:
    """Return the errors of the plan's methods, one row for each data set, level, window, coverage and method.

    A row names its coverage. Where a method does not answer so much on every scene, it has no row.
    """
    rows = []
    for group in read_results(folder).groups:
        for method in plan.methods:
            records: list[Record] = list(group.scored(method).values())
            for window in plan.windows:
                for coverage in plan.coverages:
                    found = figures_at_coverage(group, method, window, coverage)
                    if found:
                        row = {"dataset": group.dataset, "level": group.level, "method": method, "window": window}
                        row |= {"coverage_percent": coverage, "runs": len(records)}
                        rows.append(row | {name: round(found[name].mean, 3) for name in FIGURES})
    return rows


def merge(kept: dict[str, Any], rows: list[Row], plan: Plan, half: str) -> dict[str, Any]:
    """Return what was kept, with the rows of the methods that were run now in place of their older ones."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, cwd=ROOT, check=False
    ).stdout.strip()
    others = [row for row in kept.get("rows", []) if row["method"] not in plan.methods]
    now = {method: {"commit": commit, "seeds": len(plan.seeds), "scenes": half} for method in plan.methods}
    return {"measured": {**kept.get("measured", {}), **now}, "rows": [*others, *rows]}


def write_tables(page: Path, rows: list[Row]) -> None:
    """Replace the tables in the page."""
    text = page.read_text(encoding="utf-8")
    before, found, rest = text.partition(BEGIN)
    _, closed, after = rest.partition(END)
    if not (found and closed):
        raise SystemExit(f"{page} has no place for the tables: it must hold the lines {BEGIN} and {END}.")
    page.write_text(f"{before}{BEGIN}\n\n{tables(rows)}\n\n{END}{after}", encoding="utf-8")


def tables(rows: list[Row]) -> str:
    """Return a table for each window, coverage and data set: EPE in px, Bad-1 and Bad-3 in %, ours in the first column.

    None is wider than 80 columns, which is why a data set has a table of its own.
    """
    methods = sorted({row["method"] for row in rows}, key=lambda name: (not name.startswith("scotopic:"), name))
    places = list(dict.fromkeys((row["dataset"], row["level"]) for row in rows))
    places.sort(key=lambda place: (_SETS.index(place[0]), _light(place[1])))
    found = {(row["dataset"], row["level"], row["window"], row["coverage_percent"], row["method"]): row for row in rows}
    parts = []
    for window in sorted({row["window"] for row in rows}):
        for coverage in sorted({row["coverage_percent"] for row in rows}):
            parts.append(f"**W = {window}{', pointwise' if window == 1 else ''}, at {coverage:g} % coverage**")
            for dataset in dict.fromkeys(dataset for dataset, _ in places):
                head = [dataset_name(dataset), *(f"`{method.removeprefix('network:')}`" for method in methods)]
                lines = [head, ["---"] * len(head)]
                for level in (level for name, level in places if name == dataset):
                    cells = [found.get((dataset, level, window, coverage, method)) for method in methods]
                    lines.append([level, *(_cell(cell) for cell in cells)])
                parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
    return "\n\n".join(parts)


_SETS = ("middlebury2014", "instereo2k", "night")


def _light(level: str) -> float:
    count = level.split()[0]
    return float(count) if count.isdigit() else float("inf")


def _cell(row: Row | None) -> str:
    return f"{row['epe']:.2f}, {row['bad-1']:.0f}, {row['bad-3']:.0f}" if row else "\N{EN DASH}"


if __name__ == "__main__":
    main()
