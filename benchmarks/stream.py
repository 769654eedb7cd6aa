"""Streams in the dark: error against the number of fused frames, and of the poses; the tables of ``docs/fusion.md``.

    python benchmarks/stream.py --room --motion sway                     # the rendered room: needs no data
    python benchmarks/stream.py --scenes ../shared/data/middlebury2014_q/* --motion sway --json rows.json
    python benchmarks/stream.py --sequences ../shared/more/kitti_sequence --photons 8 32 --frames 16 --json rows.json
    python benchmarks/stream.py --rows rows.json other-rows.json --page      # from rows that were measured elsewhere

Scenes are still ones with truth (Middlebury 2014). ``--tool``, a script that is called as ``make_sequence.py SCENE OUT
--frames N --motion sway|forward|static [--object]``, makes them sequences, which are kept in ``build/streams``.
Sequences are folders as docs/evaluation.md has them. What is run is the plan ``stream``, or parts of it. A run that was
stopped goes on where it stopped, as long as its folder is there. Prints one table of means over the sequences of each
motion.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PAGE = ROOT / "benchmarks" / "results" / "stream.json", ROOT / "docs" / "fusion.md"
CURVE = ROOT / "docs" / "images" / "fusion_curve.png"
BEGIN, END = "<!-- tables of stream, written by benchmarks/stream.py -->", "<!-- end of the tables of stream -->"
MOTIONS = ("static", "sway", "forward", "sway+object", "forward+object")
METHODS = ("none", "mean", "flow", "fusion", "oracle", "orb", "sift")
COVERAGES, WINDOWS, ERRORS = (28, 100), (1, 19), ("epe", "bad-1", "bad-3")
POSES = ("translation_percent", "rotation_per_length", "step_px", "last_px", "nees")
ROOM = (272, 176)  # px
DIGITS = 5  # significant, of a row
GAP = "\N{EN DASH}"
TITLES = {
    "none": "one pair",
    "mean": "plain mean",
    "flow": "optical flow",
    "fusion": "**fusion**",
    "oracle": "true alignment",
    "orb": "ORB",
    "sift": "SIFT",
}
Row = dict[str, Any]


def main() -> None:
    """Run, keep, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sequences", nargs="*", type=Path, default=[], help="folders of sequences")
    parser.add_argument("--room", action="store_true", help="the rendered room, moved through")
    parser.add_argument("--scenes", nargs="*", type=Path, default=[], help="folders of still scenes")
    parser.add_argument(
        "--motion",
        nargs="+",
        default=["static", "sway", "forward"],
        help="of room and scenes; sway+object: with an object",
    )
    parser.add_argument("--tool", type=Path, default=ROOT.parent / "shared" / "tools" / "make_sequence.py")
    parser.add_argument("--made", type=Path, default=ROOT / "build" / "streams", help="where made sequences are kept")
    parser.add_argument("-o", "--out", type=Path, default=ROOT / "build" / "stream", help="folder of the results")
    parser.add_argument("--frames", nargs="+", type=int, default=[1, 2, 4, 8, 16], help="numbers of fused frames")
    parser.add_argument("--methods", nargs="+", default=list(METHODS[:5]), choices=METHODS, help="rows of the table")
    parser.add_argument("--photons", nargs="+", type=float, default=[2.0])
    parser.add_argument("--read-noise", type=float, default=2.0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--preset", default="best")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--no-times", action="store_true", help="keep no times: the machine does other work")
    parser.add_argument("--json", type=Path, help="file for the rows; those of other sequences in it stay")
    parser.add_argument("--rows", nargs="*", type=Path, default=[], help="files of rows to add to those of this run")
    parser.add_argument("--page", action="store_true", help="write rows and tables into the repository")
    options = parser.parse_args()
    if options.device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # before torch looks for a GPU
    elif options.device == "cuda":
        from scotopic.backends.device import resolve_device

        resolve_device("cuda")  # which says why there is none
    rows: list[Row] = []
    for path in [*([RESULTS] if options.page and RESULTS.exists() else []), *options.rows]:
        rows = merge(rows, json.loads(path.read_text()))
    folders = [*options.sequences, *_made(options)]
    if folders:
        found = run(folders, options)
        if options.no_times:
            found = [{name: value for name, value in row.items() if name != "seconds"} for row in found]
        rows = merge(rows, found)
    if options.json:
        kept = json.loads(options.json.read_text()) if options.json.exists() else []
        write_rows(options.json, merge(kept, rows))
    print("\n" + overview(rows))
    if options.page:
        write_rows(RESULTS, rows)
        write_tables(PAGE, rows)
        draw_curve(rows, CURVE)


def _made(options: argparse.Namespace) -> list[Path]:
    """Return the sequences of the room and of the still scenes, made where they are missing."""
    most, folders, calls = max(options.frames), [], []
    for motion in options.motion if options.room else ():
        folders.append(options.made / f"room_{motion}")
        if not (folders[-1] / f"{most - 1:03d}.npz").exists():
            write_room(folders[-1], motion, most)
    for scene in options.scenes:
        for motion in options.motion:
            folders.append(options.made / f"{scene.name}-{motion}")
            if not (folders[-1] / f"{most - 1:03d}.npz").exists():
                kind, _, has_object = motion.partition("+")
                words = [str(scene), str(folders[-1]), "--motion", kind, "--frames", str(most)]
                calls.append([sys.executable, str(options.tool), *words, *(["--object"] if has_object else [])])
    if calls:
        print(f"making {len(calls)} sequences", flush=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for done in pool.map(partial(subprocess.run, check=True), calls):
            assert done.returncode == 0
    return folders


def write_room(folder: Path, motion: str, frames: int) -> None:
    """Write a sequence of the rendered room, seen by a rig that stands, sways or goes ahead."""
    import cv2
    import numpy as np

    import scotopic
    from scotopic.sensor import to_uint8

    folder.mkdir(parents=True, exist_ok=True)
    for k in range(frames):
        pose, a = np.eye(4), 2 * np.pi * k / 24
        degrees, pose[:3, 3] = {
            "static": ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0)),
            "sway": (
                (0.5 * np.sin(a), np.sin(a), 0.3 * np.sin(2 * a)),
                (0.8 * np.sin(a), 0.3 * np.sin(2 * a), 0.6 * a),
            ),
            "forward": ((0.0, 0.15 * k, 0.0), (0.02 * k, 0.0, 0.2 * k)),
        }[motion]
        pose[:3, :3] = cv2.Rodrigues(np.deg2rad(degrees))[0]
        scene = scotopic.render_scene(*ROOM, pose=pose)
        views = {"clean_left": to_uint8(scene.left), "clean_right": to_uint8(scene.right)}
        np.savez_compressed(folder / f"{k:03d}.npz", **views, disparity=scene.disparity_left, pose=pose)
        c = scene.calibration
        (folder / "calib.txt").write_text(f"{c.fx} {c.cx} {c.cy} {c.baseline} {c.doffs}\n")


def kind_of(sequence: str) -> tuple[str, str]:
    """Return what a sequence shows, and how the rig moves in it, by its name."""
    if sequence.startswith("room_"):
        return "Rendered room", sequence.removeprefix("room_")
    scene, dash, motion = sequence.rpartition("-")
    return ("Middlebury scenes", motion) if dash else ("KITTI" if "kitti" in scene + motion else motion, "as recorded")


def spec_of(method: str, preset: str) -> str:
    """Return the spec of a row of the table."""
    if method in ("orb", "sift"):
        return f"odometry:{method}"
    return {"none": f"scotopic:{preset}", "fusion": f"stream:{preset}"}.get(method, f"stream:{preset}+{method}")


# --- running --------------------------------------------------------------------------------------------------------


def run(folders: list[Path], options: argparse.Namespace) -> list[Row]:
    """Run what is missing, and return a row for each sequence, noise, method and number of frames."""
    from scotopic.evaluation.benchmark import Status, run_benchmark
    from scotopic.evaluation.plan import DatasetPlan, load_plan
    from scotopic.evaluation.records import Record, record_path
    from scotopic.evaluation.report.results import read_results

    def tell(status: Status) -> None:
        if status.last is not None:
            shown = one_row(status.last, "", {}) if status.last.error is None else {"error": status.last.error}
            task = status.last.task
            words = (
                f"{status.done} of {status.total}  {task.scene}  {task.method}  {task.photons:g} ph  N {task.frames}"
            )
            few = {
                name: value for name, value in shown.items() if name in ("W1@28", "W19@28", *POSES, "seconds", "error")
            }
            print(words, json.dumps(few), flush=True)

    places = [str(folder.resolve()) for folder in folders]
    specs = {spec_of(method, options.preset): method for method in options.methods}
    plan = load_plan("stream").with_changes(
        datasets=(DatasetPlan("sequence", (places[0],), tuple(places[1:])),),
        methods=tuple(specs),
        photons=tuple(options.photons),
        frames=tuple(options.frames),
        seeds=tuple(range(options.seeds)),
        thresholds=(1.0, 3.0),
        read_noise=options.read_noise,
    )
    run_benchmark(plan, Path("/"), options.out, tell=tell)
    records: list[Record] = []
    for group in read_results(options.out).groups:
        for spec in specs:
            records += group.scored(spec).values()
    assert all(record_path(options.out, record.task).exists() for record in records)
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, cwd=ROOT, check=False
    ).stdout.strip()
    return [one_row(record, commit, specs) for record in records]


def one_row(record: Any, commit: str, names: dict[str, str]) -> Row:
    """Return a record as a flat row: errors as ``W19@28: [EPE, Bad-1, Bad-3]``, poses, seconds for a pair."""
    from scotopic.evaluation.report.summary import figures_at

    task = record.task
    row: Row = {"sequence": task.scene, "photons": task.photons, "read_noise": task.read_noise, "seed": task.seed}
    row |= {"method": names.get(task.method, task.method), "frames": task.frames, "seconds": _short(record.seconds)}
    row |= {"size": [record.width, record.height], "commit": commit}
    row["device"] = task.inputs.device if task.inputs else ""
    for coverage in COVERAGES:
        for window in WINDOWS:
            found = figures_at(record, window, coverage)
            if found:
                row[f"W{window}@{coverage}"] = [_short(found[name]) for name in ERRORS]
    return row | {name: _short(value) for name, value in record.motion.items() if value is not None}


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def merge(kept: list[Row], rows: list[Row]) -> list[Row]:
    """Return the rows that were kept, with those that were measured again replaced."""

    def key(row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in ("sequence", "photons", "read_noise", "seed", "method", "frames"))

    both = {key(row): row for row in (*kept, *rows)}
    return [both[each] for each in sorted(both)]


def write_rows(path: Path, rows: list[Row]) -> None:
    """Write rows, one a line."""
    path.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n", encoding="utf-8")


# --- tables ---------------------------------------------------------------------------------------------------------


Group = tuple[str, str, float, str, int]  # what, motion, photons, method, frames


def overview(rows: list[Row]) -> str:
    """Return all rows as one table of means over sequences and seeds."""
    cells = [f"W{window}@{coverage}" for coverage in COVERAGES for window in WINDOWS]
    heads = ["", "motion", "photons", "method", "N", "runs", *cells, "t %", "r deg/len", "step px", "last px", "NEES"]
    lines = [[*heads, "s/pair"]]
    for (what, motion, photons, method, frames), found in group_rows(rows).items():
        line = [what, motion, f"{photons:g}", method, str(frames), str(len(found))]
        line += [_errors(found, cell) for cell in cells]
        lines.append(line + [_number(found, name) for name in (*POSES, "seconds")])
    return _markdown(lines)


def group_rows(rows: list[Row]) -> dict[Group, list[Row]]:
    """Return rows by what they show, motion, photons, method and frames, in the order of the tables."""

    def place(row: Row) -> tuple[Any, ...]:
        what, motion = kind_of(row["sequence"])
        rank = MOTIONS.index(motion) if motion in MOTIONS else len(MOTIONS)
        return what, rank, motion, row["photons"], METHODS.index(row["method"]), row["frames"]

    groups: dict[Group, list[Row]] = {}
    for row in sorted(rows, key=place):
        key = (*kind_of(row["sequence"]), row["photons"], row["method"], row["frames"])
        groups.setdefault(key, []).append(row)
    return groups


def _mean(found: list[Row], name: str, part: int | None = None) -> float:
    """Return the mean of a figure over those rows that have it; NaN if none has."""
    values = [row[name] if part is None else row[name][part] for row in found if name in row]
    return statistics.fmean(values) if values else math.nan


def _errors(found: list[Row], name: str) -> str:
    # A mean over fewer sequences than others have would compare the sequences.
    if not all(name in row for row in found):
        return GAP
    means = [_mean(found, name, part) for part in range(len(ERRORS))]
    return f"{means[0]:.2f}, {means[1]:.0f}, {means[2]:.0f}"


def _number(found: list[Row], name: str) -> str:
    mean = _mean(found, name)
    return GAP if math.isnan(mean) else f"{mean:.2g}" if mean < 10 else f"{mean:.0f}"


def _markdown(lines: list[list[str]]) -> str:
    lines = [lines[0], ["---"] * len(lines[0]), *lines[1:]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def tables(rows: list[Row]) -> str:
    """Return the tables of the page: for each kind of sequence errors after the most frames, poses, and time."""
    with_errors = [row for row in rows if "W1@28" in row]
    parts = [f"![Error over the number of frames](images/{CURVE.name})"] if with_errors else []
    for what in dict.fromkeys(kind_of(row["sequence"])[0] for row in rows):
        own = [row for row in rows if kind_of(row["sequence"])[0] == what]
        most = max(row["frames"] for row in own)
        groups = group_rows([row for row in own if row["frames"] == most])
        runs = max(len(found) for found in groups.values())
        parts.append(f"### {what}\n\nAfter {most} frames; means over {runs} sequence{'s' if runs > 1 else ''}.")
        parts += _error_tables(groups)
        parts.append(f"**Poses**\n\n{_pose_table(groups)}")
        if any("seconds" in row for row in own):
            parts.append(f"**Seconds per pair**, {_devices(own)}\n\n{_time_table(groups)}")
    return "\n\n".join(parts)


def _error_tables(groups: dict[Group, list[Row]]) -> list[str]:
    """Return a table for each window and coverage: EPE in px, Bad-1 and Bad-3 in %, a column for each motion."""
    scored = {key: found for key, found in groups.items() if any("W1@28" in row for row in found)}
    levels = list(dict.fromkeys((motion, photons) for _, motion, photons, _, _ in scored))
    parts = []
    for coverage in COVERAGES if scored else ():
        for window in WINDOWS:
            lines = [["EPE, Bad-1, Bad-3", *(_level(*level, levels) for level in levels)]]
            for method in dict.fromkeys(key[3] for key in scored):
                cells = [[found for key, found in scored.items() if key[1:4] == (*at, method)] for at in levels]
                lines.append(
                    [TITLES[method], *(_errors(cell[0], f"W{window}@{coverage}") if cell else GAP for cell in cells)]
                )
            title = f"**W = {window}{', pointwise' if window == 1 else ''}, at {coverage} % coverage**"
            parts.append(f"{title}\n\n{_markdown(lines)}")
    return parts


def _level(motion: str, photons: float, levels: list[tuple[str, float]]) -> str:
    """Return the head of a column; the light where it differs."""
    return motion if len({light for _, light in levels}) == 1 else f"{motion}, {photons:g} photons"


def _pose_table(groups: dict[Group, list[Row]]) -> str:
    levels = list(dict.fromkeys((motion, photons) for _, motion, photons, _, _ in groups))
    lines = [["motion", "poses by", "transl., %", "rot., deg", "step, px", "last, px", "NEES"]]
    for (_, motion, photons, method, _), found in groups.items():
        if any(name in row for row in found for name in POSES):
            cells = [_number(found, name) for name in POSES]
            lines.append([_level(motion, photons, levels), TITLES[method], *cells])
    return _markdown(lines)


def _time_table(groups: dict[Group, list[Row]]) -> str:
    methods = list(dict.fromkeys(key[3] for key in groups))
    found = [[row for key, rows in groups.items() if key[3] == method for row in rows] for method in methods]
    return _markdown([[TITLES[method] for method in methods], [_number(each, "seconds") for each in found]])


def _devices(rows: list[Row]) -> str:
    return " and ".join(sorted({row["device"].replace("cpu", "CPU").replace("cuda", "GPU") for row in rows}))


def write_tables(page: Path, rows: list[Row]) -> None:
    """Replace the tables in the page."""
    before, found, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, closed, after = rest.partition(END)
    if not (found and closed):
        raise SystemExit(f"{page} has no place for the tables: it must hold the lines {BEGIN} and {END}.")
    page.write_text(f"{before}{BEGIN}\n\n{tables(rows)}\n\n{END}{after}", encoding="utf-8")


def draw_curve(rows: list[Row], path: Path) -> None:
    """Draw the error against the number of fused frames: a column for each motion, of real scenes where there are."""
    import matplotlib.pyplot as plt

    groups = group_rows([row for row in rows if "W1@28" in row])
    what = next((what for what, *_ in groups if what != "Rendered room"), "Rendered room")
    groups = {key: found for key, found in groups.items() if key[0] == what}
    motions = list(dict.fromkeys(motion for _, motion, *_ in groups))
    counts = sorted({frames for *_, frames in groups})
    looks = {"none": "C7:", "mean": "C3--", "flow": "C1--", "fusion": "C0-", "oracle": "C2-."}
    figure, panels = plt.subplots(2, len(motions), figsize=(3.2 * len(motions), 5.4), sharex=True, squeeze=False)
    for column, motion in enumerate(motions):
        for line, window in enumerate(reversed(WINDOWS)):
            panel = panels[line][column]
            for method, look in looks.items():
                found = {key[4]: each for key, each in groups.items() if (key[1], key[3]) == (motion, method)}
                if not found:
                    continue
                heights = [_mean(each, f"W{window}@28", 0) for each in found.values()]
                panel.plot(list(found), heights, look, marker="o", markersize=3, label=TITLES[method].strip("*"))
            panel.set_xscale("log", base=2)
            panel.set_xticks(counts, [str(count) for count in counts])
            panel.set_ylim(bottom=0)
            panel.grid(alpha=0.3)
            panel.set_title(f"{motion}, W = {window}", fontsize=10)
            panel.set_xlabel("frames")
        panels[0][0].set_ylabel("EPE at 28 % coverage, px")
        panels[1][0].set_ylabel("EPE at 28 % coverage, px")
    panels[0][0].legend(fontsize=8)
    figure.suptitle(what, fontsize=11)
    figure.tight_layout()
    figure.savefig(path, dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
