"""Photon counts, from cameras that count (qCMOS, EMCCD in counting mode, gated arrays) and from simulations."""

import math
import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scotopic.errors import InputError, SettingsError
from scotopic.io.input_file import check_memory
from scotopic.io.mapped import read_part
from scotopic.sensor.array_file import load_array
from scotopic.sensor.model import Sensor
from scotopic.sensor.recording import Recording


def common_white(*views: ArrayLike, share: float = 0.99) -> float:
    """Return one `white` for both views of a pair: a quantile of the values of all views.

    Parameters
    ----------
    *views
        Counts per frame, or photons per bit plane, of each view. Masked values of a masked array do not count.
    share
        This share of the values lies below the result; in (0, 1].

    Examples
    --------
    >>> common_white([[0, 1], [2, 3]], [[4, 5], [6, 8]], share=1.0)
    8.0
    """
    if not 0 < share <= 1:
        raise SettingsError(f"share must be above 0 and at most 1, not {share}.")
    known = [np.ma.compressed(np.ma.asarray(view, np.float64)) for view in views]
    if not known or any(view.size == 0 for view in known):
        raise InputError("common_white needs the counts or the flux of at least one view, and none may be empty.")
    values = np.concatenate(known)
    white = float(np.quantile(values, share))
    if not (white > 0 and math.isfinite(white)):
        raise InputError(
            f"The {100 * share:g} % quantile of the views is {white:g}, which is no scale. Raise the share, or check "
            "that the views are not black."
        )
    return white


def check_white(white: float, unit: str) -> None:
    """Raise :class:`SettingsError` if `white` cannot be a scale."""
    if not 0 < white < math.inf:
        raise SettingsError(f"white, the {unit} that becomes 1.0, must be above 0, not {white}.")


def read_counts(source: Any, white: float, *, read_noise: float = 0.0, hot_pixels: Any = None) -> Recording:
    """Read photon counts: one frame, or a stack of frames that are summed.

    Parameters
    ----------
    source
        An array or an ``.npy`` file of whole numbers from 0 on: ``(H, W)``, ``(H, W, 3)``, ``(frames, H, W)`` or
        ``(frames, H, W, 3)``.
    white
        Count per frame that becomes 1.0. Higher counts are clipped, and ``assumed`` says how many. Use the same for
        both views: see :func:`common_white`.
    read_noise
        Read noise of one frame in photons; 0 for a counter.
    hot_pixels
        Which pixels are hot: an array ``(H, W)``, not 0 where they are, or its file (``.npy``, PNG, ...). They are
        interpolated, and large clusters masked (:meth:`Recording.without_hot_pixels`).

    Returns
    -------
    Recording
        With the sensor of the sum: its photons are `white` times the number of frames.

    Raises
    ------
    InputError
        The array has another shape, or its values are not counts.
    SettingsError
        `white` is not above 0.
    """
    check_white(white, "count per frame")
    array, title = load_array(source, "photon counts")
    stack = as_stack(array, title)
    frames = stack.shape[0]
    check_memory(title, f"frames of {' x '.join(map(str, stack.shape[1:]))}", 8 * math.prod(stack.shape[1:]))
    total = np.zeros(stack.shape[1:])
    for number in range(frames):  # one by one, because a file may be larger than memory
        (frame,) = read_part(stack, number, number + 1)
        if frame.dtype.kind == "f" and not (np.isfinite(frame).all() and (frame == np.rint(frame)).all()):
            raise InputError(f"{title} has values that are not whole numbers. Round or rescale them to photon counts.")
        if frame.size and frame.min() < 0:
            raise InputError(
                f"{title} has negative values ({frame.min()}). Pass counts without background subtraction."
            )
        total += frame
    level = total / (frames * white)
    assumed = {
        "kind": "counts",
        "values": f"sum of {frames} frames, over {white:g} photons per frame",
        "linearized": None,
        "above_white_percent": 100 * float((level > 1).mean()),
    }
    if isinstance(source, str | os.PathLike):
        assumed["file"] = os.fspath(source)
    # A sum of Poisson counts is a Poisson count; variances of read noise add up.
    sensor = Sensor(frames * white, math.sqrt(frames) * read_noise, steps=frames * white, source="photon counts")
    image = np.minimum(level, 1.0).astype(np.float32)
    return Recording(image.reshape(*image.shape[:2], -1), sensor, assumed).without_hot_pixels(hot_pixels)


def as_stack(array: NDArray[Any], title: str) -> NDArray[Any]:
    """Return ``(frames, H, W[, C])``. A last axis of 3 is color, because no image is three pixels wide."""
    if array.dtype.kind not in "uifb" or array.size == 0:
        raise InputError(f"{title} must hold numbers, but it has {array.size} values of type {array.dtype}.")
    is_one_frame = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (1, 3))
    stack = array[None] if is_one_frame else array
    if stack.ndim not in (3, 4) or (stack.ndim == 4 and stack.shape[3] not in (1, 3)):
        raise InputError(
            f"{title} has shape {array.shape}. Use (H, W) or (frames, H, W), or either with 3 channels at the end."
        )
    return stack
