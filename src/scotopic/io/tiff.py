"""What OpenCV does not do for TIFF files: gray beside alpha, small tiles, and a look for damage. By tifffile.

Of a damaged page OpenCV mostly returns what it could decode. Deflated parts have a checksum. Those packed by LZW or
PackBits have none, but a change inside them mostly changes how many bytes they become, which is known; a change that
does not, as one of a value in a file without compression, cannot be noticed. :mod:`scotopic.io.jpeg` looks at those
that are JPEG data.
"""

import io
import logging
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from scotopic.io.jpeg import has_damaged_codes

_NONE, _LZW, _JPEG, _PACKED = 1, 5, 7, 32773  # compression of a page
_DEFLATED = (8, 32946)
_UNMIXED = (0, 1, 2, 3)  # photometric interpretation: gray, RGB or a palette, of a value for each pixel
_INFLATED_AT_ONCE = 2**20  # bytes
_CLEAR, _END, _FIRST, _MOST_CODES = 256, 257, 258, 4096  # of LZW


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


def uncompressed_tiles(data: bytes, number: int) -> NDArray[np.uint8] | None:
    """Return page `number`, blue first and 0 black, if it has tiles of 8 bits, of which OpenCV refuses small ones.

    ``None`` if it is not such a page, or not whole.
    """
    with suppress(Exception), open_tiff(io.BytesIO(data)) as file:
        page = file.pages[number]
        is_plain = page.compression == _NONE and page.bitspersample == 8 and page.photometric in _UNMIXED[:3]
        parts = list(zip(page.dataoffsets, page.databytecounts, strict=True))
        size = page.tilewidth * page.tilelength * page.samplesperpixel
        is_whole = all(0 < start <= len(data) - size and length == size for start, length in parts)
        if page.is_tiled and page.planarconfig == 1 and is_plain and is_whole:
            pixels = np.asarray(page.asarray())
            pixels = ~pixels if page.photometric == 0 else pixels
            return pixels if pixels.ndim == 2 else pixels[:, :, [2, 1, 0, *range(3, pixels.shape[2])]]
    return None


def is_damaged(data: bytes, pages: int) -> bool:
    """Whether a strip or tile in the first `pages` is damaged in a way that can be noticed."""
    with suppress(Exception), open_tiff(io.BytesIO(data)) as file:
        for number, page in enumerate(file.pages):
            if number >= pages:
                break
            parts = enumerate(zip(page.dataoffsets, page.databytecounts, strict=False))
            if page.compression in _DEFLATED:
                if any(_has_wrong_checksum(data[start : start + length]) for _, (start, length) in parts):
                    return True
            elif page.compression == _JPEG:
                tables = page.jpegtables or b""
                if any(has_damaged_codes(data[start : start + length], tables) for _, (start, length) in parts):
                    return True
            elif page.compression in (_LZW, _PACKED) and page.photometric in _UNMIXED and page.fillorder == 1:
                unpacked: Callable[[bytes], int] = _length_of_lzw if page.compression == _LZW else _length_of_packbits
                for part, (start, length) in parts:
                    if length and unpacked(data[start : start + length]) not in _expected_lengths(page, part):
                        return True
    return False


def _expected_lengths(page: Any, part: int) -> tuple[int, ...]:
    """Return how many bytes a strip or tile may become; some writers fill up the last strip."""
    samples = page.samplesperpixel if page.planarconfig == 1 else 1
    if page.is_tiled:
        return (_bytes_of_row(page.tilewidth, samples, page) * page.tilelength,)
    strips = -(-page.imagelength // page.rowsperstrip)
    rows = min(page.rowsperstrip, page.imagelength - part % strips * page.rowsperstrip)
    row = _bytes_of_row(page.imagewidth, samples, page)
    return row * rows, row * page.rowsperstrip


def _bytes_of_row(width: int, samples: int, page: Any) -> int:
    return int(-(-width * samples * page.bitspersample // 8))


def _has_wrong_checksum(deflated: bytes) -> bool:
    """Whether a part is damaged by its checksum, or ends before it; one of no bytes, which is not stored, is not."""
    inflate, is_stored = zlib.decompressobj(), bool(deflated)
    try:
        goes_on = is_stored
        while goes_on and not inflate.eof:  # a part at a time, however much it becomes
            inflated = inflate.decompress(deflated, _INFLATED_AT_ONCE)
            deflated = inflate.unconsumed_tail
            goes_on = bool(inflated or deflated)
    except zlib.error:
        return True
    return is_stored and not inflate.eof


def _length_of_packbits(packed: bytes) -> int:
    """Return how many bytes they become; -1 if they end too early."""
    length = position = 0
    while position < len(packed):
        head = packed[position]
        if head < 128:  # so many bytes, and one more, as they are
            length, position = length + head + 1, position + head + 2
        else:  # a byte again and again; 128 means nothing
            length, position = length + (257 - head) * (head > 128), position + 1 + (head > 128)
    return length if position == len(packed) else -1


def _length_of_lzw(packed: bytes) -> int:
    """Return how many bytes they become; -1 if a code is none.

    A code has one bit more from the 511th entry of the table on, the 1023rd and the 2047th. Each code but the first
    after a clear makes an entry, so where codes begin is known up to the next clear.
    """
    if packed[:1] == b"\0" and packed[1:2] and packed[1] & 1:
        raise NotImplementedError("codes of an old kind, the lowest bit first")
    entries = _FIRST - 1 + np.arange(_MOST_CODES - _FIRST + 2)
    widths = 9 + (entries >= 511).astype(np.int64) + (entries >= 1023) + (entries >= 2047)
    starts = np.cumsum(widths) - widths
    data = np.frombuffer(packed + b"\0\0\0", np.uint8)
    length, position, most = 0, 0, 8 * len(packed)
    for _ in range(16 + len(packed) // 128):  # clears; each takes time, and no writer clears as often
        places = position + starts[position + starts + widths <= most]
        high, middle, low = (data[(places >> 3) + k].astype(np.int64) for k in range(3))
        words = high << 16 | middle << 8 | low
        codes = words >> (24 - (places & 7) - widths[: places.size]) & ((1 << widths[: places.size]) - 1)
        marks = np.flatnonzero((codes == _CLEAR) | (codes == _END))
        count = int(marks[0]) if marks.size else codes.size
        if count > 0 and (codes[0] > 255 or (codes[1:count] > entries[1:count]).any()):
            return -1
        lengths = [1] * _FIRST  # of what each code stands for
        for code in codes[:count].tolist():
            lengths.append(lengths[code] + 1)
            length += lengths[-1] - 1
        if not marks.size:  # some writers leave out the end
            return length if codes.size < starts.size else -1
        if codes[count] == _END:
            return length
        position = int(places[count] + widths[count])
    return -1
