"""Disparity maps that were made elsewhere, read from a folder.

One file per scene, ``DIR/<dataset>/<scene>`` or ``DIR/<scene>``, ending in ``.pfm``, ``.png`` or ``.npz`` (the first
that is there), in the formats of :mod:`scotopic.evaluation.answers`.

``<scene>_confidence.pfm`` beside it, if there is one, says how sure each pixel is; higher is surer. Without any, every
pixel is as sure as every other, and the risk-coverage curve is flat.

Maps are scored as they are. Answers outside the range of candidates stay: dropping them would flatter the method.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError, SettingsError
from scotopic.evaluation.answers import check_size, read_answers, read_confidence
from scotopic.evaluation.method import Map, Prediction
from scotopic.evaluation.scene import Scene

ENDINGS = (".pfm", ".png", ".npz")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._+-]*")  #: a method's name names files too


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
        answers = read_answers(path)
        check_size(path, answers.disparity, f"scene {scene.name}", left)
        confidence = answers.confidence
        beside = path.with_name(f"{scene.name}_confidence.pfm")
        if beside.exists():
            confidence = read_confidence(beside)
            check_size(beside, confidence, path, answers.disparity)
        if confidence is None:
            confidence = np.ones(left.shape[:2])
        disparity, dense = (values.astype(np.float32) for values in (answers.disparity, answers.dense))
        return Prediction(disparity, dense, fill_confidence(confidence))

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
