"""Stereo depth from photon-starved image pairs, without learning.

>>> import scotopic
>>> result = scotopic.match("left.png", "right.png")  # doctest: +SKIP
>>> result.disparity, result.confidence, result.reason  # doctest: +SKIP
"""

# ruff: noqa: E402
from scotopic.stopping import end_at_once_if_interrupted

end_at_once_if_interrupted()  # before the rest is imported, which takes a while

import importlib
import warnings
from typing import Any

from scotopic.api import fit_junctions, match
from scotopic.demo import render_scene
from scotopic.errors import ScotopicError
from scotopic.result import Match, Reason
from scotopic.sensor import simulate, simulate_pair
from scotopic.settings import PRESETS, Settings, make_settings
from scotopic.stages.junctions.fit import Junctions
from scotopic.streams import Matcher, match_burst

__version__ = "0.1.0"

__all__ = [
    "PRESETS",
    "Junctions",
    "Match",
    "Matcher",
    "Reason",
    "ScotopicError",
    "Settings",
    "fit_junctions",
    "make_settings",
    "match",
    "match_burst",
    "render_scene",
    "simulate",
    "simulate_pair",
]


#: Modules for users that are imported when they are first asked for: ``scotopic.cv.StereoScotopic``.
_LATER = ("cv", "evaluation", "interop")


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return importlib.import_module(f"scotopic.{name}")
    if name == "resolve":
        warnings.warn("scotopic.resolve is now called make_settings.", DeprecationWarning, stacklevel=2)
        return make_settings
    raise AttributeError(f"module 'scotopic' has no attribute {name!r}")
