"""``scotopic demo``: a scene whose true disparity is known, in the dark, matched and scored."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scotopic.api import match
from scotopic.cli import options
from scotopic.cli.commands import describe, save_pair
from scotopic.cli.session import Display, answer, limited_threads, results_folder, write_json
from scotopic.demo import render_scene
from scotopic.evaluation.metrics import Score, score
from scotopic.io import write_pfm, write_png
from scotopic.preview import draw_preview
from scotopic.result import FILES
from scotopic.sensor import simulate_pair, to_uint8
from scotopic.warmup import warmed

if TYPE_CHECKING:
    from rich.table import Table

DEFAULT_FOLDER = Path("scotopic-demo")
DEMO_FILES = (*FILES, "left.png", "right.png", "truth.pfm", "scores.json")
PHOTONS, READ_NOISE, MAX_DISPARITY = 2.0, 2.0, 64


def demo(
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="OUT",
            help=f"Folder for the results; {DEFAULT_FOLDER} by default, where an earlier demo is replaced.",
        ),
    ] = None,
    overwrite: options.Overwrite = False,
    threads: options.Threads = None,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Render a scene, darken it to two photons per pixel, match it with preset fast, and score the result."""
    start = time.perf_counter()
    overwrite = overwrite or out is None
    with (
        results_folder(out or DEFAULT_FOLDER, DEMO_FILES, overwrite) as folder,
        limited_threads(threads),
        Display(quiet) as display,
    ):
        with display.stage("rendering the scene"):
            scene = render_scene()
            noisy = simulate_pair(scene.left, scene.right, PHOTONS, READ_NOISE)
        # In 8 bits, as in the files written below, so that matching those files gives these results.
        pair = to_uint8(noisy[0]), to_uint8(noisy[1])
        result = match(*pair, preset="fast", progress=warmed(display, "auto"), max_disparity=MAX_DISPARITY)
        with display.stage("scoring"):
            scores = [score(result.disparity, scene.disparity_left, window) for window in (19, 1)]
        with display.stage("saving"):
            result.save(folder, overwrite=overwrite)
            write_png(folder / "preview.png", draw_preview(result, truth=scene.disparity_left))
            save_pair(folder, *noisy)
            write_pfm(folder / "truth.pfm", scene.disparity_left)
            write_json(folder / "scores.json", {"scores": [_as_dict(each) for each in scores]})
    summary = {
        **result.report(),
        "photons": PHOTONS,
        "read_noise": READ_NOISE,
        "scores": [_as_dict(each) for each in scores],
        "elapsed_seconds": time.perf_counter() - start,
        "folder": str(folder),
        "files": list(DEMO_FILES),
    }
    again = f"scotopic match {folder / 'left.png'} {folder / 'right.png'} -o again --preset fast --max-disparity"
    answer(
        summary,
        [
            f"a scene of {PHOTONS:g} photons per pixel at white, read noise {READ_NOISE:g}: {describe(result)}",
            _table(scores),
            f"results in {folder}; look at {folder / 'preview.png'}",
            f"the same by hand: {again} {MAX_DISPARITY}",
        ],
        quiet=quiet,
        as_json=as_json,
    )


def _as_dict(scored: Score) -> dict[str, Any]:
    figures = {"epe_px": scored.epe, **{f"bad_{k:g}_percent": share for k, share in scored.bad.items()}}
    return {
        "window_px": scored.window,
        "coverage_percent": scored.coverage,
        "pixels": scored.pixels,
        **{name: None if math.isnan(value) else value for name, value in figures.items()},
    }


def _table(scores: list[Score]) -> Table:
    from rich.table import Table

    table = Table()
    for heading in ("window", "EPE", *(f"Bad-{k:g}" for k in scores[0].bad), "coverage"):
        table.add_column(heading, justify="right")
    for each in scores:
        bad = (f"{share:.1f} %" for share in each.bad.values())
        table.add_row(f"W = {each.window}", f"{each.epe:.2f} px", *bad, f"{each.coverage:.1f} %")
    return table
