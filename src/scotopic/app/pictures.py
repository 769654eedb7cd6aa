"""The maps of a match as pictures for the page, no larger than a screen."""

import cv2
import numpy as np
from numpy.typing import NDArray

from scotopic.colormap import NO_VALUE, Color, Rgb, as_rgb
from scotopic.io.images import encoded
from scotopic.result import Reason

LARGEST_SIDE = 1600  #: px; larger pictures are shrunk before they are sent
_ENLARGED_TO = 640  # px; small ones are enlarged without smoothing, so that a pixel stays a pixel in any browser

#: What each reason is called, and its color: those that a visitor can do something about are the bright ones.
REASONS: dict[Reason, tuple[str, Color]] = {
    Reason.OK: ("has a disparity", (68, 145, 108)),
    Reason.NO_STRUCTURE: ("no structure seen here", (48, 52, 62)),
    Reason.LEFT_RIGHT: ("the two views disagree", (196, 98, 68)),
    Reason.OUT_OF_VIEW: ("out of the other view", (104, 116, 190)),
    Reason.NO_STRUCTURE_RIGHT: ("no structure in the right view", (92, 84, 110)),
    Reason.AMBIGUOUS: ("not sure enough", (206, 172, 78)),
}


def confidence_picture(confidence: NDArray[np.floating], kept: NDArray[np.bool_]) -> Rgb:
    """Draw confidence from dark to bright; what is hidden by the mask loses its color."""
    index = (np.clip(confidence, 0, 1) * 255).round().astype(np.uint8)
    colored = np.asarray(cv2.applyColorMap(index, cv2.COLORMAP_VIRIDIS)[..., ::-1], np.uint8)
    gray = as_rgb((28 + 0.35 * index.astype(np.float32)).round().astype(np.uint8))
    return np.where(kept[..., None], colored, gray)


def reason_picture(reason: NDArray[np.uint8]) -> Rgb:
    """Draw why each pixel has a disparity or none, in the colors of :data:`REASONS`."""
    colors = np.full((256, 3), NO_VALUE, np.uint8)
    for kind, (_, color) in REASONS.items():
        colors[int(kind)] = color
    return np.asarray(colors[reason])


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
