"""OpenEXR, where the installed OpenCV has it.

Many builds leave it out (all wheels of OpenCV 5 so far), others have it switched off until the environment says
``OPENCV_IO_ENABLE_OPENEXR=1``. The format has no place that OpenCV would write a version to.
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError, OutputError
from scotopic.io.atomic import atomic_path
from scotopic.io.images import encoded, read_image

_REMEDY = (
    "use PFM or 32-bit TIFF, or install an OpenCV with OpenEXR and set OPENCV_IO_ENABLE_OPENEXR=1 before Python starts"
)


def has_exr() -> bool:
    """Whether the installed OpenCV writes OpenEXR, here and now."""
    try:
        encoded(".exr", np.zeros((1, 1), np.float32), "probe.exr")
    except OutputError:
        return False
    return True


def write_exr(path: str | os.PathLike[str], disparity: NDArray[np.floating]) -> None:
    """Write a disparity or depth map as 32-bit floats, NaN where there is none, atomically.

    Raises
    ------
    InputError
        It is no map of floats.
    OutputError
        This OpenCV cannot write OpenEXR, or the file cannot be written.
    """
    values = np.asarray(disparity)
    if values.ndim != 2 or values.dtype.kind != "f" or values.size == 0:
        raise InputError(
            f"cannot store an array of shape {values.shape} and type {values.dtype} as EXR {os.fspath(path)!r}, "
            "expected a map of floats, H x W; convert it first"
        )
    if not has_exr():
        raise OutputError(
            f"cannot write {os.fspath(path)!r}: found an OpenCV without OpenEXR, expected one that writes it; {_REMEDY}"
        )
    data = encoded(".exr", np.where(np.isfinite(values), values, np.nan).astype(np.float32), path)
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


def read_exr(path: str | os.PathLike[str]) -> NDArray[np.float32]:
    """Read a map of one channel, NaN where there is none.

    Raises
    ------
    InputError
        The file is missing or damaged, has several channels, or this OpenCV cannot read OpenEXR.
    """
    try:
        values = read_image(path)
    except InputError as error:
        raise InputError(f"{error}" + ("" if has_exr() else f" (this OpenCV has no OpenEXR: {_REMEDY})")) from error
    if values.ndim != 2 or values.dtype != np.float32:
        raise InputError(
            f"{os.fspath(path)!r}: found {values.dtype} of shape {values.shape}, expected one channel of floats; "
            "convert it"
        )
    return np.where(np.isfinite(values), values, np.float32(np.nan))
