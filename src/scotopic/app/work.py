"""What the buttons of the page do: plain functions on a session, independent of the browser."""

import json
import logging
import math
import shutil
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scotopic.api import match
from scotopic.app.inputs import SIDES, Pair, Request, describe_calibration, find_calibration, prepare_pair
from scotopic.app.session import Cancelled, Fused, Job, Limits, Outcome, Session
from scotopic.backends import cpu_backend
from scotopic.colormap import Color
from scotopic.depth import Calibration, PointCloud, depth_from_disparity, point_cloud
from scotopic.errors import InputError, ScotopicError, SettingsError
from scotopic.evaluation.metrics import Score, score
from scotopic.fusion.burst import ALIGNMENT
from scotopic.io import write_disparity, write_pfm, write_png, write_submission
from scotopic.pipelines import stages_of
from scotopic.preview import (
    REASON_COLORS,
    as_picture,
    draw_point_colors,
    draw_preview,
    reasons_in_words,
    sparse_in_words,
)
from scotopic.progress import Progress, silent
from scotopic.result import Match, Reason
from scotopic.settings import EvidenceMatchingSettings, MatchingSettings, Settings, make_settings
from scotopic.stages.confidence import EVEN, choose_threshold
from scotopic.streams import refine_burst
from scotopic.warmup import warmed

LOG = logging.getLogger("scotopic.app")

INTERNAL_ERROR = "Something went wrong on the server, not with your input. It was logged. Please try again."
MOST_POINTS = 60_000  #: sent to the browser; the PLY file has all
ASSUMED_CAMERA = "focal length equal to the width, axis in the middle; there is no calibration"  #: of clips without one

_REASON_WORDS = {
    Reason.OK: "has a disparity",
    Reason.NO_STRUCTURE: "no structure seen here",
    Reason.LEFT_RIGHT: "the two views disagree",
    Reason.OUT_OF_VIEW: "out of the other view",
    Reason.NO_STRUCTURE_RIGHT: "no structure in the right view",
    Reason.AMBIGUOUS: "not sure enough",
    Reason.OCCLUDED: "hidden from the other view",
    Reason.SATURATED: "too bright to tell",
    Reason.MASKED: "masked in the input",
}
#: What each reason is called, and its color.
REASONS: dict[Reason, tuple[str, Color]] = {kind: (words, REASON_COLORS[kind]) for kind, words in _REASON_WORDS.items()}


def error_message(error: BaseException) -> str:
    """Return what to tell a visitor about a failure: never a traceback."""
    if isinstance(error, ScotopicError):
        return " ".join(str(error).split())
    if isinstance(error, MemoryError):
        return "Out of memory. Use smaller images or a narrower search range."
    LOG.error("a request failed", exc_info=error)
    return INTERNAL_ERROR


# --- matching -------------------------------------------------------------------------------------------------------


def run(session: Session, request: Request, job: Job, limits: Limits, progress: Progress = silent) -> Outcome:
    """Match the requested pair and keep the result in the session, which is unchanged if anything fails.

    Of a clip every answer is kept on the way to the last: that of one frame, of two, four, and so on. Cancelling the
    job stops the work at its next report of progress, with :class:`Cancelled`. Raises ScotopicError if the request
    cannot be met.
    """
    watched = job.watch(progress)
    watched("preparing the pair", 0.0)
    pair = prepare_pair(session, request, limits, watched)
    search = {"min_disparity": request.min_disparity, "max_disparity": request.max_disparity}
    settings = make_settings(request.preset, **{name: end for name, end in search.items() if end is not None})
    job.stages = stages_of(settings)
    answers = _fuse if pair.is_clip else _match_once
    for outcome in answers(pair, settings, job, warmed(watched, settings, "auto")):
        if job.cancelled:
            raise Cancelled
        session.keep(outcome, is_refined=outcome.fused is not None and outcome.fused.frames > 1)
        job.fused = outcome.fused
    return outcome


def _match_once(pair: Pair, settings: Settings, job: Job, progress: Progress) -> Iterator[Outcome]:
    # Not checked: the page shows what prepare_pair found.
    found = match(*pair.frames[0], settings, check=False, progress=progress)
    told = (*pair.warnings, *filter(None, [found.doubt_range()]))
    yield Outcome(found, pair.truth, pair.calibration, pair.about, told, pair.views, pair.is_rectified)


def _fuse(pair: Pair, settings: Settings, job: Job, progress: Progress) -> Iterator[Outcome]:
    """Yield the answers for the first frame of a clip, each of twice as many frames as the one before."""
    total = len(pair.frames)
    lefts, rights = zip(*pair.frames, strict=True)
    job.stages = (ALIGNMENT, *job.stages)
    job.rounds, job.fused = 1 + (total - 1).bit_length(), Fused(0, total)
    spent: Counter[str] = Counter()
    answers = refine_burst(lefts, rights, settings, calibration=pair.calibration, progress=progress)
    for number, found in enumerate(answers):
        spent.update(found.timings)
        if number == 0:
            begun = time.perf_counter() - spent.total()  # without compilation
        timings = {ALIGNMENT.name: max(time.perf_counter() - begun - spent.total(), 0.0), **spent}
        fused = Fused(min(2**number, total), total)
        assert found.frames is not None
        assert found.burst_poses is not None
        left_out = [int(frame) for frame in np.flatnonzero(np.isnan(found.burst_poses[: fused.frames, 0, 0]))]
        why = f"{len(left_out)} of {fused.frames} frames do not show this scene, or repeat others; left out."
        told = (why if left_out else None, found.doubt_range())
        clip = {
            "frames": total,
            "fused": fused.frames,
            "left_out": left_out,
            "reference": 0,
            "mean_frames_of_a_pixel": float(found.frames.mean()),
            "camera": "as calibrated" if pair.calibration is not None else ASSUMED_CAMERA,
        }
        yield Outcome(
            replace(found, timings=timings), pair.truth, pair.calibration, {**pair.about, "clip": clip},
            (*pair.warnings, *filter(None, told)), pair.views, pair.is_rectified, fused,
        )  # fmt: skip
        job.round = number + 1


def recalibrate(session: Session, request: Request) -> bool:
    """Use the calibration that is there now for the session's result; return whether that could be done.

    It cannot if there is no result, the result is not of the views that are there now, or the calibration rectifies
    them or says how the frames of a clip fit together: then they have to be matched (again). Raises ScotopicError if
    the calibration cannot be used.
    """
    outcome = session.outcome
    if outcome is None or not outcome.views or outcome.is_rectified or request.rectify_first:
        return False
    if outcome.fused is not None or any(
        session.pair.views.get(side) is not view for side, view in zip(SIDES, outcome.views, strict=True)
    ):
        return False
    calibration, doubt = find_calibration(session, request, *outcome.views[0].size)
    about = {**outcome.about, "calibration": describe_calibration(calibration, False, doubt)}
    session.outcome = replace(outcome, calibration=calibration, about=about)
    session.version += 1
    return True


# --- exploring ------------------------------------------------------------------------------------------------------


def result_of(session: Session) -> Outcome:
    """Return the session's result; raises InputError if there is none, or if it was dropped to free memory."""
    if session.outcome is None:
        raise InputError("There is no result, or it was dropped to make room for others. Match the pair (again).")
    return session.outcome


def apply_threshold(found: Match, threshold: float) -> Match:
    """Return a match with another threshold on its confidence: the result of ``min_confidence=threshold``.

    A lower threshold brings back pixels that the match's own had hidden. Pixels that a higher one hides are called
    ambiguous, even if there was another reason too.
    """
    if threshold == found.settings.matching.min_confidence:
        return found
    reason = _reasons(found.reason, found.confidence, _lowest_kept(found, threshold), found)
    matching = replace(found.settings.matching, min_confidence=threshold)
    return replace(
        found,
        disparity=np.where(reason == Reason.OK, found.disparity_all, np.float32(np.nan)),
        reason=reason,
        settings=replace(found.settings, matching=matching),
    )


def _lowest_kept(found: Match, threshold: float) -> float:
    """Return the confidence from which on a match keeps pixels with ``min_confidence=threshold``."""
    if not isinstance(found.settings, EvidenceMatchingSettings):
        return threshold
    return choose_threshold(cpu_backend(), found.confidence, threshold, found.settings.score.sparse_share)


def _reasons(
    reason: NDArray[np.uint8], confidence: NDArray[np.float32], threshold: float, found: Match
) -> NDArray[np.uint8]:
    """Return the reasons of (a part of) a match at another threshold."""
    # With the preset best, confidence alone decides, and the reasons only say what was wrong with a pixel.
    confidence_decides = isinstance(found.settings, EvidenceMatchingSettings)
    has_any = ~np.isin(reason, (Reason.MASKED, Reason.NO_STRUCTURE))
    candidate = np.isin(reason, (Reason.OK, Reason.AMBIGUOUS)) | (confidence_decides & has_any)
    confident = confidence >= np.float32(threshold)
    hidden = np.where(reason == Reason.OK, np.uint8(Reason.AMBIGUOUS), reason)
    return np.where(candidate, np.where(confident, np.uint8(Reason.OK), hidden), reason).astype(np.uint8)


def set_threshold(session: Session, threshold: float | None) -> float:
    """Hide pixels of lower confidence; return the threshold, which is kept within [0, 1]."""
    value = 0.0 if threshold is None or not math.isfinite(threshold) else min(max(float(threshold), 0.0), 1.0)
    session.threshold = value
    return value


def largest_threshold(outcome: Outcome) -> float:
    """Return a threshold that leaves almost no pixel, a multiple of 0.05: the end of the slider."""
    kept = outcome.match.confidence[outcome.match.mask]
    if not kept.size:
        return 1.0
    # Up to EVEN the mask keeps the surest pixels however unsure they are.
    is_sparse = isinstance(outcome.match.settings, EvidenceMatchingSettings) and kept.max() <= EVEN
    return EVEN + 0.05 if is_sparse else min(math.ceil(20 * float(kept.max()) + 1e-6) / 20, 1.0)


def shown_match(session: Session) -> Match:
    """Return the session's match at the session's threshold."""
    return apply_threshold(result_of(session).match, session.threshold)


def describe_coverage(session: Session) -> str:
    """Return how much of the image has a disparity at the session's threshold, and why the rest has none."""
    shown = shown_match(session)
    rest = ", ".join(reasons_in_words(shown.reason))
    return f"Coverage {100 * shown.coverage:.1f} %{sparse_in_words(shown)}" + (f"; left out: {rest}" if rest else "")


def _search_range(outcome: Outcome) -> MatchingSettings:
    return outcome.match.settings.matching.for_width(outcome.match.disparity.shape[1])


def describe_pixel(session: Session, x: float, y: float) -> str:
    """Return what is known about a pixel of the left view, in one line; raises InputError if it is outside."""
    outcome = result_of(session)
    found = outcome.match
    height, width = found.disparity.shape
    if not (0 <= x < width and 0 <= y < height):  # nor is NaN
        raise InputError(f"The pixel ({x:g}, {y:g}) is not inside the image of {width} x {height} px.")
    at = slice(int(y), int(y) + 1), slice(int(x), int(x) + 1)
    value, lowest = float(found.disparity_all[at][0, 0]), _lowest_kept(found, session.threshold)
    reason = Reason(int(_reasons(found.reason[at], found.confidence[at], lowest, found)[0, 0]))
    parts = [f"({int(x)}, {int(y)})"]
    if reason == Reason.OK and math.isfinite(value):
        parts.append(f"disparity {value:.2f} px")
        if outcome.calibration is not None:
            here = outcome.calibration.cropped(int(x), int(y), 1, 1)
            depth = float(depth_from_disparity(found.disparity_all[at], here)[0, 0])
            parts.append(f"depth {depth:.3g} m" if math.isfinite(depth) else "no depth")
    else:
        parts.append(f"no disparity: {REASONS[reason][0]}")
    parts.append(f"confidence {float(found.confidence[at][0, 0]):.2f}")
    if found.frames is not None:
        parts.append(f"light of {float(found.frames[at][0, 0]):.1f} frames")
    if outcome.truth is not None and np.isfinite(outcome.truth[at]).all():
        parts.append(f"truth {float(outcome.truth[at][0, 0]):.2f} px")
    return " · ".join(parts)


def points(session: Session) -> tuple[NDArray[np.float32], NDArray[np.uint8], int]:
    """Return the points to show in the browser, their colors, and the step: every ``step``-th point is among them.

    The farthest hundredth is left out, so that a few stray points do not decide how small the rest is shown.
    """
    cloud = _make_cloud(replace(result_of(session), match=shown_match(session)))
    if not len(cloud):
        return cloud.points, cloud.colors, 1
    near = np.flatnonzero(cloud.points[:, 2] <= np.percentile(cloud.points[:, 2], 99))
    step = max(-(-len(near) // MOST_POINTS), 1)
    return cloud.points[near[::step]], cloud.colors[near[::step]], step


def _make_cloud(outcome: Outcome) -> PointCloud:
    """Return the points of a result in the colors of its structure: the image itself is mostly noise.

    Without a calibration they have a shape, as a camera with a focal length of one image width would see it, but no
    scale; this is for the eye alone, and never written to a file.
    """
    height, width = outcome.match.disparity.shape
    calibration = outcome.calibration or Calibration(
        fx=float(width), fy=float(width), cx=(width - 1) / 2, cy=(height - 1) / 2, baseline=1.0
    )
    return point_cloud(outcome.match, calibration, draw_point_colors(outcome.match))


# --- comparing ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One method: its coverage in [0, 1], and its errors at one window if the truth is known."""

    name: str
    coverage: float
    score: Score | None = None


def compare(session: Session) -> list[Row]:
    """Match the same pair with OpenCV's SGBM; return the coverage of both, and errors if the truth is known.

    Of a clip SGBM gets the fused pair, so that both have the same light. Raises SettingsError if the search range
    begins below 0, where SGBM does not search.
    """
    from scotopic.evaluation.methods.opencv import match_sgbm

    outcome, shown = result_of(session), shown_match(session)
    searched = _search_range(outcome)
    if searched.min_disparity < 0:
        raise SettingsError(
            f"SGBM searches from 0 px up, but this match began at {searched.min_disparity} px. Match with a least "
            "disparity of 0 or more."
        )
    sgbm = session.sgbm
    if sgbm is None:
        assert searched.max_disparity is not None
        left, right = shown.left_image, shown.right_image
        if shown.fused_left is not None and shown.fused_right is not None:
            left, right = shown.fused_left, shown.fused_right
        sgbm = match_sgbm(left, right, searched.max_disparity, searched.min_disparity)
        # A calibration may have come meanwhile, for the same match.
        if session.outcome is not None and session.outcome.match is outcome.match:
            session.sgbm = sgbm
    ours = f"scotopic, {shown.settings.preset}"
    return [*_rows(ours, shown.disparity, outcome), *_rows("OpenCV SGBM", sgbm.disparity, outcome)]


def _rows(name: str, disparity: NDArray[np.float32], outcome: Outcome) -> list[Row]:
    coverage = float(np.isfinite(disparity).mean())
    if outcome.truth is None:
        return [Row(name, coverage)]
    return [Row(name, coverage, score(disparity, outcome.truth, window)) for window in (1, 19)]


# --- files ----------------------------------------------------------------------------------------------------------


def available_files(session: Session) -> dict[str, str]:
    """Return the files of the session's result that can be downloaded, by name, with a description."""
    searched = _search_range(result_of(session))
    left_out = set[str]()
    if searched.min_disparity < 0 or (searched.max_disparity or 0) > 256:
        left_out.add("disparity.png")
    if result_of(session).calibration is None:
        left_out.update(_METRIC_FILES)
    if result_of(session).fused is None:
        left_out.update(_CLIP_FILES)
    files = {name: about for name, (about, _) in _FILES.items() if name not in left_out}
    return {**files, "all.zip": "all of these, and match.npz"}


def write_file(session: Session, name: str) -> Path:
    """Write one of :func:`available_files` into a folder of its own, which the caller removes.

    Raises InputError if there is no such file, OutputError if it cannot be written.
    """
    available = available_files(session)
    if name not in available:
        raise InputError(f"This result has no file {name[:40]!r}. Choose one of {', '.join(available)}.")
    shown = replace(result_of(session), match=shown_match(session))
    folder = session.working_folder()
    try:
        if name != "all.zip":
            _FILES[name][1](folder / name, shown)
        else:
            inside = shown.match.save(folder / "scotopic")
            for part in available.keys() - {name}:
                _FILES[part][1](inside / part, shown)
            _zip(inside, folder / name)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder / name


def _zip(folder: Path, target: Path) -> None:
    """Move a folder into an archive."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, Path(folder.name) / path.relative_to(folder))
    shutil.rmtree(folder)


def _write_disparity(path: Path, outcome: Outcome) -> None:
    write_disparity(path, outcome.match.disparity)


def _write_depth(path: Path, outcome: Outcome) -> None:
    assert outcome.calibration is not None
    write_disparity(path, depth_from_disparity(outcome.match.disparity, outcome.calibration))


def _write_submission(path: Path, outcome: Outcome) -> None:
    found, seconds = outcome.match, sum(outcome.match.timings.values())
    _zip(write_submission(path.with_suffix(""), "scotopic", found.disparity_all, found.disparity, seconds), path)


def _write_picture(path: Path, image: NDArray[np.float32] | None) -> None:
    assert image is not None
    write_png(path, as_picture(image))


def _write_frames(path: Path, outcome: Outcome) -> None:
    assert outcome.match.frames is not None
    write_pfm(path, outcome.match.frames)


_CLIP_FILES = ("fused_left.png", "fused_right.png", "frames.pfm")  # which a pair does not have
_METRIC_FILES = ("depth.pfm", "points.ply")  # which need a calibration
_FILES: dict[str, tuple[str, Callable[[Path, Outcome], object]]] = {
    "disparity.pfm": ("disparity, PFM", _write_disparity),
    "disparity.png": ("disparity, KITTI 16-bit PNG", _write_disparity),
    "disparity.tiff": ("disparity, 32-bit TIFF", _write_disparity),
    "disparity.npz": ("disparity, NumPy", _write_disparity),
    "confidence.pfm": ("confidence, PFM", lambda path, outcome: write_pfm(path, outcome.match.confidence)),
    "fused_left.png": ("fused left image", lambda path, outcome: _write_picture(path, outcome.match.fused_left)),
    "fused_right.png": ("fused right image", lambda path, outcome: _write_picture(path, outcome.match.fused_right)),
    "frames.pfm": ("frames behind each pixel, PFM", _write_frames),
    "depth.pfm": ("depth in meters, PFM", _write_depth),
    "points.ply": ("colored points, binary PLY", lambda path, outcome: _make_cloud(outcome).save(path, overwrite=True)),
    "preview.png": (
        "the result at a glance", lambda path, outcome: write_png(path, draw_preview(outcome.match, outcome.truth))
    ),
    "report.json": (
        "settings, coverage, timings",
        lambda path, outcome: path.write_text(json.dumps({**outcome.match.report(), **outcome.about}, indent=2) + "\n"),
    ),
    "middlebury.zip": ("Middlebury submission folder", _write_submission),
}  # fmt: skip
