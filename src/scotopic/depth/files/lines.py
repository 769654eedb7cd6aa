"""Calibrations in plain lines of text, read strictly: Middlebury, KITTI, and plain numbers."""

import os
import re
from dataclasses import dataclass, replace
from typing import Any, Self

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
# A last word that could have been longer: 19 of 193.001, m of mm. A bracket or a mark of the end could not.
_CAN_GO_ON = re.compile(r"[\w.+-]$", re.ASCII)
# A number printed with all its digits, as 7.070912000000e+02: among others of its length it is whole.
_FULL_NUMBER = re.compile(r"[0-9]\.[0-9]+[eE][+-][0-9]{2,3}")
# No portable rig is wider; a "baseline" of 6 or 120 is in centimeters, millimeters or chessboard squares.
_WIDEST_BASELINE = 2.0  # m
_DOFFS_TOLERANCE = 0.01  # px; Middlebury's files give three digits

Tree = dict[str, "Node"]  #: what a file, or a key with further keys, holds


@dataclass(frozen=True)
class TextFile:
    """The lines of a small text file, and its name for error messages."""

    shown: str
    lines: tuple[str, ...]

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
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
        last = file.lines[-1]  # after the last line break: nothing, in a whole file
        if _CAN_GO_ON.search(last.split("#", 1)[0]) and not _is_full(last):
            raise file.error(
                f"The file ends with {last[-20:]!r} and no line break, so it may be cut short inside a number. If it "
                "is whole, end its last line with a line break.",
                len(file.lines),
            )
        return file

    def error(self, message: str, line: int | None = None) -> InputError:
        """Return the error to raise; `line` counts from 1."""
        return InputError(f"{self.shown}{'' if line is None else f' line {line}'}: {message}")

    def add(self, tree: Tree, key: str, line: int, value: str | list[str] | Tree) -> None:
        """Add what a line holds under a key that must be new: which of two is meant cannot be known."""
        if key in tree:
            raise self.error(f"{key[:40]!r} is given again after line {tree[key].line}. Remove one.", line)
        tree[key] = Node(self, key, line, value)

    def entries(self, mark: str) -> Tree:
        """Return the lines ``key <mark> words`` by key, without blank lines and comments (``#``)."""
        found: Tree = {}
        for number, content in enumerate(self.lines, 1):
            if not content.strip() or content.lstrip().startswith("#"):
                continue
            key, separator, value = (part.strip() for part in content.partition(mark))
            if not separator or not key:
                raise self.error(f"{content.strip()[:40]!r} does not have the form 'key{mark} value'.", number)
            self.add(found, key, number, value.split())
        return found

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


def _is_full(line: str) -> bool:
    """Whether a line holds several numbers, all with an exponent and with as many digits, so that none is cut short."""
    words = [word.lstrip("+-") for word in line.split()]
    return len(words) > 1 and len({len(word) for word in words}) == 1 and all(map(_FULL_NUMBER.fullmatch, words))


@dataclass(frozen=True)
class Node:
    """What a key of a calibration file holds: text, a list of words or further keys; and the line of the key."""

    file: TextFile
    key: str
    line: int
    value: str | list[str] | Tree

    def error(self, message: str) -> InputError:
        """Return the error to raise, which names file and line."""
        return self.file.error(message, self.line)

    def numbers(self, count: int | None = None) -> Matrix:
        """Return the words as numbers; raise :class:`InputError` if one is not a number, or they are not `count`."""
        words = self.value.split() if isinstance(self.value, str) else self.value
        for word in words:
            if len(word) > _NUMBER_LIMIT or not _NUMBER.fullmatch(word) or not abs(float(word)) <= _LARGEST:
                raise self.error(f"{word[:40]!r} in {self.key} is not a usable number.")
        if count is not None and len(words) != count:
            raise self.error(f"{self.key} has {len(words)} numbers instead of {count}.")
        return np.array([float(word) for word in words], np.float64)

    def number(self) -> float:
        """Return the one number."""
        return float(self.numbers(1)[0])

    def whole_number(self) -> int:
        """Return the one number, whole and not below 0."""
        value = self.number()
        if value != int(value) or not 0 <= value <= 1e7:
            raise self.error(f"{self.key} is {value:g}, which is not a whole number from 0 on.")
        return int(value)

    def pixels(self, count: int = 1) -> list[int]:
        """Return the numbers as whole pixels, above 0."""
        values = self.numbers(count).tolist()
        if any(value != int(value) or not 1 <= value <= 1e7 for value in values):
            shown = " ".join(f"{value:g}" for value in values)
            raise self.error(f"{self.key} is {shown}, which is not a whole number of pixels.")
        return [int(value) for value in values]

    def matrix(self, *shapes: tuple[int, int]) -> Matrix:
        """Return a matrix of one of `shapes`: a list of numbers, or ``rows``, ``cols`` and ``data``."""
        wanted = " or ".join(f"{rows} x {columns}" for rows, columns in shapes)
        data = self
        if isinstance(self.value, dict):
            odd = sorted({"rows", "cols", "data"} ^ (self.value.keys() - {"dt"}))
            if odd:
                problem = "does not belong to it" if odd[0] in self.value else "is missing"
                message = f"{odd[0]!r} in {self.key} {problem}: a matrix has rows, cols and data."
                raise self.value.get(odd[0], self).error(message)
            rows, columns = (self.value[part].number() for part in ("rows", "cols"))
            if (rows, columns) not in shapes:
                raise self.error(f"{self.key} is {rows:g} x {columns:g} instead of {wanted}.")
            data, shapes = self.value["data"], ((int(rows), int(columns)),)
        if not isinstance(data.value, list):
            raise data.error(f"{self.key} is not a list of numbers ({wanted}).")
        for shape in shapes:
            if len(data.value) == shape[0] * shape[1]:
                return data.numbers().reshape(shape)
        counts = " or ".join(dict.fromkeys(str(rows * columns) for rows, columns in shapes))
        raise data.error(f"{self.key} has {len(data.value)} numbers instead of {counts} ({wanted}).")

    def vector(self, *lengths: int) -> Matrix:
        """Return as many numbers as one of `lengths`, in a row or in a column."""
        return self.matrix(*(shape for length in lengths for shape in ((1, length), (length, 1)))).reshape(-1)


def image_size(tree: Tree) -> tuple[int | None, int | None]:
    """Return width and height, each ``None`` if it is missing, by their usual names."""
    for names in (("image_width", "image_height"), ("width", "height"), ("imageWidth", "imageHeight")):
        if any(name in tree for name in names):
            width, height = (tree[name].pixels()[0] if name in tree else None for name in names)
            return width, height
    for name in ("image_size", "imageSize", "size"):
        if name in tree:
            both = tree[name].pixels(2)
            return both[0], both[1]
    return None, None


# --- Middlebury (ETH3D too): cam0=[f 0 cx; 0 f cy; 0 0 1], cam1=, doffs=, baseline= in mm, ndisp= ... -----------------


def read_middlebury(file: TextFile) -> tuple[Calibration, float | None]:
    """Return the calibration of a ``calib.txt``, and ``ndisp``, the end of the disparity range, where it is given."""
    found = file.entries("=")
    needed = ("cam0", "baseline") if "cam1" in found else ("cam0", "baseline", "doffs")
    for key in needed:
        if key not in found:
            raise file.error(f"{key!r} is missing. A Middlebury calib.txt has cam0, cam1, doffs and baseline.")
    left = _middlebury_camera(found["cam0"])
    doffs = found["doffs"].number() if "doffs" in found else None
    if "cam1" in found:
        right = _middlebury_camera(found["cam1"])
        between = float(right[0, 2] - left[0, 2])
        if doffs is not None and abs(between - doffs) > _DOFFS_TOLERANCE:
            message = f"doffs is {doffs:g}, but the principal points of cam0 and cam1 are {between:g} px apart."
            raise found["doffs"].error(message)
        if np.abs(np.delete(right - left, 2)).max() > _DOFFS_TOLERANCE:
            raise found["cam1"].error("cam1 differs from cam0 in more than cx, so the pair is not rectified.")
        doffs = between if doffs is None else doffs
    width, height = image_size(found)
    baseline = found["baseline"].number() * UNITS["mm"]
    source = f"Middlebury calib.txt {file.shown}, baseline in mm"
    size: dict[str, Any] = {"width": width, "height": height}
    calibration = Calibration(**intrinsics(left), baseline=baseline, doffs=float(doffs or 0), source=source, **size)
    return calibration, found["ndisp"].number() if "ndisp" in found else None


def _middlebury_camera(node: Node) -> Matrix:
    text = " ".join(node.value)
    rows = text[1:-1].split(";") if text.startswith("[") and text.endswith("]") else []
    if [len(row.split()) for row in rows] == [3, 3, 3]:
        matrix = replace(node, value=" ".join(rows)).numbers(9).reshape(3, 3)
        if matrix[0, 1] == matrix[1, 0] == 0 and list(matrix[2]) == [0, 0, 1]:
            return matrix
    raise node.error(f"{node.key} is {text[:60]!r} instead of [f 0 cx; 0 f cy; 0 0 1].")


# --- KITTI: calib_cam_to_cam.txt of the raw data, P0: to P3: of the object and odometry sets; meters ------------------


def read_kitti(file: TextFile, cameras: tuple[int, int]) -> Calibration:
    """Read the calibration of two of the four cameras: 0 and 1 are gray, 2 and 3 color."""
    found = file.entries(":")
    is_raw = any(key.startswith("P_rect_") for key in found)
    keys = [f"P_rect_{camera:02d}" if is_raw else f"P{camera}" for camera in cameras]
    for key in keys:
        if key not in found:
            raise file.error(f"{key!r} is missing; the file has {', '.join(sorted(found))[:80]}.")
    projections = [found[key].matrix((3, 4)) for key in keys]
    sides, sizes = [], []
    for camera, projection in zip(cameras, projections, strict=True):
        parts = [found.get(f"{key}_{camera:02d}") for key in ("K", "D", "R_rect", "S")]
        if is_raw and None not in parts:
            matrix, distortion, rotation, size = (part for part in parts if part is not None)
            sides.append(Camera(matrix.matrix((3, 3)), distortion.vector(5), rotation.matrix((3, 3)), projection))
            sizes.append(size.pixels(2))
    # Of different sizes they could be rectified, but not to a pair of KITTI's.
    rig = Rig(sides[0], sides[1], *sizes[0]) if len(sides) == 2 and sizes[0] == sizes[1] else None
    shape = found.get(f"S_rect_{cameras[0]:02d}") if is_raw else None
    width, height = shape.pixels(2) if shape else (None, None)
    source = f"KITTI {file.shown}, cameras {cameras[0]} and {cameras[1]}, baseline in m"
    return Calibration.from_projections(*projections, width=width, height=height, rig=rig, source=source)


def read_projections(file: TextFile) -> Calibration:
    """Read the projection matrices of both rectified cameras alone: a line of 12 numbers each, the left one first."""
    lines = [(number, content.split()) for number, content in enumerate(file.lines, 1) if content.strip()]
    left, right = (Node(file, "the projection matrix", number, words).matrix((3, 4)) for number, words in lines)
    return Calibration.from_projections(left, right, source=f"projection matrices {file.shown}, baseline in m")


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
    found: Tree = {}
    own_unit = None
    if len(lines) == 1:
        line, words = lines[0][0], lines[0][1].split()
        # The unit stands after the baseline, or at the end.
        place = next((place for place in (4, 5) if len(words) == 6 and words[place] in UNITS), None)
        own_unit = None if place is None else words.pop(place)
        if len(words) != 5:
            raise file.error(f"There are {len(words)} words instead of the five numbers {' '.join(PLAIN_NAMES)}.", line)
        found = {name: Node(file, name, line, [word]) for name, word in zip(PLAIN_NAMES, words, strict=True)}
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
        file.add(found, match["name"], line, [match["number"]])
        own_unit = match["unit"] or own_unit
    for name in PLAIN_NAMES:  # also doffs: a line that was lost must not become 0
        if name not in found:
            raise file.error(f"{name!r} is missing. Give {' '.join(PLAIN_NAMES)}; doffs is 0 for most rigs.")
    value: dict[str, Any] = {name: node.number() for name, node in found.items()}
    line = found["baseline"].line
    if None not in (own_unit, unit) and own_unit != unit:
        raise file.error(f"The baseline is in {own_unit}, not in {unit}. Leave one of the two out.", line)
    meters, known = file.meters(own_unit or unit, value["baseline"], line)
    value["baseline"] *= meters
    value["width"], value["height"] = image_size(found)
    return Calibration(**{"fy": value["fx"], **value}, source=f"plain numbers {file.shown}, {known}")
