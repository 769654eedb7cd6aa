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
    """One row of the paper's tables.

    Attributes
    ----------
    dataset
        ``"middlebury2014"`` or ``"instereo2k"``.
    scenes
        How many scenes it is the mean of.
    method
        As the paper calls it.
    epe, bad1, bad3, bad5
        End-point error in px and Bad-1, -3, -5 in percent.
    coverage_percent
        Percentage of the image; ``None`` where the paper says "dense".
    spec
        The method here that it should be compared with (:func:`~scotopic.evaluation.methods.get_method`), if any.
    """

    dataset: str
    scenes: int
    method: str
    epe: float
    bad1: float
    bad3: float
    bad5: float
    coverage_percent: float | None
    spec: str | None


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
