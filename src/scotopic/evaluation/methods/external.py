"""Disparity maps that were made elsewhere, read from a folder.

One file per scene, ``DIR/<dataset>/<scene>`` or ``DIR/<scene>``, ending in ``.pfm``, ``.png``, ``.npz`` or ``.npy``
(the first that is there, with a warning of others), in the formats of :mod:`scotopic.evaluation.answers`.

``<scene>_confidence`` beside it, with one of these endings, holds the confidence of each pixel; higher is more certain.
Without one all pixels are equally certain, and the risk-coverage curve is flat.

Maps are scored as they are. Answers outside the range of candidates stay: dropping them would flatter the method.
"""

import re
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError, PairWarning, SettingsError
from scotopic.evaluation.answers import check_size, doubt_maps, read_answers, read_confidence
from scotopic.evaluation.datasets.files import existing, first_of
from scotopic.evaluation.method import Map, Method, Prediction
from scotopic.evaluation.scene import Scene

ENDINGS = (".pfm", ".png", ".npz", ".npy")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._+-]*")  #: a method's name names files too


def method_of(text: str) -> Method:
    """Return the method of ``NAME=DIR``.

    Raises :class:`SettingsError` if the text has another form or the name cannot name a file, and :class:`InputError`
    if there is no such folder.
    """
    name, equals, folder = text.partition("=")
    if not (equals and NAME.fullmatch(name) and folder):
        raise SettingsError(
            f"Method 'external:{text}' must have the form external:NAME=DIR, as in external:IGEV=results/igev. A name "
            "holds letters, digits, blanks and ._+- and begins with a letter or digit."
        )
    if not Path(folder).is_dir():
        raise InputError(
            f"Method {name!r} has no folder {folder!r}. It must hold one disparity map per scene, "
            f"<dataset>/<scene>{ENDINGS[0]} or <scene>{ENDINGS[0]}."
        )
    return Method(
        name,
        partial(predict_from_files, name, Path(folder)),
        files=partial(_files_of, name, Path(folder)),
    )


def predict_from_files(name: str, folder: Path, left: Map, right: Map, scene: Scene, max_disparity: int) -> Prediction:
    """Read the map of the scene; the images give its size only."""
    path, *beside = _files_of(name, folder, scene.dataset, scene.name)
    answers = read_answers(path)
    check_size(path, answers.disparity, f"scene {scene.name}", left)
    for doubt in doubt_maps(path, answers.disparity, scene.truth.astype(np.float64)):
        warnings.warn(doubt, PairWarning, stacklevel=2)
    confidence = answers.confidence
    for each in (path, *beside):
        first_of(_maps(path.parent, each.stem))  # warns of others
    for file in beside:
        confidence = read_confidence(file)
        check_size(file, confidence, path, answers.disparity)
    if confidence is None:
        confidence = np.ones(left.shape[:2])
    disparity, dense = (values.astype(np.float32) for values in (answers.disparity, answers.dense))
    return Prediction(disparity, dense, fill_confidence(confidence))


def _files_of(name: str, folder: Path, dataset: str, scene: str) -> list[Path]:
    """Return the map of a scene, and its confidence if there is one."""
    places = folder / dataset, folder
    for place in places:
        if found := _maps(place, scene):
            return [found[0], *_maps(place, f"{scene}_confidence")[:1]]
    wanted = " or ".join(repr(str(place / f"{scene}{ENDINGS[0]}")) for place in places)
    raise InputError(
        f"Method {name!r} has no disparity map of scene {dataset}/{scene}. Put one at {wanted} (or "
        f"{' or '.join(ENDINGS[1:])})."
    )


def _maps(folder: Path, name: str) -> list[Path]:
    return existing(folder, *(f"{name}{ending}" for ending in ENDINGS))


def fill_confidence(confidence: NDArray[Any]) -> Map:
    """Return a confidence as float32, with its smallest value where it is not finite."""
    finite = np.isfinite(confidence)
    lowest = confidence[finite].min() if finite.any() else 0
    return np.where(finite, confidence, lowest).astype(np.float32)
