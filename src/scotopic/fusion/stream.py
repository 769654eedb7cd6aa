"""Pairs of a stream, each matched with the light of those before it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any, Generic

import numpy as np

from scotopic.arrays import Array
from scotopic.backends.device import is_on_gpu, is_tensor, to_numpy
from scotopic.backends.protocol import Backend
from scotopic.depth import Calibration
from scotopic.errors import PairWarning, SettingsError
from scotopic.fusion.geometry import Matrix, StereoCamera
from scotopic.fusion.tracker import FusedPair, Tracker, warn_beyond_infinity
from scotopic.inputs import shows_nothing
from scotopic.io.masks import Mask
from scotopic.levels import Levels
from scotopic.result import Match
from scotopic.settings import Settings
from scotopic.stages.consistency import Reason

MOST = 256  #: frames that can be fused; each is kept

#: Matches two images; the second list is the light that each of their pixels rests on.
MatchFused = Callable[[list[Any], list[Any]], Match]

#: What to tell the user of a camera that has stalled.
REPEATED = (
    "Pair {number} has {which} of the pair before again, equal in every pixel, which noise never is. It adds no light. "
    "Check whether the camera has stalled."
)

Masks = tuple[Mask | None, Mask | None]  #: which pixels of both views are masked, if any


class FusedStream(Generic[Array]):
    """Matches the pairs of a stream, each with the light of those before it.

    Parameters
    ----------
    backend, run
        The device, and what matches on it.
    settings
        Of the matches.
    shape
        ``(height, width, channels)``.
    fuse
        Pairs to fuse, the present one included.
    calibration
        Of the rectified images; ``None`` assumes a focal length equal to the width and a centered axis.

    Attributes
    ----------
    repeated
        Numbers of the pairs, from 0 on, of which a view is that of the pair before.
    """

    def __init__(
        self,
        backend: Backend[Array],
        run: MatchFused,
        settings: Settings,
        shape: tuple[int, ...],
        fuse: int,
        calibration: Calibration | None,
    ) -> None:
        self._backend: Backend[Array] = backend
        self._run, self._settings = run, settings
        self._camera = camera_for(calibration, shape)
        self._tracker: Tracker[Array] = Tracker(backend, self._camera, check_fuse(fuse))
        self._levels: Levels | None = None
        self._count = 0  # pairs so far
        self._last: Match | None = None
        self.repeated: list[int] = []
        self._of_reference: dict[int, Levels] = {0: Levels()}  # in values that the levels were applied to

    def match(
        self,
        images: Sequence[Any],
        masks: Masks,
        find_levels: Callable[[Sequence[Any]], Levels],
    ) -> Match:
        """Return the match of the next pair; a pair that shows nothing is passed over.

        A pair that is the last one again, in every pixel, gets its answer again.
        """
        number, self._count = self._count, self._count + 1
        if any(shows_nothing(image) for image in images):
            self._tracker.skip()
            return self._empty(images).masked(*masks)
        if self._levels is None:  # those of the first pair for all: levels of their own would flicker
            self._levels = find_levels(images)
        left, right = (self._backend.asarray(self._levels.apply(image)) for image in images)
        if any(repeated := self._tracker.repeated((left, right))):
            self._note_repeat(number, repeated)
            if all(repeated) and self._last is not None:
                self._tracker.skip()
                return with_own_arrays(replace(self._last, timings={}))
        fused = self._tracker.add((left, right), valid_pixels(self._backend, masks))
        # After a cut, or when the light has changed, frames may be much darker, or brighter, than the first.
        if (reference := self._tracker.reference) not in self._of_reference:
            exposure = Levels(fused.offset, fused.offset + fused.gain)
            self._of_reference[reference] = find_levels(images).within(self._levels).within(exposure)
        levels = self._of_reference[reference]
        views = [levels.apply(view.image) for view in (fused.left, fused.right)]
        result = restore_colors(self._run(views, light_of(self._backend, fused)), levels)
        if self._last is None:
            warn_beyond_infinity(result, self._camera)
        self._tracker.learn(result, fused)
        result = describe_fused(result, fused, self._camera.unit, self._levels, images)
        self._last = mask_unseen(result, fused, masks)
        return with_own_arrays(self._last)

    def _note_repeat(self, number: int, views: tuple[bool, bool]) -> None:
        """Note that a pair is not new light; warn of the first of several in a row."""
        if self.repeated[-1:] != [number - 1]:
            which = "both views" if all(views) else f"the {'left' if views[0] else 'right'} view"
            warnings.warn(REPEATED.format(which=which, number=number), PairWarning, stacklevel=4)
        self.repeated.append(number)

    def _empty(self, images: Sequence[Any]) -> Match:
        """Return the match of a pair that shows nothing; the rig is where it was last seen."""
        result = Match.empty(images[0], images[1], self._settings, Reason.NO_STRUCTURE)
        pose, covariance = in_unit(*self._tracker.pose, self._camera.unit)
        nothing = np.zeros(result.reason.shape, np.float32)
        views = result.left_image, result.right_image
        return replace(
            result, pose=pose, pose_covariance=covariance, frames=nothing, fused_left=views[0], fused_right=views[1]
        )


def with_own_arrays(match: Match) -> Match:
    """Return a match with copies of its arrays: the stream goes on with its own, whatever is done to these."""
    values = {each.name: getattr(match, each.name) for each in fields(match)}
    copies: dict[str, Any] = {name: array.clone() for name, array in values.items() if is_tensor(array)}
    copies |= {name: array.copy() for name, array in values.items() if isinstance(array, np.ndarray)}
    return replace(match, **copies)


def describe_fused(result: Match, fused: FusedPair[Array], unit: float, levels: Levels, images: Sequence[Any]) -> Match:
    """Return the match of a fused pair with what fusion adds, in recorded values and in the calibration's unit.

    ``images`` are those that were recorded. The result is on their device.
    """
    pose, covariance = in_unit(fused.pose, fused.covariance, unit)
    views: list[Any] = [levels.restore(view.image) for view in (fused.left, fused.right)]
    frames: Any = fused.frames
    result = replace(
        restore_colors(result, levels),
        left_image=images[0],
        right_image=images[1],
        denoised=None,
        pose=pose,
        pose_covariance=covariance,
        frames=frames,
        fused_left=views[0],
        fused_right=views[1],
    )
    return result if is_on_gpu(images[0]) else result.to_numpy()


def check_fuse(fuse: int) -> int:
    """Return the number of pairs to fuse, or raise :class:`SettingsError`."""
    if isinstance(fuse, bool) or not isinstance(fuse, int | np.integer) or not 1 <= fuse <= MOST:
        raise SettingsError(f"fuse is the number of pairs to fuse, a whole number from 1 to {MOST}, not {fuse!r}.")
    return int(fuse)


def camera_for(calibration: Calibration | None, shape: tuple[int, ...]) -> StereoCamera:
    """Return the cameras of a calibration for images of this size, or those that are assumed without one."""
    if calibration is None:
        return StereoCamera.assumed(shape)
    return StereoCamera.from_calibration(calibration.for_image(shape[1], shape[0]))


def light_of(backend: Backend[Array], fused: FusedPair[Array]) -> list[Array]:
    """Return how much light each pixel of both views rests on, as a share of what most of them rest on."""
    shares = []
    for view in (fused.left, fused.right):
        typical = max(backend.quantile(view.frames, 0.5), 1.0)
        shares.append(backend.xp.clip(view.frames / typical, min=0.5 / typical, max=1.0))
    return shares


def restore_colors(result: Match, levels: Levels) -> Match:
    """Return a match whose colors are recorded values, as its images are."""
    if levels.is_full:
        return result
    colors = levels.restore(result.left_colors), levels.restore(result.right_colors)
    denoised = result.denoised and (levels.restore(result.denoised[0]), levels.restore(result.denoised[1]))
    return replace(result, left_colors=colors[0], right_colors=colors[1], denoised=denoised)


def in_unit(pose: Matrix, covariance: Matrix, unit: float) -> tuple[Matrix, Matrix]:
    """Return a pose and its covariance with lengths in another unit than baselines."""
    scaled, scale = pose.copy(), np.repeat([unit, 1.0], 3)
    scaled[:3, 3] *= unit
    return scaled, covariance * scale * scale[:, None]


def valid_pixels(backend: Backend[Array], masks: Masks) -> tuple[Array | None, Array | None]:
    """Return which pixels of both views are not masked; ``None`` for all."""
    left, right = (None if mask is None else backend.asarray(~mask) for mask in masks)
    return left, right


def mask_unseen(result: Match, fused: FusedPair[Array], masks: Masks) -> Match:
    """Return a match without what is masked in its pair and was not seen in another one."""
    unseen = []
    for mask, view in zip(masks, (fused.left, fused.right), strict=True):
        (counts,) = to_numpy(view.frames)
        unseen.append(None if mask is None else np.asarray(mask & (counts < 0.5)))
    return result.masked(*unseen)
