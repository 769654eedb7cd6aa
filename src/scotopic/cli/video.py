"""``scotopic video``: two streams of frames, matched pair by pair; or many of them, on a cluster."""

from pathlib import Path
from typing import Annotated

import typer

from scotopic.cli import console, options, stream
from scotopic.cli.batch import print_batch, read_clips, run_batch
from scotopic.cli.clip import Clip, ClipOptions, FrameFiles, match_clip
from scotopic.errors import SettingsError
from scotopic.io.frames import MAP_KINDS


def video(
    context: typer.Context,
    left: Annotated[
        Path | None,
        typer.Argument(
            metavar="LEFT", help="Left video, folder of frames, TIFF or .npy stack, or BAG:TOPIC; rectified."
        ),
    ] = None,
    right: Annotated[
        Path | None, typer.Argument(metavar="RIGHT", help="Right one, with as many frames of the same size.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="OUT", help="Folder for the results; created if missing.")
    ] = None,
    preset: options.Preset = "best",
    max_disparity: options.MaxDisparity = None,
    min_disparity: options.MinDisparity = None,
    fuse: stream.Fuse = None,
    start: stream.Start = 0,
    count: stream.Count = None,
    shortest: stream.Shortest = False,
    fps: Annotated[
        float | None, typer.Option(help="Frames per second of the written video; by default as LEFT, or 25.")
    ] = None,
    maps: Annotated[str, typer.Option(metavar="KIND", help="Write the maps of each frame as npz, pfm or none.")] = (
        "npz"
    ),
    calib: options.Calib = [],  # noqa: B006 - typer copies it
    unit: options.Unit = None,
    rectify_first: options.Rectify = False,
    ply: Annotated[
        bool,
        typer.Option(
            "--ply", help="Also write colored points as PLY, of each frame or, with --fuse, of all; needs --calib."
        ),
    ] = False,
    png: Annotated[
        bool,
        typer.Option(
            "--png",
            help="Also write pictures of each frame: disparity in color, confidence, mask; depth in mm with --calib.",
        ),
    ] = False,
    kind: stream.Kind = "auto",
    group: stream.Group = 1,
    white: stream.White = None,
    black: options.Black = None,
    bits: options.Bits = None,
    width: options.PlaneWidth = None,
    height: options.PlaneHeight = None,
    bit_order: options.BitOrder = None,
    batch: Annotated[
        Path | None,
        typer.Option(metavar="CSV", help="Match many clips: a list with columns left, right, out and perhaps calib."),
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option(help="Spread the batch over the Dask cluster of this scheduler.")
    ] = None,
    assignments: options.Assignments = [],  # noqa: B006
    device: options.Device = "auto",
    threads: options.Threads = None,
    overwrite: options.Overwrite = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Match a stereo video: a side-by-side video, and for each frame disparity, confidence and reasons.

    The default preset is best; --preset fast does many more pairs per second. With --fuse each pair is matched with the
    light of those before it, and the motion of the cameras is found.
    """
    if maps not in MAP_KINDS:
        raise SettingsError(f"--maps {maps} is unknown. Choose one of {', '.join(MAP_KINDS)}.")
    how = ClipOptions(
        settings=options.read_settings(preset, assignments, max_disparity=max_disparity, min_disparity=min_disparity),
        taken=stream.Taken(
            start, count, shortest, kind, group, white, black, bits, width, height, bit_order, unit, rectify_first
        ),
        kinds=FrameFiles(maps, png, ply and fuse is None),
        fuse=fuse,
        scene_map=ply and fuse is not None,
        fps=fps,
        device=device,
        threads=threads,
        overwrite=overwrite,
    )
    if batch is not None:
        if left or right or out:
            raise SettingsError("--batch names the clips and their folders. Leave LEFT, RIGHT and --out out.")
        print_batch(run_batch(read_clips(batch, calib), how, scheduler, quiet), context, quiet, as_json)
        return
    if left is None or right is None or out is None:
        raise SettingsError("Give LEFT, RIGHT and --out; or --batch with a list of clips.")
    if scheduler is not None:
        raise SettingsError("--scheduler spreads the clips of a --batch. Leave it out for one clip.")
    report = match_clip(Clip(left, right, out, tuple(calib)), how, quiet)
    done = f"{report['pairs']} pairs, {report['pairs_per_second']:.3g} per second"
    text = [
        f"{done}; coverage {100 * report['mean_coverage']:.1f} %",
        f"results in {out}, see {out / report['video']['file']}",
    ]
    console.print_result({**report, "folder": str(out)}, text, quiet, as_json)
