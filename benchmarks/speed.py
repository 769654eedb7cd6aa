"""How long each stage takes, how much memory the whole needs, and how both grow with the image.

    python benchmarks/speed.py --json benchmarks/results/cpu.json

Compiled code is warm, times are medians of repeats, memory is the peak of a process that does nothing else. Times on a
shared machine are noisy: compare them as ratios within one file.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from scenes import rendered_pair, speed_pair

import scotopic
from scotopic.warmup import warm_up

PUBLISHED_CPU_SECONDS = 17_800  # the published implementation on two CPU cores, extrapolated from a crop
SIZES = ((306, 204), (433, 289), (612, 408), (866, 577), (1225, 816))  # 0.06 to 1 megapixel, 3 : 2


def time_preset(preset: str, repeats: int, disparities: int) -> dict[str, Any]:
    """Time every stage of a preset on the speed pair."""
    _, left, right = speed_pair()
    runs: list[dict[str, float]] = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = scotopic.match(left, right, preset, max_disparity=disparities)
        runs.append({**result.timings, "total": time.perf_counter() - start})
        print(f"{preset}: {runs[-1]['total']:.2f} s", file=sys.stderr)
    stages = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    return {"repeats": repeats, "median_seconds": stages, "all_totals": [run["total"] for run in runs]}


def peak_memory(preset: str, disparities: int) -> float:
    """Return the peak resident memory, in MiB, of a fresh process that matches the speed pair once."""
    code = (
        "import resource, scenes, scotopic; _, left, right = scenes.speed_pair(); "
        f"scotopic.match(left, right, {preset!r}, max_disparity={disparities}); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parent, check=True, capture_output=True, text=True
    )
    return int(done.stdout) / (1024 if sys.platform != "darwin" else 1024**2)


def time_sizes(preset: str, repeats: int, disparities: int) -> dict[str, Any]:
    """Time a preset over image sizes; the slope of log time over log pixels is 1 where cost grows linearly."""
    points = []
    for width, height in SIZES:
        pair = rendered_pair(width, height)
        seconds = []
        for _ in range(repeats):
            start = time.perf_counter()
            scotopic.match(*pair, preset, max_disparity=disparities)
            seconds.append(time.perf_counter() - start)
        points.append({"width": width, "height": height, "seconds": statistics.median(seconds)})
        print(f"{preset} {width} x {height}: {points[-1]['seconds']:.2f} s", file=sys.stderr)
    x = [math.log(p["width"] * p["height"]) for p in points]
    y = [math.log(p["seconds"]) for p in points]
    fit = statistics.linear_regression(x, y)
    return {"preset": preset, "repeats": repeats, "points": points, "slope": fit.slope}


def machine() -> dict[str, Any]:
    """Describe what this ran on."""
    names = [line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    return {
        "cpu": names[0] if names else platform.processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "numba", "opencv-python-headless")},
    }


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def commit() -> str:
    """Return the commit of the working tree, marked where it has changes."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "unknown"


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True, metavar="OUT", help="where to write the results")
    parser.add_argument("--presets", nargs="+", default=["paper", "fast"], choices=sorted(scotopic.PRESETS))
    parser.add_argument("--repeats", type=int, default=3, help="runs per preset; fast gets three times as many")
    parser.add_argument("--disparities", type=int, default=128)
    arguments = parser.parse_args()

    warm_up()
    name, left, _ = speed_pair()
    results: dict[str, Any] = {
        "commit": commit(),
        "machine": machine(),
        "pair": {"name": name, "width": left.shape[1], "height": left.shape[0], "disparities": arguments.disparities},
        "published_cpu_seconds": PUBLISHED_CPU_SECONDS,
        "presets": {},
    }
    for preset in arguments.presets:
        repeats = arguments.repeats * (3 if preset == "fast" else 1)
        found = time_preset(preset, repeats, arguments.disparities)
        found["speed_up_over_published"] = PUBLISHED_CPU_SECONDS / found["median_seconds"]["total"]
        found["peak_memory_mib"] = peak_memory(preset, arguments.disparities)
        results["presets"][preset] = found
    results["sizes"] = time_sizes("fast", arguments.repeats, 64)
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(results, indent=2) + "\n")
    for preset, found in results["presets"].items():
        print(
            f"{preset}: {found['median_seconds']['total']:.2f} s, {found['peak_memory_mib']:.0f} MiB, "
            f"{found['speed_up_over_published']:.0f} x the published code"
        )
    print(f"time grows with pixels to the power {results['sizes']['slope']:.2f}")


if __name__ == "__main__":
    main()
