"""The photon transfer curve: a camera's gain and read noise, measured on evenly lit frames.

Two frames of the same exposure differ by noise alone: dust, vignetting and the pixels' own gains are the same in both
and cancel. So half the variance of their difference is the noise, its mean the signal, and over several exposures
``variance = gain * (mean - black) + (gain * read_noise)^2 + step^2 / 12``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError
from scotopic.sensor.model import Sensor

Floats = NDArray[np.float64]

_CLIPPED_SHARE = 1e-3  # an exposure with more of its pixels at either end tells about the ends, not about the noise


@dataclass(frozen=True)
class PhotonTransfer:
    """A measured photon transfer curve; values are fractions of full scale.

    Attributes
    ----------
    mean, variance
        One of each per exposure (the dark frames first, if any were given).
    variance_error
        Standard error of each variance.
    used
        Which exposures the line went through: those that are not clipped.
    gain_error
        Standard error of the sensor's gain.
    sensor
        The result.
    """

    mean: Floats
    variance: Floats
    variance_error: Floats
    used: NDArray[np.bool_]
    gain_error: float
    sensor: Sensor


def photon_transfer(
    exposures: Sequence[Any], dark: Any = None, *, black: float | None = None, white: float | None = None
) -> PhotonTransfer:
    """Measure gain and read noise from evenly lit frames at several exposures.

    Parameters
    ----------
    exposures
        One stack ``(frames, H, W)`` or ``(frames, H, W, C)`` per exposure, two frames or more each, of the same scene
        (a white wall, out of focus), camera and gain setting. uint8, uint16, or floats as fractions of full scale.
        They should reach from dark to nearly white. One channel at a time measures that channel.
    dark
        Such a stack taken without light (bias frames): gives the black level, and the read noise its firmest point.
    black
        The black level as a fraction of full scale, where there are no dark frames; 0 by default.
    white
        The value of saturation; the largest value found in any frame by default.

    Returns
    -------
    PhotonTransfer
        The curve and the :class:`~scotopic.sensor.Sensor`.

    Raises
    ------
    InputError
        Fewer than two exposures that are not clipped, single frames, frames that differ in size, or a curve that does
        not rise.
    """
    stacks, step = _as_stacks(exposures, dark)
    top = max(float(stack.max()) for stack in stacks)
    saturation = top if white is None else white
    pedestal = float(stacks[0].mean()) if dark is not None else (black or 0.0)
    rows = [_point(stack, saturation, pedestal, lit=dark is None or number > 0) for number, stack in enumerate(stacks)]
    mean, variance, error, clipped = (np.array(column) for column in zip(*rows, strict=True))
    used = clipped <= _CLIPPED_SHARE
    if dark is not None:
        used[0] = True  # half of a dark frame may lie at 0 where the black level is 0; it is still the darkest we have
    if np.count_nonzero(used) < 2 or np.ptp(mean[used]) == 0:
        raise InputError(
            f"flat fields: found {np.count_nonzero(used)} of {len(stacks)} exposures with less than 0.1 % of their "
            "pixels clipped, expected two or more of different brightness; expose some shorter"
        )
    slope, intercept, slope_error = _line(mean[used] - pedestal, variance[used], error[used])
    if not slope > 0:
        raise InputError(
            f"flat fields: found a variance that does not rise with the signal (slope {slope:.3g}), expected shot "
            "noise; check that frames are raw or linear, not denoised, and that the exposures differ"
        )
    rounding = 0.0 if step is None else step**2 / 12
    read_variance = max(intercept - rounding, 0.0)
    return PhotonTransfer(
        mean=mean,
        variance=variance,
        variance_error=error,
        used=used,
        gain_error=slope_error,
        sensor=Sensor(
            photons=(saturation - pedestal) / slope,
            read_noise=math.sqrt(read_variance) / slope,
            black=pedestal,
            white=saturation,
            floor=min(0.0, pedestal),
            steps=None if step is None else 1 / step,
            source=f"photon transfer curve of {np.count_nonzero(used)} exposures",
        ),
    )


def _as_stacks(exposures: Sequence[Any], dark: Any) -> tuple[list[Floats], float | None]:
    """Return the stacks as fractions of full scale, the dark one first, and the step between values."""
    arrays = [np.asarray(stack) for stack in ([] if dark is None else [dark]) + list(exposures)]
    names = ([] if dark is None else ["dark frames"]) + [f"exposure {number}" for number in range(len(exposures))]
    scales = {"u1": 255.0, "u2": 65535.0}
    for array, name in zip(arrays, names, strict=True):
        if array.ndim not in (3, 4) or array.shape[0] < 2 or array[0].size < 2:
            raise InputError(
                f"{name}: found an array of shape {array.shape}, expected two frames or more, (frames, H, W) or "
                "(frames, H, W, C); take each exposure at least twice"
            )
        if array.shape[1:] != arrays[0].shape[1:] or array.dtype != arrays[0].dtype:
            raise InputError(
                f"{name}: found frames of shape {array.shape[1:]} and type {array.dtype}, expected "
                f"{arrays[0].shape[1:]} and {arrays[0].dtype} as in the {names[0]}; take all with one camera setting"
            )
        if (array.dtype.kind != "f" and array.dtype.str[1:] not in scales) or not np.isfinite(array).all():
            raise InputError(
                f"{name}: found values of type {array.dtype}, expected uint8, uint16, or finite floats as fractions of "
                "full scale; convert them"
            )
    if not arrays:
        raise InputError("flat fields: found no exposures, expected two or more; docs/sensors.md says how to take them")
    scale = 1.0 if arrays[0].dtype.kind == "f" else scales[arrays[0].dtype.str[1:]]
    return [array.astype(np.float64) / scale for array in arrays], None if scale == 1.0 else 1 / scale


def _point(stack: Floats, saturation: float, black: float, lit: bool) -> tuple[float, float, float, float]:
    """Return mean, noise variance, its standard error and the clipped share of one exposure."""
    frames = stack - black
    means = frames.mean(axis=tuple(range(1, stack.ndim)), keepdims=True)
    # Lamps flicker from frame to frame. Brought to one brightness by a factor, so that the fixed pattern cancels still.
    frames = frames * (means.mean() / means) if lit and means.min() > 0.5 * means.max() else frames - means
    # Neighbors in time rather than all pairs: a slow drift of the lamp's pattern cancels as well.
    differences = frames[1:] - frames[:-1]
    variance = float((differences**2).mean() / 2)
    # Neighboring differences share a frame: their squares correlate by 1/4.
    count, pixels = differences.shape[0], differences[0].size
    error = variance * math.sqrt((2 * count + (count - 1)) / (count**2 * pixels))
    clipped = float(np.mean((stack <= 0.0) | (stack >= saturation)))
    return float(stack.mean()), variance, max(error, 1e-12), clipped


def _line(x: Floats, y: Floats, error: Floats) -> tuple[float, float, float]:
    """Return slope, intercept and the slope's standard error of the weighted straight line."""
    weight = 1 / error**2
    center = float((weight * x).sum() / weight.sum())
    spread = float((weight * (x - center) ** 2).sum())
    slope = float((weight * (x - center) * y).sum()) / spread
    level = float((weight * y).sum() / weight.sum())
    return slope, level - slope * center, 1 / math.sqrt(spread)
