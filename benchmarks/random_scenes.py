"""Random scenes with exact ground truth, to calibrate on: slanted plates with all sorts of textures before a slanted
wall.

Every surface has the disparity ``d = a x + b y + c`` in the left view, and a shape and a texture in left coordinates. A
right pixel ``x_r`` sees the point ``x = (x_r + b y + c) / (1 - a)`` of it. The largest disparity wins. What varies: how
many plates, their slants, the range of disparities, how coarse, how contrasted and how colorful each texture is, and
how much of it is plain; half of all textures are faint, as most surfaces of real rooms are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Texture = Callable[[Floats, Floats], Floats]
_WITHIN = (-0.25, 0.25)  # where the light of a pixel is sampled, either way


@dataclass(frozen=True)
class RandomScene:
    """A pair and its truth: disparity of the left view in px, and whether the right view sees the point too."""

    left: NDArray[np.float32]
    right: NDArray[np.float32]
    disparity: NDArray[np.float32]
    visible: NDArray[np.bool_]


@dataclass(frozen=True)
class _Surface:
    slant: tuple[float, float, float]
    covers: Callable[[Floats, Floats], NDArray[np.bool_]]
    texture: Texture

    def seen_at(self, x: Floats, y: Floats, view: int) -> tuple[Floats, Floats]:
        """Left column and disparity of what a view sees at its pixels; minus infinity where the surface is not."""
        a, b, c = self.slant
        column = x if view == 0 else (x + b * y + c) / (1 - a)
        disparity = np.where(self.covers(column, y), a * column + b * y + c, -np.inf)
        return column, disparity


def random_scene(width: int = 384, height: int = 256, seed: int = 0, largest: float | None = None) -> RandomScene:
    """Render a scene.

    Parameters
    ----------
    width, height
        Of each view, in px.
    seed
        Of everything that varies.
    largest
        Largest disparity, about; a tenth of the width by default.
    """
    random = np.random.default_rng([7, seed])
    reach = 0.1 * width if largest is None else largest
    surfaces = [_wall(random, reach, width, height)]
    surfaces += [_plate(random, reach, width, height) for _ in range(random.integers(4, 14))]
    x, y = np.meshgrid(np.arange(width, dtype=np.float64), np.arange(height, dtype=np.float64))
    disparity = _nearest(surfaces, x, y, 0)[0]
    landing = x - disparity
    seen = (landing >= 0) & (_nearest(surfaces, landing, y, 1)[0] <= disparity + 1e-6)
    left, right = (_render(surfaces, x, y, view) for view in (0, 1))
    return RandomScene(left, right, disparity.astype(np.float32), seen)


def _nearest(surfaces: list[_Surface], x: Floats, y: Floats, view: int) -> tuple[Floats, NDArray[np.intp], Floats]:
    found = [surface.seen_at(x, y, view) for surface in surfaces]
    disparities = np.stack([disparity for _, disparity in found])
    index = disparities.argmax(axis=0)
    column = np.take_along_axis(np.stack([column for column, _ in found]), index[None], axis=0)[0]
    return disparities.max(axis=0), index, column


def _render(surfaces: list[_Surface], x: Floats, y: Floats, view: int) -> NDArray[np.float32]:
    total = np.zeros((*x.shape, 3))
    for dy in _WITHIN:
        for dx in _WITHIN:
            _, index, column = _nearest(surfaces, x + dx, y + dy, view)
            for k, surface in enumerate(surfaces):
                here = index == k
                total[here] += surface.texture(column[here], (y + dy)[here])
    return np.clip(total / len(_WITHIN) ** 2, 0, 1).astype(np.float32)


def _wall(random: np.random.Generator, reach: float, width: int, height: int) -> _Surface:
    lean = (random.uniform(-0.15, 0.15) * reach / width, random.uniform(-0.2, 0.6) * reach / height)
    middle = random.uniform(0.1, 0.4) * reach
    slant = (*lean, middle - lean[0] * width / 2 - lean[1] * height / 2)
    return _Surface(slant, lambda x, y: np.ones(x.shape, bool), _texture(random, width))


def _plate(random: np.random.Generator, reach: float, width: int, height: int) -> _Surface:
    """A turned rectangle or an ellipse somewhere in view."""
    at = random.uniform(0, width), random.uniform(0, height)
    size = width * np.exp(random.uniform(np.log(0.03), np.log(0.35), 2))
    turn, is_round = random.uniform(0, np.pi), random.random() < 0.4
    lean = random.normal(0, 0.25, 2) * reach / width
    slant = (lean[0], lean[1], random.uniform(0.3, 1.0) * reach - lean[0] * at[0] - lean[1] * at[1])

    def covers(x: Floats, y: Floats) -> NDArray[np.bool_]:
        u = ((x - at[0]) * np.cos(turn) + (y - at[1]) * np.sin(turn)) / size[0]
        v = ((y - at[1]) * np.cos(turn) - (x - at[0]) * np.sin(turn)) / size[1]
        return u**2 + v**2 < 1 if is_round else np.maximum(np.abs(u), np.abs(v)) < 1

    return _Surface(slant, covers, _texture(random, width))


def _texture(random: np.random.Generator, width: int) -> Texture:
    """A color, and on it smooth grain of several sizes, or patches, or stripes; often faint."""
    base = np.clip(random.uniform(0.08, 0.9) + random.normal(0, 0.12, 3), 0.02, 0.98)
    other = np.clip(base + random.choice((0.05, 0.12, 0.3, 0.6)) * random.normal(0, 1, 3), 0.0, 1.0)
    grains = [_grain(random, cell * width / 384) for cell in np.exp(random.uniform(np.log(3), np.log(60), 3))]
    kind, edge = random.integers(3), random.uniform(0.3, 0.7)

    def texture(x: Floats, y: Floats) -> Floats:
        smooth = sum(grain(x, y) for grain in grains) / len(grains)
        if kind == 0:
            share = smooth
        elif kind == 1:
            share = (grains[0](x, y) > edge) * 0.7 + 0.3 * smooth
        else:
            share = (np.abs(grains[1](x, y) - 0.5) < 0.08) * 0.7 + 0.3 * smooth
        return base + share[:, None] * (other - base)

    return texture


def _grain(random: np.random.Generator, cell: float) -> Texture:
    """Smooth random values in [0, 1] with features of about ``cell`` px."""
    lattice = random.random((128, 128))

    def grain(x: Floats, y: Floats) -> Floats:
        i, j = np.floor(x / cell).astype(np.intp), np.floor(y / cell).astype(np.intp)
        s, t = x / cell - i, y / cell - j
        s, t = s * s * (3 - 2 * s), t * t * (3 - 2 * t)
        low = (1 - s) * lattice[j % 128, i % 128] + s * lattice[j % 128, (i + 1) % 128]
        high = (1 - s) * lattice[(j + 1) % 128, i % 128] + s * lattice[(j + 1) % 128, (i + 1) % 128]
        return np.asarray((1 - t) * low + t * high)

    return grain
