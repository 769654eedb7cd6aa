"""Hot pixels of a camera: interpolated where good pixels are near, masked where not, from arrays and from files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import tifffile
from command_line import succeed

import scotopic
from scotopic.depth import Calibration, rectify
from scotopic.depth.calibration import Camera, Rig
from scotopic.errors import InputError, PairWarning
from scotopic.io import write_png
from scotopic.io.input_file import read_json
from scotopic.result import Reason
from scotopic.sensor import Recording, common_white, read_bit_planes, read_counts, read_recording
from scotopic.sensor.hot_pixels import fill_hot_pixels, read_hot_pixels

SHIFT = 6  # px of disparity of the whole scene
SIZE = (64, 96)


def fluxes(white: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """A pair of bars whose disparity is SHIFT everywhere, in photons per plane."""
    columns, rows = np.arange(SIZE[1] + SHIFT), np.arange(SIZE[0])[:, None]
    scene = white * (0.5 + 0.4 * np.sign(np.sin(columns / 5) * np.sin(rows / 7 + columns / 30)))
    return scene[:, : SIZE[1]], scene[:, SHIFT:]


def some_pixels(share: float, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random(SIZE) < share


def test_a_scattered_hot_pixel_gets_the_value_of_its_neighbors_and_an_answer() -> None:
    flat = np.full((*SIZE, 1), 0.25, np.float32)
    hot = some_pixels(0.05)
    recording = Recording(np.where(hot[..., None], np.float32(1), flat)).without_hot_pixels(hot)

    np.testing.assert_allclose(recording.image, flat, rtol=1e-6)
    assert recording.mask is None
    assert recording.assumed["hot_percent"] == pytest.approx(100 * hot.mean())
    assert recording.assumed["masked_percent"] == 0


def test_the_inside_of_a_large_cluster_is_masked() -> None:
    hot = np.zeros(SIZE, bool)
    hot[20:30, 40:60] = True  # within 2 px of its edge there is a good pixel
    hot[5, :] = True  # a dead row is one pixel thin

    _, far = fill_hot_pixels(np.zeros((*SIZE, 1), np.float32), hot)

    expected = np.zeros(SIZE, bool)
    expected[22:28, 42:58] = True
    assert far is not None
    np.testing.assert_array_equal(far, expected)


def test_a_corner_of_the_image_is_no_good_neighbor() -> None:
    hot = np.zeros(SIZE, bool)
    hot[:4, :4] = True  # the pixel in the corner is 4 px from (4, 0) and (0, 4), the nearest good ones

    _, far = fill_hot_pixels(np.zeros((*SIZE, 1), np.float32), hot)

    assert far is not None
    assert far[0, 0]
    assert not far[3].any()
    assert not far[:, 3].any()


def test_if_every_pixel_is_hot_all_are_masked() -> None:
    _, far = fill_hot_pixels(np.ones((*SIZE, 1), np.float32), np.ones(SIZE, bool))

    assert far is not None
    assert far.all()


def test_hot_pixels_of_bit_planes_do_not_spoil_the_match(tmp_path: Path) -> None:
    planes, hot = 64, [some_pixels(0.05, 1), some_pixels(0.05, 2)]
    block = np.s_[30:42, 50:62]
    hot[0][block] = True
    views = []
    for number, flux in enumerate(fluxes()):
        bits = np.random.default_rng(number).poisson(np.where(hot[number], 6.0, flux), (planes, *SIZE)) > 0
        np.save(tmp_path / f"{number}.npy", np.packbits(bits, axis=2))
        np.save(tmp_path / f"hot{number}.npy", hot[number])
        views.append(read_bit_planes(tmp_path / f"{number}.npy", white=1, hot_pixels=tmp_path / f"hot{number}.npy"))

    found = scotopic.match(*views, preset="fast", max_disparity=16, device="cpu")  # type: ignore[arg-type]

    # Scattered ones are as good as the others; only the inside of the block has no answer.
    expected = np.zeros(SIZE, bool)
    expected[32:40, 52:60] = True
    np.testing.assert_array_equal((found.reason == Reason.MASKED)[32:40, 52:60], True)
    assert (found.reason == Reason.MASKED)[~expected].mean() < 0.01  # next to it, some may be hot by chance
    scattered = hot[0] & ~expected & found.mask
    assert scattered.sum() > 5
    assert np.median(np.abs(found.disparity[scattered] - SHIFT)) < 1


@pytest.mark.parametrize("suffix", [".npy", ".png"])
def test_every_reader_takes_a_file_of_hot_pixels(tmp_path: Path, suffix: str) -> None:
    hot, counts = some_pixels(0.02), np.full((3, *SIZE), 2, np.uint16)
    counts[:, hot] = 1000
    bits = np.zeros((8, *SIZE), bool)
    bits[:4] = True
    bits[:, hot] = True
    mask = tmp_path / f"hot{suffix}"
    np.save(mask, hot) if suffix == ".npy" else write_png(mask, np.where(hot, np.uint8(255), np.uint8(0)))
    np.save(tmp_path / "counts.npy", counts)
    np.save(tmp_path / "bits.npy", np.packbits(bits, axis=2))
    write_png(tmp_path / "image.png", np.where(hot, np.uint8(255), np.uint8(51)))

    # 2 of 4 counts, 4 of 8 planes, 51 of 255.
    recordings: dict[Any, float] = {
        read_counts(tmp_path / "counts.npy", 4, hot_pixels=mask): 0.5,
        read_recording(tmp_path / "counts.npy", "counts", white=4, hot_pixels=mask): 0.5,
        read_bit_planes(tmp_path / "bits.npy", hot_pixels=mask): 0.5,
        read_recording(tmp_path / "bits.npy", "bit-planes", hot_pixels=mask): 0.5,
        read_recording(tmp_path / "image.png", hot_pixels=mask): 0.2,
    }
    for recording, value in recordings.items():
        np.testing.assert_allclose(recording.image, value, rtol=1e-6)
        assert recording.report()["hot_percent"] == pytest.approx(100 * hot.mean())


def test_the_command_takes_one_file_for_both_cameras_or_one_for_each(tmp_path: Path) -> None:
    hot = some_pixels(0.03)
    hot[20:32, 30:42] = True
    for name, flux in zip(("left", "right"), fluxes(), strict=True):
        write_png(tmp_path / f"{name}.png", np.where(hot, np.uint8(255), (255 * flux).astype(np.uint8)))
    write_png(tmp_path / "hot.png", np.where(hot, np.uint8(1), np.uint8(0)))
    write_png(tmp_path / "none.png", np.zeros(SIZE, np.uint8))
    pair = ["match", str(tmp_path / "left.png"), str(tmp_path / "right.png"), "--preset", "fast"]
    pair += ["--max-disparity", "16", "--device", "cpu"]

    for number, names in enumerate((["hot"], ["hot", "none"])):
        options = [text for name in names for text in ("--hot-pixels", str(tmp_path / f"{name}.png"))]
        out = tmp_path / str(number)
        succeed(*pair, "-o", out, *options)
        found = scotopic.Match.load(out)
        assert (found.reason[22:30, 32:40] == Reason.MASKED).all()
        report = read_json(out / "report.json", "a report")
        assert report["left"]["hot_percent"] == pytest.approx(100 * hot.mean())
        assert report["right"]["hot_percent"] == pytest.approx(100 * hot.mean() if number == 0 else 0)


@pytest.mark.parametrize(
    "wrong",
    [
        np.zeros((3, 4)),
        np.zeros(SIZE[::-1]),
        np.zeros((*SIZE, 2)),
        np.full(SIZE, "hot"),
        "missing.npy",
        "x.png",
        np.zeros((*SIZE, 3), [("a", "f4")]),
    ],
)
def test_what_is_no_mask_of_this_size_is_refused(wrong: Any, tmp_path: Path) -> None:
    wrong = tmp_path / wrong if isinstance(wrong, str) else wrong

    with pytest.raises(InputError, match=r"hot pixels|cannot be opened"):
        read_hot_pixels(wrong, SIZE)


def test_a_mask_of_the_good_pixels_gets_a_warning(tmp_path: Path) -> None:
    hot = some_pixels(0.03)
    np.save(tmp_path / "good.npy", ~hot)

    with pytest.warns(PairWarning, match=f"good.npy' says that {100 * (1 - hot.mean()):.0f} % of the pixels are hot"):
        read_counts(np.ones(SIZE), 4, hot_pixels=tmp_path / "good.npy")


def test_a_mask_whose_zeros_are_white_is_refused(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "hot.tif", some_pixels(0.03))

    with pytest.raises(InputError, match=r"hot\.tif' is a TIFF file in which 0 is white"):
        read_hot_pixels(tmp_path / "hot.tif", SIZE)


@pytest.mark.parametrize("suffix", [".jpg", ".webp"])
def test_a_mask_that_has_lost_some_of_its_zeros_is_refused(suffix: str, tmp_path: Path) -> None:
    hot = 255 * some_pixels(0.03).astype(np.uint8)
    (tmp_path / f"hot{suffix}").write_bytes(cv2.imencode(suffix, hot, [cv2.IMWRITE_WEBP_QUALITY, 90])[1].tobytes())
    (tmp_path / "hot.png").write_bytes(cv2.imencode(".webp", hot)[1].tobytes())  # without losses, whatever its name

    with pytest.raises(InputError, match=rf"hot\{suffix}' is compressed with losses"):
        read_hot_pixels(tmp_path / f"hot{suffix}", SIZE)
    np.testing.assert_array_equal(read_hot_pixels(tmp_path / "hot.png", SIZE), hot != 0)


def test_counts_in_another_format_are_said_to_be_no_npy_file(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "counts.tif", np.ones((4, *SIZE), np.uint16), photometric="minisblack")

    with pytest.raises(InputError, match=r"counts\.tif' is not an \.npy file. Save the array with numpy\.save"):
        read_counts(tmp_path / "counts.tif", 4)


def test_a_damaged_file_of_hot_pixels_is_refused(tmp_path: Path) -> None:
    (tmp_path / "hot.npy").write_bytes(b"\x93NUMPY\x01\x00v\x00{'descr': '|b1', (((((")

    with pytest.raises(InputError, match=r"hot\.npy"):
        read_hot_pixels(tmp_path / "hot.npy", SIZE)


def test_a_masked_array_does_not_lose_its_mask_without_a_word() -> None:
    counts = np.ma.masked_array(np.full(SIZE, 2), some_pixels(0.1))

    with pytest.raises(InputError, match="hot_pixels"):
        read_counts(counts, 4)
    with pytest.raises(InputError, match="hot_pixels"):
        read_bit_planes(np.ma.masked_array(np.zeros((4, *SIZE), bool), True))


def test_masked_values_do_not_count_for_white() -> None:
    flux = np.ma.masked_array([0.0, 1.0, 2.0, 900.0], [False, False, False, True])

    assert common_white(flux, share=1.0) == 2


def test_rectifying_keeps_the_mask() -> None:
    matrix = np.array([[100.0, 0, 47.5], [0, 100.0, 31.5], [0, 0, 1]])
    camera = Camera(matrix, np.zeros(5), np.eye(3), np.hstack([matrix, np.zeros((3, 1))]))
    rig = Rig(camera, camera, SIZE[1], SIZE[0])
    calibration = Calibration(fx=100.0, fy=100.0, cx=47.5, cy=31.5, baseline=0.1, width=96, height=64, rig=rig)
    left, right = (view.astype(np.float32) for view in fluxes())
    mask = some_pixels(0.1)

    first, second, _ = rectify(np.ma.masked_array(left, mask), right, calibration)

    assert isinstance(first, np.ma.MaskedArray)
    np.testing.assert_array_equal(np.ma.getmaskarray(first)[..., 0], mask)  # these cameras need no rectification
    assert not isinstance(second, np.ma.MaskedArray)
