"""Between two samples: where an extremum lies, and which pixel is nearest."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def parabola_offset(before: Any, here: Any, after: Any, xp: Any = np) -> Any:
    """Return how far, in samples, the extremum of the parabola through three neighboring values is from the middle one.

    With the values ``t[k-1], t[k], t[k+1]`` the extremum is at ``k + (t[k-1] - t[k+1]) / (2 c)``, where
    ``c = t[k-1] - 2 t[k] + t[k+1]`` is the curvature: a minimum if ``c > 0``, a maximum if ``c < 0``. Where ``c`` is 0
    there is none, and the offset is 0.

    Parameters
    ----------
    before, here, after
        Numbers or arrays of one shape.
    xp
        Array namespace that they belong to.
    """
    curvature = before - 2 * here + after
    is_straight = curvature == 0
    return xp.where(is_straight, 0.0, (before - after) / xp.where(is_straight, 1, 2 * curvature))


def flank_offset(costs: Sequence[Any], xp: Any = np) -> tuple[Any, Any]:
    """Return where a minimum lies between its flanks, as a weight and an offset times this weight.

    Take five costs ``c[-2] ... c[2]``, the middle one the lowest, and let ``c[-1]`` be above ``c[1]``. The other flank
    is as high as ``c[-1]`` between 1 and 2, at ``1 + n / k`` with ``n = c[-1] - c[1]`` and ``k = c[2] - c[1]``. The
    minimum is halfway between the flanks, at ``n / (2 k)``. That is exact for costs like ``|x|``, where a parabola is
    drawn to the middle sample, and off by less than 0.06 for costs like ``x^2``. The weight is ``2 k``, so that of
    several noisy minima the mean offset is the sum of the second values over that of the first.

    Parameters
    ----------
    costs
        Five arrays of one shape.
    xp
        Array namespace that they belong to.
    """
    far_below, below, _, above, far_above = costs
    difference = below - above
    slope = xp.where(difference > 0, far_above - above, far_below - below)
    # The minimum lies within half a sample, whatever noise makes of the flank.
    slope = xp.maximum(slope, xp.abs(difference))
    return 2 * slope, difference


def nearest_pixel(place: Any, xp: Any = np) -> Any:
    """Return the nearest pixel to a place, halves upward: the one rounding of where a pixel lands in the other view."""
    return xp.floor(place + 0.5)
