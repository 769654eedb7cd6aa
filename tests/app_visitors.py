"""Visitors of the web page for the tests, one of them with a result."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scotopic.app import work
from scotopic.app.inputs import Request
from scotopic.app.session import Job, Limits, Outcome, Session
from scotopic.io import write_png

SMALL = "Room, small (192 x 128)"
LIMITS = Limits()


@cache
def match_small_room(preset: str = "fast") -> Outcome:
    """The small room, matched once for all tests."""
    return work.run(Session(Path("unused")), Request(SMALL, preset=preset, max_disparity=32), Job(), LIMITS)


def session_with_result(folder: Path) -> Session:
    """A visitor who has matched the small room."""
    session = Session(folder / "session")
    session.keep(match_small_room())
    return session


def upload(folder: Path, name: str, pixels: NDArray[np.generic] | bytes) -> Path:
    """Put a file where the web server would: alone in a folder."""
    path = folder / "uploads" / name.replace(".", "-") / name
    path.parent.mkdir(parents=True)
    if isinstance(pixels, bytes):
        path.write_bytes(pixels)
    else:
        write_png(path, pixels)
    return path
