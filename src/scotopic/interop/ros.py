"""A match as ROS messages, without ROS: dictionaries with the fields of the message.

A ``stereo_msgs/DisparityImage``, and depth and confidence as ``sensor_msgs/Image``. The node in ``ros2/`` publishes
them; in one of your own, ``rosidl_runtime_py.set_message_fields(message, dictionary)`` fills a message. ROS 1 calls the
baseline ``T`` and the parts of a stamp ``secs`` and ``nsecs``.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.depth import Calibration, depth_from_disparity
from scotopic.errors import InputError, SettingsError
from scotopic.result import Match

DEPTH_ENCODINGS = ("32FC1", "16UC1")  #: meters or millimeters


def disparity_image(
    match: Match,
    calibration: Any = None,
    *,
    fx: float | None = None,
    baseline: float | None = None,
    doffs: float | None = None,
    frame_id: str = "",
    stamp: Any = 0.0,
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
        Time at which the pair was taken: seconds, or the stamp of a message (with ``sec`` and ``nanosec``), which is
        kept to the nanosecond, so that others can pair the result with the image.
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
    header = _header(frame_id, stamp)
    matching = match.settings.matching
    first = matching.min_disparity
    last = (width if matching.max_disparity is None else matching.max_disparity) - 1
    # Rounded as the values are, so that the first disparity of the search is not below it.
    lowest = np.float32(first) + np.float32(camera.doffs)
    values = np.where(match.mask, match.disparity + np.float32(camera.doffs), lowest - 1).astype("<f4")
    # A left pixel can have a disparity if at least one candidate lies inside the right image.
    left, right = max(0, first), min(width, width + last)
    columns = {"x_offset": left, "width": max(0, right - left)}
    return {
        "header": header,
        "image": _image(values, "32FC1", header),
        "f": camera.fx,
        "t": camera.baseline,
        "valid_window": {**columns, "y_offset": 0, "height": height, "do_rectify": False},
        "min_disparity": float(lowest),
        "max_disparity": float(last + camera.doffs),
        "delta_d": float(delta_d),
    }


def depth_image(
    match: Match,
    calibration: Any = None,
    *,
    fx: float | None = None,
    baseline: float | None = None,
    doffs: float | None = None,
    frame_id: str = "",
    stamp: Any = 0.0,
    encoding: str = "32FC1",
) -> dict[str, Any]:
    """Return the depth of a match as the fields of a ``sensor_msgs/Image``, as REP 118 has it.

    Parameters
    ----------
    match, calibration, fx, baseline, doffs, frame_id, stamp
        As for :func:`disparity_image`.
    encoding
        ``"32FC1"``: meters, NaN where there is none. ``"16UC1"``: millimeters, 0 where there is none or it is above
        65.535 m.

    Raises
    ------
    SettingsError
        As for :func:`disparity_image`; or the encoding is another one.
    """
    if encoding not in DEPTH_ENCODINGS:
        raise SettingsError(f"The depth encoding is {encoding!r}. Choose one of {', '.join(DEPTH_ENCODINGS)}.")
    match = match.to_numpy()
    height, width = match.disparity.shape
    camera = as_calibration(calibration, (height, width), fx=fx, baseline=baseline, doffs=doffs)
    meters = depth_from_disparity(match.disparity, camera)
    values: NDArray[Any] = np.where(np.isfinite(meters), meters, np.float32(np.nan)).astype("<f4")
    if encoding == "16UC1":
        millimeters = np.rint(1000 * np.nan_to_num(values))
        values = np.where(millimeters <= 65535, millimeters, 0).astype("<u2")
    return _image(values, encoding, _header(frame_id, stamp))


def confidence_image(match: Match, *, frame_id: str = "", stamp: Any = 0.0) -> dict[str, Any]:
    """Return the confidence of a match, in [0, 1], as the fields of a ``sensor_msgs/Image`` of encoding 32FC1.

    `frame_id` and `stamp` are those of :func:`disparity_image`.
    """
    return _image(match.to_numpy().confidence.astype("<f4"), "32FC1", _header(frame_id, stamp))


def _header(frame_id: str, stamp: Any) -> dict[str, Any]:
    """Return the fields of a ``std_msgs/Header``."""
    if hasattr(stamp, "nanosec"):
        seconds, nanoseconds = int(stamp.sec), int(stamp.nanosec)
    elif stamp >= 0 and math.isfinite(stamp):
        seconds, nanoseconds = divmod(round(stamp * 1e9), 1_000_000_000)
    else:
        raise SettingsError(f"The stamp is {stamp}. Pass the time of the pair in seconds, at least 0.")
    return {"stamp": {"sec": seconds, "nanosec": nanoseconds}, "frame_id": frame_id}


def _image(values: NDArray[Any], encoding: str, header: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a ``sensor_msgs/Image`` of one channel, whose values are little-endian."""
    height, width = values.shape
    return {
        "header": header,
        "height": height,
        "width": width,
        "encoding": encoding,
        "is_bigendian": 0,
        "step": values.itemsize * width,
        "data": values.tobytes(),
    }


def as_calibration(calibration: Any, shape: tuple[int, int], **numbers: float | None) -> Calibration:
    """Return the calibration of images of a shape ``(height, width)``, from an object with its attributes and numbers.

    Numbers replace the attributes. The principal point is the center of the image, ``fy`` is ``fx`` and ``doffs`` is 0
    by default. Raises :class:`SettingsError` if ``fx`` or ``baseline`` is missing, a number is impossible, or the
    object says that it is for images of another size.
    """
    size = getattr(calibration, "width", None), getattr(calibration, "height", None)
    if None not in size and size != shape[::-1]:
        raise SettingsError(
            f"The disparity map is {shape[1]} x {shape[0]} px, but the calibration is for {size[0]} x {size[1]} px. "
            "Resize or crop the calibration as the images were."
        )
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
