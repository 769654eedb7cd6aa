"""Every data set in its published layout, written to disk from formulas."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from moving_rig import moving_rig, write_archives, write_kitti
from numpy.typing import NDArray

from scotopic.depth import Calibration
from scotopic.io import write_pfm, write_png

HEIGHT, WIDTH = 6, 24
Y, X = np.mgrid[:HEIGHT, :WIDTH]
KNOWN = (X > 2) | (Y > 1)  # truth is unknown in one corner
PLANE = 2.0 + X / 4 + Y / 8  # px; eighths are exact in float32 and in KITTI's 256ths


def views(height: int = HEIGHT, width: int = WIDTH) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Left and right, RGB: two different ramps."""
    y, x = np.mgrid[:height, :width]
    left = np.stack([(7 * x + 11 * y) % 256, (5 * x) % 256, (9 * y) % 256], axis=-1).astype(np.uint8)
    return left, (255 - left).astype(np.uint8)


def pfm(path: Path, disparity: NDArray[np.floating], known: NDArray[np.bool_] = KNOWN) -> None:
    write_pfm(path, np.where(known, disparity, np.inf).astype(np.float32))


def png(path: Path, disparity: NDArray[np.floating], factor: int, known: NDArray[np.bool_] = KNOWN) -> None:
    write_png(path, np.where(known, np.rint(disparity * factor), 0).astype(np.uint16))


def calib(width: int = WIDTH, height: int = HEIGHT) -> str:
    return (
        "cam0=[1000.5 0 11.5; 0 1000.5 2.5; 0 0 1]\ncam1=[1000.5 0 14.5; 0 1000.5 2.5; 0 0 1]\n"
        f"doffs=3\nbaseline=176.25\nwidth={width}\nheight={height}\nndisp=70\nisint=0\n"
    )


#: What `calib` says, in meters.
CALIBRATION = Calibration(
    fx=1000.5, fy=1000.5, cx=11.5, cy=2.5, baseline=0.17625, doffs=3.0, width=WIDTH, height=HEIGHT
)


def masked(path: Path) -> NDArray[np.bool_]:
    """Write a mask of all three values; return where it says non-occluded."""
    write_png(path, np.choose((X + Y) % 3, [0, 128, 255]).astype(np.uint8))
    return np.asarray((X + Y) % 3 == 2)


def pair(folder: Path, left: str = "im0.png", right: str = "im1.png") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, image in zip((left, right), views(), strict=True):
        write_png(folder / name, image)
    return folder


def make_official(root: Path, name: str = "Bike-perfect") -> None:
    scene = pair(root / name)
    pfm(scene / "disp0.pfm", PLANE)
    pfm(scene / "disp1.pfm", PLANE)
    (scene / "calib.txt").write_text(calib())


def make_sdk(root: Path, name: str = "trainingF/Bike") -> None:
    scene = pair(root / name)
    pfm(scene / "disp0GT.pfm", PLANE)
    masked(scene / "mask0nocc.png")
    (scene / "calib.txt").write_text(calib())


def make_2006(root: Path, name: str = "ThirdSize/Aloe") -> None:
    scene = pair(root / name, "view1.png", "view5.png")
    stored = np.where(KNOWN, 5 + X, 0)
    write_png(scene / "disp1.png", stored.astype(np.uint8))
    write_png(scene / "disp5.png", stored.astype(np.uint8))


def make_instereo(root: Path, name: str = "test/000040") -> None:
    scene = pair(root / name, "left.png", "right.png")
    png(scene / "left_disp.png", PLANE, 100)
    png(scene / "right_disp.png", PLANE, 100)


def make_eth3d(root: Path, name: str = "forest_1l") -> None:
    scene = pair(root / name)
    pfm(scene / "disp0GT.pfm", PLANE)
    masked(scene / "mask0nocc.png")
    (scene / "calib.txt").write_text(calib())


def make_kitti(root: Path, name: str = "000007") -> None:
    for part, image in zip(("image_2", "image_3"), views(), strict=True):
        (root / "training" / part).mkdir(parents=True, exist_ok=True)
        write_png(root / "training" / part / f"{name}_10.png", image)
        write_png(root / "training" / part / f"{name}_11.png", image)
    for part, known in (("disp_occ_0", KNOWN), ("disp_noc_0", KNOWN & (X > 9))):
        (root / "training" / part).mkdir(exist_ok=True)
        png(root / "training" / part / f"{name}_10.png", PLANE, 256, known)
    (root / "training" / "calib_cam_to_cam").mkdir(exist_ok=True)
    (root / "training" / "calib_cam_to_cam" / f"{name}.txt").write_text(
        "calib_time: 09-Jan-2012 13:57:47\ncorner_dist: 9.95e-02\n"
        "P_rect_02: 720.0 0 600.0 45.0 0 720.0 170.0 0.2 0 0 1 0.003\n"
        "P_rect_03: 720.0 0 600.0 -337.5 0 720.0 170.0 2.2 0 0 1 0.003\n"
    )


def make_own(root: Path, name: str = "desk") -> None:
    scene = pair(root / name, "left.png", "right.png")
    png(scene / "disp.png", PLANE, 256)


def make_night(root: Path, name: str = "street") -> None:
    scene = pair(root / name)
    png(scene / "disp0.png", PLANE, 256)


def make_sequence(root: Path, name: str = "rig") -> None:
    write_archives(root / name, moving_rig(1, 48, 32))


def make_kitti_sequence(root: Path, name: str = "drive") -> None:
    write_kitti(root / name, moving_rig(1, 48, 32))


MAKERS: dict[str, Callable[[Path], None]] = {
    "middlebury2014": make_sdk,
    "middlebury2005": make_2006,
    "middlebury2006": make_2006,
    "instereo2k": make_instereo,
    "eth3d": make_eth3d,
    "kitti2015": make_kitti,
    "night": make_night,
    "folder": make_own,
    "sequence": make_sequence,
    "kitti_sequence": make_kitti_sequence,
}
LEFT_IMAGES = {
    "middlebury2005": "view1.png",
    "middlebury2006": "view1.png",
    "instereo2k": "left.png",
    "folder": "left.png",
    "sequence": "000.npz",
    "kitti_sequence": "image_l/000000.png",
}
