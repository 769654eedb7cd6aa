"""Data sets, metrics, methods to compare with, benchmark and report; beside the flow and never imported by it."""

from scotopic.evaluation.curves import Curve, at_coverage, risk_coverage
from scotopic.evaluation.datasets import DATASETS, open_dataset
from scotopic.evaluation.method import Method, Prediction
from scotopic.evaluation.metrics import Score, score, window_error
from scotopic.evaluation.scene import Scene

__all__ = [
    "DATASETS",
    "Curve",
    "Method",
    "Prediction",
    "Scene",
    "Score",
    "at_coverage",
    "open_dataset",
    "risk_coverage",
    "score",
    "window_error",
]
