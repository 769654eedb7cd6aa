"""Calibration files of the common kinds, told apart by their content."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from scotopic.depth.calibration import UNITS, Calibration
from scotopic.depth.camera_info import calibration_from_camera_info
from scotopic.depth.files.lines import TextFile, read_kitti, read_middlebury, read_plain, read_projections
from scotopic.depth.files.trees import is_opencv, is_ros, parse_xml, parse_yaml, read_opencv, read_ros
from scotopic.errors import InputError
from scotopic.io.bags import read_camera_info, split_topic
from scotopic.io.input_file import explain

KINDS = (
    "Known are Middlebury calib.txt (cam0=[...]), OpenCV YAML or XML (P1 P2, or Q, or K1 D1 K2 D2 R T), KITTI "
    "calib_cam_to_cam (P_rect_02:) or P0: to P3:, two lines of 12 numbers (projection matrices), two ROS camera_info "
    "YAML files, and five numbers 'fx cx cy baseline doffs'."
)
_FIRST_PLAIN_LINE = re.compile(r"(?:fx|fy|cx|cy|baseline|doffs|width|height)\b|[-+.0-9]")
# Other kinds may begin with the size of the image.
_NOT_PLAIN_LINE = re.compile(r"cam0\s*=|(?:[kpKPQ]|camera_matrix|projection_matrix|[KPM][12])\s*:")
# In this order: KITTI's "P1: 7.2e+02 0 ..." would be a YAML key too, but there numbers stand in a list.
_TYPICAL_LINES = {
    "middlebury": re.compile(r"cam0\s*="),
    "kitti": re.compile(r"(?:P_rect_0[0-3]|P[0-3])\s*:\s*[-+.0-9]\S*\s+[-+.0-9]"),
    "yaml": re.compile(r"['\"]?[A-Za-z_][\w./-]*['\"]?\s*:(?:\s|$)", re.ASCII),
}
# What both files of an OpenCV calibration may state; the second counts.
_REPEATABLE = {"image_width", "image_height", "width", "height", "calibration_time", "nframes"}


def read_calibration(
    path: str | os.PathLike[str],
    right: str | os.PathLike[str] | None = None,
    *,
    unit: str | None = None,
    size: tuple[int, int] | None = None,
    cameras: tuple[int, int] = (2, 3),
) -> Calibration:
    """Read the calibration of a stereo pair, baseline in meters, from a file of any kind listed in docs/depth.md.

    Raises :class:`InputError` if a file cannot be read, is of no known kind, or holds something impossible; the message
    names file and line.

    Parameters
    ----------
    path
        The file; for ROS that of the left camera, or its topic in a bag, ``drive.mcap:/left/camera_info``.
    right
        The second file, where there are two: the right camera's (ROS), or OpenCV's ``extrinsics.yml`` beside
        ``intrinsics.yml``.
    unit
        ``"m"``, ``"cm"`` or ``"mm"``: the unit of the baseline, for files that do not say (OpenCV, plain numbers). Left
        out, meters are assumed, and a baseline above 2 is refused.
    size
        Width and height of the images, for OpenCV files with neither a size nor P1 and P2.
    cameras
        Which two of KITTI's four; 2 and 3 are the color ones.
    """
    if unit is not None and unit not in UNITS:
        raise InputError(f"The unit {unit!r} is unknown. Choose one of {', '.join(UNITS)}.")
    paths = [path] if right is None else [path, right]
    if any(split_topic(Path(each)) for each in paths):
        return _read_topics(paths, unit)
    files = [TextFile.read(each) for each in paths]
    file = files[0]
    with _naming(files):
        kind = _kind(file)
        if kind in ("xml", "yaml"):
            return _read_trees(files, kind, unit, size)
        if len(files) > 1:
            raise files[1].error(f"There is no need for a second file: {file.shown} is complete. Leave it out.")
        if kind == "plain":
            return read_plain(file, unit)
        _check_no_unit(file, unit, "mm" if kind == "middlebury" else "m")
        if kind == "projections":
            return read_projections(file)
        return read_middlebury(file)[0] if kind == "middlebury" else read_kitti(file, cameras)


def read_calib_txt(path: str | os.PathLike[str]) -> tuple[Calibration, float | None]:
    """Return the calibration of a Middlebury ``calib.txt``, and ``ndisp``, the end of its disparities, if given."""
    file = TextFile.read(path)
    with _naming([file]):
        return read_middlebury(file)


def _read_topics(paths: Sequence[str | os.PathLike[str]], unit: str | None) -> Calibration:
    """Read the ``camera_info`` topics of the two cameras, in bags."""
    topics = [named for each in paths if (named := split_topic(Path(each))) is not None]
    shown = " and ".join(repr(os.fspath(each)) for each in paths)
    if len(topics) != 2:
        raise InputError(f"{shown} is one camera of a pair. Give the topic of the right camera's camera_info too.")
    if unit not in (None, "m"):
        raise InputError(f"{shown} are always in m, not in {unit}. Leave the unit out.")
    infos = [read_camera_info(*topic) for topic in topics]
    return calibration_from_camera_info(infos[0], infos[1], source=f"ROS camera_info {shown}")


@contextmanager
def _naming(files: list[TextFile]) -> Iterator[None]:
    """Make sure that an error names a file."""
    try:
        yield
    except InputError as error:
        if any(file.shown in str(error) for file in files):
            raise
        raise files[0].error(str(error)) from error
    except Exception as error:  # a damaged file can make PyYAML, expat and OpenCV raise anything
        raise files[0].error(f"This cannot be read as a calibration: {explain(error):.200}.") from error


def _kind(file: TextFile) -> str:
    """Return the kind of a file, by the first lines that only one kind can have."""
    content = [line.strip() for line in file.lines if line.strip() and not line.lstrip().startswith("#")]
    if not content:
        raise file.error("The file is empty.")
    if content[0].startswith("<"):
        return "xml"
    if content[0].startswith(("%YAML", "---")):
        return "yaml"
    if [len(line.split()) for line in content] == [12, 12]:  # with P0: and P1: they would be 13
        return "projections"
    if _FIRST_PLAIN_LINE.match(content[0]) and not any(_NOT_PLAIN_LINE.match(line) for line in content):
        return "plain"
    for kind, line in _TYPICAL_LINES.items():
        if any(line.match(each) for each in content):
            return kind
    raise file.error(f"No calibration file of a known kind begins with {content[0][:60]!r}. {KINDS}")


def _read_trees(files: list[TextFile], kind: str, unit: str | None, size: tuple[int, int] | None) -> Calibration:
    """Read the files that OpenCV or ROS wrote."""
    trees = [parse_xml(file) if kind == "xml" else parse_yaml(file) for file in files]
    file = files[0]
    if any(is_ros(tree) for tree in trees):
        _check_no_unit(file, unit, "m")
        if len(files) == 1:
            raise file.error("This is one camera of a pair. Give the right camera's file too.")
        return read_ros(files, trees)
    merged = dict(trees[0])
    for name, node in (trees[1] if len(trees) > 1 else {}).items():
        if name in merged and name not in _REPEATABLE:
            raise node.error(f"{name!r} is also in {file.shown}. Remove one.")
        merged[name] = node
    if not is_opencv(merged):
        raise file.error(f"No calibration of a known kind has the keys {', '.join(sorted(merged))[:120]}. {KINDS}")
    return read_opencv(file, merged, unit, size)


def _check_no_unit(file: TextFile, unit: str | None, own: str) -> None:
    """Raise if the caller states another unit than the one that the format has."""
    if unit not in (None, own):
        raise file.error(f"This kind of file is always in {own}, not in {unit}. Leave the unit out.")
