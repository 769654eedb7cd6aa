"""What one finished task of a benchmark leaves on disk: a small JSON file, and the maps for the gallery.

A folder of results holds ``records/<key>.json`` and ``maps/<key>.npz``; both are written whole or not at all, so that a
killed run can go on where it stopped. A task that failed leaves a record too, with its error and no scores: the other
tasks go on, the report shows the gap, and the next run tries it again.
"""

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from scotopic.errors import InputError
from scotopic.io import atomic_path
from scotopic.io.input_file import read_json, reading

FORMAT = 2  #: version of a record; in 1 ``coverage_percent`` was called ``coverage``


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

    @property
    def key(self) -> str:
        """A file name: readable, and unique by a short hash of everything that defines the task."""
        words = re.sub(r"[^A-Za-z0-9.+-]+", "-", f"{self.dataset}_{self.scene}_{self.method}").strip("-")[:80]
        values = asdict(self)
        if self.frames == 1:  # records from before there were several
            del values["frames"]
        digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:10]
        return f"{words}_{self.noise_key}_{digest}"

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

    def save(self, folder: Path) -> None:
        """Write ``records/<key>.json``, whole or not at all."""
        path = folder / "records" / f"{self.task.key}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as temporary:
            temporary.write_text(json.dumps({"format": FORMAT, **asdict(self)}, indent=1, allow_nan=False) + "\n")

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a record; raise :class:`InputError` if it is none, or of a newer format."""
        kind = "a record of a benchmark"
        values = read_json(path, kind)
        with reading(path, kind, "Delete it."):
            version = values.pop("format")
            if version > FORMAT:
                raise InputError(f"{path} has format {version}, newer than {FORMAT}. Upgrade scotopic to read it.")
            for figures in (*values.get("scores", {}).values(), *values.get("curves", {}).values()):
                if "coverage" in figures:  # format 1
                    figures["coverage_percent"] = figures.pop("coverage")
            return cls(Task(**values.pop("task")), **values)


def maps_path(folder: Path, task: Task) -> Path:
    """Return where the maps of a task lie: ``disparity``, ``dense``, ``confidence`` as float16, NaN where none."""
    return folder / "maps" / f"{task.key}.npz"


def scene_path(folder: Path, task: Task) -> Path:
    """Return where the noisy input lies, once per scene and noise: ``left`` uint8, ``truth`` float16, NaN unknown."""
    name = re.sub(r"[^A-Za-z0-9.+-]+", "-", f"{task.dataset}_{task.scene}")
    return folder / "scenes" / f"{name}_{task.noise_key}.npz"
