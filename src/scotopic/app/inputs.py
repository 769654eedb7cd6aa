"""Pairs and clips to match: the visitor's own, or rooms rendered here, whose true disparity is known."""

import os
import re
import shutil
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.app.session import Limits, Map, Session, Uploads, View
from scotopic.demo import Scene, render_sway
from scotopic.depth import Calibration, Rectifier, check_rectified, read_calibration
from scotopic.depth.calibration import doubt_size
from scotopic.errors import InputError, SettingsError
from scotopic.inputs import check_pair
from scotopic.io import as_image, read_image
from scotopic.io.frames import doubt_names, doubt_times, natural_order
from scotopic.io.headers import is_turned
from scotopic.io.images import ONE_PAGE, TURNED, count_pages
from scotopic.io.input_file import plain_file_size, read_input_file
from scotopic.io.stacks import read_stack
from scotopic.io.video import VideoFile
from scotopic.levels import find_levels, warn_of_little_light
from scotopic.progress import Progress, silent
from scotopic.sensor import simulate_pair, to_uint8

OWN, OWN_CLIP = "My images", "My clip"  #: the choices that are not a rendered room
RENDERING = "rendering the frames"  #: stage of a built-in clip
SIDES = ("left", "right")
READ_NOISE = 2.0  #: default of the page, in photons, as in the paper

_LARGEST_CALIBRATION = 2**20  # bytes


@dataclass(frozen=True)
class Room:
    """A built-in pair: its size, the seed that places its furniture, and a search range that covers its disparities.

    With several frames a clip, from cameras that sway.
    """

    width: int
    height: int
    seed: int
    max_disparity: int
    frames: int = 1


ROOMS = {
    "Room (384 x 256)": Room(384, 256, 0, 64),
    "Room, small (192 x 128)": Room(192, 128, 0, 32),
    "Another room (384 x 256)": Room(384, 256, 3, 64),
    "Room, clip (288 x 192, 16 frames, swaying camera)": Room(288, 192, 0, 48, frames=16),
}
_BASELINE = 0.3  # meters; the camera stands 5 baselines above the floor, which is then a person's eye height


@dataclass(frozen=True)
class Request:
    """The choices in the form of the page."""

    source: str  #: a name in :data:`ROOMS`, :data:`OWN` or :data:`OWN_CLIP`
    photons: float | None = 2.0  #: simulate this many photons per pixel at white; ``None`` takes the pair as recorded
    read_noise: float = READ_NOISE  #: of the simulated sensor, in photons
    preset: str = "best"
    min_disparity: int | None = None  #: start and end of the search range, px; ``None`` for the method's default
    max_disparity: int | None = None
    focal_length: float | None = None  #: px, for pairs without a calibration file; without it no depth in meters
    baseline: float | None = None  #: meters, likewise
    unit: str | None = None  #: of the calibration's baseline, if its file does not say
    rectify_first: bool = False  #: rectify own images with their calibration


@dataclass(frozen=True, eq=False)
class Pair:
    """A pair or a clip ready to be matched, and what is known about it: about its first frame, if it has several."""

    frames: tuple[tuple[NDArray[Any], NDArray[Any]], ...]  #: left and right image of each
    truth: Map | None
    calibration: Calibration | None
    about: dict[str, Any]
    warnings: tuple[str, ...] = ()
    views: tuple[View, ...] = ()
    is_rectified: bool = False

    @property
    def is_clip(self) -> bool:
        """Whether there are several frames."""
        return len(self.frames) > 1


# --- uploads --------------------------------------------------------------------------------------------------------


def find_uploads(payload: Any, uploads: Path) -> list[Path]:
    """Return the files that a browser says it has uploaded.

    The browser sends paths and could send any, so only those inside the folder of uploads are accepted. (Gradio would
    check the same, but leaves an empty file behind each time that it does.) Raises InputError if one is not there.
    """
    found = []
    for file in payload if isinstance(payload, list) else [payload]:
        path = file.get("path") if isinstance(file, dict) else None
        real = Path(os.path.realpath(path)) if isinstance(path, str) and "\0" not in path else None
        if real is None or not real.is_relative_to(os.path.realpath(uploads)) or not real.is_file():
            raise InputError("The uploaded file is not here, or no longer. Drop it again.")
        found.append(real)
    return found


def receive_view(session: Session, side: str, path: str | os.PathLike[str], limits: Limits) -> View:
    """Read an uploaded view (``"left"`` or ``"right"``) into the session and remove the file.

    Raises InputError if it is too large or not an image; the message has the visitor's file name, not our path.
    """
    file = Path(path)
    title = f"{side} image {file.name!r}"
    try:
        _check_size(file, limits)
        pixels = read_image(file, max_pixels=limits.pixels)  # as recorded, which takes a quarter of the memory
        as_image(pixels, "", title=title)  # refuses values that cannot be matched
        told = _doubt_turned(file, limits)
        told += (ONE_PAGE.format(pages),) if (pages := count_pages(file)) > 1 else ()
    except InputError as error:
        text = str(error).replace(str(file.parent) + os.sep, "")
        text = text if text.startswith(title) else f"{side} image {text}"
        raise InputError(f"The {text}") from error
    finally:
        _remove(file)
    session.pair.accept(side, View(file.name, pixels, warnings=told))
    return session.pair.views[side]


def receive_clip(session: Session, side: str, paths: Sequence[str | os.PathLike[str]], limits: Limits) -> View:
    """Read an uploaded clip of one side into the session and remove the files: a video, a stack, or an image per frame.

    Of more frames than the limits allow the first are taken. Raises InputError if a file is too large, cannot be read,
    or has frames of another size; the message has the visitor's file names, not our paths.
    """
    files = sorted((Path(path) for path in paths), key=lambda file: natural_order(file.name))
    folder = session.working_folder()
    videos: list[VideoFile] = []
    told: tuple[str, ...] = ()
    try:
        for file in files:
            _check_size(file, limits)
        for file in files[:1]:
            told = _doubt_turned(file, limits)
        with closing(_frames_in(files, folder, limits, videos)) as frames:
            view = _collect_frames(frames, limits)
        if any(video.is_turned for video in videos):
            told = (TURNED,)
    except InputError as error:
        text = str(error)
        for file in files:
            text = text.replace(str(file.parent) + os.sep, "")
        raise InputError(f"The {side} clip cannot be used. {text}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        for file in files:
            _remove(file)
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    video = videos[0] if len(files) == len(videos) == 1 else None
    images = tuple(file.name for file in files) if len(files) > 1 and not videos else ()
    named = replace(view, name=f"{files[0].name}{more}", warnings=(*view.warnings, *told), video=video, files=images)
    session.clip.accept(side, named)
    return session.clip.views[side]


def _frames_in(
    files: Sequence[Path], folder: Path, limits: Limits, videos: list[VideoFile]
) -> Generator[NDArray[Any], None, None]:
    """Yield the frames of files, one after the other; append those that are videos to `videos`."""
    for file in files:
        # Under a name of ours: to the library that reads videos, some names mean more than one file.
        ending = file.suffix if re.fullmatch(r"\.\w{1,5}", file.suffix) else ""
        ours = file.rename(folder / f"upload{ending}")
        try:
            yield from read_stack(ours, max_pixels=limits.pixels, max_bytes=12 * limits.clip_pixels, videos=videos)
        except InputError as error:
            raise InputError(str(error).replace(str(ours), file.name)) from error
        ours.unlink()


def _collect_frames(frames: Iterator[NDArray[Any]], limits: Limits) -> View:
    """Return as many frames of one size as the limits allow."""
    kept: list[NDArray[Any]] = []
    most = limits.frames
    for frame in frames:
        if len(kept) == most:
            size = f" of {kept[0].shape[1]} x {kept[0].shape[0]} px" if most < limits.frames else ""
            told = f"Only the first {most} frames{size} of a clip are used here."
            return View("", kept[0], tuple(kept[1:]), (told,))
        kept.append(frame)
        if frame.shape != kept[0].shape:
            raise InputError(f"Its frame {len(kept) - 1} has shape {frame.shape}, but its first has {kept[0].shape}.")
        most = min(limits.frames, max(limits.clip_pixels // (frame.shape[0] * frame.shape[1]), 2))
    if len(kept) < 2:
        raise InputError("It has one frame only. Drop a video, a stack or several images, or match a pair.")
    return View("", kept[0], tuple(kept[1:]))


def _doubt_turned(file: Path, limits: Limits) -> tuple[str, ...]:
    """Return what to tell a visitor whose image is to be turned to be seen upright."""
    return (TURNED,) if is_turned(read_input_file(file, "an image file", limits.upload_bytes)) else ()


def _doubt_steps(views: Sequence[View]) -> str | None:
    """Return what to tell a visitor whose videos show the frames of a pair at different times."""
    left, right = (view.video for view in views)
    if left is None or right is None:
        return None
    titles = repr(views[0].name), repr(views[1].name)
    doubts = (
        doubt_times(number, (left.time(number), right.time(number)), left.fps, titles)
        for number in range(len(views[0].frames))
    )
    return next(filter(None, doubts), None)


def _doubt_files(views: Sequence[View]) -> str | None:
    """Return what to tell a visitor if the numbers in the names of two views' images do not go along."""
    return doubt_names(*([name for name, _ in zip(view.files, view.frames, strict=False)] for view in views))


def _check_size(file: Path, limits: Limits) -> None:
    size, most = plain_file_size(file), limits.upload_bytes
    if size > most:
        raise InputError(
            f"{file.name!r} has {size / 2**20:.0f} MiB; the limit is {most / 2**20:.0f} MiB. Make it smaller."
        )


def receive_calibration(session: Session, paths: Sequence[str | os.PathLike[str]]) -> str:
    """Read one or two calibration files into the session, remove the files, and return their names.

    Raises InputError if they are too large or more than two.
    """
    files = [Path(path) for path in paths]
    try:
        if len(files) > 2:
            raise InputError(f"{len(files)} calibration files are too many. Drop one, or one for each camera.")
        contents = [read_input_file(file, "a calibration file", _LARGEST_CALIBRATION) for file in files]
        session.calibration_files = tuple((file.name, content) for file, content in zip(files, contents, strict=True))
    except InputError as error:
        text = str(error)
        for file in files:
            text = text.replace(str(file.parent) + os.sep, "")
        raise InputError(f"{text} Drop another calibration.") from error
    finally:
        for file in files:
            _remove(file)
    return " and ".join(file.name for file in files)


def _remove(file: Path) -> None:
    """Remove an upload and, if nothing else is in it, the folder that the web server made for it."""
    file.unlink(missing_ok=True)
    with suppress(OSError):  # another upload lies there, or it is gone already
        file.parent.rmdir()


# --- pairs ----------------------------------------------------------------------------------------------------------


def prepare_pair(session: Session, request: Request, limits: Limits, progress: Progress = silent) -> Pair:
    """Return the requested pair or clip, with simulated noise if that was requested too.

    Raises ScotopicError if a view is missing or cannot be matched, or if the request makes no sense.
    """
    _check_search_range(session, request, limits)
    uploads = uploads_of(session, request.source)
    pair = _room_pair(request, progress) if uploads is None else _own_pair(session, uploads, request)
    if request.photons is None:
        return _normalize(replace(pair, about={**pair.about, "noise": "as recorded"}))
    clean = [(as_image(left, "left"), as_image(right, "right")) for left, right in pair.frames]
    doubt = warn_of_little_light(*clean[0])
    noisy = [simulate_pair(*views, request.photons, request.read_noise, seed=seed) for seed, views in enumerate(clean)]
    noise = {"simulated": True, "photons": request.photons, "read_noise": request.read_noise, "seed": 0}
    # In 8 bits, as the paper's files and those of scotopic simulate are.
    frames = tuple((to_uint8(left), to_uint8(right)) for left, right in noisy)
    told = (*pair.warnings, *filter(None, [doubt]))
    return _normalize(replace(pair, frames=frames, about={**pair.about, "noise": noise}, warnings=told))


def uploads_of(session: Session, source: str) -> Uploads | None:
    """Return where the uploads of a source are, or ``None`` if it is not one of the visitor's own."""
    return {OWN: session.pair, OWN_CLIP: session.clip}.get(source)


def _normalize(pair: Pair) -> Pair:
    """Return a pair that uses its range, with a warning if it used little of it; a clip by its first frame."""
    frames = tuple((as_image(left, "left"), as_image(right, "right")) for left, right in pair.frames)
    levels = find_levels(*frames[0])
    if levels.is_full:
        return pair
    told = () if levels.warning is None else (f"{levels.warning} The command scotopic match takes them.",)
    scaled = tuple((levels.apply(left), levels.apply(right)) for left, right in frames)
    about = {**pair.about, "levels": levels.as_dict()}
    return replace(pair, frames=scaled, about=about, warnings=(*pair.warnings, *told))


def _check_search_range(session: Session, request: Request, limits: Limits) -> None:
    """Refuse a range that is too wide, also one whose end is left to the method, before any work is done."""
    first, last = request.min_disparity or 0, request.max_disparity
    if last is None:
        room, uploads = ROOMS.get(request.source), uploads_of(session, request.source)
        left = None if uploads is None else uploads.views.get("left")
        width = room.width if room is not None else left.size[0] if left is not None else 0
        last = max(min(128, width), first + 1)  # as MatchingSettings.for_width has it
    if last - first > limits.disparities:
        raise SettingsError(
            f"The search range {first} to {last} px is too wide for this page, which allows {limits.disparities} px. "
            "Narrow it, or use the command scotopic match."
        )


def thumbnails(session: Session, source: str) -> dict[str, tuple[str, NDArray[np.uint8]]]:
    """Return title and 8-bit pixels of the views of a source that are there, by ``"left"`` and ``"right"``."""
    if source in ROOMS:
        room = ROOMS[source]  # rendered small, which takes a tenth of a second
        scene = _render(replace(room, width=room.width * 128 // room.height, height=128))
        return {"left": ("Left", to_uint8(scene.left)), "right": ("Right", to_uint8(scene.right))}
    uploads = uploads_of(session, source)
    shown = {}
    for side, view in {} if uploads is None else uploads.views.items():
        size = f"{view.size[0]} x {view.size[1]} px"
        title = f"{len(view.frames)} frames of {size}, {view.name}" if view.later else f"{view.name}, {size}"
        image = as_image(view.pixels, side)
        shown[side] = f"{side.title()}: {title}", to_uint8(find_levels(image).apply(image))
    return shown


def _room_pair(request: Request, progress: Progress) -> Pair:
    room = ROOMS.get(request.source)
    if room is None:
        known = ", ".join((*ROOMS, OWN, OWN_CLIP))
        raise SettingsError(f"There is no pair {request.source!r}. Choose one of {known}.")
    scenes = []
    for number in range(room.frames):
        if room.frames > 1:
            progress(RENDERING, number / room.frames)
        scenes.append(_render(room, number))
    source = f"{scenes[0].calibration.source}, baseline in m"
    calibration = replace(scenes[0].calibration, baseline=_BASELINE, source=source)
    about = {"pair": request.source, "calibration": calibration.as_dict()}
    frames = tuple((to_uint8(scene.left), to_uint8(scene.right)) for scene in scenes)
    return Pair(frames, scenes[0].disparity_left, calibration, about)


@lru_cache(maxsize=sum(1 + room.frames for room in ROOMS.values()))
def _render(room: Room, frame: int = 0) -> Scene:
    """Render a frame of a room once; all visitors share it, and nobody writes to it."""
    scene = render_sway(frame, room.width, room.height, room.seed)
    for array in (scene.left, scene.right, scene.disparity_left):
        array.flags.writeable = False
    return scene


def _own_pair(session: Session, uploads: Uploads, request: Request) -> Pair:
    if uploads.problems:
        raise InputError(" ".join(uploads.problems[side] for side in SIDES if side in uploads.problems))
    missing = [side for side in SIDES if side not in uploads.views]
    if missing:
        raise InputError(
            f"The {' and '.join(missing)} {uploads.kind} is missing. Drop two views of a rectified pair, or choose a "
            "built-in room."
        )
    views = tuple(uploads.views[side] for side in SIDES)
    names = " and ".join(f"{side} {uploads.kind} {uploads.views[side].name!r}" for side in SIDES)
    counts = [len(view.frames) for view in views]
    if counts[0] != counts[1]:
        raise InputError(f"The {names} have {counts[0]} and {counts[1]} frames. Drop clips of the same length.")
    frames = tuple(zip(*(view.frames for view in views), strict=True))
    left, right = frames[0]
    check_pair(as_image(left, "left"), as_image(right, "right"), patch_size=1, names=names)
    calibration, doubt = find_calibration(session, request, *views[0].size)
    if request.rectify_first:
        if calibration is None or not session.calibration_files:
            raise SettingsError("To rectify the pair, drop a calibration file with both cameras.")
        rectifier = Rectifier(calibration, *views[0].size)
        calibration = rectifier.calibration
        frames = tuple(rectifier(*pair) for pair in frames)
    checked = check_rectified(*frames[0], min_disparity=request.min_disparity or 0)
    about = {
        "pair": [view.name for view in views],
        "calibration": describe_calibration(calibration, request.rectify_first, doubt),
        "pair_check": checked.as_dict(),
    }
    # Those of both views mostly say the same: clips are cut to one length, and cameras are turned together.
    told = dict.fromkeys((*views[0].warnings, *views[1].warnings, _doubt_steps(views), _doubt_files(views)))
    warnings = (*checked.warnings, *filter(None, told))
    return Pair(frames, None, calibration, about, warnings, views, request.rectify_first)


def describe_calibration(
    calibration: Calibration | None, is_rectified: bool, doubt: str | None
) -> dict[str, Any] | None:
    """Return what the report, and the page if there is a doubt, say about the calibration of a visitor's own pair."""
    if calibration is None:
        return None
    doubted = {} if doubt is None else {"warning": doubt}
    return {**calibration.as_dict(), "rectified_by_scotopic": is_rectified, **doubted}


def find_calibration(
    session: Session, request: Request, width: int, height: int
) -> tuple[Calibration | None, str | None]:
    """Return the calibration of the visitor's own pair, and what is to be doubted about it.

    It is the uploaded one, or what the form says; ``None`` without either.

    Nothing is assumed: a depth in meters from a made-up focal length or baseline would be made up too. Raises
    InputError if the uploaded file cannot be used, SettingsError if the form has one of the two numbers only.
    """
    if not session.calibration_files:
        focal, baseline = request.focal_length, request.baseline
        if focal is None and baseline is None:
            return None, None
        if focal is None or baseline is None:
            raise SettingsError("Depth needs both the focal length and the baseline. Give the other one too, or none.")
        given = Calibration(
            fx=focal, fy=focal, cx=(width - 1) / 2, cy=(height - 1) / 2, baseline=baseline, width=width,
            height=height, source="as given on the page: focal length and baseline; principal point taken as centered",
        )  # fmt: skip
        return given, None
    folder = session.working_folder()
    # Under names of ours: a visitor's name is a label, never part of a path.
    paths = [folder / f"calibration{k}" for k in range(len(session.calibration_files))]

    def without_folders(text: str) -> str:
        for path, (name, _) in zip(paths, session.calibration_files, strict=True):
            text = text.replace(repr(str(path)), repr(name)).replace(str(path), name)
        return text

    try:
        for path, (_, content) in zip(paths, session.calibration_files, strict=True):
            path.write_bytes(content)
        calibration = read_calibration(*paths, unit=request.unit, size=(width, height))
    except InputError as error:
        raise InputError(f"calibration {without_folders(str(error))}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    calibration = replace(calibration, source=without_folders(calibration.source))
    doubt = None if calibration.width else doubt_size((calibration.cx, calibration.cy), width, height)
    return calibration if request.rectify_first else calibration.for_image(width, height), doubt
