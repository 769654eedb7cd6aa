"""What the buttons of the page do: plain functions on a session, without a browser in sight."""

from __future__ import annotations

import json
import logging
import math
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.api import match
from scotopic.app.inputs import Request, prepare
from scotopic.app.pictures import (
    REASONS,
    Ends,
    Rgb,
    bar_picture,
    color_ends,
    confidence_picture,
    disparity_picture,
    image_picture,
    reason_picture,
    structure_picture,
)
from scotopic.app.session import Job, Limits, Outcome, Session
from scotopic.depth import PointCloud, depth_from_disparity, point_cloud
from scotopic.errors import InputError, ScotopicError, SettingsError
from scotopic.io import write_disparity, write_pfm, write_png, write_submission
from scotopic.io.exr import has_exr
from scotopic.preview import draw_preview, reasons_in_words
from scotopic.progress import Progress, silent
from scotopic.result import Match, Reason
from scotopic.warmup import warmed

LOG = logging.getLogger("scotopic.app")

NEUTRAL = "Something went wrong here, and it is not your input's fault; it was noted in the log. Please try again."
MAPS = ("image", "disparity", "confidence", "structure", "reason", "rival", "truth", "bar")  #: what can be drawn
MOST_POINTS = 60_000  #: that are sent to be turned in the browser; the PLY file has all


def sentence(error: BaseException) -> str:
    """Return what to tell a visitor of a failure: never a trace."""
    if isinstance(error, ScotopicError):
        return " ".join(str(error).split())
    if isinstance(error, MemoryError):
        return "Memory ran out; use smaller images or a narrower search."
    LOG.error("a request failed", exc_info=error)
    return NEUTRAL


# --- matching -------------------------------------------------------------------------------------------------------


def run(session: Session, request: Request, job: Job, limits: Limits, progress: Progress = silent) -> Outcome:
    """Match the pair that was asked for and keep the result in the session.

    Parameters
    ----------
    session
        Whose result it will be; untouched if anything fails.
    request
        What to match and how.
    job
        Cancelling it stops the work at the next report.
    limits
        What may be asked for.
    progress
        Told of each stage.

    Raises
    ------
    ScotopicError
        The request cannot be met; the message says why.
    Cancelled
        The job was cancelled.
    """
    watched = job.watch(progress)
    watched("preparing the pair", 0.0)
    pair = prepare(session, request, limits)
    chosen: dict[str, Any] = {}
    for name, value in (("min_disparity", request.min_disparity), ("max_disparity", request.max_disparity)):
        if value is not None:
            chosen[name] = value
    found = match(pair.left, pair.right, request.preset, progress=warmed(watched, "auto"), **chosen)
    outcome = Outcome(found, pair.truth, pair.calibration, pair.about, pair.warnings)
    session.keep(outcome)
    return outcome


def overall(stage: str, share: float, before: float) -> float:
    """Return how much of a whole run is done, at least as much as ``before``."""
    begin, end = _SPANS.get(stage, (before, before))
    return max(before, begin + (end - begin) * min(max(share, 0.0), 1.0))


# Where the stages of a match lie in its time, about: fitting junctions takes most of it.
_SPANS = {
    "loading kernels": (0.0, 0.02),
    "noise": (0.02, 0.03),
    "junctions": (0.02, 0.75),
    "costs left": (0.75, 0.82),
    "evidence": (0.75, 0.82),
    "matching left": (0.82, 0.87),
    "costs right": (0.87, 0.94),
    "matching right": (0.94, 0.98),
    "surfaces": (0.98, 0.99),
    "confidence": (0.99, 1.0),
    "consistency": (0.98, 1.0),
}


# --- looking --------------------------------------------------------------------------------------------------------


def result_of(session: Session) -> Outcome:
    """Return the session's result.

    Raises
    ------
    InputError
        There is none, or it was dropped to make room.
    """
    if session.outcome is None:
        raise InputError("result: found none, or it was dropped to make room for others; match the pair (again)")
    return session.outcome


def masked(found: Match, threshold: float) -> Match:
    """Return a match with another threshold on its confidence: what ``min_confidence=threshold`` would have given.

    Pixels that the threshold of the match itself had hidden come back where this one is lower. Those that a higher one
    hides are called ambiguous, whatever else might be said of them.
    """
    if threshold == found.settings.matching.min_confidence:
        return found
    reason = _reasons(found.reason, found.confidence, threshold, found)
    matching = replace(found.settings.matching, min_confidence=threshold)
    return replace(
        found,
        disparity=np.where(reason == Reason.OK, found.disparity_all, np.float32(np.nan)),
        reason=reason,
        settings=replace(found.settings, matching=matching),
    )


def _reasons(
    reason: NDArray[np.uint8], confidence: NDArray[np.float32], threshold: float, found: Match
) -> NDArray[np.uint8]:
    """Return the reasons of (a part of) a match at another threshold."""
    # With the preset best confidence alone decides, and the reasons only say what spoke against a pixel.
    alone = found.settings.evidence is not None
    candidate = np.isin(reason, (Reason.OK, Reason.AMBIGUOUS)) | alone
    sure = confidence >= np.float32(threshold)
    hidden = np.where(reason == Reason.OK, np.uint8(Reason.AMBIGUOUS), reason)
    return np.where(candidate, np.where(sure, np.uint8(Reason.OK), hidden), reason).astype(np.uint8)


def set_threshold(session: Session, threshold: float | None) -> float:
    """Hide pixels that are less sure than this; returns what it is now, within [0, 1]."""
    value = 0.0 if threshold is None or not math.isfinite(threshold) else min(max(float(threshold), 0.0), 1.0)
    session.threshold = value
    return value


def most_sure(outcome: Outcome) -> float:
    """Return a threshold that leaves almost nothing, a multiple of 0.05: where the slider may end."""
    kept = outcome.match.confidence[outcome.match.mask]
    return min(math.ceil(20 * float(kept.max()) + 1e-6) / 20, 1.0) if kept.size else 1.0


def coverage_in_words(session: Session) -> str:
    """Say how much of the image has a disparity at the session's threshold, and why not the rest."""
    shown = masked(result_of(session).match, session.threshold)
    rest = ", ".join(reasons_in_words(shown.reason))
    return f"Coverage {100 * shown.coverage:.1f} %" + (f"; left out: {rest}" if rest else "")


def draw(session: Session, kind: str) -> Rgb:
    """Draw one of :data:`MAPS` at the session's threshold.

    Raises
    ------
    InputError
        There is no result, or no such map of it.
    """
    outcome = result_of(session)
    found = outcome.match
    if kind == "image":
        return image_picture(found.left_image)
    if kind == "structure":
        return structure_picture(found)
    if kind == "bar":
        return bar_picture()
    if kind == "truth" and outcome.truth is not None:
        return disparity_picture(outcome.truth, ends_of(outcome), found.left_colors)
    if kind == "rival" and session.rival is not None:
        return disparity_picture(session.rival.disparity, ends_of(outcome), found.left_colors)
    shown = masked(found, session.threshold)
    if kind == "disparity":
        return disparity_picture(shown.disparity, ends_of(outcome), found.left_colors)
    if kind == "confidence":
        return confidence_picture(found.confidence, shown.mask)
    if kind == "reason":
        return reason_picture(shown.reason)
    raise InputError(f"map: found no {kind[:20]!r} of this result, expected one of {', '.join(MAPS)}")


def ends_of(outcome: Outcome) -> Ends:
    """Return the disparities at the two ends of the colors of a result."""
    searched = outcome.match.settings.matching.for_width(outcome.match.disparity.shape[1])
    span = float(searched.min_disparity), float((searched.max_disparity or 1) - 1)
    return color_ends([outcome.match.disparity if outcome.truth is None else outcome.truth], span)


@dataclass(frozen=True)
class Reading:
    """What is known of one pixel; ``None`` where there is no answer."""

    x: int
    y: int
    disparity: float | None
    depth: float | None
    confidence: float
    reason: str
    truth: float | None

    def in_words(self) -> str:
        """Return it in one line."""
        parts = [f"({self.x}, {self.y})"]
        if self.disparity is None:
            parts.append(f"no disparity: {self.reason}")
        else:
            parts.append(f"disparity {self.disparity:.2f} px")
            parts.append("no depth" if self.depth is None else f"depth {self.depth:.3g} m")
        parts.append(f"confidence {self.confidence:.2f}")
        if self.truth is not None:
            parts.append(f"truth {self.truth:.2f} px")
        return " · ".join(parts)


def read_pixel(session: Session, x: float, y: float) -> Reading:
    """Return what is known of a pixel of the left view, at the session's threshold.

    Raises
    ------
    InputError
        There is no result, or no such pixel.
    """
    outcome = result_of(session)
    found = outcome.match
    height, width = found.disparity.shape
    if not (0 <= x < width and 0 <= y < height):  # also what is not a number
        raise InputError(f"pixel: found ({x:g}, {y:g}), expected one inside {width} x {height} px")
    at = slice(int(y), int(y) + 1), slice(int(x), int(x) + 1)
    value = float(found.disparity_all[at][0, 0])
    reason = Reason(int(_reasons(found.reason[at], found.confidence[at], session.threshold, found)[0, 0]))
    known = reason == Reason.OK and math.isfinite(value)
    here = outcome.calibration.cropped(int(x), int(y), 1, 1)
    depth = float(depth_from_disparity(found.disparity_all[at], here)[0, 0]) if known else math.nan
    truth = math.nan if outcome.truth is None else float(outcome.truth[at][0, 0])
    return Reading(
        int(x), int(y),
        disparity=value if known else None,
        depth=depth if math.isfinite(depth) else None,
        confidence=float(found.confidence[at][0, 0]),
        reason=REASONS[reason][0] if reason in REASONS else reason.name.lower().replace("_", " "),
        truth=truth if math.isfinite(truth) else None,
    )  # fmt: skip


def points(session: Session) -> tuple[NDArray[np.float32], NDArray[np.uint8], int]:
    """Return points to turn in the browser, their colors, and of how many each is the one that was not left out.

    The farthest hundredth is left out too: a few stray points must not decide how small the rest is shown.
    """
    outcome = result_of(session)
    shown = masked(outcome.match, session.threshold)
    cloud = _cloud(shown, outcome)
    if not len(cloud):
        return cloud.points, cloud.colors, 1
    near = np.flatnonzero(cloud.points[:, 2] <= np.percentile(cloud.points[:, 2], 99))
    step = max(-(-len(near) // MOST_POINTS), 1)
    return cloud.points[near[::step]], cloud.colors[near[::step]], step


def _cloud(found: Match, outcome: Outcome) -> PointCloud:
    """Return the points of a match in the colors of its structure: the picture itself is mostly noise."""
    return point_cloud(found, outcome.calibration, structure_picture(found, boundaries=False))


# --- comparing ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One method beside another: coverage always, errors in px and percent where the truth is known."""

    name: str
    coverage: float
    window: int | None = None
    epe: float = math.nan
    bad1: float = math.nan
    bad3: float = math.nan


def compare(session: Session) -> list[Row]:
    """Match the same pair by OpenCV's SGBM; return both methods' coverage, and errors where the truth is known.

    Raises
    ------
    InputError
        There is no result.
    SettingsError
        The search begins below 0, where SGBM was not asked to look.
    """
    from scotopic.evaluation.methods.opencv import match_sgbm

    outcome = result_of(session)
    searched = outcome.match.settings.matching.for_width(outcome.match.disparity.shape[1])
    if searched.min_disparity < 0:
        raise SettingsError(
            f"comparison: found a search from {searched.min_disparity} px, expected one from 0 up; match with "
            "min disparity 0 or more"
        )
    if session.rival is None:
        assert searched.max_disparity is not None
        rival = match_sgbm(outcome.match.left_image, outcome.match.right_image, searched.max_disparity)
        if session.outcome is outcome:
            session.rival = rival
    else:
        rival = session.rival
    shown = masked(outcome.match, session.threshold)
    ours = f"scotopic, {shown.settings.preset}"
    return [*_rows(ours, shown.disparity, outcome), *_rows("OpenCV SGBM", rival.disparity, outcome)]


def _rows(name: str, disparity: NDArray[np.float32], outcome: Outcome) -> list[Row]:
    from scotopic.evaluation.metrics import score

    coverage = 100 * float(np.isfinite(disparity).mean())
    if outcome.truth is None:
        return [Row(name, coverage)]
    scores = [score(disparity, outcome.truth, window) for window in (1, 19)]
    return [Row(name, coverage, each.window, each.epe, each.bad[1.0], each.bad[3.0]) for each in scores]


# --- files ----------------------------------------------------------------------------------------------------------


def available_files(session: Session) -> dict[str, str]:
    """Return the files that the session's result can be had as, by name, with what each is."""
    outcome = result_of(session)
    searched = outcome.match.settings.matching.for_width(outcome.match.disparity.shape[1])
    fits = searched.min_disparity >= 0 and (searched.max_disparity or 0) <= 256
    return {
        "disparity.pfm": "disparity, PFM",
        **({"disparity.png": "disparity, KITTI 16-bit PNG"} if fits else {}),
        "disparity.tiff": "disparity, 32-bit TIFF",
        "disparity.npz": "disparity, NumPy",
        **({"disparity.exr": "disparity, OpenEXR"} if has_exr() else {}),
        "confidence.pfm": "confidence, PFM",
        "depth.pfm": "depth in meters, PFM",
        "points.ply": "colored points, binary PLY",
        "preview.png": "the result at a glance",
        "report.json": "settings, coverage, timings",
        "middlebury.zip": "Middlebury submission folder",
        "all.zip": "all of these, and match.npz",
    }


def write_file(session: Session, name: str) -> Path:
    """Write one of :func:`available_files` into a folder of its own, which whoever asked removes.

    Raises
    ------
    InputError
        There is no such file of this result.
    OutputError
        It cannot be written.
    """
    if name not in available_files(session):
        raise InputError(f"file: found {name[:40]!r}, expected one of {', '.join(available_files(session))}")
    outcome = result_of(session)
    shown = replace(outcome, match=masked(outcome.match, session.threshold))
    folder = session.working_folder()
    try:
        if name == "all.zip":
            parts = [part for part in available_files(session) if part != name]
            return _write_all(folder, shown, parts)
        return _write(folder, name, shown)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _write(folder: Path, name: str, outcome: Outcome) -> Path:
    path = folder / name
    _WRITERS.get(name, _write_disparity)(path, outcome)
    return path


def _write_all(folder: Path, outcome: Outcome, names: list[str]) -> Path:
    made = outcome.match.save(folder / "scotopic")
    for name in names:
        _write(made, name, outcome)
    return _zip(made, folder / "all.zip")


def _zip(folder: Path, target: Path) -> Path:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, Path(folder.name) / path.relative_to(folder))
    shutil.rmtree(folder)
    return target


def _write_disparity(path: Path, outcome: Outcome) -> None:
    write_disparity(path, outcome.match.disparity)


def _write_confidence(path: Path, outcome: Outcome) -> None:
    write_pfm(path, outcome.match.confidence)


def _write_depth(path: Path, outcome: Outcome) -> None:
    depth = depth_from_disparity(outcome.match.disparity, outcome.calibration)
    write_pfm(path, np.where(np.isfinite(depth), depth, np.float32(np.inf)))


def _write_points(path: Path, outcome: Outcome) -> None:
    _cloud(outcome.match, outcome).save(path, overwrite=True)


def _write_preview(path: Path, outcome: Outcome) -> None:
    write_png(path, draw_preview(outcome.match, outcome.truth))


def _write_report(path: Path, outcome: Outcome) -> None:
    path.write_text(json.dumps({**outcome.match.report(), **outcome.about}, indent=2) + "\n")


def _write_submission(path: Path, outcome: Outcome) -> None:
    found = outcome.match
    folder = write_submission(
        path.with_suffix(""), "scotopic", found.disparity_all, found.disparity, sum(found.timings.values())
    )
    _zip(folder, path)


_WRITERS: dict[str, Callable[[Path, Outcome], None]] = {
    "confidence.pfm": _write_confidence,
    "depth.pfm": _write_depth,
    "points.ply": _write_points,
    "preview.png": _write_preview,
    "report.json": _write_report,
    "middlebury.zip": _write_submission,
}
