"""Votes of like colors: the definition, and what they do to a plain wall behind something nearer."""

import numpy as np
import pytest
from agreement import assert_maps_agree
from devices import DEVICES, sized
from kernel_calls import on

from scotopic.backends.protocol import Ballot
from scotopic.errors import SettingsError
from scotopic.settings import VoteSettings, make_settings
from scotopic.stages.votes import FLOOR, add_votes, measure_slopes, reference_votes, vote_places

random = np.random.default_rng
on_each_device = pytest.mark.parametrize("device", DEVICES)


@on_each_device
@pytest.mark.parametrize("channels", [1, 3])
def test_the_costs_of_votes_are_the_definition(device: str, channels: int) -> None:
    height, width, candidates = sized(device, (15, 22, 11), (4, 6, 5))
    view = random(0).random((height, width, channels), np.float32)
    disparity = random(1).uniform(0, candidates - 1, (height, width)).astype(np.float32)
    slopes = tuple(random(seed).normal(0, 0.2, (height, width)).astype(np.float32) for seed in (2, 3))
    weights = random(4).random((height, width), np.float32)
    volume = random(5).random((candidates, height, width), np.float32)
    ballot = Ballot(((-2, 1), (3, 0), (0, -4), (1, 5)), 0.3, 1.5, 0.4, 2.0, 0.02)

    def vote(backend, *arrays):
        costs = arrays[0] + 0
        backend.add_votes(costs, *arrays[1:], ballot)
        return costs

    found = on(device).run(vote, volume, view, disparity, *slopes, weights)

    expected = volume + reference_votes(view, disparity, slopes, weights, ballot, candidates)
    assert_maps_agree(found.reshape(candidates, -1), expected.reshape(candidates, -1), 1e-4)


def test_places_are_spread_evenly_over_a_ring() -> None:
    places = np.array(vote_places(400, 10.0, 40.0))
    radius = np.hypot(*places.T)
    assert radius.min() > 9
    assert radius.max() < 41
    # Half of the area of the ring lies within the root of the mean square of its radii.
    assert np.mean(radius < np.sqrt((10**2 + 40**2) / 2)) == pytest.approx(0.5, abs=0.03)
    assert np.abs(places.mean(axis=0)).max() < 2


@on_each_device
def test_slopes_are_those_of_a_plane_and_none_at_a_jump(device: str) -> None:
    y, x = np.mgrid[:16, :20].astype(np.float32)
    surface = 0.25 * x - 0.125 * y + np.where(x > 12, 9, 0).astype(np.float32)

    down, along = on(device).run(measure_slopes, surface)

    assert np.allclose(down[:, :9], -0.125)
    assert np.allclose(along[:, :9], 0.25)
    assert not along[:, 12].any()
    assert not down[:, 12].any()


def test_a_plain_hole_takes_the_plane_of_the_wall_that_has_its_color() -> None:
    """A wall of disparity 2 + x / 8 is seen through a frame at 20; its part in the hole has only the frame's edges."""
    height, width, candidates = 40, 60, 24
    x = np.mgrid[:height, :width][1].astype(np.float32)
    wall = 2 + x / 8
    frame = np.zeros((height, width), bool)
    frame[8:32, 20:44] = True
    hole = np.zeros_like(frame)
    hole[14:26, 26:38] = True
    view = np.where((frame & ~hole)[..., None], np.float32([0.7, 0.2, 0.2]), np.float32([0.5, 0.5, 0.5]))
    disparity = np.where(frame, np.float32(20), wall).astype(np.float32)
    weights = np.where(hole, np.float32(0.02), np.float32(1.0))
    settings = VoteSettings(vote_count=256, vote_gap=4, vote_reach=30)

    def vote(backend, *arrays):
        volume = np.zeros((candidates, height, width), np.float32)
        add_votes(backend, volume, *arrays, first=0, factor=1, settings=settings)
        return volume

    found = on("cpu").run(vote, view, disparity, disparity, weights)

    assert np.abs(found.argmin(axis=0) - wall)[hole].max() <= 1
    # Shares lie between 0 and 1, and at a pixel as sure as most the votes count half.
    most, spread = np.log((1 + FLOOR) / FLOOR), np.ptp(found, axis=0)
    assert spread[~frame].max() <= most / 2 < spread[hole].min()


def test_the_farthest_voter_is_not_nearer_than_the_nearest() -> None:
    with pytest.raises(SettingsError, match="vote_reach"):
        make_settings("best", vote_reach=5.0)
