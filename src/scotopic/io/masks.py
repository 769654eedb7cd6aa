"""Masks of images: what is masked is unknown, whatever number lies under the mask."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError

Mask = NDArray[np.bool_]

# One over what is left of noise when its blur is subtracted: the norm of a unit impulse minus a Gaussian of 1 px.
_WHOLE_NOISE = (1 - 1 / np.pi + 1 / (4 * np.pi)) ** -0.5


def masked_to_nan(values: Any) -> Any:
    """Return a masked array as floats with NaN where it is masked, and anything else as it is."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    kind = values.dtype if values.dtype.kind == "f" else np.float64
    return np.where(np.ma.getmaskarray(values), np.nan, np.ma.getdata(values)).astype(kind)


def unmasked(values: Any, name: str) -> NDArray[Any]:
    """Return an array to be stored as it is: NaN where floats are masked; raise if other numbers are."""
    if np.ma.is_masked(values) and values.dtype.kind != "f":
        raise InputError(f"{name!r} is masked, which numbers of type {values.dtype} cannot say. Fill it in first.")
    return np.asarray(masked_to_nan(values) if np.ma.is_masked(values) else values)


def pixel_mask(source: Any) -> Mask | None:
    """Return which pixels of an image are masked in any channel, ``H x W``; ``None`` if it has no mask.

    A masked array has one, and so may an image that says which by an attribute `mask`: a recording of a sensor. It is
    always a copy, as the pixels are: a source may use the array again for its next image.

    Raises :class:`InputError` if such an attribute is no mask of the image's size.
    """
    if isinstance(source, np.ma.MaskedArray):
        given: Any = np.ma.getmaskarray(source)
    elif hasattr(source, "__array__"):
        given = getattr(source, "mask", None)
        if given is None or given is np.ma.nomask or callable(given):  # DataFrame.mask is a method
            return None
    else:
        return None
    mask, shape = np.asarray(given), np.shape(source)
    if mask.dtype.kind not in "buif" or mask.shape not in (shape, shape[:2], (*shape[:2], 1)):
        raise InputError(
            f"An image of shape {shape} has a mask of shape {mask.shape} and type {mask.dtype}. Give one of bool, "
            "H x W, true where a pixel is masked."
        )
    marked = mask != 0
    flat: Mask = np.asarray(marked.any(axis=2)) if marked.ndim == 3 else marked
    return flat if flat.any() else None


def with_mask(image: NDArray[Any], mask: Mask | None) -> Any:
    """Return an image, ``H x W x C``, as a masked array with this mask of pixels; as it is if there is none."""
    # Repeated, since more can be masked in it, which a mask that is only broadcast does not allow.
    return image if mask is None else np.ma.masked_array(image, np.repeat(mask[..., None], image.shape[2], axis=2))


def keep_mask(values: NDArray[Any], source: Any) -> Any:
    """Return values with the mask of the array that they were computed from, if it has one."""
    return np.ma.masked_array(values, source.mask) if isinstance(source, np.ma.MaskedArray) else values


def fill_masked(pixels: NDArray[Any], mask: Mask) -> NDArray[Any]:
    """Return pixels, ``H x W`` or ``H x W x C``, with a mean of the nearest known ones where they are masked.

    So no edge appears that the scene does not have. In holes wider than a few pixels the noise of known pixels is
    added, without which the image would seem to have less of it than it has. Zeros if all are masked.
    """
    import cv2

    height, width = mask.shape
    planes = np.where(mask[..., None], 0, pixels.reshape(height, width, -1)).astype(np.float64)
    missing = mask.copy()
    # Of the known pixels near a place: how many there are, and their sum. Each turn looks twice as far, at half the
    # size, so that large holes take no longer than small ones; at a single pixel all that are known are near.
    sums, filled, inside = np.dstack([~mask, planes]), planes.copy(), None
    while missing.any() and not mask.all():
        blurred = cv2.GaussianBlur(sums, (0, 0), 1.0, borderType=cv2.BORDER_CONSTANT)
        if blurred.shape[:2] != (height, width):
            blurred = cv2.resize(blurred, (width, height), interpolation=cv2.INTER_LINEAR)
        found = missing & (blurred[..., 0] > 1e-3)
        filled[found] = blurred[found, 1:] / blurred[found, :1]
        missing &= ~found
        if inside is None:
            inside, near = missing.copy(), np.asarray(blurred, np.float64)
        half = tuple(-(-side // 2) for side in sums.shape[1::-1])
        sums = 4 * cv2.resize(sums, half, interpolation=cv2.INTER_AREA).reshape(*half[::-1], -1)
    if inside is not None and inside.any():
        noise = planes[~mask] - near[~mask, 1:] / near[~mask, :1]
        filled[inside] += _like_noise(noise, near[~mask, 1] / near[~mask, 0], filled[inside, 0])
    values = filled.reshape(pixels.shape)
    if pixels.dtype.kind == "b":
        return values > 0.5
    if pixels.dtype.kind == "f":
        return values.astype(pixels.dtype)
    return np.clip(np.rint(values), 0, np.iinfo(pixels.dtype).max).astype(pixels.dtype)


def _like_noise(noise: NDArray[np.float64], levels: NDArray[np.float64], wanted: NDArray[np.float64]) -> Any:
    """Return noise, ``N x C``, for pixels of `wanted` brightness, taken from known pixels of about that brightness."""
    order = np.argsort(levels, kind="stable")
    place = np.searchsorted(levels[order], wanted)
    # One of the nearest twentieth by brightness; the same every time.
    reach = max(len(order) // 40, 1)
    place += np.random.default_rng(0).integers(-reach, reach + 1, place.shape)
    return _WHOLE_NOISE * noise[order[np.clip(place, 0, len(order) - 1)]]
