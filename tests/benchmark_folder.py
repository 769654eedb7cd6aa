"""A folder of benchmark results made up by formulas, so that every number of a report can be told beforehand."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pictures import draw_blocks

from scotopic.evaluation.records import Record, Task, maps_path, scene_path

SCENES = {"middlebury2014": ("Adirondack", "Motorcycle", "Piano"), "instereo2k": ("000040", "000840", "001240")}
SEEDS = (0, 1)
WINDOWS = (1, 19)
THRESHOLDS = ("1", "3", "5")
BROKEN = "disp0.pfm holds 12 bytes, too few for 944 x 628 px <float>. Get it again."


@dataclass(frozen=True)
class FakeMethod:
    """A method whose error grows with coverage along a straight line.

    Attributes
    ----------
    start, slope
        EPE in px at no coverage, and its growth for each percent of the image, at W = 19. W = 1 is four times as much.
    own, most
        Percent of the image that it answers, and for which it has any answer.
    seconds
        How long it takes.
    """

    start: float
    slope: float
    own: float
    most: float
    seconds: float = 1.0

    def coverage(self, scene: int, seed: int) -> float:
        """Percent of the image at its own mask: a little different on each scene and seed."""
        return self.own * (1 + 0.1 * scene + 0.01 * seed)

    def epe(self, coverage: float, window: int, scene: int, seed: int) -> float:
        """EPE at a coverage: half a pixel more on each scene, a tenth for each seed."""
        forgiven = {1: 4.0, 19: 1.0}.get(window, 1 + 3 / window)
        return forgiven * (self.start + self.slope * coverage + 0.5 * scene + 0.1 * seed)


METHODS = {
    "scotopic:paper": FakeMethod(0.4, 0.05, own=3.0, most=60, seconds=48.2),
    "scotopic:paper+fixed-p2": FakeMethod(0.7, 0.06, own=4.0, most=60, seconds=47.9),
    "classical": FakeMethod(0.3, 0.09, own=27.0, most=80, seconds=0.84),
    "opencv:sgbm": FakeMethod(9.0, 3.0, own=0.7, most=0.7, seconds=0.041),  # never reaches the reference's coverage
    "clean+sgbm": FakeMethod(0.1, 0.004, own=67.0, most=75, seconds=0.038),
}


def bad_of(epe: float, threshold: str) -> float:
    """Bad-K that goes with an EPE: any falling function of K would do."""
    return 100.0 * epe / (epe + float(threshold))


def make_record(task: Task, method: FakeMethod, scene: int, windows: Iterable[int] = WINDOWS) -> Record:
    """A finished record with the figures of the formulas."""
    coverage = method.coverage(scene, task.seed)
    points = np.linspace(max(coverage, method.most) / 40, max(coverage, method.most), 40).tolist()
    scores, curves = {}, {}
    for window in windows:
        epe = method.epe(coverage, window, scene, task.seed)
        line = [method.epe(point, window, scene, task.seed) for point in points]
        bad = {k: bad_of(epe, k) for k in THRESHOLDS}
        scores[str(window)] = {"epe": epe, "rms": 2 * epe, "bad": bad, "coverage_percent": coverage}
        scores[str(window)] |= {"a50": epe / 2, "a90": 2 * epe, "a99": 6 * epe}
        curves[str(window)] = {"coverage_percent": points, "epe": line, "aurc": line[20], "ause": line[20] / 3}
        curves[str(window)]["bad"] = {k: [bad_of(value, k) for value in line] for k in THRESHOLDS}
    return Record(task, scores, curves, method.seconds, 120, 80)


def unanswered_record(task: Task, windows: Iterable[int] = WINDOWS) -> Record:
    """A finished record of a method that answered nowhere: no figure but the coverage, as null."""
    nothing = dict.fromkeys(("epe", "rms", "a50", "a90", "a99")) | {"bad": dict.fromkeys(THRESHOLDS)}
    nothing |= {"coverage_percent": 0.0}
    curve = {"coverage_percent": [], "epe": [], "bad": {k: [] for k in THRESHOLDS}, "aurc": None, "ause": None}
    return Record(task, {str(w): nothing for w in windows}, {str(w): curve for w in windows}, 0.1, 120, 80)


def make_folder(
    folder: Path,
    *,
    photons: Sequence[float] = (2.0,),
    frames: Sequence[int] = (1,),
    coverages: Sequence[float] = (),
    windows: Sequence[int] = WINDOWS,
    methods: dict[str, FakeMethod] | None = None,
    size: tuple[int, int] = (80, 120),
    gaps: bool = True,
) -> Path:
    """Write records, maps, scenes and the plan.

    With ``gaps``, ``scotopic:paper+fixed-p2`` fails on one scene with both seeds, ``opencv:sgbm`` answers nothing on
    another with one seed, and ``classical`` was never run on the last scene with one seed.
    """
    chosen = METHODS if methods is None else methods
    for dataset, scenes in SCENES.items():
        for k, scene in enumerate(scenes):
            for level, count in itertools.product(photons, frames):
                for seed in SEEDS:
                    for name, method in chosen.items():
                        task = Task(dataset, scene, name, level, 2.0, seed, frames=count)
                        record = make_record(task, method, k, windows)
                        if gaps and (name, scene) == ("scotopic:paper+fixed-p2", "Motorcycle"):
                            record = Record(task, error=BROKEN)
                        elif gaps and (name, scene, seed) == ("opencv:sgbm", "Piano", 1):
                            record = unanswered_record(task, windows)
                        elif gaps and (name, scene, seed) == ("classical", "001240", 1):
                            continue
                        record.save(folder)
                        if record.error is None:
                            _save_maps(folder, record, method, size, k)
    plan = {
        "title": "Table 1",
        "datasets": [{"kind": dataset, "folders": [dataset]} for dataset in SCENES],
        "methods": list(chosen),
        "max_disparity": 128,
        "matched_to": "scotopic:paper",
        "coverages": list(coverages),
    }
    (folder / "plan.json").write_text(json.dumps(plan))
    return folder


def _save_maps(folder: Path, record: Record, method: FakeMethod, size: tuple[int, int], scene: int) -> None:
    """Pictures that look a little like the real ones: blocks at several depths, answers beside their edges first."""
    random = np.random.default_rng([scene, record.task.seed])
    clean = draw_blocks(*size, 3, seed=scene, side=max(24, size[1] // 8))
    truth = (10 + 50 * clean.mean(axis=2)).astype(np.float32)
    edges = np.hypot(*np.gradient(truth)) + 0.01 * random.random(size)
    coverage = record.scores[str(WINDOWS[-1])]["coverage_percent"]
    kept = edges >= np.quantile(edges, max(0.0, 1 - coverage / 100))
    error = random.laplace(0, method.start + method.slope * coverage / 2, size)
    dense = (truth + error).astype(np.float16)
    noisy = np.clip(np.round(random.poisson(2 * clean) + random.normal(0, 2, clean.shape)), 0, 2) / 2
    known = np.where(random.random(size) < 0.03, np.nan, truth)
    maps = {"disparity": np.where(kept, dense, np.float16(np.nan)), "dense": dense, "confidence": edges}
    _save(maps_path(folder, record.task), {name: value.astype(np.float16) for name, value in maps.items()})
    picture = (255 * noisy).astype(np.uint8)
    _save(scene_path(folder, record.task), {"left": picture, "truth": known.astype(np.float16)})


def _save(path: Path, arrays: dict[str, NDArray[np.generic]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **arrays)
