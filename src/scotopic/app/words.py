"""What the page says in HTML; everything that a visitor wrote is escaped."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.app import work
from scotopic.app.pictures import REASONS, as_png
from scotopic.app.routes import address
from scotopic.app.session import Session
from scotopic.result import Reason

EMPTY = (
    '<div class="sc-empty"><strong>No result yet</strong>Choose a pair, say how dark it is, and press Match. '
    "A built-in room takes a few seconds; the very first run on a machine compiles for about a minute.</div>"
)
_THUMBNAIL = 320  # px


def status(words: str, *more: str, kind: str = "", share: float | None = None) -> str:
    """Return a note, with a bar where something is under way; ``kind`` is ``"problem"``, ``"done"`` or nothing."""
    role = "alert" if kind == "problem" else "status"
    lines = "".join(f"<p>{escape(line)}</p>" for line in (words, *more))
    bar = "" if share is None else f'<div class="sc-progress"><i style="width:{100 * share:.1f}%"></i></div>'
    return f'<div class="sc-status{f" sc-{kind}" if kind else ""}" role="{role}">{lines}{bar}</div>'


def thumbnails(views: Sequence[tuple[str, NDArray[np.uint8]]]) -> str:
    """Return the views of the chosen pair, small."""
    figures = []
    for title, pixels in views:
        step = max(-(-max(pixels.shape[:2]) // _THUMBNAIL), 1)
        small = pixels[::step, ::step]
        data = base64.b64encode(as_png(small[..., 0] if small.shape[2] == 1 else small, enlarge=False)).decode()
        figures.append(
            f'<figure><img src="data:image/png;base64,{data}" alt="{escape(title)}">'
            f"<figcaption>{escape(title)}</figcaption></figure>"
        )
    return f'<div class="sc-thumbs">{"".join(figures)}</div>' if figures else ""


def shown(session: Session) -> dict[str, Any]:
    """Return what the viewer and the points need to know of the session's result."""
    outcome = work.result_of(session)
    found = outcome.match
    height, width = found.disparity.shape
    present = [Reason(int(kind)) for kind in np.unique(work.masked(found, session.threshold).reason)]
    return {
        "base": address(session),
        "stamp": session.stamp,
        "threshold": round(session.threshold, 4),
        "width": width,
        "height": height,
        "ends": [f"{end:.1f} px" for end in work.ends_of(outcome)],
        "reasons": [(escape(REASONS[kind][0]), f"rgb{REASONS[kind][1]}") for kind in present if kind in REASONS],
        "focal": outcome.calibration.fx,
        "geometry": (
            f"focal length {outcome.calibration.fx:.0f} px, baseline {outcome.calibration.baseline:.3g} m "
            f"({outcome.calibration.source.split(':')[0].split(',')[0]})"
        ),
    }


def files(session: Session) -> str:
    """Return the links to every file of the result."""
    links = (
        f'<a href="{address(session)}/files/{name}?v={session.stamp}" download="{name}">{name}'
        f"<span>{escape(about)}</span></a>"
        for name, about in work.available_files(session).items()
    )
    note = "Files are written when you ask for them, with the mask as it is set now."
    return f'<div class="sc-files">{"".join(links)}</div><p class="sc-note">{note}</p>'


def comparison(session: Session, rows: Sequence[work.Row]) -> str:
    """Return both methods side by side, with coverage, and errors where the truth is known."""
    base, version = address(session), f"{session.stamp}-{session.threshold:.4f}"
    ours, theirs = rows[0], rows[-1]
    panels = [("disparity", f"{ours.name}: coverage {ours.coverage:.1f} %")]
    panels.append(("rival", f"{theirs.name}: coverage {theirs.coverage:.1f} %"))
    if ours.window is not None:
        panels.append(("truth", "True disparity, in the same colors"))
    figures = "".join(
        f'<figure><img src="{base}/maps/{kind}.png?v={version}" alt="{escape(title)}">'
        f"<figcaption>{escape(title)}</figcaption></figure>"
        for kind, title in panels
    )
    table = "" if ours.window is None else _table(rows)
    note = (
        "SGBM gets the same noisy pair, the same range and OpenCV's advised settings (block 5, its filters on). "
        + ("Errors are over each method's own pixels: read them with the coverage beside them. " if table else "")
        + ("W = 19 takes the nearest truth in a window of 19 px, as the paper does." if table else "")
    )
    return f'<div class="sc-side">{figures}</div>{table}<p class="sc-note">{note}</p>'


def _table(rows: Sequence[work.Row]) -> str:
    def cell(value: float, unit: str) -> str:
        return "none" if math.isnan(value) else f"{value:.2f} {unit}" if unit == "px" else f"{value:.1f} {unit}"

    lines = "".join(
        f"<tr><td>{escape(row.name)}</td><td>{row.window}</td><td>{row.coverage:.1f} %</td>"
        f"<td>{cell(row.epe, 'px')}</td><td>{cell(row.bad1, '%')}</td><td>{cell(row.bad3, '%')}</td></tr>"
        for row in rows
    )
    head = "<tr><th>method</th><th>W</th><th>coverage</th><th>EPE</th><th>Bad-1</th><th>Bad-3</th></tr>"
    return f'<div class="sc-scroll"><table class="sc-table"><thead>{head}</thead><tbody>{lines}</tbody></table></div>'
