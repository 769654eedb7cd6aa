"""TIFF files: pages are read as they are stored, with all their bits, or refused."""

import struct
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import tifffile
from command_line import succeed

from scotopic.errors import InputError, PairWarning
from scotopic.io import read_image
from scotopic.io.images import count_pages, decode_pages, read_pages
from scotopic.io.tiff import is_damaged

pytestmark = pytest.mark.filterwarnings("ignore:Of the pages:scotopic.errors.PairWarning")  # read_image reads one


@pytest.mark.filterwarnings("ignore:A file says:scotopic.errors.PairWarning")
@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.float32])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_no_page_of_a_tiff_is_turned_by_its_metadata(tmp_path: Path, orientation: int, kind: type) -> None:
    pages = [np.arange(63, dtype=kind).reshape(7, 9) / kind(1 if kind is not np.float32 else 63) for _ in range(2)]
    path = tmp_path / "turned.tif"
    with tifffile.TiffWriter(path) as file:
        for page in pages:
            file.write(
                page.astype(kind), photometric="minisblack", contiguous=False,
                extratags=[(274, "H", 1, orientation, True)],
            )  # fmt: skip

    for found in (read_image(path), *read_pages(path), *decode_pages(path, several=True)):
        np.testing.assert_array_equal(found, pages[0].astype(kind))


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_zero_is_black_whatever_a_tiff_file_takes_for_white(tmp_path: Path, kind: type) -> None:
    pages = np.arange(2 * 63, dtype=kind).reshape(2, 7, 9)
    path = tmp_path / "white.tif"
    tifffile.imwrite(path, np.iinfo(kind).max - pages, photometric="miniswhite")

    np.testing.assert_array_equal(read_image(path), pages[0])
    np.testing.assert_array_equal([*read_pages(path)], pages)
    np.testing.assert_array_equal(decode_pages(path, several=True), pages)


@pytest.mark.parametrize("bits", [10, 12, 14])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("order", ["<", ">"])
def test_packed_values_of_10_to_14_bits_are_as_stored(tmp_path: Path, bits: int, channels: int, order: str) -> None:
    values = np.random.default_rng(0).integers(0, 2**bits, (4, 8, channels)).squeeze()
    photometric = 2 if channels == 3 else 1
    (tmp_path / "a.tif").write_bytes(_packed_tiff(values, bits, photometric, order))
    found = read_image(tmp_path / "a.tif")
    assert found.dtype == np.uint16
    np.testing.assert_array_equal(found, values)
    if channels == 1:  # 0 is white: the largest value is what the bits hold, not what the type does
        (tmp_path / "b.tif").write_bytes(_packed_tiff(values, bits, 0, order))
        np.testing.assert_array_equal(read_image(tmp_path / "b.tif"), 2**bits - 1 - values)


def _packed_tiff(values: Any, bits: int, photometric: int, order: str) -> bytes:
    """Return a TIFF file of one strip without compression, the highest bit of each value first, as TIFF 6.0 has it."""
    height, width, *channels = values.shape
    shifts = np.arange(bits - 1, -1, -1)
    strip = np.packbits((values.reshape(height, -1, 1) >> shifts & 1).astype(np.uint8).reshape(height, -1), axis=1)
    depths = struct.pack(order + "III", *[bits] * 3)  # of which gray needs none
    end = 8 + 2 + 9 * 12 + 4  # of the one directory
    count = channels[0] if channels else 1
    entries = [
        (256, 1, width), (257, 1, height), (258, count, end if channels else bits), (259, 1, 1), (262, 1, photometric),
        (273, 1, end + len(depths)), (277, 1, count), (278, 1, height), (279, 1, strip.size),
    ]  # fmt: skip
    packed = b"".join(struct.pack(order + "HHII", tag, 4, many, value) for tag, many, value in entries)
    start = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "IH", 8, len(entries))
    return start + packed + b"\0\0\0\0" + depths + strip.tobytes()


@pytest.mark.parametrize("photometric", ["minisblack", "miniswhite"])
@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_gray_beside_alpha_in_a_tiff_keeps_all_its_bits(tmp_path: Path, kind: type, photometric: str) -> None:
    white, path = np.iinfo(kind).max, tmp_path / "alpha.tif"
    gray = np.arange(2 * 63, dtype=kind).reshape(2, 7, 9)
    stored = gray if photometric == "minisblack" else white - gray
    alpha = np.full_like(gray, white)
    for opaque in (True, False):
        alpha[1, 2, 3] = white if opaque else 0
        tifffile.imwrite(
            path, np.stack([stored, alpha], axis=-1), photometric=photometric, planarconfig="contig", extrasamples=[2]
        )

        np.testing.assert_array_equal(read_image(path), gray[0])
        if opaque:
            np.testing.assert_array_equal([*read_pages(path)], gray)
        else:
            with pytest.raises(InputError, match="not all of its pixels are opaque"):
                list(read_pages(path))


@pytest.mark.parametrize("layout", [{"rowsperstrip": 16}, {"tile": (16, 16)}])
@pytest.mark.parametrize("pages", [1, 3])
@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.float32])
def test_a_tiff_whose_checksums_are_wrong_is_refused(
    tmp_path: Path, kind: type, pages: int, layout: dict[str, Any]
) -> None:
    stack = np.random.default_rng(0).integers(0, 9, (pages, 64, 48)).astype(kind)
    path = tmp_path / "damaged.tif"
    tifffile.imwrite(path, stack, photometric="minisblack", compression="zlib", **layout)
    np.testing.assert_array_equal([*read_pages(path)], stack)
    with tifffile.TiffFile(path) as file:
        middle = file.pages[-1].dataoffsets[1] + file.pages[-1].databytecounts[1] // 2
    whole = path.read_bytes()
    flipped = [whole[:middle] + bytes([whole[middle] ^ 1 << bit]) + whole[middle + 1 :] for bit in range(8)]
    for changed in (*flipped, whole[: middle - 4] + bytes(8) + whole[middle + 4 :]):
        path.write_bytes(changed)

        with pytest.raises(InputError, match=r"damaged|cut short"):
            list(read_pages(path))
        with pytest.raises(InputError, match="no readable image"):
            decode_pages(path, several=True)


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
@pytest.mark.parametrize("compression", [5, 32773], ids=["LZW", "PackBits"])
def test_a_tiff_whose_parts_become_too_long_or_too_short_is_refused(
    tmp_path: Path, compression: int, kind: type
) -> None:
    image = np.random.default_rng(0).poisson(2, (301, 200)).astype(kind) * kind(3)
    image[:, :80] = 7  # long runs too
    path, options = tmp_path / "packed.tif", [cv2.IMWRITE_TIFF_COMPRESSION, compression]
    for rows in (0, 16, 301):
        more = [cv2.IMWRITE_TIFF_ROWSPERSTRIP, rows] if rows else []
        assert cv2.imwrite(str(path), image, options + more)
        np.testing.assert_array_equal(read_image(path), image)

        with tifffile.TiffFile(path) as file:
            start, length = file.pages[0].dataoffsets[0], file.pages[0].databytecounts[0]
        data = bytearray(path.read_bytes())
        for change in (b"\x55" * 140, b"\0" * 140):
            damaged = data.copy()
            damaged[start + length // 2 : start + length // 2 + 140] = change  # no run is longer
            path.write_bytes(damaged)
            with pytest.raises(InputError, match="no readable image"):
                read_image(path)


@pytest.mark.parametrize(
    "packed",
    [b"\x80" + b"\0" * 9000, b"\x80\0\0" * 3000, b"\x80\x40\x20\x10\x08\x04\x02\x01" * 3000, b"\xff" * 9000],
    ids=["one value", "odd codes", "only clears", "codes of no entry"],
)
def test_odd_lzw_codes_take_little_time_and_raise_nothing(packed: bytes) -> None:
    assert is_damaged(_tiff_of(packed, compression=5), 1)


def _tiff_of(packed: bytes, compression: int) -> bytes:
    """Return a TIFF file of 64 x 64 px of 8 bits, whose only strip holds these bytes."""
    tags = [(256, 64), (257, 64), (258, 8), (259, compression), (262, 1), (277, 1), (278, 64)]
    tags = [*tags[:5], (273, 200), *tags[5:], (279, len(packed))]
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags)
    head = b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + b"\0" * 4
    return head.ljust(200, b"\0") + packed


@pytest.mark.parametrize("tile", [(16, 16), (32, 16), (64, 64)])
@pytest.mark.parametrize("shape", [(40, 51), (40, 51, 3), (40, 51, 4)])
def test_tiles_of_every_size_are_read(tmp_path: Path, shape: tuple[int, ...], tile: tuple[int, int]) -> None:
    stack = np.random.default_rng(0).integers(0, 255, (2, *shape), np.uint8)
    if shape[2:] == (4,):
        stack[..., 3] = 255
    path = tmp_path / "tiles.tif"
    for photometric in ["rgb"] if len(shape) == 3 else ["minisblack", "miniswhite"]:
        tifffile.imwrite(path, stack, tile=tile, photometric=photometric)
        expected = 255 - stack if photometric == "miniswhite" else stack[..., :3] if len(shape) == 3 else stack

        np.testing.assert_array_equal(read_image(path), expected[0])
        np.testing.assert_array_equal([*read_pages(path)], expected)
        decoded = np.array(decode_pages(path, several=True))
        np.testing.assert_array_equal(decoded[..., 2::-1] if len(shape) == 3 else decoded, expected)

    with tifffile.TiffFile(path) as file:
        end = max(file.pages[0].dataoffsets) + file.pages[0].databytecounts[-1]
    path.write_bytes(path.read_bytes()[: end - 10])
    with pytest.raises(InputError):
        read_image(path)


def test_a_stack_that_is_cut_short_is_not_its_first_page(tmp_path: Path) -> None:
    with tifffile.TiffWriter(tmp_path / "cut.tif") as file:
        for page in np.arange(5 * 63, dtype=np.uint16).reshape(5, 7, 9):
            file.write(page, contiguous=False, photometric="minisblack")
    data = (tmp_path / "cut.tif").read_bytes()
    (tmp_path / "cut.tif").write_bytes(data[: len(data) * 3 // 5])

    with pytest.raises(InputError, match="cut short"):
        list(read_pages(tmp_path / "cut.tif"))
    assert count_pages(tmp_path / "cut.tif") > 1


@pytest.mark.filterwarnings("ignore:A file says:scotopic.errors.PairWarning")
def test_a_page_that_is_not_there_does_not_spoil_those_before_it(tmp_path: Path) -> None:
    page = np.arange(63, dtype=np.uint8).reshape(7, 9)
    tifffile.imwrite(tmp_path / "turned.tif", page, extratags=[(274, "H", 1, 3, True)], byteorder="<")
    data = bytearray((tmp_path / "turned.tif").read_bytes())
    first = struct.unpack_from("<I", data, 4)[0]
    struct.pack_into("<I", data, first + 2 + 12 * struct.unpack_from("<H", data, first)[0], 2**31)  # of the next page
    (tmp_path / "turned.tif").write_bytes(data)

    np.testing.assert_array_equal(read_image(tmp_path / "turned.tif"), page)


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.float32])
def test_a_tiff_with_a_plane_for_each_color_is_read_right_or_refused(tmp_path: Path, kind: type) -> None:
    planes = (np.arange(3 * 63).reshape(3, 7, 9) / (1 if kind is not np.float32 else 189)).astype(kind)
    path = tmp_path / "planes.tif"
    tifffile.imwrite(path, planes, photometric="rgb", planarconfig="separate")

    if kind is np.uint8:
        np.testing.assert_array_equal(read_image(path), np.moveaxis(planes, 0, 2))
    else:
        with pytest.raises(InputError, match="a plane of its own"):
            read_image(path)


@pytest.mark.filterwarnings("default:Of the pages:scotopic.errors.PairWarning")
def test_whoever_reads_one_of_several_pages_is_told(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "stack.tif", np.ones((5, 64, 96), np.uint8), photometric="minisblack")

    with pytest.warns(PairWarning, match=r"Of the pages of a TIFF file one is read, the first of 5\."):
        assert read_image(tmp_path / "stack.tif").shape == (64, 96)
    stacks = [tmp_path / "stack.tif"] * 2
    result = succeed("simulate", *stacks, "-o", tmp_path / "out", "--photons", 2, "--read-noise", 2)
    assert result.stderr.count("warning: Of the pages of a TIFF file") == 1
