"""At which size a pair is matched, and how windows and penalties adapt to its signal-to-noise ratio.

In the dark four averaged pixels say as much as the four of them, so images are matched at half size there. Two ratios
of signal to noise are measured. That of the finest band, its median over the left image, decides on the size
(:func:`choose_size`). That of the images themselves, along the axis of their colors that has most signal, is about 0.1
at two photons, 2 to 3 at 32, 4 to 15 on clean pictures (:func:`measure_snr`). Windows, penalties and the reach of the
score are made for images in which a pixel alone says nothing; above a ratio ``q`` of 1 it says something: lengths then
fall with ``q^(1/2)``, as those of a mean that leaves the same noise do, and penalties with ``q^(3/4)``.
"""

from dataclasses import replace

from scotopic.arrays import Array
from scotopic.backends.protocol import Backend
from scotopic.settings import EvidenceMatchingSettings
from scotopic.stages.channels import Pair, band, band_kernel, energy, high_pass, principal_axes

MIN_WINDOW = 0.7  #: windows of less than this are those of single pixels


def choose_size(backend: Backend[Array], pair: Pair[Array], settings: EvidenceMatchingSettings) -> int:
    """Return how many pixels along a side become one: 1 in good light, 2 in the dark, more in a large image."""
    factor = 1 if measure_band_snr(backend, pair, settings) > settings.resolution.full_size_snr else 2
    height, width = pair.left.shape[:2]
    cells = height * width * len(settings.matching.disparities)
    while cells > settings.resolution.max_cells * factor**3 and factor < min(height, width):
        factor *= 2
    return factor


def measure_band_snr(backend: Backend[Array], pair: Pair[Array], settings: EvidenceMatchingSettings) -> float:
    """Return the median over the left image of the finest band's signal-to-noise ratio."""
    scale = settings.channels.finest_scale
    fine = band(backend, pair.left, scale, 2.0)
    noise = pair.variance * band_kernel(scale, 2.0)[0]
    local = backend.blur(energy(backend, fine) / fine.shape[2], 6 * scale)
    quiet = backend.quantile(local, settings.noise.quiet_quantile)
    if quiet > settings.noise.correlated_factor * noise:
        noise = quiet
    return max(backend.quantile(local, 0.5) / noise - 1, 0.0)


def shrink_pair(
    backend: Backend[Array], pair: Pair[Array], settings: EvidenceMatchingSettings, factor: int
) -> tuple[Pair[Array], EvidenceMatchingSettings]:
    """Return the pair with ``factor x factor`` pixels averaged, and the settings with the disparity range to match."""
    images, variance = [pair.left, pair.right, pair.left_colors, pair.right_colors], pair.variance
    disparities = settings.matching.disparities
    first, last = disparities[0], disparities[-1]
    while factor > 1:
        images, variance, factor = [halve(backend, image) for image in images], variance / 4, factor // 2
        first, last = first // 2, last // 2
    matching = replace(settings.matching, min_disparity=first, max_disparity=last + 1)
    left, right, left_colors, right_colors = images
    return Pair(left, right, left_colors, right_colors, variance), replace(settings, matching=matching)


def halve(backend: Backend[Array], image: Array) -> Array:
    """Return the means of 2 x 2 pixels, an odd edge repeated."""
    for axis, length in enumerate(image.shape[:2]):
        if length % 2:
            repeated = backend.xp.clip(backend.arange(length + 1), max=length - 1)
            image = backend.xp.take(image, repeated, axis=axis)
    total = image[::2, ::2] + image[1::2, ::2] + image[::2, 1::2] + image[1::2, 1::2]
    return backend.contiguous(total * 0.25)


def enlarge(backend: Backend[Array], values: Array, factor: int, shape: tuple[int, int]) -> Array:
    """Return a map of averaged pixels at full size, linearly between their centers."""
    if factor == 1:
        return values
    return backend.contiguous(backend.resize_linear(values, factor)[: shape[0], : shape[1]])


def measure_snr(backend: Backend[Array], pair: Pair[Array], settings: EvidenceMatchingSettings) -> float:
    """Return the signal-to-noise ratio of a pair's images, along the axis of their colors that has most signal."""
    left, right = (high_pass(backend, each, settings.channels.cross_highpass) for each in (pair.left, pair.right))
    variances, _ = principal_axes(backend, left, right)
    snr = max(float(variances[-1]) / pair.variance - 1, 0.0)
    return min(snr, settings.resolution.max_snr)


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
