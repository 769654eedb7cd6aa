"""Earlier pairs seen from the present one, and disparities carried on to it."""

from __future__ import annotations

from scotopic.arrays import Array
from scotopic.backends.protocol import Backend
from scotopic.fusion.geometry import Matrix, StereoCamera
from scotopic.stages.consistency import fill_occlusions

HIDDEN = 3.0  #: px of disparity by which something nearer hides a point; less than this may be an error


def carry_disparity(
    backend: Backend[Array], camera: StereoCamera, disparity: Array, motion: Matrix, is_right: bool
) -> Array:
    """Return a view's disparity as it is after a motion: the nearest points in front, gaps filled from behind."""
    front = backend.splat(disparity + camera.doffs, camera.projection(motion, is_right))
    is_seen = front > 0
    return fill_occlusions(backend, backend.xp.where(is_seen, front - camera.doffs, 0.0), is_seen)


def look_back(
    backend: Backend[Array], camera: StereoCamera, images: Array, disparity: Array, motion: Matrix, is_right: bool
) -> tuple[Array, Array]:
    """Return an earlier image as the present view would see it, and where it does.

    ``motion`` takes points of the present to the earlier pair; ``disparity`` is the present view's. Each pixel takes
    the value of the nearest one: interpolation blurs more than being half a pixel off does once several frames are
    averaged, and the noise stays white. What something nearer hid from the earlier view is not seen.
    """
    return backend.look_back(images, disparity + camera.doffs, camera.projection(motion, is_right), HIDDEN)
