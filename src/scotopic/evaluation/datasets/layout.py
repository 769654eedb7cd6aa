"""Where the scenes of a data set lie in its folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from scotopic.errors import InputError
from scotopic.evaluation.protocol import Recording


@dataclass(frozen=True)
class Place:
    """Where one scene lies."""

    name: str  #: unique in its data set
    folder: Path  #: of its files (KITTI: of the folders of all scenes)
    size: float | None = 1.0  #: size on disk over full size; ``None`` if only the images can tell


#: Lists the scenes in a folder, given the size on disk if the user states it, and the scale that is wanted.
Find = Callable[[Path, float | None, float], list[Place]]


@dataclass(frozen=True)
class DatasetKind:
    """A data set that can be opened."""

    title: str
    #: Of the protocol, relative to full size: the paper's for Middlebury 2014 and InStereo2K, ours for the others.
    scale: float
    layout: str  #: the folders and files that are expected, in words
    find: Find
    read: Callable[[Place], Recording]  #: reads one scene as it lies on disk
    #: Names of the sizes in which the data set is published, each with its share of full size.
    sizes: Mapping[str, float] = field(default_factory=lambda: {"full": 1.0})
    is_clean: bool = True  #: whether the noise of its images can be neglected
    #: Whether truth is a few points: those are then scored alone, and coverage is the share of them that is answered.
    has_sparse_truth: bool = False


def subfolders(folder: Path) -> list[Path]:
    """Return the folders in a folder, sorted, without hidden ones; raise :class:`InputError` if it cannot be read."""
    try:
        return sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    except OSError as error:
        raise InputError(
            f"The data folder {str(folder)!r} cannot be listed: {error.strerror or error}. Check the path and its "
            "permissions."
        ) from error


def scene_folders(folder: Path, files: Collection[str]) -> list[Path]:
    """Return the folders that hold a scene each, sorted: `folder` itself, or those in it.

    One of the `files` of a scene is enough: a scene of which others are missing is a broken scene, which is named when
    it is loaded, not skipped. So is an empty folder beside scenes.
    """
    inside = subfolders(folder)
    if _holds_any(folder, files):
        return [folder]
    scenes = [entry for entry in inside if _holds_any(entry, files)]
    empty = [entry for entry in inside if _is_empty(entry)]
    return sorted(scenes + empty) if scenes else []


def find_scenes(*files: str) -> Find:
    """Return the `find` of a data set that is published in one size, with a folder for each scene."""
    return lambda folder, size, scale: [Place(scene.resolve().name, scene) for scene in scene_folders(folder, files)]


def find_sized(
    folder: Path, stated: float | None, scale: float, sizes: Mapping[str, float], files: Collection[str]
) -> list[Place]:
    """Return the scenes of a data set that is published in several sizes.

    `folder` holds folders called as the keys of `sizes`, or is one of them, or is a folder of scenes of unknown size.
    Of several sizes the `stated` one is taken, or else the smallest that need not be enlarged to `scale`; none if the
    stated one is missing.
    """
    inside = {sizes[entry.name]: entry for entry in subfolders(folder) if entry.name in sizes}
    # The absolute path, since "." has no telling name. A single scene lies in the folder that has one.
    absolute = folder.resolve()
    size = sizes.get(absolute.name, sizes.get(absolute.parent.name)) if stated is None else stated
    if inside:
        enough = [each for each in inside if each >= scale * (1 - 1e-6)]
        size = min(enough, default=max(inside)) if stated is None else stated
        if size not in inside:
            return []
        folder = inside[size]
    return [Place(scene.resolve().name, scene, size) for scene in scene_folders(folder, files)]


def size_by_width(
    place: Place, width: int, full_width: tuple[float, float], sizes: Mapping[str, float], folders: Collection[str]
) -> float:
    """Return the size of a scene over full size, by the width of its images and the range of widths at full size.

    Raises :class:`InputError` if the width fits none of the `sizes`; `folders` are the names that would tell the size.
    """
    low, high = full_width
    for size in sizes.values():
        if low * size <= width <= high * size:
            return size
    raise InputError(
        f"The images in {str(place.folder)!r} are {width} px wide, which fits none of the sizes {', '.join(sizes)} "
        f"(full size is {low:g} to {high:g} px). State the size, or name the folder of scenes {', '.join(folders)}."
    )


def _holds_any(folder: Path, files: Collection[str]) -> bool:
    return any(os.path.exists(folder / file) for file in files)


def _is_empty(folder: Path) -> bool:
    try:
        return next(folder.iterdir(), None) is None
    except OSError:  # it may not be read, which is the same here
        return True
