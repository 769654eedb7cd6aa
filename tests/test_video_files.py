"""Videos and folders of frames as files: what is written plays, and what is read is whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import pytest
import tifffile
from video_runs import NAMES, listing, read_video, timed_video, turned_video, write_source, write_video

from scotopic.errors import InputError, OutputError, PairWarning, SettingsError
from scotopic.io import write_png
from scotopic.io.frames import FrameFolder, open_frames, open_pairs
from scotopic.io.stacks import read_stack
from scotopic.io.video import VideoFile, is_cut_short, video_file

#: Codecs and pixel formats of MP4 that Chromium, Firefox and Safari all play, and the decoder that FFmpeg has for each.
PLAYABLE = {("vp9", "yuv420p"), ("libvpx-vp9", "yuv420p"), ("h264", "yuv420p")}


@pytest.mark.parametrize("size", [(2, 2), (7, 5), (64, 48)])
def test_a_video_of_any_size_is_written_whole(tmp_path: Path, size: tuple[int, int]) -> None:
    with video_file(tmp_path / "video.mp4", 24.0) as film:
        for level in (0, 120, 240):
            film.write(np.full((size[1], size[0], 3), level, np.uint8))
        assert not film.path.exists()

    frames = read_video(tmp_path / "video.mp4")
    assert [frame.shape for frame in frames] == [(size[1] + size[1] % 2, size[0] + size[0] % 2, 3)] * 3
    assert [float(frame[0, 0].mean()) for frame in frames] == pytest.approx([0, 120, 240], abs=4)


def test_a_video_is_of_the_kind_that_browsers_play_while_they_load_it(tmp_path: Path) -> None:
    with video_file(tmp_path / "video.mp4", 30000 / 1001) as film:
        for _ in range(3):
            film.write(np.zeros((48, 64, 3), np.uint8))

    with av.open(str(tmp_path / "video.mp4")) as container:
        stream = container.streams.video[0]
        assert (stream.codec_context.name, stream.codec_context.pix_fmt) in PLAYABLE
        assert stream.average_rate == Fraction(30000, 1001)
    data = (tmp_path / "video.mp4").read_bytes()
    assert data.index(b"moov") < data.index(b"mdat")  # the index first


@pytest.mark.parametrize("reader", ["ours", "OpenCV"])
def test_colors_come_back_as_they_were_written(tmp_path: Path, reader: str) -> None:
    colors = np.array([[220, 40, 30], [40, 200, 60], [50, 60, 210], [235, 236, 240], [20, 22, 27]], np.uint8)
    picture = np.repeat(np.repeat(colors[None], 32, axis=0), 32, axis=1)

    with video_file(tmp_path / "video.mp4", 25.0) as film:
        film.write(picture)

    if reader == "ours":
        found = next(VideoFile(tmp_path / "video.mp4").read(0))
    else:  # its FFmpeg is another one than the writer's, and has to learn from the file which colors it holds
        found = cv2.VideoCapture(str(tmp_path / "video.mp4")).read()[1][:, :, ::-1]
    # More if it takes them for those of another standard.
    assert np.abs(found[16, 16::32].astype(int) - colors).max() <= 8


def test_a_video_that_is_not_whole_on_the_disk_is_an_error(tmp_path: Path) -> None:
    def write() -> None:
        with video_file(tmp_path / "video.mp4", 24.0) as film:
            film.write(np.zeros((48, 64, 3), np.uint8))
            film.frames += 1  # as if a second one had been lost on a full disk

    with pytest.raises(OutputError, match="1 of 2 frames"):
        write()

    assert listing(tmp_path) == set()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full, a device that is always full")
def test_a_full_disk_is_said_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def full(path: Path) -> Iterator[Path]:
        yield Path("/dev/full")

    monkeypatch.setattr("scotopic.io.video.atomic_path", full)

    def write() -> None:
        with video_file(tmp_path / "video.mp4", 24.0) as film:
            film.write(np.zeros((48, 64, 3), np.uint8))

    with pytest.raises(OutputError, match=r"video\.mp4.*No space left"):
        write()


@pytest.mark.parametrize("fps", [0.0, -1.0, float("nan"), float("inf"), 1e6])
def test_a_rate_that_is_none_is_refused(tmp_path: Path, fps: float) -> None:
    with pytest.raises(SettingsError, match="fps"), video_file(tmp_path / "video.mp4", fps):
        pass
    assert listing(tmp_path) == set()


def test_a_file_that_does_not_announce_its_length_may_still_end_early(tmp_path: Path) -> None:
    copied = write_source(tmp_path)
    (copied / "right" / NAMES[3]).unlink()
    views: list[Any] = [FrameFolder(copied / view) for view in ("left", "right")]
    for view in views:
        view.total = None

    def open_view(path: Path) -> Any:
        return views[path.name == "right"]

    with open_pairs(copied / "left", copied / "right", shortest=True, open_view=open_view) as pairs:
        assert (pairs.total, len(list(pairs))) == (None, 3)
    with (
        open_pairs(copied / "left", copied / "right", open_view=open_view) as pairs,
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


@pytest.mark.parametrize(("codec", "suffix"), [("MJPG", ".avi"), ("MJPG", ".mkv"), ("mp4v", ".mp4"), ("mp4v", ".avi")])
def test_a_clip_that_is_cut_in_its_last_frame_is_refused_and_no_damaged_frame_is_given(
    tmp_path: Path, codec: str, suffix: str
) -> None:
    random = np.random.default_rng(0)
    whole, cut = tmp_path / f"whole{suffix}", tmp_path / f"cut{suffix}"
    write_video(whole, [random.integers(0, 256, (48, 64, 3), np.uint8) for _ in range(4)], codec)
    expected = list(VideoFile(whole).read(0))
    assert len(expected) == 4
    data = whole.read_bytes()
    for missing in (1, 2, 30, 100, 300, 1000, 2500):
        cut.write_bytes(data[:-missing])
        given: list[Any] = []

        def read(given: list[Any] = given) -> None:
            for frame in VideoFile(cut).read(0):
                given.append(frame)

        with pytest.raises(InputError, match="cut short"):
            read()
        assert len(given) < 4
        for frame, true in zip(given, expected, strict=False):
            np.testing.assert_array_equal(frame, true)


@pytest.mark.parametrize("begin", [0.0, 7.0])
def test_a_video_of_variable_rate_that_begins_at_any_time_is_whole(tmp_path: Path, begin: float) -> None:
    times = [begin + 0.3 * k**1.5 for k in range(9)]
    clip = timed_video(tmp_path / "clip.mkv", times)

    with open_pairs(clip, timed_video(tmp_path / "steady.mkv", times), start=0) as pairs:
        assert len(list(pairs)) == len(times)


def test_videos_of_variable_rate_are_compared_by_the_frames_that_they_have(tmp_path: Path) -> None:
    gaps = [0.0, 0.04, 0.08, 0.4, 0.44, 0.48]  # a duration of 13 frames at their rate of 25 per second
    left = timed_video(tmp_path / "left.mkv", gaps)
    frames = tmp_path / "frames"
    frames.mkdir()
    for number in range(6):
        write_png(frames / f"{number}.png", np.zeros((32, 48, 3), np.uint8))

    with open_pairs(left, frames) as pairs:
        assert pairs.total == len(list(pairs)) == 6
    write_png(frames / "6.png", np.zeros((32, 48, 3), np.uint8))
    write_png(frames / "7.png", np.zeros((32, 48, 3), np.uint8))
    with pytest.raises(InputError, match="have 6 and 8 frames"), open_pairs(left, frames):
        pass


def test_frames_of_a_video_have_the_times_at_which_they_are_shown(tmp_path: Path) -> None:
    times = [0.5, 0.54, 0.66, 0.7, 0.9]
    clip = timed_video(tmp_path / "clip.mkv", times)

    with open_pairs(clip, clip, start=1) as pairs:
        found = [pairs.time(number) for number, _ in enumerate(pairs, 1)]

    assert found == pytest.approx([time - times[0] for time in times[1:]], abs=1e-3)


@pytest.mark.parametrize("start", [0, 3])
def test_pairs_of_videos_that_are_shown_at_different_times_are_doubted_once(tmp_path: Path, start: int) -> None:
    times = np.arange(8) / 25
    left = timed_video(tmp_path / "left.mkv", [*times[:3], *times[4:]])  # without the frame at 0.12 s
    right = timed_video(tmp_path / "right.mkv", times[:7] + 7)  # by another clock

    with pytest.warns(PairWarning) as told, open_pairs(left, right, start=start) as pairs:
        list(pairs)
    assert [str(each.message)[:44] for each in told] == ["Frame 3 is shown 0.160 s after the first one"]
    assert "0.120 s in" in str(told[0].message)


def test_jitter_of_the_times_is_no_reason_for_doubt(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    left, right = ([k / 25 + jitter * (k % 2) for k in range(6)] for jitter in (0.0, 0.015))

    with open_pairs(timed_video(tmp_path / "left.mkv", left), timed_video(tmp_path / "right.mkv", right)) as pairs:
        assert len(list(pairs)) == 6
    assert not recwarn.list


def test_a_video_that_is_to_be_turned_is_taken_as_stored_with_a_warning(tmp_path: Path) -> None:
    turned_video(tmp_path / "clip.mp4", [np.zeros((48, 64, 3), np.uint8)])

    with pytest.warns(PairWarning, match="to be turned"):
        (frame,) = VideoFile(tmp_path / "clip.mp4").read(0)
    assert frame.shape == (48, 64, 3)


@pytest.mark.parametrize(("form", "bits"), [("gray10le", 10), ("gray12le", 12), ("gray16le", 16), ("gbrp16le", 16)])
def test_a_video_of_more_than_8_bits_keeps_them(tmp_path: Path, form: str, bits: int) -> None:
    shape = (3, 30, 50) if form.startswith("gray") else (3, 30, 50, 3)
    frames = np.random.default_rng(0).integers(0, 2**bits, shape).astype(np.uint16)
    write_lossless(tmp_path / "deep.mkv", frames, form)

    for found, true in zip(VideoFile(tmp_path / "deep.mkv").read(0), frames, strict=True):
        assert found.dtype == np.uint16
        np.testing.assert_array_equal(found, true)


def test_colors_of_more_than_8_bits_fill_the_range_of_16(tmp_path: Path) -> None:
    # Gray in BT.601 of limited range: black is 64 and white 940 of 1023, and without color U = V = 512.
    luma = np.array([64, 502, 940], np.uint16).repeat(16)
    planes = [np.tile(luma, (32, 1)), *[np.full((16, 24), 512, np.uint16)] * 2]
    frame = av.VideoFrame(48, 32, "yuv420p10le")
    for plane, values in zip(frame.planes, planes, strict=True):
        rows = np.zeros((values.shape[0], plane.line_size // 2), np.uint16)
        rows[:, : values.shape[1]] = values
        plane.update(rows.tobytes())
    write_lossless(tmp_path / "deep.mkv", [frame], "yuv420p10le")

    (found,) = VideoFile(tmp_path / "deep.mkv").read(0)
    assert (found.dtype, found.shape) == (np.uint16, (32, 48, 3))
    np.testing.assert_allclose(found[16, 8::16] / 65535, [[0.0] * 3, [0.5] * 3, [1.0] * 3], atol=0.005)


def write_lossless(path: Path, frames: Any, form: str) -> None:
    """Write frames, or arrays, as FFV1, which keeps every bit."""
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("ffv1", rate=10)
        made = [each if isinstance(each, av.VideoFrame) else av.VideoFrame.from_ndarray(each, form) for each in frames]
        stream.pix_fmt, stream.width, stream.height = form, made[0].width, made[0].height
        for frame in made:
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


@pytest.mark.parametrize(("codec", "suffix"), [("mp4v", ".mp4"), ("mp4v", ".avi"), ("MJPG", ".avi")])
def test_no_frame_is_given_of_which_the_decoder_had_to_invent_a_part(tmp_path: Path, codec: str, suffix: str) -> None:
    random = np.random.default_rng(0)
    whole, damaged = tmp_path / f"whole{suffix}", tmp_path / f"damaged{suffix}"
    write_video(whole, [random.integers(0, 256, (96, 128, 3), np.uint8) for _ in range(4)], codec)
    expected = list(VideoFile(whole).read(0))
    data = whole.read_bytes()
    for place in (0.3, 0.5, 0.7):
        start = int(place * len(data))
        damaged.write_bytes(data[:start] + bytes(400) + data[start + 400 :])
        given: list[Any] = []

        def read(given: list[Any] = given) -> None:
            for frame in VideoFile(damaged).read(0):
                given.append(frame)

        with pytest.raises(InputError, match=r"Frame \d of .*damaged.* cannot be read"):
            read()
        for frame, true in zip(given, expected, strict=False):
            np.testing.assert_array_equal(frame, true)


def test_a_clip_that_was_cut_without_encoding_it_again_is_whole(tmp_path: Path) -> None:
    levels = [10 * number for number in range(20)]
    write_video(tmp_path / "whole.mp4", [np.full((48, 64, 3), level, np.uint8) for level in levels], "mp4v", 25.0)
    # What lies before time 0 is not shown: the file begins with frame 5, and still holds those before it.
    options = {"avoid_negative_ts": "disabled", "use_editlist": "1"}
    with (
        av.open(str(tmp_path / "whole.mp4")) as whole,
        av.open(str(tmp_path / "cut.mp4"), "w", options=options) as container,
    ):
        source = whole.streams.video[0]
        stream: Any = container.add_stream_from_template(source)
        assert source.time_base is not None
        frame = int(1 / 25 / source.time_base)
        for packet in whole.demux(source):
            if packet.dts is not None and packet.pts is not None:
                packet.pts, packet.dts, packet.stream = packet.pts - 5 * frame, packet.dts - 5 * frame, stream
                container.mux(packet)

    video = VideoFile(tmp_path / "cut.mp4")
    found = [float(each.mean()) for each in video.read(0)]
    assert video.total == len(found) == 15
    assert found == pytest.approx(levels[5:], abs=4)


def test_a_frame_may_not_be_larger_than_allowed_whatever_the_file_announces(tmp_path: Path) -> None:
    def packet(width: int, height: int) -> Any:
        encoder: Any = av.CodecContext.create("mjpeg", "w")
        encoder.width, encoder.height, encoder.pix_fmt, encoder.time_base = width, height, "yuvj420p", Fraction(1, 10)
        (found,) = encoder.encode(av.VideoFrame(width, height, "yuvj420p"))
        return found

    with av.open(str(tmp_path / "grows.avi"), "w") as container:
        stream: Any = container.add_stream("mjpeg", rate=10)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuvj420p"
        for number, size in enumerate([(64, 48), (640, 480)]):
            each = packet(*size)
            each.stream, each.pts, each.dts = stream, number, number
            container.mux(each)

    frames = VideoFile(tmp_path / "grows.avi", max_pixels=64 * 48).read(0)
    assert next(frames).shape == (48, 64, 3)
    with pytest.raises(InputError, match=r"0\.3072 megapixels"):
        next(frames)


def box(kind: bytes, content: bytes) -> bytes:
    return (8 + len(content)).to_bytes(4, "big") + kind + content


def test_what_a_container_announces_is_compared_with_what_is_there(tmp_path: Path) -> None:
    # Of MP4 with its index first, as streams have it, the end is cut off and yet the file opens.
    mp4 = box(b"ftyp", b"isom" + bytes(4)) + box(b"moov", bytes(40)) + box(b"mdat", bytes(100))
    large = box(b"ftyp", b"isom") + b"\0\0\0\1mdat" + (116).to_bytes(8, "big") + bytes(100)
    avi = b"RIFF" + (104).to_bytes(4, "little") + b"AVI " + bytes(100)
    mkv = b"\x1a\x45\xdf\xa3\x84abcd\x18\x53\x80\x67\x40\x64" + bytes(100)  # lengths of one and of two bytes
    for name, content in (("a.mp4", mp4), ("large.mp4", large), ("a.avi", avi), ("two.avi", avi + avi), ("a.mkv", mkv)):
        path = tmp_path / name
        path.write_bytes(content)
        assert not is_cut_short(path), name
        for missing in (1, 50, 99):
            path.write_bytes(content[:-missing])
            assert is_cut_short(path), (name, missing)
    for name, content in (
        ("open.mp4", box(b"ftyp", b"isom") + b"\0\0\0\0mdat" + bytes(9)),  # to the end of the file
        ("live.mkv", b"\x1a\x45\xdf\xa3\x80\x18\x53\x80\x67\x01" + b"\xff" * 7 + bytes(9)),  # of unknown length
        ("other.bin", bytes(100)),
        ("empty.avi", b""),
    ):
        (tmp_path / name).write_bytes(content)
        assert not is_cut_short(tmp_path / name), name


def test_pages_with_an_opaque_alpha_channel_are_frames_without_it(tmp_path: Path) -> None:
    color = np.random.default_rng(0).integers(0, 255, (3, 6, 8, 3), np.uint8)
    color[..., 2] = 255  # taken for alpha if the channels were turned around before it is dropped
    pages = np.concatenate([color, np.full((3, 6, 8, 1), 255, np.uint8)], axis=3)
    tifffile.imwrite(tmp_path / "stack.tif", pages, photometric="rgb", extrasamples=["unassalpha"])

    frames = list(open_frames(tmp_path / "stack.tif").read(0))

    np.testing.assert_array_equal(frames, color)


@pytest.mark.parametrize(
    ("left", "right", "pair"),
    [
        (["0", "1", "3", "4"], ["0", "1", "2", "4"], "2"),  # each camera has dropped another frame
        (["cam0_10", "cam0_11", "cam0_12"], ["cam1_11", "cam1_12", "cam1_13"], None),  # counted from elsewhere
        (["1400000", "1450010", "1500000"], ["1400020", "1449990", "1500001"], None),  # times, nearly the same
        (["1400000", "1450000", "1550000"], ["1400000", "1450000", "1500000"], "2"),
        (["0", "1", "2", "3"], ["0", "1", "3", "4"], "2"),  # half of them
        (["0", "1", "3", "4"], ["0", "1", "2", "3"], "2"),
        (["0_cam0", "1_cam0", "3_cam0", "4_cam0"], ["0_cam1", "2_cam1", "3_cam1", "4_cam1"], "1"),
        (["0_10", "0_11", "1_10", "1_11"], ["0_10", "0_11", "1_10", "1_11"], None),  # as KITTI's are called
        (["1400000000.5", "1400000002.5", "1400000003.5"], ["1400000000.51", "1400000001.51", "1400000003.51"], "1"),
        (["1400000000.99", "1400000001.98"], ["1400000001.01", "1400000002.002"], None),  # a second begins between
        (["a", "b", "c"], ["0", "1", "5"], None),  # nothing is known
        (["0"], ["7"], None),
    ],
)
def test_names_whose_numbers_do_not_go_along_raise_a_doubt(
    tmp_path: Path, left: list[str], right: list[str], pair: str | None
) -> None:
    for view, names in (("left", left), ("right", right)):
        (tmp_path / view).mkdir()
        for name in names:
            write_png(tmp_path / view / f"{name}.png", np.zeros((4, 4), np.uint8))

    with open_pairs(tmp_path / "left", tmp_path / "right") as pairs:
        assert (pairs.doubt or "").split(",")[0].split(" is ")[0] == (f"Pair {pair}" if pair else "")


def test_frames_are_in_the_order_of_the_times_in_their_names(tmp_path: Path) -> None:
    times = [1_700_000_000.1234567, 1_700_000_000.52, 1_700_000_001.0, 1_700_000_001.4, 1_700_000_001.40625]
    for number, time in enumerate(times):
        write_png(tmp_path / f"{time}.png", np.full((4, 4), number, np.uint8))  # str(time.time()), of any length

    frames = list(open_frames(tmp_path).read(0))

    assert [int(frame[0, 0]) for frame in frames] == [0, 1, 2, 3, 4]


def test_a_name_may_be_a_number_without_end(tmp_path: Path) -> None:
    np.savez(tmp_path / "frames.npz", **{"9" * 5000: np.ones((4, 4)), "10": np.zeros((4, 4))})

    assert [frame[0, 0] for frame in read_stack(tmp_path / "frames.npz")] == [0, 1]


def test_other_numbers_with_points_are_counted_one_by_one(tmp_path: Path) -> None:
    for number, name in enumerate(["shot1.9", "shot1.10", "shot2.1"]):
        write_png(tmp_path / f"{name}.png", np.full((4, 4), number, np.uint8))

    assert [int(frame[0, 0]) for frame in open_frames(tmp_path).read(0)] == [0, 1, 2]


def test_metadata_that_are_no_text_do_no_harm(tmp_path: Path) -> None:
    """Whichever PyAV reads them: before 19 it is told to ignore them, from 19 on it does so by itself."""
    file, title = tmp_path / "video.mp4", b"a title in some bytes"
    with av.open(str(file), "w") as container:
        container.metadata["title"] = title.decode()
        stream = container.add_stream("mpeg4", rate=25, width=64, height=48, pix_fmt="yuv420p")
        for picture in (av.VideoFrame.from_ndarray(np.zeros((48, 64, 3), np.uint8), "rgb24"), None):
            container.mux(stream.encode(picture))
    assert title in file.read_bytes()
    file.write_bytes(file.read_bytes().replace(title, b"\xff\xfe\xfd\xfc" + title[4:]))

    assert next(VideoFile(file).read(0)).shape == (48, 64, 3)
