"""Files that hold several frames of one view: videos, TIFF files of several pages, NumPy arrays.

What a file is, its first bytes say, not its name. Frames are as recorded, as :mod:`scotopic.io.frames` has them.
"""

from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError
from scotopic.io.frames import IMAGE_SUFFIXES, Frame, natural_order
from scotopic.io.images import as_image, check_pixels, read_pages
from scotopic.io.input_file import open_input, reading
from scotopic.io.mapped import read_part
from scotopic.io.npz import read_npz
from scotopic.io.video import VideoFile, is_video


def read_stack(
    path: Path, *, max_pixels: int | None = None, max_bytes: int | None = None, videos: list[VideoFile] | None = None
) -> Iterator[Frame]:
    """Yield the frames of a file, each read when it is asked for: as many as it has, or one if it is an image.

    A video (AVI, MP4, MOV, Matroska, WebM); a TIFF file; an ``.npy`` array ``(frames, H, W)`` or ``(frames, H, W, 3)``;
    an ``.npz`` file of one such array, or of several images in the order of their names; or an image. A video is
    appended to `videos`: it knows the times of its frames.

    Raises :class:`InputError` if the file cannot be read, a frame has over `max_pixels`, or the arrays of an ``.npz``
    file take more than `max_bytes`, before any of that is decoded; or if the values of a frame cannot be matched.
    """
    with open_input(path, "a video, a stack or an image") as file:
        head = file.read(12)
    title = repr(str(path))
    if is_video(head):
        with closing(VideoFile(path, max_pixels=max_pixels)) as video:
            if videos is not None:
                videos.append(video)
            yield from video.read(0)
        return
    if head.startswith(b"\x93NUMPY"):
        stack = _frames_of(_map_array(path), title)
        check_pixels(title, stack.shape[2], stack.shape[1], max_pixels)
        found: Iterable[Frame] = (read_part(stack, number, number + 1)[0] for number in range(len(stack)))
    elif head.startswith(b"PK"):
        found = _arrays(path, title, max_bytes)
    else:
        found = _pages(path, max_pixels)
    for number, frame in enumerate(found):
        check_pixels(title, frame.shape[1], frame.shape[0], max_pixels)
        as_image(frame, "", title=f"Frame {number} of {title}")  # raises if it cannot be matched
        yield frame


def _pages(path: Path, max_pixels: int | None) -> Iterator[Frame]:
    try:
        yield from read_pages(path, max_pixels=max_pixels)
    except InputError as error:
        if path.suffix.lower() in IMAGE_SUFFIXES:
            raise
        raise InputError(f"{error} Of videos AVI, MP4, MOV, Matroska and WebM can be read.") from error


def _map_array(path: Path) -> NDArray[Any]:
    """Return the array of a file, mapped: only the frames that are used are read."""
    with reading(path, "an .npy file", "Save it with numpy.save."):
        return cast("NDArray[Any]", np.load(path, mmap_mode="r", allow_pickle=False))


def _arrays(path: Path, title: str, max_bytes: int | None) -> Iterable[Frame]:
    arrays = read_npz(path, max_bytes=max_bytes)
    found = [_frames_of(arrays[name], title) for name in sorted(arrays, key=natural_order)]
    if not found:
        raise InputError(f"{title} holds no arrays. Save the frames as one array (frames, H, W).")
    if len(found) == 1:
        return found[0]
    if any(len(stack) != 1 for stack in found):
        raise InputError(f"{title} holds {len(found)} stacks of frames. Save one array (frames, H, W) for each view.")
    return [stack[0] for stack in found]


def _frames_of(array: NDArray[Any], title: str) -> NDArray[Any]:
    """Return ``(frames, H, W[, C])``. A last axis of 3 is color, because no image is three pixels wide."""
    is_one_frame = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (1, 3))
    stack = array[None] if is_one_frame else array
    if stack.ndim not in (3, 4) or stack.size == 0:
        raise InputError(f"{title} has shape {array.shape}. Save frames as (frames, H, W) or (frames, H, W, 3).")
    return stack
