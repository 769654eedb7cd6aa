"""How long each stage takes, how much memory the whole needs, how both grow with the image, and the first run.

    python benchmarks/speed.py --json benchmarks/results/cpu.json
    python benchmarks/speed.py --device cuda --json benchmarks/results/gpu.json

Compiled code is warm, times are medians of repeats, upload and download included; memory is the peak of a process that
does nothing else, or what the GPU's allocator held at most. A first run is a process with empty caches of compiled
code. Times on a shared machine are noisy: compare them as ratios within one file.
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
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from scenes import rendered_pair, speed_pair

import scotopic
from scotopic.backends.device import resolve_device
from scotopic.settings import JunctionMatchingSettings

# The published implementation on one 593 x 398 pair: on two CPU cores, extrapolated from a crop; on an H200.
PUBLISHED_SECONDS = {"cpu": 17_800, "cuda": 71}
LIBRARIES = ("numpy", "numba", "opencv-python-headless", "torch", "triton")
LARGE = (4000, 3000, 256)  # width, height and candidates of the large pair
SIZES = ((306, 204), (433, 289), (612, 408), (866, 577), (1225, 816))  # 0.06 to 1 megapixel, 3 : 2


def time_pair(left: Any, right: Any, preset: str, device: str, repeats: int, disparities: int) -> dict[str, Any]:
    """Time every stage of a preset on a pair; on a GPU the first two runs, which compile, are not counted."""
    runs: list[dict[str, float]] = []
    for _ in range(repeats + 2 * (device == "cuda")):
        start = time.perf_counter()
        result = scotopic.match(left, right, preset, device, max_disparity=disparities)
        runs.append({**result.timings, "total": time.perf_counter() - start})
        print(f"{preset}: {runs[-1]['total']:.3f} s", file=sys.stderr)
    runs = runs[-repeats:]
    stages = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    return {"repeats": repeats, "median_seconds": stages, "all_totals": [run["total"] for run in runs]}


def time_stream(left: Any, right: Any, preset: str, device: str, disparities: int, pairs: int) -> float:
    """Return how many pairs per second a stream of them runs at, reading none from disk."""
    matcher = scotopic.Matcher(preset, left.shape, device, max_disparity=disparities)
    for _ in matcher.run([(left, right)] * 3):
        pass
    start = time.perf_counter()
    count = sum(1 for _ in matcher.run([(left, right)] * pairs))
    return count / (time.perf_counter() - start)


def time_gpu(presets: list[str], repeats: int, disparities: int) -> dict[str, Any]:
    """Time the presets, streams of pairs and large pairs on the GPU, and every kernel of the junctions by itself."""
    import torch
    from gpu_kernels import time_kernels

    _, left, right = speed_pair()
    found: dict[str, Any] = {"presets": {}, "kernels": {}, "stream_pairs_per_s": {}, "large": {}}
    width, height, candidates = LARGE
    # The pair over and over: to the fit every patch is as hard as there, and rendering so much noise takes minutes.
    large = [np.tile(image, (-(-height // 398), -(-width // 593), 1))[:height, :width] for image in (left, right)]
    for preset in presets:
        torch.cuda.reset_peak_memory_stats()
        found["presets"][preset] = time_pair(left, right, preset, "cuda", repeats, disparities)
        found["presets"][preset]["peak_memory_mib"] = torch.cuda.max_memory_allocated() / 2**20
        if isinstance(scotopic.PRESETS[preset], JunctionMatchingSettings):
            found["kernels"][preset] = time_kernels(left, right, preset, disparities)
        if preset == "paper":
            continue  # nobody waits for it
        found["stream_pairs_per_s"][preset] = time_stream(left, right, preset, "cuda", disparities, 200)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        one = time_pair(*large, preset, "cuda", repeats, candidates)
        one |= {"width": width, "height": height, "disparities": candidates}
        one["peak_memory_mib"] = torch.cuda.max_memory_allocated() / 2**20
        found["large"][preset] = one
    return found


def first_run(preset: str, device: str) -> dict[str, float]:
    """Return the seconds, and those of the processor, that a process with empty caches takes to match a small pair."""
    code = (
        "import scenes, scotopic; left, right = scenes.rendered_pair(200, 150); "
        f"scotopic.match(left, right, {preset!r}, {device!r}, max_disparity=32)"
    )
    with tempfile.TemporaryDirectory() as empty:
        caches = {name: str(Path(empty, name)) for name in ("NUMBA_CACHE_DIR", "TRITON_CACHE_DIR")}
        before, start = os.times(), time.perf_counter()
        subprocess.run(
            [sys.executable, "-c", code], cwd=Path(__file__).parent, check=True, env={**os.environ, **caches}
        )
        wall, after = time.perf_counter() - start, os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return {"seconds": wall, "processor_seconds": used}


def peak_memory(preset: str, disparities: int) -> float:
    """Return the peak resident memory, in MiB, of a fresh process that matches the speed pair once."""
    code = (
        "import resource, scenes, scotopic; _, left, right = scenes.speed_pair(); "
        f"scotopic.match(left, right, {preset!r}, 'cpu', max_disparity={disparities}); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parent, check=True, capture_output=True, text=True
    )
    return int(done.stdout) / (1024 if sys.platform != "darwin" else 1024**2)


def time_sizes(preset: str, device: str, repeats: int, disparities: int) -> dict[str, Any]:
    """Time a preset over image sizes; the slope of log time over log pixels is 1 where cost grows linearly."""
    points = []
    for width, height in SIZES:
        pair = rendered_pair(width, height)
        seconds = []
        for _ in range(repeats + 2 * (device == "cuda")):  # there the first two compile and record
            start = time.perf_counter()
            scotopic.match(*pair, preset, device, max_disparity=disparities)
            seconds.append(time.perf_counter() - start)
        points.append({"width": width, "height": height, "seconds": statistics.median(seconds[-repeats:])})
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
        **{name: found for name in LIBRARIES if (found := _version(name))},
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


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
    parser.add_argument("--presets", nargs="+", default=["paper", "fast", "best"], choices=sorted(scotopic.PRESETS))
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--repeats", type=int, default=3, help="runs per preset; fast gets three times as many")
    parser.add_argument("--disparities", type=int, default=128)
    arguments = parser.parse_args()

    device = resolve_device(arguments.device)
    name, left, right = speed_pair()
    results: dict[str, Any] = {
        "commit": commit(),
        "machine": machine(),
        "pair": {"name": name, "width": left.shape[1], "height": left.shape[0], "disparities": arguments.disparities},
        "published_seconds": PUBLISHED_SECONDS[device],
        "presets": {},
    }
    if device == "cuda":
        import torch

        results["machine"]["gpu"] = torch.cuda.get_device_name()
        results |= time_gpu(arguments.presets, arguments.repeats, arguments.disparities)
    else:
        from scotopic.warmup import warm_up

        warm_up()
        for preset in arguments.presets:
            repeats = arguments.repeats * (3 if preset == "fast" else 1)
            found = time_pair(left, right, preset, "cpu", repeats, arguments.disparities)
            found["peak_memory_mib"] = peak_memory(preset, arguments.disparities)
            results["presets"][preset] = found
    quick = [preset for preset in arguments.presets if preset != "paper"]
    results["sizes"] = {preset: time_sizes(preset, device, arguments.repeats, 64) for preset in quick}
    results["first_run"] = {preset: first_run(preset, device) for preset in quick}
    for found in results["presets"].values():
        found["speed_up_over_published"] = PUBLISHED_SECONDS[device] / found["median_seconds"]["total"]
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(results, indent=2) + "\n")
    print_summary(results)


def print_summary(results: dict[str, Any]) -> None:
    """Print what a reader wants first."""
    for preset, found in results["presets"].items():
        print(
            f"{preset}: {found['median_seconds']['total']:.3f} s, {found['peak_memory_mib']:.0f} MiB, "
            f"{found['speed_up_over_published']:.0f} x the published code"
        )
    for preset, sizes in results["sizes"].items():
        print(f"{preset}: time grows with pixels to the power {sizes['slope']:.2f}")
    for preset, first in results["first_run"].items():
        print(f"{preset}: first run {first['seconds']:.1f} s, {first['processor_seconds']:.1f} s of the processor")
    for preset, large in results.get("large", {}).items():
        print(
            f"{preset}, {large['width']} x {large['height']}, {large['disparities']} candidates: "
            f"{large['median_seconds']['total']:.2f} s, {large['peak_memory_mib']:.0f} MiB; stream of small pairs: "
            f"{results['stream_pairs_per_s'][preset]:.1f} pairs/s"
        )
    for preset, kernels in results.get("kernels", {}).items():
        for name, row in kernels.items():
            if name != "ceilings":
                print(
                    f"{preset:6} {name:20} {row['ms']:8.3f} ms {row['evaluations_g_per_s']:7.0f} G/s "
                    f"{100 * row['fp32_share']:5.1f} % of fp32 {100 * row['bandwidth_share']:5.1f} % of bandwidth"
                )


if __name__ == "__main__":
    main()
