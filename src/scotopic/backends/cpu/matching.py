"""Patch costs and semi-global matching on the CPU: calls of ``matching_kernels.py``."""

import numpy as np

from scotopic.backends.cpu import matching_kernels as kernels
from scotopic.backends.cpu.junctions import paint_rows
from scotopic.backends.cpu.threads import share_out
from scotopic.constants import DIRECTIONS
from scotopic.progress import Share
from scotopic.settings import JunctionSettings
from scotopic.subpixel import parabola_offset


class CpuMatching:
    """Implements the matching of :class:`~scotopic.backends.protocol.Backend`."""

    def patch_costs(
        self,
        planes: np.ndarray,
        parameters: np.ndarray,
        other_image: np.ndarray,
        other_map: np.ndarray,
        settings: JunctionSettings,
        disparities: range,
        weights: tuple[float, float, float],
        *,
        is_left: bool,
        progress: Share,
    ) -> np.ndarray:
        first, candidates, size = disparities[0], len(disparities), settings.patch_size
        # Centered pixels: smaller sums, better rounding, the same differences.
        planes = planes - np.float32(0.5)
        image, plain = (np.ascontiguousarray(np.moveaxis(a, -1, 0)) - np.float32(0.5) for a in (other_image, other_map))
        before, after = max(0, -first) + size, max(0, first + candidates) + size
        # Along a line the partners of a pixel at rising disparity follow each other, for either view.
        image_lines, plain_lines = (
            np.pad(each[..., :: -1 if is_left else 1], ((0, 0), (0, 0), (before, after))) for each in (image, plain)
        )
        volume = np.empty((*parameters.shape[:2], candidates), np.float32)

        def fill(start: int, stop: int) -> None:
            rows = range(start, stop)
            for row, (top, painted) in zip(rows, paint_rows(planes, parameters, settings, rows), strict=True):
                kernels.cost_row(
                    painted, planes, size, settings.stride, top, *other_image.shape[:2], image, plain, image_lines,
                    plain_lines, before, first, is_left, *weights, volume[row],
                )  # fmt: skip

        share_out(fill, len(volume), progress=progress)
        return volume

    def patch_maxima(self, values: np.ndarray, patches: tuple[int, int], settings: JunctionSettings) -> np.ndarray:
        size, stride = settings.patch_size, settings.stride
        tops, lefts = (range(0, count * stride, stride) for count in patches)
        return np.array([[values[i : i + size, j : j + size].max() for j in lefts] for i in tops])

    def aggregate(self, costs: np.ndarray, penalties: np.ndarray, p1: int) -> np.ndarray:
        rows, columns, _ = costs.shape
        totals = np.zeros(costs.shape, np.int32)
        for down, right in DIRECTIONS:
            paths = rows if down == 0 else (columns if right == 0 else rows + columns - 1)
            share_out(kernels.aggregate, paths, costs, penalties, p1, down, right, totals)
        return totals

    def select(self, totals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        best, margin = np.empty(totals.shape[:2], np.int64), np.empty(totals.shape[:2], np.int64)
        share_out(kernels.select, len(totals), totals, best, margin)
        return best, margin

    def subpixel(self, totals: np.ndarray, best: np.ndarray, first: int) -> np.ndarray:
        candidates = totals.shape[2]
        if candidates < 3:
            return (best + first).astype(np.float32)
        middle = np.clip(best, 1, candidates - 2).astype(np.int64)
        below, here, above = (
            np.take_along_axis(totals, (middle + k)[..., None], axis=2)[..., 0].astype(np.float64) for k in (-1, 0, 1)
        )
        is_minimum = (best == middle) & (below - 2 * here + above > 0)
        offset = np.where(is_minimum, parabola_offset(below, here, above), 0.0)
        return (best + first + offset).astype(np.float32)
