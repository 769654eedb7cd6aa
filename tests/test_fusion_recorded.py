"""What a GPU records of fusing depends on nothing but its key and its arrays, so it can be replayed for later pairs."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from moving_scene import BOARD, MovingScene, sway

from scotopic.backends.cpu import CpuBackend
from scotopic.fusion.tracker import FusedPair, Tracker

SCENE = MovingScene(height=96, width=128)
PAIRS, LOST = 14, 9


class Replaying(CpuBackend):
    """A backend that does with later arrays what was to be done the first time, as a recording does."""

    def __init__(self) -> None:
        self.first: dict[Hashable, Callable[..., Any]] = {}
        self.pieces: list[set[Hashable]] = []  # of each pair

    def replayed(self, key: Hashable, work: Callable[..., Any], *arrays: np.ndarray) -> Any:
        key = key, tuple(array.shape for array in arrays)
        self.pieces[-1].add(key)
        return self.first.setdefault(key, work)(*arrays)


def fuse_stream(backend: CpuBackend) -> list[FusedPair[np.ndarray]]:
    """Fuse pairs of a rig that sways, a board that moves, light that changes and a lost pair, by true disparities."""
    tracker: Tracker[np.ndarray] = Tracker(backend, SCENE.camera, 8)
    fused = []
    for k in range(PAIRS):
        if isinstance(backend, Replaying):
            backend.pieces.append(set())
        if k == LOST:
            tracker.skip()
            continue
        pose, shift = sway(k), k * BOARD / SCENE.focal
        beside = pose.copy()
        beside[:3, 3] += beside[:3, 0]
        exposure = np.float32(0.7 if k % 4 == 3 else 1.0)
        left, right = (exposure * view for view in SCENE.dark(pose, 16.0, k, board_shift=shift))
        fused.append(tracker.add((left, right)))
        views = [SCENE.draw(each, board_shift=shift) for each in (pose, beside)]
        found: Any = SimpleNamespace(
            disparity_all=views[0].disparity,
            right_disparity=views[1].disparity,
            confidence=np.full(left.shape[:2], 0.8, np.float32),
            denoised=(views[0].left, views[1].left),
        )
        tracker.learn(found, fused[-1])
    return fused


@pytest.fixture(scope="module")
def replaying() -> tuple[Replaying, list[FusedPair[np.ndarray]]]:
    backend = Replaying()
    return backend, fuse_stream(backend)


def test_what_is_replayed_is_what_would_be_done(replaying: tuple[Replaying, list[FusedPair[np.ndarray]]]) -> None:
    backend, found = replaying

    for one, other in zip(found, fuse_stream(CpuBackend()), strict=True):
        for seen, expected in ((one.left, other.left), (one.right, other.right)):
            np.testing.assert_array_equal(seen.image, expected.image)
            np.testing.assert_array_equal(seen.frames, expected.frames)
        np.testing.assert_array_equal(one.pose, other.pose)
        np.testing.assert_array_equal(one.covariance, other.covariance)
    assert len({one.gain for one in found}) > 2  # numbers that a recording must not hold
    assert len(backend.pieces[-1] & backend.pieces[-2]) > 4


def test_a_fused_stream_remembers_what_its_pairs_need(
    replaying: tuple[Replaying, list[FusedPair[np.ndarray]]],
) -> None:
    recordings = pytest.importorskip("scotopic.backends.cuda.recordings", exc_type=ImportError)
    backend, _ = replaying

    # What is needed again is still there, whatever the pair between has added; PIECES are those of the match.
    most = max(len(set.union(*backend.pieces[k : k + 3])) for k in range(8, PAIRS - 2))
    assert most + recordings.PIECES <= recordings.FUSED
