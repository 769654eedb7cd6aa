"""ROS ``camera_info``: one YAML file for each camera; its ``P`` is what a rectified pair needs. Meters (REP 103)."""

from __future__ import annotations

from collections.abc import Mapping

from scotopic.depth.calibration import Calibration, Camera, Matrix, Rig
from scotopic.depth.files.text import TextFile
from scotopic.depth.files.tree import Node, image_size, matrix, vector
from scotopic.depth.matrices import from_projections

# As stored by the calibrator, as a ROS 1 message and as a ROS 2 message.
_NAMES = {
    "P": ("projection_matrix", "P", "p"),
    "K": ("camera_matrix", "K", "k"),
    "D": ("distortion_coefficients", "D", "d"),
    "R": ("rectification_matrix", "R", "r"),
}
# The models whose coefficients are OpenCV's; "equidistant" (fisheye) is another one.
_MODELS = {"plumb_bob": (4, 5), "rational_polynomial": (8, 12, 14)}


def is_ros(tree: Mapping[str, Node]) -> bool:
    """Whether the keys are those of one camera's ``camera_info``."""
    return any(name in tree for name in _NAMES["P"]) and any(name in tree for name in _NAMES["K"])


def read(files: tuple[TextFile, TextFile], trees: tuple[Mapping[str, Node], Mapping[str, Node]]) -> Calibration:
    """Read the left and the right camera."""
    sizes = [image_size(file, tree) for file, tree in zip(files, trees, strict=True)]
    if sizes[0] != sizes[1]:
        raise files[1].problem(
            None,
            f"a size of {sizes[1][0]} x {sizes[1][1]} px",
            f"{sizes[0][0]} x {sizes[0][1]} as in {files[0].shown}",
            "give the two files of one pair",
        )
    projections = [_one(file, tree, "P", (3, 4)) for file, tree in zip(files, trees, strict=True)]
    cameras = [_camera(*each) for each in zip(files, trees, projections, strict=True)]
    left, right = cameras
    width, height = sizes[0]
    return from_projections(
        projections[0],
        projections[1],
        width=width,
        height=height,
        rig=Rig(left, right, width, height) if left and right else None,
        source=f"ROS camera_info {files[0].shown} and {files[1].shown}, baseline in m",
    )


def _camera(file: TextFile, tree: Mapping[str, Node], projection: Matrix) -> Camera | None:
    """The camera before rectification, where its distortion is of a kind that we know."""
    model = tree["distortion_model"].value if "distortion_model" in tree else ""
    key = next((name for name in _NAMES["D"] if name in tree), None)
    if not isinstance(model, str) or model not in _MODELS or key is None:
        return None
    return Camera(
        matrix=_one(file, tree, "K", (3, 3)),
        distortion=vector(file, key, tree[key], _MODELS[model]),
        rotation=_one(file, tree, "R", (3, 3)),
        projection=projection,
    )


def _one(file: TextFile, tree: Mapping[str, Node], meaning: str, shape: tuple[int, int]) -> Matrix:
    present = [name for name in _NAMES[meaning] if name in tree]
    if len(present) != 1:
        raise file.problem(
            None,
            f"{' and '.join(present) or 'none'} of {', '.join(_NAMES[meaning])}",
            "one of them",
            "write the file again",
        )
    return matrix(file, present[0], tree[present[0]], shape)
