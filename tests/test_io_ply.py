"""PLY files: bit-exact round trips, a reader that is not ours, and no harm from damaged files."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from scotopic.errors import InputError, OutputError
from scotopic.io import read_ply, write_ply

FINITE = st.floats(-1e6, 1e6, width=32)


def refusal(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_ply(path)
    message = str(caught.value)
    assert repr(str(path)) in message
    assert "\n" not in message
    return message


def stored(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "cloud.ply"
    path.unlink(missing_ok=True)
    path.write_bytes(content)
    return path


def header(*lines: str, kind: str = "binary_little_endian") -> bytes:
    return "\n".join(["ply", f"format {kind} 1.0", *lines, "end_header", ""]).encode()


XYZ = ("property float x", "property float y", "property float z")


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


def test_we_open_what_another_writer_writes(tmp_path: Path) -> None:
    trimesh = pytest.importorskip("trimesh", reason="needs trimesh: pip install trimesh, or the extra 'test'")
    points = np.random.default_rng(0).normal(size=(20, 3))

    (tmp_path / "theirs.ply").write_bytes(trimesh.PointCloud(points).export(file_type="ply"))

    np.testing.assert_allclose(read_ply(tmp_path / "theirs.ply").points, points, rtol=1e-6)


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


@pytest.mark.parametrize("order", ["little", "big"])
def test_doubles_other_properties_and_both_byte_orders_are_understood(tmp_path: Path, order: str) -> None:
    mark = "<" if order == "little" else ">"
    record = np.dtype([("x", mark + "f8"), ("n", mark + "u2"), ("y", mark + "f8"), ("z", mark + "f8")])
    data = np.array([(1.5, 65535, -2.5, 3.25), (4.0, 1, 5.0, 6.0)], record)
    lines = ("comment made by hand", "element vertex 2", "property double x", "property ushort n", "property double y")

    path = stored(tmp_path, header(*lines, "property double z", kind=f"binary_{order}_endian") + data.tobytes())

    np.testing.assert_array_equal(read_ply(path).points, [[1.5, -2.5, 3.25], [4, 5, 6]])
    assert read_ply(path).colors is None


def test_an_old_version_opens_and_a_newer_one_says_to_upgrade(tmp_path: Path) -> None:
    body = np.array([1, 2, 3], "<f4").tobytes()
    lines = ("element vertex 1", *XYZ)

    np.testing.assert_array_equal(read_ply(stored(tmp_path, header(*lines) + body)).points, [[1, 2, 3]])
    newer = header("comment scotopic point cloud, format 2", *lines) + body
    assert "upgrade scotopic" in refusal(stored(tmp_path, newer))


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "starts with ''"),
        (b"plyx\n", "starts with"),
        (b"ply\nformat binary_little_endian 1.0\n", "does not end"),
        (header("element vertex 1", *XYZ, kind="ascii") + b"1 2 3\n", "'ascii'"),
        (header("element vertex 1", *XYZ) + bytes(11), "found 11 bytes of data, expected 12"),
        (header("element vertex 1", *XYZ) + bytes(13), "found 13 bytes of data, expected 12"),
        (header("element vertex -1", *XYZ), "line 3"),
        (header("element vertex 1", "property float x", *XYZ) + bytes(16), "line 5"),
        (header("element vertex 1", *XYZ[:2]) + bytes(8), "no points"),
        (header("element vertex 1", "property int x", *XYZ[1:]) + bytes(12), "whole numbers"),
        (header("element vertex 1", *XYZ, "property list uchar int f") + bytes(12), "line 7"),
        (header("element vertex 1", *XYZ, "element face 0") + bytes(12), "line 7"),
        (header(*XYZ) + bytes(12), "line 3"),
        (b"ply\n#" + b"x" * 100_000, "does not end"),
    ],
)
def test_a_malformed_file_is_refused_and_the_message_says_what_was_found(
    tmp_path: Path, content: bytes, found: str
) -> None:
    assert found in refusal(stored(tmp_path, content))


@pytest.mark.parametrize("count", ["999999999999", "9" * 5000, "60000000000"])
def test_an_absurd_count_is_refused_without_asking_for_the_memory(tmp_path: Path, count: str) -> None:
    path = stored(tmp_path, header(f"element vertex {count}", *XYZ) + bytes(12))

    tracemalloc.start()
    try:
        refusal(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 2**20


@pytest.mark.parametrize(
    "bad",
    [
        {"points": np.zeros((2, 2))},
        {"points": np.zeros((2, 3), int)},
        {"points": np.array([[0.0, np.nan, 0.0]])},
        {"points": np.array([[0.0, 1e300, 0.0]])},
        {"points": np.zeros((2, 3)), "colors": np.zeros((2, 3))},
        {"points": np.zeros((2, 3)), "colors": np.zeros((1, 3), np.uint8)},
        {"points": np.zeros((2, 3)), "confidence": np.zeros(3)},
    ],
)
def test_what_is_no_cloud_is_not_written(tmp_path: Path, bad: dict[str, np.ndarray]) -> None:
    with pytest.raises(InputError, match="cannot store"):
        write_ply(tmp_path / "cloud.ply", **bad)

    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_an_output_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="nowhere"):
        write_ply(tmp_path / "nowhere" / "cloud.ply", np.zeros((1, 3)))
