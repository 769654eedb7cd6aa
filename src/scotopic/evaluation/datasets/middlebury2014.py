"""Middlebury 2014, in the layout of its own pages and in that of the evaluation SDK.

The size on disk follows, in this order, from

1. what the user states (``size="quarter"``);
2. the name of the folder: ``trainingF``, ``trainingH``, ``trainingQ``; ``<scene>-perfect`` and ``<scene>-imperfect``
   are published at full size only;
3. the width of the images. Scenes of 2014 are 2300 to 3000 px wide at full size; the widest is less than twice the
   narrowest, so the three sizes do not overlap. Two older, smaller scenes of the SDK, ArtL and Teddy, are known by
   their names.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from scotopic.evaluation.datasets.files import find_visible, first_existing, read_calib_beside, read_pair, read_truth
from scotopic.evaluation.datasets.layout import DatasetKind, Place, find_sized, size_by_width
from scotopic.evaluation.protocol import Recording

_SIZES = {"full": 1.0, "half": 0.5, "quarter": 0.25}
_SDK_FOLDERS = {"trainingF": 1.0, "trainingH": 0.5, "trainingQ": 0.25}

# Width of full size in px, with a margin: the two layouts crop differently. High must stay below twice low.
_FULL_WIDTH = (1900.0, 3300.0)
_OLDER_FULL_WIDTH = {"ArtL": (1300.0, 1400.0), "Teddy": (1750.0, 1850.0)}


def find(folder: Path, size: float | None, scale: float) -> list[Place]:
    """Return the scenes of the size that suits."""
    places = find_sized(folder, size, scale, _SDK_FOLDERS, ("im0.png", "im1.png", "disp0.pfm", "disp0GT.pfm"))
    official = ("-perfect", "-imperfect")
    return [replace(each, size=each.size or (1.0 if each.name.endswith(official) else None)) for each in places]


def read(place: Place) -> Recording:
    """Read one scene as it lies on disk."""
    folder = place.folder
    left, right = read_pair(folder / "im0.png", folder / "im1.png")
    truth = read_truth(first_existing(folder, "disp0GT.pfm", "disp0.pfm") or folder / "disp0.pfm", left)
    visible = find_visible(folder, left, right, truth, "disp1GT.pfm", "disp1.pfm")
    calibration, max_disparity = read_calib_beside(folder, left)
    full_width = _OLDER_FULL_WIDTH.get(place.name, _FULL_WIDTH)
    size = place.size or size_by_width(place, left.shape[1], full_width, _SIZES, _SDK_FOLDERS)
    return Recording(left, right, truth, visible, calibration, size, max_disparity)


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
