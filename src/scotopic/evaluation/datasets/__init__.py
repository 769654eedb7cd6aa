"""Data sets, each read from the layout in which it is published, all giving one kind of scene."""

from scotopic.evaluation.datasets.layout import DatasetKind
from scotopic.evaluation.datasets.registry import DATASETS, Dataset, open_dataset

__all__ = ["DATASETS", "Dataset", "DatasetKind", "open_dataset"]
