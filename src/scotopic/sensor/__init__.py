"""What the camera did: counts, gain, read noise, clipping; simulate it, estimate it, measure it, read its files."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from scotopic.sensor.model import Sensor
from scotopic.sensor.simulate import simulate, simulate_pair, to_uint8

if TYPE_CHECKING:
    from scotopic.sensor.alignment import estimate_shifts
    from scotopic.sensor.burst import merge_burst
    from scotopic.sensor.counts import common_white, read_counts
    from scotopic.sensor.estimate import NoiseCurve, noise_curve
    from scotopic.sensor.flat_fields import PhotonTransfer, photon_transfer
    from scotopic.sensor.raw import read_raw
    from scotopic.sensor.recording import Recording, read_picture, read_recording
    from scotopic.sensor.response import linearize, record
    from scotopic.sensor.spad import flux_from_bits, flux_variance, read_bit_planes

# Importing scotopic brings this module; what only some people need comes when they ask for it.
_HOMES = {
    "NoiseCurve": "estimate",
    "PhotonTransfer": "flat_fields",
    "Recording": "recording",
    "common_white": "counts",
    "estimate_shifts": "alignment",
    "flux_from_bits": "spad",
    "flux_variance": "spad",
    "linearize": "response",
    "merge_burst": "burst",
    "noise_curve": "estimate",
    "photon_transfer": "flat_fields",
    "read_bit_planes": "spad",
    "read_counts": "counts",
    "read_picture": "recording",
    "read_raw": "raw",
    "read_recording": "recording",
    "record": "response",
}

__all__ = [
    "NoiseCurve",
    "PhotonTransfer",
    "Recording",
    "Sensor",
    "common_white",
    "estimate_shifts",
    "flux_from_bits",
    "flux_variance",
    "linearize",
    "merge_burst",
    "noise_curve",
    "photon_transfer",
    "read_bit_planes",
    "read_counts",
    "read_picture",
    "read_raw",
    "read_recording",
    "record",
    "simulate",
    "simulate_pair",
    "to_uint8",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
