"""How the examples draw: titled pictures in rows, with text below. NumPy and OpenCV only, nothing to install."""

import argparse
from pathlib import Path

import cv2
import numpy as np

NIGHT, WORDS, GAP, LINE = (20, 22, 27), (228, 230, 236), 14, 26


def folder(about: str) -> Path:
    """Return the folder given with ``-o``, created if it is missing."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("-o", dest="folder", type=Path, default=Path("out"), help="where pictures go (default: out)")
    chosen = parser.parse_args().folder
    chosen.mkdir(parents=True, exist_ok=True)
    return chosen


def gray(values: np.ndarray, scale: int = 1) -> np.ndarray:
    """Return values in [0, 1], gray or RGB, as an RGB picture with enlarged pixels."""
    picture = (np.clip(values, 0, 1) * 255).round().astype(np.uint8).reshape(*values.shape[:2], -1)
    return np.broadcast_to(picture, (*values.shape[:2], 3)).repeat(scale, 0).repeat(scale, 1)


def colored(values: np.ndarray, low: float, high: float, colors: int = cv2.COLORMAP_TURBO) -> np.ndarray:
    """Return values between two limits in color; NaN is dark."""
    share = np.nan_to_num((values - low) / (high - low)).clip(0, 1)
    picture = cv2.applyColorMap((share * 255).astype(np.uint8), colors)[..., ::-1]
    return np.where(np.isfinite(values)[..., None], picture, np.uint8(NIGHT))


def save(path: Path, rows: list[list[tuple[str, np.ndarray]]], words: list[tuple[str, tuple[int, ...]]] = ()) -> None:
    """Write rows of ``(title, RGB picture)`` as one PNG, with colored text under them."""
    width = max(sum(picture.shape[1] + GAP for _, picture in row) for row in rows) + GAP
    strips = []
    for row in rows:
        x, height = GAP, LINE + max(picture.shape[0] for _, picture in row) + GAP
        strip = np.full((height, width, 3), NIGHT, np.uint8)
        for title, picture in row:
            _write(strip, title, x, LINE - 8, WORDS)
            strip[LINE : LINE + picture.shape[0], x : x + picture.shape[1]] = picture
            x += picture.shape[1] + GAP
        strips.append(strip)
    x = width
    for text, color in words:
        length = cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, 0.5, 1)[0][0]
        if x + length > width - GAP:  # start the next line
            x, strips = GAP, [*strips, np.full((LINE, width, 3), NIGHT, np.uint8)]
        _write(strips[-1], text, x, LINE - 10, color)
        x += length + 2 * GAP
    # 32 shades of each color look the same and halve the file.
    picture = np.vstack([np.full((GAP // 2, width, 3), NIGHT, np.uint8), *strips]) & 0xF8
    cv2.imwrite(str(path), picture[..., ::-1], [cv2.IMWRITE_PNG_COMPRESSION, 9])
    print(f"{path}: {picture.shape[1]} x {picture.shape[0]} px")


def _write(strip: np.ndarray, text: str, x: int, y: int, color: tuple[int, ...]) -> None:
    cv2.putText(strip, text, (x, y), cv2.FONT_HERSHEY_SIMPLEX, 0.5, color, 1, cv2.LINE_AA)
