"""The noise of the paper's experiments (METHOD.md section 6).

``n = Poisson(alpha I) + N(0, sigma^2)``, clipped to [0, alpha], rounded, divided by alpha. At the paper's alpha = 2 and
sigma = 2 a channel has three levels: 0, 0.5 and 1. Its mean response runs from about 0.31 (black) to 0.65 (white), its
standard deviation is 0.41 to 0.45: every pixel is nearly a coin toss.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError, SettingsError
from scotopic.sensor.model import Sensor


def simulate(
    image: NDArray[np.floating],
    photons: float = 2.0,
    read_noise: float = 2.0,
    seed: int | np.random.SeedSequence = 0,
) -> NDArray[np.float32]:
    """Simulate how a sensor records an image by very few photons.

    Parameters
    ----------
    image : ndarray of float
        The clean image, any shape, in [0, 1].
    photons : float
        The paper's alpha: mean number of photons per pixel and channel at white, and the full scale of the sensor.
        If it is not a whole number, counts saturate at the next whole number, and that top level is recorded as 1;
        the levels below remain count / alpha.
    read_noise : float
        The paper's sigma: standard deviation of the read noise, in photons.
    seed : int or SeedSequence
        The same seed gives the same noise.

    Returns
    -------
    ndarray of float32
        The recorded image in [0, 1], of the shape of `image`. At the defaults its values are 0, 0.5 and 1, with a mean
        of about 0.31 where `image` is 0, 0.65 where it is 1.

    Raises
    ------
    InputError
        `image` is not float, or leaves [0, 1].
    SettingsError
        `photons` is not above 0, `read_noise` is negative, or `seed` is not a seed.
    """
    return Sensor.paper(photons, read_noise).simulate(image, seed)


def simulate_pair(
    left: NDArray[np.floating],
    right: NDArray[np.floating],
    photons: float = 2.0,
    read_noise: float = 2.0,
    seed: int = 0,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Simulate both views of a pair, each with noise of its own.

    Parameters
    ----------
    left, right : ndarray of float
        The clean views in [0, 1].
    photons, read_noise
        As for :func:`simulate`.
    seed : int
        The same seed gives the same pair; the noise of the two views is independent.

    Returns
    -------
    left, right : ndarray of float32
        The recorded views.

    Raises
    ------
    InputError, SettingsError
        As for :func:`simulate`.
    """
    check_clean(left, "left image")  # here, where it is known which of the two it is
    check_clean(right, "right image")
    seed_left, seed_right = as_seeds(seed).spawn(2)
    return simulate(left, photons, read_noise, seed_left), simulate(right, photons, read_noise, seed_right)


def to_uint8(image: NDArray[np.floating]) -> NDArray[np.uint8]:
    """Store an image in 8 bits as the paper's files do: ``floor(255 I)``, so that the level 0.5 becomes 127.

    Not rounded, which would give 128. What came from 8 bits, k/255, becomes k again.

    Parameters
    ----------
    image : ndarray of float
        In [0, 1]; values outside are clipped.

    Returns
    -------
    ndarray of uint8
        Of the shape of `image`.

    Raises
    ------
    InputError
        `image` is not float, or has values that are not finite.
    """
    values = np.asarray(image)
    if values.dtype.kind != "f" or not np.isfinite(values).all():
        raise InputError(
            f"image to store in 8 bits: found {_describe(values)}, expected finite floats in [0, 1]; "
            "divide integers by their full scale and replace NaN"
        )
    # The float32 next to k/255 is never below it, so the floor of its float64 product is k, as promised.
    return np.floor(np.clip(values, 0.0, 1.0).astype(np.float64) * 255.0).astype(np.uint8)


def check_clean(image: NDArray[np.floating], name: str) -> NDArray[np.float64]:
    """Return an image to simulate as float64 in [0, 1], or refuse it by this name."""
    values = np.asarray(image)
    # A millionth beyond is rounding of whoever resized the image; the comparison is False for NaN as well.
    if values.dtype.kind != "f" or not np.all((values >= -1e-6) & (values <= 1 + 1e-6)):
        raise InputError(
            f"{name} to simulate: found {_describe(values)}, expected floats in [0, 1]; "
            "divide by full scale or use scotopic.io.as_image, and replace NaN"
        )
    return np.clip(values, 0.0, 1.0).astype(np.float64)


def _describe(values: NDArray[Any]) -> str:
    if values.dtype.kind != "f" or values.size == 0:
        return f"values of type {values.dtype}"
    return f"{values.dtype} from {values.min():.4g} to {values.max():.4g}"


def as_seeds(seed: int | np.random.SeedSequence) -> np.random.SeedSequence:
    """Return a seed sequence from a seed, or refuse what is none."""
    if isinstance(seed, np.random.SeedSequence):
        return seed
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise SettingsError(f"seed: found {seed!r}, expected a whole number from 0 on; try 0")
    return np.random.SeedSequence(int(seed))
