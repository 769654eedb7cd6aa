"""Scotopic as a ROS 2 node."""
