"""PFM files: bit-exact round trips, agreement with OpenCV, and no harm from damaged files."""

import os
import re
import tracemalloc
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from scotopic.errors import InputError, OutputError
from scotopic.io import read_pfm, write_pfm

SHAPES = st.tuples(st.integers(1, 9), st.integers(1, 9)) | st.tuples(st.integers(1, 9), st.integers(1, 9), st.just(3))


def refusal(path: Path) -> str:
    """The message with which a file is refused: one line, naming the file."""
    with pytest.raises(InputError) as caught:
        read_pfm(path)
    message = str(caught.value)
    assert repr(str(path)) in message
    assert "\n" not in message
    return message


def stored(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "map.pfm"
    path.unlink(missing_ok=True)  # some file systems take milliseconds to rewrite a file, and make a new one at once
    path.write_bytes(content)
    return path


@given(bits=SHAPES.flatmap(lambda shape: npst.arrays(np.uint32, shape)))
@settings(max_examples=150, deadline=None)
def test_what_is_written_is_read_back_bit_by_bit(tmp_path_factory: pytest.TempPathFactory, bits: np.ndarray) -> None:
    path = tmp_path_factory.getbasetemp() / "round_trip.pfm"

    write_pfm(path, bits.view(np.float32))
    back = read_pfm(path)

    assert back.dtype == np.float32
    assert back.flags.c_contiguous
    np.testing.assert_array_equal(back.view(np.uint32), bits)


def test_infinity_and_nan_are_kept(tmp_path: Path) -> None:
    values = np.array([[np.inf, -np.inf, np.nan, -0.0]], dtype=np.float32)

    write_pfm(tmp_path / "map.pfm", values)

    np.testing.assert_array_equal(read_pfm(tmp_path / "map.pfm"), values)


def test_an_array_in_any_order_of_its_values_is_stored(tmp_path: Path) -> None:
    rows = np.arange(12, dtype=np.float32).reshape(3, 4)

    for array in (rows.T, np.asfortranarray(rows), rows[:, ::-1], np.broadcast_to(rows[:1], (5, 4))):
        write_pfm(tmp_path / "map.pfm", array)
        np.testing.assert_array_equal(read_pfm(tmp_path / "map.pfm"), array)


@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 3)])
def test_opencv_reads_what_we_write_and_we_what_opencv_writes(tmp_path: Path, shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    blue_first = np.ascontiguousarray(values[..., ::-1]) if len(shape) == 3 else values

    write_pfm(tmp_path / "ours.pfm", values)
    cv2.imwrite(str(tmp_path / "theirs.pfm"), blue_first)

    np.testing.assert_array_equal(cv2.imread(str(tmp_path / "ours.pfm"), cv2.IMREAD_UNCHANGED), blue_first)
    np.testing.assert_array_equal(read_pfm(tmp_path / "theirs.pfm"), values)


@pytest.mark.parametrize(
    ("scale", "order"), [("-1.0", "<"), ("1.0", ">"), ("-0.003922", "<"), ("0.5", ">"), ("+1e3", ">")]
)
def test_the_sign_of_the_scale_is_the_byte_order_and_its_size_is_no_factor(
    tmp_path: Path, scale: str, order: str
) -> None:
    bottom_up = np.array([[4.0, 5.0, 6.0], [1.0, 2.0, 3.0]], dtype=f"{order}f4")

    path = stored(tmp_path, f"Pf\n3 2\n{scale}\n".encode() + bottom_up.tobytes())

    np.testing.assert_array_equal(read_pfm(path), [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


@pytest.mark.parametrize(
    "header",
    [
        b"Pf\n2 1\n-1.0\n",
        b"Pf 2 1 -1.0\n",
        b"Pf 2 1 -1.0 ",
        b"Pf\r\n2 1\r\n-1.0\r\n",
        b"Pf\n2\n1\n-1\n",
        b"Pf\n# made by hand\n2 1 # width, height\n-1.0\n",
        b"Pf#\n2 1\n-1.0 # little-endian\n",
        b"Pf \t\n  2\t1  \n -1.000000  \n",
    ],
)
# The first byte of the data is a line feed in one case and a space in the other: it must not be eaten as white space.
@pytest.mark.parametrize("first", [0x0A, 0x20])
def test_white_space_and_comments_of_real_files_are_understood(tmp_path: Path, header: bytes, first: int) -> None:
    data = bytes([first, first, 0x80, 0x3F]) + np.array([2.5], "<f4").tobytes()

    path = stored(tmp_path, header + data)

    np.testing.assert_array_equal(read_pfm(path), np.frombuffer(data, "<f4")[None])


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "starts with ''"),
        (b"P6\n1 1\n255\nabc", "starts with"),
        (b"PF4\n1 1\n-1\n" + bytes(16), "starts with"),
        (b"Pf\n", "starts with"),
        (b"Pf\n3", "starts with"),
        (b"Pf\n3 2\n", "starts with"),
        (b"Pf\nthree 2\n-1\n" + bytes(24), "three"),
        (b"Pf\n-3 2\n-1\n" + bytes(24), "-3"),
        (b"Pf\n3 2.0\n-1\n" + bytes(24), "2.0"),
        (b"Pf\n0 2\n-1\n", "0, 2 and -1"),
        (b"Pf\n3 2\n0\n" + bytes(24), "3, 2 and 0"),
        (b"Pf\n3 2\nnan\n" + bytes(24), "nan"),
        (b"Pf\n3 2\n1e999\n" + bytes(24), "inf"),
        (b"Pf\n3 2\n-1\n" + bytes(23), "it has 23 bytes of data instead of 24"),
        (b"Pf\n3 2\n-1\n" + bytes(25), "it has 25 bytes of data instead of 24"),
        (b"PF\n3 2\n-1\n" + bytes(24), "it has 24 bytes of data instead of 72"),
        (b"Pf\n3 2\n-1\n", "it has 0 bytes of data instead of 24"),
        (b"Pf\n#" + b"x" * 10_000, "starts with"),
        (b"Pf\n3 2\n\n-1\n\n" + bytes(24), "it has 25 bytes of data"),
    ],
)
def test_a_malformed_file_is_refused_and_the_message_says_what_was_found(
    tmp_path: Path, content: bytes, found: str
) -> None:
    assert found in refusal(stored(tmp_path, content))


@pytest.mark.parametrize("size", [b"999999999 999999999", b"9" * 5000 + b" 1", b"60000 60000"])
def test_an_absurd_size_is_refused_without_asking_for_the_memory(tmp_path: Path, size: bytes) -> None:
    path = stored(tmp_path, b"PF\n" + size + b"\n-1.0\n" + bytes(48))

    tracemalloc.start()
    try:
        refusal(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 2**20


def test_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    assert "No such file" in refusal(tmp_path / "none.pfm")
    assert "folder" in refusal(tmp_path)


def test_a_pipe_is_refused_at_once_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.pfm")

    assert "pipe" in refusal(tmp_path / "pipe.pfm")


def independent_reading(content: bytes, shape: tuple[int, ...]) -> np.ndarray:
    """Check the header of an accepted file by splitting it at white space, and take the data from the file's end."""
    count = int(np.prod(shape))
    header = re.sub(rb"#[^\n]*\n", b" ", content[: -4 * count])
    magic, width, height, scale = header.split()
    assert magic == (b"PF" if len(shape) == 3 else b"Pf")
    assert (int(height), int(width)) == shape[:2]
    return np.frombuffer(content[-4 * count :], "<f4" if float(scale) < 0 else ">f4").reshape(shape)[::-1]


def mutated(random: np.random.Generator, content: bytes) -> bytes:
    """Damage a file in one to three places, mostly in its header."""
    fragments = [b"", b" ", b"\n", b"\r\n", b"#", b"#x\n", b"-", b"0", b"9" * 12, b"1e400", b"nan", b"PF", b"\0"]
    for _ in range(random.integers(1, 4)):
        position = int(random.integers(0, min(len(content), 20) + 1 if random.random() < 0.7 else len(content) + 1))
        removed = int(random.integers(0, 3))
        inserted = fragments[random.integers(len(fragments))] if random.random() < 0.7 else random.bytes(1)
        content = content[:position] + inserted + content[position + removed :]
    return content[: random.integers(len(content) + 1)] if random.random() < 0.1 else content


def test_damaged_files_are_refused_or_read_rightly_and_nothing_else_happens(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    accepted = refused = 0
    for _ in range(4000):
        channels = random.choice([1, 3])
        width, height = random.integers(1, 4, 2)
        header = f"{'PF' if channels == 3 else 'Pf'}\n{width} {height}\n{random.choice(['-1.0', '1.0'])}\n"
        content = mutated(random, header.encode() + random.bytes(int(width * height * channels * 4)))
        path = stored(tmp_path, content)
        try:
            values = read_pfm(path)
        except InputError:
            refusal(path)
            refused += 1
            continue
        expected = independent_reading(content, values.shape)
        assert values.tobytes() == expected.astype(np.float32).tobytes()
        accepted += 1
    # Both ways out must have been taken often, or the damage was too little or too much to try anything.
    assert accepted > 100
    assert refused > 1000


@pytest.mark.parametrize(
    "array", [np.zeros((2, 2), np.uint8), np.zeros(4, np.float32), np.zeros((2, 2, 4)), np.zeros((0, 2))]
)
def test_what_is_not_a_float_map_is_not_written(tmp_path: Path, array: np.ndarray) -> None:
    with pytest.raises(InputError, match="shape"):
        write_pfm(tmp_path / "map.pfm", array)

    assert list(tmp_path.iterdir()) == []


def test_a_finite_value_never_turns_silently_into_infinity(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="float32"):
        write_pfm(tmp_path / "map.pfm", np.array([[1e300, np.inf]]))


def test_a_missing_folder_is_an_output_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="nowhere"):
        write_pfm(tmp_path / "nowhere" / "map.pfm", np.zeros((2, 2), np.float32))
