"""Planes through the disparities around each pixel.

Surfaces are mostly flat, if slanted, and a plane through many noisy disparities is better than each of them. At pixel
``p``, with the present map ``m`` and the raw disparities ``d``, a plane goes through ``d(q)`` of the pixels around with
the weights::

    c(q) exp(-|q - p|^2 / (2 sigma^2)) exp(-(m(q) - m(p))^2 / (2 tau^2))

``c`` is how sure a disparity is (:mod:`~scotopic.stages.confidence`); the last factor keeps to this side of a jump. A
ridge on the slopes keeps planes through few or faint pixels level. The second round starts from the first one's map.
"""

import numpy as np
from numpy.typing import NDArray

from scotopic.arrays import Array
from scotopic.backends.protocol import Backend
from scotopic.settings import PlaneSettings

SPACING = 2  #: every how many pixels around one are looked at, either way: neighbors repeat each other
FAINT = 1e-6  #: weight of a disparity that nothing speaks for: planes go through such ones where there are no others


def fit_planes(
    backend: Backend[Array], disparity: Array, weights: Array, planes: PlaneSettings, spacing: int = SPACING
) -> Array:
    """Return the disparity with local planes fitted to it."""
    weights, present = weights + FAINT, disparity
    for _ in range(planes.rounds):
        present = backend.fit_planes(disparity, weights, present, planes, spacing)
    return present


def reference_planes(
    disparity: NDArray[np.float32],
    weights: NDArray[np.float32],
    present: NDArray[np.float32],
    planes: PlaneSettings,
    spacing: int = SPACING,
) -> NDArray[np.float64]:
    """Return one round, straight from the definition."""
    height, width = disparity.shape
    reach = np.arange(-2 * int(planes.sigma), 2 * int(planes.sigma) + 1, spacing)
    y, x = (each.ravel() for each in np.meshgrid(reach, reach, indexing="ij"))
    found = np.empty((height, width))
    for i, j in np.ndindex(height, width):
        inside = (i + y >= 0) & (i + y < height) & (j + x >= 0) & (j + x < width)
        rows, columns = i + y[inside], j + x[inside]
        jump = present[rows, columns].astype(np.float64) - present[i, j]
        near = np.exp(-(x[inside] ** 2 + y[inside] ** 2) / (2 * planes.sigma**2) - jump**2 / (2 * planes.tau**2))
        weight = weights[rows, columns] * near / (weights[rows, columns] * near).sum()
        places = np.stack([x[inside], y[inside]], axis=1).astype(np.float64)
        middle, level = weight @ places, float(weight @ disparity[rows, columns])
        off = places - middle
        slopes = np.linalg.solve(
            (off * weight[:, None]).T @ off + planes.ridge * np.eye(2),
            (off * weight[:, None]).T @ (disparity[rows, columns] - level),
        )
        found[i, j] = level - slopes @ middle
    return found
