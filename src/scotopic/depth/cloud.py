"""Points in space with the color and the confidence of their pixel."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from scotopic.depth.calibration import Calibration
from scotopic.depth.triangulate import points_from_disparity
from scotopic.errors import InputError
from scotopic.io import as_image, claim_file, read_ply, write_ply


class Matched(Protocol):
    """What of a :class:`~scotopic.Match` a point cloud is made of."""

    @property
    def disparity(self) -> NDArray[np.float32]: ...
    @property
    def confidence(self) -> NDArray[np.float32]: ...
    @property
    def left_image(self) -> NDArray[np.float32]: ...


@dataclass(frozen=True, eq=False)
class PointCloud:
    """Points in the left camera's axes: x to the right, y down, z forward, meters.

    Attributes
    ----------
    points
        ``N x 3`` float32.
    colors
        ``N x 3`` uint8 RGB.
    confidence
        ``N`` float32 in [0, 1].
    """

    points: NDArray[np.float32]
    colors: NDArray[np.uint8]
    confidence: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.points)

    def save(self, path: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Write a binary PLY file; see :func:`~scotopic.io.write_ply`.

        Raises
        ------
        OutputError
            It cannot be written, or is there already and `overwrite` is False.
        """
        claim_file(path, overwrite)
        write_ply(path, self.points, colors=self.colors, confidence=self.confidence)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> PointCloud:
        """Read a PLY file that :meth:`save` wrote.

        Raises
        ------
        InputError
            It cannot be read, or lacks colors or confidence.
        """
        found = read_ply(path)
        if found.colors is None or found.confidence is None:
            raise InputError(f"{path!s}: found points alone, expected colors and confidence too; read it with read_ply")
        return cls(found.points, found.colors, found.confidence)


def point_cloud(
    match: Matched,
    calibration: Calibration,
    image: Any = None,
    *,
    max_depth: float | None = None,
    min_confidence: float = 0.0,
) -> PointCloud:
    """Return the points of a match, row by row.

    Parameters
    ----------
    match
        What :func:`scotopic.match` gave.
    calibration
        Of the images as they were matched.
    image
        Where the colors come from, of the size of the left view: an array or a path, such as a brighter picture of the
        same view; the left view itself if left out. Gray becomes equal red, green and blue.
    max_depth
        Leave out what is farther, in meters: far points scatter, and viewers zoom out to show them all.
    min_confidence
        Leave out what is less sure.

    Returns
    -------
    PointCloud
        One point for each pixel with a disparity and a depth.

    Raises
    ------
    InputError
        Image or calibration are of another size.

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
    places = points_from_disparity(match.disparity, calibration)
    picture = match.left_image if image is None else as_image(image, "color")
    if picture.shape[:2] != places.shape[:2]:
        raise InputError(
            f"color image: found {picture.shape[1]} x {picture.shape[0]} px, expected {places.shape[1]} x "
            f"{places.shape[0]} like the left view; resize it"
        )
    kept = np.isfinite(places).all(axis=-1) & (match.confidence >= min_confidence)
    if max_depth is not None:
        kept &= places[..., 2] <= max_depth
    colors = np.rint(np.clip(picture[kept], 0.0, 1.0) * 255).astype(np.uint8)
    return PointCloud(
        points=places[kept],
        colors=np.ascontiguousarray(np.broadcast_to(colors, (len(colors), 3))),
        confidence=match.confidence[kept].astype(np.float32),
    )
