"""A calibrated pair of cameras that moves: points from disparities, and where they are seen from another place.

Lengths are in baselines, and ``q = d + doffs`` is the disparity of a point at infinity subtracted, so that ``Z = f/q``.
With ``m = (x - cx, (y - cy) fx/fy, f)`` the ray of a pixel, its point is ``P = m/q`` in the left camera. A motion ``P'
= R P + t`` takes it to ``q P' = R m + q t``, which needs no division by ``q``: points at infinity are no exception. The
right camera is one baseline to the right: ``P = m/q + e1`` for its pixels, so the same with ``t + R e1 - e1``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

import numpy as np
from numpy.typing import NDArray

from scotopic.arrays import Array
from scotopic.backends.protocol import Backend, Projection
from scotopic.depth import Calibration

Matrix = NDArray[np.float64]

_BESIDE = 1e-6  # of q Z over the focal length, from which on a point is before or behind a camera


@dataclass(frozen=True)
class StereoCamera:
    """What of a calibration the geometry needs, px. ``unit`` is the length of the baseline."""

    focal: float
    aspect: float  #: fx / fy
    cx: float
    cy: float
    doffs: float = 0.0
    unit: float = 1.0

    @classmethod
    def from_calibration(cls, calibration: Calibration) -> StereoCamera:
        """Return the cameras of a calibration; lengths will be in meters."""
        c = calibration
        return cls(c.fx, c.fx / c.fy, c.cx, c.cy, c.doffs, c.baseline)

    @classmethod
    def assumed(cls, shape: tuple[int, ...]) -> StereoCamera:
        """Return the cameras that are assumed where none are known: focal length equal to the width, axis centered."""
        height, width = shape[:2]
        return cls(float(width), 1.0, (width - 1) / 2, (height - 1) / 2)

    def projection(self, motion: Matrix, is_right: bool) -> Projection:
        """Return where the points of a view are seen by the same camera after a motion.

        ``motion`` takes points to the left camera's new frame. Points behind the camera get a ``q`` of 0 or less.
        """
        turn, shift = motion[:3, :3], motion[:3, 3]
        if is_right:
            shift = shift + turn[:, 0] - np.eye(3)[0]
        center = self.cx + self.doffs if is_right else self.cx
        return Projection(turn, shift, self.focal, center, self.cy, self.aspect, _BESIDE * self.focal)

    def halved(self) -> StereoCamera:
        """Return the cameras of images at half size."""
        cx, cy = (self.cx + 0.5) / 2 - 0.5, (self.cy + 0.5) / 2 - 0.5
        return StereoCamera(self.focal / 2, self.aspect, cx, cy, self.doffs / 2, self.unit)


@dataclass(frozen=True, eq=False)
class Rays(Generic[Array]):
    """The pixels of one view: ``(x - cx)`` and ``(y - cy) fx / fy``, as a row and a column."""

    u: Array
    v: Array
    is_right: bool

    @classmethod
    def of_view(
        cls, backend: Backend[Array], camera: StereoCamera, shape: tuple[int, ...], is_right: bool
    ) -> Rays[Array]:
        """Return the rays of every pixel of a view."""
        xp, (height, width) = backend.xp, shape[:2]
        center = camera.cx + camera.doffs if is_right else camera.cx
        u = xp.astype(backend.arange(width), xp.float32) - center
        v = (xp.astype(backend.arange(height), xp.float32) - camera.cy) * camera.aspect
        return cls(u, xp.reshape(v, (height, 1)), is_right)


def project(
    backend: Backend[Array], rays: Rays[Array], q: Array, place: Array | Sequence[float]
) -> tuple[Array, Array, Array]:
    """Return column, row and ``q`` at which points are seen after a motion.

    ``place`` are the numbers of its :class:`Projection`; as an array, they may be others when this is replayed.
    """
    u, v, (focal, center, middle, aspect, least) = rays.u, rays.v, (place[number] for number in range(12, 17))
    x, y, z = (
        u * place[3 * i] + (v * place[3 * i + 1] + place[3 * i + 2] * focal) + q * place[9 + i] for i in range(3)
    )
    # A point beside the camera is seen nowhere; any place outside will do for it.
    scale = focal / backend.xp.where(backend.xp.abs(z) > least, z, least)
    return x * scale + center, y * scale / aspect + middle, q * scale


def exponential(twist: Matrix) -> Matrix:
    """Return the motion, 4 x 4, of a twist ``(v, w)``: translation first, then rotation in radians."""
    v, w = twist[:3], twist[3:]
    angle = float(np.linalg.norm(w))
    cross = np.array([[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]])
    # Series where sin and cos would cancel.
    a = 1 - angle**2 / 6 if angle < 1e-4 else np.sin(angle) / angle
    b = 0.5 - angle**2 / 24 if angle < 1e-4 else (1 - np.cos(angle)) / angle**2
    c = 1 / 6 - angle**2 / 120 if angle < 1e-4 else (1 - a) / angle**2
    motion = np.eye(4)
    motion[:3, :3] += a * cross + b * cross @ cross
    motion[:3, 3] = (np.eye(3) + b * cross + c * cross @ cross) @ v
    return motion


def logarithm(motion: Matrix) -> Matrix:
    """Return the twist of a motion by less than half a turn: the inverse of :func:`exponential`."""
    turn = motion[:3, :3]
    doubled = np.array([turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]])
    sine, cosine = float(np.linalg.norm(doubled)) / 2, (float(np.trace(turn)) - 1) / 2
    angle = float(np.arctan2(sine, cosine))
    w = doubled * (0.5 if angle < 1e-4 else angle / (2 * sine))
    cross = np.array([[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]])
    d = 1 / 12 if angle < 1e-3 else (1 - angle * sine / (2 * (1 - cosine))) / angle**2
    v = (np.eye(3) - cross / 2 + d * cross @ cross) @ motion[:3, 3]
    return np.concatenate([v, w])


def inverse(motion: Matrix) -> Matrix:
    """Return the motion back."""
    back = np.eye(4)
    back[:3, :3] = motion[:3, :3].T
    back[:3, 3] = -motion[:3, :3].T @ motion[:3, 3]
    return back


def adjoint(motion: Matrix) -> Matrix:
    """Return the 6 x 6 matrix that takes twists of the frame a motion starts from to the frame it leads to."""
    turn, t = motion[:3, :3], motion[:3, 3]
    cross = np.array([[0, -t[2], t[1]], [t[2], 0, -t[0]], [-t[1], t[0], 0]])
    full = np.zeros((6, 6))
    full[:3, :3] = full[3:, 3:] = turn
    full[:3, 3:] = cross @ turn
    return full
