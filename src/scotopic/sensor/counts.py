"""Stacks of photon counts: cameras that count (qCMOS, EMCCD in counting mode, gated arrays) and simulations."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scotopic.errors import InputError, SettingsError
from scotopic.sensor.model import Sensor
from scotopic.sensor.recording import Recording, load_array


def common_white(*views: ArrayLike, share: float = 0.99) -> float:
    """Return the value below which this share of the pixels of all views lies: one scale for both views of a pair.

    Parameters
    ----------
    *views
        Counts per frame, or photons per bit plane, of each view.
    share
        In (0, 1].

    Examples
    --------
    >>> common_white([[0, 1], [2, 3]], [[4, 5], [6, 8]], share=1.0)
    8.0
    """
    if not 0 < share <= 1:
        raise SettingsError(f"share: found {share}, expected a number above 0 and up to 1; try 0.99")
    if not views or any(np.asarray(view).size == 0 for view in views):
        raise InputError("views: found nothing to scale by, expected counts or flux of each view; pass them")
    values = np.concatenate([np.asarray(view, np.float64).ravel() for view in views])
    white = float(np.quantile(values, share))
    if not (white > 0 and math.isfinite(white)):
        raise InputError(
            f"views: found {white:g} as the {100 * share:g} % quantile, expected a number above 0; raise the share or "
            "check that the views are not black"
        )
    return white


def read_counts(source: Any, white: float, *, read_noise: float = 0.0) -> Recording:
    """Read photon counts, one frame or a stack that is summed.

    Parameters
    ----------
    source
        An array or an ``.npy`` file of whole numbers from 0 on: ``(H, W)``, ``(H, W, 3)``, ``(frames, H, W)`` or
        ``(frames, H, W, 3)``.
    white
        Count per frame that becomes 1.0; higher ones become 1.0 as well, and ``assumed`` says how many. Both views need
        the same: see :func:`common_white`.
    read_noise
        Of one frame, in photons; 0 for a counter.

    Returns
    -------
    Recording
        With the sensor of the sum: its photons are `white` times the number of frames.

    Raises
    ------
    InputError
        Not such an array, or values that are no counts.
    SettingsError
        `white` is not above 0.
    """
    title = f"counts {os.fspath(source)!r}" if isinstance(source, str | os.PathLike) else "counts"
    if not 0 < white < math.inf:
        raise SettingsError(f"white: found {white}, expected the count per frame that becomes 1.0, above 0")
    stack = _as_stack(load_array(source, "counts"), title)
    frames = stack.shape[0]
    total = np.zeros(stack.shape[1:])
    for frame in stack:  # one by one: a file may be larger than memory
        if frame.dtype.kind == "f" and not (np.isfinite(frame).all() and (frame == np.rint(frame)).all()):
            raise InputError(f"{title}: found values that are not whole, expected photon counts; round or rescale them")
        if frame.size and frame.min() < 0:
            raise InputError(f"{title}: found {frame.min()}, expected counts from 0 on; subtract no background")
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
    # The sum of Poisson counts is a Poisson count; read noise adds up in squares.
    sensor = Sensor(frames * white, math.sqrt(frames) * read_noise, steps=frames * white, source="photon counts")
    image = np.minimum(level, 1.0).astype(np.float32)
    return Recording(image.reshape(*image.shape[:2], -1), sensor, assumed)


def _as_stack(array: NDArray[Any], title: str) -> NDArray[Any]:
    """Return ``(frames, H, W[, C])``; three channels at the end are colors, as no image is three pixels wide."""
    if array.dtype.kind not in "uifb" or array.size == 0:
        raise InputError(
            f"{title}: found {array.size} values of type {array.dtype}, expected photon counts; convert them"
        )
    one_frame = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (1, 3))
    stack = array[None] if one_frame else array
    if stack.ndim not in (3, 4) or (stack.ndim == 4 and stack.shape[3] not in (1, 3)):
        raise InputError(
            f"{title}: found an array of shape {array.shape}, expected (H, W), (frames, H, W) or either with 3 "
            "channels at the end; reorder its axes"
        )
    return stack
