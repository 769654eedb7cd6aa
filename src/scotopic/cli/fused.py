"""What ``video --fuse`` adds: where the cameras were, and one map of the whole scene."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.cli.stream import ASSUMED_CAMERA
from scotopic.depth import Calibration, depth_from_disparity, point_cloud
from scotopic.depth.voxels import VoxelMap
from scotopic.io.trajectory import write_kitti, write_tum
from scotopic.levels import Levels, find_levels
from scotopic.result import Match

TRAJECTORY_FILES = ("trajectory.txt", "trajectory_tum.txt")
MAP_FILE = "map.ply"

_OTHER_EXPOSURE = 1.5  # a change of the mean brightness from which on colors get other levels


class FusedResults:
    """Collects the poses of a fused stream and what became of each pair; with `scene_map` also all points."""

    def __init__(self, fuse: int, calibration: Calibration | None, scene_map: bool) -> None:
        self._fuse, self._calibration = fuse, calibration
        self._map = SceneMap(calibration) if scene_map and calibration is not None else None
        self._poses: list[NDArray[np.float64]] = []
        self._placed: list[tuple[int, NDArray[np.float64]]] = []  # frames that were found, by number
        self._skipped: list[int] = []
        self._restarts: list[int] = []
        self._repeated: list[int] = []
        self._unknown: list[int] = []  # frames of which it is not known how they lie to the first

    def add(self, number: int, match: Match, is_repeated: bool) -> dict[str, Any]:
        """Take in the match of a frame, which may be no new light; return what the report says of it."""
        assert match.frames is not None
        assert match.pose is not None
        assert match.pose_covariance is not None
        most, is_known = float(match.frames.max()), bool(np.isfinite(match.pose_covariance).all())
        if is_repeated:
            self._repeated.append(number)
        elif most == 0:
            self._skipped.append(number)
        elif most == 1 and len(self._skipped) < len(self._poses):
            self._restarts.append(number)
        if not is_known:
            self._unknown.append(number)
        elif self._map is not None and not is_repeated:
            self._map.add(match)
        self._poses.append(match.pose)
        if is_known and most > 0:
            self._placed.append((number, match.pose))
        return {"mean_frames": float(match.frames.mean()), "pose_known": is_known and most > 0}

    def write(self, folder: Path, time: Callable[[int], float]) -> None:
        """Write the trajectory, with the time of each frame by its number, and the map."""
        write_kitti(folder / TRAJECTORY_FILES[0], self._poses)
        write_tum(folder / TRAJECTORY_FILES[1], ((time(number), pose) for number, pose in self._placed))
        if self._map is not None:
            self._map.save(folder / MAP_FILE)

    def report(self) -> dict[str, Any]:
        """Return the entry of ``report.json``."""
        return {
            "fuse": self._fuse,
            "camera": ASSUMED_CAMERA if self._calibration is None else "as calibrated; lengths in meters",
            "camera_assumed": self._calibration is None,
            "restarts": self._restarts,
            "skipped": self._skipped,
            "repeated": self._repeated,
            "pose_unknown": self._unknown,
            "map": None if self._map is None else self._map.report(),
        }


class SceneMap:
    """The points of all frames in the first camera's frame, averaged in cubes, in the colors of the fused images.

    Points count by the light behind them, so that the first frames, which are mostly noise, color little. A cube is as
    wide as a pixel at the median distance of the first points.
    """

    def __init__(self, calibration: Calibration) -> None:
        self._calibration = calibration
        self._voxels: VoxelMap | None = None
        self._levels, self._brightness = Levels(), 0.0

    def add(self, match: Match) -> None:
        """Add the points of a match whose pose is known."""
        if not match.mask.any():
            return
        assert match.pose is not None
        assert match.frames is not None
        assert match.fused_left is not None
        assert match.fused_right is not None
        brightness = max(float(match.fused_left.mean()), 1e-9)
        # For all of one exposure: levels of their own would flicker.
        if not 1 / _OTHER_EXPOSURE < self._brightness / brightness < _OTHER_EXPOSURE:
            self._levels, self._brightness = find_levels(match.fused_left, match.fused_right), brightness
        # The clouds of single pairs show the denoised colors; here the light of many frames has done that.
        cloud = point_cloud(match, self._calibration, self._levels.apply_clipped(match.fused_left))
        depth = depth_from_disparity(match.disparity, self._calibration)
        if not len(cloud):  # all that is kept is infinitely far
            return
        if self._voxels is None:
            self._voxels = VoxelMap(float(np.nanmedian(depth)) / self._calibration.fx)
        self._voxels.add(cloud.moved(match.pose), match.frames[np.isfinite(depth)])

    def save(self, path: Path) -> None:
        """Write the map as PLY."""
        voxels = self._voxels or VoxelMap(1.0)
        voxels.cloud().save(path, overwrite=True)

    def report(self) -> dict[str, Any] | None:
        """Return what the report says of the map; nothing while it is empty."""
        if self._voxels is None:
            return None
        return {"file": MAP_FILE, "voxel_m": self._voxels.size, "points": len(self._voxels)}
