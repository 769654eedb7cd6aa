"""Checks on a pair of images before any work is done."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError

Image = NDArray[np.float32]


def check_size(image: Image, patch_size: int, name: str) -> None:
    """Raise :class:`InputError` unless the image holds at least one patch."""
    height, width = image.shape[:2]
    if min(height, width) < patch_size:
        raise InputError(
            f"{name}: found {width} x {height} px, expected at least one patch of {patch_size} x {patch_size} px; "
            "use a larger image or a smaller patch_size"
        )


def check_pair(left: Image, right: Image, patch_size: int, names: str = "left and right") -> None:
    """Raise :class:`InputError` unless the two views, called ``names`` in the message, can be matched."""
    if left.shape != right.shape:
        found = " and ".join(f"{v.shape[1]} x {v.shape[0]} px with {v.shape[2]} channel(s)" for v in (left, right))
        raise InputError(
            f"{names}: found {found}, expected two views of the same size and channels; rectify, crop or convert them "
            "to match"
        )
    check_size(left, patch_size, names)


def is_constant(image: Image) -> bool:
    """Whether every pixel is the same, so that there is nothing to match."""
    return bool((image[:1] == image[:1, :1]).all()) and bool((image == image[:1, :1]).all())
