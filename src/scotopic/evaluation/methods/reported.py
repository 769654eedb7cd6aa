"""The figures that the paper reports, to stand beside ours, marked as reported.

They are copied, not measured, and may include other scenes than ours. All are at W = 19.

References
----------
Wang, Nguyen, Eom, Xu and Guo, "Non-Learning Low-light Stereo Vision", 2026.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


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
        Percentage of the image, or ``"dense"`` as the paper says.
    spec
        The method here that it should be compared with (:func:`~scotopic.evaluation.methods.get_method`), if any.
    window
        W of the window metric.
    """

    dataset: str
    scenes: int
    method: str
    epe: float
    bad1: float
    bad3: float
    bad5: float
    coverage_percent: float | Literal["dense"]
    spec: str | None = None
    window: int = 19


REPORTED: tuple[Reported, ...] = (
    Reported("middlebury2014", 23, "this method", 0.98, 17.30, 7.88, 5.03, 2.82, "scotopic:paper"),
    Reported("middlebury2014", 23, "fixed P2 = 200", 1.38, 21.13, 11.65, 8.09, 3.70, "scotopic:paper+fixed-p2"),
    Reported("middlebury2014", 23, "non-symmetric", 2.61, 27.06, 15.99, 12.21, 0.56, "scotopic:paper+non-symmetric"),
    Reported("middlebury2014", 23, "Noise-DA + SGBM", 1.71, 27.00, 12.54, 8.10, "dense"),
    Reported("middlebury2014", 23, "Restormer + DEFOM-Stereo", 5.47, 64.88, 44.55, 32.34, "dense"),
    Reported("middlebury2014", 23, "Noise-DA + DEFOM-Stereo", 6.72, 71.29, 52.05, 38.72, "dense"),
    Reported("middlebury2014", 23, "DEFOM-Stereo", 11.13, 79.44, 63.97, 53.83, "dense"),
    Reported("middlebury2014", 23, "FoundationStereo", 12.80, 81.43, 67.78, 58.12, "dense"),
    Reported("middlebury2014", 23, "Selective-IGEV", 27.53, 94.60, 89.96, 85.38, "dense"),
    Reported("middlebury2014", 23, "IGEV++", 34.02, 91.33, 83.29, 76.98, "dense"),
    Reported("middlebury2014", 23, "BridgeDepth", 72.84, 95.90, 92.81, 90.71, "dense"),
    Reported("instereo2k", 89, "this method", 1.50, 33.21, 11.10, 6.68, 2.5, "scotopic:paper"),
    Reported("instereo2k", 89, "Noise-DA + SGBM", 2.10, 50.95, 20.59, 10.23, "dense"),
    Reported("instereo2k", 89, "Restormer + DEFOM-Stereo", 6.88, 54.54, 30.55, 20.75, "dense"),
    Reported("instereo2k", 89, "Noise-DA + DEFOM-Stereo", 33.17, 66.59, 43.51, 32.93, "dense"),
    Reported("instereo2k", 89, "DEFOM-Stereo", 5.06, 77.41, 52.28, 33.75, "dense"),
    Reported("instereo2k", 89, "FoundationStereo", 8.30, 70.65, 47.99, 34.65, "dense"),
    Reported("instereo2k", 89, "Selective-IGEV", 38.17, 98.93, 97.86, 96.32, "dense"),
    Reported("instereo2k", 89, "IGEV++", 64.37, 98.14, 95.84, 93.80, "dense"),
    Reported("instereo2k", 89, "BridgeDepth", 88.12, 98.24, 96.69, 95.58, "dense"),
)
