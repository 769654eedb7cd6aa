"""At which sizes a pair is matched, and how patches, windows and penalties adapt to its signal-to-noise ratio.

In the dark four averaged pixels say as much as the four of them, so images are matched at half size there. In good
light fine evidence at full size takes its place (:mod:`~scotopic.stages.census`). Two ratios of signal to noise are
measured. That of the images at half size, along the axis of their colors that has most signal, decides on the fine
evidence (:func:`measure_snr`): it is about 0.1 at two photons, 1 to 5 at 64, above 50 on clean pictures. That of the
finest band at full size, its median over the left image (:func:`measure_band_snr`), says whether single pixels can be
relied on: on real scenes it is below 0.5 up to 64 photons, below 2 at 256, 8 to 100 on clean pictures. Where it is low,
or the noise is not far below the contrast that the census asks for, images are denoised first.

Both take what the quietest parts of the image show for noise if it is correlated between pixels. A small or a textured
picture may have no part without texture, and the more light there is, the more its texture exceeds the noise. It is
told from noise by size (:func:`measure_correlation`): white noise stays white when pixels are averaged, and noise that
is correlated between neighbors shows at full size already, but texture has most of its energy in larger structure.

Of noise alone there would be an answer too, and a sure one where it happens to be smooth: costs count in units of their
own spread, however small that is. So whether a pair shows anything is asked first (:func:`detect_structure`). It does
if it has more energy in a coarse band than it would have if it were white, or if what is fine agrees between the views
at any one disparity, as in a stereogram of random dots, which is white.

A margin means something if there are rivals. Where few candidates are asked for, others around them are searched too
(:func:`widen_search`), and what lies there is not an answer (:func:`return_to_range`).

Windows, penalties and the reach of the score are made for images in which a pixel alone says nothing; above a ratio
``q`` of 1 it says something: lengths then fall with ``q^(1/2)``, as those of a mean that leaves the same noise do, and
penalties with ``q^(3/4)``.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from scotopic.arrays import Array
from scotopic.backends.protocol import Backend
from scotopic.settings import LARGEST_PENALTY, EvidenceMatchingSettings, JunctionSettings
from scotopic.stages.channels import (
    Pair,
    band,
    band_kernel,
    both,
    energy,
    high_pass,
    measure_excess,
    principal_axes,
)

MIN_WINDOW = 0.7  #: windows of less than this are those of single pixels
GUESS = 0.1  #: the largest confidence of what may be mere chance
FEWEST_CANDIDATES = 32  #: px of disparity; among fewer the margin of a winner says little
# Standard deviations by which a pair exceeds what noise does. In 7300 pairs of noise of 0.05 to 500 photons bands
# exceeded it by 6.6 at most, and once by 8.0, of sparse single photons; agreement by 4.3. Rendered rooms of 160 x 120
# px are 10 to 12 above it at one photon and a read noise of 2, where next to nothing is matched, and 26 to 32 at two.
_CLEARLY = 8.0
# From full to half size the excess over white noise grows by 1.3 to 2.7 if it is noise (demosaiced, compressed, or a
# real night) and by 5 if a blur of 2 px made it; by 7 to 40 if it is texture (crops of Middlebury scenes).
_MOST_GROWTH = 5.0
# Ratio of the finest band up to which texture is not taken for noise: far above that from which single pixels count.
_CLEAR = 10.0
# How many times the contrast of the census correlated noise may be, texture included. Pictures taken in good light have
# up to 1.0 times that, the same scenes through a color mosaic at 100 photons 2.3 times and more (tuning half).
_MOST_CORRELATED = 1.5


class SnrEstimate(NamedTuple):
    """Two signal-to-noise ratios of a pair, and what follows from them."""

    image_snr: float  #: of the images at half size
    band_snr: float  #: of the finest band at full size
    has_detail: bool  #: enough for fine evidence
    has_clear_pixels: bool  #: enough to do without denoising
    has_correlated_noise: bool = False  #: between pixels, by demosaicing or compression
    has_structure: bool = True  #: anything but noise

    @property
    def leaves_correlated_noise(self) -> bool:
        """Whether images are denoised, and what is left of their noise is correlated between pixels."""
        return self.has_correlated_noise and not self.has_clear_pixels


def estimate_snr(
    backend: Backend[Array], images: Sequence[Array], variance: float, settings: EvidenceMatchingSettings
) -> SnrEstimate:
    """Return the signal-to-noise ratios of two images; ``variance`` is that of their noise."""
    left, right = images
    pair, quietest = Pair(left, right, left, right, variance), adapt_to_quietest(settings)
    half, small = shrink_pair(backend, pair, settings, max(2, _smallest_size(left.shape[:2], settings)))
    has_structure = detect_structure(backend, half, small)
    half_excess = measure_excess(backend, half, quietest)
    excess = measure_correlation(backend, pair, half_excess, quietest)
    is_correlated = excess > 1
    if is_correlated:
        half = replace(half, variance=half.variance * half_excess)
    snr = measure_snr(backend, half, small)
    band_snr = measure_band_snr(backend, left, variance, settings, is_correlated)
    # A scene of high contrast may have a high ratio and yet so much noise that it would set the scale of the census.
    # Part of the excess over white noise may be texture, which the quietest places have too.
    limit = settings.fine.census_contrast * (_MOST_CORRELATED if is_correlated else 1.0)
    is_quiet = settings.fine.census_noise * (variance * excess) ** 0.5 <= limit
    has_clear_pixels = is_quiet and band_snr > settings.resolution.full_size_snr
    return SnrEstimate(snr, band_snr, snr > settings.fine.fine_snr, has_clear_pixels, is_correlated, has_structure)


def detect_structure(backend: Backend[Array], pair: Pair[Array], settings: EvidenceMatchingSettings) -> bool:
    """Return whether a pair shows anything but white noise, whatever the variance of its noise is taken to be.

    The energy of a band of white noise is that of its kernel times a chi-square variable over its degrees of freedom,
    one for each of the band's independent samples; the cube root of that is about normal (Wilson and Hilferty, 1931).
    Two views of noise do not correlate, but for the inverse root of the number of pixels.
    """
    if measure_snr(backend, pair, settings) > 1:
        return True
    views, channels = both(backend, pair.left, pair.right), settings.channels
    fine = high_pass(backend, views, channels.cross_highpass)
    variances, axes = principal_axes(backend, fine)
    white = float(variances.mean())
    if white <= 0:
        return False
    for octave in range(channels.scales):
        scale = channels.finest_scale * 2**octave
        kernel_energy, area = band_kernel(scale, channels.band_ratio)
        strongest = float(principal_axes(backend, band(backend, views, scale, channels.band_ratio))[0][-1])
        samples = math.prod(views.shape[:3]) / area
        if (strongest / (white * kernel_energy)) ** (1 / 3) > 1 + _CLEARLY * (2 / (9 * samples)) ** 0.5:
            return True
    left, right = backend.mix_channels(fine, axes)[..., -1]
    return any(_agree(backend, left, right, disparity) for disparity in settings.matching.disparities)


def _agree(backend: Backend[Array], left: Array, right: Array, disparity: int) -> bool:
    """Return whether two views, moved by one disparity, correlate."""
    xp, width = backend.xp, left.shape[1]
    one = left[:, max(disparity, 0) : max(width + min(disparity, 0), 0)]
    other = right[:, max(-disparity, 0) : max(width - max(disparity, 0), 0)]
    common, power, other_power = (float(xp.sum(each)) for each in (one * other, one * one, other * other))
    return common > _CLEARLY * math.sqrt(power * other_power / max(math.prod(one.shape), 1))


def measure_correlation(
    backend: Backend[Array], pair: Pair[Array], half_excess: float, settings: EvidenceMatchingSettings
) -> float:
    """Return how much the noise of a pair exceeds white noise if it is correlated between pixels, and 1 if it is not.

    ``half_excess`` is that at half size.
    """
    if half_excess <= settings.noise.correlated_factor:
        return 1.0
    excess = measure_excess(backend, pair, settings)
    is_correlated = excess > settings.noise.correlated_factor and half_excess < _MOST_GROWTH * excess
    return excess if is_correlated else 1.0


def choose_size(shape: tuple[int, ...], snr: SnrEstimate, settings: EvidenceMatchingSettings) -> int:
    """Return how many pixels along a side become one: 2 in the dark, 1 in light that shows detail, more if large."""
    smallest = _smallest_size(shape, settings)
    return smallest if snr.has_detail else max(smallest, 2)


def _smallest_size(shape: tuple[int, ...], settings: EvidenceMatchingSettings) -> int:
    """Return how many pixels along a side have to become one for the volume to be small enough."""
    cells, factor = shape[0] * shape[1] * len(settings.matching.disparities), 1
    while cells > settings.resolution.max_cells * factor**3 and factor < min(shape):
        factor *= 2
    return factor


def measure_band_snr(
    backend: Backend[Array], image: Array, variance: float, settings: EvidenceMatchingSettings, is_correlated: bool
) -> float:
    """Return the median over an image of its finest band's signal-to-noise ratio; ``variance`` is that of its noise."""
    scale = settings.channels.finest_scale
    fine = band(backend, image[None], scale, 2.0)[0]
    noise = variance * band_kernel(scale, 2.0)[0]
    local = backend.blur(energy(backend, fine) / fine.shape[2], 6 * scale)
    middle, quiet = (backend.quantile(local, q) for q in (0.5, settings.resolution.noise_floor_quantile))
    snr = max(middle / noise - 1, 0.0)
    if quiet <= settings.noise.correlated_factor * noise:
        return snr
    above_quiet = max(middle / quiet - 1, 0.0)
    return above_quiet if is_correlated else max(above_quiet, min(snr, _CLEAR))


def shrink_pair(
    backend: Backend[Array], pair: Pair[Array], settings: EvidenceMatchingSettings, factor: int
) -> tuple[Pair[Array], EvidenceMatchingSettings]:
    """Return the pair with ``factor x factor`` pixels averaged, and the settings with the disparity range to match."""
    images, variance = [pair.left, pair.right, pair.left_colors, pair.right_colors], pair.variance
    disparities = settings.matching.disparities
    first, last = disparities[0], disparities[-1]
    while factor > 1:
        images, variance, factor = [backend.halve(image) for image in images], variance / 4, factor // 2
        first, last = first // 2, last // 2
    matching = replace(settings.matching, min_disparity=first, max_disparity=last + 1)
    left, right, left_colors, right_colors = images
    return Pair(left, right, left_colors, right_colors, variance), replace(settings, matching=matching)


def shrink_maps(backend: Backend[Array], maps: Sequence[Array], factor: int) -> list[Array]:
    """Return maps with ``factor x factor`` pixels averaged."""
    shrunk = list(maps)
    while factor > 1:
        shrunk, factor = [backend.halve(each) for each in shrunk], factor // 2
    return shrunk


def enlarge(backend: Backend[Array], values: Array, factor: int, shape: tuple[int, int]) -> Array:
    """Return a map of averaged pixels at full size, linearly between their centers."""
    if factor == 1:
        return values
    return backend.contiguous(backend.resize_linear(values, factor)[: shape[0], : shape[1]])


def widen_search(settings: EvidenceMatchingSettings, width: int) -> EvidenceMatchingSettings:
    """Return the settings with enough candidates for a margin to mean something, as far as the image's width allows.

    Those that are added lie around the range, but not beyond infinity if the range does not.
    """
    asked = settings.matching.disparities
    first, lacking = asked.start, FEWEST_CANDIDATES - len(asked)
    if lacking <= 0:
        return settings
    lowest = 0 if first >= 0 else -width
    first = max(min(first - lacking // 2, width - FEWEST_CANDIDATES), lowest)
    last = min(first + FEWEST_CANDIDATES, width)
    return replace(settings, matching=replace(settings.matching, min_disparity=first, max_disparity=last))


def return_to_range(
    backend: Backend[Array], maps: Sequence[Array], confidence: Array, asked: range, searched: range
) -> tuple[Array, Array, Array]:
    """Return both views' disparities within the range that was asked for, and the confidence of the left ones.

    Where a candidate beyond the range has won, the disparity is a guess.
    """
    xp = backend.xp
    left, right = (xp.clip(each, min=asked[0], max=asked[-1]) for each in maps)
    if asked != searched:
        is_beyond = xp.abs(maps[0] - left) > 1
        confidence = xp.where(is_beyond, xp.clip(confidence, max=GUESS), confidence)
    return left, right, confidence


def measure_snr(backend: Backend[Array], pair: Pair[Array], settings: EvidenceMatchingSettings) -> float:
    """Return the signal-to-noise ratio of a pair's images, along the axis of their colors that has most signal."""
    fine = high_pass(backend, both(backend, pair.left, pair.right), settings.channels.cross_highpass)
    variances, _ = principal_axes(backend, fine)
    snr = max(float(variances[-1]) / pair.variance - 1, 0.0)
    return min(snr, settings.resolution.max_snr)


def adapt_to_quietest(settings: EvidenceMatchingSettings) -> EvidenceMatchingSettings:
    """Return the settings with which noise is told from texture: textured pictures have few quiet places."""
    quietest = replace(settings.noise, quiet_quantile=settings.resolution.noise_floor_quantile)
    return replace(settings, noise=quietest)


def adapt_to_fine(settings: EvidenceMatchingSettings, snr: SnrEstimate) -> EvidenceMatchingSettings:
    """Return the settings with the planes and penalties that suit fine evidence.

    Where noise is correlated between pixels, neighbors that agree say less, so a change of disparity costs more. The
    refinement between candidates is for the images themselves: in denoised ones it would follow the noise that is left.
    """
    fine, surfaces, p1 = settings.fine, settings.surfaces, settings.matching.p1
    if not snr.has_clear_pixels:
        surfaces = replace(surfaces, subpixel_reach=0.0)
    if snr.leaves_correlated_noise:
        p1 = min(round(p1 * fine.correlated_p1), LARGEST_PENALTY)
    return replace(
        settings,
        surfaces=replace(surfaces, plane_tau=fine.fine_tau),
        matching=replace(settings.matching, p1=p1, p2=fine.fine_p2),
    )


def adapt_patches(
    settings: EvidenceMatchingSettings, variance: float, image_snr: float, *, is_correlated: bool = False
) -> JunctionSettings:
    """Return the settings of the junctions with patches that suit this noise, in whole binned pixels.

    Sides that fall with the standard deviation leave the same noise in the mean of a patch. But where there is next to
    nothing to see, small patches would see it in the noise. So they would where the noise is correlated between pixels,
    whose mean leaves more of it. Patches overlap as before.
    """
    junctions, description = settings.junctions, settings.description
    has_rule = description.full_patch_noise and not is_correlated
    by_noise = variance**0.5 / description.full_patch_noise if has_rule else 1.0
    by_snr = (description.full_patch_snr / image_snr) ** 0.5 if image_snr else 1.0
    share = min(max(by_noise, by_snr, description.smallest_patch), 1.0)
    binning = junctions.binning
    size = max(round(share * junctions.patch_size / binning), min(2, junctions.patch_size // binning)) * binning
    stride = max(round(junctions.stride * size / (junctions.patch_size * binning)), 1) * binning
    return replace(junctions, patch_size=size, stride=stride)


def relax_for_snr(settings: EvidenceMatchingSettings, snr: float) -> EvidenceMatchingSettings:
    """Return the settings with the windows and penalties that suit this signal-to-noise ratio."""
    if snr <= 1:
        return settings

    def shorten(length: float) -> float:
        return max(float(length * snr**-0.5), MIN_WINDOW)

    channels, matching, score = settings.channels, settings.matching, settings.score
    relief = snr**-0.75
    return replace(
        settings,
        channels=replace(
            channels,
            band_window=shorten(channels.band_window),
            junction_window=shorten(channels.junction_window),
            cross_window=shorten(channels.cross_window),
        ),
        score=replace(score, confidence_reach=shorten(score.confidence_reach)),
        matching=replace(matching, p1=round(matching.p1 * relief), p2=round(matching.p2 * relief)),
    )
