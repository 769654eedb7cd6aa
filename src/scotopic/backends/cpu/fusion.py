"""Fusion on the CPU: calls of ``fusion_kernels.py``."""

from collections.abc import Sequence

import numpy as np

from scotopic.backends.cpu import fusion_kernels as kernels
from scotopic.backends.cpu.threads import share_out
from scotopic.backends.protocol import Compared, Floats, Projection


class CpuFusion:
    """Implements the fusion of :class:`~scotopic.backends.protocol.Backend`."""

    def splat(self, q: np.ndarray, projection: Projection) -> np.ndarray:
        front = np.zeros(q.shape, np.float32)
        kernels.splat(np.ascontiguousarray(q), _numbers(projection), front)
        return front

    def look_back(
        self, image: np.ndarray, q: np.ndarray, projection: Projection, hidden: float
    ) -> tuple[np.ndarray, np.ndarray]:
        seen, is_seen = np.empty_like(image), np.empty(q.shape, np.bool_)
        share_out(
            kernels.look_back, len(q), np.ascontiguousarray(image), np.ascontiguousarray(q), self.splat(q, projection),
            _numbers(projection), np.float32(hidden), seen, is_seen,
        )  # fmt: skip
        return seen, is_seen

    def compare(self, views: Sequence[Compared[np.ndarray]]) -> list[Floats]:
        found = []
        for view in views:
            sums = np.zeros((len(view.q), 9, 3))  # of rows, so that the order of adding does not depend on threads
            arrays = (view.image, view.jacobian, view.weight, view.q, view.other)
            share_out(
                kernels.compare, len(view.q), *(np.ascontiguousarray(each) for each in arrays),
                _numbers(view.projection), sums,
            )  # fmt: skip
            found.append(np.asarray(sums.sum(axis=0)))
        return found


def _numbers(projection: Projection) -> np.ndarray:
    return np.array(projection.numbers(), np.float32)
