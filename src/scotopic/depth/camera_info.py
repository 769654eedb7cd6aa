"""The calibration in a pair of ``sensor_msgs/CameraInfo`` messages, of ROS 1 or 2."""

from typing import Any

import numpy as np

from scotopic.depth.calibration import Calibration, Camera, Matrix, Rig
from scotopic.errors import InputError

#: Distortion models whose coefficients are OpenCV's, with how many there may be; "equidistant" (fisheye) is another.
ROS_MODELS = {"plumb_bob": (4, 5), "rational_polynomial": (8, 12, 14)}


def calibration_from_camera_info(left: Any, right: Any, *, source: str = "ROS camera_info") -> Calibration:
    """Return the calibration of the images that two cameras of a rig publish, in meters.

    Parameters
    ----------
    left, right
        Objects with the fields of ``sensor_msgs/CameraInfo``. Binning and the region of interest are accounted for.
    source
        Where they come from, for reports.

    Raises
    ------
    InputError
        A camera is not calibrated, or the two do not belong to a pair with the cameras side by side.
    """
    infos = {"left": left, "right": right}
    sizes = {name: (int(info.width), int(info.height)) for name, info in infos.items()}
    if sizes["left"] != sizes["right"]:
        (width, height), (other_width, other_height) = sizes["left"], sizes["right"]
        raise InputError(
            f"The camera_info of the left camera is for {width} x {height} px, that of the right one for {other_width} "
            f"x {other_height} px. Calibrate them as a pair."
        )
    projections, cameras = [], []
    for name, info in infos.items():
        projection = _matrix(info, "P", (3, 4), name)
        if not projection.any():
            raise InputError(f"The camera_info of the {name} camera has no projection matrix: it is not calibrated.")
        projections.append(projection)
        distortion = np.asarray(_field(info, "D"), np.float64).ravel()
        if distortion.size in ROS_MODELS.get(str(info.distortion_model), ()):
            matrix, rotation = _matrix(info, "K", (3, 3), name), _matrix(info, "R", (3, 3), name)
            if matrix[0, 0] > 0 and rotation.any() and np.isfinite(distortion).all():
                cameras.append(Camera(matrix, distortion, rotation, projection))
    width, height = sizes["left"]
    rig = Rig(cameras[0], cameras[1], width, height) if len(cameras) == 2 else None
    full = Calibration.from_projections(
        *projections, width=width or None, height=height or None, rig=rig, source=f"{source}, baseline in m"
    )
    return of_published_image(full, left, right)


def of_published_image(full: Calibration, left: Any, right: Any) -> Calibration:
    """Return the calibration of the part of the sensor that is published, and of its binned pixels.

    The numbers of a message are those of the full image before binning (REP 104).
    """
    (across, down), (x, *rows_and_size) = _binning(left), _region(left, full)
    right_x, *others = _region(right, full)
    if (across, down) != _binning(right) or rows_and_size != others:
        raise InputError(
            "The camera_info of the two cameras differ in binning, or in the rows or the size of their regions of "
            "interest, so that rows do not go along. Let both cameras publish the same rows."
        )
    found = full
    if left.roi.width and left.roi.height:
        found = full.cropped(x, *rows_and_size, right_x=right_x)
    if (across, down) == (1, 1):
        return found
    width, height = found.width and found.width // across, found.height and found.height // down
    return found.scaled(1 / across, 1 / down, width, height)


def _binning(info: Any) -> tuple[int, int]:
    return max(1, int(info.binning_x)), max(1, int(info.binning_y))


def _region(info: Any, full: Calibration) -> tuple[int, int, int, int]:
    """Return column, row, width and height of the region of interest; that of the whole image if there is none."""
    region = info.roi
    if not (region.width and region.height):
        return 0, 0, int(full.width or 0), int(full.height or 0)
    return int(region.x_offset), int(region.y_offset), int(region.width), int(region.height)


def _field(info: Any, name: str) -> Any:
    """Return a field whose name is upper case in ROS 1 and lower case in ROS 2."""
    found = getattr(info, name, None)
    return getattr(info, name.lower()) if found is None else found


def _matrix(info: Any, name: str, shape: tuple[int, int], side: str) -> Matrix:
    values = np.asarray(_field(info, name), np.float64)
    if values.size != shape[0] * shape[1] or not np.isfinite(values).all():
        raise InputError(
            f"The camera_info of the {side} camera has {values.size} numbers in {name}; {shape[0] * shape[1]} finite "
            "ones are needed."
        )
    return values.reshape(shape)
