"""What a stereo method is to the benchmark: a pair in, a prediction out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scotopic.evaluation.scene import Scene

Map = NDArray[np.float32]
Matrix = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a method predicts for the left view.

    Attributes
    ----------
    disparity
        ``(H, W)`` px, NaN where the method gives no answer: the method at its own mask.
    dense
        The answer at every pixel for which the method has one at all, also where it would rather not give it; equal to
        ``disparity`` for a method that knows no more. Matched coverage and risk-coverage curves draw from it.
    confidence
        ``(H, W)``, higher is more certain, in any unit: only the order matters. Defined where ``dense`` is.
    seconds
        How long the method takes, where that is not how long this call took: one that reuses an earlier result of its
        own has to count it in. ``None`` to have the call timed.
    poses, covariances
        Of a sequence: where its frames were taken, up to the present one, as :class:`~scotopic.Match` has them, and how
        sure that is; ``None`` for a method that does not ask.
    """

    disparity: Map
    dense: Map
    confidence: Map
    seconds: float | None = None
    poses: tuple[Matrix, ...] | None = None
    covariances: tuple[Matrix, ...] | None = None


#: What predicts. It is given the noisy pair, ``(H, W, C)`` float32 in [0, 1]; the clean scene, for its name and for
#: methods that are a ceiling rather than a competitor; and the number of candidates, ``0 <= d < max_disparity``.
Predict = Callable[[Map, Map, Scene, int], Prediction]


def _no_files(dataset: str, scene: str) -> Sequence[Path]:
    return ()


def _on_cpu() -> str:
    return "cpu"


@dataclass(frozen=True)
class Method:
    """A row of the table; call it with the noisy pair, the scene and the number of candidates."""

    name: str  #: unique; shown in tables and used in file names
    predict: Predict
    # What its answers depend on beside the pair. A benchmark repeats the method when one of these changes.
    settings: str = ""  #: all that configures it, as text
    #: Files that it reads for a scene, given the data set and the name; raises :class:`InputError` if one is missing.
    files: Callable[[str, str], Sequence[Path]] = _no_files
    libraries: tuple[str, ...] = ()  #: distributions that it uses, beside NumPy and OpenCV
    device: Callable[[], str] = _on_cpu  #: where it would run now

    def __call__(self, left: Map, right: Map, scene: Scene, max_disparity: int) -> Prediction:
        """Match a noisy pair."""
        return self.predict(left, right, scene, max_disparity)
