"""Calibrations in plain lines of text, read strictly: Middlebury, KITTI, and plain numbers."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scotopic.depth.calibration import UNITS, Calibration, Camera, Matrix, Rig, intrinsics
from scotopic.errors import InputError
from scotopic.io.input_file import read_input_file

_SIZE_LIMIT = 200_000  # bytes; more than any calibration file has
_LINE_LIMIT = 5000  # characters; the longest line of a real file has some hundreds
_NUMBER_LIMIT = 60  # characters
_LARGEST = 1e12  # beyond all calibrations, and so small that products of a few of them are still numbers
# Not all that float() takes: "1_000", "nan", "infinity" and other scripts' digits are mistakes here.
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
# No portable rig is wider; a "baseline" of 6 or 120 is in centimeters, millimeters or chessboard squares.
_WIDEST_BASELINE = 2.0  # m
_DOFFS_TOLERANCE = 0.01  # px; Middlebury's files give three digits


@dataclass(frozen=True)
class Node:
    """What a key of a calibration file holds: text, a list of words or further keys; and the line of the key."""

    line: int
    value: str | list[str] | dict[str, Node]

    @property
    def words(self) -> list[str]:
        """The words of the value; none if it has further keys."""
        if isinstance(self.value, str):
            return self.value.split()
        return self.value if isinstance(self.value, list) else []


@dataclass(frozen=True)
class TextFile:
    """The lines of a small text file, and its name for error messages."""

    shown: str
    lines: tuple[str, ...]

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> TextFile:
        """Read a file; raise :class:`InputError` if it is missing, not a plain file, too large, or not text."""
        data = read_input_file(path, "a calibration file", _SIZE_LIMIT)
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(
                f"{os.fspath(path)!r} is not text (see byte {error.start}), so not a calibration."
            ) from None
        # Not splitlines(): that also breaks lines at form feeds and other rarities, and editors then count otherwise.
        file = cls(repr(os.fspath(path)), tuple(text.replace("\r\n", "\n").replace("\r", "\n").split("\n")))
        for number, line in enumerate(file.lines, 1):
            if len(line) > _LINE_LIMIT:
                raise file.error("This line is too long for a calibration file.", number)
        return file

    def error(self, message: str, line: int | None = None) -> InputError:
        """Return the error to raise; `line` counts from 1."""
        return InputError(f"{self.shown}{'' if line is None else f' line {line}'}: {message}")

    def numbers(self, key: str, words: Sequence[str], line: int | None, count: int | None = None) -> Matrix:
        """Return words as numbers; raise :class:`InputError` if one is not a number, or they are not `count`."""
        for word in words:
            if len(word) > _NUMBER_LIMIT or not _NUMBER.fullmatch(word) or not abs(float(word)) <= _LARGEST:
                raise self.error(f"{word[:40]!r} in {key} is not a usable number.", line)
        if count is not None and len(words) != count:
            raise self.error(f"{key} has {len(words)} numbers instead of {count}.", line)
        return np.array([float(word) for word in words], np.float64)

    def number(self, key: str, node: Node) -> float:
        """Return the one number of a node."""
        return float(self.numbers(key, node.words, node.line, 1)[0])

    def pixels(self, key: str, node: Node, count: int = 1) -> list[int]:
        """Return the numbers of a node as whole pixels, above 0."""
        values = [float(value) for value in self.numbers(key, node.words, node.line, count)]
        if any(value != int(value) or not 1 <= value <= 1e7 for value in values):
            raise self.error(f"{key} is {' '.join(node.words)}, which is not a whole number of pixels.", node.line)
        return [int(value) for value in values]

    def size(self, nodes: dict[str, Node]) -> tuple[int | None, int | None]:
        """Return width and height, each ``None`` if missing."""
        width, height = (self.pixels(key, nodes[key])[0] if key in nodes else None for key in ("width", "height"))
        return width, height

    def entries(self, mark: str) -> dict[str, Node]:
        """Return the lines ``key <mark> value`` by key, without blank lines and comments (``#``).

        A line without a key is an error, and so is a key that stands twice: which of the two is meant cannot be known.
        """
        found: dict[str, Node] = {}
        for number, content in enumerate(self.lines, 1):
            if not content.strip() or content.lstrip().startswith("#"):
                continue
            key, separator, value = (part.strip() for part in content.partition(mark))
            if not separator or not key:
                raise self.error(f"{content.strip()[:40]!r} does not have the form 'key{mark} value'.", number)
            self.add(found, key, Node(number, value))
        return found

    def add(self, nodes: dict[str, Node], key: str, node: Node) -> None:
        """Add a node under a key that must be new."""
        if key in nodes:
            raise self.error(f"{key[:40]!r} is given again after line {nodes[key].line}. Remove one.", node.line)
        nodes[key] = node

    def meters(self, unit: str | None, baseline: float, line: int | None) -> tuple[float, str]:
        """Return the meters in one unit of length of the file, and how the unit is known, in words.

        If it is not given, a baseline that would be wider in meters than stereo rigs are is an error.
        """
        if unit is not None:
            return UNITS[unit], f"baseline in {unit}"
        if abs(baseline) > _WIDEST_BASELINE:
            raise self.error(
                f"The baseline is {abs(baseline):g} and the file does not give its unit; {abs(baseline):g} m is wider "
                "than stereo rigs are. State the unit (unit='mm', or unit='m' if it is right).",
                line,
            )
        return 1.0, "baseline taken as m (the file does not say)"


# --- Middlebury (ETH3D too): cam0=[f 0 cx; 0 f cy; 0 0 1], cam1=, doffs=, baseline= in mm, ndisp= ... -----------------


def read_middlebury(file: TextFile) -> tuple[Calibration, float | None]:
    """Return the calibration of a ``calib.txt``, and ``ndisp``, the end of the disparity range, where it is given."""
    found = file.entries("=")
    missing = [key for key in ("cam0", "baseline") if key not in found]
    if "doffs" not in found and "cam1" not in found:
        missing.append("doffs")
    if missing:
        raise file.error(f"{missing[0]!r} is missing. A Middlebury calib.txt has cam0, cam1, doffs and baseline.")
    left = _middlebury_camera(file, "cam0", found["cam0"])
    doffs = file.number("doffs", found["doffs"]) if "doffs" in found else None
    if "cam1" in found:
        right = _middlebury_camera(file, "cam1", found["cam1"])
        between = float(right[0, 2] - left[0, 2])
        if doffs is not None and abs(between - doffs) > _DOFFS_TOLERANCE:
            raise file.error(
                f"doffs is {doffs:g}, but the principal points of cam0 and cam1 are {between:g} px apart.",
                found["doffs"].line,
            )
        if np.abs(np.delete(right - left, 2)).max() > _DOFFS_TOLERANCE:
            raise file.error(
                "cam1 differs from cam0 in more than cx, so the pair is not rectified.", found["cam1"].line
            )
        doffs = between if doffs is None else doffs
    width, height = file.size(found)
    calibration = Calibration(
        **intrinsics(left),
        baseline=file.number("baseline", found["baseline"]) * UNITS["mm"],
        doffs=float(doffs or 0.0),
        width=width,
        height=height,
        source=f"Middlebury calib.txt {file.shown}, baseline in mm",
    )
    return calibration, file.number("ndisp", found["ndisp"]) if "ndisp" in found else None


def _middlebury_camera(file: TextFile, key: str, node: Node) -> Matrix:
    text = str(node.value)
    rows = text[1:-1].split(";") if text.startswith("[") and text.endswith("]") else []
    if [len(row.split()) for row in rows] == [3, 3, 3]:
        matrix = file.numbers(key, " ".join(rows).split(), node.line, 9).reshape(3, 3)
        if matrix[0, 1] == matrix[1, 0] == 0 and list(matrix[2]) == [0, 0, 1]:
            return matrix
    raise file.error(f"{key} is {text[:60]!r} instead of [f 0 cx; 0 f cy; 0 0 1].", node.line)


# --- KITTI: calib_cam_to_cam.txt of the raw data, P0: to P3: of the object and odometry sets; meters ------------------


def read_kitti(file: TextFile, cameras: tuple[int, int]) -> Calibration:
    """Read the calibration of two of the four cameras: 0 and 1 are gray, 2 and 3 color."""
    found = file.entries(":")
    is_raw = any(key.startswith("P_rect_") for key in found)

    def matrix(key: str, rows: int, columns: int) -> Matrix:
        if key not in found:
            raise file.error(f"{key!r} is missing; the file has {', '.join(sorted(found))[:80]}.")
        return file.numbers(key, found[key].words, found[key].line, rows * columns).reshape(rows, columns)

    def size(key: str) -> list[int] | list[None]:
        return file.pixels(key, found[key], 2) if key in found else [None, None]

    projections = [matrix(f"P_rect_{camera:02d}" if is_raw else f"P{camera}", 3, 4) for camera in cameras]
    rig = None
    if all(f"{key}_{camera:02d}" in found for camera in cameras for key in ("K", "D", "R_rect", "S")) and is_raw:
        left, right = (
            Camera(matrix(f"K_{n:02d}", 3, 3), matrix(f"D_{n:02d}", 1, 5)[0], matrix(f"R_rect_{n:02d}", 3, 3), each)
            for n, each in zip(cameras, projections, strict=True)
        )
        sizes = [size(f"S_{camera:02d}") for camera in cameras]
        if sizes[0] == sizes[1]:  # else they could be rectified, but not to a pair of KITTI's
            rig = Rig(left, right, *sizes[0])
    width, height = size(f"S_rect_{cameras[0]:02d}") if is_raw else (None, None)
    source = f"KITTI {file.shown}, cameras {cameras[0]} and {cameras[1]}, baseline in m"
    return Calibration.from_projections(*projections, width=width, height=height, rig=rig, source=source)


# --- plain numbers: fx cx cy baseline doffs, in one line or one a line; the baseline may carry its unit --------------

PLAIN_NAMES = ("fx", "cx", "cy", "baseline", "doffs")
_OPTIONAL_NAMES = ("fy", "width", "height")
_PLAIN_LINE = re.compile(r"(?P<name>[a-z]+)(?:\s*[=:]\s*|\s+)(?P<number>[^\s=:]+)(?:\s+(?P<unit>[a-z]+))?", re.ASCII)


def read_plain(file: TextFile, unit: str | None) -> Calibration:
    """Read plain numbers; `unit` is that of the baseline, where the file does not say."""
    lines = [(number, content.split("#", 1)[0].strip()) for number, content in enumerate(file.lines, 1)]
    lines = [(number, content) for number, content in lines if content]
    if len(lines) == 2 and lines[0][1].split() == list(PLAIN_NAMES):  # a heading over the five
        lines = lines[1:]
    found: dict[str, Node] = {}
    own_unit = None
    if len(lines) == 1:
        line, words = lines[0][0], lines[0][1].split()
        own_unit = words.pop() if len(words) == 6 and words[5] in UNITS else None
        if len(words) != 5:
            raise file.error(f"There are {len(words)} words instead of the five numbers {' '.join(PLAIN_NAMES)}.", line)
        found = {name: Node(line, word) for name, word in zip(PLAIN_NAMES, words, strict=True)}
        lines = []
    for line, content in lines:
        match = _PLAIN_LINE.fullmatch(content)
        if (
            not match
            or match["name"] not in PLAIN_NAMES + _OPTIONAL_NAMES
            or (match["unit"] and (match["name"] != "baseline" or match["unit"] not in UNITS))
        ):
            names = ", ".join(PLAIN_NAMES + _OPTIONAL_NAMES)
            raise file.error(f"{content[:40]!r} is not a number after one of the names {names}.", line)
        file.add(found, match["name"], Node(line, match["number"]))
        own_unit = match["unit"] or own_unit
    for name in PLAIN_NAMES:  # also doffs: a line that was lost must not become 0
        if name not in found:
            raise file.error(f"{name!r} is missing. Give {' '.join(PLAIN_NAMES)}; doffs is 0 for most rigs.")
    value: dict[str, Any] = {name: file.number(name, node) for name, node in found.items()}
    line = found["baseline"].line
    if None not in (own_unit, unit) and own_unit != unit:
        raise file.error(f"The baseline is in {own_unit}, not in {unit}. Leave one of the two out.", line)
    meters, known = file.meters(own_unit or unit, value["baseline"], line)
    value["baseline"] *= meters
    value["width"], value["height"] = file.size(found)
    return Calibration(**{"fy": value["fx"], **value}, source=f"plain numbers {file.shown}, {known}")
