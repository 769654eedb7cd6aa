"""A look for damage inside JPEG data. libjpeg decodes what it can, fills up the rest, and only prints a line about it.

The codes of a JPEG have no checksum, but as many of them must be there as there are blocks. A change inside them mostly
shifts what follows, and then codes are missing, impossible or left over. (Mostly: they fall into step again, and by
chance it can be the right one.) What changes the value of a coefficient alone cannot be noticed. Nothing is looked for
in progressive and other rare kinds.
"""

import struct
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scotopic.io.headers import jpeg_segments

_SEQUENTIAL, _HUFFMAN, _SCAN, _RESTART = (0xC0, 0xC1), 0xC4, 0xDA, 0xDD  # markers
_OTHERS = tuple({*range(0xC2, 0xD0)} - {_HUFFMAN, 0xC8, 0xCC})  # markers of progressive and other rare kinds
_SLACK = 2  # bytes that may be left before a marker: webcams leave one or two, and the picture is whole


class _Component(NamedTuple):
    """How many blocks of a component lie across and down a unit."""

    across: int
    down: int


def has_damaged_codes(data: bytes, tables: bytes = b"") -> bool:
    """Return whether JPEG data have a scan whose codes do not fit its blocks.

    Parameters
    ----------
    data
        The data, from the mark of their begin on.
    tables
        JPEG data with the tables alone, where `data` have none, as in TIFF files.
    """
    with suppress(struct.error, KeyError, IndexError, ValueError, ArithmeticError):  # of a rare kind, or cut short
        codes: dict[int, NDArray[np.int32]] = {}
        for _, start, end in _segments(tables, _HUFFMAN):
            codes |= _read_codes(tables[start:end])
        return _has_damaged_scan(data, codes)
    return False


def _segments(data: bytes, *wanted: int) -> list[tuple[int, int, int]]:
    """Return the markers among those that are wanted, with where their content begins and ends."""
    found = [(marker, place) for marker, place in jpeg_segments(data) if marker in wanted]
    return [
        (marker, place + 4, place + 2 + int.from_bytes(data[place + 2 : place + 4], "big")) for marker, place in found
    ]


def _has_damaged_scan(data: bytes, codes: dict[int, NDArray[np.int32]]) -> bool:
    if _segments(data, *_OTHERS):
        return False
    interval, width, height, scans = 0, 0, 0, 0
    components: dict[int, _Component] = {}
    for marker, start, end in _segments(data, *_SEQUENTIAL, _HUFFMAN, _SCAN, _RESTART):
        if marker == _HUFFMAN:
            codes |= _read_codes(data[start:end])
        elif marker == _RESTART:
            (interval,) = struct.unpack_from(">H", data, start)
        elif marker in _SEQUENTIAL:
            bits, height, width, count = struct.unpack_from(">BHHB", data, start)
            if bits != 8 or not (width and height):
                raise ValueError("of a rare kind")
            for place in range(start + 6, start + 6 + 3 * count, 3):
                name, sampling, _ = struct.unpack_from(">BBB", data, place)
                components[name] = _Component(sampling >> 4, sampling & 15)
        else:
            named = [(data[place], data[place + 1]) for place in range(start + 1, start + 1 + 2 * data[start], 2)]
            units, dc, ac = _layout(width, height, components, named)
            used = np.stack([codes[table] for table in sorted({*dc, *ac})])
            order = {table: number for number, table in enumerate(sorted({*dc, *ac}))}
            numbers = [np.array([order[table] for table in each], np.int64) for each in (dc, ac)]
            if not _walk(np.frombuffer(data, np.uint8), end, used, *numbers, units, interval, _SLACK):
                return True
            scans += 1
    return scans == 0


def _layout(
    width: int, height: int, components: dict[int, _Component], named: list[tuple[int, int]]
) -> tuple[int, list[int], list[int]]:
    """Return how many units a scan has, and the tables of the blocks of each: of their DC and of their AC codes."""
    across = max(each.across for each in components.values())
    down = max(each.down for each in components.values())
    if len(named) == 1:  # a component by itself has only the blocks that it needs
        alone = components[named[0][0]]
        columns, rows = -(-width * alone.across // across), -(-height * alone.down // down)
        return -(-columns // 8) * -(-rows // 8), [named[0][1] >> 4], [16 + (named[0][1] & 15)]
    tables = [table for name, table in named for _ in range(components[name].across * components[name].down)]
    units = -(-width // (8 * across)) * -(-height // (8 * down))
    return units, [table >> 4 for table in tables], [16 + (table & 15) for table in tables]


def _read_codes(content: bytes) -> dict[int, NDArray[np.int32]]:
    """Return the tables of a segment, by their class (0 DC, 16 AC) and number, as the kernel takes them."""
    found, place = {}, 0
    while place < len(content):
        counts = content[place + 1 : place + 17]
        values = content[place + 17 : place + 17 + sum(counts)]
        if len(counts) < 16 or len(values) < sum(counts):
            raise ValueError("a table is cut short")
        codes = np.zeros(65536, np.int32)
        code = used = 0
        for length, count in enumerate(counts, 1):
            for value in values[used : used + count]:
                codes[code << (16 - length) : (code + 1) << (16 - length)] = length << 8 | value
                code += 1
            used, code = used + count, code << 1
        found[content[place]] = codes
        place += 17 + sum(counts)
    return found


# --- walking through the codes ---------------------------------------------------------------------------------------


def _walk(*arguments: Any) -> bool:
    """Return what :func:`is_scan_whole` says: compiled, or slowly if there is no use of Numba's cache of kernels."""
    try:
        return bool(_compiled()(*arguments))
    except Exception:  # the cache is damaged, full, or has no place
        return is_scan_whole(*arguments)


@cache
def _compiled() -> Any:
    from numba import njit

    how: dict[str, Any] = {"cache": True, "nogil": True, "no_cfunc_wrapper": True}
    return njit(**how)(is_scan_whole)


def is_scan_whole(
    data: NDArray[np.uint8],
    position: int,
    codes: NDArray[np.int32],
    dc: NDArray[np.int64],
    ac: NDArray[np.int64],
    units: int,
    interval: int,
    slack: int,
) -> bool:
    """Return whether a scan holds the codes of its blocks and then ends: none is missing, impossible or left.

    It walks from code to code (ITU-T T.81, F.2.2) without decoding what they stand for. Numba compiles it.

    Parameters
    ----------
    data
        The file, bytes.
    position
        Where the scan begins, after its header.
    codes
        ``(tables, 65536)``: for the next 16 bits, 256 times the length of the code that they begin with, and its value;
        0 if they begin with none.
    dc, ac
        For each block of a unit the numbers of its tables.
    units
        How many units (MCU) there are.
    interval
        Units between two restart markers, 0 if there are none.
    slack
        Bytes that may be left before a marker; more only if all are equal, with which some cameras fill up.
    """
    size = data.size
    bits, have, lent = 0, 0, 0  # what was read and not used yet, how much that is, and how much of it is not there
    for unit in range(units + 1):
        if unit == units or (interval > 0 and unit > 0 and unit % interval == 0):
            # What is left: whole bytes that were read, and those up to the marker.
            left, changes, before = (have - lent) >> 3, 0, 0
            for number in range(left + size - position - 1):
                if number < left:
                    byte = (bits >> (lent + 8 * (left - 1 - number))) & 255
                elif data[position] == 255 and 0 < data[position + 1] < 255:
                    break
                else:
                    byte = int(data[position])
                    position += 1
                changes += number > 0 and byte != before
                before = byte
            else:
                return False
            if number > slack and changes > 0:
                return False
            if unit == units:
                return not 208 <= data[position + 1] <= 215
            if data[position + 1] != 208 + (unit // interval - 1) % 8:
                return False
            position += 2
            bits, have, lent = 0, 0, 0
        for block in range(dc.size):
            place, table = 0, dc[block]
            while place < 64:
                while have < 32:
                    byte = 0
                    while position + 1 < size and data[position] == 255 and data[position + 1] == 255:
                        position += 1
                    if position + 1 >= size or (data[position] == 255 and data[position + 1] > 0):
                        lent += 8  # a marker: there is no more
                    else:
                        byte = int(data[position])
                        position += 2 if byte == 255 else 1
                    bits, have = (bits << 8) | byte, have + 8
                code = int(codes[table, (bits >> (have - 16)) & 65535])
                length, value = code >> 8, code & 255
                if length == 0:
                    return False
                have -= length + (value & 15)
                if have < lent:
                    return False
                bits &= (1 << have) - 1
                if place == 0:
                    place, table = 1, ac[block]
                elif value & 15 == 0 and value != 240:  # the rest of the block is 0
                    if value != 0:
                        return False
                    break
                else:
                    place += (value >> 4) + 1
                    if place > 64:
                        return False
    return False  # not reached: the last turn returns
