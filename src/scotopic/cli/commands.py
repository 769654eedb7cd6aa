"""The commands that work on the user's images."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from scotopic.backends.device import resolve_device
from scotopic.cli import options
from scotopic.cli.session import Display, answer, limited_threads, results_folder, write_json
from scotopic.inputs import check_pair, check_size
from scotopic.io import as_image, atomic_path, write_png
from scotopic.preview import as_picture, draw_junctions, reasons_in_words
from scotopic.progress import Stopwatch
from scotopic.result import Match
from scotopic.sensor import simulate_pair, to_uint8
from scotopic.settings import JunctionSettings, make_settings
from scotopic.stages.junctions.fit import Junctions, fit_junctions
from scotopic.warmup import warm_up

JUNCTION_FILES = ("boundaries.png", "colors.png", "preview.png", "junctions.npz", "report.json")
SIMULATION_FILES = ("left.png", "right.png", "report.json")


def junctions(
    image: Annotated[Path, typer.Argument(metavar="IMAGE", help="One image.")],
    out: options.Out,
    preset: options.Preset = "paper",
    device: options.Device = "auto",
    assignments: options.Assignments = [],  # noqa: B006 - typer copies it
    overwrite: options.Overwrite = False,
    threads: options.Threads = None,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Fit a field of junctions to one image: the boundaries and colors that survive its noise."""
    settings = make_settings(preset, **options.parse_settings(assignments, [JunctionSettings])).junctions
    where = resolve_device(device)
    with (
        results_folder(out, JUNCTION_FILES, overwrite, inputs=[image]) as folder,
        limited_threads(threads),
        Display(quiet) as display,
    ):
        pixels = as_image(image, str(image))
        check_size(pixels, settings.patch_size, repr(str(image)))
        if where == "cpu":
            warm_up(display)
        clock = Stopwatch(display)
        with clock.stage("junctions") as report:
            field = fit_junctions(pixels, settings, device=device, progress=report)
        rows, columns, _ = field.parameters.shape
        summary = {
            **_about(pixels),
            "preset": preset,
            "patch_rows": rows,
            "patch_columns": columns,
            "settings": dataclasses.asdict(settings),
            "timings_seconds": clock.timings,
        }
        with display.stage("saving"):
            _save_junctions(folder, pixels, field, summary)
    answer(
        {**summary, "folder": str(folder), "files": list(JUNCTION_FILES)},
        [
            f"{columns} x {rows} junctions in {clock.timings['junctions']:.1f} s",
            f"results in {folder}, see {folder / 'preview.png'}",
        ],
        quiet=quiet,
        as_json=as_json,
    )


def simulate(
    left: options.Left,
    right: options.Right,
    out: options.Out,
    photons: Annotated[float, typer.Option(help="Photons per pixel and channel at white (the paper's alpha).")] = 2.0,
    read_noise: Annotated[float, typer.Option(help="Standard deviation of the read noise, in photons (sigma).")] = 2.0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same noise.")] = 0,
    overwrite: options.Overwrite = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Simulate how a sensor records a clean pair by very few photons, with independent noise in the two views."""
    with results_folder(out, SIMULATION_FILES, overwrite, inputs=[left, right]) as folder:
        clean = as_image(left, "left"), as_image(right, "right")
        check_pair(*clean, patch_size=1)
        noisy = simulate_pair(*clean, photons=photons, read_noise=read_noise, seed=seed)
        summary = {
            **_about(clean[0]),
            "left": str(left),
            "right": str(right),
            "photons": photons,
            "read_noise": read_noise,
            "seed": seed,
        }
        save_pair(folder, *noisy)
        write_json(folder / "report.json", summary)
    answer(
        {**summary, "folder": str(folder), "files": list(SIMULATION_FILES)},
        [f"noise of {photons:g} photons at white and read noise {read_noise:g}, seed {seed}", f"results in {folder}"],
        quiet=quiet,
        as_json=as_json,
    )


def describe(result: Match) -> str:
    """Return a match in one line: how much of the image has an answer, why not the rest, how long it took."""
    rest = ", ".join(reasons_in_words(result.reason))
    seconds = sum(result.timings.values())
    return f"coverage {100 * result.coverage:.1f} % in {seconds:.1f} s" + (f"; left out: {rest}" if rest else "")


def save_pair(folder: Path, left: NDArray[np.float32], right: NDArray[np.float32]) -> None:
    """Write a simulated pair in 8 bits, as the paper's files are."""
    for name, view in (("left", left), ("right", right)):
        pixels = to_uint8(view)
        write_png(folder / f"{name}.png", pixels[..., 0] if pixels.shape[2] == 1 else pixels)


def _about(image: NDArray[np.float32]) -> dict[str, Any]:
    from scotopic import __version__

    height, width, channels = image.shape
    return {"scotopic": __version__, "width": width, "height": height, "channels": channels}


def _save_junctions(folder: Path, image: NDArray[np.float32], field: Junctions, summary: dict[str, Any]) -> None:
    write_png(folder / "boundaries.png", as_picture(field.boundary_map))
    write_png(folder / "colors.png", as_picture(field.color_map))
    write_png(folder / "preview.png", draw_junctions(image, field))
    with atomic_path(folder / "junctions.npz") as path, path.open("wb") as file:
        np.savez_compressed(
            file,
            parameters=field.parameters,
            boundary_map=field.boundary_map,
            color_map=field.color_map,
            settings=json.dumps(summary["settings"]),
        )
    write_json(folder / "report.json", summary)
