"""A stereo sequence: frames of a rig that moves, where it was, and the true disparities if they are known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scotopic.depth import Calibration

Image = NDArray[np.float32]
Pair = tuple[Image, Image]
Matrix = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class StereoSequence:
    """Frames of a rig that moves, and what is known about them.

    Attributes
    ----------
    name
        Of the scene.
    pairs
        The frames, clean, ``(H, W, C)`` float32 in [0, 1].
    calibration
        Of all frames.
    poses
        4 x 4 for each frame, taking points of its left camera to that of the first frame, in the unit of the
        calibration; ``None`` if unknown.
    truths
        Disparity of each left view, px, NaN where unknown; ``None`` if nowhere known.
    """

    name: str
    pairs: tuple[Pair, ...]
    calibration: Calibration
    poses: tuple[Matrix, ...] | None = None
    truths: tuple[Image, ...] | None = None

    def __len__(self) -> int:
        return len(self.pairs)

    def truth(self, frame: int) -> Image:
        """Return the disparity of a frame, NaN where it is unknown."""
        if self.truths is None:
            return np.full(self.pairs[0][0].shape[:2], np.nan, np.float32)
        return self.truths[frame]
