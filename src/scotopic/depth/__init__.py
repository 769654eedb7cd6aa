"""From disparity to meters: calibration, rectification, depth, its uncertainty, and points in space."""

from scotopic.depth.calibration import Calibration, Camera, Rig
from scotopic.depth.camera_info import calibration_from_camera_info
from scotopic.depth.files import read_calibration
from scotopic.depth.rectification import PairCheck, Rectifier, check_rectified, rectify
from scotopic.depth.triangulate import (
    PointCloud,
    depth_from_disparity,
    depth_uncertainty,
    disparity_uncertainty,
    point_cloud,
    points_from_disparity,
)

__all__ = [
    "Calibration", "Camera", "PairCheck", "PointCloud", "Rectifier", "Rig", "calibration_from_camera_info",
    "check_rectified",
    "depth_from_disparity", "depth_uncertainty", "disparity_uncertainty", "point_cloud", "points_from_disparity",
    "read_calibration", "rectify",
]  # fmt: skip
