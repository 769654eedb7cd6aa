"""Pictures that explain a result at first sight: the preview, the frames of a video, and maps as people open them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scotopic.colormap import NO_VALUE, Color, Range, Rgb, as_rgb, bar_range, color_range, colorize, dim_gray
from scotopic.depth import Calibration, depth_from_disparity
from scotopic.layout import (
    SMALL_PRINT,
    TEXT_COLOR,
    Bar,
    Font,
    Panel,
    Phrase,
    Picture,
    compose,
    depth_scale,
    disparity_scale,
    share_scale,
)
from scotopic.settings import MatchingSettings
from scotopic.stages.consistency import Reason
from scotopic.stages.junctions.fit import Junctions

if TYPE_CHECKING:
    from scotopic.result import Match

#: The color of each reason: those that a user can do something about are the bright ones.
REASON_COLORS: dict[Reason, Color] = {
    Reason.OK: (68, 145, 108),
    Reason.NO_STRUCTURE: (48, 52, 62),
    Reason.LEFT_RIGHT: (196, 98, 68),
    Reason.OUT_OF_VIEW: (104, 116, 190),
    Reason.NO_STRUCTURE_RIGHT: (92, 84, 110),
    Reason.AMBIGUOUS: (206, 172, 78),
    Reason.OCCLUDED: (142, 78, 148),
    Reason.SATURATED: (232, 224, 200),
    Reason.MASKED: (120, 120, 120),
}

_WIDEST_VIDEO = 3840  # px of a left image and its disparity side by side: what a screen shows
_REASON_NAMES = {Reason.LEFT_RIGHT: "views disagree", Reason.NO_STRUCTURE_RIGHT: "no structure in right view"}


def draw_preview(
    match: Match,
    truth: NDArray[np.floating] | None = None,
    *,
    calibration: Calibration | None = None,
    filled: bool = False,
) -> Rgb:
    """Draw a match: the left image, the structure found in it, disparity, confidence and reasons, and the coverage.

    Colors span the 1st to the 99th percentile of the kept disparities, or the searched range if there are none. Pixels
    without a disparity show the structure in dark grays. Images too large for a screen are shrunk, tiny ones enlarged;
    of wide ones there are fewer in a row.

    Parameters
    ----------
    match
        The result to draw.
    truth
        ``(H, W)`` true disparity in px, NaN where unknown, drawn beside the result in the same colors.
    calibration
        Of the pair: the depth is drawn too, in meters.
    filled
        Whether the filled disparity is drawn too.

    Returns
    -------
    (H', W', 3) uint8 RGB
        The same bytes for the same match.
    """
    first, last = _searched(match.settings.matching, match.disparity.shape[1])
    ends = match_colors(match, truth)
    background, scale = dim_gray(match.left_colors), disparity_scale(bar_range(ends))
    panels = [
        Panel("Left image, as recorded", as_picture(match.left_image)),
        *([] if match.fused_left is None else [Panel("With the light of all frames", as_picture(match.fused_left))]),
        Panel("Structure seen in it", draw_structure(match)),
        Panel("Disparity", colorize(match.disparity, ends, background), scale),
    ]
    if truth is not None:
        panels.append(Panel("True disparity", colorize(truth, ends, background), scale))
    if calibration is not None:
        panels.append(_depth_panel(depth_from_disparity(match.disparity, calibration), background))
    if filled:
        panels.append(Panel("Filled disparity", colorize(match.filled, ends, background), scale))
    panels.append(Panel("Confidence", as_picture(match.confidence), share_scale()))
    panels.append(Panel("Reasons", draw_reasons(match.reason)))
    facts = [_describe(match.left_image), f"preset {match.settings.preset}", f"searched {first:.0f} to {last:.0f} px"]
    return compose(panels, f"coverage {100 * match.coverage:.1f} %", [list(map(Phrase, facts)), _legend(match.reason)])


def draw_reasons(reason: NDArray[np.uint8]) -> Rgb:
    """Draw why each pixel has a disparity or none, in the colors of :data:`REASON_COLORS`."""
    colors = np.array([REASON_COLORS[kind] for kind in Reason], np.uint8)
    return colors[reason]


def draw_maps(match: Match, ends: Range | None = None) -> dict[str, Picture]:
    """Draw the maps of a match as pictures of its own size, by name.

    ``disparity_color`` is dark where there is no disparity; its colors span `ends` in px, or those of
    :func:`match_colors`. ``confidence`` is 255 for 1, ``mask`` 255 where there is a disparity and else 0.
    """
    mask = np.where(match.mask, np.uint8(255), np.uint8(0))
    disparity = colorize(match.disparity, match_colors(match) if ends is None else ends)
    return {"disparity_color": disparity, "confidence": as_picture(match.confidence), "mask": mask}


def draw_junctions(image: NDArray[np.float32], junctions: Junctions[np.ndarray]) -> Rgb:
    """Draw a field of junctions beside the image ``(H, W, C)`` in [0, 1] that it was fitted to."""
    rows, columns, _ = junctions.parameters.shape
    panels = [Panel("Image, as recorded", as_picture(image)), Panel("Structure seen in it", junctions.render())]
    side = junctions.settings.patch_size
    facts = [Phrase(_describe(image)), Phrase(f"patches of {side} x {side} px")]
    return compose(panels, f"{columns} x {rows} junctions", [facts])


def draw_side_by_side(match: Match) -> Rgb:
    """Draw a frame of a video, ``(H, 2 W, 3)``: the left image as recorded, and its disparity in color beside it.

    Of a fused stream ``(H, 3 W, 3)``: the fused left image, the disparity, and the confidence, white for 1. The colors
    are those of :func:`searched_colors`, the same for all frames that were matched with the same settings.
    """
    left = as_rgb(as_picture(match.left_image if match.fused_left is None else match.fused_left))
    disparity = colorize(match.disparity, searched_range(match.settings.matching, left.shape[1]))
    confidence = [] if match.fused_left is None else [as_rgb(as_picture(match.confidence))]
    return np.hstack([left, disparity, *confidence])


def searched_range(settings: MatchingSettings, width: int | None = None) -> Range:
    """Return the color range that spans the whole search, in images of this width."""
    return color_range(None, _searched(settings, width))


def draw_video_frame(match: Match, number: int, calibration: Calibration | None = None) -> Rgb:
    """Draw a frame of a video: :func:`draw_side_by_side`, a color bar, number and coverage below.

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
        pictures = np.asarray(cv2.resize(pictures, (width, height), interpolation=cv2.INTER_AREA), np.uint8)
    font = Font(max(0.75, width / 1500))
    ends = searched_colors(match.settings.matching.for_width(match.disparity.shape[1]))
    inset = font.line // 3  # half a label: the first and the last one must not be cut off
    top = max(height, 3 * font.line)  # of the text; the bar has room for two labels beside the flattest pictures
    bar = Bar(disparity_scale(ends, calibration), top - 2 * inset, font)
    texts = [f"coverage {100 * match.coverage:.1f} %", f"frame {number}"]
    longest = ["coverage 100.0 %", "frame 00000"]
    if match.frames is not None:
        texts.append(f"light of {float(match.frames.mean()):.1f} frames")
        longest.append("light of 100.0 frames")
    rooms = [font.width(text, bold=True) + 2 * font.gap for text in longest]
    shape = top + font.line + font.gap // 2, max(width + font.gap // 2 + bar.width, sum(rooms)), 3
    canvas = np.full(shape, NO_VALUE, np.uint8)
    canvas[:height, :width] = pictures
    bar.draw(canvas, (width + font.gap // 2, inset))
    middle = top + (font.line + font.gap // 2) // 2
    font.write(canvas, texts[0], (font.gap // 2, middle), TEXT_COLOR, bold=True)
    for k, text in enumerate(texts[1:], start=1):
        font.write(canvas, text, (font.gap // 2 + sum(rooms[:k]), middle), SMALL_PRINT)
    return canvas


def searched_colors(settings: MatchingSettings) -> Range:
    """Return the disparities at the two ends of the color map where its colors span the whole searched range."""
    return bar_range(searched_range(settings))


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


def sparse_in_words(match: Match) -> str:
    """Return that pixels are kept which are less sure than asked for, if so; else nothing."""
    kept = match.confidence[match.mask]
    if not kept.size or kept.min() >= np.float32(match.settings.matching.min_confidence):
        return ""
    return f"; hardly any is sure, so these are the surest, with a confidence of {kept.mean():.2f} in the mean"


def reasons_in_words(reason: NDArray[np.uint8]) -> list[str]:
    """Return why pixels have no disparity, the most frequent :class:`~scotopic.Reason` first, with its share.

    Examples
    --------
    >>> reasons_in_words(np.array([[0, 1, 1, 2]], np.uint8))
    ['no structure 50.0 %', 'views disagree 25.0 %']
    """
    return [f"{_reason_name(kind)} {100 * share:.1f} %" for kind, share in _shares(reason)]


def _shares(reason: NDArray[np.uint8]) -> list[tuple[Reason, float]]:
    """The reasons that there are for having no disparity, and their shares of the pixels, the most frequent first."""
    shares = [(kind, float(np.mean(reason == kind))) for kind in Reason if kind != Reason.OK]
    return sorted((each for each in shares if each[1] > 0), key=lambda each: -each[1])


def _reason_name(kind: Reason) -> str:
    return _REASON_NAMES.get(kind, kind.name.lower().replace("_", " "))


def _legend(reason: NDArray[np.uint8]) -> list[Phrase]:
    """The colors of :func:`draw_reasons` that occur."""
    kept = float(np.mean(reason == Reason.OK))
    entries = [Phrase(f"has a disparity {100 * kept:.1f} %", REASON_COLORS[Reason.OK])] if kept else []
    words = zip(reasons_in_words(reason), _shares(reason), strict=True)
    return [*entries, *(Phrase(text, REASON_COLORS[kind]) for text, (kind, _) in words)]


def _depth_panel(depth: NDArray[np.floating], background: Rgb) -> Panel:
    """The depth in meters, evenly spaced in color from the 1st to the 99th percentile, near ones warm as elsewhere."""
    known = depth[np.isfinite(depth)]
    near, far = np.percentile(known, (1, 99)).tolist() if known.size else (0.0, 1.0)
    missing = max(0.01 * far - (far - near), 0.0)  # noise is not painted as relief
    ends = -(far + missing / 2), -(near - missing / 2)
    low, high = bar_range(ends)
    return Panel("Depth", colorize(-depth, ends, background), depth_scale(-high, -low) if known.size else None)
