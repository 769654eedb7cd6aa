"""What one finished task of a benchmark leaves on disk: a small JSON file, and the maps for the gallery.

A folder of results holds ``records/<key>.json`` and ``maps/<key>.npz``; both are written whole or not at all, so that a
killed run can go on where it stopped. A task that failed leaves ``failures/<key>.json`` with its error and no scores:
the other tasks go on, the report shows the gap, and the next run tries it again.

The key is made of everything that the result depends on. So a result is never taken for one of other data or settings,
and a new one never replaces one that it does not repeat.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field, fields
from itertools import chain
from pathlib import Path
from typing import Any, Self

from scotopic.errors import InputError
from scotopic.evaluation.toml_files import is_number
from scotopic.io import atomic_path
from scotopic.io.input_file import read_json, reading

#: Version of a record. In 1 ``coverage_percent`` was called ``coverage``; 1 and 2 do not say what they depend on.
FORMAT = 3


@dataclass(frozen=True)
class Inputs:
    """What the result of a task depends on beside the numbers of the task itself.

    Digests are of the content of files, not of their names or times: data that were moved or copied are the same data.
    """

    scale: float  #: size of the scene over full size
    data: str  #: digest of the scene's files: images, truth, mask, calibration
    settings: str  #: digest of the method's settings
    files: str  #: digest of the method's files: models of networks, maps that were made elsewhere
    code: str  #: version of scotopic, and digest of its code
    libraries: str  #: names and versions of those that the result depends on
    device: str  #: ``cpu`` or ``cuda``

    def changes_from(self, other: Inputs) -> list[str]:
        """Return in words what has changed since `other`.

        Examples
        --------
        >>> before = Inputs(1.0, "a", "", "", "0.1.0 c", "numpy 2.0, opencv 5.0", "cpu")
        >>> Inputs(0.5, "b", "", "", "0.1.0 c", "numpy 2.1, opencv 5.0", "cpu").changes_from(before)
        ['the scale changed from 1 to 0.5', "the scene's files changed", 'libraries changed (numpy 2.0 to numpy 2.1)']
        """
        words = {
            "scale": f"the scale changed from {other.scale:g} to {self.scale:g}",
            "data": "the scene's files changed",
            "settings": "the method's settings changed",
            "files": "the method's model or maps changed",
            "code": "scotopic changed",
            "libraries": f"libraries changed ({_only_in(other, self)} to {_only_in(self, other)})",
            "device": f"the device changed from {other.device} to {self.device}",
        }
        return [words[name] for name, value in asdict(self).items() if value != getattr(other, name)]


def _only_in(one: Inputs, other: Inputs) -> str:
    known = other.libraries.split(", ")
    return ", ".join(each for each in one.libraries.split(", ") if each not in known)


@dataclass(frozen=True)
class Task:
    """A method on a noisy scene."""

    dataset: str
    scene: str
    method: str
    photons: float
    read_noise: float
    seed: int
    max_disparity: int = 128
    frames: int = 1  #: how many noisy frames are averaged; 0 for the pair without noise of ours
    inputs: Inputs | None = None  #: what else its result depends on; ``None`` where that is not known

    @property
    def key(self) -> str:
        """A file name: readable, and unique by a hash of everything that the result depends on."""
        words = _as_name(f"{self.dataset}_{self.scene}_{self.method}").strip("-")[:80]
        values = asdict(self)
        if self.inputs is None:  # as earlier versions named it
            del values["inputs"]
            if self.frames == 1:
                del values["frames"]
        return f"{words}_{self.noise_key}_{_digest(values)[: 10 if self.inputs is None else None]}"

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """Return the task that ``asdict`` has made these values of; raise TypeError if they are not of a task."""
        inputs = values.get("inputs")
        task = cls(**{**values, "inputs": None if inputs is None else Inputs(**inputs)})
        _check_types(task, "inputs")
        if task.inputs is not None:
            _check_types(task.inputs)
        return task

    @property
    def noise_key(self) -> str:
        """The noise as a part of a file name."""
        frames = "" if self.frames == 1 else f"{self.frames}x"
        return f"{frames}{self.photons:g}_{self.read_noise:g}_{self.seed}"


@dataclass(frozen=True)
class Record:
    """The outcome of a task."""

    task: Task
    #: At the method's own mask, by window: ``{"19": {"epe": px, "rms": px, "bad": {"1": percent, ...}, "a50": px,
    #: "a90": px, "a99": px, "coverage_percent": percent}}``. Window 1 is scored on the nearest-neighbor truth, wider
    #: ones on the paper's. A figure that does not exist, such as the error of no pixels, is ``None``.
    scores: dict[str, Any] = field(default_factory=dict)
    #: By window: ``{"1": {"coverage_percent": [...], "epe": [...], "bad": {"1": [...], ...}, "aurc": px, "ause":
    #: px}}``: the errors of the most certain pixels by the method's own confidence, at rising coverage.
    curves: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0  #: that the method took
    width: int = 0  #: of the scene
    height: int = 0
    error: str | None = None  #: why there are no scores, in one line
    beyond_percent: float = 0.0  #: percentage of the true disparities that the candidates do not reach
    #: Of a sequence, the fields of :class:`~scotopic.evaluation.pose_errors.PoseErrors`, ``None`` where not known.
    motion: dict[str, float | None] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)  #: about its images, truth or maps, each once

    def save(self, folder: Path) -> None:
        """Write ``records/<key>.json``, or ``failures/<key>.json`` if the task failed, whole or not at all."""
        path = record_path(folder, self.task) if self.error is None else failure_path(folder, self.task)
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as temporary:
            temporary.write_text(json.dumps({"format": FORMAT, **asdict(self)}, indent=1, allow_nan=False) + "\n")

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a record; raise :class:`InputError` if it is none, of a newer format, or of another task than its name.

        Records of formats 1 and 2 may have any name.
        """
        kind = "a record of a benchmark"
        values = read_json(path, kind)
        with reading(path, kind, "Delete it."):
            version = values.pop("format")
            if version > FORMAT:
                raise InputError(f"{path} has format {version}, newer than {FORMAT}. Upgrade scotopic to read it.")
            for figures in (*values.get("scores", {}).values(), *values.get("curves", {}).values()):
                if "coverage" in figures:  # format 1
                    figures["coverage_percent"] = figures.pop("coverage")
            record = cls(Task.from_json(values.pop("task")), **values)
            _check_types(record, "task")
            _check_figures(record)
        if version >= 3 and path.stem != record.task.key:
            raise InputError(f"{path} does not belong to its name: it was renamed or edited. Delete it.")
        return record


def record_path(folder: Path, task: Task) -> Path:
    """Return where the record of a task lies once it has succeeded."""
    return folder / "records" / f"{task.key}.json"


def failure_path(folder: Path, task: Task) -> Path:
    """Return where the record of a task lies if it failed last time."""
    return folder / "failures" / f"{task.key}.json"


def maps_path(folder: Path, task: Task) -> Path:
    """Return where the maps of a task lie: ``disparity``, ``dense``, ``confidence`` as float16, NaN where none."""
    return folder / "maps" / f"{task.key}.npz"


def scene_path(folder: Path, task: Task) -> Path:
    """Return where the noisy input lies, once per scene and noise: ``left`` uint8, ``truth`` float16, NaN unknown."""
    name = f"{_as_name(f'{task.dataset}_{task.scene}')}_{task.noise_key}"
    if task.inputs is not None:  # earlier versions did without
        name += f"_{_digest([task.dataset, task.scene, task.inputs.scale, task.inputs.data])}"
    return folder / "scenes" / f"{name}.npz"


# --- what a file may hold: records are shown in tables and curves, which take nothing but numbers for figures


def _check_types(found: Inputs | Task | Record, *others: str) -> None:
    """Raise TypeError if a text or number is none; `others` are fields that are neither."""
    for each in fields(found):
        value = getattr(found, each.name)
        if each.name in others or (value is None and "None" in str(each.type)):
            continue
        kind = str(each.type).split(" ")[0].split("[")[0]
        is_right = {
            "str": lambda value: isinstance(value, str),
            "dict": lambda value: isinstance(value, dict),
            "list": lambda value: isinstance(value, list) and all(isinstance(each, str) for each in value),
            "int": lambda value: isinstance(value, int) and is_number(value),
            "float": is_number,
        }[kind]
        if not is_right(value):
            raise TypeError(f"its {each.name!r} is {value!r:.40}")


def _check_figures(record: Record) -> None:
    for window, scores in record.scores.items():
        figures = [value for name, value in scores.items() if name != "bad"]
        if int(window) < 1 or not all(map(_is_figure, [*figures, *_by_threshold(scores["bad"])])):
            raise TypeError(f"its scores of window {window[:9]} are not numbers")
    for window, curve in record.curves.items():
        lines = [curve["coverage_percent"], curve["epe"], *_by_threshold(curve["bad"])]
        areas = [curve.get("aurc"), curve.get("ause")]
        if {len(line) for line in lines} != {len(lines[0])} or not all(map(_is_figure, [*chain(*lines), *areas])):
            raise TypeError(f"its curve of window {window[:9]} is not one of numbers")
    if not all(map(_is_figure, record.motion.values())):
        raise TypeError("its errors of motion are not numbers")


def _by_threshold(figures: dict[str, Any]) -> list[Any]:
    if not all(is_number(float(threshold)) for threshold in figures):
        raise TypeError("its thresholds are not numbers")
    return list(figures.values())


def _is_figure(value: object) -> bool:
    return value is None or is_number(value)


def threshold_name(threshold: float) -> str:
    """Return the key under which figures of a threshold stand: ``"1"`` for 1.0, and no other number's."""
    short = f"{threshold:g}"
    return short if float(short) == threshold else repr(float(threshold))


def _as_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.+-]+", "-", text)


def _digest(values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]
