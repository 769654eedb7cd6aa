"""Bursts: the average of many dark frames of one view, aligned by global shifts.

Phase correlation gives all frequencies the same weight, and with few photons most of them are noise. Here frames are
blurred first, so that only frequencies above the noise count. Each frame is then correlated with the mean of the
others, aligned by the estimate so far, which has far less noise than a single frame. The frame itself is left out of
that mean: its own noise would correlate best with the shift that it already has.
"""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError, SettingsError
from scotopic.io import as_image
from scotopic.io.images import as_recorded, decode_pages
from scotopic.io.masks import Mask, fill_masked, pixel_mask
from scotopic.sensor.model import Sensor
from scotopic.sensor.recording import Recording
from scotopic.subpixel import parabola_offset

Floats = NDArray[np.float64]

_BLURS = (6.0, 3.0, 2.0, 1.5, 1.5)  # px, one for each round: coarse structure first, as noise hides it least
_OVERSAMPLING = 8  # points per pixel at which the correlation is computed around its peak


def merge_burst(
    frames: Any, sensor: Sensor | None = None, *, align: bool = False, max_shift: float = 16.0
) -> Recording:
    """Average the frames of a burst.

    Parameters
    ----------
    frames
        A sequence of arrays or paths, a stack ``(frames, H, W)`` or ``(frames, H, W, 3)``, or a TIFF file of several
        pages. All of one size; values as recorded. A pixel is the mean of the frames in which it is not masked, and
        that saw it, where they are shifted.
    sensor
        Noise model of a single frame, if it is known.
    align
        Shift each frame onto the first one, by a global shift with sub-pixel precision. The shift is found even if
        single frames show nothing, from the mean of the others. The frames of both views of a pair must have been
        taken at the same moments.
    max_shift
        Largest shift to look for, in px.

    Returns
    -------
    Recording
        With the sensor of the mean (:meth:`Sensor.averaged`), which accounts for frames that clip before they are
        averaged, and with a mask of the pixels that are masked in all frames. Sub-pixel interpolation makes the noise a
        little weaker, and correlated; ``assumed`` says so.

    Raises
    ------
    InputError
        There are no frames, or they differ in size.
    """
    images, masks = _read_frames(frames)
    assumed: dict[str, Any] = {
        "kind": "burst",
        "frames": len(images),
        "values": f"mean of {len(images)} frames as recorded, over the format's full scale",
        "linearized": None,
    }
    if align:
        shifts = estimate_shifts(images, max_shift)
        nothing = np.zeros(images[0].shape[:2], np.float32)
        masks = [
            shift_image(nothing if mask is None else mask.astype(np.float32), -dx, -dy, outside=1.0) != 0
            for mask, (dx, dy) in zip(masks, shifts, strict=True)
        ]
        images = [shift_image(image, -dx, -dy) for image, (dx, dy) in zip(images, shifts, strict=True)]
        assumed["shifts_px"] = [[round(float(dx), 3), round(float(dy), 3)] for dx, dy in shifts]
        assumed["noise"] = "aligned by interpolation: a little weaker than the sensor's, and correlated"
    total, count = np.zeros(images[0].shape), np.zeros((*images[0].shape[:2], 1))
    for image, mask in zip(images, masks, strict=True):
        seen = 1.0 if mask is None else ~mask[..., None]
        total, count = total + seen * image, count + seen
    unseen = count[..., 0] == 0
    merged = (np.where(count, total, images[0]) / np.maximum(count, 1)).astype(np.float32)
    averaged = None if sensor is None else sensor.averaged(len(images))
    return Recording(merged, averaged, assumed, unseen if unseen.any() else None)


def _read_frames(frames: Any) -> tuple[list[NDArray[np.float32]], list[Mask | None]]:
    """Return the frames of a burst as images of one size, and which of their pixels are masked."""
    if isinstance(frames, str | os.PathLike):
        shown = repr(os.fspath(frames))
        frames = [as_recorded(page, shown) for page in decode_pages(frames, several=True)]
    elif isinstance(frames, np.ndarray) and (frames.ndim not in (3, 4) or (frames.ndim == 3 and frames.shape[2] == 3)):
        # The last is one image in color: no frame is three pixels wide.
        raise InputError(f"A burst must be (frames, H, W) or (frames, H, W, 3), but it has shape {frames.shape}.")
    elif not isinstance(frames, np.ndarray | Sequence):
        raise InputError(f"A burst must be a sequence of images, not a {type(frames).__name__}.")
    images = [as_image(frame, "", title=f"Frame {number}") for number, frame in enumerate(frames)]
    if not images:
        raise InputError("The burst has no frames.")
    for number, image in enumerate(images):
        if image.shape != (first := images[0].shape):
            found = f"frame 0 has shape {first}, frame {number} has {image.shape}"
            raise InputError(f"The frames of a burst must be of one size: {found}.")
    return images, [pixel_mask(frame) for frame in frames]


@np.errstate(under="ignore")  # what is too small counts as 0, also where a program has asked NumPy to raise
def estimate_shifts(images: Sequence[NDArray[np.floating]], max_shift: float = 16.0) -> Floats:
    """Estimate the shift of each image relative to the first one, ``(dx, dy)`` in px.

    Parameters
    ----------
    images
        ``H x W`` or ``H x W x C``, all of one size. What is masked is filled from its neighbors.
    max_shift
        Largest shift between any image and the first; at most a quarter of the image.

    Returns
    -------
    ndarray of float64
        ``(images, 2)``: what is at ``(x, y)`` in the first image is at ``(x + dx, y + dy)`` in this one.

    Raises
    ------
    InputError
        The images differ in size.
    SettingsError
        `max_shift` is negative or too large.
    """
    masks = map(pixel_mask, images)
    gray = [
        np.asarray(image if mask is None else fill_masked(np.ma.getdata(image), mask), np.float64)
        for image, mask in zip(images, masks, strict=True)
    ]
    gray = [image.mean(axis=2) if image.ndim == 3 else image for image in gray]
    if not gray or any(image.ndim != 2 or image.shape != gray[0].shape for image in gray):
        raise InputError("Frames can only be aligned if there are some, all of one size.")
    height, width = gray[0].shape
    if not 0 <= max_shift <= min(height, width) / 4:
        raise SettingsError(
            f"max_shift must be from 0 px to a quarter of the smaller side of the frames, not {max_shift:g} px for "
            f"{width} x {height} px."
        )
    shifts = np.zeros((len(gray), 2))
    if len(gray) == 1 or max_shift == 0:
        return shifts
    window = np.outer(*(np.hanning(size + 2)[1:-1] for size in (height, width)))
    y, x = np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None, :]
    for turn, blur in enumerate(_BLURS):
        # Frames are shifted by whole pixels before the window is applied; otherwise it pulls all shifts toward zero.
        whole = np.rint(shifts)
        spectra = np.stack([_spectrum(image, dx, dy, window) for image, (dx, dy) in zip(gray, whole, strict=True)])
        # The blur of both factors of the correlation, hence the square of its transfer function.
        weight = np.exp(-4 * np.pi**2 * blur**2 * (x**2 + y**2))
        rest = (shifts - whole)[:, :, None, None]
        aligned = spectra * np.exp(2j * np.pi * (rest[:, 0] * x + rest[:, 1] * y))
        total = aligned.sum(axis=0)
        found = np.empty_like(shifts)
        for number, spectrum in enumerate(spectra):
            # In the first round nothing is aligned yet: compare with the first frame.
            template = spectra[0] if turn == 0 else total - aligned[number]
            found[number] = _find_peak(spectrum * np.conj(template) * weight, (height, width), max_shift)
        # The distance of a frame to the mean of the others is n / (n - 1) of its distance to the mean of all.
        share = 1.0 if turn == 0 else (len(gray) - 1) / len(gray)
        shifts = shifts + share * (whole + found - shifts)
        shifts = np.clip(shifts - shifts[0], -max_shift, max_shift)
    return shifts


def shift_image(image: NDArray[np.float32], dx: float, dy: float, outside: float | None = None) -> NDArray[np.float32]:
    """Shift an image by ``(dx, dy)`` px, by cubic interpolation if they are not whole.

    What comes from outside of it has the value `outside`; without one, edge pixels are repeated.
    """
    import cv2

    transform = np.array([[1.0, 0.0, dx], [0.0, 1.0, dy]])
    is_whole = float(dx).is_integer() and float(dy).is_integer()
    flags = cv2.INTER_NEAREST if is_whole else cv2.INTER_CUBIC
    height, width = image.shape[:2]
    border = cv2.BORDER_REPLICATE if outside is None else cv2.BORDER_CONSTANT
    moved = cv2.warpAffine(
        image, transform, (width, height), flags=flags, borderMode=border, borderValue=[outside or 0.0] * 4
    )
    return np.asarray(moved, np.float32).reshape(image.shape)


def _spectrum(image: Floats, dx: float, dy: float, window: Floats) -> NDArray[np.complex128]:
    moved = np.roll(image, (-int(dy), -int(dx)), axis=(0, 1))
    spectrum: NDArray[np.complex128] = np.fft.rfft2((moved - moved.mean()) * window)
    return spectrum


def _find_peak(correlation: NDArray[np.complex128], size: tuple[int, int], max_shift: float) -> tuple[float, float]:
    """Return the shift ``(dx, dy)``, at most `max_shift`, at which a correlation is highest; given is its spectrum."""
    height, width = size
    values = np.fft.irfft2(correlation, s=size)
    shifts = np.arange(-int(max_shift), int(max_shift) + 1)
    nearby = values[np.ix_(shifts % height, shifts % width)]
    row, column = np.unravel_index(nearby.argmax(), nearby.shape)
    # Between pixels the correlation is its own Fourier sum; two matrix products give it on a fine grid.
    offsets = np.arange(-_OVERSAMPLING, _OVERSAMPLING + 1) / _OVERSAMPLING
    y, x = shifts[row] + offsets, shifts[column] + offsets
    along_y = np.exp(2j * np.pi * np.outer(y, np.fft.fftfreq(height)))
    along_x = np.exp(2j * np.pi * np.outer(np.fft.rfftfreq(width), x))
    fine = (along_y @ correlation @ along_x).real
    row, column = np.unravel_index(fine.argmax(), fine.shape)
    dy = y[row] + _subpixel_maximum(fine[:, column], row) / _OVERSAMPLING
    dx = x[column] + _subpixel_maximum(fine[row], column) / _OVERSAMPLING
    return float(dx), float(dy)


def _subpixel_maximum(values: Floats, index: np.intp) -> float:
    return float(parabola_offset(*values[index - 1 : index + 2])) if 0 < index < values.size - 1 else 0.0
