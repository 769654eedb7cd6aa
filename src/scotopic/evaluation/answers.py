"""Disparity maps in files, made by us or by anything else.

``.pfm``
    px; what is not finite is unknown.
``.png``
    16 bits, value / 256 unless stated otherwise, 0 is unknown (KITTI's convention).
``.npz``
    A ``match.npz`` of scotopic; or an array ``disparity`` (or one that was saved without a name), not finite where
    unknown, and ``confidence`` if it is there.
``.npy``
    Such an array by itself.

A folder stands for the ``match.npz`` in it.
"""

import math
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError
from scotopic.io import read_image, read_npz
from scotopic.io.disparity import KITTI_SCALE
from scotopic.io.input_file import check_memory
from scotopic.io.mapped import read_part
from scotopic.sensor.array_file import load_array

Map = NDArray[np.float64]

_LEAST_RANKED, _MOST_RANKED = 100, 20_000  # pixels to compare by rank
_LEAST_FACTOR, _SPREAD = 1.4, 0.1  # between two maps, and of the logarithm of their ratio between its quartiles
_OPPOSITE = -0.5  # correlation of ranks; a bad disparity map is about 0
_MARKER_SHARE = 1e-3  # of the pixels: as many with one value, apart from the others, are marked; a single one is not
_OTHER_MAPS = {
    "depth": "a depth map in meters",
    "depth_uncertainty": "the uncertainty of a depth map",
    "confidence": "a confidence map",
    "reason": "a map of reasons",
    "boundaries": "a boundary map",
}


@dataclass(frozen=True, eq=False)
class Answers:
    """What a file holds: the disparity at its own mask, every answer before masking, and their confidence, if any."""

    disparity: Map
    dense: Map
    confidence: Map | None
    is_scaled: bool = False  #: whether they were whole numbers in the file, which were divided


def read_answers(path: Path, png_scale: float | None = None) -> Answers:
    """Read a disparity map, NaN where unknown, from a file or a folder that ``scotopic match`` wrote.

    The values of a PNG are divided by `png_scale`, 256 if it has 16 bits and nothing is given. Raises
    :class:`InputError` if the file cannot be read or holds no such map.
    """
    file = path / "match.npz" if os.path.isdir(path) else path
    _refuse_other_maps(file)
    if file.suffix.lower() == ".npz":
        return _from_arrays(read_npz(file), file)
    if file.suffix.lower() == ".npy":
        return _from_arrays({"disparity": _read_array(file, "disparity")}, file)
    image = read_image(file)
    disparity = as_map(image, file, "disparity")
    is_scaled = image.dtype != np.float32
    if not is_scaled:
        disparity = _known(disparity)
    else:
        if image.dtype == np.uint8 and png_scale is None:
            raise InputError(
                f"{str(file)!r} has 8 bits, but a disparity map needs 16 (disparity * 256, 0 unknown). If 8 bits are "
                "meant, say with png_scale what to divide its values by."
            )
        disparity = np.where(disparity == 0, np.nan, disparity / (png_scale or KITTI_SCALE))
    return Answers(disparity, disparity, None, is_scaled)


def _read_array(file: Path, what: str) -> NDArray[Any]:
    """Return the array of an ``.npy`` file, or raise :class:`InputError` if it is none of a map."""
    array, _ = load_array(file, what)
    if array.ndim == 2:  # only then is its size one that a map can have
        check_memory(repr(str(file)), f"a map of {array.shape[1]} x {array.shape[0]} px", 8 * array.size)
        return read_part(array, 0, len(array))
    raise wrong_map(array, file, what)


def _refuse_other_maps(file: Path) -> None:
    """Raise :class:`InputError` for the other maps that scotopic writes: a PFM does not say what its numbers are."""
    kind = _OTHER_MAPS.get(re.sub(r"^[0-9]{6,}-", "", file.stem.lower()))
    if kind is not None:
        raise InputError(
            f"{str(file)!r} is named like {kind}, but a disparity map in px is needed. Give disparity.pfm or the "
            "folder of the results; or rename the file if it does hold disparity."
        )


def _from_arrays(arrays: dict[str, NDArray[Any]], file: Path) -> Answers:
    if "disparity_all" in arrays and "reason" in arrays:
        dense = _known(as_map(arrays["disparity_all"], file, "disparity_all"))
        reason = as_map(arrays["reason"], file, "reason")
        check_size(file, reason, file, dense)
        disparity = np.where(reason == 0, dense, np.nan)
    elif "disparity" in arrays or list(arrays) == ["arr_0"]:
        found = as_map(arrays["disparity" if "disparity" in arrays else "arr_0"], file, "disparity")
        disparity = dense = _known(found)
    else:
        raise InputError(f"{str(file)!r} has no 'disparity'. Save the map under that name.")
    confidence = as_map(arrays["confidence"], file, "confidence") if "confidence" in arrays else None
    if confidence is not None:
        check_size(file, confidence, file, dense)
    return Answers(disparity, dense, confidence)


def _known(disparity: Map) -> Map:
    """Return disparities with NaN where they are not finite."""
    return np.where(np.isfinite(disparity), disparity, np.nan)


def read_confidence(path: Path) -> Map:
    """Read the confidence of each pixel: any image, or the ``confidence`` of an NPZ file or of a result's folder."""
    file = path / "match.npz" if os.path.isdir(path) else path
    if file.suffix.lower() != ".npz":
        is_array = file.suffix.lower() == ".npy"
        return as_map(_read_array(file, "confidence") if is_array else read_image(file), file, "confidence")
    arrays = read_npz(file, ("confidence",))
    if "confidence" not in arrays:
        raise InputError(f"{str(file)!r} has no 'confidence'. Save the map under that name.")
    return as_map(arrays["confidence"], file, "confidence")


def doubt_maps(path: Path, disparity: Map, truth: Map, truth_path: Path | None = None) -> list[str]:
    """Return what to tell the user about two maps of one size that do not seem to be disparities in px both.

    Of the truth alone only with its path: data sets doubt theirs when they are read.
    """
    told = []
    if _looks_like_depth(disparity, truth):
        told.append(
            f"where the truth is larger, {str(path)!r} is smaller. One of the two looks like a depth; both must be "
            "disparities in px."
        )
    if (factor := _find_factor(disparity, truth)) is not None:
        told.append(
            f"{str(path)!r} is {factor:.3g} times the truth nearly everywhere. One of the two seems to be in another "
            "unit, or of images of another size; both must be disparities in px of one size."
        )
    for file, values, others in ((path, disparity, truth), (truth_path, truth, disparity)):
        if file is not None and (marker := find_marker(values, others)) is not None:
            told.append(doubt_marker(file, values, marker))
    return told


def _looks_like_depth(disparity: Map, truth: Map) -> bool:
    """Whether one map falls where the other rises, as depth does where disparity rises: by the ranks of the values."""
    known = np.flatnonzero(np.isfinite(disparity) & np.isfinite(truth))
    known = known[:: max(len(known) // _MOST_RANKED, 1)]
    if len(known) < _LEAST_RANKED:
        return False
    first, second = (each.flat[known].argsort(kind="stable").argsort(kind="stable") for each in (disparity, truth))
    return bool(np.corrcoef(first, second)[0, 1] < _OPPOSITE)


def _find_factor(disparity: Map, truth: Map) -> float | None:
    """Return by what one map is to be divided to be like the other, if they differ by a factor and by little else."""
    both = np.isfinite(disparity) & np.isfinite(truth) & (disparity > 0) & (truth > 0)
    if np.count_nonzero(both) < _LEAST_RANKED:
        return None
    low, middle, high = np.quantile(np.log(disparity[both] / truth[both]), (0.25, 0.5, 0.75))
    is_a_factor = high - low < _SPREAD and abs(middle) > math.log(_LEAST_FACTOR)
    return math.exp(middle) if is_a_factor else None


def find_marker(values: Map, others: Map) -> float | None:
    """Return a value that seems to mean unknown: 0 or less, more than once in a thousand, and far from all others.

    Below 0 it is enough that the other map has no such values: disparities are rounded to whole pixels in some. Or a
    value, as often, beyond the width of the image, which no disparity is.
    """
    known = values[np.isfinite(values)]
    if known.size < _LEAST_RANKED:
        return None
    lowest, highest, least = float(known.min()), float(known.max()), max(_MARKER_SHARE * known.size, 2)
    if highest > values.shape[1] and np.count_nonzero(known == highest) >= least:
        return highest
    if lowest > 0:
        return None
    rest = known[known > lowest]
    if known.size - rest.size < least or not rest.size:
        return None
    has_none = bool((rest >= 0).all()) and not bool((others < 0).any())
    is_apart = rest.min() - lowest > 1 or (lowest < 0 and has_none)
    return lowest if is_apart else None


def doubt_marker(path: Path, values: NDArray[Any], marker: float) -> str:
    """Return what to tell the user about a value of a map that seems to mean unknown."""
    share = 100 * float((values == marker).mean())
    return (
        f"{share:.3g} % of {str(path)!r} are exactly {marker:g}, apart from the rest, and scored as disparities. If "
        "that means unknown, store infinity or NaN there."
    )


def as_map(array: NDArray[Any], path: Path, what: str) -> Map:
    """Return an array as a float64 map, or raise :class:`InputError` if its shape or type is wrong."""
    kinds = "fiu" if what.startswith("disparity") else "fiub"  # others may be masks
    if array.ndim != 2 or array.size == 0 or array.dtype.kind not in kinds:
        raise wrong_map(array, path, what)
    return array.astype(np.float64)


def wrong_map(array: NDArray[Any], path: Path, what: str) -> InputError:
    """Return the error to raise about an array that is no map."""
    return InputError(
        f"The {what} in {str(path)!r} has shape {array.shape} and type {array.dtype}, but must be one channel of "
        "numbers, H x W."
    )


def check_size(path: Path, found: NDArray[Any], other: Path | str, expected: NDArray[Any]) -> None:
    """Raise :class:`InputError` unless two maps have the same height and width."""
    if found.shape[:2] != expected.shape[:2]:
        sizes = [f"{each.shape[1]} x {each.shape[0]} px" for each in (found, expected)]
        raise InputError(
            f"{str(path)!r} is {sizes[0]}, but {str(other)!r} is {sizes[1]}. Crop one of them, or resize it and scale "
            "its disparity with it."
        )
