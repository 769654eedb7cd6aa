"""Calibration files of the common kinds, told apart by what is in them."""

from scotopic.depth.files.read import read_calibration

__all__ = ["read_calibration"]
