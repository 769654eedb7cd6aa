"""A match in Rerun's viewer: images, disparity, confidence and reasons; with a calibration also depth and points."""

from typing import Any

import numpy as np

from scotopic.depth import depth_from_disparity, point_cloud
from scotopic.errors import SettingsError
from scotopic.interop.ros import as_calibration
from scotopic.optional import import_optional
from scotopic.preview import as_picture
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
    """Log a match to Rerun, and return the entities that were logged.

    Parameters
    ----------
    match
        The result of :func:`scotopic.match`.
    calibration
        A :class:`~scotopic.depth.Calibration`, or another object with ``fx``, ``cx``, ``cy`` (px), ``baseline`` (m)
        and perhaps ``fy`` and ``doffs`` (px). Without one, and without numbers, no depth and no points are logged.
    fx, baseline, doffs, cx, cy
        Numbers that replace those of the object. The principal point is the center of the image by default.
    path
        Entity under which everything is logged.
    recording
        A ``rerun.RecordingStream``; by default the one that ``rerun.init`` made.

    Raises
    ------
    ScotopicError
        rerun-sdk is not installed.
    SettingsError
        Only some numbers of a calibration are given, or one is impossible.
    """
    rr = import_optional("rerun", "rerun", "logging a match to Rerun")
    match = match.to_numpy()
    numbers = {"fx": fx, "baseline": baseline, "doffs": doffs, "cx": cx, "cy": cy}
    root = path.strip("/")
    if not root:
        raise SettingsError(f"{path!r} is not the path of an entity. Pass a name such as 'scotopic'.")
    entities: dict[str, Any] = {
        "left/image": rr.Image(as_picture(match.left_image)),
        "right/image": rr.Image(as_picture(match.right_image)),
        "left/confidence": rr.Image(match.confidence, color_model="L"),
        # Rerun takes 0 for "no depth"; a disparity of 0 means infinitely far, which it does not draw either.
        "left/disparity": rr.DepthImage(np.nan_to_num(match.disparity, nan=0.0), colormap="Turbo"),
        "left/reason": rr.SegmentationImage(match.reason),
    }
    if calibration is not None or any(value is not None for value in numbers.values()):
        height, width = match.disparity.shape
        camera = as_calibration(calibration, (height, width), **numbers)
        cloud = point_cloud(match, camera)
        entities["left"] = rr.Pinhole(
            focal_length=(camera.fx, camera.fy),
            principal_point=(camera.cx, camera.cy),
            width=width,
            height=height,
            camera_xyz=rr.ViewCoordinates.RDF,
        )
        depth = depth_from_disparity(match.disparity, camera)
        entities["left/depth"] = rr.DepthImage(np.nan_to_num(depth, nan=0.0), meter=1.0)
        entities["points"] = rr.Points3D(cloud.points, colors=cloud.colors)
    names = [(int(reason), reason.name.lower().replace("_", " ")) for reason in Reason]
    rr.log(f"{root}/left/reason", rr.AnnotationContext(names), static=True, recording=recording)
    for name, entity in entities.items():
        rr.log(f"{root}/{name}", entity, recording=recording)
    return [f"{root}/{name}" for name in entities]
