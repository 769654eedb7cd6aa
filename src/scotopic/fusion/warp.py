"""Disparities carried on from an earlier pair to the present one.

From the present view each pixel of an earlier image takes the value of the nearest one (``look_back`` of a backend):
interpolation blurs more than being half a pixel off does once several frames are averaged, and the noise stays white.
What something nearer hid from the earlier view is not seen.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from scotopic.arrays import Array
from scotopic.backends.protocol import Backend
from scotopic.fusion.geometry import Matrix, StereoCamera
from scotopic.stages.consistency import fill_occlusions

HIDDEN = 3.0  #: px of disparity by which something nearer hides a point; less than this may be an error


def carry_disparity(
    backend: Backend[Array], camera: StereoCamera, disparity: Array, motion: Matrix, is_right: bool
) -> Array:
    """Return a view's disparity as it is after a motion: the nearest points in front, gaps filled from behind."""
    place = backend.asarray(np.array(camera.projection(motion, is_right).numbers(), np.float32))
    return backend.replayed(("carry", camera.doffs), partial(_carry, backend, camera.doffs), place, disparity)


def _carry(backend: Backend[Array], doffs: float, place: Array, disparity: Array) -> Array:
    front = backend.splat(disparity + doffs, place)
    is_seen = front > 0
    return fill_occlusions(backend, backend.xp.where(is_seen, front - doffs, 0.0), is_seen)
