"""Where scenes lie, and their files: images, truth, masks and calibrations, each checked against the left image."""

import os
import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.depth import Calibration
from scotopic.depth.files import read_calib_txt
from scotopic.depth.triangulate import sample_columns
from scotopic.errors import InputError, PairWarning
from scotopic.evaluation.answers import doubt_marker, find_marker
from scotopic.io import as_image, read_image
from scotopic.io.disparity import KITTI_SCALE

Image = NDArray[np.float32]

MASK = "mask0nocc.png"  #: where both views see a point, beside the images
CALIBRATION = "calib.txt"

#: Truths of the two views that differ by at most this, in px at the size on disk, belong to the same point.
LEFT_RIGHT_TOLERANCE = 1.0


@dataclass(frozen=True)
class Place:
    """Where one scene lies."""

    name: str  #: unique in its data set
    folder: Path  #: of its files (KITTI: of the folders of all scenes)
    size: float | None = 1.0  #: size on disk over full size; ``None`` if only the images can tell


def subfolders(folder: Path) -> list[Path]:
    """Return the folders in a folder, sorted, without hidden ones; raise :class:`InputError` if it cannot be read."""
    try:
        return sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    except OSError as error:
        raise InputError(
            f"The data folder {str(folder)!r} cannot be listed: {error.strerror or error}. Check the path and its "
            "permissions."
        ) from error


def scene_name(folder: Path) -> str:
    """Return the name of a scene's folder, also of ``.``; that of a link is its own, since targets may share theirs."""
    return os.path.basename(os.path.abspath(folder))


def scene_folders(folder: Path, is_scene: Callable[[Path], bool]) -> list[Path]:
    """Return the folders that hold a scene each, sorted: `folder` itself, or those in it.

    An empty folder beside scenes is a broken scene, which is named when it is loaded, not skipped. There is a warning
    where scenes lie one level deeper than others.
    """
    inside = subfolders(folder)
    if is_scene(folder):
        return [folder]
    scenes = [entry for entry in inside if is_scene(entry)]
    if not scenes:
        return []
    others = [entry for entry in inside if entry not in scenes]
    empty = [entry for entry in others if _is_empty(entry)]
    for entry in others:
        if entry not in empty and any(map(is_scene, subfolders(entry))):
            warnings.warn(
                f"Scenes in {str(entry)!r} are not taken with those in {str(folder)!r}, since they lie one level "
                "deeper. Move them up, or name their folder in 'more' of a plan.",
                PairWarning,
                stacklevel=4,
            )
    return sorted(scenes + empty)


def holds_any(folder: Path, files: Collection[str]) -> bool:
    """Whether one of the files of a scene is in a folder: a scene of which others are missing is a broken scene."""
    return any(os.path.exists(folder / file) for file in files)


def _is_empty(folder: Path) -> bool:
    try:
        return next(folder.iterdir(), None) is None
    except OSError:  # it may not be read, which is the same here
        return True


def read_pair(left: Path, right: Path) -> tuple[Image, Image]:
    """Read both views, float32 ``H x W x C`` in [0, 1]; raise :class:`InputError` unless they have one shape."""
    images = as_image(left, str(left)), as_image(right, str(right))
    if images[0].shape != images[1].shape:
        raise InputError(
            f"The views differ: {str(right)!r} is {_size(images[1])} of {images[1].shape[2]} channels, {left.name!r} "
            f"is {_size(images[0])} of {images[0].shape[2]}."
        )
    return images


def read_truth(path: Path, image: Image, divisor: float = KITTI_SCALE, bits: int = 16) -> Image:
    """Read the true disparity of a view, ``H x W`` px, NaN where unknown.

    From a PFM file, in which unknown is +inf or NaN, or from a gray PNG file, in which it is 0 and other values are
    disparity x `divisor`. A PNG file with other `bits` would be another map, made for viewing.

    Raises :class:`InputError` if the file is missing or broken, has another type, or another size than the image.
    """
    values = _read_map(path, image)
    if path.suffix == ".pfm":
        truth = np.where(np.isfinite(values), values, np.float32(np.nan))
        if (marker := find_marker(truth, truth)) is not None:
            warnings.warn(doubt_marker(path, truth, marker), PairWarning, stacklevel=2)
        return truth
    if values.dtype != np.dtype(f"u{bits // 8}"):
        raise InputError(
            f"{str(path)!r} holds {values.dtype} values instead of {bits} bits (disparity x {divisor:g}, 0 = unknown). "
            "Take the original file of the data set."
        )
    return np.where(values == 0, np.float32(np.nan), values.astype(np.float32) / np.float32(divisor))


def read_visible(path: Path, image: Image) -> NDArray[np.bool_] | None:
    """Read the mask of Middlebury and ETH3D: 255 is visible in both views, 128 occluded, 0 unknown; or 1 and 0."""
    if not path.exists():
        return None
    values = _read_map(path, image)
    if values.dtype != np.uint8:
        raise InputError(f"{str(path)!r} holds {values.dtype} values instead of 8 bits (255, 128 or 0).")
    visible = np.asarray(values == (255 if values.max() > 1 else 1))
    if not visible.any():
        raise InputError(f"{str(path)!r} marks no pixel as visible. Write 255 where both views see the point.")
    return visible


def visible_in_both(left: Image, right: Image) -> NDArray[np.bool_]:
    """Return where the right view sees the point of a left pixel, by the true disparities of both views.

    A point at column x with disparity d lies at ``x - d`` of the right view. It is visible if the right truth at the
    nearest pixel there is known and differs from d by at most `LEFT_RIGHT_TOLERANCE`; if it is hidden, something
    nearer, of larger disparity, stands in its place. False also where either truth is unknown or the point is out of
    view.
    """
    other, inside = sample_columns(right, np.arange(left.shape[1], dtype=np.float32) - left)
    return np.asarray(inside & (np.abs(left - other) <= LEFT_RIGHT_TOLERANCE))


def read_calib_beside(folder: Path, image: Image) -> tuple[Calibration | None, float | None]:
    """Return the calibration and ``ndisp`` of a folder's Middlebury ``calib.txt``, each None if it is not given.

    Raises :class:`InputError` if the file cannot be read, or belongs to an image of another size.
    """
    path = folder / CALIBRATION
    if not path.exists():
        return None, None
    calibration, max_disparity = read_calib_txt(path)
    height, width = image.shape[:2]
    if (calibration.width or width, calibration.height or height) != (width, height):
        raise InputError(
            f"{str(path)!r} is for images of {calibration.width} x {calibration.height} px, but the image beside it is "
            f"{_size(image)} px. Fetch the one of this size."
        )
    return calibration.for_image(width, height), max_disparity


def first_existing(folder: Path, *names: str) -> Path | None:
    """Return the first of some files that exists, or None; of several with a warning."""
    return first_of(existing(folder, *names))


def first_of(found: Sequence[Path]) -> Path | None:
    """Return the first of the files that may be meant, or None; of several with a warning."""
    if len(found) > 1:
        others = " and ".join(repr(path.name) for path in found[1:])
        warnings.warn(
            f"{str(found[0])!r} is read, and not {others} beside it. Remove those that are not meant.",
            PairWarning,
            stacklevel=3,
        )
    return next(iter(found), None)


def existing(folder: Path, *names: str) -> list[Path]:
    """Return those of some files that exist."""
    return [folder / name for name in names if os.path.exists(folder / name)]


def _read_map(path: Path, image: Image) -> NDArray[Any]:
    values = read_image(path)
    if values.ndim != 2:
        raise InputError(
            f"{str(path)!r} has {values.shape[2]} channels instead of one. Take the original file of the data set."
        )
    if values.shape != image.shape[:2]:
        raise InputError(
            f"{str(path)!r} is {_size(values)}, but the image beside it is {_size(image)}. It belongs to another scene "
            "or size of the data set."
        )
    return values


def _size(array: NDArray[Any]) -> str:
    return f"{array.shape[1]} x {array.shape[0]}"
