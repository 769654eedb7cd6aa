"""Where the scenes of a data set lie in its folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from scotopic.errors import InputError
from scotopic.evaluation.protocol import Recording


@dataclass(frozen=True)
class Place:
    """Where one scene lies.

    Attributes
    ----------
    name
        Of the scene, unique in its data set.
    folder
        That its files are in (KITTI: that the folders of all scenes are in).
    size
        Size on disk over full size where the folders say so; ``None`` where only the images can tell.
    """

    name: str
    folder: Path
    size: float | None = 1.0


@dataclass(frozen=True)
class DatasetKind:
    """A data set that can be opened.

    Attributes
    ----------
    title
        As it is shown.
    scale
        Of the protocol, relative to full size: the paper's for Middlebury 2014 and InStereo2K, ours for the others.
    layout
        The files that are expected, in words.
    find
        Lists the scenes in a folder, given the size on disk that was stated, if any, and the scale that is wanted.
    read
        Reads one scene as it lies on disk.
    sizes
        Names of the sizes in which the data set is published, each with its share of full size.
    """

    title: str
    scale: float
    layout: str
    find: Callable[[Path, float | None, float], list[Place]]
    read: Callable[[Place], Recording]
    sizes: Mapping[str, float]


def subfolders(folder: Path) -> list[Path]:
    """List the folders in a folder, by name; hidden ones are left out.

    Parameters
    ----------
    folder : Path
        Where to look.

    Returns
    -------
    list of Path
        Sorted.

    Raises
    ------
    InputError
        `folder` does not exist, is not a folder, or cannot be read.
    """
    try:
        return sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    except OSError as error:
        raise InputError(
            f"data folder {str(folder)!r}: cannot be listed ({error.strerror or error}), expected a folder that you "
            "may read; check the path and its permissions"
        ) from error


def scene_folders(folder: Path, files: Collection[str]) -> list[Path]:
    """List the folders that hold a scene each: `folder` itself, or those in it.

    One file of the layout is enough: a scene of which others are missing is a broken scene, to be named when it is
    loaded, and not to be passed over. So is an empty folder beside scenes.

    Parameters
    ----------
    folder : Path
        Where to look.
    files : collection of str
        Names of the files of a scene.

    Returns
    -------
    list of Path
        Sorted by name; empty where there is no scene.

    Raises
    ------
    InputError
        `folder` cannot be read.
    """
    inside = subfolders(folder)
    if _holds_any(folder, files):
        return [folder]
    scenes = [entry for entry in inside if _holds_any(entry, files)]
    lost = [entry for entry in inside if _is_empty(entry)]
    return sorted(scenes + lost) if scenes else []


def sized_folders(
    folder: Path, names: Mapping[str, float], stated: float | None, scale: float
) -> list[tuple[Path, float | None]]:
    """Find the folder of scenes in a data set that is published in several sizes.

    Parameters
    ----------
    folder : Path
        The folder of one size, a folder that holds folders of sizes, or a folder of scenes that does not tell.
    names : mapping of str to float
        What the folders of sizes are called, with their share of full size.
    stated : float or None
        The size that the user states.
    scale : float
        The size that is wanted in the end.

    Returns
    -------
    list of (Path, float or None)
        The folder to look in, with its size or ``None``. Of several sizes the one stated, or else the smallest that
        need not be enlarged. Empty where the stated one is not there.
    """
    inside = {names[entry.name]: entry for entry in subfolders(folder) if entry.name in names}
    if inside:
        enough = [size for size in inside if size >= scale * (1 - 1e-6)]
        size = stated if stated is not None else min(enough, default=max(inside))
        return [(inside[size], size)] if size in inside else []
    # Asked of the absolute path: "." has a name of its own, and a single scene lies in a folder that is named.
    absolute = folder.resolve()
    by_name = names.get(absolute.name, names.get(absolute.parent.name))
    return [(folder, stated if stated is not None else by_name)]


def _holds_any(folder: Path, files: Collection[str]) -> bool:
    return any(os.path.exists(folder / file) for file in files)


def _is_empty(folder: Path) -> bool:
    try:
        return next(folder.iterdir(), None) is None
    except OSError:  # it may not be read: to us the same
        return True
