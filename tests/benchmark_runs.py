"""Small scenes and a small plan to run a benchmark on, and its results by task."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rooms import room

from scotopic.evaluation.plan import DatasetPlan, Plan
from scotopic.evaluation.records import Record
from scotopic.io import write_pfm, write_png

SCENES = ("attic", "barn", "cellar")


def write_scenes(root: Path, names: Sequence[str] = SCENES, first_seed: int = 0) -> Path:
    """Write small rendered scenes in the layout of one's own pairs to ``root/mine``; return `root`."""
    for seed, name in enumerate(names, first_seed):
        scene = room(128, 64, seed)
        folder = root / "mine" / name
        folder.mkdir(parents=True, exist_ok=True)
        for file, image in (("im0.png", scene.left), ("im1.png", scene.right)):
            write_png(folder / file, (image * 255).round().astype(np.uint8))
        write_pfm(folder / "disp0.pfm", scene.disparity_left)
    return root


def small_plan(*methods: str, scale: float | None = None, **changes: object) -> Plan:
    part = DatasetPlan("folder", ("mine",), scale=scale)
    plan = Plan("small", (part,), methods or ("opencv:sgbm", "opencv:bm"), max_disparity=32)
    return plan.with_changes(**{"photons": (8.0,), "windows": (1, 5), **changes})


def records_of(folder: Path) -> dict[str, Record]:
    """The results by key, and the failures of tasks without one."""
    failures = [Record.load(path) for path in folder.glob("failures/[!.]*.json")]
    found = failures + [Record.load(path) for path in sorted(finished_records(folder))]
    return {record.task.key: record for record in found}


def finished_records(folder: Path) -> list[Path]:
    """The records under their own names; a name with a dot in front is one that was being written."""
    return list(folder.glob("records/[!.]*.json"))
