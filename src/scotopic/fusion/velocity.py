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

from scotopic.arrays import Array
from scotopic.backends.protocol import Backend
from scotopic.fusion.geometry import StereoCamera, inverse
from scotopic.fusion.warp import HIDDEN
from scotopic.fusion.window import Frame, Moving, shifted
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
    small = [backend.halve(backend.halve(disparity)) / SCALE for disparity in disparities]
    window = list(others)
    window.insert(0, present)
    whole = len(window) // TOGETHER * TOGETHER
    parts = [window[start : start + TOGETHER] for start in range(0, whole, TOGETHER)]
    means = [[_average(backend, camera, present, part, small[view], view, most) for part in parts] for view in (0, 1)]
    ages = [sum(present.number - frame.number for frame in part) / len(part) for part in parts]
    at_rest = _misfits(backend, means, ages, (0.0, 0.0), noise)
    gains = [
        [_gain(backend, *views) for views in zip(at_rest, _misfits(backend, means, ages, velocity, noise), strict=True)]
        for velocity in VELOCITIES
    ]
    channels, places = present.images[0].shape[2], 4 * (WIDE / FINE) ** 2
    threshold = SURE * math.sqrt(4 * (len(parts) - 1) / (channels * places))
    return _gather(backend, gains, small, threshold, shape)


def _average(
    backend: Backend[Array],
    camera: StereoCamera,
    present: Frame[Array],
    part: Sequence[Frame[Array]],
    disparity: Array,
    view: int,
    most: float,
) -> tuple[Array, Array]:
    """Return the mean of some frames at quarter size, seen from the present one as if nothing moved, and its light."""
    xp = backend.xp
    total, weight = 0 * disparity[..., None], 0 * disparity
    for frame in part:
        image, seen = frame.quarter(backend, view), xp.ones_like(disparity)
        if frame is not present:
            place = camera.projection(inverse(frame.pose) @ present.pose, view == 1)
            image, is_seen = backend.look_back(image, disparity + camera.doffs, place, HIDDEN / SCALE)
            seen = xp.astype(is_seen, xp.float32)
        image, seen = image[..., :-1], seen * xp.astype(image[..., -1] > 0.99, xp.float32) * frame.worth(view, most)
        total, weight = total + image * seen[..., None], weight + seen
    is_seen = xp.astype(weight > 0, xp.float32)
    blurred = backend.blur(xp.concat([total / xp.clip(weight, min=1e-6)[..., None], is_seen[..., None]], axis=2), FINE)
    return blurred[..., :-1] / xp.clip(blurred[..., -1:], min=1e-6), weight


def _misfits(
    backend: Backend[Array],
    means: Sequence[Sequence[tuple[Array, Array]]],
    ages: Sequence[float],
    velocity: tuple[float, float],
    noise: NoiseModel,
) -> list[list[Array]]:
    """Return for both views how much each mean differs from the newer ones if all moves with a velocity.

    It is 1 if by noise alone, and -1 where either is not seen.
    """
    xp = backend.xp
    found = []
    for parts in means:
        moved = []
        for (mean, weight), age in zip(parts, ages, strict=True):
            step = tuple(math.floor(speed * age / SCALE + 0.5) for speed in velocity)
            moved.append((shifted(backend, mean, *step), shifted(backend, weight, *step)))
        variance = noise.recorded_variance(parts[0][0])  # of a pixel of a frame at full size
        certainty = SCALE**2 * 4 * math.pi * FINE**2 / xp.clip(variance, min=1e-12)
        (mean, count), misfits = moved[0], []
        for other, weight in moved[1:]:
            both = (count > 0) & (weight > 0)
            frames = 1 / xp.clip(count, min=1e-6) + 1 / xp.clip(weight, min=1e-6)
            difference = other - mean
            energy = xp.mean(difference * difference * certainty, axis=2) / frames
            misfits.append(xp.where(both, xp.clip(energy, max=MOST), -1.0))
            share = weight / xp.clip(count + weight, min=1e-6)
            mean, count = mean + (other - mean) * share[..., None], count + weight
        found.append(misfits)
    return found


def _gain(backend: Backend[Array], at_rest: Sequence[Array], moved: Sequence[Array]) -> Array:
    """Return by how much a velocity fits better than standing still does; 0 where that cannot be told."""
    total = 0 * at_rest[0]
    for one, other in zip(at_rest, moved, strict=True):
        total = total + backend.xp.where((one >= 0) & (other >= 0), one - other, 0.0)
    gain = backend.xp.zeros_like(total)
    inside = slice(MARGIN, -MARGIN), slice(MARGIN, -MARGIN)
    gain[inside] = total[inside]
    return gain


def _gather(
    backend: Backend[Array],
    gains: Sequence[Sequence[Array]],
    disparities: Sequence[Array],
    threshold: float,
    shape: tuple[int, ...],
) -> list[Moving[Array]]:
    """Return what has moved, by the gains of all velocities over standing still in both views."""
    xp = backend.xp
    wide, narrow = [], []
    for view in (0, 1):
        toward = -1.0 if view == 0 else 1.0
        pooled = xp.stack(
            [(each[view] + _seen_from(backend, each[1 - view], toward * disparities[view])) / 2 for each in gains]
        )
        wide.append(backend.blur_views(pooled, WIDE))
        narrow.append(backend.blur_views(pooled, NARROW))
    best = xp.max(wide[0], axis=0)
    evidence = [float(xp.sum(xp.where((each == best) & (each > threshold), each, 0.0))) for each in wide[0]]
    largest = sorted(range(len(gains)), key=lambda number: -evidence[number])[:MOST_THINGS]
    largest = [number for number in largest if evidence[number] >= MIN_PIXELS * threshold]
    if not largest:
        return []
    marks: list[list[Array]] = []
    for view in (0, 1):
        best = xp.max(xp.stack([wide[view][number] for number in largest]), axis=0)
        marks.append([])
        for number in largest:
            gain = wide[view][number]
            near = backend.blur(xp.astype(gain > threshold, xp.float32), AROUND) > 0.01
            marks[view].append(near & (gain == best) & (gain > NEARBY / SURE * threshold) & (narrow[view][number] > 0))
    return [
        Moving(VELOCITIES[number], (_enlarged(backend, left, shape), _enlarged(backend, right, shape)))
        for number, left, right in zip(largest, *marks, strict=True)
    ]


def _seen_from(backend: Backend[Array], values: Array, offset: Array) -> Array:
    """Return a map of one view as the other sees it, whose pixels lie this far to the right."""
    xp, width = backend.xp, values.shape[1]
    column = nearest_pixel(xp.astype(backend.arange(width), xp.float32) + offset, xp)
    return xp.take_along_axis(values, xp.astype(xp.clip(column, min=0, max=width - 1), xp.int64), axis=1)


def _enlarged(backend: Backend[Array], marks: Array, shape: tuple[int, ...]) -> Array:
    """Return marked pixels at full size."""
    xp = backend.xp
    soft = backend.resize_linear(xp.astype(marks, xp.float32), SCALE)
    return soft[: shape[0], : shape[1]] > 0.5
