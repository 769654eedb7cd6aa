"""What a benchmark runs: data sets x methods x noise levels x seeds, from a TOML file."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from os import PathLike
from pathlib import Path
from typing import Any

from scotopic.errors import InputError, SettingsError
from scotopic.evaluation.records import Task

PLANS = Path(__file__).parent / "plans"  #: the plans that ship with the package


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
        checks = {
            "kind": isinstance(self.kind, str),
            "folders": _are(self.folders, str),
            "scenes": not self.scenes or _are(self.scenes, str),
            "scale": self.scale is None or (_are((self.scale,), float) and 0 < self.scale <= 1),
        }
        for name, good in checks.items():
            if not good:
                raise SettingsError(
                    f"plan, data set {self.kind!r}, {name}: found {getattr(self, name)!r}, expected names, and a scale "
                    "above 0 and at most 1; correct the plan"
                )

    def locate(self, root: Path) -> Path:
        """Return the first of the folders that exists.

        Raises
        ------
        InputError
            None does.
        """
        for folder in self.folders:
            if (root / folder).is_dir():
                return root / folder
        raise InputError(
            f"data set {self.kind!r}: found none of {', '.join(self.folders)} in {str(root)!r}, expected one of them; "
            "point --data at the folder that holds it"
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
        checks = {
            "title": isinstance(self.title, str),
            "datasets": bool(self.datasets),
            "methods": _are(self.methods, str),
            "photons": _are(self.photons, float) and all(p > 0 for p in self.photons),
            "read_noise": _are((self.read_noise,), float) and self.read_noise >= 0,
            "seeds": _are(self.seeds, int) and all(s >= 0 for s in self.seeds),
            "windows": _are(self.windows, int) and all(w >= 1 and w % 2 == 1 for w in self.windows),
            "thresholds": _are(self.thresholds, float) and all(t > 0 for t in self.thresholds),
            "max_disparity": _are((self.max_disparity,), int) and 1 <= self.max_disparity <= 65536,
            "matched_to": isinstance(self.matched_to, str),
        }
        for name, good in checks.items():
            if not good:
                raise SettingsError(
                    f"plan {self.title!r}, {name}: found {getattr(self, name)!r}, expected at least one good value "
                    "(odd windows, whole seeds, positive finite numbers); correct the plan"
                )

    def tasks(self, scenes: dict[str, list[str]]) -> Iterator[Task]:
        """Yield every task, scene by scene, given the names of each data set's scenes."""
        for dataset in self.datasets:
            for scene in scenes[dataset.kind]:
                for photons in self.photons:
                    for seed in self.seeds:
                        for method in self.methods:
                            yield Task(dataset.kind, scene, method, photons, self.read_noise, seed, self.max_disparity)

    def with_changes(self, **changes: Any) -> Plan:
        """Return the plan with those fields replaced that are not ``None``."""
        return replace(self, **{name: value for name, value in changes.items() if value is not None})


def _are(values: object, kind: type) -> bool:
    """Whether there is at least one value, and all are of a kind; whole numbers are floats too, truths are neither."""
    if not isinstance(values, tuple) or not values:
        return False
    kinds = (int, float) if kind is float else (kind,)
    good = all(isinstance(value, kinds) and not isinstance(value, bool) for value in values)
    return good and (kind is not float or all(math.isfinite(value) for value in values))


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
    try:
        values = tomllib.loads(path.read_bytes().decode())  # as it stands: read_text would mend line ends
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(
            f"plan {str(source)!r}: found {error!s:.120}, expected a TOML file or one of {', '.join(shipped_plans())}; "
            "correct the name or the file"
        ) from error
    parts = values.pop("datasets", [])
    if not (isinstance(parts, list) and all(isinstance(part, dict) for part in parts)):
        raise SettingsError(f"plan {str(source)!r}: found datasets = {parts!r:.80}, expected [[datasets]]; correct it")
    try:
        datasets = tuple(DatasetPlan(**_known(part, DatasetPlan, path)) for part in parts)
        return Plan(**{"title": path.stem, "methods": (), **_known(values, Plan, path), "datasets": datasets})
    except TypeError as error:
        raise SettingsError(f"plan {str(source)!r}: {error!s:.150}; correct the plan") from error


def _known(values: dict[str, Any], kind: type[Plan] | type[DatasetPlan], path: Path) -> dict[str, Any]:
    """Return the values with lists as tuples, after checking that each is a field."""
    names = [f.name for f in fields(kind)]
    unknown = [key for key in values if key not in names]
    if unknown:
        raise SettingsError(f"plan {path.name}: found {unknown[0]!r}, expected one of {', '.join(names)}; correct it")
    return {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
