"""Noise estimation from an image or a pair itself: no calibration, no clean image.

1. A 3 x 3 mask that cancels every plane (Immerkaer 1996) leaves the noise and a little structure. Its mean square over
   a 16 x 16 block estimates the noise variance of the block; beside it stands the block's mean.
2. Blocks are sorted by their mean into groups. Structure that passes the mask can only raise a variance, so the noise
   of a group is found from its lowest variances: a low quantile, corrected for the spread that noise alone has, then
   the mean of all blocks that are no higher than noise can make them.
3. We fit the :class:`Sensor` whose curve of variance over mean, with clipping and rounding
   (:mod:`scotopic.sensor.moments`), goes through the groups. This is what makes it work at photon level 2, where
   clipping and rounding remove five sixths of the variance and a straight line would not fit. In a block that is half
   bright and half dark the noise is the mean of both noises, not the noise at the mean, which is higher where both
   clip. How uneven the blocks are is known from their total variance, and the curve is evaluated accordingly.

Limits: noise that is correlated between pixels (demosaiced, denoised, JPEG) is underestimated, and a wrong black level
or response gives wrong results.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError
from scotopic.io import as_image
from scotopic.io.masks import pixel_mask
from scotopic.sensor.model import Sensor
from scotopic.sensor.moments import moments
from scotopic.sensor.response import Response, linearize

Floats = NDArray[np.float64]

BLOCK, STRIDE = 16, 8  #: side of the blocks whose noise is measured, and the distance between them
MOVING = 0.05  #: a block with a smaller share of nonzero residuals is constant or clipped, and left out
_GROUPS = 24
_SMALLEST_GROUP = 24
_MOST_VALUES = 2**22  # at a time: what is computed on the way takes fifty bytes for each
# Degrees of freedom of a block: 256 pixels over the sum of the mask's squared autocorrelations, (70 / 36)^2.
_FREEDOM = BLOCK**2 / (70 / 36) ** 2
_QUANTILE, _QUANTILE_OF_NOISE = 0.1, 0.787  # the 10 % quantile of chi-square / _FREEDOM
_HIGHEST = 1 + 3 * (2 / _FREEDOM) ** 0.5
_MODEL_ERROR = 0.02  # relative; however many blocks a group has, its variance is not trusted further
_FEW_LEVELS = 64  # at most this many evenly spaced levels: a photon-counting sensor
_PHOTONS = (0.2, 1e8)
_TOTALS = (1e-9, 10.0)  # range of the variance at half light
_SHARES = np.array([0.0, 0.03, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98, 0.995, 0.999])


@dataclass(frozen=True)
class NoiseCurve:
    """Noise variance over mean, one entry for each group of blocks of similar brightness."""

    mean: Floats  #: of the recorded values, as a fraction of full scale
    variance: Floats  #: of their noise
    error: Floats  #: standard error of each variance
    unevenness: Floats  #: standard deviation of the clean signal within the blocks


def estimate_sensor(
    image: Any, other: Any = None, *, black: float = 0.0, white: float = 1.0, response: Response = "linear"
) -> Sensor:
    """Estimate photons at white and read noise from an image, or from both views of a pair.

    Parameters
    ----------
    image, other
        Arrays or paths, as for :func:`scotopic.match`; at least 48 x 48 px. Two views are assumed to come from the
        same sensor and are pooled. What is masked is left out.
    black, white
        Recorded values without light and at saturation, as fractions of full scale.
    response
        Response of the recording; values are linearized first.

    Returns
    -------
    Sensor
        Its :attr:`~Sensor.variance_line` is ``variance = a * signal + b`` of the unclipped signal. If at most 64
        evenly spaced levels occur, the sensor is assumed to count photons, one per level, and only the read noise is
        fitted; :attr:`~Sensor.source` says so.

    Raises
    ------
    InputError
        An image cannot be read, is too small, or is black, white or constant almost everywhere.

    References
    ----------
    Immerkaer, "Fast Noise Variance Estimation", 1996. Foi, Trimeche, Katkovnik and Egiazarian, "Practical
    Poissonian-Gaussian Noise Modeling and Fitting for Single-Image Raw-Data", 2008.
    """
    views = [as_image(image, "first")] + ([] if other is None else [as_image(other, "second")])
    masks = [pixel_mask(each) for each in (image, other)]
    known = [view if mask is None else view[~mask] for view, mask in zip(views, masks, strict=False)]
    steps = rounding_steps(known)
    for view, mask in zip(views, masks, strict=False):
        if mask is not None:
            view[mask] = np.nan
    curve = noise_curve([linearize(view, response).astype(np.float32) for view in views])
    template = Sensor(1.0, 0.0, black, white, min(0.0, black), steps if response == "linear" else None)
    if response == "linear" and steps is not None and steps <= _FEW_LEVELS:
        how, photons = "photons from the number of levels, read noise", steps * (white - black)
        read_noise = _fit_read_noise(curve, template, photons)
    else:
        how, (photons, read_noise) = "photons and read noise", _fit(curve, template)
    source = f"estimated from {'the image' if other is None else 'the pair'} itself: {how} from the noise"
    return Sensor(photons, read_noise, black, white, template.floor, steps, response=response, source=source)


def rounding_steps(images: list[NDArray[np.float32]]) -> float | None:
    """Return the number of quantization steps from 0 to full scale, or None if the values are not evenly spaced."""
    values = np.unique(np.concatenate([np.unique(image) for image in images])).astype(np.float64)
    if not 2 <= values.size <= 65536:
        return None
    if values.size <= _FEW_LEVELS + 1:
        # Some of the levels may be missing, and storing them in 8 bits moves each by up to 1/255.
        spacing = float(np.median(np.diff(values)))
        steps = round(1 / spacing) if spacing > 0 else 0
        if 1 <= steps <= _FEW_LEVELS and np.abs(values - np.rint(values * steps) / steps).max() <= 1.01 / 255:
            return float(steps)
    for steps in (255, 1023, 4095, 16383, 65535):
        if np.abs(values * steps - np.rint(values * steps)).max() < 0.02:
            return float(steps)
    return None


def noise_curve(images: list[NDArray[np.float32]]) -> NoiseCurve:
    """Measure the noise variance over the mean, from all channels of all images, where they are not NaN."""
    blocks = np.concatenate([block_moments(np.moveaxis(image, -1, 0)) for image in images], axis=1)
    return curve_of_blocks(blocks[:, np.isfinite(blocks[0])])


def curve_of_blocks(blocks: Any) -> NoiseCurve:
    """Return the noise curve of blocks, given the mean, noise variance and total variance of each, ``(3, N)``."""
    count = blocks.shape[1]
    if count < _SMALLEST_GROUP:
        raise InputError(
            f"The noise cannot be estimated: only {count} blocks of {BLOCK} x {BLOCK} px are not black, white or "
            f"constant, and {_SMALLEST_GROUP} are needed. Use a larger or better exposed image, or flat fields."
        )
    sizes = [
        len(each) for each in np.array_split(np.arange(count), max(1, min(_GROUPS, count // (2 * _SMALLEST_GROUP))))
    ]
    blocks = _sort_groups(blocks, sizes)
    rows = []
    for mean, variances, total in (each.copy() for each in np.split(blocks, np.cumsum(sizes)[:-1], axis=1)):
        sums = np.cumsum(variances)
        noise = float(np.interp(_QUANTILE * (variances.size - 1), np.arange(variances.size), variances))
        noise /= _QUANTILE_OF_NOISE
        for _ in range(8):  # the mean of the blocks without structure, which are no higher than noise can make them
            count = int(variances.searchsorted(_HIGHEST * noise, side="right"))
            noise = float(sums[count - 1]) / count
        flat = int(variances.searchsorted(_HIGHEST * noise, side="right"))
        # Overlapping blocks share half their pixels each way, so four of them count as about two.
        error = max(noise * (2 / (_FREEDOM * max(1.0, flat / 2))) ** 0.5, 1e-12)
        unevenness = max(float((total[:flat] - variances[:flat]).mean()), 0.0) ** 0.5
        rows.append((float(mean[:flat].mean()), noise, error, unevenness))
    return NoiseCurve(*np.array(rows).T)


def _sort_groups(blocks: Any, sizes: list[int]) -> Floats:
    """Return blocks in groups of rising mean, and within each of rising variance."""
    mean, variance, _ = blocks
    if isinstance(blocks, np.ndarray):
        groups = np.split(np.argsort(mean, kind="stable"), np.cumsum(sizes)[:-1])
        order = np.concatenate([group[np.argsort(variance[group], kind="stable")] for group in groups])
        return np.asarray(blocks[:, order])
    # On a GPU, where 24 sorts take as long as one of everything: by variance first, then by the group of the mean.
    longer, size = sum(each > sizes[-1] for each in sizes), sizes[-1]
    rank = mean.argsort(stable=True).argsort()
    behind = rank - longer * (size + 1)  # the first groups have one more block
    group = (rank // (size + 1)).where(behind < 0, longer + behind // size)
    order = variance.argsort(stable=True)
    return np.asarray(blocks[:, order[group[order].argsort(stable=True)]].cpu())


def block_moments(planes: Any, xp: Any = np) -> Any:
    """Return mean, noise variance and total variance of each block of ``(..., H, W)`` that is not constant.

    They are an array ``(3, N)`` where `planes` are, in float64.
    """
    if planes.ndim > 2 and math.prod(planes.shape) > _MOST_VALUES:
        return xp.concat([block_moments(each, xp) for each in planes], axis=1)
    # Contiguous, because the memory layout decides in which order NumPy sums, and so the last bit.
    is_numpy = isinstance(planes, np.ndarray)
    values = np.ascontiguousarray(planes, np.float64) if is_numpy else xp.astype(planes, xp.float64)
    if min(values.shape[-2:]) < BLOCK + 2:
        return xp.reshape(values[..., :0], (3, 0))
    rows = values[..., :-2, :] - 2 * values[..., 1:-1, :] + values[..., 2:, :]
    residual = (rows[..., :-2] - 2 * rows[..., 1:-1] + rows[..., 2:]) / 6
    inner = values[..., 1:-1, 1:-1]
    kinds = (inner, inner**2, residual**2, xp.astype(residual != 0, xp.float64))
    mean, square, noise, nonzero = (xp.reshape(_block_means(each, xp), (-1,)) for each in kinds)
    total = (square - mean**2) * BLOCK**2 / (BLOCK**2 - 1)
    return xp.stack([mean, noise, total])[:, nonzero > MOVING]


def _block_means(values: Any, xp: Any) -> Any:
    """Return the means of overlapping blocks, from sums over the cells that they share."""
    rows, columns = (size // STRIDE for size in values.shape[-2:])
    cells = xp.reshape(
        values[..., : rows * STRIDE, : columns * STRIDE], (*values.shape[:-2], rows, STRIDE, columns, STRIDE)
    )
    sums = xp.sum(xp.sum(cells, axis=-1), axis=-2)
    sums = sums[..., :-1, :] + sums[..., 1:, :]
    return (sums[..., :-1] + sums[..., 1:]) / BLOCK**2


def _fit(curve: NoiseCurve, template: Sensor) -> tuple[float, float]:
    """Return photons and read noise of the sensor that fits the curve best, by a search on ever finer grids.

    The grid is over what the curve determines best, the noise variance at half light,
    ``T = (P / 2 + sigma^2) / P^2`` before clipping, and what it determines worst, the share of read noise in it.
    """
    totals, shares = np.geomspace(*_TOTALS, 81), _SHARES
    best = (np.inf, 1.0, 0.0)
    for turn in range(7):
        for total in totals:
            for share in shares:
                best = min(best, (_misfit(curve, template, *_from_total(total, share)), total, share))
        width = 0.4 * 0.5**turn
        totals = best[1] * np.exp(np.linspace(-width, width, 5))
        odds = max(best[2], 0.01) / (1 - best[2]) * np.exp(4 * np.linspace(-width, width, 7))
        shares = np.concatenate([_SHARES if turn == 0 else [0.0], odds / (1 + odds)])
    return _from_total(*best[1:])


def _from_total(total: float, share: float) -> tuple[float, float]:
    """Return photons and read noise of a noise variance at half light, of which this share is read noise."""
    photons = float(np.clip(1 / (2 * total * (1 - share)), *_PHOTONS))
    return photons, float((share / (1 - share) * photons / 2) ** 0.5)


def _fit_read_noise(curve: NoiseCurve, template: Sensor, photons: float) -> float:
    candidates = np.concatenate([[0.0], np.geomspace(0.02, 1e3, 60)])
    best = (np.inf, 0.0)
    for turn in range(6):
        best = min(best, min((_misfit(curve, template, photons, float(each)), float(each)) for each in candidates))
        width = 0.2 * 0.4**turn
        candidates = max(best[1], 0.01) * np.exp(np.linspace(-width, width, 7))
    return best[1]


def _misfit(curve: NoiseCurve, template: Sensor, photons: float, read_noise: float) -> float:
    """Return the robust distance between the measured curve and that of a sensor, in standard errors."""
    sensor = replace(template, photons=photons, read_noise=read_noise)
    levels = np.concatenate([np.linspace(0, 1, 17), [1.2, 1.5, 2, 3]])
    mean, variance = moments(sensor, levels)
    brighter, darker = (np.interp(curve.mean + side * curve.unevenness, mean, variance) for side in (1, -1))
    expected = (brighter + darker) / 2
    error = np.hypot(curve.error, _MODEL_ERROR * np.maximum(curve.variance, expected))
    distance = (curve.variance - expected) / error
    # Means that the sensor cannot record, below black or above saturation, count as misfit as well.
    outside = np.maximum(0, mean[0] - curve.mean) + np.maximum(0, curve.mean - mean[-1])
    reach = np.maximum(expected, curve.variance) ** 0.5 / BLOCK + 1e-6
    return float(np.log1p(distance**2 / 4).sum() + np.log1p((outside / reach) ** 2 / 4).sum())
