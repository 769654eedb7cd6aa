"""Light that differs by region: lamps shine on the scene from another side when the other view is taken.

One gain and offset do not make such views alike (:mod:`~scotopic.stages.equalization`), and a lamp's gradient over a
wall is structure that is not at the wall's disparity. But light is wide and structure is fine. So a first match, small
and by fine structure alone, says which pixels belong together. What differs between them, averaged around each pixel
with the weights ``w`` of the match, is how the light differs::

    light(x) = G(reach) (w (I(x) - I'(x - d))) / (G(reach) w + w0)

If it varies over the picture by a seventh of what brightness varies, it is taken off the left view. If not, the views
stay as they are: what is left then comes from wrong matches, and would confirm them.

Colors, which count where images are denoised, need the light taken off closely. The census of clear images compares
neighbors; there only what is wide is taken off, for in plain parts a close fit makes any disparity look right.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from scotopic.arrays import Array
from scotopic.backends.protocol import Backend
from scotopic.settings import EvidenceMatchingSettings
from scotopic.stages.channels import both, high_pass
from scotopic.stages.color_costs import build_color_volume
from scotopic.stages.confidence import weigh_margin
from scotopic.stages.consistency import land, lr_difference, sample_right
from scotopic.stages.resolution import enlarge, shrink_maps
from scotopic.stages.sgm import solve_pixels, uniform_penalties

# Lengths are in pixels at full size.
SIZE = 4  #: so many pixels along a side are one in the first match
STRUCTURE = 16.0  #: what is wider may be light
REACH = 32.0  #: over which light changes little
CLOSE_REACH = 12.0  #: where colors count
# In standard deviations of brightness. On the tuning half light varies by 0.015 to 0.064 where it is the same, with
# another exposure too, and by 0.15 to 0.46 where a lamp was added to one view; in PianoL, whose lamp was moved, by 0.34
# to 0.41. At one frame of two photons it is 0.050 to 0.138 and 0.18 to 0.54. (Measured with structure of 8 px.)
REGIONAL = 0.14
LEAST_WEIGHT = 0.02  #: w0, in units of margins
_TINY = 1e-12


def remove_local_light(
    backend: Backend[Array],
    left: Array,
    right: Array,
    noise_variance: float,
    settings: EvidenceMatchingSettings,
    factor: int,
    *,
    is_clear: bool = False,
) -> Array:
    """Return the left view in the light of the right one if light differs by region, and as it is if not.

    Parameters
    ----------
    left, right
        Views ``(H, W, C)`` of the same exposure, in which ``factor x factor`` pixels are one.
    noise_variance
        Of the images before they were denoised.
    settings
        With the disparity range at this size.
    is_clear
        Whether the views are clear images, compared by their census alone.
    """
    shrink = max(SIZE // factor, 1)
    small = shrink_maps(backend, (left, right), shrink)
    difference, weights = match_structure(backend, small, noise_variance, settings, shrink, factor)
    light = average_around(backend, difference, weights, REACH / (shrink * factor))
    if measure_spread(backend, light, weights, small[0]) < REGIONAL:
        return left
    if not is_clear:
        light = average_around(backend, difference, weights, CLOSE_REACH / (shrink * factor))
    xp, shape = backend.xp, (left.shape[0], left.shape[1])
    channels = [enlarge(backend, backend.contiguous(light[..., c]), shrink, shape) for c in range(left.shape[2])]
    taken: Array = left - xp.stack(channels, axis=2)
    return taken


def match_structure(
    backend: Backend[Array],
    views: Sequence[Array],
    noise_variance: float,
    settings: EvidenceMatchingSettings,
    shrink: int,
    factor: int,
) -> tuple[Array, Array]:
    """Return what differs between the partners of a first match by fine structure, and the weight of each pixel."""
    xp, matching = backend.xp, settings.matching
    first, last = (each // shrink for each in (matching.disparities[0], matching.disparities[-1]))
    settings = replace(settings, matching=replace(matching, min_disparity=first, max_disparity=last + 1))
    fine = high_pass(backend, both(backend, views[0], views[1]), STRUCTURE / (shrink * factor))
    volume = build_color_volume(
        backend, (fine[0], fine[1]), noise_variance, settings.matching.disparities, settings.colors
    )
    penalties = uniform_penalties(backend, views[0], matching.p2)
    left, margin = solve_pixels(backend, volume, settings, penalties, is_left=True)
    right, _ = solve_pixels(backend, volume, settings, penalties, is_left=False)
    apart, landing = lr_difference(backend, left, right), land(backend, left)
    weights = weigh_margin(backend, margin, apart, settings.score) * (apart <= 1)
    partners = [sample_right(backend, views[1][..., c], landing) for c in range(views[1].shape[2])]
    return views[0] - xp.stack(partners, axis=2), weights


def average_around(backend: Backend[Array], values: Array, weights: Array, reach: float) -> Array:
    """Return the weighted mean of the values ``(H, W, C)`` around each pixel, less where there is hardly any weight."""
    total = backend.blur(weights, reach) + LEAST_WEIGHT
    average: Array = backend.blur(values * weights[..., None], reach) / total[..., None]
    return average


def measure_spread(backend: Backend[Array], light: Array, weights: Array, view: Array) -> float:
    """Return the weighted standard deviation of the light, in standard deviations of the view's brightness."""
    xp = backend.xp
    total = xp.sum(weights)
    if float(total) == 0:
        return 0.0
    differing, brightness = xp.mean(light, axis=2), xp.mean(view, axis=2)
    differing = differing - xp.sum(differing * weights) / total
    brightness = brightness - xp.mean(brightness)
    variance = float(xp.sum(differing * differing * weights) / total)
    return math.sqrt(variance / (float(xp.mean(brightness * brightness)) + _TINY))
