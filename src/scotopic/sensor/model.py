"""The model of a camera: what it does to light before a number is written down."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scotopic.errors import InputError, SettingsError
from scotopic.sensor.moments import moments
from scotopic.sensor.response import Response, check_response, record

# Beyond this a Poisson variable is no longer a count that float32 could tell from its neighbor.
_MOST_PHOTONS = 1e9


@dataclass(frozen=True)
class Sensor:
    """Poisson light, normal read noise, black level, saturation, rounding, response; in that order.

    ``count = Poisson(photons * level) + N(0, read_noise^2)``, ``value = black + gain * count``; the value passes the
    response, is rounded to `steps`, and ends at `floor` and at `white`. Values are fractions of the format's full
    scale, as every image here is; `level` is clean light, 0 at black and 1 at white.

    Parameters
    ----------
    photons
        Detected photons (electrons) per pixel and channel that lead from black to white: the paper's alpha.
    read_noise
        Standard deviation of the noise that does not depend on light, in photons: the paper's sigma.
    black
        Recorded value without light, as a fraction of full scale.
    white
        Value at which the sensor saturates, likewise.
    floor
        Lowest value that can be recorded: 0, or below it where the black level was subtracted from the file's values.
    steps
        Rounding steps from 0 to full scale: ``2 ** bits - 1``, or the count at full scale of a sensor that counts
        photons. ``None``: not rounded.
    frames
        The image is the mean of so many frames, each recorded like this.
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
        if not 0 < self.photons <= _MOST_PHOTONS:
            raise SettingsError(f"photons: found {self.photons}, expected a number above 0 and up to 1e9; try 2")
        if not (self.read_noise >= 0 and math.isfinite(self.read_noise)):
            raise SettingsError(f"read_noise: found {self.read_noise}, expected 0 or more photons; try 2")
        ordered = self.floor <= self.black < self.white and math.isfinite(self.white - self.floor)
        if not ordered:
            raise SettingsError(
                f"sensor levels: found floor {self.floor}, black {self.black}, white {self.white}, expected floor <= "
                "black < white as fractions of full scale; divide levels by the format's largest number"
            )
        if self.steps is not None and not 0 < self.steps < math.inf:
            raise SettingsError(f"steps: found {self.steps}, expected a number above 0 or None; try 2 ** bits - 1")
        if isinstance(self.frames, bool) or self.frames != int(self.frames) or self.frames < 1:
            raise SettingsError(f"frames: found {self.frames!r}, expected a whole number from 1 on; try 1")
        check_response(self.response)

    @property
    def gain(self) -> float:
        """Recorded value (fraction of full scale) per photon."""
        return (self.white - self.black) / self.photons

    @property
    def bits(self) -> float | None:
        """Bits that hold the rounding steps; None where values are not rounded."""
        return None if self.steps is None else math.log2(self.steps + 1)

    @property
    def variance_line(self) -> tuple[float, float]:
        """``(a, b)`` of ``variance = a * (value - black) + b``: what holds where nothing is clipped or bent."""
        rounding = 0.0 if self.steps is None else 1 / (12 * self.steps**2)
        return self.gain / self.frames, ((self.gain * self.read_noise) ** 2 + rounding) / self.frames

    @classmethod
    def paper(cls, photons: float = 2.0, read_noise: float = 2.0) -> Sensor:
        """Return the sensor of the paper's experiments: it counts photons, and is full at `photons` of them.

        At the defaults a channel has the three levels 0, 0.5 and 1 (METHOD section 6).
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
        """Return a sensor from the numbers that data sheets and photon transfer curves give.

        Parameters
        ----------
        gain
            DN (recorded numbers) per electron; one over the "e-/DN" or "e-/ADU" of a data sheet.
        read_noise
            Electrons.
        bits
            Of the converter.
        black_level, white_level
            In DN; white is ``2 ** bits - 1`` by default.
        full_scale
            The DN that reads as 1.0: ``2 ** bits - 1`` by default; 65535 for 12-bit numbers stored as they are in a
            16-bit file.
        """
        if not 0 < gain < math.inf:
            raise SettingsError(f"gain: found {gain}, expected DN per electron, above 0; invert e-/DN")
        if not 1 <= bits <= 32:
            raise SettingsError(f"bits: found {bits}, expected 1 to 32; take those of the converter")
        top = 2.0**bits - 1
        scale, white = full_scale or top, top if white_level is None else white_level
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
        """Estimate the sensor from an image or a pair itself. See :func:`~scotopic.sensor.estimate.estimate_sensor`."""
        from scotopic.sensor.estimate import estimate_sensor

        return estimate_sensor(image, other, black=black, white=white, response=response)

    @classmethod
    def from_flat_fields(
        cls, exposures: Sequence[Any], dark: Any = None, *, black: float | None = None, white: float | None = None
    ) -> Sensor:
        """Measure the sensor on evenly lit frames. See :func:`~scotopic.sensor.flat_fields.photon_transfer`."""
        from scotopic.sensor.flat_fields import photon_transfer

        return photon_transfer(exposures, dark, black=black, white=white).sensor

    @classmethod
    def from_dng(cls, path: str | PathLike[str], channel: int | None = None) -> Sensor:
        """Read the sensor from a DNG file's own noise profile. See :func:`scotopic.sensor.dng.sensor_of_dng`."""
        from scotopic.sensor.dng import sensor_of_dng

        return sensor_of_dng(path, channel)

    def mean(self, level: ArrayLike) -> NDArray[np.float64]:
        """Return the mean of what is recorded at clean levels, clipping and rounding included."""
        return moments(self, _as_levels(level))[0]

    def noise_variance(self, level: ArrayLike) -> NDArray[np.float64]:
        """Return the variance of what is recorded at clean levels, clipping and rounding included.

        Where nothing is clipped this is :attr:`variance_line`; with a handful of photons it is far below it.
        """
        return moments(self, _as_levels(level))[1]

    def simulate(self, clean: NDArray[np.floating], seed: int | np.random.SeedSequence = 0) -> NDArray[np.float32]:
        """Return what the sensor records of a clean image.

        Parameters
        ----------
        clean
            Light in [0, 1], black to white, floats of any shape.
        seed
            The same seed gives the same noise.

        Returns
        -------
        ndarray of float32
            Of the shape of `clean`, between `floor` and `white` (as the response records them).
        """
        from scotopic.sensor.simulate import as_seeds, check_clean

        light = check_clean(clean, "image")
        random = np.random.Generator(np.random.PCG64(as_seeds(seed)))
        total = np.zeros(light.shape)
        for _ in range(int(self.frames)):
            counts = random.poisson(self.photons * light) + random.normal(0.0, self.read_noise, light.shape)
            total += self._recorded(counts)
        return (total / self.frames).astype(np.float32)

    def averaged(self, frames: int) -> Sensor:
        """Return the sensor whose image is the mean of so many images of this one."""
        return dataclasses.replace(self, frames=self.frames * frames, source=f"{self.source}; mean of {frames} frames")

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for ``report.json``."""
        line = self.variance_line
        return {**dataclasses.asdict(self), "gain": self.gain, "variance_line": {"a": line[0], "b": line[1]}}

    def _recorded(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        ends = record([self.floor, self.white], self.response)
        if self.response == "linear" and self.steps is not None:
            # In one product, so that a counter's whole counts stay whole: gain * steps is 1 there.
            values = np.rint(counts * (self.gain * self.steps) + self.black * self.steps) / self.steps
        else:
            values = record(np.clip(self.black + self.gain * counts, self.floor, self.white), self.response)
            if self.steps is not None:
                values = np.rint(values * self.steps) / self.steps
        return np.clip(values, ends[0], ends[1])


def _as_levels(level: ArrayLike) -> NDArray[np.float64]:
    levels = np.asarray(level)
    if levels.dtype.kind not in "fiu" or not np.isfinite(levels).all():
        raise InputError(f"level: found {levels.dtype} values, expected finite numbers, 0 at black and 1 at white")
    return levels.astype(np.float64)
