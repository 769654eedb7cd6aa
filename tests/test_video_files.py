"""Videos and folders of frames as files: what is written plays, and what is read is whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from video_runs import NAMES, listing, read_video, write_source, write_video

from scotopic.errors import InputError, OutputError, SettingsError
from scotopic.io.frames import FrameFolder, open_pairs
from scotopic.io.video import VideoFile, usable_codec, video_file


@pytest.mark.parametrize("codec", [("mp4v", ".mp4"), ("MJPG", ".avi")])
@pytest.mark.parametrize("size", [(2, 2), (7, 5), (64, 48)])
def test_a_video_of_any_size_is_written_whole_by_either_codec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: tuple[str, str], size: tuple[int, int]
) -> None:
    monkeypatch.setattr("scotopic.io.video.CODECS", (codec,))

    with video_file(tmp_path / "video", size, 24.0) as film:
        for level in (0, 120, 240):
            film.write(np.full((size[1], size[0], 3), level, np.uint8))
        assert not (tmp_path / film.path.name).exists()

    frames = read_video(tmp_path / f"video{codec[1]}")
    assert [frame.shape for frame in frames] == [(size[1] + size[1] % 2, size[0] + size[0] % 2, 3)] * 3
    assert [round(float(frame[0, 0].mean()), -1) for frame in frames] == pytest.approx([0, 120, 240], abs=20)


def test_a_video_that_is_not_whole_on_the_disk_is_an_error(tmp_path: Path) -> None:
    def write() -> None:
        with video_file(tmp_path / "video", (64, 48), 24.0) as film:
            film.write(np.zeros((48, 64, 3), np.uint8))
            film.frames += 1  # as if a second one had been lost on a full disk

    with pytest.raises(OutputError, match="1 of 2 frames"):
        write()

    assert listing(tmp_path) == set()


@pytest.mark.parametrize("fps", [0.0, -1.0, float("nan"), float("inf"), 1e6])
def test_a_rate_that_is_none_is_refused(tmp_path: Path, fps: float) -> None:
    with pytest.raises(SettingsError, match="fps"):
        usable_codec((64, 48), fps, tmp_path)


def test_a_file_that_does_not_announce_its_length_may_still_end_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = write_source(tmp_path)
    (copied / "right" / NAMES[3]).unlink()
    views: list[Any] = [FrameFolder(copied / view) for view in ("left", "right")]
    for view in views:
        view.total = None
    monkeypatch.setattr("scotopic.io.frames.open_frames", lambda path: views[path.name == "right"])

    with open_pairs(copied / "left", copied / "right", shortest=True) as pairs:
        assert (pairs.total, len(list(pairs))) == (None, 3)
    with (
        open_pairs(copied / "left", copied / "right") as pairs,
        pytest.raises(InputError, match=r"right' .*3 frames.*shortest"),
    ):
        list(pairs)


def test_a_video_that_lost_its_end_mark_is_refused(tmp_path: Path) -> None:
    write_video(tmp_path / "whole.mp4", [np.zeros((48, 64, 3), np.uint8)] * 3, "mp4v")
    data = (tmp_path / "whole.mp4").read_bytes()
    (tmp_path / "cut.mp4").write_bytes(data[: len(data) // 2])

    assert VideoFile(tmp_path / "whole.mp4").total == 3
    with pytest.raises(InputError, match=r"cut\.mp4.*video"):
        VideoFile(tmp_path / "cut.mp4")
