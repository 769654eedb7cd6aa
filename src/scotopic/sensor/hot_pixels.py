"""Hot pixels: those of a camera that report photons whatever the scene is, as some of every SPAD array do.

A hot pixel tells nothing about the scene, but the pixels around it see the same surface, and the disparity of a pixel
follows from its surroundings anyway. So hot pixels are interpolated from their neighbors and matched like all others.
The inside of a cluster that is more than :data:`REACH` px from any good pixel cannot be; it gets no disparity
(``Reason.MASKED``).
"""

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError, PairWarning
from scotopic.io.images import read_mask
from scotopic.io.mapped import read_part
from scotopic.io.masks import Mask, fill_masked
from scotopic.sensor.array_file import load_array

REACH = 2.0  #: px; a hot pixel that has no good one within this distance is masked
_MOSTLY = 0.5  # of the pixels: a mask that has more is likely one of the good ones


def read_hot_pixels(source: Any, shape: tuple[int, int]) -> Mask:
    """Return which pixels of a camera are hot, ``H x W``.

    Parameters
    ----------
    source
        An array ``H x W``, or a file of one: ``.npy``, or an image such as a PNG. Hot is whatever is not 0.
    shape
        Height and width of the images that it belongs to.

    Raises
    ------
    InputError
        The file cannot be read, or is not a mask of this size.
    """
    if isinstance(source, str | os.PathLike) and Path(source).suffix.lower() != ".npy":
        found: NDArray[Any] = read_mask(source)
        title = f"The file of hot pixels {os.fspath(source)!r}"
    else:
        found, title = load_array(source, "hot pixels")
        found = read_part(found, 0, len(found)) if found.ndim and found.shape[:2] == shape else found
    if found.ndim == 3 and found.shape[2] in (1, 3) and found.dtype.kind in "buif":  # a mask saved as a picture
        found = np.asarray(found.any(axis=2))
    if found.dtype.kind not in "buif" or found.shape != shape:
        raise InputError(
            f"{title} has shape {found.shape} and type {found.dtype}. The images are {shape[0]} x {shape[1]} (H x W); "
            "give one number for each pixel, 0 where it is good."
        )
    hot: Mask = np.asarray(found != 0)
    if hot.mean() > _MOSTLY:
        told = (
            f"{title} says that {100 * hot.mean():.0f} % of the pixels are hot. If it marks the good ones, invert it."
        )
        warnings.warn(told, PairWarning, stacklevel=4)
    return hot


def fill_hot_pixels(image: NDArray[np.float32], hot: Mask) -> tuple[NDArray[np.float32], Mask | None]:
    """Return an image with its hot pixels interpolated, and those of them that have no good pixel near, if any."""
    import cv2

    if not hot.any():
        return image, None
    distance = cv2.distanceTransform(hot.astype(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE)  # to a good pixel
    far: Mask = (distance > REACH) | hot.all()  # with no good pixel there is no distance
    return fill_masked(image, hot), far if far.any() else None
