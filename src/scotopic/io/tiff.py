"""What OpenCV does not do for TIFF files: gray beside alpha, and checksums of pages of 8 bits. By tifffile."""

import io
import logging
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

_DEFLATED = (8, 32946)  # compression of a page
_INFLATED_AT_ONCE = 2**20  # bytes


@contextmanager
def open_tiff(stream: BinaryIO) -> Iterator[Any]:
    """Yield a ``tifffile.TiffFile``, which prints nothing; a damaged one makes it raise anything."""
    import tifffile

    log = logging.getLogger("tifffile")  # prints a line for each odd tag, of which most do not matter here
    before, log.disabled = log.disabled, True
    try:
        with tifffile.TiffFile(stream) as file:
            yield file
    finally:
        log.disabled = before


def gray_and_alpha(data: bytes, number: int) -> NDArray[Any] | None:
    """Return page `number` of a file, ``H x W x 2`` of 8 or 16 bits; ``None`` if it is not such a page."""
    with suppress(Exception), open_tiff(io.BytesIO(data)) as file:
        page = np.asarray(file.pages[number].asarray())
        return page if page.dtype in (np.uint8, np.uint16) and page.shape[2:] == (2,) else None
    return None


def has_wrong_checksum(data: bytes, pages: int) -> bool:
    """Whether a strip or tile of 8 bits in the first `pages` is deflated and damaged, of which OpenCV says nothing."""
    with suppress(Exception), open_tiff(io.BytesIO(data)) as file:
        for number, page in enumerate(file.pages):
            if number >= pages:
                break
            if page.compression in _DEFLATED and page.bitspersample == 8:
                places = zip(page.dataoffsets, page.databytecounts, strict=False)
                if any(_is_damaged(data[start : start + length]) for start, length in places):
                    return True
    return False


def _is_damaged(deflated: bytes) -> bool:
    inflate = zlib.decompressobj()
    try:
        while deflated and not inflate.eof:  # a part at a time, however much it becomes
            inflate.decompress(deflated, _INFLATED_AT_ONCE)
            deflated = inflate.unconsumed_tail
    except zlib.error:
        return True
    return False
