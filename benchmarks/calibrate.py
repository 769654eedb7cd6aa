"""Fit the confidence of ``preset="best"`` to rendered scenes, and draw how reliable it is.

    python benchmarks/calibrate.py [--scenes 28] [--out docs/images/reliability.png]

Prints the constants of the calibration and the reliability table. Scenes are rendered, never real. For the table and
the picture each half of them is tested with what was fitted to the other; the constants are fitted to all.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from random_scenes import random_scene

import scotopic
from scotopic.stages.confidence import CALIBRATION

PHOTONS = (1.0, 2.0, 2.0, 4.0, 8.0, 32.0)
SIZES = ((256, 176), (320, 208), (384, 256))
WITHIN = 1.0  # px: what confidence is about


@dataclass(frozen=True)
class Sample:
    """Pixels of one scene: their score, and whether they are right."""

    photons: float
    score: NDArray[np.float64]
    right: NDArray[np.bool_]


def main() -> None:
    """Match the scenes, fit, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenes", type=int, default=28)
    parser.add_argument("--out", type=Path, default=None)
    arguments = parser.parse_args()
    samples = []
    for seed in range(arguments.scenes):
        samples.append(sample(seed))
        print(f"{seed}: {samples[-1].photons:g} photons, {samples[-1].right.mean():.2f} within 1 px", flush=True)
    top, middle, slope = fit(samples)
    print(f"ConfidenceCalibration(top={top:.3f}, middle={middle:.3g}, slope={slope:.3g})")
    halves = samples[::2], samples[1::2]
    judged = [
        (each, curve(each.score, constants))
        for half, other in (halves, halves[::-1])
        for constants in [fit(other)]
        for each in half
    ]
    table = reliability(judged)
    for said, found, share in table:
        print(f"said {said:.2f}  found {found:.2f}  ({100 * share:.0f} % of the pixels)")
    for photons in sorted(set(PHOTONS)):
        gaps = [said.mean() - each.right.mean() for each, said in judged if each.photons == photons]
        if gaps:
            print(f"{photons:g} photons: said - found = {np.mean(gaps):+.3f} on average")
    if arguments.out:
        draw(table, arguments.out)


def sample(seed: int) -> Sample:
    """Match one scene, and undo the calibration to get the score.

    The power of the volume's spread stays the preset's: 1/4, 1/2 and 3/4 made scenes held back equally likely.
    """
    width, height = SIZES[seed // 2 % len(SIZES)]
    photons = PHOTONS[seed // 2 % len(PHOTONS)]
    if seed % 8 < 6:
        scene = random_scene(width, height, seed)
        left, right, truth = scene.left, scene.right, scene.disparity
    else:
        room = scotopic.render_scene(width, height, seed)
        left, right, truth = room.left, room.right, room.disparity_left
    noisy = scotopic.simulate_pair(left, right, photons=photons, read_noise=2, seed=seed)
    found = scotopic.match(*noisy, preset="best", device="cpu", max_disparity=width // 6)
    chosen = found.confidence[::3, ::3].astype(np.float64)
    odds = chosen / np.maximum(CALIBRATION.top - chosen, 1e-9)
    right_ones = np.abs(found.disparity_all - truth)[::3, ::3] <= WITHIN
    return Sample(photons, (CALIBRATION.middle * odds ** (1 / CALIBRATION.slope)).ravel(), right_ones.ravel())


def curve(score: NDArray[np.float64], constants: tuple[float, float, float]) -> NDArray[np.float64]:
    """Return ``top / (1 + (middle / score)^slope)``."""
    top, middle, slope = constants
    return np.asarray(top / (1 + (middle / np.maximum(score, 1e-9)) ** slope))


def fit(samples: list[Sample]) -> tuple[float, float, float]:
    """Return the constants under which the pixels are likeliest; each scene counts the same."""
    score = np.concatenate([each.score for each in samples])
    right = np.concatenate([each.right for each in samples])
    weight = np.concatenate([np.full(each.score.size, 1 / each.score.size) for each in samples])

    def unlikely(constants: tuple[float, float, float]) -> float:
        p = np.clip(curve(score, constants), 1e-6, 1 - 1e-6)
        return float(-(weight * np.where(right, np.log(p), np.log(1 - p))).sum())

    best = (unlikely((0.95, 10.0, 1.0)), (0.95, 10.0, 1.0))
    for width in 2.0 * 0.7 ** np.arange(18):
        _, (top, middle, slope) = best
        for t in np.clip(top + width * np.array((-0.1, 0, 0.1)), 0.5, 0.99):
            for m in middle * np.exp(width * np.array((-1, -0.5, 0, 0.5, 1))):
                for s in slope * np.exp(width * np.array((-0.5, 0, 0.5))):
                    best = min(best, (unlikely((t, m, s)), (float(t), float(m), float(s))))
    return best[1]


def reliability(judged: list[tuple[Sample, NDArray[np.float64]]]) -> list[tuple[float, float, float]]:
    """Return mean confidence, share within 1 px and share of all pixels, of pixels in tenths of confidence."""
    said = np.concatenate([confidence for _, confidence in judged])
    right = np.concatenate([each.right for each, _ in judged])
    tenth = np.minimum((said * 10).astype(int), 9)
    rows = [(tenth == k) for k in range(10)]
    return [(said[row].mean(), right[row].mean(), row.mean()) for row in rows if row.sum() > 100]


def draw(table: list[tuple[float, float, float]], path: Path) -> None:
    """Draw confidence against what was found, the area of each dot by how many pixels it stands for."""
    import cv2

    side, edge = 360, 44
    picture = np.full((side + 2 * edge, side + 2 * edge, 3), 255, np.uint8)

    def at(x: float, y: float) -> tuple[int, int]:
        return round(edge + side * x), round(edge + side * (1 - y))

    for k in range(0, 11, 2):
        cv2.line(picture, at(k / 10, 0), at(k / 10, 1), (225, 225, 225), 1)
        cv2.line(picture, at(0, k / 10), at(1, k / 10), (225, 225, 225), 1)
        for x, y, dx, dy in ((k / 10, 0, -10, 18), (0, k / 10, -34, 4)):
            corner = at(x, y)
            place = (corner[0] + dx, corner[1] + dy)
            cv2.putText(picture, f"{k / 10:.1f}", place, cv2.FONT_HERSHEY_SIMPLEX, 0.4, (60, 60, 60), 1, cv2.LINE_AA)
    cv2.line(picture, at(0, 0), at(1, 1), (150, 150, 150), 1, cv2.LINE_AA)
    places = [at(said, found) for said, found, _ in table]
    cv2.polylines(picture, [np.array(places)], False, (190, 110, 30), 2, cv2.LINE_AA)
    for place, (_, _, share) in zip(places, table, strict=True):
        cv2.circle(picture, place, round(3 + 18 * share**0.5), (190, 110, 30), -1, cv2.LINE_AA)
    words = (("confidence", (edge + side // 2 - 34, side + 2 * edge - 8)), ("share within 1 px", (edge, edge - 12)))
    for text, place in words:
        cv2.putText(picture, text, place, cv2.FONT_HERSHEY_SIMPLEX, 0.45, (20, 20, 20), 1, cv2.LINE_AA)
    cv2.imwrite(str(path), picture)


if __name__ == "__main__":
    main()
