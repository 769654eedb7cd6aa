"""Compare the presets with the published implementation on its own eight noisy inputs.

    python benchmarks/reference.py --json benchmarks/results/reference.json

Needs the reference scenes (``SCOTOPIC_DATA`` or ``../shared``). Three comparisons: boundary maps and patch disparities
from the published parameters; the data term that our fit reaches; errors, always with coverage, end to end.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scenes import ReferenceScene, load_reference, reference_folder
from speed import commit, machine

import scotopic
from scotopic.backends import cpu_backend
from scotopic.evaluation.metrics import score
from scotopic.io import as_image
from scotopic.settings import JunctionSettings, PatchMatchingSettings
from scotopic.stages.consistency import average_over_patches, check_views
from scotopic.stages.junctions.fit import Junctions, to_planes
from scotopic.stages.junctions.geometry import objective
from scotopic.stages.junctions.reference import cut_patches
from scotopic.stages.patch_costs import View, build_patch_costs, make_view, scale_costs
from scotopic.stages.sgm import jump_penalties

BACKEND = cpu_backend()
MATCHING = PatchMatchingSettings(max_disparity=128)
COLUMNS = (
    "coverage_percent",
    "W19 EPE",
    "W19 Bad-1",
    "W19 Bad-3",
    "W19 Bad-5",
    "W1 EPE",
    "W1 Bad-1",
    "W1 Bad-3",
    "W1 Bad-5",
)


def patch_disparities(views: dict[str, View[np.ndarray]]) -> dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Return disparity and margin of every patch of both views."""
    found = {}
    for side, other in (("left", "right"), ("right", "left")):
        raw = build_patch_costs(BACKEND, views[side], views[other], MATCHING, is_left=side == "left")
        penalties = jump_penalties(BACKEND, views[side].junctions, MATCHING)
        found[side] = BACKEND.select(BACKEND.aggregate(scale_costs(BACKEND, raw, MATCHING), penalties, MATCHING.p1))
    return found


def compare_from_parameters(scene: ReferenceScene) -> dict[str, Any]:
    """Match from the published parameters: how far the boundary maps and the patch disparities are from published."""
    settings = JunctionSettings()
    views, rows = {}, {}
    for side in ("left", "right"):
        image = as_image(getattr(scene, side), side)
        parameters = scene.parameters[side]
        planes = to_planes(BACKEND, [image], settings)  # whole patches, all of these images
        (boundaries,), (colors,) = BACKEND.draw_maps(planes, parameters[None], planes, 0.0, settings)
        colors = np.ascontiguousarray(np.moveaxis(colors, 0, -1))
        views[side] = make_view(BACKEND, image, Junctions(parameters, boundaries, colors, settings))
        rows[side] = {"boundary_error": float(np.abs(boundaries - scene.boundaries[side]).max())}
    for side, (disparity, _) in patch_disparities(views).items():
        rows[side]["equal_patches_percent"] = float(100 * (disparity == scene.patch_disparity[side]).mean())
    return rows


def data_term(image: NDArray[np.float32], parameters: NDArray[np.float64], settings: JunctionSettings) -> float:
    """Return the mean data term of a field, by the NumPy reference."""
    patches = cut_patches(image.astype(np.float64), settings)
    return float(np.mean([objective(parameters[i], patches[i]) for i in range(len(parameters))]))


def end_to_end(scene: ReferenceScene, preset: str) -> dict[str, Any]:
    """Run a preset on a scene: its errors with coverage, and its data term beside the published one."""
    settings = scotopic.make_settings(preset).junctions
    images = {side: as_image(getattr(scene, side), side) for side in ("left", "right")}
    fields = {side: scotopic.fit_junctions(image, settings) for side, image in images.items()}
    result = scotopic.match(
        images["left"], images["right"], preset, junctions=(fields["left"], fields["right"]), max_disparity=128
    )
    return {
        "errors": errors_of(result.disparity, scene),
        "data_term": float(np.mean([data_term(images[s], fields[s].parameters, settings) for s in images])),
        "published_data_term": float(np.mean([data_term(images[s], scene.parameters[s], settings) for s in images])),
    }


def errors_of(prediction: NDArray[np.floating], scene: ReferenceScene) -> dict[str, float]:
    """Return coverage and errors with both windows, on the paper's truth."""
    wide, point = score(prediction, scene.truth, 19), score(prediction, scene.truth, 1)
    errors = [100 * wide.coverage, *(v for s in (wide, point) for v in (s.epe, s.bad[1], s.bad[3], s.bad[5]))]
    return dict(zip(COLUMNS, errors, strict=True))


def published_errors(scene: ReferenceScene) -> dict[str, float]:
    """Score the published patch disparities and boundaries, by the same metric."""
    settings = JunctionSettings()
    shape = scene.truth.shape
    left, right = (average_over_patches(BACKEND, scene.patch_disparity[s], shape, settings) for s in ("left", "right"))
    nothing = np.zeros(shape, np.float32)
    checked = check_views(BACKEND, left, right, nothing, scene.boundaries["left"], scene.boundaries["right"], MATCHING)
    return errors_of(np.where(checked.reason == scotopic.Reason.OK, left, np.nan), scene)


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True, metavar="OUT", help="where to write the results")
    parser.add_argument("--presets", nargs="*", default=["paper", "fast"], choices=sorted(scotopic.PRESETS))
    arguments = parser.parse_args()
    folder = reference_folder()
    if folder is None:
        sys.exit("no reference scenes: set SCOTOPIC_DATA to the folder that holds reference/*.npz")

    results: dict[str, Any] = {"commit": commit(), "machine": machine(), "scenes": {}}
    for path in sorted(folder.glob("*.npz")):
        scene = load_reference(path)
        row: dict[str, Any] = {"from_parameters": compare_from_parameters(scene), "published": published_errors(scene)}
        for preset in arguments.presets:
            row[preset] = end_to_end(scene, preset)
            print(scene.name, preset, {k: round(v, 2) for k, v in row[preset]["errors"].items()}, flush=True)
        results["scenes"][scene.name] = row
    scenes = list(results["scenes"].values())
    results["mean"] = {"published": {c: float(np.mean([s["published"][c] for s in scenes])) for c in COLUMNS}}
    for preset in arguments.presets:
        mean = {c: float(np.mean([s[preset]["errors"][c] for s in scenes])) for c in COLUMNS}
        ratio = {c: mean[c] / results["mean"]["published"][c] for c in COLUMNS}
        terms = [float(np.mean([s[preset][k] for s in scenes])) for k in ("data_term", "published_data_term")]
        results["mean"][preset] = {
            "errors": mean,
            "over_published": ratio,
            "data_term_over_published": terms[0] / terms[1],
        }
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(results, indent=2) + "\n")
    print(json.dumps(results["mean"], indent=2))
    views = [(n, side, v) for n, s in results["scenes"].items() for side, v in s["from_parameters"].items()]
    print("worst boundary error", max(v["boundary_error"] for *_, v in views))
    print("patches equal, worst views", sorted((v["equal_patches_percent"], n, side) for n, side, v in views)[:4])


if __name__ == "__main__":
    main()
