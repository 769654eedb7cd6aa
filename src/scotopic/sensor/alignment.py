"""Global shifts between the frames of a burst, found in the dark.

Phase correlation gives every frequency the same say, and at a few photons nearly all of them are noise. Here frames are
blurred first, so that only what survives the noise has a say, and each frame is correlated with the mean of all the
others, aligned as well as is known so far: its noise is lower by the number of frames. The others only: a frame's own
noise, in the mean as well, would correlate best where the frame already stands.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError, SettingsError

Floats = NDArray[np.float64]

_BLURS = (6.0, 3.0, 2.0, 1.5, 1.5)  # px, of each round: coarse structure first, which no noise hides
_FINE = 8  # the correlation is computed at so many points per pixel around its peak


def estimate_shifts(images: Sequence[NDArray[np.floating]], max_shift: float = 16.0) -> Floats:
    """Return how far each image is shifted from the first one, ``(dx, dy)`` in px.

    Parameters
    ----------
    images
        ``H x W`` or ``H x W x C``, all of one size.
    max_shift
        Largest shift between any image and the first; a quarter of the image at most.

    Returns
    -------
    ndarray of float64
        ``(images, 2)``: what is at ``(x, y)`` in the first image is at ``(x + dx, y + dy)`` in this one.

    Raises
    ------
    InputError
        Images of different sizes.
    SettingsError
        `max_shift` is negative or too large.
    """
    gray = [np.asarray(image, np.float64) for image in images]
    gray = [image.mean(axis=2) if image.ndim == 3 else image for image in gray]
    if not gray or any(image.ndim != 2 or image.shape != gray[0].shape for image in gray):
        raise InputError("frames to align: found different shapes or none, expected images of one size; crop them")
    height, width = gray[0].shape
    if not 0 <= max_shift <= min(height, width) / 4:
        raise SettingsError(
            f"max_shift: found {max_shift:g} px for frames of {width} x {height} px, expected 0 to a quarter of the "
            "smaller side; lower it"
        )
    shifts = np.zeros((len(gray), 2))
    if len(gray) == 1 or max_shift == 0:
        return shifts
    window = np.outer(*(np.hanning(size + 2)[1:-1] for size in (height, width)))
    y, x = np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None, :]
    for turn, blur in enumerate(_BLURS):
        # Moved by whole pixels before the window is laid over them: else it would draw all shifts toward zero.
        whole = np.rint(shifts)
        spectra = np.stack([_spectrum(image, dx, dy, window) for image, (dx, dy) in zip(gray, whole, strict=True)])
        # Blurred twice over: once for what is looked for, once as a filter against the noise that it is looked for in.
        weight = np.exp(-4 * np.pi**2 * blur**2 * (x**2 + y**2))
        rest = (shifts - whole)[:, :, None, None]
        moved = spectra * np.exp(2j * np.pi * (rest[:, 0] * x + rest[:, 1] * y))
        total = moved.sum(axis=0)
        found = np.empty_like(shifts)
        for number, spectrum in enumerate(spectra):
            # In the first round nothing is aligned yet: each against the first frame.
            template = spectra[0] if turn == 0 else total - moved[number]
            found[number] = _peak(spectrum * np.conj(template) * weight, (height, width), max_shift)
        # A frame's distance to the mean of the others is n / (n - 1) of its distance to the mean of all.
        share = 1.0 if turn == 0 else (len(gray) - 1) / len(gray)
        shifts = shifts + share * (whole + found - shifts)
        shifts = np.clip(shifts - shifts[0], -max_shift, max_shift)
    return shifts


def shifted(image: NDArray[np.float32], dx: float, dy: float) -> NDArray[np.float32]:
    """Return an image moved by ``(dx, dy)`` px; whole pixels are moved as they are, edges are repeated."""
    import cv2

    transform = np.array([[1.0, 0.0, dx], [0.0, 1.0, dy]])
    whole = float(dx).is_integer() and float(dy).is_integer()
    flags = cv2.INTER_NEAREST if whole else cv2.INTER_CUBIC
    height, width = image.shape[:2]
    moved = cv2.warpAffine(image, transform, (width, height), flags=flags, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(moved, np.float32).reshape(image.shape)


def _spectrum(image: Floats, dx: float, dy: float, window: Floats) -> NDArray[np.complex128]:
    moved = np.roll(image, (-int(dy), -int(dx)), axis=(0, 1))
    spectrum: NDArray[np.complex128] = np.fft.rfft2((moved - moved.mean()) * window)
    return spectrum


def _peak(correlation: NDArray[np.complex128], size: tuple[int, int], max_shift: float) -> tuple[float, float]:
    """Return where a correlation, given by its spectrum, is highest, within the largest shift."""
    height, width = size
    values = np.fft.irfft2(correlation, s=size)
    reach = int(max_shift)
    rows, columns = np.arange(-reach, reach + 1), np.arange(-reach, reach + 1)
    near = values[np.ix_(rows % height, columns % width)]
    row, column = (int(index) for index in np.unravel_index(int(np.argmax(near)), near.shape))
    # Between pixels the correlation is its own Fourier sum; two matrix products give it on a fine grid.
    offsets = np.arange(-_FINE, _FINE + 1) / _FINE
    y, x = rows[row] + offsets, columns[column] + offsets
    along_y = np.exp(2j * np.pi * np.outer(y, np.fft.fftfreq(height)))
    along_x = np.exp(2j * np.pi * np.outer(np.fft.rfftfreq(width), x))
    fine = (along_y @ correlation @ along_x).real
    row, column = (int(index) for index in np.unravel_index(int(np.argmax(fine)), fine.shape))
    dy, dx = y[row] + _vertex(fine[:, column], row) / _FINE, x[column] + _vertex(fine[row], column) / _FINE
    return float(dx), float(dy)


def _vertex(values: Floats, index: int) -> float:
    """Return where the parabola through a value and its neighbors has its top, relative to that value."""
    if not 0 < index < values.size - 1:
        return 0.0
    before, here, after = (float(value) for value in values[index - 1 : index + 2])
    bend = before - 2 * here + after
    return 0.0 if bend >= 0 else (before - after) / (2 * bend)
