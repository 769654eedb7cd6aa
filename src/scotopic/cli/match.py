"""``scotopic match``: disparity, and with a calibration depth and points in space."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from scotopic.api import match as match_pair
from scotopic.cli import options
from scotopic.cli.commands import describe
from scotopic.cli.session import Display, answer, limited_threads, results_folder, write_json
from scotopic.depth import (
    Calibration,
    check_rectified,
    depth_from_disparity,
    depth_uncertainty,
    disparity_uncertainty,
    point_cloud,
    read_calibration,
    rectify,
)
from scotopic.errors import InputError, OutputError, SettingsError
from scotopic.inputs import check_pair
from scotopic.io import claim_file, image_title, write_disparity, write_pfm, write_submission
from scotopic.io.exr import has_exr
from scotopic.io.submission import submission_files
from scotopic.result import FILES, Match
from scotopic.sensor import Recording, read_recording
from scotopic.sensor.response import Response
from scotopic.settings import EvidenceSettings, JunctionSettings, MatchingSettings, make_settings
from scotopic.warmup import warmed

Image = NDArray[np.float32]

METHOD = "scotopic"  #: what we are called in a Middlebury submission
FORMATS = {
    "png": ("disparity.png",),
    "tiff": ("disparity.tiff",),
    "npz": ("disparity.npz",),
    "exr": ("disparity.exr",),
    "middlebury": submission_files(METHOD),
}
DEPTH_FILES = ("depth.pfm", "depth_uncertainty.pfm")
FILLED_FILES = ("filled.pfm",)


def match(
    left: options.Left,
    right: options.Right,
    out: options.Out,
    preset: options.Preset = "best",
    max_disparity: Annotated[
        int | None, typer.Option(help="Where the search ends, in px, itself excluded; 128 or the width by default.")
    ] = None,
    min_disparity: Annotated[
        int | None, typer.Option(help="Where the search begins, in px; may be negative; 0 by default.")
    ] = None,
    calib: options.Calib = [],  # noqa: B006 - typer copies it
    unit: options.Unit = None,
    rectified_first: options.Rectify = False,
    ply: options.Ply = None,
    formats: options.Formats = [],  # noqa: B006 - typer copies it
    fill: options.Fill = False,
    fill_with: options.FillWith = None,
    kind: options.Kind = "auto",
    linearize: options.Linearize = False,
    mosaic: options.Mosaic = "binned",
    white: options.White = None,
    device: options.Device = "auto",
    assignments: options.Assignments = [],  # noqa: B006 - typer copies it
    overwrite: options.Overwrite = False,
    threads: options.Threads = None,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Match a rectified pair of noisy images: disparity where it can be trusted, how sure, and why not elsewhere."""
    overrides = options.parse_settings(
        assignments,
        [JunctionSettings, MatchingSettings, EvidenceSettings],
        max_disparity=max_disparity,
        min_disparity=min_disparity,
    )
    settings = make_settings(preset, **overrides)
    matching = settings.matching
    _check_options(calib, unit, rectified_first, ply, formats, matching)
    filled = FILLED_FILES if fill or fill_with is not None else ()
    files = (*FILES, *filled, *(DEPTH_FILES if calib else ()), *(name for each in formats for name in FORMATS[each]))
    inputs = [left, right, *calib]
    with results_folder(out, files, overwrite, inputs=inputs) as folder, limited_threads(threads):
        if ply is not None:
            _claim_cloud(ply, inputs, overwrite)
        first, second = (
            _read(path, side, kind, "srgb" if linearize else None, mosaic, white)
            for path, side in ((left, "left"), (right, "right"))
        )
        names = f"{image_title(left, 'left')} and {image_title(right, 'right')}"
        check_pair(first.image, second.image, settings.junctions.patch_size, names=names)
        geometry = _Geometry.read((first.image, second.image), calib, unit, rectified_first)
        findings = _look(geometry.views, matching.min_disparity, quiet)
        with Display(quiet) as display:
            result = match_pair(
                *geometry.views, preset, device, fill=fill_with, progress=warmed(display, device), **overrides
            )
            with display.stage("saving"):
                result.save(folder, overwrite=overwrite)
                recorded = {"values": first.assumed["values"], "left": first.report(), "right": second.report()}
                report = {**result.report(), **recorded, "pair_check": findings, **geometry.report()}
                _save_formats(folder, result, formats)
                for name in filled:
                    write_pfm(folder / name, np.where(np.isnan(result.filled), np.float32(np.inf), result.filled))
                words = _save_depth(folder, result, geometry.calibration, ply)
                write_json(folder / "report.json", report)
    answer(
        {**report, "folder": str(folder), "files": list(files), "ply": None if ply is None else str(ply)},
        [describe(result), *words, f"results in {folder}, see {folder / 'preview.png'}"],
        quiet=quiet,
        as_json=as_json,
    )


def _read(path: Path, side: str, kind: str, response: Response | None, mosaic: str, white: float | None) -> Recording:
    """Read one view, whatever recorded it; an error says which view it is."""
    try:
        return read_recording(path, kind, response=response, color=mosaic, white=white)
    except InputError as error:
        raise InputError(f"{side} image {error}") from error


@dataclass(frozen=True)
class _Geometry:
    """The pair as it is matched, and its calibration at that size."""

    views: tuple[Image, Image]
    calibration: Calibration | None
    rectified: bool

    @classmethod
    def read(cls, views: tuple[Image, Image], files: Sequence[Path], unit: str | None, turned: bool) -> _Geometry:
        if not files:
            return cls(views, None, False)
        height, width = views[0].shape[:2]
        calibration = read_calibration(*files, unit=unit, size=(width, height))
        if turned:
            *both, calibration = rectify(*views, calibration)
            return cls((both[0], both[1]), calibration, True)
        return cls(views, calibration.for_image(width, height), False)

    def report(self) -> dict[str, Any]:
        """What ``report.json`` says of it; nothing without a calibration."""
        if self.calibration is None:
            return {}
        return {"calibration": {**self.calibration.as_dict(), "rectified_by_scotopic": self.rectified}}


def _check_options(
    calib: Sequence[Path],
    unit: str | None,
    rectified_first: bool,
    ply: Path | None,
    formats: Sequence[str],
    matching: MatchingSettings,
) -> None:
    """Refuse, before any work, what could only fail after it."""
    if len(calib) > 2:
        raise SettingsError(f"--calib: found {len(calib)} files, expected one, or left and right; leave the others out")
    for name, given in (("--ply", ply is not None), ("--rectify", rectified_first), ("--unit", unit is not None)):
        if given and not calib:
            raise SettingsError(f"{name}: found no calibration, expected --calib with its file; add it")
    for each in formats:
        if each not in FORMATS:
            raise SettingsError(f"--format: found {each!r}, expected one of {', '.join(FORMATS)}; choose one of these")
    if len(set(formats)) < len(formats):
        raise SettingsError(f"--format: found {' '.join(formats)}, expected each once; leave the second out")
    if "exr" in formats and not has_exr():
        raise OutputError(
            "--format exr: found an OpenCV without OpenEXR, expected one that writes it; choose tiff, or install such "
            "an OpenCV and set OPENCV_IO_ENABLE_OPENEXR=1"
        )
    if "png" in formats and (matching.min_disparity < 0 or (matching.max_disparity or 0) > 256):
        raise SettingsError(
            f"--format png: found a search from {matching.min_disparity} to {matching.max_disparity} px, expected 0 to "
            "256, which is what 16-bit PNG can store; choose tiff"
        )


def _claim_cloud(ply: Path, inputs: Sequence[Path], overwrite: bool) -> None:
    for source in inputs:
        with suppress(OSError, ValueError):
            if os.path.samefile(ply, source):
                raise OutputError(f"--ply: found the input {str(source)!r}, expected another file; choose another name")
    claim_file(ply, overwrite)


def _look(views: tuple[Image, Image], min_disparity: int, quiet: bool) -> dict[str, Any] | None:
    """Warn if the pair looks unrectified or swapped; views of two sizes are the matcher's to refuse."""
    if views[0].shape != views[1].shape:
        return None
    found = check_rectified(*views, min_disparity=min_disparity)
    for warning in found.warnings if not quiet else ():
        typer.echo(f"warning: {warning}", err=True)
    return found.as_dict()


def _save_formats(folder: Path, result: Match, formats: Sequence[str]) -> None:
    for each in formats:
        if each == "middlebury":
            seconds = sum(result.timings.values())
            write_submission(folder, METHOD, result.disparity_all, result.disparity, seconds, overwrite=True)
        else:
            write_disparity(folder / FORMATS[each][0], result.disparity)


def _save_depth(folder: Path, result: Match, calibration: Calibration | None, ply: Path | None) -> list[str]:
    """Write depth, its uncertainty and the points; return what to say of them."""
    if calibration is None:
        return []
    depth = depth_from_disparity(result.disparity, calibration)
    sigma = disparity_uncertainty(result.disparity_all, result.right_disparity, result.settings.junctions.patch_size)
    spread = depth_uncertainty(result.disparity, calibration, sigma)
    for name, values in zip(DEPTH_FILES, (depth, spread), strict=True):
        write_pfm(folder / name, np.where(np.isfinite(values), values, np.float32(np.inf)))
    known = depth[np.isfinite(depth)]
    words = [f"depth {known.min():.3g} to {known.max():.3g} m, median {np.median(known):.3g} m"] if known.size else []
    if ply is not None:
        cloud = point_cloud(result, calibration)
        cloud.save(ply, overwrite=True)  # claimed before the work began
        words.append(f"{len(cloud)} points in {ply}")
    return words
