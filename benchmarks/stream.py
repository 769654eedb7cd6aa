"""Error against the number of fused frames, and of the poses: streams of dark pairs, fused in several ways.

    python benchmarks/stream.py --tool ../shared/tools/make_sequence.py --scenes ../shared/data/middlebury2014_q/*
    python benchmarks/stream.py --sequences build/streams/*-sway ../shared/more/kitti_sequence --photons 8

Scenes are still ones, which the tool turns into sequences with exact truth (kept in ``build/streams``). Sequences are
folders as docs/evaluation.md has them. Prints a table of means over the sequences of each motion.
"""

import argparse
import json
import math
import runpy
import statistics
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import scotopic
from scotopic.backends.device import resolve_device
from scotopic.evaluation.curves import at_coverage
from scotopic.evaluation.metrics import score
from scotopic.evaluation.streams.alignment import ALIGNMENTS, Window, maps_of
from scotopic.evaluation.streams.poses import pose_errors
from scotopic.evaluation.streams.sequence import StereoSequence, read_sequence
from scotopic.settings import make_settings

ROOT = Path(__file__).resolve().parents[1]
COVERAGES = (28, 100)  # percent
ERRORS = ("epe", "bad-1", "bad-3")
Row = dict[str, Any]


def main() -> None:
    """Run, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sequences", nargs="*", type=Path, default=[], help="folders of sequences")
    parser.add_argument("--scenes", nargs="*", type=Path, default=[], help="folders of still scenes")
    parser.add_argument("--motion", nargs="+", default=["static", "sway", "forward"], help="of still scenes; +object")
    parser.add_argument("--tool", type=Path, default=ROOT.parent / "shared" / "tools" / "make_sequence.py")
    parser.add_argument("--made", type=Path, default=ROOT / "build" / "streams", help="where made sequences are kept")
    parser.add_argument("--frames", nargs="+", type=int, default=[1, 2, 4, 8, 16], help="numbers of fused frames")
    parser.add_argument("--rows", nargs="+", default=["none", "mean", "flow", "fusion", "oracle"])
    parser.add_argument("--photons", nargs="+", type=float, default=[2.0])
    parser.add_argument("--read-noise", type=float, default=2.0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--preset", default="best")
    parser.add_argument("--max-disparity", type=int, default=128)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", type=Path, help="file for the rows")
    options = parser.parse_args()
    rows: list[Row] = []
    for motion, folder in _folders(options):
        sequence = read_sequence(folder, max(options.frames))
        for photons in options.photons:
            for seed in range(options.seeds):
                rows += run(sequence, motion, photons, seed, options)
    print("\n" + table(rows))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


def _folders(options: argparse.Namespace) -> list[tuple[str, Path]]:
    """Return motion and folder of each sequence; those of still scenes are made where they are missing."""
    found = [(_motion_of(folder), folder) for folder in options.sequences]
    for scene in options.scenes:
        for motion in options.motion:
            folder = options.made / f"{scene.name}-{motion}"
            if not (folder / f"{max(options.frames) - 1:03d}.npz").exists():
                _make(options.tool, scene, folder, motion, max(options.frames))
            found.append((motion, folder))
    return found


def _motion_of(folder: Path) -> str:
    return folder.name.rpartition("-")[2]


def _make(tool: Path, scene: Path, folder: Path, motion: str, frames: int) -> None:
    print(f"making {folder}", flush=True)
    kind, _, moving = motion.partition("+")
    words = [str(tool), str(scene), str(folder), "--motion", kind, "--frames", str(frames)]
    sys.argv = [*words, "--object"] if moving else words
    runpy.run_path(str(tool), run_name="__main__")


def run(sequence: StereoSequence, motion: str, photons: float, seed: int, options: argparse.Namespace) -> list[Row]:
    """Return the rows of one sequence and noise."""
    recorded = sequence.record(photons, options.read_noise, seed)
    device = resolve_device(options.device)
    height, width, _ = sequence.shape
    settings = make_settings(options.preset, max_disparity=min(options.max_disparity, width))
    about = {"sequence": sequence.name, "motion": motion, "photons": photons, "seed": seed}
    rows = []
    for name in options.rows:
        if name == "fusion":
            rows += [{**about, "row": name, **found} for found in _run_fusion(sequence, recorded, settings, options)]
            continue
        if name == "oracle" and sequence.truths is None:
            continue
        for frames in options.frames:
            if frames == 1 and name != "none":  # with one frame all are alike
                continue
            window = Window(sequence, recorded[:frames])
            start = time.perf_counter()
            maps = maps_of(ALIGNMENTS[name](window, settings, device))
            seconds = time.perf_counter() - start
            rows.append({**about, "row": name, "frames": frames, "seconds": seconds, **_errors(window, maps)})
            _tell(rows[-1])
    return rows


def _run_fusion(sequence: StereoSequence, recorded: Any, settings: Any, options: argparse.Namespace) -> list[Row]:
    calibration = sequence.calibration
    most = max(options.frames)
    matcher = scotopic.Matcher(settings, sequence.shape, options.device, fuse=most, calibration=calibration)
    rows, poses, covariances, seconds = [], [], [], []
    stream = matcher.run(recorded)
    for number in range(len(recorded)):
        start = time.perf_counter()
        found = next(stream)
        seconds.append(time.perf_counter() - start)
        poses.append(np.asarray(found.pose))
        covariances.append(np.asarray(found.pose_covariance))
        if number + 1 in options.frames:
            window = Window(sequence, recorded[: number + 1])
            row = {"frames": number + 1, "seconds": statistics.median(seconds[1:] or seconds)}
            row |= _errors(window, maps_of(found)) | asdict(pose_errors(sequence, poses, covariances))
            row["frames_behind"] = float(np.mean(found.frames))
            _tell({"sequence": sequence.name, "row": "fusion", **row})
            rows.append(row)
    return rows


def _errors(window: Window, maps: tuple[Any, Any, Any]) -> Row:
    """Return the errors by window and coverage; the coverage is that which is reached."""
    _, dense, confidence = maps
    truths = window.sequence.truths
    if truths is None:
        return {}
    truth = truths[window.present]
    found: Row = {}
    for coverage in COVERAGES:
        kept = at_coverage(dense, confidence, coverage / 100)
        for side in (1, 19):
            scored = score(kept, truth, side, (1, 3))
            figures = (scored.epe, scored.bad[1], scored.bad[3])
            found |= {f"W{side}@{coverage} {name}": value for name, value in zip(ERRORS, figures, strict=True)}
            found[f"coverage@{coverage}"] = 100 * scored.coverage
    return found


def _tell(row: Row) -> None:
    shown = {k: v for k, v in row.items() if not k.startswith(("W", "coverage")) or k.endswith("@28 epe")}
    print("  ".join(f"{k} {v:.3g}" if isinstance(v, float) else str(v) for k, v in shown.items()), flush=True)


# --- table ----------------------------------------------------------------------------------------------------------

COLUMNS = ("translation_percent", "rotation_per_length", "step_px", "last_px", "nees", "frames_behind", "seconds")


def table(rows: list[Row]) -> str:
    """Return a table of means over sequences and seeds: EPE / Bad-1 / Bad-3 at each window and coverage, poses, time."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["motion"], row["photons"], row["row"], row["frames"]), []).append(row)
    errors = [f"W{side}@{coverage}" for coverage in COVERAGES for side in (1, 19)]
    head = ["motion", "photons", "row", "N", "n", *errors, "t %", "r deg/len", "step px", "last px", "NEES", "frames"]
    head.append("s/pair")
    lines = [head, ["---"] * len(head)]
    for (motion, photons, name, frames), group in groups.items():
        cells = [motion, f"{photons:g}", name, str(frames), str(len(group))]
        for each in errors:
            means = [_mean(group, f"{each} {error}") for error in ERRORS]
            cells.append("" if math.isnan(means[0]) else f"{means[0]:.3f} / {means[1]:.1f} / {means[2]:.1f}")
        cells += ["" if math.isnan(mean) else f"{mean:.3g}" for mean in (_mean(group, name) for name in COLUMNS)]
        lines.append(cells)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _mean(group: list[Row], name: str) -> float:
    values = [row[name] for row in group if not math.isnan(row.get(name, math.nan))]
    return statistics.fmean(values) if values else math.nan


if __name__ == "__main__":
    main()
