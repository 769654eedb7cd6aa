"""Disparity maps that were made elsewhere, read from a folder.

One file per scene, ``DIR/<dataset>/<scene>`` or ``DIR/<scene>``, with one of these endings (the first that is there):

``.pfm``
    px, anything that is not finite is unknown.
``.png``
    16 bits, value / 256, 0 is unknown (KITTI's convention).
``.npz``
    An array ``disparity`` (or the only one in the file), not finite where unknown; and ``confidence`` if it is there.

``<scene>_confidence.pfm`` beside it, if there is one, says how sure each pixel is; higher is surer. Without any, every
pixel is as sure as every other, and the risk-coverage curve is flat.

Maps are scored as they are. Answers outside the range of candidates stay: dropping them would flatter the method.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError, SettingsError
from scotopic.evaluation.method import Map, Prediction
from scotopic.evaluation.scene import Scene
from scotopic.io import read_image, read_pfm

ENDINGS = (".pfm", ".png", ".npz")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._+-]*")  #: a method's name names files too
_PNG_SCALE = 256
# All that NumPy and the zip reader raise on damaged files.
_UNREADABLE = (
    EOFError, KeyError, NotImplementedError, OSError, RuntimeError, SyntaxError, TypeError, ValueError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip


class External:
    """A folder of disparity maps as a method.

    Parameters
    ----------
    name
        Of the method in the table.
    folder
        Holds one map per scene.

    Raises
    ------
    SettingsError
        The name cannot name a file.
    InputError
        There is no such folder.
    """

    def __init__(self, name: str, folder: Path) -> None:
        if not NAME.fullmatch(name):
            raise SettingsError(
                f"method 'external:{name}={folder}': found name {name!r}, expected letters, digits, blanks and ._+- "
                "from a letter or digit on; choose another"
            )
        if not folder.is_dir():
            raise InputError(
                f"method {name!r}: found no folder {str(folder)!r}, expected one with a disparity map per scene, "
                f"<dataset>/<scene>{ENDINGS[0]} or <scene>{ENDINGS[0]}; check the path"
            )
        self.name = name
        self.folder = folder

    @classmethod
    def from_spec(cls, text: str) -> External:
        """Return the method of ``NAME=DIR``."""
        name, equals, folder = text.partition("=")
        if not (equals and name and folder):
            raise SettingsError(
                f"method 'external:{text}': found {text!r}, expected NAME=DIR, as in external:IGEV=results/igev"
            )
        return cls(name, Path(folder))

    def __call__(self, left: Map, right: Map, scene: Scene, max_disparity: int) -> Prediction:
        """Read the map of the scene; the images give its size only."""
        path = self._find(scene)
        disparity, confidence = _read_map(path)
        beside = path.with_name(f"{scene.name}_confidence.pfm")
        if beside.exists():
            confidence, path_of_confidence = read_pfm(beside), beside
        else:
            path_of_confidence = path
        shape = left.shape[:2]
        _check_size(disparity, shape, path, "disparity")
        disparity = np.where(np.isfinite(disparity), disparity, np.nan).astype(np.float32)
        if confidence is None:
            return Prediction(disparity, disparity, np.ones(shape, np.float32))
        _check_size(confidence, shape, path_of_confidence, "confidence")
        return Prediction(disparity, disparity, fill_confidence(confidence))

    def _find(self, scene: Scene) -> Path:
        """Return the file of a scene."""
        places = [
            folder / f"{scene.name}{ending}"
            for folder in (self.folder / scene.dataset, self.folder)
            for ending in ENDINGS
        ]
        for place in places:
            if place.exists():
                return place
        raise InputError(
            f"method {self.name!r}, scene {scene.dataset}/{scene.name}: found no disparity map, expected "
            f"{str(places[0])!r} or {str(places[len(ENDINGS)])!r} (or {' or '.join(ENDINGS[1:])}); put one there"
        )


def fill_confidence(confidence: NDArray[Any]) -> Map:
    """Return a confidence as float32 with the smallest value where it is not finite: nothing known, nothing sure."""
    finite = np.isfinite(confidence)
    lowest = confidence[finite].min() if finite.any() else 0
    return np.where(finite, confidence, lowest).astype(np.float32)


def _read_map(path: Path) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Return disparity, NaN where unknown by the format's mark, and the confidence if the file has one."""
    if path.suffix == ".npz":
        return _read_npz(path)
    if path.suffix == ".pfm":
        return read_pfm(path), None
    levels = read_image(path)
    if levels.dtype != np.uint16:
        raise InputError(
            f"{str(path)!r}: found {levels.dtype} values, expected 16 bits, disparity x {_PNG_SCALE}; write it as such"
        )
    return np.where(levels > 0, levels / np.float32(_PNG_SCALE), np.float32(np.nan)), None


def _read_npz(path: Path) -> tuple[NDArray[Any], NDArray[Any] | None]:
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files if name in ("disparity", "confidence")}
            if "disparity" not in arrays and len(file.files) == 1:
                arrays["disparity"] = file[file.files[0]]
    except _UNREADABLE as error:
        raise InputError(
            f"{str(path)!r}: found {error!s:.200}, expected an npz file of plain arrays; write it with numpy.savez"
        ) from error
    for name, array in arrays.items():
        if array.dtype.kind not in "fui":
            raise InputError(f"{str(path)!r}: found {array.dtype} values in {name!r}, expected numbers; convert them")
    if "disparity" not in arrays:
        raise InputError(f"{str(path)!r}: found no array 'disparity', expected one; name it so in numpy.savez")
    return arrays["disparity"], arrays.get("confidence")


def _check_size(values: NDArray[Any], shape: tuple[int, ...], path: Path, what: str) -> None:
    if values.shape != shape:
        raise InputError(
            f"{str(path)!r}: found {what} of shape {values.shape}, expected {shape}, the size of the scene in the "
            "benchmark; resize it, and scale disparities with it"
        )
