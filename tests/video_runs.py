"""Running ``scotopic video`` in the tests, and small videos to run it on."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import command_line
import cv2
import numpy as np
from numpy.typing import NDArray
from rooms import room
from typer.testing import Result

import scotopic
from scotopic.io import read_npz, write_png
from scotopic.io.video import video_file
from scotopic.result import Match
from scotopic.sensor import simulate_pair, to_uint8

Frame = NDArray[Any]

WIDTH, HEIGHT, COUNT = 96, 63, 4  # an odd height: codecs want even ones
NAMES = ("f8.png", "f9.png", "f10.png", "f11.png")  # f10 comes before f8 in the order of letters
SETTINGS: dict[str, Any] = {"max_disparity": 16, "patch_size": 24, "refine_steps": 4}
SET = ("--max-disparity", 16, "--set", "patch_size=24", "--set", "refine_steps=4", "--device", "cpu")
OPTIONS = ("--preset", "fast", *SET)


def run(*arguments: object) -> Result:
    return command_line.run("video", *arguments)


def succeed(*arguments: object) -> Result:
    return command_line.succeed("video", *arguments, *OPTIONS)


def fail(*arguments: object) -> str:
    """Run what must fail, and give its line."""
    return command_line.error_line(run(*arguments, *OPTIONS))


def listing(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def report_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return found


def read_video(path: Path) -> list[Frame]:
    """Every frame of a video, RGB, as FFmpeg decodes it."""
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


def write_video(path: Path, frames: Sequence[Frame], codec: str = "MJPG", fps: float = 12.5) -> None:
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*codec), fps, frames[0].shape[1::-1])
    for frame in frames:
        writer.write(np.ascontiguousarray(frame[:, :, ::-1]))
    writer.release()


def timed_video(path: Path, seconds: Sequence[float], frames: Sequence[Frame] | None = None) -> Path:
    """Write a video of variable frame rate, whose frames are shown at these times."""
    pictures = [np.full((32, 48), 20 * k, np.uint8) for k in range(len(seconds))] if frames is None else frames
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("ffv1", rate=25)
        stream.height, stream.width = pictures[0].shape[:2]
        stream.pix_fmt = "gray"
        stream.codec_context.time_base = Fraction(1, 1000)
        for picture, time in zip(pictures, seconds, strict=True):
            frame = av.VideoFrame.from_ndarray(picture, "gray" if picture.ndim == 2 else "rgb24")
            frame.pts, frame.time_base = round(1000 * time), Fraction(1, 1000)
            container.mux(stream.encode(frame.reformat(format="gray")))
        container.mux(stream.encode())
    return path


def turned_video(path: Path, frames: Sequence[Frame]) -> Path:
    """Write a video that is to be turned by a quarter, as of a phone held upright."""
    with video_file(path, 25.0) as film:
        for frame in frames:
            film.write(frame)
    data = bytearray(path.read_bytes())
    matrix = data.index(b"tkhd") + 44  # after version, times, track, duration, layer and volume
    data[matrix : matrix + 36] = struct.pack(">9i", 0, 1 << 16, 0, -(1 << 16), 0, 0, 0, 0, 1 << 30)
    path.write_bytes(data)
    return path


def match_frames(left: Frame | Path, right: Frame | Path) -> Match:
    return scotopic.match(left, right, preset="fast", device="cpu", **SETTINGS)


def assert_maps_of(path: Path, expected: Match) -> None:
    """The file of a frame holds a match's maps, equal to the bit."""
    maps = read_npz(path)
    assert set(maps) == {"disparity", "confidence", "reason", "format"}
    for name in ("disparity", "confidence", "reason"):
        values = getattr(expected, name)
        assert maps[name].dtype == values.dtype
        assert np.array_equal(maps[name], values, equal_nan=values.dtype.kind == "f"), name


def write_source(folder: Path) -> Path:
    """Write folders left and right of noisy frames; and left.avi and right.avi of them, one row less, at 12.5 fps."""
    scene = room(WIDTH, HEIGHT)
    noisy = [simulate_pair(scene.left, scene.right, photons=20, seed=seed) for seed in range(COUNT)]
    for k, view in enumerate(("left", "right")):
        (folder / view).mkdir()
        frames = [to_uint8(pair[k]) for pair in noisy]
        for name, frame in zip(NAMES, frames, strict=True):
            write_png(folder / view / name, frame)
        (folder / view / "notes.txt").write_text("not a frame")
        (folder / view / ".f0.png").write_text("not a frame")
        write_video(folder / f"{view}.avi", [frame[:-1] for frame in frames])
    return folder
