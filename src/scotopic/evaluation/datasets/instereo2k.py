"""InStereo2K: indoor scenes, 1080 x 860, dense truth of both views.

Disparity is the 16-bit value / 100, 0 unknown. One well-known loader divides by 1024: that is wrong.
"""

from __future__ import annotations

from pathlib import Path

from scotopic.evaluation.datasets.files import read_pair, read_png_truth, visible_in_both
from scotopic.evaluation.datasets.layout import DatasetKind, Place, scene_folders
from scotopic.evaluation.protocol import Recording

_FILES = ("left.png", "right.png", "left_disp.png", "right_disp.png")
_DIVISOR = 100


def find(folder: Path, size: float | None, scale: float) -> list[Place]:
    """List the scenes; see :class:`~scotopic.evaluation.datasets.layout.DatasetKind`."""
    test = folder / "test"  # of the whole data set the test scenes are the ones to be scored
    scenes = scene_folders(test if test.is_dir() else folder, _FILES)
    return [Place(scene.resolve().name, scene) for scene in scenes]


def read(place: Place) -> Recording:
    """Read one scene as it lies on disk; see :class:`~scotopic.evaluation.datasets.layout.DatasetKind`."""
    folder = place.folder
    left, right = read_pair(folder / "left.png", folder / "right.png")
    truth = read_png_truth(folder / "left_disp.png", left, _DIVISOR)
    visible = None
    if (folder / "right_disp.png").exists():
        visible = visible_in_both(truth, read_png_truth(folder / "right_disp.png", right, _DIVISOR))
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
    sizes={"full": 1.0},
)
