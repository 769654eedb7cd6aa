"""Stereo sequences on disk. Two layouts are read:

* ``000.npz``, ``001.npz``, ...: each with ``clean_left`` and ``clean_right``, or else ``left`` and ``right``, and
  optionally ``disparity`` (px), ``known`` (where that is true) and ``pose`` (4 x 4); ``calib.txt`` of any known kind,
  such as the numbers ``fx cx cy baseline doffs``.
* KITTI's: ``image_l/`` and ``image_r/`` with a picture for each frame, ``calib.txt`` with the projection matrices of
  both cameras, and optionally ``poses.txt``, 12 numbers for each frame.

A pose takes points of the frame's left camera to that of some frame or to the world, in the unit of the baseline; here
it is made one to the first frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from scotopic.depth import read_calibration
from scotopic.errors import InputError
from scotopic.evaluation.datasets.files import CALIBRATION, existing
from scotopic.evaluation.sequence import Image, Matrix, Pair, StereoSequence
from scotopic.io import as_image, read_npz
from scotopic.io.input_file import read_input_text

LAYOUT = (
    "a folder, or a folder of such folders, with 000.npz 001.npz ... (clean_left clean_right or left right, and "
    "optionally disparity, known, pose), or with image_l/ image_r/ of pictures and optionally poses.txt (12 numbers a "
    "line); and calib.txt"
)
POSES = "poses.txt"
_VIEWS = ("image_l", "image_r")
_PICTURES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".pgm")
_ARRAYS = ("clean_left", "clean_right", "left", "right", "disparity", "known", "pose")
_NUMBERS = {"disparity", "known", "pose"}


def sequence_files(folder: Path) -> list[Path]:
    """Return the files of a sequence."""
    frames = _archives(folder) or [path for view in _VIEWS for path in _pictures(folder / view)]
    return [*frames, *existing(folder, CALIBRATION, POSES)]


def read_sequence(folder: Path, frames: int | None = None) -> StereoSequence:
    """Read a sequence, or its first frames.

    Raises :class:`InputError` if a file is missing or broken, or frames differ in size.
    """
    read = _read_archives if _archives(folder) else _read_pictures
    pairs, poses, truths = read(folder, frames)
    if not pairs:
        raise InputError(f"{str(folder)!r} holds no frames. The layout is: {LAYOUT}.")
    for what, values in (("poses", poses), ("true disparities", truths)):
        if len(values) not in (0, len(pairs)):
            raise InputError(f"{str(folder)!r} has {len(pairs)} frames, but {len(values)} {what}. Complete them.")
    (height, width), shape = pairs[0][0].shape[:2], pairs[0][0].shape
    for number, (left, right) in enumerate(pairs):
        if left.shape != shape or right.shape != shape or (truths and truths[number].shape != shape[:2]):
            raise InputError(
                f"Frame {number} of {str(folder)!r} is not of one size with the first, {width} x {height}."
            )
    if not (folder / CALIBRATION).exists():
        raise InputError(f"{str(folder)!r} has no {CALIBRATION}. Poses and depth need the calibration.")
    calibration = read_calibration(folder / CALIBRATION).for_image(width, height)
    start = np.linalg.inv(poses[0]) if poses else np.eye(4)
    to_first = tuple(np.asarray(start @ pose, np.float64) for pose in poses)
    return StereoSequence(folder.resolve().name, tuple(pairs), calibration, to_first or None, tuple(truths) or None)


def read_sequence_again(folder: Path) -> StereoSequence:
    """Return what :func:`read_sequence` does; the last one is kept, for the other tasks of a benchmark."""
    found = [(path, path.stat()) for path in sequence_files(folder)]
    return _read_once(folder, tuple((path, stat.st_size, stat.st_mtime_ns) for path, stat in found))


@lru_cache(maxsize=1)
def _read_once(folder: Path, state: tuple[tuple[Path, int, int], ...]) -> StereoSequence:
    """Read a sequence whose files are in this state."""
    return read_sequence(folder)


def is_sequence(folder: Path) -> bool:
    """Whether a folder holds a sequence, in either layout."""
    return bool(_archives(folder)) or all((folder / view).is_dir() for view in _VIEWS)


def _archives(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.npz") if path.stem.isdecimal())


def _pictures(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in _PICTURES)


_Frames = tuple[list[Pair], list[Matrix], list[Image]]


def _read_archives(folder: Path, frames: int | None) -> _Frames:
    pairs: list[Pair] = []
    poses: list[Matrix] = []
    truths: list[Image] = []
    for path in _archives(folder)[:frames]:
        found = read_npz(path, _ARRAYS)
        views = ("clean_left", "clean_right") if "clean_left" in found else ("left", "right")
        for view in views:
            if view not in found:
                raise InputError(f"{str(path)!r} has no array {view!r}. The layout is: {LAYOUT}.")
        left, right = (as_image(found[view], "", title=f"The array {view!r} of {str(path)!r}") for view in views)
        pairs.append((left, right))
        for name in _NUMBERS.intersection(found):
            if found[name].dtype.kind not in "buif":
                raise InputError(f"{str(path)!r} has an array {name!r} of {found[name].dtype}. Save numbers.")
        if "pose" in found:
            poses.append(_check_pose(path, found["pose"].astype(np.float64)))
        if "disparity" in found:
            disparity = found["disparity"].astype(np.float32)
            known = found.get("known", np.isfinite(disparity)).astype(np.bool_)
            if known.shape != disparity.shape:
                raise InputError(f"{str(path)!r} has 'known' of shape {known.shape}, not {disparity.shape}.")
            truths.append(np.where(known & np.isfinite(disparity), disparity, np.float32(np.nan)))
    return pairs, poses, truths


def _read_pictures(folder: Path, frames: int | None) -> _Frames:
    left, right = (_pictures(folder / view)[:frames] for view in _VIEWS)
    if [path.name for path in left] != [path.name for path in right]:
        raise InputError(f"{' and '.join(_VIEWS)} of {str(folder)!r} hold pictures of different names. Give pairs.")
    pairs = [(as_image(one, str(one)), as_image(other, str(other))) for one, other in zip(left, right, strict=True)]
    path = folder / POSES
    poses = [_check_pose(path, row) for row in _read_rows(path)[: len(pairs)]] if path.exists() else []
    return pairs, poses, []


def _read_rows(path: Path) -> Sequence[Matrix]:
    """Return KITTI's poses: 12 numbers a line, the upper three rows of each matrix."""
    rows = []
    for number, line in enumerate(read_input_text(path, "a file of poses").splitlines(), 1):
        try:
            rows.append(np.vstack([np.array(line.split(), np.float64).reshape(3, 4), [0.0, 0.0, 0.0, 1.0]]))
        except ValueError:
            raise InputError(f"{str(path)!r} line {number} is not 12 numbers, the rows of a pose 3 x 4.") from None
    return rows


def _check_pose(path: Path, pose: Matrix) -> Matrix:
    if pose.shape == (4, 4) and np.isfinite(pose).all():
        rotation = pose[:3, :3]
        is_rotation = np.allclose(rotation @ rotation.T, np.eye(3), atol=1e-3) and np.linalg.det(rotation) > 0
        if is_rotation and np.array_equal(pose[3], [0, 0, 0, 1]):
            return pose
    raise InputError(f"{str(path)!r} holds a pose that is no rotation and translation, 4 x 4.")
