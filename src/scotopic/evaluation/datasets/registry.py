"""Every data set by its name, and how one is opened."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from scotopic.errors import InputError, SettingsError
from scotopic.evaluation.datasets import eth3d, instereo2k, kitti2015, middlebury2006, middlebury2014, own_folder
from scotopic.evaluation.datasets.layout import DatasetKind, Place
from scotopic.evaluation.protocol import at_scale, check_scale
from scotopic.evaluation.scene import Scene

#: What can be opened: each with its title, the scale of its protocol and its layout in words.
DATASETS: Mapping[str, DatasetKind] = {
    "middlebury2014": middlebury2014.KIND,
    "middlebury2005": middlebury2006.KIND_2005,
    "middlebury2006": middlebury2006.KIND_2006,
    "instereo2k": instereo2k.KIND,
    "eth3d": eth3d.KIND,
    "kitti2015": kitti2015.KIND,
    "folder": own_folder.KIND,
}

_SHOWN = 6


@dataclass(frozen=True)
class Dataset:
    """The scenes of a folder, none of them read before it is asked for; small enough to be sent to a worker.

    Attributes
    ----------
    kind
        Key in :data:`DATASETS`.
    folder
        As it was given.
    scale
        Size of the scenes over full size.
    places
        Where each scene lies, by name.
    """

    kind: str
    folder: Path
    scale: float
    places: tuple[Place, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the scenes, sorted."""
        return tuple(place.name for place in self.places)

    def __len__(self) -> int:
        return len(self.places)

    def __iter__(self) -> Iterator[str]:
        """Go through the names, not the scenes: each is loaded, and may fail, on its own."""
        return iter(self.names)

    def load(self, name: str) -> Scene:
        """Read a scene and bring it to the size of the protocol.

        Parameters
        ----------
        name : str
            One of `names`.

        Returns
        -------
        Scene
            At `scale`.

        Raises
        ------
        InputError
            There is no such scene, or one of its files is missing, broken or of the wrong size; the file is named.
        SettingsError
            The scene would have to be enlarged.
        """
        for place in self.places:
            if place.name == name:
                return at_scale(DATASETS[self.kind].read(place), self.scale, self.kind, name)
        raise InputError(
            f"scene {name!r} of {str(self.folder)!r}: found {_some(self.names)}, expected one of these; choose another"
        )


def open_dataset(
    kind: str, folder: str | os.PathLike[str], scale: float | None = None, size: str | None = None
) -> Dataset:
    """Find the scenes of a data set in a folder, without reading them.

    Parameters
    ----------
    kind : str
        Key in :data:`DATASETS`.
    folder : str or path
        The folder of the data set, the folder of its scenes, or one scene.
    scale : float, optional
        Size wanted, relative to full size whatever size lies on disk; left out, that of the protocol.
    size : str, optional
        Size on disk (``"full"``, ``"half"``, ``"third"``, ``"quarter"``, as the data set is published), where the
        folder does not tell it or holds several.

    Returns
    -------
    Dataset
        With at least one scene.

    Raises
    ------
    InputError
        The folder is missing, cannot be read, or holds no scene of this kind; the layout expected is named.
    SettingsError
        `kind`, `scale` or `size` is unknown or makes no sense.

    Examples
    --------
    >>> DATASETS["instereo2k"].scale
    0.5
    """
    if kind not in DATASETS:
        raise SettingsError(f"data set: found {kind!r}, expected one of {', '.join(DATASETS)}; choose one")
    entry, path = DATASETS[kind], Path(folder)
    if size is not None and size not in entry.sizes:
        raise SettingsError(
            f"size of {entry.title}: found {size!r}, expected {' or '.join(entry.sizes)}; leave it out or choose one"
        )
    wanted = entry.scale if scale is None else check_scale(scale)
    if not path.is_dir():
        what = "something that is not a folder" if path.exists() else "nothing"
        raise InputError(
            f"{entry.title} folder {str(path)!r}: found {what}, expected {entry.layout}; check the path or fetch the "
            "data set"
        )
    places = entry.find(path, None if size is None else entry.sizes[size], wanted)
    if not places:
        found = _some(sorted(item.name for item in path.iterdir())) or "an empty folder"
        raise InputError(
            f"{entry.title} folder {str(path)!r}: found {found}, expected {entry.layout}; give the folder that holds "
            "these, or another kind of data set"
        )
    return Dataset(kind, path, wanted, tuple(places))


def _some(names: list[str] | tuple[str, ...]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(repr(name) for name in names[:_SHOWN]) + more
