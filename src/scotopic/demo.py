"""A rendered stereo pair with exact ground truth: a room with a floor, boxes, a folding screen and a pole.

All surfaces are flat rectangles in space, so in each view a surface has the disparity ``d = a x + b y + c``: constant
if it faces the camera, increasing down the floor, changing along a row on slanted walls and boxes. For each ray the
nearest rectangle (largest d) wins. Its texture is looked up at the point that the ray hits, so both views see one
surface. The textures are coarse and rich in contrast, since nothing finer survives at a photon level of 2.

Units: the baseline is 1 and the focal length equals the image width, so a point at depth Z has the disparity width / Z.
Axes: x to the right, y down, z away from the camera, origin at the left camera. Pixel centers have whole coordinates.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, product

import numpy as np
from numpy.typing import NDArray

from scotopic.depth import Calibration
from scotopic.errors import SettingsError

_Floats = NDArray[np.float64]
_Point = tuple[float, float]  # on the floor: (x, z)
_Color = tuple[float, float, float]
_Paint = Callable[[_Floats, _Floats], _Floats]  # coordinates on the surface -> colors (n, 3)

_EYE_HEIGHT = 5.0  # of the camera above the floor, in baselines
_HORIZON = 0.38  # share of the image above the horizon
_WALL = 76.0  # depth of the back wall
_SWAY_FRAMES = 12  # of a camera that sways, until it is back
_SUPERSAMPLING = (-1 / 3, 0.0, 1 / 3)
_RAYS_AT_ONCE = 1 << 14  # BLAS turns so few on one thread; after more its threads keep a core busy, waiting
_ROUNDING = 1e-6  # of directions, far more than it is

_INK, _NIGHT = (0.09, 0.08, 0.12), (0.07, 0.09, 0.24)
_CREAM, _WHITE = (0.97, 0.93, 0.82), (1.0, 0.99, 0.95)
_TEAL, _BLUE = (0.05, 0.42, 0.46), (0.14, 0.30, 0.66)
_RED, _ORANGE = (0.84, 0.16, 0.13), (0.97, 0.56, 0.13)
_YELLOW, _WOOD = (1.0, 0.84, 0.25), (0.48, 0.27, 0.15)


@dataclass(frozen=True)
class Scene:
    """A rendered pair with its ground truth; ``x_right = x_left - d``.

    Attributes
    ----------
    left, right : ndarray of float32
        The views, ``H x W x 3`` in [0, 1].
    disparity_left, disparity_right : ndarray of float32
        ``H x W`` in px, exact at pixel centers and dense: occluded pixels have their true disparity too.
    visible_left, visible_right : ndarray of bool
        ``H x W``: True where the other view sees the same point, inside its frame and not occluded.
    calibration : Calibration
        Of the rig; its baseline is 1.
    """

    left: NDArray[np.float32]
    right: NDArray[np.float32]
    disparity_left: NDArray[np.float32]
    disparity_right: NDArray[np.float32]
    visible_left: NDArray[np.bool_]
    visible_right: NDArray[np.bool_]
    calibration: Calibration


@dataclass(frozen=True)
class _Surface:
    """A rectangle: points ``corner + u * along + v * up`` with u, v in [0, 1]."""

    corner: _Floats
    along: _Floats
    up: _Floats
    paint: _Paint
    light: float = 1.0

    def seen_from(self, pose: NDArray[np.floating]) -> "_Surface":
        """Return the rectangle in the frame of a camera at a pose."""
        turn, place = np.asarray(pose, np.float64)[:3, :3].T, np.asarray(pose, np.float64)[:3, 3]
        return replace(self, corner=turn @ (self.corner - place), along=turn @ self.along, up=turn @ self.up)


@dataclass(frozen=True)
class _Plane:
    """A surface as rays from a view's camera meet it.

    A ray ``(x, y, 1)`` meets its plane at depth Z: ``Z * ray = corner + u * along + v * up``. Divided by Z that is
    linear in (1/Z, u/Z, v/Z), and 1/Z is disparity over width: hence ``d = a x + b y + c``. Rays that are not between
    ``low`` and ``high`` in both x and y pass the surface by.
    """

    inverse: _Floats
    low: _Floats
    high: _Floats

    @classmethod
    def of(cls, surface: _Surface, view: int) -> "_Plane":
        corner = surface.corner - np.array([float(view), 0.0, 0.0])
        inverse = np.linalg.inv(np.column_stack([corner, surface.along, surface.up]))
        corners = np.array([corner + u * surface.along + v * surface.up for u, v in product((0, 1), repeat=2)])
        if corners[:, 2].min() <= _ROUNDING:  # part of it is behind the camera
            return cls(inverse, np.full(2, -np.inf), np.full(2, np.inf))
        seen = corners[:, :2] / corners[:, 2:]
        return cls(inverse, seen.min(axis=0) - _ROUNDING, seen.max(axis=0) + _ROUNDING)


def render_scene(
    width: int = 384, height: int = 256, seed: int = 0, *, pose: NDArray[np.floating] | None = None
) -> Scene:
    """Render the demonstration scene.

    Parameters
    ----------
    width, height : int
        Size of each view in px: at least 32, and the height at most twice the width. At 384 x 256 disparities are 5
        to 38 px; they scale with the width.
    seed : int
        Varies the textures, and the places of the objects a little.
    pose : ndarray of float, optional
        Where the rig is, 4 x 4: takes points of its left camera to where that is without a pose. Lengths are in
        baselines; some tenths, and a few degrees, stay in the room.

    Returns
    -------
    Scene
        Both views, their disparities, and which points both views see.

    Raises
    ------
    SettingsError
        The size is too small or too tall, or `seed` is negative.
    """
    is_whole = all(isinstance(number, int | np.integer) for number in (width, height, seed))
    if not is_whole or min(width, height) < 32 or height > 2 * width or seed < 0:
        raise SettingsError(
            f"The scene must be at least 32 x 32 px and at most twice as high as wide, with a seed of 0 or more, all "
            f"of them whole numbers, not {width} x {height} px with seed {seed}."
        )
    surfaces = _build_room(np.random.default_rng(seed))
    room = _Room(surfaces if pose is None else [surface.seen_from(pose) for surface in surfaces], width, height)
    x, y = np.meshgrid(np.arange(width, dtype=np.float64), np.arange(height, dtype=np.float64))
    left, right = room.cast(0, x, y)[1], room.cast(1, x, y)[1]
    return Scene(
        left=room.render(0, x, y),
        right=room.render(1, x, y),
        disparity_left=left.astype(np.float32),
        disparity_right=right.astype(np.float32),
        visible_left=room.is_visible(1, x - left, y, left),
        visible_right=room.is_visible(0, x + right, y, right),
        calibration=room.calibration,
    )


def render_sway(frame: int, width: int = 384, height: int = 256, seed: int = 0) -> Scene:
    """Render a frame of the demonstration scene from a pair of cameras that sways as in a hand.

    The cameras move by up to half a baseline and turn by about a degree, a little from frame to frame, and are back
    after twelve. Nothing else moves.

    Parameters
    ----------
    frame : int
        Its number; frame 0 is the pair of :func:`render_scene`.
    width, height, seed
        As for :func:`render_scene`, which documents the result and the errors, too.
    """
    return render_scene(width, height, seed, pose=_sway(2 * np.pi * frame / _SWAY_FRAMES))


def _sway(phase: float) -> _Floats:
    """Return the pose of the left camera; at phase 0 as it usually is."""
    along, across = np.sin(phase), 1 - np.cos(phase)
    yaw, pitch, roll = np.deg2rad([0.5 * across, 0.4 * along, 0.3 * across])
    (cy, cp, cr), (sy, sp, sr) = np.cos([yaw, pitch, roll]), np.sin([yaw, pitch, roll])
    about_y = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
    about_x = np.array([[1, 0, 0], [0, cp, -sp], [0, sp, cp]])
    about_z = np.array([[cr, -sr, 0], [sr, cr, 0], [0, 0, 1]])
    pose = np.eye(4)
    pose[:3, :3] = about_y @ about_x @ about_z
    pose[:3, 3] = 0.25 * along, 0.1 * across, 0.2 * across
    return pose


def _split(places: _Floats, samples: int = 1) -> list[_Floats]:
    """Return the pixels of an image in parts, so few that what `samples` rays each need stays in the fast memory."""
    return np.array_split(places.ravel(), -(-places.size * samples // _RAYS_AT_ONCE))


@dataclass(frozen=True)
class _Room:
    """The surfaces (their order does not matter), and the size of the images in px. Views: 0 is left, 1 is right."""

    surfaces: list[_Surface]
    width: int
    height: int

    @property
    def calibration(self) -> Calibration:
        """The cameras of both views."""
        return Calibration(
            fx=float(self.width),
            fy=float(self.width),
            cx=(self.width - 1) / 2,
            cy=_HORIZON * (self.height - 1),
            baseline=1.0,
            width=self.width,
            height=self.height,
            source="the rendered room's own",
        )

    @cached_property
    def _planes(self) -> list[list[_Plane]]:
        return [[_Plane.of(surface, view) for surface in self.surfaces] for view in range(2)]

    def cast(self, view: int, x: _Floats, y: _Floats) -> tuple[NDArray[np.intp], _Floats, _Floats, _Floats]:
        """Return the nearest surface at each pixel (x, y) of a view: its index, disparity, and u and v on it."""
        parts = [self._cast(view, *part) for part in zip(_split(x), _split(y), strict=True)]
        nearest, disparity, u, v = (np.concatenate(each).reshape(x.shape) for each in zip(*parts, strict=True))
        return nearest, disparity, u, v

    def _cast(self, view: int, x: _Floats, y: _Floats) -> tuple[NDArray[np.intp], _Floats, _Floats, _Floats]:
        horizontal = (x - self.calibration.cx) / self.width
        vertical = (y - self.calibration.cy) / self.width
        rays = np.stack([horizontal, vertical, np.ones_like(x)])
        low, high = rays[:2].min(axis=1), rays[:2].max(axis=1)
        nearest = np.full(x.shape, -1, dtype=np.intp)
        disparity, best_u, best_v = np.zeros(x.shape), np.zeros(x.shape), np.zeros(x.shape)
        for index, plane in enumerate(self._planes[view]):
            if (plane.high < low).any() or (plane.low > high).any():
                continue
            nearness, u, v = np.tensordot(plane.inverse, rays, axes=1)
            candidate = self.width * nearness
            hit = (nearness > 0) & (u >= 0) & (u <= nearness) & (v >= 0) & (v <= nearness) & (candidate > disparity)
            if hit.any():
                nearest[hit], disparity[hit] = index, candidate[hit]
                best_u[hit], best_v[hit] = u[hit] / nearness[hit], v[hit] / nearness[hit]
        return nearest, disparity, best_u, best_v

    def render(self, view: int, x: _Floats, y: _Floats) -> NDArray[np.float32]:
        """Return the image of a view."""
        samples = len(_SUPERSAMPLING) ** 2
        parts = [self._render(view, *part) for part in zip(_split(x, samples), _split(y, samples), strict=True)]
        return np.concatenate(parts).reshape(*x.shape, 3)

    def _render(self, view: int, x: _Floats, y: _Floats) -> NDArray[np.float32]:
        dy, dx = np.array([*product(_SUPERSAMPLING, repeat=2)]).T[..., None]
        nearest, _, u, v = self.cast(view, x + dx, y + dy)
        colors = np.zeros((*nearest.shape, 3))
        for index in np.unique(nearest[nearest >= 0]):
            surface, here = self.surfaces[index], nearest == index
            length_u, length_v = np.linalg.norm(surface.along), np.linalg.norm(surface.up)
            colors[here] = surface.light * surface.paint(u[here] * length_u, v[here] * length_v)
        return np.asarray(np.clip(colors.mean(axis=0), 0.0, 1.0), np.float32)

    def is_visible(self, view: int, x: _Floats, y: _Floats, disparity: _Floats) -> NDArray[np.bool_]:
        """Return whether points of known disparity, at (x, y) in a view, are in its frame and not occluded."""
        return (x >= 0) & (x <= self.width - 1) & (self.cast(view, x, y)[1] <= disparity + 1e-6)


# --- the room -------------------------------------------------------------------------------------------------------


def _build_room(random: np.random.Generator) -> list[_Surface]:
    """Return all surfaces of the room."""

    def jitter(amount: float) -> float:
        return float(random.uniform(-amount, amount))

    crate = _Box(x=4.6 + jitter(0.3), z=19.0 + jitter(0.7), width=3.6, depth=3.6, height=2.9, angle=0.55 + jitter(0.1))
    stool = _Box(x=-2.7 + jitter(0.3), z=21.5 + jitter(0.7), width=2.4, depth=2.4, height=2.3, angle=-0.4 + jitter(0.1))
    shelf = _Box(x=-6.3 + jitter(0.4), z=38.0 + jitter(1.0), width=6.4, depth=3.0, height=10.5, angle=0.0)
    screen_x, screen_z = 5.6 + jitter(0.4), 50.0 + jitter(1.0)
    folds = list(pairwise((screen_x + 4.4 * k, screen_z - (11.0 if k % 2 else 0.0)) for k in range(4)))
    pole_x = -3.45 + jitter(0.08)

    back_wall = _upright((-120.0, _WALL), (120.0, _WALL), 80.0, _wallpaper(random))
    side_wall = _upright((-14.0, 6.0), (-14.0, _WALL), 80.0, _tall_panels(random), light=0.92)
    window = _upright((-7.5, _WALL - 0.5), (10.5, _WALL - 0.5), 12.5, _night_window(random), above_floor=7.5)
    floor = _Surface(
        corner=np.array([-120.0, _EYE_HEIGHT, 3.0]),
        along=np.array([240.0, 0.0, 0.0]),
        up=np.array([0.0, 0.0, _WALL]),
        paint=_floor(random, [crate, stool, shelf, *(_Box.under(*fold) for fold in folds)]),
    )
    screen = [
        _upright(start, end, 9.6, _slanting_stripes(random, k), light=(1.0, 0.72)[k % 2])
        for k, (start, end) in enumerate(folds)
    ]
    pole = _upright((pole_x, 10.2), (pole_x + 0.24, 10.2), 40.0, _pole_rings(random))
    return [
        *(back_wall, side_wall, window, floor, *screen, pole),
        *shelf.surfaces(_bookshelf(random), _plain(_WOOD), _plain(_WOOD)),
        *stool.surfaces(_blobs(random, _TEAL, _CREAM), _blobs(random, _TEAL, _CREAM), _plain(_CREAM)),
        *crate.surfaces(_checks(random, _RED, _CREAM), _checks(random, _RED, _CREAM), _ring()),
    ]


def _upright(
    start: _Point, end: _Point, height: float, paint: _Paint, light: float = 1.0, above_floor: float = 0.0
) -> _Surface:
    """Return an upright rectangle over the line from (x, z) to (x, z) on the floor; u runs along it, v upwards."""
    return _Surface(
        corner=np.array([start[0], _EYE_HEIGHT - above_floor, start[1]]),
        along=np.array([end[0] - start[0], 0.0, end[1] - start[1]]),
        up=np.array([0.0, -height, 0.0]),
        paint=paint,
        light=light,
    )


@dataclass(frozen=True)
class _Box:
    """A box on the floor, rotated about the vertical axis; (x, z) is its center."""

    x: float
    z: float
    width: float
    depth: float
    height: float
    angle: float

    @classmethod
    def under(cls, start: _Point, end: _Point) -> "_Box":
        """Return the footprint of a screen between two points of the floor: a box without height."""
        dx, dz = end[0] - start[0], end[1] - start[1]
        return cls(start[0] + dx / 2, start[1] + dz / 2, float(np.hypot(dx, dz)), 0.3, 0.0, float(np.arctan2(dz, dx)))

    def surfaces(self, front: _Paint, side: _Paint, top: _Paint) -> list[_Surface]:
        """Return the front, both sides and the top; the back is never visible."""
        cos, sin = float(np.cos(self.angle)), float(np.sin(self.angle))
        corners = [(i * self.width / 2, j * self.depth / 2) for i, j in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
        a, b, c, d = ((self.x + cos * x - sin * z, self.z + sin * x + cos * z) for x, z in corners)
        corner, along, up = (np.array([x, 0.0, z]) for x, z in (a, np.subtract(b, a), np.subtract(d, a)))
        return [
            _upright(a, b, self.height, front, light=0.95),
            _upright(b, c, self.height, side, light=0.62),
            _upright(d, a, self.height, side, light=0.7),
            _Surface(corner + np.array([0.0, _EYE_HEIGHT - self.height, 0.0]), along, up, top),
        ]

    def distance(self, x: _Floats, z: _Floats) -> _Floats:
        """Return the distance from points of the floor to the base of the box; 0 inside it."""
        cos, sin = np.cos(self.angle), np.sin(self.angle)
        x, z = x - self.x, z - self.z
        beyond_x = np.abs(cos * x + sin * z) - self.width / 2
        beyond_z = np.abs(-sin * x + cos * z) - self.depth / 2
        return np.asarray(np.hypot(np.maximum(beyond_x, 0), np.maximum(beyond_z, 0)))


# --- textures -------------------------------------------------------------------------------------------------------


def _mix(first: _Color, second: _Color, share: _Floats | NDArray[np.bool_]) -> _Floats:
    weight = np.asarray(share, dtype=np.float64)[:, None]
    return np.asarray((1 - weight) * np.array(first) + weight * np.array(second))


def _grain(random: np.random.Generator, cell: float) -> _Paint:
    """Return a texture of smooth random values in [0, 1] with features of size `cell`, as a column."""
    lattice = random.random((64, 64))

    def paint(u: _Floats, v: _Floats) -> _Floats:
        i, j = np.floor(u / cell).astype(np.intp), np.floor(v / cell).astype(np.intp)
        s, t = u / cell - i, v / cell - j
        s, t = s * s * (3 - 2 * s), t * t * (3 - 2 * t)
        i, j, i1, j1 = i % 64, j % 64, (i + 1) % 64, (j + 1) % 64
        lower = (1 - s) * lattice[j, i] + s * lattice[j, i1]
        upper = (1 - s) * lattice[j1, i] + s * lattice[j1, i1]
        return np.asarray((1 - t) * lower + t * upper)[:, None]

    return paint


def _plain(color: _Color) -> _Paint:
    return lambda u, v: np.broadcast_to(np.array(color), (u.size, 3))


def _uneven_edges(random: np.random.Generator, length: float, smallest: float, largest: float) -> _Floats:
    """Return where bands of random widths end. Periodic bands would match at every period."""
    return np.asarray(random.uniform(smallest, largest, int(length / smallest) + 1).cumsum(), dtype=np.float64)


def _wallpaper(random: np.random.Generator) -> _Paint:
    edges, grain = _uneven_edges(random, 240.0, 2.6, 7.0), _grain(random, 0.9)
    tint = random.uniform(0.0, 1.0, edges.size + 1)

    def paint(u: _Floats, v: _Floats) -> _Floats:
        band = np.searchsorted(edges, u)
        share = np.where(band % 2, 0.75 + 0.25 * tint[band], 0.2 * tint[band])
        colors = _mix((0.95, 0.72, 0.40), (0.66, 0.36, 0.20), share)
        colors[v < 1.6] = _WHITE
        colors[v < 0.5] = _INK
        return colors * (0.9 + 0.2 * grain(u, v))

    return paint


def _tall_panels(random: np.random.Generator) -> _Paint:
    edges, grain = _uneven_edges(random, 80.0, 5.0, 8.0), _grain(random, 0.8)

    def paint(u: _Floats, v: _Floats) -> _Floats:
        colors = _mix(_TEAL, _CREAM, np.searchsorted(edges, u) % 2 == 1)
        colors[(v > 8.0) & (v < 9.2)] = _ORANGE
        colors[v < 1.2] = _INK
        return colors * (0.88 + 0.24 * grain(u, v))

    return paint


def _night_window(random: np.random.Generator) -> _Paint:
    """Return a window with hills under the moon."""
    moon_u, moon_v, phase = random.uniform((11.5, 7.6, 0.0), (13.5, 8.8, 6.0))
    stars = random.uniform((1.3, 6.0), (16.7, 11.2), (14, 2))

    def paint(u: _Floats, v: _Floats) -> _Floats:
        colors = _mix((0.16, 0.26, 0.55), _NIGHT, np.clip(v / 11.0, 0, 1))
        for star_u, star_v in stars:
            colors[np.hypot(u - star_u, v - star_v) < 0.22] = _WHITE
        colors[np.hypot(u - moon_u, v - moon_v) < 2.3] = (1.0, 0.97, 0.80)
        colors[v < 4.6 + 1.3 * np.sin(0.55 * u + phase)] = (0.20, 0.38, 0.42)
        colors[v < 2.9 + 1.2 * np.sin(0.42 * u + 2.0 + phase)] = (0.04, 0.12, 0.14)
        colors[(np.abs(u - 9.0) > 8.2) | (np.abs(v - 6.25) > 5.5) | (np.abs(u - 9.0) < 0.4)] = _WHITE
        return colors

    return paint


def _floor(random: np.random.Generator, boxes: list[_Box]) -> _Paint:
    """Return tiles, a round rug, and a soft shadow around each box."""
    tone, grain = random.random((97, 101)), _grain(random, 0.45)
    rug_x, rug_z = random.uniform(0.2, 0.9), random.uniform(25.5, 26.5)

    def paint(u: _Floats, v: _Floats) -> _Floats:
        x, z = u - 120.0, v + 3.0
        column, row = np.floor(x / 3.0).astype(np.intp), np.floor(z / 6.0).astype(np.intp)
        share = np.where((column + row) % 2, 0.0, 0.75) + 0.25 * tone[row % 97, column % 101]
        colors = _mix((0.24, 0.25, 0.33), (0.90, 0.88, 0.84), share)
        from_rug = np.hypot(x - rug_x, z - rug_z)
        for radius, color in ((6.4, _BLUE), (5.6, _YELLOW), (3.9, _RED), (1.9, _CREAM)):
            colors[from_rug < radius] = color
        shadow = np.ones_like(x)
        for box in boxes:
            shadow *= 1 - 0.6 * np.exp(-((box.distance(x, z) / 0.9) ** 1.3))
        return colors * (0.9 + 0.2 * grain(u, v)) * shadow[:, None]

    return paint


def _slanting_stripes(random: np.random.Generator, panel: int) -> _Paint:
    edges, grain = _uneven_edges(random, 40.0, 1.8, 3.4), _grain(random, 0.5)
    pair = ((_BLUE, _YELLOW), (_YELLOW, _BLUE), (_BLUE, _CREAM))[panel % 3]

    def paint(u: _Floats, v: _Floats) -> _Floats:
        colors = _mix(*pair, np.searchsorted(edges, v + (0.45 if panel % 2 else -0.45) * u + 8.0) % 2 == 1)
        colors[(v > 9.1) | (v < 0.5)] = _INK
        return colors * (0.9 + 0.2 * grain(u, v))

    return paint


def _bookshelf(random: np.random.Generator) -> _Paint:
    covers = np.array([_RED, _CREAM, _BLUE, _YELLOW, _TEAL, _WHITE, _ORANGE, _INK])
    boards = 2.6
    edges = np.stack([_uneven_edges(random, 8.0, 0.7, 1.5) for _ in range(5)])
    tops = random.uniform(1.5, 2.25, edges.shape)
    # Steps of 1 to 7 through 8 covers, so neighbors always differ.
    choice = np.cumsum(random.integers(1, 8, edges.shape), axis=1) % 8

    def paint(u: _Floats, v: _Floats) -> _Floats:
        row = np.clip((v / boards).astype(np.intp), 0, 4)
        over_board = v - row * boards
        book = np.minimum((u[:, None] > edges[row]).sum(axis=1), edges.shape[1] - 1)
        colors: _Floats = covers[choice[row, book]]
        colors[over_board > tops[row, book]] = (0.16, 0.09, 0.06)
        colors[(over_board < 0.3) | (u < 0.35) | (u > 6.05) | (v > 10.2)] = _WOOD
        return colors

    return paint


def _blobs(random: np.random.Generator, first: _Color, second: _Color) -> _Paint:
    coarse, grain = _grain(random, 1.1), _grain(random, 0.22)
    return lambda u, v: _mix(first, second, coarse(u, v)[:, 0] > 0.5) * (0.88 + 0.24 * grain(u, v))


def _checks(random: np.random.Generator, first: _Color, second: _Color) -> _Paint:
    side, grain = 1.2, _grain(random, 0.24)
    return lambda u, v: _mix(first, second, (u // side + v // side) % 2 == 1) * (0.88 + 0.24 * grain(u, v))


def _ring() -> _Paint:
    return lambda u, v: _mix(_CREAM, _RED, np.abs(np.hypot(u - 1.8, v - 1.8) - 0.95) < 0.35)


def _pole_rings(random: np.random.Generator) -> _Paint:
    edges = _uneven_edges(random, 40.0, 0.7, 1.2)

    def paint(u: _Floats, v: _Floats) -> _Floats:
        round_shade = 1 - 0.55 * np.abs(u / 0.12 - 0.8) ** 2
        return _mix(_RED, _WHITE, np.searchsorted(edges, v) % 2 == 1) * np.clip(round_shade, 0.35, 1.0)[:, None]

    return paint
