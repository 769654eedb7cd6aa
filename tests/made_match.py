"""A small match with chosen disparities, for the tests of what is made from one."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from scotopic.result import Match, Reason
from scotopic.settings import make_settings


def made_match(
    disparity: NDArray[np.floating], *, min_disparity: int = 0, max_disparity: int = 64, channels: int = 3
) -> Match:
    """Return a match with these disparities, without an answer where they are NaN, of random images."""
    random = np.random.default_rng(0)
    left, right = random.random((2, *disparity.shape, channels)).astype(np.float32)
    settings = make_settings("fast", min_disparity=min_disparity, max_disparity=max_disparity)
    values = disparity.astype(np.float32)
    known = np.isfinite(values)
    return dataclasses.replace(
        Match.empty(left, right, settings, Reason.NO_STRUCTURE),
        disparity=values,
        disparity_all=np.nan_to_num(values),
        reason=np.where(known, Reason.OK, Reason.NO_STRUCTURE).astype(np.uint8),
        confidence=known.astype(np.float32),
    )
