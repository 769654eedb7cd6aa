"""``--calib``, ``--unit``, ``--rectify`` and ``--ply`` of ``match`` and ``video``: rectified views, depth, points."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import typer
from numpy.typing import NDArray

from scotopic.depth import (
    Calibration,
    PairCheck,
    PointCloud,
    Rectifier,
    depth_from_disparity,
    depth_uncertainty,
    point_cloud,
    read_calibration,
)
from scotopic.errors import InputError, PairWarning, SettingsError
from scotopic.io.bags import camera_info_paths
from scotopic.preview import draw_point_colors
from scotopic.result import Match


@dataclass(frozen=True)
class Cameras:
    """The calibration of the views that are matched, and how they are rectified before, if they are.

    ``calibration`` is ``None`` without ``--calib``; then nothing is in meters.
    """

    calibration: Calibration | None = None
    rectifier: Rectifier | None = None

    def rectify(self, left: Any, right: Any) -> tuple[Any, Any]:
        """Return the views to match: rectified with ``--rectify``, else as they are."""
        return (left, right) if self.rectifier is None else self.rectifier(left, right)

    def depth_maps(self, match: Match) -> dict[str, NDArray[np.float32]]:
        """Return depth and its uncertainty in meters, NaN where there is none; nothing without a calibration."""
        if self.calibration is None:
            return {}
        uncertainty = depth_uncertainty(match.disparity, self.calibration, match.deviation)
        return {"depth": depth_from_disparity(match.disparity, self.calibration), "depth_uncertainty": uncertainty}

    def write_points(self, path: Path, match: Match) -> PointCloud:
        """Write the colored points of a match; whether a file may be replaced was checked before the work began."""
        assert self.calibration is not None, "check_options refuses --ply without --calib"
        cloud = point_cloud(match, self.calibration, draw_point_colors(match))
        cloud.save(path, overwrite=True)
        return cloud

    def report(self) -> dict[str, Any]:
        """Return the entry of ``report.json``; nothing without a calibration."""
        if self.calibration is None:
            return {}
        return {"calibration": {**self.calibration.as_dict(), "rectified_by_scotopic": self.rectifier is not None}}


def check_options(calib: Sequence[Path], needing: Mapping[str, bool]) -> None:
    """Refuse too many calibrations, and options that need one and are given without."""
    if len(calib) > 2:
        raise SettingsError(f"--calib is given {len(calib)} times. Give one file, or one for each camera.")
    if not calib and any(needing.values()):
        option = next(option for option, is_given in needing.items() if is_given)
        raise SettingsError(f"{option} needs a calibration. Add --calib with its file.")


def find_calibration(left: Path, right: Path, quiet: bool) -> list[Path]:
    """Return the ``camera_info`` topics that bags have beside two image topics, as ``--calib`` takes them.

    Nothing for other views; nor, with a warning, if they cannot be used: then the frames are matched without meters.
    """
    found = camera_info_paths(left, right)
    try:
        if found:
            read_calibration(*found)
    except InputError as error:
        if not quiet:
            typer.echo(f"warning: There is no depth, because the camera_info cannot be used. {error}", err=True)
        return []
    return found


def read_cameras(calib: Sequence[Path], unit: str | None, rectify_first: bool, shape: tuple[int, ...]) -> Cameras:
    """Return the cameras of views of a shape, ``(height, width, ...)``, by the options of the command."""
    if not calib:
        return Cameras()
    height, width = shape[:2]
    calibration = read_calibration(*calib, unit=unit, size=(width, height))
    if not rectify_first:
        used = calibration.for_image(width, height)
        if calibration.width is not None and used.fx != calibration.fx:
            warnings.warn(
                f"The calibration is for images of {calibration.width} x {calibration.height} px. It is scaled to "
                f"{width} x {height} px, as images are that were resized as a whole. If these were cropped, their "
                "depth is wrong: crop the calibration too.",
                PairWarning,
                stacklevel=2,
            )
        return Cameras(used)
    rectifier = Rectifier(calibration, width, height)
    return Cameras(rectifier.calibration, rectifier)


def print_warnings(checked: PairCheck, is_rectified: bool, *others: str | None) -> None:
    """Warn if the pair looks unrectified or swapped, or is one image, and of what else was found, if anything."""
    for each in filter(None, (*checked.warnings, *others)):
        typer.echo(f"warning: {each}", err=True)
    if any("unrectified" in each or "rotated" in each for each in checked.warnings) and not is_rectified:
        typer.echo("With a calibration of both cameras, --calib FILE --rectify rectifies the pair first.", err=True)
