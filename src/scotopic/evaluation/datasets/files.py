"""The files of a scene: a pair, a true disparity, a mask; each checked against the left image."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError
from scotopic.io import as_image, read_image, read_pfm

#: Two truths that differ by no more than this, in px at the size on disk, see the same point.
LEFT_RIGHT_TOLERANCE = 1.0

# What the masks of Middlebury and ETH3D have at pixels that both views see; 128 is occluded, 0 unknown.
_NON_OCCLUDED = 255


def read_pair(left: Path, right: Path) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Read both views.

    Parameters
    ----------
    left, right : Path
        The files.

    Returns
    -------
    left, right : ndarray of float32
        ``H x W x C`` in [0, 1], of one size.

    Raises
    ------
    InputError
        A file is missing or broken, or the two differ in size or channels; the file is named.
    """
    images = as_image(left, str(left)), as_image(right, str(right))
    if images[0].shape != images[1].shape:
        raise InputError(
            f"{str(right)!r}: found {_size(images[1])} of {images[1].shape[2]} channels, expected {_size(images[0])} "
            f"of {images[0].shape[2]} as in {left.name!r}; the two are not of one pair, fetch them again"
        )
    return images


def read_pfm_truth(path: Path, image: NDArray[np.float32]) -> NDArray[np.float32]:
    """Read a disparity map from a PFM file.

    Parameters
    ----------
    path : Path
        The file; unknown is +inf or NaN.
    image : ndarray
        The view that it belongs to.

    Returns
    -------
    ndarray of float32
        ``H x W`` px, NaN where unknown.

    Raises
    ------
    InputError
        The file is missing or broken, or not of the size of the image.
    """
    values = read_pfm(path)
    _check_map(path, values, image)
    return np.where(np.isfinite(values), values, np.float32(np.nan))


def read_png_truth(path: Path, image: NDArray[np.float32], divisor: float, bits: int = 16) -> NDArray[np.float32]:
    """Read a disparity map from a gray PNG file in which 0 is unknown.

    Parameters
    ----------
    path : Path
        The file.
    image : ndarray
        The view that it belongs to.
    divisor : float
        Disparity in px = stored value / divisor.
    bits : int
        8 or 16, whichever the data set has; the other would be another map, made to be looked at.

    Returns
    -------
    ndarray of float32
        ``H x W`` px, NaN where unknown.

    Raises
    ------
    InputError
        The file is missing or broken, has other numbers, or is not of the size of the image.
    """
    values = read_image(path)
    _check_map(path, values, image)
    if values.dtype != np.dtype(f"u{bits // 8}"):
        raise InputError(
            f"{str(path)!r}: found {values.dtype} values, expected {bits} bits in which 0 is unknown and others are "
            f"disparity x {divisor:g}; take the original file of the data set"
        )
    return np.where(values == 0, np.float32(np.nan), values.astype(np.float32) / np.float32(divisor))


def read_visible(path: Path, image: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Read a mask of Middlebury or ETH3D: 255 where both views see the point, 128 occluded, 0 unknown.

    Parameters
    ----------
    path : Path
        The file.
    image : ndarray
        The view that it belongs to.

    Returns
    -------
    ndarray of bool
        ``H x W``.

    Raises
    ------
    InputError
        The file is missing or broken, has other numbers, or is not of the size of the image.
    """
    values = read_image(path)
    _check_map(path, values, image)
    if values.dtype != np.uint8:
        raise InputError(f"{str(path)!r}: found {values.dtype} values, expected 8 bits: 255, 128 or 0; fetch it again")
    return np.asarray(values == _NON_OCCLUDED)


def visible_in_both(left: NDArray[np.float32], right: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Tell by the truths of both views where the right view sees the point of the left: the left-right check.

    A point at column x with disparity d lies at ``x - d`` of the right view. It is visible if the right truth at the
    nearest pixel there is known and differs from d by at most `LEFT_RIGHT_TOLERANCE`; where it is hidden, something
    nearer, of larger disparity, stands in its place.

    Parameters
    ----------
    left, right : ndarray of float32
        ``H x W`` px, NaN where unknown, each in the frame of its own view.

    Returns
    -------
    ndarray of bool
        ``H x W``, in the left frame; False also where either truth is unknown or the point is out of view.
    """
    width = left.shape[1]
    known = np.isfinite(left)
    there = np.rint(np.arange(width, dtype=np.float32) - np.where(known, left, np.float32(0)))
    inside = known & (there >= 0) & (there < width)
    seen = np.take_along_axis(right, np.clip(there, 0, width - 1).astype(np.intp), axis=1)
    return np.asarray(inside & (np.abs(left - seen) <= LEFT_RIGHT_TOLERANCE))


def first_existing(folder: Path, *names: str) -> Path | None:
    """Return the first of some files that is there.

    Parameters
    ----------
    folder : Path
        Where they may lie.
    *names : str
        Names, the preferred first.

    Returns
    -------
    Path or None
        ``None`` where none is.
    """
    return next((folder / name for name in names if os.path.exists(folder / name)), None)


def _check_map(path: Path, values: NDArray[Any], image: NDArray[np.float32]) -> None:
    if values.ndim != 2:
        raise InputError(
            f"{str(path)!r}: found {values.shape[2]} channels, expected one; take the original file of the data set"
        )
    if values.shape != image.shape[:2]:
        raise InputError(
            f"{str(path)!r}: found {_size(values)}, expected {_size(image)} as the image beside it; it belongs to "
            "another scene or another size of the data set, fetch the one that goes with the image"
        )


def _size(array: NDArray[Any]) -> str:
    return f"{array.shape[1]} x {array.shape[0]}"
