"""A disparity map in whichever format the name of the file asks for.

========================= ===================================== =========== =================
name                      holds                                 none        version
========================= ===================================== =========== =================
``.pfm``                  float32                               +inf        fixed by others
``.png``                  16 bits, ``disparity * 256`` (KITTI)  0           text chunk
``.tif``, ``.tiff``       float32 (16 bits are read too)        NaN         description
``.exr``                  float32, if OpenCV has OpenEXR        NaN         fixed by others
``.npz``                  ``disparity``, float32                NaN         ``format``
========================= ===================================== =========== =================
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError
from scotopic.io.exr import read_exr, write_exr
from scotopic.io.kitti_png import read_kitti_png, write_kitti_png
from scotopic.io.npz import read_npz, write_npz
from scotopic.io.pfm import read_pfm, write_pfm
from scotopic.io.tiff import read_tiff, write_tiff

Map = NDArray[np.float32]

NPZ_FORMAT = 1  #: version of an NPZ file of a disparity map; older ones keep opening


def write_disparity(path: str | os.PathLike[str], disparity: NDArray[np.floating]) -> None:
    """Write a disparity map, atomically, in the format of the file's name.

    Parameters
    ----------
    path : str or path
        The file; an existing one is replaced.
    disparity : ndarray of float
        ``H x W`` px; what is not finite becomes the format's own mark for none.

    Raises
    ------
    InputError
        It is no such map, the format cannot hold its values, or the name has no known ending.
    OutputError
        The file cannot be written.
    """
    values = np.asarray(disparity)
    if values.ndim != 2 or values.dtype.kind != "f" or values.size == 0:
        raise InputError(
            f"cannot store an array of shape {values.shape} and type {values.dtype} as {os.fspath(path)!r}, expected a "
            "disparity map of floats, H x W; convert it first"
        )
    _of(path)[0](path, values)


def read_disparity(path: str | os.PathLike[str]) -> Map:
    """Read a disparity map; NaN where there is none, whatever the format's own mark is.

    Raises
    ------
    InputError
        The file is missing or damaged, holds no such map, has a newer format, or its name has no known ending.
    """
    return _of(path)[1](path)


def _of(path: str | os.PathLike[str]) -> tuple[Callable[[Any, Any], None], Callable[[Any], Map]]:
    suffix = Path(path).suffix.lower()
    if suffix not in _FORMATS:
        raise InputError(
            f"{os.fspath(path)!r}: found the ending {suffix!r}, expected one of {', '.join(_FORMATS)}; "
            "choose one of these"
        )
    return _FORMATS[suffix]


def _write_pfm(path: Any, values: NDArray[np.floating]) -> None:
    write_pfm(path, np.where(np.isfinite(values), values, np.array(np.inf, values.dtype)))


def _read_pfm(path: Any) -> Map:
    values = read_pfm(path)
    if values.ndim != 2:
        raise InputError(f"{os.fspath(path)!r}: found {values.shape[2]} channels, expected one; convert it")
    return np.where(np.isfinite(values), values, np.float32(np.nan))


def _write_npz(path: Any, values: NDArray[np.floating]) -> None:
    known = np.where(np.isfinite(values), values, np.nan).astype(np.float32)
    write_npz(path, {"disparity": known}, NPZ_FORMAT)


def _read_npz(path: Any) -> Map:
    arrays = read_npz(path, ("disparity", "format"))
    version = arrays.get("format", np.array(NPZ_FORMAT))  # files of others have none
    values = arrays.get("disparity")
    if version.shape != () or version.dtype.kind not in "iu" or int(version) > NPZ_FORMAT:
        raise InputError(
            f"{os.fspath(path)!r}: found format {version!s:.40}, expected at most {NPZ_FORMAT}; upgrade "
            "scotopic to read it"
        )
    if values is None or values.ndim != 2 or values.dtype.kind != "f" or values.size == 0:
        raise InputError(
            f"{os.fspath(path)!r}: found no map 'disparity' of floats, expected one, H x W; write it again"
        )
    return np.where(np.isfinite(values), values, np.nan).astype(np.float32)


_FORMATS: dict[str, tuple[Callable[[Any, Any], None], Callable[[Any], Map]]] = {
    ".pfm": (_write_pfm, _read_pfm),
    ".png": (write_kitti_png, read_kitti_png),
    ".tif": (write_tiff, read_tiff),
    ".tiff": (write_tiff, read_tiff),
    ".exr": (write_exr, read_exr),
    ".npz": (_write_npz, _read_npz),
}
SUFFIXES = tuple(_FORMATS)  #: endings that are known
