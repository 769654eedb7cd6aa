"""The paper's window metric (METHOD.md section 7).

An error without its coverage means nothing: a sparse method is scored on its own pixels only, so it can buy any error
by answering less. :class:`Score` holds both; show both.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError, SettingsError


@dataclass(frozen=True)
class Score:
    """How good one disparity map is, and how much of the image it covers.

    Attributes
    ----------
    epe : float
        End-point error: mean error in px over the scored pixels; NaN where there are none.
    bad : dict of float to float
        For each threshold K in px the share of the scored pixels, in percent, whose error is above K; NaN where there
        are none.
    coverage : float
        Share of all pixels of the image, in percent, that have a prediction. The other figures mean nothing without
        this one.
    pixels : int
        Number of scored pixels: predicted, with valid truth in the window.
    window : int
        Side W of the window in px.
    """

    epe: float
    bad: dict[float, float]
    coverage: float
    pixels: int
    window: int


def window_error(prediction: NDArray[Any], truth: NDArray[Any], window: int = 19) -> NDArray[np.float64]:
    """Give the error of each predicted pixel: the smallest ``|prediction - truth|`` in a window of the truth.

    A small window forgives a disparity that is right but placed a few pixels off, as it is at the edges that a
    coarse method finds. ``window=1`` is the ordinary pointwise error.

    Parameters
    ----------
    prediction : ndarray
        ``H x W`` disparity in px, NaN where there is none.
    truth : ndarray
        ``H x W`` true disparity in px, NaN where it is unknown. Infinity, the mark of PFM files, counts as unknown.
    window : int
        Odd side W of the window in px. The image is continued beyond its edges by replication.

    Returns
    -------
    ndarray of float64
        ``H x W``; NaN where there is no prediction or no valid truth in the window. A mean over it means nothing
        without the share of pixels that it covers.

    Raises
    ------
    InputError
        The maps are not two-dimensional, are empty, or differ in size.
    SettingsError
        `window` is not an odd positive integer.
    """
    if isinstance(window, bool) or not isinstance(window, int | np.integer) or window < 1 or window % 2 == 0:
        raise SettingsError(f"window: found {window!r}, expected an odd number of pixels from 1 on; try 19 or 1")
    predicted, true = _as_maps(prediction, truth)
    height, width = predicted.shape
    half = int(window) // 2
    error = np.full_like(predicted, np.nan)
    # A pixel replicated beyond an edge is in the window already, and a smallest value does not mind repetition: so
    # only the shifts that meet the image are visited, and nothing needs padding.
    for dy in range(-min(half, height - 1), min(half, height - 1) + 1):
        rows, true_rows = _overlap(dy, height)
        for dx in range(-min(half, width - 1), min(half, width - 1) + 1):
            columns, true_columns = _overlap(dx, width)
            here = error[rows, columns]
            np.fmin(here, np.abs(predicted[rows, columns] - true[true_rows, true_columns]), out=here)
    return error


def score(
    prediction: NDArray[Any], truth: NDArray[Any], window: int = 19, thresholds: Sequence[float] = (1, 3, 5)
) -> Score:
    """Score a disparity map by the window metric: EPE, Bad-K and, inseparable from them, coverage.

    An error without its coverage means nothing: only predicted pixels are scored, so always give both. The figure of
    a data set is the plain mean over its scenes.

    Parameters
    ----------
    prediction, truth, window
        As for :func:`window_error`.
    thresholds : sequence of float
        The K of Bad-K in px.

    Returns
    -------
    Score
        With EPE and Bad-K NaN and coverage 0 where nothing is predicted.

    Raises
    ------
    InputError
        The maps are not two-dimensional, are empty, or differ in size.
    SettingsError
        `window` is not an odd positive integer, or a threshold is negative or not finite.

    Examples
    --------
    >>> import numpy as np
    >>> score(np.array([[2.0, np.nan]]), np.array([[4.0, 9.0]]), window=1)
    Score(epe=2.0, bad={1: 100.0, 3: 0.0, 5: 0.0}, coverage=50.0, pixels=1, window=1)
    """
    for threshold in thresholds:
        if not (math.isfinite(threshold) and threshold >= 0):
            raise SettingsError(f"thresholds: found {threshold}, expected finite px from 0 on; try (1, 3, 5)")
    error = window_error(prediction, truth, window)
    scored = error[~np.isnan(error)]
    return Score(
        epe=float(scored.mean()) if scored.size else math.nan,
        bad={k: 100.0 * float(np.mean(scored > k)) if scored.size else math.nan for k in thresholds},
        coverage=100.0 * float(np.mean(np.isfinite(prediction))),
        pixels=int(scored.size),
        window=int(window),
    )


def _as_maps(prediction: NDArray[Any], truth: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both maps as float64 with every unknown value NaN; copies, never the caller's own."""
    predicted, true = np.array(prediction, dtype=np.float64), np.array(truth, dtype=np.float64)
    if predicted.ndim != 2 or predicted.shape != true.shape or predicted.size == 0:
        raise InputError(
            f"prediction and truth: found shapes {predicted.shape} and {true.shape}, expected two maps H x W of one "
            "size; crop or resize the truth to the prediction"
        )
    predicted[~np.isfinite(predicted)] = np.nan
    true[~np.isfinite(true)] = np.nan
    return predicted, true


def _overlap(shift: int, length: int) -> tuple[slice, slice]:
    """Where an axis and the same axis shifted by `shift` both exist."""
    return slice(max(0, -shift), length - max(0, shift)), slice(max(0, shift), length - max(0, -shift))
