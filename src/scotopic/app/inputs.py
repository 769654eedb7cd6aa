"""Pairs to match: the visitor's own images, or rooms rendered here, whose true disparity is known."""

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.app.session import Limits, Map, Session, View
from scotopic.demo import Scene, render_scene
from scotopic.depth import Calibration, check_rectified, read_calibration, rectify
from scotopic.errors import InputError, SettingsError
from scotopic.inputs import check_pair
from scotopic.io import as_image, read_image
from scotopic.io.input_file import plain_file_size, read_input_file
from scotopic.levels import find_levels
from scotopic.sensor import simulate_pair, to_uint8

OWN = "My own images"  #: the choice that is not a rendered room
SIDES = ("left", "right")
READ_NOISE = 2.0  #: default of the page, in photons, as in the paper

_LARGEST_CALIBRATION = 2**20  # bytes


@dataclass(frozen=True)
class Room:
    """A built-in pair: its size, the seed that places its furniture, and a search range that covers its disparities."""

    width: int
    height: int
    seed: int
    max_disparity: int


ROOMS = {
    "Room (384 x 256)": Room(384, 256, 0, 64),
    "Room, small (192 x 128)": Room(192, 128, 0, 32),
    "Another room (384 x 256)": Room(384, 256, 3, 64),
}
_BASELINE = 0.3  # meters; the camera stands 5 baselines above the floor, which is then a person's eye height


@dataclass(frozen=True)
class Request:
    """The choices in the form of the page."""

    source: str  #: a name in :data:`ROOMS`, or :data:`OWN`
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
    """A pair ready to be matched, and what is known about it."""

    left: NDArray[Any]
    right: NDArray[Any]
    truth: Map | None
    calibration: Calibration | None
    about: dict[str, Any]
    warnings: tuple[str, ...] = ()
    views: tuple[View, ...] = ()
    is_rectified: bool = False


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
        size = plain_file_size(file)
        if size > limits.upload_bytes:
            most = limits.upload_bytes / 2**20
            raise InputError(f"{file.name!r} has {size / 2**20:.0f} MiB; the limit is {most:.0f} MiB. Make it smaller.")
        pixels = read_image(file, max_pixels=limits.pixels)  # as recorded, which takes a quarter of the memory
        as_image(pixels, title)  # refuses values that cannot be matched
    except InputError as error:
        text = str(error).replace(str(file.parent) + os.sep, "").replace(f"{title} image", title)
        text = text if text.startswith(title) else f"{side} image {text}"
        raise InputError(f"The {text}") from error
    finally:
        _remove(file)
    session.accept(side, View(file.name, pixels))
    return session.views[side]


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


def prepare_pair(session: Session, request: Request, limits: Limits) -> Pair:
    """Return the requested pair, with simulated noise if that was requested too.

    Raises ScotopicError if a view is missing or cannot be matched, or if the request makes no sense.
    """
    _check_search_range(session, request, limits)
    pair = _own_pair(session, request) if request.source == OWN else _room_pair(request)
    if request.photons is None:
        return _normalize(replace(pair, about={**pair.about, "noise": "as recorded"}))
    pair = _normalize(pair)
    clean = as_image(pair.left, "left"), as_image(pair.right, "right")
    noisy = simulate_pair(*clean, request.photons, request.read_noise)
    noise = {"simulated": True, "photons": request.photons, "read_noise": request.read_noise, "seed": 0}
    # In 8 bits, as the paper's files and those of scotopic simulate are.
    return replace(pair, left=to_uint8(noisy[0]), right=to_uint8(noisy[1]), about={**pair.about, "noise": noise})


def _normalize(pair: Pair) -> Pair:
    """Return a pair that uses its range, with a warning if it used little of it."""
    views = as_image(pair.left, "left"), as_image(pair.right, "right")
    levels = find_levels(*views)
    if levels.is_full:
        return pair
    told = () if levels.warning is None else (levels.warning,)
    left, right = (levels.apply(view) for view in views)
    about = {**pair.about, "levels": levels.as_dict()}
    return replace(pair, left=left, right=right, about=about, warnings=(*pair.warnings, *told))


def _check_search_range(session: Session, request: Request, limits: Limits) -> None:
    """Refuse a range that is too wide, also one whose end is left to the method, before any work is done."""
    first, last = request.min_disparity or 0, request.max_disparity
    if last is None:
        room, left = ROOMS.get(request.source), session.views.get("left")
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
    return {
        side: (
            f"{side.title()}: {view.name}, {view.size[0]} x {view.size[1]} px",
            to_uint8(as_image(view.pixels, side)),
        )
        for side, view in session.views.items()
    }


def _room_pair(request: Request) -> Pair:
    room = ROOMS.get(request.source)
    if room is None:
        raise SettingsError(f"There is no pair {request.source!r}. Choose one of {', '.join((*ROOMS, OWN))}.")
    scene = _render(room)
    source = f"{scene.calibration.source}, baseline in m"
    calibration = replace(scene.calibration, baseline=_BASELINE, source=source)
    about = {"pair": request.source, "calibration": calibration.as_dict()}
    return Pair(to_uint8(scene.left), to_uint8(scene.right), scene.disparity_left, calibration, about)


@lru_cache(maxsize=2 * len(ROOMS))
def _render(room: Room) -> Scene:
    """Render a room once; all visitors share it, and nobody writes to it."""
    scene = render_scene(room.width, room.height, room.seed)
    for array in (scene.left, scene.right, scene.disparity_left):
        array.flags.writeable = False
    return scene


def _own_pair(session: Session, request: Request) -> Pair:
    if session.problems:
        raise InputError(" ".join(session.problems[side] for side in SIDES if side in session.problems))
    missing = [side for side in SIDES if side not in session.views]
    if missing:
        raise InputError(
            f"The {' and '.join(missing)} image is missing. Drop two views of a rectified pair, or choose a built-in "
            "room."
        )
    left, right = (session.views[side].pixels for side in SIDES)
    names = " and ".join(f"{side} image {session.views[side].name!r}" for side in SIDES)
    check_pair(as_image(left, "left"), as_image(right, "right"), patch_size=1, names=names)
    calibration = find_calibration(session, request, *session.views["left"].size)
    if request.rectify_first:
        if calibration is None or not session.calibration_files:
            raise SettingsError("To rectify the pair, drop a calibration file with both cameras.")
        left, right, calibration = rectify(left, right, calibration)
    checked = check_rectified(left, right, min_disparity=request.min_disparity or 0)
    about = {
        "pair": [session.views[side].name for side in SIDES],
        "calibration": describe_calibration(calibration, request.rectify_first),
        "pair_check": checked.as_dict(),
    }
    views = tuple(session.views[side] for side in SIDES)
    return Pair(left, right, None, calibration, about, tuple(checked.warnings), views, request.rectify_first)


def describe_calibration(calibration: Calibration | None, is_rectified: bool) -> dict[str, Any] | None:
    """Return what the report says about the calibration of a visitor's own pair."""
    return None if calibration is None else {**calibration.as_dict(), "rectified_by_scotopic": is_rectified}


def find_calibration(session: Session, request: Request, width: int, height: int) -> Calibration | None:
    """Return the calibration of the visitor's own pair: the uploaded one, or what the form says; ``None`` without one.

    Nothing is assumed: a depth in meters from a made-up focal length or baseline would be made up too. Raises
    InputError if the uploaded file cannot be used, SettingsError if the form has one of the two numbers only.
    """
    if not session.calibration_files:
        focal, baseline = request.focal_length, request.baseline
        if focal is None and baseline is None:
            return None
        if focal is None or baseline is None:
            raise SettingsError("Depth needs both the focal length and the baseline. Give the other one too, or none.")
        return Calibration(
            fx=focal, fy=focal, cx=(width - 1) / 2, cy=(height - 1) / 2, baseline=baseline, width=width,
            height=height, source="as given on the page: focal length and baseline; principal point taken as centered",
        )  # fmt: skip
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
    return calibration if request.rectify_first else calibration.for_image(width, height)
