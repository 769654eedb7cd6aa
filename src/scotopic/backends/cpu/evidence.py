"""Evidence on the CPU: calls of ``evidence_kernels.py`` between NumPy and OpenCV."""

from collections.abc import Sequence

import numpy as np

from scotopic.backends.cpu import evidence_kernels as kernels
from scotopic.backends.cpu.images import CpuImages
from scotopic.backends.cpu.threads import share_out
from scotopic.backends.gaussian import cascade_blurs
from scotopic.backends.protocol import Ballot, Features, Floats, PatchFilter
from scotopic.progress import Share
from scotopic.settings import PlaneSettings

# Of a product of matrices. So small a one BLAS computes on one thread; after a larger one its threads keep a core busy
# for 50 ms each, waiting for more.
_ROWS_AT_ONCE = 64


class CpuEvidence(CpuImages):
    """Implements the evidence of :class:`~scotopic.backends.protocol.Backend`."""

    def filter_similar_patches(
        self, image: np.ndarray, pilot: np.ndarray, variance: float, tables: PatchFilter
    ) -> np.ndarray:
        size, stride, (height, width, channels) = tables.size, tables.stride, image.shape
        padding = ((0, 0), (0, -(height - size) % stride), (0, -(width - size) % stride))
        noisy, clear = (np.pad(np.moveaxis(each, -1, 0), padding, mode="edge") for each in (image, pilot))
        rows, columns = (np.arange(0, length - size + 1, stride) for length in noisy.shape[1:])
        find_groups = kernels.make_find_groups(size)
        found = np.empty((len(rows), len(columns), tables.count), np.int32)
        share_out(find_groups, len(rows), clear, rows, columns, tables.reach, found)
        groups = found.reshape(-1, tables.count)
        transform, along_side = tables.along_patch.astype(np.float32), tables.along_side.astype(np.float32)
        window = tables.window.astype(np.float32).reshape(size, size)
        blocks = np.zeros((-(-len(groups) // _ROWS_AT_ONCE), _ROWS_AT_ONCE, size**2), np.float32)
        first = blocks.reshape(-1, size**2)[: len(groups)]
        confidence = np.empty((len(rows), len(columns)), np.float32)
        out = np.empty_like(noisy)
        for c in range(channels):
            frequencies = (_transform_patches(each[c], along_side) for each in (noisy, clear))
            share_out(
                kernels.filter_groups, len(groups), groups, *frequencies, np.float32(variance), first,
                confidence.reshape(-1),
            )  # fmt: skip
            patches = (blocks @ transform).reshape(-1, size**2)[: len(groups)]
            patches = patches.reshape(len(rows), len(columns), size, size)
            total, weight = np.zeros_like(noisy[c]), np.zeros_like(noisy[c])
            for i, j in np.ndindex(size, size):
                # Pixels at one place in their patches: one of each patch.
                there = slice(i, i + stride * len(rows), stride), slice(j, j + stride * len(columns), stride)
                total[there] += confidence * window[i, j] * patches[:, :, i, j]
                weight[there] += confidence * window[i, j]
            out[c] = total / weight
        return np.ascontiguousarray(np.moveaxis(out[:, :height, :width], 0, -1))

    def channel_features(
        self, left: np.ndarray, right: np.ndarray, units: np.ndarray | None, own: Floats, product: Floats
    ) -> tuple[np.ndarray, np.ndarray]:
        units = np.ones_like(left[..., 0]) if units is None else units
        own_left, own_right = (self.mix_channels(each * each, own[:, None])[..., 0] for each in (left, right))
        scaled = (units * left[..., c] * np.float32(-factor) for c, factor in enumerate(product))
        here = np.stack([units * own_left, units, *scaled])
        return here, np.stack([np.ones_like(units), own_right, *np.moveaxis(right, -1, 0)])

    def build_volume(self, features: Sequence[Features[np.ndarray]], disparities: range, progress: Share) -> np.ndarray:
        volume = np.zeros((len(disparities), *features[0].left.shape[1:]), np.float32)
        blurs = cascade_blurs([each.window for each in features])

        def fill(first: int, stop: int) -> None:
            for k in range(first, stop):
                plane = volume[k]
                for each, sigma in zip(features, blurs, strict=True):
                    kernels.add_products(each.left, each.right, disparities[k], plane)
                    plane[:] = self.blur(plane, sigma)

        share_out(fill, len(volume), progress=progress)
        return volume

    def census_volume(
        self, left: np.ndarray, right: np.ndarray, disparities: range, window: float, progress: Share
    ) -> np.ndarray:
        volume = np.empty((len(disparities), *left.shape[1:]), np.float32)

        def fill(first: int, stop: int) -> None:
            for k in range(first, stop):
                kernels.census_costs(left, right, disparities[k], volume[k])
                volume[k] = self.blur(volume[k], window)

        share_out(fill, len(volume), progress=progress)
        return volume

    def color_volume(
        self,
        left: np.ndarray,
        right: np.ndarray,
        disparities: range,
        scale: float,
        window: float,
        progress: Share,
    ) -> np.ndarray:
        here, there = (np.ascontiguousarray(np.moveaxis(each, -1, 0)) for each in (left, right))
        channels, height, width = here.shape
        volume, columns = np.empty((len(disparities), height, width), np.float32), np.arange(width)

        def fill(first: int, stop: int) -> None:
            for k in range(first, stop):
                partner = there[..., np.clip(columns - disparities[k], 0, width - 1)]
                partner -= here
                partner *= partner
                energy = partner.sum(axis=0)
                energy *= np.float32(1 / channels)
                volume[k] = self.blur(energy / (energy + np.float32(scale**2)), window)

        share_out(fill, len(volume), progress=progress)
        return volume

    def census(self, gray: np.ndarray, radius: int, scale: float, falloff: float, steps: int) -> np.ndarray:
        height, width = gray.shape
        padded, reach = np.pad(gray, radius, mode="edge"), range(2 * radius + 1)

        def feature(i: int, j: int) -> np.ndarray:
            off = (padded[i : i + height, j : j + width] - gray) / np.float32(scale)
            bounded: np.ndarray = np.tanh(off) * np.exp(np.abs(off) / np.float32(-falloff))
            return np.floor(bounded * steps + 0.5)

        features = [feature(i, j) for i in reach for j in reach if (i, j) != (radius, radius)]
        return np.stack(features, dtype=np.int8, casting="unsafe")

    def weigh_cells(self, volume: np.ndarray, left: np.ndarray, right: np.ndarray, disparities: range) -> None:
        columns, last = np.arange(right.shape[1]), right.shape[1] - 1
        for k, d in enumerate(disparities):
            volume[k] *= left * right[:, np.clip(columns - d, 0, last)]

    def normalize_volume(self, volume: np.ndarray) -> None:
        rows = np.empty(volume.shape[1])
        share_out(kernels.spread_of_rows, len(rows), volume, rows)
        spread = float(rows.sum()) / float(volume.shape[1] * volume.shape[2])
        if spread > 0:
            volume *= np.float32(1 / spread)

    def quantize_costs(self, volume: np.ndarray, step: float, max_cost: int, shear_from: int | None) -> np.ndarray:
        out = _costs_like(volume)
        is_left = shear_from is None
        share_out(kernels.quantize, len(out), volume, np.float32(1 / step), max_cost, shear_from or 0, is_left, out)
        return out

    def quantize_costs_along(self, volume: np.ndarray, step: float, max_cost: int, start: np.ndarray) -> np.ndarray:
        out = _costs_like(volume)
        share_out(kernels.quantize_along, len(out), volume, np.float32(1 / step), max_cost, start, out)
        return out

    def add_votes(
        self,
        volume: np.ndarray,
        view: np.ndarray,
        disparity: np.ndarray,
        down: np.ndarray,
        along: np.ndarray,
        weights: np.ndarray,
        ballot: Ballot,
    ) -> None:
        share_out(
            kernels.add_votes, len(disparity), np.ascontiguousarray(view), disparity, down, along, weights,
            np.array(ballot.places, np.int64), np.float32(-0.5 / ballot.contrast**2), np.float32(ballot.weight),
            np.float32(1 / ballot.usual), np.float32(ballot.held_against), np.float32(ballot.floor), volume,
        )  # fmt: skip

    def fit_planes(
        self, disparity: np.ndarray, weights: np.ndarray, present: np.ndarray, planes: PlaneSettings, spacing: int
    ) -> np.ndarray:
        out = np.empty(disparity.shape, np.float32)
        share_out(
            kernels.fit_planes, len(out), disparity, weights, present, planes.sigma, planes.tau, planes.ridge, spacing,
            out,
        )  # fmt: skip
        return out


def _costs_like(volume: np.ndarray) -> np.ndarray:
    candidates, height, width = volume.shape
    return np.empty((height, width, candidates), np.int16)


def _transform_patches(plane: np.ndarray, along_side: np.ndarray) -> np.ndarray:
    """Return the frequencies of every patch of a plane, ``(patches, size^2)``."""
    size = len(along_side)
    rows, columns = (length - size + 1 for length in plane.shape)
    out = np.empty((rows, columns, size, size), np.float32)
    share_out(kernels.transform_patches, rows, np.ascontiguousarray(plane), along_side, out)
    return out.reshape(-1, size**2)
