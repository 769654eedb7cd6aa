"""PLY files: the layout is the documented one, readers that are not ours open it, and no bad cloud is written."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from ply_files import read_ply

from scotopic.errors import InputError, OutputError
from scotopic.io import write_ply

FINITE = st.floats(-1e6, 1e6, width=32)


@given(points=npst.arrays(np.float32, st.tuples(st.integers(0, 6), st.just(3)), elements=FINITE), data=st.data())
@settings(max_examples=100, deadline=None)
def test_what_is_written_is_read_back_bit_by_bit(
    tmp_path_factory: pytest.TempPathFactory, points: np.ndarray, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "round_trip.ply"
    colors = data.draw(st.none() | npst.arrays(np.uint8, points.shape))
    confidence = data.draw(st.none() | npst.arrays(np.float32, len(points)))

    write_ply(path, points, colors=colors, confidence=confidence)
    back = read_ply(path)

    assert back.points.tobytes() == points.tobytes()
    for given_array, read in ((colors, back.colors), (confidence, back.confidence)):
        assert (read is None) == (given_array is None)
        if given_array is not None:
            assert read is not None
            assert read.tobytes() == given_array.tobytes()


def test_a_reader_that_is_not_ours_opens_it(tmp_path: Path) -> None:
    trimesh = pytest.importorskip("trimesh", reason="needs trimesh: pip install trimesh, or the extra 'test'")
    random = np.random.default_rng(0)
    points = random.normal(size=(50, 3)).astype(np.float32)
    colors = random.integers(0, 256, (50, 3), np.uint8)

    write_ply(tmp_path / "cloud.ply", points, colors=colors, confidence=random.random(50).astype(np.float32))
    theirs = trimesh.load(tmp_path / "cloud.ply")

    np.testing.assert_array_equal(np.asarray(theirs.vertices, np.float32), points)
    np.testing.assert_array_equal(np.asarray(theirs.colors)[:, :3], colors)


def test_the_layout_is_the_documented_one(tmp_path: Path) -> None:
    write_ply(
        tmp_path / "cloud.ply",
        np.array([[1.0, 2.0, 3.0]]),
        colors=np.array([[7, 8, 9]], np.uint8),
        confidence=np.array([0.5]),
    )

    content = (tmp_path / "cloud.ply").read_bytes()
    head, _, body = content.partition(b"end_header\n")
    assert b"comment scotopic point cloud, format 1\n" in head
    assert body == np.array([1, 2, 3], "<f4").tobytes() + bytes([7, 8, 9]) + np.array([0.5], "<f4").tobytes()


@pytest.mark.parametrize(
    "bad",
    [
        {"points": np.zeros((2, 2))},
        {"points": np.zeros(3)},
        {"points": np.zeros((2, 3), int)},
        {"points": np.array([[0.0, np.nan, 0.0]])},
        {"points": np.array([[0.0, 1e300, 0.0]])},
        {"points": np.zeros((2, 3)), "colors": np.zeros((2, 3))},
        {"points": np.zeros((2, 3)), "colors": np.zeros((1, 3), np.uint8)},
        {"points": np.zeros((2, 3)), "confidence": np.zeros(3)},
    ],
)
def test_what_is_no_cloud_is_not_written(tmp_path: Path, bad: dict[str, np.ndarray]) -> None:
    with pytest.raises(InputError, match=r"PLY|not finite"):
        write_ply(tmp_path / "cloud.ply", **bad)

    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_an_output_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="nowhere"):
        write_ply(tmp_path / "nowhere" / "cloud.ply", np.zeros((1, 3)))
