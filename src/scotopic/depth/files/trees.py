"""Calibrations in YAML and XML: what OpenCV's ``FileStorage`` and ROS's ``camera_info`` write.

PyYAML and defusedxml parse, not ``cv2.FileStorage``, which ends the whole process on some damaged files (four of 600,
OpenCV 5.0). Only text is taken from them, never objects, and numbers follow the same strict rules as in other files: to
YAML ``1_000`` is a number and ``1e3`` is not. Aliases, document types and repeated keys are refused.
"""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any
from xml.etree.ElementTree import Element, ParseError, TreeBuilder

import numpy as np
import yaml
from defusedxml import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser

from scotopic.depth.calibration import Calibration, Camera, Matrix, Rig, warn_of_other_size
from scotopic.depth.camera_info import ROS_MODELS, of_published_image
from scotopic.depth.files.lines import TextFile, Tree, image_size
from scotopic.io.images import call_opencv

_DEPTH_LIMIT = 8
_NAME = re.compile(r"[A-Za-z_][\w./-]*", re.ASCII)
_EVENT_LIMIT = 20_000  # of YAML: values, keys and brackets; a calibration has some hundreds


# --- parsing --------------------------------------------------------------------------------------------------------


def parse_yaml(file: TextFile) -> Tree:
    """Return the keys of a YAML file; raise :class:`InputError`, with the line, if it is damaged or is not plain."""
    lines = list(file.lines)
    first = next((number for number, line in enumerate(lines) if line.strip()), 0)
    if lines[first].startswith("%YAML:"):  # OpenCV's own form of the directive
        lines[first] = ""
    while lines and lines[-1].strip() in ("", "---", "..."):  # ROS ends each message with "---"
        lines.pop()
    try:
        events = _content_events(file, "\n".join(lines))
        first_event = next(events, None)
        tree = "" if first_event is None else _yaml_value(file, first_event, events, 0)
        if next(events, None) is not None:
            raise file.error("There is a second document. Keep one calibration in a file.")
    except yaml.YAMLError as error:
        problem, mark = getattr(error, "problem", None), getattr(error, "problem_mark", None)
        reason = problem or " ".join(str(error).split())[:120]
        raise file.error(f"This is not valid YAML: {reason}.", mark and mark.line + 1) from None
    if not isinstance(tree, dict):
        raise file.error("There are no keys at the top level.")
    return tree


def _content_events(file: TextFile, text: str) -> Iterator[Any]:
    """Yield PyYAML's events of keys, values, lists and mappings, and None where a list or a mapping ends."""
    for count, event in enumerate(yaml.parse(text, Loader=yaml.BaseLoader)):
        if count > _EVENT_LIMIT:
            raise file.error("There are too many values for a calibration file.", event.start_mark.line + 1)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise file.error("Anchors and aliases ('&' and '*') are not supported.", event.start_mark.line + 1)
        if isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent):
            yield event if isinstance(event, yaml.NodeEvent) else None


def _yaml_value(file: TextFile, event: Any, events: Iterator[Any], depth: int) -> str | list[str] | Tree:
    """Return the value that begins with an event; rows of a matrix are joined to one list."""
    line = event.start_mark.line + 1
    if depth > _DEPTH_LIMIT:
        raise file.error("Keys or lists are nested too deeply.", line)
    if isinstance(event, yaml.ScalarEvent):
        return str(event.value)
    if isinstance(event, yaml.SequenceStartEvent):
        words: list[str] = []
        for item in iter(partial(next, events), None):
            value = _yaml_value(file, item, events, depth + 1)
            if isinstance(value, dict) or (isinstance(item, yaml.ScalarEvent) and (item.style or not value)):
                raise file.error("A list holds something else than plain numbers.", item.start_mark.line + 1)
            words += [value] if isinstance(value, str) else value
        return words
    tree: Tree = {}
    for key in iter(partial(next, events), None):
        if not isinstance(key, yaml.ScalarEvent) or not _NAME.fullmatch(key.value):
            raise file.error("A key is not a plain name.", key.start_mark.line + 1)
        value = _yaml_value(file, next(events), events, depth + 1)
        file.add(tree, str(key.value), key.start_mark.line + 1, value)
    return tree


def parse_xml(file: TextFile) -> Tree:
    """Return the content of ``<opencv_storage>``; raise :class:`InputError`, with the line, if it is damaged."""

    class Builder(TreeBuilder):
        def start(self, tag: str, attributes: dict[Any, Any], /) -> Element:
            return super().start(tag, {"line": str(parser.parser.CurrentLineNumber)})

    parser = DefusedXMLParser(target=Builder(), forbid_dtd=True)
    try:
        parser.feed("\n".join(file.lines))
        root = parser.close()
    except ParseError as error:
        raise file.error(f"This is not valid XML: {str(error).split(':')[0]}.", error.position[0]) from None
    except DefusedXmlException:
        raise file.error("There is a document type (DOCTYPE). Remove it: calibrations need none.") from None
    if root.tag != "opencv_storage":
        raise file.error(f"The XML begins with <{root.tag[:40]}>, not with <opencv_storage>.")
    tree = _xml_value(file, root, 0)
    return tree if isinstance(tree, dict) else {}


def _xml_value(file: TextFile, element: Element, depth: int) -> str | list[str] | Tree:
    words = "".join([element.text or "", *(child.tail or "" for child in element)]).split()
    if depth > _DEPTH_LIMIT or (len(element) and words):
        message = f"<{element.tag[:40]}> is nested too deeply or has both elements and text."
        raise file.error(message, int(element.get("line", 0)))
    tree: Tree = {}
    for child in element:
        file.add(tree, child.tag, int(child.get("line", 0)), _xml_value(file, child, depth + 1))
    return tree or (words[0] if len(words) == 1 else words)


def _rename(tree: Tree, names: Mapping[str, tuple[str, ...]]) -> Tree:
    """Return the matrices under the keys of `names`, whichever of the names that these list they have in the file."""
    found: Tree = {}
    for key, aliases in names.items():
        present = [alias for alias in aliases if alias in tree]
        if len(present) > 1:
            raise tree[present[1]].error(f"{' and '.join(present)} mean the same. Remove one.")
        if present:
            found[key] = tree[present[0]]
    return found


# --- OpenCV: what cv2.stereoCalibrate and cv2.stereoRectify return ---------------------------------------------------

#: The names under which OpenCV's samples and common tools store each matrix.
OPENCV_NAMES = {
    "K1": ("K1", "M1", "cameraMatrix1", "camera_matrix_1", "camera_matrix_left", "K_left", "left_K", "KL", "ML"),
    "K2": ("K2", "M2", "cameraMatrix2", "camera_matrix_2", "camera_matrix_right", "K_right", "right_K", "KR", "MR"),
    "D1": ("D1", "distCoeffs1", "dist_coeffs_1", "dist_coeffs_left", "D_left", "left_D", "DL"),
    "D2": ("D2", "distCoeffs2", "dist_coeffs_2", "dist_coeffs_right", "D_right", "right_D", "DR"),
    "R": ("R", "rotation", "rotation_matrix"),
    "T": ("T", "translation", "translation_vector"),
    "R1": ("R1", "rect_left", "RL"),
    "R2": ("R2", "rect_right", "RR"),
    "P1": ("P1", "proj_left", "P_left", "PL"),
    "P2": ("P2", "proj_right", "P_right", "PR"),
    "Q": ("Q", "disparity_to_depth", "disp_to_depth"),
}
_SHAPES = {"K": (3, 3), "R": (3, 3), "P": (3, 4)}
_DISTORTION_LENGTHS = (4, 5, 8, 12, 14)
_Q_TOLERANCE = 1e-4  # how far P and Q of one file may differ: stored with 16 digits, typed by hand with six


def is_opencv(tree: Tree) -> bool:
    """Return whether the keys are those of a stereo calibration of OpenCV's."""
    return any(name in tree for key in ("Q", "P1", "P2", "K1", "K2", "T") for name in OPENCV_NAMES[key])


def read_opencv(file: TextFile, tree: Tree, unit: str | None, size: tuple[int, int] | None) -> Calibration:
    """Return the calibration by P1 and P2, else by Q, else by rectifying K, D, R and T.

    Lengths are in the unit of the chessboard's squares, which the file does not give.
    """
    found = _rename(tree, OPENCV_NAMES)
    width, height = image_size(tree)
    cameras = _matrices(found, "K1", "D1", "K2", "D2")
    rotations = _matrices(found, "R1", "R2")
    projections = _matrices(found, "P1", "P2")
    if projections is None and rotations is None and "Q" not in found and cameras and "R" in found and "T" in found:
        if width is None and size is not None:
            width, height = size
            warn_of_other_size(cameras[0][:2, 2], width, height)
        rotations, projections = _rectify(file, found, cameras, width, height)
    q = found["Q"].matrix((4, 4)) if "Q" in found else None
    if projections is not None:
        line, (length, scale) = found["P2" if "P2" in found else "T"].line, projections[1][0, [3, 0]]
    elif q is not None:
        line, length, scale = found["Q"].line, 1.0, q[3, 2]
    else:
        raise file.error(f"There are only {', '.join(sorted(found))}. Store P1 and P2, or Q, or K1 D1 K2 D2 R T.")
    # Where the scale is 0, the check of the matrix itself says what is wrong.
    meters, words = file.meters(unit, float(length) / float(scale) if scale else 0.0, line)
    others: dict[str, Any] = {"width": width, "height": height, "source": f"OpenCV {file.shown}, {words}"}
    if projections is None:
        assert q is not None
        return Calibration.from_q(q, meters=meters, **others)
    if cameras and rotations:
        left, right = (Camera(cameras[2 * i], cameras[2 * i + 1], rotations[i], projections[i]) for i in range(2))
        others["rig"] = Rig(left, right, width, height)
    calibration = Calibration.from_projections(*projections, meters=meters, **others)
    if q is not None:
        by_q = Calibration.from_q(q, meters=meters)
        for name in ("fx", "cx", "cy", "baseline", "doffs"):
            ours, theirs = getattr(calibration, name), getattr(by_q, name)
            if abs(ours - theirs) > _Q_TOLERANCE * (calibration.baseline if name == "baseline" else calibration.fx):
                message = f"Q has {name} = {theirs:g}, but P1 and P2 have {ours:g}: two calibrations are mixed."
                raise found["Q"].error(message)
    return calibration


def _matrices(found: Tree, *keys: str) -> list[Matrix] | None:
    """Return several matrices if all are there, and none if none is; a part of them is an error."""
    present = [key for key in keys if key in found]
    if present and len(present) < len(keys):
        missing = ", ".join(key for key in keys if key not in found)
        raise found[present[0]].error(f"{', '.join(present)} without {missing}: store the matrices of both views.")
    return [
        found[key].vector(*_DISTORTION_LENGTHS) if key[0] == "D" else found[key].matrix(_SHAPES[key[0]])
        for key in present
    ] or None


def _rectify(
    file: TextFile, found: Tree, cameras: list[Matrix], width: int | None, height: int | None
) -> tuple[list[Matrix], list[Matrix]]:
    """Return R1, R2 and P1, P2 of a rig of which only the calibration is stored."""
    import cv2

    if width is None or height is None:
        raise file.error(
            "The cameras before rectification are given without the size of their images. Add image_width and "
            "image_height, or P1 and P2, or pass the size."
        )
    rotation = found["R"].matrix((3, 3), (3, 1), (1, 3))
    translation = found["T"].vector(3).reshape(3, 1)
    if rotation.size == 3:  # a rotation vector
        rotation = np.asarray(cv2.Rodrigues(rotation.reshape(3, 1))[0], np.float64)
    if np.abs(rotation @ rotation.T - np.eye(3)).max() > 1e-3 or np.linalg.det(rotation) < 0:
        raise found["R"].error("R is not a rotation.")
    k1, d1, k2, d2 = cameras
    rectify = partial(cv2.stereoRectify, flags=cv2.CALIB_ZERO_DISPARITY, alpha=0)
    given = call_opencv(rectify, k1, d1, k2, d2, (width, height), rotation, translation) or ()
    matrices = [np.asarray(each, np.float64) for each in given[:4]]
    if not matrices or not all(np.isfinite(each).all() for each in matrices):
        raise file.error("OpenCV cannot rectify these cameras. Calibrate again.")
    return matrices[:2], matrices[2:]


# --- ROS camera_info: one file for each camera; meters (REP 103) ------------------------------------------------------

# As stored by the calibrator, as a ROS 1 message and as a ROS 2 message.
_ROS_NAMES = {
    "P": ("projection_matrix", "P", "p"),
    "K": ("camera_matrix", "K", "k"),
    "D": ("distortion_coefficients", "D", "d"),
    "R": ("rectification_matrix", "R", "r"),
}


def is_ros(tree: Tree) -> bool:
    """Return whether the keys are those of one camera's ``camera_info``."""
    return all(any(name in tree for name in _ROS_NAMES[key]) for key in ("P", "K"))


def read_ros(files: list[TextFile], trees: list[Tree]) -> Calibration:
    """Read the left and the right camera; ``P`` is what a rectified pair needs."""
    sizes = [image_size(tree) for file, tree in zip(files, trees, strict=True)]
    if sizes[0] != sizes[1]:
        raise files[1].error(
            f"The images are {sizes[1][0]} x {sizes[1][1]} px, but those of {files[0].shown} are {sizes[0][0]} x "
            f"{sizes[0][1]} px. Give the two files of one pair."
        )
    projections, cameras = [], []
    for file, tree in zip(files, trees, strict=True):
        found = _rename(tree, _ROS_NAMES)
        model = str(tree["distortion_model"].value) if "distortion_model" in tree else ""
        has_camera = model in ROS_MODELS and "D" in found
        for key in ("P", "K", "R") if has_camera else ("P",):
            if key not in found:
                raise file.error(f"There is none of {', '.join(_ROS_NAMES[key])}.")
        projections.append(found["P"].matrix((3, 4)))
        if has_camera:
            distortion = found["D"].vector(*ROS_MODELS[model])
            matrix, rotation = (found[key].matrix((3, 3)) for key in ("K", "R"))
            cameras.append(Camera(matrix, distortion, rotation, projections[-1]))
    width, height = sizes[0]
    rig = Rig(cameras[0], cameras[1], width, height) if len(cameras) == 2 else None
    source = f"ROS camera_info {files[0].shown} and {files[1].shown}, baseline in m"
    full = Calibration.from_projections(*projections, width=width, height=height, rig=rig, source=source)
    return of_published_image(full, _published_part(trees[0]), _published_part(trees[1]))


def _published_part(tree: Tree) -> SimpleNamespace:
    """Return the binning and the region of interest of a message, 0 where the file has none, as its fields."""
    region = tree["roi"].value if "roi" in tree else {}
    if not isinstance(region, dict):
        raise tree["roi"].error("roi has no x_offset, y_offset, width and height.")
    names = ("x_offset", "y_offset", "width", "height")
    roi = {name: region[name].whole_number() if name in region else 0 for name in names}
    binning = {name: tree[name].whole_number() if name in tree else 0 for name in ("binning_x", "binning_y")}
    return SimpleNamespace(**binning, roi=SimpleNamespace(**roi))
