"""Middlebury 2014, in the layout of its own pages and in that of the evaluation SDK.

Which size lies on disk is told, in this order, by

1. what the user states (``size="quarter"``);
2. the name of the folder: ``trainingF``, ``trainingH``, ``trainingQ``; ``<scene>-perfect`` and ``<scene>-imperfect``
   are published at full size alone;
3. the width of the images. Scenes of 2014 are 2300 to 3000 px wide at full size; the widest is less than twice the
   narrowest, so the three sizes cannot be mistaken for each other. Two older, smaller scenes of the SDK, ArtL and
   Teddy, are known by their names.
"""

from __future__ import annotations

from pathlib import Path

from scotopic.errors import InputError
from scotopic.evaluation.datasets.calibration import read_calib
from scotopic.evaluation.datasets.files import (
    first_existing,
    read_pair,
    read_pfm_truth,
    read_visible,
    visible_in_both,
)
from scotopic.evaluation.datasets.layout import DatasetKind, Place, scene_folders, sized_folders
from scotopic.evaluation.protocol import Recording

_SIZES = {"full": 1.0, "half": 0.5, "quarter": 0.25}
_SDK_FOLDERS = {"trainingF": 1.0, "trainingH": 0.5, "trainingQ": 0.25}
_FILES = ("im0.png", "im1.png", "disp0.pfm", "disp0GT.pfm")
_OFFICIAL = ("-perfect", "-imperfect")

# Width of full size in px, with room: the two layouts crop differently. High must stay below twice low.
_FULL_WIDTH = (1900.0, 3300.0)
_OLDER_FULL_WIDTH = {"ArtL": (1300.0, 1400.0), "Teddy": (1750.0, 1850.0)}


def find(folder: Path, size: float | None, scale: float) -> list[Place]:
    """List the scenes; see :class:`~scotopic.evaluation.datasets.layout.DatasetKind`."""
    return [
        Place(scene.resolve().name, scene, 1.0 if found is None and scene.resolve().name.endswith(_OFFICIAL) else found)
        for place, found in sized_folders(folder, _SDK_FOLDERS, size, scale)
        for scene in scene_folders(place, _FILES)
    ]


def read(place: Place) -> Recording:
    """Read one scene as it lies on disk; see :class:`~scotopic.evaluation.datasets.layout.DatasetKind`."""
    folder = place.folder
    left, right = read_pair(folder / "im0.png", folder / "im1.png")
    truth = read_pfm_truth(first_existing(folder, "disp0GT.pfm", "disp0.pfm") or folder / "disp0.pfm", left)
    visible = None
    if (folder / "mask0nocc.png").exists():
        visible = read_visible(folder / "mask0nocc.png", left)
    elif other := first_existing(folder, "disp1GT.pfm", "disp1.pfm"):
        visible = visible_in_both(truth, read_pfm_truth(other, right))
    calibration, most = None, None
    if (folder / "calib.txt").exists():
        calibration, most = read_calib(folder / "calib.txt", left)
    size = place.size if place.size is not None else _size_by_width(place, left.shape[1])
    return Recording(left, right, truth, visible, calibration, size, most)


def _size_by_width(place: Place, width: int) -> float:
    low, high = _OLDER_FULL_WIDTH.get(place.name, _FULL_WIDTH)
    for size in _SIZES.values():
        if low * size <= width <= high * size:
            return size
    raise InputError(
        f"{str(place.folder)!r}: found images {width} px wide, expected {low:g} to {high:g} (full size of Middlebury "
        "2014), a half or a quarter of it; state the size (full, half or quarter) or name the folder of scenes "
        "trainingF, trainingH or trainingQ"
    )


KIND = DatasetKind(
    title="Middlebury 2014",
    scale=0.2,
    layout=(
        "<scene>-perfect/ and <scene>-imperfect/ (full size), or trainingF/, trainingH/ or trainingQ/ with <scene>/ of "
        "the evaluation SDK, or a folder of such <scene>/, each with im0.png im1.png, disp0.pfm or disp0GT.pfm, and "
        "optionally mask0nocc.png, disp1.pfm, calib.txt"
    ),
    find=find,
    read=read,
    sizes=_SIZES,
)
