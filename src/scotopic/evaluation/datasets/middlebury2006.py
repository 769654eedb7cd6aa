"""Middlebury 2005 and 2006: two of seven views, full, half or third size.

Disparities are 8-bit, 0 unknown, and always in px of full size: a half-size map is to be divided by 2, a third-size
map by 3. The size on disk is told by what the user states, by a folder named ``FullSize``, ``HalfSize`` or
``ThirdSize``, or else by the width of the images: full size is 1240 to 1400 px wide, so the sizes do not overlap.

No calibration is given: ``dmin.txt``, the offset that was cropped away, does not say in px of which size it is.
"""

from __future__ import annotations

from pathlib import Path

from scotopic.errors import InputError
from scotopic.evaluation.datasets.files import read_pair, read_png_truth, visible_in_both
from scotopic.evaluation.datasets.layout import DatasetKind, Place, scene_folders, sized_folders
from scotopic.evaluation.protocol import Recording

_SIZES = {"full": 1.0, "half": 1 / 2, "third": 1 / 3}
_FOLDERS = {"FullSize": 1.0, "HalfSize": 1 / 2, "ThirdSize": 1 / 3}
_FILES = ("view1.png", "view5.png", "disp1.png", "disp5.png")
_FULL_WIDTH = (1200.0, 1450.0)


def find(folder: Path, size: float | None, scale: float) -> list[Place]:
    """List the scenes; see :class:`~scotopic.evaluation.datasets.layout.DatasetKind`."""
    return [
        Place(scene.resolve().name, scene, found)
        for place, found in sized_folders(folder, _FOLDERS, size, scale)
        for scene in scene_folders(place, _FILES)
    ]


def read(place: Place) -> Recording:
    """Read one scene as it lies on disk; see :class:`~scotopic.evaluation.datasets.layout.DatasetKind`."""
    folder = place.folder
    left, right = read_pair(folder / "view1.png", folder / "view5.png")
    size = place.size if place.size is not None else _size_by_width(folder, left.shape[1])
    divisor = round(1 / size)
    truth = read_png_truth(folder / "disp1.png", left, divisor, bits=8)
    visible = None
    if (folder / "disp5.png").exists():
        visible = visible_in_both(truth, read_png_truth(folder / "disp5.png", right, divisor, bits=8))
    return Recording(left, right, truth, visible, size=size)


def _size_by_width(folder: Path, width: int) -> float:
    low, high = _FULL_WIDTH
    for size in _SIZES.values():
        if low * size <= width <= high * size:
            return size
    raise InputError(
        f"{str(folder)!r}: found images {width} px wide, expected {low:g} to {high:g} (full size of Middlebury 2005 "
        "and 2006), a half or a third of it; state the size (full, half or third) or name the folder of scenes "
        "FullSize, HalfSize or ThirdSize"
    )


def _kind(year: int) -> DatasetKind:
    return DatasetKind(
        title=f"Middlebury {year}",
        scale=1 / 3,
        layout=(
            "FullSize/, HalfSize/ or ThirdSize/ with <scene>/, or a folder of such <scene>/, each with view1.png "
            "view5.png disp1.png and optionally disp5.png"
        ),
        find=find,
        read=read,
        sizes=_SIZES,
    )


KIND_2005, KIND_2006 = _kind(2005), _kind(2006)
