"""A map of many frames: points averaged in cubes of space, in bounded memory."""

import numpy as np
from numpy.typing import NDArray

from scotopic.depth.triangulate import PointCloud

_BITS = 21  # of a cube's number along each axis; three of them make a key of 63 bits
_HALF = 1 << (_BITS - 1)
_MASK = (1 << _BITS) - 1


class VoxelMap:
    """Averages the points, colors and confidences that fall into the same cube.

    Parameters
    ----------
    size
        Side of a cube at first.
    most
        Cubes to keep. Whenever there are more, their sides are doubled, which merges eight into one.

    Examples
    --------
    >>> cubes = VoxelMap(1.0)
    >>> points = np.array([[0.25, 0, 0], [0.75, 0, 0], [1.5, 0, 0]], np.float32)
    >>> cubes.add(PointCloud(points, np.zeros((3, 3), np.uint8), np.ones(3, np.float32)))
    >>> cubes.cloud().points[:, 0].tolist()
    [0.5, 1.5]
    """

    def __init__(self, size: float, most: int = 2_000_000) -> None:
        self.size, self.most = size, most
        self._keys = np.empty(0, np.int64)  # sorted
        self._sums = np.empty((0, 8))  # of each cube: x y z, red green blue, confidence, and the weights
        self._new: list[tuple[NDArray[np.int64], NDArray[np.float64]]] = []  # not merged yet
        self._waiting = 0

    def add(self, cloud: PointCloud, weight: NDArray[np.floating] | None = None) -> None:
        """Add points, all of one weight or each of its own; those farther away than a million cubes are left out."""
        cells = np.floor(cloud.points.astype(np.float64) / self.size)
        near = (np.abs(cells) < _HALF).all(axis=1)
        ones = np.ones((len(cloud), 1))
        parts = cloud.points, cloud.colors, cloud.confidence[:, None], ones
        sums = np.concatenate(parts, axis=1, dtype=np.float64) * (ones if weight is None else weight[:, None])
        keys, sums = _merge(_pack(cells[near].astype(np.int64)), sums[near])
        self._new.append((keys, sums))
        self._waiting += len(keys)
        # Merged rarely, since merging looks at every cube there is.
        if self._waiting > max(self.most // 4, len(self._keys) // 2):
            self._settle()

    def __len__(self) -> int:
        self._settle()
        return len(self._keys)

    def cloud(self) -> PointCloud:
        """Return the mean point of each cube, with its mean color and confidence."""
        self._settle()
        means = self._sums[:, :7] / self._sums[:, 7:]
        colors = np.rint(means[:, 3:6]).astype(np.uint8)
        return PointCloud(means[:, :3].astype(np.float32), colors, means[:, 6].astype(np.float32))

    def _settle(self) -> None:
        """Merge what is new, and double the cubes until there are few enough."""
        keys = np.concatenate([self._keys, *(keys for keys, _ in self._new)])
        sums = np.concatenate([self._sums, *(sums for _, sums in self._new)])
        self._keys, self._sums = _merge(keys, sums)
        self._new, self._waiting = [], 0
        while len(self._keys) > self.most:
            self.size *= 2
            self._keys, self._sums = _merge(_pack(_unpack(self._keys) >> 1), self._sums)  # rounds down, as floor does


def _pack(cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the key of each cube, from its three numbers."""
    x, y, z = (cells + _HALF).T
    return np.asarray(x << (2 * _BITS) | y << _BITS | z)


def _unpack(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.stack([keys >> (2 * _BITS), (keys >> _BITS) & _MASK, keys & _MASK], axis=1) - _HALF


def _merge(keys: NDArray[np.int64], sums: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return each key once, in order, with the total of its sums."""
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    first = np.flatnonzero(np.diff(keys, prepend=-1))  # no key is negative
    return keys[first], np.add.reduceat(sums[order], first, axis=0) if len(first) else sums[:0]
