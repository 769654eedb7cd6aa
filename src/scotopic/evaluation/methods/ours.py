"""The method of this package: its presets, and its ablations.

The paper's ablations change the matching only, and nearly all the time goes into the junctions. So those of the last
pair are kept, and a method that reuses them counts the seconds that they took as its own.
"""

import hashlib
import time
from functools import partial
from typing import Any

import numpy as np

from scotopic.api import find_pair_levels, fit_junctions, match
from scotopic.errors import SettingsError
from scotopic.evaluation.method import Map, Predict, Prediction
from scotopic.evaluation.scene import Scene
from scotopic.inputs import check_pair, is_constant
from scotopic.io import as_image
from scotopic.settings import PRESETS, JunctionMatchingSettings, JunctionSettings, make_settings
from scotopic.stages.junctions.fit import Junctions

#: What each ablation of the paper changes in a preset that matches patches.
ABLATIONS: dict[str, dict[str, Any]] = {
    "fixed-p2": {"adaptive_p2": False},
    "non-symmetric": {"symmetric": False},
    "mask-right": {"mask_right": True},
}
#: What each ablation of the evidence changes in a preset that matches pixels.
EVIDENCE_ABLATIONS: dict[str, dict[str, Any]] = {
    "no-cross": {"cross_weight": 0.0},
    "no-junctions": {"junction_weight": 0.0, "cross_weight": 0.0},
    "one-patch-size": {"full_patch_noise": 0.0},
    "global-units": {"local_units": False},
    "no-colors": {"color_share": 0.0, "color_snr": 1e9},
    "no-inner-margin": {"inner_share": 0.0},
    "no-planes": {"plane_rounds": 0},
    "no-groups": {"group_rounds": 0},
    "no-surfaces": {"surface_passes": 0},
}

Fields = tuple[Junctions[np.ndarray], Junctions[np.ndarray]]
_last: dict[str, tuple[Fields, float]] = {}  # at most one pair: its key, its junctions and the seconds they took


def ablations_of(preset: str) -> dict[str, dict[str, Any]]:
    """Return the ablations that a preset has, with what each changes."""
    return ABLATIONS if isinstance(PRESETS[preset], JunctionMatchingSettings) else EVIDENCE_ABLATIONS


def method_of(text: str) -> Predict:
    """Return the method of ``PRESET`` or ``PRESET+ABLATION...``, or raise :class:`SettingsError`."""
    preset, *ablations = text.split("+")
    if preset not in PRESETS:
        raise SettingsError(
            f"Method 'scotopic:{text}' has no preset {preset!r}. Presets are {', '.join(PRESETS)}, ablations are added "
            "as in scotopic:paper+fixed-p2."
        )
    known = ablations_of(preset)
    overrides: dict[str, Any] = {}
    for ablation in ablations:
        if ablation not in known or ablations.count(ablation) > 1:
            raise SettingsError(
                f"Method 'scotopic:{text}' has the ablation {ablation!r}. Preset {preset!r} takes each of "
                f"{', '.join(known)} at most once."
            )
        overrides |= known[ablation]
    return partial(predict_ours, preset, overrides)


def settings_of(predict: Predict) -> str:
    """Return every setting of a method that :func:`method_of` has made, as text; "" for any other."""
    if not (isinstance(predict, partial) and predict.func is predict_ours):
        return ""
    preset, overrides = predict.args
    return repr(make_settings(preset, **overrides))


def predict_ours(
    preset: str, overrides: dict[str, Any], left: Map, right: Map, scene: Scene, max_disparity: int
) -> Prediction:
    """Match a noisy pair.

    ``dense`` is the disparity of every pixel before masking. ``confidence`` is that of :class:`scotopic.Match`, plus 1
    where the pixel is kept, so that the curve passes through the method's own mask.
    """
    images = as_image(left, "left"), as_image(right, "right")
    levels = find_pair_levels(images)  # here, since match does not look for those of junctions that it is given
    images = levels.apply(images[0]), levels.apply(images[1])
    settings = PRESETS[preset].junctions
    check_pair(*images, settings.patch_size)
    # best fits to images that it has transformed
    fits_once = isinstance(PRESETS[preset], JunctionMatchingSettings)
    options = {**overrides, "max_disparity": min(max_disparity, images[0].shape[1])}  # a match cannot leave the image
    seconds = 0.0
    if fits_once and not any(is_constant(image) for image in images):
        options["junctions"], seconds = _fit_or_reuse(images, settings)
    start = time.perf_counter()
    found = match(*images, preset, check=False, **options)
    seconds += time.perf_counter() - start
    return Prediction(found.disparity, found.disparity_all, found.confidence + found.mask, seconds)


def _fit_or_reuse(images: tuple[Map, Map], settings: JunctionSettings) -> tuple[Fields, float]:
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
