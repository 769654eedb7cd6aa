"""The Gaussian that every backend blurs with."""

import math

import numpy as np
from numpy.typing import NDArray


def gaussian_kernel(sigma: float) -> NDArray[np.float64]:
    """Return the weights of a Gaussian blur, cut at three sigma, normalized to a sum of 1."""
    reach = max(math.ceil(3 * sigma), 1)
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    return np.asarray(weights / weights.sum())


def cascade_blurs(windows: list[float]) -> list[float]:
    """Return the blur to apply after each of several nested windows, the widest first, so that each comes out whole.

    A blur by 8 is a blur by 4 of a blur by ``sqrt(8^2 - 4^2)``.
    """
    widths = [*windows, 0.0]
    return [math.sqrt(widths[k] ** 2 - widths[k + 1] ** 2) for k in range(len(windows))]
