"""Earlier pairs seen from the present one, and disparities carried on to it."""

from __future__ import annotations

from scotopic.arrays import Array
from scotopic.backends.protocol import Backend
from scotopic.fusion.geometry import Matrix, Rays, StereoCamera, project
from scotopic.stages.consistency import fill_occlusions

HIDDEN = 3.0  #: px of disparity by which something nearer hides a point; less than this may be an error


def carry_disparity(
    backend: Backend[Array], camera: StereoCamera, disparity: Array, motion: Matrix, is_right: bool
) -> Array:
    """Return a view's disparity as it is after a motion: the nearest points in front, gaps filled from behind."""
    rays = Rays.of_view(backend, camera, disparity.shape, is_right)
    x, y, q = project(backend, camera, rays, disparity + camera.doffs, motion)
    front = _nearest(backend, x, y, q)
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
    xp, (height, width, channels) = backend.xp, images.shape
    rays = Rays.of_view(backend, camera, disparity.shape, is_right)
    x, y, q = project(backend, camera, rays, disparity + camera.doffs, motion)
    front = xp.reshape(_nearest(backend, x, y, q), (-1,))
    column, row = xp.floor(x + 0.5), xp.floor(y + 0.5)
    inside = (column >= 0) & (column < width) & (row >= 0) & (row < height) & (q > 0)
    place = xp.reshape(_place(backend, column, row, inside, width), (-1,))
    is_hidden = xp.reshape(xp.take(front, place, axis=0), (height, width)) > q + HIDDEN
    seen = xp.take(xp.reshape(images, (height * width, channels)), place, axis=0)
    return xp.reshape(seen, images.shape), inside & ~is_hidden


def _nearest(backend: Backend[Array], x: Array, y: Array, q: Array) -> Array:
    """Return the largest ``q`` of the points that land within a pixel of each place; 0 where none does."""
    xp, (height, width) = backend.xp, q.shape
    left, top = xp.floor(x), xp.floor(y)
    flat = xp.reshape(xp.zeros_like(q), (-1,))
    for column in (left, left + 1):
        for row in (top, top + 1):
            inside = (column >= 0) & (column < width) & (row >= 0) & (row < height) & (q > 0)
            place = xp.reshape(_place(backend, column, row, inside, width), (-1,))
            flat = backend.scatter_max(flat, place, xp.reshape(xp.where(inside, q, 0.0), (-1,)))
    return xp.reshape(flat, (height, width))


def _place(backend: Backend[Array], column: Array, row: Array, inside: Array, width: int) -> Array:
    """Return the number of each pixel, counted along rows; 0 outside. In whole numbers: float32 ends at 16 million."""
    xp = backend.xp
    column, row = (xp.astype(xp.where(inside, each, 0.0), xp.int64) for each in (column, row))
    place: Array = row * width + column
    return place
