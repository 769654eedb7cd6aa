"""A stream of pairs: where each was taken, and the light of the pairs before it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic

import numpy as np

from scotopic.arrays import Array
from scotopic.backends.device import to_numpy
from scotopic.backends.gaussian import gaussian_kernel
from scotopic.backends.protocol import Backend
from scotopic.errors import PairWarning
from scotopic.fusion.geometry import Matrix, StereoCamera, adjoint, exponential, inverse
from scotopic.fusion.motion import Motion, View, find_motion, prepare_sizes
from scotopic.fusion.velocity import find_moving
from scotopic.fusion.warp import carry_disparity
from scotopic.fusion.window import Frame, FusedView, fuse_views
from scotopic.result import Match
from scotopic.settings import NoiseSettings
from scotopic.stages.noise import NoiseModel, estimate_noise
from scotopic.subpixel import nearest_pixel

ALIKE = 5.0  #: standard deviations; a pair less like the last one than this shows another scene, or nothing
LEAST_CONTRAST = 0.35  #: of the usual; outlines that two scenes happen to share have less
TEMPLATE_BLUR = 0.7  #: px at half size, of what is put back into a denoised template
SAME_EXPOSURE = 0.3  #: a contrast that differs from the expected by less than this is not told from noise
SAME_LIGHT = 0.02  #: a mean brightness that differs by less than this is not told from noise
OTHER_LIGHT = 1.5  #: a gain from which on a frame has so much more light that it becomes the reference
MOST_LIGHT = OTHER_LIGHT**2  #: of a frame, in that of the reference
SAME_BRIGHTNESS = 0.1  #: of the change in brightness that a gain means; less is none
BEYOND = 1.0  #: px; disparities so far below that of infinity are more than noise
MOSTLY_BEYOND = 0.25  #: of the disparities; more than are there by chance
#: Where the search for a motion starts if nothing is known: at rest, and some baselines ahead, as a car moves.
FROM_REST = tuple(exponential(np.array([0, 0, -ahead, 0, 0, 0])) for ahead in (0.0, 1.0, 2.5))


@dataclass(frozen=True, eq=False)
class FusedPair(Generic[Array]):
    """A pair with the light of earlier ones.

    ``pose`` takes points of the left camera to the first one's, in baselines; ``covariance``, 6 x 6, is that of a twist
    after it (translation first). It is infinite after a cut: how the new place lies to the first is not known. ``gain``
    and ``offset`` take values of the fused views to those of the pair, in the mean of both views. ``most`` is the light
    of the brightest left view, in that of the reference.
    """

    left: FusedView[Array]
    right: FusedView[Array]
    pose: Matrix
    covariance: Matrix
    gain: float = 1.0
    offset: float = 0.0
    most: float = 1.0

    @property
    def frames(self) -> Array:
        """How many pairs the light of each left pixel comes from; the brightest counts as one."""
        return self.left.frames * (1 / self.most)


@dataclass(frozen=True, eq=False)
class Known(Generic[Array]):
    """What a match tells about its pair: both views at half size to align others with, and their disparities."""

    template: tuple[View[Array], View[Array]]
    disparities: tuple[Array, Array]


@dataclass(frozen=True, eq=False)
class _Track(Generic[Array]):
    """What is known of the scene so far. The last frame is the newest.

    Values are those of the reference: the first frame, until one has clearly more light, or all clearly less.
    """

    reference: int  #: a number of its own for each reference of a stream, from 0 on
    frames: tuple[Frame[Array], ...]
    noise: NoiseModel  #: of the reference
    known: Known[Array] | None = None  #: of the newest frame
    velocity: Matrix | None = None  #: the last motion
    missed: int = 0  #: pairs since then that could not be used
    map_covariance: Matrix | float = 0.0  #: of where the frames lie as a whole
    usual_gain: tuple[float, float] = (1.0, 1.0)  #: the denoised template's contrast may be a little low or high


class Tracker(Generic[Array]):
    """Fuses the pairs of a stream, one after the other.

    For each pair call :meth:`add`, match what it returns, and give the match to :meth:`learn`.

    Parameters
    ----------
    camera
        The calibrated rig.
    most
        Frames to fuse, the present one included.
    """

    def __init__(self, backend: Backend[Array], camera: StereoCamera, most: int) -> None:
        self._backend: Backend[Array] = backend
        self._camera, self._most = camera, most
        self._track: _Track[Array] | None = None
        self._before: _Track[Array] | None = None  # the last one, until the pair after a cut shows which goes on
        self._pose, self._covariance = np.eye(4), np.zeros((6, 6))
        self._references = 0
        self._number = -1  # of the newest pair

    @property
    def pose(self) -> tuple[Matrix, Matrix]:
        """Where the last usable pair was taken, and its covariance, as in :class:`FusedPair`."""
        return self._pose, self._covariance

    @property
    def reference(self) -> int:
        """Number of the frame, from 0 on, whose values the fused views have.

        Another one after a cut, until the old scene is back, and after a lasting change of the light.
        """
        assert self._track is not None
        return self._track.reference

    def repeated(self, images: tuple[Array, Array]) -> tuple[bool, bool]:
        """Return which views of a pair are those of the newest frame again, as a camera that has stalled sends them."""
        return (False, False) if self._track is None else self._track.frames[-1].repeats(images)

    def skip(self) -> None:
        """Note that a pair was lost or shows nothing."""
        self._number += 1
        if self._track is not None:
            self._track = replace(self._track, missed=self._track.missed + 1)

    def add(
        self, images: tuple[Array, Array], valid: tuple[Array | None, Array | None] = (None, None)
    ) -> FusedPair[Array]:
        """Return a new pair with the light of those before it that show the same scene."""
        self._number += 1
        track, motion = self._find(images)
        if track is None or motion is None:
            return self._start(images, valid)
        self._track, self._before = track, None
        frame = self._place(track, motion, images, valid)
        if frame.gain == (1.0, 1.0):
            track = replace(track, usual_gain=_mean(track.usual_gain, motion.gain))
        track, frame = self._refer_to_brightest(track, frame)
        others = _of_other_light(track.frames, frame)
        views = self._fuse(track, frame, others, motion)
        self._track = self._follow(track, frame, others, motion)
        most = max(each.worth(0, MOST_LIGHT) for each in self._track.frames)
        return FusedPair(*views, self._pose, self._covariance, sum(frame.gain) / 2, sum(frame.offset) / 2, most)

    def learn(self, match: Match, fused: FusedPair[Array]) -> None:
        """Take in what was found in the pair that :meth:`add` returned last; its arrays are the device's."""
        assert self._track is not None
        self._track = replace(self._track, known=learn_from(self._backend, match, fused, self._track.noise))

    def _find(self, images: tuple[Array, Array]) -> tuple[_Track[Array] | None, Motion | None]:
        """Return the track that a pair belongs to and the motion since its last frame; nothing after a cut."""
        best: tuple[_Track[Array] | None, Motion | None] = (None, None)
        for track in (self._track, self._before):
            if track is None or track.known is None:
                continue
            motion = self._estimate(track, images)
            is_better = best[1] is None or motion.likeness > best[1].likeness
            if is_better and shows_the_same(motion, track.usual_gain):
                best = track, motion
        return best

    def _estimate(self, track: _Track[Array], images: tuple[Array, Array]) -> Motion:
        assert track.known is not None
        sizes = prepare_sizes(self._backend, self._camera, track.known.template, images)
        starts: list[Matrix] = []
        found: Motion | None = None
        if track.velocity is not None:
            starts.append(np.linalg.matrix_power(track.velocity, track.missed + 1))
            found = find_motion(self._backend, sizes, starts)
            if found.likeness > 2 * ALIKE:
                return found
        starts += FROM_REST
        other = find_motion(self._backend, sizes, starts)
        return other if found is None or other.likeness > found.likeness else found

    def _start(self, images: tuple[Array, Array], valid: tuple[Array | None, Array | None]) -> FusedPair[Array]:
        """Begin a new track with a pair."""
        if self._track is not None:  # a cut: the new place is not known
            self._covariance = np.diag(np.full(6, np.inf))
            self._before = replace(self._track, missed=self._track.missed + 1)
        noise = estimate_noise(self._backend, images, NoiseSettings())
        first = (Frame(images, valid, self._pose, number=self._number),)
        self._track = _Track(self._next_reference(), first, noise, map_covariance=self._covariance)
        left, right = (
            FusedView(image, self._backend.xp.ones_like(image[..., 0]) if ok is None else _as_weight(self._backend, ok))
            for image, ok in zip(images, valid, strict=True)
        )
        return FusedPair(left, right, self._pose, self._covariance)

    def _place(
        self,
        track: _Track[Array],
        motion: Motion,
        images: tuple[Array, Array],
        valid: tuple[Array | None, Array | None],
    ) -> Frame[Array]:
        """Return a new frame with its pose and exposure."""
        last = track.frames[-1]
        self._pose = last.pose @ inverse(motion.matrix)
        turned = adjoint(last.pose)
        self._covariance = track.map_covariance + turned @ motion.covariance @ turned.T
        return Frame(images, valid, self._pose, *find_exposure(motion, track.usual_gain), self._number)

    def _refer_to_brightest(self, track: _Track[Array], frame: Frame[Array]) -> tuple[_Track[Array], Frame[Array]]:
        """Return a track and its new frame in the values of the frame with most light.

        Frames count by their light compared with the reference's, and its noise and its levels are those of all: with a
        dark reference noise would count like light, and little of the range would be used.
        """
        window = list(track.frames)
        window.append(frame)
        window = window[-self._most :]
        brightest = max(window, key=lambda each: min(each.gain))
        is_brighter = min(brightest.gain) > OTHER_LIGHT
        if not is_brighter and max(max(each.gain) for each in window) > 1 / OTHER_LIGHT:
            return track, frame
        noise = estimate_noise(self._backend, brightest.images, NoiseSettings())
        frames = tuple(each.with_reference(brightest) for each in track.frames)
        changed = replace(track, reference=self._next_reference(), frames=frames, noise=noise)
        return changed, frame.with_reference(brightest)

    def _next_reference(self) -> int:
        self._references += 1
        return self._references - 1

    def _fuse(
        self, track: _Track[Array], frame: Frame[Array], others: Sequence[Frame[Array]], motion: Motion
    ) -> tuple[FusedView[Array], FusedView[Array]]:
        assert track.known is not None
        backend, camera = self._backend, self._camera
        newest = others[::-1][: self._most - 1]
        carried = [
            carry_disparity(backend, camera, disparity, motion.matrix, view == 1)
            for view, disparity in enumerate(track.known.disparities)
        ]
        moving = find_moving(backend, camera, frame, newest, carried, track.noise, MOST_LIGHT)
        return fuse_views(backend, camera, frame, newest, carried, track.noise, MOST_LIGHT, moving)

    def _follow(
        self, track: _Track[Array], frame: Frame[Array], others: Sequence[Frame[Array]], motion: Motion
    ) -> _Track[Array]:
        """Return the track with a new frame at its end, after the others of it that are kept."""
        frames = list(others)
        frames.append(frame)
        turned = adjoint(track.frames[-1].pose)
        # A new frame moves the frames' common place by its share of its own error. Shares of errors that are alike add
        # up; were they independent, the share would be squared.
        moved = turned @ motion.covariance @ turned.T / (len(track.frames) + 1)
        # A step over several missed pairs is as many steps.
        velocity = motion.matrix if track.missed == 0 else None
        return replace(
            track,
            frames=tuple(frames[-self._most :]),
            known=None,
            velocity=velocity,
            missed=0,
            map_covariance=track.map_covariance + moved,
        )


def _of_other_light(frames: Sequence[Frame[Array]], new: Frame[Array]) -> list[Frame[Array]]:
    """Return the frames without those that a new one repeats, a view at least: their light would count twice."""
    return [each for each in frames if not any(each.repeats(new.images))]


def find_exposure(motion: Motion, usual_gain: tuple[float, float]) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return gain and offset of both views of a new pair, which take the template's values to its own."""
    gain, offset = [1.0, 1.0], [0.0, 0.0]
    for k, ((template, seen), brighter) in enumerate(zip(motion.brightness, find_brightening(motion), strict=True)):
        relative = motion.gain[k] / usual_gain[k]
        # Light changes the brightness along with the contrast. Contrast alone is what the template lacks.
        is_brighter = abs(seen - template) > SAME_BRIGHTNESS * abs(relative - 1) * abs(template)
        if abs(relative / brighter - 1) < SAME_EXPOSURE:  # more or less light alone; the mean tells it best
            gain[k] = brighter if abs(brighter - 1) > SAME_LIGHT else 1.0
        elif abs(relative - 1) > SAME_EXPOSURE and is_brighter:
            gain[k], offset[k] = relative, seen - relative * template
    return (gain[0], gain[1]), (offset[0], offset[1])


def find_brightening(motion: Motion) -> tuple[float, float]:
    """Return how many times as bright as the template both views of a new pair are."""
    left, right = (seen / template if min(seen, template) > 0 else 1.0 for template, seen in motion.brightness)
    return left, right


def shows_the_same(motion: Motion, usual_gain: tuple[float, float] = (1.0, 1.0)) -> bool:
    """Whether a new pair shows the scene of the template: alike in its details, with more than a trace of contrast."""
    contrast = min(gain / usual for gain, usual in zip(motion.gain, usual_gain, strict=True))
    return motion.likeness > ALIKE and contrast > LEAST_CONTRAST


def learn_from(
    backend: Backend[Array], match: Match, fused: FusedPair[Array], noise: NoiseModel
) -> Known[Array] | None:
    """Return what a match of device arrays tells about a fused pair; nothing where it found nothing."""
    maps = match.disparity_all, match.right_disparity, match.confidence
    left, right, confidence = (backend.asarray(each) for each in maps)
    if not bool(backend.xp.all(left == left)):  # NaN
        return None
    views = [backend.asarray(view) for view in match.denoised or (match.left_colors, match.right_colors)]
    work = partial(_make_template, backend, noise)
    plain = fused.left.image, fused.left.frames, fused.right.image, fused.right.frames
    one, other = backend.replayed(("template", noise), work, *views, *plain, left, right, confidence)
    return Known((one, other), (left, right))


def warn_beyond_infinity(match: Match, camera: StereoCamera) -> None:
    """Warn if much of a match is farther than infinity: such points are nowhere, and others are not where they seem."""
    disparity, mask = to_numpy(match.disparity, match.mask)
    beyond = disparity[mask] + camera.doffs < -BEYOND
    if beyond.size and (share := float(beyond.mean())) > MOSTLY_BEYOND:
        warnings.warn(
            f"{100 * share:.0f} % of the disparities are below {0.0 - camera.doffs:g} px, which these cameras have at "
            "infinity, so how they move cannot be found, and hardly any light adds up. Give the calibration of these "
            "views, with its doffs.",
            PairWarning,
            stacklevel=4,
        )


def _make_template(
    backend: Backend[Array],
    noise: NoiseModel,
    *arrays: Array,
) -> list[View[Array]]:
    """Return both views of a template.

    ``arrays`` are the denoised views, image and light of the fused ones, both disparities, and the left confidence.
    """
    views, (left, right, confidence) = arrays[:-3], arrays[-3:]
    weights = confidence, _seen_from_right(backend, confidence, right)
    template = []
    for k, (disparity, weight) in enumerate(zip((left, right), weights, strict=True)):
        clear = _at_half_size(backend, views[k], left.shape)
        image = _mix(backend, clear, FusedView(views[2 + 2 * k], views[3 + 2 * k]), noise)
        template.append(View(image, backend.halve(disparity) / 2, backend.halve(weight)))
    return template


def _mix(backend: Backend[Array], clear: Array, fused: FusedView[Array], noise: NoiseModel) -> Array:
    """Return a template, half size: a denoised view with what it has lost put back from the fused one.

    The fused view has it, with noise of the variance ``v`` at each pixel. Their difference has the energy ``v + s``, so
    ``s / (s + v)`` of it is worth to be put back (Wiener).
    """
    xp = backend.xp
    noisy = backend.blur(backend.halve(fused.image[..., : clear.shape[2]]), TEMPLATE_BLUR)
    kernel = gaussian_kernel(TEMPLATE_BLUR)
    of_frame = noise.recorded_variance(clear) * (float((kernel**2).sum()) ** 2 / 4)  # of means of four, blurred
    variance = of_frame / xp.clip(backend.halve(fused.frames), min=0.25)[..., None]
    lost = noisy - clear
    energy = xp.clip(xp.mean(lost * lost) - xp.mean(variance), min=0)
    mixed: Array = clear + lost * (energy / (energy + variance + 1e-12))
    return mixed


def _at_half_size(backend: Backend[Array], image: Array, shape: tuple[int, ...]) -> Array:
    """Return an image, which may have been denoised at another size than the full one, at half size."""
    if image.shape[:2] == shape:
        return backend.halve(image)
    height, width = (-(-length // 2) for length in shape)
    planes = [backend.contiguous(image[..., c]) for c in range(image.shape[2])]
    while planes[0].shape[0] < height:
        planes = [backend.resize_linear(plane, 2) for plane in planes]
    return backend.contiguous(backend.xp.stack(planes, axis=2)[:height, :width])


def _mean(one: Sequence[float], other: Sequence[float]) -> tuple[float, float]:
    return 0.75 * one[0] + 0.25 * other[0], 0.75 * one[1] + 0.25 * other[1]


def _as_weight(backend: Backend[Array], valid: Array) -> Array:
    return backend.xp.astype(valid, backend.xp.float32)


def _seen_from_right(backend: Backend[Array], values: Array, right_disparity: Array) -> Array:
    """Return a map of the left view as the right view sees it."""
    xp, width = backend.xp, values.shape[1]
    column = nearest_pixel(xp.astype(backend.arange(width), xp.float32) + right_disparity, xp)
    return xp.take_along_axis(values, xp.astype(xp.clip(column, min=0, max=width - 1), xp.int64), axis=1)
