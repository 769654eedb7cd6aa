"""The maps of a match as pictures for the page, no larger than a screen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scotopic.preview import as_picture
from scotopic.result import Match, Reason
from scotopic.stages.junctions.fit import Junctions

Rgb = NDArray[np.uint8]  #: ``(H, W, 3)``
Ends = tuple[float, float]  #: the disparities at the two ends of the colors, px

LARGEST_SIDE = 1600  #: px; larger pictures are shrunk before they are sent
_ENLARGED_TO = 640  # px; small ones are enlarged without smoothing, so that a pixel stays a pixel in any browser
_HIDDEN = (30, 33, 40)

#: What each reason is called, and its color: those that a visitor can do something about are the bright ones.
REASONS: dict[Reason, tuple[str, tuple[int, int, int]]] = {
    Reason.OK: ("has a disparity", (68, 145, 108)),
    Reason.NO_STRUCTURE: ("no structure seen here", (48, 52, 62)),
    Reason.LEFT_RIGHT: ("the two views disagree", (196, 98, 68)),
    Reason.OUT_OF_VIEW: ("out of the other view", (104, 116, 190)),
    Reason.NO_STRUCTURE_RIGHT: ("no structure in the right view", (92, 84, 110)),
    Reason.AMBIGUOUS: ("not sure enough", (206, 172, 78)),
}


def color_ends(maps: Sequence[NDArray[np.floating]], searched: Ends) -> Ends:
    """Return what the colors span: the 1st to the 99th percentile of what is known, else the range searched.

    Fixed for a result, so that colors keep their meaning while the mask moves.
    """
    known = np.concatenate([each[np.isfinite(each)].ravel() for each in maps])
    low, high = np.percentile(known, (1, 99)).tolist() if known.size else searched
    lacking = max(2.0 - (high - low), 0.0)
    return low - lacking / 2, high + lacking / 2


def disparity_picture(disparity: NDArray[np.floating], ends: Ends, backdrop: NDArray[np.floating]) -> Rgb:
    """Draw disparity in turbo, over the dim grays of a backdrop where there is none."""
    known = np.isfinite(disparity)
    share = (np.where(known, disparity, ends[0]) - ends[0]) / (ends[1] - ends[0])
    # Turbo is almost black at its low end, which would be lost on the dark backdrop.
    return np.where(known[..., None], _turbo(0.08 + 0.92 * np.clip(share, 0, 1)), _dim(backdrop))


def confidence_picture(confidence: NDArray[np.floating], kept: NDArray[np.bool_]) -> Rgb:
    """Draw confidence from dark to bright; what is hidden by the mask loses its color."""
    import cv2

    index = (np.clip(confidence, 0, 1) * 255).round().astype(np.uint8)
    colored = np.asarray(cv2.applyColorMap(index, cv2.COLORMAP_VIRIDIS)[..., ::-1], np.uint8)
    gray = np.repeat((28 + 0.35 * index.astype(np.float32)).round().astype(np.uint8)[..., None], 3, axis=2)
    return np.where(kept[..., None], colored, gray)


def structure_picture(match: Match, *, boundaries: bool = True) -> Rgb:
    """Draw the colors that were seen in the left view, their contrast stretched, and the boundaries between them."""
    field = Junctions(np.empty((0, 0, 5)), match.left_boundaries, match.left_colors, match.settings.junctions)
    return _rgb(field.render(boundaries))


def reason_picture(reason: NDArray[np.uint8]) -> Rgb:
    """Draw why each pixel has a disparity or none, in the colors of :data:`REASONS`."""
    colors = np.full((256, 3), _HIDDEN, np.uint8)
    for kind, (_, color) in REASONS.items():
        colors[int(kind)] = color
    return np.asarray(colors[reason])


def image_picture(image: NDArray[np.floating]) -> Rgb:
    """Draw an image as recorded."""
    return _rgb(as_picture(image))


def bar_picture() -> Rgb:
    """Draw the colors of disparity from low to high, one row."""
    return _turbo(0.08 + 0.92 * np.linspace(0, 1, 256)[None])


def as_png(picture: NDArray[np.uint8], *, enlarge: bool = True) -> bytes:
    """Return a picture as a PNG file, of a size for a screen."""
    import cv2

    from scotopic.io.images import encoded

    height, width = picture.shape[:2]
    longest = max(height, width)
    if longest > LARGEST_SIDE:
        scale = LARGEST_SIDE / longest
        size = max(round(width * scale), 1), max(round(height * scale), 1)
        picture = np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_AREA), np.uint8)
    elif enlarge and longest < _ENLARGED_TO:
        factor = -(-_ENLARGED_TO // longest)
        picture = picture.repeat(factor, axis=0).repeat(factor, axis=1)
    blue_first = picture if picture.ndim == 2 else picture[..., ::-1]
    return encoded(".png", np.ascontiguousarray(blue_first), "picture.png")


def _turbo(share: NDArray[np.floating]) -> Rgb:
    import cv2

    index = (np.clip(share, 0, 1) * 255).round().astype(np.uint8)
    return np.ascontiguousarray(cv2.applyColorMap(index, cv2.COLORMAP_TURBO)[..., ::-1])


def _dim(colors: NDArray[np.floating]) -> Rgb:
    gray = colors.mean(axis=2)
    low, high = np.percentile(gray, (0.5, 99.5))
    share = np.clip((gray - low) / max(high - low, 1e-6), 0, 1)
    return np.repeat((30 + 40 * share).round().astype(np.uint8)[..., None], 3, axis=2)


def _rgb(picture: NDArray[np.uint8]) -> Rgb:
    return picture if picture.ndim == 3 else np.repeat(picture[..., None], 3, axis=2)
