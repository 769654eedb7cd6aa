"""``scotopic demo``: a rendered scene with known disparity, darkened, matched and scored."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scotopic.api import match
from scotopic.backends.device import resolve_device
from scotopic.cli import options
from scotopic.cli.commands import save_pair
from scotopic.cli.console import StageDisplay, limited_threads, make_table, print_result, results_folder, write_json
from scotopic.cli.evaluate import score_as_dict
from scotopic.cli.match import describe_match
from scotopic.demo import render_scene
from scotopic.evaluation.metrics import score
from scotopic.io import write_pfm, write_png
from scotopic.preview import draw_preview
from scotopic.result import FILES
from scotopic.sensor import simulate_pair, to_uint8
from scotopic.warmup import warmed

if TYPE_CHECKING:
    from rich.table import Table

DEFAULT_FOLDER = Path("scotopic-demo")
DEMO_FILES = (*FILES, "left.png", "right.png", "truth.pfm", "scores.json")
PHOTONS, READ_NOISE = 2.0, 2.0


def demo(
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="OUT",
            help=f"Folder for the results; by default {DEFAULT_FOLDER}, where an earlier demo is replaced.",
        ),
    ] = None,
    preset: options.Preset = "best",
    max_disparity: options.MaxDisparity = 64,
    device: options.Device = "auto",
    assignments: options.Assignments = [],  # noqa: B006 - typer copies it
    overwrite: options.Overwrite = False,
    threads: options.Threads = None,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Render a scene, darken it to two photons per pixel, match it and score the result.

    The default preset is best; --preset fast takes a fraction of the time.
    """
    start = time.perf_counter()
    settings = options.read_settings(preset, assignments, max_disparity=max_disparity)
    resolve_device(device)
    overwrite = overwrite or out is None
    with (
        results_folder(out or DEFAULT_FOLDER, DEMO_FILES, overwrite) as folder,
        limited_threads(threads),
        StageDisplay(quiet) as display,
    ):
        with display.stage("rendering the scene"):
            scene = render_scene()
            noisy = simulate_pair(scene.left, scene.right, PHOTONS, READ_NOISE)
        # In 8 bits, as in the files written below, so that matching those files gives these results.
        pair = to_uint8(noisy[0]), to_uint8(noisy[1])
        result = match(*pair, settings, device, progress=warmed(display, device))
        with display.stage("scoring"):
            scores = [score(result.disparity, scene.disparity_left, window) for window in (19, 1)]
            found = [score_as_dict(each) for each in scores]
        with display.stage("saving"):
            result.save(folder, overwrite=overwrite)
            write_png(folder / "preview.png", draw_preview(result, truth=scene.disparity_left))
            save_pair(folder, *noisy)
            write_pfm(folder / "truth.pfm", scene.disparity_left)
            write_json(folder / "scores.json", {"scores": found})
    summary = {
        **result.report(),
        "photons": PHOTONS,
        "read_noise": READ_NOISE,
        "scores": found,
        "elapsed_seconds": time.perf_counter() - start,
        "folder": str(folder),
        "files": list(DEMO_FILES),
    }
    table = make_table("window", "EPE", *(f"Bad-{k:g}" for k in scores[0].bad), "coverage")
    for each in scores:
        bad = (f"{share:.1f} %" for share in each.bad.values())
        table.add_row(f"W = {each.window}", f"{each.epe:.2f} px", *bad, f"{100 * each.coverage:.1f} %")
    changed = "".join(f" --set {assignment}" for assignment in assignments)
    again = f"scotopic match {folder / 'left.png'} {folder / 'right.png'} -o again --preset {preset}{changed}"
    text: list[str | Table] = [
        f"a scene with {PHOTONS:g} photons per pixel at white, read noise {READ_NOISE:g}: {describe_match(result)}",
        table,
        f"results in {folder}; look at {folder / 'preview.png'}",
        f"the same by hand: {again} --max-disparity {max_disparity}",
    ]
    print_result(summary, text, quiet, as_json)
