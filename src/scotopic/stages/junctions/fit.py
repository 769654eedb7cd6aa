"""Fitting a field of junctions to images: the schedule of Wang et al. (2026), on top of a backend's steps."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic

import numpy as np
from numpy.typing import NDArray

from scotopic.arrays import Array
from scotopic.backends.device import to_numpy
from scotopic.backends.protocol import Backend, JunctionFit
from scotopic.errors import InputError
from scotopic.patch_grid import spans
from scotopic.progress import Share, unheard
from scotopic.settings import JunctionSettings


@dataclass(frozen=True, eq=False)
class Junctions(Generic[Array]):
    """A field of junctions.

    Attributes
    ----------
    parameters
        ``(rows, columns, 5)``: the angles ``t1, t2, t3`` and the vertex ``x0, y0`` of each patch, in patch coordinates.
    boundary_map
        ``B``, ``(H, W)``: how strongly the patches agree on a boundary at each pixel, in [0, 1].
    color_map
        ``C``, ``(H, W, channels)``: the mean of the patches' reconstructions.
    settings
        What it was fitted with.
    """

    parameters: Array
    boundary_map: Array
    color_map: Array
    settings: JunctionSettings

    @property
    def colour_map(self) -> Array:
        """Deprecated: use :attr:`color_map`."""
        warnings.warn("Junctions.colour_map is now called color_map.", DeprecationWarning, stacklevel=2)
        return self.color_map

    def to_numpy(self) -> Junctions[np.ndarray]:
        """Return the field with NumPy arrays, copied from the GPU if they are there."""
        parameters, boundary_map, color_map = to_numpy(self.parameters, self.boundary_map, self.color_map)
        return Junctions(parameters, boundary_map, color_map, self.settings)

    def render(self, boundaries: bool = True) -> NDArray[np.uint8]:
        """Return a picture of the structure: the color map, stretched to the full range, with boundaries drawn dark.

        Parameters
        ----------
        boundaries
            Draw the boundary map over the colors.

        Returns
        -------
        (H, W, 3) uint8 RGB
        """
        colors, edges = to_numpy(self.color_map, self.boundary_map)
        low, high = np.percentile(colors, (0.5, 99.5))
        picture: np.ndarray = np.clip((colors - low) / max(high - low, 1e-6), 0, 1)
        if boundaries:
            picture = picture * (1 - 0.9 * np.clip(edges / 0.4, 0, 1))[..., None]
        return np.broadcast_to((picture * 255).round(), (*picture.shape[:2], 3)).astype(np.uint8)


def fit_fields(
    backend: Backend[Array], images: Sequence[Array], settings: JunctionSettings, progress: Share = unheard
) -> list[Junctions[Array]]:
    """Fit a field of junctions to each of several images of one size, side by side."""
    planes = to_planes(backend, images, settings)
    parameters, color_map = _fit_tiles(backend, planes, settings, progress)
    # The colors of the last step lean on the global color map before it, with their full weight by then.
    lean = settings.color_weight if settings.refine_steps else 0.0
    earlier = _enlarge(backend, color_map, settings.binning) if lean else planes
    boundaries, colors = backend.draw_maps(planes, parameters, earlier, lean, settings)
    height, width, _ = images[0].shape
    return [
        Junctions(
            parameters[view],
            backend.contiguous(boundaries[view, :height, :width]),
            _crop_to_image(backend, colors[view], height, width),
            settings,
        )
        for view in range(len(images))
    ]


def place_field(backend: Backend[Array], field: Junctions[np.ndarray]) -> Junctions[Array]:
    """Return a field of junctions with the arrays of a backend."""
    maps = backend.asarray(field.boundary_map), backend.asarray(field.color_map)
    return Junctions(backend.asarray(field.parameters), maps[0], maps[1], field.settings)


def check_fields(fields: Sequence[Junctions[np.ndarray]], shape: tuple[int, ...]) -> None:
    """Raise :class:`InputError` unless two fields of junctions belong to views of this shape, fitted alike.

    They may have been fitted by other means, and kernels check no bounds.
    """
    left, right = fields
    if left.settings != right.settings:
        raise InputError("The two fields of junctions were fitted with different settings. Fit them alike.")
    settings, size = left.settings, shape[:2]
    grid = tuple(-(-(length - settings.patch_size) // settings.stride) + 1 for length in size)
    expected = {  # shape and range
        "boundary_map": (size, 0.0, 1.0),
        "color_map": (shape, -1.0, 2.0),  # may overshoot [0, 1] as images may
        "parameters": ((*grid, 5), -np.inf, np.inf),
    }
    for field in fields:
        for name, (wanted, low, high) in expected.items():
            values = np.asarray(to_numpy(getattr(field, name))[0])
            if name == "boundary_map" and values.ndim == 2 and values.shape != wanted:
                found = f"{values.shape[1]} x {values.shape[0]}"
                raise InputError(
                    f"The junctions were fitted to an image of {found} px, but the pair has {shape[1]} x {shape[0]} "
                    "px. Fit them to the images of this pair."
                )
            if values.shape != wanted or values.dtype.kind != "f":
                raise InputError(
                    f"{name!r} of the junctions has shape {values.shape} and type {values.dtype}, but must be floats "
                    f"of shape {wanted} for this pair. Fit them to its images."
                )
            if not ((values >= low - 1e-3) & (values <= high + 1e-3) & np.isfinite(values)).all():
                limits = "" if high == np.inf else f", or not from {low:g} to {high:g}"
                raise InputError(f"{name!r} of the junctions has values that are not finite{limits}. Check the fit.")


def draw_plain_map(backend: Backend[Array], image: Array, junctions: Junctions[Array]) -> Array:
    """Return the mean map of the patches' reconstructions in plain colors, ``(H, W, C)``, as the matching needs it."""
    planes = to_planes(backend, [image], junctions.settings)
    mean = backend.draw_plain_maps(planes, junctions.parameters[None], junctions.settings)[0]
    return _crop_to_image(backend, mean, *image.shape[:2])


def to_planes(backend: Backend[Array], images: Sequence[Array], settings: JunctionSettings) -> Array:
    """Return images as planes ``(V, C, H, W)``, their edges repeated until whole patches cover them."""
    planes = backend.xp.moveaxis(backend.xp.stack(images), -1, 1)
    for axis in (2, 3):
        length = planes.shape[axis]
        padding = -(length - settings.patch_size) % settings.stride
        repeated = backend.xp.clip(backend.arange(length + padding), max=length - 1)
        planes = backend.xp.take(planes, repeated, axis=axis)
    return backend.contiguous(planes)


def _crop_to_image(backend: Backend[Array], planes: Array, height: int, width: int) -> Array:
    """Return planes ``(C, H', W')`` as an image ``(height, width, C)``."""
    return backend.contiguous(backend.xp.permute_dims(planes[:, :height, :width], (1, 2, 0)))


def bin_planes(backend: Backend[Array], planes: Array, binning: int) -> Array:
    """Return planes with ``binning x binning`` pixels averaged."""
    views, channels, height, width = planes.shape
    blocks = (views, channels, height // binning, binning, width // binning, binning)
    return backend.contiguous(backend.xp.mean(backend.xp.reshape(planes, blocks), axis=(3, 5)))


def _enlarge(backend: Backend[Array], planes: Array, binning: int) -> Array:
    """Return planes with every pixel repeated ``binning x binning`` times."""
    return backend.xp.repeat(backend.xp.repeat(planes, binning, axis=2), binning, axis=3)


def _fit_tiles(
    backend: Backend[Array], planes: Array, settings: JunctionSettings, report: Share
) -> tuple[Array, Array]:
    """Fit the whole grid, tile by tile. Without refinement patches are independent and tiles change nothing.

    Return the parameters, and the global color maps ``G`` with which the last step computed its colors (binned).
    """
    small = bin_planes(backend, planes, settings.binning) if settings.binning > 1 else planes
    size, stride = settings.patch_size // settings.binning, settings.stride // settings.binning
    rows, columns = ((length - size) // stride + 1 for length in small.shape[2:])
    margin = settings.tile_margin if settings.refine_steps else 0
    tiles = [(r, c) for r in spans(rows, settings.tile, margin) for c in spans(columns, settings.tile, margin)]
    if len(tiles) == 1:
        return _fit(backend.new_fit(small, settings), settings, report)
    xp, color_map = backend.xp, backend.xp.zeros_like(small)
    parameters = xp.repeat(xp.astype(color_map[:, 0, :rows, :columns, None], xp.float64), 5, axis=3)
    for k, (r, c) in enumerate(tiles):
        down, across = (slice(each.first * stride, (each.last - 1) * stride + size) for each in (r, c))
        field = backend.new_fit(small[..., down, across], settings)
        found, colors = _fit(field, settings, partial(_report_tile, report, k, len(tiles)))
        kept_rows, kept_columns = (slice(each.start - each.first, each.stop - each.first) for each in (r, c))
        parameters[:, r.start : r.stop, c.start : c.stop] = found[:, kept_rows, kept_columns]
        # From the first kept patch to the end of the window; the next tile overwrites what lies beyond this one.
        colors = colors[..., kept_rows.start * stride :, kept_columns.start * stride :]
        color_map[..., r.start * stride : down.stop, c.start * stride : across.stop] = colors
    return parameters, color_map


def _report_tile(report: Share, tile: int, tiles: int, share: float) -> None:
    report((tile + share) / tiles)


def _fit(field: JunctionFit[Array], settings: JunctionSettings, report: Share) -> tuple[Array, Array]:
    """Run the schedule on one tile: search steps until nothing moves, then refinement with rising weights."""
    # A search step costs about as much as 60 gradient steps; the first phase about as much as 2.5 of them.
    searches = settings.refine_steps // settings.search_every
    effort = 2.5 * (settings.search_steps > 0) + searches + (settings.refine_steps - searches) / 60
    done = 0.0

    for step in range(settings.search_steps):
        # Patches do not see each other yet, so one that a whole step left in place will stay there for good.
        moving = field.search(0.0, 0.0, only_moving=step > 0)
        done = min(2.5, done + 0.67**step)
        report(min(done / effort, 1.0))
        if not moving:
            break

    if settings.refine_steps == 0:
        return field.parameters, field.color_map

    adam_count = 0
    field.rebuild(0, 0.0, 0.0)
    for step in range(1, settings.refine_steps + 1):
        share = (step - 1) / max(settings.refine_steps - 1, 1)
        boundary_weight, color_weight = share * settings.boundary_weight, share * settings.color_weight
        if step % settings.search_every == 0:
            field.search(boundary_weight, color_weight)
            done += 1
            if step == settings.refine_steps:
                break  # the final maps are built from these parameters, over the whole image
            field.rebuild(0, boundary_weight, color_weight)
        else:
            adam_count += 1
            field.rebuild(adam_count, boundary_weight, color_weight)
            done += 1 / 60
        if step % 10 == 0:
            report(min(done / effort, 1.0))
    return field.parameters, field.color_map
