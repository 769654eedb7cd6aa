"""The files that a Middlebury submission has in each scene's folder, for a method called ``ALG``:

``disp0ALG.pfm``
    Disparity of every pixel; +inf where there is none.
``disp0ALG_s.pfm``
    Only the disparities that the method vouches for; +inf elsewhere.
``timeALG.txt``
    Seconds.
"""

import math
import os
import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError
from scotopic.io.atomic import atomic_path, claim_folder
from scotopic.io.disparity import write_disparity

_NAME = re.compile(r"[A-Za-z0-9_.\-]{1,60}", re.ASCII)


def submission_files(name: str) -> tuple[str, str, str]:
    """Return the names of the three files; raise :class:`InputError` if `name` cannot be part of a file's name."""
    if not _NAME.fullmatch(name):
        raise InputError(
            f"The method name {name[:80]!r} cannot be part of a file name. Use up to 60 letters, digits, '_', '-' "
            "and '.'."
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
    """Write one scene of a submission by the method `name`, and return its folder.

    `folder` is that of the scene, such as ``trainingQ/Adirondack``; it is created if it is missing. `dense` and
    `sparse` are disparity maps, ``H x W`` px, of one size; `seconds` is the run time.

    Raises :class:`InputError` if an array is not such a map, or `seconds` is not a duration. Raises
    :class:`OutputError` if the folder cannot be written or already holds such files.
    """
    names = submission_files(name)
    if np.shape(dense) != np.shape(sparse) or np.ndim(dense) != 2:
        raise InputError(
            f"The maps of the submission {name!r} have shapes {np.shape(dense)} and {np.shape(sparse)}. Both must be "
            "H x W of one size."
        )
    if not (math.isfinite(seconds) and seconds >= 0):
        raise InputError(f"The submission {name!r} cannot have taken {seconds} seconds.")
    target = claim_folder(folder, names, overwrite)
    for file, values in zip(names, (dense, sparse), strict=False):
        write_disparity(target / file, np.asarray(values, np.float32))
    with atomic_path(target / names[2]) as temporary:
        temporary.write_text(f"{seconds:.6g}\n")
    return target
