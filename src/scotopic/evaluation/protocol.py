"""The protocol of the paper's experiments: shrink, then add noise.

The size of the protocol is relative to the *full* size of a data set, whatever size lies on disk: Middlebury 2014 at
0.2 of full size is 0.8 of the quarter-size images. Noise comes after shrinking (:func:`scotopic.simulate_pair`).
Images are shrunk by area averaging. Truth is shrunk in two ways:

* ``truth``, our default: nearest neighbor, so that every value was measured, and unknown stays unknown.
* ``truth_paper``: unknown as 0, area averaging, and unknown after it only where all was unknown. At a hole the average
  mixes zeros in, so values there are too small; that is what the paper was scored with.

Both are multiplied by the nominal factor, as the reference results are. Since a size is rounded to whole pixels, the
factor of the width differs from it by up to half a pixel in the width, about 0.07 % of a disparity at these sizes.

More light than the sensor takes in one frame is the mean of several frames, each with noise of its own.
"""

import math
import warnings
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from scotopic.api import find_pair_levels
from scotopic.depth import Calibration
from scotopic.errors import DarkImageWarning, InputError, SettingsError
from scotopic.evaluation.scene import Noise, Scene
from scotopic.evaluation.sequence import Pair, StereoSequence
from scotopic.levels import warn_of_little_light
from scotopic.sensor import Sensor, simulate_pair

CLEAN = 0  #: number of frames that stands for the pair as it lies on disk, without noise of ours
FRAME_SEEDS = 1000  #: frame k of seed s has the noise of seed s + 1000 k, as long as s is smaller (:func:`frame_seed`)

# 0.2 / 0.25 and 1 / 3 are not exact: a factor this near 1 is 1, and nothing is resampled.
_SAME_SIZE = 1e-6


@dataclass(frozen=True, eq=False)
class Recording:
    """A scene as it lies on disk, before the protocol shrinks it: like a :class:`Scene`, at the size on disk."""

    left: NDArray[np.float32]
    right: NDArray[np.float32]
    truth: NDArray[np.float32]
    visible: NDArray[np.bool_] | None = None
    calibration: Calibration | None = None
    size: float = 1.0  #: size on disk over the data set's full size: 1, 1/2, 1/3, 1/4
    max_disparity: float | None = None  #: upper end of the disparities that the data set states, if it does
    sequence: StereoSequence | None = None  #: all frames, if the scene is a sequence


def at_scale(recording: Recording, scale: float, dataset: str, name: str) -> Scene:
    """Bring a scene from the size on disk to a `scale` of the data set's full size, with truth resized both ways.

    Raises :class:`SettingsError` if `scale` is not above 0, or what lies on disk is smaller: nothing is ever enlarged.
    """
    factor = check_scale(scale) / recording.size
    if factor > 1 + _SAME_SIZE:
        raise SettingsError(
            f"Scene {name!r} of {dataset} cannot be scaled to {scale:g} of full size: only {recording.size:g} of full "
            "size lies on disk. Choose a smaller scale or get a larger version of the data set."
        )
    if factor > 1 - _SAME_SIZE:
        factor = 1.0
    if recording.sequence is not None and factor != 1:
        raise SettingsError(f"Sequence {name!r} of {dataset} cannot be scaled. Leave the scale at 1.")
    calibration, most = recording.calibration, recording.max_disparity
    height, width = _new_size(recording.truth.shape[0], recording.truth.shape[1], factor)
    return Scene(
        dataset=dataset,
        name=name,
        left=shrink_image(recording.left, factor),
        right=shrink_image(recording.right, factor),
        truth=shrink_truth(recording.truth, factor),
        truth_paper=shrink_truth_paper(recording.truth, factor),
        visible=None if recording.visible is None else shrink_mask(recording.visible, factor),
        calibration=None if calibration is None else calibration.scaled(factor, factor, width, height),
        scale=float(scale),
        # The little that is taken off keeps 70 / 4 * 4 at 70, whatever the rounding of the factor.
        max_disparity=None if most is None else math.ceil(most * factor - _SAME_SIZE),
        sequence=recording.sequence,
    )


def record_scene(
    scene: Scene, photons: float, read_noise: float, seed: int, frames: int = 1, *, is_clean: bool = True
) -> tuple[NDArray[np.float32], NDArray[np.float32], Scene]:
    """Return the pair that methods are given, and the scene with what is known of its noise.

    Parameters
    ----------
    scene
        The scene as its data set has it.
    photons, read_noise, seed
        As for :func:`scotopic.simulate_pair`.
    frames
        The pair is the mean of so many recordings; frame k has the noise of :func:`frame_seed`. :data:`CLEAN` adds no
        noise. Of a sequence so many frames are recorded, and the pair is the last of them alone.
    is_clean
        Whether the scene's own noise can be neglected. If not, nobody knows the noise of the pair, and black and white
        are where a match would put them, with its warning: a camera may use little of the range of its files.
    """
    if scene.sequence is not None:
        return _record_sequence(scene, scene.sequence, photons, read_noise, seed, frames)
    left, right, noise = _record_pair(scene, photons, read_noise, seed, frames)
    if is_clean:
        return left, right, replace(scene, noise=noise)
    levels = find_pair_levels((left, right))
    return levels.apply(left), levels.apply(right), replace(scene, noise=None)


def _record_pair(
    scene: Scene, photons: float, read_noise: float, seed: int, frames: int
) -> tuple[NDArray[np.float32], NDArray[np.float32], Noise]:
    """Return the pair of a scene that is no sequence, and the noise that was added."""
    if frames == CLEAN:
        return scene.left, scene.right, Noise(0.0)
    if (doubt := warn_of_little_light(scene.left, scene.right)) is not None:
        warnings.warn(doubt, DarkImageWarning, stacklevel=3)
    sums = np.zeros((2, *scene.left.shape))
    for k in range(frames):
        sums += simulate_pair(scene.left, scene.right, photons, read_noise, frame_seed(seed, k))
    left, right = (sums / frames).astype(np.float32)
    return left, right, known_noise(photons, read_noise, frames)


def _record_sequence(
    scene: Scene, sequence: StereoSequence, photons: float, read_noise: float, seed: int, frames: int
) -> tuple[NDArray[np.float32], NDArray[np.float32], Scene]:
    """Return the last of some frames, and the scene as it is seen there, with all of the frames."""
    wanted = len(sequence) if frames == CLEAN else frames
    if wanted > len(sequence):
        raise InputError(f"Sequence {scene.name!r} has {len(sequence)} frames, not {wanted}. Ask for fewer.")
    recorded = sequence.pairs[:wanted]
    if frames != CLEAN:
        recorded = tuple(_record_frame(sequence, k, photons, read_noise, seed) for k in range(wanted))
    # Copies: the frames are kept for other methods, and one may write into what it is given.
    recorded = tuple((left.copy(), right.copy()) for left, right in recorded)
    left, right = (view.copy() for view in sequence.pairs[wanted - 1])
    truth, truth_paper = (sequence.truth(wanted - 1).copy() for _ in range(2))
    scene = replace(scene, left=left, right=right, truth=truth, truth_paper=truth_paper, recorded=recorded)
    noise = Noise(0.0) if frames == CLEAN else known_noise(photons, read_noise)
    return *recorded[-1], replace(scene, noise=noise)


@lru_cache(maxsize=32)  # other methods and numbers of frames ask for the same ones
def _record_frame(sequence: StereoSequence, number: int, photons: float, read_noise: float, seed: int) -> Pair:
    """Return one frame with noise of its own."""
    return simulate_pair(*sequence.pairs[number], photons, read_noise, frame_seed(seed, number))


def frame_seed(seed: int, number: int) -> int | np.random.SeedSequence:
    """Return the seed of a frame: no two frames, of one seed or of several, have the same noise.

    Examples
    --------
    >>> frame_seed(3, 2)
    2003
    """
    if seed < FRAME_SEEDS:
        return seed + FRAME_SEEDS * number
    return np.random.SeedSequence(seed, spawn_key=(number,))  # what stands above has no key


def known_noise(photons: float, read_noise: float, frames: int = 1) -> Noise:
    """Return the noise of the mean of some frames, with the clipping and rounding of the paper's sensor.

    Examples
    --------
    >>> noise = known_noise(2, 2)
    >>> [round(255 * value) for value in (noise.std, noise.black, noise.white)]
    [116, 80, 166]
    """
    sensor = Sensor.paper(photons, read_noise).averaged(frames)
    black, white = sensor.mean([0.0, 1.0])
    return Noise(float(np.sqrt(sensor.noise_variance(np.linspace(0, 1, 65)).max())), float(black), float(white))


# In all that follows `factor` is new size over old, at most 1, and both sides are rounded to whole pixels.


def shrink_image(image: NDArray[np.float32], factor: float) -> NDArray[np.float32]:
    """Shrink an image ``H x W x C`` in [0, 1] by area averaging.

    Examples
    --------
    >>> import numpy as np
    >>> shrink_image(np.array([[[0.0], [1.0]], [[1.0], [1.0]]], np.float32), 0.5)
    array([[[0.75]]], dtype=float32)
    """
    shrunk = _resize(image, factor, "area").reshape(*_new_size(image.shape[0], image.shape[1], factor), -1)
    return np.clip(shrunk, 0.0, 1.0)  # an average of ones may be a rounding above 1


def shrink_truth(truth: NDArray[np.float32], factor: float) -> NDArray[np.float32]:
    """Shrink a disparity map (px, NaN where unknown) by nearest neighbor, and its values with it.

    No value is mixed with another, and unknown stays unknown. The pixel of the original that is taken is
    ``floor(x / factor)``, the convention of the reference results.
    """
    return _resize(truth, factor, "nearest") * np.float32(factor)


def shrink_truth_paper(truth: NDArray[np.float32], factor: float) -> NDArray[np.float32]:
    """Shrink a disparity map as the paper does: unknown as 0, area averaging, and unknown where all was unknown.

    The paper takes exact zeros for unknown after it, which in its data sets is the same: none of their truth is 0.
    """
    known = ~np.isnan(truth)
    averaged = _resize(np.where(known, truth, np.float32(0)), factor, "area") * np.float32(factor)
    return np.where(_resize(known.astype(np.float32), factor, "area") > 0, averaged, np.float32(np.nan))


def shrink_mask(mask: NDArray[np.bool_], factor: float) -> NDArray[np.bool_]:
    """Shrink a mask by nearest neighbor: it goes with :func:`shrink_truth`, pixel by pixel."""
    return _resize(mask.astype(np.float32), factor, "nearest") > 0.5


def check_scale(scale: float) -> float:
    """Return `scale` if it can be a share of full size, or raise :class:`SettingsError`."""
    if isinstance(scale, bool) or not isinstance(scale, int | float) or not 0 < scale <= 1:
        raise SettingsError(f"The scale must be a share of full size above 0 and up to 1, not {scale!r}.")
    return float(scale)


def _new_size(height: int, width: int, factor: float) -> tuple[int, int]:
    return max(1, round(height * factor)), max(1, round(width * factor))


def _resize(array: NDArray[np.float32], factor: float, way: str) -> NDArray[np.float32]:
    import cv2

    if factor == 1:
        return array.copy()
    height, width = _new_size(array.shape[0], array.shape[1], factor)
    # The target's size, not the factor, is passed on: the two give different sampling points, and the reference
    # results are of the former.
    flag = cv2.INTER_AREA if way == "area" else cv2.INTER_NEAREST
    resized = cv2.resize(np.ascontiguousarray(array), (width, height), interpolation=flag)
    return np.asarray(resized, np.float32)
