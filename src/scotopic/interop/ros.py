"""A match as a ROS ``stereo_msgs/DisparityImage``, without ROS: a dictionary with the fields of the message.

In a node, ``rosidl_runtime_py.set_message_fields(message, dictionary)`` fills the message. ROS 1 calls the baseline
``T`` and the parts of a stamp ``secs`` and ``nsecs``.
"""

import math
from typing import Any

import numpy as np

from scotopic.depth import Calibration
from scotopic.errors import InputError, SettingsError
from scotopic.result import Match


def disparity_image(
    match: Match,
    calibration: Any = None,
    *,
    fx: float | None = None,
    baseline: float | None = None,
    doffs: float | None = None,
    frame_id: str = "",
    stamp: float = 0.0,
    delta_d: float = 1.0,
) -> dict[str, Any]:
    """Return a match as the fields of a ``stereo_msgs/DisparityImage``.

    Parameters
    ----------
    match
        The result of :func:`scotopic.match`.
    calibration
        A :class:`~scotopic.depth.Calibration`, or another object with ``fx`` (px), ``baseline`` (m) and perhaps
        ``doffs`` (px).
    fx, baseline, doffs
        Numbers that replace those of the object.
    frame_id
        Of the left camera's optical frame.
    stamp
        Time at which the pair was taken, in seconds.
    delta_d
        Smallest step of disparity, px. The candidates are whole pixels, so it is 1.

    Returns
    -------
    dict
        ``header``, ``image`` (32FC1, little-endian), ``f``, ``t``, ``valid_window``, ``min_disparity``,
        ``max_disparity`` and ``delta_d``. By the message's definition disparities are ``x_l - x_r - (cx_l - cx_r)``,
        which is ours plus ``doffs``, and values below ``min_disparity`` are invalid: pixels without a disparity lie
        1 px below it.

    Raises
    ------
    SettingsError
        The focal length or the baseline is missing or impossible, or the stamp is negative.
    """
    match = match.to_numpy()
    height, width = match.disparity.shape
    camera = as_calibration(calibration, (height, width), fx=fx, baseline=baseline, doffs=doffs)
    if not (stamp >= 0 and math.isfinite(stamp)):
        raise SettingsError(f"The stamp is {stamp}. Pass the time of the pair in seconds, at least 0.")
    matching = match.settings.matching
    first = matching.min_disparity
    last = (width if matching.max_disparity is None else matching.max_disparity) - 1
    lowest = first + camera.doffs
    values = np.where(match.mask, match.disparity + np.float32(camera.doffs), np.float32(lowest - 1)).astype("<f4")
    nanoseconds = round(stamp * 1e9)
    header = {
        "stamp": {"sec": nanoseconds // 1_000_000_000, "nanosec": nanoseconds % 1_000_000_000},
        "frame_id": frame_id,
    }
    # A left pixel can have a disparity if at least one candidate lies inside the right image.
    left, right = max(0, first), min(width, width + last)
    columns = {"x_offset": left, "width": max(0, right - left)}
    return {
        "header": header,
        "image": {
            "header": header,
            "height": height,
            "width": width,
            "encoding": "32FC1",
            "is_bigendian": 0,
            "step": 4 * width,
            "data": values.tobytes(),
        },
        "f": camera.fx,
        "t": camera.baseline,
        "valid_window": {**columns, "y_offset": 0, "height": height, "do_rectify": False},
        "min_disparity": float(lowest),
        "max_disparity": float(last + camera.doffs),
        "delta_d": float(delta_d),
    }


def as_calibration(calibration: Any, shape: tuple[int, int], **numbers: float | None) -> Calibration:
    """Return the calibration of images of a shape ``(height, width)``, from an object with its attributes and numbers.

    Numbers replace the attributes. The principal point is the center of the image, ``fy`` is ``fx`` and ``doffs`` is 0
    by default. Raises :class:`SettingsError` if ``fx`` or ``baseline`` is missing, or a number is impossible.
    """
    found: dict[str, float] = {"cx": (shape[1] - 1) / 2, "cy": (shape[0] - 1) / 2}
    for name in ("fx", "fy", "cx", "cy", "baseline", "doffs"):
        given = numbers.get(name)
        value = getattr(calibration, name, None) if given is None else given
        if value is not None:
            try:
                found[name] = float(value)
            except (TypeError, ValueError):
                raise SettingsError(f"The calibration has {name} = {value!r}, which is not a number.") from None
    missing = [name for name in ("fx", "baseline") if name not in found]
    if missing:
        raise SettingsError(
            f"The calibration has no {' and no '.join(missing)}. Pass the focal length fx in px and the baseline in "
            "meters."
        )
    if numbers.get("fx") is not None or "fy" not in found:
        found["fy"] = found["fx"]
    try:
        return Calibration(**found)  # type: ignore[arg-type]
    except InputError as error:
        raise SettingsError(str(error)) from error
