"""Images from files and arrays, in the one form that the rest works on."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError, OutputError
from scotopic.io.atomic import atomic_path
from scotopic.io.pfm import plain_file_size, read_pfm

# The decoder counts bytes in 32 bits; nothing larger is an image of ours either.
_FILE_LIMIT = 2**31 - 1
# OpenCV would read the thumbnail in the first of these as if it were the picture.
_RAW_SUFFIXES = (".dng", ".cr2", ".cr3", ".nef", ".arw", ".raf", ".orf", ".rw2")
_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
# A linear image may overshoot [0, 1] a little (noise around black, resampling); 255 or 65535 is another scale.
_FLOAT_RANGE = (-1.0, 2.0)


def read_image(path: str | os.PathLike[str]) -> NDArray[Any]:
    """Read an image file as recorded: no scaling, no linearizing, no rotation by metadata.

    Parameters
    ----------
    path : str or path
        PNG, JPEG, TIFF, PGM/PPM, PFM or whatever else OpenCV decodes. Of several pages the first is read.

    Returns
    -------
    ndarray of uint8, uint16 or float32
        ``H x W`` (gray) or ``H x W x 3`` (RGB).

    Raises
    ------
    InputError
        The file is missing, not a file, not an image, cut short, has an alpha channel or another type of numbers.
    """
    shown = repr(os.fspath(path))
    if Path(path).suffix.lower() in _RAW_SUFFIXES:
        raise InputError(
            f"{shown}: found a camera's raw file, expected an image; read it with scotopic.sensor.read_raw, or use "
            "scotopic match, which does"
        )
    if Path(path).suffix.lower() == ".pfm":
        return read_pfm(path)
    size = plain_file_size(path)
    if size > _FILE_LIMIT:
        raise InputError(f"{shown}: found {size} bytes, expected an image of less than 2 GiB; make it smaller")
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InputError(
            f"{shown}: reading stopped with {error.strerror or error}, expected a readable image; "
            "check its permissions and the disk"
        ) from error
    if data[:2] in (b"PF", b"Pf"):  # whatever its name: OpenCV would take the size of the scale for a factor
        return read_pfm(path)
    image = None if _is_cut_short(data) else _decode(data)
    if image is None:
        raise InputError(
            f"{shown}: found no readable image in {len(data)} bytes, expected PNG, JPEG, TIFF, PGM/PPM or PFM, whole; "
            "check that it opens in an image viewer, or fetch it again"
        )
    if image.ndim == 3 and image.shape[2] in (2, 4):
        raise InputError(
            f"{shown}: found an alpha channel, expected gray or RGB; remove alpha (flatten the image) and save it again"
        )
    if image.dtype == np.float64:
        image = image.astype(np.float32)
    if image.dtype not in (np.uint8, np.uint16, np.float32):
        raise InputError(f"{shown}: found {image.dtype} values, expected uint8, uint16 or float32; convert the file")
    return image if image.ndim == 2 else np.ascontiguousarray(image[:, :, ::-1])  # OpenCV has blue first


def image_title(source: Any, name: str) -> str:
    """Return what to call an image in a message: its role, and its path if it came from a file."""
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        return repr(path) if name == path else f"{name} image {path!r}"
    return f"{name} image"


def as_image(source: Any, name: str) -> NDArray[np.float32]:
    """Bring a file or an array into the form of every image here: float32 ``H x W x C`` of full scale.

    Parameters
    ----------
    source : str, path or array
        A file for :func:`read_image`, or an array ``H x W`` or ``H x W x C`` with C = 1 or 3. uint8 is divided by 255,
        uint16 by 65535, bool becomes 0 and 1, floats are taken as they are. They may overshoot [0, 1] a little, as
        noise does, and keep that.
    name : str
        What to call the image in an error message: "left", "right", or its path.

    Returns
    -------
    ndarray of float32
        ``H x W x C``, C-contiguous, always a copy: `source` is never changed and never shared.

    Raises
    ------
    InputError
        `source` is not an image of such a shape and type, or has values that are not finite or not scaled.
    """
    title = image_title(source, name)
    if isinstance(source, str | os.PathLike):
        try:
            array = read_image(source)
        except InputError as error:
            role = "" if name == os.fspath(source) else f"{name} image "
            raise InputError(f"{role}{error}") from error
    else:
        array = _as_array(source, title)
    _check_shape(array, title)
    kind, itemsize = array.dtype.kind, array.dtype.itemsize
    if kind == "u" and itemsize <= 2:
        image = array.astype(np.float32) / np.float32(255 if itemsize == 1 else 65535)
    elif kind == "b":
        image = array.astype(np.float32)
    elif kind == "f" and itemsize <= 8:
        _check_values(array, title)
        image = array.astype(np.float32)
    else:
        raise InputError(
            f"{title}: found values of type {array.dtype}, expected uint8, uint16, bool or float in [0, 1]; "
            "convert the array, dividing by its full scale"
        )
    return np.ascontiguousarray(image.reshape(image.shape[0], image.shape[1], -1))


def write_png(path: str | os.PathLike[str], image: NDArray[np.uint8] | NDArray[np.uint16]) -> None:
    """Write a PNG file, atomically.

    Parameters
    ----------
    path : str or path
        The file; an existing one is replaced.
    image : ndarray of uint8 or uint16
        ``H x W`` (gray) or ``H x W x 3`` (RGB).

    Raises
    ------
    InputError
        `image` is not of such a shape or type.
    OutputError
        The file cannot be written.
    """
    pixels: NDArray[Any] = np.asarray(image)
    shape_fits = pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[2] == 3)
    if pixels.dtype.kind != "u" or pixels.dtype.itemsize > 2 or not shape_fits or pixels.size == 0:
        raise InputError(
            f"cannot store an array of shape {pixels.shape} and type {pixels.dtype} as PNG {os.fspath(path)!r}, "
            "expected uint8 or uint16 of shape H x W or H x W x 3; convert it first"
        )
    native = pixels.astype(pixels.dtype.newbyteorder("="), copy=False)
    data = encoded(".png", np.ascontiguousarray(native if native.ndim == 2 else native[:, :, ::-1]), path)
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


def encoded(suffix: str, pixels: NDArray[Any], path: str | os.PathLike[str]) -> bytes:
    """Encode pixels with OpenCV, blue first.

    Parameters
    ----------
    suffix : str
        Of the format, such as ``".png"``.
    pixels : ndarray
        ``H x W`` or ``H x W x 3``, contiguous.
    path : str or path
        Where they are going, for the message.

    Raises
    ------
    OutputError
        OpenCV cannot.
    """
    import cv2

    try:
        with _quiet_opencv():
            done, data = cv2.imencode(suffix, pixels)
    except cv2.error as error:
        raise OutputError(_cannot_encode(suffix, pixels, path)) from error
    if not done:
        raise OutputError(_cannot_encode(suffix, pixels, path))
    return bytes(data.tobytes())


def _cannot_encode(suffix: str, pixels: NDArray[Any], path: str | os.PathLike[str]) -> str:
    return (
        f"cannot encode an image of shape {pixels.shape} as {suffix[1:].upper()} {os.fspath(path)!r}, expected one "
        "that OpenCV can encode; make it smaller"
    )


def _as_array(source: Any, shown: str) -> NDArray[Any]:
    # Lists and the like are refused: they are more often a mistake (a pair, a list of paths) than an image.
    if isinstance(source, np.ndarray) or hasattr(source, "__array__") or hasattr(source, "__array_interface__"):
        try:
            return np.asarray(source)
        except (TypeError, ValueError, RuntimeError) as error:  # a tensor on a GPU, for one
            reason = " ".join(str(error).split())
            raise InputError(
                f"{shown}: found a {type(source).__name__} that NumPy cannot read ({reason}), expected an array or a "
                "path; convert it to a NumPy array"
            ) from error
    raise InputError(
        f"{shown}: found a {type(source).__name__}, expected an array or a path; convert it to a NumPy array"
    )


def _check_shape(array: NDArray[Any], shown: str) -> None:
    if array.ndim not in (2, 3):
        problem, remedy = f"{array.ndim} dimensions, shape {array.shape}", "pass one image, not a stack"
    elif array.size == 0:
        problem, remedy = f"no pixels, shape {array.shape}", "check how the image was read or cropped"
    elif array.ndim == 3 and array.shape[2] not in (1, 3):
        problem = f"{array.shape[2]} channels, shape {array.shape}"
        remedy = "remove the alpha channel" if array.shape[2] in (2, 4) else "put the channels last and keep 1 or 3"
    else:
        return
    raise InputError(f"{shown}: found {problem}, expected H x W or H x W x C with C = 1 or 3; {remedy}")


def _check_values(array: NDArray[np.floating], shown: str) -> None:
    finite = np.isfinite(array)
    if not finite.all():
        first = np.unravel_index(int(np.argmin(finite)), array.shape)  # argmin of booleans: the first False
        raise InputError(
            f"{shown}: found {array.size - np.count_nonzero(finite)} of {array.size} values NaN or infinite, the first "
            f"at row {first[0]}, column {first[1]}, expected finite values; replace them"
        )
    low, high = float(array.min()), float(array.max())
    if low < _FLOAT_RANGE[0] or high > _FLOAT_RANGE[1]:
        raise InputError(
            f"{shown}: found floats from {low:.4g} to {high:.4g}, expected about 0 to 1; looks unscaled: divide by "
            "full scale (255 for 8 bits, 65535 for 16)"
        )


def _decode(data: bytes) -> NDArray[Any] | None:
    """Decode with OpenCV; None where it cannot."""
    import cv2

    if not data:
        return None
    with _quiet_opencv():
        try:
            image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
        except cv2.error:
            return None
    return image  # imdecode gives None for what it does not know


@contextmanager
def _quiet_opencv() -> Iterator[None]:
    """Keep OpenCV's own lines off the terminal: our message says what is wrong."""
    import cv2

    logging: Any = getattr(cv2.utils, "logging", cv2)  # OpenCV 4.10 has the two functions at its top
    level = logging.getLogLevel()
    logging.setLogLevel(0)  # silent
    try:
        yield
    finally:
        logging.setLogLevel(level)


def _is_cut_short(data: bytes) -> bool:
    """Whether a PNG or JPEG ends before its end mark: decoders differ in whether they then fill up with gray."""
    if data.startswith(_PNG_SIGNATURE):
        return not _png_is_whole(data)
    if data.startswith(b"\xff\xd8\xff"):
        return not _jpeg_is_whole(data)
    return False


def _png_is_whole(data: bytes) -> bool:
    position = len(_PNG_SIGNATURE)
    while position + 12 <= len(data):  # a chunk: length, type, content, checksum
        if data[position + 4 : position + 8] == b"IEND":
            return True
        position += 12 + int.from_bytes(data[position : position + 4], "big")
    return False


def _jpeg_is_whole(data: bytes) -> bool:
    position = 2
    while (position := data.find(b"\xff", position)) >= 0 and position + 1 < len(data):
        marker = data[position + 1]
        if marker == 0xD9:  # end of image
            return True
        if marker in (0x00, 0x01, 0xFF) or 0xD0 <= marker <= 0xD8:  # stuffing and restarts inside the pixel data
            position += 1 if marker == 0xFF else 2
        else:  # a segment; step over it, since an embedded thumbnail has an end mark of its own
            position += 2 + int.from_bytes(data[position + 2 : position + 4], "big")
    return False
