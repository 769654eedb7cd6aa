"""Points in space with the color and the confidence of their pixel."""

from dataclasses import dataclass
from os import PathLike
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from scotopic.depth.calibration import Calibration
from scotopic.depth.triangulate import points_from_disparity
from scotopic.errors import InputError
from scotopic.io import as_image, claim_file, write_ply


class Matched(Protocol):
    """The parts of a :class:`~scotopic.Match` from which a point cloud is made."""

    @property
    def disparity(self) -> NDArray[np.float32]: ...
    @property
    def confidence(self) -> NDArray[np.float32]: ...
    @property
    def left_image(self) -> NDArray[np.float32]: ...


@dataclass(frozen=True, eq=False)
class PointCloud:
    """``N x 3`` points in the left camera's axes (x to the right, y down, z forward, meters), with the ``N x 3`` RGB
    colors of their pixels and their ``N`` confidences in [0, 1]."""

    points: NDArray[np.float32]
    colors: NDArray[np.uint8]
    confidence: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.points)

    def save(self, path: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Write a binary PLY file; raise :class:`OutputError` if it exists and `overwrite` is False, or on failure."""
        claim_file(path, overwrite)
        write_ply(path, self.points, colors=self.colors, confidence=self.confidence)


def point_cloud(
    match: Matched,
    calibration: Calibration,
    image: Any = None,
    *,
    max_depth: float | None = None,
    min_confidence: float = 0.0,
) -> PointCloud:
    """Return the points of a match, row by row: one for each pixel with a disparity and a depth.

    Raises :class:`InputError` if the image or the calibration has another size than the match.

    Parameters
    ----------
    match
        The result of :func:`scotopic.match`.
    calibration
        Of the images as they were matched.
    image
        An image of the left view for the colors, such as a brighter one: an array or a path. By default the left view
        itself. Gray becomes equal red, green and blue.
    max_depth
        Leave out points that are farther, in meters: they scatter, and viewers zoom out to show them all.
    min_confidence
        Leave out points of less confidence.

    Examples
    --------
    >>> import scotopic
    >>> scene = scotopic.render_scene(width=192, height=96)
    >>> found = scotopic.match(scene.left, scene.right, preset="fast", max_disparity=32)
    >>> rig = Calibration(fx=192.0, fy=192.0, cx=95.5, cy=36.1, baseline=0.1)
    >>> cloud = point_cloud(found, rig)
    >>> cloud.points.shape == (len(cloud), 3) and bool((cloud.points[:, 2] > 0).all())
    True
    """
    if hasattr(match, "to_numpy"):  # a match of tensors on a GPU
        match = match.to_numpy()
    points = points_from_disparity(match.disparity, calibration)
    picture = match.left_image if image is None else as_image(image, "color")
    if picture.shape[:2] != points.shape[:2]:
        raise InputError(
            f"The color image is {picture.shape[1]} x {picture.shape[0]} px, the left view {points.shape[1]} x "
            f"{points.shape[0]} px. Resize the color image."
        )
    kept = np.isfinite(points).all(axis=-1) & (match.confidence >= min_confidence)
    if max_depth is not None:
        kept &= points[..., 2] <= max_depth
    colors = np.rint(np.clip(picture[kept], 0.0, 1.0) * 255).astype(np.uint8)
    return PointCloud(
        points=points[kept],
        colors=np.ascontiguousarray(np.broadcast_to(colors, (len(colors), 3))),
        confidence=match.confidence[kept].astype(np.float32),
    )
