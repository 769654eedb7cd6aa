"""Camera models and camera files: simulate, estimate and measure noise; read raw files, photon counts and bursts."""

import warnings
from typing import Any

from scotopic.sensor.burst import estimate_shifts, merge_burst
from scotopic.sensor.counts import common_white, read_counts
from scotopic.sensor.estimate import NoiseCurve, noise_curve
from scotopic.sensor.flat_fields import PhotonTransfer, photon_transfer
from scotopic.sensor.model import Sensor, simulate, simulate_pair, to_uint8
from scotopic.sensor.raw import read_raw
from scotopic.sensor.recording import Recording, read_picture, read_recording
from scotopic.sensor.response import linearize, record
from scotopic.sensor.spad import count_bits, flux_from_bits, flux_variance, read_bit_planes

__all__ = [
    "NoiseCurve", "PhotonTransfer", "Recording", "Sensor", "common_white", "count_bits", "estimate_shifts",
    "flux_from_bits", "flux_variance", "linearize", "merge_burst", "noise_curve", "photon_transfer", "read_bit_planes",
    "read_counts", "read_picture", "read_raw", "read_recording", "record", "simulate", "simulate_pair", "to_uint8",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name != "linearise":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn("scotopic.sensor.linearise is now called linearize.", DeprecationWarning, stacklevel=2)
    return linearize
