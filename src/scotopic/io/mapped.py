"""Arrays in files that may be larger than memory: mapped to learn their shape, and read part by part.

What is mapped is never looked at. Of a file that grows shorter meanwhile, or lies on a disk that is gone, a look at the
mapping would end the process without a word (SIGBUS); reading says what is wrong.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError
from scotopic.io.input_file import open_input


def read_part(array: NDArray[Any], start: int, stop: int) -> NDArray[Any]:
    """Return the entries from `start` to `stop` along the first axis of an array, which may be mapped.

    Raises :class:`InputError` if its file has become shorter, or cannot be read.
    """
    if not isinstance(array, np.memmap) or not array.flags.c_contiguous or array.filename is None:
        return np.asarray(array[start:stop])
    shape = (stop - start, *array.shape[1:])
    with open_input(array.filename, "an array file") as file:
        file.seek(array.offset + start * math.prod(shape[1:]) * array.dtype.itemsize)
        values = np.fromfile(file, array.dtype, math.prod(shape))
    if values.size < math.prod(shape):
        raise InputError(
            f"{str(array.filename)!r} became shorter while it was read. Wait until it is complete, or fetch it again."
        )
    return values.reshape(shape)
