"""``scotopic burst``: all frames of two streams as one answer for one of them."""

import warnings
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from scotopic.backends.device import resolve_device
from scotopic.cli import console, options, stream
from scotopic.cli.calibrated import check_options, find_calibration, print_warnings
from scotopic.cli.match import DEPTH_FILES, POINTS_FILE, describe_match, save_depth
from scotopic.errors import InputError, PairWarning
from scotopic.fusion.stream import MOST
from scotopic.io import replaced_files, write_pfm
from scotopic.io.frames import Frame
from scotopic.io.trajectory import write_kitti
from scotopic.preview import draw_preview
from scotopic.result import FILES
from scotopic.streams import Matcher
from scotopic.warmup import warm_up

BURST_FILES = (*FILES, "frames.pfm", "trajectory.txt")

_LINE_SECONDS = 5.0  # between two lines of progress where there is no terminal for a bar


def burst(
    left: Annotated[
        Path,
        typer.Argument(
            metavar="LEFT", help="Left frames: a folder, video, TIFF or .npy stack, or BAG:TOPIC; rectified."
        ),
    ],
    right: Annotated[Path, typer.Argument(metavar="RIGHT", help="Right ones, as many and of the same size.")],
    out: options.Out,
    reference: Annotated[
        int | None, typer.Option(min=0, metavar="K", help="Number of the frame to answer for; the first by default.")
    ] = None,
    preset: options.Preset = "best",
    max_disparity: options.MaxDisparity = None,
    min_disparity: options.MinDisparity = None,
    start: stream.Start = 0,
    count: stream.Count = None,
    shortest: stream.Shortest = False,
    calib: options.Calib = [],  # noqa: B006 - typer copies it
    unit: options.Unit = None,
    rectify_first: options.Rectify = False,
    ply: options.Ply = False,
    kind: stream.Kind = "auto",
    group: stream.Group = 1,
    white: stream.White = None,
    black: options.Black = None,
    bits: options.Bits = None,
    width: options.PlaneWidth = None,
    height: options.PlaneHeight = None,
    bit_order: options.BitOrder = None,
    device: options.Device = "auto",
    assignments: options.Assignments = [],  # noqa: B006
    overwrite: options.Overwrite = False,
    threads: options.Threads = None,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Match all frames of a burst as one pair: that of the reference frame, with the light of all others.

    The cameras may move; frames that show something else are left out.
    """
    settings = options.read_settings(preset, assignments, max_disparity=max_disparity, min_disparity=min_disparity)
    calib = calib or find_calibration(left, right, quiet)
    check_options(calib, {"--ply": ply, "--rectify": rectify_first, "--unit": unit is not None})
    resolve_device(device)
    taken = stream.Taken(
        start, count, shortest, kind, group, white, black, bits, width, height, bit_order, unit, rectify_first
    )
    files = [*BURST_FILES, *(DEPTH_FILES if calib else ()), *([POINTS_FILE] if ply else ())]
    inputs = [left, right, *calib]
    with (
        console.results_folder(out, files, overwrite, inputs=inputs) as folder,
        console.limited_threads(threads),
        taken.open(left, right, calib, settings) as views,
    ):
        if not quiet:
            print_warnings(views.checked, rectify_first, views.unfit, views.pairs.doubt)
            if not calib:
                typer.echo(f"no calibration, so this camera is assumed: {stream.ASSUMED_CAMERA}", err=True)
        pairs = _read_pairs(views)
        wanted = start if reference is None else reference
        if not start <= wanted < start + len(pairs):
            raise InputError(
                f"There is no frame {wanted} to be the reference: the burst has frames {start} to "
                f"{start + len(pairs) - 1}."
            )
        calibration = views.cameras.calibration
        matcher = Matcher(
            settings,
            views.shape,
            device,
            normalize=views.levels is None,
            check=False,  # the views have been checked
            fuse=len(pairs),
            calibration=calibration,
        )
        if matcher.device == "cpu":
            with console.StageDisplay(quiet) as stages:
                warm_up(stages, settings)
        with console.CountDisplay(quiet, _LINE_SECONDS) as display:
            total, done, found = len(pairs), 0, ""

            def tell(stage: str, share: float) -> None:
                display(done, total, f"frames{found}; {stage}")

            for result in matcher.refine(pairs, wanted - start, tell):
                done = min(2 * done, total) or 1
                found = f", coverage {100 * result.coverage:.1f} %"
                display(done, total, f"frames{found}")
        assert result.burst_poses is not None
        assert result.frames is not None
        used = [start + int(number) for number in np.flatnonzero(np.isfinite(result.burst_poses[:, 0, 0]))]
        report = {
            **result.report(),
            **views.report(),
            "assumed": views.assumptions(),
            "levels": None if views.levels is None else views.levels.as_dict(),
            **views.cameras.report(),
            "pair_check": views.checked.as_dict(),
            "fusion": {
                "reference": wanted,
                "frames": total,
                "left_out": [number for number in range(start, start + total) if number not in used],
                "mean_frames": float(result.frames.mean()),
                "camera": "as calibrated; lengths in meters" if calib else stream.ASSUMED_CAMERA,
                "camera_assumed": not calib,
            },
            "files": files,
        }
        earlier = console.earlier_files(folder, inputs)
        with replaced_files(folder, earlier) as stage:
            result.write_files(stage, draw_preview(result, calibration=calibration))
            write_pfm(stage / "frames.pfm", result.frames)
            write_kitti(stage / "trajectory.txt", result.burst_poses)
            points = (stage / POINTS_FILE, folder / POINTS_FILE) if ply else (None, None)
            text = save_depth(stage, result, views.cameras, *points)
            console.write_json(stage / "report.json", report)
    if (doubt := result.doubt_range()) is not None:
        warnings.warn(doubt, PairWarning, stacklevel=2)
    text = [
        f"{len(used)} of {total} frames in one answer for frame {wanted}",
        describe_match(result),
        *text,
        f"results in {folder}, see {folder / 'preview.png'}",
    ]
    console.print_result({**report, "folder": str(folder)}, text, quiet, as_json)


def _read_pairs(views: stream.Views) -> list[tuple[Frame, Frame]]:
    """Return all pairs, or raise :class:`InputError` if they are too few or too many for a burst."""
    pairs = []
    for number, pair in enumerate(views):
        if number == MOST:
            raise InputError(
                f"{views.pairs.left.title} has more than {MOST} frames, the most of a burst. Take a part of them with "
                "start and count, or sum the planes of a stack with group."
            )
        pairs.append(pair)
    return pairs
