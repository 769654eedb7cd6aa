"""The photon transfer curve: gain and read noise of a camera, measured from flat fields (evenly lit frames).

Two frames of the same exposure differ by noise alone: dust, vignetting and pixel gains are the same in both and cancel.
So half the variance of their difference is the noise variance, and over several exposures
``variance = gain * (mean - black) + (gain * read_noise)^2 + step^2 / 12``.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError
from scotopic.sensor.model import Sensor

Floats = NDArray[np.float64]

_FULL_SCALE = {"u1": 255.0, "u2": 65535.0}
_CERTAIN = 4.0  # standard errors
_CLIPPED_SHARE = 1e-3  # with more of its pixels clipped, an exposure says little about the noise


@dataclass(frozen=True)
class PhotonTransfer:
    """A measured photon transfer curve. Values are fractions of full scale."""

    mean: Floats  #: one for every exposure; the dark frames come first, if there are any
    variance: Floats  #: one for every exposure
    variance_error: Floats  #: standard error of each variance
    used: NDArray[np.bool_]  #: the exposures that the line was fitted to: those that are not clipped
    gain_error: float  #: standard error of the sensor's gain
    sensor: Sensor  #: the sensor that the line describes


def photon_transfer(
    exposures: Sequence[Any], dark: Any = None, *, black: float | None = None, white: float | None = None
) -> PhotonTransfer:
    """Measure gain and read noise from flat fields at several exposures.

    Parameters
    ----------
    exposures
        One stack ``(frames, H, W)`` or ``(frames, H, W, C)`` per exposure, of at least two frames each, of the same
        scene (a white wall, out of focus), with the same camera and gain. uint8, uint16, or floats as fractions of
        full scale. They should reach from dark to nearly white. Pass one channel at a time to measure that channel.
        What is masked in any frame of a masked array, such as hot pixels, is left out of all.
    dark
        A stack taken without light (bias frames). It gives the black level, and fixes the read noise best.
    black
        The black level as a fraction of full scale, if there are no dark frames; 0 by default.
    white
        The saturation level; by default the largest value in any frame.

    Returns
    -------
    PhotonTransfer
        The curve and the :class:`~scotopic.sensor.Sensor`.

    Raises
    ------
    InputError
        Fewer than two exposures are not clipped, an exposure has only one frame, the frames differ in size, the
        variance does not rise with the signal, or `black` is too low for it.
    """
    stacks, step = _as_stacks(exposures, dark)
    saturation = max(float(stack.max()) for stack in stacks) if white is None else white
    pedestal = float(stacks[0].mean()) if dark is not None else (black or 0.0)
    rows = [_measure(stack, saturation, pedestal, lit=dark is None or k > 0) for k, stack in enumerate(stacks)]
    mean, variance, error, clipped = (np.array(column) for column in zip(*rows, strict=True))
    used = clipped <= _CLIPPED_SHARE
    if dark is not None:
        used[0] = True  # with a black level of 0, half of a dark frame is clipped; it is still the best dark point
    if np.count_nonzero(used) < 2 or np.ptp(mean[used]) == 0:
        raise InputError(
            f"Only {np.count_nonzero(used)} of {len(stacks)} exposures have less than 0.1 % of their pixels clipped. "
            "Two or more of different brightness are needed: add shorter ones."
        )
    slope, intercept, slope_error, intercept_error = _fit_line(mean[used] - pedestal, variance[used], error[used])
    if not slope > 0:
        raise InputError(
            f"The variance of the flat fields does not rise with the signal (slope {slope:.3g}), so there is no shot "
            "noise to measure. Check that the frames are linear and not denoised, and that the exposures differ."
        )
    if dark is None and intercept < -_CERTAIN * intercept_error:
        raise InputError(
            f"Without light the variance of the flat fields would be {intercept:.3g}, below 0, so the camera's black "
            f"level is not {pedestal:.4g} of full scale but higher. Pass dark frames, or black."
        )
    rounding = 0.0 if step is None else step**2 / 12
    sensor = Sensor(
        photons=(saturation - pedestal) / slope,
        read_noise=math.sqrt(max(intercept - rounding, 0.0)) / slope,
        black=pedestal,
        white=saturation,
        floor=min(0.0, pedestal),
        steps=None if step is None else 1 / step,
        source=f"photon transfer curve of {np.count_nonzero(used)} exposures",
    )
    return PhotonTransfer(mean, variance, error, used, slope_error, sensor)


def _as_stacks(exposures: Sequence[Any], dark: Any) -> tuple[list[Floats], float | None]:
    """Return the stacks as fractions of full scale, the dark one first, and the quantization step."""
    named = [("The dark stack", np.asanyarray(dark))] if dark is not None else []
    named += [(f"Exposure {number}", np.asanyarray(stack)) for number, stack in enumerate(exposures)]
    if not named:
        raise InputError("There are no exposures to measure. docs/sensors.md says how to take flat fields.")
    first = named[0][1]
    for name, array in named:
        if array.ndim not in (3, 4) or array.shape[0] < 2 or array[0].size < 2:
            raise InputError(
                f"{name} has shape {array.shape}. Use (frames, H, W) or (frames, H, W, C) with at least two frames."
            )
        if array.shape[1:] != first.shape[1:] or array.dtype != first.dtype:
            raise InputError(
                f"{name} has {array.dtype} frames of shape {array.shape[1:]}, but {named[0][0].lower()} has "
                f"{first.dtype} frames of shape {first.shape[1:]}. Take all frames with the same camera settings."
            )
        is_finite = np.ma.filled(np.isfinite(array), True).all()
        if (array.dtype.kind != "f" and array.dtype.str[1:] not in _FULL_SCALE) or not is_finite:
            raise InputError(
                f"{name} is {array.dtype}. Use uint8, uint16, or finite floats as fractions of full scale."
            )
    scale = 1.0 if first.dtype.kind == "f" else _FULL_SCALE[first.dtype.str[1:]]
    stacks = [np.ma.getdata(array).astype(np.float64) / scale for _, array in named]
    masks = [np.ma.getmaskarray(array).any(axis=0) for _, array in named if np.ma.is_masked(array)]
    if masks:
        known = ~np.logical_or.reduce(masks)
        if np.count_nonzero(known) < 2:
            raise InputError("All pixels of the flat fields are masked in some frame. Mask fewer.")
        stacks = [stack[:, known] for stack in stacks]
    return stacks, None if scale == 1.0 else 1 / scale


def _measure(stack: Floats, saturation: float, black: float, lit: bool) -> tuple[float, float, float, float]:
    """Return mean, noise variance, its standard error and the clipped share of one exposure."""
    frames = stack - black
    means = frames.mean(axis=tuple(range(1, stack.ndim)), keepdims=True)
    # Lamps flicker. Frames are scaled, not offset, to one brightness, so that the fixed pattern still cancels.
    frames = frames * (means.mean() / means) if lit and means.min() > 0.5 * means.max() else frames - means
    # Differences of consecutive frames rather than of all pairs, so that slow drifts cancel as well.
    differences = frames[1:] - frames[:-1]
    variance = float((differences**2).mean() / 2)
    # Consecutive differences share a frame, so their squares have a correlation of 1/4.
    count, pixels = differences.shape[0], differences[0].size
    error = variance * math.sqrt((2 * count + (count - 1)) / (count**2 * pixels))
    clipped = float(np.mean((stack <= 0.0) | (stack >= saturation)))
    return float(stack.mean()), variance, max(error, 1e-12), clipped


def _fit_line(x: Floats, y: Floats, error: Floats) -> tuple[float, float, float, float]:
    """Return slope and intercept of a weighted straight line, and the standard error of each."""
    weight = 1 / error**2
    center = float((weight * x).sum() / weight.sum())
    spread = float((weight * (x - center) ** 2).sum())
    slope = float((weight * (x - center) * y).sum()) / spread
    level = float((weight * y).sum() / weight.sum())
    intercept_error = math.sqrt(1 / float(weight.sum()) + center**2 / spread)
    return slope, level - slope * center, 1 / math.sqrt(spread), intercept_error
