"""A match as a ROS ``stereo_msgs/DisparityImage``, without ROS: a plain dictionary with the message's fields.

In a node, ``rosidl_runtime_py.set_message_fields(message, dictionary)`` fills the message. ROS 1 calls the baseline
``T`` and a stamp's parts ``secs`` and ``nsecs``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from scotopic.errors import SettingsError
from scotopic.interop.camera import as_camera
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
        An object with ``fx`` (px), ``baseline`` (m) and perhaps ``doffs`` (px), such as a
        ``scotopic.depth.Calibration``.
    fx, baseline, doffs
        The same as numbers, instead or before the object's.
    frame_id
        Of the left camera's optical frame.
    stamp
        Seconds at which the pair was taken.
    delta_d
        Smallest step of disparity, px. Candidates are whole pixels, and what is finer is averaged over patches, so it
        is 1.

    Returns
    -------
    dict
        ``header``, ``image`` (32FC1, little-endian), ``f``, ``t``, ``valid_window``, ``min_disparity``,
        ``max_disparity`` and ``delta_d``. By the message's definition disparities are ``x_l - x_r - (cx_l - cx_r)``,
        which is ours plus ``doffs``, and whatever is below ``min_disparity`` is invalid: pixels without an answer lie
        1 px below it.

    Raises
    ------
    SettingsError
        The focal length or the baseline is missing or makes no sense, or the stamp is negative.
    """
    match = match.to_numpy()
    camera = as_camera(calibration, fx=fx, baseline=baseline, doffs=doffs)
    if not (stamp >= 0 and math.isfinite(stamp)):
        raise SettingsError(f"stamp: found {stamp}, expected seconds from 0 on; pass the time of the pair")
    height, width = match.disparity.shape
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
    # A left pixel can have an answer where at least one candidate's partner lies inside the right image.
    left, right = max(0, first), min(width, width + last)
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
        "valid_window": {
            "x_offset": left,
            "y_offset": 0,
            "height": height,
            "width": max(0, right - left),
            "do_rectify": False,
        },
        "min_disparity": float(lowest),
        "max_disparity": float(last + camera.doffs),
        "delta_d": float(delta_d),
    }
