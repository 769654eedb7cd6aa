"""How clear the images are, and how much less a pixel then needs its neighbors.

Clarity is signal over noise of the images themselves: about 0.1 at two photons, 2 to 3 at 32, 4 to 15 on clean
pictures. Windows, penalties and the reach of the score are made for images in which a pixel alone says nothing. Above a
clarity ``q`` of 1 it says something: lengths fall with ``q^(1/2)``, as those of a mean that leaves the same noise do,
and penalties with ``q^(3/4)``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from scotopic.evidence.channels import Pair, axes_of
from scotopic.settings import Settings

#: Windows of less than this are those of single pixels.
SINGLE = 0.7


def clarity(engine: Any, pair: Pair, settings: Settings) -> float:
    """Return signal over noise of a pair's images, along the axis of their colors that has most of it."""
    assert settings.evidence is not None
    fine = (engine.detail(each, settings.evidence.cross_high) for each in (pair.left, pair.right))
    spread, _ = axes_of(engine, *fine)
    return min(max(float(spread[-1]) / pair.variance - 1, 0.0), settings.evidence.largest_clarity)


def eased(settings: Settings, clear: float) -> Settings:
    """Return the settings that suit images as clear as these."""
    assert settings.evidence is not None
    if clear <= 1:
        return settings
    evidence, matching = settings.evidence, settings.matching
    lengths = ("band_window", "junction_window", "cross_window", "confidence_reach")
    shorter = {name: max(getattr(evidence, name) * clear**-0.5, SINGLE) for name in lengths}
    ease = clear**-0.75
    return replace(
        settings,
        evidence=replace(evidence, **shorter),
        matching=replace(matching, p1=round(matching.p1 * ease), p2=round(matching.p2 * ease)),
    )
