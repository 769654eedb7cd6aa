"""Camera raw files (DNG and whatever else LibRaw reads) as linear light above black: no gamma, no white balance.

The DNG tag NoiseProfile holds pairs (S, O) of ``variance = S * x + O``, for values scaled to black 0 and white 1: one
pair for all channels or one for each. So there are ``1 / S`` photons at white, and the read noise is ``sqrt(O) / S``
photons.
"""

import math
import os
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError, PairWarning, SettingsError
from scotopic.io.images import TURNED
from scotopic.io.input_file import check_memory, open_input, plain_file_size, reading
from scotopic.io.tiff import open_tiff
from scotopic.optional import import_optional
from scotopic.sensor.model import Sensor
from scotopic.sensor.recording import Recording, rename_colour

#: Ways to treat the color mosaic.
COLORS = {
    "binned": "each 2 x 2 cell of the mosaic is one RGB pixel, its two greens averaged; half the size",
    "demosaiced": "missing colors interpolated (LibRaw); full size; noise is correlated between neighbors",
    "mosaic": "one gray channel of full size, as the pixels under their filters recorded it",
}
_NOISE = {
    "binned": "that of the sensor; green, the mean of two pixels, has half the variance",
    "demosaiced": "weaker than that of the sensor, correlated between neighbors, and cut off at black",
    "mosaic": "that of the sensor",
}
_NOISE_PROFILE, _BLACK_LEVEL, _WHITE_LEVEL = 51041, 50714, 50717
_CFA, _LINEAR_RAW = 32803, 34892  # photometric interpretations of raw images
_RATIONALS = (5, 10)  # TIFF types: unsigned and signed fractions


@rename_colour
def read_raw(path: str | os.PathLike[str], color: str = "binned") -> Recording:
    """Read a raw file as linear light: ``(number - black level) / (white level - black level)``.

    Parameters
    ----------
    path
        DNG, CR2, NEF, ARW, ...
    color
        ``"binned"``, ``"demosaiced"`` or ``"mosaic"``: see :data:`COLORS`. In the dark ``"binned"`` is best: nothing
        is interpolated, and the noise of its pixels is independent. Noise below black is kept, except by
        ``"demosaiced"``, for which LibRaw cuts it off.

    Returns
    -------
    Recording
        Its sensor is that of the noise profile, if the file is a DNG that has one. ``assumed["noise"]`` says how the
        noise of the image differs from it.

    Raises
    ------
    InputError
        LibRaw cannot read the file, or its mosaic cannot be binned.
    ScotopicError
        rawpy is not installed.
    """
    if color not in COLORS:
        raise SettingsError(f"color must be one of {', '.join(COLORS)}, not {color!r}.")
    shown = repr(os.fspath(path))
    rawpy = import_optional("rawpy", "raw", f"reading the raw file {shown}")
    plain_file_size(path, "a raw file")
    advice = "Check that it is a complete raw file, or convert it to DNG."
    try:
        with reading(path, "a raw file", advice), rawpy.imread(os.fspath(path)) as raw:
            sides = raw.sizes
            size = f"{sides.raw_width} x {sides.raw_height} px"
            # The mosaic as float64, and three colors of it.
            check_memory(shown, size, 32 * sides.raw_width * sides.raw_height)
            if sides.flip:
                warnings.warn(TURNED, PairWarning, stacklevel=3)
            black, white = _levels(raw, shown)
            if color == "demosaiced":
                pixels = raw.postprocess(
                    gamma=(1, 1),
                    output_bps=16,
                    output_color=rawpy.ColorSpace.raw,
                    user_wb=[1.0, 1.0, 1.0, 1.0],
                    user_flip=0,
                    no_auto_bright=True,
                    adjust_maximum_thr=0.0,  # otherwise LibRaw stretches each image by its own brightest pixels
                )
                image = pixels / 65535.0
            else:
                mosaic = _subtract_black(raw, black, white, shown)
                image = mosaic[..., None] if color == "mosaic" else _bin(mosaic, raw, shown)
    except InputError as error:
        cause = error.__cause__
        if not isinstance(cause, rawpy.LibRawError):
            raise
        reason = cause.args[0].decode() if cause.args and isinstance(cause.args[0], bytes) else str(cause)
        raise InputError(f"LibRaw cannot read {shown}: {reason or type(cause).__name__}. {advice}") from cause
    assumed = {
        "file": os.fspath(path),
        "kind": "raw",
        "values": f"linear, black level {black.mean():g} subtracted, over white level {white:g}; no white balance",
        "linearized": None,
        "color": f"{color}: {COLORS[color]}",
        "noise": _NOISE[color],
    }
    sensor = read_dng_sensor(path) if os.fspath(path).lower().endswith(".dng") else None
    return Recording(np.ascontiguousarray(image, np.float32), sensor, assumed)


def _levels(raw: Any, shown: str) -> tuple[NDArray[np.float64], float]:
    """Return the black level of each color, and the white level."""
    black, white = np.asarray(raw.black_level_per_channel, np.float64), raw.white_level
    if white is None or not 0 < float(white) < math.inf or not np.isfinite(black).all():
        raise InputError(
            f"{shown} does not say which value is white, so its values have no scale. Convert it to DNG with the "
            "camera maker's or Adobe's converter."
        )
    return black, float(white)


def _subtract_black(raw: Any, black: NDArray[np.float64], white: float, shown: str) -> NDArray[np.float64]:
    """Return the mosaic as linear light, 0 at black and 1 at white."""
    pixels = raw.raw_image_visible
    if pixels.ndim != 2:
        raise InputError(f"{shown} has no color mosaic: {pixels.shape[2]} values per pixel. Use color='demosaiced'.")
    filters = raw.raw_colors_visible
    if filters.max() >= black.size or not np.all(black < white):
        raise InputError(
            f"The levels in {shown} make no sense: black {black.tolist()}, white {white:g}, {filters.max() + 1} "
            "colors. The file may be damaged; try to convert it to DNG."
        )
    offsets = black[filters]
    light: NDArray[np.float64] = (pixels - offsets) / (white - offsets)
    return light


def _bin(mosaic: NDArray[np.float64], raw: Any, shown: str) -> NDArray[np.float64]:
    """Return one RGB pixel for each 2 x 2 cell."""
    names = [raw.color_desc.decode()[index] for index in np.asarray(raw.raw_colors_visible[:2, :2]).ravel()]
    is_2x2 = raw.raw_pattern is not None and raw.raw_pattern.shape == (2, 2)
    if not is_2x2 or sorted(names) != ["B", "G", "G", "R"]:
        raise InputError(f"{shown} has no Bayer mosaic, so it cannot be binned. Use color='demosaiced'.")
    height, width = (size // 2 * 2 for size in mosaic.shape)
    cells = [mosaic[row:height:2, column:width:2] for row in (0, 1) for column in (0, 1)]
    by_color = {color: [cell for cell, name in zip(cells, names, strict=True) if name == color] for color in "RGB"}
    return np.stack([np.mean(by_color[color], axis=0) for color in "RGB"], axis=2)


def read_dng_sensor(path: str | os.PathLike[str], channel: int | None = None) -> Sensor | None:
    """Read the sensor that a DNG file describes, for values as :func:`read_raw` returns them; None without a profile.

    By default it has the mean noise of all channels, which differ little. Raises :class:`InputError` if the file is not
    a TIFF or its tags make no sense, and :class:`SettingsError` if there is no such channel.
    """
    shown = repr(os.fspath(path))
    tags = _read_tags(path)
    numbers = tags.get(_NOISE_PROFILE)
    if numbers is None:
        return None
    profile = numbers[: numbers.size // 2 * 2].reshape(-1, 2)
    is_profile = numbers.size > 0 and numbers.size % 2 == 0 and np.isfinite(numbers).all()
    if not is_profile or np.any(profile[:, 0] <= 0) or np.any(profile[:, 1] < 0):
        raise InputError(
            f"The noise profile of {shown} should hold pairs (S, O) with S > 0 and O >= 0, but it holds "
            f"{numbers.tolist()}. Measure the camera with flat fields instead."
        )
    white = float(tags.get(_WHITE_LEVEL, np.array([65535.0])).max())
    black = float(tags.get(_BLACK_LEVEL, np.array([0.0])).mean())
    if not 0 <= black < white:
        raise InputError(f"{shown} gives black level {black} and white level {white}; black must be below white.")
    if channel is not None and not 0 <= channel < len(profile):
        raise SettingsError(f"There is no channel {channel} in the noise profile of {shown}, which has {len(profile)}.")
    slope, offset = profile.mean(axis=0) if channel is None else profile[channel]
    return Sensor(
        photons=1 / float(slope),
        read_noise=math.sqrt(float(offset)) / float(slope),
        floor=-black / (white - black),  # black is subtracted, and noise below it is kept
        steps=white - black,
        source="the DNG file's noise profile",
    )


def _read_tags(path: str | os.PathLike[str]) -> dict[int, NDArray[np.float64]]:
    """Return the three tags. Those of the raw image take precedence over those of the whole file."""
    found: dict[int, NDArray[np.float64]] = {}
    kind = "a DNG file"
    with open_input(path, kind) as stream, reading(path, kind), open_tiff(stream) as file:
        pages: list[Any] = list(file.pages)
        pages += [sub for page in pages for sub in (page.pages or [])]
        for page in sorted(pages, key=lambda page: page.photometric not in (_CFA, _LINEAR_RAW)):
            for code in (_NOISE_PROFILE, _BLACK_LEVEL, _WHITE_LEVEL):
                if code not in found and code in page.tags:
                    numbers = np.atleast_1d(np.asarray(page.tags[code].value, np.float64))
                    if page.tags[code].dtype in _RATIONALS:  # numerator, denominator, numerator, ...
                        numbers = numbers[::2] / np.where(numbers[1::2] == 0, np.nan, numbers[1::2])
                    if numbers.size == 0:
                        raise ValueError(f"its tag {code} is empty")
                    found[code] = numbers
    return found
