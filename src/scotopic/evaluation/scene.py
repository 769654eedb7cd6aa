"""One scene of a data set, whatever data set it came from."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scotopic.depth import Calibration
from scotopic.evaluation.sequence import Pair, StereoSequence


@dataclass(frozen=True)
class Noise:
    """The noise that a pair is known to have; values are fractions of full scale."""

    std: float  #: standard deviation: the largest over all light levels; 0 if there is no noise
    black: float = 0.0  #: mean recorded value of black
    white: float = 1.0  #: ... and of white


@dataclass(frozen=True, eq=False)
class Scene:
    """A rectified pair with its truth, at the size of the protocol.

    Attributes
    ----------
    dataset, name
        Where it comes from; together they are unique.
    left, right
        The clean pair, ``(H, W, C)`` float32 in [0, 1].
    truth
        Disparity, ``(H, W)`` float32 px, NaN where unknown; resized by validity-aware nearest neighbor (our default).
    truth_paper
        The same resized as the paper does it: area averaging with unknown as 0, and unknown where all was
        unknown. Values are smeared at holes.
    visible
        Where the right view sees the point too, or ``None`` where the data set does not say.
    calibration
        At the size of the protocol, or ``None``.
    scale
        Size of this scene over the data set's full size.
    max_disparity
        Upper end of the disparities that the data set states for the scene, in px at this size, or ``None``.
    noise
        The noise of the pair that methods are given, or ``None`` if nobody knows it, as in a real recording.
    sequence
        All frames, clean, if the scene is a sequence.
    recorded
        Its noisy frames up to the present one, which is the pair that methods are given.
    """

    dataset: str
    name: str
    left: NDArray[np.float32]
    right: NDArray[np.float32]
    truth: NDArray[np.float32]
    truth_paper: NDArray[np.float32]
    visible: NDArray[np.bool_] | None
    calibration: Calibration | None
    scale: float
    max_disparity: int | None = None
    noise: Noise | None = None
    sequence: StereoSequence | None = None
    recorded: tuple[Pair, ...] = ()
