"""A disparity for every pixel: planes between boundaries, or whatever the user would rather have."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_match import made_match
from rooms import room

import scotopic
from scotopic.errors import InputError, SettingsError
from scotopic.io import read_pfm
from scotopic.result import ARRAYS, FORMAT, Match
from scotopic.stages.completion import complete
from scotopic.stages.filling import fill_between_boundaries

NAN = np.float32(np.nan)


def sparse(dense: np.ndarray, kept: np.ndarray) -> np.ndarray:
    return np.where(kept, dense, NAN).astype(np.float32)


def test_kept_pixels_stay_and_all_others_get_one() -> None:
    dense = np.random.default_rng(0).random((20, 30), np.float32)
    kept = np.random.default_rng(1).random((20, 30)) < 0.1

    filled = fill_between_boundaries(sparse(dense, kept), dense, kept.astype(np.float32), np.zeros_like(dense))

    np.testing.assert_array_equal(filled[kept], dense[kept])
    assert np.isfinite(filled).all()
    assert dense.min() <= filled.min() <= filled.max() <= dense.max()


def test_unsure_pixels_follow_sure_ones() -> None:
    dense, sure = np.full((40, 40), 9.0, np.float32), np.zeros((40, 40), np.float32)
    dense[18:22, 18:22], sure[18:22, 18:22] = 5.0, 1.0

    filled = fill_between_boundaries(sparse(dense, sure > 0), dense, sure, np.zeros_like(dense))

    np.testing.assert_allclose(filled[10:30, 10:30], 5.0, atol=0.05)


def test_nothing_crosses_a_strong_boundary() -> None:
    boundaries = np.zeros((40, 60), np.float32)
    boundaries[:, 29:31] = 0.8
    dense, sure = np.full((40, 60), 7.0, np.float32), np.zeros((40, 60), np.float32)
    for column, value in ((10, 2.0), (50, 12.0)):
        dense[:, column : column + 3], sure[:, column : column + 3] = value, 1.0

    filled = fill_between_boundaries(sparse(dense, sure > 0), dense, sure, boundaries)

    np.testing.assert_allclose(filled[:, :29], 2.0, atol=0.05)
    np.testing.assert_allclose(filled[:, 31:], 12.0, atol=0.05)


def test_planes_continue() -> None:
    y, x = np.mgrid[:48, :64].astype(np.float32)
    plane = 4 + 0.1 * x + 0.05 * y
    kept = (x % 9 == 0) & (y % 9 == 0) & (x < 46)  # a grid of samples, none on the right
    dense = np.where(kept, plane, 8).astype(np.float32)

    filled = fill_between_boundaries(sparse(plane, kept), dense, kept.astype(np.float32), np.zeros_like(plane))

    inside = (slice(9, 39), slice(9, 37))
    np.testing.assert_allclose(filled[inside], plane[inside], atol=0.3)  # the ridge keeps it a little too level
    assert filled[24, 52] > filled[24, 44] > filled[24, 36]  # it goes on rising beyond the last sample


def test_a_map_without_any_value_stays_without() -> None:
    nothing = np.full((8, 9), np.nan, np.float32)

    assert np.isnan(fill_between_boundaries(nothing, nothing, 0 * nothing, np.zeros((8, 9), np.float32))).all()


def test_a_rendered_room_is_filled_better_than_by_its_mean() -> None:
    scene = room(160, 112)
    noisy = scotopic.simulate_pair(scene.left, scene.right, photons=16, read_noise=2, seed=0)
    found = scotopic.match(*noisy, "best", "cpu", patch_size=24, refine_steps=0, max_disparity=20)

    error = np.abs(found.filled - scene.disparity_left)

    assert np.isfinite(found.filled).all()
    assert error.mean() < 0.5 * np.abs(scene.disparity_left - np.median(scene.disparity_left)).mean()
    assert found.filled is found.filled  # computed once


@pytest.fixture
def match() -> Match:
    disparity = np.full((12, 16), np.nan, np.float32)
    disparity[3:6, 4:9] = 2.5
    return replace(
        made_match(disparity, max_disparity=12), disparity_all=np.where(np.isnan(disparity), np.float32(4), disparity)
    )


class TestOtherMeans:
    def test_a_callable_is_given_image_disparity_and_confidence(self) -> None:
        scene = room(96, 64)
        seen: list[tuple[np.ndarray, ...]] = []

        def fill(image: np.ndarray, disparity: np.ndarray, confidence: np.ndarray) -> np.ndarray:
            seen.append((image, disparity, confidence))
            return np.full(disparity.shape, 3.0)

        chosen: dict[str, Any] = {"patch_size": 16, "refine_steps": 0, "max_disparity": 16, "device": "cpu"}
        result = scotopic.match(scene.left, scene.right, "fast", fill=fill, **chosen)

        ((image, disparity, confidence),) = seen
        np.testing.assert_array_equal(image, result.left_colors)
        np.testing.assert_array_equal(disparity, result.disparity)
        np.testing.assert_array_equal(confidence, result.confidence)
        assert result.filled.dtype == np.float32
        assert (result.filled == 3).all()

    def test_a_callable_that_fills_in_the_map_it_is_given_changes_no_other(self) -> None:
        scene = room(96, 64)

        def fill(image: np.ndarray, disparity: np.ndarray, confidence: np.ndarray) -> np.ndarray:
            image[:], confidence[:] = 0, 0
            disparity[np.isnan(disparity)] = 3
            return disparity

        chosen: dict[str, Any] = {"patch_size": 16, "refine_steps": 0, "max_disparity": 16, "device": "cpu"}
        plain = scotopic.match(scene.left, scene.right, "fast", **chosen)
        result = scotopic.match(scene.left, scene.right, "fast", fill=fill, **chosen)

        for name in ARRAYS:
            np.testing.assert_array_equal(getattr(result, name), getattr(plain, name), name)
        np.testing.assert_array_equal(result.filled, np.where(plain.mask, plain.disparity, 3))

    def test_what_a_callable_masks_has_no_disparity(self) -> None:
        maps, masked = np.zeros((12, 16), np.float32), np.eye(12, 16, dtype=bool)

        filled = complete(lambda *given: np.ma.masked_array(maps + 7, masked), maps[..., None], maps, maps)

        np.testing.assert_array_equal(filled, np.where(masked, NAN, 7))

    @pytest.mark.parametrize("answer", [np.zeros((3, 4)), np.zeros((12, 16), complex), "disparity"])
    def test_an_answer_that_is_no_map_of_this_size_is_refused(self, answer: Any) -> None:
        maps = np.zeros((12, 16), np.float32)

        with pytest.raises(InputError, match=r"fill.*\(12, 16\)"):
            complete(lambda *_: answer, maps[..., None], maps, maps)

    @pytest.mark.parametrize("wrong", ["nowhere.onnx", 5])
    def test_what_is_neither_callable_nor_a_file_is_refused_before_the_work(self, wrong: Any) -> None:
        blank = np.zeros((64, 64), np.float32)

        with pytest.raises(SettingsError, match="fill"):
            scotopic.match(blank, blank, fill=wrong)

    def test_infinite_answers_are_none(self) -> None:
        maps = np.zeros((2, 2), np.float32)

        found = complete(lambda *_: np.array([[1.0, np.inf], [np.nan, 2.0]]), maps[..., None], maps, maps)

        np.testing.assert_array_equal(found, [[1, np.nan], [np.nan, 2]])


class TestNetworks:
    def save(self, path: Path, kind: str = "Max", inputs: tuple[str, ...] = ("image", "depth")) -> Path:
        """A "completion network": depth where there is some, a quarter elsewhere, whatever the image."""
        onnx = pytest.importorskip("onnx", reason="builds graphs with onnx, which is not installed: pip install onnx")
        pytest.importorskip("onnxruntime", reason="runs graphs with onnxruntime: pip install 'scotopic[bench]'")
        helper, kinds = onnx.helper, onnx.TensorProto.FLOAT
        shapes = {"image": [1, 3, None, None], "depth": [1, 1, None, None], "more": [1, 1, None, None]}
        nodes = [helper.make_node(kind, ["depth", "quarter"], ["out"])]
        constant = onnx.numpy_helper.from_array(np.array(0.25, np.float32), "quarter")
        places = [helper.make_tensor_value_info(name, kinds, shapes[name]) for name in inputs]
        out = [helper.make_tensor_value_info("out", kinds, None)]
        graph = helper.make_graph(nodes, "test", places, out, [constant])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
        return path

    def test_a_network_completes_depth_which_is_one_over_disparity(self, tmp_path: Path) -> None:
        model = self.save(tmp_path / "model.onnx")
        disparity = np.float32([[2, np.nan], [0.5, 8]])

        found = complete(model, np.zeros((2, 2, 1), np.float32), disparity, np.ones((2, 2), np.float32))

        # depths 1/2, none, 2, 1/8; at least 1/4 each; turned back
        np.testing.assert_array_equal(found, [[2, 4], [0.5, 4]])

    def test_depth_that_is_not_positive_is_no_answer(self, tmp_path: Path) -> None:
        model = self.save(tmp_path / "model.onnx", kind="Sub")

        found = complete(model, np.zeros((1, 2, 3), np.float32), np.float32([[2, 8]]), np.ones((1, 2), np.float32))

        np.testing.assert_array_equal(found, [[4, np.nan]])  # 1 / (1/2 - 1/4), and 1/8 - 1/4 is below 0

    def test_a_model_with_other_inputs_is_refused(self, tmp_path: Path) -> None:
        model = self.save(tmp_path / "model.onnx", inputs=("image", "depth", "more"))
        maps = np.ones((2, 2), np.float32)

        with pytest.raises(SettingsError, match="3 inputs"):
            complete(model, maps[..., None], maps, maps)

    def test_a_file_that_is_no_model_is_refused(self, tmp_path: Path) -> None:
        pytest.importorskip("onnxruntime", reason="runs graphs with onnxruntime: pip install 'scotopic[bench]'")
        (tmp_path / "model.onnx").write_bytes(b"nothing")
        maps = np.ones((2, 2), np.float32)

        with pytest.raises(InputError, match=r"model\.onnx"):
            complete(tmp_path / "model.onnx", maps[..., None], maps, maps)


class TestFiles:
    def test_filled_survives_saving(self, match: Match, tmp_path: Path) -> None:
        loaded = Match.load(match.save(tmp_path / "out"))

        assert loaded.completed is None
        np.testing.assert_array_equal(loaded.filled, match.filled)

    def test_what_a_network_said_survives_saving(self, match: Match, tmp_path: Path) -> None:
        said = np.random.default_rng(0).random((12, 16), np.float32)

        loaded = Match.load(replace(match, completed=said).save(tmp_path / "out"))

        np.testing.assert_array_equal(loaded.filled, said)

    def test_a_match_of_before_opens(self, match: Match, tmp_path: Path) -> None:
        folder = match.save(tmp_path / "out")
        with np.load(folder / "match.npz") as file:
            arrays = {name: file[name] for name in file.files}
        settings = json.loads(str(arrays.pop("settings")))
        settings.pop("evidence", None)  # had no such part then
        arrays["format"] = np.array(1)
        np.savez_compressed(folder / "match.npz", settings=json.dumps(settings), **arrays)

        loaded = Match.load(folder)

        assert FORMAT == 2
        assert loaded.settings == match.settings
        np.testing.assert_array_equal(loaded.filled, match.filled)

    def test_the_command_writes_it_when_asked(self, tmp_path: Path) -> None:
        from typer.testing import CliRunner

        from scotopic.cli import app
        from scotopic.io import write_png

        scene = room(96, 64)
        for name, view in (("left", scene.left), ("right", scene.right)):
            write_png(tmp_path / f"{name}.png", (view * 255).astype(np.uint8))
        words = [
            "match",
            str(tmp_path / "left.png"),
            str(tmp_path / "right.png"),
            "-o",
            str(tmp_path / "out"),
            "--fill",
        ]
        words += [
            "--preset",
            "best",
            "--max-disparity",
            "16",
            "--set",
            "patch_size=16",
            "--device",
            "cpu",
            "--quiet",
        ]

        result = CliRunner().invoke(app, words)

        assert result.exit_code == 0, result.output
        filled = read_pfm(tmp_path / "out" / "filled.pfm")
        np.testing.assert_array_equal(filled, Match.load(tmp_path / "out").filled)
