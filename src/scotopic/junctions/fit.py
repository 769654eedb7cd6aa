"""Fitting a field of junctions to one image (METHOD section 1): the schedule, on top of the kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from os import PathLike
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.device import kernels
from scotopic.errors import InputError
from scotopic.io import as_image
from scotopic.junctions.grid import patches_over, spans
from scotopic.progress import Share, unheard
from scotopic.settings import JunctionSettings
from scotopic.validation import check_size

Plane = NDArray[np.float32]


@dataclass(frozen=True)
class Junctions:
    """A field of junctions.

    Attributes
    ----------
    parameters
        ``(rows, columns, 5)``: the angles ``t1, t2, t3`` and the vertex ``x0, y0`` of each patch, in patch coordinates.
    boundary_map
        ``B``, ``(H, W)``: how strongly the patches agree on a boundary at each pixel, in [0, 1].
    colour_map
        ``C``, ``(H, W, channels)``: the mean of the patches' reconstructions.
    settings
        What it was fitted with.
    """

    parameters: NDArray[np.float64]
    boundary_map: Plane
    colour_map: Plane
    settings: JunctionSettings

    def render(self, boundaries: bool = True) -> NDArray[np.uint8]:
        """Return a picture of the structure: the colour map, stretched to the full range, with boundaries drawn dark.

        Parameters
        ----------
        boundaries
            Draw the boundary map over the colours.

        Returns
        -------
        (H, W, 3) uint8 RGB
        """
        low, high = np.percentile(self.colour_map, (0.5, 99.5))
        picture = np.clip((self.colour_map - low) / max(high - low, 1e-6), 0, 1)
        if boundaries:
            picture = picture * (1 - 0.9 * np.clip(self.boundary_map / 0.4, 0, 1))[..., None]
        return np.broadcast_to((picture * 255).round(), (*picture.shape[:2], 3)).astype(np.uint8)


def fit_junctions(
    image: NDArray[Any] | str | PathLike[str],
    settings: JunctionSettings | None = None,
    *,
    device: str = "auto",
    progress: Share = unheard,
    name: str = "image",
) -> Junctions:
    """Fit a field of junctions to one image.

    Parameters
    ----------
    image
        Array (uint8, uint16 or float in [0, 1]; grey or RGB) or path, at least one patch in size. It is padded to whole
        patches by repeating its edge; the maps are cropped back.
    settings
        :class:`~scotopic.settings.JunctionSettings`; the paper's by default.
    device
        ``"auto"``, ``"cpu"`` or ``"cuda"``.
    progress
        Called with the share done.
    name
        What to call the image in errors.

    Returns
    -------
    Junctions

    References
    ----------
    Verbin and Zickler, "Field of Junctions: Extracting Boundary Structure at Low SNR", ICCV 2021.

    Examples
    --------
    >>> import numpy as np, scotopic
    >>> image = np.zeros((48, 48), np.float32)
    >>> image[:, 24:] = 1
    >>> field = scotopic.fit_junctions(image, scotopic.resolve("fast").junctions)
    >>> bool(field.boundary_map[24, 24] > 0.5 > field.boundary_map[24, 4])
    True
    """
    settings = settings or JunctionSettings()
    pixels = as_image(image, name)
    check_size(pixels, settings.patch_size, name)
    engine = kernels("junctions", device)
    planes = pad_to_patches(pixels, settings)
    fit = _fit_tiles(engine, planes, settings, progress)
    # The colours of the last step lean on the global colour map before it, with their full weight by then.
    lean = settings.colour_weight if settings.refine_steps else 0.0
    earlier = np.repeat(np.repeat(fit.colour_map, settings.binning, axis=1), settings.binning, axis=2)
    maps = _cropped(*_build_maps(engine, planes, fit.parameters, earlier, lean, settings), pixels.shape)
    return Junctions(fit.parameters, *maps, settings)


def check_fields(fields: tuple[Junctions, Junctions], shape: tuple[int, int]) -> None:
    """Raise :class:`InputError` unless two fields of junctions belong to views of this size, fitted alike."""
    left, right = fields
    sizes = [f"{field.boundary_map.shape[1]} x {field.boundary_map.shape[0]}" for field in fields]
    if any(field.boundary_map.shape != shape for field in fields):
        raise InputError(
            f"junctions: found fields of images of {sizes[0]} and {sizes[1]} px, expected {shape[1]} x {shape[0]}; fit "
            "them to the images of this pair"
        )
    if left.settings != right.settings:
        raise InputError(
            "junctions: found two fields fitted with different settings, expected the same; fit them alike"
        )


def pad_to_patches(pixels: Plane, settings: JunctionSettings) -> Plane:
    """Return the image as planes ``(C, H, W)``, its edge repeated until whole patches cover it."""
    height, width, _ = pixels.shape
    down, right = (-(length - settings.patch_size) % settings.stride for length in (height, width))
    return np.ascontiguousarray(np.pad(np.moveaxis(pixels, -1, 0), ((0, 0), (0, down), (0, right)), mode="edge"))


def patch_axis(settings: JunctionSettings) -> Plane:
    """Return the coordinates of a patch's (binned) pixels along one side."""
    axis = np.linspace(-1.0, 1.0, settings.patch_size)
    return np.asarray(axis.reshape(-1, settings.binning).mean(axis=1), np.float32)


@dataclass
class _Fit:
    """Parameters, and the global colour map ``G`` with which the last step computed its colours (binned)."""

    parameters: NDArray[np.float64]
    colour_map: Plane


def _binned(planes: Plane, binning: int) -> Plane:
    channels, height, width = planes.shape
    blocks = planes.reshape(channels, height // binning, binning, width // binning, binning)
    return np.ascontiguousarray(blocks.mean(axis=(2, 4), dtype=np.float32))


def _fit_tiles(engine: ModuleType, planes: Plane, settings: JunctionSettings, report: Share) -> _Fit:
    """Fit the whole grid, tile by tile. Without refinement patches are independent and tiles change nothing."""
    small = _binned(planes, settings.binning) if settings.binning > 1 else planes
    size, stride = settings.patch_size // settings.binning, settings.stride // settings.binning
    rows, columns = ((length - size) // stride + 1 for length in small.shape[1:])
    margin = settings.tile_margin if settings.refine_steps else 0
    tiles = [(r, c) for r in spans(rows, settings.tile, margin) for c in spans(columns, settings.tile, margin)]
    whole = _Fit(np.empty((rows, columns, 5)), np.zeros_like(small))
    for k, (r, c) in enumerate(tiles):
        window = small[
            :, r.first * stride : (r.last - 1) * stride + size, c.first * stride : (c.last - 1) * stride + size
        ]
        part = _fit(engine, np.ascontiguousarray(window), settings, partial(_report_tile, report, k, len(tiles)))
        whole.parameters[r.start : r.stop, c.start : c.stop] = part.parameters[
            r.start - r.first : r.stop - r.first, c.start - c.first : c.stop - c.first
        ]
        # From the first kept patch to the end of the window; the next tile overwrites what lies beyond this one.
        top, left = (r.start - r.first) * stride, (c.start - c.first) * stride
        source = part.colour_map[:, top:, left:]
        whole.colour_map[
            :,
            r.start * stride : r.start * stride + source.shape[1],
            c.start * stride : c.start * stride + source.shape[2],
        ] = source
    return whole


def _report_tile(report: Share, tile: int, tiles: int, share: float) -> None:
    report((tile + share) / tiles)


def _fit(engine: ModuleType, planes: Plane, settings: JunctionSettings, report: Share) -> _Fit:
    """Run the schedule on one tile: search steps until nothing moves, then refinement with rising weights."""
    size, stride = settings.patch_size // settings.binning, settings.stride // settings.binning
    rows, columns = ((length - size) // stride + 1 for length in planes.shape[1:])
    axis = patch_axis(settings)
    angle_offsets = np.arange(settings.candidates) * (2 * np.pi / settings.candidates)
    vertex_offsets = np.linspace(-settings.vertex_range, settings.vertex_range, settings.candidates)
    parameters = np.zeros((rows, columns, 5))
    boundary_map, colour_map = np.zeros(planes.shape[1:], np.float32), np.zeros_like(planes)

    everyone = np.arange(rows * columns)
    # A search step costs about as much as 60 gradient steps; the first phase about as much as 2.5 of them.
    searches = settings.refine_steps // settings.search_every
    effort = 2.5 * (settings.search_steps > 0) + searches + (settings.refine_steps - searches) / 60
    done = 0.0

    moving = everyone
    for step in range(settings.search_steps):
        moved = engine.search_step(
            parameters, moving, planes, boundary_map, colour_map, axis, stride, 0.0, 0.0, angle_offsets, vertex_offsets
        )
        # Patches do not see each other yet, so one that a whole step left in place will stay there for good.
        moving = moving[moved]
        done = min(2.5, done + (1.0 if step == 0 else len(moving) / rows / columns))
        report(done / effort)
        if len(moving) == 0:
            break

    if settings.refine_steps == 0:
        return _Fit(parameters, colour_map)

    adam_first, adam_second, gradients = (np.zeros_like(parameters) for _ in range(3))
    rates = np.array([settings.angle_rate] * 3 + [settings.vertex_rate] * 2)
    count = 0
    current, fresh = (boundary_map, colour_map), (np.empty_like(boundary_map), np.empty_like(colour_map))

    def rebuild(adam_count: int, boundary_weight: float, colour_weight: float) -> None:
        nonlocal current, fresh
        engine.sweep(
            parameters, adam_first, adam_second, adam_count, rates, planes, *current, axis, stride, boundary_weight,
            colour_weight, *fresh, gradients,
        )  # fmt: skip
        current, fresh = fresh, current

    rebuild(0, 0.0, 0.0)
    for step in range(1, settings.refine_steps + 1):
        share = (step - 1) / max(settings.refine_steps - 1, 1)
        boundary_weight, colour_weight = share * settings.boundary_weight, share * settings.colour_weight
        if step % settings.search_every == 0:
            engine.search_step(
                parameters, everyone, planes, *current, axis, stride, boundary_weight, colour_weight, angle_offsets,
                vertex_offsets,
            )  # fmt: skip
            done += 1
            if step == settings.refine_steps:
                break  # the final maps are built from these parameters, over the whole image
            rebuild(0, boundary_weight, colour_weight)
        else:
            count += 1
            rebuild(count, boundary_weight, colour_weight)
            done += 1 / 60
        if step % 10 == 0:
            report(min(done / effort, 1.0))
    return _Fit(parameters, current[1])


def maps_of(
    image: Plane, parameters: NDArray[np.float64], settings: JunctionSettings, device: str
) -> tuple[Plane, Plane]:
    """Return the boundary map and the colour map, in plain colours (``lc = 0``), of given junctions on an image."""
    planes = pad_to_patches(image, settings)
    maps = _build_maps(kernels("junctions", device), planes, parameters, planes, 0.0, settings)
    return _cropped(*maps, image.shape)


def plain_map(image: Plane, parameters: NDArray[np.float64], settings: JunctionSettings, device: str) -> Plane:
    """Return the mean map of the patches' reconstructions in plain colours, ``(H, W, C)``, as the matching needs it."""
    engine = kernels("junctions", device)
    planes = pad_to_patches(image, settings)
    total = np.zeros(planes.shape)
    for top, patches in painted_rows(engine, planes, parameters, settings):
        engine.add_row(patches, settings.patch_size, settings.stride, top, total)
    for axis in (1, 2):
        first, last = patches_over(planes.shape[axis], parameters.shape[axis - 1], settings)
        total /= (last + 1 - first)[:, None] if axis == 1 else last + 1 - first
    height, width, _ = image.shape
    mean = total[:, :height, :width]
    return np.ascontiguousarray(np.moveaxis(mean, 0, -1), dtype=np.float32)


def painted_rows(
    engine: ModuleType, planes: Plane, parameters: NDArray[np.float64], settings: JunctionSettings
) -> Iterator[tuple[int, Plane]]:
    """Yield for each row of patches its top line and its plain reconstructions, ``(columns, C, R * R)``.

    The array is filled anew for each row.
    """
    axis = np.linspace(-1.0, 1.0, settings.patch_size)
    patches = np.empty((parameters.shape[1], planes.shape[0], settings.patch_size**2), np.float32)
    for row in range(parameters.shape[0]):
        top = row * settings.stride
        engine.paint_row(parameters[row], planes, axis, settings.stride, top, patches)
        yield top, patches


def _cropped(boundary_map: Plane, colour_map: Plane, shape: tuple[int, ...]) -> tuple[Plane, Plane]:
    """Cut padding off the maps and put the colours' channels last."""
    height, width = shape[:2]
    colours = np.moveaxis(colour_map[:, :height, :width], 0, -1)
    return np.ascontiguousarray(boundary_map[:height, :width]), np.ascontiguousarray(colours)


def _build_maps(
    engine: ModuleType,
    planes: Plane,
    parameters: NDArray[np.float64],
    colour_map: Plane,
    colour_weight: float,
    settings: JunctionSettings,
) -> tuple[Plane, Plane]:
    """Build the boundary map and the colour map of a whole image, at full resolution."""
    axis = np.linspace(-1.0, 1.0, settings.patch_size).astype(np.float32)
    boundaries, colours = np.empty(planes.shape[1:], np.float32), np.empty_like(planes)
    nothing = np.zeros((1, 1, 5))
    engine.sweep(
        parameters, nothing, nothing, 0, np.zeros(5), planes, boundaries, colour_map, axis, settings.stride, 0.0,
        colour_weight, boundaries, colours, nothing,
    )  # fmt: skip
    return boundaries, colours
