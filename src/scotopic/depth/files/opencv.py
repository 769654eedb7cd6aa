"""What ``cv2.stereoCalibrate`` and ``cv2.stereoRectify`` gave, as people store it with ``cv2.FileStorage``.

OpenCV's lengths are in whatever unit the chessboard's squares were; the file does not say. See `units`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from scotopic.depth.calibration import Calibration, Camera, Matrix, Rig
from scotopic.depth.files.text import TextFile
from scotopic.depth.files.tree import Node, image_size, matrix, vector
from scotopic.depth.files.units import meters_in
from scotopic.depth.matrices import from_projections, from_q

#: The names under which OpenCV's samples and common tools store each matrix.
NAMES = {
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
_DISTORTIONS = (4, 5, 8, 12, 14)
# How far P and Q of one file may lie apart; both are printed with 16 digits, by hand with six.
_AGREEMENT = 1e-4


def is_opencv(tree: Mapping[str, Node]) -> bool:
    """Whether the keys are those of a stereo calibration of OpenCV's."""
    known = {meaning for meaning, names in NAMES.items() if any(name in tree for name in names)}
    return bool(known & {"Q", "P1", "P2", "K1", "K2", "T"})


def read(file: TextFile, tree: Mapping[str, Node], unit: str | None, size: tuple[int, int] | None) -> Calibration:
    """Read the calibration: of P1 and P2, else of Q, else by rectifying K, D, R and T."""
    found = _named(file, tree)
    width, height = image_size(file, tree)
    if width is None and size is not None:
        width, height = size
    rig = _matrices(file, found, ("K1", "D1", "K2", "D2"))
    turned = _matrices(file, found, ("R1", "R2"))
    projected = _matrices(file, found, ("P1", "P2"))
    if projected is None and turned is None and "Q" not in found:
        turned, projected = _rectified(file, found, rig, width, height)
    q = matrix(file, "Q", found["Q"], (4, 4)) if "Q" in found else None
    if projected is not None:
        line, apart = found["P2" if "P2" in found else "T"].line, _over(projected[1][0, 3], projected[1][0, 0])
    elif q is not None:
        line, apart = found["Q"].line, _over(1.0, q[3, 2])
    else:
        raise file.problem(
            None, f"only {', '.join(sorted(found))}", "P1 and P2, or Q, or K1 D1 K2 D2 R T", "store these too"
        )
    meters, words = meters_in(unit, apart, file, line)
    others: dict[str, Any] = {"width": width, "height": height, "source": f"OpenCV {file.shown}, {words}"}
    if projected is None:
        assert q is not None
        return from_q(q, meters=meters, **others)
    if rig is not None and turned is not None:
        left, right = (Camera(rig[2 * i], rig[2 * i + 1], turned[i], projected[i]) for i in range(2))
        others["rig"] = Rig(left, right, width, height)
    calibration = from_projections(projected[0], projected[1], meters=meters, **others)
    if q is not None:
        _check_agreement(file, found["Q"].line, calibration, from_q(q, meters=meters))
    return calibration


def _named(file: TextFile, tree: Mapping[str, Node]) -> dict[str, Node]:
    """The matrices by what they mean, whatever they are called here."""
    found: dict[str, Node] = {}
    for meaning, names in NAMES.items():
        present = [name for name in names if name in tree]
        if len(present) > 1:
            raise file.problem(
                tree[present[1]].line,
                f"{' and '.join(present)}, which mean the same",
                "one of them",
                "remove the other",
            )
        if present:
            found[meaning] = tree[present[0]]
    return found


def _matrices(file: TextFile, found: Mapping[str, Node], keys: tuple[str, ...]) -> list[Matrix] | None:
    """Several matrices, if all are there; one of a pair without the other is damage."""
    present = [key for key in keys if key in found]
    if not present:
        return None
    missing = [key for key in keys if key not in found]
    if missing:
        raise file.problem(
            found[present[0]].line,
            f"{', '.join(present)} without {', '.join(missing)}",
            "both views'",
            "store these too",
        )
    shapes = {"K": (3, 3), "R": (3, 3), "P": (3, 4)}
    return [
        vector(file, key, found[key], _DISTORTIONS) if key[0] == "D" else matrix(file, key, found[key], shapes[key[0]])
        for key in keys
    ]


def _rectified(
    file: TextFile, found: Mapping[str, Node], rig: list[Matrix] | None, width: int | None, height: int | None
) -> tuple[list[Matrix] | None, list[Matrix] | None]:
    """R1, R2 and P1, P2 of a rig of which only the calibration is stored."""
    if rig is None or "R" not in found or "T" not in found:
        return None, None
    if width is None or height is None:
        raise file.problem(
            None,
            "cameras before rectification and no image size",
            "image_width and image_height, or P1 and P2",
            "add them, or pass the size of the images",
        )
    import cv2

    rotation = matrix(file, "R", found["R"], (3, 3), (3, 1), (1, 3))
    translation = vector(file, "T", found["T"], (3,)).reshape(3, 1)
    if rotation.size == 3:  # a rotation vector
        rotation = np.asarray(cv2.Rodrigues(rotation.reshape(3, 1))[0], np.float64)
    if np.abs(rotation @ rotation.T - np.eye(3)).max() > 1e-3 or np.linalg.det(rotation) < 0:
        raise file.problem(found["R"].line, "R that does not rotate", "a rotation matrix", "write the file again")
    try:
        given = cv2.stereoRectify(
            rig[0],
            rig[1],
            rig[2],
            rig[3],
            (width, height),
            rotation,
            translation,
            flags=cv2.CALIB_ZERO_DISPARITY,
            alpha=0,
        )
    except cv2.error as error:
        reason = " ".join(str(error).split())[-120:]
        raise file.problem(
            None, f"cameras that cannot be rectified ({reason})", "a stereo rig", "calibrate again"
        ) from None
    turned, projected = ([np.asarray(each, np.float64) for each in given[i : i + 2]] for i in (0, 2))
    if not all(np.isfinite(each).all() for each in turned + projected):
        raise file.problem(None, "cameras that cannot be rectified", "a stereo rig", "calibrate again")
    return turned, projected


def _over(value: float, divisor: float) -> float:
    """A quotient, 0 where there is none: what is wrong with the matrix is said by its own check."""
    return float(value) / float(divisor) if divisor else 0.0


def _check_agreement(file: TextFile, line: int, by_projections: Calibration, by_q: Calibration) -> None:
    for name in ("fx", "cx", "cy", "baseline", "doffs"):
        one, other = getattr(by_projections, name), getattr(by_q, name)
        scale = by_projections.baseline if name == "baseline" else by_projections.fx
        if abs(one - other) > _AGREEMENT * scale:
            raise file.problem(
                line, f"Q with {name} {other:g}", f"{one:g} as in P1 and P2", "they are of two calibrations: remove one"
            )
