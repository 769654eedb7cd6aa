"""One picture that a person understands at first sight: what went in, what structure was seen, what came out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scotopic.settings import MatchingSettings
from scotopic.stages.consistency import Reason
from scotopic.stages.junctions.fit import Junctions

if TYPE_CHECKING:
    from scotopic.result import Match

Picture = NDArray[np.uint8]  #: ``(H, W, 3)`` RGB, or ``(H, W)`` gray where it says so
Color = tuple[int, int, int]

_BACKGROUND: Color = (20, 22, 27)
_WORDS: Color = (235, 236, 240)
_SIDE_WORDS: Color = (165, 170, 180)

_LARGEST = (2000, 1400)  # width and height of a preview, about
_SMALLEST_CELL = (250, 120)  # room for a title, and for a few ticks of the color bar
_SMALLEST_SIDE = 320  # tiny images are enlarged until their longer side has about this many pixels
_WIDE = 6  # panels whose row would be this many times as wide as high are stacked instead

_REASON_WORDS = {Reason.LEFT_RIGHT: "views disagree", Reason.NO_STRUCTURE_RIGHT: "no structure in right view"}


def draw_preview(match: Match, truth: NDArray[np.floating] | None = None) -> Picture:
    """Draw a match: the noisy left image, the structure found in it, the disparity with its color bar, the coverage.

    The colors are turbo, from the 1st to the 99th percentile of the kept disparities (the searched range if there are
    none). Pixels without a disparity show the structure, dim and gray. Images too large for a screen are shrunk, tiny
    ones enlarged; wide ones are stacked rather than set side by side.

    Parameters
    ----------
    match
        The result to draw.
    truth
        ``(H, W)`` true disparity in px, NaN where unknown, to be set beside the result in the same colors.

    Returns
    -------
    (H', W', 3) uint8 RGB
        The same bytes for the same match.
    """
    # The parameters of the patches play no part in how a field looks.
    field = Junctions(np.empty((0, 0, 5)), match.left_boundaries, match.left_colors, match.settings.junctions)
    searched = match.settings.matching.for_width(match.disparity.shape[1])
    first, last = float(searched.min_disparity), float((searched.max_disparity or 0) - 1)
    colors = _color_range(match.disparity if truth is None else truth, (first, last))
    backdrop = _dimmed(match.left_colors)
    panels = [
        ("Left image, as recorded", as_picture(match.left_image)),
        ("Structure seen in it", field.render()),
        ("Disparity", _in_turbo(match.disparity, colors, backdrop)),
    ]
    if truth is not None:
        panels.append(("True disparity", _in_turbo(truth, colors, backdrop)))
    height, width, channels = match.left_image.shape
    words = [
        f"{width} x {height} px {'gray' if channels == 1 else 'RGB'}",
        f"preset {match.settings.preset}",
        f"searched {first:.0f} to {last:.0f} px",
    ]
    reasons = reasons_in_words(match.reason)
    left_out = [f"left out: {reasons[0]}", *reasons[1:]] if reasons else []
    return _compose(panels, f"coverage {100 * match.coverage:.1f} %", [words, left_out], colors)


def draw_junctions(image: NDArray[np.float32], junctions: Junctions) -> Picture:
    """Draw a field of junctions beside the image that it was fitted to.

    Parameters
    ----------
    image
        ``(H, W, C)`` float32 in [0, 1].
    junctions
        The field.

    Returns
    -------
    (H', W', 3) uint8 RGB
    """
    height, width, channels = image.shape
    rows, columns, _ = junctions.parameters.shape
    panels = [("Image, as recorded", as_picture(image)), ("Structure seen in it", junctions.render())]
    words = [
        f"{width} x {height} px {'gray' if channels == 1 else 'RGB'}",
        f"patches of {junctions.settings.patch_size} x {junctions.settings.patch_size} px",
    ]
    return _compose(panels, f"{columns} x {rows} junctions", [words])


def draw_side_by_side(match: Match) -> Picture:
    """Draw a frame of a video: the left image as recorded, and its disparity in color beside it, dark where none is.

    Parameters
    ----------
    match
        The result to draw.

    Returns
    -------
    (H, 2 W, 3) uint8 RGB
        In the colors of :func:`searched_colors`, the same for all frames that were matched alike.
    """
    left = as_picture(match.left_image)
    rgb = left if left.ndim == 3 else np.repeat(left[..., None], 3, axis=2)
    dark = np.full_like(rgb, _BACKGROUND)
    ends = searched_colors(match.settings.matching.for_width(rgb.shape[1]))
    return np.hstack([rgb, _in_turbo(match.disparity, ends, dark)])


def searched_colors(searched: MatchingSettings) -> tuple[float, float]:
    """Return the disparities at the two ends of the colors, where these span the whole range that was searched."""
    first, last = float(searched.min_disparity), float((searched.max_disparity or 0) - 1)
    return _color_range(np.empty(0), (first, last))


def as_picture(values: NDArray[np.floating]) -> Picture:
    """Return values in [0, 1] as 8 bits, rounded; a single channel loses its axis.

    Parameters
    ----------
    values
        ``(H, W)`` or ``(H, W, C)``; what lies outside [0, 1] is clipped.

    Returns
    -------
    (H, W) or (H, W, 3) uint8
    """
    picture: Picture = (np.clip(values, 0, 1) * 255).round().astype(np.uint8)
    return picture[..., 0] if picture.ndim == 3 and picture.shape[2] == 1 else picture


def reasons_in_words(reason: NDArray[np.uint8]) -> list[str]:
    """Return why pixels have no disparity, the most frequent reason first, each with its share of the image.

    Parameters
    ----------
    reason
        The map of :class:`~scotopic.matching.Reason`.

    Examples
    --------
    >>> reasons_in_words(np.array([[0, 1, 1, 2]], np.uint8))
    ['no structure 50.0 %', 'views disagree 25.0 %']
    """
    shares = {kind: float(np.mean(reason == kind)) for kind in Reason if kind != Reason.OK}
    present = sorted((kind for kind, share in shares.items() if share > 0), key=lambda kind: -shares[kind])
    names = {kind: _REASON_WORDS.get(kind, kind.name.lower().replace("_", " ")) for kind in present}
    return [f"{names[kind]} {100 * shares[kind]:.1f} %" for kind in present]


# --- colors --------------------------------------------------------------------------------------------------------


def _color_range(disparity: NDArray[np.floating], searched: tuple[float, float]) -> tuple[float, float]:
    """The disparities at the ends of the color bar; at least 2 px apart, so that noise is not painted as relief."""
    kept = disparity[np.isfinite(disparity)]
    low, high = np.percentile(kept, (1, 99)).tolist() if kept.size else searched
    lacking = max(2.0 - (high - low), 0.0)
    span = high - low + lacking
    # A little beyond the values: turbo is almost black at its low end, and that would be lost on the dark backdrop.
    return low - lacking / 2 - 0.08 * span, high + lacking / 2 + 0.02 * span


def _turbo(share: NDArray[np.floating]) -> Picture:
    import cv2

    index = (np.clip(share, 0, 1) * 255).round().astype(np.uint8)
    return np.ascontiguousarray(cv2.applyColorMap(index, cv2.COLORMAP_TURBO)[..., ::-1])


def _in_turbo(disparity: NDArray[np.floating], ends: tuple[float, float], backdrop: Picture) -> Picture:
    known = np.isfinite(disparity)
    share = (np.where(known, disparity, ends[0]) - ends[0]) / (ends[1] - ends[0])
    return np.where(known[..., None], _turbo(share), backdrop)


def _dimmed(colors: NDArray[np.float32]) -> Picture:
    """The structure in dark grays: it shows where a missing pixel lies, and cannot be taken for a disparity."""
    gray = colors.mean(axis=2)
    low, high = np.percentile(gray, (0.5, 99.5))
    share = np.clip((gray - low) / max(high - low, 1e-6), 0, 1)
    return np.repeat((34 + 44 * share).round().astype(np.uint8)[..., None], 3, axis=2)


# --- layout ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Type:
    """Letters of one size, growing with the picture, so that they can be read when all of it is shown on one screen."""

    size: float

    @property
    def line(self) -> int:
        """Height of a line with its leading."""
        return round(30 * self.size)

    @property
    def gap(self) -> int:
        """Space between panels; twice as much between phrases."""
        return round(18 * self.size)

    def width(self, text: str, bold: bool = False) -> int:
        """Width of a text in px."""
        import cv2

        return int(cv2.getTextSize(text, _font(bold), 0.62 * self.size, 1)[0][0])

    def write(self, canvas: Picture, text: str, at: tuple[int, int], color: Color, bold: bool = False) -> None:
        """Write a text whose capital letters are centered on a height and begin at a column."""
        import cv2

        x, middle = at
        baseline = middle + round(7 * self.size)
        cv2.putText(canvas, text, (x, baseline), _font(bold), 0.62 * self.size, color, 1, cv2.LINE_AA)


def _font(bold: bool) -> int:
    import cv2

    return int(cv2.FONT_HERSHEY_DUPLEX if bold else cv2.FONT_HERSHEY_SIMPLEX)


def _compose(
    panels: Sequence[tuple[str, Picture]],
    headline: str,
    words: Sequence[Sequence[str]],
    ends: tuple[float, float] | None = None,
) -> Picture:
    """Set titled pictures of one size in a row, or a column if they are wide, with words below and a color bar."""
    height, width = panels[0][1].shape[:2]
    stacked = len(panels) * width > _WIDE * height
    across, down = (1, len(panels)) if stacked else (len(panels), 1)
    room = (_LARGEST[0] - 200) / across, _LARGEST[1] / down
    shown = _shown_size((width, height), room)
    cell = max(shown[0], _SMALLEST_CELL[0]), max(shown[1], _SMALLEST_CELL[1])
    letters = _Type(max(1.0, across * cell[0] / 1250))
    gap = letters.gap

    ticks = {} if ends is None else _ticks(ends, most=2 * cell[1] // (3 * letters.line))
    side = 0 if ends is None else gap + gap // 2 + max(map(letters.width, ticks)) + gap
    total_width = across * (cell[0] + gap) + gap + side
    paragraphs = [[headline, *words[0]], *words[1:]]
    lines = [line for phrases in paragraphs for line in _wrapped(phrases, total_width - 2 * gap, letters)]
    top = gap + letters.line
    panels_height = down * (cell[1] + top)
    total_height = panels_height + gap + len(lines) * letters.line + gap // 2
    canvas = np.full((total_height, total_width, 3), _BACKGROUND, np.uint8)

    for k, (title, picture) in enumerate(panels):
        x = gap + (0 if stacked else k) * (cell[0] + gap)
        y = top + (k if stacked else 0) * (cell[1] + top)
        letters.write(canvas, title, (x, y - letters.line // 2 - 2), _WORDS)
        canvas[y : y + shown[1], x : x + shown[0]] = _resized(picture, shown)
    if ends is not None:  # the last panel is a disparity map
        _draw_bar(canvas, (x + cell[0] + gap, y), (gap, cell[1]), ends, ticks, letters)
    _write_lines(canvas, lines, (gap, panels_height + gap), letters, headline)
    return canvas


def _shown_size(size: tuple[int, int], room: tuple[float, float]) -> tuple[int, int]:
    """Width and height at which a picture is shown: a whole multiple, its own size, or shrunk to fit."""
    scale = min(room[0] / size[0], room[1] / size[1])
    if scale >= 1:
        factor = min(math.floor(scale), math.ceil(_SMALLEST_SIDE / max(size)))
        return size[0] * factor, size[1] * factor
    return max(round(size[0] * scale), 1), max(round(size[1] * scale), 1)


def _resized(picture: Picture, size: tuple[int, int]) -> NDArray[Any]:
    import cv2

    smaller = size[0] < picture.shape[1]
    rgb = picture if picture.ndim == 3 else np.repeat(picture[..., None], 3, axis=2)
    return np.asarray(cv2.resize(rgb, size, interpolation=cv2.INTER_AREA if smaller else cv2.INTER_NEAREST))


def _write_lines(
    canvas: Picture, lines: Sequence[Sequence[str]], corner: tuple[int, int], letters: _Type, headline: str
) -> None:
    for row, line in enumerate(lines):
        x, middle = corner[0], corner[1] + row * letters.line + letters.line // 2
        for phrase in line:
            bold = phrase == headline
            letters.write(canvas, phrase, (x, middle), _WORDS if bold else _SIDE_WORDS, bold)
            x += letters.width(phrase, bold) + 2 * letters.gap


def _wrapped(phrases: Sequence[str], room: int, letters: _Type) -> list[list[str]]:
    """Phrases in lines that fit the room."""
    lines: list[list[str]] = []
    used = 0
    for phrase in phrases:
        length = letters.width(phrase, bold=True)  # a little too much for most
        if not lines or used + length > room:
            lines.append([])
            used = 0
        lines[-1].append(phrase)
        used += length + 2 * letters.gap
    return lines


def _ticks(ends: tuple[float, float], most: int) -> dict[str, float]:
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


def _draw_bar(
    canvas: Picture,
    corner: tuple[int, int],
    size: tuple[int, int],
    ends: tuple[float, float],
    ticks: dict[str, float],
    letters: _Type,
) -> None:
    """Draw the colors from low (bottom) to high, with ticks labeled in px."""
    x, y = corner
    width, height = size
    canvas[y : y + height, x : x + width] = _turbo(np.linspace(1, 0, height)[:, None])
    for label, value in ticks.items():
        level = y + round((ends[1] - value) / (ends[1] - ends[0]) * (height - 1))
        canvas[level, x + width : x + width + width // 3] = _WORDS
        letters.write(canvas, label, (x + width + width // 2, level), _WORDS)
