"""Frames from stacks: TIFF files of several pages, photon counts and bit planes, a plane each or several."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tifffile

from scotopic.errors import InputError, SettingsError
from scotopic.io.frames import open_frames, open_pairs
from scotopic.io.stacks import read_stack
from scotopic.sensor import merge_burst, read_recording
from scotopic.sensor.stacks import open_stream

RANDOM = np.random.default_rng(0)


def saved(path: Path, array: np.ndarray) -> Path:
    np.save(path, array)
    return path


def test_a_page_of_a_tiff_is_a_frame(tmp_path: Path) -> None:
    pages = RANDOM.integers(0, 65536, (3, 8, 12), np.uint16)
    tifffile.imwrite(tmp_path / "stack.tif", pages, photometric="minisblack")

    frames = open_stream(tmp_path / "stack.tif")

    assert frames.total == 3
    np.testing.assert_array_equal(list(frames.read(0)), pages)
    np.testing.assert_array_equal(list(frames.read(2)), pages[2:])


def test_a_tiff_of_one_page_is_an_image_as_before(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "one.tif", RANDOM.integers(0, 256, (8, 12), np.uint8))

    with pytest.raises(InputError, match="is an image, not a video"):
        open_stream(tmp_path / "one.tif")


@pytest.mark.parametrize("group", [1, 2])
def test_a_plane_of_counts_is_a_frame_or_several_are_summed(tmp_path: Path, group: int) -> None:
    counts = RANDOM.poisson(2.0, (5, 8, 12))

    frames = open_stream(saved(tmp_path / "c.npy", counts), "counts", white=4.0, group=group)

    expected = [np.minimum(counts[k : k + group].mean(axis=0) / 4, 1) for k in range(0, 6 - group, group)]
    assert frames.total == len(expected) == 5 // group  # what is left is not used
    found = list(frames.read(0))
    np.testing.assert_allclose([each[..., 0] for each in found], expected, rtol=1e-6)
    assert f"sum of {group} planes" in str(frames.values)


def test_bit_planes_give_the_share_of_bits_or_with_white_the_flux(tmp_path: Path) -> None:
    bits = RANDOM.random((8, 6, 16)) < 0.4
    path = saved(tmp_path / "b.npy", np.packbits(bits, axis=2))

    shares = open_stream(path, "bit-planes", group=4)
    fluxes = open_stream(path, "bit-planes", group=4, white=2.0)

    expected = bits.reshape(2, 4, 6, 16).mean(axis=1)
    np.testing.assert_allclose([each[..., 0] for each in shares.read(0)], expected, rtol=1e-6)
    unsaturated = expected < 1
    flux = np.minimum(-np.log1p(-np.where(unsaturated, expected, 0)) / 2, 1)
    found = np.array([each[..., 0] for each in fluxes.read(0)])
    np.testing.assert_allclose(found[unsaturated], flux[unsaturated], rtol=1e-6, atol=1e-7)


def test_stacks_are_pairs_like_all_frames(tmp_path: Path) -> None:
    counts = RANDOM.poisson(2.0, (2, 6, 8, 12))
    paths = [saved(tmp_path / f"{k}.npy", view) for k, view in enumerate(counts)]

    with open_pairs(
        *paths, start=1, count=2, open_view=lambda path: open_stream(path, "counts", white=8.0, group=2)
    ) as pairs:
        found = list(pairs)

    assert len(found) == 2
    np.testing.assert_allclose(found[0][1][..., 0], counts[1, 2:4].sum(axis=0) / 16, rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "kind='counts'"),
        ({"kind": "counts"}, "needs white"),
        ({"kind": "counts", "white": 2.0, "group": 9}, "has 3 planes, fewer than the 9"),
        ({"kind": "bit-planes", "group": 0}, "group must be 1"),
        ({"kind": "raw"}, "kind must be one of auto, counts, bit-planes"),
    ],
)
def test_what_a_stack_lacks_is_said(tmp_path: Path, options: dict[str, object], message: str) -> None:
    path = saved(tmp_path / "stack.npy", np.zeros((3, 4, 2), np.uint8))

    with pytest.raises((InputError, SettingsError), match=message):
        open_stream(path, **options)  # type: ignore[arg-type]


def test_a_group_of_pictures_is_refused_and_a_bad_plane_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="photon counts and bit planes"):
        open_stream(tmp_path, group=2)
    counts = RANDOM.poisson(2.0, (3, 4, 5))
    counts[2, 0, 0] = -1
    frames = open_stream(saved(tmp_path / "c.npy", counts), "counts", white=2.0)

    with pytest.raises(InputError, match=r"Frame 2 of .*c\.npy.*negative"):
        list(frames.read(0))


def test_values_that_cannot_be_used_are_refused_in_a_sentence_about_their_frame(tmp_path: Path) -> None:
    frames = np.full((2, 8, 12), 300, np.float32)
    tifffile.imwrite(tmp_path / "x.tif", frames, photometric="minisblack")
    (tmp_path / "folder").mkdir()
    tifffile.imwrite(tmp_path / "folder" / "0.tif", frames[0])
    stack, folder, image = (str(tmp_path / name) for name in ("x.tif", "folder", "folder/0.tif"))
    readers = {
        f"Frame 0 of {stack!r} has floats": lambda: next(open_frames(Path(stack)).read(0)),
        f"Frame 0: {image!r} has floats": lambda: next(open_frames(Path(folder)).read(0)),
        f"Frame 0 of {stack!r} has floats from 300": lambda: next(read_stack(Path(stack))),
        f"{image!r} has floats": lambda: read_recording(image),
        "Frame 0 has floats": lambda: merge_burst(frames),
    }
    for words, read in readers.items():
        with pytest.raises(InputError) as raised:
            read()
        assert str(raised.value).startswith(words)
