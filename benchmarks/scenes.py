"""The pairs that the benchmarks run on: the reference scenes where they are, a rendered one anywhere."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import scotopic


@dataclass(frozen=True)
class ReferenceScene:
    """One noisy input with the results of the published implementation on it, cropped to whole patches."""

    name: str
    left: NDArray[np.uint8]
    right: NDArray[np.uint8]
    truth: NDArray[np.float64]
    parameters: dict[str, NDArray[np.float64]]
    boundaries: dict[str, NDArray[np.float32]]
    patch_disparity: dict[str, NDArray[np.uint8]]


def reference_folder() -> Path | None:
    """Return the folder of the reference scenes, or None (``SCOTOPIC_DATA`` or ``../shared``)."""
    beside = Path(__file__).resolve().parents[2] / "shared"
    folder = Path(os.environ.get("SCOTOPIC_DATA", beside)) / "reference"
    return folder if any(folder.glob("*.npz")) else None


def load_reference(path: Path) -> ReferenceScene:
    """Read one reference scene."""
    with np.load(path) as file:
        height, width = file["boundaries_left"].shape
        truth = file["gt_paper"][:height, :width].astype(np.float64)
        truth[truth == 0] = np.nan
        sides = ("left", "right")
        return ReferenceScene(
            path.stem,
            *(file[side][:height, :width] for side in sides),
            truth,
            {side: np.moveaxis(file[f"params_{side}"].astype(np.float64), 0, -1).copy() for side in sides},
            {side: file[f"boundaries_{side}"].astype(np.float32) for side in sides},
            {side: file[f"patch_disparity_{side}"] for side in sides},
        )


def speed_pair() -> tuple[str, NDArray[np.generic], NDArray[np.generic]]:
    """Return a name and a noisy 593 x 398 pair: Motorcycle as in the reference scenes, else a rendered scene."""
    folder = reference_folder()
    if folder is not None and (folder / "middlebury_Motorcycle.npz").exists():
        with np.load(folder / "middlebury_Motorcycle.npz") as file:
            return "middlebury_Motorcycle", file["left"], file["right"]
    return "rendered scene", *rendered_pair(593, 398)


def rendered_pair(width: int, height: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the demo scene at any size, at photon level 2."""
    scene = scotopic.render_scene(width, height)
    return scotopic.simulate_pair(scene.left, scene.right, photons=2, read_noise=2, seed=0)
