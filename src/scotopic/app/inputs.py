"""Pairs to match: the visitor's own pictures, or rooms rendered here, whose true disparity is known."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.app.session import Limits, Map, Picture, Session
from scotopic.demo.scene import Scene, render_scene
from scotopic.depth import Calibration, check_rectified, read_calibration, rectify
from scotopic.errors import InputError, SettingsError
from scotopic.inputs import check_pair
from scotopic.io import as_image, read_image
from scotopic.sensor import simulate_pair, to_uint8

OWN = "My own images"  #: the choice that is no rendered room
SIDES = ("left", "right")
READ_NOISE = 2.0  #: what the page offers at first, in photons, as in the paper

# What Pillow is asked to measure before OpenCV decodes: the formats that our reader names, and two that browsers save.
_MEASURED = ("PNG", "JPEG", "TIFF", "PPM", "BMP", "WEBP")
_MOST_CALIBRATION_BYTES = 2**20


@dataclass(frozen=True)
class Room:
    """A built-in pair: its size, what moves its furniture, and the search that holds all of its disparities."""

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
    """What the form of the page asks for.

    Attributes
    ----------
    source
        A name in :data:`ROOMS`, or :data:`OWN`.
    photons
        Simulate so many photons per pixel at white; ``None`` takes the pair as recorded.
    read_noise
        Of the simulated sensor, in photons.
    preset
        Of the method.
    min_disparity, max_disparity
        The search, px; ``None`` leaves it to the method.
    focal_length, baseline
        px (``None``: the width of the image) and meters; for pairs without a calibration file.
    unit
        Of the calibration's baseline, where its file does not say.
    rectify_first
        Rectify own images by their calibration.
    """

    source: str
    photons: float | None = 2.0
    read_noise: float = READ_NOISE
    preset: str = "best"
    min_disparity: int | None = None
    max_disparity: int | None = None
    focal_length: float | None = None
    baseline: float = 0.1
    unit: str | None = None
    rectify_first: bool = False


@dataclass(frozen=True, eq=False)
class Pair:
    """A pair ready to be matched, and what is known of it."""

    left: NDArray[Any]
    right: NDArray[Any]
    truth: Map | None
    calibration: Calibration
    about: dict[str, Any]
    warnings: tuple[str, ...] = ()


# --- taking uploads in ----------------------------------------------------------------------------------------------


def uploaded(payload: Any, uploads: Path) -> list[Path]:
    """Return the files that a browser says it has uploaded.

    The browser sends paths, and could send any: only what lies in the folder of uploads is believed. (Gradio would
    check the same, but leaves an empty file behind each time that it does.)

    Parameters
    ----------
    payload
        What the browser sent: a file, or a list of files, each with its ``path``.
    uploads
        Where the web server puts what is uploaded.

    Raises
    ------
    InputError
        Something else.
    """
    files = payload if isinstance(payload, list) else [payload]
    found = []
    for file in files:
        path = file.get("path") if isinstance(file, dict) else None
        place = Path(os.path.realpath(path)) if isinstance(path, str) and "\0" not in path else None
        if place is None or not place.is_relative_to(os.path.realpath(uploads)) or not place.is_file():
            raise InputError("upload: found that the file is not here, or no longer; drop it again")
        found.append(place)
    return found


def receive(session: Session, side: str, path: str | os.PathLike[str], limits: Limits) -> Picture:
    """Take an uploaded view into the session and remove the file.

    Parameters
    ----------
    session
        Whose it is.
    side
        ``"left"`` or ``"right"``.
    path
        Where the web server put it.
    limits
        What is too large.

    Raises
    ------
    InputError
        It is too large or no image; the sentence calls it by its own name, not by ours.
    """
    file = Path(path)
    try:
        _measure(file, f"{side} image {file.name!r}", limits)
        as_image(file, side)  # whether it can be matched, values and all
        pixels = read_image(file)  # as recorded, which takes a quarter of the memory
    except InputError as error:
        raise InputError(str(error).replace(str(file.parent) + os.sep, "")) from error
    finally:
        _remove(file)
    picture = Picture(file.name, pixels)
    session.pictures[side] = picture
    return picture


def receive_calibration(session: Session, paths: Sequence[str | os.PathLike[str]]) -> str:
    """Take one or two calibration files into the session, remove the files, and say what was read.

    Raises
    ------
    InputError
        They cannot be read, or there are more than two.
    """
    files = [Path(path) for path in paths]
    try:
        if len(files) > 2:
            raise InputError(f"calibration: found {len(files)} files, expected one, or left and right; drop fewer")
        for file in files:
            if file.stat().st_size > _MOST_CALIBRATION_BYTES:
                raise InputError(f"calibration {file.name!r}: found a large file, expected some lines; give another")
        session.calibration_files = tuple((file.name, file.read_bytes()) for file in files)
    except OSError as error:
        raise InputError("calibration: found that the upload is gone; drop it again") from error
    finally:
        for file in files:
            _remove(file)
    return " and ".join(file.name for file in files)


def forget(session: Session, side: str) -> None:
    """Drop one view of the visitor's."""
    session.pictures.pop(side, None)


def _measure(file: Path, title: str, limits: Limits) -> None:
    """Refuse what is too large before a decoder asks for the memory."""
    from PIL import Image

    try:
        size = file.stat().st_size
    except OSError as error:
        raise InputError(f"{title}: found that the upload is gone; drop it again") from error
    if size > limits.upload_bytes:
        raise InputError(
            f"{title}: found {size / 2**20:.0f} MiB, expected at most {limits.upload_bytes / 2**20:.0f}; "
            "make it smaller, or use the command scotopic match"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's own limit lies far above ours
        try:
            with Image.open(file, formats=_MEASURED) as image:
                width, height = image.size
        except Image.DecompressionBombError:
            width = height = 10**5  # so large that it would not even say how large
        except Exception as error:
            # Whatever a damaged header makes Pillow raise. OpenCV knows more formats, but none that we could measure.
            raise InputError(
                f"{title}: found no readable image in {size} bytes, expected PNG, JPEG, TIFF, PGM/PPM or PFM, whole; "
                "check that it opens in an image viewer, or fetch it again"
            ) from error
    if width * height > limits.pixels:
        found = "hundreds of" if width == height == 10**5 else f"{width * height / 1e6:.1f}"
        raise InputError(
            f"{title}: found {found} megapixels, expected at most {limits.pixels / 1e6:g}; shrink "
            "both views, start the app with a higher --max-megapixels, or use the command scotopic match"
        )


def _remove(file: Path) -> None:
    """Remove an upload and, if nothing else is in it, the folder that the web server made for it."""
    file.unlink(missing_ok=True)
    with suppress(OSError):  # another upload lies there, or it is gone already
        file.parent.rmdir()


# --- making a pair --------------------------------------------------------------------------------------------------


def prepare(session: Session, request: Request, limits: Limits) -> Pair:
    """Return the pair that was asked for, noise added where that was asked for too.

    Raises
    ------
    ScotopicError
        A view is missing, or something about the request makes no sense.
    """
    _check_range(request, limits)
    pair = _own(session, request) if request.source == OWN else _room(request)
    if request.photons is None:
        return replace(pair, about={**pair.about, "noise": "as recorded"})
    clean = as_image(pair.left, "left"), as_image(pair.right, "right")
    noisy = simulate_pair(*clean, request.photons, request.read_noise)
    noise = {"simulated": True, "photons": request.photons, "read_noise": request.read_noise, "seed": 0}
    # In 8 bits, as the paper's files and those of scotopic simulate are.
    return replace(pair, left=to_uint8(noisy[0]), right=to_uint8(noisy[1]), about={**pair.about, "noise": noise})


def suggestion(source: str) -> tuple[bool, int | None]:
    """Return whether to simulate noise on a source, and where to end the search (``None``: as the method does)."""
    room = ROOMS.get(source)
    return (True, room.max_disparity) if room else (False, None)


def views(session: Session, source: str) -> list[tuple[str, NDArray[np.uint8]]]:
    """Return the two views of a source that are there, titled, in 8 bits, for thumbnails."""
    if source in ROOMS:
        room = ROOMS[source]  # rendered small, which takes a tenth of a second
        scene = _rendered(replace(room, width=room.width * 128 // room.height, height=128))
        return [("Left", to_uint8(scene.left)), ("Right", to_uint8(scene.right))]
    found = []
    for side in SIDES:
        if side in session.pictures:
            picture = session.pictures[side]
            width, height = picture.size
            pixels = to_uint8(np.clip(as_image(picture.pixels, side), 0, 1))
            found.append((f"{side.title()}: {picture.name}, {width} x {height} px", pixels))
    return found


def _check_range(request: Request, limits: Limits) -> None:
    first, last = request.min_disparity or 0, request.max_disparity
    if last is not None and last - first > limits.disparities:
        raise SettingsError(
            f"disparity range: found {first} to {last} px, expected at most {limits.disparities} px on this page; "
            "narrow it, or use the command scotopic match"
        )


def _room(request: Request) -> Pair:
    room = ROOMS.get(request.source)
    if room is None:
        raise SettingsError(f"pair: found {request.source!r}, expected one of {', '.join((*ROOMS, OWN))}; choose one")
    scene = _rendered(room)
    # How render_scene sees the room: focal length of one image width, the horizon 38 % below the top.
    calibration = Calibration(
        fx=float(room.width), fy=float(room.width), cx=(room.width - 1) / 2, cy=0.38 * (room.height - 1),
        baseline=_BASELINE, width=room.width, height=room.height, source="the rendered room's own, baseline in m",
    )  # fmt: skip
    about = {"pair": request.source, "calibration": calibration.as_dict()}
    return Pair(to_uint8(scene.left), to_uint8(scene.right), scene.disparity_left, calibration, about)


@lru_cache(maxsize=2 * len(ROOMS))
def _rendered(room: Room) -> Scene:
    """Render a room once; the same for everybody, and never written to."""
    scene = render_scene(room.width, room.height, room.seed)
    for array in (scene.left, scene.right, scene.disparity_left):
        array.flags.writeable = False
    return scene


def _own(session: Session, request: Request) -> Pair:
    missing = [side for side in SIDES if side not in session.pictures]
    if missing:
        raise InputError(
            f"{' and '.join(missing)} image: found none, expected two views of a rectified pair; drop the file, or "
            "choose a built-in room"
        )
    left, right = (session.pictures[side].pixels for side in SIDES)
    names = " and ".join(f"{side} image {session.pictures[side].name!r}" for side in SIDES)
    check_pair(as_image(left, "left"), as_image(right, "right"), patch_size=1, names=names)
    height, width = left.shape[:2]
    calibration = _calibration(session, request, width, height)
    if request.rectify_first:
        left, right, calibration = rectify(left, right, calibration)
    checked = check_rectified(left, right, min_disparity=request.min_disparity or 0)
    about = {
        "pair": [session.pictures[side].name for side in SIDES],
        "calibration": {**calibration.as_dict(), "rectified_by_scotopic": request.rectify_first},
        "pair_check": checked.as_dict(),
    }
    return Pair(left, right, None, calibration, about, tuple(checked.warnings))


def _calibration(session: Session, request: Request, width: int, height: int) -> Calibration:
    """Return the uploaded calibration, or one assumed from the form, and say so."""
    if not session.calibration_files:
        if request.rectify_first:
            raise SettingsError("rectify: found no calibration, expected one with both cameras; drop its file")
        focal = float(request.focal_length or width)
        return Calibration(
            fx=focal, fy=focal, cx=(width - 1) / 2, cy=(height - 1) / 2, baseline=request.baseline, width=width,
            height=height, source="assumed: focal length and baseline as given on the page, principal point centered",
        )  # fmt: skip
    folder = session.working_folder()
    try:
        paths = []
        for index, (name, content) in enumerate(session.calibration_files):
            (folder / str(index)).mkdir()
            paths.append(folder / str(index) / Path(name).name)
            paths[-1].write_bytes(content)
        try:
            calibration = read_calibration(*paths, unit=request.unit, size=(width, height))
        except InputError as error:
            sentence = str(error)
            for path in paths:
                sentence = sentence.replace(str(path.parent) + os.sep, "")
            raise InputError(f"calibration {sentence}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    calibration = replace(calibration, source=_relative(calibration.source, folder))
    return calibration if request.rectify_first else calibration.for_image(width, height)


def _relative(words: str, folder: Path) -> str:
    for index in (0, 1):
        words = words.replace(f"{folder}{os.sep}{index}{os.sep}", "")
    return words
