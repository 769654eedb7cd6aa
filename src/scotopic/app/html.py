"""The HTML of the page; everything that a visitor wrote is escaped."""

import base64
import math
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.app import inputs, work
from scotopic.app.pictures import as_png
from scotopic.app.session import Job, Session
from scotopic.app.work import REASONS
from scotopic.depth import Calibration
from scotopic.preview import match_colors
from scotopic.result import Reason

EMPTY = (
    '<div class="sc-empty"><strong>No result yet</strong>Choose a pair and press Match. A built-in room takes about '
    "five seconds; the very first run on a machine compiles for about 15 seconds.</div>"
)
#: How to choose preset and search range, under them.
HELP = """<details class="sc-help"><summary>How to choose: presets, and fx · B / Zmin</summary>
<p><b>Maximum disparity</b> is that of the nearest object: focal length fx in pixels, times the baseline B between the
cameras, divided by the distance Zmin of that object. With fx = 800 px, B = 0.1 m and Zmin = 1 m it is 80 px; take a
little more. Nearer objects get no answer or a wrong one; a larger maximum takes longer. Empty means 128 px, or the
width of a smaller image. <b>Minimum disparity</b> is 0 unless the cameras converge.</p>
<p><b>best</b> answers most pixels, and most of them right. <b>fast</b> takes a fraction of the time and answers along
edges. <b>paper</b> is the published method, and slow.</p></details>"""
_THUMBNAIL = 320  # px
_ICONS = {
    "warning": "M8 1.5 15.2 14.5H.8Z M8 6v4 M8 12v.6",
    "problem": "M8 1a7 7 0 1 1 0 14a7 7 0 0 1 0-14Z M8 4.5v4.5 M8 11.2v.6",
    "done": "M8 1a7 7 0 1 1 0 14a7 7 0 0 1 0-14Z M5 8.2l2.2 2.3L11.2 6",
}
_WORDS = {"warning": "Warning", "problem": "Error"}


def stage_title(name: str) -> str:
    """Return how the page calls a stage, from the name that the pipeline gives it."""
    return name[:1].upper() + name[1:]


def status(text: str, kind: str = "") -> str:
    """Return a note; ``kind`` is ``"problem"``, ``"warning"``, ``"done"`` or nothing."""
    role = "alert" if kind == "problem" else "status"
    icon = f'<svg viewBox="0 0 16 16" aria-hidden="true"><path d="{_ICONS[kind]}"/></svg>' if kind else ""
    word = f"<strong>{_WORDS[kind]}.</strong> " if kind in _WORDS else ""
    look = f"sc-status sc-{kind}" if kind else "sc-status"
    return f'<div class="{look}" role="{role}">{icon}<p>{word}{escape(text)}</p></div>'


def problem(error: BaseException) -> str:
    """Return a note about a failure."""
    return status(work.error_message(error), "problem")


def working(job: Job) -> str:
    """Return how far a job is: its stage, a bar, and the time left."""
    title, position, percent = stage_title(job.stage), job.position, 100 * job.total_share
    left = "" if job.seconds_left is None else time_left(job.seconds_left)
    about = ""
    if position is not None:
        about = f"Stage {position + 1} of {len(job.stages)}: {job.stages[position].summary}."
    # Of a clip the answer so far is shown below, and does not step back.
    fused = "" if job.fused is None else f"Fused frames: {job.fused}"
    look = "sc-working sc-refining" if job.fused is not None and job.fused.frames else "sc-working"
    spoken = ", ".join(filter(None, (title, fused, left)))
    return (
        f'<div class="sc-status {look}"><p><strong>{escape(title)}</strong><span>{fused}</span>'
        f'<span class="sc-left">{left}</span></p>'
        f'<div class="sc-progress" role="progressbar" aria-label="Matching" aria-valuemin="0" aria-valuemax="100" '
        f'aria-valuenow="{percent:.0f}" aria-valuetext="{escape(spoken)}"><i style="width:{percent:.1f}%"></i></div>'
        f'<p class="sc-about">{escape(about)}</p></div>'
    )


def time_left(seconds: float) -> str:
    """Return a time in words, no more exact than a guess is."""
    if seconds < 5:
        return "a few seconds left"
    if seconds <= 55:
        return f"about {5 * math.ceil(seconds / 5)} s left"
    return f"about {math.ceil(seconds / 60)} min left"


def resting(session: Session) -> str:
    """Return what stands above the result while nothing is done: how it was made, and warnings about its pair."""
    if session.outcome is None:
        return EMPTY
    found, about, warnings = session.outcome.match, session.outcome.about, session.outcome.warnings
    doubt = (about.get("calibration") or {}).get("warning")
    if doubt is not None:
        warnings = (*warnings, doubt)
    name = about["pair"] if isinstance(about["pair"], str) else " and ".join(about["pair"])
    seconds, fused = sum(found.timings.values()), session.outcome.fused
    what = "Matched" if fused is None else f"Fused {fused} frames"
    done = f"{what} in {seconds:.1f} s with the preset {found.settings.preset}: {name}."
    if fused is not None and session.outcome.calibration is None:
        done += " Assumed for the motion: fx = image width."
    return status(done, "done") + "".join(status(each, "warning") for each in warnings)


def cancelled(session: Session) -> str:
    """Return what stands above the result after cancelling."""
    return status("Cancelled.") + _earlier(session)


def failed(session: Session, error: BaseException) -> str:
    """Return what stands above the result after a match that failed."""
    return problem(error) + _earlier(session)


def _earlier(session: Session) -> str:
    """Return what the result below is that another match has not replaced, or a clip that was stopped on the way."""
    if session.outcome is None:
        return ""
    fused = session.outcome.fused
    is_whole = fused is None or fused.frames == fused.total
    return (status("The result below is from before.") if is_whole else "") + resting(session)


def paragraph(text: str) -> str:
    """Return plain text as a paragraph."""
    return f"<p>{escape(text)}</p>"


def views(session: Session, source: str) -> str:
    """Return the views of the chosen pair, small, or why they were refused."""
    shown, uploads = inputs.thumbnails(session, source), inputs.uploads_of(session, source)
    problems = {} if uploads is None else uploads.problems
    places = (
        status(problems[side], "problem") if side in problems else _thumbnail(*shown[side]) if side in shown else ""
        for side in inputs.SIDES
    )
    inside = "".join(f"<div>{place}</div>" for place in places)
    return f'<div class="sc-thumbs" data-session="{session.address}">{inside}</div>'


def _thumbnail(title: str, pixels: NDArray[np.uint8]) -> str:
    step = max(-(-max(pixels.shape[:2]) // _THUMBNAIL), 1)
    small = pixels[::step, ::step]
    data = base64.b64encode(as_png(small[..., 0] if small.shape[2] == 1 else small, enlarge=False)).decode()
    return _figure(f"data:image/png;base64,{data}", title)


def viewer_state(session: Session) -> dict[str, Any]:
    """Return what the viewer and the point cloud need to know about the session's result."""
    outcome = work.result_of(session)
    height, width = outcome.match.disparity.shape
    present = [Reason(int(kind)) for kind in np.unique(work.shown_match(session).reason)]
    return {
        "base": session.address,
        "stamp": session.version,
        "threshold": round(session.threshold, 4),
        "width": width,
        "height": height,
        "ends": [f"{end:.1f} px" for end in match_colors(outcome.match, outcome.truth)],
        "reasons": [(escape(REASONS[kind][0]), f"rgb{REASONS[kind][1]}") for kind in present],
        "focal": float(width) if outcome.calibration is None else outcome.calibration.fx,
        "geometry": _geometry(outcome.calibration),
        "fused": None if outcome.fused is None else outcome.fused.frames,
    }


def _geometry(calibration: Calibration | None) -> str:
    if calibration is None:
        return "without scale: there is no calibration, so depth is relative and is not written to files"
    source = calibration.source.split(":")[0].split(",")[0]
    return f"focal length {calibration.fx:.0f} px, baseline {calibration.baseline:.3g} m ({source})"


def files(session: Session) -> str:
    """Return the links to every file of the result."""
    links = (
        f'<a href="{session.address}/files/{name}?v={session.version}" download="{name}">{name}'
        f"<span>{escape(about)}</span></a>"
        for name, about in work.available_files(session).items()
    )
    note = "Files are written when you click, with the threshold as it is set now."
    if work.result_of(session).calibration is None:
        note += " Depth in meters and points need a calibration: drop one, and they appear here."
    return f'<div class="sc-files">{"".join(links)}</div><p class="sc-note">{note}</p>'


def comparison(session: Session, rows: Sequence[work.Row]) -> str:
    """Return both methods side by side, with coverage, and errors if the truth is known."""
    base, version = session.address, f"{session.version}-{session.threshold:.4f}"
    ours, theirs = rows[0], rows[-1]
    panels = {
        kind: f"{row.name}: coverage {100 * row.coverage:.1f} %"
        for kind, row in (("disparity", ours), ("sgbm", theirs))
    }
    table = ""
    pair = "noisy pair" if work.result_of(session).fused is None else "fused pair"
    note = f"SGBM gets the same {pair}, the same range and OpenCV's advised settings (block 5, its filters on)."
    if ours.score is not None:
        panels["truth"] = "True disparity, in the same colors"
        table = _table(rows)
        note += (
            " Errors are over each method's own pixels: read them with the coverage beside them. W = 19 takes the "
            "nearest truth in a window of 19 px, as the paper does."
        )
    figures = "".join(_figure(f"{base}/maps/{kind}.png?v={version}", title) for kind, title in panels.items())
    return f'<div class="sc-side">{figures}</div>{table}<p class="sc-note">{note}</p>'


def _figure(address: str, title: str) -> str:
    return f'<figure><img src="{address}" alt="{escape(title)}"><figcaption>{escape(title)}</figcaption></figure>'


def _table(rows: Sequence[work.Row]) -> str:
    def cell(value: float, unit: str, digits: int) -> str:
        return "<td>none</td>" if math.isnan(value) else f"<td>{value:.{digits}f} {unit}</td>"

    lines = "".join(
        f"<tr><td>{escape(row.name)}</td><td>{row.score.window}</td>{cell(100 * row.coverage, '%', 1)}"
        f"{cell(row.score.epe, 'px', 2)}{cell(row.score.bad[1.0], '%', 1)}{cell(row.score.bad[3.0], '%', 1)}</tr>"
        for row in rows
        if row.score is not None
    )
    head = "<tr><th>method</th><th>W</th><th>coverage</th><th>EPE</th><th>Bad-1</th><th>Bad-3</th></tr>"
    return f'<div class="sc-scroll"><table class="sc-table"><thead>{head}</thead><tbody>{lines}</tbody></table></div>'
