"""Images from files and arrays, in the one form that the rest works on."""

import math
import os
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError, OutputError, PairWarning
from scotopic.io.atomic import atomic_path
from scotopic.io.headers import (
    PNG_PIXELS,
    PNG_SIGNATURE,
    TIFF_SIGNATURES,
    Size,
    as_stored,
    image_sizes,
    is_turned,
    is_white_at_zero,
    jpeg_segments,
    png_chunks,
)
from scotopic.io.input_file import check_memory, open_input, read_input_file
from scotopic.io.jpeg import has_damaged_codes
from scotopic.io.masks import fill_masked, pixel_mask, unmasked
from scotopic.io.pfm import read_pfm
from scotopic.io.tiff import gray_and_alpha, is_damaged, uncompressed_tiles

#: A warning. It names no file, so that Python shows it once for all frames of a stream.
TURNED = (
    "A file says that it is to be turned or mirrored when it is shown, as files of phones and cameras do. Its "
    "pixels are used as they are stored. If the cameras stood side by side as the pictures are shown, turn both first "
    "and save them so."
)
# The decoder counts bytes in 32 bits; nothing larger is an image of ours either.
_FILE_LIMIT = 2**31 - 1
#: What to tell the user of a file with more pages than the one that is read; without its name, so that it is said once.
ONE_PAGE = "Of the pages of a TIFF file one is read, the first of {}. With scotopic burst all of them make one answer."
_MOST_PAGES = 65536  # of a TIFF file
_PACKED_BITS = (10, 12, 14)  # of the values in a TIFF file that OpenCV spreads to 16
#: Of raw files, which only :mod:`scotopic.sensor` reads; OpenCV would take the thumbnail in some for the picture.
RAW_SUFFIXES = (
    ".dng", ".cr2", ".cr3", ".crw", ".nef", ".nrw", ".arw", ".srf", ".sr2", ".raf", ".orf", ".rw2", ".pef", ".srw",
    ".3fr", ".fff", ".iiq", ".kdc", ".dcr", ".mos", ".mrw", ".rwl", ".x3f",
)  # fmt: skip
_OTHER_MODES = ("P", "PA", "CMYK", "YCbCr", "LAB", "HSV", "La", "RGBa")  # of Pillow: palettes, other colors
_FULL_SCALES = {"u1": 255, "u2": 65535, "b1": 1, "f2": 1, "f4": 1, "f8": 1}  # by type and bytes
# A linear image may overshoot [0, 1] a little (noise around black, resampling); 255 or 65535 is another scale.
_FLOAT_RANGE = (-1.0, 2.0)


def read_mask(path: str | os.PathLike[str]) -> NDArray[Any]:
    """Read an image that is a mask; raise :class:`InputError` also if it cannot be told which of its pixels are 0.

    As a picture, a TIFF file whose zeros are white is inverted. tifffile writes bool arrays so, and means the numbers.
    """
    data = read_input_file(path, "an image file", _FILE_LIMIT)
    if data.startswith(b"\xff\xd8") or (data[8:12] == b"WEBP" and data[12:16] != b"VP8L"):
        raise InputError(
            f"{os.fspath(path)!r} is compressed with losses, so that pixels beside those that are set are not 0 "
            "either. Save the mask as PNG."
        )
    if is_white_at_zero(data):
        raise InputError(
            f"{os.fspath(path)!r} is a TIFF file in which 0 is white, as bool arrays are saved, so it cannot be told "
            "which pixels are meant. Save the mask as PNG, 255 where it is set."
        )
    return read_image(path)


def read_image(path: str | os.PathLike[str], *, max_pixels: int | None = None) -> NDArray[Any]:
    """Read an image file as recorded: no scaling, no linearizing, no rotation by metadata.

    PNG, JPEG, TIFF, PGM/PPM, PFM, BMP or WebP. Of several pages the first is read.

    Raises :class:`InputError` if the file is missing, not a file, not an image, cut short, transparent somewhere, has
    another type of numbers, or is too large: it may have `max_pixels`, and take as much memory as the environment
    variable ``SCOTOPIC_MAX_GIB`` says, 2 GiB by default. The size is checked before anything is decoded. An alpha
    channel that is opaque everywhere says nothing and is dropped. There is a :class:`~scotopic.errors.PairWarning` if
    the file says that it is to be turned.

    Returns
    -------
    ndarray of uint8, uint16 or float32
        ``H x W`` (gray) or ``H x W x 3`` (RGB).
    """
    shown = repr(os.fspath(path))
    if Path(path).suffix.lower() in RAW_SUFFIXES:
        raise InputError(f"{shown} is a camera's raw file. Read it with scotopic.sensor.read_raw.")
    with open_input(path) as file:
        head = file.read(4)
        is_pfm = head[:2] in (b"PF", b"Pf")  # whatever its name: OpenCV would take its scale for a factor
    if is_pfm or Path(path).suffix.lower() == ".pfm":
        image = read_pfm(path)
        check_pixels(shown, image.shape[1], image.shape[0], max_pixels)
        return image
    image = as_recorded(decode_pages(path, max_pixels=max_pixels)[0], shown)
    if head in TIFF_SIGNATURES and (pages := count_pages(path)) > 1:
        warnings.warn(ONE_PAGE.format(pages), PairWarning, stacklevel=2)
    return image


def count_pages(path: str | os.PathLike[str]) -> int:
    """Return how many pages an image file has, of which :func:`read_image` reads the first: 1 unless it is a TIFF."""
    data = read_input_file(path, "an image file", _FILE_LIMIT)
    if data[:4] not in TIFF_SIGNATURES:
        return 1
    return len(image_sizes(data, _MOST_PAGES)) or max(len(image_sizes(data, 2)), 1)  # at least, if it is cut short


def read_pages(path: str | os.PathLike[str], *, max_pixels: int | None = None) -> Iterator[NDArray[Any]]:
    """Yield the pages of a TIFF file, each read when it is asked for, or the one image of a file of another format.

    Each is as :func:`read_image` returns it, which documents `max_pixels` and the errors.
    """
    import cv2

    shown = repr(os.fspath(path))
    data = read_input_file(path, "an image file", _FILE_LIMIT)
    is_tiff = data[:4] in TIFF_SIGNATURES and Path(path).suffix.lower() not in RAW_SUFFIXES
    sizes = image_sizes(data, _MOST_PAGES) if is_tiff else []
    if is_tiff and not sizes:
        raise InputError(f"The pages of {shown} cannot be found. The file is damaged or cut short: fetch it again.")
    if len(sizes) < 2:
        yield read_image(path, max_pixels=max_pixels)
        return
    if _is_damaged(data, len(sizes)):
        raise InputError(f"{shown} is damaged: the checksum of a page is wrong. Fetch it again.")
    data = as_stored(data)
    for number, size in enumerate(sizes):
        check_pixels(shown, size.width, size.height, max_pixels)
        check_memory(shown, f"{size} in page {number}", 4 * size.values)
        # The range of pages stands after a list that they could be put into.
        buffer, wanted = np.frombuffer(data, np.uint8), (number, number + 1)
        _, pages = call_opencv(cv2.imdecodemulti, buffer, cv2.IMREAD_UNCHANGED, [], wanted) or (False, [])
        page = pages[0] if len(pages) == 1 else uncompressed_tiles(data, number)
        if page is None:
            raise InputError(f"Page {number} of {shown} cannot be read. The file is damaged: fetch it again.")
        page = _mended(page, size, data, number, shown)
        check_pixels(shown, page.shape[1], page.shape[0], max_pixels)
        yield as_recorded(page, shown)


def as_recorded(image: NDArray[Any], shown: str) -> NDArray[Any]:
    """Return what OpenCV has decoded, red first, without an alpha channel that says nothing, in a type that we take."""
    image = _drop_opaque_alpha(image)
    if image.ndim == 3 and image.shape[2] in (2, 4):
        raise InputError(
            f"{shown} has an alpha channel, and not all of its pixels are opaque. Flatten the image to remove alpha "
            "and save it again."
        )
    if image.dtype == np.float64:
        image = image.astype(np.float32)
    if image.dtype not in (np.uint8, np.uint16, np.float32):
        raise InputError(f"{shown} holds {image.dtype} values. Convert them to uint8, uint16 or float32.")
    return image if image.ndim == 2 else np.ascontiguousarray(image[:, :, ::-1])  # OpenCV has blue first


def decode_pages(
    path: str | os.PathLike[str], *, several: bool = False, max_pixels: int | None = None
) -> list[NDArray[Any]]:
    """Return the first page of an image file, or all of a TIFF if `several`, as OpenCV decodes them: blue first.

    Raises :class:`InputError` if it cannot be decoded or is too large, by its header or by what was decoded.
    """
    data = read_input_file(path, "an image file", _FILE_LIMIT)
    return decode_data(data, repr(os.fspath(path)), several=several, max_pixels=max_pixels)


def decode_data(data: bytes, shown: str, *, several: bool = False, max_pixels: int | None = None) -> list[NDArray[Any]]:
    """Return the pages of the content of an image file, which errors call `shown`, as :func:`decode_pages` does."""
    import cv2

    sizes = image_sizes(data, pages=_MOST_PAGES if several else 1)
    for size in sizes:
        check_pixels(shown, size.width, size.height, max_pixels)
    # As float32, which every image becomes.
    more = f" in {len(sizes)} pages" if len(sizes) > 1 else ""
    check_memory(shown, f"{sizes[0]}{more}" if sizes else "", 4 * sum(size.values for size in sizes))
    decoded = None
    if sizes and not _is_damaged(data, len(sizes)):
        encoded_bytes = np.frombuffer(as_stored(data), np.uint8)
        if several:
            done, pages = call_opencv(cv2.imdecodemulti, encoded_bytes, cv2.IMREAD_UNCHANGED) or (False, ())
            decoded = list(pages) if done else None
        else:
            page = call_opencv(cv2.imdecode, encoded_bytes, cv2.IMREAD_UNCHANGED)
            if page is not None and page.ndim == 3 and page.shape[2] == 4 and sizes[0].channels == 2:
                page = page[:, :, [0, 3]]  # gray and alpha, of which OpenCV repeats the gray
            decoded = None if page is None else [page]
        if not decoded and data[:4] in TIFF_SIGNATURES:
            tiled = [uncompressed_tiles(data, number) for number in range(len(sizes))]
            decoded = found if len(found := [page for page in tiled if page is not None]) == len(tiled) else None
    if not decoded:  # as for a format that OpenCV does not know
        raise InputError(
            f"{shown} holds no readable image or is cut short ({len(data)} bytes). Check that it opens in an image "
            "viewer, or fetch it again; PNG, JPEG, TIFF, PGM/PPM, PFM, BMP and WebP can be read."
        )
    if is_turned(data):
        warnings.warn(TURNED, PairWarning, stacklevel=4)
    check_memory(shown, f"{len(decoded)} page(s)", sum(4 * page.size for page in decoded))
    for page in decoded:
        check_pixels(shown, page.shape[1], page.shape[0], max_pixels)
    return [
        _mended(page, size, data, number, shown)
        for number, (page, size) in enumerate(zip(decoded, sizes, strict=False))
    ]


def _mended(page: NDArray[Any], size: Size, data: bytes, number: int, shown: str) -> NDArray[Any]:
    """Return page `number` of a file, decoded by OpenCV, with what it does only for 8 bits: 0 is always black.

    Values of 10, 12 and 14 bits are as stored: OpenCV multiplies them, so that they fill 16.

    Raises :class:`InputError` if the colors are one after the other, which OpenCV decodes wrongly if not of 8 bits.
    """
    if size.has_planes and page.dtype != np.uint8:
        raise InputError(
            f"{shown} stores each color of {page.dtype} values in a plane of its own, which cannot be read here. Save "
            "it with the colors of a pixel side by side (tifffile: planarconfig='contig')."
        )
    if size.channels == 2 and page.ndim == 2:  # without alpha, and without the lower 8 of 16 bits
        found = gray_and_alpha(data, number)
        if found is None:
            raise InputError(f"{shown} has a second channel beside gray, which cannot be read. Save it without.")
        return np.asarray(found ^ np.array([size.min_is_white * np.iinfo(found.dtype).max, 0], found.dtype))
    if page.dtype != np.uint16:
        return page
    bits = size.bits if size.bits in _PACKED_BITS else 16
    stored = page >> (16 - bits)
    return np.asarray(2**bits - 1 - stored) if size.min_is_white and page.ndim == 2 else stored


def _drop_opaque_alpha(image: NDArray[Any]) -> NDArray[Any]:
    """Return an image without its alpha channel if it has one (the last of 2 or 4) that is opaque everywhere."""
    if image.ndim != 3 or image.shape[2] not in (2, 4) or image.dtype.kind not in "buif":
        return image
    opaque = _FULL_SCALES.get(image.dtype.str[1:], np.inf)
    if not (image[:, :, -1] >= opaque).all():
        return image
    return image[:, :, 0] if image.shape[2] == 2 else image[:, :, :3]


def check_pixels(title: str, width: int, height: int, limit: int | None) -> None:
    """Raise :class:`InputError` if an image has more pixels than a limit, if there is one."""
    if limit is not None and width * height > limit:
        raise InputError(
            f"{title} has {width * height / 1e6:.4g} megapixels; the limit is {limit / 1e6:g}. Make it smaller."
        )


def image_title(source: Any, name: str) -> str:
    """Return how a message names an image: by its role, and by its path if it came from a file."""
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        return repr(path) if name == path else f"{name} image {path!r}"
    return f"{name} image"


def as_image(source: Any, name: str, *, title: str | None = None) -> NDArray[np.float32]:
    """Return a file or an array as an image: float32 ``H x W x C``, 1 = full scale, contiguous, always a copy.

    Raises :class:`InputError` if `source` has another shape or type, or its values are not finite or not about 0 to 1.

    Parameters
    ----------
    source : str, path or array
        A file for :func:`read_image`, or an array ``H x W`` or ``H x W x C`` with C = 1 or 3. uint8 is divided by 255,
        uint16 by 65535, bool becomes 0 and 1, floats are taken as they are. They may overshoot [0, 1] a little, as
        noise does. Masked pixels of a masked array are filled from their neighbors (:mod:`scotopic.io.masks`). An
        alpha channel (C = 2 or 4) that is opaque everywhere is dropped.
    name : str
        How an error message names the image: "left", "right", or its path.
    title : str, optional
        The subject of an error message, in place of what `name` makes: "Frame 3 of 'x.tif'".
    """
    title = title or image_title(source, name)
    if isinstance(source, str | os.PathLike):
        try:
            array = read_image(source)
        except InputError as error:
            role = "" if name == os.fspath(source) else f"{name} image "
            raise InputError(f"{role}{error}") from error
    else:
        array = _drop_opaque_alpha(_as_array(source, title))
    _check_shape(array, title)
    mask = pixel_mask(source)
    full_scale = _FULL_SCALES.get(array.dtype.str[1:])
    if full_scale is None:
        raise InputError(
            f"{title} has values of type {array.dtype}. Convert them to uint8, uint16, bool, or floats divided by "
            "their full scale."
        )
    if mask is not None:
        array = fill_masked(array, mask)
    if array.dtype.kind == "f":
        _check_values(array, title)
    image = array.astype(np.float32) / np.float32(full_scale)
    return np.ascontiguousarray(image.reshape(image.shape[0], image.shape[1], -1))


def write_png(path: str | os.PathLike[str], image: NDArray[np.uint8] | NDArray[np.uint16]) -> None:
    """Write uint8 or uint16, ``H x W`` (gray) or ``H x W x 3`` (RGB), as a PNG file, atomically.

    Raises :class:`InputError` if `image` has another shape or type, or is masked. Raises :class:`OutputError` if the
    file cannot be written.
    """
    pixels = unmasked(image, os.fspath(path))
    shape_fits = pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[2] == 3)
    if pixels.dtype.kind != "u" or pixels.dtype.itemsize > 2 or not shape_fits or pixels.size == 0:
        raise InputError(
            f"An array of shape {pixels.shape} and type {pixels.dtype} cannot be stored as PNG {os.fspath(path)!r}. "
            "PNG holds uint8 or uint16 of shape H x W or H x W x 3."
        )
    native = pixels.astype(pixels.dtype.newbyteorder("="), copy=False)
    data = encoded(".png", np.ascontiguousarray(native if native.ndim == 2 else native[:, :, ::-1]), path)
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


def encoded(suffix: str, pixels: NDArray[Any], path: str | os.PathLike[str]) -> bytes:
    """Return pixels, ``H x W`` or ``H x W x 3`` with blue first, encoded by OpenCV in the format of `suffix`.

    Raises :class:`OutputError`, which names `path`, where they are to be written, if OpenCV cannot.
    """
    import cv2

    done, data = call_opencv(cv2.imencode, suffix, pixels) or (False, np.empty(0, np.uint8))
    if not done:
        raise OutputError(
            f"OpenCV cannot encode an image of shape {pixels.shape} as {suffix[1:].upper()} {os.fspath(path)!r}. Make "
            "it smaller."
        )
    return bytes(data.tobytes())


def _as_array(source: Any, title: str) -> NDArray[Any]:
    # Lists and the like are refused: they are more often a mistake (a pair, a list of paths) than an image.
    reason = ""
    mode = getattr(source, "mode", None) if type(source).__module__.startswith("PIL.") else None
    if mode in _OTHER_MODES:  # its array holds no gray and no RGB
        raise InputError(f"{title} is an image of Pillow in mode {mode!r}. Convert it: image.convert('RGB').")
    if isinstance(source, np.ndarray) or hasattr(source, "__array__") or hasattr(source, "__array_interface__"):
        try:
            if hasattr(source, "detach"):  # a torch tensor; NumPy takes none with a gradient, and has no bfloat16
                source = source.detach()
                source = source.float() if source.dtype.itemsize == 2 and source.is_floating_point() else source
            return np.asarray(source)
        except Exception as error:  # a tensor on a GPU, for one; the object may raise anything
            reason = f" that NumPy cannot read ({' '.join(str(error).split())})"
    raise InputError(f"{title} is a {type(source).__name__}{reason}. Pass a path or convert it to a NumPy array.")


def _check_shape(array: NDArray[Any], title: str) -> None:
    if array.ndim not in (2, 3):
        remedy = "Pass one image, not a stack"
    elif array.size == 0:
        remedy = "It has no pixels: check how it was read or cropped"
    elif array.ndim == 3 and array.shape[2] not in (1, 3):
        remedy = "Remove the alpha channel" if array.shape[2] in (2, 4) else "Put the channels last and keep 1 or 3"
    else:
        return
    raise InputError(f"{title} has shape {array.shape}, not H x W or H x W x C with C = 1 or 3. {remedy}.")


def _check_values(array: NDArray[np.floating], title: str) -> None:
    low, high = float(array.min()), float(array.max())  # NaN if any value is
    if not math.isfinite(high - low):
        finite = np.isfinite(array)
        first = np.unravel_index(int(np.argmin(finite)), array.shape)  # argmin of booleans: the first False
        raise InputError(
            f"{title}: {array.size - np.count_nonzero(finite)} of {array.size} values are NaN or infinite, the "
            f"first at row {first[0]}, column {first[1]}. Replace them."
        )
    if low < _FLOAT_RANGE[0] or high > _FLOAT_RANGE[1]:
        raise InputError(
            f"{title} has floats from {low:.4g} to {high:.4g}, which is not about 0 to 1. Divide them by full "
            "scale (255 for 8 bits, 65535 for 16)."
        )


def call_opencv(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function of OpenCV returns, or None if it raises.

    The messages of OpenCV are kept off the terminal: our error says what is wrong.
    """
    import cv2

    logging: Any = getattr(cv2.utils, "logging", cv2)  # OpenCV 4.10 has the two functions at its top
    level = logging.getLogLevel()
    logging.setLogLevel(0)  # silent
    try:
        return function(*arguments)
    except cv2.error:
        return None
    finally:
        logging.setLogLevel(level)


def _is_damaged(data: bytes, pages: int) -> bool:
    """Return whether a PNG or JPEG has no pixels or ends before its end mark: some decoders then fill up with gray.

    A PNG with a wrong checksum counts too: OpenCV would refuse it, but not before libpng has written to the terminal.
    So do a TIFF and a JPEG with damage inside, of which it would return what it could decode.
    """
    if data.startswith(PNG_SIGNATURE):
        kinds, view = set(), memoryview(data)
        for kind, start, end in png_chunks(data):  # length, type, content, checksum
            if kind not in PNG_PIXELS:
                if kind[:1].isupper():  # pixels cannot be known without it
                    return True
            elif zlib.crc32(view[start + 4 : end - 4]) != int.from_bytes(view[end - 4 : end]):
                return True
            kinds.add(kind)
        return not {b"IDAT", b"IEND"} <= kinds
    if data.startswith(b"\xff\xd8\xff"):
        return not any(marker == 0xD9 for marker, _ in jpeg_segments(data)) or has_damaged_codes(data)
    return data[:4] in TIFF_SIGNATURES and is_damaged(data, pages)
