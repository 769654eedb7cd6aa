"""How far a disparity map is from the truth, and how much of the image it covers.

An error without its coverage means nothing: a sparse method is scored on its own pixels only, so it can reach any error
by answering less. :class:`Score` holds both; show both. It also holds Middlebury's convention for sparse maps, in which
a missing answer counts as a wrong one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError, SettingsError
from scotopic.io.masks import masked_to_nan

Map = NDArray[np.float64]
Mask = NDArray[np.bool_]

_SMALL = 40_000_000  # comparisons that take less long than compiling the kernel that would do them
EDGE_JUMP = 2.0  #: px of disparity; neighbors that differ by more lie on an edge
EDGE_BINS = (0.0, 2.0, 4.0, 8.0, 16.0)  #: px of distance to an edge at which each bin begins; the last has no end


@dataclass(frozen=True)
class Score:
    """How good a disparity map is, and how much of the image it covers.

    A pixel is *scored* where it is predicted and has valid truth in the window, or with ``own_truth`` at the pixel
    itself. With a region, everything is about the pixels of the region.

    Attributes
    ----------
    epe : float
        End-point error: mean error in px over the scored pixels; NaN where there are none.
    bad : dict of float to float
        For each threshold K in px the percentage of the scored pixels whose error is above K; NaN where there are none.
    coverage : float
        Share of all pixels, in [0, 1] like ``Match.coverage``, that have a prediction, with or without truth. The other
        figures mean nothing without this one.
    pixels : int
        Number of scored pixels.
    window : int
        Side W of the window in px.
    rms : float
        Root mean square error over the scored pixels, in px.
    a50, a90, a99 : float
        Percentiles of the error in px, interpolated linearly.
    truth_pixels : int
        Number of pixels with valid truth in the window (or of their own), predicted or not: what follows is a
        percentage of these.
    invalid : float
        Middlebury's convention for sparse maps: percentage without a prediction.
    bad_of_truth : dict of float to float
        ... and the percentage that is predicted and wrong by more than K.
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
        """Middlebury's total, ``bad_of_truth + invalid`` for each K: a missing answer counts as a wrong one."""
        return {k: share + self.invalid for k, share in self.bad_of_truth.items()}


@dataclass(frozen=True)
class EdgeBin:
    """The score of the pixels that are ``low <= distance < high`` px from a disparity edge."""

    low: float
    high: float
    score: Score


def window_error(prediction: NDArray[Any], truth: NDArray[Any], window: int = 19) -> Map:
    """Return the error of each predicted pixel: the smallest ``|prediction - truth|`` in a window of the truth.

    A small window forgives a disparity that is right but a few pixels out of place, as it is at the edges that a
    coarse method finds. ``window=1`` is the ordinary pointwise error.

    Raises :class:`InputError` if the maps are not two-dimensional, are empty, or differ in size. Raises
    :class:`SettingsError` if `window` is not an odd positive integer.

    Parameters
    ----------
    prediction : ndarray
        ``H x W`` disparity in px, NaN (or masked) where there is none.
    truth : ndarray
        ``H x W`` true disparity in px, NaN where it is unknown. Infinity, the mark of PFM files, counts as unknown.
    window : int
        Odd side W of the window in px. The image is continued beyond its edges by replication.

    Returns
    -------
    ndarray of float64
        ``H x W``; NaN where there is no prediction or no valid truth in the window. A mean over it means nothing
        without the share of pixels that it covers.
    """
    half = _half(window)
    predicted, true = _as_maps(prediction, truth)
    if half == 0:
        return np.abs(predicted - true)
    half = min(half, max(true.shape))  # what lies beyond is a repetition of what is in the window already
    if predicted.size * (2 * half + 1) ** 2 <= _SMALL:
        return reference_window_error(predicted, true, 2 * half + 1)
    from scotopic.backends.device import import_kernels
    from scotopic.kernel_cache import guard_kernel_cache

    kernels = "scotopic.evaluation._cpu"
    guard_kernel_cache(kernels)
    true[np.isnan(true)] = np.inf
    error: Map = import_kernels(kernels).window_error(predicted, true, half)
    return error


def reference_window_error(prediction: NDArray[Any], truth: NDArray[Any], window: int = 19) -> Map:
    """Return what :func:`window_error` returns, to the last bit, in plain NumPy, for reading and for tests."""
    half = _half(window)
    predicted, true = _as_maps(prediction, truth)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(true, half, mode="edge"), (2 * half + 1, 2 * half + 1))
    # Row by row, since all windows at once would fill the memory. The minimum leaves unknown values (NaN) out.
    rows = zip(predicted, windows, strict=True)
    return np.stack([np.fmin.reduce(np.abs(p[:, None, None] - near), axis=(1, 2)) for p, near in rows])


def score(
    prediction: NDArray[Any],
    truth: NDArray[Any],
    window: int = 19,
    thresholds: Sequence[float] = (1, 3, 5),
    region: NDArray[np.bool_] | None = None,
    *,
    own_truth: bool = False,
) -> Score:
    """Score a disparity map by the window metric: EPE, Bad-K and, inseparable from them, coverage.

    Only predicted pixels are scored, so always show the error together with its coverage. The figure of a data set is
    the plain mean over its scenes.

    Raises :class:`InputError` if the maps are not two-dimensional, are empty, or differ in size; or `region` does not
    fit or holds no pixel. Raises :class:`SettingsError` if `window` is not an odd positive integer, or a threshold is
    negative or not finite.

    Parameters
    ----------
    prediction, truth, window
        As for :func:`window_error`.
    thresholds : sequence of float
        The K of Bad-K in px.
    region : ndarray of bool, optional
        ``H x W``, the pixels to score, for example those that both views see. Everything, coverage too, is then about
        them alone; the window may still find its truth beside the region. All pixels by default.
    own_truth : bool
        Score only pixels with truth of their own. Then every window scores the same pixels, and the error falls as the
        window grows. By default, as in the paper, a pixel is scored if there is truth anywhere in its window: a larger
        window scores more pixels, and where truth is sparse these are judged by the truth of other surfaces, so that
        W = 19 can come out worse than W = 1.

    Returns
    -------
    Score
        With EPE and Bad-K NaN and coverage 0 where nothing is predicted.

    Examples
    --------
    >>> import numpy as np
    >>> result = score(np.array([[2.0, np.nan]]), np.array([[4.0, 9.0]]), window=1)
    >>> result.epe, result.bad, result.coverage
    (2.0, {1: 100.0, 3: 0.0, 5: 0.0}, 0.5)
    >>> result.total  # of the two pixels with truth one is missing; the other is bad at K = 1
    {1: 100.0, 3: 50.0, 5: 50.0}
    """
    check_thresholds(thresholds)
    error = scored_error(prediction, truth, window, own_truth)
    inside = as_region(region, error.shape)
    return _summarize(error, *_where_known(prediction, truth, window, own_truth), inside, window, thresholds)


def scored_error(prediction: NDArray[Any], truth: NDArray[Any], window: int, own_truth: bool) -> Map:
    """Return :func:`window_error` at the pixels that count, NaN elsewhere; `own_truth` as for :func:`score`."""
    error = window_error(prediction, truth, window)
    if own_truth:
        error[~np.isfinite(np.asarray(masked_to_nan(truth), np.float64))] = np.nan
    return error


def edge_distance(truth: NDArray[Any]) -> Map:
    """Return the Euclidean distance of each pixel to the nearest disparity edge, in px; infinite if there is no edge.

    A pixel lies on an edge if the truth of one of its four neighbors is known and differs from its own by more than
    `EDGE_JUMP`. A jump across unknown pixels is not seen: where a data set leaves occlusions out, so are their edges.
    """
    import cv2

    _, true = _as_maps(truth, truth)
    edge = np.zeros(true.shape, np.bool_)
    for before, after in ((np.s_[:-1], np.s_[1:]), (np.s_[:, :-1], np.s_[:, 1:])):
        jumps = np.abs(true[after] - true[before]) > EDGE_JUMP  # false where one of them is unknown
        edge[before] |= jumps
        edge[after] |= jumps
    if not edge.any():
        return np.full(true.shape, np.inf)
    return np.asarray(cv2.distanceTransform((~edge).astype(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE), np.float64)


def error_by_edge_distance(
    prediction: NDArray[Any],
    truth: NDArray[Any],
    window: int = 1,
    thresholds: Sequence[float] = (1, 3, 5),
    region: NDArray[np.bool_] | None = None,
    *,
    own_truth: bool = False,
) -> list[EdgeBin]:
    """Score pixels near the edges of the true disparity separately from those far from them; see :func:`score`.

    The coverage of a bin is the share of its pixels that have a prediction, NaN in an empty bin.
    """
    check_thresholds(thresholds)
    error = scored_error(prediction, truth, window, own_truth)
    inside = as_region(region, error.shape)
    known = _where_known(prediction, truth, window, own_truth)
    distance = edge_distance(truth)
    found = []
    for low, high in zip(EDGE_BINS, (*EDGE_BINS[1:], math.inf), strict=True):
        in_bin = inside & (distance >= low) & ((distance < high) | (high == math.inf))
        found.append(EdgeBin(low, high, _summarize(error, *known, in_bin, window, thresholds)))
    return found


def check_thresholds(thresholds: Sequence[float]) -> None:
    """Raise :class:`SettingsError` unless every K of Bad-K is a distance."""
    for threshold in thresholds:
        if not (math.isfinite(threshold) and threshold >= 0):
            raise SettingsError(f"The thresholds of Bad-K must be 0 px or more, as in 1, 3, 5; got {threshold}.")


def as_region(region: NDArray[Any] | None, shape: tuple[int, ...]) -> Mask:
    """Return a region as a mask of `shape`, all of it for ``None``; raise :class:`InputError` if it cannot be one."""
    if region is None:
        return np.ones(shape, np.bool_)
    mask: NDArray[Any] = np.asarray(np.ma.filled(region, False))
    if mask.shape != shape or mask.dtype != np.bool_:
        raise InputError(
            f"The region must be a bool mask of shape {shape} like the maps, not {mask.dtype} of shape {mask.shape}. "
            "Compare it with the value that marks its pixels."
        )
    if not mask.any():
        raise InputError("The region holds no pixel. Check which value marks its pixels.")
    return mask


def _summarize(
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
        coverage=int(np.count_nonzero(predicted & region)) / area if area else math.nan,
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


def _where_known(prediction: NDArray[Any], truth: NDArray[Any], window: int, own_truth: bool) -> tuple[Mask, Mask]:
    """Where there is a prediction, and where there is truth: at the pixel itself, or in its window."""
    import cv2

    predicted, known = (np.isfinite(np.asarray(masked_to_nan(each), np.float64)) for each in (prediction, truth))
    if own_truth:
        return predicted, known
    side = 2 * min(_half(window), max(known.shape)) + 1
    near = np.asarray(cv2.dilate(known.astype(np.uint8), np.ones((side, side), np.uint8))) > 0
    return predicted, near


def _half(window: int) -> int:
    """How far a window reaches to each side of its pixel."""
    if isinstance(window, bool) or not isinstance(window, int | np.integer) or window < 1 or window % 2 == 0:
        raise SettingsError(f"The window must be an odd number of pixels, such as 1 or 19, not {window!r}.")
    return int(window) // 2


def _as_maps(prediction: NDArray[Any], truth: NDArray[Any]) -> tuple[Map, Map]:
    """Both maps as float64 with every unknown value NaN; copies, never the caller's own."""
    given = [np.asarray(masked_to_nan(each)) for each in (prediction, truth)]
    for name, each in zip(("prediction", "truth"), given, strict=True):
        if each.dtype.kind not in "fiu":
            raise InputError(f"The {name} has values of type {each.dtype}, but a disparity is a number of px.")
    predicted, true = (np.array(each, np.float64, order="C") for each in given)
    if predicted.ndim != 2 or predicted.shape != true.shape or predicted.size == 0:
        raise InputError(
            f"Prediction and truth must be two maps H x W of one size, but have shapes {predicted.shape} and "
            f"{true.shape}. Crop or resize the truth to the prediction."
        )
    predicted[~np.isfinite(predicted)] = np.nan
    true[~np.isfinite(true)] = np.nan
    return predicted, true
