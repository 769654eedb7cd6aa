"""The steps of the fit in plain NumPy float64, written for reading.

The kernels of the backends have the same steps fused and fast; tests hold them to this page. Images and maps are
``(H, W, C)`` and ``(H, W)`` here, of a size that whole patches cover; parameters are ``(rows, columns, 5)``.
"""

import numpy as np

from scotopic.constants import ADAM_BETAS, ADAM_EPSILON, ADAM_GAINS
from scotopic.patch_grid import search_offsets
from scotopic.settings import JunctionSettings
from scotopic.stages.junctions.geometry import (
    Array,
    boundary,
    distances,
    objective,
    reconstruction,
    wedge_colors,
    wedges,
)


def cut_patches(image: Array, settings: JunctionSettings) -> Array:
    """Return the patches of an image or map, ``(rows, columns, R, R[, C])``."""
    size, stride = settings.patch_size, settings.stride
    patches = np.lib.stride_tricks.sliding_window_view(image, (size, size), axis=(0, 1))[::stride, ::stride]
    return np.moveaxis(patches, 2, -1) if image.ndim == 3 else patches


def mean_of_patches(patches: Array, settings: JunctionSettings) -> Array:
    """Return the map whose every pixel is the mean over the patches that contain it."""
    rows, columns, size = patches.shape[:3]
    height, width = ((count - 1) * settings.stride + size for count in (rows, columns))
    total, count = np.zeros((height, width, *patches.shape[4:])), np.zeros((height, width))
    for i, j in np.ndindex(rows, columns):
        place = tuple(slice(k * settings.stride, k * settings.stride + size) for k in (i, j))
        total[place] += patches[i, j]
        count[place] += 1
    return total / (count[..., None] if total.ndim == 3 else count)


def global_maps(
    parameters: Array, image: Array, color_map: Array | None, color_weight: float, settings: JunctionSettings
) -> tuple[Array, Array]:
    """Return the boundary map ``B`` and the color map ``C``."""
    d13, d42 = distances(parameters, settings.patch_size)
    u = wedges(d13, d42)
    lean = None if color_map is None else cut_patches(color_map, settings)
    colors = wedge_colors(u, cut_patches(image, settings), lean, color_weight)
    return mean_of_patches(boundary(d13, d42), settings), mean_of_patches(reconstruction(u, colors), settings)


def search_step(
    parameters: Array,
    image: Array,
    boundary_map: Array,
    color_map: Array,
    boundary_weight: float,
    color_weight: float,
    settings: JunctionSettings,
) -> Array:
    """Return the parameters after one step of coordinate descent over the five parameters and three directions."""
    patches, boundaries, colors = (cut_patches(a, settings) for a in (image, boundary_map, color_map))
    angle_offsets, vertex_offsets = search_offsets(settings)
    current = parameters.copy()
    for search in range(8):
        direction = np.zeros_like(current)
        if search < 5:  # t1, t2, t3, x0, y0 in turn
            direction[..., search] = 1
        else:  # the vertex along each of the three angles in turn
            direction[..., 3] = np.cos(current[..., search - 5])
            direction[..., 4] = np.sin(current[..., search - 5])
        trials = [current + offset * direction for offset in (angle_offsets if search < 3 else vertex_offsets)]
        values = [objective(t, patches, boundaries, colors, boundary_weight, color_weight) for t in trials]
        best = np.argmin(values, axis=0)  # the first one on a tie
        current = np.take_along_axis(np.stack(trials), best[None, ..., None], axis=0)[0]
    return current


def gradient(
    parameters: Array,
    image: Array,
    boundary_map: Array,
    color_map: Array,
    boundary_weight: float,
    color_weight: float,
    settings: JunctionSettings,
    step: float = 1e-6,
) -> Array:
    """Return the gradient of each patch's objective, by central differences; the maps are held constant."""
    patches, boundaries, colors = (cut_patches(a, settings) for a in (image, boundary_map, color_map))

    def value(at: Array) -> Array:
        return objective(at, patches, boundaries, colors, boundary_weight, color_weight)

    return np.stack([(value(parameters + e) - value(parameters - e)) / (2 * step) for e in step * np.eye(5)], axis=-1)


def adam_step(
    parameters: Array, slope: Array, first: Array, second: Array, count: int, rates: Array
) -> tuple[Array, Array, Array]:
    """Return parameters and moments after Adam step number ``count``."""
    beta1, beta2 = ADAM_BETAS
    first = beta1 * first + ADAM_GAINS[0] * slope
    second = beta2 * second + ADAM_GAINS[1] * slope**2
    change = (first / (1 - beta1**count)) / (np.sqrt(second / (1 - beta2**count)) + ADAM_EPSILON)
    return parameters - rates * change, first, second
