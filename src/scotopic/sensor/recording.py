"""Recordings: images with what is known about how they were recorded, and the readers that return them."""

import functools
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError, SettingsError
from scotopic.io import as_image, read_image
from scotopic.io.images import RAW_SUFFIXES, count_pages
from scotopic.io.masks import Mask
from scotopic.levels import given_levels
from scotopic.sensor.hot_pixels import fill_hot_pixels, read_hot_pixels
from scotopic.sensor.model import Sensor
from scotopic.sensor.response import Response, linearize

KINDS = ("auto", "image", "raw", "counts", "bit-planes")

_Reader = TypeVar("_Reader", bound=Callable[..., "Recording"])


@dataclass(frozen=True, eq=False)
class Recording:
    """An image as recorded, and how. :func:`scotopic.match` takes it wherever it takes an array.

    Attributes
    ----------
    image
        float32 ``H x W x C``.
    sensor
        The noise model of the camera, if it is known.
    assumed
        What the reader assumed, in words and numbers, for ``report.json``.
    mask
        ``H x W``, true for pixels that get no disparity, because nothing is known of the scene there; often ``None``.
    """

    image: NDArray[np.float32]
    sensor: Sensor | None = None
    assumed: dict[str, Any] = field(default_factory=dict)
    mask: Mask | None = None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the image: NumPy and :func:`scotopic.match` accept a recording as an array."""
        wanted = self.image if dtype is None else self.image.astype(dtype, copy=False)
        return wanted.copy() if copy else wanted

    def without_hot_pixels(self, source: Any) -> Self:
        """Return the recording with hot pixels interpolated; the inside of large clusters goes to its `mask`.

        Parameters
        ----------
        source
            Which pixels are hot: an array ``H x W``, not 0 where they are, or its file (``.npy``, PNG, ...). ``None``
            changes nothing.

        Raises
        ------
        InputError
            The file cannot be read, or is not a mask of this size.
        """
        if source is None:
            return self
        height, width = self.image.shape[:2]
        hot = read_hot_pixels(source, (height, width))
        image, far = fill_hot_pixels(self.image, hot)
        if self.mask is not None:
            far = self.mask if far is None else self.mask | far
        masked = 0.0 if far is None else float(far.mean())
        assumed = {"hot_percent": 100 * float(hot.mean()), "masked_percent": 100 * masked}
        return replace(self, image=image, assumed={**self.assumed, **assumed}, mask=far)

    def report(self) -> dict[str, Any]:
        """Return what ``report.json`` should say about this view."""
        return {**self.assumed, "sensor": None if self.sensor is None else self.sensor.as_dict()}


def rename_colour(reader: _Reader) -> _Reader:
    """Let a reader accept `colour`, the old name of its parameter `color`."""

    @functools.wraps(reader)
    def renamed(*args: Any, **keywords: Any) -> Recording:
        if "colour" in keywords:
            warnings.warn("The parameter 'colour' is now called 'color'.", DeprecationWarning, stacklevel=2)
            keywords["color"] = keywords.pop("colour")
        return reader(*args, **keywords)

    return renamed  # type: ignore[return-value]


def read_picture(
    path: str | os.PathLike[str],
    *,
    response: Response | None = None,
    black: float | None = None,
    white: float | None = None,
    bits: int | None = None,
) -> Recording:
    """Read a PNG, TIFF, JPEG, PGM/PPM or PFM file: values as recorded, divided by the format's full scale.

    With a `response` (``"srgb"`` or a gamma) they are linearized; by default they stay as recorded, as in the paper.
    ``assumed`` names the full scale and the response, and `pages` if there are several, of which the first is read.

    With `black` and `white`, the stored values that become 0 and 1, or `bits`, those of which the camera uses the
    lowest, values are scaled to these levels first, and those above white are clipped.
    """
    pixels = read_image(path)
    image = as_image(pixels, "", title=repr(os.fspath(path)))
    scale = {"u1": "255", "u2": "65535"}.get(pixels.dtype.str[1:], "1 (floats)")
    assumed: dict[str, Any] = {
        "file": os.fspath(path),
        "kind": "image",
        "values": f"as recorded, over the full scale of {scale}",
        "linearized": None if response in (None, "linear") else f"from {response}",
    }
    if (pages := count_pages(path)) > 1:
        assumed["pages"] = f"the first of {pages}"
    levels = given_levels(black, white, bits, pixels.dtype)
    if levels is not None:
        assumed["values"] = f"as recorded, over the levels given, of the full scale of {scale}"
        assumed["levels"] = levels.as_dict()
        assumed["above_white_percent"] = 100 * float((levels.apply(image) > 1).mean())
        image = levels.apply_clipped(image)
    if response is not None:
        image = linearize(image, response).astype(np.float32)
    return Recording(image, None, assumed)


@rename_colour
def read_recording(
    path: str | os.PathLike[str],
    kind: str = "auto",
    *,
    response: Response | None = None,
    color: str = "binned",
    black: float | None = None,
    white: float | None = None,
    bits: int | None = None,
    width: int | None = None,
    height: int | None = None,
    bit_order: str | None = None,
    hot_pixels: Any = None,
) -> Recording:
    """Read one view from any kind of file that a camera writes.

    Parameters
    ----------
    path
        An image, a raw file, or an ``.npy`` file of photon counts or packed bit planes.
    kind
        ``"image"``, ``"raw"``, ``"counts"``, ``"bit-planes"``, or ``"auto"``: by the file's name. The kind of an array
        is never guessed, because counts and packed bits look alike.
    response
        Linearize an image: see :func:`read_picture`.
    color
        For raw files: see :func:`~scotopic.sensor.raw.read_raw`.
    black, bits
        For images: the stored value that becomes 0, and how many bits the camera uses; see :func:`read_picture`.
    white
        What becomes 1.0: counts per frame, photons per bit plane, or the stored value of an image. Use the same for
        both views of a pair.
    width, height
        Of bit planes: the width if it is not a multiple of 8, and both for ``.bin`` files.
    bit_order
        Of bit planes: ``"big"``, the default, or ``"little"``; see :func:`~scotopic.sensor.read_bit_planes`.
    hot_pixels
        Which pixels of the camera are hot, as :meth:`Recording.without_hot_pixels` takes them; for files of any kind.

    Raises
    ------
    InputError, SettingsError
        The file cannot be read, or its `kind` or `white` is missing.
    """
    from scotopic.sensor.counts import read_counts
    from scotopic.sensor.raw import COLORS, read_raw
    from scotopic.sensor.spad import read_bit_planes

    shown, suffix = repr(os.fspath(path)), Path(path).suffix.lower()
    if kind not in KINDS:
        raise SettingsError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}.")
    if kind == "auto":
        if suffix in (".npy", ".bin"):
            raise ask_for_kind(shown)
        kind = "raw" if suffix in RAW_SUFFIXES else "image"
    if color not in COLORS:
        raise SettingsError(f"color must be one of {', '.join(COLORS)}, not {color!r}.")
    if response not in (None, "linear") and kind != "image":
        raise SettingsError(f"{shown} is read as {kind}, which is linear already. Leave response (--linearize) out.")
    given = {"black": black, "bits": bits, **({"white": white} if kind == "raw" else {})}
    unused = [name for name, value in given.items() if value is not None]
    if unused and kind != "image":
        raise SettingsError(
            f"{unused[0]} is for images; {shown} is read as {kind}"
            f"{', and raw files bring their own levels' if kind == 'raw' else ''}. Leave it out."
        )
    of_planes: dict[str, Any] = {"width": width, "height": height, "bit_order": bit_order}
    refuse_plane_options(shown, kind, of_planes)
    if kind == "raw":
        return read_raw(path, color).without_hot_pixels(hot_pixels)
    if kind == "bit-planes":
        return read_bit_planes(path, white=white, hot_pixels=hot_pixels, **of_planes)
    if kind == "counts":
        return read_counts(path, need_white(shown, white), hot_pixels=hot_pixels)
    picture = read_picture(path, response=response, black=black, white=white, bits=bits)
    return picture.without_hot_pixels(hot_pixels)


def ask_for_kind(shown: str) -> InputError:
    """Return the error for an array of which it is not said what it holds."""
    return InputError(
        f"{shown} is an array, and its name does not tell what it holds. Pass kind='counts' for photons per pixel, or "
        "kind='bit-planes' for the packed bits of a SPAD."
    )


def refuse_plane_options(shown: str, kind: str, options: Mapping[str, object]) -> None:
    """Raise :class:`SettingsError` if what only bit planes have is given for a file that is not read as such."""
    for name, value in options.items():
        if value is not None and kind != "bit-planes":
            raise SettingsError(f"{name} is for bit planes; {shown} is read as {kind}. Leave it out.")


def need_white(shown: str, white: float | None) -> float:
    """Return the `white` of photon counts; raise :class:`SettingsError` if it is not given."""
    if white is None:
        raise SettingsError(
            f"Reading the photon counts {shown} needs white, the count per frame that becomes 1.0. Use the same for "
            "both views; scotopic.sensor.common_white finds one."
        )
    return white
