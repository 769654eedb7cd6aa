"""What a benchmark runs: data sets x methods x noise levels x seeds, from a TOML file."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from os import PathLike
from pathlib import Path
from typing import Any

from scotopic.errors import InputError, SettingsError
from scotopic.evaluation.records import Task
from scotopic.evaluation.toml_files import (
    Check,
    check_keys,
    check_values,
    is_list,
    is_number,
    is_text,
    is_whole,
    read_toml,
)

PLANS = Path(__file__).parent / "plans"  #: the plans that ship with the package

_POSITIVE: Check = (
    lambda values: is_list(values, lambda value: is_number(value, above=0)),
    "a list of numbers above 0",
)
_NAMES: Check = (lambda values: is_list(values, is_text), "a list of names")
_DATASET_CHECKS: dict[str, Check] = {
    "kind": (is_text, "the name of a data set"),
    "folders": _NAMES,
    "scenes": (lambda values: values == () or is_list(values, is_text), "a list of names, or left out"),
    "scale": (lambda value: value is None or (is_number(value, above=0) and value <= 1), "above 0 and at most 1"),
}
_PLAN_CHECKS: dict[str, Check] = {
    "title": (is_text, "a text"),
    "datasets": (bool, "at least one [[datasets]]"),
    "methods": _NAMES,
    "photons": _POSITIVE,
    "read_noise": (lambda value: is_number(value) and value >= 0, "a number from 0 on"),
    "seeds": (lambda values: is_list(values, lambda seed: is_whole(seed, 0)), "a list of whole numbers from 0 on"),
    "windows": (
        lambda values: is_list(values, lambda window: is_whole(window, 1) and window % 2 == 1),
        "a list of odd whole numbers",
    ),
    "thresholds": _POSITIVE,
    "max_disparity": (lambda value: is_whole(value, 1, 65536), "a whole number from 1 to 65536"),
    "matched_to": (is_text, "the spec of a method"),
}


@dataclass(frozen=True)
class DatasetPlan:
    """A data set of a plan.

    Attributes
    ----------
    kind
        A name in :data:`scotopic.evaluation.datasets.DATASETS`.
    folders
        Where to look for it, in this order, relative to the root of the data.
    scenes
        Names of the scenes to use; empty for all.
    scale
        Size relative to full size; ``None`` for the protocol's.
    """

    kind: str
    folders: tuple[str, ...]
    scenes: tuple[str, ...] = ()
    scale: float | None = None

    def __post_init__(self) -> None:
        check_values(f"Data set {self.kind!r} of the plan", vars(self), _DATASET_CHECKS)

    def locate(self, root: Path) -> Path:
        """Return the first of the folders that exists, or raise :class:`InputError`."""
        for folder in self.folders:
            if (root / folder).is_dir():
                return root / folder
        raise InputError(
            f"Data set {self.kind!r} is not in {str(root)!r}: no folder {' or '.join(self.folders)} there."
        )


@dataclass(frozen=True)
class Plan:
    """A benchmark.

    Attributes
    ----------
    title
        What the report is called.
    datasets, methods
        What is run on what; methods are specs of :func:`scotopic.evaluation.methods.get_method`.
    photons, read_noise
        Noise levels: every photon level with this read noise.
    seeds
        Noise seeds.
    windows, thresholds
        Of the metric; every window with every threshold.
    max_disparity
        Candidates are ``0 <= d < max_disparity``.
    matched_to
        The method whose coverage the others are matched to.
    """

    title: str
    datasets: tuple[DatasetPlan, ...]
    methods: tuple[str, ...]
    photons: tuple[float, ...] = (2.0,)
    read_noise: float = 2.0
    seeds: tuple[int, ...] = (0,)
    windows: tuple[int, ...] = (1, 19)
    thresholds: tuple[float, ...] = (1.0, 3.0, 5.0)
    max_disparity: int = 128
    matched_to: str = "scotopic:paper"

    def __post_init__(self) -> None:
        check_values(f"The plan {self.title!r}", vars(self), _PLAN_CHECKS)

    def tasks(self, scenes: dict[str, list[str]]) -> Iterator[Task]:
        """Yield every task, scene by scene, given the names of each data set's scenes."""
        for dataset in self.datasets:
            each = itertools.product(scenes[dataset.kind], self.photons, self.seeds, self.methods)
            for scene, photons, seed, method in each:
                yield Task(dataset.kind, scene, method, photons, self.read_noise, seed, self.max_disparity)

    def with_changes(self, **changes: Any) -> Plan:
        """Return the plan with those fields replaced that are not ``None``."""
        return replace(self, **{name: value for name, value in changes.items() if value is not None})


def shipped_plans() -> list[str]:
    """Return the names of the plans that ship with the package."""
    return sorted(path.stem for path in PLANS.glob("*.toml"))


def load_plan(source: str | PathLike[str]) -> Plan:
    """Read a plan: a TOML file, or the name of one that ships with the package.

    Raises
    ------
    InputError
        There is no such file, or it is not TOML.
    SettingsError
        A key is unknown or missing, or a value makes no sense.
    """
    path = PLANS / f"{source}.toml" if str(source) in shipped_plans() else Path(source)
    if not path.exists():
        raise InputError(f"There is no plan {str(source)!r}. Plans that ship are {', '.join(shipped_plans())}.")
    what = f"The plan {path.name}"
    values = read_toml(path, "The plan")
    parts = values.pop("datasets", [])
    if not (isinstance(parts, list) and all(isinstance(part, dict) for part in parts)):
        raise SettingsError(f"{what}: each data set must be a table [[datasets]], not {parts!r:.80}.")
    check_keys(what, values, [field.name for field in fields(Plan)])
    for part in parts:
        check_keys(f"A data set of {what}", part, list(_DATASET_CHECKS), required=("kind", "folders"))
    datasets = tuple(DatasetPlan(**_lists_as_tuples(part)) for part in parts)
    return Plan(**{"title": path.stem, "methods": (), **_lists_as_tuples(values), "datasets": datasets})


def _lists_as_tuples(values: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
