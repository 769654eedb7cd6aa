"""What an image file says about itself, before anything is decoded.

Where a file gives several sizes, the largest counts: which of two width tags a decoder believes differs between
libraries. The formats are those that :func:`scotopic.io.read_image` knows; whatever else OpenCV could decode cannot be
measured and is refused.
"""

import re
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
PNG_PIXELS = (b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND")  #: the chunks that say what the pixels are
TIFF_SIGNATURES = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_TIFF_ORDERS = dict(zip(TIFF_SIGNATURES, (("<", False), (">", False), ("<", True), (">", True)), strict=True))
_WIDTH, _HEIGHT, _BITS, _PHOTOMETRIC, _ORIENTATION, _CHANNELS, _PLANES, _TILE_WIDTH, _TILE_HEIGHT = _TIFF_TAGS = (
    256, 257, 258, 262, 274, 277, 284, 322, 323,
)  # fmt: skip
_UPRIGHT, _SEPARATE, _MIN_IS_WHITE = 1, 2, 0  # values of orientation, planes and photometric interpretation
_TAG_BYTES = {1: "B", 6: "B", 3: "H", 8: "H", 16: "Q", 17: "Q"}  # TIFF types; others are read as 32 bits
_MOST_PAGES = 65536
_GAP = rb"(?:[ \t\n\v\f\r]|#[^\n\r]*[\n\r])+"
_PNM = re.compile(rb"P[1-6]" + _GAP + rb"([0-9]+)" + _GAP + rb"([0-9]+)")
_TEXT_PNM_WHITE = re.compile(
    rb"P[23]" + _GAP + rb"[0-9]+" + _GAP + rb"[0-9]+" + _GAP + rb"([0-9]{1,3})(?=[ \t\n\v\f\r])"
)
_PAM = re.compile(rb"(?:^|[\n\r])[ \t]*(WIDTH|HEIGHT|DEPTH)[ \t]+([0-9]+)")


class Size(NamedTuple):
    """Of a page: the largest width, height and number of channels that its header gives."""

    width: int
    height: int
    channels: int = 3
    has_planes: bool = False  #: whether each color of a TIFF page is stored by itself
    min_is_white: bool = False  #: whether 0 is white in a TIFF page
    bits: int = 0  #: of a value in a TIFF page; 0 if not known

    @property
    def values(self) -> int:
        """How many numbers it decodes to."""
        return self.width * self.height * self.channels

    def __str__(self) -> str:
        return f"{self.width} x {self.height} px of {self.channels} channel(s)"


def image_sizes(data: bytes, pages: int = 1) -> list[Size]:
    """Return the sizes of the first `pages` pages of an image file; none if its format is unknown or it is damaged."""
    try:
        found = list(_sizes(data, pages))
    except (
        struct.error,
        IndexError,
        OverflowError,
        TypeError,
        ValueError,
    ):  # it is cut, or gives no size
        return []
    return found if all(size.width > 0 and size.height > 0 for size in found) else []


def _sizes(data: bytes, pages: int) -> Iterator[Size]:
    if data.startswith(PNG_SIGNATURE):
        yield _png(data)
    elif data.startswith(b"\xff\xd8\xff"):
        yield _jpeg(data)
    elif data[:4] in _TIFF_ORDERS:
        yield from _tiff(data, pages)
    elif data.startswith(b"BM"):
        yield _bmp(data)
    elif data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        yield _webp(data)
    elif data.startswith(b"P7"):
        named = {name: max(int(n) for m, n in _PAM.findall(data[:4096]) if m == name) for name in (b"WIDTH", b"HEIGHT")}
        depths = [int(number) for name, number in _PAM.findall(data[:4096]) if name == b"DEPTH"]
        yield Size(named[b"WIDTH"], named[b"HEIGHT"], max(depths, default=4))
    elif match := _PNM.match(data[:65536]):
        yield Size(_whole(match[1]), _whole(match[2]), 1 if data[1:2] in b"1245" else 3)


def _whole(digits: bytes) -> int:
    return int(digits) if len(digits) < 20 else 10**20


def _png(data: bytes) -> Size:
    """Chunks are length, type, content, checksum; IHDR has the size, and fcTL that of a frame of an animation."""
    sizes, channels = [], 1
    for kind, position, _ in png_chunks(data):
        if kind == b"IHDR":
            sizes.append(struct.unpack_from(">II", data, position + 8))
            channels = max(channels, {0: 1, 4: 2, 2: 3, 3: 3}.get(data[position + 17], 4))
        elif kind == b"fcTL":
            sizes.append(struct.unpack_from(">II", data, position + 12))
    width, height = (max(side) for side in zip(*sizes, strict=True))
    return Size(width, height, channels)


def png_chunks(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Yield the types of the chunks of a PNG file, where they begin and where they end, up to the end of the image."""
    position, kind = len(PNG_SIGNATURE), b""
    while position + 12 <= len(data) and kind != b"IEND":
        length, kind = struct.unpack_from(">I4s", data, position)
        yield kind, position, position + 12 + length
        position += 12 + length


def _jpeg(data: bytes) -> Size:
    """Segments are a marker, a length and content; those that start a frame have the size."""
    sizes = [
        struct.unpack_from(">HHB", data, position + 5)
        for marker, position in jpeg_segments(data)
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC)
    ]
    height, width, channels = (max(side) for side in zip(*sizes, strict=True))
    return Size(width, height, channels)


def jpeg_segments(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the markers of a JPEG file, and where their ``0xff`` stands, up to the end of the image."""
    position = 2
    while (position := data.find(b"\xff", position)) >= 0 and position + 1 < len(data):
        marker = data[position + 1]
        if marker in (0x00, 0x01, 0xFF) or 0xD0 <= marker <= 0xD8:  # stuffing and restarts inside the pixel data
            position += 1 if marker == 0xFF else 2
            continue
        yield marker, position
        if marker == 0xD9:  # end of image
            return
        # Stepped over, since an embedded thumbnail has marks of its own.
        position += 2 + int.from_bytes(data[position + 2 : position + 4], "big")


def _tiff(data: bytes, pages: int) -> Iterator[Size]:
    for page in _tiff_pages(data, pages):
        largest: dict[int, int] = {}
        for entry in page:
            largest[entry.tag] = max(entry.value, largest.get(entry.tag, 0))
        # A decoder asks for at least one tile, however small the image.
        width = max(largest.get(_WIDTH, 0), largest.get(_TILE_WIDTH, 0))
        height = max(largest.get(_HEIGHT, 0), largest.get(_TILE_HEIGHT, 0))
        channels = max(largest.get(_CHANNELS, 1), 1)
        has_planes = channels > 1 and largest.get(_PLANES) == _SEPARATE
        is_inverted = largest.get(_PHOTOMETRIC) == _MIN_IS_WHITE
        yield Size(width, height, channels, has_planes, is_inverted, largest.get(_BITS, 1))


class _Entry(NamedTuple):
    """One tag of a TIFF page: its number, its value, where that stands, and how it is packed."""

    tag: int
    value: int
    position: int
    form: str


def _tiff_pages(data: bytes, pages: int) -> Iterator[list[_Entry]]:
    """Yield the tags of each page that are looked at here."""
    order, is_big = _TIFF_ORDERS[data[:4]]
    offset_type, count_type, entry_size = ("Q", "Q", 20) if is_big else ("I", "H", 12)
    width_of_count, width_of_offset = struct.calcsize(count_type), struct.calcsize(offset_type)
    (offset,) = struct.unpack_from(order + offset_type, data, 8 if is_big else 4)
    seen: set[int] = set()
    while offset and offset not in seen and len(seen) < min(pages, _MOST_PAGES):
        seen.add(offset)
        (count,) = struct.unpack_from(order + count_type, data, offset)
        first = offset + width_of_count
        found: list[_Entry] = []
        for entry in range(first, min(first + count * entry_size, len(data) - entry_size + 1), entry_size):
            tag, kind = struct.unpack_from(order + "HH", data, entry)
            if tag in _TIFF_TAGS:
                form, position = order + _TAG_BYTES.get(kind, "I"), entry + (12 if is_big else 8)
                if tag == _BITS:  # one for each channel: of more than fit, only the place stands here
                    (values,) = struct.unpack_from(order + offset_type, data, entry + 4)
                    if values * struct.calcsize(form) > width_of_offset:
                        (position,) = struct.unpack_from(order + offset_type, data, position)
                found.append(_Entry(tag, struct.unpack_from(form, data, position)[0], position, form))
        yield found
        end = first + count * entry_size
        offset = struct.unpack_from(order + offset_type, data, end)[0] if end + width_of_offset <= len(data) else 0


def as_stored(data: bytes) -> bytes:
    """Return an image file whose decoder leaves the pixels where and as they are stored.

    OpenCV turns TIFF pages by their orientation tag, whatever it is asked for, and stretches the values of text PGM and
    PPM files from their white to 255. Here the tag says upright, and the white 255. Of a PNG only the chunks that make
    the pixels are left: libpng writes to the terminal about others, such as odd color profiles, and OpenCV would ask
    for as much memory as those after the end claim to need. `data` must be of a known format (:func:`image_sizes`).
    """
    if data.startswith(PNG_SIGNATURE):
        return PNG_SIGNATURE + b"".join(data[start:end] for kind, start, end in png_chunks(data) if kind in PNG_PIXELS)
    if white := _TEXT_PNM_WHITE.match(data[:65536]):
        return data[: white.start(1)] + b"255" + data[white.end(1) :] if int(white[1]) < 255 else data
    if data[:4] not in _TIFF_ORDERS:
        return data
    tags: list[_Entry] = []
    with suppress(struct.error, OverflowError):  # a page after those that were asked for is cut off
        for page in _tiff_pages(data, _MOST_PAGES):
            tags += [entry for entry in page if entry.tag == _ORIENTATION]
    if all(entry.value == _UPRIGHT for entry in tags):
        return data
    upright = bytearray(data)
    for entry in tags:
        struct.pack_into(entry.form, upright, entry.position, _UPRIGHT)
    return bytes(upright)


def is_white_at_zero(data: bytes) -> bool:
    """Return whether a TIFF file says that 0 is white, so that a picture of it shows its numbers inverted."""
    with suppress(struct.error, OverflowError, IndexError):  # damaged
        if data[:4] in _TIFF_ORDERS:
            page = next(_tiff_pages(data, 1), [])
            return any(entry.tag == _PHOTOMETRIC and entry.value == 0 for entry in page)
    return False


def is_turned(data: bytes) -> bool:
    """Return whether an image file says that it is to be turned or mirrored to be seen upright, as phones' do.

    That is the orientation of a TIFF page, or of the Exif data in a JPEG, PNG or WebP file, which are like a TIFF page.
    """
    with suppress(struct.error, OverflowError, IndexError):  # damaged, or not there
        for part in _exif(data):
            if part[:4] in _TIFF_ORDERS:
                page = next(_tiff_pages(part, 1), [])
                return any(2 <= entry.value <= 8 for entry in page if entry.tag == _ORIENTATION)
    return False


def _exif(data: bytes) -> Iterator[bytes]:
    if data.startswith(b"\xff\xd8"):
        for marker, place in jpeg_segments(data):
            if marker == 0xE1 and data[place + 4 : place + 10] == b"Exif\0\0":
                yield data[place + 10 : place + 2 + int.from_bytes(data[place + 2 : place + 4], "big")]
            if marker == 0xDA:  # the pixels, before which it stands
                return
    elif data.startswith(PNG_SIGNATURE):
        yield from (data[start + 8 : end - 4] for kind, start, end in png_chunks(data) if kind == b"eXIf")
    elif data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        yield from (
            data[start:end].removeprefix(b"Exif\0\0") for kind, start, end in _webp_chunks(data) if kind == b"EXIF"
        )
    else:
        yield data


def _webp_chunks(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Yield the types of the chunks of a WebP file, and where their content begins and ends."""
    position = 12
    while position + 8 <= len(data):
        kind, length = struct.unpack_from("<4sI", data, position)
        yield kind, position + 8, position + 8 + length
        position += 8 + length + length % 2


def _bmp(data: bytes) -> Size:
    (header,) = struct.unpack_from("<I", data, 14)
    width, height = struct.unpack_from("<HH" if header == 12 else "<ii", data, 18)
    return Size(abs(width), abs(height))


def _webp(data: bytes) -> Size:
    sizes = []
    for kind, body, _ in _webp_chunks(data):
        if kind in (b"VP8X", b"ANMF"):  # the canvas, or a frame of an animation, whose place comes first
            start = body + (4 if kind == b"VP8X" else 6)
            sizes.append((1 + int.from_bytes(data[start : start + 3], "little"),
                          1 + int.from_bytes(data[start + 3 : start + 6], "little")))  # fmt: skip
        elif kind == b"VP8 ":
            sizes.append(tuple(side & 0x3FFF for side in struct.unpack_from("<HH", data, body + 6)))
        elif kind == b"VP8L":
            (bits,) = struct.unpack_from("<I", data, body + 1)
            sizes.append((1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)))
    width, height = (max(side) for side in zip(*sizes, strict=True))
    return Size(width, height, 4)
