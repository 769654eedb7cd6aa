"""The exceptions. Every failure that scotopic expects is a :class:`ScotopicError`.

Its message says in a sentence or two what is wrong with which input, and what to do about it. The command line prints
that message and exits with code 2.
"""

from collections.abc import Callable, Iterable
from difflib import SequenceMatcher
from inspect import signature
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])


class ScotopicError(Exception):
    """Base class of all errors that scotopic raises on purpose."""


class InputError(ScotopicError):
    """An image, a file or an array cannot be used as it is."""


class PairWarning(UserWarning):
    """A pair (the same image twice, swapped, not rectified, recorded before) or a confidence looks wrong."""


class SettingsError(ScotopicError):
    """A preset, a setting or a disparity range is unknown or makes no sense."""


class DeviceError(ScotopicError):
    """The requested device cannot do the work."""


class DarkImageWarning(UserWarning):
    """A pair uses little of the range of its format, and was normalized by levels that its data suggest."""


#: Warnings about what the user gave, as a line to read; others are about code.
INPUT_WARNINGS = (DarkImageWarning, PairWarning)


class OutputError(ScotopicError):
    """Results cannot be written to the place that was asked for."""


_NEAR = 0.6  # share of equal letters from which on two names may be meant to be the same


#: The parameters of public functions that take settings by name as well, by the names of the functions.
PARAMETERS: dict[str, tuple[str, ...]] = {}


def lists_parameters(function: _Function) -> _Function:
    """Enter the parameters of a function into :data:`PARAMETERS`, so that errors about others can name them."""
    found = signature(function).parameters.values()
    names = (each.name for each in found if each.kind is not each.VAR_KEYWORD)
    PARAMETERS[function.__qualname__] = tuple(name for name in names if name not in ("self", "cls"))
    return function


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question that names what was probably meant, to stand after a sentence; empty if nothing is near.

    Examples
    --------
    >>> did_you_mean("maxDisparity", ["p1", "max_disparity", "stride"])
    " Did you mean 'max_disparity'?"
    """
    near = nearest_names(name, known)
    return f" Did you mean {' or '.join(map(repr, near))}?" if near else ""


def nearest_names(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names that are nearest to a mistyped one, several if they are equally near, at most three."""
    given = _letters(name[:80])  # no name is as long, and what a file holds may be
    shares = {each: SequenceMatcher(None, _letters(each), given).ratio() for each in known}
    best = max(shares.values(), default=0.0)
    return [each for each, share in shares.items() if share == best >= _NEAR][:3]


def _letters(name: str) -> str:
    """Return a name without what people write differently: capitals, underscores, dashes, spaces."""
    return "".join(letter for letter in name.lower() if letter.isalnum())
