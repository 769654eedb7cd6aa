"""Bit planes of single-photon cameras: each pixel says whether at least one photon came.

With a flux of ``f`` photons per plane a bit is set with probability ``1 - exp(-f)``. So of ``n`` planes with a share
``r`` of bits set the flux is ``-log(1 - r)``, with a variance of ``(exp(f) - 1) / n``. A pixel whose bits are all set
says only that the flux is high: it is given the flux of half a plane without a photon, ``log(2 n)``, and reported.

Files are those of photoncube: ``.npy``, uint8, ``(planes, H, W / 8)`` or ``(planes, H, W / 8, C)``, eight pixels along
the width in a byte, the leftmost in its highest bit, as ``numpy.packbits(planes, axis=2)`` makes them. Nothing but
NumPy is needed to read them. Of raw ``.bin`` files those of PI Imaging's SPAD512 are in this order; SwissSPAD's half
array has the leftmost pixel in the lowest bit (``bit_order="little"``).
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scotopic.errors import InputError, SettingsError
from scotopic.io.pfm import plain_file_size
from scotopic.sensor.recording import Recording, load_array

Floats = NDArray[np.float64]

_PLANES_AT_ONCE = 64  # unpacked together; bounds the memory


def read_bit_planes(
    source: Any,
    *,
    width: int | None = None,
    height: int | None = None,
    white: float | None = None,
    dark_flux: ArrayLike = 0.0,
    first: int = 0,
    planes: int | None = None,
    bit_order: str = "big",
) -> Recording:
    """Read bit planes and turn them into one image.

    Parameters
    ----------
    source
        A file as above, a packed uint8 array, or a bool array ``(planes, H, W)``.
    width
        In pixels, where it is not eight times the packed width.
    height
        In pixels, for ``.bin`` files, which know no shape; they need `width` as well.
    white
        Photons per plane that become 1.0 of an image of flux; the same for both views, see
        :func:`~scotopic.sensor.common_white`. By default the image is the share of bits set, as recorded: also in
        [0, 1], the same for both views, and bent only where it is bright.
    dark_flux
        Dark counts per plane, a number or one for each pixel, taken off the flux.
    first, planes
        Which planes: so many from this one on; by default all.
    bit_order
        ``"big"``: the leftmost pixel is the highest bit of its byte; ``"little"``: the lowest.

    Returns
    -------
    Recording
        ``assumed`` has the number of planes and the share of pixels that are saturated.

    Raises
    ------
    InputError
        Not such a file or array.
    SettingsError
        A number that makes no sense.
    """
    if white is None and np.any(np.asarray(dark_flux) != 0):
        raise SettingsError("dark_flux: found one without a white, expected both: it is taken off the flux; pass white")
    ones, count = count_bits(source, width=width, height=height, first=first, planes=planes, bit_order=bit_order)
    flux, saturated = flux_from_bits(ones, count)
    assumed: dict[str, Any] = {
        "kind": "bit-planes",
        "planes": count,
        "saturated_percent": 100 * float(saturated.mean()),
        "noise": "binomial: the flux has variance (exp(flux) - 1) / planes",
    }
    if isinstance(source, str | os.PathLike):
        assumed["file"] = os.fspath(source)
    if white is None:
        image = ones / count
        assumed |= {"values": "as recorded: share of the planes in which a photon came", "linearized": None}
    else:
        if not 0 < white < math.inf:
            raise SettingsError(f"white: found {white}, expected photons per plane that become 1.0, above 0")
        level = (flux - np.asarray(dark_flux, np.float64)) / white
        image = np.minimum(level, 1.0)
        assumed |= {
            "values": f"flux -log(1 - share), over {white:g} photons per plane",
            "linearized": "from the binary response",
            "above_white_percent": 100 * float((level > 1).mean()),
        }
    return Recording(image.astype(np.float32).reshape(*image.shape[:2], -1), None, assumed)


def flux_from_bits(ones: ArrayLike, planes: int) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the flux in photons per plane, and where it is saturated.

    Parameters
    ----------
    ones
        How often each pixel's bit is set.
    planes
        In how many planes.

    Examples
    --------
    >>> flux, saturated = flux_from_bits([0, 50, 100], 100)
    >>> [round(float(value), 3) for value in flux], saturated.tolist()
    ([0.0, 0.693, 5.298], [False, False, True])
    """
    counts = np.asarray(ones, np.float64)
    if planes < 1 or np.any((counts < 0) | (counts > planes)):
        raise InputError(f"bits set: found counts outside 0 to {planes}, expected at most one per plane; check planes")
    saturated = counts >= planes
    flux: Floats = -np.log1p(-np.where(saturated, planes - 0.5, counts) / planes) + 0.0  # no minus zero
    return flux, saturated


def flux_variance(flux: ArrayLike, planes: int) -> Floats:
    """Return the variance of a flux that was measured in so many planes, to first order."""
    variance: Floats = np.expm1(np.asarray(flux, np.float64)) / planes
    return variance


def count_bits(
    source: Any,
    *,
    width: int | None = None,
    height: int | None = None,
    first: int = 0,
    planes: int | None = None,
    bit_order: str = "big",
) -> tuple[NDArray[np.int64], int]:
    """Return how often each pixel's bit is set, and in how many planes; parameters as of :func:`read_bit_planes`."""
    if bit_order not in ("big", "little"):
        raise SettingsError(f"bit_order: found {bit_order!r}, expected 'big' or 'little'; try 'big'")
    title = f"bit planes {os.fspath(source)!r}" if isinstance(source, str | os.PathLike) else "bit planes"
    stack = _as_planes(source, title, width, height)
    packed = stack.dtype == np.uint8
    full = stack.shape[2] * (8 if packed else 1)
    pixels = full if width is None else width
    if not 0 < pixels <= full or (packed and full - pixels >= 8):
        raise InputError(
            f"{title}: found {full} pixels along the packed width, expected {pixels} up to the next multiple of 8; "
            "correct width"
        )
    if first < 0 or (planes is not None and planes < 1):
        raise SettingsError(f"planes: found {planes} from {first} on, expected at least one from 0 on; correct them")
    stop = stack.shape[0] if planes is None else first + planes
    if stop > stack.shape[0] or first >= stop:
        raise InputError(
            f"{title}: found {stack.shape[0]} planes, expected planes {first} to {stop - 1} among them; ask for fewer"
        )
    ones = np.zeros((stack.shape[1], pixels, *stack.shape[3:]), np.int64)
    for start in range(first, stop, _PLANES_AT_ONCE):
        block = np.asarray(stack[start : min(start + _PLANES_AT_ONCE, stop)])
        bits = np.unpackbits(block, axis=2, count=pixels, bitorder=bit_order) if packed else block[:, :, :pixels]  # type: ignore[call-overload]
        ones += bits.sum(axis=0, dtype=np.int64)
    return ones, stop - first


def _as_planes(source: Any, title: str, width: int | None, height: int | None) -> NDArray[Any]:
    if isinstance(source, str | os.PathLike) and Path(source).suffix.lower() == ".bin":
        stack = _as_raw_planes(source, title, width, height)
    else:
        stack = load_array(source, "bit planes")
    fits = stack.ndim == 3 or (stack.ndim == 4 and stack.shape[3] in (1, 3))
    if stack.dtype not in (np.uint8, np.bool_) or not fits or stack.size == 0:
        raise InputError(
            f"{title}: found {stack.dtype} of shape {stack.shape}, expected packed uint8 (planes, H, W / 8), or bool "
            "(planes, H, W); pack with numpy.packbits(planes, axis=2)"
        )
    if height is not None and stack.shape[1] != height:
        raise InputError(f"{title}: found planes {stack.shape[1]} px high, expected {height}; correct height")
    return stack


def _as_raw_planes(path: str | os.PathLike[str], title: str, width: int | None, height: int | None) -> NDArray[Any]:
    if not (width and height and width > 0 and height > 0):
        raise SettingsError(f"{title}: found no size, expected width and height, as a .bin file has none; pass both")
    size, plane = plain_file_size(path), height * -(-width // 8)
    if size == 0 or size % plane:
        raise InputError(
            f"{title}: found {size} bytes, expected whole planes of {plane} bytes for {width} x {height} px; correct "
            "the size or fetch the file again"
        )
    return np.memmap(path, np.uint8, "r", shape=(size // plane, height, plane // height))
