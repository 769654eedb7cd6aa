"""What a device provides: the few primitives that differ by device. Everything else is written once, in the stages.

Each backend implements :class:`Backend`: ``cpu`` with NumPy, OpenCV and Numba, ``cuda`` with torch and Triton. A
backend knows nothing of stages or pipelines; what a kernel needs, it is given. Images are ``(H, W, C)``, maps
``(H, W)``, planes ``(C, H, W)``, all float32; ``V`` is the number of views.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from scotopic.arrays import Array, Namespace
from scotopic.progress import Share
from scotopic.settings import JunctionSettings, PlaneSettings

Floats = NDArray[np.float64]
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Features(Generic[Array]):
    """What is multiplied to get costs: ``(F, H, W)`` of each view, and the Gaussian window of the products."""

    left: Array
    right: Array
    window: float


@dataclass(frozen=True, eq=False)
class PatchFilter:
    """Tables of the filter of similar patches (:mod:`scotopic.stages.denoising`)."""

    size: int  #: pixels along the side of a patch
    stride: int  #: pixels from one patch to the next
    count: int  #: patches in a group
    reach: int  #: how far apart they may be along either axis
    along_side: Floats  #: orthonormal transform of a row or a column of a patch, ``(size, size)``
    along_group: Floats  #: orthonormal transform, ``(count, count)``
    window: Floats  #: weights of a patch's pixels, ``(size^2,)``

    @property
    def along_patch(self) -> Floats:
        """Orthonormal transform of a patch's pixels in a row, ``(size^2, size^2)``."""
        return np.asarray(np.kron(self.along_side, self.along_side))


class Ballot(NamedTuple):
    """How pixels of like color vote (:mod:`scotopic.stages.votes`)."""

    places: tuple[tuple[int, int], ...]  #: of those that vote on a pixel, relative to it, rows and columns
    contrast: float  #: difference of colors at which a vote counts ``exp(-1/2)`` times
    weight: float  #: of the votes' costs
    usual: float  #: weight of a pixel whose own evidence counts as much as the votes
    held_against: float
    floor: float


class Projection(NamedTuple):
    """Where the points of one view are seen after a motion (:mod:`scotopic.fusion.geometry`), px."""

    turn: Floats  #: rotation, ``(3, 3)``
    shift: Floats  #: translation of this view's camera, ``(3,)``
    focal: float
    center: float  #: column of the axis
    middle: float  #: row of the axis
    aspect: float  #: fx / fy
    least: float  #: ``q Z`` up to which a point is beside the camera, not before it

    def numbers(self) -> tuple[float, ...]:
        """Return everything in one row."""
        return (*map(float, self.turn.ravel()), *map(float, self.shift), *self[2:])


class Look(NamedTuple):
    """How another image is looked at: where the points are, and what its values are worth."""

    place: Projection
    worth: float = 1.0  #: weight of its pixels
    gain: float = 1.0  #: values become ``(value - offset) / gain``
    offset: float = 0.0
    step: tuple[int, int] = (0, 0)  #: px to the right and down by which what is looked for has moved since

    def numbers(self) -> tuple[float, ...]:
        """Return everything in one row, that of the projection first."""
        return (*self.place.numbers(), self.worth, self.gain, self.offset, *self.step)


@dataclass(frozen=True, eq=False)
class Compared(Generic[Array]):
    """The views of a template, and the images that are compared with them where their points are after a motion."""

    image: Array  #: ``(V, H, W, C)``
    jacobian: Array  #: derivatives of its values, ``(V, 6, H, W, C)``
    weight: Array  #: ``(V, H, W)``
    q: Array  #: ``(V, H, W)``
    other: Array  #: ``(V, H, W, C)``


class JunctionFit(Protocol[Array]):
    """Junctions being fitted to views of one size, with everything that the steps read and write."""

    parameters: Array  #: ``(V, rows, columns, 5)`` float64
    color_map: Array  #: ``(V, C, H, W)``, the global color map of the last step

    def search(self, boundary_weight: float, color_weight: float, *, only_moving: bool = False) -> bool:
        """Take a search step, of all patches or of those that the last one moved. Return whether any may move on."""

    def rebuild(self, adam_count: int, boundary_weight: float, color_weight: float) -> None:
        """Rebuild the global maps; if ``adam_count > 0`` also take that Adam step, after the maps' parameters."""


class Backend(Protocol[Array]):
    """The primitives of a device."""

    name: str  #: ``"cpu"`` or ``"cuda"``
    xp: Namespace[Array]

    # Arrays

    def asarray(self, values: Array | NDArray[np.generic]) -> Array:
        """Return an array of the device."""

    def arange(self, count: int) -> Array:
        """Return ``0 .. count - 1`` as int64."""

    def contiguous(self, values: Array) -> Array:
        """Return the array with its elements in order."""

    def synchronize(self) -> None:
        """Return when the device has finished its work."""

    def replayed(self, key: Hashable, work: Callable[..., T], *arrays: Array) -> T:
        """Return ``work(*arrays)``, which depends on ``key`` and the arrays alone. It may be recorded and replayed."""

    # Images

    def blur(self, image: Array, sigma: float) -> Array:
        """Blur an image or a map by a Gaussian, mirrored at its edges."""

    def blur_views(self, views: Array, sigma: float) -> Array:
        """Blur each of several images or maps of one size, along the first axis."""

    def halve(self, image: Array) -> Array:
        """Return the means of 2 x 2 pixels of an image or a map, an odd edge repeated."""

    def resize_linear(self, values: Array, factor: int) -> Array:
        """Enlarge a map by a whole factor, linearly between pixel centers."""

    def window_range(self, values: Array, reach: int) -> tuple[Array, Array]:
        """Return the smallest and the largest value of a map within ``reach`` rows and columns of each pixel."""

    def quantile(self, values: Array, q: float) -> float:
        """Return a quantile, interpolated linearly."""

    def second_moments(self, views: Array) -> Floats:
        """Return the mean products of the channels over all views ``(V, H, W, C)``: ``(C, C)``."""

    def mix_channels(self, image: Array, matrix: Floats) -> Array:
        """Return ``image @ matrix``: weighted sums of the channels, the last axis of an image or of several."""

    def nearest_marked(self, marks: Array) -> tuple[Array, Array]:
        """Return the columns of the nearest marks on each pixel's row, int64: up to it, and from it on.

        They are -1 and the width where there is none.
        """

    def inner_products(self, one: Array, other: Array) -> Array:
        """Return the inner products of rows ``(A, N)`` with rows ``(B, N)``, added up in float64: ``(A, B)``."""

    # Junctions

    def new_fit(self, planes: Array, settings: JunctionSettings) -> JunctionFit[Array]:
        """Start to fit junctions to ``(V, C, H, W)`` in whole patches, binned by ``settings.binning``."""

    def draw_maps(
        self, planes: Array, parameters: Array, color_map: Array, color_weight: float, settings: JunctionSettings
    ) -> tuple[Array, Array]:
        """Return boundary maps ``(V, H, W)`` and color maps ``(V, C, H, W)``; colors lean on ``color_map``."""

    def draw_plain_maps(self, planes: Array, parameters: Array, settings: JunctionSettings) -> Array:
        """Return the mean maps of the patches' reconstructions in plain colors, drawn in float64, ``(V, C, H, W)``."""

    # Patch costs

    def patch_costs(
        self,
        planes: Array,
        parameters: Array,
        other_image: Array,
        other_map: Array,
        settings: JunctionSettings,
        disparities: range,
        weights: tuple[float, float, float],
        *,
        is_left: bool,
        progress: Share,
    ) -> Array:
        """Return the raw costs of one view's patches, ``(rows, columns, D)``; negative where partners are too few.

        ``planes`` is ``(C, H, W)`` in whole patches; ``other_image`` and ``other_map`` are the other view's image and
        mean map, in the images' own size.
        """

    def patch_maxima(self, values: Array, patches: tuple[int, int], settings: JunctionSettings) -> Array:
        """Return the largest value of a map inside each patch, ``(rows, columns)`` float32."""

    # Semi-global matching

    def aggregate(self, costs: Array, penalties: Array, p1: int) -> Array:
        """Return the sum of path costs over eight directions, ``(rows, columns, D)`` int32.

        ``costs`` is ``(rows, columns, D)`` int16, ``penalties`` holds ``P2`` at each place, int32.
        """

    def select(self, totals: Array) -> tuple[Array, Array]:
        """Return the index of each lowest sum (the first on a tie), and its margin.

        The margin is how far the lowest sum at least two candidates away is above the winner.
        """

    def subpixel(self, totals: Array, best: Array, first: int) -> Array:
        """Return the disparities, float32, at the minima of parabolas through the sums around the best candidates.

        ``first`` is the disparity of candidate 0; a candidate without a neighbor on either side is taken as it is.
        """

    # Evidence

    def filter_similar_patches(self, image: Array, pilot: Array, variance: float, tables: PatchFilter) -> Array:
        """Return an image in which patches that are similar in the pilot were filtered together."""

    def channel_features(
        self, left: Array, right: Array, units: Array | None, own: Floats, product: Floats
    ) -> tuple[Array, Array]:
        """Return the features ``(2 + C, H, W)`` of both views ``l`` and ``r``, ``(H, W, C)``: with the units ``g`` they
        are ``(g own . l^2, g, -g product l)`` and ``(1, own . r^2, r)``.
        """

    def build_volume(self, features: Sequence[Features[Array]], disparities: range, progress: Share) -> Array:
        """Return the volume ``(D, H, W)``: products of the features, blurred by their windows, the widest first."""

    def census_volume(self, left: Array, right: Array, disparities: range, window: float, progress: Share) -> Array:
        """Return ``(D, H, W)``: mean absolute differences of the features ``(F, H, W)`` int8, blurred by the window.

        The unit is one step of the features; beyond the edge of the other view its last column is repeated.
        """

    def census(self, gray: Array, radius: int, scale: float, falloff: float, steps: int) -> Array:
        """Return ``steps tanh(u) exp(-|u| / falloff)`` of each pixel to those around it, rounded, ``(K, H, W)`` int8.

        ``u`` is the difference of the two in units of the scale.
        The neighbors are those of a square in the order of reading, its middle left out; edges are repeated.
        """

    def color_volume(
        self, left: Array, right: Array, disparities: range, scale: float, window: float, progress: Share
    ) -> Array:
        """Return ``e / (e + scale^2)`` of the mean squared differences ``e`` of two images, blurred, ``(D, H, W)``."""

    def weigh_cells(self, volume: Array, left: Array, right: Array, disparities: range) -> None:
        """Multiply each cell of a volume by a weight of its left pixel and one of its right pixel, in place."""

    def add_votes(
        self, volume: Array, view: Array, disparity: Array, down: Array, along: Array, weights: Array, ballot: Ballot
    ) -> None:
        """Add the costs of votes to a volume, in place: :func:`scotopic.stages.votes.reference_votes`.

        ``disparity`` counts candidates; ``down`` and ``along`` are its slopes.
        """

    def normalize_volume(self, volume: Array) -> None:
        """Divide a volume, in place, by the mean over pixels of its deviation over disparity, unless that is 0."""

    def quantize_costs(self, volume: Array, step: float, max_cost: int, shear_from: int | None) -> Array:
        """Return costs above each pixel's lowest in steps, ``(H, W, D)`` int16.

        With ``shear_from``, the first disparity, those of the right view: its ``x`` at ``d`` is the left ``x + d``.
        """

    def quantize_costs_along(self, volume: Array, step: float, max_cost: int, start: Array) -> Array:
        """Return the left view's costs from each pixel's own first candidate ``start``, ``(H, W, D)`` int16.

        Candidates outside the volume cost as much as the worst inside.
        """

    def fit_planes(
        self, disparity: Array, weights: Array, present: Array, planes: PlaneSettings, spacing: int
    ) -> Array:
        """Return one round of local planes through ``disparity``; every ``spacing``-th pixel around is looked at."""

    # Fusion

    def splat(self, q: Array, place: Array) -> Array:
        """Return the largest ``q`` of the points that land within a pixel of each place; 0 where none does.

        ``place`` holds the numbers of a :class:`Projection`; an array, so that the work can be recorded.
        """

    def look_back(
        self, images: Sequence[Array], counts: Sequence[Array], q: Array, looks: Array, hidden: float
    ) -> tuple[Array, Array]:
        """Return the weighted sum of what images show at the nearest pixel to each point, and that of the weights.

        ``looks`` holds the numbers of a :class:`Look` for each image, ``counts`` says with 0 or 1 which of its pixels
        count. Points that land outside are not shown, nor those with one in front that is nearer by more than
        ``hidden``.
        """

    def compare(self, views: Compared[Array], places: Sequence[Sequence[Projection]]) -> Floats:
        """Return the weighted sums of ``(1, t, s, J)`` times ``(1, t, s)``, ``(motions, V, 9, 3)``.

        ``places`` are those of each view after each of several motions.

        ``t`` are the template's values, ``J`` their derivatives, and ``s`` those of the other image, linearly between
        its pixels; points that land outside do not count.
        """

    def velocity_gains(
        self, means: Array, weights: Array, certainty: Array, steps: Array, most: float, margin: int
    ) -> Array:
        """Return by how much the parts of a window fit better if all moves with a velocity than at rest.

        It is ``(velocities, V, H, W)``, for images ``means`` ``(V, parts, C, H, W)``, the newest part first, of which
        ``weights`` ``(V, parts, H, W)`` are seen, and 1 over the variance of a weight of 1, ``certainty`` ``(V, C, H,
        W)``. ``steps`` ``(velocities, parts, 2)``, int32, say how far each part is moved to the right and down. Each
        part is compared with the mean of all newer ones: their squared difference in units of its variance, ``most`` at
        most. Places that are not seen on either side, at rest or moved, do not count, nor those within the margin.
        """
