"""The user's own pairs: a folder for each, with or without truth."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from scotopic.errors import InputError
from scotopic.evaluation.datasets.files import find_visible, first_existing, read_calib_beside, read_pair, read_truth
from scotopic.evaluation.datasets.layout import DatasetKind, Place, find_scenes
from scotopic.evaluation.protocol import Recording

_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".ppm", ".pgm", ".pfm")
_PAIRS = (("im0", "im1"), ("left", "right"))
_LEFT_TRUTH = ("disp0.pfm", "disp.pfm", "disp0.png", "disp.png")
_RIGHT_TRUTH = ("disp1.pfm", "disp1.png")


def read(place: Place) -> Recording:
    """Read one scene as it lies on disk."""
    folder = place.folder
    left, right = read_pair(*_views(folder))
    file = first_existing(folder, *_LEFT_TRUTH)
    truth = np.full(left.shape[:2], np.nan, np.float32) if file is None else read_truth(file, left)
    visible = find_visible(folder, left, right, truth, *(_RIGHT_TRUTH if file else ()))
    calibration, max_disparity = read_calib_beside(folder, left)
    return Recording(left, right, truth, visible, calibration, max_disparity=max_disparity)


def _views(folder: Path) -> tuple[Path, Path]:
    for names in _PAIRS:
        left, right = (first_existing(folder, *(name + suffix for suffix in _SUFFIXES)) for name in names)
        if left is not None and right is not None:
            return left, right
    raise InputError(
        f"{str(folder)!r} holds no complete pair. Add the missing view of im0 and im1, or of left and right "
        f"({', '.join(_SUFFIXES)})."
    )


KIND = DatasetKind(
    title="own pairs",
    scale=1.0,
    layout=(
        "a folder for each pair, or one such folder, with im0 and im1 or left and right (PNG, JPEG, TIFF, PPM, PFM), "
        "and optionally truth as disp0.pfm or disp.pfm (inf unknown) or disp0.png or disp.png (16-bit, disparity x "
        "256, 0 unknown), disp1.pfm or disp1.png of the right view, mask0nocc.png, calib.txt"
    ),
    find=find_scenes(*(view + suffix for pair in _PAIRS for view in pair for suffix in _SUFFIXES)),
    read=read,
    is_clean=False,
)
