"""The noise of a camera from a picture it took: no calibration, no clean image.

1. A 3 x 3 mask that cancels every plane (Immerkaer 1996) leaves noise and a little structure. Its mean square over
   16 x 16 blocks is the block's variance, beside the block's mean.
2. Blocks are sorted by mean into groups. In each, structure that passes the mask raises a variance, so the noise is
   where the lowest variances gather: a low quantile, put right by what that quantile is for noise alone, then the mean
   of all blocks that are no higher than noise can make them.
3. Photons and read noise are those of the :class:`Sensor` whose own curve of variance over mean goes through the
   groups. The curve has clipping and rounding in it (:mod:`scotopic.sensor.moments`). That is what makes it work at
   photon level 2, where they take five sixths of the variance away and a straight line would say next to nothing.
   A block that is half bright and half dark has the mean of their noise, not the noise of their mean, which is higher
   where both clip; how uneven blocks are is known from their whole variance, and the curve is read accordingly.

What it cannot know: noise that is not independent from pixel to pixel (demosaiced, denoised, JPEG) reads as less; a
black level that is not the one given; a response that is not the one given.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.backends.device import to_numpy
from scotopic.errors import InputError
from scotopic.io import as_image
from scotopic.sensor.model import Sensor
from scotopic.sensor.moments import moments
from scotopic.sensor.response import Response, linearize

Floats = NDArray[np.float64]

BLOCK, STRIDE = 16, 8  #: side of the blocks whose noise is measured, and how far apart they are
MOVING = 0.05  #: a block with a smaller share of pixels that differ from a plane is one color, clipped maybe
_GROUPS = 24
_SMALLEST_GROUP = 24
# Independent squares per block: 256 pixels over the sum of the mask's squared autocorrelations, (70 / 36)^2.
_FREEDOM = BLOCK**2 / (70 / 36) ** 2
_QUANTILE, _QUANTILE_OF_NOISE = 0.1, 0.787  # the 10 % quantile of chi-square / freedom at that freedom
_HIGHEST = 1 + 3 * (2 / _FREEDOM) ** 0.5
_MODEL_ERROR = 0.02  # a group's variance is not trusted further than this, however many blocks it has
_FEW_LEVELS = 64  # an image with at most so many evenly spaced levels comes from a sensor that counts
_PHOTONS = (0.2, 1e8)
_TOTALS = (1e-9, 10.0)  # variances at half light that are looked for
_SHARES = np.array([0.0, 0.03, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98, 0.995, 0.999])


@dataclass(frozen=True)
class NoiseCurve:
    """What was seen: groups of blocks of like brightness.

    Attributes
    ----------
    mean, variance
        Of the recorded values, fractions of full scale; structure removed.
    error
        Standard error of each variance.
    unevenness
        Standard deviation of the light itself within the blocks.
    """

    mean: Floats
    variance: Floats
    error: Floats
    unevenness: Floats


def estimate_sensor(
    image: Any, other: Any = None, *, black: float = 0.0, white: float = 1.0, response: Response = "linear"
) -> Sensor:
    """Estimate photons at white and read noise from an image, or from both views of a pair.

    Parameters
    ----------
    image, other
        Arrays or paths, as for :func:`scotopic.match`; at least 48 x 48 px. Two views are taken to come from the same
        sensor and are pooled.
    black, white
        Recorded values of no light and of saturation, as fractions of full scale.
    response
        That of the recording; values are linearized by it first.

    Returns
    -------
    Sensor
        Its :attr:`~Sensor.variance_line` is the ``variance = a * signal + b`` of the unclipped signal. Where no more
        than 64 evenly spaced levels occur, the sensor is taken to count photons, one to a level, and only the read
        noise is fitted; :attr:`~Sensor.source` says so.

    Raises
    ------
    InputError
        An image cannot be read, is too small, or is black, white or constant nearly everywhere.

    References
    ----------
    Immerkaer, "Fast Noise Variance Estimation", 1996. Foi, Trimeche, Katkovnik and Egiazarian, "Practical
    Poissonian-Gaussian Noise Modeling and Fitting for Single-Image Raw-Data", 2008.
    """
    views = [as_image(image, "first")] + ([] if other is None else [as_image(other, "second")])
    steps = rounding_steps(views)
    curve = noise_curve([linearize(view, response).astype(np.float32) for view in views])
    counts = response == "linear" and steps is not None and steps <= _FEW_LEVELS
    template = Sensor(1.0, 0.0, black, white, min(0.0, black), steps if response == "linear" else None)
    photons, read_noise = _fit(curve, template, counted=steps * (white - black) if counts and steps else None)
    how = "photons from the number of levels, read noise" if counts else "photons and read noise"
    return Sensor(
        photons,
        read_noise,
        black,
        white,
        template.floor,
        steps,
        response=response,
        source=f"estimated from {'the image' if other is None else 'the pair'} itself: {how} from the noise",
    )


def rounding_steps(images: list[NDArray[np.float32]]) -> float | None:
    """Return into how many steps full scale is rounded, or None where values are not evenly spaced.

    By the usual distance between values that occur. Few levels stored in 8 bits are off by up to 1/255 each.
    """
    values = np.unique(np.concatenate([np.unique(image) for image in images])).astype(np.float64)
    if not 2 <= values.size <= 65536:
        return None
    if values.size <= _FEW_LEVELS + 1:
        # Few levels: evenly spaced ones, of which some may be missing.
        spacing = float(np.median(np.diff(values)))
        steps = round(1 / spacing) if spacing > 0 else 0
        if 1 <= steps <= _FEW_LEVELS and np.abs(values - np.rint(values * steps) / steps).max() <= 1.01 / 255:
            return float(steps)
    for steps in (255, 1023, 4095, 16383, 65535):
        if np.abs(values * steps - np.rint(values * steps)).max() < 0.02:
            return float(steps)
    return None


def noise_curve(images: list[NDArray[np.float32]]) -> NoiseCurve:
    """Return the noise variance of groups of blocks of like brightness, over all channels of all images."""
    found = [block_moments(np.moveaxis(image, -1, 0)) for image in images]
    return curve_of_blocks(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def curve_of_blocks(mean: Floats, variance: Floats, whole: Floats) -> NoiseCurve:
    """Return the noise variance of groups of blocks of like brightness, from each block's mean and variances."""
    if mean.size < _SMALLEST_GROUP:
        raise InputError(
            f"image to estimate noise from: found {mean.size} blocks of {BLOCK} x {BLOCK} px that are not black, "
            f"white or constant, expected at least {_SMALLEST_GROUP}; use a larger or better exposed image, or flat "
            "fields"
        )
    order = np.argsort(mean, kind="stable")
    groups = np.array_split(order, max(1, min(_GROUPS, mean.size // (2 * _SMALLEST_GROUP))))
    rows = []
    for group in groups:
        noise, quiet = _noise_of(variance[group])
        kept = group[quiet]
        # Overlapping blocks share half their pixels each way, so four of them are worth about two.
        spread = max(noise * (2 / (_FREEDOM * max(1.0, kept.size / 2))) ** 0.5, 1e-12)
        uneven = max(float((whole[kept] - variance[kept]).mean()), 0.0) ** 0.5
        rows.append((float(mean[kept].mean()), noise, spread, uneven))
    return NoiseCurve(*np.array(rows).T)


def block_moments(planes: Any, xp: Any = np) -> tuple[Floats, Floats, Floats]:
    """Return mean, noise variance and whole variance of each block, without blocks that hold (nearly) one value.

    Parameters
    ----------
    planes
        ``(..., H, W)``, NumPy's or another namespace's.
    xp
        Array namespace that they belong to.
    """
    values = xp.astype(planes, xp.float64)
    if min(values.shape[-2:]) < BLOCK + 2:
        return np.empty(0), np.empty(0), np.empty(0)
    rows = values[..., :-2, :] - 2 * values[..., 1:-1, :] + values[..., 2:, :]
    residual = (rows[..., :-2] - 2 * rows[..., 1:-1] + rows[..., 2:]) / 6
    inner = values[..., 1:-1, 1:-1]
    kinds = (inner, inner**2, residual**2, xp.astype(residual != 0, xp.float64))
    means = xp.stack([_block_means(each, xp) for each in kinds])
    mean, square, noise, moving = (means if xp is np else to_numpy(means)[0]).reshape(4, -1)
    alive = moving > MOVING
    whole = (square - mean**2) * BLOCK**2 / (BLOCK**2 - 1)
    return mean[alive], noise[alive], whole[alive]


def _block_means(values: Any, xp: Any) -> Any:
    """Return the means of overlapping blocks, from the sums of the cells that they share."""
    rows, columns = (size // STRIDE for size in values.shape[-2:])
    cells = xp.reshape(
        values[..., : rows * STRIDE, : columns * STRIDE], (*values.shape[:-2], rows, STRIDE, columns, STRIDE)
    )
    sums = xp.sum(xp.sum(cells, axis=-1), axis=-2)
    sums = sums[..., :-1, :] + sums[..., 1:, :]
    return (sums[..., :-1] + sums[..., 1:]) / BLOCK**2


def _noise_of(variances: Floats) -> tuple[float, NDArray[np.bool_]]:
    """Return the noise variance of blocks of which some have structure, and which have none."""
    noise = float(np.quantile(variances, _QUANTILE)) / _QUANTILE_OF_NOISE
    for _ in range(8):
        noise = float(variances[variances <= _HIGHEST * noise].mean())
    return noise, variances <= _HIGHEST * noise


def _fit(curve: NoiseCurve, template: Sensor, counted: float | None) -> tuple[float, float]:
    """Return photons and read noise of the curve through the groups: a coarse search, then ever finer ones.

    Searched over what the groups tell best, the noise variance at half light, ``T = (P / 2 + sigma^2) / P^2`` before
    any clipping, and over what they tell worst, the share of it that is read noise.
    """
    if counted is not None:
        return counted, _fit_read_noise(curve, template, counted)
    totals, shares = np.geomspace(*_TOTALS, 81), _SHARES
    best = (np.inf, 1.0, 0.0)
    for turn in range(7):
        for total in totals:
            for share in shares:
                photons = float(np.clip(1 / (2 * total * (1 - share)), *_PHOTONS))
                read_noise = (share / (1 - share) * photons / 2) ** 0.5
                best = min(best, (_misfit(curve, template, photons, read_noise), total, share))
        width = 0.4 * 0.5**turn
        totals = best[1] * np.exp(np.linspace(-width, width, 5))
        odds = max(best[2], 0.01) / (1 - best[2]) * np.exp(4 * np.linspace(-width, width, 7))
        shares = np.concatenate([_SHARES if turn == 0 else [0.0], odds / (1 + odds)])
    photons = float(np.clip(1 / (2 * best[1] * (1 - best[2])), *_PHOTONS))
    return photons, float((best[2] / (1 - best[2]) * photons / 2) ** 0.5)


def _fit_read_noise(curve: NoiseCurve, template: Sensor, photons: float) -> float:
    candidates = np.concatenate([[0.0], np.geomspace(0.02, 1e3, 60)])
    best = (np.inf, 0.0)
    for turn in range(6):
        best = min(best, min((_misfit(curve, template, photons, float(each)), float(each)) for each in candidates))
        width = 0.2 * 0.4**turn
        candidates = max(best[1], 0.01) * np.exp(np.linspace(-width, width, 7))
    return best[1]


def _misfit(curve: NoiseCurve, template: Sensor, photons: float, read_noise: float) -> float:
    """Return how far the groups are from a sensor's curve, in standard errors, large ones counted less."""
    sensor = replace(template, photons=photons, read_noise=read_noise)
    levels = np.concatenate([np.linspace(0, 1, 17), [1.2, 1.5, 2, 3]])
    mean, variance = moments(sensor, levels)
    brighter, darker = (np.interp(curve.mean + side * curve.unevenness, mean, variance) for side in (1, -1))
    expected = (brighter + darker) / 2
    error = np.hypot(curve.error, _MODEL_ERROR * np.maximum(curve.variance, expected))
    distance = (curve.variance - expected) / error
    # A mean below what the sensor shows without light, or above what it can, counts against it as well.
    outside = np.maximum(0, mean[0] - curve.mean) + np.maximum(0, curve.mean - mean[-1])
    reach = np.maximum(expected, curve.variance) ** 0.5 / BLOCK + 1e-6
    return float(np.log1p(distance**2 / 4).sum() + np.log1p((outside / reach) ** 2 / 4).sum())
