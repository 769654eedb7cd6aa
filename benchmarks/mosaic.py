"""Noise that is correlated between pixels: scenes recorded dark through a color mosaic, interpolated, and matched.

    python benchmarks/mosaic.py --photons 15 100 --half checking

The light of a scene is linear (gamma 2.2). Each pixel of a Bayer mosaic counts its own color, ``photons`` at white,
with a read noise of 2. The missing colors are interpolated along edges and stored in 8 bits, as cameras do. Prints for
each data set EPE, Bad-1 and Bad-3 at 28, 75 and 100 % of the known pixels, and the largest difference between what the
confidence says and what is found, in tenths that hold at least 1 % of the pixels.
"""

import argparse
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

import scotopic
from scotopic.evaluation.benchmark import list_scenes, open_part
from scotopic.evaluation.plan import load_plan

GAMMA, READ_NOISE, SEED = 2.2, 2.0, 3
LEVELS, BLACK = 6000, 1000  # of the interpolated 16 bits: white above black, and black
EXPOSURE = 0.4  # white of the scene, as a share of that of the stored picture
COVERAGES = (0.28, 0.75, 1.0)
Floats = NDArray[np.float64]


def main() -> None:
    """Record, match, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared")
    parser.add_argument("--photons", type=float, nargs="+", default=[15, 100])
    parser.add_argument("--half", default="checking")
    arguments = parser.parse_args()
    plan = load_plan("light").with_scenes(arguments.half)
    scenes = list_scenes(plan, arguments.data)
    for photons in arguments.photons:
        for part in plan.datasets:
            if part.frames:  # the night pair, which has no half
                continue
            found = []
            for name in scenes[part.kind]:
                scene = open_part(part, arguments.data).load(name)
                noise = np.random.default_rng(SEED)
                views = [record(view, photons, noise) for view in (scene.left, scene.right)]
                match = scotopic.match(*views, "best", max_disparity=min(128, scene.left.shape[1]), check=False)
                errors = np.abs(np.asarray(match.disparity_all) - scene.truth)
                known = np.isfinite(errors)
                found.append((np.asarray(match.confidence)[known], errors[known]))
            print(f"{photons:g} photons, {part.kind}: {describe(found)}", flush=True)


def record(view: NDArray[np.float32], photons: float, noise: np.random.Generator) -> NDArray[np.float32]:
    """Return a view as a camera with a mosaic stores it."""
    light = view.astype(np.float64) ** GAMMA
    cells = np.empty(light.shape[:2])
    for row, column, color in ((0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 2)):
        cells[row::2, column::2] = light[row::2, column::2, color]
    counts = noise.poisson(photons * cells) + noise.normal(0, READ_NOISE, cells.shape)
    raw = np.clip(counts / photons * LEVELS + BLACK, 0, 65535).astype(np.uint16)
    colors = cv2.cvtColor(raw, cv2.COLOR_BayerRG2BGR_EA).astype(np.float64)
    stored = np.clip((colors - BLACK) / LEVELS * EXPOSURE, 0, 1)
    return (np.round(stored * 255) / 255).astype(np.float32)


def describe(found: list[tuple[Floats, Floats]]) -> str:
    """Return the means over scenes, from the confidences and the errors of each."""
    rows = []
    for confidence, errors in found:
        ranked = errors[np.argsort(-confidence, kind="stable")]
        kept = [ranked[: int(coverage * ranked.size)] for coverage in COVERAGES]
        rows.append([(each.mean(), 100 * (each > 1).mean(), 100 * (each > 3).mean()) for each in kept])
    parts = [
        f"{100 * coverage:.0f} % {epe:.2f}/{bad_1:.0f}/{bad_3:.0f}"
        for coverage, (epe, bad_1, bad_3) in zip(COVERAGES, np.mean(rows, axis=0), strict=True)
    ]
    said, right = (np.concatenate(each) for each in ([c for c, _ in found], [e <= 1 for _, e in found]))
    tenth = np.minimum((10 * said).astype(int), 9)
    gaps = [abs(said[tenth == k].mean() - right[tenth == k].mean()) for k in range(10) if (tenth == k).mean() >= 0.01]
    return f"{', '.join(parts)}; gap {max(gaps):.2f}"


if __name__ == "__main__":
    main()
