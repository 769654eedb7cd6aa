"""Black and white level of a pair: which part of the range of its format the data use.

A camera of 12 bits often stores its values in files of 16, and few photons fill little of any range. The methods take 0
for black and 1 for white, so such a pair would look all black to them. Here white is lowered, in steps of a factor of
two as bits are, until at least half of the range is used. So a pair in which some pixels are brighter than half of the
format's white stays as it is, and a dark one that is multiplied by a power of two gives the same images.

Cameras add a pedestal to their values, so that noise below black is not lost: 64 of 1023, 240 of 4095. In a dark pair
it can be most of a value. A bright scene of low contrast, such as fog or snow, has no dark values either. Their noise
tells them apart: that of photons has a variance that grows with the light, ``v = g (I - black) + r``, so it would be 0
at a brightness of ``I0 = black - r / g``. Of fog that is 0 or less; of a pedestal it is near the lowest values. Black
is raised if ``I0`` is found to be there. Where noise is too weak or not white, as after a denoiser, it cannot tell:
black stays, and the user is asked. Only if all data lie within an eighth of their highest value, black is raised
whatever the reason, since else hardly any of the range would be used.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.backends.device import is_tensor, to_numpy
from scotopic.errors import SettingsError
from scotopic.io.masks import fill_masked, pixel_mask

_HOT_SHARE = 1e-5  # of the values: so many, and one more, may be brighter or darker, as hot and dead pixels are
_PEDESTAL = 8.0  # black is raised if the data span less than this fraction of their highest value
_LIFTED = 0.2  # of the highest value: if the lowest is above this, there may be a pedestal
_PATCH = 8  # px along the sides of the patches in which noise is measured
_ENOUGH_PATCHES = 100  # to measure noise by brightness
_MOST_ROWS = 100  # of patches; more say nothing new
_WHITE = 0.4  # of the variance: what halving may leave of it. Of white noise it is a quarter, of texture more than half
_CERTAIN = 4.0  # standard errors
_NEAR = 0.85  # of the lowest value: noise that vanishes above this says that there is a pedestal
_FEW_PHOTONS = 1000  # with more, pixels of unequal gain have noise that grows faster than that of photons
_LITTLE = 0.1  # of the range: using less is worth a warning
SMALLEST = 1e-30  #: brightest value that can be scaled: float32 has all its digits down to 1e-38, and so 1 / white
_MOSTLY = 0.5  # of the values: if more are cut off at the white that was given, it is too low


@dataclass(frozen=True)
class Levels:
    """The recorded values that become 0 and 1, as fractions of the format's full scale.

    Attributes
    ----------
    black, white
        The levels.
    used
        Share of the format's range that the data use; 1 if it is not known, but is more than a tenth.
    lifted
        The lowest value, if it is far above 0 and it cannot be told whether that is a pedestal; else 0.
    """

    black: float = 0.0
    white: float = 1.0
    used: float = 1.0
    lifted: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.black) and math.isfinite(self.white) and self.black < self.white):
            raise SettingsError(f"black {self.black:g} must be below white {self.white:g}. Check both levels.")

    @property
    def is_full(self) -> bool:
        """Whether the levels are those of the format, so that images stay as they are."""
        return self.black == 0 and self.white == 1

    def apply(self, image: Any) -> Any:
        """Return an image, an array or a tensor, with black at 0 and white at 1."""
        return image if self.is_full else (image - self.black) * (1 / (self.white - self.black))

    def apply_clipped(self, image: NDArray[np.float32]) -> NDArray[np.float32]:
        """As :meth:`apply`, with values above white at 1: for levels that a camera saturates at."""
        clipped: NDArray[np.float32] = np.minimum(self.apply(image), 1).astype(np.float32)
        return clipped

    def restore(self, image: Any) -> Any:
        """Return an image in recorded values, the inverse of :meth:`apply`."""
        return image if self.is_full else image * (self.white - self.black) + self.black

    def within(self, other: "Levels") -> "Levels":
        """Return these levels in values that `other` was applied to."""
        black, white = ((level - other.black) / (other.white - other.black) for level in (self.black, self.white))
        return Levels(black, white)

    @property
    def warning(self) -> str | None:
        """What to tell the user if little of the range is used, or there may be a pedestal, or ``None``."""
        told = []
        if self.used < _LITTLE:
            told.append(
                f"The images use {100 * self.used:.2g} % of the range of their format, so black was put at "
                f"{self.black:.4g} and white at {self.white:.4g} of it. Give the camera's own levels (black and "
                "white, or bits) if you know them."
            )
        if self.lifted:
            told.append(
                f"No value is below {self.lifted:.4g} of full scale, and their noise does not tell whether that is the "
                "camera's black level or the scene. Give black (--black) if the camera adds a pedestal."
            )
        return " ".join(told) or None

    def as_dict(self) -> dict[str, float]:
        """Return the levels for ``report.json``."""
        return {"black": self.black, "white": self.white}


def find_levels(*images: Any) -> Levels:
    """Estimate the levels that the images of a pair share, from their values.

    Parameters
    ----------
    *images
        Float arrays or tensors, 0 to 1 for the range of the format. What is masked is filled in as it is for a match.

    Returns
    -------
    Levels
        Those of the format if some values are above half of its white and the data do not lie on a pedestal.

    Examples
    --------
    >>> import numpy as np
    >>> ramp = np.linspace(0, 1, 10_000, dtype=np.float32)
    >>> find_levels(ramp).is_full, find_levels(ramp / 16).white
    (True, 0.0625)
    """
    images = tuple(map(_filled, images))
    if all(_is_in_range(image) for image in images):
        return Levels()
    ends = [_ends(image) for image in images]
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    if not high > max(low, SMALLEST):  # of one value, all below black, or of no digits: there is nothing to scale
        return Levels()
    black, lifted = 0.0, 0.0
    if low > 0 and (high - low) * _PEDESTAL < high:
        black = low
    elif low > _LIFTED * high:
        found = _find_pedestal(images, low)
        black = found or 0.0
        lifted = low if found is None and high <= 0.5 else 0.0  # a pedestal is a small part of the camera's range
    used = min(high - max(low, 0.0), 1.0)
    if black == 0 and high > 0.5:
        return Levels(used=used)
    mantissa, exponent = math.frexp(high - black)
    return Levels(black, black + math.ldexp(1.0, exponent if mantissa > 0.5 else exponent - 1), used, lifted)


def given_levels(black: float | None, white: float | None, bits: int | None, dtype: np.dtype[Any]) -> Levels | None:
    """Return the levels that a user gives in the units of the file, or ``None`` if none is given.

    Parameters
    ----------
    black, white
        Values as stored in the file.
    bits
        Bits that the camera uses: white is ``2 ** bits - 1``.
    dtype
        Of the values in the file; its largest value is the full scale, 1 for floats.

    Raises
    ------
    SettingsError
        `bits` and `white` are both given, or the levels make no sense.
    """
    if black is None and white is None and bits is None:
        return None
    full_scale = None if dtype.kind == "f" else int(np.iinfo(dtype).max)
    if bits is not None:
        if white is not None:
            raise SettingsError("white and bits both say which value is white. Leave one of them out.")
        if full_scale is None or not 1 <= bits <= 16 or 2**bits - 1 > full_scale:
            most = "an image of floats has none" if full_scale is None else f"the file has {full_scale.bit_length()}"
            raise SettingsError(f"bits={bits} does not fit: {most}. Give white instead, or another number of bits.")
        white = 2**bits - 1
    scale = float(full_scale or 1)
    stored = Levels(black or 0.0, scale if white is None else white)  # so that errors have the units of the file
    return Levels(stored.black / scale, stored.white / scale)


def warn_of_given_levels(*images: Any) -> str | None:
    """Return what to tell the user if levels that were given do not fit images with black at 0 and white at 1.

    That is if they use little of that range, lie above it mostly, where values are cut off, or below it altogether.
    """
    if (too_low := warn_of_given_white(*images, more=" or more bits, or leave them out")) is not None:
        return too_low
    images = tuple(map(_filled, images))
    if max(float(image.max()) for image in images) <= 0:
        return "No value of the images is above the black given, so nothing is seen. Give a lower one, or leave it out."
    used = find_levels(*images).used
    if used >= _LITTLE:
        return None
    return (
        f"The images use {100 * used:.2g} % of the range between the levels given, where little can be told apart. "
        "Give levels nearer to their values, or leave them out."
    )


def warn_of_given_white(*images: Any, more: str = "") -> str | None:
    """Return what to tell the user if most of a view lies above the white that was given, where values are cut off."""
    white = max(float((_filled(image) >= 1).mean()) for image in images)
    if white <= _MOSTLY:
        return None
    return (
        f"{100 * white:.0f} % of the values of a view are not below the white given, where nothing can be told apart. "
        f"Give a higher white{more}."
    )


def warn_of_little_light(*images: Any) -> str | None:
    """Return what to tell the user if clean images are to be made dark that use little of their range."""
    used = find_levels(*images).used
    if used >= _LITTLE:
        return None
    return (
        f"The images use {100 * used:.2g} % of the range of their format. Photons are counted at its white, so the "
        "brightest of their pixels get no more than that share of them. Divide the images by their own white, or ask "
        "for more photons."
    )


def _filled(image: Any) -> Any:
    mask = pixel_mask(image)
    return image if mask is None else fill_masked(np.ma.getdata(image), mask)


def _is_in_range(image: Any) -> bool:
    """Whether an image is both darker and brighter than could be scaled, which is quick to say of most."""
    most = _left_out(image)
    return _count(image > 0.5) > most and _count(image < _LIFTED * 0.5) > most


def _count(marks: Any) -> int:
    return int(marks.sum() if is_tensor(marks) else np.count_nonzero(marks))  # of which the second is faster in NumPy


def _left_out(image: Any) -> int:
    """Return how many values may be brighter, or darker, than what is taken for the ends of the range."""
    count = int(math.prod(image.shape))
    return min(1 + int(count * _HOT_SHARE), (count - 1) // 100)  # of very small images none


def _ends(image: Any) -> tuple[float, float]:
    """Return the lowest and the highest value, hot and dead pixels left out."""
    values, rest = image.reshape(-1), _left_out(image)
    if is_tensor(values):
        return float(values.topk(rest + 1, largest=False)[0][-1]), float(values.topk(rest + 1)[0][-1])
    split = np.partition(values, (rest, values.size - 1 - rest))
    return float(split[rest]), float(split[values.size - 1 - rest])


def _find_pedestal(images: Sequence[Any], low: float) -> float | None:
    """Return the black level that noise tells of: near the lowest value, or 0; ``None`` if noise cannot tell."""
    measured = [_measure_noise(np.asarray(image)) for image in to_numpy(*images)]
    means, fine, coarse = (np.concatenate(each) for each in zip(*measured, strict=True))
    if means.size < _ENOUGH_PATCHES:
        return None
    order, quarter = np.argsort(means), means.size // 4
    dark, bright = order[:quarter], order[-quarter:]
    # Medians, because some patches have edges.
    (dark_noise, bright_noise), (dark_error, bright_error) = zip(*map(_median, (fine[dark], fine[bright])), strict=True)
    rise = bright_noise - dark_noise
    if rise <= _CERTAIN * math.hypot(dark_error, bright_error) or np.median(coarse[bright]) > _WHITE * bright_noise:
        return None
    darker, step = float(means[dark].mean()), float(means[bright].mean() - means[dark].mean())
    without_noise = darker - step * dark_noise / rise
    # By the error of the ratio of the two.
    error = step / rise**2 * math.hypot(bright_noise * dark_error, dark_noise * bright_error)
    photons = (float(means[bright].mean()) - without_noise) * step / rise
    if without_noise - _CERTAIN * error > _NEAR * low and photons < _FEW_PHOTONS:
        return float(max(low, min(without_noise, darker)))
    return 0.0 if without_noise + _CERTAIN * error < 0.5 * low else None


def _median(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the median and its standard error."""
    return float(np.median(values)), 1.25 * float(values.std()) / math.sqrt(values.size)


def _measure_noise(image: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and variance of the noise of patches, and the variance again at half size.

    Noise is what is left of 2 x 2 pixels without their mean and gradient: ``(a - b - c + d) / 2``.
    """
    rows, columns = image.shape[0] // _PATCH, image.shape[1] // _PATCH
    step = -(-rows // _MOST_ROWS) if rows else 1
    bands = image[: rows * _PATCH, : columns * _PATCH].reshape(rows, _PATCH, columns * _PATCH, -1)[::step]
    values = bands.reshape(-1, columns * _PATCH, bands.shape[-1]).astype(np.float64)
    halved, details = _halve(values)
    quartered, coarse = _halve(halved)
    return (
        _patch_means(quartered, _PATCH // 4),
        _patch_means(details**2, _PATCH // 2),
        _patch_means(coarse**2, _PATCH // 4),
    )


def _halve(image: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return an image at half size, and the diagonal details that it has lost, with the variance of white noise."""
    a, b, c, d = image[::2, ::2], image[::2, 1::2], image[1::2, ::2], image[1::2, 1::2]
    return (a + b + c + d) / 4, (a - b - c + d) / 2


def _patch_means(values: NDArray[np.float64], side: int) -> NDArray[np.float64]:
    height, width, channels = values.shape
    parts = values.reshape(height // side, side, width // side, side, channels)
    return np.asarray(parts.mean(axis=(1, 3)).ravel())
