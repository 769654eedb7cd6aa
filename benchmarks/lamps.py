"""Light that differs by region: scenes in which a lamp shines on the right view alone, matched at several light levels.

    python benchmarks/lamps.py --frames 8 32 clean --half checking [--equal]

The right view gets 0.55 of the light everywhere, and up to 0.75 more, a little warmer, around a place that is another
one for each scene. ``--equal`` matches the same scenes without the lamp. Prints for each data set EPE, Bad-1 and Bad-3
at 28, 75 and 100 % of the known pixels, and the largest difference between what the confidence says and what is found.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
from mosaic import describe
from numpy.typing import NDArray

import scotopic
from scotopic.evaluation.benchmark import list_scenes, open_part
from scotopic.evaluation.plan import load_plan
from scotopic.evaluation.protocol import CLEAN, record_scene

PHOTONS, READ_NOISE, SEED = 2.0, 2.0, 0
EVERYWHERE, NEAR, WARMTH = 0.55, 0.75, (1.0, 0.95, 0.85)


def main() -> None:
    """Light, record, match, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared")
    parser.add_argument("--frames", nargs="+", default=["8", "32", "clean"])
    parser.add_argument("--half", default="checking")
    parser.add_argument("--equal", action="store_true", help="without the lamp")
    arguments = parser.parse_args()
    plan = load_plan("light").with_scenes(arguments.half)
    scenes = list_scenes(plan, arguments.data)
    for level in arguments.frames:
        frames = CLEAN if level == "clean" else int(level)
        for part in plan.datasets:
            if part.frames:  # the night pair, which has no half
                continue
            found = []
            for number, name in enumerate(scenes[part.kind]):
                scene = open_part(part, arguments.data).load(name)
                if not arguments.equal:
                    lamp = shine(scene.right.shape, number)
                    scene = replace(scene, right=np.clip(scene.right * lamp, 0, 1))
                left, right, _ = record_scene(scene, PHOTONS, READ_NOISE, SEED, frames)
                match = scotopic.match(left, right, "best", max_disparity=min(128, left.shape[1]), check=False)
                errors = np.abs(np.asarray(match.disparity_all) - scene.truth).astype(np.float64)
                known = np.isfinite(errors)
                found.append((np.asarray(match.confidence, np.float64)[known], errors[known]))
            print(f"{level}, {part.kind}: {describe(found)}", flush=True)


def shine(shape: tuple[int, ...], number: int) -> NDArray[np.float32]:
    """Return what the light of a view of this shape is multiplied by."""
    random = np.random.default_rng(number)
    height, width, channels = shape
    row, column, reach = (
        random.uniform(0, 0.6) * height,
        random.uniform(0.1, 0.9) * width,
        random.uniform(0.25, 0.5) * width,
    )
    y, x = np.mgrid[:height, :width]
    near = np.exp(-((x - column) ** 2 + (y - row) ** 2) / (2 * reach**2))[..., None]
    return (EVERYWHERE + NEAR * near * np.array(WARMTH)[:channels]).astype(np.float32)


if __name__ == "__main__":
    main()
