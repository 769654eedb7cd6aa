"""Images as ROS sends them: ``sensor_msgs/Image`` and ``sensor_msgs/CompressedImage``, of ROS 1 and 2.

Any object with the fields of the message will do, so nothing of ROS is needed. Values stay as recorded. Color is RGB,
alpha is dropped, and what is between the pixels of a color mosaic is interpolated by OpenCV, so that the image keeps
the size that its calibration has.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError
from scotopic.io.images import call_opencv, decode_data
from scotopic.io.input_file import check_memory

_MOST_PIXELS = 1 << 30  # along a side; far beyond any camera


class _Encoding(NamedTuple):
    kind: str  # NumPy's name of the type of a value
    channels: int
    order: tuple[int, ...] | None = None  # of the channels that are kept, red first
    mosaic: str | None = None  # OpenCV's name of the conversion to RGB


_ENCODINGS: dict[str, _Encoding] = {
    "mono8": _Encoding("u1", 1),
    "mono16": _Encoding("u2", 1),
    "8UC1": _Encoding("u1", 1),
    "16UC1": _Encoding("u2", 1),
    "32FC1": _Encoding("f4", 1),
    # Without a word about color, three channels are blue, green and red, as in OpenCV.
    "8UC3": _Encoding("u1", 3, (2, 1, 0)),
    "16UC3": _Encoding("u2", 3, (2, 1, 0)),
    **{
        f"{name}{bits}": _Encoding(f"u{bits // 8}", len(name), tuple(name.index(color) for color in "rgb"))
        for name in ("rgb", "bgr", "rgba", "bgra")
        for bits in (8, 16)
    },
    **{
        f"bayer_{cell}{bits}": _Encoding(f"u{bits // 8}", 1, mosaic=f"COLOR_Bayer{cell.upper()}2RGB")
        for cell in ("rggb", "bggr", "gbrg", "grbg")
        for bits in (8, 16)
    },
    # Two names each, from before and after ROS 2 Iron.
    **dict.fromkeys(("yuv422", "uyvy"), _Encoding("u1", 2, mosaic="COLOR_YUV2RGB_UYVY")),
    **dict.fromkeys(("yuv422_yuy2", "yuyv"), _Encoding("u1", 2, mosaic="COLOR_YUV2RGB_YUYV")),
}
ENCODINGS = tuple(_ENCODINGS)  #: of ``sensor_msgs/Image`` that can be read


def image_from_message(message: Any, title: str = "The image message") -> NDArray[Any]:
    """Return the image of a message: uint8, uint16 or float32, ``H x W`` (gray) or ``H x W x 3`` (RGB).

    Parameters
    ----------
    message
        With the fields of ``sensor_msgs/Image`` or ``sensor_msgs/CompressedImage`` (JPEG, PNG and what else
        :func:`~scotopic.io.read_image` reads).
    title
        How an error message names it.

    Raises
    ------
    InputError
        The encoding is unknown, the data are fewer than announced or not an image, or the image is too large.
    """
    if hasattr(message, "encoding"):
        return _plain_image(message, title)
    data = bytes(_buffer(message.data, title))
    image = decode_data(data, title)[0]
    if image.dtype not in (np.uint8, np.uint16) or (image.ndim == 3 and image.shape[2] != 3):
        raise InputError(
            f"{title} is compressed as {str(message.format)[:40]!r}, which holds {image.dtype} of shape {image.shape}. "
            "Record gray or color images of 8 or 16 bits."
        )
    if image.ndim == 3:
        return np.ascontiguousarray(image[:, :, ::-1])  # OpenCV has blue first
    # "bayer_rggb8; png compressed": a mosaic is compressed as it is, as if it were gray.
    recorded = _ENCODINGS.get(str(message.format).partition(";")[0].strip())
    if recorded is not None and recorded.mosaic is not None and recorded.channels == 1:
        return _interpolated(image[..., None], recorded.mosaic, title)
    return image


def _plain_image(message: Any, title: str) -> NDArray[Any]:
    encoding = _ENCODINGS.get(message.encoding)
    if encoding is None:
        raise InputError(
            f"{title} has the encoding {str(message.encoding)[:40]!r}, which is not known here. Record one of "
            f"{', '.join(ENCODINGS)}."
        )
    height, width, step = int(message.height), int(message.width), int(message.step)
    kind = np.dtype(encoding.kind).newbyteorder(">" if message.is_bigendian else "<")
    row = width * encoding.channels * kind.itemsize
    if not (0 < width <= _MOST_PIXELS and 0 < height <= _MOST_PIXELS):
        raise InputError(f"{title} is {width} x {height} px, which is not a size. Check the camera's driver.")
    check_memory(title, f"{width} x {height} px of {message.encoding}", 12 * width * height)
    data = _buffer(message.data, title)
    # The last row may end before its padding.
    if step < row or data.size < step * (height - 1) + row:
        raise InputError(
            f"{title} announces {width} x {height} px of {message.encoding} in rows of {step} bytes, but has "
            f"{data.size} bytes. It is damaged, or its driver is wrong."
        )
    rows = np.lib.stride_tricks.as_strided(data, (height, row), (step, 1), writeable=False)
    values = np.ascontiguousarray(rows).view(kind).astype(kind.newbyteorder("="), copy=False)
    if encoding.mosaic is not None:
        return _interpolated(values.reshape(height, width, -1), encoding.mosaic, title)
    if encoding.order is not None:
        return np.ascontiguousarray(values.reshape(height, width, -1)[:, :, list(encoding.order)])
    return values.reshape(height, width)


def _interpolated(values: NDArray[Any], conversion: str, title: str) -> NDArray[Any]:
    import cv2

    image = call_opencv(cv2.cvtColor, values, getattr(cv2, conversion))
    if image is None:
        height, width = values.shape[:2]
        raise InputError(f"{title}: OpenCV cannot make colors of {width} x {height} px. Record color or gray images.")
    found: NDArray[Any] = np.asarray(image)
    return found


def _buffer(data: Any, title: str) -> NDArray[np.uint8]:
    """Return the bytes of a message, whatever holds them."""
    try:
        return np.frombuffer(data, np.uint8)
    except (TypeError, ValueError) as error:
        raise InputError(f"{title} holds no bytes. It is damaged.") from error
