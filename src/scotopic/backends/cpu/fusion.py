"""Fusion on the CPU: calls of ``fusion_kernels.py``."""

from collections.abc import Sequence

import numpy as np

from scotopic.backends.cpu import fusion_kernels as kernels
from scotopic.backends.cpu.threads import share_out
from scotopic.backends.protocol import Compared, Floats, Projection


class CpuFusion:
    """Implements the fusion of :class:`~scotopic.backends.protocol.Backend`."""

    def splat(self, q: np.ndarray, place: np.ndarray) -> np.ndarray:
        front = np.zeros((1, *q.shape), np.float32)
        kernels.splat(0, 1, np.ascontiguousarray(q), np.ascontiguousarray(place[None]), front)
        return np.asarray(front[0])

    def look_back(
        self,
        images: Sequence[np.ndarray],
        counts: Sequence[np.ndarray],
        q: np.ndarray,
        looks: np.ndarray,
        hidden: float,
    ) -> tuple[np.ndarray, np.ndarray]:
        q, looks = np.ascontiguousarray(q), np.ascontiguousarray(looks)
        fronts = np.zeros((len(images), *q.shape), np.float32)
        share_out(kernels.splat, len(images), q, looks, fronts)
        total, weight = np.zeros_like(images[0]), np.zeros_like(q)
        for image, count, front, look in zip(images, counts, fronts, looks, strict=True):
            share_out(
                kernels.look_back, len(q), np.ascontiguousarray(image), np.ascontiguousarray(count), q, front, look,
                np.float32(hidden), total, weight,
            )  # fmt: skip
        return total, weight

    def compare(self, views: Compared[np.ndarray], places: Sequence[Sequence[Projection]]) -> Floats:
        arrays = [
            np.ascontiguousarray(each) for each in (views.image, views.jacobian, views.weight, views.q, views.other)
        ]
        numbers = np.array([[place.numbers() for place in each] for each in places], np.float32)
        found = np.empty((*numbers.shape[:2], 9, 3))
        for motion, view in np.ndindex(numbers.shape[:2]):
            height = arrays[0].shape[1]
            sums = np.zeros((height, 9, 3))  # of rows, so that the order of adding does not depend on threads
            share_out(kernels.compare, height, *(each[view] for each in arrays), numbers[motion, view], sums)
            found[motion, view] = sums.sum(axis=0)
        return found

    def velocity_gains(
        self,
        means: np.ndarray,
        weights: np.ndarray,
        certainty: np.ndarray,
        steps: np.ndarray,
        most: float,
        margin: int,
    ) -> np.ndarray:
        views, _, _, height, width = means.shape
        gains = np.zeros((len(steps), views, height, width), np.float32)
        arrays = [np.ascontiguousarray(each) for each in (means, weights, certainty, steps)]
        share_out(kernels.velocity_gains, height, *arrays, np.float32(most), margin, gains)
        return gains
