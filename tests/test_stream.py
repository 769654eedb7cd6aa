"""A stream of pairs: in order, each as ``match`` gives it, whatever the source is and however it ends."""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from devices import CUDA, DEVICES, ON_REAL_DEVICES, sized
from numpy.typing import NDArray
from pictures import draw_blocks

import scotopic
from scotopic.backends.device import is_on_gpu, to_numpy
from scotopic.errors import DeviceError, InputError, PairWarning, SettingsError
from scotopic.result import ARRAYS, Match, Reason

Image = NDArray[Any]
Pair = tuple[Image, Image]

SHAPE = (40, 56, 3)
FEW: dict[str, Any] = {"patch_size": 16, "stride": 8, "refine_steps": 4, "search_every": 3, "max_disparity": 8}


def shape_for(device: str) -> tuple[int, int, int]:
    return sized(device, SHAPE, (8, 12, 1))


def settings_for(device: str) -> dict[str, Any]:
    """Where kernels are interpreted: two patches, one step, no search, which alone takes seconds there."""
    tiny = {"patch_size": 8, "stride": 4, "binning": 1, "search_steps": 0, "refine_steps": 1, "max_disparity": 2}
    return sized(device, FEW, tiny)


def matcher_on(device: str) -> scotopic.Matcher:
    return scotopic.Matcher("fast", shape_for(device), device, **settings_for(device))


def draw_pairs(device: str = "cpu", count: int = 3) -> list[Pair]:
    """Pairs that differ from one another, of the size for a device."""
    height, width, channels = shape_for(device)
    drawn = [draw_blocks(height, width + 2, channels, seed=seed, noise=0.1, side=12) for seed in range(count)]
    return [(picture[:, 2:], picture[:, :-2]) for picture in drawn]


def matched(pair: Pair, device: str) -> Match:
    """The pair matched alone; once, since that takes long where kernels are interpreted."""
    key = device, *(np.asarray(view).tobytes() for view in pair)
    if key not in _MATCHED:
        _MATCHED[key] = scotopic.match(*pair, preset="fast", device=device, **settings_for(device))
    return _MATCHED[key]


_MATCHED: dict[tuple[Any, ...], Match] = {}


@pytest.mark.parametrize("fuse", [None, 2])
def test_a_search_range_that_ends_before_the_scene_is_doubted_once(fuse: int | None) -> None:
    scene = scotopic.render_scene(320, 208, seed=1)  # up to 31 px
    pairs = [scotopic.simulate_pair(scene.left, scene.right, 20, 2, seed=seed) for seed in range(2)]

    with pytest.warns(PairWarning, match="within 3 px of the end of the search range, 12") as told:
        deque(scotopic.Matcher("fast", device="cpu", max_disparity=12, fuse=fuse).run(pairs))
    assert len(told) == 1
    deque(scotopic.Matcher("fast", device="cpu", max_disparity=40, fuse=fuse).run(pairs))  # would be an error here
    deque(scotopic.Matcher("fast", device="cpu", max_disparity=12, fuse=fuse, check=False).run(pairs))


def test_a_burst_that_needs_a_longer_search_range_is_doubted() -> None:
    scene = scotopic.render_scene(320, 208, seed=1)
    pairs = [scotopic.simulate_pair(scene.left, scene.right, 20, 2, seed=seed) for seed in range(2)]

    with pytest.warns(PairWarning, match="within 3 px of the end of the search range, 12") as told:
        scotopic.match_burst(*zip(*pairs, strict=True), "fast", "cpu", max_disparity=12)
    assert len(told) == 1


def assert_same(found: Match, expected: Match) -> None:
    """All maps and images are equal to the bit, and so are the settings."""
    for name in ARRAYS:
        values = to_numpy(getattr(found, name), getattr(expected, name))
        assert values[0].dtype == values[1].dtype, name
        assert np.array_equal(*values, equal_nan=values[0].dtype.kind == "f"), name
    assert found.settings == expected.settings


# --- what comes out -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ON_REAL_DEVICES)
def test_each_pair_is_matched_as_alone_and_in_order(device: str) -> None:
    pairs = draw_pairs(device, 5)

    results = list(matcher_on(device).run(pairs))

    assert len(results) == len(pairs)
    for result, pair in zip(results, pairs, strict=True):
        assert_same(result, matched(pair, device))
        assert sum(result.timings.values()) > 0


@pytest.mark.parametrize("device", DEVICES)
def test_a_pair_of_one_color_in_the_middle_gives_an_empty_match(device: str) -> None:
    pairs = draw_pairs(device)
    flat = np.full(shape_for(device), 0.5, np.float32)
    pairs[1] = (flat, pairs[1][1])

    results = list(matcher_on(device).run(pairs))

    assert (results[1].reason == Reason.NO_STRUCTURE).all()
    assert results[1].coverage == 0
    for result, pair in zip(results, pairs, strict=True):
        assert_same(result, matched(pair, device))


@pytest.mark.parametrize("device", [CUDA])
def test_tensors_on_the_gpu_give_tensors_on_the_gpu(device: str) -> None:
    import torch

    from scotopic.backends.device import torch_device

    pairs = draw_pairs(device, sized(device, 4, 1))
    pairs.append((np.zeros_like(pairs[0][0]), pairs[0][1]))
    tensors = [tuple(torch.as_tensor(view.copy(), device=torch_device()) for view in pair) for pair in pairs]

    results = list(matcher_on(device).run(tensors))  # type: ignore[arg-type]

    for result, pair in zip(results, pairs, strict=True):
        assert all(is_on_gpu(getattr(result, name)) for name in ARRAYS)
        assert_same(result, matched(pair, device))


@pytest.mark.parametrize("device", ON_REAL_DEVICES)
def test_a_matcher_can_run_again(device: str) -> None:
    pair = draw_pairs(device)[0]
    matcher = matcher_on(device)

    first, second = list(matcher.run([pair])), list(matcher.run([pair]))

    assert_same(first[0], second[0])


def test_no_pairs_give_no_matches() -> None:
    assert list(matcher_on("cpu").run([])) == []


@pytest.mark.parametrize("pairs", [None, 5])
def test_what_holds_no_pairs_is_refused(pairs: Any) -> None:
    with pytest.raises(InputError, match="iterable of pairs"):
        next(matcher_on("cpu").run(pairs))


def test_results_do_not_share_memory() -> None:
    pair = draw_pairs()[0]

    first, second = matcher_on("cpu").run([pair, pair])

    assert not any(np.shares_memory(getattr(first, name), getattr(second, name)) for name in ARRAYS)


def test_the_maps_of_a_result_do_not_share_memory() -> None:
    pair = draw_pairs()[0]
    flat = np.zeros_like(pair[0])

    for match in matcher_on("cpu").run([pair, (flat, pair[1])]):
        maps = {name: getattr(match, name) for name in ARRAYS}
        shared = [names for names in combinations(maps, 2) if np.shares_memory(maps[names[0]], maps[names[1]])]
        assert not shared


def test_the_settings_are_those_of_the_preset_with_the_overrides_for_this_width() -> None:
    matcher = scotopic.Matcher("fast", (64, 96), "cpu", p1=30)

    assert matcher.settings.preset == "fast"
    assert (matcher.settings.matching.p1, matcher.settings.matching.max_disparity) == (30, 96)
    assert (matcher.shape, matcher.device) == ((64, 96, 1), "cpu")


# --- what goes in ---------------------------------------------------------------------------------------------------


def test_any_iterable_of_pairs_will_do() -> None:
    pairs = draw_pairs(count=2)
    matcher = matcher_on("cpu")
    expected = list(matcher.run(pairs))

    from_generator = list(matcher.run(pair for pair in pairs))
    from_lists = list(matcher.run([list(pair) for pair in pairs]))  # type: ignore[misc]

    for results in (from_generator, from_lists):
        for result, known in zip(results, expected, strict=True):
            assert_same(result, known)


def test_paths_are_read(tmp_path: Path) -> None:
    from scotopic.io import write_png
    from scotopic.sensor import to_uint8

    names = tmp_path / "left.png", str(tmp_path / "right.png")
    for name, view in zip(names, draw_pairs()[0], strict=True):
        write_png(name, to_uint8(view))

    (result,) = matcher_on("cpu").run([names])

    assert_same(result, scotopic.match(*names, preset="fast", device="cpu", **FEW))


def test_pairs_of_other_types_are_scaled_as_for_one_match() -> None:
    bytes_, floats = (np.random.default_rng(0).integers(0, 256, (2, *SHAPE), np.uint8) for _ in range(2))
    pairs = [(bytes_[0], bytes_[1]), (floats[0] / 255, floats[1] / 255)]

    results = list(matcher_on("cpu").run(pairs))

    assert_same(results[0], matched(pairs[0], "cpu"))
    assert_same(results[1], matched(pairs[1], "cpu"))


def test_a_gray_matcher_takes_gray_images_with_and_without_a_channel_axis() -> None:
    left, right = (np.ascontiguousarray(view[..., :1]) for view in draw_pairs()[0])
    matcher = scotopic.Matcher("fast", SHAPE[:2], "cpu", **FEW)

    first, second = matcher.run([(left, right), (left[..., 0], right[..., 0])])

    assert_same(first, second)


def test_the_source_is_read_only_a_little_ahead() -> None:
    read: list[int] = []

    def endless() -> Iterator[Pair]:
        for number in range(1000):
            read.append(number)
            yield draw_pairs(count=1)[0]

    results = matcher_on("cpu").run(endless())
    next(results)
    results.close()  # type: ignore[attr-defined]

    assert len(read) <= 4


# --- how it ends ----------------------------------------------------------------------------------------------------


def readers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("scotopic-pairs")]


def run_to_the_error(pairs: Any, error: type[Exception], device: str = "cpu") -> tuple[list[Match], str]:
    """Return the results that came before an error, and its message."""
    results: list[Match] = []
    with pytest.raises(error) as caught:
        results.extend(matcher_on(device).run(pairs))  # keeps what came before the error
    return results, str(caught.value)


@pytest.mark.parametrize("device", DEVICES)
def test_a_pair_of_another_size_is_named_after_the_results_before_it(device: str) -> None:
    pairs = draw_pairs(device, sized(device, 3, 1))
    count = len(pairs)
    height, width, channels = shape_for(device)
    wider = np.zeros((height, width + 1, channels), np.float32)

    results, message = run_to_the_error([*pairs, (wider, wider)], InputError, device)

    assert len(results) == count
    assert_same(results[-1], matched(pairs[-1], device))
    assert f"Pair {count}" in message
    assert str((height, width + 1, channels)) in message
    assert str((height, width, channels)) in message


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (lambda left, right: (left, right[:-1]), "56 x 40 px.*56 x 39 px"),
        (lambda left, right: (left, right[..., :1]), "channel"),
        (lambda left, right: (np.full_like(left, np.nan), right), "left image.*NaN"),
        (lambda left, right: (left, "absent.png"), "right image.*absent.png"),
        (lambda left, right: (left, right, right), "tuple.*left, right"),
        (lambda left, right: None, "NoneType.*left, right"),
        (lambda left, right: {"left": left, "right": right}, "dict.*left, right"),
    ],
    ids=["sizes", "channels", "not-finite", "missing-file", "three", "none", "dict"],
)
def test_a_pair_that_cannot_be_used_is_named(bad: Any, words: str) -> None:
    good = draw_pairs()[0]

    results, message = run_to_the_error([good, bad(*good), good], InputError)

    assert len(results) == 1
    assert message.startswith("Pair 1")
    assert re.search(words, message), message
    assert "\n" not in message


class LostCameraError(Exception):
    """What a source of pairs may raise."""


@pytest.mark.parametrize("error", [LostCameraError, InputError])
@pytest.mark.parametrize("before", [0, 1, 3])
def test_an_error_of_the_source_comes_through_after_the_results_before_it(error: type[Exception], before: int) -> None:
    pairs = draw_pairs(count=3)

    def source() -> Iterator[Pair]:
        yield from pairs[:before]
        raise error("unplugged")

    results, message = run_to_the_error(source(), error)

    assert message == "unplugged"
    assert len(results) == before
    for result, pair in zip(results, pairs, strict=False):
        assert_same(result, matched(pair, "cpu"))
    assert readers() == []


@pytest.mark.parametrize("device", ON_REAL_DEVICES)
def test_leaving_early_ends_the_reader_and_the_matcher_still_works(device: str) -> None:
    pairs = draw_pairs(device, 3)
    matcher = matcher_on(device)
    closed = threading.Event()

    def source() -> Iterator[Pair]:
        try:
            yield from pairs
        finally:
            closed.set()

    results = matcher.run(source())
    first = next(results)
    results.close()  # type: ignore[attr-defined]

    assert readers() == []
    assert closed.is_set()
    assert_same(next(iter(matcher.run(pairs))), first)


# --- what a matcher is made for -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape", [(), (64,), (64, 96, 2), (64, 96, 3, 1), (0, 96), (64, -1), (64.0, 96), ("64", "96"), 64, "64x96"]
)
def test_a_shape_that_is_none_is_refused(shape: Any) -> None:
    with pytest.raises(InputError, match=r"not the shape of an image.*height, width"):
        scotopic.Matcher("fast", shape, "cpu")


def test_a_shape_may_be_of_numbers_of_numpy() -> None:
    assert scotopic.Matcher("fast", tuple(np.array([64, 96])), "cpu").shape == (64, 96, 1)


def test_without_a_shape_the_first_pair_gives_it() -> None:
    pairs = draw_pairs(count=2)
    matcher = scotopic.Matcher("fast", device="cpu", **FEW)

    results = list(matcher.run(pairs))

    assert matcher.shape == SHAPE
    for result, expected in zip(results, matcher_on("cpu").run(pairs), strict=True):
        assert_same(result, expected)


def test_a_shape_smaller_than_a_patch_is_refused_at_once() -> None:
    with pytest.raises(InputError, match=r"60 x 30 px.*40 x 40 px"):
        scotopic.Matcher("fast", (30, 60), "cpu")


def test_unknown_presets_settings_and_devices_are_refused() -> None:
    with pytest.raises(SettingsError, match="'nice'"):
        scotopic.Matcher("nice", SHAPE)
    with pytest.raises(SettingsError, match="'speed'"):
        scotopic.Matcher("fast", SHAPE, speed=3)
    with pytest.raises(SettingsError, match="does not fit images 56 px wide"):
        scotopic.Matcher("fast", SHAPE, max_disparity=57)
    with pytest.raises(DeviceError, match="'tpu'"):
        scotopic.Matcher("fast", SHAPE, "tpu")


@pytest.mark.parametrize(
    ("item", "layout", "words"),
    [
        (np.zeros((3, 64, 96)), "CHW", r"Pair 1 is a ndarray; give pairs"),
        (5, "BCHW", r"Pair 1 is a int; give pairs"),
        (
            (np.zeros((2, 3, 64, 96)), np.zeros((1, 3, 64, 96))),
            "BCHW",
            r"Pair 1: .*differ in length: 2 left and 1 right",
        ),
        ((np.zeros((64, 96, 3)), np.zeros((64, 96, 3))), "CHW", r"Pair 1: .*C x H x W"),
    ],
)
def test_items_that_do_not_fit_their_layout_are_named_after_the_results_before_them(
    item: Any, layout: Any, words: str
) -> None:
    good = np.zeros((3, 64, 96), np.uint8)
    first = (good, good) if layout == "CHW" else (good[None], good[None])
    found = scotopic.Matcher("fast", device="cpu", check=False).run([first, item], layout)

    assert next(found).disparity.shape == (64, 96)
    with pytest.raises(InputError, match=words):
        next(found)
