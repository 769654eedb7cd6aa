"""The HTML of the page; everything that a visitor wrote is escaped."""

import base64
import math
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.app import work
from scotopic.app.session import Session
from scotopic.app.work import REASONS, as_png
from scotopic.depth import Calibration
from scotopic.preview import match_colors
from scotopic.result import Reason

EMPTY = (
    '<div class="sc-empty"><strong>No result yet</strong>Choose a pair, say how dark it is, and press Match. '
    "A built-in room takes a few seconds; the very first run on a machine compiles for about a minute.</div>"
)
_THUMBNAIL = 320  # px


def stage_title(name: str) -> str:
    """Return how the page calls a stage, from the name that the pipeline gives it."""
    return name[:1].upper() + name[1:]


def status(text: str, *more: str, kind: str = "", share: float | None = None) -> str:
    """Return a note, with a bar while something runs; ``kind`` is ``"problem"``, ``"done"`` or nothing."""
    role = "alert" if kind == "problem" else "status"
    lines = "".join(map(paragraph, (text, *more)))
    bar = "" if share is None else f'<div class="sc-progress"><i style="width:{100 * share:.1f}%"></i></div>'
    return f'<div class="sc-status{f" sc-{kind}" if kind else ""}" role="{role}">{lines}{bar}</div>'


def problem(error: BaseException) -> str:
    """Return a note about a failure."""
    return status(work.error_message(error), kind="problem")


def paragraph(text: str) -> str:
    """Return plain text as a paragraph."""
    return f"<p>{escape(text)}</p>"


def thumbnails(views: Sequence[tuple[str, NDArray[np.uint8]]]) -> str:
    """Return the views of the chosen pair, small."""
    figures = []
    for title, pixels in views:
        step = max(-(-max(pixels.shape[:2]) // _THUMBNAIL), 1)
        small = pixels[::step, ::step]
        data = base64.b64encode(as_png(small[..., 0] if small.shape[2] == 1 else small, enlarge=False)).decode()
        figures.append(_figure(f"data:image/png;base64,{data}", title))
    return f'<div class="sc-thumbs">{"".join(figures)}</div>' if figures else ""


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
    note = "SGBM gets the same noisy pair, the same range and OpenCV's advised settings (block 5, its filters on)."
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
