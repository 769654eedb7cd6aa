"""Fit the confidence of ``preset="best"`` to real scenes, and draw how far it holds on others.

    python benchmarks/calibrate.py [--data ../shared] [--device cuda] [--out docs/images/reliability.png]

Fits to the tuning half of the scenes, from one frame of two photons to clean pairs, and tests on the checking half.
Prints the coefficients for the kinds of light, what is said and found in tenths of confidence, and the standard
deviation that goes with the confidence. Every scene and level of light counts the same. Denoised images without the
margin inside edges do not occur among these; their coefficients are those of ``--without-inner-margin``.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import scotopic
from scotopic.backends.device import to_numpy
from scotopic.evaluation.benchmark import list_scenes, open_part
from scotopic.evaluation.plan import load_plan
from scotopic.evaluation.protocol import record_scene
from scotopic.pipelines import evidence_matching
from scotopic.stages.confidence import CALIBRATIONS, DEVIATIONS, ConfidenceCalibration, mean_relief

FRAMES = (1, 2, 4, 8, 16, 32, 128, 0)  # averaged; 0 is a clean pair
LIGHTS = ("in the dark", "denoised", "in the dark, inner margin", "denoised, inner margin", "clear")
DARK = (0,)  #: of the lights: the pixel's own relief does not count
WITHIN = 1.0  # px: what confidence is about
KEPT = 0.5  # confidence
SAMPLES = 2500  # pixels of each pair

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Sample:
    """Pixels of one pair: where it is from, which of the lights it was, features, errors in px."""

    dataset: str
    frames: int
    light: int
    features: Floats  #: logarithm of the score, logarithm of the relief, and its mean over the picture
    errors: Floats


def main() -> None:
    """Match the scenes, fit, test, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--without-inner-margin", action="store_true", help="match with inner_share=0")
    arguments = parser.parse_args()
    changes = {"inner_share": 0.0} if arguments.without_inner_margin else {}
    tuning, checking = (
        take_samples(half, arguments.data, arguments.device, changes) for half in ("tuning", "checking")
    )
    # In the dark without the pixel's own relief.
    of_lights = [[each for each in tuning if each.light == k] for k in range(len(LIGHTS))]
    fitted = [fit(some, own=k not in DARK) if some else CALIBRATIONS[k] for k, some in enumerate(of_lights)]
    for name, constants in zip(LIGHTS, fitted, strict=True):
        print(name, constants)
    for half, samples in (("tuning", tuning), ("checking", checking)):
        print(f"{half} half, tenths of confidence: said, found, share of the pixels")
        table = reliability(samples, fitted)
        for said, found, share in table:
            print(f"  {said:.2f}  {found:.2f}  {share:.2f}")
        print_gaps(samples, fitted)
    print("standard deviation:", deviations(tuning, fitted))
    print("in the package:", CALIBRATIONS, DEVIATIONS)
    if arguments.out:
        draw(table, arguments.out)


def take_samples(half: str, data: Path, device: str, changes: dict[str, float]) -> list[Sample]:
    """Match every scene of a half at every level of light, with some settings changed."""
    plan = load_plan("light").with_scenes(half)
    scenes, samples = list_scenes(plan, data), []
    for part in plan.datasets:
        if part.frames:  # the night pair, which has no half
            continue
        for name in scenes[part.kind]:
            scene = open_part(part, data).load(name)
            for frames in FRAMES:
                left, right, _ = record_scene(scene, 2.0, 2.0, 0, frames, is_clean=frames == 0)
                light, features, errors = take_pixels(left, right, scene.truth, device, changes)
                samples.append(Sample(part.kind, frames, light, features, errors))
                right_share = float((samples[-1].errors <= WITHIN).mean())
                print(
                    f"{name}, {frames} frames: {LIGHTS[samples[-1].light]}, {right_share:.2f} within 1 px", flush=True
                )
    return samples


def take_pixels(
    left: Floats, right: Floats, truth: Floats, device: str, changes: dict[str, float]
) -> tuple[int, Floats, Floats]:
    """Match one pair; return the kind of light, what the confidence is computed from, and the errors."""
    heard: list[tuple[Floats, ...]] = []
    lights: list[int] = []
    calibrate = evidence_matching.calibrate

    def listen(backend, score, relief, calibration):  # type: ignore[no-untyped-def]
        mean = score * 0 + mean_relief(backend, score, relief)
        heard.append(tuple(np.asarray(each, np.float64) for each in to_numpy(score, relief, mean)))
        lights.append(CALIBRATIONS.index(calibration))
        return calibrate(backend, score, relief, calibration)

    evidence_matching.calibrate = listen
    try:
        found = scotopic.match(left, right, "best", device=device, max_disparity=min(128, left.shape[1]), **changes)
    finally:
        evidence_matching.calibrate = calibrate
    score, relief, mean = heard[0]
    # Features are of working size; each counts at the full-size pixels that it stands for.
    height, width = truth.shape
    factor = -(-height // score.shape[0])
    rows, columns = np.arange(height) // factor, np.arange(width) // factor
    maps = [np.log(score), relief, mean]
    features = np.stack([each[rows][:, columns] for each in maps], axis=-1)
    errors = np.abs(to_numpy(found.disparity_all)[0] - truth)
    known = np.flatnonzero(np.isfinite(errors))
    chosen = np.random.default_rng(1).choice(known, min(SAMPLES, known.size), replace=False)
    return lights[0], features.reshape(-1, 3)[chosen], errors.ravel()[chosen].astype(np.float64)


def design(features: Floats, lowest: float) -> Floats:
    """Return what the coefficients are multiplied with."""
    score = np.maximum(features[:, 0], lowest)
    return np.stack([np.ones_like(score), score, score**2, features[:, 1], features[:, 2]], axis=1)


def fit(samples: list[Sample], own: bool) -> ConfidenceCalibration:
    """Return the coefficients under which the pixels are likeliest; ``own`` says whether their own relief counts."""
    features = np.concatenate([each.features for each in samples])
    right = np.concatenate([each.errors for each in samples]) <= WITHIN
    used = np.array([True, True, True, own, True])
    coefficients, lowest = np.zeros(5), -1.0
    for _ in range(5):  # the lowest score that counts follows from the coefficients
        inputs = design(features, lowest)[:, used]
        coefficients[used] = maximize_likelihood(inputs, right)
        lowest = ConfidenceCalibration(*coefficients).lowest_score
    return ConfidenceCalibration(*(round(float(each), 3) for each in coefficients))


def maximize_likelihood(inputs: Floats, right: NDArray[np.bool_]) -> Floats:
    """Return the coefficients of a logistic regression, by Newton's method."""
    coefficients = np.zeros(inputs.shape[1])
    for _ in range(30):
        p = 1 / (1 + np.exp(-inputs @ coefficients))
        curvature = (inputs * (p * (1 - p))[:, None]).T @ inputs + 1e-4 * np.eye(coefficients.size)
        coefficients = coefficients + np.linalg.solve(curvature, inputs.T @ (right - p) - 1e-4 * coefficients)
    return coefficients


def confidence_of(samples: list[Sample], fitted: list[ConfidenceCalibration]) -> tuple[Floats, Floats]:
    """Return what is said of all pixels, and their errors."""
    said = [
        1 / (1 + np.exp(-design(each.features, fitted[each.light].lowest_score) @ np.array(fitted[each.light])))
        for each in samples
    ]
    return np.concatenate(said), np.concatenate([each.errors for each in samples])


def reliability(samples: list[Sample], fitted: list[ConfidenceCalibration]) -> list[tuple[float, float, float]]:
    """Return mean confidence, share within 1 px and share of all pixels, of pixels in tenths of confidence."""
    said, errors = confidence_of(samples, fitted)
    tenth = np.minimum((said * 10).astype(int), 9)
    rows = [(tenth == k) for k in range(10)]
    return [(said[row].mean(), (errors[row] <= WITHIN).mean(), row.mean()) for row in rows if row.mean() >= 0.01]


def print_gaps(samples: list[Sample], fitted: list[ConfidenceCalibration]) -> None:
    """Print of each data set and level of light how far off a tenth is at most, and what the mask keeps."""
    print("  data set, frames: largest gap; kept, of these within 1 px and off by more than 10 px")
    for name, frames in sorted({(each.dataset, each.frames) for each in samples}):
        some = [each for each in samples if (each.dataset, each.frames) == (name, frames)]
        gap = max(abs(said - found) for said, found, _ in reliability(some, fitted))
        said, errors = confidence_of(some, fitted)
        kept = errors[said >= KEPT]
        within, lost = ((kept <= WITHIN).mean(), (kept > 10).mean()) if kept.size else (np.nan, np.nan)
        print(f"  {name}, {frames}: {gap:.2f}; {kept.size / errors.size:.2f}, {within:.2f}, {lost:.3f}")


def deviations(samples: list[Sample], fitted: list[ConfidenceCalibration]) -> list[tuple[float, float]]:
    """Return confidence, and half of what 95 % of the errors stay below, by tenths of confidence."""
    said, errors = confidence_of(samples, fitted)
    tenth = np.minimum((said * 10).astype(int), 9)
    return [
        (round(float(said[tenth == k].mean()), 2), round(float(np.quantile(errors[tenth == k], 0.95)) / 2, 2))
        for k in range(10)
        if (tenth == k).any()
    ]


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
