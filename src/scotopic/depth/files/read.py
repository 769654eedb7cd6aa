"""One call for every kind of calibration file."""

from __future__ import annotations

import os
import re

from scotopic.depth.calibration import Calibration
from scotopic.depth.files import kitti, middlebury, opencv, plain, ros
from scotopic.depth.files.text import TextFile
from scotopic.depth.files.tree import Tree
from scotopic.depth.files.units import check_unit
from scotopic.depth.files.xml import parse_xml
from scotopic.depth.files.yaml import parse_yaml
from scotopic.errors import InputError

KINDS = (
    "Middlebury calib.txt (cam0=[...]), OpenCV YAML or XML (P1 P2, or Q, or K1 D1 K2 D2 R T), KITTI calib_cam_to_cam "
    "(P_rect_02:) or P0: to P3:, two ROS camera_info YAML files, or five numbers 'fx cx cy baseline doffs'"
)
_FIRST_PLAIN_LINE = re.compile(r"(?:fx|fy|cx|cy|baseline|doffs|width|height)\b|[-+.0-9]")
# In this order: KITTI's "P1: 7.2e+02 0 ..." would be a YAML key too, but there numbers stand in a list.
_LINES = {
    "middlebury": re.compile(r"cam0\s*="),
    "kitti": re.compile(r"(?:P_rect_0[0-3]|P[0-3])\s*:\s*[-+.0-9]\S*\s+[-+.0-9]"),
    "yaml": re.compile(r"['\"]?[A-Za-z_][\w./-]*['\"]?\s*:(?:\s|$)", re.ASCII),
}
# What the two files of one OpenCV calibration may both state; the second is believed.
_TOLD_TWICE = {"image_width", "image_height", "width", "height", "calibration_time", "nframes"}


def read_calibration(
    path: str | os.PathLike[str],
    right: str | os.PathLike[str] | None = None,
    *,
    unit: str | None = None,
    size: tuple[int, int] | None = None,
    cameras: tuple[int, int] = (2, 3),
) -> Calibration:
    """Read the calibration of a stereo pair; which kind of file it is, its content tells.

    Parameters
    ----------
    path
        The file; for ROS that of the left camera.
    right
        The second file, where there are two: the right camera's (ROS), or OpenCV's ``extrinsics.yml`` beside
        ``intrinsics.yml``.
    unit
        ``"m"``, ``"cm"`` or ``"mm"``: the unit of the baseline, for files that do not say (OpenCV, plain numbers). Left
        out, meters are assumed, and a baseline above 2 is refused rather than believed.
    size
        Width and height of the images, for OpenCV files with neither a size nor P1 and P2.
    cameras
        Which two of KITTI's four; 2 and 3 are the color ones.

    Returns
    -------
    Calibration
        Baseline in meters.

    Raises
    ------
    InputError
        A file cannot be read, is of no known kind, or says something impossible; file and line are named.
    """
    check_unit(unit)
    files = [TextFile.read(each) for each in (path, right) if each is not None]
    try:
        return _read(files, unit, size, cameras)
    except InputError as error:
        if any(file.shown in str(error) for file in files):
            raise
        raise InputError(f"{files[0].shown}: {error}") from error


def _read(
    files: list[TextFile], unit: str | None, size: tuple[int, int] | None, cameras: tuple[int, int]
) -> Calibration:
    file = files[0]
    kind = _kind(file)
    if kind in ("xml", "yaml"):
        return _from_trees(
            files, [parse_xml(each) if kind == "xml" else parse_yaml(each) for each in files], unit, size
        )
    if len(files) > 1:
        raise files[1].problem(
            None, "a second file", f"none beside {file.shown}, which is whole by itself", "leave it out"
        )
    if kind == "middlebury":
        _no_unit(file, unit, "mm")
        return middlebury.read(file)
    if kind == "kitti":
        _no_unit(file, unit, "m")
        return kitti.read(file, cameras)
    return plain.read(file, unit)


def _kind(file: TextFile) -> str:
    """Which kind of file it is, by the first lines that only one kind can have."""
    content = [line.strip() for line in file.lines if line.strip() and not line.lstrip().startswith("#")]
    if not content:
        raise file.problem(None, "nothing in it", KINDS, "give another file")
    if content[0].startswith("<"):
        return "xml"
    if content[0].startswith(("%YAML", "---")):
        return "yaml"
    if _FIRST_PLAIN_LINE.match(content[0]) and not any(re.match(r"cam0\s*=", line) for line in content):
        return "plain"
    for kind, line in _LINES.items():
        if any(line.match(each) for each in content):
            return kind
    raise file.problem(None, f"{content[0][:60]!r} and nothing that is known", KINDS, "give another file")


def _from_trees(
    files: list[TextFile], trees: list[Tree], unit: str | None, size: tuple[int, int] | None
) -> Calibration:
    """Read what OpenCV or ROS wrote."""
    file = files[0]
    if any(ros.is_ros(tree) for tree in trees):
        _no_unit(file, unit, "m")
        if len(files) == 1:
            raise file.problem(
                None,
                "one camera of a pair",
                "the files of both",
                "pass the right camera's file too (--calib a second time)",
            )
        return ros.read((files[0], files[1]), (trees[0], trees[1]))
    merged: Tree = dict(trees[0])
    for name, node in (trees[1] if len(trees) > 1 else {}).items():
        if name in merged and name not in _TOLD_TWICE:
            raise files[1].problem(
                node.line, f"{name!r} as in {file.shown}", "each matrix in one of the two", "remove one"
            )
        merged[name] = node
    if not opencv.is_opencv(merged):
        raise file.problem(None, f"the keys {', '.join(sorted(merged))[:120]}", KINDS, "give another file")
    return opencv.read(file, merged, unit, size)


def _no_unit(file: TextFile, unit: str | None, own: str) -> None:
    """Refuse a unit that the caller states where the format has its own."""
    if unit not in (None, own):
        raise file.problem(None, f"unit {unit!r}", f"none: this kind of file is always in {own}", "leave the unit out")
