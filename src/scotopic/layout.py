"""Pictures for people: titled panels in a grid, color bars with round labels, and lines of text below."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from scotopic.colormap import NO_VALUE, Color, Range, Rgb, as_rgb, turbo
from scotopic.depth import Calibration

Picture = NDArray[np.uint8]  #: ``(H, W, 3)`` RGB, or ``(H, W)`` gray
Ticks = dict[str, float]  #: values on a color bar, by label

TEXT_COLOR: Color = (235, 236, 240)
SMALL_PRINT: Color = (165, 170, 180)

_FACES = (0, 2)  # OpenCV's FONT_HERSHEY_SIMPLEX, and FONT_HERSHEY_DUPLEX for bold
_LARGEST = (2000, 1400)  # width and height of a composed picture, about
_BAR_ROOM = 150  # of that width for the color bars of a column, about
_ROUND_LEADS = ((1, 2, 5), (1.5, 3, 4, 7), (1.2, 2.5, 6, 8))  # of depths on the color bar, the roundest first
_SMALLEST_CELL = (250, 120)  # room for a title, and for a few ticks of the color bar
_SMALLEST_SIDE = 320  # tiny images are enlarged until their longer side has about this many pixels
_WIDEST_ROW = 6  # panels in a row are at most this many times as wide as high; of wide images there are fewer in a row


@dataclass(frozen=True)
class Font:
    """Letters that grow with the picture, so that they can be read when all of it is shown on one screen."""

    scale: float

    @property
    def line(self) -> int:
        """Height of a line with its leading."""
        return round(30 * self.scale)

    @property
    def gap(self) -> int:
        """Space between panels; twice as much between phrases."""
        return round(18 * self.scale)

    def width(self, text: str, bold: bool = False) -> int:
        """Width of a text in px."""
        import cv2

        return int(cv2.getTextSize(text, _FACES[bold], 0.62 * self.scale, 1)[0][0])

    def write(self, canvas: Rgb, text: str, at: tuple[int, int], color: Color, bold: bool = False) -> None:
        """Write a text from a column on, its capital letters centered on a row."""
        import cv2

        x, middle = at
        baseline = middle + round(7 * self.scale)
        cv2.putText(canvas, text, (x, baseline), _FACES[bold], 0.62 * self.scale, color, 1, cv2.LINE_AA)


# --- color bars -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scale:
    """What a color bar shows: the values at its lower and upper end, labels (at most about so many), and colors."""

    ends: Range
    ticks: Callable[[int], Ticks]
    colors: Callable[[NDArray[np.floating]], Rgb] = turbo


def disparity_scale(ends: Range, calibration: Calibration | None = None) -> Scale:
    """Return the scale of a disparity map, in px; with a calibration the depth of each disparity, in meters."""
    if calibration is None:
        return Scale(ends, partial(round_ticks, ends))
    return Scale(ends, partial(depth_ticks, ends, calibration))


def depth_scale(nearest: float, farthest: float) -> Scale:
    """Return the scale of a map of minus the depth, so that near is at the upper end as in a disparity map."""
    return Scale((-farthest, -nearest), partial(_negative_ticks, (nearest, farthest)))


def share_scale() -> Scale:
    """Return the scale of a map from 0 to 1 in grays."""
    return Scale((0.0, 1.0), lambda most: {"0": 0.0, "0.5": 0.5, "1": 1.0}, _grays)


@dataclass(frozen=True)
class Bar:
    """A color bar of a height in px, high values at the top."""

    scale: Scale
    height: int
    font: Font

    @property
    def ticks(self) -> Ticks:
        """The labels for which there is room."""
        return self.scale.ticks(max(2 * self.height // (3 * self.font.line), 2))

    @property
    def width(self) -> int:
        """Width of the colors and the longest label, with a gap after it."""
        gap = self.font.gap
        return gap + gap // 2 + max(map(self.font.width, self.ticks), default=0) + gap

    def draw(self, canvas: Rgb, at: tuple[int, int]) -> None:
        """Draw the bar with its upper left corner at a column and a row."""
        (x, y), gap = at, self.font.gap
        low, high = self.scale.ends
        canvas[y : y + self.height, x : x + gap] = self.scale.colors(np.linspace(1, 0, self.height)[:, None])
        for label, value in self.ticks.items():
            level = y + round((high - value) / (high - low) * (self.height - 1))
            canvas[level, x + gap : x + gap + gap // 3] = TEXT_COLOR
            self.font.write(canvas, label, (x + gap + gap // 2, level), TEXT_COLOR)


def round_ticks(ends: Range, most: int, unit: str = "px") -> Ticks:
    """Return round values between the ends, 1, 2 or 5 times a power of ten apart: at least two, about `most`."""
    low, high = ends
    found: Ticks = {}
    for exponent in range(math.floor(math.log10(high - low)), -3, -1):
        for lead in (5, 2, 1):
            step = lead * 10.0**exponent
            multiples = range(math.ceil(low / step), math.floor(high / step) + 1)
            if len(multiples) > most and len(found) >= 2:
                return found
            found = {f"{k * step:.{max(-exponent, 0)}f} {unit}": k * step for k in multiples}
    return found


def depth_ticks(ends: Range, calibration: Calibration, most: int) -> Ticks:
    """Return disparities between the ends whose depth is a round number of meters, far enough apart for `most`."""
    low, high = ends
    if high + calibration.doffs <= 0:  # all at infinity
        return {}
    scale = calibration.baseline * calibration.fx
    first = math.floor(math.log10(scale / (high + calibration.doffs)))  # power of ten of the nearest depth
    decades = [10.0**exponent for exponent in range(first, first + 4)]
    found: Ticks = {}
    for leads in _ROUND_LEADS:
        for depth in (lead * decade for decade in decades for lead in leads):
            disparity = scale / depth - calibration.doffs
            apart = min((abs(disparity - other) for other in found.values()), default=math.inf)
            if low <= disparity <= high and apart >= (high - low) / most:
                found[f"{depth:g} m"] = disparity
    return found


def _negative_ticks(ends: Range, most: int) -> Ticks:
    return {label: -value for label, value in round_ticks(ends, most, "m").items()}


def _grays(position: NDArray[np.floating]) -> Rgb:
    return as_rgb((np.clip(position, 0, 1) * 255).round().astype(np.uint8))


# --- panels and text ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Panel:
    """A picture with its title, and the scale of its colors if it has a color bar."""

    title: str
    picture: Picture
    scale: Scale | None = None


@dataclass(frozen=True)
class Phrase:
    """A few words of the text below the panels; with a color, an entry of a legend."""

    text: str
    swatch: Color | None = None

    def width(self, font: Font) -> int:
        """Width in px."""
        # A little too much for most, which are not bold.
        return font.width(self.text, bold=True) + (0 if self.swatch is None else font.gap)

    def draw(self, canvas: Rgb, at: tuple[int, int], font: Font, bold: bool) -> int:
        """Draw the phrase from a column on, about a row; return the column behind it."""
        x, middle = at
        if self.swatch is not None:
            half = font.gap // 3
            canvas[middle - half : middle + half, x : x + 2 * half] = self.swatch
            x += font.gap
        font.write(canvas, self.text, (x, middle), TEXT_COLOR if bold else SMALL_PRINT, bold)
        return x + font.width(self.text, bold)


def compose(panels: Sequence[Panel], headline: str, paragraphs: Sequence[Sequence[Phrase]]) -> Rgb:
    """Set pictures of one size in rows, fewer in a row if they are wide, with color bars, and text below."""
    import cv2

    height, width = panels[0].picture.shape[:2]
    across = len(panels) if len(panels) <= 3 else math.ceil(len(panels) / 2)
    across = max(min(across, _WIDEST_ROW * height // width), 1)
    rows = [panels[k : k + across] for k in range(0, len(panels), across)]
    barred = {k for row in rows for k, panel in enumerate(row) if panel.scale is not None}
    shown = _shown_size((width, height), ((_LARGEST[0] - _BAR_ROOM * len(barred)) / across, _LARGEST[1] / len(rows)))
    cell = max(shown[0], _SMALLEST_CELL[0]), max(shown[1], _SMALLEST_CELL[1])
    font = Font(max(1.0, across * cell[0] / 1250))
    gap = font.gap

    bars = [[None if panel.scale is None else Bar(panel.scale, cell[1], font) for panel in row] for row in rows]
    columns = itertools.zip_longest(*bars)
    beside = [max((bar.width for bar in column if bar is not None), default=0) for column in columns]
    left = [gap + sum(cell[0] + gap + each for each in beside[:k]) for k in range(across + 1)]
    texts = [[Phrase(headline), *paragraphs[0]], *paragraphs[1:]]
    lines = [line for phrases in texts for line in _wrap(phrases, left[-1] - 2 * gap, font)]
    top = gap + font.line
    panels_height = len(rows) * (cell[1] + top)
    canvas = np.full((panels_height + gap + len(lines) * font.line + gap // 2, left[-1], 3), NO_VALUE, np.uint8)

    for down, row in enumerate(rows):
        y = top + down * (cell[1] + top)
        for panel, bar, x in zip(row, bars[down], left, strict=False):
            font.write(canvas, panel.title, (x, y - font.line // 2 - 2), TEXT_COLOR)
            how = cv2.INTER_AREA if shown[0] < width else cv2.INTER_NEAREST
            canvas[y : y + shown[1], x : x + shown[0]] = cv2.resize(as_rgb(panel.picture), shown, interpolation=how)
            if bar is not None:
                bar.draw(canvas, (x + shown[0] + gap, y))
    for number, line in enumerate(lines):
        x, middle = gap, panels_height + gap + number * font.line + font.line // 2
        for phrase in line:
            x = phrase.draw(canvas, (x, middle), font, bold=phrase.text == headline) + 2 * gap
    return canvas


def _shown_size(size: tuple[int, int], room: tuple[float, float]) -> tuple[int, int]:
    """Width and height at which a picture is shown: a whole multiple, its own size, or shrunk to fit."""
    scale = min(room[0] / size[0], room[1] / size[1])
    if scale >= 1:
        factor = min(math.floor(scale), math.ceil(_SMALLEST_SIDE / max(size)))
        return size[0] * factor, size[1] * factor
    return max(round(size[0] * scale), 1), max(round(size[1] * scale), 1)


def _wrap(phrases: Sequence[Phrase], room: int, font: Font) -> list[list[Phrase]]:
    """Break phrases into lines that fit the room."""
    lines: list[list[Phrase]] = []
    used = 0
    for phrase in phrases:
        length = phrase.width(font)
        if not lines or used + length > room:
            lines.append([])
            used = 0
        lines[-1].append(phrase)
        used += length + 2 * font.gap
    return lines
