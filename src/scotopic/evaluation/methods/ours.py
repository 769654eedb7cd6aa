"""The method of this package, its presets, the ablations of the paper, and those of ``best``.

The paper's ablations change the matching only, and nearly all the time goes into the junctions. So those of the last
pair are kept, and a row that finds them there counts the seconds that they took as its own.
"""

from __future__ import annotations

import hashlib
import time
from typing import Any

from scotopic.api import match
from scotopic.errors import SettingsError
from scotopic.evaluation.method import Map, Prediction
from scotopic.evaluation.scene import Scene
from scotopic.inputs import check_pair, is_constant
from scotopic.io import as_image
from scotopic.settings import PRESETS, JunctionSettings
from scotopic.stages.junctions.fit import Junctions, fit_junctions

#: What each ablation of the paper changes in a preset that matches patches.
ABLATIONS: dict[str, dict[str, Any]] = {
    "fixed-p2": {"adaptive_p2": False},
    "non-symmetric": {"symmetric": False},
    "mask-right": {"mask_right": True},
}
#: What each ablation of the evidence changes in a preset that gathers it.
EVIDENCE_ABLATIONS: dict[str, dict[str, Any]] = {
    "no-cross": {"cross_weight": 0.0},
    "no-junctions": {"junction_weight": 0.0, "cross_weight": 0.0},
    "one-patch-size": {"fits": 1},
    "global-units": {"local_units": False},
    "no-planes": {"plane_rounds": 0},
    "no-groups": {"group_rounds": 0},
    "no-surfaces": {"surface_passes": 0},
}

Fields = tuple[Junctions, Junctions]
_last: dict[str, tuple[Fields, float]] = {}  # at most one pair: its key, its junctions and the seconds they took


class Ours:
    """Scotopic with a preset, and with ablations if any.

    Parameters
    ----------
    preset
        A name in :data:`scotopic.PRESETS`.
    ablations
        Names in :data:`ABLATIONS`; for ``best`` in :data:`EVIDENCE_ABLATIONS`.

    Notes
    -----
    ``dense`` is the disparity of every pixel before masking. ``confidence`` is that of :class:`scotopic.Match`, plus 1
    where the pixel is kept, so that the curve passes through the method's own mask.
    """

    def __init__(self, preset: str, ablations: tuple[str, ...] = ()) -> None:
        if preset not in PRESETS:
            raise SettingsError(
                f"method 'scotopic:{preset}': found preset {preset!r}, expected one of {', '.join(PRESETS)}; choose "
                "one of these"
            )
        self.preset = preset
        self.name = "+".join((f"scotopic-{preset}", *ablations))
        self.overrides: dict[str, Any] = {}
        known = ablations_of(preset)
        for ablation in ablations:
            if ablation not in known or ablations.count(ablation) > 1:
                raise SettingsError(
                    f"method 'scotopic:{'+'.join((preset, *ablations))}': found ablation {ablation!r}, expected each "
                    f"of {', '.join(known)} at most once; change it or leave it out"
                )
            self.overrides |= known[ablation]

    def __call__(self, left: Map, right: Map, scene: Scene, max_disparity: int) -> Prediction:
        """Match a noisy pair."""
        images = as_image(left, "left"), as_image(right, "right")
        settings = PRESETS[self.preset].junctions
        check_pair(*images, settings.patch_size)
        fits_once = PRESETS[self.preset].evidence is None  # best fits several times, to images that it has transformed
        options: dict[str, Any] = {"preset": self.preset, **self.overrides}
        options["max_disparity"] = min(max_disparity, images[0].shape[1])  # a match cannot leave the image
        seconds = 0.0
        if fits_once and not any(is_constant(image) for image in images):
            options["junctions"], seconds = _fields(images, settings)
        start = time.perf_counter()
        found = match(*images, **options)
        seconds += time.perf_counter() - start
        # What the method keeps is what it trusts most: its mask first, then the rest, each by confidence.
        return Prediction(found.disparity, found.disparity_all, found.confidence + found.mask, seconds)


def ablations_of(preset: str) -> dict[str, dict[str, Any]]:
    """Return the ablations that a preset has."""
    return ABLATIONS if PRESETS[preset].evidence is None else EVIDENCE_ABLATIONS


def _fields(images: tuple[Map, Map], settings: JunctionSettings) -> tuple[Fields, float]:
    """Return the junctions of a pair, fitted unless they are the last ones, and the seconds that the fit took."""
    digest = hashlib.sha256(repr((settings, images[0].shape)).encode())
    for image in images:
        digest.update(image.tobytes())
    key = digest.hexdigest()
    kept = _last.get(key)
    if kept is None:
        start = time.perf_counter()
        fields = fit_junctions(images[0], settings, name="left"), fit_junctions(images[1], settings, name="right")
        kept = fields, time.perf_counter() - start
        _last.clear()
        _last[key] = kept
    return kept
