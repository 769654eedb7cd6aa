"""Disparity maps in the format that the name of the file asks for.

========================= =========================================================== ===========
name                      holds                                                       none
========================= =========================================================== ===========
``.pfm``                  float32                                                     +inf
``.png``                  16 bits, ``disparity * 256`` (KITTI)                        0
``.tif``, ``.tiff``       float32; 16 bits, ``disparity * 256``, are read too         NaN; 0
``.npz``                  ``disparity``, float32, and ``format``, the version         NaN
========================= =========================================================== ===========

Maps are ``H x W``; in memory pixels without a value are NaN, whatever the file's own mark is. Files are written
atomically. Reading raises :class:`~scotopic.errors.InputError` if the file is missing, damaged or of another kind;
writing, if the array is not a map of floats or the format cannot hold its values. If the file cannot be written, it
raises :class:`~scotopic.errors.OutputError`.
"""

import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError
from scotopic.io.atomic import atomic_path, claim_folder
from scotopic.io.images import read_image, write_png
from scotopic.io.masks import masked_to_nan
from scotopic.io.npz import read_npz, write_npz
from scotopic.io.pfm import write_pfm
from scotopic.io.replacement import replaced_files

Map = NDArray[np.float32]

NPZ_FORMAT = 1  #: version of an NPZ file of a disparity map; older ones keep opening
KITTI_SCALE = 256.0  #: stored 16-bit value over px


def write_disparity(path: str | os.PathLike[str], disparity: NDArray[np.floating]) -> None:
    """Write a disparity map, ``H x W`` px, NaN where there is none, in the format that the suffix of the file tells.

    What is masked in a masked array is unknown.

    Raises :class:`InputError` if the array is not such a map, the format cannot hold its values, or the suffix is
    unknown. Raises :class:`OutputError` if the file cannot be written.
    """
    _format(path)[0](path, check_map(disparity, path))


def read_disparity(path: str | os.PathLike[str]) -> Map:
    """Read a disparity map, NaN where there is none, in the format that the suffix of the file tells.

    Raises :class:`InputError` if the file is missing or damaged, holds no such map, has a newer format, or the suffix
    is unknown.
    """
    return _format(path)[1](path)


def write_kitti_png(path: str | os.PathLike[str], disparity: NDArray[np.floating]) -> None:
    """Write a disparity map, ``H x W`` px, as KITTI does: 16-bit PNG, ``disparity * 256``, 0 where there is none.

    As in KITTI's own writer, values that would round to 0 become 1/256 px. Values below 0 or from 256 px on cannot be
    stored.
    """
    write_png(path, _to_uint16(check_map(disparity, path), path))


def read_kitti_png(path: str | os.PathLike[str]) -> Map:
    """Read a disparity map, ``H x W`` px, NaN where there is none, from KITTI's 16-bit PNG."""
    return _read_map(path, (np.uint16,), "KITTI's format has one channel of 16 bits (disparity * 256, 0 = none)")


def write_tiff(path: str | os.PathLike[str], disparity: NDArray[np.floating], bits: int = 32) -> None:
    """Write a disparity or depth map, ``H x W``, NaN where there is none, as TIFF.

    With 32 `bits` floats as they are, with 16 ``value * 256`` and 0 for none, as in KITTI's PNG.
    """
    import tifffile

    if bits not in (16, 32):
        raise InputError(f"A map cannot be stored as TIFF of {bits} bits. Choose 16 or 32.")
    values = check_map(disparity, path)
    pixels: NDArray[Any] = _mark_unknown(values) if bits == 32 else _to_uint16(values, path)
    meaning = "value, NaN = none" if bits == 32 else f"value / {KITTI_SCALE:g}, 0 = none"
    with atomic_path(path) as temporary:
        # Not LZW, which OpenCV writes: tifffile needs a further package for that.
        tifffile.imwrite(temporary, pixels, compression="zlib", description=meaning, software="scotopic", metadata=None)


def read_tiff(path: str | os.PathLike[str]) -> Map:
    """Read a map from a TIFF of one channel: 32-bit floats as they are, 16 bits as ``value / 256``, 0 for none.

    By OpenCV, which unlike tifffile alone also decodes LZW.
    """
    return _read_map(path, (np.uint16, np.float32), "TIFF has one channel of 16 bits or of 32-bit floats")


def check_map(values: Any, path: str | os.PathLike[str]) -> NDArray[np.floating]:
    """Return an array that is to be stored as a map, or raise :class:`InputError` if it is not floats, ``H x W``."""
    array = np.asarray(masked_to_nan(values))
    if array.ndim != 2 or array.dtype.kind != "f" or array.size == 0:
        raise InputError(
            f"An array of shape {array.shape} and type {array.dtype} cannot be stored as {os.fspath(path)!r}. A map is "
            "an H x W array of floats."
        )
    return array


def _mark_unknown(values: NDArray[Any]) -> Map:
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)  # first: what is too large for it is not finite either
    return np.where(np.isfinite(single), single, np.float32(np.nan))


def _to_uint16(values: NDArray[np.floating], path: str | os.PathLike[str]) -> NDArray[np.uint16]:
    known = np.isfinite(values)
    stored = np.rint(np.where(known, values, 0).astype(np.float64) * KITTI_SCALE)
    low, high = float(values[known].min(initial=0)), float(stored.max(initial=0))
    if low < 0 or high > 65535:
        raise InputError(
            f"Disparities from {low:g} to {high / KITTI_SCALE:g} px cannot be stored in 16 bits as "
            f"{os.fspath(path)!r}, which hold 0 to {65535 / KITTI_SCALE:.2f} px. Use PFM, NPZ or 32-bit TIFF."
        )
    return np.where(known, np.maximum(stored, 1), 0).astype(np.uint16)


def _read_map(path: Any, types: tuple[type, ...], layout: str) -> Map:
    values = read_image(path)
    if values.ndim != 2 or values.dtype not in types:
        raise InputError(
            f"{os.fspath(path)!r} holds {values.dtype} of shape {values.shape}. A disparity map in {layout}."
        )
    if values.dtype == np.uint16:
        return np.where(values == 0, np.float32(np.nan), values.astype(np.float32) / np.float32(KITTI_SCALE))
    return _mark_unknown(values)


def _read_pfm(path: Any) -> Map:
    return _read_map(path, (np.float32,), "PFM has one channel")


def _read_npz(path: Any) -> Map:
    arrays = read_npz(path, ("disparity", "format"))
    version = arrays.get("format", np.array(NPZ_FORMAT))  # files of others have none
    values = arrays.get("disparity")
    if version.shape != () or version.dtype.kind not in "iu" or int(version) > NPZ_FORMAT:
        found = " ".join(str(version).split())  # an array is written in several lines
        raise InputError(
            f"{os.fspath(path)!r} has format {found:.40}; this version of scotopic reads formats up to {NPZ_FORMAT}. "
            "Upgrade scotopic to read it."
        )
    if values is None or values.ndim != 2 or values.dtype.kind != "f" or values.size == 0:
        raise InputError(f"{os.fspath(path)!r} holds no array 'disparity' of floats, H x W.")
    return _mark_unknown(values)


def _format(path: str | os.PathLike[str]) -> tuple[Callable[[Any, Any], None], Callable[[Any], Map]]:
    suffix = Path(path).suffix.lower()
    if suffix not in _FORMATS:
        raise InputError(
            f"{os.fspath(path)!r} has no known suffix for a disparity map. Use one of {', '.join(_FORMATS)}."
        )
    return _FORMATS[suffix]


_FORMATS: dict[str, tuple[Callable[[Any, Any], None], Callable[[Any], Map]]] = {
    ".pfm": (lambda path, values: write_pfm(path, np.where(np.isfinite(values), values, np.inf)), _read_pfm),
    ".png": (write_kitti_png, read_kitti_png),
    ".tif": (write_tiff, read_tiff),
    ".tiff": (write_tiff, read_tiff),
    ".npz": (lambda path, values: write_npz(path, {"disparity": _mark_unknown(values)}, NPZ_FORMAT), _read_npz),
}
SUFFIXES = tuple(_FORMATS)  #: suffixes that are known


# --- a Middlebury submission: three files in each scene's folder, for a method called ALG. disp0ALG.pfm has the
# disparity of every pixel, disp0ALG_s.pfm only those that the method vouches for, +inf elsewhere; timeALG.txt seconds.

_NAME = re.compile(r"[A-Za-z0-9_.\-]{1,60}", re.ASCII)


def submission_files(name: str) -> tuple[str, str, str]:
    """Return the names of the three files; raise :class:`InputError` if `name` cannot be part of a file's name."""
    if not _NAME.fullmatch(name):
        raise InputError(
            f"The method name {name[:80]!r} cannot be part of a file name. Use up to 60 letters, digits, '_', '-' "
            "and '.'."
        )
    return f"disp0{name}.pfm", f"disp0{name}_s.pfm", f"time{name}.txt"


def write_submission(
    folder: str | os.PathLike[str],
    name: str,
    dense: NDArray[np.floating],
    sparse: NDArray[np.floating],
    seconds: float,
    *,
    overwrite: bool = False,
) -> Path:
    """Write one scene of a submission by the method `name`, and return its folder.

    `folder` is that of the scene, such as ``trainingQ/Adirondack``; it is created if it is missing. `dense` and
    `sparse` are disparity maps, ``H x W`` px, of one size; `seconds` is the run time.

    Raises :class:`InputError` if an array is not such a map, or `seconds` is not a duration. Raises
    :class:`OutputError` if the folder cannot be written or already holds such files.
    """
    names = submission_files(name)
    if np.shape(dense) != np.shape(sparse) or np.ndim(dense) != 2:
        raise InputError(
            f"The maps of the submission {name!r} have shapes {np.shape(dense)} and {np.shape(sparse)}. Both must be "
            "H x W of one size."
        )
    if not (math.isfinite(seconds) and seconds >= 0):
        raise InputError(f"The submission {name!r} cannot have taken {seconds} seconds.")
    target = claim_folder(folder, names, overwrite)
    with replaced_files(target) as stage:
        for file, values in zip(names, (dense, sparse), strict=False):
            write_disparity(stage / file, np.asarray(masked_to_nan(values), np.float32))
        (stage / names[2]).write_text(f"{seconds:.6g}\n")
    return target
