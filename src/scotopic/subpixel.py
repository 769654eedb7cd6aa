"""Between two samples: where an extremum lies, and which pixel is nearest."""

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


def nearest_pixel(place: Any, xp: Any = np) -> Any:
    """Return the nearest pixel to a place, halves upward: the one rounding of where a pixel lands in the other view."""
    return xp.floor(place + 0.5)
