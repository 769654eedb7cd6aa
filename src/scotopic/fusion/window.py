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
from functools import partial
from typing import Generic

import numpy as np

from scotopic.arrays import Array
from scotopic.backends.protocol import Backend, Look
from scotopic.fusion.geometry import Matrix, StereoCamera, inverse
from scotopic.fusion.motion import gradient
from scotopic.fusion.warp import HIDDEN
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
    _quarters: dict[int, tuple[Array, Array]] = field(default_factory=dict, init=False, repr=False)

    def repeats(self, images: Sequence[Array]) -> tuple[bool, bool]:
        """Return which of its views are the same as those of a pair, in every pixel. Noise never is: no new light."""
        return is_equal(self.images[0], images[0]), is_equal(self.images[1], images[1])

    def counts(self, backend: Backend[Array], view: int, everywhere: Array) -> Array:
        """Return with 0 and 1 which pixels of a view count; what is 1 `everywhere` if all do."""
        valid = self.valid[view]
        return everywhere if valid is None else backend.xp.astype(valid, backend.xp.float32)

    def quarter(self, backend: Backend[Array], view: int) -> tuple[Array, Array]:
        """Return an image at quarter size, and with 0 and 1 which of its pixels count.

        It is kept: a frame is looked at again with each pair that follows.
        """
        if view not in self._quarters:
            small = backend.halve(backend.halve(self.images[view]))
            everywhere, valid = backend.xp.ones_like(small[..., 0]), self.valid[view]
            counts = self.counts(backend, view, everywhere)
            if valid is not None:
                counts = backend.xp.astype(backend.halve(backend.halve(counts)) > 0.99, backend.xp.float32)
            self._quarters[view] = small, counts
        return self._quarters[view]

    def expose(self, image: Array, view: int) -> Array:
        """Return an image of a view in the values of the reference."""
        gain, offset = self.gain[view], self.offset[view]
        return image if (gain, offset) == (1.0, 0.0) else (image - offset) / gain

    def look(
        self,
        camera: StereoCamera,
        present: Frame[Array],
        view: int,
        most: float,
        step: tuple[int, int] = (0, 0),
    ) -> Look:
        """Return how a view is looked at from that of the present frame; its values become those of the reference."""
        place = camera.projection(inverse(self.pose) @ present.pose, view == 1)
        return Look(place, self.worth(view, most), self.gain[view], self.offset[view], step)

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


def fuse_views(
    backend: Backend[Array],
    camera: StereoCamera,
    present: Frame[Array],
    others: Sequence[Frame[Array]],
    disparities: Sequence[Array],
    noise: NoiseModel,
    most: float = 1.0,
    moving: Sequence[Moving[Array]] = (),
) -> tuple[FusedView[Array], FusedView[Array]]:
    """Return both views of a frame, with the light of others added, the first of them first.

    No frame counts as more than `most` with the light of the reference. What is `moving` is looked up where it was.
    """
    looks: list[Look] = []
    arrays: list[Array] = []
    everywhere = backend.xp.ones_like(disparities[0])
    ages = [present.number - frame.number for frame in others]
    layers = [[(0, 0)] * len(others)] + [[thing.step(age) for age in ages] for thing in moving]
    for view in (0, 1):
        for steps in layers:
            looks += [frame.look(camera, present, view, most, step) for frame, step in zip(others, steps, strict=True)]
        own = present.counts(backend, view, everywhere) * present.worth(view, most)
        arrays += [present.expose(present.images[view], view), own, disparities[view] + camera.doffs]
        arrays += [thing.pixels[view] for thing in moving]
        for frame in others:
            arrays += [frame.images[view], frame.counts(backend, view, everywhere)]
    if not others:
        return FusedView(arrays[0], arrays[1]), FusedView(arrays[3], arrays[4])
    numbers = np.array([look.numbers() for look in looks], np.float32).reshape(2, len(layers), len(others), -1)
    work = partial(_fuse, backend, noise, len(moving))
    found = backend.replayed(("fuse", noise, len(moving)), work, backend.asarray(numbers), *arrays)
    return FusedView(found[0], found[1]), FusedView(found[2], found[3])


def _fuse(backend: Backend[Array], noise: NoiseModel, things: int, looks: Array, *views: Array) -> list[Array]:
    """Return image and light of both views.

    ``views`` are, of each view, the present image and its light, the points' ``q``, the pixels of each of the `things`
    that move, and the other images with what counts of them. ``looks`` are those at rest, and along with each thing.
    Nothing is read back from the device, so that all of it can be recorded.
    """
    xp, length = backend.xp, len(views) // 2
    fused: list[Array] = []
    for view in (0, 1):
        own = views[view * length : (view + 1) * length]
        mean, count, q = own[:3]
        moving, images, counts = own[3 : 3 + things], own[3 + things :: 2], own[4 + things :: 2]
        for group in _doubling(len(images)):
            look_back = partial(backend.look_back, images[group], counts[group], q)
            total, weight = look_back(looks[view][0][group], HIDDEN)
            for pixels, look in zip(moving, looks[view][1:], strict=True):
                there, light = look_back(look[group], HIDDEN)
                total, weight = xp.where(pixels[..., None], there, total), xp.where(pixels, light, weight)
            average = total / xp.clip(weight, min=1e-6)[..., None]
            weight = weight * _agreement(backend, mean, count, average, weight, noise)
            both = count + weight
            share = weight / xp.clip(both, min=1e-6)
            mean, count = mean + (average - mean) * share[..., None], both
        fused += [mean, count]
    return fused


def _doubling(count: int) -> Iterator[slice]:
    """Yield groups of so many frames, each as large as all before it and the present frame."""
    done = 0
    while done < count:
        yield slice(done, 2 * done + 1)
        done = 2 * done + 1


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
