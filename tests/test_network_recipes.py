"""What real networks need: stacked views, gray by weights, denoisers before them, noise levels, features and SGM."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_graphs import ANY, first_channel, node, save_model
from shifted_scene import CANDIDATES, SHIFT, shifted_scene

from scotopic.errors import InputError, SettingsError
from scotopic.evaluation.method import Prediction
from scotopic.evaluation.methods import get_method
from scotopic.evaluation.methods.feature_matching import product_volume
from scotopic.evaluation.methods.networks import rank_by_difference
from scotopic.evaluation.methods.recipes import read_recipe, shipped_recipes
from scotopic.evaluation.scene import Noise, Scene

SCENE = shifted_scene()
STEREO = 'kind = "stereo"\nrange = [0, 1]\n'
LUMA = np.array([0.299, 0.587, 0.114])  # ITU-R BT.601


def run(folder: Path, settings: str, scene: Scene = SCENE) -> Prediction:
    (folder / "net.toml").write_text(f'model = "net.onnx"\n{settings}\n')
    return get_method(f"onnx:{folder / 'net.toml'}")(scene.left, scene.right, scene, CANDIDATES)


def add_denoiser(folder: Path, settings: str, *nodes: Any, with_level: bool = False, **constants: Any) -> str:
    """Write a denoiser, its input called x and its noise level sigma; return the line that names it."""
    inputs: dict[str, tuple[int | None, ...]] = {"x": ANY}
    if with_level:
        inputs["sigma"] = (1, 1, 1, 1)
    save_model(folder / "denoiser.onnx", list(nodes), inputs, constants=constants)
    (folder / "denoiser.toml").write_text(f'model = "denoiser.onnx"\nkind = "denoiser"\nrange = [0, 1]\n{settings}\n')
    return 'denoiser = "denoiser.toml"'


def test_stacked_views_are_channels_of_one_input_left_first(tmp_path: Path) -> None:
    nodes = [
        node("Slice", ["pair", "0", "1", "axis"], "left"),
        node("Slice", ["pair", "1", "2", "axis"], "right"),
        node("Sub", ["left", "right"]),
    ]
    constants = {"0": [0], "1": [1], "2": [2], "axis": [3]}
    save_model(tmp_path / "net.onnx", nodes, {"pair": (1, None, None, 2)}, constants=constants)

    found = run(tmp_path, STEREO + 'views = "stacked"\nlayout = "NHWC"\nchannels = "gray"\nmultiple = 48')

    np.testing.assert_allclose(found.disparity, (SCENE.left - SCENE.right).mean(axis=2), atol=1e-5)


def test_gray_takes_the_weights_of_the_recipe(tmp_path: Path) -> None:
    first_channel(tmp_path / "net.onnx")

    found = run(tmp_path, STEREO + 'channels = "gray"\ngray_weights = [0.299, 0.587, 0.114]')

    np.testing.assert_allclose(found.disparity, SCENE.left @ LUMA, rtol=1e-5)


@pytest.mark.parametrize("padding", ["edge", "reflect"])
def test_padding_is_by_replication_or_reflection(tmp_path: Path, padding: Any) -> None:
    nodes = [
        node("Add", ["left", "right"], "sum"),
        node("ReduceMean", ["left"], "mean", keepdims=1),
        node("Mul", ["sum", "zero"], "nothing"),
        node("ReduceMax", ["nothing"], "plane", axes=[1], keepdims=1),
        node("Add", ["plane", "mean"]),
    ]
    save_model(tmp_path / "net.onnx", nodes, {"left": ANY, "right": ANY}, constants={"zero": 0.0})

    found = run(tmp_path, STEREO + f'multiple = 50\npadding = "{padding}"')

    expected = np.pad(SCENE.left, ((0, 36), (0, 30), (0, 0)), mode=padding).mean()  # 64 x 120 becomes 100 x 150
    np.testing.assert_allclose(found.disparity, expected, rtol=1e-4)


def test_each_image_is_normalized_by_its_own_mean_and_deviation(tmp_path: Path) -> None:
    first_channel(tmp_path / "net.onnx")

    found = run(tmp_path, STEREO + 'channels = "gray"\nnormalize = "image"')

    gray = SCENE.left.mean(axis=2, dtype=np.float64)
    np.testing.assert_allclose(found.disparity, (gray - gray.mean()) / gray.std(), atol=1e-4)


def test_a_stereo_network_sees_what_the_denoiser_gives(tmp_path: Path) -> None:
    first_channel(tmp_path / "net.onnx")
    line = add_denoiser(tmp_path, "multiple = 32", node("Mul", ["x", "half"]), half=0.5)

    found = run(tmp_path, STEREO + line)

    np.testing.assert_allclose(found.disparity, SCENE.left[:, :, 0] / 2, atol=1e-6)


@pytest.mark.parametrize("std", [25 / 255, 115 / 255])
def test_beyond_its_training_a_denoiser_sees_a_darker_image_with_less_noise(tmp_path: Path, std: float) -> None:
    # Of x it gives x^2 + sigma, so that what it saw can be told: with k = min(1, 75 / noise) that is
    # ((k x)^2 + k noise) / k = k x^2 + noise.
    first_channel(tmp_path / "net.onnx")
    square = node("Mul", ["x", "x"], "square")
    told = 'noise_input = "value"\nmax_noise = 75'
    line = add_denoiser(tmp_path, told, square, node("Add", ["square", "sigma"]), with_level=True)
    scene = replace(SCENE, left=SCENE.left / 2, right=SCENE.right / 2, noise=Noise(std))

    found = run(tmp_path, STEREO + line, scene)

    k = min(1.0, 75 / 255 / std)
    np.testing.assert_allclose(found.disparity, k * scene.left[:, :, 0] ** 2 + std, rtol=1e-4)


def test_the_noise_level_is_in_units_of_the_range_also_as_a_channel(tmp_path: Path) -> None:
    first_channel(tmp_path / "net.onnx")
    cut = node("Slice", ["x", "from", "to", "axis"], "level")
    constants = {"from": [3], "to": [4], "axis": [1], "times": np.ones((1, 3, 1, 1))}
    line = add_denoiser(tmp_path, 'noise_input = "channel"', cut, node("Mul", ["level", "times"]), **constants)
    text = (tmp_path / "denoiser.toml").read_text().replace("range = [0, 1]", "range = [0, 255]")
    (tmp_path / "denoiser.toml").write_text(text)

    found = run(tmp_path, STEREO + line, replace(SCENE, noise=Noise(0.2)))

    np.testing.assert_allclose(found.disparity, 0.2, rtol=1e-5)  # 51 of 255


def test_noise_that_nobody_knows_is_estimated_from_the_pair(tmp_path: Path) -> None:
    first_channel(tmp_path / "net.onnx")
    nothing = node("Mul", ["x", "zero"], "nothing")
    told = 'noise_input = "value"'
    line = add_denoiser(tmp_path, told, nothing, node("Add", ["nothing", "sigma"]), with_level=True, zero=0.0)
    random = np.random.default_rng(0)
    left, right = (0.5 + 0.05 * random.standard_normal((2, 96, 96, 3))).astype(np.float32)
    flat = np.full((96, 96), 6, np.float32)
    scene = replace(SCENE, left=left, right=right, truth=flat, truth_paper=flat, noise=None)

    found = run(tmp_path, STEREO + line, scene)

    np.testing.assert_allclose(found.disparity, 0.05, rtol=0.1)


def test_where_there_is_no_noise_no_denoising_network_is_run(tmp_path: Path) -> None:
    first_channel(tmp_path / "net.onnx")
    line = add_denoiser(tmp_path, "", node("Mul", ["x", "zero"]), zero=0.0)

    found = run(tmp_path, STEREO + line, replace(SCENE, noise=Noise(0.0)))

    np.testing.assert_array_equal(found.disparity, SCENE.left[:, :, 0])


def test_stretching_brings_back_black_and_white(tmp_path: Path) -> None:
    first_channel(tmp_path / "net.onnx")
    scene = replace(SCENE, noise=Noise(0.1, black=0.25, white=0.75))

    found = run(tmp_path, STEREO + "stretch = true", scene)

    np.testing.assert_allclose(found.disparity, np.clip((scene.left[:, :, 0] - 0.25) / 0.5, 0, 1), atol=1e-6)


def test_a_gray_denoiser_serves_a_network_for_colors(tmp_path: Path) -> None:
    first_channel(tmp_path / "net.onnx", channel=2)
    line = add_denoiser(tmp_path, 'channels = "gray"\ngray_weights = [0.299, 0.587, 0.114]', node("Identity", ["x"]))

    found = run(tmp_path, STEREO + line)

    np.testing.assert_allclose(found.disparity, SCENE.left @ LUMA, rtol=1e-5)


def test_the_costs_of_features_are_their_negative_products() -> None:
    left, right = np.random.default_rng(1).standard_normal((2, 3, 7, 4)).astype(np.float32)

    volume = product_volume(left, right, 5)

    for d in range(5):
        for x in range(7):
            expected = -(left[:, x].astype(np.float64) * right[:, max(x - d, 0)]).sum(axis=1)
            np.testing.assert_allclose(volume[d, :, x], expected, rtol=1e-5, atol=1e-6)


def test_features_are_matched_by_sgm_in_both_views(tmp_path: Path) -> None:
    # Colors as unit vectors: the product is 1 at the true partner and less elsewhere.
    nodes = [node("Sub", ["x", "gray"], "color"), node("LpNormalization", ["color"], axis=1, p=2)]
    save_model(tmp_path / "net.onnx", nodes, {"x": ANY}, constants={"gray": 0.5})

    found = run(tmp_path, 'kind = "features"\nrange = [0, 1]\np1 = 0.3\np2 = 1.5')

    inside = np.s_[:, CANDIDATES:]
    assert np.abs(found.disparity[inside] - SHIFT).max() < 0.5  # the candidate is right; the rest is its parabola
    assert (found.confidence[inside] > 0.5).mean() > 0.99  # views that differ by less than 1 px


def test_the_smallest_left_right_difference_is_the_surest() -> None:
    left = np.array([[0.0, 1.0, 2.0, 2.0, 3.0]], np.float32)
    right = np.array([[0.5, 5.0, 0.0, 2.0, 9.0]], np.float32)

    confidence = rank_by_difference(left, right)

    # The partners are the columns 0, 0, 0, 1 and 1.
    np.testing.assert_allclose(confidence, [[1 / 1.5, 1 / 1.5, 1 / 2.5, 1 / 4, 1 / 3]], rtol=1e-6)
    assert rank_by_difference(np.array([[2.0]], np.float32), np.array([[2.0]], np.float32)) == 0  # out of view


@pytest.mark.parametrize(
    ("line", "key"),
    [
        (STEREO + 'views = "both"', "views"),
        (STEREO + "gray_weights = [0.5, 0.5]", "gray_weights"),
        (STEREO + "gray_weights = [0.5, 0.5, 0.5]", "gray_weights"),
        (STEREO + 'padding = "zero"', "padding"),
        (STEREO + 'normalize = "row"', "normalize"),
        (STEREO + 'normalize = "image"\nmean = [0.5]', "normalize"),
        (STEREO + "stretch = 1", "stretch"),
        (STEREO + "p1 = 0.3", "p1"),
        (STEREO + "max_noise = 75", "max_noise"),
        (STEREO + 'denoiser = "blur"', "denoiser"),
        (STEREO + 'denoiser = "hitnet.toml"', "denoiser"),
        (STEREO + 'denoiser = "net.toml"', "denoiser"),
        ('kind = "features"\np1 = 0.3', "p2"),
        ('kind = "features"\np1 = 0\np2 = 1', "p1"),
        ('kind = "denoiser"\ndenoiser = "nlm"', "denoiser"),
        ('kind = "denoiser"\nmax_noise = 75', "max_noise"),
        ('kind = "denoiser"\nnoise_input = "first"', "noise_input"),
        ('kind = "denoiser"\nnormalize = "image"', "normalize"),
    ],
)
def test_a_setting_that_does_not_fit_is_refused_with_file_and_key(tmp_path: Path, line: str, key: str) -> None:
    first_channel(tmp_path / "net.onnx")

    with pytest.raises((SettingsError, InputError)) as caught:
        run(tmp_path, line)

    assert str(tmp_path / "net.toml") in str(caught.value)
    assert repr(key) in str(caught.value)


def test_a_network_that_ships_as_a_recipe_says_where_its_model_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCOTOPIC_NETWORKS", str(tmp_path / "mine"))
    monkeypatch.setenv("SCOTOPIC_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    method = get_method("network:hitnet")  # a plan may name it where it is not

    with pytest.raises(InputError, match=r"hitnet\.onnx.*SCOTOPIC_NETWORKS") as caught:
        method(SCENE.left, SCENE.right, SCENE, CANDIDATES)

    for place in ("mine", "data/networks", "../shared/networks"):
        assert str(tmp_path / place) in str(caught.value)


def test_a_folder_can_be_given_and_is_then_the_only_one(tmp_path: Path) -> None:
    save_model(
        tmp_path / "hitnet.onnx",
        [node("ReduceMax", ["pair"], axes=[3], keepdims=1)],
        {"pair": (1, None, None, 2)},
    )

    found = get_method(f"network:hitnet={tmp_path}")(SCENE.left, SCENE.right, SCENE, CANDIDATES)

    gray = np.maximum(SCENE.left @ LUMA, SCENE.right @ LUMA)
    np.testing.assert_allclose(found.disparity, gray, rtol=1e-5)
    with pytest.raises(InputError, match="ffdnet_color"):
        get_method(f"network:ffdnet={tmp_path}")(SCENE.left, SCENE.right, SCENE, CANDIDATES)


def test_the_recipes_that_ship_are_named_and_an_unknown_one_is_refused() -> None:
    assert {"hitnet", "ffdnet+hitnet", "mccnn+sgm", "ffdnet"} <= set(shipped_recipes())
    assert get_method("network:ffdnet+hitnet").name == "network-ffdnet+hitnet"
    with pytest.raises(SettingsError, match=r"raft.*hitnet"):
        get_method("network:raft")


@pytest.mark.parametrize("name", [300 * "a", 9000 * "a", "a\\u0000b"])
def test_a_model_of_a_name_that_no_file_can_have_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "net.toml").write_text(f'model = "{name}"\n{STEREO}')

    with pytest.raises(SettingsError, match=r"'model' names .* not there"):
        read_recipe(tmp_path / "net.toml")
