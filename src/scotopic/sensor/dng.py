"""The noise profile that a DNG file carries, and its black and white levels.

DNG's tag NoiseProfile gives, for values scaled so that black is 0 and white is 1, the pairs (S, O) of
``variance = S * x + O``: one pair for all channels or one for each. So photons at white are ``1 / S``, and the read
noise is ``sqrt(O) / S`` of them.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError, SettingsError
from scotopic.optional import import_optional
from scotopic.sensor.model import Sensor

_NOISE_PROFILE, _BLACK_LEVEL, _WHITE_LEVEL = 51041, 50714, 50717
_CFA, _LINEAR_RAW = 32803, 34892  # photometric interpretations of what is raw
_RATIONALS = (5, 10)  # TIFF's types of unsigned and signed fractions


@dataclass(frozen=True)
class DngNoise:
    """What a DNG file says about its noise.

    Attributes
    ----------
    profile
        ``(S, O)`` of each channel, or one for all.
    black_level, white_level
        In the file's numbers; black is the mean of its channels.
    """

    profile: tuple[tuple[float, float], ...]
    black_level: float
    white_level: float


def read_dng_noise(path: str | os.PathLike[str]) -> DngNoise | None:
    """Return the noise profile of a DNG file; None where it has none.

    Raises
    ------
    InputError
        The file is not a TIFF, or its tags make no sense.
    """
    shown = repr(os.fspath(path))
    tags = _tags(path)
    numbers = tags.get(_NOISE_PROFILE)
    if numbers is None:
        return None
    pairs = tuple((float(s), float(o)) for s, o in zip(numbers[::2], numbers[1::2], strict=False))
    if numbers.size % 2 or not pairs or not all(s > 0 and o >= 0 and math.isfinite(s + o) for s, o in pairs):
        raise InputError(
            f"{shown}: found the noise profile {numbers.tolist()}, expected pairs (S, O) with S above 0 and O from 0 "
            "on; measure the camera with flat fields instead"
        )
    white = float(tags.get(_WHITE_LEVEL, np.array([65535.0])).max())
    black = float(tags.get(_BLACK_LEVEL, np.array([0.0])).mean())
    if not 0 <= black < white:
        raise InputError(f"{shown}: found black level {black} and white level {white}, expected 0 <= black < white")
    return DngNoise(pairs, black, white)


def sensor_of_dng(path: str | os.PathLike[str], channel: int | None = None) -> Sensor:
    """Return the sensor that a DNG file describes, for values as :func:`~scotopic.sensor.raw.read_raw` gives them.

    Parameters
    ----------
    path
        The file.
    channel
        Which channel's noise; by default the mean of all, as they differ little.

    Raises
    ------
    InputError
        The file has no noise profile.
    SettingsError
        There is no such channel.
    """
    noise = read_dng_noise(path)
    if noise is None:
        raise InputError(
            f"{os.fspath(path)!r}: found no noise profile, expected the DNG tag NoiseProfile; use "
            "Sensor.from_flat_fields or Sensor.estimate"
        )
    profile = np.array(noise.profile)
    if channel is not None and not 0 <= channel < len(profile):
        raise SettingsError(f"channel: found {channel}, expected 0 to {len(profile) - 1}; leave it out for the mean")
    slope, offset = profile.mean(axis=0) if channel is None else profile[channel]
    levels = noise.white_level - noise.black_level
    return Sensor(
        photons=1 / float(slope),
        read_noise=math.sqrt(float(offset)) / float(slope),
        floor=-noise.black_level / levels,  # black is subtracted, and noise below it is kept
        steps=levels,
        source="the DNG file's noise profile",
    )


def _tags(path: str | os.PathLike[str]) -> dict[int, NDArray[np.float64]]:
    """Return the three tags, those of the raw image before those of the file as a whole."""
    tifffile = import_optional("tifffile", "raw", f"reading {os.fspath(path)!r}")
    found: dict[int, NDArray[np.float64]] = {}
    try:
        with tifffile.TiffFile(os.fspath(path)) as file:
            pages = list(file.pages)
            pages += [sub for page in pages for sub in (page.pages or [])]
            for page in sorted(pages, key=lambda page: page.photometric not in (_CFA, _LINEAR_RAW)):
                for code in (_NOISE_PROFILE, _BLACK_LEVEL, _WHITE_LEVEL):
                    if code not in found and code in page.tags:
                        found[code] = _numbers(page.tags[code])
    except OSError as error:
        raise InputError(
            f"{os.fspath(path)!r}: reading stopped with {error.strerror or error}, expected a readable DNG file; check "
            "the path"
        ) from error
    except Exception as error:  # tifffile lets through whatever a broken file makes of its parsing
        raise InputError(
            f"{os.fspath(path)!r}: found no TIFF structure ({error!s:.100}), expected a DNG file; fetch it again"
        ) from error
    return found


def _numbers(tag: Any) -> NDArray[np.float64]:
    """Return a tag's numbers; rationals come flat: numerator, denominator, numerator, ..."""
    values = np.atleast_1d(np.asarray(tag.value, np.float64))
    if tag.dtype in _RATIONALS:
        return values[::2] / np.where(values[1::2] == 0, np.nan, values[1::2])
    return values
