"""The few numbers of a calibration that turn disparity into depth, from whatever holds them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import SettingsError


@dataclass(frozen=True)
class Camera:
    """The left camera of a rectified rig.

    Attributes
    ----------
    fx
        Focal length in px.
    baseline
        Meters from the left camera to the right one.
    doffs
        ``cx_right - cx_left`` in px, so that ``Z = fx * baseline / (d + doffs)``.
    cx, cy
        Principal point in px, or None where nobody needs it.
    """

    fx: float
    baseline: float
    doffs: float = 0.0
    cx: float | None = None
    cy: float | None = None

    def depth(self, disparity: NDArray[np.floating]) -> NDArray[np.float32]:
        """Return depth in meters; NaN where there is no disparity, or none in front of the camera."""
        adjusted = disparity.astype(np.float64) + self.doffs
        with np.errstate(invalid="ignore"):
            seen = np.where(adjusted > 0, adjusted, np.nan)
        return (self.fx * self.baseline / seen).astype(np.float32)


def as_camera(calibration: Any = None, **numbers: float | None) -> Camera:
    """Return a camera from an object with the attributes of :class:`Camera`, from numbers, or from both.

    Parameters
    ----------
    calibration
        Such as a ``scotopic.depth.Calibration``; attributes that it lacks are missing.
    **numbers
        Fields of :class:`Camera`; they go before the object's.

    Raises
    ------
    SettingsError
        The focal length or the baseline is missing, or a number makes no sense.
    """
    found: dict[str, float] = {}
    for name in ("fx", "baseline", "doffs", "cx", "cy"):
        given = numbers.get(name)
        value = getattr(calibration, name, None) if given is None else given
        if value is None:
            continue
        try:
            found[name] = float(value)
        except (TypeError, ValueError):
            found[name] = math.nan
        above = name in ("fx", "baseline")
        if not math.isfinite(found[name]) or (above and found[name] <= 0):
            expected = "a finite number above 0" if above else "a finite number"
            raise SettingsError(f"calibration: found {name} = {value!r}, expected {expected}; correct it")
    missing = [name for name in ("fx", "baseline") if name not in found]
    if missing:
        raise SettingsError(
            f"calibration: found no {' and no '.join(missing)}, expected the focal length in px and the baseline in "
            f"meters; pass {missing[0]}=... or an object that has it"
        )
    return Camera(**found)
