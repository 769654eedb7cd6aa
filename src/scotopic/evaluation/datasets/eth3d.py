"""ETH3D two-view: gray pairs indoors and outdoors, with truth by laser scanner.

Images and truth are two archives, ``two_view_training`` and ``two_view_training_gt``; unpack both into one folder.
"""

from __future__ import annotations

from scotopic.evaluation.datasets.files import find_visible, read_calib_beside, read_pair, read_truth
from scotopic.evaluation.datasets.layout import DatasetKind, Place, find_scenes
from scotopic.evaluation.protocol import Recording


def read(place: Place) -> Recording:
    """Read one scene as it lies on disk."""
    folder = place.folder
    left, right = read_pair(folder / "im0.png", folder / "im1.png")
    truth = read_truth(folder / "disp0GT.pfm", left)
    visible = find_visible(folder, left, right, truth)
    calibration, max_disparity = read_calib_beside(folder, left)
    return Recording(left, right, truth, visible, calibration, max_disparity=max_disparity)


KIND = DatasetKind(
    title="ETH3D two-view",
    scale=1.0,
    layout=(
        "<scene>/ with im0.png im1.png disp0GT.pfm and optionally mask0nocc.png, calib.txt (both archives of the "
        "training set unpacked into one folder)"
    ),
    find=find_scenes("im0.png", "im1.png", "disp0GT.pfm", "mask0nocc.png"),
    read=read,
)
