"""Rectifying the images of a calibrated rig, so that corresponding pixels lie in one row."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.depth.calibration import Calibration
from scotopic.errors import InputError
from scotopic.io import as_image

Image = NDArray[np.float32]


def rectify(left: Any, right: Any, calibration: Calibration) -> tuple[Image, Image, Calibration]:
    """Rectify a pair with OpenCV.

    Raises :class:`InputError` if the calibration has no rig, or the images have another size.

    Parameters
    ----------
    left, right
        The images as the cameras took them: arrays or paths, of the size that the rig was calibrated at.
    calibration
        With a :class:`~scotopic.depth.Rig`, as :func:`~scotopic.depth.read_calibration` returns for files that hold
        the cameras before rectification.

    Returns
    -------
    left, right : ndarray of float32
        ``H x W x C``; black where the camera did not see. Values between pixels are interpolated linearly, which
        averages neighbors and so lowers the noise a little, unevenly.
    calibration : Calibration
        Of the two rectified images.
    """
    import cv2

    rig = calibration.rig
    if rig is None:
        raise InputError(
            f"The calibration ({calibration.source}) describes the rectified pair but not the cameras before "
            "rectification. Use a file with OpenCV's K1 D1 K2 D2 R1 R2 P1 P2, ROS's K D R P, or KITTI's "
            "calib_cam_to_cam."
        )
    views = []
    for source, name, camera in ((left, "left", rig.left), (right, "right", rig.right)):
        image = as_image(source, name)
        height, width = image.shape[:2]
        if rig.width is not None and (width, height) != (rig.width, rig.height):
            raise InputError(
                f"The {name} image is {width} x {height} px, but the rig was calibrated at {rig.width} x {rig.height} "
                "px. Pass the images as the cameras took them."
            )
        size = (calibration.width or width, calibration.height or height)
        x, y = cv2.initUndistortRectifyMap(
            camera.matrix, camera.distortion, camera.rotation, camera.projection[:, :3], size, cv2.CV_32FC1
        )
        rectified = cv2.remap(image, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_CONSTANT, borderValue=0)
        views.append(np.ascontiguousarray(rectified.reshape(size[1], size[0], -1), np.float32))
    height, width = views[0].shape[:2]
    return views[0], views[1], replace(calibration, width=width, height=height)
