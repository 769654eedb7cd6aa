"""A match in Rerun's viewer: images, disparity, confidence, reasons; with a calibration also depth and points."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import SettingsError
from scotopic.interop.camera import Camera, as_camera
from scotopic.optional import import_optional
from scotopic.result import Match, Reason


def log_match(
    match: Match,
    calibration: Any = None,
    *,
    fx: float | None = None,
    baseline: float | None = None,
    doffs: float | None = None,
    cx: float | None = None,
    cy: float | None = None,
    path: str = "scotopic",
    recording: Any = None,
) -> list[str]:
    """Log a match to Rerun.

    Parameters
    ----------
    match
        The result of :func:`scotopic.match`.
    calibration
        An object with ``fx``, ``cx``, ``cy`` (px), ``baseline`` (m) and perhaps ``doffs`` (px). Without one, and
        without numbers, no depth and no points are logged.
    fx, baseline, doffs, cx, cy
        The same as numbers, instead or before the object's. The principal point is the image's middle by default.
    path
        Entity under which everything is logged.
    recording
        A ``rerun.RecordingStream``; by default the one that ``rerun.init`` made.

    Returns
    -------
    list of str
        The entities that were logged.

    Raises
    ------
    ScotopicError
        rerun-sdk is not installed.
    SettingsError
        Some numbers of a calibration, but not focal length and baseline.
    """
    rr = import_optional("rerun", "rerun", "logging a match to Rerun")
    match = match.to_numpy()
    numbers = {"fx": fx, "baseline": baseline, "doffs": doffs, "cx": cx, "cy": cy}
    wanted = calibration is not None or any(value is not None for value in numbers.values())
    camera = as_camera(calibration, **numbers) if wanted else None
    if not path.strip("/"):
        raise SettingsError(f"path: found {path!r}, expected an entity's name such as 'scotopic'; pass one")

    entities: dict[str, Any] = {
        "left/image": rr.Image(_as_bytes(match.left_image)),
        "right/image": rr.Image(_as_bytes(match.right_image)),
        "left/confidence": rr.Image(match.confidence, color_model="L"),
        # Rerun takes 0 for "no depth"; a disparity of 0 means infinitely far, which it does not draw either.
        "left/disparity": rr.DepthImage(np.nan_to_num(match.disparity, nan=0.0), colormap="Turbo"),
        "left/reason": rr.SegmentationImage(match.reason),
    }
    if camera is not None:
        height, width = match.disparity.shape
        x0 = (width - 1) / 2 if camera.cx is None else camera.cx
        y0 = (height - 1) / 2 if camera.cy is None else camera.cy
        depth = camera.depth(match.disparity)
        points, colors = _points(match, depth, camera, x0, y0)
        entities["left"] = rr.Pinhole(
            focal_length=camera.fx,
            principal_point=(x0, y0),
            width=width,
            height=height,
            camera_xyz=rr.ViewCoordinates.RDF,
        )
        entities["left/depth"] = rr.DepthImage(np.nan_to_num(depth, nan=0.0), meter=1.0)
        entities["points"] = rr.Points3D(points, colors=colors)
    names = [(int(reason), reason.name.lower().replace("_", " ")) for reason in Reason]
    root = path.strip("/")
    rr.log(f"{root}/left/reason", rr.AnnotationContext(names), static=True, recording=recording)
    for name, entity in entities.items():
        rr.log(f"{root}/{name}", entity, recording=recording)
    return [f"{root}/{name}" for name in entities]


def _as_bytes(image: NDArray[np.float32]) -> NDArray[np.uint8]:
    pixels = np.rint(255 * np.clip(image, 0.0, 1.0)).astype(np.uint8)
    return pixels[..., 0] if pixels.shape[2] == 1 else pixels


def _points(
    match: Match, depth: NDArray[np.float32], camera: Camera, x0: float, y0: float
) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    """Return the points of the pixels that have a depth, x right, y down, z forward, and their colors."""
    y, x = np.nonzero(np.isfinite(depth))
    z = depth[y, x].astype(np.float64)
    points = np.stack([(x - x0) * z / camera.fx, (y - y0) * z / camera.fx, z], axis=1).astype(np.float32)
    colors = _as_bytes(match.left_image)[y, x]
    return points, colors if colors.ndim == 2 else np.repeat(colors[:, None], 3, axis=1)
