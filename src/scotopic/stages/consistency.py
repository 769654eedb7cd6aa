"""Left-right check: what both views agree on.

A left pixel ``x`` of disparity ``D_L`` lands in the right view at ``x - D_L(x)``. The two views agree where the right
view's disparity there is the same. Two roundings of the landing place are in use: ``paper`` and ``fast`` truncate, as
the published implementation does, ``best`` takes the nearest pixel (:func:`land`).

``paper`` and ``fast`` keep a pixel where structure was seen and both views agree. How sure it is::

    confidence = (1 - exp(-M / (8 P1))) exp(-|D_L(x) - D_R(x - D_L(x))|)

``M`` is the mean over the pixel's patches of the cost margin: by how much the best sum of path costs is lower than the
best sum at least two pixels of disparity away; ``8 P1`` is what one pixel of disparity costs along eight paths. So the
first factor says how clearly one disparity won, the second how well the views agree. It ranks pixels; it is not a
calibrated probability.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Generic

from scotopic.arrays import Array
from scotopic.backends.protocol import Backend
from scotopic.patch_grid import patches_over
from scotopic.settings import JunctionSettings, PatchMatchingSettings
from scotopic.subpixel import nearest_pixel


class Reason(IntEnum):
    """Why a pixel has no disparity."""

    OK = 0  #: it has one
    NO_STRUCTURE = 1  #: no boundary in the left view near this pixel
    LEFT_RIGHT = 2  #: the two views disagree: an occlusion or a wrong match
    OUT_OF_VIEW = 3  #: the views disagree, and the partner would lie outside the right image
    NO_STRUCTURE_RIGHT = 4  #: no boundary at the partner in the right view (only with ``mask_right``)
    AMBIGUOUS = 5  #: confidence below ``min_confidence``
    OCCLUDED = 6  #: the views disagree, and something nearer hides the pixel from the right view
    SATURATED = 7  #: confidence below ``min_confidence`` where the left image is white
    MASKED = 8  #: the pixel, or its partner in the right view, is masked in the input


@dataclass(frozen=True, eq=False)
class Consistency(Generic[Array]):
    """What the left-right check found, per left pixel."""

    disparity: Array
    reason: Array
    confidence: Array


@dataclass(frozen=True, eq=False)
class Landing(Generic[Array]):
    """Where left pixels land in the right view: the column, clamped to the view, and whether it lies outside."""

    column: Array
    is_outside: Array


def land(backend: Backend[Array], disparity: Array, *, truncate: bool = False) -> Landing[Array]:
    """Return where each left pixel lands: the nearest column, or the truncated one of the published implementation."""
    xp, width = backend.xp, disparity.shape[1]
    place = xp.astype(backend.arange(width), xp.float32) - disparity
    if truncate:
        is_outside = (place < 0) | (place > width - 1)
        return Landing(xp.astype(xp.clip(place, min=0, max=width - 1), xp.int64), is_outside)
    nearest = xp.astype(nearest_pixel(place, xp), xp.int64)
    return Landing(xp.clip(nearest, min=0, max=width - 1), (nearest < 0) | (nearest >= width))


def sample_right(backend: Backend[Array], right: Array, landing: Landing[Array]) -> Array:
    """Return the right view's values where the left pixels land."""
    return backend.xp.take_along_axis(right, landing.column, axis=1)


def lr_difference(backend: Backend[Array], left: Array, right: Array) -> Array:
    """Return ``|D_L(x) - D_R(x - D_L(x))|`` at the nearest pixel, infinite where that lies outside the right view.

    Its outermost columns count as outside: they are repeated beyond the edge, so all disparities from there on match.
    """
    landing, last = land(backend, left), left.shape[1] - 1
    is_outside = landing.is_outside | (landing.column == 0) | (landing.column == last)
    difference = backend.xp.abs(left - sample_right(backend, right, landing))
    return backend.xp.where(is_outside & (left != 0), float("inf"), difference)


def find_hidden(backend: Backend[Array], left: Array, right: Array, threshold: float) -> Array:
    """Return where the right view sees something nearer than the left pixel, by more than the threshold."""
    hidden: Array = sample_right(backend, right, land(backend, left)) - left > threshold
    return hidden


def merge_views(backend: Backend[Array], left: Array, right: Array) -> Array:
    """Return the mean of both views' disparities where they agree to a pixel, the left one's elsewhere."""
    partner = sample_right(backend, right, land(backend, left))
    return backend.xp.where(backend.xp.abs(partner - left) < 1, (left + partner) / 2, left)


def fill_occlusions(backend: Backend[Array], disparity: Array, is_consistent: Array) -> Array:
    """Return the disparity with what the views disagree on taken from the farther of its neighbors on the row.

    What only the left view sees lies behind what hides it from the right one. So it takes the smaller disparity of the
    nearest consistent pixels to its left and right. A row without any consistent pixel stays as it is.
    """
    xp, last = backend.xp, disparity.shape[1] - 1
    before, after = backend.nearest_marked(is_consistent)
    left, right = (xp.take_along_axis(disparity, xp.clip(each, min=0, max=last), axis=1) for each in (before, after))
    left, right = xp.where(before < 0, float("inf"), left), xp.where(after > last, float("inf"), right)
    is_kept = is_consistent | ((before < 0) & (after > last))
    return xp.where(is_kept, disparity, xp.minimum(left, right))


def average_over_patches(
    backend: Backend[Array], values: Array, shape: tuple[int, int], settings: JunctionSettings
) -> Array:
    """Return at each pixel the mean value of the patches that contain it.

    Parameters
    ----------
    values
        Integers, one per patch, ``(..., rows, columns)``; so the sums are exact.
    shape
        Height and width of the image.
    """
    xp = backend.xp
    total = xp.astype(values, xp.float64)
    for axis, length in ((total.ndim - 2, shape[0]), (total.ndim - 1, shape[1])):
        first, last = patches_over(backend.arange(length), values.shape[axis], settings, xp)
        weight = 1 / xp.astype(last + 1 - first, xp.float64)
        running = xp.cumulative_sum(total, axis=axis, include_initial=True)
        total = xp.take(running, last + 1, axis=axis) - xp.take(running, first, axis=axis)
        total = total * (xp.reshape(weight, (-1, 1)) if axis == total.ndim - 2 else weight)
    return xp.astype(total, xp.float32)


def check_views(
    backend: Backend[Array],
    left: Array,
    right: Array,
    margin: Array,
    left_boundaries: Array,
    right_boundaries: Array,
    settings: PatchMatchingSettings,
) -> Consistency[Array]:
    """Compare the disparity maps of the two views and decide which left pixels to keep.

    Parameters
    ----------
    left, right
        Disparity at each pixel of each view.
    margin
        Cost margin at each left pixel.
    left_boundaries, right_boundaries
        The global boundary maps.
    settings
        The thresholds.
    """
    xp = backend.xp
    landing = land(backend, left, truncate=True)
    difference = xp.abs(left - sample_right(backend, right, landing))
    clearness = 1 - xp.exp(-margin / (8 * max(settings.p1, 1)))
    confidence = clearness * xp.exp(-difference)

    reason = xp.where(confidence < settings.min_confidence, int(Reason.AMBIGUOUS), int(Reason.OK))
    if settings.mask_right:
        is_plain = sample_right(backend, right_boundaries, landing) <= settings.boundary_threshold
        reason = xp.where(is_plain, int(Reason.NO_STRUCTURE_RIGHT), reason)
    disagrees = xp.where(landing.is_outside, int(Reason.OUT_OF_VIEW), int(Reason.LEFT_RIGHT))
    reason = xp.where(difference < settings.left_right_threshold, reason, disagrees)
    reason = xp.where(left_boundaries <= settings.boundary_threshold, int(Reason.NO_STRUCTURE), reason)
    disparity = xp.where(reason == int(Reason.OK), left, float("nan"))
    return Consistency(disparity, xp.astype(reason, xp.uint8), confidence)
