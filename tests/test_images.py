"""Images from files and arrays: as recorded, in one form, or refused with a message that helps."""

import os
import struct
import subprocess
import sys
import warnings
import zlib
from pathlib import Path

import cv2
import numpy as np
import pytest
import tifffile

from scotopic.errors import InputError, OutputError
from scotopic.io import as_image, read_image, write_pfm, write_png

RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)


def refusal(source: object, name: str = "left") -> str:
    """The message with which :func:`as_image` refuses a source: one line, naming the image."""
    with pytest.raises(InputError) as caught:
        as_image(source, name)
    message = str(caught.value)
    assert name in message
    assert "\n" not in message
    return message


def png_chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def smooth_image() -> np.ndarray:
    y, x = np.mgrid[:40, :60]
    return np.stack([x * 4, y * 6, (x + y) * 2], axis=2).astype(np.uint8)


# --- files ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 3)])
def test_png_files_hold_exactly_what_was_written(tmp_path: Path, shape: tuple[int, ...], dtype: type) -> None:
    image: np.ndarray = np.random.default_rng(0).integers(0, np.iinfo(dtype).max, shape, dtype=dtype, endpoint=True)

    write_png(tmp_path / "image.png", image)
    back = read_image(tmp_path / "image.png")

    assert back.dtype == dtype
    np.testing.assert_array_equal(back, image)
    assert [path.name for path in tmp_path.iterdir()] == ["image.png"]


def test_colors_are_red_green_blue_in_memory(tmp_path: Path) -> None:
    image = np.array([[RED, GREEN, BLUE]], dtype=np.uint8)

    write_png(tmp_path / "ours.png", image)
    cv2.imwrite(str(tmp_path / "theirs.png"), image[:, :, ::-1])  # OpenCV has blue first

    np.testing.assert_array_equal(cv2.imread(str(tmp_path / "ours.png")), image[:, :, ::-1])
    np.testing.assert_array_equal(read_image(str(tmp_path / "theirs.png")), image)


def test_float_images_in_pfm_and_tiff_are_read_as_float32(tmp_path: Path) -> None:
    image = np.random.default_rng(0).random((4, 5, 3)).astype(np.float32)
    write_pfm(tmp_path / "image.pfm", image)
    write_pfm(tmp_path / "image.dat", image)  # known by its content, whatever its name
    plain = [cv2.IMWRITE_TIFF_COMPRESSION, 1]  # older versions of OpenCV lose bits otherwise
    cv2.imwrite(str(tmp_path / "image.tiff"), image[:, :, ::-1], plain)
    cv2.imwrite(str(tmp_path / "double.tiff"), image[:, :, ::-1].astype(np.float64), plain)

    for name in ("image.pfm", "image.dat", "image.tiff", "double.tiff"):
        back = read_image(tmp_path / name)
        assert back.dtype == np.float32
        np.testing.assert_array_equal(back, image)


@pytest.mark.filterwarnings("ignore:A file says:scotopic.errors.PairWarning")
def test_a_jpeg_is_not_turned_by_its_metadata(tmp_path: Path) -> None:
    data = cv2.imencode(".jpg", smooth_image())[1].tobytes()
    tiff = b"MM\0*\0\0\0\x08" + struct.pack(">HHHIHHI", 1, 0x0112, 3, 1, 6, 0, 0)  # orientation 6: a quarter turn
    exif = b"Exif\0\0" + tiff
    (tmp_path / "turned.jpg").write_bytes(data[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + data[2:])

    turned = cv2.imread(str(tmp_path / "turned.jpg"))
    assert turned is not None
    assert turned.shape == (60, 40, 3)  # the metadata does say so
    assert read_image(tmp_path / "turned.jpg").shape == (40, 60, 3)


EXIF = struct.pack("<4sIHHHII", b"II*\0", 8, 1, 0x0112, 3, 1, 6) + bytes(4)  # orientation 6: a quarter turn


@pytest.mark.parametrize("orientation", [1, 3, 6, 8])
@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp", ".tif"])
def test_a_file_that_is_to_be_turned_gets_a_warning(tmp_path: Path, suffix: str, orientation: int) -> None:
    """Cameras that stand side by side in a picture as it is shown are above each other in one that was turned."""
    path, exif = tmp_path / f"turned{suffix}", EXIF.replace(b"\x06", bytes([orientation]))
    if suffix == ".tif":
        tifffile.imwrite(path, smooth_image(), extratags=[(274, "H", 1, orientation, True)])
    else:
        data = cv2.imencode(suffix, smooth_image())[1].tobytes()
        if suffix == ".jpg":
            data = data[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 8) + b"Exif\0\0" + exif + data[2:]
        elif suffix == ".png":
            data = data[:33] + png_chunk(b"eXIf", exif) + data[33:]  # after the header
        else:
            size = struct.pack("<I", 59)[:3] + struct.pack("<I", 39)[:3]
            chunks = (
                b"VP8X" + struct.pack("<II", 10, 8) + size + data[12:] + b"EXIF" + struct.pack("<I", len(exif)) + exif
            )
            data = b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WEBP" + chunks
        path.write_bytes(data)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert read_image(path).shape == (40, 60, 3)  # as it is stored

    assert ["to be turned" in str(each.message) for each in caught] == ([] if orientation == 1 else [True])


@pytest.mark.parametrize("white", [15, 200, 255, 1000, 4095])
def test_text_pgm_and_ppm_files_are_not_stretched_to_their_white(tmp_path: Path, white: int) -> None:
    gray = np.linspace(0, white, 24).astype(np.uint8 if white < 256 else np.uint16).reshape(4, 6)
    words = " ".join(map(str, gray.ravel()))
    (tmp_path / "gray.pgm").write_text(f"P2\n# by hand\n6 4 {white}\n{words}\n")
    (tmp_path / "color.ppm").write_text(f"P3 2 4 {white}\n{words}\n")

    np.testing.assert_array_equal(read_image(tmp_path / "gray.pgm"), gray)
    np.testing.assert_array_equal(read_image(tmp_path / "color.ppm"), gray.reshape(4, 2, 3))


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".bmp", ".tiff", ".ppm", ".webp"])
def test_a_file_cut_short_anywhere_is_refused_and_the_whole_one_is_not(tmp_path: Path, suffix: str) -> None:
    data = cv2.imencode(suffix, smooth_image())[1].tobytes()
    path = tmp_path / f"image{suffix}"
    path.write_bytes(data)
    assert read_image(path).shape == (40, 60, 3)

    for length in (0, 1, 5, 20, len(data) // 2, len(data) - 30, len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(InputError, match="fetch it again"):
            read_image(path)


def test_a_jpeg_with_a_whole_thumbnail_but_a_cut_picture_is_refused(tmp_path: Path) -> None:
    data = cv2.imencode(".jpg", smooth_image())[1].tobytes()
    segment = b"\xff\xe1" + struct.pack(">H", len(data) + 2) + data
    whole, cut = data[:2] + segment + data[2:], data[:2] + segment + data[2:-200]
    (tmp_path / "whole.jpg").write_bytes(whole)
    (tmp_path / "cut.jpg").write_bytes(cut)

    assert read_image(tmp_path / "whole.jpg").shape == (40, 60, 3)
    with pytest.raises(InputError, match="no readable image"):
        read_image(tmp_path / "cut.jpg")


def test_missing_files_folders_pipes_and_texts_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("not an image")
    (tmp_path / "short.pfm").write_bytes(b"Pf\n2 2\n-1\n")
    os.mkfifo(tmp_path / "pipe.png")

    assert "No such file" in refusal(tmp_path / "none.png")
    assert "folder" in refusal(tmp_path)
    assert "pipe" in refusal(tmp_path / "pipe.png")
    assert "no readable image" in refusal(tmp_path / "text.png")
    assert "PFM" in refusal(tmp_path / "short.pfm")
    assert "null" in refusal("a\0b.png")


def test_the_message_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "none.png"

    assert repr(str(path)) in refusal(str(path), name=str(path))


def gray_alpha_png(pixels: bytes, alpha: bytes) -> bytes:
    """One row of 8-bit gray with alpha."""
    header = png_chunk(b"IHDR", struct.pack(">IIBBBBB", len(pixels), 1, 8, 4, 0, 0, 0))  # color type 4
    row = b"\0" + bytes(value for pair in zip(pixels, alpha, strict=True) for value in pair)
    return b"\x89PNG\r\n\x1a\n" + header + png_chunk(b"IDAT", zlib.compress(row)) + png_chunk(b"IEND", b"")


def test_transparent_pixels_are_refused_with_the_advice_to_remove_alpha(tmp_path: Path) -> None:
    almost = np.full((3, 4, 4), 255, np.uint8)
    almost[2, 3, 3] = 254
    cv2.imwrite(str(tmp_path / "rgba.png"), almost)
    (tmp_path / "gray_alpha.png").write_bytes(gray_alpha_png(b"\x10\x20", b"\xff\xfe"))

    for name in ("rgba.png", "gray_alpha.png"):
        with pytest.raises(InputError, match="remove alpha"):
            read_image(tmp_path / name)


@pytest.mark.parametrize(
    ("suffix", "dtype"),
    [("png", np.uint8), ("png", np.uint16), ("tiff", np.uint8), ("tiff", np.uint16), ("webp", np.uint8)],
)
def test_an_opaque_alpha_channel_is_dropped(tmp_path: Path, suffix: str, dtype: type) -> None:
    rgb = np.random.default_rng(0).integers(0, np.iinfo(dtype).max, (6, 7, 3), dtype)
    alpha = np.full((6, 7, 1), np.iinfo(dtype).max, dtype)
    lossless = [cv2.IMWRITE_WEBP_QUALITY, 101] if suffix == "webp" else []
    assert cv2.imwrite(str(tmp_path / f"rgba.{suffix}"), np.dstack([rgb[..., ::-1], alpha]), lossless)

    np.testing.assert_array_equal(read_image(tmp_path / f"rgba.{suffix}"), rgb)


def test_gray_with_opaque_alpha_is_gray(tmp_path: Path) -> None:
    (tmp_path / "gray_alpha.png").write_bytes(gray_alpha_png(b"\x10\x20", b"\xff\xff"))

    np.testing.assert_array_equal(read_image(tmp_path / "gray_alpha.png"), np.array([[0x10, 0x20]], np.uint8))


@pytest.mark.parametrize(("dtype", "opaque"), [(np.uint8, 255), (np.uint16, 65535), (np.float32, 1), (bool, True)])
def test_opaque_alpha_in_arrays_is_dropped_too(dtype: type, opaque: float) -> None:
    image = np.random.default_rng(0).integers(0, 2, (6, 7, 3)).astype(dtype)
    alpha = np.full((6, 7, 1), opaque, dtype)

    np.testing.assert_array_equal(as_image(np.dstack([image, alpha]), "left"), as_image(image, "left"))
    np.testing.assert_array_equal(as_image(np.dstack([image[..., :1], alpha]), "left"), as_image(image[..., 0], "left"))
    alpha[0, 0] = 0
    assert "alpha" in refusal(np.dstack([image, alpha]))


def test_integers_of_other_widths_in_a_file_are_refused(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "signed.tiff"), np.zeros((3, 4), np.int16))

    with pytest.raises(InputError, match="int16"):
        read_image(tmp_path / "signed.tiff")


# --- arrays ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.array([[0, 51, 255]], np.uint8), [0.0, 51 / 255, 1.0]),
        (np.array([[0, 13107, 65535]], np.uint16), [0.0, 13107 / 65535, 1.0]),
        (np.array([[0, 13107, 65535]], ">u2"), [0.0, 13107 / 65535, 1.0]),
        (np.array([[False, True, True]]), [0.0, 1.0, 1.0]),
        (np.array([[0.0, 0.25, 1.0]], np.float16), [0.0, 0.25, 1.0]),
        (np.array([[0.0, 0.2, 1.0]], np.float32), [0.0, 0.2, 1.0]),
        (np.array([[0.0, 0.2, 1.0]], np.float64), [0.0, 0.2, 1.0]),
        (np.array([[-0.5, 0.2, 1.5]], np.float32), [-0.5, 0.2, 1.5]),  # noise overshoots, and is kept
    ],
)
def test_each_type_is_scaled_by_its_full_scale(array: np.ndarray, expected: list[float]) -> None:
    image = as_image(array, "left")

    assert image.dtype == np.float32
    np.testing.assert_allclose(image, np.array(expected).reshape(1, 3, 1), rtol=1e-6)


@pytest.mark.parametrize(("shape", "channels"), [((4, 5), 1), ((4, 5, 1), 1), ((4, 5, 3), 3), ((4, 3), 1)])
def test_every_image_has_height_width_and_channels(shape: tuple[int, ...], channels: int) -> None:
    assert as_image(np.zeros(shape, np.float32), "left").shape == (*shape[:2], channels)


def test_strided_arrays_become_contiguous_and_keep_their_order() -> None:
    array = np.arange(24, dtype=np.uint8).reshape(4, 6)[::-1, ::2]

    image = as_image(array, "left")

    assert image.flags.c_contiguous
    np.testing.assert_allclose(image[:, :, 0], array / 255, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8, bool])
def test_the_array_of_the_caller_is_neither_changed_nor_shared(dtype: type) -> None:
    array: np.ndarray = np.ones((4, 5, 3), dtype)

    image = as_image(array, "left")
    image[:] = 0.5

    assert not np.shares_memory(image, array)
    np.testing.assert_array_equal(array, np.ones((4, 5, 3), dtype))


def test_files_and_arrays_give_the_same_image(tmp_path: Path) -> None:
    write_png(tmp_path / "image.png", smooth_image())

    np.testing.assert_array_equal(as_image(tmp_path / "image.png", "left"), as_image(smooth_image(), "left"))


def test_values_that_are_not_finite_are_counted_and_the_first_is_located() -> None:
    array = np.zeros((4, 5, 3), np.float32)
    array[2, 3, 1] = np.nan
    array[3, 0, 0] = np.inf

    message = refusal(array, name="right")

    assert "2 of 60 values" in message
    assert "row 2, column 3" in message


@pytest.mark.parametrize("values", [[0.0, 255.0], [-1.01, 0.0], [0.0, 2.01]])
def test_floats_on_another_scale_are_refused(values: list[float]) -> None:
    assert "Divide them by full scale" in refusal(np.array([values]))


def test_floats_at_the_limits_of_the_range_are_taken() -> None:
    np.testing.assert_array_equal(as_image(np.array([[-1.0, 2.0]]), "left")[0, :, 0], [-1.0, 2.0])


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint32, np.complex64, object])
def test_other_types_of_numbers_are_refused(dtype: type) -> None:
    assert np.dtype(dtype).name in refusal(np.zeros((4, 5), dtype))


@pytest.mark.parametrize(
    ("shape", "advice"),
    [
        ((4,), "one image"),
        ((2, 4, 5, 3), "one image"),
        ((), "one image"),
        ((0, 5), "cropped"),
        ((4, 5, 0), "cropped"),
        ((4, 5, 2), "alpha"),
        ((4, 5, 4), "alpha"),
        ((3, 4, 5), "channels last"),
    ],
)
def test_other_shapes_are_refused_with_advice_that_fits(shape: tuple[int, ...], advice: str) -> None:
    message = refusal(np.zeros(shape, np.float32))

    assert str(shape) in message
    assert advice in message


@pytest.mark.parametrize("source", [None, 3, [[0.0, 1.0]], ("left.png", "right.png")])
def test_what_is_neither_path_nor_array_is_refused(source: object) -> None:
    assert type(source).__name__ in refusal(source)


def test_objects_that_numpy_can_read_are_arrays_too() -> None:
    class Tensor:
        def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
            return np.ones((2, 3), np.float32)

    class TensorElsewhere:
        def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
            raise TypeError("copy it to the host\nfirst")

    assert as_image(Tensor(), "left").shape == (2, 3, 1)
    assert "copy it to the host first" in refusal(TensorElsewhere())


# --- writing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "image", [np.zeros((3, 4)), np.zeros((3, 4), np.int16), np.zeros((3, 4, 4), np.uint8), np.zeros((0, 4), np.uint8)]
)
def test_what_png_cannot_hold_is_not_written(tmp_path: Path, image: np.ndarray) -> None:
    with pytest.raises(InputError, match="uint8 or uint16"):
        write_png(tmp_path / "image.png", image)

    assert list(tmp_path.iterdir()) == []


def test_writing_into_a_missing_folder_is_an_output_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="nowhere"):
        write_png(tmp_path / "nowhere" / "image.png", np.zeros((3, 4), np.uint8))


def test_importing_does_not_import_opencv() -> None:
    code = (
        "import sys, scotopic.io, scotopic.sensor, scotopic.demo, scotopic.evaluation; sys.exit('cv2' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0


@pytest.mark.parametrize("channels", [2, 4])
@pytest.mark.parametrize("kind", ["U3", "S3", "m8[s]", "V4"])
def test_arrays_of_several_channels_that_are_no_numbers_are_refused(channels: int, kind: str) -> None:
    with pytest.raises(InputError, match="left image has"):
        as_image(np.zeros((5, 6, channels), kind), "left")


def test_an_object_that_fails_to_be_an_array_is_refused() -> None:
    class Broken:
        def __array__(self, *_: object, **__: object) -> np.ndarray:
            raise KeyError("pixels")

    with pytest.raises(InputError, match="Broken that NumPy cannot read"):
        as_image(Broken(), "left")


def test_a_damaged_png_is_refused_without_a_word_of_the_library(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "damaged.png"
    write_png(path, np.arange(64 * 64, dtype=np.uint16).reshape(64, 64))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF  # in the pixels
    path.write_bytes(data)

    with pytest.raises(InputError, match="holds no readable image"):
        read_image(path)
    assert capfd.readouterr() == ("", "")


def _chunk(kind: bytes, content: bytes, *, is_damaged: bool = False) -> bytes:
    checksum = zlib.crc32(kind + content) ^ is_damaged
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)


@pytest.mark.parametrize(
    "chunk",
    [_chunk(b"iCCP", b"odd\0\0profile"), _chunk(b"gAMA", b"?"), _chunk(b"pHYs", b"123456789", is_damaged=True)],
)
def test_what_is_odd_beside_the_pixels_of_a_png_neither_matters_nor_is_printed(
    tmp_path: Path, chunk: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    image, path = np.arange(64 * 64, dtype=np.uint16).reshape(64, 64), tmp_path / "odd.png"
    write_png(path, image)
    data = path.read_bytes()
    path.write_bytes(data[:33] + chunk + data[33:])  # after the header

    np.testing.assert_array_equal(read_image(path), image)
    assert capfd.readouterr() == ("", "")

    path.write_bytes(data[:33] + _chunk(b"ABCD", b"needed") + data[33:])
    with pytest.raises(InputError, match="holds no readable image"):
        read_image(path)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
def test_a_tensor_may_have_any_type_of_floats_and_a_gradient(kind: str) -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    values = [[0.25, 0.5], [1.0, 1.25]]  # which all of them can hold
    tensor = torch.tensor(values, dtype=getattr(torch, kind)).requires_grad_()

    np.testing.assert_array_equal(as_image(tensor, "left")[..., 0], values)


@pytest.mark.parametrize("mode", ["1", "L", "RGB", "RGBA", "I;16", "P", "CMYK", "YCbCr", "HSV", "LAB"])
def test_images_of_pillow_are_read_right_or_refused(mode: str) -> None:
    image = pytest.importorskip("PIL.Image", reason="needs Pillow")
    colors = np.random.default_rng(0).integers(0, 256, (7, 9, 3), np.uint8)
    if mode == "I;16":
        picture = image.fromarray(colors[..., 0].astype(np.uint16) * 257)
        expected = colors[..., :1] / 255
    else:
        picture = image.fromarray(colors).convert(mode)
        expected = np.asarray(picture.convert("RGB")) / 255
    assert picture.mode == mode

    if mode in ("P", "CMYK", "YCbCr", "HSV", "LAB"):  # whose numbers are not gray or RGB
        with pytest.raises(InputError, match=f"mode '{mode}'.*convert"):
            as_image(picture, "left")
    else:
        found = as_image(picture, "left")
        np.testing.assert_allclose(np.broadcast_to(found, (*found.shape[:2], expected.shape[2])), expected, atol=1e-6)
