"""Clips on the web page, without a browser: what is taken in, what is fused, and what is shown on the way."""

from __future__ import annotations

import io
import json
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import tifffile
from app_visitors import LIMITS, upload
from numpy.typing import NDArray
from video_runs import timed_video, turned_video

import scotopic
from scotopic.app import html, inputs, pictures, work
from scotopic.app.inputs import OWN, OWN_CLIP, ROOMS, Request
from scotopic.app.session import Cancelled, Fused, Job, Limits, Outcome, Session, View
from scotopic.demo import render_sway
from scotopic.errors import InputError
from scotopic.io import read_pfm
from scotopic.io.images import TURNED
from scotopic.sensor import to_uint8

WIDTH, HEIGHT, FRAMES = 96, 64, 4
CLIP = next(name for name, room in ROOMS.items() if room.frames > 1)
ASKED = Request(OWN_CLIP, photons=None, preset="fast", max_disparity=16)


@cache
def frames(side: str, count: int = FRAMES) -> NDArray[np.uint8]:
    """Frames of one view from swaying cameras, ``(count, H, W, 3)``, in light that is good enough to align them."""
    scenes = [render_sway(number, WIDTH, HEIGHT) for number in range(count)]
    noisy = [scotopic.simulate_pair(scene.left, scene.right, 40, 2, seed=k) for k, scene in enumerate(scenes)]
    return np.stack([to_uint8(pair[side == "right"]) for pair in noisy])


def npy(array: NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npz(**arrays: NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def tiff(stack: NDArray[Any]) -> bytes:
    return bytes(cv2.imencodemulti(".tiff", list(stack[..., ::-1] if stack.ndim == 4 else stack))[1])


def avi(stack: NDArray[np.uint8], path: Path) -> bytes:
    """A video without losses."""
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"FFV1"), 10, (WIDTH, HEIGHT))
    for frame in stack:
        writer.write(np.ascontiguousarray(frame[..., ::-1]))
    writer.release()
    return path.read_bytes()


@pytest.fixture
def visitor(tmp_path: Path) -> Session:
    return Session(tmp_path / "session")


@pytest.fixture
def owner(tmp_path: Path) -> Session:
    """A visitor who has uploaded two stacks."""
    session = Session(tmp_path / "session")
    for side in ("left", "right"):
        inputs.receive_clip(session, side, [upload(tmp_path, f"{side}.npy", npy(frames(side)))], LIMITS)
    return session


@cache
def fuse() -> tuple[tuple[Outcome, ...], tuple[str, ...]]:
    """The two stacks, fused once for all tests: every answer, and all that the page said meanwhile."""
    session, job, said, answers = Session(Path("unused")), Job(), [], []
    for side in ("left", "right"):
        stack = frames(side)
        session.clip.accept(side, View(f"{side}.npy", stack[0], tuple(stack[1:])))
    keep = session.keep

    def note(outcome: Outcome, **rest: Any) -> None:
        answers.append(outcome)
        keep(outcome, **rest)

    session.keep = note  # type: ignore[method-assign]
    work.run(session, ASKED, job, LIMITS, lambda *_: said.append(html.working(job)))
    return tuple(answers), tuple(said)


@pytest.fixture
def fused(tmp_path: Path) -> Session:
    """A visitor whose clip has been fused."""
    session = Session(tmp_path / "session")
    session.keep(fuse()[0][-1])
    return session


# --- taking clips in ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["npy", "npz of a stack", "npz of images", "tiff", "video", "images"])
def test_a_clip_may_come_in_any_of_these_files(visitor: Session, tmp_path: Path, kind: str) -> None:
    stack = frames("left", 11)  # more than ten: 'frame10' comes after 'frame2'
    contents: dict[str, bytes | NDArray[np.uint8]] = {
        "npy": {"left.npy": npy(stack)},
        "npz of a stack": {"left.npz": npz(frames=stack)},
        "npz of images": {"left.npz": npz(**{f"frame{k}": frame for k, frame in enumerate(stack)})},
        "tiff": {"left.tiff": tiff(stack)},
        "video": {"left.avi": avi(stack, tmp_path / "video.avi")},
        "images": {f"frame{k}.png": frame for k, frame in enumerate(stack)},
    }[kind]  # type: ignore[assignment]
    paths = [upload(tmp_path, name, content) for name, content in contents.items()]

    taken = inputs.receive_clip(visitor, "left", paths[::-1], LIMITS)

    np.testing.assert_array_equal(np.stack(taken.frames), stack)
    assert taken.warnings == ()
    assert not any(path.exists() for path in paths)
    assert list(visitor.folder.iterdir()) == []
    assert f"11 frames of {WIDTH} x {HEIGHT} px" in html.views(visitor, OWN_CLIP)
    assert "frames" not in html.views(visitor, OWN)


@pytest.mark.parametrize(("limits", "expected"), [(Limits(frames=3), 3), (Limits(clip_pixels=3 * WIDTH * HEIGHT), 3)])
def test_of_a_long_clip_the_first_frames_are_taken_and_the_page_says_so(
    visitor: Session, tmp_path: Path, limits: Limits, expected: int
) -> None:
    for side in ("left", "right"):
        inputs.receive_clip(visitor, side, [upload(tmp_path, f"{side}.npy", npy(frames(side)))], limits)

    pair = inputs.prepare_pair(visitor, ASKED, limits)

    assert len(pair.frames) == expected
    assert any(f"Only the first {expected} frames" in warning for warning in pair.warnings)


def test_the_page_says_if_videos_are_out_of_step(visitor: Session, tmp_path: Path) -> None:
    times = {"left": [0, 1, 2, 4], "right": [0, 1, 2, 3]}  # the left camera dropped the frame between
    for side, seconds in times.items():
        video = timed_video(tmp_path / f"{side}.mkv", np.array(seconds) / 25, frames(side))
        inputs.receive_clip(visitor, side, [upload(tmp_path, video.name, video.read_bytes())], LIMITS)

    (told,) = (each for each in inputs.prepare_pair(visitor, ASKED, LIMITS).warnings if "shown" in each)

    assert told.startswith("Frame 3 is shown 0.160 s after the first one in 'left.mkv', but 0.120 s in 'right.mkv'.")


def test_the_page_says_if_images_seem_to_be_missing_in_a_view(visitor: Session, tmp_path: Path) -> None:
    for side, numbers in (("left", [0, 1, 3, 4]), ("right", [0, 2, 3, 4])):
        paths = [
            upload(tmp_path, f"{side}{number}.png", frame) for number, frame in zip(numbers, frames(side), strict=True)
        ]
        inputs.receive_clip(visitor, side, paths, LIMITS)

    (told,) = (each for each in inputs.prepare_pair(visitor, ASKED, LIMITS).warnings if "missing" in each)

    assert told.startswith("Pair 1 is 'left1.png' and 'right2.png', whose numbers do not go along")


@pytest.mark.filterwarnings("ignore:A file says:scotopic.errors.PairWarning")
@pytest.mark.parametrize("kind", ["videos", "images"])
def test_the_page_says_once_if_clips_are_to_be_turned(visitor: Session, tmp_path: Path, kind: str) -> None:
    for side in ("left", "right"):
        if kind == "videos":
            paths = [upload(tmp_path, f"{side}.mp4", b"")]
            turned_video(paths[0], frames(side))
        else:
            paths = [upload(tmp_path, f"{side}{number}.tif", b"") for number in range(FRAMES)]
            for path, frame in zip(paths, frames(side), strict=True):
                tifffile.imwrite(path, frame, extratags=[(274, "H", 1, 6, True)])
        inputs.receive_clip(visitor, side, paths, LIMITS)

    assert [each for each in inputs.prepare_pair(visitor, ASKED, LIMITS).warnings if "to be turned" in each] == [TURNED]


def bomb() -> bytes:
    """An array of 4 GB in an archive of 4 MB."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (1000, 2000, 2000)})
    file = io.BytesIO()
    with (
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("a.npy", "w", force_zip64=True) as inside,
    ):
        inside.write(header.getvalue())
        inside.write(bytes(2**20))  # far less than it claims
    return file.getvalue()


PLAYLIST = b"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n"
HOSTILE = {
    "text.mp4": (b"not a video at all", "no readable image"),
    "list.m3u8": (PLAYLIST, "no readable image"),
    "list.mp4": (b"ffconcat version 1.0\nfile '/etc/passwd'\n", "no readable image"),
    "cut.mp4": (b"\0\0\0\x18ftypmp42" + bytes(300), "not a video"),
    "pickle.npy": (npy(np.array([{}], object)), "cannot be read as an .npy file"),
    "liar.npy": (npy(np.zeros((2, 8, 8), np.uint8))[:140], "cannot be read as an .npy file"),
    "bomb.npz": (bomb(), "cannot be read as an NPZ file"),
    "two.npz": (npz(a=np.zeros((2, 8, 8)), b=np.zeros((2, 8, 8))), "2 stacks"),
    "flat.npy": (npy(np.zeros(9)), "shape (9,)"),
    "text.npy": (npy(np.full((2, 8, 8), "a")), "type <U1"),
    "nan.npy": (npy(np.full((2, 8, 8), np.nan)), "NaN"),
    "one.npy": (npy(np.zeros((40, 40), np.uint8)), "one frame only"),
    "wide.npy": (npy(np.zeros((2, 3, 4000), np.uint8)), "megapixels"),
    "wide.tiff": (tiff(np.zeros((2, 100, 200), np.uint8)), "megapixels"),
    "%d.png": (b"\x89PNG\r\n\x1a\n", "'%d.png'"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_that_cannot_be_used_is_explained_without_our_paths(visitor: Session, tmp_path: Path, name: str) -> None:
    content, expected = HOSTILE[name]
    path = upload(tmp_path, name, content)

    with pytest.raises(InputError) as caught:
        inputs.receive_clip(visitor, "left", [path], Limits(pixels=10_000))

    message = str(caught.value)
    assert message.startswith("The left clip cannot be used.")
    assert expected in message
    assert str(tmp_path) not in message
    assert not path.exists()
    assert visitor.clip.views == {}
    assert list(visitor.folder.iterdir()) == []


def test_a_large_file_is_refused_unread(visitor: Session, tmp_path: Path) -> None:
    path = upload(tmp_path, "left.npy", npy(frames("left")))

    with pytest.raises(InputError, match=r"'left.npy' has 0 MiB; the limit is 0 MiB"):
        inputs.receive_clip(visitor, "left", [path], Limits(upload_bytes=1000))
    assert not path.exists()


def test_an_archive_that_unpacks_to_far_more_is_refused_before_that(visitor: Session, tmp_path: Path) -> None:
    path = upload(tmp_path, "left.npz", npz(a=np.zeros((50, 100, 100), np.uint8)))  # half a megabyte of zeros

    with pytest.raises(InputError, match="holds arrays of"):
        inputs.receive_clip(visitor, "left", [path], Limits(clip_pixels=1000))


def test_frames_of_different_size_are_refused(visitor: Session, tmp_path: Path) -> None:
    paths = [upload(tmp_path, f"{k}.png", np.zeros((20, 20 + k), np.uint8)) for k in range(2)]

    with pytest.raises(InputError, match=r"frame 1 has shape \(20, 21\), but its first has \(20, 20\)"):
        inputs.receive_clip(visitor, "left", paths, LIMITS)


def test_clips_of_different_length_are_not_matched(owner: Session, tmp_path: Path) -> None:
    inputs.receive_clip(owner, "right", [upload(tmp_path, "short.npy", npy(frames("right")[:3]))], LIMITS)

    with pytest.raises(InputError, match="have 4 and 3 frames"):
        work.run(owner, ASKED, Job(), LIMITS)


def test_swapping_exchanges_the_clips_and_leaves_the_images_alone(owner: Session) -> None:
    image = View("a.png", np.zeros((4, 4), np.uint8))
    owner.pair.accept("left", image)
    owner.clip.refuse("left", "The left clip cannot be used.")

    owner.clip.swap()

    assert owner.clip.views["left"].name == "right.npy"
    assert owner.clip.problems == {"right": "The right clip cannot be used."}
    assert owner.pair.views == {"left": image}


# --- fusing ---------------------------------------------------------------------------------------------------------


def test_every_answer_is_that_of_the_library_and_rests_on_twice_as_many_frames() -> None:
    answers, _ = fuse()
    expected = list(
        scotopic.streams.refine_burst(list(frames("left")), list(frames("right")), "fast", max_disparity=16)
    )

    assert [outcome.fused for outcome in answers] == [Fused(1, 4), Fused(2, 4), Fused(4, 4)]
    for outcome, found in zip(answers, expected, strict=True):
        np.testing.assert_array_equal(outcome.match.disparity, found.disparity)
        np.testing.assert_array_equal(outcome.match.frames, found.frames)


def test_progress_counts_the_fused_frames_and_never_goes_back() -> None:
    _, said = fuse()

    counts = [text.split("Fused frames: ")[1][:6] for text in said if "Fused frames: " in text]
    assert list(dict.fromkeys(counts)) == ["0 of 4", "1 of 4", "2 of 4"]  # then it is done
    done = [int(text.split('aria-valuenow="')[1].split('"')[0]) for text in said if "Stage " in text]
    assert done == sorted(done)
    assert 95 <= done[-1] <= 100
    assert any("Alignment" in text for text in said)
    shown = [text for text in said if "Fused frames: 2" in text]
    assert all("sc-refining" in text for text in shown)  # the answer so far stays bright


def test_a_refined_answer_keeps_the_threshold_of_the_visitor(owner: Session) -> None:
    answers, _ = fuse()
    owner.keep(answers[0])
    work.set_threshold(owner, 0.8)
    owner.keep(answers[1], is_refined=True)

    assert (owner.threshold, owner.version) == (0.8, 2)


def test_cancelling_on_the_way_leaves_the_answer_so_far(owner: Session) -> None:
    job = Job()

    def cancel(stage: str, share: float) -> None:
        if job.fused == Fused(2, 4):
            job.cancel()

    with pytest.raises(Cancelled):
        work.run(owner, ASKED, job, LIMITS, cancel)

    assert owner.outcome is not None
    assert owner.outcome.fused == Fused(2, 4)
    assert "Fused 2 of 4 frames" in html.cancelled(owner)


def test_the_built_in_clip_is_rendered_with_noise_of_its_own_in_each_frame(
    visitor: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ROOMS, CLIP, inputs.Room(48, 32, 0, 8, frames=3))
    told: list[str] = []

    pair = inputs.prepare_pair(visitor, Request(CLIP, photons=2), LIMITS, lambda stage, _: told.append(stage))

    assert told == 3 * [inputs.RENDERING]
    assert len({left.tobytes() for left, _ in pair.frames}) == 3
    np.testing.assert_array_equal(pair.truth, scotopic.render_scene(48, 32).disparity_left)


def test_a_frame_of_something_else_is_left_out_and_the_page_says_so(visitor: Session) -> None:
    for side in ("left", "right"):
        stack = [*frames(side)[:2], np.zeros((HEIGHT, WIDTH, 3), np.uint8)]  # the camera was unplugged
        visitor.clip.accept(side, View(f"{side}.npy", stack[0], tuple(stack[1:])))

    outcome = work.run(visitor, ASKED, Job(), LIMITS)

    assert outcome.about["clip"]["left_out"] == [2]
    assert "1 of 3 frames do not show this scene" in html.resting(visitor)


def test_a_search_range_that_ends_before_the_room_of_a_clip_is_told_of(visitor: Session) -> None:
    scene = scotopic.render_scene(320, 208, seed=1)  # up to 31 px
    noisy = [scotopic.simulate_pair(scene.left, scene.right, 20, 2, seed=seed) for seed in range(2)]
    for side, views in zip(("left", "right"), zip(*noisy, strict=True), strict=True):
        first, second = map(to_uint8, views)
        visitor.clip.accept(side, View(f"{side}.npy", first, (second,)))

    outcome = work.run(visitor, Request(OWN_CLIP, photons=None, preset="fast", max_disparity=12), Job(), LIMITS)

    assert any("of the end of the search range" in each for each in outcome.warnings)


def test_a_calibration_that_comes_later_needs_another_match(fused: Session) -> None:
    for side, view in zip(inputs.SIDES, fuse()[0][-1].views, strict=True):
        fused.clip.accept(side, view)

    assert not work.recalibrate(fused, Request(OWN_CLIP, focal_length=96, baseline=0.1))


# --- what is shown --------------------------------------------------------------------------------------------------


def test_the_fused_image_and_the_map_of_frames_are_drawn(fused: Session) -> None:
    found = fuse()[0][-1].match
    assert found.fused_left is not None
    expected = (np.clip(found.fused_left, 0, 1) * 255).round()

    np.testing.assert_array_equal(pictures.draw(fused, "fused"), expected)
    assert pictures.draw(fused, "frames").shape == (HEIGHT, WIDTH, 3)
    assert html.viewer_state(fused)["fused"] == 4
    assert "light of " in work.describe_pixel(fused, 48, 32)
    assert "Fused 4 of 4 frames" in html.resting(fused)
    assert "Assumed for the motion: fx = image width" in html.resting(fused)  # there was no calibration


def test_a_pair_has_neither(tmp_path: Path) -> None:
    session = Session(tmp_path / "session")
    answer = fuse()[0][-1]
    session.keep(Outcome(answer.match, None, None, answer.about))

    with pytest.raises(InputError, match="no map 'frames'"):
        pictures.draw(session, "frames")
    assert not {"frames.pfm", "fused_left.png"} & work.available_files(session).keys()


def test_the_files_of_a_clip_are_those_of_a_pair_and_three_more(fused: Session) -> None:
    path = work.write_file(fused, "all.zip")

    with zipfile.ZipFile(path) as archive:
        names = {Path(name).name for name in archive.namelist()}
        report = json.loads(archive.read("scotopic/report.json"))
    assert {"disparity.pfm", "confidence.pfm", "match.npz", "fused_left.png", "fused_right.png", "frames.pfm"} <= names
    assert report["clip"]["frames"] == report["clip"]["fused"] == 4
    assert "focal length equal to the width" in report["clip"]["camera"]
    np.testing.assert_array_equal(read_pfm(work.write_file(fused, "frames.pfm")), fuse()[0][-1].match.frames)


def test_sgbm_gets_the_fused_pair(fused: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    from scotopic.evaluation.methods import opencv

    given: list[NDArray[np.float32]] = []
    original = opencv.match_sgbm
    monkeypatch.setattr(
        opencv, "match_sgbm", lambda left, right, *ends: given.append(left) or original(left, right, *ends)
    )

    rows = work.compare(fused)

    assert given[0] is fuse()[0][-1].match.fused_left
    assert "same fused pair" in html.comparison(fused, rows)
