"""How disparity becomes color: one color map (turbo), one rule for its range, one color for pixels without a value."""

import numpy as np
from numpy.typing import NDArray

Rgb = NDArray[np.uint8]  #: ``(H, W, 3)``
Color = tuple[int, int, int]
Range = tuple[float, float]  #: disparities in px

NO_VALUE: Color = (20, 22, 27)  #: of pixels without a disparity, where no image is shown behind them
# The color range is given some room in the map: turbo is almost black at its low end and would be lost on dark ground.
ROOM_BELOW, ROOM_ABOVE = 0.08, 0.02


def color_range(disparity: NDArray[np.floating] | None, searched: Range) -> Range:
    """Return the disparities that the colors should tell apart: the 1st to the 99th percentile of a map.

    Without a map, or where no pixel of it has a disparity, the range is `searched`, that of the search. It is at least
    2 px wide, so that noise is not painted as relief.
    """
    known = np.empty(0) if disparity is None else disparity[np.isfinite(disparity)]
    low, high = np.percentile(known, (1, 99)).tolist() if known.size else searched
    missing = max(2.0 - (high - low), 0.0)
    return low - missing / 2, high + missing / 2


def bar_range(ends: Range) -> Range:
    """Return the disparities at the two ends of the whole color map: a little beyond those of the color range."""
    span = ends[1] - ends[0]
    return ends[0] - ROOM_BELOW * span, ends[1] + ROOM_ABOVE * span


def turbo(position: NDArray[np.floating]) -> Rgb:
    """Return the colors at positions in [0, 1] along the whole map; positions beyond are clipped."""
    import cv2

    index = (np.clip(position, 0, 1) * 255).round().astype(np.uint8)
    return np.ascontiguousarray(cv2.applyColorMap(index, cv2.COLORMAP_TURBO)[..., ::-1])


def color_scale(count: int) -> Rgb:
    """Return `count` colors ``(1, count, 3)`` evenly spaced over the color range, from its low to its high end."""
    low, high = bar_range((0.0, 1.0))
    return turbo(((np.linspace(0, 1, count) - low) / (high - low))[None])


def colorize(disparity: NDArray[np.floating], ends: Range, background: Rgb | Color = NO_VALUE) -> Rgb:
    """Return a disparity map ``(H, W)`` px, not finite where there is none, in color.

    `ends` is the color range (:func:`color_range`); `background` is what pixels without a disparity show, a picture of
    the same size or one color.
    """
    known = np.isfinite(disparity)
    low, high = bar_range(ends)
    position = (np.where(known, disparity, low) - low) / (high - low)
    return np.where(known[..., None], turbo(position), np.asarray(background, np.uint8))


def dim_gray(image: NDArray[np.floating]) -> Rgb:
    """Return an image ``(H, W, C)`` in dark grays: a background that cannot be taken for a disparity."""
    gray = image.mean(axis=2)
    low, high = np.percentile(gray, (0.5, 99.5))
    share = np.clip((gray - low) / max(high - low, 1e-6), 0, 1)
    return as_rgb((34 + 44 * share).round().astype(np.uint8))


def as_rgb(picture: NDArray[np.uint8]) -> Rgb:
    """Return a gray picture ``(H, W)`` with three equal channels, a color picture as it is."""
    return picture if picture.ndim == 3 else np.repeat(picture[..., None], 3, axis=2)
