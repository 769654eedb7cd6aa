"""Raw files of cameras (DNG and whatever else LibRaw reads), as light above black: no gamma, no white balance."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError, SettingsError
from scotopic.io.pfm import plain_file_size
from scotopic.optional import import_optional
from scotopic.sensor.dng import read_dng_noise, sensor_of_dng
from scotopic.sensor.model import Sensor
from scotopic.sensor.recording import Recording

#: What becomes of the color mosaic.
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


def read_raw(path: str | os.PathLike[str], color: str = "binned") -> Recording:
    """Read a raw file as linear light: ``(number - black level) / (white level - black level)``.

    Parameters
    ----------
    path
        DNG, CR2, NEF, ARW, ...
    color
        ``"binned"``, ``"demosaiced"`` or ``"mosaic"``: see :data:`COLORS`. In the dark the first is the best: it
        invents nothing, and its pixels' noise is independent. Noise below black is kept, but for ``"demosaiced"``,
        where LibRaw cuts it off.

    Returns
    -------
    Recording
        With the sensor of the file's own noise profile, if it is a DNG file that has one; ``assumed["noise"]`` says how
        the image's noise differs from it.

    Raises
    ------
    InputError
        The file is no raw file that LibRaw reads, or has a mosaic that cannot be binned.
    ScotopicError
        rawpy is not installed.
    """
    if color not in COLORS:
        raise SettingsError(f"color: found {color!r}, expected one of {', '.join(COLORS)}; choose one of these")
    shown = repr(os.fspath(path))
    rawpy = import_optional("rawpy", "raw", f"reading {shown}")
    plain_file_size(path)
    try:
        with rawpy.imread(os.fspath(path)) as raw:
            black = np.asarray(raw.black_level_per_channel, np.float64)
            white = float(raw.white_level)
            if color == "demosaiced":
                image = _demosaiced(raw, rawpy)
            else:
                mosaic = _above_black(raw, black, white, shown)
                image = mosaic[..., None] if color == "mosaic" else _binned(mosaic, raw, shown)
    except rawpy.LibRawError as error:
        reason = error.args[0].decode() if error.args and isinstance(error.args[0], bytes) else str(error)
        raise InputError(
            f"{shown}: LibRaw found {reason or type(error).__name__}, expected a camera's raw file; convert it to "
            "DNG or fetch it again"
        ) from error
    assumed = {
        "file": os.fspath(path),
        "kind": "raw",
        "values": f"linear, black level {black.mean():g} subtracted, over white level {white:g}; no white balance",
        "linearized": None,
        "color": f"{color}: {COLORS[color]}",
        "noise": _NOISE[color],
    }
    return Recording(np.ascontiguousarray(image, np.float32), _sensor(path), assumed)


def _demosaiced(raw: Any, rawpy: Any) -> NDArray[np.float64]:
    pixels = raw.postprocess(
        gamma=(1, 1),
        output_bps=16,
        output_color=rawpy.ColorSpace.raw,
        user_wb=[1.0, 1.0, 1.0, 1.0],
        user_flip=0,
        no_auto_bright=True,
        adjust_maximum_thr=0.0,  # LibRaw would else stretch each picture by its own brightest pixels
    )
    scaled: NDArray[np.float64] = pixels / 65535.0
    return scaled


def _above_black(raw: Any, black: NDArray[np.float64], white: float, shown: str) -> NDArray[np.float64]:
    pixels = raw.raw_image_visible
    if pixels.ndim != 2:
        raise InputError(
            f"{shown}: found {pixels.shape[2]} values per pixel, expected one under a color filter; use "
            "color='demosaiced'"
        )
    filters = raw.raw_colors_visible
    if filters.max() >= black.size or not np.all(black < white):
        raise InputError(
            f"{shown}: found black {black.tolist()}, white {white:g} and {filters.max() + 1} colors, expected black "
            "below white and up to four colors; fetch the file again or convert it to DNG"
        )
    offsets = black[filters]
    light: NDArray[np.float64] = (pixels - offsets) / (white - offsets)
    return light


def _binned(mosaic: NDArray[np.float64], raw: Any, shown: str) -> NDArray[np.float64]:
    """Return one RGB pixel for each 2 x 2 cell."""
    pattern = np.asarray(raw.raw_colors_visible[:2, :2])
    names = [raw.color_desc.decode()[index] for index in pattern.ravel()]
    repeats = raw.raw_pattern is not None and raw.raw_pattern.shape == (2, 2)
    if not repeats or sorted(names) != ["B", "G", "G", "R"]:
        raise InputError(
            f"{shown}: found a color mosaic that is not of Bayer's 2 x 2 cells, expected red, two greens and blue; "
            "use color='demosaiced'"
        )
    height, width = (size // 2 * 2 for size in mosaic.shape)
    cells = [mosaic[row:height:2, column:width:2] for row in (0, 1) for column in (0, 1)]
    under = {color: [cell for cell, name in zip(cells, names, strict=True) if name == color] for color in "RGB"}
    return np.stack([np.mean(under[color], axis=0) for color in "RGB"], axis=2)


def _sensor(path: str | os.PathLike[str]) -> Sensor | None:
    """Return the sensor of a DNG file's noise profile, or None: other raw files have none."""
    if not os.fspath(path).lower().endswith(".dng") or read_dng_noise(path) is None:
        return None
    return sensor_of_dng(path)
