"""``scotopic match``: disparity, and with a calibration depth and points in space."""

import os
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from scotopic.api import match as match_pair
from scotopic.api import warn_about_range
from scotopic.cli import options
from scotopic.cli.calibrated import Cameras, check_options, print_warnings, read_cameras
from scotopic.cli.console import (
    StageDisplay,
    earlier_files,
    limited_threads,
    print_result,
    refuse_inputs,
    results_folder,
    write_json,
)
from scotopic.depth import check_rectified
from scotopic.errors import InputError, SettingsError
from scotopic.inputs import check_pair
from scotopic.io import (
    atomic_path,
    claim_file,
    image_title,
    replaced_files,
    write_depth_png,
    write_disparity,
    write_submission,
)
from scotopic.io.disparity import submission_files
from scotopic.io.masks import with_mask
from scotopic.levels import find_levels, warn_of_given_levels, warn_of_given_white
from scotopic.preview import draw_preview, reasons_in_words, sparse_in_words
from scotopic.result import FILES, Match
from scotopic.sensor import read_recording
from scotopic.settings import Settings
from scotopic.warmup import warmed

METHOD = "scotopic"  #: our name in a Middlebury submission
FORMATS = {
    "png": ("disparity.png",),
    "tiff": ("disparity.tiff",),
    "npz": ("disparity.npz",),
    "middlebury": submission_files(METHOD),
}
DEPTH_FILES = ("depth.pfm", "depth_uncertainty.pfm", "depth.png")
FILLED_FILE, POINTS_FILE = "filled.pfm", "points.ply"


def match(
    left: options.Left,
    right: options.Right,
    out: options.Out,
    preset: options.Preset = "best",
    max_disparity: options.MaxDisparity = None,
    min_disparity: options.MinDisparity = None,
    calib: options.Calib = [],  # noqa: B006 - typer copies it
    unit: options.Unit = None,
    rectify_first: options.Rectify = False,
    ply: options.Ply = False,
    ply_file: options.PlyFile = None,
    formats: options.Formats = [],  # noqa: B006
    fill: options.Fill = False,
    fill_with: options.FillWith = None,
    kind: options.Kind = "auto",
    linearize: options.Linearize = False,
    mosaic: options.Mosaic = "binned",
    white: options.White = None,
    black: options.Black = None,
    bits: options.Bits = None,
    width: options.PlaneWidth = None,
    height: options.PlaneHeight = None,
    bit_order: options.BitOrder = None,
    hot_pixels: options.HotPixels = [],  # noqa: B006
    device: options.Device = "auto",
    assignments: options.Assignments = [],  # noqa: B006
    overwrite: options.Overwrite = False,
    threads: options.Threads = None,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Match a rectified pair of noisy images: disparity where it can be trusted, its confidence, and why not elsewhere.

    The default preset is best; --preset fast takes a fraction of the time.
    """
    settings = options.read_settings(preset, assignments, max_disparity=max_disparity, min_disparity=min_disparity)
    needing = {"--ply": ply, "--ply-file": ply_file is not None, "--rectify": rectify_first, "--unit": unit is not None}
    check_options(calib, needing)
    if len(hot_pixels) > 2:
        raise SettingsError(f"--hot-pixels is given {len(hot_pixels)} times. Give one file, or one for each camera.")
    _check_formats(formats, settings)
    is_filled = fill or fill_with is not None
    files = [*FILES, *([FILLED_FILE] if is_filled else []), *(DEPTH_FILES if calib else ())]
    files += [POINTS_FILE] if ply and ply_file is None else []
    files += [name for each in formats for name in FORMATS[each]]
    inputs = [left, right, *calib, *hot_pixels]
    with results_folder(out, files, overwrite, inputs=inputs) as folder, limited_threads(threads):
        points_path, points_inside = (folder / POINTS_FILE if ply else None), True
        if ply_file is not None:
            refuse_inputs(ply_file, inputs)
            points_path, points_inside = claim_file(ply_file, overwrite), os.path.samefile(ply_file.parent, folder)
            if points_inside and ply_file.name in files:
                raise SettingsError(f"--ply-file {ply_file} is the name of another result. Choose another name.")
            files += [ply_file.name] if points_inside else []
        recordings = []
        hot = (hot_pixels[0], hot_pixels[-1]) if hot_pixels else (None, None)
        for path, side, hot_file in ((left, "left", hot[0]), (right, "right", hot[1])):
            response = "srgb" if linearize else None
            try:
                levels: dict[str, Any] = {"black": black, "white": white, "bits": bits}
                planes: dict[str, Any] = {"width": width, "height": height, "bit_order": bit_order}
                how = {"response": response, "color": mosaic, "hot_pixels": hot_file, **levels, **planes}
                read = read_recording(path, kind, **how)
                recordings.append(read)
            except InputError as error:
                named = "" if str(error).startswith(repr(str(path))) else ":"  # else of its hot pixels, or a sentence
                raise InputError(f"{side} image{named} {error}") from error
        first, second = recordings
        names = f"{image_title(left, 'left')} and {image_title(right, 'right')}"
        check_pair(first.image, second.image, settings.junctions.patch_size, names=names)
        cameras = read_cameras(calib, unit, rectify_first, first.image.shape)
        views = cameras.rectify(with_mask(first.image, first.mask), with_mask(second.image, second.mask))
        checked = check_rectified(*views, min_disparity=settings.matching.min_disparity)
        are_given = "levels" in first.assumed
        if not quiet:
            warn = warn_of_given_levels if are_given else warn_of_given_white  # that of counts or bit planes
            unfit = None if white is None and not are_given else warn(*views)
            print_warnings(checked, rectify_first, unfit)
        if not are_given:
            found = find_levels(*views).as_dict()
            for each in recordings:
                each.assumed["levels"] = found
        with StageDisplay(quiet) as display:
            result = match_pair(
                *views,
                settings,
                device,
                fill=fill_with,
                normalize=not are_given,
                check=False,  # it was checked above, for the report
                progress=warmed(display, settings, device),
            )
            with display.stage("saving"):
                recorded = {"values": first.assumed["values"], "left": first.report(), "right": second.report()}
                report = {**result.report(), **recorded, "pair_check": checked.as_dict(), "files": files}
                report |= cameras.report()
                earlier = earlier_files(folder, inputs)
                with (
                    # Points for elsewhere are complete before the folder changes, and get their name after it.
                    nullcontext() if points_inside or points_path is None else atomic_path(points_path) as aside,
                    replaced_files(folder, earlier) as stage,
                ):
                    result.write_files(stage, draw_preview(result, calibration=cameras.calibration, filled=is_filled))
                    _save_formats(stage, result, formats)
                    if is_filled:
                        write_disparity(stage / FILLED_FILE, result.filled)
                    points_at = aside or (stage / points_path.name if points_path else None)
                    text = save_depth(stage, result, cameras, points_at, points_path)
                    write_json(stage / "report.json", report)
    warn_about_range(result)
    written = {"folder": str(folder), "files": files, "ply": None if points_path is None else str(points_path)}
    text = [describe_match(result), *text, f"results in {folder}, see {folder / 'preview.png'}"]
    print_result({**report, **written}, text, quiet, as_json)


def describe_match(result: Match) -> str:
    """Return a match in one line: its coverage, why the other pixels have no disparity, and how long it took."""
    rest = ", ".join(reasons_in_words(result.reason))
    seconds = sum(result.timings.values())
    covered = f"coverage {100 * result.coverage:.1f} % in {seconds:.1f} s{sparse_in_words(result)}"
    return covered + (f"; left out: {rest}" if rest else "")


def _check_formats(formats: Sequence[str], settings: Settings) -> None:
    """Refuse, before any work, what could only fail after it."""
    for each in formats:
        if each not in FORMATS:
            raise SettingsError(f"--format {each} is unknown. Choose one of {', '.join(FORMATS)}.")
    if len(set(formats)) < len(formats):
        raise SettingsError(f"--format is given the same name twice: {' '.join(formats)}. Leave one of them out.")
    first, last = settings.matching.min_disparity, settings.matching.max_disparity
    if "png" in formats and (first < 0 or (last or 0) > 256):
        raise SettingsError(
            f"--format png cannot store the search range {first} to {last} px: a 16-bit PNG holds 0 to 256 px. "
            "Choose tiff."
        )


def _save_formats(folder: Path, result: Match, formats: Sequence[str]) -> None:
    for each in formats:
        if each == "middlebury":
            seconds = sum(result.timings.values())
            write_submission(folder, METHOD, result.disparity_all, result.disparity, seconds, overwrite=True)
        else:
            write_disparity(folder / FORMATS[each][0], result.disparity)


def save_depth(
    folder: Path, result: Match, cameras: Cameras, points_at: Path | None, points_path: Path | None
) -> list[str]:
    """Write depth, its uncertainty and the points, which will be at ``points_path``; return what to print of them."""
    maps = cameras.depth_maps(result)
    if not maps:
        return []
    for name, values in maps.items():
        write_disparity(folder / f"{name}.pfm", values)  # infinite where there is none
    write_depth_png(folder / "depth.png", maps["depth"])
    known = maps["depth"][np.isfinite(maps["depth"])]
    text = [f"depth {known.min():.3g} to {known.max():.3g} m, median {np.median(known):.3g} m"] if known.size else []
    if points_at is not None:
        cloud = cameras.write_points(points_at, result)
        text.append(f"{len(cloud)} points in {points_path}")
    return text
