"""A stereo sequence: frames of a rig that moves, its calibration, where it was, and the true disparities if known.

Two layouts are read:

* ``000.npz``, ``001.npz``, ...: each with ``clean_left`` and ``clean_right``, or else ``left`` and ``right`` (8 bits),
  and optionally ``disparity`` (px), ``known`` (where that is true) and ``pose`` (4 x 4); ``calib.txt`` with the numbers
  ``fx cx cy baseline doffs``.
* KITTI's: ``image_l/`` and ``image_r/`` with a picture for each frame, ``calib.txt`` with the projection matrices of
  both cameras, and optionally ``poses.txt``, 12 numbers for each frame.

A pose takes points of the frame's left camera to that of the first frame, in the unit of the calibration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.depth import Calibration, read_calibration
from scotopic.errors import InputError
from scotopic.evaluation.protocol import FRAME_SEEDS
from scotopic.io import as_image
from scotopic.sensor import simulate_pair

Image = NDArray[np.float32]
Pair = tuple[Image, Image]
Matrix = NDArray[np.float64]

LAYOUT = (
    "a folder with 000.npz, 001.npz, ... (left, right or clean_left, clean_right; optionally disparity, known, pose) "
    "and calib.txt (fx cx cy baseline doffs), or with image_l/ image_r/ calib.txt and optionally poses.txt, as KITTI's"
)
_KITTI_FOLDERS = ("image_l", "image_r")


@dataclass(frozen=True, eq=False)
class StereoSequence:
    """Frames of a moving rig, clean, with what is known about them."""

    name: str
    pairs: tuple[Pair, ...]  #: clean, ``(H, W, C)`` float32 in [0, 1]
    calibration: Calibration
    poses: tuple[Matrix, ...] | None = None  #: 4 x 4, each frame's left camera to the first frame's
    truths: tuple[Image, ...] | None = None  #: disparity of each left view, px, NaN where unknown

    def __len__(self) -> int:
        return len(self.pairs)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of the images."""
        height, width, channels = self.pairs[0][0].shape
        return height, width, channels

    def first(self, frames: int) -> StereoSequence:
        """Return the first frames alone."""
        poses, truths = (None if part is None else part[:frames] for part in (self.poses, self.truths))
        return StereoSequence(self.name, self.pairs[:frames], self.calibration, poses, truths)

    def record(self, photons: float, read_noise: float, seed: int) -> list[Pair]:
        """Return the frames as a sensor in the dark records them; frame k has the noise of seed ``seed + 1000 k``."""
        return [simulate_pair(*pair, photons, read_noise, seed + FRAME_SEEDS * k) for k, pair in enumerate(self.pairs)]


def is_sequence(folder: Path) -> bool:
    """Whether a folder is laid out as a sequence."""
    return bool(_npz_frames(folder)) or all((folder / name).is_dir() for name in _KITTI_FOLDERS)


def sequence_files(folder: Path) -> list[Path]:
    """Return the files of a sequence, in order."""
    frames = _npz_frames(folder) or [path for name in _KITTI_FOLDERS for path in _pictures(folder / name)]
    return [*frames, *(folder / name for name in ("calib.txt", "poses.txt") if (folder / name).exists())]


def read_sequence(folder: Path, frames: int | None = None) -> StereoSequence:
    """Read a sequence, or its first frames; raise :class:`InputError` if it is incomplete or of no known layout."""
    if not is_sequence(folder):
        raise InputError(f"{str(folder)!r} is no sequence. The layout is: {LAYOUT}.")
    if not (folder / "calib.txt").exists():
        raise InputError(f"{str(folder)!r} has no calib.txt. Poses and depth need the calibration.")
    read = _read_npz_frames if _npz_frames(folder) else _read_kitti
    return read(folder, frames)


def _npz_frames(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.npz") if path.stem.isdigit())


def _pictures(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in (".png", ".jpg", ".jpeg", ".tif"))


def _read_npz_frames(folder: Path, frames: int | None) -> StereoSequence:
    pairs: list[Pair] = []
    poses: list[Matrix] = []
    truths: list[Image] = []
    for path in _npz_frames(folder)[:frames]:
        with np.load(path, allow_pickle=False) as file:
            content: dict[str, Any] = {name: file[name] for name in file.files}
        names = ("clean_left", "clean_right") if "clean_left" in content else ("left", "right")
        for name in names:
            if name not in content:
                raise InputError(f"{str(path)!r} holds {', '.join(content)}, but no {name!r}. The layout is: {LAYOUT}.")
        pairs.append((as_image(content[names[0]], str(path)), as_image(content[names[1]], str(path))))
        if "pose" in content:
            poses.append(np.asarray(content["pose"], np.float64))
        if "disparity" in content:
            known = content.get("known", np.isfinite(content["disparity"]))
            truths.append(np.where(known, content["disparity"], np.nan).astype(np.float32))
    height, width = pairs[0][0].shape[:2]
    calibration = read_calibration(folder / "calib.txt", unit="m").for_image(width, height)
    return _checked(folder, pairs, calibration, poses, truths)


def _read_kitti(folder: Path, frames: int | None) -> StereoSequence:
    files = [_pictures(folder / name)[:frames] for name in _KITTI_FOLDERS]
    if [path.name for path in files[0]] != [path.name for path in files[1]]:
        raise InputError(f"image_l and image_r of {str(folder)!r} hold pictures of different names. Give pairs.")
    pairs = [(as_image(left, str(left)), as_image(right, str(right))) for left, right in zip(*files, strict=True)]
    if not pairs:
        raise InputError(f"image_l of {str(folder)!r} holds no pictures.")
    height, width = pairs[0][0].shape[:2]
    rows = _read_rows(folder / "calib.txt", (2, 12)).reshape(2, 3, 4)
    calibration = Calibration.from_projections(rows[0], rows[1], width=width, height=height, source="KITTI, in m")
    poses: list[Matrix] = []
    if (folder / "poses.txt").exists():
        for row in _read_rows(folder / "poses.txt", (None, 12))[: len(pairs)]:
            poses.append(np.vstack([row.reshape(3, 4), [0, 0, 0, 1]]))
    return _checked(folder, pairs, calibration, poses, [])


def _read_rows(path: Path, shape: tuple[int | None, int]) -> Matrix:
    try:
        rows = np.loadtxt(path, np.float64, ndmin=2)
    except (OSError, ValueError) as error:
        raise InputError(f"{str(path)!r} cannot be read as rows of numbers: {error!s:.120}.") from error
    if rows.shape[1] != shape[1] or shape[0] not in (None, rows.shape[0]):
        wanted = f"{'' if shape[0] is None else f'{shape[0]} '}rows of {shape[1]} numbers"
        raise InputError(f"{str(path)!r} holds {rows.shape[0]} rows of {rows.shape[1]} numbers instead of {wanted}.")
    return rows


def _checked(
    folder: Path, pairs: Sequence[Pair], calibration: Calibration, poses: Sequence[Matrix], truths: Sequence[Image]
) -> StereoSequence:
    for what, values in (("poses", poses), ("true disparities", truths)):
        if len(values) not in (0, len(pairs)):
            raise InputError(f"{str(folder)!r} has {len(pairs)} frames, but {len(values)} {what}. Complete them.")
    shape = pairs[0][0].shape
    for number, pair in enumerate(pairs):
        if any(view.shape != shape for view in pair):
            raise InputError(f"Frame {number} of {str(folder)!r} has another size than the first.")
    # Whatever the poses refer to, here it is the first frame.
    start = np.linalg.inv(poses[0]) if poses else np.eye(4)
    moved = tuple(np.asarray(start @ pose, np.float64) for pose in poses)
    return StereoSequence(folder.resolve().name, tuple(pairs), calibration, moved or None, tuple(truths) or None)
