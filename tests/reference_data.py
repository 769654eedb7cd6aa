"""Where the shared research data lies, which is never part of the repository, and what the reference results hold."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

SCENES = {
    "middlebury": ("Adirondack", "Motorcycle", "Piano", "Playtable", "Vintage"),
    "instereo": ("000040", "000840", "001240"),
}
SIDES = ("left", "right")


def data_folder() -> Path:
    """Return the folder of the shared data, or skip the test that asks for it."""
    beside = Path(__file__).resolve().parents[2] / "shared"
    folder = Path(os.environ.get("SCOTOPIC_DATA") or beside)
    if not (folder / "reference").is_dir():
        pytest.skip(
            "needs the shared data: set SCOTOPIC_DATA to the folder that holds 'reference' and 'data', or put it "
            "beside the repository as '../shared'"
        )
    return folder


@dataclass(frozen=True)
class ReferenceScene:
    """Inputs and published results of one scene, cropped to whole patches.

    Attributes
    ----------
    images
        The noisy views, ``(H, W, 3)`` float32.
    truth
        Ground truth as the paper shrinks it, NaN where unknown.
    parameters
        ``(rows, columns, 5)`` of each view.
    boundaries
        Final global boundary map of each view.
    patch_disparities
        Result of the matching on the patch grid, for each view.
    """

    images: dict[str, NDArray[np.float32]]
    truth: NDArray[np.float32]
    parameters: dict[str, NDArray[np.float64]]
    boundaries: dict[str, NDArray[np.float32]]
    patch_disparities: dict[str, NDArray[np.int64]]


@lru_cache(maxsize=2)
def reference_scene(data_set: str, name: str) -> ReferenceScene:
    """Return a scene of ``reference/``, or skip the test that asks for it."""
    with np.load(data_folder() / "reference" / f"{data_set}_{name}.npz") as file:
        height, width = file["boundaries_left"].shape
        truth = file["gt_paper"][:height, :width]
        return ReferenceScene(
            images={side: (file[side][:height, :width] / np.float32(255)).astype(np.float32) for side in SIDES},
            truth=np.where(truth == 0, np.float32(np.nan), truth),
            parameters={
                side: np.ascontiguousarray(np.moveaxis(file[f"params_{side}"], 0, -1), np.float64) for side in SIDES
            },
            boundaries={side: file[f"boundaries_{side}"].astype(np.float32) for side in SIDES},
            patch_disparities={side: file[f"patch_disparity_{side}"].astype(np.int64) for side in SIDES},
        )
