"""How the cameras moved between two pairs: direct alignment of images, both views and all channels together.

The last pair, denoised, is the template: points at known disparities. The motion is wanted after which the new pair
shows the same values at the places where those points are now seen. With ``r = (I(W(x)) - offset) / gain - T(x)``,
``J`` the template's gradient times the derivative of the place by the six numbers of a motion (:func:`derivatives`),
and weights ``w`` that say how sure a disparity is, each step solves::

    (sum w J^T J) step = sum w J^T r

and the motion becomes ``motion * exp(-step)``: Gauss-Newton steps, inverse compositional (Baker and Matthews, 2004).
Gain and offset of each view are fitted along. What is brought to zero is the right side of the equation, not a sum of
squares, and ``J`` belongs to the template. So noise in the new pair moves nothing, nor that interpolation weakens it
between pixels. Noise in the template's gradient makes steps too short; more of them are taken. Pixels at a jump of the
disparity are left out: their gradient belongs to one surface, their place may be the other's.

Coarse to fine, by halving, up to half size, where a pixel is the mean of four. The coarsest sizes are tried from
several starts: the motion so far continued, no motion, and, where the rig may be in a car, steps forward.

**Covariance.** ``A^-1 M A^-T``. ``M`` is the sum over blocks of the outer products of their sums ``w J^T r``: what
neighboring pixels get wrong together, by noise or by a wrong disparity, counts together (White, 1980). ``A = sum w J^T
K`` with ``K`` from the gradient of the new pair is what ``sum w J^T J`` would be without noise in ``J``, since the
noise of the two is independent. It is inverted along the directions that change places by 1 px each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic

import numpy as np

from scotopic.arrays import Array
from scotopic.backends.device import to_numpy
from scotopic.backends.protocol import Backend, Compared, Look
from scotopic.fusion.geometry import Matrix, Rays, StereoCamera, exponential, project
from scotopic.stages.channels import both, high_pass

SMALLEST = 16  #: px along the shorter side of the coarsest size, at least
STEPS = 15  #: at most, at each size
ENOUGH = 0.02  #: px; a step that changes places by less than this, in the mean, is the last
TRIED = 2  #: sizes that are tried from several starts
BLOCKS = 300  #: of a view, about, for the covariance and the likeness
SMALLEST_BLOCK, LARGEST_BLOCK = 4, 12  #: px along their sides
EDGE = 1.5  #: px of disparity between neighbors, at each size, from which on they are of different surfaces
LEAST_SLOPE = 1e-3  #: of that along another direction, by which a change of place by as many px shows
DETAIL = 4.0  #: px at half size; the likeness of two pairs is that of what is finer than this


@dataclass(frozen=True, eq=False)
class View(Generic[Array]):
    """One view of the template: image ``(H, W, C)``, disparity and weight of each pixel ``(H, W)``."""

    image: Array
    disparity: Array
    weight: Array


@dataclass(frozen=True)
class Motion:
    """A motion between two pairs.

    Attributes
    ----------
    matrix
        4 x 4, takes points of the template's left camera to the new one's; lengths in baselines.
    covariance
        6 x 6, of a twist before the motion: translation in baselines, rotation in radians.
    gain
        Of both views: contrast of the new pair over the template's.
    brightness
        Of both views: mean value of the template, and of the new pair at the same places.
    likeness
        How many standard deviations the correlation of the two pairs' details is above 0; a few if they show different
        scenes.
    """

    matrix: Matrix
    covariance: Matrix
    gain: tuple[float, float]
    brightness: tuple[tuple[float, float], tuple[float, float]]
    likeness: float


@dataclass(frozen=True, eq=False)
class Size(Generic[Array]):
    """Template and new pair at one size."""

    camera: StereoCamera
    views: Compared[Array]
    hessian: Matrix
    flow: Matrix  #: of the mean squared change of place that a twist makes


def estimate_motion(
    backend: Backend[Array],
    camera: StereoCamera,
    template: Sequence[View[Array]],
    pair: Sequence[Array],
    starts: Sequence[Matrix],
) -> Motion:
    """Return the motion from a template at half size to a new pair at full size; `starts` are motions to begin with."""
    return find_motion(backend, prepare_sizes(backend, camera, template, pair), starts)


def find_motion(backend: Backend[Array], sizes: Sequence[Size[Array]], starts: Sequence[Matrix]) -> Motion:
    """Return the motion between a template and a new pair that are prepared to be compared."""
    motions = list(starts)
    for number, size in enumerate(sizes):
        motions = _align(backend, size, motions)
        if len(motions) > 1 and (number >= TRIED - 1 or len(sizes) <= TRIED):
            fits = [_correlation(each) for each in _compare(backend, size, motions)]
            motions = [motions[int(np.argmax(fits))]]
    motion = motions[0]
    fit = _fit_exposure(_compare(backend, size, motions)[0])
    covariance, likeness = _judge(backend, size, motion, fit)
    return Motion(motion, covariance, fit.gain, fit.brightness, likeness)


def prepare_sizes(
    backend: Backend[Array], camera: StereoCamera, template: Sequence[View[Array]], pair: Sequence[Array]
) -> list[Size[Array]]:
    """Return half size and below, the coarsest first."""
    arrays = [each for view in template for each in (view.image, view.disparity, view.weight)]
    work = partial(_prepare_views, backend, camera)
    *views, sums = backend.replayed(("sizes", camera), work, *arrays, *pair)
    (squares,) = to_numpy(sums)
    sizes = []
    for each, (hessian, flow) in zip(views, squares, strict=True):
        camera = camera.halved()
        sizes.append(Size(camera, each, hessian, flow))
    return sizes[::-1]


def _prepare_views(backend: Backend[Array], camera: StereoCamera, *arrays: Array) -> list[Any]:
    """Return both views at half size, then at each size below, and ``(sizes, 2, 6, 6)``: Hessian and flow of each."""
    views, pair = [list(arrays[:3]), list(arrays[3:6])], arrays[6:]
    channels = views[0][0].shape[2]  # one where the three of the pictures are equal
    others = [backend.halve(image[..., :channels]) for image in pair]
    prepared: list[Any] = []
    sums: list[Array] = []
    while True:
        camera = camera.halved()
        compared: list[list[Array]] = []
        hessian: list[Array] = []
        flow: list[Array] = []
        for k, ((image, disparity, weight), other) in enumerate(zip(views, others, strict=True)):
            rays, q = Rays.of_view(backend, camera, image.shape, k == 1), disparity + camera.doffs
            places = derivatives(backend, camera, rays, q)
            jacobian = chain(gradient(backend, image), places)
            lowest, highest = backend.window_range(disparity, 1)
            smooth = weight * backend.xp.astype(highest - lowest < EDGE, backend.xp.float32)
            compared.append([image, jacobian, smooth, q, other])
            hessian.append(_products(backend, jacobian * smooth[..., None], jacobian))
            if k == 0:
                flow = [_products(backend, each, each) / (q.shape[0] * q.shape[1]) for each in places]
        prepared.append(Compared(*(backend.xp.stack(list(both_views)) for both_views in zip(*compared, strict=True))))
        sums.append(backend.xp.stack([hessian[0] + hessian[1], flow[0] + flow[1]]))
        if min(others[0].shape[:2]) < 2 * SMALLEST:
            prepared.append(backend.xp.stack(sums))
            return prepared
        views = [
            [backend.halve(image), backend.halve(disparity) / 2, backend.halve(weight)]
            for image, disparity, weight in views
        ]
        others = [backend.halve(image) for image in others]


def gradient(backend: Backend[Array], image: Array) -> tuple[Array, Array]:
    """Return central differences along rows and columns; 0 at the edge."""
    across, down = backend.xp.zeros_like(image), backend.xp.zeros_like(image)
    across[:, 1:-1] = (image[:, 2:] - image[:, :-2]) / 2
    down[1:-1] = (image[2:] - image[:-2]) / 2
    return across, down


def derivatives(backend: Backend[Array], camera: StereoCamera, rays: Rays[Array], q: Array) -> tuple[Array, Array]:
    """Return the derivatives of column and row by a twist before the projection, ``(6, H, W)`` each."""
    u, f = rays.u, camera.focal
    x = u + q if rays.is_right else u + 0 * q  # q times the X of the points in the left camera
    v = rays.v + 0 * q
    du = [q, 0 * q, u * q * (-1 / f), u * v * (-1 / f), f + u * x * (1 / f), -v]
    dv = [0 * q, q, v * q * (-1 / f), -f - v * v * (1 / f), v * x * (1 / f), x]
    return backend.xp.stack(du), backend.xp.stack(dv) * (1 / camera.aspect)


def chain(slopes: tuple[Array, Array], places: tuple[Array, Array]) -> Array:
    """Return the derivatives of an image's values by a twist, ``(6, H, W, C)``: its gradient times those of places."""
    (across, down), (du, dv) = slopes, places
    by_twist: Array = across * du[..., None] + down * dv[..., None]
    return by_twist


@dataclass(frozen=True)
class _Comparison:
    """Weighted sums over one view, ``t`` the template's values and ``s`` those of the new pair.

    ``plain`` is ``(3, 3)``: of ``1, t, s`` times ``1, t, s``; ``jacobian`` is ``(6, 3)``: of ``J`` times ``1, t, s``.
    """

    plain: Matrix
    jacobian: Matrix


@dataclass(frozen=True)
class _Exposure:
    gain: tuple[float, float]
    brightness: tuple[tuple[float, float], tuple[float, float]]

    def offset(self, view: int) -> float:
        """Return what is left of the new pair's values where the template is 0."""
        template, seen = self.brightness[view]
        return seen - self.gain[view] * template


def _compare(backend: Backend[Array], size: Size[Array], motions: Sequence[Matrix]) -> list[list[_Comparison]]:
    """Return the comparisons of both views after each of several motions."""
    places = [[size.camera.projection(motion, is_right) for is_right in (False, True)] for motion in motions]
    return [[_Comparison(sums[:3], sums[3:]) for sums in each] for each in backend.compare(size.views, places)]


def sample_linear(backend: Backend[Array], image: Array, x: Array, y: Array) -> tuple[Array, Array]:
    """Return an image between its pixels, and which of the places lie inside it."""
    xp, (height, width, channels) = backend.xp, image.shape
    inside = (x >= 0) & (x <= width - 1) & (y >= 0) & (y <= height - 1)
    x, y = xp.where(inside, x, 0.0), xp.where(inside, y, 0.0)
    left, top = xp.clip(xp.floor(x), max=width - 2), xp.clip(xp.floor(y), max=height - 2)
    a, b = x - left, y - top
    first = xp.reshape(xp.astype(top, xp.int64) * width + xp.astype(left, xp.int64), (-1,))
    flat = xp.reshape(image, (height * width, channels))
    shares = [(1 - a) * (1 - b), a * (1 - b), (1 - a) * b, a * b]
    total = 0 * image
    for step, share in zip((0, 1, width, width + 1), shares, strict=True):
        total = total + xp.reshape(xp.take(flat, first + step, axis=0), image.shape) * share[..., None]
    return total, inside


def _fit_exposure(comparisons: Sequence[_Comparison]) -> _Exposure:
    gains, means = [], []
    for one in comparisons:
        (n, t, s), (_, tt, ts), _ = one.plain
        n = max(n, 1e-9)
        gain = (ts - t * s / n) / max(tt - t * t / n, 1e-12)
        gains.append(max(float(gain), 0.1))  # a pair that shows something else has no gain to divide by
        means.append((float(t / n), float(s / n)))
    return _Exposure((gains[0], gains[1]), (means[0], means[1]))


def _correlation(comparisons: Sequence[_Comparison]) -> float:
    """Return the correlation of template and new pair, both views together."""
    total = np.zeros(3)
    for one in comparisons:
        (n, t, s), (_, tt, ts), (_, _, ss) = one.plain
        n = max(n, 1e-9)
        total += tt - t * t / n, ts - t * s / n, ss - s * s / n
    return float(total[1] / max(total[0] * total[2], 1e-12) ** 0.5)


def _align(backend: Backend[Array], size: Size[Array], starts: Sequence[Matrix]) -> list[Matrix]:
    """Return the motions at one size that are found from several, side by side."""
    hessian = size.hessian + 1e-6 * np.diag(np.diag(size.hessian)) + 1e-12 * np.eye(6)
    motions, moving = list(starts), list(range(len(starts)))
    for _ in range(STEPS):
        compared = _compare(backend, size, [motions[number] for number in moving])
        before, moving = moving, []
        for number, comparisons in zip(before, compared, strict=True):
            score = _score(comparisons, _fit_exposure(comparisons))
            step: Matrix = np.asarray(np.linalg.solve(hessian, score), np.float64)
            motions[number] = motions[number] @ exponential(-step)
            if float(step @ size.flow @ step) >= ENOUGH**2:
                moving.append(number)
        if not moving:
            break
    return motions


def _score(comparisons: Sequence[_Comparison], exposure: _Exposure) -> Matrix:
    """Return ``sum w J^T r``."""
    score = np.zeros(6)
    for view, (one, gain) in enumerate(zip(comparisons, exposure.gain, strict=True)):
        score += one.jacobian @ (-exposure.offset(view) / gain, -1.0, 1 / gain)
    return score


def _products(backend: Backend[Array], one: Array, other: Array) -> Array:
    """Return the sums of the products of some images with others."""
    xp = backend.xp
    return backend.inner_products(*(xp.reshape(each, (each.shape[0], -1)) for each in (one, other)))


def _judge(backend: Backend[Array], size: Size[Array], motion: Matrix, exposure: _Exposure) -> tuple[Matrix, float]:
    """Return the covariance of a motion, and how clearly the details of the two pairs are alike after it."""
    camera, views = size.camera, size.views
    arrays = views.image, views.q, views.jacobian, views.weight, views.other
    looks = [
        Look(camera.projection(motion, k == 1), gain=exposure.gain[k], offset=exposure.offset(k)).numbers()
        for k in (0, 1)
    ]
    work = partial(_sum_blocks_of_views, backend, camera)
    numbers = backend.asarray(np.array(looks, np.float32))
    slopes, sums, products = to_numpy(*backend.replayed(("judge", camera), work, numbers, *arrays))
    likeness = float(products.sum() / max((products**2).sum(), 1e-30) ** 0.5)
    return sandwich(slopes, sums, size.flow), likeness


def sandwich(slopes: Matrix, sums: Matrix, flow: Matrix) -> Matrix:
    """Return ``A^-1 M A^-T``, infinite if nothing is known.

    Twists are compared by the change of place that they make. As numbers, baselines and radians do not compare: seen
    through a long lens a shift is nearly a turn back, and what tells them apart is small beside either.
    """
    scale = np.sqrt(np.maximum(np.diag(flow), 1e-12 * flow.max() + 1e-30))
    lengths, turned = np.linalg.eigh(flow / np.outer(scale, scale))
    unit = turned / np.sqrt(np.maximum(lengths, 1e-9)) / scale[:, None]  # its columns change places by 1 px
    values, axes = np.linalg.eigh(unit.T @ (slopes + slopes.T) @ unit / 2)
    if not values.max() > 0:  # as where no pixel has a disparity
        return np.diag(np.full(6, np.inf))
    # Where noise leaves no slope at all along some direction, nothing is known about the motion along it.
    axes = unit @ axes
    back = axes @ np.diag(1 / np.maximum(values, LEAST_SLOPE * values.max())) @ axes.T
    return np.asarray(back @ (sums @ sums.T) @ back)


def _sum_blocks_of_views(backend: Backend[Array], camera: StereoCamera, looks: Array, *views: Array) -> list[Array]:
    """Return ``A``, ``(6, 6)``, and of the blocks of both views the sums of ``w J^T r`` and of products of details."""
    xp = backend.xp
    slopes: list[Array] = []
    sums: list[Array] = []
    products: list[Array] = []
    for k in (0, 1):
        image, q, jacobian, weight, other = (each[k] for each in views)
        rays, (gain, offset) = Rays.of_view(backend, camera, image.shape, k == 1), (looks[k, 18], looks[k, 19])
        x, y, there = project(backend, rays, q, looks[k])
        across, down = gradient(backend, other)
        stack, inside = sample_linear(backend, xp.concat([other, across, down], axis=2), x, y)
        weight = (weight * xp.astype(inside & (there > 0), xp.float32))[..., None]
        channels = image.shape[2]
        seen, across, down = (stack[..., first : first + channels] for first in range(0, 3 * channels, channels))
        there = chain((across / gain, down / gain), derivatives(backend, camera, rays, q))
        slopes.append(_products(backend, jacobian * weight, there))
        sums.append(_block_sums(backend, jacobian * (((seen - offset) / gain - image) * weight)))
        fine = high_pass(backend, both(backend, image, seen), DETAIL)
        products.append(_block_sums(backend, (fine[0] * fine[1] * weight)[None]))
    return [slopes[0] + slopes[1], xp.concat(sums, axis=1), xp.concat(products, axis=1)]


def _block_sums(backend: Backend[Array], images: Array) -> Array:
    """Return the sums of the blocks of some images ``(K, H, W, C)``, all channels together: ``(K, blocks)``."""
    xp, (count, height, width, _) = backend.xp, images.shape
    side = min(max(round((height * width / BLOCKS) ** 0.5), SMALLEST_BLOCK), LARGEST_BLOCK)
    rows, columns = -(-height // side), -(-width // side)
    sums = xp.sum(xp.astype(images, xp.float64), axis=3)
    for axis, (length, whole) in enumerate(((height, rows * side), (width, columns * side)), 1):
        nothing: Array = 0 * xp.take(sums, backend.arange(1), axis=axis)
        sums = xp.concat([sums] + [nothing] * (whole - length), axis=axis)
    parts = xp.reshape(sums, (count, rows, side, columns, side))
    return xp.reshape(xp.sum(xp.sum(parts, axis=4), axis=2), (count, -1))
