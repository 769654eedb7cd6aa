"""Bursts: many dark frames of the same view become one that is less dark."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError
from scotopic.io import as_image
from scotopic.io.pfm import plain_file_size
from scotopic.sensor.alignment import estimate_shifts, shifted
from scotopic.sensor.model import Sensor
from scotopic.sensor.recording import Recording

Image = NDArray[np.float32]


def merge_burst(
    frames: Any, sensor: Sensor | None = None, *, align: bool = False, max_shift: float = 16.0
) -> Recording:
    """Average the frames of a burst.

    Parameters
    ----------
    frames
        A sequence of arrays or paths, a stack ``(frames, H, W)`` or ``(frames, H, W, 3)``, or a TIFF file of several
        pages. All of one size; values as recorded.
    sensor
        Noise model of a single frame, if it is known.
    align
        Move each frame by a global shift, to fractions of a pixel, onto the first one. It finds the shift even where a
        frame alone shows nothing, from what the others have in common (:mod:`scotopic.sensor.alignment`). Both views of
        a pair must come from frames taken at the same moments.
    max_shift
        Largest shift that is looked for, in px.

    Returns
    -------
    Recording
        With the sensor of the mean: :meth:`Sensor.averaged`. Frames clip before they are averaged, and the sensor
        knows that. Interpolation by fractions of a pixel makes the noise a little weaker, and correlated; ``assumed``
        says so.

    Raises
    ------
    InputError
        No frames, or frames that differ in size.
    """
    images = read_burst(frames)
    assumed: dict[str, Any] = {
        "kind": "burst",
        "frames": len(images),
        "values": f"mean of {len(images)} frames as recorded, over the format's full scale",
        "linearized": None,
    }
    if align:
        shifts = estimate_shifts(images, max_shift)
        images = [shifted(image, -dx, -dy) for image, (dx, dy) in zip(images, shifts, strict=True)]
        assumed["shifts_px"] = [[round(float(dx), 3), round(float(dy), 3)] for dx, dy in shifts]
        assumed["noise"] = "aligned by interpolation: a little weaker than the sensor's, and correlated"
    total = np.zeros(images[0].shape, np.float64)
    for image in images:
        total += image
    merged = (total / len(images)).astype(np.float32)
    return Recording(merged, None if sensor is None else sensor.averaged(len(images)), assumed)


def read_burst(frames: Any) -> list[Image]:
    """Return the frames of a burst as images of one size; see :func:`merge_burst`."""
    if isinstance(frames, str | os.PathLike):
        frames = _pages(frames)
    elif isinstance(frames, np.ndarray) and frames.ndim not in (3, 4):
        raise InputError(
            f"burst: found an array of shape {frames.shape}, expected (frames, H, W) or (frames, H, W, 3); stack the "
            "frames"
        )
    elif not isinstance(frames, np.ndarray | Sequence):
        raise InputError(f"burst: found a {type(frames).__name__}, expected a sequence of images; put them into a list")
    images = [as_image(frame, f"frame {number}") for number, frame in enumerate(frames)]
    if not images:
        raise InputError("burst: found no frames, expected one or more; check the folder or the pattern")
    for number, image in enumerate(images):
        if image.shape != images[0].shape:
            raise InputError(
                f"burst: found frame {number} of shape {image.shape}, expected {images[0].shape} like frame 0; crop or "
                "leave it out"
            )
    return images


def _pages(path: str | os.PathLike[str]) -> list[NDArray[Any]]:
    """Return the pages of a TIFF file."""
    import cv2

    plain_file_size(path)
    done, pages = cv2.imreadmulti(os.fspath(path), flags=cv2.IMREAD_UNCHANGED)
    if not done or not pages:
        raise InputError(
            f"burst {os.fspath(path)!r}: found no readable pages, expected a TIFF file; check that it opens in a viewer"
        )
    return [page if page.ndim == 2 else page[:, :, ::-1] for page in pages]  # OpenCV has blue first
