"""The options that several commands share."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from scotopic.errors import SettingsError

Left = Annotated[Path, typer.Argument(metavar="LEFT", help="Left image of a rectified pair.")]
Right = Annotated[Path, typer.Argument(metavar="RIGHT", help="Right image, of the same size.")]
Out = Annotated[Path, typer.Option("--out", "-o", metavar="OUT", help="Folder for the results; made if it is missing.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace results that are already in the folder.")]
Preset = Annotated[
    str, typer.Option(help="best: the most accurate; paper: the published method; fast: a small fraction of the time.")
]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Assignments = Annotated[
    list[str], typer.Option("--set", metavar="KEY=VALUE", help="Change one setting of the preset; may be repeated.")
]
Threads = Annotated[int | None, typer.Option(help="CPU threads to use; all by default. Results do not depend on it.")]
Calib = Annotated[
    list[Path],
    typer.Option(
        metavar="FILE",
        help="Calibration: Middlebury calib.txt, OpenCV YAML or XML, KITTI, or 'fx cx cy baseline doffs'; adds depth. "
        "Twice for the left and right camera_info of ROS.",
    ),
]
Unit = Annotated[
    str | None, typer.Option(help="m, cm or mm: the baseline's unit, where the calibration does not say; m by default.")
]
Rectify = Annotated[bool, typer.Option("--rectify", help="Rectify the pair first, by the calibration's cameras.")]
Ply = Annotated[Path | None, typer.Option(metavar="FILE", help="Write the colored points there; needs --calib.")]
Formats = Annotated[
    list[str],
    typer.Option(
        "--format", metavar="NAME", help="Also write png (KITTI), tiff, npz, exr or middlebury; may be repeated."
    ),
]
Kind = Annotated[
    str,
    typer.Option(help="What the files hold: image, raw, counts or bit-planes; auto: by their names."),
]
Linearize = Annotated[
    bool, typer.Option("--linearize", help="Undo the sRGB curve of the images first; as recorded by default.")
]
Mosaic = Annotated[str, typer.Option(help="Of raw files: binned (half the size), demosaiced or mosaic.")]
White = Annotated[
    float | None, typer.Option(help="Photons per frame (counts) or per plane (bit-planes) that become white.")
]
Fill = Annotated[bool, typer.Option("--fill", help="Also write filled.pfm: a disparity for every pixel.")]
FillWith = Annotated[
    Path | None,
    typer.Option(metavar="ONNX", help="The same, by a depth-completion network instead of our own filling."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors (and what --json asks for).")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object on stdout.")]


def parse_settings(assignments: Sequence[str], parts: Sequence[type], **options: object) -> dict[str, Any]:
    """Return overrides for a preset from ``KEY=VALUE`` strings and from options that stand for a setting.

    Parameters
    ----------
    assignments
        What was given to ``--set``.
    parts
        The settings classes whose fields may be set.
    **options
        Values of options with a setting's name; ``None`` where the option was not given.

    Raises
    ------
    SettingsError
        A string without ``=``, a name that is not a field, or a setting given twice.
    """
    known = [field.name for part in parts for field in dataclasses.fields(part)]
    found = {name: value for name, value in options.items() if value is not None}
    for assignment in assignments:
        name, equals, value = (text.strip() for text in assignment.partition("="))
        if not (name and equals and value):
            raise SettingsError(f"--set: found {assignment!r}, expected KEY=VALUE, such as {known[0]}=20; correct it")
        if name not in known:
            raise SettingsError(
                f"--set: found {name!r}, expected one of {', '.join(sorted(known))}; choose one of these"
            )
        if name in found:
            raise SettingsError(f"--set: found {name!r} twice, expected each setting once; leave one of them out")
        found[name] = value
    return found
