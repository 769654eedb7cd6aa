"""The evidence's steps on a GPU: torch tensors, and launches of the kernels in ``_cuda.py``.

The same functions as in ``on_cpu``, of the same arguments, on tensors. A blur along an axis is a product with a banded
matrix, into which the mirrored edge is folded: at these sizes a matrix product is faster than the bookkeeping of a
convolution, any blur is as good as any other, and all disparities go at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
import triton
from numpy.typing import NDArray
from torch import Tensor

from scotopic.evidence import _cuda
from scotopic.evidence.channels import band_kernel, gaussian
from scotopic.evidence.confidence import FAINT, FAR
from scotopic.evidence.groups import EVERY, SIZE, corners, cosines, hadamard, window
from scotopic.evidence.planes import STEP
from scotopic.evidence.solve import LARGEST
from scotopic.evidence.volume import Features, blurs
from scotopic.matching import Reason
from scotopic.progress import Share, unheard
from scotopic.sensor.estimate import BLOCK, MOVING, STRIDE
from scotopic.settings import EvidenceSettings, MatchingSettings

_BLOCK = 128
_PATCHES = 16  #: that one program compares with the patches around them

# Images: (H, W, C) or (H, W).


def blurred(image: Tensor, sigma: float) -> Tensor:
    """Return an image blurred by a Gaussian, mirrored at its edges."""
    planes = image.movedim(-1, 0) if image.ndim == 3 else image
    out = _blur_planes(planes, sigma)
    return out.movedim(0, -1).contiguous() if image.ndim == 3 else out


def _blur_planes(planes: Tensor, sigma: float) -> Tensor:
    """Return maps ``(..., H, W)`` blurred."""
    height, width = planes.shape[-2:]
    down, across = (_blur_matrix(length, sigma, planes.device) for length in (height, width))
    return down @ planes @ across.T


@lru_cache(maxsize=64)
def _blur_matrix(length: int, sigma: float, device: torch.device) -> Tensor:
    """Return the matrix whose product with a column of so many pixels blurs it, mirrored at the ends."""
    kernel = gaussian(sigma)
    reach, period = kernel.size // 2, max(2 * (length - 1), 1)
    matrix = np.zeros((length, length))
    rows = np.arange(length)
    for offset, weight in zip(range(-reach, reach + 1), kernel, strict=True):
        place = np.abs((rows + offset) % period)
        np.add.at(matrix, (rows, np.minimum(place, period - place) if length > 1 else 0 * rows), weight)
    return torch.as_tensor(matrix.astype(np.float32), device=device)


def band(image: Tensor, scale: float, ratio: float) -> Tensor:
    """Return ``G(scale) - G(ratio scale)`` of an image."""
    return blurred(image, scale) - blurred(image, ratio * scale)


def detail(image: Tensor, scale: float) -> Tensor:
    """Return an image less its coarse part."""
    return image - blurred(image, scale)


def halved(image: Tensor) -> Tensor:
    """Return the means of 2 x 2 pixels, an odd edge repeated."""
    height, width = image.shape[:2]
    if height % 2:
        image = torch.cat((image, image[-1:]), dim=0)
    if width % 2:
        image = torch.cat((image, image[:, -1:]), dim=1)
    return (image[::2, ::2] + image[1::2, ::2] + image[::2, 1::2] + image[1::2, 1::2]) * 0.25


def enlarged(plane: Tensor, factor: int, shape: tuple[int, int]) -> Tensor:
    """Return a map of averaged pixels at full size, between their centers linearly."""
    if factor == 1:
        return plane
    larger = torch.nn.functional.interpolate(
        plane[None, None], scale_factor=factor, mode="bilinear", align_corners=False
    )
    return larger[0, 0, : shape[0], : shape[1]].contiguous()


def second_moments(left: Tensor, right: Tensor) -> NDArray[np.float64]:
    """Return the mean products of the channels over both views, ``(C, C)``."""
    total = sum(
        (flat.T @ flat) / len(flat) for flat in (image.reshape(-1, image.shape[2]).double() for image in (left, right))
    )
    moments: NDArray[np.float64] = (total / 2).cpu().numpy()
    return moments


def turned(image: Tensor, axes: NDArray[np.float64]) -> Tensor:
    """Return the channels along other axes."""
    return image @ torch.as_tensor(axes.astype(np.float32), device=image.device)


def local_signal(image: Tensor, sigma: float, noise: float) -> Tensor:
    """Return the energy around each pixel, all channels together, less that of the noise."""
    return (blurred(_energy(image), sigma) - noise * image.shape[2]).clamp_min(0)


def quiet_energy(left: Tensor, right: Tensor, sigma: float, share: float) -> float:
    """Return the energy per channel below which the quietest share of both views lies."""
    return _quantile(torch.stack([blurred(_energy(image) / image.shape[2], sigma) for image in (left, right)]), share)


def _energy(image: Tensor) -> Tensor:
    return (image * image).sum(dim=2)


def _quantile(values: Tensor, share: float) -> float:
    """Return a quantile as NumPy defines it, whatever the size: torch's own stops at 16 million values."""
    ordered = values.flatten().sort().values
    place = share * (len(ordered) - 1)
    low = int(place)
    below, above = ordered[low : low + 2].tolist() if low + 1 < len(ordered) else ordered[[low, low]].tolist()
    return float(below + (above - below) * (place - low))


def block_statistics(
    images: Sequence[Tensor],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return what the sensor's noise is estimated from: each block's mean, noise variance and whole variance."""
    values = torch.stack(list(images)).movedim(-1, 1).double()
    if min(values.shape[2:]) < BLOCK + 2:
        return np.empty(0), np.empty(0), np.empty(0)
    rows = values[:, :, :-2] - 2 * values[:, :, 1:-1] + values[:, :, 2:]
    residual = (rows[..., :-2] - 2 * rows[..., 1:-1] + rows[..., 2:]) / 6
    inner = values[:, :, 1:-1, 1:-1]
    planes = torch.stack((inner, inner**2, residual**2, (residual != 0).double())).flatten(0, 2)
    means = torch.nn.functional.avg_pool2d(planes[:, None], BLOCK, STRIDE)
    mean, square, noise, moving = means.reshape(4, -1).cpu().numpy()
    alive = moving > MOVING
    whole = (square - mean**2) * BLOCK**2 / (BLOCK**2 - 1)
    return mean[alive], noise[alive], whole[alive]


def filtered(
    images: Sequence[Tensor], pilots: Sequence[Tensor], variance: float, count: int, reach: int
) -> list[Tensor]:
    """Return images in which patches that look alike in their pilots were filtered together."""
    return [_filtered(*each, variance, count, reach) for each in zip(images, pilots, strict=True)]


def _filtered(image: Tensor, pilot: Tensor, variance: float, count: int, reach: int) -> Tensor:
    height, width, channels = image.shape
    lengthen = (0, width % EVERY, 0, height % EVERY)
    seen, clear = (
        torch.nn.functional.pad(each.movedim(-1, 0)[None], lengthen, mode="replicate")[0].contiguous()
        for each in (image, pilot)
    )
    rows, columns = corners(height).size, corners(width).size
    groups = _find_groups(clear, rows, columns, count, reach)
    along_patch, along_group, weights = _transforms(count, image.device)
    first = torch.empty((rows * columns, SIZE**2), dtype=torch.float32, device=image.device)
    quiet = torch.empty((rows * columns, 1), dtype=torch.float32, device=image.device)
    out = torch.empty_like(seen)
    for c in range(channels):  # one at a time: the frequencies of all patches are 64 times as large as a plane
        frequencies = (
            torch.nn.functional.unfold(each[None, None, c], SIZE)[0].T @ along_patch.T for each in (seen, clear)
        )
        _cuda.filter_groups[(rows * columns,)](
            groups, *frequencies, along_group, first, quiet, variance, COUNT=count, LENGTH=SIZE**2
        )
        weight = quiet * weights
        total, weight = (
            torch.nn.functional.fold(each.T[None], tuple(seen.shape[1:]), SIZE, stride=EVERY)[0, 0]
            for each in ((first @ along_patch) * weight, weight)
        )
        out[c] = total / weight
    return out[:, :height, :width].movedim(0, -1).contiguous()


def _find_groups(pilot: Tensor, rows: int, columns: int, count: int, reach: int) -> Tensor:
    """Return the patches most like each patch, itself first, ``(patches, count)``: places ``y (W - SIZE + 1) + x``."""
    channels, height, width = pilot.shape
    side = 2 * reach + 1
    apart = torch.empty((rows * columns, side * side), dtype=torch.float32, device=pilot.device)
    groups = torch.empty((rows * columns, count), dtype=torch.int32, device=pilot.device)
    _cuda.patch_distances[(triton.cdiv(columns, _PATCHES), rows, side)](
        pilot, apart, height, width, columns, channels, reach, SIZE=SIZE, EVERY=EVERY, BLOCK=_PATCHES
    )
    _cuda.nearest_patches[(rows * columns,)](
        apart, groups, width, columns, reach, SIZE=SIZE, EVERY=EVERY, COUNT=count,
        BLOCK=triton.next_power_of_2(side * side),
    )  # fmt: skip
    return groups


@lru_cache(maxsize=16)
def _transforms(count: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Return the tables of the groups on the device: along a patch, along a group, and the window over a patch."""
    along_patch, along_group, weights = (
        torch.as_tensor(each.astype(np.float32), device=device) for each in (cosines(), hadamard(count), window())
    )
    return along_patch, along_group, weights


# Features and the volume.


def ones_like(plane: Tensor) -> Tensor:
    """Return a map of ones."""
    return torch.ones_like(plane)


def weighed(image: Tensor, weights: NDArray[np.float64]) -> Tensor:
    """Return the weighted sum of the squares of the channels, ``(H, W)``."""
    return (image * image) @ torch.as_tensor(weights.astype(np.float32), device=image.device)


def stacked(planes: Sequence[Tensor]) -> Tensor:
    """Return maps as one array ``(F, H, W)``."""
    return torch.stack(list(planes)).contiguous()


def add_up(features: Sequence[Features], disparities: Sequence[int], progress: Share = unheard) -> Tensor:
    """Return the volume ``(D, H, W)``: the features' products, blurred by their windows."""
    count, height, width = features[0].left.shape
    volume = torch.zeros((len(disparities), height, width), dtype=torch.float32, device=features[0].left.device)
    for done, (each, sigma) in enumerate(zip(features, blurs(features), strict=True), 1):
        count = each.left.shape[0]
        _cuda.add_products[(triton.cdiv(width, _BLOCK), height, len(disparities))](
            each.left, each.right, volume, count, height, width, disparities[0], BLOCK=_BLOCK
        )
        volume = _blur_planes(volume, sigma)
        progress(done / len(features))
    return volume.contiguous()


def spread(volume: Tensor) -> float:
    """Return the mean over the pixels of the standard deviation over disparity; 1 where there is none."""
    unit = float(volume.std(dim=0, correction=0).mean(dtype=torch.float64))
    return unit if unit > 0 else 1.0


# From the volume to disparities.


def whole_costs(volume: Tensor, step: float, first: int, *, is_left: bool) -> Tensor:
    """Return one view's costs as whole numbers, ``(H, W, D)``."""
    candidates, height, width = volume.shape
    if not is_left:
        places = torch.arange(width, device=volume.device) + first
        places = (places + torch.arange(candidates, device=volume.device)[:, None]).clamp(0, width - 1)
        volume = volume.gather(2, places[:, None].expand(candidates, height, width))
    above = (volume - volume.amin(dim=0)) * (1 / step)
    return (above + 0.5).floor().clamp_max(LARGEST).to(torch.int16).permute(1, 2, 0).contiguous()


def costs_along(volume: Tensor, step: float, surface: Tensor, first: int) -> tuple[Tensor, Tensor]:
    """Return the left view's costs counted from a surface, and the disparity of each pixel's first candidate."""
    candidates = len(volume)
    start = (surface + 0.5).floor() - candidates // 2
    index = start.long() - first + torch.arange(candidates, device=volume.device)[:, None, None]
    along = volume.gather(0, index.clamp(0, candidates - 1))
    along = torch.where((index < 0) | (index >= candidates), volume.amax(dim=0), along)
    above = (along - volume.amin(dim=0)) * (1 / step)
    return (above + 0.5).floor().clamp_max(LARGEST).to(torch.int16).permute(1, 2, 0).contiguous(), start


def even_penalties(shape: tuple[int, int], p2: int) -> Tensor:
    """Return the same ``P2`` everywhere."""
    from scotopic.device import torch_device

    return torch.full(tuple(shape), p2, dtype=torch.int32, device=torch_device())


def between(total: Tensor, best: Tensor, first: int) -> Tensor:
    """Return the disparities at the minima of parabolas through the sums around the best candidates."""
    candidates = total.shape[2]
    index = best.long() - first
    if candidates < 3:
        return best.float()
    middle = index.clamp(1, candidates - 2)
    below, here, above = (total.gather(2, (middle + k)[..., None])[..., 0].long() for k in (-1, 0, 1))
    bend = below - 2 * here + above
    inner = (index == middle) & (bend > 0)
    offset = torch.where(inner, (below - above).double() / (2 * bend).clamp_min(1).double(), 0.0)
    return (best.double() + offset).float()


def as_float(values: Tensor, factor: float) -> Tensor:
    """Return whole numbers times a factor as float32."""
    return (values.double() * factor).float()


def disagreement(left: Tensor, right: Tensor) -> Tensor:
    """Return by how much the views' disparities differ; infinite where a partner lies outside the right view."""
    partner, outside = _partners(left, right)
    return torch.where(outside, float("inf"), (left - partner).abs())


def _partners(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Return the right view's disparity where each left pixel lands, and whether that lies outside the view."""
    width = left.shape[1]
    landing = (torch.arange(width, dtype=torch.float32, device=left.device) - left + 0.5).floor().long()
    return right.gather(1, landing.clamp(0, width - 1)), (landing < 0) | (landing >= width)


def fused(left: Tensor, right: Tensor) -> Tensor:
    """Return the mean of both views' disparities where they agree to a pixel, the left one's elsewhere."""
    partner, _ = _partners(left, right)
    return torch.where((partner - left).abs() < 1, (left + partner) / 2, left)


def sureness(margin: Tensor, apart: Tensor, slack: float) -> Tensor:
    """Return the margin, less where the views disagree by more than the slack."""
    return margin * torch.exp(-(apart - slack).clamp_min(0))


def planes(disparity: Tensor, sure: Tensor, settings: EvidenceSettings) -> Tensor:
    """Return the disparity with planes laid through it."""
    height, width = disparity.shape
    disparity, weights = disparity.contiguous(), (sure + FAINT).contiguous()
    present = disparity
    for _ in range(settings.plane_rounds):
        laid = torch.empty_like(disparity)
        _cuda.lay_planes[(triton.cdiv(height * width, _BLOCK),)](
            disparity, weights, present, laid, height, width, -0.5 / settings.plane_sigma**2,
            -0.5 / settings.plane_tau**2, settings.plane_ridge, REACH=2 * int(settings.plane_sigma), STEP=STEP,
            BLOCK=_BLOCK,
        )  # fmt: skip
        present = laid
    return present


def agreed(sure: Tensor, settings: EvidenceSettings) -> Tensor:
    """Return the geometric mean of how sure the pixels around each one are."""
    near = blurred(sure, settings.confidence_blur) + settings.confidence_floor
    return torch.exp(blurred(torch.log(near), settings.confidence_reach))


def within(disparity: Tensor, first: float, last: float) -> Tensor:
    """Return disparities kept in the range that was searched."""
    return disparity.clamp(first, last)


def keep(disparity: Tensor, confidence: Tensor, apart: Tensor, settings: MatchingSettings) -> tuple[Tensor, Tensor]:
    """Return the disparity where it is sure enough, NaN elsewhere, and the reasons (``confidence.explain``)."""
    unsure = confidence < settings.min_confidence
    why = torch.where(apart >= settings.left_right_threshold, int(Reason.LEFT_RIGHT), int(Reason.AMBIGUOUS))
    why = torch.where(apart >= FAR / 2, int(Reason.OUT_OF_VIEW), why)
    reason = torch.where(unsure, why, int(Reason.OK)).to(torch.uint8)
    return torch.where(unsure, float("nan"), disparity), reason


def signal_to_noise(image: Tensor, variance: float, settings: EvidenceSettings) -> float:
    """Return the median over the image of the finest band's signal over its noise."""
    fine = band(image, settings.finest_scale, 2.0)
    noise = variance * band_kernel(settings.finest_scale, 2.0)[0]
    around = blurred(_energy(fine) / fine.shape[2], 6 * settings.finest_scale)
    quiet = _quantile(around, settings.quiet_share)
    if quiet > settings.white_factor * noise:
        noise = quiet
    return max(_quantile(around, 0.5) / noise - 1, 0.0)
