"""Published networks, where they are: fed by the recipes that ship, they reach the figures measured elsewhere."""

from pathlib import Path

import cv2
import numpy as np
import pytest
from reference_data import data_folder

from scotopic.evaluation.curves import at_coverage
from scotopic.evaluation.datasets import open_dataset
from scotopic.evaluation.methods import get_method
from scotopic.evaluation.methods.networks import denoise
from scotopic.evaluation.methods.recipes import shipped_recipe
from scotopic.evaluation.metrics import score
from scotopic.evaluation.protocol import record_scene
from scotopic.evaluation.scene import Scene
from scotopic.onnx_model import run_model

pytest.importorskip("onnxruntime", reason="runs networks with onnxruntime: pip install 'scotopic[bench]'")
pytestmark = pytest.mark.reference


def networks() -> Path:
    """Return the folder of the networks, or skip the test that asks for it."""
    folder = data_folder() / "networks"
    if not (folder / "hitnet.onnx").is_file():
        pytest.skip("needs the networks, which do not ship: put them into 'networks' of the shared data")
    return folder


def motorcycle(scale: float = 0.2) -> Scene:
    return open_dataset("middlebury2014", data_folder() / "data" / "middlebury2014_q", scale).load("Motorcycle")


def test_hitnet_on_the_clean_motorcycle_has_its_known_error() -> None:
    scene = motorcycle(0.25)  # quarter size, as it lies on disk

    found = get_method(f"network:hitnet={networks()}")(scene.left, scene.right, scene, 128)

    result = score(found.dense, scene.truth, window=1, thresholds=(1,))
    assert result.coverage == 1
    assert result.epe == pytest.approx(0.95, abs=0.01)
    assert result.bad[1] == pytest.approx(11.2, abs=0.1)


def test_hitnet_on_the_night_street_ranks_by_left_right_difference_as_was_measured() -> None:
    folder = data_folder() / "data" / "night"
    scene = open_dataset("night", folder).load("robotcar_nighttime_00001")
    # The figures were measured on gray images of 8 bits.
    views = [
        cv2.cvtColor(np.rint(255 * view).astype(np.uint8), cv2.COLOR_RGB2GRAY)[:, :, None] / np.float32(255)
        for view in (scene.left, scene.right)
    ]

    found = get_method(f"network:hitnet={networks()}")(*views, scene, 128)

    known = np.isfinite(scene.truth)
    dense, confidence, truth = (values[known][None] for values in (found.dense, found.confidence, scene.truth))
    for share, epe, bad in ((0.75, 0.91, 4.6), (1.0, 1.37, 10.2)):
        result = score(at_coverage(dense, confidence, share), truth, window=1, thresholds=(3,))
        assert result.coverage == pytest.approx(share, abs=0.001)
        assert result.epe == pytest.approx(epe, abs=0.01)
        assert result.bad[3] == pytest.approx(bad, abs=0.1)


def test_the_features_of_mccnn_are_unit_vectors() -> None:
    recipe = shipped_recipe("mccnn+sgm", str(networks()))
    image = np.random.default_rng(0).standard_normal((1, 1, 40, 60)).astype(np.float32)

    (features,) = run_model(recipe.model, [image], [None], "a test", "")

    assert features.shape == (1, 64, 40, 60)
    np.testing.assert_allclose((features**2).sum(axis=1), 1, rtol=1e-3)


@pytest.mark.parametrize("std", [25 / 255, 115 / 255])
def test_ffdnet_removes_most_of_noise_also_beyond_its_training(std: float) -> None:
    clean = motorcycle().left
    noisy = clean + std * np.random.default_rng(0).standard_normal(clean.shape).astype(np.float32)

    found = denoise(shipped_recipe("ffdnet", str(networks())), noisy, std)

    left_over = np.sqrt(np.mean((found - clean) ** 2))
    assert left_over < 0.5 * std


def test_denoising_before_hitnet_is_worth_it_in_the_dark() -> None:
    left, right, scene = record_scene(motorcycle(), 2, 2, seed=0)

    plain, denoised = (
        get_method(f"network:{name}={networks()}")(left, right, scene, 128) for name in ("hitnet", "ffdnet+hitnet")
    )

    errors = [score(found.dense, scene.truth, window=1).epe for found in (plain, denoised)]
    assert errors[1] < 0.75 * errors[0]  # 10.5 px for 20 on ten other scenes
