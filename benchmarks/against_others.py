"""Is ``preset="best"`` better than every other method that learns nothing, at every coverage and at every pixel?

    scotopic benchmark --plan quick --data ../shared/data -o results
    python benchmarks/against_others.py results --data ../shared/data --out docs/images/risk_coverage.png

Reads the records and maps of a benchmark. For each data set and window it compares the mean risk-coverage curves
point by point, and the error at every pixel. Methods that leave pixels out are filled in three ways: as they are if
they are dense, from the farther neighbor along the row, and by the planes of :mod:`scotopic.stages.filling`. The best
of them counts, separately for W1 and W19.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import scotopic
from scotopic.evaluation.benchmark import list_scenes, open_part
from scotopic.evaluation.metrics import score
from scotopic.evaluation.plan import Plan, load_plan
from scotopic.evaluation.protocol import record_scene
from scotopic.evaluation.records import Record, maps_path
from scotopic.evaluation.report import read_results
from scotopic.evaluation.scene import Scene
from scotopic.stages.filling import fill_between_boundaries

OURS, CEILING = "scotopic:best", "clean+sgbm"
COVERAGES = np.geomspace(1, 100, 41)  # per cent
Map = NDArray[np.float32]


def main() -> None:
    """Compare, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--plan", default="quick")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--out", type=Path, help="picture of the curves")
    arguments = parser.parse_args()
    plan = load_plan(arguments.plan)
    results = read_results(arguments.results)
    records = [
        record for group in results.groups for method in results.methods for record in group.scored(method).values()
    ]
    curves = {
        (dataset, window): mean_curves(records, dataset, window)
        for dataset in sorted({record.task.dataset for record in records})
        for window in ("19", "1")
    }
    filled = filled_errors(records, plan, arguments.data, arguments.results)
    report(curves, filled)
    if arguments.json:
        arguments.json.write_text(json.dumps(as_json(curves, filled), indent=1) + "\n")
    if arguments.out:
        draw(curves, arguments.out)


def mean_curves(records: list[Record], dataset: str, window: str) -> dict[str, NDArray[np.float64]]:
    """Return each method's mean EPE at :data:`COVERAGES`; NaN where it has no answer for one of the scenes."""
    methods = sorted({record.task.method for record in records})
    found = {}
    for method in methods:
        own = [r.curves[window] for r in records if r.task.method == method and r.task.dataset == dataset]
        found[method] = np.mean([_at(curve) for curve in own], axis=0)
    return found


def _at(curve: dict[str, Any]) -> NDArray[np.float64]:
    """Return a curve's EPE at :data:`COVERAGES`; it is level before the first point, and ends with the last."""
    coverage, epe = np.array(curve["coverage_percent"]), np.array(curve["epe"], dtype=np.float64)
    return np.asarray(np.interp(COVERAGES, coverage, epe, right=np.nan))


def filled_errors(
    records: list[Record], plan: Plan, root: Path, folder: Path
) -> dict[tuple[str, str], dict[str, list[float]]]:
    """Return for each data set and window the mean EPE, Bad-1 and Bad-3 of all pixels, method by method."""
    scenes = list_scenes(plan, root)
    opened = {part.kind: open_part(part, root) for part in plan.datasets if part.kind in scenes}
    errors: dict[tuple[str, str], dict[str, list[list[float]]]] = {}
    for record in records:
        task = record.task
        if task.method == CEILING:
            continue
        scene = opened[task.dataset].load(task.scene)
        ways = list(_filled(record, scene, folder))
        for window, truth in (("19", scene.truth_paper), ("1", scene.truth)):
            scores = [score(each, truth, int(window), (1, 3)) for each in ways]
            best = min(scores, key=lambda each: each.epe)
            row = [best.epe, best.bad[1], best.bad[3]]
            errors.setdefault((task.dataset, window), {}).setdefault(task.method, []).append(row)
    return {key: {m: np.mean(rows, axis=0).tolist() for m, rows in by.items()} for key, by in errors.items()}


def _filled(record: Record, scene: Scene, folder: Path) -> Iterator[Map]:
    """Yield the ways to fill a method's answer; ours is the one that the package gives."""
    task = record.task
    if task.method == OURS:
        left, right, _ = record_scene(scene, task.photons, task.read_noise, task.seed, task.frames)
        yield scotopic.match(left, right, "best", max_disparity=task.max_disparity).filled
        return
    with np.load(maps_path(folder, task)) as stored:
        kept, dense, confidence = (stored[name].astype(np.float32) for name in ("disparity", "dense", "confidence"))
    if np.isfinite(dense).all():
        yield dense
    yield farther_neighbor(kept)
    if np.isfinite(dense).any():
        sure = np.nan_to_num(confidence, nan=0.0)
        sure = (sure - sure.min()) / max(float(np.ptp(sure)), 1e-9)
        yield fill_between_boundaries(kept, dense, sure, np.zeros_like(sure))


def farther_neighbor(disparity: Map) -> Map:
    """Return the map with each gap of a row at the smaller of the disparities beside it; empty rows from those near."""
    filled = disparity.copy()
    for row in filled:
        known = np.flatnonzero(np.isfinite(row))
        if known.size:
            place = np.arange(row.size)
            after = np.searchsorted(known, place).clip(0, known.size - 1)
            before = (np.searchsorted(known, place, side="right") - 1).clip(0, known.size - 1)
            gap = ~np.isfinite(row)
            row[gap] = np.minimum(row[known[before]], row[known[after]])[gap]
    whole = np.flatnonzero(np.isfinite(filled).all(axis=1))
    if not whole.size:  # no answer at all
        return np.zeros_like(disparity)
    nearest = whole[np.abs(np.arange(len(filled))[:, None] - whole).argmin(axis=1)]
    return np.asarray(filled[nearest])


def report(
    curves: dict[tuple[str, str], dict[str, NDArray[np.float64]]], filled: dict[tuple[str, str], dict[str, list[float]]]
) -> None:
    """Print where another method's curve is below ours, and the errors of all pixels."""
    for (dataset, window), by_method in curves.items():
        print(f"{dataset}, W{window}: mean EPE at 1, 4, 10, 28, 50, 100 %")
        places = [int(np.abs(COVERAGES - c).argmin()) for c in (1, 4, 10, 28, 50, 100)]
        for method, curve in by_method.items():
            below = COVERAGES[curve < by_method[OURS]]
            note = "" if method in (OURS, CEILING) else f"   below ours at {below.size} of {np.isfinite(curve).sum()}"
            print(f"  {method:20s}" + " ".join(f"{curve[k]:6.2f}" for k in places) + note)
        print(
            "  filled: "
            + ", ".join(f"{m} {e:.2f}/{b1:.1f}/{b3:.1f}" for m, (e, b1, b3) in filled[dataset, window].items())
        )


def as_json(
    curves: dict[tuple[str, str], dict[str, NDArray[np.float64]]], filled: dict[tuple[str, str], dict[str, list[float]]]
) -> dict[str, Any]:
    """Return everything as plain values."""
    return {
        "version": scotopic.__version__,
        "coverage_percent": [round(float(c), 2) for c in COVERAGES],
        "curves": {
            f"{dataset} W{window}": {
                m: [round(float(v), 3) if np.isfinite(v) else None for v in c] for m, c in by.items()
            }
            for (dataset, window), by in curves.items()
        },
        "filled": {
            f"{dataset} W{window}": {m: [round(v, 3) for v in row] for m, row in by.items()}
            for (dataset, window), by in filled.items()
        },
    }


def draw(curves: dict[tuple[str, str], dict[str, NDArray[np.float64]]], path: Path) -> None:
    """Draw the curves, a panel for each data set and window."""
    import matplotlib.pyplot as plt

    figure, grid = plt.subplots(len(curves) // 2, 2, figsize=(10, 4 * (len(curves) // 2)), layout="constrained")
    for panel, ((dataset, window), by_method) in zip(grid.flat, curves.items(), strict=True):
        for method, curve in by_method.items():
            style = {"color": "black", "linewidth": 2.5} if method == OURS else {"linewidth": 1.2}
            panel.plot(COVERAGES, curve, label=method, linestyle=":" if method == CEILING else "-", **style)
        panel.set(
            xscale="log", yscale="log", xlabel="coverage, %", ylabel="mean EPE, px", title=f"{dataset}, W{window}"
        )
        panel.grid(alpha=0.3, which="both")
    figure.legend(*grid.flat[0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
