"""Turning the pictures of a calibrated rig so that partners lie in one row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.depth.calibration import Calibration, Camera
from scotopic.errors import InputError
from scotopic.io import as_image

Image = NDArray[np.float32]


def rectify(left: Any, right: Any, calibration: Calibration) -> tuple[Image, Image, Calibration]:
    """Rectify a pair with OpenCV.

    Parameters
    ----------
    left, right
        The pictures as the cameras took them: arrays or paths, of the size that the rig was calibrated at.
    calibration
        With a :class:`~scotopic.depth.Rig`, as :func:`~scotopic.depth.read_calibration` gives for files that hold the
        cameras before rectification.

    Returns
    -------
    left, right : ndarray of float32
        ``H x W x C``; black where the camera did not see. Values between pixels are interpolated linearly, which
        averages neighbors and so lowers the noise a little, unevenly.
    calibration : Calibration
        Of these two.

    Raises
    ------
    InputError
        The calibration has no rig, or the images are of another size.
    """
    import cv2

    rig = calibration.rig
    if rig is None:
        raise InputError(
            f"calibration ({calibration.source}): found only the rectified pair, expected the cameras before it "
            "(OpenCV's K1 D1 K2 D2 R1 R2 P1 P2, ROS's K D R P, KITTI's calib_cam_to_cam); use a file with these"
        )
    views = []
    for source, name, camera in ((left, "left", rig.left), (right, "right", rig.right)):
        image = as_image(source, name)
        height, width = image.shape[:2]
        if rig.width is not None and (width, height) != (rig.width, rig.height):
            raise InputError(
                f"{name} image: found {width} x {height} px, expected {rig.width} x {rig.height} as the rig was "
                "calibrated at; pass the pictures as the cameras took them"
            )
        size = (calibration.width or width, calibration.height or height)
        maps = _maps(cv2, camera, size)
        turned = cv2.remap(image, *maps, cv2.INTER_LINEAR, borderMode=cv2.BORDER_CONSTANT, borderValue=0)
        views.append(np.ascontiguousarray(turned.reshape(size[1], size[0], -1), np.float32))
    height, width = views[0].shape[:2]
    return views[0], views[1], replace(calibration, width=width, height=height)


def _maps(cv2: Any, camera: Camera, size: tuple[int, int]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Where each pixel of the rectified picture is looked up."""
    across, down = cv2.initUndistortRectifyMap(
        camera.matrix, camera.distortion, camera.rotation, camera.projection[:, :3], size, cv2.CV_32FC1
    )
    return across, down
