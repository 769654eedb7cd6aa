"""Bit planes of single-photon cameras: a bit is set if at least one photon arrived.

With a flux of ``f`` photons per plane a bit is set with probability ``1 - exp(-f)``. If a share ``r`` of the bits of
``n`` planes is set, the flux is ``-log(1 - r)``, with a variance of ``(exp(f) - 1) / n``. A pixel with all bits set is
saturated: its flux is only known to be high, and is given as that of half an empty plane, ``log(2 n)``.

Files are those of photoncube: ``.npy``, uint8, ``(planes, H, W / 8)`` or ``(planes, H, W / 8, C)``, as
``numpy.packbits(planes, axis=2)`` makes them: eight pixels along the width in a byte, the leftmost in its highest bit.
Raw ``.bin`` files of PI Imaging's SPAD512 have the same order; those of SwissSPAD's half array have the leftmost pixel
in the lowest bit (``bit_order="little"``).
"""

import math
import os
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scotopic.errors import InputError, SettingsError
from scotopic.io.input_file import check_memory, plain_file_size
from scotopic.io.mapped import read_part
from scotopic.io.masks import masked_to_nan
from scotopic.sensor.array_file import load_array
from scotopic.sensor.counts import check_white
from scotopic.sensor.recording import Recording

Floats = NDArray[np.float64]

_LEAST_LIT = 32  # bytes, of which one in eight has only its lowest bit set
_PLANES_AT_ONCE = 64  # planes that are unpacked together; bounds the memory


def read_bit_planes(
    source: Any,
    *,
    width: int | None = None,
    height: int | None = None,
    white: float | None = None,
    dark_flux: ArrayLike = 0.0,
    first: int = 0,
    planes: int | None = None,
    bit_order: str | None = None,
    hot_pixels: Any = None,
) -> Recording:
    """Read bit planes as one image.

    Parameters
    ----------
    source
        A file as above, a packed uint8 array, or a bool array ``(planes, H, W)``.
    width
        In pixels, if it is not eight times the packed width.
    height
        In pixels. Needed, with `width`, for ``.bin`` files, which do not store their shape.
    white
        Photons per plane that become 1.0; the image is then the flux. Use the same for both views: see
        :func:`~scotopic.sensor.common_white`. By default the image is the share of bits set, as recorded. That is in
        [0, 1] as well, on one scale for both views, and nonlinear only where it is bright.
    dark_flux
        Dark counts per plane, one number or one for each pixel, ``(H, W)`` or as the image, subtracted from the flux.
        Needs `white`.
    first, planes
        Read this many planes, from this one on; by default all.
    bit_order
        Of packed planes, as ``numpy.packbits`` names it. ``"big"``, the default: the leftmost pixel is the highest bit
        of its byte; ``"little"``: the lowest.
    hot_pixels
        Which pixels are hot: an array ``(H, W)``, not 0 where they are, or its file (``.npy``, PNG, ...). They are
        interpolated, and large clusters masked (:meth:`Recording.without_hot_pixels`).

    Returns
    -------
    Recording
        ``assumed`` has the number of planes and the percentage of saturated pixels.

    Raises
    ------
    InputError
        The file or array does not hold bit planes.
    SettingsError
        A parameter makes no sense.
    """
    if white is not None:
        check_white(white, "photons per plane")
    elif np.any(np.asarray(dark_flux) != 0):
        raise SettingsError("dark_flux is subtracted from the flux, so it needs white as well.")
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
        level = (flux - _as_dark_flux(dark_flux, flux.shape)) / white
        image = np.minimum(level, 1.0)
        assumed |= {
            "values": f"flux -log(1 - share), over {white:g} photons per plane",
            "linearized": "from the binary response",
            "above_white_percent": 100 * float((level > 1).mean()),
        }
    recording = Recording(image.astype(np.float32).reshape(*image.shape[:2], -1), None, assumed)
    return recording.without_hot_pixels(hot_pixels)


def _as_dark_flux(dark_flux: ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Return the dark counts of each pixel, to be subtracted from a flux ``(H, W)`` or ``(H, W, C)``."""
    if np.ma.is_masked(dark_flux):
        raise InputError("dark_flux is masked. Pass it without its mask, and the mask as hot_pixels.")
    dark: Floats = np.asarray(dark_flux, np.float64)
    if dark.ndim and dark.shape not in (shape, shape[:2]):
        raise InputError(
            f"dark_flux has shape {dark.shape}, but the planes are {shape[0]} x {shape[1]} (H x W). Pass one number, "
            "or one for each pixel."
        )
    if not np.all(np.isfinite(dark) & (dark >= 0)):
        raise InputError(
            f"dark_flux has values from {dark.min():g} to {dark.max():g}; dark counts are finite and not negative. "
            "Correct them."
        )
    return dark[..., None] if dark.ndim == 2 and len(shape) == 3 else dark


def flux_from_bits(ones: ArrayLike, planes: int) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the flux in photons per plane, and which pixels are saturated.

    Parameters
    ----------
    ones
        How often the bit of each pixel is set. The flux is NaN where they are masked.
    planes
        The number of planes.

    Examples
    --------
    >>> flux, saturated = flux_from_bits([0, 50, 100], 100)
    >>> [round(float(value), 3) for value in flux], saturated.tolist()
    ([0.0, 0.693, 5.298], [False, False, True])
    """
    counts = np.asarray(masked_to_nan(ones), np.float64)
    if planes < 1 or np.any((counts < 0) | (counts > planes)):
        raise InputError(f"A pixel of {planes} planes must have 0 to {planes} bits set. Check the number of planes.")
    saturated = counts >= planes
    flux: Floats = -np.log1p(-np.where(saturated, planes - 0.5, counts) / planes) + 0.0  # no minus zero
    return flux, saturated


def flux_variance(flux: ArrayLike, planes: int) -> Floats:
    """Return the variance, to first order, of a flux measured in this many planes."""
    variance: Floats = np.expm1(np.asarray(masked_to_nan(flux), np.float64)) / planes
    return variance


def count_bits(
    source: Any,
    *,
    width: int | None = None,
    height: int | None = None,
    first: int = 0,
    planes: int | None = None,
    bit_order: str | None = None,
) -> tuple[NDArray[np.int64], int]:
    """Return how often the bit of each pixel is set, and the number of planes. See :func:`read_bit_planes`."""
    order = check_bit_order(bit_order)
    stack, title = load_planes(source, width, height)
    is_packed = stack.dtype == np.uint8
    stored = stack.shape[2] * (8 if is_packed else 1)
    pixels = stored if width is None else width
    if not 0 < pixels <= stored or (is_packed and stored - pixels >= 8):
        raise InputError(f"{title} stores rows of {stored} pixels, which does not fit a width of {pixels}.")
    if first < 0 or (planes is not None and planes < 1):
        raise SettingsError(f"first must be 0 or more and planes 1 or more, not {first} and {planes}.")
    stop = stack.shape[0] if planes is None else first + planes
    if stop > stack.shape[0] or first >= stop:
        raise InputError(f"{title} has {stack.shape[0]} planes, so planes {first} to {stop - 1} cannot be read.")
    shape = stack.shape[1], pixels, *stack.shape[3:]
    check_memory(title, f"planes of {' x '.join(map(str, shape))}", 8 * math.prod(shape))
    ones = np.zeros(shape, np.int64)
    for start in range(first, stop, _PLANES_AT_ONCE):
        block = read_part(stack, start, min(start + _PLANES_AT_ONCE, stop))
        if is_packed and start == first:
            _refuse_unpacked(block, title)
        bits = np.unpackbits(block, axis=2, count=pixels, bitorder=order) if is_packed else block[:, :, :pixels]
        ones += bits.sum(axis=0, dtype=np.int64)
    return ones, stop - first


def _refuse_unpacked(planes: NDArray[np.uint8], title: str) -> None:
    """Raise :class:`InputError` if no byte has more than its lowest bit set: each is a pixel, not eight of them."""
    lit = np.count_nonzero(planes.any(axis=0))  # places; a hot pixel alone could be the lowest bit of its byte
    if lit >= _LEAST_LIT and planes.max() == 1:
        raise InputError(
            f"{title} has a byte of 0 or 1 for each pixel, but uint8 is read as eight pixels to a byte. Pass "
            "planes.astype(bool), or pack them with numpy.packbits(planes, axis=2)."
        )


def check_bit_order(bit_order: str | None) -> Literal["big", "little"]:
    """Return a bit order, the usual one for ``None``; raise :class:`SettingsError` if there is no such order."""
    if bit_order is None or bit_order == "big":
        return "big"
    if bit_order == "little":
        return "little"
    raise SettingsError(f"bit_order must be 'big' or 'little', not {bit_order!r}.")


def load_planes(source: Any, width: int | None, height: int | None) -> tuple[NDArray[Any], str]:
    """Return the planes, packed or bool, and how to call them in error messages."""
    if isinstance(source, str | os.PathLike) and Path(source).suffix.lower() == ".bin":
        title = f"The file {os.fspath(source)!r}"
        if not (width and height and width > 0 and height > 0):
            raise SettingsError(f"{title} does not store its shape. Pass its width and height.")
        size, plane = plain_file_size(source), height * -(-width // 8)
        if size == 0 or size % plane:
            raise InputError(
                f"{title} has {size} bytes, which is not a multiple of {plane}, the bytes of a plane of {width} x "
                f"{height} px. Check width and height, or whether the file is complete."
            )
        stack: NDArray[Any] = np.memmap(source, np.uint8, "r", shape=(size // plane, height, plane // height))
    else:
        stack, title = load_array(source, "bit planes")
    is_stack = stack.ndim == 3 or (stack.ndim == 4 and stack.shape[3] in (1, 3))
    if stack.dtype not in (np.uint8, np.bool_) or not is_stack or stack.size == 0:
        raise InputError(
            f"{title} is {stack.dtype} of shape {stack.shape}. It must be uint8 (planes, H, W / 8), as "
            "numpy.packbits(planes, axis=2) makes it, or bool (planes, H, W)."
        )
    if height is not None and stack.shape[1] != height:
        raise InputError(f"{title} has planes of height {stack.shape[1]}, not {height}.")
    return stack, title
