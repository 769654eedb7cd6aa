"""One picture that explains a result at first sight: the input, the structure found in it, the disparity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scotopic.colormap import NO_VALUE, Color, Range, Rgb, as_rgb, bar_range, color_range, colorize, dim_gray, turbo
from scotopic.depth import Calibration
from scotopic.settings import MatchingSettings
from scotopic.stages.consistency import Reason
from scotopic.stages.junctions.fit import Junctions

if TYPE_CHECKING:
    from scotopic.result import Match

Picture = NDArray[np.uint8]  #: ``(H, W, 3)`` RGB, or ``(H, W)`` gray where it says so

_TEXT_COLOR: Color = (235, 236, 240)
_SMALL_PRINT: Color = (165, 170, 180)
_FACES = (0, 2)  # OpenCV's FONT_HERSHEY_SIMPLEX, and FONT_HERSHEY_DUPLEX for bold

_LARGEST = (2000, 1400)  # width and height of a preview, about
_WIDEST_VIDEO = 3840  # px of a left image and its disparity side by side: what a screen shows
_ROUND_LEADS = ((1, 2, 5), (1.5, 3, 4, 7), (1.2, 2.5, 6, 8))  # of depths on the color bar, the roundest first
_SMALLEST_CELL = (250, 120)  # room for a title, and for a few ticks of the color bar
_SMALLEST_SIDE = 320  # tiny images are enlarged until their longer side has about this many pixels
_STACK_ABOVE = 6  # panels whose row would be more than this many times as wide as high are stacked

_REASON_NAMES = {Reason.LEFT_RIGHT: "views disagree", Reason.NO_STRUCTURE_RIGHT: "no structure in right view"}


def draw_preview(match: Match, truth: NDArray[np.floating] | None = None) -> Rgb:
    """Draw a match: the left image, the structure found in it, the disparity with its color bar, the coverage.

    Colors span the 1st to the 99th percentile of the kept disparities, or the searched range if there are none. Pixels
    without a disparity show the structure in dark grays. Images too large for a screen are shrunk, tiny ones enlarged;
    wide ones are stacked instead of set side by side.

    Parameters
    ----------
    match
        The result to draw.
    truth
        ``(H, W)`` true disparity in px, NaN where unknown, drawn beside the result in the same colors.

    Returns
    -------
    (H', W', 3) uint8 RGB
        The same bytes for the same match.
    """
    first, last = _searched(match.settings.matching, match.disparity.shape[1])
    ends = match_colors(match, truth)
    background = dim_gray(match.left_colors)
    panels = [
        ("Left image, as recorded", as_picture(match.left_image)),
        ("Structure seen in it", draw_structure(match)),
        ("Disparity", colorize(match.disparity, ends, background)),
    ]
    if truth is not None:
        panels.append(("True disparity", colorize(truth, ends, background)))
    facts = [_describe(match.left_image), f"preset {match.settings.preset}", f"searched {first:.0f} to {last:.0f} px"]
    reasons = reasons_in_words(match.reason)
    left_out = [f"left out: {reasons[0]}", *reasons[1:]] if reasons else []
    return _compose(panels, f"coverage {100 * match.coverage:.1f} %", [facts, left_out], bar_range(ends))


def draw_junctions(image: NDArray[np.float32], junctions: Junctions[np.ndarray]) -> Rgb:
    """Draw a field of junctions beside the image ``(H, W, C)`` in [0, 1] that it was fitted to."""
    rows, columns, _ = junctions.parameters.shape
    panels = [("Image, as recorded", as_picture(image)), ("Structure seen in it", junctions.render())]
    side = junctions.settings.patch_size
    return _compose(panels, f"{columns} x {rows} junctions", [[_describe(image), f"patches of {side} x {side} px"]])


def draw_side_by_side(match: Match) -> Rgb:
    """Draw a frame of a video, ``(H, 2 W, 3)``: the left image as recorded, and its disparity in color beside it.

    The colors are those of :func:`searched_colors`, the same for all frames that were matched with the same settings.
    """
    left = as_rgb(as_picture(match.left_image))
    ends = color_range(None, _searched(match.settings.matching, left.shape[1]))
    return np.hstack([left, colorize(match.disparity, ends)])


def draw_video_frame(match: Match, number: int, calibration: Calibration | None = None) -> Rgb:
    """Draw a frame of a video: left image and disparity side by side, a color bar, number and coverage below.

    All frames of the same size, settings and calibration have one size and one color scale. With a calibration the bar
    is labeled in meters.

    Returns
    -------
    (H', W', 3) uint8 RGB
        Shrunk if the frames are too wide for a screen.
    """
    import cv2

    pictures = draw_side_by_side(match)
    height, width = pictures.shape[:2]
    if width > _WIDEST_VIDEO:
        height, width = max(round(height * _WIDEST_VIDEO / width), 1), _WIDEST_VIDEO
        pictures = cv2.resize(pictures, (width, height), interpolation=cv2.INTER_AREA)
    font = _Font(max(0.75, width / 1500))
    ends = searched_colors(match.settings.matching.for_width(match.disparity.shape[1]))
    inset = font.line // 3  # half a label: the first and the last one must not be cut off
    top = max(height, 3 * font.line)  # of the text; the bar has room for two labels beside the flattest pictures
    bar = _Bar(ends, top - 2 * inset, font, calibration)
    texts = [f"coverage {100 * match.coverage:.1f} %", f"frame {number}"]
    rooms = [font.width(text, bold=True) + 2 * font.gap for text in ("coverage 100.0 %", "frame 00000")]
    shape = top + font.line + font.gap // 2, max(width + font.gap // 2 + bar.width, sum(rooms)), 3
    canvas = np.full(shape, NO_VALUE, np.uint8)
    canvas[:height, :width] = pictures
    bar.draw(canvas, (width + font.gap // 2, inset))
    middle = top + (font.line + font.gap // 2) // 2
    font.write(canvas, texts[0], (font.gap // 2, middle), _TEXT_COLOR, bold=True)
    font.write(canvas, texts[1], (font.gap // 2 + rooms[0], middle), _SMALL_PRINT)
    return canvas


def searched_colors(settings: MatchingSettings) -> Range:
    """Return the disparities at the two ends of the color map where its colors span the whole searched range."""
    return bar_range(color_range(None, _searched(settings)))


def match_colors(match: Match, truth: NDArray[np.floating] | None = None) -> Range:
    """Return the color range of a match: that of its true disparity where it is known, else of its own."""
    searched = _searched(match.settings.matching, match.disparity.shape[1])
    return color_range(match.disparity if truth is None else truth, searched)


def draw_structure(match: Match, boundaries: bool = True) -> Picture:
    """Draw the colors found in the left view, their contrast stretched, and the boundaries between them."""
    # The parameters of the patches play no part in how a field looks.
    field: Junctions[np.ndarray] = Junctions(
        np.empty((0, 0, 5)), match.left_boundaries, match.left_colors, match.settings.junctions
    )
    return field.render(boundaries)


def draw_point_colors(match: Match) -> Rgb:
    """Draw the colors of a point cloud: those found in the left view, since the image itself is mostly noise."""
    return as_rgb(draw_structure(match, boundaries=False))


def _searched(settings: MatchingSettings, width: int | None = None) -> Range:
    """The first and the last candidate in px, in images of this width."""
    limits = settings if width is None else settings.for_width(width)
    return float(limits.min_disparity), float((limits.max_disparity or 0) - 1)


def as_picture(values: NDArray[np.floating]) -> Picture:
    """Return values ``(H, W)`` or ``(H, W, C)`` in [0, 1] as 8 bits, rounded and clipped; ``C = 1`` loses its axis."""
    picture: Picture = (np.clip(values, 0, 1) * 255).round().astype(np.uint8)
    return picture[..., 0] if picture.ndim == 3 and picture.shape[2] == 1 else picture


def _describe(image: NDArray[np.floating]) -> str:
    height, width, channels = image.shape
    return f"{width} x {height} px {'gray' if channels == 1 else 'RGB'}"


def reasons_in_words(reason: NDArray[np.uint8]) -> list[str]:
    """Return why pixels have no disparity, the most frequent :class:`~scotopic.Reason` first, with its share.

    Examples
    --------
    >>> reasons_in_words(np.array([[0, 1, 1, 2]], np.uint8))
    ['no structure 50.0 %', 'views disagree 25.0 %']
    """
    shares = {kind: float(np.mean(reason == kind)) for kind in Reason if kind != Reason.OK}
    present = sorted((kind for kind, share in shares.items() if share > 0), key=lambda kind: -shares[kind])
    names = {kind: _REASON_NAMES.get(kind, kind.name.lower().replace("_", " ")) for kind in present}
    return [f"{names[kind]} {100 * shares[kind]:.1f} %" for kind in present]


# --- layout ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Font:
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


class _Bar:
    """A color bar from low disparities (bottom) to high ones, labeled in px, or in meters with a calibration."""

    def __init__(self, ends: Range, height: int, font: _Font, calibration: Calibration | None = None) -> None:
        self._ends, self._height, self._font = ends, height, font
        most = max(2 * height // (3 * font.line), 2)
        self._ticks = _ticks(ends, most) if calibration is None else depth_ticks(ends, calibration, most)

    @property
    def width(self) -> int:
        """Width of the colors and the longest label, with a gap after it."""
        gap = self._font.gap
        return gap + gap // 2 + max(map(self._font.width, self._ticks), default=0) + gap

    def draw(self, canvas: Rgb, at: tuple[int, int]) -> None:
        """Draw the bar with its upper left corner at a column and a row."""
        (x, y), gap = at, self._font.gap
        canvas[y : y + self._height, x : x + gap] = turbo(np.linspace(1, 0, self._height)[:, None])
        for label, value in self._ticks.items():
            level = y + round((self._ends[1] - value) / (self._ends[1] - self._ends[0]) * (self._height - 1))
            canvas[level, x + gap : x + gap + gap // 3] = _TEXT_COLOR
            self._font.write(canvas, label, (x + gap + gap // 2, level), _TEXT_COLOR)


def _compose(
    panels: Sequence[tuple[str, Picture]], headline: str, facts: Sequence[Sequence[str]], ends: Range | None = None
) -> Rgb:
    """Set titled pictures of one size in a row, or a column if they are wide, with text below and a color bar."""
    import cv2

    height, width = panels[0][1].shape[:2]
    stacked = len(panels) * width > _STACK_ABOVE * height
    across, down = (1, len(panels)) if stacked else (len(panels), 1)
    shown = _shown_size((width, height), ((_LARGEST[0] - 200) / across, _LARGEST[1] / down))
    cell = max(shown[0], _SMALLEST_CELL[0]), max(shown[1], _SMALLEST_CELL[1])
    font = _Font(max(1.0, across * cell[0] / 1250))
    gap = font.gap

    bar = None if ends is None else _Bar(ends, cell[1], font)
    total_width = across * (cell[0] + gap) + gap + (0 if bar is None else bar.width)
    paragraphs = [[headline, *facts[0]], *facts[1:]]
    lines = [line for phrases in paragraphs for line in _wrap(phrases, total_width - 2 * gap, font)]
    top = gap + font.line
    panels_height = down * (cell[1] + top)
    total_height = panels_height + gap + len(lines) * font.line + gap // 2
    canvas = np.full((total_height, total_width, 3), NO_VALUE, np.uint8)

    for k, (title, picture) in enumerate(panels):
        x = gap + (0 if stacked else k) * (cell[0] + gap)
        y = top + (k if stacked else 0) * (cell[1] + top)
        font.write(canvas, title, (x, y - font.line // 2 - 2), _TEXT_COLOR)
        how = cv2.INTER_AREA if shown[0] < width else cv2.INTER_NEAREST
        canvas[y : y + shown[1], x : x + shown[0]] = cv2.resize(as_rgb(picture), shown, interpolation=how)
    if bar is not None:  # beside the last panel, which is a disparity map
        bar.draw(canvas, (x + cell[0] + gap, y))
    for row, line in enumerate(lines):
        x, middle = gap, panels_height + gap + row * font.line + font.line // 2
        for phrase in line:
            bold = phrase == headline
            font.write(canvas, phrase, (x, middle), _TEXT_COLOR if bold else _SMALL_PRINT, bold)
            x += font.width(phrase, bold) + 2 * gap
    return canvas


def _shown_size(size: tuple[int, int], room: tuple[float, float]) -> tuple[int, int]:
    """Width and height at which a picture is shown: a whole multiple, its own size, or shrunk to fit."""
    scale = min(room[0] / size[0], room[1] / size[1])
    if scale >= 1:
        factor = min(math.floor(scale), math.ceil(_SMALLEST_SIDE / max(size)))
        return size[0] * factor, size[1] * factor
    return max(round(size[0] * scale), 1), max(round(size[1] * scale), 1)


def _wrap(phrases: Sequence[str], room: int, font: _Font) -> list[list[str]]:
    """Break phrases into lines that fit the room."""
    lines: list[list[str]] = []
    used = 0
    for phrase in phrases:
        length = font.width(phrase, bold=True)  # a little too much for most
        if not lines or used + length > room:
            lines.append([])
            used = 0
        lines[-1].append(phrase)
        used += length + 2 * font.gap
    return lines


def _ticks(ends: Range, most: int) -> dict[str, float]:
    """Round values between the ends, 1, 2 or 5 times a power of ten apart, by label: at least two, about `most`."""
    low, high = ends
    found: dict[str, float] = {}
    for exponent in range(math.floor(math.log10(high - low)), -3, -1):
        for lead in (5, 2, 1):
            step = lead * 10.0**exponent
            multiples = range(math.ceil(low / step), math.floor(high / step) + 1)
            if len(multiples) > most and len(found) >= 2:
                return found
            found = {f"{k * step:.{max(-exponent, 0)}f} px": k * step for k in multiples}
    return found


def depth_ticks(ends: Range, calibration: Calibration, most: int) -> dict[str, float]:
    """Disparities between the ends whose depth is a round number, by label in meters: far enough apart for `most`."""
    low, high = ends
    if high + calibration.doffs <= 0:  # all at infinity
        return {}
    scale = calibration.baseline * calibration.fx
    first = math.floor(math.log10(scale / (high + calibration.doffs)))  # power of ten of the nearest depth
    decades = [10.0**exponent for exponent in range(first, first + 4)]
    found: dict[str, float] = {}
    for leads in _ROUND_LEADS:
        for depth in (lead * decade for decade in decades for lead in leads):
            disparity = scale / depth - calibration.doffs
            apart = min((abs(disparity - other) for other in found.values()), default=math.inf)
            if low <= disparity <= high and apart >= (high - low) / most:
                found[f"{depth:g} m"] = disparity
    return found
