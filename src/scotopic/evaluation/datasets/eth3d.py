"""ETH3D two-view: gray pairs in and out of doors, truth by laser scanner.

Images and truth are two archives, ``two_view_training`` and ``two_view_training_gt``; both are meant to be unpacked
into one folder.
"""

from __future__ import annotations

from pathlib import Path

from scotopic.evaluation.datasets.calibration import read_calib
from scotopic.evaluation.datasets.files import read_pair, read_pfm_truth, read_visible
from scotopic.evaluation.datasets.layout import DatasetKind, Place, scene_folders
from scotopic.evaluation.protocol import Recording

_FILES = ("im0.png", "im1.png", "disp0GT.pfm", "mask0nocc.png")


def find(folder: Path, size: float | None, scale: float) -> list[Place]:
    """List the scenes; see :class:`~scotopic.evaluation.datasets.layout.DatasetKind`."""
    return [Place(scene.resolve().name, scene) for scene in scene_folders(folder, _FILES)]


def read(place: Place) -> Recording:
    """Read one scene as it lies on disk; see :class:`~scotopic.evaluation.datasets.layout.DatasetKind`."""
    folder = place.folder
    left, right = read_pair(folder / "im0.png", folder / "im1.png")
    truth = read_pfm_truth(folder / "disp0GT.pfm", left)
    visible = read_visible(folder / "mask0nocc.png", left) if (folder / "mask0nocc.png").exists() else None
    calibration, most = None, None
    if (folder / "calib.txt").exists():
        calibration, most = read_calib(folder / "calib.txt", left)
    return Recording(left, right, truth, visible, calibration, max_disparity=most)


KIND = DatasetKind(
    title="ETH3D two-view",
    scale=1.0,
    layout=(
        "<scene>/ with im0.png im1.png disp0GT.pfm and optionally mask0nocc.png, calib.txt (both archives of the "
        "training set unpacked into one folder)"
    ),
    find=find,
    read=read,
    sizes={"full": 1.0},
)
