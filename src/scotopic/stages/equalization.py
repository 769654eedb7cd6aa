"""Views of unequal light: one is exposed longer, or lamps shine on the scene from another side.

Channels are high-passed, and the census is blind to gain and offset, but colors can only be compared in the same light,
and a lamp's gradient over a wall is structure that is not at the wall's disparity. How the light differs shows
in how bright the views are, without any match: both see nearly the same surfaces, so the deciles of their blurred
brightness are nearly the same. Where they are not, gain and offset of the right view are fitted to the deciles, channel
by channel. Where that leaves a misfit, the light differs by region. Then both views lose what is wider than a few
pixels, and with it the light.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scotopic.arrays import Array
from scotopic.backends.protocol import Backend
from scotopic.stages.channels import both, high_pass

REACH = 8.0  #: px at full size, blur of the brightness; and what is left of views whose light differs by region
DECILES = (0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95)
EVERY = 4  #: px; the blurred brightness of others tells nothing new
# In standard deviations of the brightness. Over real scenes from two photons to clean the misfit of gain and offset is
# 0.01 to 0.05, with another exposure too, and 0.13 to 0.14 where a lamp was moved.
REGIONAL = 0.09
_TINY = 1e-6


class LightDifference(NamedTuple):
    """How the light of the right view differs from that of the left."""

    gains: NDArray[np.float64]  #: of each channel: what the right view's values are multiplied by to be like the left's
    offsets: NDArray[np.float64]  #: ... and what is added to them
    misfit: float  #: mean difference that is left of the deciles of brightness, in standard deviations

    @property
    def is_regional(self) -> bool:
        """Whether one gain and offset do not make the views alike."""
        return self.misfit > REGIONAL


def compare_light(backend: Backend[Array], left: Array, right: Array, factor: int = 1) -> LightDifference:
    """Compare the light of two views ``(H, W, C)`` in which ``factor x factor`` pixels are one."""
    blurred = backend.blur_views(both(backend, left, right), REACH / factor)[:, ::EVERY, ::EVERY]
    gray = fit_deciles(*_find_deciles(backend, backend.xp.mean(blurred, axis=3)))
    channels = [fit_deciles(*_find_deciles(backend, blurred[..., c])) for c in range(left.shape[2])]
    gains, offsets, _ = (np.array(each) for each in zip(*channels, strict=True))
    return LightDifference(gains, offsets, gray[2])


def equalize_views(backend: Backend[Array], left: Array, right: Array, factor: int = 1) -> tuple[Array, Array]:
    """Return two views in the same light; ``factor x factor`` pixels are one."""
    light = compare_light(backend, left, right, factor)
    if light.is_regional:
        fine = high_pass(backend, both(backend, left, right), REACH / factor)
        return fine[0], fine[1]
    gains, offsets = (backend.asarray(each.astype(np.float32)) for each in (light.gains, light.offsets))
    return left, right * gains + offsets


def fit_deciles(left: NDArray[np.float64], right: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return the gain and the offset that make the right deciles most like the left ones, and the misfit."""
    spread = float(left.std())
    if spread < _TINY or float(right.std()) < _TINY:
        return 1.0, float(left.mean() - right.mean()), 0.0
    design = np.stack([right, np.ones_like(right)], axis=1)
    (gain, offset), *_ = np.linalg.lstsq(design, left, rcond=None)
    return float(gain), float(offset), float(np.abs(left - design @ (gain, offset)).mean()) / spread


def _find_deciles(backend: Backend[Array], views: Array) -> list[NDArray[np.float64]]:
    return [np.array([backend.quantile(view, q) for q in DECILES]) for view in (views[0], views[1])]
