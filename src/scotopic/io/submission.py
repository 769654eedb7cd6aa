"""The files that a Middlebury submission has in each scene's folder, for a method called ``ALG``:

``disp0ALG.pfm``
    Disparity of every pixel; +inf where there is none.
``disp0ALG_s.pfm``
    Only what the method stands by; +inf elsewhere.
``timeALG.txt``
    Seconds.

Their names and contents are Middlebury's, so they carry no version of ours.
"""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError
from scotopic.io.atomic import atomic_path, claim_folder
from scotopic.io.pfm import plain_file_size, read_pfm, write_pfm

_NAME = re.compile(r"[A-Za-z0-9_.\-]{1,60}", re.ASCII)


@dataclass(frozen=True, eq=False)
class Submission:
    """One scene's answers: every pixel, what the method stands by, and how long it took."""

    dense: NDArray[np.float32]
    sparse: NDArray[np.float32]
    seconds: float


def submission_files(name: str) -> tuple[str, str, str]:
    """Return the names of the three files.

    Raises
    ------
    InputError
        `name` cannot be part of a file's name.
    """
    if not _NAME.fullmatch(name):
        raise InputError(
            f"method name: found {name[:80]!r}, expected letters, digits, '_', '-' and '.', at most 60; choose another"
        )
    return f"disp0{name}.pfm", f"disp0{name}_s.pfm", f"time{name}.txt"


def write_submission(
    folder: str | os.PathLike[str],
    name: str,
    dense: NDArray[np.floating],
    sparse: NDArray[np.floating],
    seconds: float,
    *,
    overwrite: bool = False,
) -> Path:
    """Write one scene of a submission.

    Parameters
    ----------
    folder : str or path
        Of the scene, such as ``trainingQ/Adirondack``; created if it is missing.
    name : str
        Of the method.
    dense, sparse : ndarray of float
        ``H x W`` px, of one size; what is not finite is stored as +inf.
    seconds : float
        How long it took.
    overwrite : bool
        Replace what is there.

    Raises
    ------
    InputError
        An array is no such map, or `seconds` is no time.
    OutputError
        The folder cannot be written or already holds such files.
    """
    names = submission_files(name)
    if np.shape(dense) != np.shape(sparse) or np.ndim(dense) != 2:
        raise InputError(
            f"submission {name!r}: found maps of shape {np.shape(dense)} and {np.shape(sparse)}, expected one H x W; "
            "give both in the left frame"
        )
    if not (math.isfinite(seconds) and seconds >= 0):
        raise InputError(f"submission {name!r}: found {seconds} seconds, expected a time; measure it")
    target = claim_folder(folder, names, overwrite)
    for file, values in zip(names, (dense, sparse), strict=False):
        write_pfm(target / file, np.where(np.isfinite(values), values, np.inf).astype(np.float32))
    with atomic_path(target / names[2]) as temporary:
        temporary.write_text(f"{seconds:.6g}\n")
    return target


def read_submission(folder: str | os.PathLike[str], name: str) -> Submission:
    """Read one scene of a submission; unknown is NaN.

    Raises
    ------
    InputError
        A file is missing or damaged, or the two maps differ in size.
    """
    names = submission_files(name)
    dense, sparse = (read_pfm(Path(folder) / file) for file in names[:2])
    if dense.shape != sparse.shape or dense.ndim != 2:
        raise InputError(
            f"{os.fspath(folder)!r}: found maps of shape {dense.shape} and {sparse.shape}, expected one H x W; "
            "write it again"
        )
    path = Path(folder) / names[2]
    if plain_file_size(path, "a time") > 1000:
        raise InputError(f"{str(path)!r}: found more than a number, expected seconds; write it again")
    words = path.read_bytes().decode("ascii", "backslashreplace").strip()
    if not re.fullmatch(r"[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?", words, re.ASCII) or not math.isfinite(float(words)):
        raise InputError(f"{str(path)!r}: found {words[:40]!r}, expected seconds; write it again")
    unknown = np.float32(np.nan)
    return Submission(
        np.where(np.isfinite(dense), dense, unknown), np.where(np.isfinite(sparse), sparse, unknown), float(words)
    )
