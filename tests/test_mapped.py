"""Stacks that are larger than memory: read part by part, also if their file changes meanwhile."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from scotopic.errors import InputError
from scotopic.io.mapped import read_part

SHRINKING = """
import os, sys
import numpy as np
from scotopic.errors import InputError
from scotopic.io.stacks import read_stack
from scotopic.sensor.stacks import open_stream
from pathlib import Path
path, kind = Path(sys.argv[1]), sys.argv[2]
frames = read_stack(path) if kind == "page" else open_stream(path, kind, white=255.0, group=8).read(0)
next(frames)
os.truncate(path, 4096)
try:
    list(frames)
except InputError as error:
    print(error)
"""


@pytest.mark.parametrize("kind", ["counts", "bit-planes", "page"])
def test_a_stack_that_becomes_shorter_is_an_error_and_not_the_end_of_the_process(tmp_path: Path, kind: str) -> None:
    stack = np.random.default_rng(0).integers(0, 256, (64, 64, 64), np.uint8)
    np.save(tmp_path / "stack.npy", stack)

    arguments = [sys.executable, "-c", SHRINKING, str(tmp_path / "stack.npy"), kind]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert "stack.npy" in done.stdout
    assert "shorter" in done.stdout or "greater than file size" in done.stdout  # in NumPy's words, if it is opened anew


@pytest.mark.parametrize("order", ["C", "F"])
def test_parts_of_a_mapped_array_are_those_of_the_array(tmp_path: Path, order: str) -> None:
    values = np.arange(5 * 3 * 4, dtype=np.int32).reshape(5, 3, 4)
    np.save(tmp_path / "a.npy", np.asarray(values, order=order))  # type: ignore[call-overload]
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")

    for start, stop in ((0, 5), (1, 3), (4, 5), (2, 2)):
        np.testing.assert_array_equal(read_part(mapped, start, stop), values[start:stop])
        np.testing.assert_array_equal(read_part(values, start, stop), values[start:stop])
    np.testing.assert_array_equal(read_part(mapped[None], 0, 1), values[None])


def test_an_array_whose_file_is_gone_is_an_error(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((3, 4)))
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    os.unlink(tmp_path / "a.npy")

    with pytest.raises(InputError, match=r"a\.npy"):
        read_part(mapped, 0, 1)
