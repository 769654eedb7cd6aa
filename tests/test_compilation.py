"""Compiled code: what is computed must not depend on where the machine code came from."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

MATCH_AND_HASH = """
import hashlib, scotopic
scene = scotopic.render_scene(width=96, height=64)
noisy = scotopic.simulate_pair(scene.left, scene.right, photons=2, read_noise=2, seed=0)
for preset, options in (("fast", {}), ("best", {"fits": 1, "full_size_snr": 1e9})):  # best at half size, denoised
    result = scotopic.match(*noisy, preset, "cpu", max_disparity=32, **options)
    maps = (result.disparity_all, result.right_disparity, result.confidence, result.left_boundaries, result.left_colors)
    print(hashlib.sha256(b"".join(each.tobytes() for each in maps)).hexdigest())
"""


def test_the_run_that_compiles_and_the_run_that_loads_from_the_cache_give_the_same_bytes(tmp_path: Path) -> None:
    # Where the tests have a cache of their own that is still empty, this fills it, and nobody has to compile twice.
    given = Path(os.environ.get("NUMBA_CACHE_DIR") or tmp_path)
    cache = tmp_path if any(given.rglob("*.nbc")) else given
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}

    compiled, loaded = (
        subprocess.run(
            [sys.executable, "-c", MATCH_AND_HASH], env=environment, check=True, capture_output=True, text=True
        ).stdout
        for _ in range(2)
    )

    assert any(cache.rglob("evidence_kernels*.nbc")), "the first run was to fill the cache"
    assert len(compiled.split()) == 2
    assert compiled == loaded
