"""Results in the forms that other programs expect: ROS messages, a Rerun recording."""

from scotopic.interop.rerun import log_match
from scotopic.interop.ros import confidence_image, depth_image, disparity_image

__all__ = ["confidence_image", "depth_image", "disparity_image", "log_match"]
