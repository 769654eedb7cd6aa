"""The options that commands share, each declared once."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from scotopic.errors import SettingsError
from scotopic.settings import Settings, make_settings

Left = Annotated[Path, typer.Argument(metavar="LEFT", help="Left image of a rectified pair.")]
Right = Annotated[Path, typer.Argument(metavar="RIGHT", help="Right image, of the same size.")]
Out = Annotated[Path, typer.Option("--out", "-o", metavar="OUT", help="Folder for the results; created if missing.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace results that are already in the folder.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors (and what --json asks for).")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object on stdout.")]

# How to match.
Preset = Annotated[
    str, typer.Option(help="best: most accurate; fast: a fraction of the time; paper: the published method.")
]
MaxDisparity = Annotated[
    int | None, typer.Option(help="End of the search range in px, exclusive; by default 128, or the width if less.")
]
MinDisparity = Annotated[
    int | None, typer.Option(help="Start of the search range in px; may be negative; 0 by default.")
]
Assignments = Annotated[
    list[str], typer.Option("--set", metavar="KEY=VALUE", help="Change one setting of the preset; may be repeated.")
]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Threads = Annotated[int | None, typer.Option(help="CPU threads to use; all by default. Results do not depend on it.")]

# What else to write.
Calib = Annotated[
    list[Path],
    typer.Option(
        metavar="FILE",
        help="Calibration: Middlebury calib.txt, OpenCV YAML or XML, KITTI, or 'fx cx cy baseline doffs'; adds depth. "
        "Twice for the left and right camera_info of ROS, as files or BAG:TOPIC.",
    ),
]
Unit = Annotated[
    str | None, typer.Option(help="Unit of the baseline if the calibration does not say: m, cm or mm; m by default.")
]
Rectify = Annotated[bool, typer.Option("--rectify", help="Rectify the pair first, with the calibration's cameras.")]
Ply = Annotated[bool, typer.Option("--ply", help="Also write points.ply, the colored points; needs --calib.")]
PlyFile = Annotated[Path | None, typer.Option(metavar="FILE", help="Write the colored points to this file instead.")]
Formats = Annotated[
    list[str],
    typer.Option("--format", metavar="NAME", help="Also write png (KITTI), tiff, npz or middlebury; may be repeated."),
]
Fill = Annotated[bool, typer.Option("--fill", help="Also write filled.pfm: a disparity for every pixel.")]
FillWith = Annotated[
    Path | None,
    typer.Option(metavar="ONNX", help="Fill with a depth-completion network instead of planes between boundaries."),
]

# What the input files hold.
Kind = Annotated[str, typer.Option(help="image, raw, counts or bit-planes; auto decides by the file names.")]
Linearize = Annotated[bool, typer.Option("--linearize", help="Undo the sRGB curve first; as recorded by default.")]
Mosaic = Annotated[str, typer.Option(help="Raw files become binned (half the size), demosaiced or mosaic.")]
White = Annotated[
    float | None,
    typer.Option(help="What becomes white: a stored value (images), photons per frame (counts) or plane (bit-planes)."),
]
Black = Annotated[float | None, typer.Option(help="Stored value of an image that becomes black; estimated by default.")]
Bits = Annotated[
    int | None, typer.Option(help="Bits that the camera uses, such as 12 in a file of 16; estimated by default.")
]
PlaneWidth = Annotated[
    int | None, typer.Option("--width", min=1, help="Width of bit planes in px, if it is not a multiple of 8.")
]
PlaneHeight = Annotated[
    int | None, typer.Option("--height", min=1, help="Height of bit planes in px; .bin files need it, and the width.")
]
BitOrder = Annotated[
    str | None,
    typer.Option(help="Of packed bit planes: big, the leftmost pixel in the highest bit (default), or little."),
]
HotPixels = Annotated[
    list[Path],
    typer.Option(
        metavar="FILE",
        help="Hot pixels of the camera, PNG or .npy, not 0 where hot: interpolated. Twice if the two cameras differ.",
    ),
]


def read_settings(preset: str, assignments: Sequence[str], **options: object) -> Settings:
    """Return the settings of a preset, changed by ``--set`` and by options named like a setting."""
    return make_settings(preset, **parse_settings(assignments, **options))


def parse_settings(assignments: Sequence[str], **options: object) -> dict[str, Any]:
    """Return the overrides of a preset from the values of ``--set`` and from options named like a setting.

    Options that are ``None`` were not given. Which settings exist, and whether the preset uses them, is for
    :func:`scotopic.make_settings` to say. Raises SettingsError if a value is not ``KEY=VALUE``, or if a setting is
    given twice.
    """
    found = {name: value for name, value in options.items() if value is not None}
    for assignment in assignments:
        name, _, value = (text.strip() for text in assignment.partition("="))
        if not (name and value):
            raise SettingsError(f"--set {assignment!r} is not of the form KEY=VALUE, such as --set p1=30.")
        if name in found:
            raise SettingsError(f"The setting {name!r} is given twice. Leave one of them out.")
        found[name] = value
    return found
