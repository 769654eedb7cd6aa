"""The last pairs, averaged where they show the same: more light for the present one.

Each earlier image is looked at from the present view (:mod:`~scotopic.fusion.warp`) and added where it agrees with what
has been added so far, the newest first. Older frames go in groups, each as large as all before it: one frame, one, two,
four, eight. A group's mean is as quiet as what it is compared with, so that the test finds ever fainter differences,
and what moves by itself has moved further in the older groups.

**The test.** ``e`` is the difference of the two means blurred by 2 px. Without a change its variance is::

    v = s^2 (1/n + 1/m) / (4 pi 2^2)  +  0.25 |gradient|^2

``s^2`` a frame's noise, ``n`` and ``m`` the frames behind either mean; the second part allows places to be 0.5 px off.
The mean of ``e^2 / v`` over the channels, at most 8, blurred by 5 px, is near 1 where nothing has changed. From 1.6 to
2.4 the group's weight falls to 0. The same is done at half and at quarter size, where a faint thing that is large
shows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic

from scotopic.arrays import Array
from scotopic.backends.protocol import Backend
from scotopic.fusion.geometry import Matrix, StereoCamera, inverse
from scotopic.fusion.motion import gradient
from scotopic.fusion.warp import look_back
from scotopic.inputs import is_equal
from scotopic.stages.noise import NoiseModel

FINE, WIDE = 2.0, 5.0  #: px, blur of the differences and of their energy
SIZES, MIN_SIDE = 3, 64  #: sizes of the test, and px along the shorter side that are enough to be halved
MISPLACED = 0.25  #: px^2, how far off places may be, squared
MOST = 8.0  #: of a single pixel's value in the test, so that a strong change does not reach far around it
ALIKE, DIFFERENT = 1.6, 2.4  #: the test's values between which a weight falls from 1 to 0


@dataclass(frozen=True, eq=False)
class Frame(Generic[Array]):
    """A pair that was recorded: both images, which of their pixels count (``None``: all), and from where.

    ``pose`` takes points of its left camera to the first one's, in baselines. ``gain`` and ``offset`` of both views
    take values of the reference, a frame of the window, to its own. ``number`` counts the pairs of the stream.
    """

    images: tuple[Array, Array]
    valid: tuple[Array | None, Array | None]
    pose: Matrix
    gain: tuple[float, float] = (1.0, 1.0)
    offset: tuple[float, float] = (0.0, 0.0)
    number: int = 0
    _quarters: dict[int, Array] = field(default_factory=dict, init=False, repr=False)

    def repeats(self, images: Sequence[Array]) -> tuple[bool, bool]:
        """Return which of its views are the same as those of a pair, in every pixel. Noise never is: no new light."""
        return is_equal(self.images[0], images[0]), is_equal(self.images[1], images[1])

    def quarter(self, backend: Backend[Array], view: int) -> Array:
        """Return an image in the values of the reference at quarter size, and as a last channel which pixels count.

        It is kept: a frame is looked at again with each pair that follows.
        """
        if view not in self._quarters:
            xp, image, valid = backend.xp, self.images[view], self.valid[view]
            counts = xp.ones_like(image[..., :1]) if valid is None else xp.astype(valid, xp.float32)[..., None]
            self._quarters[view] = backend.halve(backend.halve(xp.concat([image, counts], axis=2)))
        small, gain, offset = self._quarters[view], self.gain[view], self.offset[view]
        if (gain, offset) == (1.0, 0.0):
            return small
        return backend.xp.concat([(small[..., :-1] - offset) / gain, small[..., -1:]], axis=2)

    def worth(self, view: int, most: float) -> float:
        """Return how much light a view is worth, in that of the reference: half of its contrast is a quarter."""
        return min(self.gain[view] ** 2, most)

    def with_reference(self, reference: Frame[Array]) -> Frame[Array]:
        """Return the frame with gain and offset from another reference."""
        gain = self.gain[0] / reference.gain[0], self.gain[1] / reference.gain[1]
        offset = self.offset[0] - gain[0] * reference.offset[0], self.offset[1] - gain[1] * reference.offset[1]
        return replace(self, gain=gain, offset=offset)


@dataclass(frozen=True, eq=False)
class FusedView(Generic[Array]):
    """One view, averaged: the image, and on how many frames with the light of the reference each pixel rests."""

    image: Array
    frames: Array


@dataclass(frozen=True, eq=False)
class Moving(Generic[Array]):
    """What moves by itself: to the right and down, in px a frame, and its pixels in both views."""

    velocity: tuple[float, float]
    pixels: tuple[Array, Array]

    def step(self, age: int) -> tuple[int, int]:
        """Return how far it has moved since a frame of this age, in whole px."""
        return math.floor(self.velocity[0] * age + 0.5), math.floor(self.velocity[1] * age + 0.5)


def fuse_view(
    backend: Backend[Array],
    camera: StereoCamera,
    present: Frame[Array],
    others: Sequence[Frame[Array]],
    disparity: Array,
    noise: NoiseModel,
    view: int,
    most: float = 1.0,
    moving: Sequence[Moving[Array]] = (),
) -> FusedView[Array]:
    """Return one view of a frame, with the light of others added, the first of them first.

    No frame counts as more than `most` with the light of the reference. What is `moving` is looked up where it was.
    """
    xp = backend.xp
    mean, own = exposed(present, view), present.valid[view]
    count = (xp.ones_like(mean[..., 0]) if own is None else xp.astype(own, xp.float32)) * present.worth(view, most)
    for group in _doubling(others):
        total, weight = 0 * mean, 0 * count
        for frame in group:
            stack = image = exposed(frame, view)
            valid = frame.valid[view]
            if moving and valid is None:
                valid = xp.ones_like(image[..., 0])  # what is moved has edges
            if valid is not None:
                stack = xp.concat([image, xp.astype(valid, xp.float32)[..., None]], axis=2)
            to_frame = inverse(frame.pose) @ present.pose
            seen, is_seen = look_back(backend, camera, stack, disparity, to_frame, view == 1)
            share = xp.astype(is_seen, xp.float32)
            for thing in moving:
                step = thing.step(present.number - frame.number)
                there, is_there = look_back(
                    backend, camera, shifted(backend, stack, *step), disparity, to_frame, view == 1
                )
                seen = xp.where(thing.pixels[view][..., None], there, seen)
                share = xp.where(thing.pixels[view], xp.astype(is_there, xp.float32), share)
            share = share * frame.worth(view, most)
            if valid is not None:
                share, seen = share * seen[..., -1], seen[..., :-1]
            total, weight = total + seen * share[..., None], weight + share
        average = total / xp.clip(weight, min=1e-6)[..., None]
        weight = weight * _agreement(backend, mean, count, average, weight, noise)
        both = count + weight
        share = weight / xp.clip(both, min=1e-6)
        mean, count = mean + (average - mean) * share[..., None], both
    return FusedView(mean, count)


def shifted(backend: Backend[Array], values: Array, right: int, down: int) -> Array:
    """Return an image or a map moved by whole pixels; 0 where nothing has come from."""
    if (right, down) == (0, 0):
        return values
    height, width = values.shape[:2]
    moved = backend.xp.zeros_like(values)
    if abs(right) < width and abs(down) < height:
        to = slice(max(down, 0), height + min(down, 0)), slice(max(right, 0), width + min(right, 0))
        since = slice(max(-down, 0), height + min(-down, 0)), slice(max(-right, 0), width + min(-right, 0))
        moved[to] = values[since]
    return moved


def exposed(frame: Frame[Array], view: int) -> Array:
    """Return an image in the values of the window's reference."""
    image, gain, offset = frame.images[view], frame.gain[view], frame.offset[view]
    return image if (gain, offset) == (1.0, 0.0) else (image - offset) / gain


def _doubling(frames: Sequence[Frame[Array]]) -> Iterator[Sequence[Frame[Array]]]:
    """Yield groups of frames, each as large as all before it and the present frame."""
    done = 0
    while done < len(frames):
        size = done + 1
        yield frames[done : done + size]
        done += size


def _agreement(
    backend: Backend[Array], mean: Array, count: Array, other: Array, weight: Array, noise: NoiseModel
) -> Array:
    """Return the weight of a group of frames, from 0 to 1, by how well its mean agrees with that of the newer ones."""
    xp, (height, width) = backend.xp, count.shape
    both = xp.astype((count > 0) & (weight > 0), xp.float32)
    frames = 1 / xp.clip(count, min=1e-6) + 1 / xp.clip(weight, min=1e-6)
    variance = noise.recorded_variance(backend.blur(mean, FINE)) * (frames * both)[..., None]
    difference = (other - mean) * both[..., None]
    agreement = xp.ones_like(count)
    for size in range(SIZES):
        if size > 0:
            if min(both.shape) < MIN_SIDE:
                break
            mean, difference, both = (backend.halve(each) for each in (mean, difference, both))
            variance = backend.halve(variance) / 4  # of means of four
        alike = _test(backend, mean, difference, variance, both)
        for _ in range(size):
            alike = backend.resize_linear(alike, 2)
        agreement = xp.minimum(agreement, alike[:height, :width])
    return agreement


def _test(backend: Backend[Array], mean: Array, difference: Array, variance: Array, seen: Array) -> Array:
    """Return the agreement at one size."""
    xp = backend.xp
    blurred = backend.blur_views(xp.stack([mean, variance, difference]), FINE)
    across, down = gradient(backend, blurred[0])
    expected = blurred[1] * (1 / (4 * math.pi * FINE**2)) + MISPLACED * (across * across + down * down)
    energy = xp.mean(blurred[2] * blurred[2] / xp.clip(expected, min=1e-12), axis=2)
    wide = backend.blur_views(xp.stack([xp.clip(energy, max=MOST) * seen, seen]), WIDE)
    found = wide[0] / xp.clip(wide[1], min=1e-3)
    return xp.clip((DIFFERENT - found) / (DIFFERENT - ALIKE), min=0, max=1)
