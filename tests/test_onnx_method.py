"""Networks in ONNX: small graphs are built here and run for real, fed as their TOML files say."""

import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_graphs import ANY, first_channel, node, save_model
from shifted_scene import CANDIDATES, SHIFT, shifted_scene

from scotopic.errors import InputError, ScotopicError, SettingsError
from scotopic.evaluation.method import Prediction
from scotopic.evaluation.methods import get_method
from scotopic.evaluation.methods.denoise import DENOISERS
from scotopic.io import write_pfm

SCENE = shifted_scene()


def run(folder: Path, settings: str, scene: Any = SCENE) -> Prediction:
    (folder / "net.toml").write_text(f'model = "net.onnx"\n{settings}\n')
    return get_method(f"onnx:{folder / 'net.toml'}")(scene.left, scene.right, scene, CANDIDATES)


def test_the_left_image_arrives_in_the_default_range_and_order(tmp_path: Path) -> None:
    first_channel(tmp_path / "net.onnx")

    found = run(tmp_path, 'kind = "stereo"')

    np.testing.assert_allclose(found.disparity, 255 * SCENE.left[:, :, 0], rtol=1e-5)
    assert found.disparity.dtype == np.float32
    np.testing.assert_array_equal(found.dense, found.disparity)


@pytest.mark.parametrize(("first", "second"), [("Right_image", "Left_image"), ("left", "right")])
def test_inputs_that_are_named_left_and_right_may_have_any_order(tmp_path: Path, first: str, second: str) -> None:
    left, right = sorted((first, second), key=str.lower)
    nodes = [node("Mul", [left, "two"], "twice"), node("Sub", ["twice", right], "all")]
    nodes.append(node("ReduceMean", ["all"], axes=[1]))
    save_model(tmp_path / "net.onnx", nodes, {first: ANY, second: ANY}, constants={"two": 2.0})

    found = run(tmp_path, 'kind = "stereo"\nrange = [0, 1]')

    np.testing.assert_allclose(found.disparity, (2 * SCENE.left - SCENE.right).mean(axis=2), atol=1e-5)


def test_layout_range_order_normalization_sign_and_scale_are_as_the_file_says(tmp_path: Path) -> None:
    first_channel(tmp_path / "net.onnx", axis=3)

    found = run(
        tmp_path,
        'kind = "stereo"\nlayout = "NHWC"\nchannels = "BGR"\nrange = [-1, 1]\nmean = [0.5, 9, 9]\nstd = [2.0, 9, 9]\n'
        "sign = -1\nscale = 3.0",
    )

    blue = -1 + 2 * SCENE.left[:, :, 2]
    np.testing.assert_allclose(found.disparity, -3 * (blue - 0.5) / 2, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("channels", "given", "expected"),
    [("gray", 3, "mean"), ("gray", 1, "same"), ("RGB", 1, "same"), ("grey", 3, "mean")],  # the last is how it was
)
def test_gray_and_color_are_turned_into_what_the_network_wants(
    tmp_path: Path, channels: str, given: int, expected: str
) -> None:
    planes = 3 if channels == "RGB" else 1
    first_channel(tmp_path / "net.onnx", shape=(1, planes, None, None))
    scene = shifted_scene(channels=given)

    found = run(tmp_path, f'kind = "stereo"\nchannels = "{channels}"\nrange = [0, 1]', scene)

    image = scene.left.mean(axis=2) if expected == "mean" else scene.left[:, :, 0]
    np.testing.assert_allclose(found.disparity, image, rtol=1e-5)


def test_images_are_padded_to_the_multiple_and_the_answer_is_cropped(tmp_path: Path) -> None:
    first_channel(tmp_path / "net.onnx", shape=(1, 3, 96, 144))  # 64 x 120 runs only if padded to this

    found = run(tmp_path, 'kind = "stereo"\nrange = [0, 1]\nmultiple = 48')

    np.testing.assert_array_equal(found.disparity, SCENE.left[:, :, 0])


def test_a_model_of_fixed_size_says_what_it_was_given(tmp_path: Path) -> None:
    first_channel(tmp_path / "net.onnx", shape=(1, 3, 96, 144))

    with pytest.raises(InputError, match=r"net\.onnx.*\(1, 3, 64, 120\).*'multiple'"):
        run(tmp_path, 'kind = "stereo"')


def test_a_network_that_matches_is_surest_where_its_two_views_agree(tmp_path: Path) -> None:
    # Disparity SHIFT where the image, shifted, equals the other; 0 where it does not: right only where views agree.
    pads = [0, 0, 0, SHIFT, 0, 0, 0, -SHIFT]
    nodes = [
        node("Pad", ["right", "pads"], "moved"),
        node("Sub", ["left", "moved"], "difference"),
        node("Abs", ["difference"], "size"),
        node("ReduceMax", ["size"], "worst", axes=[1], keepdims=1),
        node("Less", ["worst", "small"], "same"),
        node("Where", ["same", "shift", "zero"]),
    ]
    constants = {"pads": pads, "small": 1e-3, "shift": float(SHIFT), "zero": 0.0}
    save_model(tmp_path / "net.onnx", nodes, {"left": ANY, "right": ANY}, constants=constants)

    found = run(tmp_path, 'kind = "stereo"')

    assert (found.disparity[:, SHIFT:] == SHIFT).all()
    inside = found.confidence[:, 30:90]
    np.testing.assert_allclose(inside, 1, atol=1e-5)  # exp(0) times a mean of ones
    assert found.confidence[:, :SHIFT].max() < 1


def test_a_confidence_of_its_own_is_used_and_what_is_not_finite_is_unknown(tmp_path: Path) -> None:
    nodes = [
        node("Add", ["left", "right"], "sum"),
        node("Log", ["left"], "out"),  # -inf at the darkest pixel, which is 0
        node("Neg", ["right"], "sure"),
    ]
    shape = (1, 1, None, None)
    save_model(tmp_path / "net.onnx", nodes, {"left": shape, "right": shape}, ("sum", "out", "sure"))
    scene = shifted_scene(channels=1)

    found = run(
        tmp_path,
        'kind = "stereo"\nchannels = "gray"\nrange = [0, 1]\noutput = "out"\nconfidence = "sure"',
        scene,
    )

    dark = scene.left[:, :, 0] == 0
    assert dark.any()
    assert np.isnan(found.disparity[dark]).all()
    np.testing.assert_allclose(found.disparity[~dark], np.log(scene.left[:, :, 0][~dark]), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.confidence, -scene.right[:, :, 0])


@pytest.mark.parametrize("settings", ["", 'channels = "BGR"\nrange = [-1, 1]\nmean = [0.1, 0.2, 0.3]\nstd = [2.0]'])
def test_a_denoiser_that_changes_nothing_gives_plain_sgbm(tmp_path: Path, settings: str) -> None:
    save_model(tmp_path / "net.onnx", [node("Identity", ["image"])], {"image": ANY})

    found = run(tmp_path, f'kind = "denoiser"\nmultiple = 32\n{settings}')

    plain = get_method("opencv:sgbm")(SCENE.left, SCENE.right, SCENE, CANDIDATES)
    np.testing.assert_allclose(found.disparity, plain.disparity, atol=1 / 16)  # a level may round the other way


def test_a_denoiser_whose_image_is_not_finite_is_refused(tmp_path: Path) -> None:
    save_model(tmp_path / "net.onnx", [node("Log", ["image"])], {"image": ANY})

    with pytest.raises(InputError, match="NaN or infinity"):
        run(tmp_path, 'kind = "denoiser"')


def completion_graph(path: Path, fill: float) -> None:
    """Keeps the given depth and puts one value elsewhere, plus the image times 0, to take both inputs."""
    nodes = [
        node("ReduceMean", ["image"], "gray", axes=[1], keepdims=1),
        node("Mul", ["gray", "zero"], "nothing"),
        node("Greater", ["depth", "zero"], "known"),
        node("Where", ["known", "depth", "fill"], "filled"),
        node("Add", ["filled", "nothing"]),
    ]
    inputs = {"image": (1, 3, None, None), "depth": (1, 1, None, None)}
    save_model(path, nodes, inputs, constants={"zero": 0.0, "fill": fill})


def test_completion_takes_inverse_disparity_and_its_answer_is_inverted_back(tmp_path: Path) -> None:
    completion_graph(tmp_path / "net.onnx", fill=1 / 5)
    sparse = np.full(SCENE.truth.shape, np.inf, np.float32)
    sparse[10:20, 30:50] = 8
    sparse[0, 0] = 0  # at infinity: no depth to give
    write_pfm(tmp_path / "shifted.pfm", sparse)

    found = run(tmp_path, f'kind = "completion"\nsparse = "external:theirs={tmp_path}"')

    expected = np.full(SCENE.truth.shape, 5.0)
    expected[10:20, 30:50] = 8
    np.testing.assert_allclose(found.disparity, expected, rtol=1e-6)
    np.testing.assert_array_equal(found.confidence, np.ones(expected.shape))  # that of the sparse method


def test_completion_sees_the_denoised_left_image(tmp_path: Path) -> None:
    nodes = [
        node("ReduceMean", ["image"], "gray", axes=[1], keepdims=1),
        node("Mul", ["depth", "zero"], "nothing"),
        node("Add", ["gray", "nothing"]),
    ]
    inputs = {"image": (1, 3, None, None), "depth": (1, 1, None, None)}
    save_model(tmp_path / "net.onnx", nodes, inputs, constants={"zero": 0.0})

    found = run(tmp_path, 'kind = "completion"\nsparse = "opencv:sgbm"\nrange = [1, 2]')

    seen = 1 + DENOISERS["nlm"](SCENE.left).mean(axis=2)
    np.testing.assert_allclose(found.disparity, 1 / seen, rtol=1e-5)


def test_a_depth_of_nothing_or_less_has_no_disparity(tmp_path: Path) -> None:
    completion_graph(tmp_path / "net.onnx", fill=-1.0)
    write_pfm(tmp_path / "shifted.pfm", np.full(SCENE.truth.shape, np.inf, np.float32))

    found = run(tmp_path, f'kind = "completion"\nsparse = "external:theirs={tmp_path}"')

    assert np.isnan(found.disparity).all()


def test_the_same_pair_gives_the_same_answer_also_in_another_process_form(tmp_path: Path) -> None:
    first_channel(tmp_path / "net.onnx")
    first = run(tmp_path, 'kind = "stereo"')
    method = pickle.loads(pickle.dumps(get_method(f"onnx:{tmp_path / 'net.toml'}")))

    second = method(SCENE.left, SCENE.right, SCENE, CANDIDATES)

    np.testing.assert_array_equal(first.disparity, second.disparity)
    np.testing.assert_array_equal(first.confidence, second.confidence)


def test_the_name_is_the_files_own_unless_it_gives_one(tmp_path: Path) -> None:
    first_channel(tmp_path / "net.onnx")
    file = tmp_path / "igev.toml"

    file.write_text('model = "net.onnx"\nkind = "stereo"')
    assert get_method(f"onnx:{file}").name == "igev"

    file.write_text('model = "net.onnx"\nkind = "stereo"\nname = "IGEV++"')
    assert get_method(f"onnx:{file}").name == "IGEV++"


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ('kind = "mono"', "kind"),
        ("kind = 3", "kind"),
        ('kind = "stereo"\nlayuot = "NCHW"', "layuot"),
        ('kind = "stereo"\nlayout = "CHWN"', "layout"),
        ('kind = "stereo"\nchannels = "CMYK"', "channels"),
        ('kind = "stereo"\nrange = [0]', "range"),
        ('kind = "stereo"\nrange = [1, 1]', "range"),
        ('kind = "stereo"\nrange = [0, nan]', "range"),
        ('kind = "stereo"\nrange = "0-255"', "range"),
        ('kind = "stereo"\nmean = [1, 2]', "mean"),
        ('kind = "stereo"\nmean = []', "mean"),
        ('kind = "stereo"\nchannels = "gray"\nstd = [1, 2, 3]', "std"),
        ('kind = "stereo"\nstd = [0]', "std"),
        ('kind = "stereo"\nmultiple = 0', "multiple"),
        ('kind = "stereo"\nmultiple = 1.5', "multiple"),
        ('kind = "stereo"\nmultiple = true', "multiple"),
        ('kind = "stereo"\nsign = 2', "sign"),
        ('kind = "stereo"\nsign = true', "sign"),
        ('kind = "stereo"\nscale = 0', "scale"),
        ('kind = "stereo"\nscale = inf', "scale"),
        ('kind = "stereo"\noutput = ""', "output"),
        ('kind = "stereo"\nname = "a/b"', "name"),
        ('kind = "completion"\ndenoiser = "blur"', "denoiser"),
        ('kind = "completion"\nsparse = "nothing"', "sparse"),
        ("", "kind"),
    ],
)
def test_a_bad_setting_is_refused_with_file_and_key(tmp_path: Path, line: str, key: str) -> None:
    first_channel(tmp_path / "net.onnx")

    with pytest.raises(SettingsError) as caught:
        run(tmp_path, line)

    assert str(tmp_path / "net.toml") in str(caught.value)
    assert repr(key) in str(caught.value)


@pytest.mark.parametrize("content", [b"kind = ", b"\xff\xfe\x00", None])
def test_a_file_that_is_no_toml_or_not_there_is_refused(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "net.toml").write_bytes(content)

    with pytest.raises(InputError, match=r"net\.toml"):
        get_method(f"onnx:{tmp_path / 'net.toml'}")


def test_a_missing_model_is_refused_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"'model' names .*net\.onnx"):
        run(tmp_path, 'kind = "stereo"')


def broken(path: Path) -> None:
    path.write_bytes(b"not a model")


def half_size(path: Path) -> None:
    pool = node("AveragePool", ["left"], "half", kernel_shape=[2, 2], strides=[2, 2])
    both = [node("Mul", ["right", "zero"], "none"), node("ReduceMax", ["none"], "nothing", keepdims=0)]
    save_model(
        path, [pool, *both, node("Add", ["half", "nothing"])], {"left": ANY, "right": ANY}, constants={"zero": 0.0}
    )


def one_input(path: Path) -> None:
    save_model(path, [node("Identity", ["image"])], {"image": ANY})


@pytest.mark.parametrize(
    ("build", "settings", "found"),
    [
        (broken, "", "onnxruntime cannot load"),
        (half_size, "", r"shape \(1, 3, 32, 60\)"),
        (one_input, "", "has 1 inputs, but must take 2"),
        (first_channel, 'output = "depth"', "no output 'depth'.*are out"),
        (first_channel, 'confidence = "sure"', "no output 'sure'"),
    ],
)
def test_a_model_that_does_not_fit_is_refused_by_name(
    tmp_path: Path, build: Callable[[Path], None], settings: str, found: str
) -> None:
    build(tmp_path / "net.onnx")

    with pytest.raises(ScotopicError, match=found) as caught:
        run(tmp_path, f'kind = "stereo"\n{settings}')

    assert "net.onnx" in str(caught.value)


def test_a_missing_runtime_is_named_with_the_extra_that_brings_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first_channel(tmp_path / "net.onnx")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)

    with pytest.raises(ScotopicError, match=r"pip install 'scotopic\[bench\]'"):
        run(tmp_path, 'kind = "stereo"')
