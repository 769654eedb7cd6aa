"""Risk against coverage: how the error grows as less certain answers are kept, and how good the ranking is.

Two shares run along a curve, and they are not the same:

``coverage``
    Share of **all** pixels of the image (or region) that is kept, with or without truth: the coverage of
    :class:`~scotopic.evaluation.metrics.Score`, by which methods are compared with each other.
``share``
    Share of the **scored** pixels (answered, with valid truth in the window) that is kept. Areas are taken over it,
    since only there the error, and so the oracle's order, is known.

Area under the risk-coverage curve, over n scored pixels in falling confidence with errors ``e``::

    AURC = 1/n * sum over k = 1..n of (e_1 + ... + e_k) / k

Pixels of equal confidence enter together: each ``e`` among them is their mean, which makes AURC the expectation over
every order that they could have. A method that ranks nothing (one confidence everywhere) gets its plain mean error, and
no result depends on the order of the pixels. The oracle ranks by the error itself; ``AUSE = AURC - AURC of the oracle``
is what is lost to a wrong ranking alone, 0 for a perfect one.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError, PairWarning, SettingsError
from scotopic.evaluation.metrics import as_region, check_thresholds, scored_error
from scotopic.io.masks import masked_to_nan

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Area:
    """Areas under the method's curve (`aurc`) and under that of the best possible ranking of its answers (`oracle`).

    Both are taken over the share of the scored pixels, in the unit of the risk; NaN where no pixel is scored.
    """

    aurc: float
    oracle: float

    @property
    def ause(self) -> float:
        """Area between the two: what is lost to the ranking."""
        return max(self.aurc - self.oracle, 0.0)  # rounding may leave a perfect ranking a hair below 0


@dataclass(frozen=True, eq=False)
class Curve:
    """Error of a method at falling confidence; every array has one value for each point, the most certain first.

    Attributes
    ----------
    confidence
        The least confidence that is kept at the point.
    coverage
        Share of all pixels of the image (or region), in [0, 1], that is kept.
    share
        Share of the scored pixels, in (0, 1], that is kept.
    epe
        Mean error of the kept scored pixels, in px.
    bad
        For each K the percentage of them whose error is above K.
    oracle_epe, oracle_bad
        The same for as many pixels, chosen by their error.
    epe_area, bad_area
        AURC and AUSE of each risk, from all pixels, not from the points alone.
    pixels
        Number of scored pixels.
    window
        Side of the window in px.
    """

    confidence: Values
    coverage: Values
    share: Values
    epe: Values
    bad: dict[float, Values]
    oracle_epe: Values
    oracle_bad: dict[float, Values]
    epe_area: Area
    bad_area: dict[float, Area]
    pixels: int
    window: int

    @property
    def aurc(self) -> float:
        """Area under the curve of EPE, in px."""
        return self.epe_area.aurc

    @property
    def ause(self) -> float:
        """Area between the curve of EPE and the oracle's, in px."""
        return self.epe_area.ause


def risk_coverage(
    dense: NDArray[Any],
    confidence: NDArray[Any],
    truth: NDArray[Any],
    window: int = 1,
    thresholds: Sequence[float] = (1, 3, 5),
    region: NDArray[np.bool_] | None = None,
    points: int = 200,
    *,
    own_truth: bool = False,
) -> Curve:
    """Return the error of a method from its most certain pixel alone to all of its answers.

    A point of the curve is what :func:`~scotopic.evaluation.metrics.score` says of the answers whose confidence is at
    least the point's.

    Raises what :func:`~scotopic.evaluation.metrics.score` does; :class:`InputError` also if `confidence` has another
    size, and :class:`SettingsError` if `points` is less than 1.

    Parameters
    ----------
    dense
        ``H x W`` disparity in px wherever the method has any answer, not finite elsewhere.
    confidence
        ``H x W``, higher is more certain, in any unit. An answer with unknown confidence (NaN) comes last.
    truth, window, thresholds, region, own_truth
        As for :func:`~scotopic.evaluation.metrics.score`.
    points
        The most points to keep, their coverage rising with the square of their number, since sparse methods are
        compared where few pixels are kept; the areas are exact whatever it is.

    Returns
    -------
    Curve
        Without a point where no pixel is scored. The first point may keep many pixels: those of equal confidence come
        together, and points that keep no scored pixel yet are left out. The last keeps every answer.
    """
    check_thresholds(thresholds)
    if isinstance(points, bool) or not isinstance(points, int | np.integer) or points < 1:
        raise SettingsError(f"The number of points must be 1 or more, not {points!r}. The default is 200.")
    error = scored_error(dense, truth, window, own_truth)
    inside = as_region(region, error.shape)
    answered = inside & np.isfinite(np.asarray(masked_to_nan(dense), np.float64))
    certainty = _as_certainty(confidence, answered)
    error, certainty = error[answered], certainty[answered]
    # Equals by error, so that sums are taken in one order wherever the pixels lie; unknown errors come last.
    order = np.lexsort((error, -certainty))
    error, certainty = error[order], certainty[order]
    scored = ~np.isnan(error)
    # The last of each run of equal confidence, and how many are kept and scored up to there.
    ends = np.flatnonzero(np.append(certainty[1:] != certainty[:-1], True)) if error.size else np.zeros(0, np.intp)
    kept = np.cumsum(scored)[ends]
    ends, kept = ends[kept > 0], kept[kept > 0]
    error = error[scored]
    shown = _choose_points(ends, points)
    at = kept[shown]

    best = np.sort(error)  # the oracle's order; it puts the good before the bad, whatever K, and so serves Bad-K too
    risks, oracles = ([each, *(np.where(each > k, 100.0, 0.0) for k in thresholds)] for each in (error, best))
    areas = [
        Area(_area(_average_runs(risk, kept)), _area(oracle)) if error.size else Area(math.nan, math.nan)
        for risk, oracle in zip(risks, oracles, strict=True)
    ]
    curves, oracle_curves = ([np.cumsum(each)[at - 1] / at for each in group] for group in (risks, oracles))
    return Curve(
        confidence=certainty[ends[shown]],
        coverage=(ends[shown] + 1) / np.count_nonzero(inside),
        share=at / max(error.size, 1),
        epe=curves[0],
        bad=dict(zip(thresholds, curves[1:], strict=True)),
        oracle_epe=oracle_curves[0],
        oracle_bad=dict(zip(thresholds, oracle_curves[1:], strict=True)),
        epe_area=areas[0],
        bad_area=dict(zip(thresholds, areas[1:], strict=True)),
        pixels=int(error.size),
        window=int(window),
    )


def at_coverage(dense: NDArray[Any], confidence: NDArray[Any], share: float) -> NDArray[np.float32]:
    """Keep the most certain answers of a method: as many as are a given share of ALL pixels of the image.

    This is matched coverage: methods that answer different numbers of pixels are compared at one coverage, each by its
    own confidence.

    Raises :class:`InputError` if the maps are not two-dimensional, are empty, or differ in size. Raises
    :class:`SettingsError` if `share` is not in [0, 1].

    Parameters
    ----------
    dense, confidence
        As for :func:`risk_coverage`.
    share
        Share of the ``H * W`` pixels to keep, in [0, 1]; their number is rounded to the nearest.

    Returns
    -------
    ndarray of float32
        ``H x W``, NaN where nothing is kept. Where the method has fewer answers, all of them are kept: the coverage is
        then less than `share`, and must be shown.

    Notes
    -----
    Where a run of equal confidences has to be cut, the pixels of it that are kept are spread over the image: those with
    the lowest ``(2654435761 * i) mod 2^32`` for pixel ``i`` in reading order (Knuth's multiplicative hash). The choice
    is the same on every machine, looks at no value, and prefers no side of the image.

    Examples
    --------
    >>> import numpy as np
    >>> at_coverage(np.array([[4.0, 5.0, 6.0, np.nan]]), np.array([[0.1, 0.9, 0.5, 1.0]]), 0.5)
    array([[nan,  5.,  6., nan]], dtype=float32)
    """
    if not 0 <= share <= 1:
        raise SettingsError(f"The share of pixels to keep must be between 0 and 1, not {share}. Divide percent by 100.")
    answers = np.array(masked_to_nan(dense), np.float32)
    if answers.ndim != 2 or answers.size == 0:
        raise InputError(f"The disparity must be one dense map H x W, but has shape {answers.shape}.")
    certainty = _as_certainty(confidence, np.isfinite(answers)).ravel()
    answered = np.flatnonzero(np.isfinite(answers))
    scattered = (answered.astype(np.uint64) * np.uint64(2654435761)) % np.uint64(2**32)
    order = answered[np.lexsort((scattered, -certainty[answered]))]
    kept = order[: math.floor(share * answers.size + 0.5)]
    result = np.full(answers.shape, np.nan, np.float32)
    result.flat[kept] = answers.flat[kept]
    return result


def _as_certainty(confidence: NDArray[Any], answered: NDArray[np.bool_]) -> Values:
    """The confidence as float64, lowest where it is unknown; warn if it is unknown for every answer."""
    certainty = np.array(masked_to_nan(confidence), np.float64)
    if certainty.shape != answered.shape:
        raise InputError(f"The confidence has shape {certainty.shape}, but its disparity has {answered.shape}.")
    unknown = np.isnan(certainty)
    if answered.any() and unknown[answered].all():
        told = (
            "The confidence is NaN wherever there is a disparity, so it ranks nothing, and the surest pixels are any. "
            "Store a number for each pixel."
        )
        warnings.warn(told, PairWarning, stacklevel=1)  # from one place: said once, however many scores are made
    certainty[unknown] = -np.inf
    return certainty


def _average_runs(risk: Values, ends: NDArray[np.intp]) -> Values:
    """Replace the risks of each run by their mean; ``ends`` are the numbers of pixels up to the end of each run."""
    starts = np.concatenate(([0], ends[:-1]))
    lengths = ends - starts
    filled = lengths > 0  # a run of pixels without truth has no risk
    means = np.add.reduceat(risk, starts[filled]) / lengths[filled]
    return np.repeat(means, lengths[filled])


def _area(risk: Values) -> float:
    """Mean over k of the mean of the first k risks."""
    return float(np.mean(np.cumsum(risk) / np.arange(1, risk.size + 1)))


def _choose_points(ends: NDArray[np.intp], points: int) -> NDArray[np.intp]:
    """Indices of at most ``points`` of the rising ``ends``, denser where few pixels are kept, the last among them."""
    if ends.size <= points:
        return np.arange(ends.size)
    wanted = ends[-1] * (np.arange(1, points + 1) / points) ** 2
    return np.unique(np.searchsorted(ends, wanted))
