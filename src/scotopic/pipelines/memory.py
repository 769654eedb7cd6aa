"""How much GPU memory a pair takes, known before any of it is asked for."""

import math
from dataclasses import replace
from typing import TypeVar

from scotopic.backends.device import interpreted
from scotopic.constants import BAND_CELLS, PAINTED_BYTES
from scotopic.errors import DeviceError
from scotopic.settings import EvidenceMatchingSettings, JunctionSettings, Settings
from scotopic.stages.census import census_offsets
from scotopic.stages.denoising import SIZE, STRIDE
from scotopic.stages.resolution import adapt_patches, widen_search

SMALLEST_TILE = 16  # patches along a side; below this a tile would be margin more than tile
RESERVE = 0.9  # share of the free memory to plan with: allocators round up

AnySettings = TypeVar("AnySettings", bound=Settings)


def pair_bytes(settings: Settings, shape: tuple[int, int, int]) -> int:
    """Return the most bytes that are in use at a time while a pair is matched on a GPU, apart from the fit's tiles.

    Parameters
    ----------
    settings
        With the disparity range fixed.
    shape
        ``(height, width, channels)``.
    """
    height, width, channels = shape
    searched = widen_search(settings, width) if isinstance(settings, EvidenceMatchingSettings) else settings
    candidates = len(searched.matching.disparities)
    junctions = _finest_junctions(settings)
    size, stride = junctions.patch_size, junctions.stride
    rows, columns = (-(-max(length - size, 0) // stride) + 1 for length in (height, width))
    pixels = ((rows - 1) * stride + size) * ((columns - 1) * stride + size)
    # Floats per pixel that both views hold throughout: image, boundary map, color map and plain map.
    held = 2 * (3 * channels + 1)
    # While the maps are drawn: planes, the earlier colors and the maps; while costs are computed: the planes, the
    # other view twice over, and the result's five maps.
    fitting, matching = 2 * (3 * channels + 1), 5 * channels + 5
    drawings = 8 * (14 + 3 * channels) * rows * columns
    if isinstance(settings, EvidenceMatchingSettings):
        cells = _evidence_bytes(settings, shape, candidates)
    else:
        # Raw costs, then scaled ones: what is computed in between takes four float32 per cell.
        cells = 16 * rows * columns * candidates
    return 4 * pixels * (held + max(fitting, matching)) + cells + drawings


def _evidence_bytes(settings: EvidenceMatchingSettings, shape: tuple[int, int, int], candidates: int) -> int:
    """Return the bytes of the volume and what it is made of, or of the denoising before it if that takes more.

    What the light is like is not known yet. So this is what fine evidence takes, or coarse evidence if that is more.
    """
    height, width, channels = shape
    pixels, largest = height * width, settings.resolution.max_cells
    is_small = pixels * candidates <= largest
    cells, fine_pixels = (pixels * candidates, pixels) if is_small else (largest, pixels // 4)
    coarse_pixels = -(-height // 2) * -(-width // 2)
    # The coarse volume has an eighth of the fine one's cells, or a little more where odd numbers are halved; of a large
    # image it may have all the cells there are.
    coarse_cells = coarse_pixels * (candidates // 2 + 1) if is_small else cells
    # Bands, junctions, image with junctions both ways, and images: each has both views and its units, which become
    # features of both views. They are stacked from as many maps again; later the volume is blurred, with two copies.
    kinds = settings.channels.scales + 4
    features = 4 * coarse_pixels * kinds * (4 * channels + 5)
    building = features + max(4 * coarse_pixels * kinds * (channels + 3), 8 * coarse_cells)
    # A byte for each neighbor of a pixel in both views; later the volume is blurred, with a copy. Then there is one of
    # colors beside it, with a copy of a quarter.
    comparing = max(2 * len(census_offsets()) * fine_pixels + 8 * cells, 9 * cells)
    # Volume, integer costs and their sums; P2 of both views, and what is looked up around each pixel's minimum.
    solving = 10 * cells + 64 * fine_pixels
    # Where occlusions are filled from: some columns and ranks of 8 bytes for each pixel, beside the maps.
    filling = 128 * fine_pixels
    count = settings.denoising.group_count
    denoising = max(
        _denoising_bytes(coarse_pixels, channels, settings.denoising.group_reach, count),
        _denoising_bytes(fine_pixels, channels, settings.fine.fine_group_reach, count),
    )
    return max(building, comparing, solving, filling, denoising)


def _denoising_bytes(pixels: int, channels: int, reach: int, count: int) -> int:
    """Return the bytes of denoising two images.

    Differences of the cells of some rows to those around them, the groups, and every filtered patch of an image; images
    and pilots, the earlier ones too, along the axes of their colors, and those of one view as planes.
    """
    patches = pixels // STRIDE**2
    differences = 4 * min(patches * (2 * reach + 1) ** 2, BAND_CELLS)
    return differences + 4 * patches * (count + (SIZE**2 + 1) * channels) + 4 * 10 * channels * pixels


def tile_bytes(settings: Settings, shape: tuple[int, int, int]) -> int:
    """Return the bytes that the fit of one tile of both views takes on top of that."""
    height, width, channels = shape
    junctions = _finest_junctions(settings)
    side = junctions.tile + 2 * junctions.tile_margin
    rows, columns = (min(length // junctions.stride + 1, side) for length in (height, width))
    patches, pixels = rows * columns, rows * columns * junctions.stride**2
    per_pixel = 4 * (3 * channels + 1) / junctions.binning**2
    return int(2 * (patches * (4 * 5 * 8 + 4 * (14 + 3 * channels) + 1) + pixels * per_pixel))


def _finest_junctions(settings: Settings) -> JunctionSettings:
    """Return the settings of the most patches that there may be: what the noise is like is not known yet."""
    if isinstance(settings, EvidenceMatchingSettings):
        return adapt_patches(settings, 0.0, math.inf)
    return settings.junctions


def fit_to_memory(settings: AnySettings, shape: tuple[int, int, int], free: int | None = None) -> AnySettings:
    """Return the settings with tiles that fit into the GPU's memory.

    Parameters
    ----------
    settings
        With the disparity range fixed.
    shape
        ``(height, width, channels)``.
    free
        Bytes to plan with; what the GPU has free by default.

    Raises
    ------
    DeviceError
        Not even the smallest tile fits.
    """
    height, width, _ = shape
    fixed = pair_bytes(settings, shape) + PAINTED_BYTES
    if free is None:
        if interpreted():
            return settings
        free = int(RESERVE * free_bytes(enough=int((fixed + tile_bytes(settings, shape)) / RESERVE) + 1))
    tile = settings.junctions.tile
    while True:
        tiled = replace(settings, junctions=replace(settings.junctions, tile=tile))
        needed = fixed + tile_bytes(tiled, shape)
        if needed <= free:
            return tiled
        if tile <= SMALLEST_TILE:
            raise DeviceError(
                f"A pair of {width} x {height} px needs at least {needed / 2**20:.0f} MiB of GPU memory, and only "
                f"{free / 2**20:.0f} MiB are free. Use smaller images, a smaller max_disparity, or device='cpu'."
            )
        tile = max(tile // 2, SMALLEST_TILE)


def free_bytes(enough: int) -> int:
    """Return the bytes of GPU memory that this process can still use, torch's own unused blocks included.

    These are not counted where the rest is ``enough``: that takes as long as a stage.
    """
    import torch

    free, _ = torch.cuda.mem_get_info()
    return int(free if free >= enough else free + torch.cuda.memory_reserved() - torch.cuda.memory_allocated())
