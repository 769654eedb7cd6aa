"""What the camera did: counts, read noise, clipping."""

from scotopic.sensor.simulate import simulate, simulate_pair, to_uint8

__all__ = ["simulate", "simulate_pair", "to_uint8"]
