"""The pictures of a result that the page shows, no larger than a screen."""

from collections.abc import Callable

import cv2
import numpy as np
from numpy.typing import NDArray

from scotopic.app.session import Fused, Session
from scotopic.app.work import result_of, shown_match
from scotopic.colormap import Rgb, as_rgb, color_scale, colorize, dim_gray
from scotopic.errors import InputError
from scotopic.io.images import encoded
from scotopic.preview import as_picture, draw_reasons, draw_structure, match_colors
from scotopic.result import Match

MAPS = ("image", "disparity", "confidence", "structure", "reason", "sgbm", "truth", "bar")  #: what can be drawn
LARGEST_SIDE = 1600  #: px; larger pictures are shrunk before they are sent
_ENLARGED_TO = 640  # px; small ones are enlarged without smoothing, so that a pixel stays a pixel in any browser


def draw(session: Session, kind: str) -> Rgb:
    """Draw one of :data:`MAPS` at the session's threshold, or ``"fused"`` or ``"frames"`` of a clip.

    Raises InputError if the result has no such map.
    """
    outcome, shown = result_of(session), shown_match(session)
    sgbm = None if session.sgbm is None else session.sgbm.disparity
    disparity = {"disparity": shown.disparity, "truth": outcome.truth, "sgbm": sgbm}.get(kind)
    if disparity is not None:
        return colorize(disparity, match_colors(outcome.match, outcome.truth), dim_gray(shown.left_colors))
    drawers: dict[str, Callable[[], Rgb]] = {
        "image": lambda: as_rgb(as_picture(shown.left_image)),
        "structure": lambda: as_rgb(draw_structure(shown)),
        "confidence": lambda: confidence_picture(shown.confidence, shown.mask),
        "reason": lambda: draw_reasons(shown.reason),
        **({} if outcome.fused is None else _fused_drawers(shown, outcome.fused)),
        "bar": lambda: color_scale(256),
    }
    if kind not in drawers:
        raise InputError(f"This result has no map {kind[:20]!r}. Choose one of {', '.join(MAPS)}.")
    return drawers[kind]()


def _fused_drawers(shown: Match, fused: Fused) -> dict[str, Callable[[], Rgb]]:
    """Return how to draw what only a clip has."""
    assert shown.frames is not None
    assert shown.fused_left is not None
    share, image = shown.frames / fused.frames, shown.fused_left
    everywhere = np.ones(share.shape, np.bool_)
    return {"fused": lambda: as_rgb(as_picture(image)), "frames": lambda: confidence_picture(share, everywhere)}


def confidence_picture(confidence: NDArray[np.floating], kept: NDArray[np.bool_]) -> Rgb:
    """Draw confidence from dark to bright; what is hidden by the mask loses its color."""
    index = (np.clip(confidence, 0, 1) * 255).round().astype(np.uint8)
    colored = np.asarray(cv2.applyColorMap(index, cv2.COLORMAP_VIRIDIS)[..., ::-1], np.uint8)
    gray = as_rgb((28 + 0.35 * index.astype(np.float32)).round().astype(np.uint8))
    return np.where(kept[..., None], colored, gray)


def as_png(picture: NDArray[np.uint8], *, enlarge: bool = True) -> bytes:
    """Return a picture as a PNG file, of a size for a screen."""
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
