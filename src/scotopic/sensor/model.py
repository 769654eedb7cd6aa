"""The noise model of a camera, from light to the values in its files, and simulated recordings."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scotopic.errors import InputError, SettingsError
from scotopic.io.masks import keep_mask
from scotopic.sensor.moments import moments
from scotopic.sensor.response import Response, check_response, record

# Above this, float32 cannot tell neighboring photon counts apart.
_MOST_PHOTONS = 1e9


@dataclass(frozen=True)
class Sensor:
    """Noise model of a camera: shot noise, read noise, black level, response, rounding and saturation.

    With clean light `level` (0 at black, 1 at white), ``count = Poisson(photons * level) + N(0, read_noise^2)`` and
    ``value = black + gain * count``. The value passes the response, is rounded to `steps`, and is clipped to `floor`
    and `white`. Values are fractions of the full scale of the file format.

    Parameters
    ----------
    photons
        Detected photons (electrons) per pixel and channel between black and white: the paper's alpha.
    read_noise
        Standard deviation of the noise that does not depend on the signal, in photons: the paper's sigma.
    black
        Recorded value without light, as a fraction of full scale.
    white
        Value at which the sensor saturates, as a fraction of full scale.
    floor
        Lowest value that can be recorded: 0, or below 0 if the black level was subtracted from the values.
    steps
        Quantization steps from 0 to full scale: ``2 ** bits - 1``, or the count at full scale for a photon-counting
        sensor. ``None`` if values are not rounded.
    frames
        Number of recorded frames that were averaged.
    response
        ``"linear"``, ``"srgb"``, or a gamma (``recorded = light ** (1 / gamma)``).
    source
        Where these numbers come from, in words, for the report.

    Examples
    --------
    >>> sensor = Sensor.paper()
    >>> [round(float(value), 2) for value in sensor.mean([0.0, 1.0])]
    [0.31, 0.65]
    >>> [round(float(value) ** 0.5, 2) for value in sensor.noise_variance([0.0, 1.0])]
    [0.41, 0.44]
    """

    photons: float
    read_noise: float
    black: float = 0.0
    white: float = 1.0
    floor: float = 0.0
    steps: float | None = None
    frames: int = 1
    response: Response = "linear"
    source: str = dataclasses.field(default="given", compare=False)

    def __post_init__(self) -> None:
        for name in ("photons", "read_noise", "black", "white", "floor", "steps", "frames"):
            value: Any = getattr(self, name)
            is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
            if not is_number and not (name == "steps" and value is None):
                raise SettingsError(f"{name} must be a number, not {value!r}.")
        if not 0 < self.photons <= _MOST_PHOTONS:
            raise SettingsError(f"photons must be above 0 and at most 1e9, not {self.photons}.")
        if not (self.read_noise >= 0 and math.isfinite(self.read_noise)):
            raise SettingsError(f"read_noise must be a finite number of photons, 0 or more, not {self.read_noise}.")
        if not (self.floor <= self.black < self.white and math.isfinite(self.white - self.floor)):
            raise SettingsError(
                f"The levels must satisfy floor <= black < white, as fractions of full scale. They are {self.floor}, "
                f"{self.black} and {self.white}."
            )
        if self.steps is not None and not 0 < self.steps < math.inf:
            raise SettingsError(f"steps must be above 0 (2 ** bits - 1 for a converter), or None, not {self.steps}.")
        if not (self.frames >= 1 and math.isfinite(self.frames) and self.frames == int(self.frames)):
            raise SettingsError(f"frames must be a whole number, 1 or more, not {self.frames!r}.")
        check_response(self.response)

    @property
    def gain(self) -> float:
        """Recorded value (fraction of full scale) per photon."""
        return (self.white - self.black) / self.photons

    @property
    def bits(self) -> float | None:
        """Bit depth that holds the quantization steps; None if values are not rounded."""
        return None if self.steps is None else math.log2(self.steps + 1)

    @property
    def variance_line(self) -> tuple[float, float]:
        """``(a, b)`` of ``variance = a * (value - black) + b``: valid without clipping, for a linear response."""
        rounding = 0.0 if self.steps is None else 1 / (12 * self.steps**2)
        return self.gain / self.frames, ((self.gain * self.read_noise) ** 2 + rounding) / self.frames

    @classmethod
    def paper(cls, photons: float = 2.0, read_noise: float = 2.0) -> Sensor:
        """Return the sensor of the paper's experiments: it counts photons and saturates at `photons` of them.

        With the defaults a channel has the three levels 0, 0.5 and 1 (Wang et al. 2026).
        """
        return cls(photons, read_noise, steps=photons, source="the paper's protocol")

    @classmethod
    def from_data_sheet(
        cls,
        gain: float,
        read_noise: float,
        bits: int,
        black_level: float = 0.0,
        white_level: float | None = None,
        full_scale: float | None = None,
    ) -> Sensor:
        """Return the sensor that a data sheet or a photon transfer curve describes.

        Parameters
        ----------
        gain
            DN (recorded numbers) per electron: one over the "e-/DN" or "e-/ADU" of a data sheet.
        read_noise
            Read noise in electrons.
        bits
            Bit depth of the analog-to-digital converter.
        black_level, white_level
            Black and saturation level in DN; white is ``2 ** bits - 1`` by default.
        full_scale
            The DN that becomes 1.0: ``2 ** bits - 1`` by default, 65535 for unscaled 12-bit numbers in a 16-bit file.
        """
        if not 0 < gain < math.inf:
            raise SettingsError(f"gain must be above 0, in DN per electron (one over e-/DN), not {gain}.")
        if not 1 <= bits <= 32:
            raise SettingsError(f"bits must be 1 to 32, the bit depth of the converter, not {bits}.")
        top = 2.0**bits - 1
        scale, white = (top if level is None else level for level in (full_scale, white_level))
        if not 0 < scale < math.inf:
            raise SettingsError(f"full_scale must be above 0, the number that becomes 1.0, not {scale}.")
        return cls(
            photons=(white - black_level) / gain,
            read_noise=read_noise,
            black=black_level / scale,
            white=white / scale,
            steps=scale,
            source="a data sheet",
        )

    @classmethod
    def estimate(
        cls, image: Any, other: Any = None, *, black: float = 0.0, white: float = 1.0, response: Response = "linear"
    ) -> Sensor:
        """Estimate the noise from an image or a pair. See :func:`~scotopic.sensor.estimate.estimate_sensor`."""
        from scotopic.sensor.estimate import estimate_sensor

        return estimate_sensor(image, other, black=black, white=white, response=response)

    @classmethod
    def from_flat_fields(
        cls, exposures: Sequence[Any], dark: Any = None, *, black: float | None = None, white: float | None = None
    ) -> Sensor:
        """Measure the noise from flat fields. See :func:`~scotopic.sensor.flat_fields.photon_transfer`."""
        from scotopic.sensor.flat_fields import photon_transfer

        return photon_transfer(exposures, dark, black=black, white=white).sensor

    @classmethod
    def from_dng(cls, path: str | os.PathLike[str], channel: int | None = None) -> Sensor:
        """Read the noise profile of a DNG file. See :func:`~scotopic.sensor.raw.read_dng_sensor`."""
        from scotopic.sensor.raw import read_dng_sensor

        sensor = read_dng_sensor(path, channel)
        if sensor is None:
            raise InputError(
                f"{os.fspath(path)!r} has no noise profile (DNG tag NoiseProfile). Use Sensor.from_flat_fields or "
                "Sensor.estimate instead."
            )
        return sensor

    def mean(self, level: ArrayLike) -> NDArray[np.float64]:
        """Return the mean recorded value at clean levels, with clipping and rounding."""
        return moments(self, _as_levels(level))[0]

    def noise_variance(self, level: ArrayLike) -> NDArray[np.float64]:
        """Return the variance of the recorded value at clean levels, with clipping and rounding.

        Without clipping this is :attr:`variance_line`; with a handful of photons it is far below that line.
        """
        return moments(self, _as_levels(level))[1]

    def simulate(self, clean: NDArray[np.floating], seed: int | np.random.SeedSequence = 0) -> NDArray[np.float32]:
        """Simulate a recording of a clean image.

        Parameters
        ----------
        clean
            Light in [0, 1], black to white, floats of any shape.
        seed
            The same seed gives the same noise.

        Returns
        -------
        ndarray of float32
            The shape of `clean`, values between `floor` and `white` (after the response). A masked array keeps its
            mask.
        """
        light = _check_clean(clean, "image")
        random = np.random.Generator(np.random.PCG64(_as_seed_sequence(seed)))
        total = np.zeros(light.shape)
        for _ in range(int(self.frames)):
            counts = random.poisson(self.photons * light) + random.normal(0.0, self.read_noise, light.shape)
            total += self._read_out(counts)
        return keep_mask((total / self.frames).astype(np.float32), clean)  # type: ignore[no-any-return]

    def averaged(self, frames: int) -> Sensor:
        """Return the sensor of the mean of this many images."""
        return dataclasses.replace(self, frames=self.frames * frames, source=f"{self.source}; mean of {frames} frames")

    def as_dict(self) -> dict[str, Any]:
        """Return all fields as plain values, for ``report.json``."""
        line = self.variance_line
        return {**dataclasses.asdict(self), "gain": self.gain, "variance_line": {"a": line[0], "b": line[1]}}

    def _read_out(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        ends = record([self.floor, self.white], self.response)
        if self.response == "linear" and self.steps is not None:
            # One product keeps the integer counts of a photon counter exact: its gain * steps is 1.
            values = np.rint(counts * (self.gain * self.steps) + self.black * self.steps) / self.steps
        else:
            values = record(np.clip(self.black + self.gain * counts, self.floor, self.white), self.response)
            if self.steps is not None:
                values = np.rint(values * self.steps) / self.steps
        return np.clip(values, ends[0], ends[1])


def simulate(
    image: NDArray[np.floating],
    photons: float = 2.0,
    read_noise: float = 2.0,
    seed: int | np.random.SeedSequence = 0,
) -> NDArray[np.float32]:
    """Simulate a recording of an image with very few photons, as in the paper's experiments (Wang et al. 2026).

    ``n = Poisson(alpha I) + N(0, sigma^2)``, clipped to [0, alpha], rounded, divided by alpha. With the paper's
    alpha = 2 and sigma = 2 a channel has three levels: 0, 0.5 and 1. The mean runs from about 0.31 (black) to 0.65
    (white) and the standard deviation is 0.41 to 0.45, so that a single pixel says almost nothing.

    Parameters
    ----------
    image : ndarray of float
        The clean image, any shape, in [0, 1].
    photons : float
        The paper's alpha: mean number of photons per pixel and channel at white, and the full scale of the sensor.
        If it is not a whole number, counts saturate at the next whole number, which is recorded as 1; the levels
        below remain count / alpha.
    read_noise : float
        The paper's sigma: standard deviation of the read noise, in photons.
    seed : int or SeedSequence
        The same seed gives the same noise.

    Returns
    -------
    ndarray of float32
        The recorded image in [0, 1], with the shape of `image`, and with its mask if it is a masked array.

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
    seed: int | np.random.SeedSequence = 0,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Simulate recordings of both views of a pair, with independent noise.

    Parameters, results and errors are those of :func:`simulate`. The same seed gives the same pair.
    """
    _check_clean(left, "left image")
    _check_clean(right, "right image")
    given = _as_seed_sequence(seed)
    # Not its spawn(), which gives others each time.
    seed_left, seed_right = (
        np.random.SeedSequence(given.entropy, spawn_key=(*given.spawn_key, view), pool_size=given.pool_size)
        for view in (0, 1)
    )
    return simulate(left, photons, read_noise, seed_left), simulate(right, photons, read_noise, seed_right)


def to_uint8(image: NDArray[np.floating]) -> NDArray[np.uint8]:
    """Convert an image in [0, 1] to 8 bits as the paper's files do: ``floor(255 I)``, so that 0.5 becomes 127.

    Values outside [0, 1] are clipped. What came from 8 bits, k/255, becomes k again. A masked array keeps its mask.

    Raises
    ------
    InputError
        `image` is not float, or has values that are not finite.
    """
    values = np.asarray(image.filled(0.0) if isinstance(image, np.ma.MaskedArray) else image)
    if values.dtype.kind != "f" or not np.isfinite(values).all():
        raise InputError("Only finite floats can be stored in 8 bits. Divide integers by full scale, and replace NaN.")
    # The float32 nearest to k/255 is never below it, so the floor of its float64 product is k.
    pixels = np.floor(np.clip(values, 0.0, 1.0).astype(np.float64) * 255.0).astype(np.uint8)
    return keep_mask(pixels, image)  # type: ignore[no-any-return]


def _check_clean(image: NDArray[np.floating], name: str) -> NDArray[np.float64]:
    """Return a clean image as float64 in [0, 1], or raise :class:`InputError` with this name."""
    values: NDArray[Any] = np.asarray(image.filled(0.0) if isinstance(image, np.ma.MaskedArray) else image)
    # Resizing may overshoot by a millionth. The comparison is False for NaN as well.
    if values.dtype.kind != "f" or not np.all((values >= -1e-6) & (values <= 1 + 1e-6)):
        span = f" from {values.min():.4g} to {values.max():.4g}" if values.dtype.kind == "f" and values.size else ""
        raise InputError(
            f"The {name} to simulate must hold floats in [0, 1], but it holds {values.dtype}{span}. Convert it with "
            "scotopic.io.as_image, and replace NaN."
        )
    return np.asarray(np.clip(values, 0.0, 1.0), np.float64)


def _as_seed_sequence(seed: int | np.random.SeedSequence) -> np.random.SeedSequence:
    if isinstance(seed, np.random.SeedSequence):
        return seed
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise SettingsError(f"seed must be a whole number, 0 or more, not {seed!r}.")
    return np.random.SeedSequence(int(seed))


def _as_levels(level: ArrayLike) -> NDArray[np.float64]:
    levels = np.asarray(level)
    if levels.dtype.kind not in "fiu" or not np.isfinite(levels).all():
        raise InputError("level must hold finite numbers: 0 is black, 1 is white.")
    return levels.astype(np.float64)
