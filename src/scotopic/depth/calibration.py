"""What turns pixels into meters: the calibration of a rectified pair, and of the cameras it was rectified from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError

Matrix = NDArray[np.float64]

#: Meters in one unit of length; what a baseline may be given in.
UNITS = {"m": 1.0, "cm": 0.01, "mm": 0.001}

# Far beyond any camera, and still small enough that no product of them leaves float32.
_MOST_PIXELS = 1e7
_MOST_METERS = 1e5


@dataclass(frozen=True, eq=False)
class Camera:
    """One camera before rectification, and how its picture is turned into the rectified one.

    Attributes
    ----------
    matrix
        ``K``, 3 x 3, px.
    distortion
        Coefficients in OpenCV's order: k1, k2, p1, p2, k3, ...
    rotation
        Into the rectified frame, 3 x 3 (OpenCV's R1 or R2).
    projection
        Of the rectified camera, 3 x 4 (OpenCV's P1 or P2); its fourth column is not used.
    """

    matrix: Matrix
    distortion: Matrix
    rotation: Matrix
    projection: Matrix


@dataclass(frozen=True, eq=False)
class Rig:
    """The two cameras as they stand; what :func:`~scotopic.depth.rectify` needs.

    Attributes
    ----------
    left, right
        The cameras.
    width, height
        Of the pictures that they take, in px; ``None`` where the file does not say.
    """

    left: Camera
    right: Camera
    width: int | None = None
    height: int | None = None


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """A rectified pair: ``Z = baseline * fx / (d + doffs)``.

    Attributes
    ----------
    fx, fy
        Focal length, px.
    cx, cy
        Principal point of the left view, px from the center of the top-left pixel.
    baseline
        Distance of the two cameras, in **meters**, whatever the file had.
    doffs
        Column of the right principal point minus that of the left, px; 0 for most rigs, not for Middlebury.
    width, height
        Size of the rectified images, px; ``None`` where unknown.
    rig
        The cameras before rectification, where known.
    source
        Where it comes from and in which unit the baseline was given, in words, for reports.

    Raises
    ------
    InputError
        A number is not finite or cannot belong to a camera.

    Examples
    --------
    >>> Calibration(fx=500.0, fy=500.0, cx=320.0, cy=240.0, baseline=0.12).resized(320, 240)
    Traceback (most recent call last):
        ...
    scotopic.errors.InputError: calibration: found no image size, expected width and height to resize from; state them
    """

    fx: float
    fy: float
    cx: float
    cy: float
    baseline: float
    doffs: float = 0.0
    width: int | None = None
    height: int | None = None
    rig: Rig | None = field(default=None, compare=False)
    source: str = field(default="given as numbers, baseline in m", compare=False)

    def __post_init__(self) -> None:
        lengths = {
            "fx": (self.fx, _MOST_PIXELS),
            "fy": (self.fy, _MOST_PIXELS),
            "baseline": (self.baseline, _MOST_METERS),
        }
        for name, (value, most) in lengths.items():
            if not 0 < value <= most:
                unit = "m" if name == "baseline" else "px"
                swapped = "; if it is negative, left and right are swapped" if value < 0 else ""
                raise InputError(
                    f"calibration: found {name} {value:g} {unit}, expected above 0 and at most {most:g}; correct it"
                    + swapped
                )
        for name, value in (("cx", self.cx), ("cy", self.cy), ("doffs", self.doffs)):
            if not abs(value) <= _MOST_PIXELS:  # also what is not a number
                raise InputError(
                    f"calibration: found {name} {value:g} px, expected at most {_MOST_PIXELS:g}; correct it"
                )
        if (self.width is None) != (self.height is None) or not all(
            side is None or 1 <= side <= _MOST_PIXELS for side in (self.width, self.height)
        ):
            raise InputError(
                f"calibration: found an image size of {self.width} x {self.height} px, expected both above 0 or none; "
                "correct it"
            )

    @property
    def q(self) -> Matrix:
        """OpenCV's ``Q``: ``[X Y Z W] = Q [x y d 1]``, for ``cv2.reprojectImageTo3D``; 4 x 4, meters."""
        aspect = self.fx / self.fy
        return np.array(
            [
                [1.0, 0.0, 0.0, -self.cx],
                [0.0, aspect, 0.0, -self.cy * aspect],
                [0.0, 0.0, 0.0, self.fx],
                [0.0, 0.0, 1.0 / self.baseline, self.doffs / self.baseline],
            ]
        )

    def resized(self, width: int, height: int) -> Calibration:
        """Return the calibration of the same images at another size.

        Parameters
        ----------
        width, height
            The new size, px. Coordinates count from the center of the first pixel, so the principal point moves by
            half a pixel's change besides being scaled; focal lengths and `doffs` are scaled.

        Raises
        ------
        InputError
            The size that it was made for is not known, or the new one is not a size.
        """
        if self.width is None or self.height is None:
            raise InputError("calibration: found no image size, expected width and height to resize from; state them")
        if min(width, height) < 1:
            raise InputError(
                f"calibration: found a new size of {width} x {height} px, expected at least 1 x 1; correct it"
            )
        across, down = width / self.width, height / self.height
        return replace(
            self,
            fx=self.fx * across,
            fy=self.fy * down,
            cx=(self.cx + 0.5) * across - 0.5,
            cy=(self.cy + 0.5) * down - 0.5,
            doffs=self.doffs * across,
            width=width,
            height=height,
            rig=None,  # of the pictures at their old size
        )

    def cropped(self, x: int, y: int, width: int, height: int, *, right_x: int | None = None) -> Calibration:
        """Return the calibration of a part of the images.

        Parameters
        ----------
        x, y
            The pixel of the left view that becomes its first.
        width, height
            Of the part, px.
        right_x
            The column of the right view that becomes its first, where it is another than `x`: every disparity then
            shrinks by ``x - right_x`` and `doffs` takes it up.

        Raises
        ------
        InputError
            The part is empty or does not lie in the image.
        """
        inside = min(x, y) >= 0 and min(width, height) >= 1
        if self.width is not None and self.height is not None:
            inside = inside and x + width <= self.width and y + height <= self.height
        if not inside:
            size = "an image of unknown size" if self.width is None else f"{self.width} x {self.height} px"
            raise InputError(
                f"calibration: found a part of {width} x {height} px at ({x}, {y}), expected one inside "
                f"{size}; correct it"
            )
        shift = 0 if right_x is None else x - right_x
        return replace(
            self, cx=self.cx - x, cy=self.cy - y, doffs=self.doffs + shift, width=width, height=height, rig=None
        )

    def for_image(self, width: int, height: int) -> Calibration:
        """Return the calibration for images of a size: itself, or scaled where they were resized as a whole.

        Raises
        ------
        InputError
            The images have other proportions than the calibration, so they were cropped or belong to something else.
        """
        if self.width is None or self.height is None:
            return replace(self, width=width, height=height)
        if (width, height) == (self.width, self.height):
            return self
        # Resizing rounds each side to whole pixels, up or down.
        if abs(width * self.height - height * self.width) > max(self.width, self.height, width, height):
            raise InputError(
                f"calibration: found one for {self.width} x {self.height} px, expected one for images of {width} x "
                f"{height} px (or the same proportions); use the file that goes with them, or crop it likewise"
            )
        return self.resized(width, height)

    def as_dict(self) -> dict[str, Any]:
        """Return what ``report.json`` says of it, units in the names."""
        return {
            "source": self.source,
            "fx_px": self.fx,
            "fy_px": self.fy,
            "cx_px": self.cx,
            "cy_px": self.cy,
            "baseline_m": self.baseline,
            "doffs_px": self.doffs,
            "width_px": self.width,
            "height_px": self.height,
            "depth_unit": "m",
        }
