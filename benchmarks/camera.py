"""What light, recording and image size do to a match: the tables of ``docs/camera.md``.

    python benchmarks/camera.py                      # everything, about ten minutes on two idle cores
    python benchmarks/camera.py --parts light size   # the others stay as they are

Scenes: the rendered one at 384 x 256, and two of each data set from the tuning half, at half the size of the paper's
experiments. Noise is the paper's (read noise of 2, one seed), in color and in gray, at the same number of photons in
each channel. All pairs are matched with ``best`` and 64 candidates. Errors are pooled over the answered pixels of all
scenes with known truth, and every window scores the same pixels; coverage is the share of all pixels.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray
from speed import commit, machine

import scotopic
from scotopic.evaluation import open_dataset, window_error
from scotopic.evaluation.plan import load_plan

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "camera.json"
SCENES = {"middlebury2014": ("Adirondack", "Motorcycle"), "instereo2k": ("000040", "000240")}
SCALES = {"middlebury2014": 0.1, "instereo2k": 0.25}  # half of the paper's
PHOTONS = (1, 2, 4, 8, 16, 32, 64)
CANDIDATES = 64
READ_NOISE = 2.0
RECORDED_PHOTONS = (8, 32)  # in the tables of recordings
SIZES = ((320, 208), (640, 416), (960, 624), (1280, 832))
WINDOWS = (1, 19)

Image = NDArray[np.float32]


class Pair(NamedTuple):
    """A clean pair, with the true disparity of its left view."""

    data: str
    left: Image
    right: Image
    truth: Image


def pairs(data: Path) -> Iterator[Pair]:
    """Yield the pairs that are measured."""
    room = scotopic.render_scene()
    yield Pair("rendered", room.left, room.right, room.disparity_left)
    for part in load_plan("light").datasets:
        for name in SCENES.get(part.kind, ()):
            scene = open_dataset(part.kind, part.locate(data), SCALES[part.kind]).load(name)
            yield Pair(part.kind, scene.left, scene.right, scene.truth)


def to_gray(image: Image) -> Image:
    """Return an image in one channel, with the usual weights."""
    return cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)[..., None]


class Tally:
    """Coverage, and the errors of all answered pixels, over several pairs."""

    def __init__(self) -> None:
        self.errors: dict[int, list[NDArray[np.float64]]] = {window: [] for window in WINDOWS}
        self.answered = self.pixels = 0

    def add(self, pair: Pair, left: NDArray[Any], right: NDArray[Any]) -> None:
        """Match a recording of a pair, and count."""
        match = scotopic.match(left, right, max_disparity=CANDIDATES, device="cpu")
        self.answered += int(match.mask.sum())
        self.pixels += match.mask.size
        is_known = match.mask & np.isfinite(pair.truth)
        for window in WINDOWS:
            self.errors[window].append(window_error(match.disparity, pair.truth, window)[is_known])

    def summary(self) -> dict[str, float]:
        """Return coverage and errors; those of less than a hundred pixels say nothing and are left out."""
        found = {"coverage_percent": round(100 * self.answered / self.pixels, 2)}
        for window, parts in self.errors.items():
            errors = np.concatenate(parts)
            if errors.size >= 100:
                found |= {f"W{window} EPE": round(float(errors.mean()), 3)}
                found |= {f"W{window} Bad-1": round(float(100 * (errors > 1).mean()), 1)}
        return found


def measure_light(data: Path) -> dict[str, Any]:
    """Match every scene in every light, in color and in gray."""
    kinds: dict[str, Callable[[Image], Image]] = {"color": lambda image: image, "gray": to_gray}
    scenes, rows = list(pairs(data)), []
    for photons in PHOTONS:
        row: dict[str, Any] = {"photons": photons}
        for kind, convert in kinds.items():
            every, rendered = Tally(), Tally()
            for pair in scenes:
                views = scotopic.simulate_pair(convert(pair.left), convert(pair.right), photons, READ_NOISE)
                (rendered if pair.data == "rendered" else every).add(pair, *views)
            row |= {kind: every.summary(), f"rendered {kind}": rendered.summary()}
        rows.append(row)
        print(json.dumps(row), flush=True)
    real = [pair.left.mean() for pair in scenes if pair.data != "rendered"]
    levels = {
        "mean_level": round(float(np.mean(real)), 2),
        "rendered mean_level": round(float(scenes[0].left.mean()), 2),
    }
    return {**levels, "rows": rows}


def measure_recordings(data: Path) -> dict[str, Any]:
    """Match the real scenes, recorded with the same light by cameras that store it in different ways, in two lights."""
    return {"levels": [measure_level(data, photons) for photons in RECORDED_PHOTONS]}


def measure_level(data: Path, photons: float) -> dict[str, Any]:
    """Match the real scenes in one light, stored in every way."""
    rows = {name: Tally() for name in RECORDINGS}
    for pair in pairs(data):
        if pair.data == "rendered":
            continue
        # Black lies above the bottom of the range, as in cameras, so that noise is not cut off there.
        sensor = scotopic.sensor.Sensor(photons, READ_NOISE, black=0.1)
        views = [sensor.simulate(view, seed) for seed, view in enumerate((pair.left, pair.right))]
        for name, store in RECORDINGS.items():
            rows[name].add(pair, *(store(view) for view in views))
    found = {name: tally.summary() for name, tally in rows.items()}
    for name, row in found.items():
        print(name, json.dumps(row), flush=True)
    return {"photons": photons, "rows": found}


def in_8_bits(values: Image, levels: int = 255) -> NDArray[np.uint8]:
    """Return values in [0, 1] in so many steps from black to white."""
    return np.rint(levels * np.clip(values, 0, 1)).astype(np.uint8)


def with_gamma(values: Image) -> Image:
    """Return linear values in sRGB."""
    low = np.clip(values, 0, 1)
    return np.where(low <= 0.0031308, 12.92 * low, 1.055 * np.maximum(low, 1e-9) ** (1 / 2.4) - 0.055)


def through_jpeg(image: NDArray[np.uint8], quality: int) -> NDArray[np.uint8]:
    """Return an image as it comes back from a JPEG file."""
    _, file = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, quality])
    return cv2.imdecode(file, cv2.IMREAD_COLOR)


def denoised(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return an image smoothed, as cameras do, by comparing small windows within one image."""
    return cv2.fastNlMeansDenoisingColored(image, None, 20, 20, 5, 15)


#: How a linear image in [0, 1] is stored.
RECORDINGS: dict[str, Callable[[Image], NDArray[Any]]] = {
    "linear, 8 bits": in_8_bits,
    "linear, in 16 of the 256 levels": lambda values: in_8_bits(values, 15),
    "gamma (sRGB), 8 bits": lambda values: in_8_bits(with_gamma(values)),
    "gamma, JPEG 95": lambda values: through_jpeg(in_8_bits(with_gamma(values)), 95),
    "gamma, JPEG 75": lambda values: through_jpeg(in_8_bits(with_gamma(values)), 75),
    "gamma, denoised": lambda values: denoised(in_8_bits(with_gamma(values))),
    "gamma, denoised, JPEG 75": lambda values: through_jpeg(denoised(in_8_bits(with_gamma(values))), 75),
}


def measure_sizes() -> dict[str, Any]:
    """Time the presets over image sizes, each in a fresh process, for its memory; compiled kernels are warm."""
    rows = []
    for preset in ("fast", "best"):
        for width, height in SIZES:
            done = subprocess.run(
                [sys.executable, __file__, "--one", preset, str(width), str(height)],
                check=True, capture_output=True, text=True,
            )  # fmt: skip
            rows.append({"preset": preset, "width": width, "height": height, **json.loads(done.stdout)})
            print(json.dumps(rows[-1]), flush=True)
    return {"candidates": CANDIDATES, "photons": 2, "rows": rows}


def measure_size(preset: str, width: int, height: int) -> dict[str, float]:
    """Match a rendered pair of this size once, after a small one that loads the kernels.

    Returns processor seconds of all threads, which other work on the machine hardly changes, and the peak in MiB.
    """
    scene = scotopic.render_scene(width, height)
    left, right = scotopic.simulate_pair(scene.left, scene.right, 2, READ_NOISE)
    scotopic.match(left[:96, :128], right[:96, :128], preset, "cpu", max_disparity=CANDIDATES)
    start = time.process_time()
    scotopic.match(left, right, preset, "cpu", max_disparity=CANDIDATES)
    seconds = time.process_time() - start
    unit = 1024**2 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    return {"cpu_seconds": round(seconds, 2), "peak_memory_mib": round(peak, 1)}


def main() -> None:
    """Measure, keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared", help="folder that holds data and more")
    parser.add_argument("--parts", nargs="+", default=["light", "recordings", "size"])
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        preset, width, height = arguments.one
        print(json.dumps(measure_size(preset, int(width), int(height))))
        return
    measures = {
        "light": lambda: measure_light(arguments.data),
        "recordings": lambda: measure_recordings(arguments.data),
        "size": measure_sizes,
    }
    kept = json.loads(arguments.json.read_text()) if arguments.json.exists() else {}
    for part in arguments.parts:
        kept[part] = {"commit": commit(), "machine": machine(), **measures[part]()}
        arguments.json.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
