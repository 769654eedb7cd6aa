"""Data sets, each read from the layout in which it is published, all giving one kind of scene."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scotopic.errors import InputError, SettingsError, did_you_mean
from scotopic.evaluation.datasets.files import Place
from scotopic.evaluation.datasets.kinds import DATASETS, DatasetKind
from scotopic.evaluation.protocol import at_scale, check_scale
from scotopic.evaluation.scene import Scene

__all__ = ["DATASETS", "Dataset", "DatasetKind", "open_dataset"]

_MOST_SHOWN = 6


@dataclass(frozen=True)
class Dataset:
    """The scenes of a folder, each read only when it is loaded; small enough to be sent to a worker."""

    kind: str  #: key in :data:`DATASETS`
    folder: Path  #: as it was given
    scale: float  #: size of the scenes over full size
    places: tuple[Place, ...]  #: where each scene lies, by name

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the scenes, sorted."""
        return tuple(place.name for place in self.places)

    def __len__(self) -> int:
        return len(self.places)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names, not the scenes: each is loaded, and may fail, on its own."""
        return iter(self.names)

    def load(self, name: str) -> Scene:
        """Read the scene called `name` and shrink it to `scale`.

        Raises :class:`InputError` if there is no such scene or a file of it is missing, broken or of the wrong size,
        and :class:`SettingsError` if the scene would have to be enlarged.
        """
        return at_scale(DATASETS[self.kind].read(self.place(name)), self.scale, self.kind, name)

    def place(self, name: str) -> Place:
        """Return where a scene lies, or raise :class:`InputError` if there is no such scene."""
        for place in self.places:
            if place.name == name:
                return place
        raise InputError(f"There is no scene {name!r} in {str(self.folder)!r}, which has {_list(self.names)}.")


def open_dataset(
    kind: str, folder: str | os.PathLike[str], scale: float | None = None, size: str | None = None
) -> Dataset:
    """Find the scenes of a data set in a folder, without reading them.

    Raises :class:`InputError` if the folder is missing, cannot be read, or holds no scene of this kind; the message
    gives the layout. Raises :class:`SettingsError` if `kind` or `size` is unknown, or `scale` is not a share of full
    size.

    Parameters
    ----------
    kind : str
        Key in :data:`DATASETS`.
    folder : str or path
        The folder of the data set, the folder of its scenes, or one scene.
    scale : float, optional
        Size wanted, relative to full size, whatever size lies on disk; by default that of the protocol.
    size : str, optional
        Size on disk (``"full"``, ``"half"``, ``"third"``, ``"quarter"``, as the data set is published), if the folder
        does not tell it or holds several.
    """
    if kind not in DATASETS:
        hint = did_you_mean(kind, DATASETS)
        raise SettingsError(f"The data set {kind!r} is unknown.{hint} Choose one of {', '.join(DATASETS)}.")
    entry, path = DATASETS[kind], Path(folder)
    if size is not None and size not in entry.sizes:
        raise SettingsError(f"{entry.title} has no size {size!r}. Choose {' or '.join(entry.sizes)}, or leave it out.")
    wanted = entry.scale if scale is None else check_scale(scale)
    if not path.is_dir():
        problem = "is not a folder" if path.exists() else "does not exist"
        raise InputError(f"{str(path)!r} {problem}. The layout of {entry.title} is: {entry.layout}.")
    places = entry.find(path, None if size is None else entry.sizes[size], wanted)
    if not places:
        found = _list(sorted(item.name for item in path.iterdir())) or "nothing"
        raise InputError(
            f"{str(path)!r} holds no scenes of {entry.title}; it holds {found}. The expected layout is: {entry.layout}."
        )
    return Dataset(kind, path, wanted, tuple(places))


def _list(names: list[str] | tuple[str, ...]) -> str:
    more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
    return ", ".join(repr(name) for name in names[:_MOST_SHOWN]) + more
