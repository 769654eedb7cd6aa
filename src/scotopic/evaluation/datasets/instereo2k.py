"""InStereo2K: indoor scenes, 1080 x 860, with dense truth of both views.

Disparity is the 16-bit value / 100, 0 unknown. One well-known loader divides by 1024, which is wrong.
"""

from __future__ import annotations

from pathlib import Path

from scotopic.evaluation.datasets.files import find_visible, read_pair, read_truth
from scotopic.evaluation.datasets.layout import DatasetKind, Place, find_scenes
from scotopic.evaluation.protocol import Recording

_DIVISOR = 100


def find(folder: Path, size: float | None, scale: float) -> list[Place]:
    """Return the scenes: of the whole data set those in ``test``."""
    test = folder / "test"
    list_scenes = find_scenes("left.png", "right.png", "left_disp.png", "right_disp.png")
    return list_scenes(test if test.is_dir() else folder, size, scale)


def read(place: Place) -> Recording:
    """Read one scene as it lies on disk."""
    folder = place.folder
    left, right = read_pair(folder / "left.png", folder / "right.png")
    truth = read_truth(folder / "left_disp.png", left, _DIVISOR)
    visible = find_visible(folder, left, right, truth, "right_disp.png", divisor=_DIVISOR)
    return Recording(left, right, truth, visible)


KIND = DatasetKind(
    title="InStereo2K",
    scale=0.5,
    layout=(
        "test/<scene>/, or a folder of such <scene>/, each with left.png right.png left_disp.png (16-bit, disparity x "
        "100, 0 unknown) and optionally right_disp.png"
    ),
    find=find,
    read=read,
)
