"""One's own pairs: a folder for each, with or without truth."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError
from scotopic.evaluation.datasets.calibration import read_calib
from scotopic.evaluation.datasets.files import (
    first_existing,
    read_pair,
    read_pfm_truth,
    read_png_truth,
    read_visible,
    visible_in_both,
)
from scotopic.evaluation.datasets.layout import DatasetKind, Place, scene_folders
from scotopic.evaluation.protocol import Recording

_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".ppm", ".pgm", ".pfm")
_PAIRS = (("im0", "im1"), ("left", "right"))
_LEFT_TRUTH = ("disp0.pfm", "disp.pfm", "disp0.png", "disp.png")
_RIGHT_TRUTH = ("disp1.pfm", "disp1.png")
_DIVISOR = 256  # KITTI's, the most common for 16-bit PNG


def find(folder: Path, size: float | None, scale: float) -> list[Place]:
    """List the scenes; see :class:`~scotopic.evaluation.datasets.layout.DatasetKind`."""
    files = [view + suffix for pair in _PAIRS for view in pair for suffix in _SUFFIXES]
    return [Place(scene.resolve().name, scene) for scene in scene_folders(folder, files)]


def read(place: Place) -> Recording:
    """Read one scene as it lies on disk; see :class:`~scotopic.evaluation.datasets.layout.DatasetKind`."""
    folder = place.folder
    left, right = read_pair(*_views(folder))
    truth_file, other_file = first_existing(folder, *_LEFT_TRUTH), first_existing(folder, *_RIGHT_TRUTH)
    truth = np.full(left.shape[:2], np.nan, np.float32) if truth_file is None else _read_truth(truth_file, left)
    visible = None
    if (folder / "mask0nocc.png").exists():
        visible = read_visible(folder / "mask0nocc.png", left)
    elif truth_file is not None and other_file is not None:
        visible = visible_in_both(truth, _read_truth(other_file, right))
    calibration, most = None, None
    if (folder / "calib.txt").exists():
        calibration, most = read_calib(folder / "calib.txt", left)
    return Recording(left, right, truth, visible, calibration, max_disparity=most)


def _views(folder: Path) -> tuple[Path, Path]:
    for names in _PAIRS:
        left, right = (first_existing(folder, *(name + suffix for suffix in _SUFFIXES)) for name in names)
        if left is not None and right is not None:
            return left, right
    raise InputError(
        f"{str(folder)!r}: found no whole pair, expected im0 and im1 or left and right ({', '.join(_SUFFIXES)}); "
        "add the missing view"
    )


def _read_truth(path: Path, image: NDArray[np.float32]) -> NDArray[np.float32]:
    return read_pfm_truth(path, image) if path.suffix == ".pfm" else read_png_truth(path, image, _DIVISOR)


KIND = DatasetKind(
    title="own pairs",
    scale=1.0,
    layout=(
        "a folder for each pair, or one such folder, with im0 and im1 or left and right (PNG, JPEG, TIFF, PPM, PFM), "
        "and optionally truth as disp0.pfm or disp.pfm (inf unknown) or disp0.png or disp.png (16-bit, disparity x "
        "256, 0 unknown), disp1.pfm or disp1.png of the right view, mask0nocc.png, calib.txt"
    ),
    find=find,
    read=read,
    sizes={"full": 1.0},
)
