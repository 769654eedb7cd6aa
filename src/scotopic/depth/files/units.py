"""Lengths in files that do not say their unit."""

from __future__ import annotations

from scotopic.depth.calibration import UNITS
from scotopic.depth.files.text import TextFile
from scotopic.errors import InputError

# No rig that one would carry is wider; a "baseline" of 6 or 120 is in centimeters, millimeters or chessboard squares.
_WIDEST = 2.0


def check_unit(unit: str | None) -> None:
    """Raise :class:`InputError` unless it is a unit that we know, or none."""
    if unit is not None and unit not in UNITS:
        raise InputError(f"unit: found {unit!r}, expected one of {', '.join(UNITS)}; choose one of these")


def meters_in(unit: str | None, baseline: float, file: TextFile, line: int | None) -> tuple[float, str]:
    """Return the meters in one of the file's units, and in words where that is known from.

    Raises
    ------
    InputError
        Nobody said the unit, and in meters the baseline would be wider than rigs are.
    """
    if unit is not None:
        return UNITS[unit], f"baseline in {unit}"
    if abs(baseline) > _WIDEST:
        raise file.problem(
            line,
            f"a baseline of {abs(baseline):g} and no unit",
            f"meters, up to {_WIDEST:g}",
            "say its unit (unit='mm', or --unit mm on the command line; unit='m' if it is really so wide)",
        )
    return 1.0, "baseline taken as m (the file does not say)"
