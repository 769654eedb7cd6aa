"""Text files read strictly: every number is one, every complaint names the file and the line."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError
from scotopic.io.pfm import plain_file_size

# More than any calibration file has; what is larger is something else.
_SIZE_LIMIT = 1_000_000
# Beyond all calibrations, and so small that products of a few of them are still numbers.
_LARGEST = 1e12
_LONGEST_NUMBER = 60  # characters
_LONGEST_LINE = 5000  # characters; the longest of a real file has some hundreds
# Not what float() takes: "1_000", "nan", "infinity" and other scripts' digits are mistakes here.
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


@dataclass(frozen=True)
class TextFile:
    """The lines of a file, and its name for messages."""

    shown: str
    lines: tuple[str, ...]

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> TextFile:
        """Read a small text file.

        Raises
        ------
        InputError
            It is missing, not a plain file, too large, or not text.
        """
        shown = repr(os.fspath(path))
        size = plain_file_size(path, "a calibration file")
        if size > _SIZE_LIMIT:
            raise InputError(f"{shown}: found {size} bytes, expected a calibration of some lines; give another file")
        try:
            text = Path(path).read_bytes().decode("utf-8-sig")
        except OSError as error:
            raise InputError(
                f"{shown}: reading stopped with {error.strerror or error}, expected a readable calibration file; "
                "check its permissions and the disk"
            ) from error
        except UnicodeDecodeError as error:
            raise InputError(
                f"{shown}: found byte {error.start} that is not text, expected a calibration as text; give another file"
            ) from None
        # Not splitlines(): that also breaks lines at form feeds and other rarities, and editors then count otherwise.
        lines = tuple(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"))
        file = cls(shown, lines)
        for number, line in enumerate(lines, 1):
            if len(line) > _LONGEST_LINE:
                raise file.problem(
                    number, f"{len(line)} characters", f"lines of at most {_LONGEST_LINE}", "give another file"
                )
        return file

    def problem(self, line: int | None, found: str, expected: str, remedy: str) -> InputError:
        """Return the error to raise; `line` counts from 1."""
        where = self.shown if line is None else f"{self.shown} line {line}"
        return InputError(f"{where}: found {found}, expected {expected}; {remedy}")

    def numbers(self, line: int | None, key: str, words: Sequence[str], count: int | None) -> NDArray[np.float64]:
        """Return words as numbers.

        Raises
        ------
        InputError
            One is not a number or beyond all bounds, or they are not `count`.
        """
        many = "numbers" if count is None else f"{count} number{'s' if count != 1 else ''}"
        for word in words:
            if len(word) > _LONGEST_NUMBER or not _NUMBER.fullmatch(word) or not abs(float(word)) <= _LARGEST:
                raise self.problem(line, f"{word[:40]!r} in {key}", many, "correct it")
        if count is not None and len(words) != count:
            raise self.problem(line, f"{len(words)} numbers in {key}", many, "correct it or write the file again")
        return np.array([float(word) for word in words], np.float64)

    def whole(self, line: int | None, key: str, words: Sequence[str]) -> int:
        """Return one word as a whole number of pixels, above 0."""
        value = float(self.numbers(line, key, words, 1)[0])
        if value != int(value) or not 1 <= value <= 1e7:
            raise self.problem(line, f"{key} {words[0]}", "whole pixels above 0", "correct it")
        return int(value)


@dataclass(frozen=True)
class Entry:
    """What stands behind a key in a line."""

    line: int
    text: str


def entries(file: TextFile, mark: str) -> dict[str, Entry]:
    """Return the lines ``key <mark> value`` by their key; blank lines and comments (``#``) are left out.

    Raises
    ------
    InputError
        A line has no key, or a key stands twice: which of the two is meant, nobody knows.
    """
    found: dict[str, Entry] = {}
    for number, content in enumerate(file.lines, 1):
        if not content.strip() or content.lstrip().startswith("#"):
            continue
        key, separator, value = (part.strip() for part in content.partition(mark))
        if not separator or not key:
            raise file.problem(
                number, repr(content.strip()[:40]), f"'key{mark} value'", "correct it or remove the line"
            )
        if key in found:
            raise file.problem(number, f"{key!r} again after line {found[key].line}", "each key once", "remove one")
        found[key] = Entry(number, value)
    return found
