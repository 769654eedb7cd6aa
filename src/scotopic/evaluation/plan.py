"""What a benchmark runs: data sets x methods x noise levels x seeds, from a TOML file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from os import PathLike
from pathlib import Path
from typing import Any

from scotopic.errors import InputError, SettingsError, did_you_mean
from scotopic.evaluation import toml_files as toml
from scotopic.evaluation.datasets import DATASETS
from scotopic.evaluation.protocol import CLEAN
from scotopic.evaluation.records import Task
from scotopic.evaluation.split import HALVES, split_scenes

PLANS = Path(__file__).parent / "plans"  #: the plans that ship with the package

_FRAMES = toml.list_of((lambda value: value == "clean" or toml.whole(1, 1000)[0](value), 'from 1 to 1000 or "clean"'))
_PHOTONS = toml.list_of(toml.POSITIVE)
_DATASET_CHECKS: dict[str, toml.Check] = {
    "kind": toml.TEXT,
    "folders": toml.list_of(toml.TEXT),
    "more": (lambda value: value == () or toml.list_of(toml.TEXT)[0](value), "a list of folders, or left out"),
    "scenes": (
        lambda value: value == () or value in HALVES or toml.list_of(toml.TEXT)[0](value),
        f"a list of names, or {' or '.join(HALVES)}, or left out",
    ),
    "frames": (lambda value: value == () or _FRAMES[0](value), f"{_FRAMES[1]}, or left out"),
    "photons": (lambda value: value == () or _PHOTONS[0](value), f"{_PHOTONS[1]}, or left out"),
    "scale": (lambda value: value is None or (toml.is_number(value) and 0 < value <= 1), "above 0 and at most 1"),
}
_PLAN_CHECKS: dict[str, toml.Check] = {
    "title": toml.TEXT,
    "datasets": (bool, "at least one [[datasets]]"),
    "methods": toml.list_of(toml.TEXT),
    "photons": _PHOTONS,
    "frames": _FRAMES,
    "read_noise": (lambda value: toml.is_number(value) and value >= 0, "a number from 0 on"),
    "seeds": toml.list_of(toml.whole(0)),
    "windows": toml.list_of((lambda value: toml.whole(1)[0](value) and value % 2 == 1, "an odd whole number")),
    "thresholds": toml.list_of(toml.POSITIVE),
    "max_disparity": toml.whole(1, 65536),
    "matched_to": toml.TEXT,
    "coverages": (
        lambda value: value == () or (toml.list_of(toml.POSITIVE)[0](value) and max(value) <= 100),
        "a list, each a percentage above 0 and at most 100",
    ),
}


@dataclass(frozen=True)
class DatasetPlan:
    """A data set of a plan."""

    kind: str  #: a name in :data:`scotopic.evaluation.datasets.DATASETS`
    folders: tuple[str, ...]  #: where to look for it, in this order, relative to the root of the data
    more: tuple[str, ...] = ()  #: further folders with scenes of it; each may be missing
    #: Names of those to use; empty for all; ``"tuning"`` or ``"checking"`` for a half of our split
    scenes: tuple[str, ...] | str = ()
    frames: tuple[int | str, ...] = ()  #: as for the plan, for this data set alone
    photons: tuple[float, ...] = ()  #: likewise
    scale: float | None = None  #: size relative to full size; ``None`` for the protocol's

    def __post_init__(self) -> None:
        toml.check_values(f"Data set {self.kind!r} of the plan", vars(self), _DATASET_CHECKS)
        is_half = isinstance(self.scenes, str) and self.kind in DATASETS
        if is_half and not self.scene_names:  # which would stand for all of them
            raise SettingsError(
                f"Data set {self.kind!r} of the plan is not split, so it has no scenes {self.scenes!r}. Name its "
                "scenes, or leave them out for all."
            )

    @property
    def scene_names(self) -> tuple[str, ...]:
        """Names of the scenes to use; empty for all."""
        return split_scenes(self.scenes, self.kind) if isinstance(self.scenes, str) else self.scenes

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
    """A benchmark."""

    title: str  #: what the report is called
    datasets: tuple[DatasetPlan, ...]
    methods: tuple[str, ...]  #: specs of :func:`scotopic.evaluation.methods.get_method`
    photons: tuple[float, ...] = (2.0,)  #: noise levels
    #: ... times frames that are averaged; ``"clean"`` for the pair as it is, without noise of ours
    #: For a sequence: of so many frames the last is matched, with the light of those before it.
    frames: tuple[int | str, ...] = (1,)
    read_noise: float = 2.0  #: of every noise level
    seeds: tuple[int, ...] = (0,)  #: of the noise
    windows: tuple[int, ...] = (1, 19)  #: of the metric; every window with every threshold
    thresholds: tuple[float, ...] = (1.0, 3.0, 5.0)
    max_disparity: int = 128  #: candidates are ``0 <= d < max_disparity``
    matched_to: str = "scotopic:paper"  #: the method whose coverage the others are matched to
    coverages: tuple[float, ...] = ()  #: percentages at which the report shows all methods, beside their own masks

    def __post_init__(self) -> None:
        toml.check_values(f"The plan {self.title!r}", vars(self), _PLAN_CHECKS)
        kinds = [part.kind for part in self.datasets]
        for kind in kinds:
            if kinds.count(kind) > 1:  # their scenes could not be told apart
                raise SettingsError(
                    f"The plan {self.title!r} has two data sets {kind!r}. Name the second folder in 'more' of the "
                    "first, or make a plan of its own for it."
                )

    def tasks(self, scenes: dict[str, list[str]]) -> Iterator[Task]:
        """Yield every task, scene by scene, given the names of each data set's scenes."""
        for dataset in self.datasets:
            noises = list(self._noises(dataset))
            for scene in scenes[dataset.kind]:
                for photons, frames, seed in noises:
                    for method in self.methods:
                        # A plan may say 2 where the command says 2.0: one task, not two.
                        noise = (float(photons), float(self.read_noise), seed)
                        yield Task(dataset.kind, scene, method, *noise, self.max_disparity, frames)

    def _noises(self, dataset: DatasetPlan) -> Iterator[tuple[float, int, int]]:
        """Yield photons, frames and seed of each noise; a pair without noise once, whatever the others."""
        levels = dataset.photons or self.photons
        for photons in levels:
            for frames in dataset.frames or self.frames:
                if isinstance(frames, int):
                    yield from ((photons, frames, seed) for seed in self.seeds)
                elif photons == levels[0]:
                    yield photons, CLEAN, self.seeds[0]

    def with_changes(self, **changes: Any) -> Plan:
        """Return the plan with those fields replaced that are not ``None``."""
        return replace(self, **{name: value for name, value in changes.items() if value is not None})

    def with_scenes(self, half: str) -> Plan:
        """Return the plan for a half of the split or for ``"all"`` scenes; data sets that are not split stay."""
        if half not in (*HALVES, "all"):
            raise SettingsError(f"There are no scenes {half!r}. Choose {', '.join(HALVES)} or all.")
        split = [half == "all" or bool(split_scenes(half, part.kind)) for part in self.datasets]
        chosen = () if half == "all" else half
        changed = (
            replace(part, scenes=chosen) if is_split else part
            for part, is_split in zip(self.datasets, split, strict=True)
        )
        return replace(self, datasets=tuple(changed))


def shipped_plans() -> list[str]:
    """Return the names of the plans that ship with the package."""
    return sorted(path.stem for path in PLANS.glob("*.toml"))


def load_plan(source: str | PathLike[str]) -> Plan:
    """Read a plan: a TOML file, or the name of one that ships with the package.

    Raises :class:`InputError` if there is no such file or it is not TOML, and :class:`SettingsError` if a key is
    unknown or missing, or a value makes no sense.
    """
    path = PLANS / f"{source}.toml" if str(source) in shipped_plans() else Path(source)
    if not os.path.exists(path):  # false also for names that no file can have
        names = shipped_plans()
        hint = did_you_mean(str(source), names)
        raise InputError(f"There is no plan {str(source)!r}.{hint} Plans that ship are {', '.join(names)}.")
    what = f"The plan {path.name}"
    values = toml.read_toml(path, "The plan")
    parts = values.pop("datasets", [])
    if not (isinstance(parts, list) and all(isinstance(part, dict) for part in parts)):
        raise SettingsError(f"{what}: each data set must be a table [[datasets]], not {toml.show(parts, 80)}.")
    toml.check_keys(what, values, [field.name for field in fields(Plan)])
    for part in parts:
        toml.check_keys(f"A data set of {what}", part, list(_DATASET_CHECKS), required=("kind", "folders"))
    datasets = tuple(DatasetPlan(**_lists_as_tuples(part)) for part in parts)
    return Plan(**{"title": path.stem, "methods": (), **_lists_as_tuples(values), "datasets": datasets})


def _lists_as_tuples(values: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
