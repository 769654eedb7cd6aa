"""The data sets that can be opened, each read from the layout in which it is published."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from scotopic.depth import read_calibration
from scotopic.errors import InputError
from scotopic.evaluation.datasets.files import first_existing, read_pair, read_scene, read_truth
from scotopic.evaluation.datasets.layout import (
    DatasetKind,
    Place,
    find_scenes,
    find_sized,
    size_by_width,
    subfolders,
)  # fmt: skip
from scotopic.evaluation.protocol import Recording

# --- Middlebury 2014, in the layout of its own pages and in that of the evaluation SDK. The size on disk follows, in
# this order, from
# 1. what the user states (size="quarter");
# 2. the name of the folder: trainingF, trainingH, trainingQ; <scene>-perfect and <scene>-imperfect are published at
#    full size only;
# 3. the width of the images. Scenes of 2014 are 2300 to 3000 px wide at full size; the widest is less than twice the
#    narrowest, so the three sizes do not overlap. Two older, smaller scenes of the SDK, ArtL and Teddy, are known by
#    their names.

_SIZES_2014 = {"full": 1.0, "half": 0.5, "quarter": 0.25}
_SDK_FOLDERS = {"trainingF": 1.0, "trainingH": 0.5, "trainingQ": 0.25}
# Width of full size in px, with a margin: the two layouts crop differently. High must stay below twice low.
_FULL_WIDTH_2014 = (1900.0, 3300.0)
_OLDER_FULL_WIDTH = {"ArtL": (1300.0, 1400.0), "Teddy": (1750.0, 1850.0)}


def _find_middlebury2014(folder: Path, size: float | None, scale: float) -> list[Place]:
    places = find_sized(folder, size, scale, _SDK_FOLDERS, ("im0.png", "im1.png", "disp0.pfm", "disp0GT.pfm"))
    official = ("-perfect", "-imperfect")
    return [replace(each, size=each.size or (1.0 if each.name.endswith(official) else None)) for each in places]


def _size_middlebury2014(place: Place, width: int) -> float:
    full_width = _OLDER_FULL_WIDTH.get(place.name, _FULL_WIDTH_2014)
    return size_by_width(place, width, full_width, _SIZES_2014, _SDK_FOLDERS)


_MIDDLEBURY_2014 = DatasetKind(
    title="Middlebury 2014",
    scale=0.2,
    layout=(
        "<scene>-perfect/ and <scene>-imperfect/ (full size), or trainingF/, trainingH/ or trainingQ/ with <scene>/ of "
        "the evaluation SDK, or a folder of such <scene>/, each with im0.png im1.png, disp0.pfm or disp0GT.pfm, and "
        "optionally mask0nocc.png, disp1.pfm, calib.txt"
    ),
    find=_find_middlebury2014,
    read=partial(
        read_scene,
        views=("im0.png", "im1.png"),
        truth=("disp0GT.pfm", "disp0.pfm"),
        right_truth=("disp1GT.pfm", "disp1.pfm"),
        measure=_size_middlebury2014,
    ),
    sizes=_SIZES_2014,
)

# --- Middlebury 2005 and 2006: two of seven views, in full, half or third size. Disparities are 8-bit, 0 unknown, and
# always in px of full size: a half-size map is to be divided by 2, a third-size map by 3. The size on disk is the one
# that the user states, or follows from a folder named FullSize, HalfSize or ThirdSize, or else from the width of the
# images: full size is 1240 to 1400 px wide, so the sizes do not overlap. There is no calibration: dmin.txt, the offset
# that was cropped away, does not say in px of which size it is.

_SIZES_2006 = {"full": 1.0, "half": 1 / 2, "third": 1 / 3}
_FOLDERS_2006 = {"FullSize": 1.0, "HalfSize": 1 / 2, "ThirdSize": 1 / 3}
_FULL_WIDTH_2006 = (1200.0, 1450.0)
_MIDDLEBURY_2006 = DatasetKind(
    title="Middlebury 2006",
    scale=1 / 3,
    layout=(
        "FullSize/, HalfSize/ or ThirdSize/ with <scene>/, or a folder of such <scene>/, each with view1.png "
        "view5.png disp1.png and optionally disp5.png"
    ),
    find=partial(find_sized, sizes=_FOLDERS_2006, files=("view1.png", "view5.png", "disp1.png", "disp5.png")),
    read=partial(
        read_scene,
        views=("view1.png", "view5.png"),
        truth=("disp1.png",),
        right_truth=("disp5.png",),
        divisor=None,
        bits=8,
        measure=partial(size_by_width, full_width=_FULL_WIDTH_2006, sizes=_SIZES_2006, folders=_FOLDERS_2006),
    ),
    sizes=_SIZES_2006,
)

# --- InStereo2K: indoor scenes, 1080 x 860, with dense truth of both views. Disparity is the 16-bit value / 100, 0
# unknown. One well-known loader divides by 1024, which is wrong.


def _find_instereo2k(folder: Path, size: float | None, scale: float) -> list[Place]:
    """Return the scenes: of the whole data set those in ``test``."""
    test = folder / "test"
    list_scenes = find_scenes("left.png", "right.png", "left_disp.png", "right_disp.png")
    return list_scenes(test if test.is_dir() else folder, size, scale)


_INSTEREO2K = DatasetKind(
    title="InStereo2K",
    scale=0.5,
    layout=(
        "test/<scene>/, or a folder of such <scene>/, each with left.png right.png left_disp.png (16-bit, disparity x "
        "100, 0 unknown) and optionally right_disp.png"
    ),
    find=_find_instereo2k,
    read=partial(
        read_scene,
        views=("left.png", "right.png"),
        truth=("left_disp.png",),
        right_truth=("right_disp.png",),
        divisor=100,
    ),
)

# --- ETH3D two-view: gray pairs indoors and outdoors, with truth by laser scanner. Images and truth are two archives,
# two_view_training and two_view_training_gt; unpack both into one folder.

_ETH3D = DatasetKind(
    title="ETH3D two-view",
    scale=1.0,
    layout=(
        "<scene>/ with im0.png im1.png disp0GT.pfm and optionally mask0nocc.png, calib.txt (both archives of the "
        "training set unpacked into one folder)"
    ),
    find=find_scenes("im0.png", "im1.png", "disp0GT.pfm", "mask0nocc.png"),
    read=partial(read_scene, views=("im0.png", "im1.png"), truth=("disp0GT.pfm",)),
)

# --- KITTI 2015: streets by day, with sparse truth by LIDAR, and cars filled in from models. Disparity is the 16-bit
# value / 256, 0 unknown. disp_occ_0 has all points, disp_noc_0 only those that the right view sees too.


def _find_kitti2015(folder: Path, size: float | None, scale: float) -> list[Place]:
    """Return the scenes. A name in any of the folders is one: if a file is missing elsewhere, the scene is broken."""
    subfolders(folder)  # raises if it cannot be read
    training = folder / "training"
    root = training if training.is_dir() else folder
    # _10 is the frame with truth, _11 the next one.
    found = (file for part in ("image_2", "image_3", "disp_occ_0") for file in (root / part).glob("*_10.png"))
    return [Place(name, root) for name in sorted({file.stem for file in found})]


def _read_kitti2015(place: Place) -> Recording:
    root, file = place.folder, f"{place.name}.png"
    left, right = read_pair(root / "image_2" / file, root / "image_3" / file)
    truth = read_truth(root / "disp_occ_0" / file, left)
    visible = calibration = None
    if (root / "disp_noc_0").is_dir():
        visible = np.isfinite(read_truth(root / "disp_noc_0" / file, left))
    if (root / "calib_cam_to_cam").is_dir():
        calibration = read_calibration(root / "calib_cam_to_cam" / f"{place.name.removesuffix('_10')}.txt")
        calibration = replace(calibration, width=left.shape[1], height=left.shape[0])
    return Recording(left, right, truth, visible, calibration)


_KITTI_2015 = DatasetKind(
    title="KITTI 2015",
    scale=1.0,
    layout=(
        "training/ (or that folder itself) with image_2/ image_3/ disp_occ_0/ of files <scene>_10.png (truth 16-bit, "
        "disparity x 256, 0 unknown), and optionally disp_noc_0/ and calib_cam_to_cam/"
    ),
    find=_find_kitti2015,
    read=_read_kitti2015,
)

# --- the user's own pairs: a folder for each, with or without truth

_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".ppm", ".pgm", ".pfm")
_PAIRS = (("im0", "im1"), ("left", "right"))


def _read_own_pair(place: Place) -> Recording:
    for names in _PAIRS:
        left, right = (first_existing(place.folder, *(name + suffix for suffix in _SUFFIXES)) for name in names)
        if left is not None and right is not None:
            truth = ("disp0.pfm", "disp.pfm", "disp0.png", "disp.png")
            views, right_truth = (left.name, right.name), ("disp1.pfm", "disp1.png")
            return read_scene(place, views, truth, right_truth, truth_may_be_missing=True)
    raise InputError(
        f"{str(place.folder)!r} holds no complete pair. Add the missing view of im0 and im1, or of left and right "
        f"({', '.join(_SUFFIXES)})."
    )


_OWN_PAIRS = DatasetKind(
    title="own pairs",
    scale=1.0,
    layout=(
        "a folder for each pair, or one such folder, with im0 and im1 or left and right (PNG, JPEG, TIFF, PPM, PFM), "
        "and optionally truth as disp0.pfm or disp.pfm (inf unknown) or disp0.png or disp.png (16-bit, disparity x "
        "256, 0 unknown), disp1.pfm or disp1.png of the right view, mask0nocc.png, calib.txt"
    ),
    find=find_scenes(*(view + suffix for pair in _PAIRS for view in pair for suffix in _SUFFIXES)),
    read=_read_own_pair,
)

#: The data sets that can be opened, each with its title, the scale of its protocol and its layout in words.
DATASETS: Mapping[str, DatasetKind] = {
    "middlebury2014": _MIDDLEBURY_2014,
    "middlebury2005": replace(_MIDDLEBURY_2006, title="Middlebury 2005"),
    "middlebury2006": _MIDDLEBURY_2006,
    "instereo2k": _INSTEREO2K,
    "eth3d": _ETH3D,
    "kitti2015": _KITTI_2015,
    "folder": _OWN_PAIRS,
}
