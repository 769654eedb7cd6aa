"""KITTI 2015: streets by day, with sparse truth by LIDAR, and cars filled in from models.

Disparity is the 16-bit value / 256, 0 unknown. ``disp_occ_0`` has all points, ``disp_noc_0`` only those that the right
view sees too.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from scotopic.depth import read_calibration
from scotopic.evaluation.datasets.files import read_pair, read_truth
from scotopic.evaluation.datasets.layout import DatasetKind, Place, subfolders
from scotopic.evaluation.protocol import Recording

_FOLDERS = ("image_2", "image_3", "disp_occ_0")


def find(folder: Path, size: float | None, scale: float) -> list[Place]:
    """Return the scenes. A name in any of the folders is one: if a file is missing elsewhere, the scene is broken."""
    subfolders(folder)  # raises if it cannot be read
    training = folder / "training"
    root = training if training.is_dir() else folder
    # _10 is the frame with truth, _11 the next one.
    names = {file.stem for part in _FOLDERS for file in (root / part).glob("*_10.png")}
    return [Place(name, root) for name in sorted(names)]


def read(place: Place) -> Recording:
    """Read one scene as it lies on disk."""
    root, file = place.folder, f"{place.name}.png"
    left, right = read_pair(root / "image_2" / file, root / "image_3" / file)
    truth = read_truth(root / "disp_occ_0" / file, left)
    visible = None
    if (root / "disp_noc_0").is_dir():
        visible = np.isfinite(read_truth(root / "disp_noc_0" / file, left))
    calibration = None
    if (root / "calib_cam_to_cam").is_dir():
        calibration = read_calibration(root / "calib_cam_to_cam" / f"{place.name.removesuffix('_10')}.txt")
        calibration = replace(calibration, width=left.shape[1], height=left.shape[0])
    return Recording(left, right, truth, visible, calibration)


KIND = DatasetKind(
    title="KITTI 2015",
    scale=1.0,
    layout=(
        "training/ (or that folder itself) with image_2/ image_3/ disp_occ_0/ of files <scene>_10.png (truth 16-bit, "
        "disparity x 256, 0 unknown), and optionally disp_noc_0/ and calib_cam_to_cam/"
    ),
    find=find,
    read=read,
)
