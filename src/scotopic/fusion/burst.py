"""All frames of a burst as one answer for one of them, forward and backward in time.

The frames nearest to the reference come first. Each is aligned with the reference itself, so that no errors add up.
Whenever the number of frames has doubled, the reference is matched again with all their light, and the frames are
aligned once more with that clearer picture.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Generic

import numpy as np

from scotopic.arrays import Array
from scotopic.backends.protocol import Backend
from scotopic.errors import PairWarning
from scotopic.fusion.geometry import Matrix, StereoCamera, inverse
from scotopic.fusion.motion import Motion, estimate_motion
from scotopic.fusion.tracker import (
    FROM_REST,
    FusedPair,
    Known,
    find_brightening,
    find_exposure,
    learn_from,
    shows_the_same,
    warn_beyond_infinity,
)
from scotopic.fusion.window import Frame, fuse_views
from scotopic.inputs import is_equal
from scotopic.progress import Progress, Stage, silent
from scotopic.result import Match
from scotopic.settings import NoiseSettings
from scotopic.stages.noise import estimate_noise

ALIGNMENT = Stage("alignment", "finds how the camera moved between the frames", 0.5)


class Burst(Generic[Array]):
    """A burst of pairs, seen from one of them.

    Parameters
    ----------
    backend
        The device.
    camera
        The calibrated rig.
    pairs
        Images of both views of each frame; ``None`` for a frame that shows nothing.
    valid
        Which pixels of both views of each frame count; ``None`` for all of a view.
    reference
        The number of the frame that the answer is for.
    """

    def __init__(
        self,
        backend: Backend[Array],
        camera: StereoCamera,
        pairs: Sequence[tuple[Array, Array] | None],
        valid: Sequence[tuple[Array | None, Array | None]],
        reference: int,
    ) -> None:
        self._backend: Backend[Array] = backend
        self._pairs: Sequence[tuple[Array, Array] | None] = pairs
        self._valid: Sequence[tuple[Array | None, Array | None]] = valid
        self._camera, self._reference = camera, reference
        self._motions: dict[int, Motion] = {}  # from the reference to each frame that shows the same scene
        self._known: Known[Array] | None = None
        pair = pairs[reference]
        assert pair is not None
        self._noise = estimate_noise(backend, pair, NoiseSettings())

    def fused(self, progress: Progress = silent) -> Iterator[FusedPair[Array]]:
        """Yield the reference alone, then with twice as many frames each time, then with all.

        Give what is found in each to :meth:`learn` before asking for the next. `progress` is told of
        :data:`ALIGNMENT`.
        """
        yield self._fuse()
        order = sorted(range(len(self._pairs)), key=lambda i: (abs(i - self._reference), i < self._reference))[1:]
        done = 0
        while done < len(order) and self._known is not None:
            done = min(2 * done + 1, len(order))
            for place, number in enumerate(order[:done]):
                progress(ALIGNMENT.name, place / done)
                self._align(number)
            progress(ALIGNMENT.name, 1.0)
            yield self._fuse()

    def learn(self, match: Match, fused: FusedPair[Array]) -> None:
        """Take in what was found in the fused reference."""
        if self._known is None:
            warn_beyond_infinity(match, self._camera)
        self._known = learn_from(self._backend, match, fused, self._noise)

    @property
    def poses(self) -> dict[int, Matrix]:
        """Where each frame was taken that was used: its left camera to the reference's, in baselines."""
        return {self._reference: np.eye(4), **{number: inverse(each.matrix) for number, each in self._motions.items()}}

    def _align(self, number: int) -> None:
        """Find the motion to a frame; forget the frame if it shows something else."""
        pair = self._pairs[number]
        if pair is None:
            return
        assert self._known is not None
        toward = 1 if number < self._reference else -1
        nearer = [number + toward * step for step in (0, 1, 2)]
        known = {self._reference: np.eye(4), **{number: each.matrix for number, each in self._motions.items()}}
        found = [known.get(each) for each in nearer]
        starts = [each for each in found if each is not None]
        if found[0] is None and found[1] is not None and found[2] is not None:
            starts.insert(0, found[1] @ inverse(found[2]) @ found[1])  # as it moved from the last but one to the last
        if found[0] is None:
            starts += FROM_REST
        motion = estimate_motion(self._backend, self._camera, self._known.template, list(pair), starts[:6])
        if shows_the_same(motion):
            self._motions[number] = motion
        else:
            self._motions.pop(number, None)

    def _fuse(self) -> FusedPair[Array]:
        backend, pair = self._backend, self._pairs[self._reference]
        assert pair is not None
        present = Frame(pair, self._valid[self._reference], np.eye(4))
        # The contrast of the denoised template may be a little low or high, alike for all frames.
        gains = [np.divide(each.gain, find_brightening(each)) for each in self._motions.values()]
        usual = np.median(gains, axis=0).tolist() if gains else (1.0, 1.0)
        others = []
        for number in sorted(self._motions, key=lambda i: abs(i - self._reference)):
            other = self._pairs[number]
            assert other is not None
            motion = self._motions[number]
            exposure = find_exposure(motion, (usual[0], usual[1]))
            others.append(Frame(other, self._valid[number], inverse(motion.matrix), *exposure))
        # Without others the disparities are not looked at.
        disparities = (pair[0][..., 0], pair[1][..., 0]) if self._known is None else self._known.disparities
        views = fuse_views(backend, self._camera, present, others, disparities, self._noise)
        return FusedPair(*views, np.eye(4), np.zeros((6, 6)))


def leave_out_repeats(pairs: list[list[Any] | None], reference: int) -> None:
    """Put ``None`` for the frames of a burst that repeat a view of another one, with a warning; the reference stays."""
    kept, repeated = list[list[Any]](), list[int]()
    for number in sorted(range(len(pairs)), key=lambda each: each != reference):
        pair = pairs[number]
        if pair is None:
            continue
        if any(is_equal(one, other) for earlier in kept for one, other in zip(earlier, pair, strict=True)):
            pairs[number] = None
            repeated.append(number)
        else:
            kept.append(pair)
    if repeated:
        shown = ", ".join(map(str, repeated[:10])) + (", ..." if len(repeated) > 10 else "")
        warnings.warn(
            f"{len(repeated)} of {len(pairs)} frames ({shown}) repeat others in every pixel, which noise never does. "
            "They add no light and are left out. Check whether the camera has stalled.",
            PairWarning,
            stacklevel=4,
        )
