"""Fitting a field of junctions to images (METHOD section 1): the schedule, on top of a device's steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.device import is_on_gpu, resolve_device, steps, to_device
from scotopic.errors import InputError
from scotopic.junctions.grid import spans
from scotopic.progress import Share, unheard
from scotopic.settings import JunctionSettings
from scotopic.tensors import take_image
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
    color_map
        ``C``, ``(H, W, channels)``: the mean of the patches' reconstructions.
    settings
        What it was fitted with.
    """

    parameters: NDArray[np.float64]
    boundary_map: Plane
    color_map: Plane
    settings: JunctionSettings

    def to_numpy(self) -> Junctions:
        """Return the field with NumPy arrays, copied from the GPU if they are there."""
        return self.to_device("cpu")

    def to_device(self, device: str) -> Junctions:
        """Return the field with the arrays of a device, ``"cpu"`` or ``"cuda"``."""
        maps = to_device(self.boundary_map, device), to_device(self.color_map, device)
        return Junctions(to_device(self.parameters, device), *maps, self.settings)

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
        if is_on_gpu(self.color_map):
            return self.to_numpy().render(boundaries)
        low, high = np.percentile(self.color_map, (0.5, 99.5))
        picture = np.clip((self.color_map - low) / max(high - low, 1e-6), 0, 1)
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
        Array (uint8, uint16 or float in [0, 1]; gray or RGB) or path, at least one patch in size. It is padded to whole
        patches by repeating its edge; the maps are cropped back.
    settings
        :class:`~scotopic.settings.JunctionSettings`; the paper's by default.
    device
        ``"auto"``, ``"cpu"`` or ``"cuda"``. A tensor that is on the GPU gives a field of tensors there.
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
    >>> field = scotopic.fit_junctions(image, scotopic.make_settings("fast").junctions)
    >>> bool(field.boundary_map[24, 24] > 0.5 > field.boundary_map[24, 4])
    True
    """
    settings = settings or JunctionSettings()
    where = resolve_device(device, image)
    pixels = take_image(image, name)
    check_size(pixels, settings.patch_size, name)
    (field,) = fit_fields([pixels], settings, device=where, progress=progress)
    return field if is_on_gpu(image) else field.to_numpy()


def fit_fields(
    images: Sequence[Any], settings: JunctionSettings, *, device: str, progress: Share = unheard
) -> list[Junctions]:
    """Fit a field of junctions to each of several images of one size, side by side, on a device's own arrays."""
    engine = steps("junctions", device)
    planes = engine.to_planes(images, settings)
    fit = _fit_tiles(engine, planes, settings, progress)
    # The colors of the last step lean on the global color map before it, with their full weight by then.
    lean = settings.color_weight if settings.refine_steps else 0.0
    earlier = engine.enlarged(fit.color_map, settings.binning) if lean else planes
    boundaries, colors = engine.draw_maps(planes, fit.parameters, earlier, lean, settings)
    height, width, _ = images[0].shape
    return [
        Junctions(
            parameters,
            engine.contiguous(boundary_map[:height, :width]),
            engine.contiguous(_channels_last(color_map[:, :height, :width])),
            settings,
        )
        for parameters, boundary_map, color_map in zip(fit.parameters, boundaries, colors, strict=True)
    ]


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


def plain_map(image: Any, parameters: Any, settings: JunctionSettings, *, device: str) -> Any:
    """Return the mean map of the patches' reconstructions in plain colors, ``(H, W, C)``, as the matching needs it."""
    engine = steps("junctions", device)
    (mean,) = engine.plain_maps(engine.to_planes([image], settings), parameters[None], settings)
    height, width, _ = image.shape
    return engine.contiguous(_channels_last(mean[:, :height, :width]))


def _channels_last(planes: Any) -> Any:
    """Return ``(C, H, W)`` as ``(H, W, C)``; NumPy and torch name this differently."""
    return planes.transpose(1, 2, 0) if isinstance(planes, np.ndarray) else planes.permute(1, 2, 0)


@dataclass
class _Fit:
    """Parameters, and the global color maps ``G`` with which the last step computed its colors (binned)."""

    parameters: Any
    color_map: Any


def _fit_tiles(engine: Any, planes: Any, settings: JunctionSettings, report: Share) -> _Fit:
    """Fit the whole grid, tile by tile. Without refinement patches are independent and tiles change nothing."""
    small = engine.binned(planes, settings.binning) if settings.binning > 1 else planes
    size, stride = settings.patch_size // settings.binning, settings.stride // settings.binning
    rows, columns = ((length - size) // stride + 1 for length in small.shape[2:])
    margin = settings.tile_margin if settings.refine_steps else 0
    tiles = [(r, c) for r in spans(rows, settings.tile, margin) for c in spans(columns, settings.tile, margin)]
    if len(tiles) == 1:
        return _fit(engine.Field(small, settings), settings, report)
    whole = _Fit(engine.new_parameters(len(small), rows, columns), engine.zeros(tuple(small.shape)))
    for k, (r, c) in enumerate(tiles):
        window = small[
            ..., r.first * stride : (r.last - 1) * stride + size, c.first * stride : (c.last - 1) * stride + size
        ]
        field = engine.Field(engine.contiguous(window), settings)
        part = _fit(field, settings, partial(_report_tile, report, k, len(tiles)))
        whole.parameters[:, r.start : r.stop, c.start : c.stop] = part.parameters[
            :, r.start - r.first : r.stop - r.first, c.start - c.first : c.stop - c.first
        ]
        # From the first kept patch to the end of the window; the next tile overwrites what lies beyond this one.
        top, left = (r.start - r.first) * stride, (c.start - c.first) * stride
        source = part.color_map[..., top:, left:]
        whole.color_map[
            ...,
            r.start * stride : r.start * stride + source.shape[-2],
            c.start * stride : c.start * stride + source.shape[-1],
        ] = source
    return whole


def _report_tile(report: Share, tile: int, tiles: int, share: float) -> None:
    report((tile + share) / tiles)


def _fit(field: Any, settings: JunctionSettings, report: Share) -> _Fit:
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
        return _Fit(field.parameters, field.color_map)

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
    return _Fit(field.parameters, field.color_map)
