"""Compiled code: what is computed must not depend on where the machine code came from."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scotopic.warmup import cache_folders

MATCH_AND_HASH = """
import hashlib, scotopic
scene = scotopic.render_scene(width=96, height=64)
noisy = scotopic.simulate_pair(scene.left, scene.right, photons=2, read_noise=2, seed=0)
for preset, options in (("fast", {}), ("best", {"full_size_snr": 1e9})):  # best at half size, denoised
    result = scotopic.match(*noisy, preset, "cpu", max_disparity=32, **options)
    maps = (result.disparity_all, result.right_disparity, result.confidence, result.left_boundaries, result.left_colors)
    print(hashlib.sha256(b"".join(each.tobytes() for each in maps)).hexdigest())
"""


def test_the_run_that_compiles_and_the_run_that_loads_from_the_cache_give_the_same_bytes(tmp_path: Path) -> None:
    # Where the cache that all tests use is still empty, this fills it, and nobody has to compile twice. So conftest.py
    # puts these tests first.
    shared = [Path(folder) for folder in cache_folders()]
    is_empty = not any(any(folder.glob("*.nbc")) for folder in shared)
    environment = dict(os.environ) if is_empty else {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}

    compiled, loaded = (
        subprocess.run(
            [sys.executable, "-c", MATCH_AND_HASH], env=environment, check=True, capture_output=True, text=True
        ).stdout
        for _ in range(2)
    )

    filled = shared if is_empty else [tmp_path]
    assert any(any(folder.rglob("evidence_kernels*.nbc")) for folder in filled), "the first run was to fill the cache"
    assert len(compiled.split()) == 2
    assert compiled == loaded


SCORE = """
import warnings, numpy as np
from scotopic.evaluation import metrics
metrics._SMALL = 0  # maps for which nothing is compiled
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    error = metrics.window_error(np.full((8, 8), 3.0), np.full((8, 8), 1.0), 3)
print(float(error.max()), [str(each.message) for each in caught])
"""


def score(cache: Path, before: str = "") -> str:
    """Score a map in a process of its own, with the smallest kernel there is; return what it prints."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run([sys.executable, "-c", before + SCORE], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that holds the smallest kernel."""
    folder = tmp_path_factory.mktemp("cache")
    assert score(folder) == "2.0 []\n"
    return folder


@pytest.mark.parametrize(("kind", "content"), [("nbi", b"not a pickle"), ("nbc", b"")], ids=["index", "code"])
def test_a_damaged_cache_of_kernels_is_compiled_again_and_mended(
    whole: Path, tmp_path: Path, kind: str, content: bytes
) -> None:
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    damaged = list(tmp_path.rglob(f"*.{kind}"))
    assert damaged
    for path in damaged:
        path.write_bytes(content)

    told = score(tmp_path)

    assert told.startswith("2.0 ")
    assert "cannot be read" in told
    assert score(tmp_path) == "2.0 []\n"


def test_a_full_disk_does_not_stop_a_kernel(tmp_path: Path) -> None:
    full = (
        "import numba.core.caching as c\n"
        "def full(self, path):\n    raise OSError(28, 'No space left on device')\n"
        "c.IndexDataCacheFile._open_for_write = full\n"
    )

    told = score(tmp_path, full)

    assert told.startswith("2.0 ")
    assert "No space left on device" in told


LEVELS = """
from numba.core import config, event
levels = {}
class Listener(event.Listener):  # registered after ours, so that it sees what ours has set
    def on_start(self, start): levels[start.data["dispatcher"].py_func.__name__] = int(config.OPT)
    def on_end(self, end): pass
import numpy as np
from numba import njit
from scotopic.backends import cpu_backend
backend = cpu_backend()
event.register("numba:compile", Listener())
@njit
def of_somebody_else(x): return x + 1
of_somebody_else(1)
backend.aggregate(np.zeros((4, 4, 4), np.int16), np.zeros((4, 4), np.int32), 1)
print([levels[name] for name in ("_follow_path", "aggregate", "of_somebody_else")], int(config.OPT))
"""


def test_helpers_are_optimized_once_as_part_of_a_kernel(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}

    done = subprocess.run([sys.executable, "-c", LEVELS], env=environment, capture_output=True, text=True)

    assert done.stdout == "[1, 3, 3] 3\n", done.stderr
