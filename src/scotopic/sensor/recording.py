"""An image with what is known about how it was recorded, and readers that say what they assumed."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError, SettingsError
from scotopic.io import as_image, read_image
from scotopic.sensor.model import Sensor
from scotopic.sensor.response import Response, linearize

#: What cameras call their raw files.
RAW_SUFFIXES = (
    ".dng", ".cr2", ".cr3", ".crw", ".nef", ".nrw", ".arw", ".srf", ".sr2", ".raf", ".orf", ".rw2", ".pef", ".srw",
    ".3fr", ".fff", ".iiq", ".kdc", ".dcr", ".mos", ".mrw", ".rwl", ".x3f",
)  # fmt: skip
KINDS = ("auto", "image", "raw", "counts", "bit-planes")


@dataclass(frozen=True, eq=False)
class Recording:
    """An image as recorded, and how. :func:`scotopic.match` takes it wherever it takes an array.

    Attributes
    ----------
    image
        float32 ``H x W x C``.
    sensor
        The camera's noise model, where it is known.
    assumed
        What was taken for granted in reading, in words and numbers, for ``report.json``.
    """

    image: NDArray[np.float32]
    sensor: Sensor | None = None
    assumed: dict[str, Any] = field(default_factory=dict)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the image, so that NumPy and :func:`scotopic.match` take a recording for an array."""
        wanted = self.image if dtype is None else self.image.astype(dtype, copy=False)
        return wanted.copy() if copy else wanted

    def report(self) -> dict[str, Any]:
        """Return what ``report.json`` should say about this view."""
        return {**self.assumed, "sensor": None if self.sensor is None else self.sensor.as_dict()}


def read_picture(path: str | os.PathLike[str], *, response: Response | None = None) -> Recording:
    """Read PNG, TIFF, JPEG, PGM/PPM or PFM: values as recorded, over the format's full scale.

    Parameters
    ----------
    path
        The file.
    response
        Undo this response (``"srgb"``, a gamma). By default values stay as they were recorded: the paper's protocol.

    Returns
    -------
    Recording
        ``assumed`` says over which full scale, and whether anything was linearized.

    Raises
    ------
    InputError
        The file cannot be read as an image.
    """
    pixels = read_image(path)
    image = as_image(pixels, os.fspath(path))
    scale = {"u1": "255", "u2": "65535"}.get(pixels.dtype.str[1:], "1 (floats)")
    assumed = {
        "file": os.fspath(path),
        "kind": "image",
        "values": f"as recorded, over the full scale of {scale}",
        "linearized": None if response in (None, "linear") else f"from {response}",
    }
    if response is not None:
        image = linearize(image, response).astype(np.float32)
    return Recording(image, None, assumed)


def read_recording(
    path: str | os.PathLike[str],
    kind: str = "auto",
    *,
    response: Response | None = None,
    color: str = "binned",
    white: float | None = None,
    width: int | None = None,
) -> Recording:
    """Read one view from whatever a camera left.

    Parameters
    ----------
    path
        An image, a camera's raw file, or an ``.npy`` file of photon counts or packed bit planes.
    kind
        ``"image"``, ``"raw"``, ``"counts"``, ``"bit-planes"``, or ``"auto"``: by the file's name. Arrays are never
        guessed: counts and packed bits look alike.
    response
        Linearize an image: see :func:`read_picture`.
    color
        For raw files: see :func:`~scotopic.sensor.raw.read_raw`.
    white
        What becomes 1.0: counts per frame, or photons per bit plane. The same for both views of a pair.
    width
        Of bit planes, where it is not a multiple of 8.

    Raises
    ------
    InputError, SettingsError
        The file cannot be read, or it must be said what it is.
    """
    if kind not in KINDS:
        raise SettingsError(f"kind: found {kind!r}, expected one of {', '.join(KINDS)}; choose one of these")
    suffix = Path(path).suffix.lower()
    if kind == "auto":
        if suffix in (".npy", ".bin"):
            raise InputError(
                f"{os.fspath(path)!r}: found an array, expected to be told what it holds; pass kind='counts' (photons "
                "per pixel) or kind='bit-planes' (packed bits of a SPAD)"
            )
        kind = "raw" if suffix in RAW_SUFFIXES else "image"
    if kind == "raw":
        from scotopic.sensor.raw import read_raw

        return read_raw(path, color)
    if kind == "counts":
        from scotopic.sensor.counts import read_counts

        if white is None:
            raise SettingsError(
                f"{os.fspath(path)!r}: found no white for photon counts, expected the count per frame that becomes "
                "1.0, the same for both views; pass white, see scotopic.sensor.common_white"
            )
        return read_counts(path, white)
    if kind == "bit-planes":
        from scotopic.sensor.spad import read_bit_planes

        return read_bit_planes(path, width=width, white=white)
    return read_picture(path, response=response)


def load_array(source: Any, name: str) -> NDArray[Any]:
    """Return an array from an ``.npy`` file, without pickles and without reading all of it, or the array itself."""
    if not isinstance(source, str | os.PathLike):
        return np.asarray(source)
    shown = f"{name} {os.fspath(source)!r}"
    try:
        found = np.load(source, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # NumPy's reader of headers lets through whatever its tokenizer raises
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise InputError(
            f"{shown}: found no readable array ({reason:.200}), expected an .npy file; save it with numpy.save"
        ) from error
    if not isinstance(found, np.ndarray):
        found.close()
        raise InputError(f"{shown}: found an archive of arrays, expected one array; save it with numpy.save")
    return found
