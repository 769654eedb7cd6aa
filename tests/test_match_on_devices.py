"""The whole match on each device: that of the reference, or the CPU's; from arrays and from tensors."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agreement import assert_maps_agree
from devices import CUDA, DEVICES, REAL_GPU, on_devices, sized
from kernel_calls import on
from reference_match import random_junctions, random_pair, reference_match
from rooms import room

import scotopic
from scotopic import Junctions, Match, Reason
from scotopic.backends.device import is_tensor, torch_device
from scotopic.result import ARRAYS
from scotopic.settings import JunctionMatchingSettings

on_each_device = pytest.mark.parametrize("device", DEVICES)
on_cuda = pytest.mark.parametrize("device", [CUDA])
on_a_real_gpu = pytest.mark.parametrize("device", [pytest.param("cuda", marks=REAL_GPU)])

Pair = tuple[np.ndarray, np.ndarray]

OPTIONS: dict[str, dict[str, Any]] = {
    "paper": {"max_disparity": 6},
    "other": {
        "min_disparity": -3, "max_disparity": 3, "mask_right": True, "min_confidence": 0.3, "adaptive_p2": False,
        "boundary_threshold": 0.35,
    },
    "one-sided": {"max_disparity": 5, "symmetric": False, "p2": 90, "p1": 5, "left_right_threshold": 2.5},
}  # fmt: skip


def make_pair(device: str, channels: int, small: tuple[int, int] = (8, 11)) -> tuple[Pair, tuple[Junctions, Junctions]]:
    """A pair that whole patches do not cover, with junctions."""
    pair = random_pair(*sized(device, (41, 75), small), channels)
    settings = scotopic.make_settings("paper", patch_size=8, stride=4).junctions
    left, right = (random_junctions(image, settings, seed) for seed, image in enumerate(pair))
    return pair, (left, right)


def settings_of(fields: tuple[Junctions, Junctions], **options: Any) -> JunctionMatchingSettings:
    settings = scotopic.make_settings("paper", **options)
    assert isinstance(settings, JunctionMatchingSettings)
    return replace(settings, junctions=fields[0].settings)


@on_devices(
    "channels, options",
    itertools.product((1, 3), OPTIONS),
    [(3, "paper"), (1, "other"), (1, "one-sided")],
)
def test_a_match_from_given_junctions_is_that_of_the_reference(device: str, channels: int, options: str) -> None:
    pair, fields = make_pair(device, channels, (9, 17))
    expected = reference_match(pair, fields, settings_of(fields, **OPTIONS[options]))

    result = scotopic.match(*pair, "paper", device=device, junctions=fields, **OPTIONS[options])

    assert len(np.unique(expected["reason"])) > 1  # there is something to compare
    # A cost in float32 may fall on the other side of a whole number; few are, and the margins along its paths feel it.
    outliers, margins = sized(device, (0.02, 0.01), (0.0, 1e-5))
    for name in ARRAYS:
        found = getattr(result, name)
        assert found.dtype == expected[name].dtype, name
        assert_maps_agree(found, expected[name], margins if name == "confidence" else 1e-5, outliers=outliers)


@on_each_device
def test_a_match_without_junctions_fits_them_first_as_one_does_alone(device: str) -> None:
    pair = random_pair(*sized(device, (30, 41), (12, 12)), 3)
    search_steps, refine_steps, margin = sized(device, (2, 6, 1), (1, 1, 0))
    chosen = {
        "patch_size": 12, "stride": 4, "candidates": 5, "search_steps": search_steps, "refine_steps": refine_steps,
        "search_every": 3, "tile": 1, "tile_margin": margin,
    }  # fmt: skip
    heard: list[str] = []

    result = scotopic.match(
        *pair, "paper", device=device, max_disparity=4, progress=lambda stage, _: heard.append(stage), **chosen
    )
    alone = scotopic.fit_junctions(pair[0], scotopic.make_settings("paper", **chosen).junctions, device=device)

    np.testing.assert_array_equal(result.left_boundaries, alone.boundary_map)
    np.testing.assert_array_equal(result.left_colors, alone.color_map)
    assert result.disparity.shape == pair[0].shape[:2]
    assert ((result.disparity_all >= 0) & (result.disparity_all <= 3)).all()
    assert list(dict.fromkeys(heard)) == list(result.timings)
    assert all(isinstance(getattr(result, name), np.ndarray) for name in ARRAYS)


def as_tensors(pair: Pair) -> list[Any]:
    import torch

    return [torch.as_tensor(image.copy(), device=torch_device()) for image in pair]


# Few enough steps and short enough windows for an interpreter; on a GPU the preset's own.
FEW = {
    "max_disparity": 8, "scales": 2, "group_reach": 3, "plane_sigma": 2.0, "surface_sigma": 2.0,
    "plane_rounds": 1,
}  # fmt: skip
ONE_STEP = {
    "patch_size": 8, "stride": 8, "binning": 1, "candidates": 5, "search_steps": 0, "refine_steps": 1
}  # fmt: skip


# Blocks everywhere leave no quiet place to tell texture from correlated noise, so the noise is said to be white.
LIGHTS: dict[str, dict[str, float]] = {
    "dark": {"fine_snr": 1e9, "full_size_snr": 1e9},
    "dim": {"fine_snr": 0.0, "full_size_snr": 1e9, "correlated_factor": 1e9, "fine_group_reach": 7},
    "bright": {"fine_snr": 0.0, "full_size_snr": 0.0, "correlated_factor": 1e9},
}
SMALL = {"dark": (20, 22), "dim": (10, 13), "bright": (9, 11)}  # enough patches for a group where it is denoised


@on_cuda
@pytest.mark.parametrize(("is_fitted", "light"), [(False, "dark"), (False, "dim"), (True, "bright")])
def test_best_finds_on_a_gpu_what_it_finds_on_the_cpu(device: str, is_fitted: bool, light: str) -> None:
    pytest.importorskip("numba", reason="needs numba for the CPU kernels")
    pytest.importorskip("cv2", reason="needs OpenCV, with which the CPU blurs")
    channels = 3 if is_fitted else 1
    pair = random_pair(*sized(device, (90, 121), SMALL[light]), channels, disparity=4)
    chosen: dict[str, Any] = {**LIGHTS[light], **sized(device, {"max_disparity": 16}, FEW)}
    if is_fitted:
        chosen |= ONE_STEP  # more steps drift apart: the fit is not convex
    else:
        settings = scotopic.make_settings("best", patch_size=8, stride=4).junctions
        chosen["junctions"] = tuple(random_junctions(image, settings, seed) for seed, image in enumerate(pair))

    # Some pixels are kept and some are not, and few are so close to the limit that rounding decides.
    middle = np.quantile(scotopic.match(*pair, "best", "cpu", **chosen).confidence, np.linspace(0.1, 0.9, 41))
    widest = np.diff(middle).argmax()
    chosen["min_confidence"] = float(middle[widest : widest + 2].mean())

    expected = scotopic.match(*pair, "best", "cpu", **chosen)
    found = scotopic.match(*(as_tensors(pair) if is_fitted else pair), "best", device, **chosen)

    assert is_tensor(found.disparity) == is_fitted
    found = found.to_numpy()
    assert len(np.unique(expected.reason)) > 1  # there is something to compare
    assert list(found.timings) == list(expected.timings)
    # A cost may fall on the other side of a half, and then the paths through it carry on. An interpreter rounds costs
    # alike; planes through disparities of up to 8 px are sums in another order, to a hundred units in the last place.
    tolerance, outliers = sized(device, (0.05, 0.02), (1e-4, 0.0))
    for name in ARRAYS:
        assert getattr(found, name).dtype == getattr(expected, name).dtype, name
        assert_maps_agree(getattr(found, name), getattr(expected, name), tolerance, outliers=outliers)


# Tensors


@on_cuda
def test_tensors_give_a_match_of_tensors_with_the_bits_of_arrays(device: str, tmp_path: Path) -> None:
    pair, fields = make_pair(device, 3)
    chosen = {"junctions": fields, "max_disparity": 2}
    tensors = as_tensors(pair)

    from_arrays = scotopic.match(*pair, "paper", device=device, **chosen)
    result = scotopic.match(*tensors, "paper", **chosen)  # on the device where they are, without being told

    for name in ARRAYS:
        assert is_tensor(getattr(result, name)), name
        assert getattr(result, name).device == torch_device(), name
        np.testing.assert_array_equal(getattr(result.to_numpy(), name), getattr(from_arrays, name), err_msg=name)
    for tensor, image in zip(tensors, pair, strict=True):
        np.testing.assert_array_equal(tensor.cpu().numpy(), image)  # left as it was
    assert is_tensor(result.mask)
    assert result.coverage == from_arrays.coverage
    report, expected = result.report(), from_arrays.report()
    for untimed in (report, expected):
        del untimed["timings_seconds"], untimed["total_seconds"]
    assert report == expected
    back = from_arrays.to_device(device)
    assert all(is_tensor(getattr(back, name)) for name in ARRAYS)


@on_cuda
def test_a_match_of_tensors_is_saved_like_any_other(device: str, tmp_path: Path) -> None:
    pytest.importorskip("cv2", reason="needs OpenCV to write pictures")
    pair, _ = make_pair(device, 3)
    empty = Match.empty(*pair, scotopic.make_settings("fast", max_disparity=4), Reason.NO_STRUCTURE)

    empty.save(tmp_path / "arrays")
    empty.to_device(device).save(tmp_path / "tensors")

    for path in (tmp_path / "arrays").iterdir():
        assert (tmp_path / "tensors" / path.name).read_bytes() == path.read_bytes(), path.name
    loaded = Match.load(tmp_path / "tensors")
    np.testing.assert_array_equal(loaded.left_image, pair[0])


@on_cuda
def test_a_field_of_a_tensor_is_one_of_tensors(device: str) -> None:
    pair, _ = make_pair(device, 3)
    settings = scotopic.make_settings("paper", patch_size=8, stride=8, search_steps=0, refine_steps=0).junctions

    from_array = scotopic.fit_junctions(pair[0], settings, device=device)
    field = scotopic.fit_junctions(as_tensors(pair)[0], settings)

    for name in ("parameters", "boundary_map", "color_map"):
        assert is_tensor(getattr(field, name)), name
        assert isinstance(getattr(from_array, name), np.ndarray), name
        np.testing.assert_array_equal(getattr(field.to_numpy(), name), getattr(from_array, name), err_msg=name)
    np.testing.assert_array_equal(field.render(), from_array.render())


@on_cuda
@pytest.mark.parametrize("constant", [0, 1])
def test_a_view_of_one_color_gives_an_empty_match_of_the_same_kind(device: str, constant: int) -> None:
    pair, _ = make_pair(device, 3)
    pair[constant][:] = 0.25
    chosen = {"patch_size": 8, "stride": 4, "max_disparity": 4}

    from_arrays = scotopic.match(*pair, "paper", device=device, **chosen)
    from_tensors = scotopic.match(*as_tensors(pair), "paper", **chosen)

    assert isinstance(from_arrays.disparity, np.ndarray)
    assert is_tensor(from_tensors.disparity)
    for result in (from_arrays, from_tensors.to_numpy()):
        assert result.coverage == 0
        assert np.isnan(result.disparity).all()
        assert (result.reason == Reason.NO_STRUCTURE).all()
        np.testing.assert_array_equal(result.left_image, pair[0])


@on_cuda
def test_one_tensor_and_one_array_are_matched_as_the_left_one_is(device: str) -> None:
    pair, fields = make_pair(device, 1)
    tensors = as_tensors(pair)
    chosen = {"junctions": fields, "max_disparity": 2}

    left_there = scotopic.match(tensors[0], pair[1], "paper", **chosen)
    right_there = scotopic.match(pair[0], tensors[1], "paper", **chosen)

    assert is_tensor(left_there.disparity)
    assert is_tensor(left_there.right_image)
    assert isinstance(right_there.disparity, np.ndarray)
    assert isinstance(right_there.right_image, np.ndarray)
    np.testing.assert_array_equal(left_there.to_numpy().disparity_all, right_there.disparity_all)


@on_cuda
def test_junctions_may_be_tensors_or_arrays_that_cannot_be_written(device: str) -> None:
    pair, fields = make_pair(device, 1)
    for field in fields:
        for name in ("parameters", "boundary_map", "color_map"):
            getattr(field, name).setflags(write=False)
    there = tuple(
        Junctions(*on(device).place([f.parameters.copy(), f.boundary_map.copy(), f.color_map.copy()]), f.settings)
        for f in fields
    )

    from_arrays = scotopic.match(*pair, "paper", device=device, junctions=fields, max_disparity=2)
    from_tensors = scotopic.match(*pair, "paper", device=device, junctions=there, max_disparity=2)

    np.testing.assert_array_equal(from_tensors.disparity_all, from_arrays.disparity_all)


# The rest of the machine

ALONE = """
import sys
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("numba", "cv2", "rich", "typer"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Nothing())
sys.path.insert(0, %r)
import scotopic
from reference_match import random_junctions, random_pair
pair = random_pair(8, 12, 1)
settings = scotopic.make_settings("paper", patch_size=8, stride=4).junctions
fields = tuple(random_junctions(image, settings) for image in pair)
result = scotopic.match(*pair, "paper", device="cuda", junctions=fields, max_disparity=2)
settings = scotopic.make_settings("paper", patch_size=8, stride=8, search_steps=0, refine_steps=1).junctions
scotopic.fit_junctions(pair[0][:, :8], settings, device="cuda")
chosen = {"scales": 1, "surface_passes": 0, "plane_sigma": 1.0, "plane_rounds": 1, "max_disparity": 2}
scotopic.match(*pair, "best", device="cuda", junctions=fields, **chosen)
print(result.report()["width"])
"""


@on_cuda
def test_a_gpu_needs_neither_numba_nor_opencv(device: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ALONE % os.path.dirname(__file__)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "12"


# On a GPU


@on_a_real_gpu
@pytest.mark.parametrize("preset", scotopic.PRESETS)
def test_the_rendered_scene_is_matched_and_the_same_bits_come_again(device: str, preset: str) -> None:
    scene = room(240, 160)
    pair = scotopic.simulate_pair(scene.left, scene.right, photons=8, read_noise=1, seed=0)

    runs = [scotopic.match(*pair, preset, device, max_disparity=48) for _ in range(3)]

    for name in ARRAYS:
        assert len({getattr(run, name).tobytes() for run in runs}) == 1, name
    kept = runs[0].mask
    assert runs[0].coverage > 0.1
    error = np.abs(runs[0].disparity[kept] - scene.disparity_left[kept])
    assert np.median(error) < 1.5
    assert (error > 3).mean() < 0.15


@on_a_real_gpu
def test_tiles_do_not_change_a_match_without_refinement(device: str) -> None:
    scene = room(240, 160)
    chosen = {"max_disparity": 32, "search_steps": 3, "refine_steps": 0, "tile_margin": 2}

    whole, tiled = (scotopic.match(scene.left, scene.right, "fast", device, tile=n, **chosen) for n in (1000, 7))

    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(tiled, name), getattr(whole, name), err_msg=name)
