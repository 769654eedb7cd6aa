"""Reading and checking the TOML files that a user writes: plans of a benchmark and recipes for networks."""

import math
import sys
import tomllib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from scotopic.errors import InputError, SettingsError, did_you_mean
from scotopic.io.input_file import read_input_text, reading

Check = tuple[Callable[[Any], bool], str]  #: whether a value is good, and what it must be, in words


# Python's parser takes minutes for a key of many parts, a.a.a.a and so on.
_MOST_BYTES = 2**18  # of a file
_MOST_DOTS = 200  # in a line


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """Return the content of a TOML file, or raise :class:`InputError`."""
    kind = f"{what[:1].lower()}{what[1:]} in TOML"
    text = read_input_text(path, kind, _MOST_BYTES)
    for number, line in enumerate(text.split("\n"), start=1):
        if line.count(".") > _MOST_DOTS:
            raise InputError(
                f"Line {number} of {str(path)!r} has over {_MOST_DOTS} dots. Split a long list into several lines."
            )
    with reading(path, kind, "Correct it as docs/evaluation.md shows."):
        return tomllib.loads(text)


def check_keys(what: str, values: Mapping[str, Any], known: Collection[str], required: Collection[str] = ()) -> None:
    """Raise :class:`SettingsError` if a key is unknown or missing."""
    for key in values:
        if key not in known:
            hint = did_you_mean(key, known)
            raise SettingsError(f"{what} has the unknown key {key[:80]!r}.{hint} Known keys are {', '.join(known)}.")
    for key in required:
        if key not in values:
            raise SettingsError(f"{what} lacks the key {key!r}. Add it.")


def check_values(what: str, values: Mapping[str, Any], checks: Mapping[str, Check]) -> None:
    """Raise :class:`SettingsError` if a value is not what its check asks for."""
    for key, value in values.items():
        is_good, words = checks[key]
        if not is_good(value):
            raise SettingsError(f"{what}: {key!r} must be {words}, not {show(value, 120)}.")


def show(value: object, length: int) -> str:
    """Return a value that a file holds as an error shows it."""
    try:
        return f"{value!r:.{length}}"
    except ValueError:  # Python does not write whole numbers of thousands of digits
        return "a number of thousands of digits"


def is_number(value: object) -> bool:
    """Whether a value is a finite number; ``true`` and ``false`` are none."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return abs(value) <= sys.float_info.max  # false for NaN, and for whole numbers that no float can hold


TEXT: Check = (lambda value: isinstance(value, str) and value != "", "a text")
NUMBER: Check = (is_number, "a number")
POSITIVE: Check = (lambda value: is_number(value) and value > 0, "a number above 0")


def whole(low: int, high: float = math.inf) -> Check:
    """Return the check of a whole number from `low` to `high`."""
    words = f"a whole number from {low} {'on' if high == math.inf else f'to {high}'}"
    return lambda value: isinstance(value, int) and is_number(value) and low <= value <= high, words


def list_of(check: Check) -> Check:
    """Return the check of a list with at least one entry, each of which passes a check."""
    is_good, words = check
    return lambda value: isinstance(value, list | tuple) and len(value) > 0 and all(map(is_good, value)), (
        f"a list, each {words}"
    )


def one_of(*choices: object) -> Check:
    """Return the check of a value that must be one of some."""
    return lambda value: value in choices and not isinstance(value, bool), f"one of {', '.join(map(str, choices))}"
