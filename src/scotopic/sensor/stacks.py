"""Frames of one view from the stacks that photon counters and single-photon cameras write: a plane is a frame.

Several planes can be summed into a frame, since a single one may be too dark to be aligned with others.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from scotopic.errors import InputError, SettingsError
from scotopic.io.frames import Frame, FrameSource, open_frames
from scotopic.io.mapped import read_part
from scotopic.sensor.array_file import load_array
from scotopic.sensor.counts import as_stack, read_counts
from scotopic.sensor.recording import ask_for_kind, need_white, refuse_plane_options
from scotopic.sensor.spad import check_bit_order, load_planes, read_bit_planes

KINDS = ("auto", "counts", "bit-planes")


class PlaneStack:
    """The planes of a file as frames, each of `group` planes; what is left at the end is not used.

    Parameters
    ----------
    path
        The file.
    planes
        How many it holds.
    group
        Planes in a frame.
    values
        What the values of the frames are, in words.
    read_planes
        Reads a frame, by the number of its first plane.
    """

    slack, fps = 0, None

    def __init__(self, path: Path, planes: int, group: int, values: str, read_planes: Callable[[int], Frame]) -> None:
        self.path, self.title = str(path), repr(str(path))
        if group > planes:
            raise InputError(f"{self.title} has {planes} planes, fewer than the {group} of one frame. Lower group.")
        self.total, self.values = planes // group, values
        self._group, self._read_planes = group, read_planes

    def read(self, start: int) -> Iterator[Frame]:
        """Yield the frames from number ``start`` on, reading each when it is needed."""
        for number in range(start, self.total):
            try:
                yield self._read_planes(number * self._group)
            except InputError as error:
                raise InputError(f"Frame {number} of {self.title}: {error}") from error

    def name(self, number: int) -> None:
        """Return ``None``: a plane has no file of its own."""

    def close(self) -> None:
        """Do nothing: no file is kept open."""


def open_stream(
    path: Path,
    kind: str = "auto",
    *,
    white: float | None = None,
    group: int = 1,
    width: int | None = None,
    height: int | None = None,
    bit_order: str | None = None,
) -> FrameSource:
    """Open the frames of one view.

    Parameters
    ----------
    path
        A folder of images, a video or a TIFF file of several pages; or an ``.npy`` stack of photon counts or bit
        planes, whose `kind` says which.
    kind
        ``"counts"``, ``"bit-planes"``, or ``"auto"`` for the others.
    white
        What becomes 1.0, as for :func:`~scotopic.sensor.read_counts` and :func:`~scotopic.sensor.read_bit_planes`.
    group
        How many planes of a stack make a frame.
    width, height, bit_order
        Of bit planes, as for :func:`~scotopic.sensor.read_bit_planes`.

    Raises
    ------
    InputError, SettingsError
        The file cannot be read, or its `kind` or `white` is missing.
    """
    if kind not in KINDS:
        raise SettingsError(f"kind must be one of {', '.join(KINDS)} for frames, not {kind!r}.")
    shown = repr(os.fspath(path))
    of_planes: dict[str, Any] = {"width": width, "height": height, "bit_order": bit_order}
    refuse_plane_options(shown, kind, of_planes)
    if kind == "auto":
        if path.suffix.lower() in (".npy", ".bin"):
            raise ask_for_kind(shown)
        if group != 1:
            raise SettingsError(f"group={group} is for photon counts and bit planes. Leave it out, or pass their kind.")
        return open_frames(path)
    if group < 1:
        raise SettingsError(f"group must be 1 or more planes, not {group}.")
    if kind == "bit-planes":
        check_bit_order(bit_order)
        planes, _ = load_planes(path, width, height)
        what = "share of bits set" if white is None else f"flux over {white:g} photons per plane"
        return PlaneStack(
            path,
            len(planes),
            group,
            f"{what}, {group} bit planes in a frame",
            lambda first: read_bit_planes(path, white=white, first=first, planes=group, **of_planes).image,
        )
    level = need_white(shown, white)
    counts = as_stack(*load_array(path, "photon counts"))
    values = f"sum of {group} planes of photon counts, over {level:g} photons per plane"
    return PlaneStack(
        path,
        len(counts),
        group,
        values,
        lambda first: read_counts(read_part(counts, first, first + group), level).image,
    )
