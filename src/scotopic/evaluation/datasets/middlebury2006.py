"""Middlebury 2005 and 2006: two of seven views, in full, half or third size.

Disparities are 8-bit, 0 unknown, and always in px of full size: a half-size map is to be divided by 2, a third-size
map by 3. The size on disk is the one that the user states, or follows from a folder named ``FullSize``, ``HalfSize`` or
``ThirdSize``, or else from the width of the images: full size is 1240 to 1400 px wide, so the sizes do not overlap.

There is no calibration: ``dmin.txt``, the offset that was cropped away, does not say in px of which size it is.
"""

from __future__ import annotations

from pathlib import Path

from scotopic.evaluation.datasets.files import find_visible, read_pair, read_truth
from scotopic.evaluation.datasets.layout import DatasetKind, Place, find_sized, size_by_width
from scotopic.evaluation.protocol import Recording

_SIZES = {"full": 1.0, "half": 1 / 2, "third": 1 / 3}
_FOLDERS = {"FullSize": 1.0, "HalfSize": 1 / 2, "ThirdSize": 1 / 3}
_FULL_WIDTH = (1200.0, 1450.0)


def find(folder: Path, size: float | None, scale: float) -> list[Place]:
    """Return the scenes of the size that suits."""
    return find_sized(folder, size, scale, _FOLDERS, ("view1.png", "view5.png", "disp1.png", "disp5.png"))


def read(place: Place) -> Recording:
    """Read one scene as it lies on disk."""
    folder = place.folder
    left, right = read_pair(folder / "view1.png", folder / "view5.png")
    size = place.size or size_by_width(place, left.shape[1], _FULL_WIDTH, _SIZES, _FOLDERS)
    divisor = round(1 / size)
    truth = read_truth(folder / "disp1.png", left, divisor, bits=8)
    visible = find_visible(folder, left, right, truth, "disp5.png", divisor=divisor, bits=8)
    return Recording(left, right, truth, visible, size=size)


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
