"""The figures that the paper reports, to stand beside ours, marked as reported.

They are copied, not measured, and may include other scenes than ours. All are at W = 19.

References
----------
Wang, Nguyen, Eom, Xu and Guo, "Non-Learning Low-light Stereo Vision", 2026.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

WINDOW = 19  #: side of the paper's window metric


@dataclass(frozen=True)
class Reported:
    """One row of the paper's tables."""

    dataset: str
    scenes: int  #: how many it is the mean of
    method: str  #: as the paper calls it
    epe: float  #: px
    bad1: float  #: percent, as the next two
    bad3: float
    bad5: float
    coverage_percent: float | None  #: of the image; ``None`` where the paper says "dense"
    spec: str | None  #: the method here that it should be compared with, if any


def _read() -> tuple[Reported, ...]:
    with Path(__file__).with_name("reported.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[1:]
    found = []
    for dataset, scenes, method, *figures, coverage, spec in rows:
        epe, bad1, bad3, bad5 = map(float, figures)
        percent = float(coverage) if coverage else None
        found.append(Reported(dataset, int(scenes), method, epe, bad1, bad3, bad5, percent, spec or None))
    return tuple(found)


REPORTED = _read()  #: every row that the paper reports
