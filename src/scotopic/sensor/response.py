"""The response of a camera: how light becomes a recorded value. Linear, sRGB, or a known gamma.

Responses act on values in [0, 1], from black to white. They are never applied unasked: an image is matched as it was
recorded, unless its reader is told to linearize it.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scotopic.errors import SettingsError
from scotopic.io.masks import keep_mask

Response = str | float  #: ``"linear"``, ``"srgb"``, or gamma: recorded = light ** (1 / gamma)


def check_response(response: Response) -> None:
    """Raise :class:`SettingsError` if the response is none of those above."""
    if response in ("linear", "srgb"):
        return
    is_number = isinstance(response, int | float) and not isinstance(response, bool)
    if not is_number or not 0 < float(response) < math.inf:
        raise SettingsError(f"response must be 'linear', 'srgb' or a gamma above 0 such as 2.2, not {response!r}.")


def linearize(values: ArrayLike, response: Response = "srgb") -> NDArray[np.float64]:
    """Undo a response: from recorded values to light, both in [0, 1].

    Parameters
    ----------
    values
        Recorded values, any shape. For values below 0, as noise may make them, the curve is point-symmetric. A masked
        array keeps its mask.
    response
        ``"srgb"`` (IEC 61966-2-1), a gamma, or ``"linear"``, which changes nothing.

    Returns
    -------
    ndarray of float64
        Light, with the shape of `values`.

    Raises
    ------
    SettingsError
        The response is unknown.

    Examples
    --------
    >>> [round(float(v), 4) for v in linearize([0.0, 0.5, 1.0])]
    [0.0, 0.214, 1.0]
    """
    check_response(response)
    recorded = np.asarray(values, np.float64)
    if response == "linear":
        return keep_mask(recorded.copy(), values)  # type: ignore[no-any-return]
    size = np.abs(recorded)
    if response == "srgb":
        light = np.where(size <= 0.04045, size / 12.92, ((size + 0.055) / 1.055) ** 2.4)
    else:
        light = size ** float(response)
    return keep_mask(np.copysign(light, recorded), values)  # type: ignore[no-any-return]


def record(light: ArrayLike, response: Response = "srgb") -> NDArray[np.float64]:
    """Apply a response: from light to recorded values. The inverse of :func:`linearize`."""
    check_response(response)
    values = np.asarray(light, np.float64)
    if response == "linear":
        return keep_mask(values.copy(), light)  # type: ignore[no-any-return]
    size = np.abs(values)
    if response == "srgb":
        # 0.04045 / 12.92 rather than the standard's rounded 0.0031308, so that the two functions are exact inverses.
        curved = 1.055 * np.maximum(size, 1e-12) ** (1 / 2.4) - 0.055
        recorded = np.where(size <= 0.04045 / 12.92, 12.92 * size, curved)
    else:
        recorded = size ** (1 / float(response))
    return keep_mask(np.copysign(recorded, values), light)  # type: ignore[no-any-return]
