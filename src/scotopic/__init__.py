"""Stereo depth from photon-starved image pairs, without learning.

>>> import scotopic
>>> result = scotopic.match("left.png", "right.png", preset="fast")  # doctest: +SKIP
>>> result.disparity, result.confidence, result.reason  # doctest: +SKIP
"""

from scotopic.demo.scene import render_scene
from scotopic.errors import ScotopicError
from scotopic.junctions import Junctions, fit_junctions
from scotopic.match import match  # from here on scotopic.match is the function, not the module of the same name
from scotopic.matching import Reason
from scotopic.result import Match
from scotopic.sensor import simulate, simulate_pair
from scotopic.settings import PRESETS, Settings, make_settings
from scotopic.stream import Matcher

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
    "render_scene",
    "simulate",
    "simulate_pair",
]
