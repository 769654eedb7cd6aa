"""KITTI 2015: streets by day, sparse truth by LIDAR with cars filled in from models.

Disparity is the 16-bit value / 256, 0 unknown. ``disp_occ_0`` has all points, ``disp_noc_0`` those that the right view
sees too.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from scotopic.evaluation.datasets.calibration import read_kitti_calib
from scotopic.evaluation.datasets.files import read_pair, read_png_truth
from scotopic.evaluation.datasets.layout import DatasetKind, Place, subfolders
from scotopic.evaluation.protocol import Recording

_FOLDERS = ("image_2", "image_3", "disp_occ_0")
_DIVISOR = 256


def find(folder: Path, size: float | None, scale: float) -> list[Place]:
    """List the scenes; see :class:`~scotopic.evaluation.datasets.layout.DatasetKind`."""
    subfolders(folder)
    training = folder / "training"
    root = training if training.is_dir() else folder
    # _10 is the frame with truth, _11 the next one. A name in any folder is a scene: one with a file missing is broken.
    names = {file.stem for part in _FOLDERS for file in (root / part).glob("*_10.png")}
    return [Place(name, root) for name in sorted(names)]


def read(place: Place) -> Recording:
    """Read one scene as it lies on disk; see :class:`~scotopic.evaluation.datasets.layout.DatasetKind`."""
    root, file = place.folder, f"{place.name}.png"
    left, right = read_pair(root / "image_2" / file, root / "image_3" / file)
    truth = read_png_truth(root / "disp_occ_0" / file, left, _DIVISOR)
    visible = None
    if (root / "disp_noc_0").is_dir():
        visible = np.isfinite(read_png_truth(root / "disp_noc_0" / file, left, _DIVISOR))
    calibration = None
    if (root / "calib_cam_to_cam").is_dir():
        calibration = read_kitti_calib(root / "calib_cam_to_cam" / f"{place.name.removesuffix('_10')}.txt")
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
    sizes={"full": 1.0},
)
