"""How far a disparity map is from the truth (METHOD.md section 7), and how much of the image it covers.

An error without its coverage means nothing: a sparse method is scored on its own pixels only, so it can buy any error
by answering less. :class:`Score` holds both; show both. It also holds Middlebury's convention for sparse maps, in which
a missing answer counts as a wrong one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError, SettingsError

Map = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Score:
    """How good one disparity map is, and how much of the image it covers.

    A pixel is *scored* where it is predicted and has valid truth in the window. With a region, all of this is about the
    pixels of the region.

    Attributes
    ----------
    epe : float
        End-point error: mean error in px over the scored pixels; NaN where there are none.
    bad : dict of float to float
        For each threshold K in px the share of the scored pixels, in percent, whose error is above K; NaN where there
        are none.
    coverage : float
        Share of all pixels, in percent, that have a prediction, with or without truth. The other figures mean nothing
        without this one.
    pixels : int
        Number of scored pixels.
    window : int
        Side W of the window in px.
    rms : float
        Root of the mean squared error over the scored pixels, in px.
    a50, a90, a99 : float
        Error in px below which 50, 90 and 99 percent of the scored pixels lie: percentiles, interpolated linearly.
    truth_pixels : int
        Number of pixels with valid truth in the window, predicted or not: what follows is a share of these.
    invalid : float
        Middlebury's convention for sparse maps: share, in percent, without a prediction.
    bad_of_truth : dict of float to float
        ... and the share, in percent, that is predicted and wrong by more than K.
    """

    epe: float
    bad: dict[float, float]
    coverage: float
    pixels: int
    window: int
    rms: float = math.nan
    a50: float = math.nan
    a90: float = math.nan
    a99: float = math.nan
    truth_pixels: int = 0
    invalid: float = math.nan
    bad_of_truth: dict[float, float] = field(default_factory=dict)

    @property
    def total(self) -> dict[float, float]:
        """Middlebury's total: ``bad_of_truth + invalid`` for each K, a missing answer counted as a wrong one."""
        return {k: share + self.invalid for k, share in self.bad_of_truth.items()}


@dataclass(frozen=True)
class EdgeBin:
    """The score of the pixels that are ``low <= distance < high`` px from a disparity edge."""

    low: float
    high: float
    score: Score


def window_error(prediction: NDArray[Any], truth: NDArray[Any], window: int = 19) -> Map:
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
    half = _half(window)
    predicted, true = _as_maps(prediction, truth)
    if half == 0:
        return np.abs(predicted - true)
    from scotopic.backends.device import cpu_kernels

    true[np.isnan(true)] = np.inf
    error: Map = cpu_kernels("evaluation").window_error(predicted, true, min(half, max(true.shape)))
    return error


def reference_window_error(prediction: NDArray[Any], truth: NDArray[Any], window: int = 19) -> Map:
    """Give what :func:`window_error` gives, in plain NumPy, for reading and for tests.

    Parameters
    ----------
    prediction, truth, window
        As for :func:`window_error`.

    Returns
    -------
    ndarray of float64
        ``H x W``, equal to that of :func:`window_error` to the last bit.
    """
    half = _half(window)
    predicted, true = _as_maps(prediction, truth)
    height, width = predicted.shape
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
    prediction: NDArray[Any],
    truth: NDArray[Any],
    window: int = 19,
    thresholds: Sequence[float] = (1, 3, 5),
    region: NDArray[np.bool_] | None = None,
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
    region : ndarray of bool, optional
        ``H x W``, the pixels to judge: those that both views see, for one. Everything, coverage too, is then about
        them alone; the window may still find its truth beside the region. All pixels by default.

    Returns
    -------
    Score
        With EPE and Bad-K NaN and coverage 0 where nothing is predicted.

    Raises
    ------
    InputError
        The maps are not two-dimensional, are empty, or differ in size; or `region` does not fit or holds no pixel.
    SettingsError
        `window` is not an odd positive integer, or a threshold is negative or not finite.

    Examples
    --------
    >>> import numpy as np
    >>> result = score(np.array([[2.0, np.nan]]), np.array([[4.0, 9.0]]), window=1)
    >>> result.epe, result.bad, result.coverage
    (2.0, {1: 100.0, 3: 0.0, 5: 0.0}, 50.0)
    >>> result.total  # of the two pixels with truth one is missing; the other is bad at K = 1
    {1: 100.0, 3: 50.0, 5: 50.0}
    """
    check_thresholds(thresholds)
    error = window_error(prediction, truth, window)
    judged = as_region(region, error.shape)
    return _summary(error, *_where_known(prediction, truth, window), judged, window, thresholds)


def edge_distance(truth: NDArray[Any], jump: float = 2.0) -> Map:
    """Give the distance of each pixel to the nearest disparity edge.

    A pixel lies on an edge if the truth of one of its four neighbors is known and differs from its own by more than
    `jump`. A jump across unknown pixels is not seen: where a data set leaves occlusions out, so are their edges.

    Parameters
    ----------
    truth : ndarray
        ``H x W`` true disparity in px, not finite where it is unknown.
    jump : float
        The difference in px above which two neighbors belong to different surfaces.

    Returns
    -------
    ndarray of float64
        ``H x W``, Euclidean distance in px, 0 on an edge; infinite everywhere if there is no edge.

    Raises
    ------
    InputError
        `truth` is not two-dimensional or is empty.
    SettingsError
        `jump` is negative or not finite.
    """
    import cv2

    if not (math.isfinite(jump) and jump >= 0):
        raise SettingsError(f"jump: found {jump}, expected finite px from 0 on; try 2")
    _, true = _as_maps(truth, truth)
    edge = np.zeros(true.shape, np.bool_)
    for before, after in ((np.s_[:-1], np.s_[1:]), (np.s_[:, :-1], np.s_[:, 1:])):
        jumps = np.abs(true[after] - true[before]) > jump  # false where one of them is unknown
        edge[before] |= jumps
        edge[after] |= jumps
    if not edge.any():
        return np.full(true.shape, np.inf)
    return np.asarray(cv2.distanceTransform((~edge).astype(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE), np.float64)


def error_by_edge_distance(
    prediction: NDArray[Any],
    truth: NDArray[Any],
    window: int = 1,
    bins: Sequence[float] = (0, 2, 4, 8, 16),
    jump: float = 2.0,
    thresholds: Sequence[float] = (1, 3, 5),
    region: NDArray[np.bool_] | None = None,
) -> list[EdgeBin]:
    """Score a disparity map apart for pixels near to and far from the edges of the true disparity.

    Parameters
    ----------
    prediction, truth, window, thresholds, region
        As for :func:`score`.
    bins : sequence of float
        Where each bin begins, in px of distance, rising; the last one has no end.
    jump
        As for :func:`edge_distance`.

    Returns
    -------
    list of EdgeBin
        One for each bin; its coverage is the share of the bin's pixels that have a prediction, NaN in an empty bin.

    Raises
    ------
    InputError, SettingsError
        As :func:`score` and :func:`edge_distance`; or `bins` do not rise from 0 or more.
    """
    check_thresholds(thresholds)
    starts = [float(start) for start in bins]
    spans = list(zip(starts, [*starts[1:], math.inf], strict=True)) if starts else []
    if not spans or starts[0] < 0 or not all(low < high for low, high in spans):
        raise SettingsError(
            f"bins: found {list(bins)}, expected distances in px that rise from 0 or more; try 0, 4, 16"
        )
    error = window_error(prediction, truth, window)
    judged = as_region(region, error.shape)
    known = _where_known(prediction, truth, window)
    distance = edge_distance(truth, jump)
    found = []
    for low, high in spans:
        inside = judged & (distance >= low) & ((distance < high) | (high == math.inf))
        found.append(EdgeBin(low, high, _summary(error, *known, inside, window, thresholds)))
    return found


def check_thresholds(thresholds: Sequence[float]) -> None:
    """Raise :class:`SettingsError` unless every K of Bad-K is a distance."""
    for threshold in thresholds:
        if not (math.isfinite(threshold) and threshold >= 0):
            raise SettingsError(f"thresholds: found {threshold}, expected finite px from 0 on; try (1, 3, 5)")


def as_region(region: NDArray[Any] | None, shape: tuple[int, ...]) -> Mask:
    """Return a region as a mask of `shape`; all of it for ``None``.

    Raises
    ------
    InputError
        It has another shape or type, or holds no pixel.
    """
    if region is None:
        return np.ones(shape, np.bool_)
    mask: NDArray[Any] = np.asarray(region)
    if mask.shape != shape or mask.dtype != np.bool_:
        raise InputError(
            f"region: found shape {mask.shape} and type {mask.dtype}, expected {shape} and bool like the maps; compare "
            "it with the value that marks the pixels to judge"
        )
    if not mask.any():
        raise InputError("region: found no pixel in it, expected some to judge; check which value marks them")
    return mask


def _summary(
    error: Map, predicted: Mask, with_truth: Mask, region: Mask, window: int, thresholds: Sequence[float]
) -> Score:
    """Gather the errors of a region."""
    scored = error[region & ~np.isnan(error)]
    area, true = int(np.count_nonzero(region)), int(np.count_nonzero(with_truth & region))
    a50, a90, a99 = map(float, np.percentile(scored, (50, 90, 99))) if scored.size else (math.nan,) * 3
    above = {k: int(np.count_nonzero(scored > k)) for k in thresholds}
    return Score(
        epe=float(scored.mean()) if scored.size else math.nan,
        bad={k: _percent(count, scored.size) for k, count in above.items()},
        coverage=_percent(int(np.count_nonzero(predicted & region)), area),
        pixels=int(scored.size),
        window=int(window),
        rms=math.sqrt(float(np.mean(scored**2))) if scored.size else math.nan,
        a50=a50,
        a90=a90,
        a99=a99,
        truth_pixels=true,
        invalid=_percent(true - scored.size, true),
        bad_of_truth={k: _percent(count, true) for k, count in above.items()},
    )


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else math.nan


def _where_known(prediction: NDArray[Any], truth: NDArray[Any], window: int) -> tuple[Mask, Mask]:
    """Where there is a prediction, and where there is truth in the window."""
    near = np.isfinite(np.asarray(truth, np.float64))
    half = _half(window)
    for axis, length in enumerate(near.shape):
        running = np.insert(np.cumsum(near, axis=axis), 0, 0, axis=axis)
        at = np.arange(length)
        first, end = np.maximum(at - half, 0), np.minimum(at + half + 1, length)
        near = np.take(running, end, axis=axis) > np.take(running, first, axis=axis)
    return np.isfinite(np.asarray(prediction, np.float64)), near


def _half(window: int) -> int:
    """How far a window reaches to each side of its pixel."""
    if isinstance(window, bool) or not isinstance(window, int | np.integer) or window < 1 or window % 2 == 0:
        raise SettingsError(f"window: found {window!r}, expected an odd number of pixels from 1 on; try 19 or 1")
    return int(window) // 2


def _as_maps(prediction: NDArray[Any], truth: NDArray[Any]) -> tuple[Map, Map]:
    """Both maps as float64 with every unknown value NaN; copies, never the caller's own."""
    predicted, true = (np.array(each, np.float64, order="C") for each in (prediction, truth))
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
