"""Results in the forms that other programs expect: a ROS message, a Rerun recording."""

from scotopic.interop.rerun import log_match
from scotopic.interop.ros import disparity_image

__all__ = ["disparity_image", "log_match"]
