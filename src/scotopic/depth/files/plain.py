"""Five numbers, ``fx cx cy baseline doffs``: in one line, or one ``name value`` in each; the baseline in meters.

The baseline may carry its unit (``baseline 120 mm``, or ``mm`` behind the five); else it is in meters, or in what the
caller says.
"""

from __future__ import annotations

import re

from scotopic.depth.calibration import UNITS, Calibration
from scotopic.depth.files.text import TextFile
from scotopic.depth.files.units import meters_in

NAMES = ("fx", "cx", "cy", "baseline", "doffs")
_OPTIONAL = ("fy", "width", "height")
_NAMED = re.compile(r"(?P<name>[a-z]+)(?:\s*[=:]\s*|\s+)(?P<number>[^\s=:]+)(?:\s+(?P<unit>[a-z]+))?", re.ASCII)

_Found = dict[str, tuple[int, str]]  # name -> line, number as written


def read(file: TextFile, unit: str | None) -> Calibration:
    """Read the file."""
    lines = [(number, content.split("#", 1)[0].strip()) for number, content in enumerate(file.lines, 1)]
    lines = [(number, content) for number, content in lines if content]
    if len(lines) == 2 and lines[0][1].split() == list(NAMES):  # a heading over the five
        lines = lines[1:]
    found, own_unit = _in_one_line(file, *lines[0]) if len(lines) == 1 else _by_name(file, lines)
    value = {
        name: float(file.numbers(number, name, [word], 1)[0])
        for name, (number, word) in found.items()
        if name not in ("width", "height")
    }
    sizes = {name: file.whole(found[name][0], name, [found[name][1]]) for name in ("width", "height") if name in found}
    line = found["baseline"][0]
    if own_unit is not None and unit is not None and own_unit != unit:
        raise file.problem(line, f"baseline in {own_unit}", f"{unit} as you said", "leave one of the two out")
    meters, words = meters_in(own_unit or unit, value["baseline"], file, line)
    return Calibration(
        fx=value["fx"],
        fy=value.get("fy", value["fx"]),
        cx=value["cx"],
        cy=value["cy"],
        baseline=value["baseline"] * meters,
        doffs=value["doffs"],
        width=sizes.get("width"),
        height=sizes.get("height"),
        source=f"plain numbers {file.shown}, {words}",
    )


def _in_one_line(file: TextFile, number: int, content: str) -> tuple[_Found, str | None]:
    words = content.split()
    unit = words.pop() if len(words) == 6 and words[5] in UNITS else None
    if len(words) != 5:
        raise file.problem(number, f"{len(words)} words", f"five numbers, {' '.join(NAMES)}", "correct it")
    return {name: (number, word) for name, word in zip(NAMES, words, strict=True)}, unit


def _by_name(file: TextFile, lines: list[tuple[int, str]]) -> tuple[_Found, str | None]:
    found: _Found = {}
    unit = None
    for number, content in lines:
        match = _NAMED.fullmatch(content)
        fits = match and match["name"] in NAMES + _OPTIONAL and match["name"] not in found
        if not match or not fits or (match["unit"] and (match["name"] != "baseline" or match["unit"] not in UNITS)):
            again = " again" if match and match["name"] in found else ""
            raise file.problem(
                number,
                repr(content[:40]) + again,
                f"a name of {', '.join(NAMES + _OPTIONAL)} and a number",
                "correct it",
            )
        found[match["name"]] = (number, match["number"])
        unit = match["unit"] or unit
    for name in NAMES:  # also doffs: a line that was lost must not become 0
        if name not in found:
            raise file.problem(None, f"no {name!r}", " ".join(NAMES), "add it (doffs is 0 for most rigs)")
    return found, unit
