"""The maps of one frame of a video: disparity, confidence and reason, in one compact file or in three plain ones.

``npz``: ``000000.npz`` with ``disparity`` (float32 px, NaN where there is none), ``confidence`` (float32 in [0, 1]),
``reason`` (uint8) and ``format``. To :func:`~scotopic.io.read_disparity` it is a disparity map like any other.
``pfm``: ``000000-disparity.pfm`` (+inf where there is none), ``000000-confidence.pfm`` and ``000000-reason.png``.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scotopic.io.disparity import NPZ_FORMAT, write_disparity
from scotopic.io.images import write_png
from scotopic.io.npz import write_npz
from scotopic.io.pfm import write_pfm

KINDS = ("npz", "pfm", "none")  #: how maps can be written, or not at all

_NAME = re.compile(r"\d{6,}(\.npz|-(disparity|confidence)\.pfm|-reason\.png)")


def write_frame_maps(
    folder: Path,
    number: int,
    kind: str,
    disparity: NDArray[np.float32],
    confidence: NDArray[np.float32],
    reason: NDArray[np.uint8],
) -> None:
    """Write the maps of frame `number` of a video, in one of :data:`KINDS`; each file whole or not at all."""
    name = f"{number:06d}"
    if kind == "npz":
        maps = {"disparity": disparity, "confidence": confidence, "reason": reason}
        write_npz(folder / f"{name}.npz", maps, NPZ_FORMAT)
    elif kind == "pfm":
        write_disparity(folder / f"{name}-disparity.pfm", disparity)
        write_pfm(folder / f"{name}-confidence.pfm", confidence)
        write_png(folder / f"{name}-reason.png", reason)


def frame_map_files(folder: Path) -> list[str]:
    """Return the names of the files in a folder that :func:`write_frame_maps` has written, in order."""
    if not folder.is_dir():
        return []
    return sorted(path.name for path in folder.iterdir() if _NAME.fullmatch(path.name))
