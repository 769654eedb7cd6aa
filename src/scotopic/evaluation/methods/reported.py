"""The figures that the paper reports, to stand beside ours, marked as reported.

They are copied, not measured, and may include other scenes than ours. All are at W = 19.

References
----------
Wang, Nguyen, Eom, Xu and Guo, "Non-Learning Low-light Stereo Vision", 2026.
"""

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
    spec: str | None  #: the method here that it should be compared with, if any
    #: ``epe`` in px; ``bad-1``, ``bad-3``, ``bad-5`` and ``coverage_percent`` in percent. Where the paper says "dense"
    #: there is no coverage.
    figures: dict[str, float]


def _read() -> tuple[Reported, ...]:
    names = ("epe", "bad-1", "bad-3", "bad-5", "coverage_percent")
    with Path(__file__).with_name("reported.csv").open(encoding="utf-8", newline="") as file:
        return tuple(
            Reported(
                row["dataset"],
                int(row["scenes"]),
                row["method"],
                row["spec"] or None,
                {name: float(row[name]) for name in names if row[name]},
            )
            for row in csv.DictReader(file)
        )


REPORTED = _read()  #: every row that the paper reports
