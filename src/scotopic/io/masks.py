"""Masks of images: what is masked is unknown, whatever number lies under the mask."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]


def masked_to_nan(values: Any) -> Any:
    """Return a masked array as floats with NaN where it is masked, and anything else as it is."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    kind = values.dtype if values.dtype.kind == "f" else np.float64
    return np.where(np.ma.getmaskarray(values), np.nan, np.ma.getdata(values)).astype(kind)


def pixel_mask(source: Any) -> Mask | None:
    """Return which pixels of an image are masked in any channel, ``H x W``; ``None`` if it has no mask.

    A masked array has one, and so may an image that says which by an attribute `mask`: a recording of a sensor.
    """
    mask: Mask
    if isinstance(source, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(source)
    elif hasattr(source, "__array__") and isinstance(getattr(source, "mask", None), np.ndarray):
        mask = source.mask
    else:
        return None
    flat: Mask = np.asarray(mask.any(axis=2)) if mask.ndim == 3 else mask
    return flat if flat.any() else None


def with_mask(image: NDArray[Any], mask: Mask | None) -> Any:
    """Return an image, ``H x W x C``, as a masked array with this mask of pixels; as it is if there is none."""
    return image if mask is None else np.ma.masked_array(image, np.broadcast_to(mask[..., None], image.shape))


def fill_masked(pixels: NDArray[Any], mask: Mask) -> NDArray[Any]:
    """Return pixels, ``H x W`` or ``H x W x C``, with a mean of the nearest known ones where they are masked.

    So no edge appears that the scene does not have. Zeros if all are masked.
    """
    import cv2

    height, width = mask.shape
    planes = pixels.reshape(height, width, -1).astype(np.float64)
    missing = mask.copy()
    known = (~mask).astype(np.float64)
    planes[mask] = 0
    filled, sigma = planes.copy(), 1.0
    while missing.any() and known.any():
        weight = cv2.GaussianBlur(known, (0, 0), sigma, borderType=cv2.BORDER_CONSTANT)
        found = missing & (weight > 1e-3)
        for channel in range(planes.shape[2]):
            total = cv2.GaussianBlur(planes[..., channel], (0, 0), sigma, borderType=cv2.BORDER_CONSTANT)
            filled[found, channel] = total[found] / weight[found]
        missing &= ~found
        sigma *= 2
    values = filled.reshape(pixels.shape)
    if pixels.dtype.kind == "b":
        return values > 0.5
    return (values if pixels.dtype.kind == "f" else np.rint(values)).astype(pixels.dtype)
