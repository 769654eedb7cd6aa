"""The evidence's steps on the CPU: NumPy arrays, OpenCV's blurs, and calls of the kernels in ``_cpu.py``."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from scotopic.device import cpu_kernels
from scotopic.evidence.channels import gaussian
from scotopic.evidence.confidence import FAINT, explain, partners, reference_disagreement
from scotopic.evidence.groups import EVERY, SIZE, corners, cosines, window
from scotopic.evidence.volume import Features, blurs
from scotopic.progress import Share, unheard
from scotopic.sensor import estimate
from scotopic.settings import EvidenceSettings, MatchingSettings

Map = NDArray[np.float32]


# Images: (H, W, C) or (H, W).


def blurred(image: Map, sigma: float) -> Map:
    """Return an image blurred by a Gaussian, mirrored at its edges."""
    kernel = gaussian(sigma)
    out = cv2.sepFilter2D(image, -1, kernel, kernel, borderType=cv2.BORDER_REFLECT_101)
    return np.asarray(out, np.float32).reshape(image.shape)


def band(image: Map, scale: float, ratio: float) -> Map:
    """Return ``G(scale) - G(ratio scale)`` of an image."""
    return blurred(image, scale) - blurred(image, ratio * scale)


def detail(image: Map, scale: float) -> Map:
    """Return an image less its coarse part."""
    return image - blurred(image, scale)


def halved(image: Map) -> Map:
    """Return the means of 2 x 2 pixels, an odd edge repeated."""
    height, width = image.shape[:2]
    padded = np.pad(image, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
    return np.ascontiguousarray(
        (padded[::2, ::2] + padded[1::2, ::2] + padded[::2, 1::2] + padded[1::2, 1::2]) * np.float32(0.25)
    )


def enlarged(plane: Map, factor: int, shape: tuple[int, int]) -> Map:
    """Return a map of averaged pixels at full size, between their centers linearly."""
    if factor == 1:
        return plane
    size = (plane.shape[1] * factor, plane.shape[0] * factor)
    larger = cv2.resize(plane, size, interpolation=cv2.INTER_LINEAR)
    return np.ascontiguousarray(larger[: shape[0], : shape[1]])


def second_moments(left: Map, right: Map) -> NDArray[np.float64]:
    """Return the mean products of the channels over both views, ``(C, C)``."""
    channels = left.shape[2]
    total = np.zeros((channels, channels))
    for image in (left, right):
        for i in range(channels):
            for j in range(i, channels):
                total[i, j] += np.mean(image[..., i] * image[..., j], dtype=np.float64) / 2
                total[j, i] = total[i, j]
    return total


def turned(image: Map, axes: NDArray[np.float64]) -> Map:
    """Return the channels along other axes."""
    # Written out: a product of matrices adds in an order that depends on its threads.
    parts = [sum(image[..., i] * np.float32(axes[i, j]) for i in range(len(axes))) for j in range(axes.shape[1])]
    return np.stack(parts, axis=-1).astype(np.float32)


def local_signal(image: Map, sigma: float, noise: float) -> Map:
    """Return the energy around each pixel, all channels together, less that of the noise."""
    energy = blurred(_energy(image), sigma) - np.float32(noise * image.shape[2])
    return np.asarray(np.maximum(energy, np.float32(0)))


def quiet_energy(left: Map, right: Map, sigma: float, share: float) -> float:
    """Return the energy per channel below which the quietest share of both views lies."""
    around = [blurred(_energy(image) / np.float32(image.shape[2]), sigma) for image in (left, right)]
    return float(np.quantile(np.stack(around), share))


def _energy(image: Map) -> Map:
    return np.ascontiguousarray((image * image).sum(axis=2), np.float32)


def block_statistics(images: Sequence[Map]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return what the sensor's noise is estimated from: each block's mean, noise variance and whole variance."""
    return estimate.block_statistics(images)


def filtered(images: Sequence[Map], pilots: Sequence[Map], variance: float, count: int, reach: int) -> list[Map]:
    """Return images in which patches that look alike in their pilots were filtered together."""
    return [_filtered(*each, variance, count, reach) for each in zip(images, pilots, strict=True)]


def _filtered(image: Map, pilot: Map, variance: float, count: int, reach: int) -> Map:
    engine, (height, width, channels) = cpu_kernels("evidence"), image.shape
    lengthen = ((0, 0), (0, height % EVERY), (0, width % EVERY))
    seen, clear = (np.pad(np.moveaxis(each, -1, 0), lengthen, mode="edge") for each in (image, pilot))
    rows, columns = corners(height), corners(width)
    groups = engine.find_groups(clear, rows, columns, count, reach).reshape(-1, count)
    transform, weights = cosines().astype(np.float32), window().astype(np.float32).reshape(SIZE, SIZE)
    first, quiet = np.empty((len(groups), SIZE**2), np.float32), np.empty((len(rows), len(columns)), np.float32)
    out = np.empty_like(seen)
    for c in range(channels):
        frequencies = (_frequencies(each[c], transform) for each in (seen, clear))
        engine.filter_groups(groups, *frequencies, np.float32(variance), first, quiet.reshape(-1))
        patches = (first @ transform).reshape(len(rows), len(columns), SIZE, SIZE)
        total, weight = np.zeros_like(seen[c]), np.zeros_like(seen[c])
        for i, j in np.ndindex(SIZE, SIZE):
            # Pixels at one place in their patches: of each patch another one.
            there = slice(i, i + EVERY * len(rows), EVERY), slice(j, j + EVERY * len(columns), EVERY)
            total[there] += quiet * weights[i, j] * patches[:, :, i, j]
            weight[there] += quiet * weights[i, j]
        out[c] = total / weight
    return np.ascontiguousarray(np.moveaxis(out[:, :height, :width], 0, -1))


def _frequencies(plane: Map, transform: Map) -> Map:
    """Return the frequencies of every patch of a plane, ``(patches, SIZE^2)``."""
    patches = np.lib.stride_tricks.sliding_window_view(plane, (SIZE, SIZE)).reshape(-1, SIZE**2)
    return np.asarray(patches @ transform.T)


# Features and the volume.


def ones_like(plane: Map) -> Map:
    """Return a map of ones."""
    return np.ones(plane.shape, np.float32)


def weighed(image: Map, weights: NDArray[np.float64]) -> Map:
    """Return the weighted sum of the squares of the channels, ``(H, W)``."""
    parts = [image[..., c] ** 2 * np.float32(weight) for c, weight in enumerate(weights)]
    return np.asarray(sum(parts), np.float32)


def stacked(planes: Sequence[Map]) -> Map:
    """Return maps as one array ``(F, H, W)``."""
    return np.stack(planes).astype(np.float32, copy=False)


def add_up(features: Sequence[Features], disparities: Sequence[int], progress: Share = unheard) -> Map:
    """Return the volume ``(D, H, W)``: the features' products, blurred by their windows."""
    engine = cpu_kernels("evidence")
    volume = np.zeros((len(disparities), *features[0].left.shape[1:]), np.float32)
    widths = blurs(features)
    for k, d in enumerate(disparities):
        plane = volume[k]
        for each, width in zip(features, widths, strict=True):
            engine.add_products(each.left, each.right, d, plane)
            plane[:] = blurred(plane, width)
        progress((k + 1) / len(disparities))
    return volume


def spread(volume: Map) -> float:
    """Return the mean over the pixels of the standard deviation over disparity; 1 where there is none."""
    unit = float(cpu_kernels("evidence").spread_of_rows(volume).sum()) / (volume.shape[1] * volume.shape[2])
    return unit if unit > 0 else 1.0


# From the volume to disparities.


def whole_costs(volume: Map, step: float, first: int, *, is_left: bool) -> NDArray[np.int16]:
    """Return one view's costs as whole numbers, ``(H, W, D)``."""
    return np.asarray(cpu_kernels("evidence").whole_costs(volume, np.float32(1 / step), first, is_left))


def costs_along(volume: Map, step: float, surface: Map, first: int) -> tuple[NDArray[np.int16], Map]:
    """Return the left view's costs counted from a surface, and the disparity of each pixel's first candidate."""
    start = np.floor(surface + np.float32(0.5)) - np.float32(len(volume) // 2)
    return cpu_kernels("evidence").costs_along(volume, np.float32(1 / step), start, first), start


def even_penalties(shape: tuple[int, int], p2: int) -> NDArray[np.int32]:
    """Return the same ``P2`` everywhere."""
    return np.full(shape, p2, np.int32)


def between(total: NDArray[np.int32], best: NDArray[np.int64], first: int) -> Map:
    """Return the disparities at the minima of parabolas through the sums around the best candidates."""
    candidates = total.shape[2]
    index = best - first
    if candidates < 3:
        return np.asarray(best, np.float32)
    middle = np.clip(index, 1, candidates - 2)
    below, here, above = (np.take_along_axis(total, (middle + k)[..., None], axis=2)[..., 0] for k in (-1, 0, 1))
    bend = below.astype(np.int64) - 2 * here.astype(np.int64) + above
    inner = (index == middle) & (bend > 0)
    offset = np.where(inner, (below - above) / np.maximum(2 * bend, 1), 0.0)
    return (best + offset).astype(np.float32)


def as_float(values: NDArray[np.int64], factor: float) -> Map:
    """Return whole numbers times a factor as float32."""
    return (values * factor).astype(np.float32)


def disagreement(left: Map, right: Map) -> Map:
    """Return by how much the views' disparities differ; infinite where a partner lies outside the right view."""
    return reference_disagreement(left, right)


def fused(left: Map, right: Map) -> Map:
    """Return the mean of both views' disparities where they agree to a pixel, the left one's elsewhere."""
    partner, _ = partners(left, right)
    return np.where(np.abs(partner - left) < 1, (left + partner) / 2, left).astype(np.float32)


def sureness(margin: Map, apart: Map, slack: float) -> Map:
    """Return the margin, less where the views disagree by more than the slack."""
    return np.asarray(margin * np.exp(-np.maximum(apart - np.float32(slack), np.float32(0))))


def planes(disparity: Map, sure: Map, settings: EvidenceSettings) -> Map:
    """Return the disparity with planes laid through it."""
    engine = cpu_kernels("evidence")
    weights, present = sure + np.float32(FAINT), disparity
    for _ in range(settings.plane_rounds):
        present = engine.lay_planes(
            disparity, weights, present, settings.plane_sigma, settings.plane_tau, settings.plane_ridge
        )
    return np.asarray(present)


def agreed(sure: Map, settings: EvidenceSettings) -> Map:
    """Return the geometric mean of how sure the pixels around each one are."""
    near = blurred(sure, settings.confidence_blur) + np.float32(settings.confidence_floor)
    return np.asarray(np.exp(blurred(np.log(near), settings.confidence_reach)))


def within(disparity: Map, first: float, last: float) -> Map:
    """Return disparities kept in the range that was searched."""
    return np.clip(disparity, np.float32(first), np.float32(last))


def keep(disparity: Map, confidence: Map, apart: Map, settings: MatchingSettings) -> tuple[Map, NDArray[np.uint8]]:
    """Return the disparity where it is sure enough, NaN elsewhere, and the reasons."""
    reason = explain(confidence, apart, settings)
    return np.where(reason == 0, disparity, np.float32(np.nan)), reason


def signal_to_noise(image: Map, variance: float, settings: EvidenceSettings) -> float:
    """Return the median over the image of the finest band's signal over its noise."""
    from scotopic.evidence.channels import band_kernel

    fine = band(image, settings.finest_scale, 2.0)
    noise = variance * band_kernel(settings.finest_scale, 2.0)[0]
    around = blurred(_energy(fine) / np.float32(fine.shape[2]), 6 * settings.finest_scale)
    if float(np.quantile(around, settings.quiet_share)) > settings.white_factor * noise:
        noise = float(np.quantile(around, settings.quiet_share))
    return max(float(np.median(around)) / noise - 1, 0.0)
