"""What moves by itself: how fast it does, so that its own past can be added to it.

A thing that moves in the scene is out of place in earlier frames, the older they are the more. To leave it out of them
is no help: it would keep the light of one pair amid surroundings with that of sixteen, and matching spreads the
disparity of what is well lit over what is not. So its frames are aligned with its own motion, a constant velocity.

**The test.** Frames at quarter size are looked at from the present view as if nothing moved, and averaged by fours. For
each of forty velocities these means are shifted back accordingly, and each is compared with the mean of all newer ones.
``e`` is their difference blurred by 1 px, and ``v`` its variance by noise alone. The comparisons together hold all that
the means differ by, so that ::

    L(velocity) = sum over comparisons of the mean of e^2 / v over channels and both views

falls as the log-likelihood of a velocity rises. ``L(0) - L(velocity)`` is blurred by ``w = 3`` px. Where there is
nothing but noise its variance is at most ``4 n / (c N)``, for ``n`` comparisons of ``c`` channels at ``N = 4 w^2``
independent places in both views. A velocity is believed from five times the root of that, and around such a place from
twice the root, at the pixels that speak for it when the blur is 1.5 px. Pixels of the test are four of the image's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from scotopic.arrays import Array
from scotopic.backends.device import to_numpy
from scotopic.backends.protocol import Backend
from scotopic.fusion.geometry import StereoCamera
from scotopic.fusion.warp import HIDDEN
from scotopic.fusion.window import Frame, Moving
from scotopic.stages.noise import NoiseModel
from scotopic.subpixel import nearest_pixel

SCALE = 4  #: full-size px along a side of a pixel of the test
TOGETHER = 4  #: frames that are averaged before they are compared
FASTEST = 2  #: px a frame along rows and columns
FINE, NARROW, WIDE = 1.0, 1.5, 3.0  #: px of the test, blur of the differences and of their energy
MOST = 8.0  #: of the energy of a single pixel
SURE, NEARBY = 5.0, 2.0  #: standard deviations from which on a velocity is believed, and around such a place
AROUND = 5.0  #: px of the test, how far that reaches
MARGIN = 3  #: px of the test along the edges, where other things come into view
MIN_SIDE, MIN_PIXELS = 24, 24  #: px of the test: of an image's shorter side, and of a thing that moves
MOST_THINGS = 2  #: velocities that are followed
#: To the right and down. Things that move slowly are told apart more finely.
VELOCITIES = tuple(
    (right / 2, down / 2)
    for down in range(-2 * FASTEST, 2 * FASTEST + 1)
    for right in range(-2 * FASTEST, 2 * FASTEST + 1)
    if (right, down) != (0, 0) and (max(abs(right), abs(down)) <= 2 or (right % 2 == 0 and down % 2 == 0))
)


def find_moving(
    backend: Backend[Array],
    camera: StereoCamera,
    present: Frame[Array],
    others: Sequence[Frame[Array]],
    disparities: Sequence[Array],
    noise: NoiseModel,
    most: float,
) -> list[Moving[Array]]:
    """Return what moves by itself, the largest first. ``disparities`` are those of both views, as carried along."""
    shape = present.images[0].shape[:2]
    if len(others) < 2 * TOGETHER - 1 or min(shape) < MIN_SIDE * SCALE:
        return []
    camera = camera.halved().halved()
    window = list(others)
    window.insert(0, present)
    parts = [window[start : start + TOGETHER] for start in range(0, len(window) - TOGETHER + 1, TOGETHER)]
    frames = window[1 : TOGETHER * len(parts)]
    threshold = _threshold(len(parts), present.images[0].shape[2])
    looks = [[frame.look(camera, present, view, most).numbers() for frame in frames] for view in (0, 1)]
    ages = [sum(present.number - frame.number for frame in part) / len(part) for part in parts]
    steps = [[[math.floor(speed * age / SCALE + 0.5) for speed in velocity] for age in ages] for velocity in VELOCITIES]
    arrays = [backend.asarray(np.array(looks, np.float32)), backend.asarray(np.array(steps, np.int32))]
    for view in (0, 1):
        image, counts = present.quarter(backend, view)
        arrays += [disparities[view], present.expose(image, view), counts * present.worth(view, most)]
        for frame in frames:
            arrays += frame.quarter(backend, view)
    work = partial(_compare_velocities, backend, camera.doffs, noise, threshold)
    found = backend.replayed(("moving", camera.doffs, noise, threshold), work, *arrays)
    return _gather(backend, found[0], found[1], found[2:], threshold, shape)


def _threshold(parts: int, channels: int) -> float:
    """Return the gain from which on a velocity is believed."""
    places = 4 * (WIDE / FINE) ** 2
    return SURE * math.sqrt(4 * (parts - 1) / (channels * places))


def _compare_velocities(
    backend: Backend[Array],
    doffs: float,
    noise: NoiseModel,
    threshold: float,
    looks: Array,
    steps: Array,
    *views: Array,
) -> list[Array]:
    """Return the gain of each velocity over rest in both views, what speaks for it, and the disparities of the test.

    ``views`` are, of each view, its disparity, the present image with its weights, and the other images with what
    counts of them. Nothing is read back from the device, so that all of it can be recorded.
    """
    xp, length = backend.xp, len(views) // 2
    small: list[Array] = []
    totals: list[Array] = []
    weights: list[Array] = []
    for view in (0, 1):
        own = views[view * length : (view + 1) * length]
        (disparity, image, share), images, counts = own[:3], own[3::2], own[4::2]
        small.append(backend.halve(backend.halve(disparity)) / SCALE)
        for start in range(-1, len(images), TOGETHER):  # the present frame is the first of the first part
            part = slice(max(start, 0), start + TOGETHER)
            total, weight = backend.look_back(
                images[part], counts[part], small[view] + doffs, looks[view][part], HIDDEN / SCALE
            )
            if start < 0:
                total, weight = total + image * share[..., None], weight + share
            totals.append(total)
            weights.append(weight)
    total, weight = xp.stack(totals), xp.stack(weights)
    is_seen = xp.astype(weight > 0, xp.float32)[..., None]
    blurred = backend.blur_views(xp.concat([total / xp.clip(weight, min=1e-6)[..., None], is_seen], axis=3), FINE)
    mean = blurred[..., :-1] / xp.clip(blurred[..., -1:], min=1e-6)
    height, width, channels = mean.shape[1:]
    means = xp.reshape(xp.moveaxis(mean, -1, 1), (2, -1, channels, height, width))
    weight = xp.reshape(weight, (2, -1, height, width))
    variance = noise.recorded_variance(means[:, 0])  # of a pixel of a frame at full size
    certainty = SCALE**2 * 4 * math.pi * FINE**2 / xp.clip(variance, min=1e-12)
    gains = backend.velocity_gains(means, weight, certainty, steps, MOST, MARGIN)
    wide = backend.blur_views(_pool(backend, gains, small, 0), WIDE)
    is_best = (wide == xp.max(wide, axis=0)) & (wide > threshold)
    evidence = xp.sum(xp.reshape(xp.where(is_best, wide, 0.0), (len(VELOCITIES), -1)), axis=1)
    return [gains, evidence, small[0], small[1]]


def _pool(backend: Backend[Array], gains: Array, disparities: Sequence[Array], view: int) -> Array:
    """Return the gains of some velocities in one view, their mean with what the other view sees of the same points."""
    xp, (count, _, height, width) = backend.xp, gains.shape
    offset = -disparities[view] if view == 0 else disparities[view]
    column = nearest_pixel(xp.astype(backend.arange(width), xp.float32) + offset, xp)
    place = xp.astype(xp.clip(column, min=0, max=width - 1), xp.int64)
    place = place + xp.reshape(backend.arange(height), (height, 1)) * width
    other = xp.take(xp.reshape(gains[:, 1 - view], (count, -1)), xp.reshape(place, (-1,)), axis=1)
    pooled: Array = (gains[:, view] + xp.reshape(other, (count, height, width))) / 2
    return pooled


def _gather(
    backend: Backend[Array],
    gains: Array,
    evidence: Array,
    disparities: Sequence[Array],
    threshold: float,
    shape: tuple[int, ...],
) -> list[Moving[Array]]:
    """Return what has moved, by the gains of all velocities over standing still in both views."""
    xp, (found,) = backend.xp, to_numpy(evidence)
    largest = [int(number) for number in np.argsort(-found, kind="stable")[:MOST_THINGS]]
    largest = [number for number in largest if found[number] >= MIN_PIXELS * threshold]
    if not largest:
        return []
    kept = xp.stack([gains[number] for number in largest])
    marks: list[list[Array]] = []
    for view in (0, 1):
        pooled = _pool(backend, kept, disparities, view)
        wide, narrow = backend.blur_views(pooled, WIDE), backend.blur_views(pooled, NARROW)
        near = backend.blur_views(xp.astype(wide > threshold, xp.float32), AROUND) > 0.01
        is_best = (wide == xp.max(wide, axis=0)) & (wide > NEARBY / SURE * threshold)
        marks.append([_enlarge(backend, each, shape) for each in near & is_best & (narrow > 0)])
    return [Moving(VELOCITIES[number], (left, right)) for number, left, right in zip(largest, *marks, strict=True)]


def _enlarge(backend: Backend[Array], marks: Array, shape: tuple[int, ...]) -> Array:
    """Return marked pixels at full size."""
    xp = backend.xp
    soft = backend.resize_linear(xp.astype(marks, xp.float32), SCALE)
    return soft[: shape[0], : shape[1]] > 0.5
