"""The one way in which tests compare maps: within a tolerance, but for a stated share of outliers."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def assert_maps_agree(actual: ArrayLike, expected: ArrayLike, tolerance: float, outliers: float = 0.0) -> None:
    """Fail unless two maps of one shape agree.

    Parameters
    ----------
    actual, expected
        Maps of any shape. NaN agrees with NaN and with nothing else.
    tolerance
        The largest difference between values that agree.
    outliers
        The share of the values, in [0, 1], that may differ by more. A float32 kernel may fall on the other side of a
        near tie; it may do so rarely.
    """
    actual, expected = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
    assert actual.shape == expected.shape, f"shapes differ: {actual.shape} and {expected.shape}"
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        difference = np.where(actual == expected, 0.0, np.abs(actual - expected))
    unknown = np.isnan(actual), np.isnan(expected)
    difference[unknown[0] & unknown[1]] = 0.0
    difference[unknown[0] != unknown[1]] = np.inf
    off = ~(difference <= tolerance)
    if off.mean() > outliers:
        worst = np.unravel_index(int(np.argmax(difference)), difference.shape)
        raise AssertionError(
            f"{off.sum()} of {off.size} values ({off.mean():.4%}) differ by more than {tolerance:g}, "
            f"at most {outliers:.4%} may; the worst by {difference[worst]:g} at {tuple(map(int, worst))}: "
            f"{actual[worst]} for {expected[worst]}"
        )
