"""The smaller commands: ``junctions``, ``simulate``, ``demo``, ``info`` and ``app``."""

import dataclasses
import json
import os
import platform
import shlex
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.table import Table
from rich.text import Text

from scotopic.api import find_pair_levels, fit_junctions, match
from scotopic.backends.device import DEVICES, resolve_device
from scotopic.cli import options
from scotopic.cli.console import (
    StageDisplay,
    earlier_files,
    limited_threads,
    make_table,
    print_result,
    results_folder,
    write_json,
)
from scotopic.cli.evaluate import score_as_dict
from scotopic.cli.match import describe_match
from scotopic.demo import render_scene
from scotopic.errors import DeviceError, SettingsError
from scotopic.evaluation.metrics import score
from scotopic.inputs import check_pair, check_size
from scotopic.io import as_image, atomic_path, replaced_files, write_pfm, write_png
from scotopic.levels import warn_of_little_light
from scotopic.pipelines.junction_matching import JUNCTIONS
from scotopic.preview import as_picture, draw_junctions, draw_preview
from scotopic.progress import Stopwatch
from scotopic.result import FILES, listed_files
from scotopic.sensor import simulate_pair, to_uint8
from scotopic.settings import PRESETS, Settings, make_settings
from scotopic.warmup import cache_folders, warm_up, warmed

JUNCTION_FILES = ("boundaries.png", "colors.png", "preview.png", "junctions.npz", "report.json")
SIMULATION_FILES = ("left.png", "right.png", "report.json")
DEMO_FILES = (*FILES, "left.png", "right.png", "truth.pfm", "scores.json")
DEFAULT_FOLDER = Path("scotopic-demo")  #: of the demo
PHOTONS, READ_NOISE = 2.0, 2.0  #: of the demo
_DEMO_OUT = f"Folder for the results; by default {DEFAULT_FOLDER}, where an earlier demo is replaced."


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
    overrides = options.parse_settings(assignments)
    pipeline = make_settings(preset, **overrides)
    settings = pipeline.junctions
    unused = sorted(overrides.keys() - {field.name for field in dataclasses.fields(settings)})
    if unused:
        raise SettingsError(f"{unused[0]!r} is no setting of the junctions, which are all that this command computes.")
    where = resolve_device(device)
    with (
        results_folder(out, JUNCTION_FILES, overwrite, inputs=[image]) as folder,
        limited_threads(threads),
        StageDisplay(quiet) as display,
    ):
        recorded = as_image(image, str(image))
        check_size(recorded.shape, settings.patch_size, repr(str(image)))
        levels = find_pair_levels([recorded])
        pixels = levels.apply(recorded)
        if where == "cpu":
            warm_up(display, pipeline)
        clock = Stopwatch(display)
        with clock.stage(JUNCTIONS) as report:
            field = fit_junctions(pixels, settings, device=device, progress=report)
        rows, columns, _ = field.parameters.shape
        summary = {
            **_describe_image(pixels),
            "preset": preset,
            "patch_rows": rows,
            "patch_columns": columns,
            "levels": levels.as_dict(),
            "settings": dataclasses.asdict(settings),
            "timings_seconds": clock.timings,
            "files": list(JUNCTION_FILES),
        }
        with display.stage("saving"), replaced_files(folder, earlier_files(folder, [image])) as stage:
            write_png(stage / "boundaries.png", as_picture(field.boundary_map))
            write_png(stage / "colors.png", as_picture(field.color_map))
            write_png(stage / "preview.png", draw_junctions(pixels, field))
            with atomic_path(stage / "junctions.npz") as path, path.open("wb") as file:
                np.savez_compressed(
                    file,
                    parameters=field.parameters,
                    boundary_map=field.boundary_map,
                    color_map=field.color_map,
                    settings=json.dumps(dataclasses.asdict(field.settings)),
                )
            write_json(stage / "report.json", summary)
    done = f"{columns} x {rows} junctions in {clock.timings[JUNCTIONS.name]:.1f} s"
    text = [done, f"results in {folder}, see {folder / 'preview.png'}"]
    print_result({**summary, "folder": str(folder)}, text, quiet, as_json)


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
    """Simulate how a sensor records a clean pair with very few photons, with independent noise in the two views."""
    with results_folder(out, SIMULATION_FILES, overwrite, inputs=[left, right]) as folder:
        clean = as_image(left, "left"), as_image(right, "right")
        check_pair(*clean, patch_size=1)
        if not quiet and (doubt := warn_of_little_light(*clean)) is not None:
            typer.echo(f"warning: {doubt}", err=True)
        noisy = simulate_pair(*clean, photons=photons, read_noise=read_noise, seed=seed)
        files = {"left": str(left), "right": str(right)}
        noise = {"photons": photons, "read_noise": read_noise, "seed": seed}
        summary = {**_describe_image(clean[0]), **files, **noise, "files": list(SIMULATION_FILES)}
        with replaced_files(folder, earlier_files(folder, [left, right])) as stage:
            save_pair(stage, *noisy)
            write_json(stage / "report.json", summary)
    text = [f"{photons:g} photons per pixel at white, read noise {read_noise:g}, seed {seed}", f"results in {folder}"]
    print_result({**summary, "folder": str(folder)}, text, quiet, as_json)


def save_pair(folder: Path, left: NDArray[np.float32], right: NDArray[np.float32]) -> None:
    """Write a simulated pair in 8 bits, as the paper's files are."""
    for name, view in (("left", left), ("right", right)):
        pixels = to_uint8(view)
        write_png(folder / f"{name}.png", pixels[..., 0] if pixels.shape[2] == 1 else pixels)


def _describe_image(image: NDArray[np.float32]) -> dict[str, Any]:
    from scotopic import __version__

    height, width, channels = image.shape
    return {"scotopic": __version__, "width": width, "height": height, "channels": channels}


# --- demo -----------------------------------------------------------------------------------------------------------


def demo(
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="OUT", help=_DEMO_OUT)] = None,
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
        result = match(*pair, settings, device, check=False, progress=warmed(display, settings, device))
        with display.stage("scoring"):
            scores = [score(result.disparity, scene.disparity_left, window) for window in (19, 1)]
            found = [score_as_dict(each) for each in scores]
        with display.stage("saving"), replaced_files(folder, listed_files(folder)) as stage:
            result.write_files(stage, draw_preview(result, truth=scene.disparity_left))
            save_pair(stage, *noisy)
            write_pfm(stage / "truth.pfm", scene.disparity_left)
            write_json(stage / "scores.json", {"scores": found})
            report = {**result.report(), "files": list(DEMO_FILES)}
            write_json(stage / "report.json", report)
    summary = {
        **report,
        "photons": PHOTONS,
        "read_noise": READ_NOISE,
        "scores": found,
        "elapsed_seconds": time.perf_counter() - start,
        "folder": str(folder),
    }
    table = make_table("window", "EPE", *(f"Bad-{k:g}" for k in scores[0].bad), "coverage")
    for each in scores:
        bad = (f"{share:.1f} %" for share in each.bad.values())
        table.add_row(f"W = {each.window}", f"{each.epe:.2f} px", *bad, f"{100 * each.coverage:.1f} %")
    changed = [word for assignment in assignments for word in ("--set", assignment)]
    views = [str(folder / "left.png"), str(folder / "right.png")]
    again = ["scotopic", "match", *views, "-o", "again", "--preset", preset, *changed]
    text: list[str | Table] = [
        f"a scene with {PHOTONS:g} photons per pixel at white, read noise {READ_NOISE:g}: {describe_match(result)}",
        table,
        f"results in {folder}; look at {folder / 'preview.png'}",
        f"the same by hand: {shlex.join([*again, '--max-disparity', str(max_disparity)])}",
    ]
    print_result(summary, text, quiet, as_json)


# --- info -----------------------------------------------------------------------------------------------------------


def info(quiet: options.Quiet = False, as_json: options.Json = False) -> None:
    """Show versions, CPUs and threads, devices, presets, and where compiled kernels are kept."""
    import cv2
    import numba

    from scotopic import __version__

    facts: dict[str, Any] = {
        "scotopic": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "opencv": cv2.__version__,
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "threads": numba.get_num_threads(),
        "devices": {name: _availability(name) for name in DEVICES if name != "auto"},
        "presets": {name: _differences(settings) for name, settings in PRESETS.items()},
        "kernel_cache": cache_folders(),
    }
    presets = {
        name: ", ".join(f"{key}={value}" for key, value in changes.items()) or "the published method, unchanged"
        for name, changes in facts["presets"].items()
    }
    table = Table(box=None, show_header=False)
    for name, value in {**facts, "presets": presets}.items():
        lines = [f"{key}: {inner}" for key, inner in value.items()] if isinstance(value, dict) else value
        text = "\n".join(lines) if isinstance(lines, list) else str(lines)
        table.add_row(name.replace("_", " "), Text(text, overflow="fold"))
    print_result(facts, [table], quiet, as_json)


def _availability(device: str) -> str:
    try:
        resolve_device(device)
    except DeviceError as error:
        return f"not available: {error}"
    return "available"


def _differences(settings: Settings) -> dict[str, Any]:
    """Return the settings that a preset changes from the paper's or adds to them."""
    paper, own = (
        {name: value for part in each.as_dict().values() if isinstance(part, dict) for name, value in part.items()}
        for each in (PRESETS["paper"], settings)
    )
    return {name: value for name, value in own.items() if name not in paper or paper[name] != value}


# --- app ------------------------------------------------------------------------------------------------------------


def serve_app(
    host: Annotated[str, typer.Option(help="Address to listen on; the default lets in this machine only.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int | None, typer.Option(help="By default the first free one from 7860 on.")] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Do not open the page in a browser.")] = False,
    max_megapixels: Annotated[float, typer.Option(help="Largest view that may be uploaded.")] = 4.0,
    allow_host: Annotated[
        list[str],
        typer.Option(metavar="NAME", help="Also answer to this name, such as that of a proxy; may be repeated."),
    ] = [],  # noqa: B006
) -> None:
    """Open a web page: match a pair, explore the result, download it."""
    from scotopic.app.server import serving
    from scotopic.app.session import Limits

    if port is not None and not 1 <= port <= 65535:
        raise SettingsError(f"--port {port} is not a port. Choose one from 1 to 65535.")
    if not 0 < max_megapixels <= 1000:
        raise SettingsError(f"--max-megapixels {max_megapixels:g} is out of range. Choose above 0, at most 1000.")
    if not host.strip():
        raise SettingsError("--host is empty, which would let everybody in. Give an address, or leave it out.")
    limits = Limits(pixels=int(max_megapixels * 1e6))
    with serving(host, port, limits=limits, allow_hosts=allow_host) as url:
        typer.echo(f"scotopic app at {url} (Ctrl-C ends it)")
        if host not in ("127.0.0.1", "localhost", "::1"):
            typer.echo(
                "warning: anyone who reaches this address can use the page; there is no password and no encryption",
                err=True,
            )
        if not no_browser:
            import webbrowser

            webbrowser.open(url)
        with suppress(KeyboardInterrupt):  # the way to end it
            threading.Event().wait()
