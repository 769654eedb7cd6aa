"""Streams of pairs: sequences with calibration, poses and truth, how to fuse their frames, and how far poses are off."""
