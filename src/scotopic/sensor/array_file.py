"""Arrays that cameras and their software save: photon counts, bit planes, masks; in ``.npy`` files or in memory."""

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError
from scotopic.io.input_file import open_input, reading


def load_array(source: Any, what: str) -> tuple[NDArray[Any], str]:
    """Return the array that `source` is or that its ``.npy`` file holds, and how to call it in error messages.

    The file is mapped, not read: it may be larger than memory. Pickled objects are refused.
    """
    if not isinstance(source, str | os.PathLike):
        if np.ma.is_masked(source):
            raise InputError(f"The array of {what} is masked. Pass it without its mask, and the mask as hot_pixels.")
        return np.asarray(source), f"The array of {what}"
    title = f"The file of {what} {os.fspath(source)!r}"
    with open_input(source, f"an .npy file of {what}") as file:
        if file.read(6)[:2] not in (b"\x93N", b"PK"):
            raise InputError(f"{title} is not an .npy file. Save the array with numpy.save.")
    with reading(source, f"an .npy file of {what}", "Save it with numpy.save."):
        found = np.load(source, mmap_mode="r", allow_pickle=False)
    if not isinstance(found, np.ndarray):
        found.close()
        raise InputError(f"{title} is an archive of several arrays. Save the one array with numpy.save.")
    return found, title
