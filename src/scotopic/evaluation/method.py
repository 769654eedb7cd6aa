"""What a stereo method is to the benchmark: a pair in, a prediction out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from scotopic.evaluation.scene import Scene

Map = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a method says of the left view.

    Attributes
    ----------
    disparity
        ``(H, W)`` px, NaN where the method gives no answer: the method at its own mask.
    dense
        The answer at every pixel for which the method has one at all, also where it would rather not give it; equal to
        ``disparity`` for a method that knows no more. Matched coverage and risk-coverage curves draw from it.
    confidence
        ``(H, W)``, higher is surer, in any unit: only the order matters. Defined where ``dense`` is.
    seconds
        How long the method takes, where that is not how long this call took: one that reuses an earlier result of its
        own has to count it in. ``None`` to have the call timed.
    """

    disparity: Map
    dense: Map
    confidence: Map
    seconds: float | None = None


class Method(Protocol):
    """A row of the table."""

    name: str  #: unique, as it is shown and as it names files

    def __call__(self, left: Map, right: Map, scene: Scene, max_disparity: int) -> Prediction:
        """Match a noisy pair.

        Parameters
        ----------
        left, right
            The noisy pair, ``(H, W, C)`` float32 in [0, 1].
        scene
            The clean scene, for methods that are a ceiling rather than a competitor, and for its name.
        max_disparity
            Candidates are ``0 <= d < max_disparity``.
        """
        ...
