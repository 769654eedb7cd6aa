"""KITTI: ``calib_cam_to_cam.txt`` of the raw data, ``P0:`` to ``P3:`` of its object and odometry sets; meters."""

from __future__ import annotations

from scotopic.depth.calibration import Calibration, Camera, Matrix, Rig
from scotopic.depth.files.text import Entry, TextFile, entries
from scotopic.depth.matrices import from_projections


def read(file: TextFile, cameras: tuple[int, int]) -> Calibration:
    """Read the calibration of two of the four cameras: 0 and 1 are gray, 2 and 3 color."""
    found = entries(file, ":")
    raw = any(key.startswith("P_rect_") for key in found)
    names = [f"P_rect_{camera:02d}" if raw else f"P{camera}" for camera in cameras]
    left, right = (_matrix(file, found, name, 3, 4) for name in names)
    width, height = _size(file, found, f"S_rect_{cameras[0]:02d}") if raw else (None, None)
    return from_projections(
        left,
        right,
        width=width,
        height=height,
        rig=_rig(file, found, cameras, left, right) if raw else None,
        source=f"KITTI {file.shown}, cameras {cameras[0]} and {cameras[1]}, baseline in m",
    )


def _rig(file: TextFile, found: dict[str, Entry], cameras: tuple[int, int], left: Matrix, right: Matrix) -> Rig | None:
    """The cameras before rectification, where the file has them."""
    if any(f"{key}_{camera:02d}" not in found for camera in cameras for key in ("K", "D", "R_rect", "S")):
        return None
    views = []
    for camera, projection in zip(cameras, (left, right), strict=True):
        distortion = found[f"D_{camera:02d}"]
        views.append(
            Camera(
                matrix=_matrix(file, found, f"K_{camera:02d}", 3, 3),
                distortion=file.numbers(distortion.line, f"D_{camera:02d}", distortion.text.split(), 5),
                rotation=_matrix(file, found, f"R_rect_{camera:02d}", 3, 3),
                projection=projection,
            )
        )
    sizes = [_size(file, found, f"S_{camera:02d}") for camera in cameras]
    if sizes[0] != sizes[1]:
        return None  # OpenCV could rectify them, but such a pair is not KITTI's
    return Rig(views[0], views[1], *sizes[0])


def _matrix(file: TextFile, found: dict[str, Entry], key: str, rows: int, columns: int) -> Matrix:
    if key not in found:
        raise file.problem(
            None, f"no {key!r}", f"it beside {', '.join(sorted(found))[:80]}", "choose other cameras or fetch it again"
        )
    entry = found[key]
    return file.numbers(entry.line, key, entry.text.split(), rows * columns).reshape(rows, columns)


def _size(file: TextFile, found: dict[str, Entry], key: str) -> tuple[int | None, int | None]:
    if key not in found:
        return None, None
    words = found[key].text.split()
    file.numbers(found[key].line, key, words, 2)
    width, height = (file.whole(found[key].line, key, [word]) for word in words)
    return width, height
