"""Dark data in large containers: the answer does not depend on the scale of the format, and the user is told."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from command_line import error_line, run

import scotopic
from scotopic.app import inputs
from scotopic.app.inputs import OWN, Request
from scotopic.app.session import Limits, Session, View
from scotopic.cv import StereoScotopic
from scotopic.errors import DarkImageWarning, SettingsError
from scotopic.io import read_image, write_png
from scotopic.levels import Levels, find_levels, warn_of_given_levels
from scotopic.sensor import read_recording


@pytest.fixture(scope="module")
def pair() -> tuple[np.ndarray, np.ndarray]:
    """Two noisy views, float32 in [0, 1), of a rendered room."""
    scene = scotopic.render_scene(width=144, height=96)
    noisy = scotopic.simulate_pair(scene.left, scene.right, photons=40, read_noise=1, seed=0)
    return tuple(np.clip(view, 0, 0.999).astype(np.float32) for view in noisy)  # type: ignore[return-value]


QUICK = ("--preset", "fast", "--max-disparity", "32", "--set", "refine_steps=0", "--device", "cpu")


@pytest.fixture(scope="module")
def half(pair: tuple[np.ndarray, ...]) -> tuple[list[np.ndarray], scotopic.Match]:
    """The same with half of the light, so that twice of it is in range, and its match."""
    views = [view / 2 for view in pair]
    return views, quietly_match(views)


def quietly_match(views: Sequence[np.ndarray], preset: str = "fast") -> scotopic.Match:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DarkImageWarning)
        return scotopic.match(*views, preset=preset, max_disparity=32, device="cpu")


@pytest.mark.parametrize("factor", [1 / 16, 1 / 4, 2.0])
def test_a_pair_times_a_power_of_two_has_the_same_disparity(
    half: tuple[list[np.ndarray], scotopic.Match], factor: float
) -> None:
    views, expected = half

    found = quietly_match([view * np.float32(factor) for view in views])

    assert expected.coverage > 0.1
    np.testing.assert_array_equal(found.disparity, expected.disparity)
    np.testing.assert_array_equal(found.confidence, expected.confidence)


def test_the_answer_of_best_does_not_depend_on_the_scale_of_the_container(pair: tuple[np.ndarray, ...]) -> None:
    views = [view[32:, :96] for view in pair]
    expected, found = (quietly_match([view * np.float32(factor) for view in views], "best") for factor in (1, 1 / 16))

    assert expected.coverage > 0.1
    np.testing.assert_array_equal(found.disparity, expected.disparity)


def test_two_frames_without_light_get_no_answer() -> None:
    rng = np.random.default_rng(0)
    for pedestal in (0, 240):
        dark = [np.clip(np.round(rng.normal(pedestal, 5, (96, 128))), 0, None).astype(np.uint16) for _ in range(2)]
        assert quietly_match(dark).coverage < 0.01


def test_twelve_bits_in_a_file_of_sixteen_are_matched_like_sixteen(pair: tuple[np.ndarray, ...]) -> None:
    full = [np.round(view * 4095).astype(np.uint16) * 16 for view in pair]
    expected = quietly_match(full)

    found = quietly_match([view // 16 for view in full])

    both = expected.mask & found.mask
    assert both.sum() > 0.98 * expected.mask.sum()
    assert np.abs(found.disparity - expected.disparity)[both].max() < 0.25
    np.testing.assert_array_equal(found.left_image[..., 0], (full[0] // 16)[..., 0] / np.float32(65535))  # as recorded


def test_an_eight_bit_image_whose_brightest_value_is_sixteen_gets_an_answer(pair: tuple[np.ndarray, ...]) -> None:
    dark = [np.round(view * 16).astype(np.uint8) for view in pair]

    with pytest.warns(DarkImageWarning, match=r"6\.3 % of the range"):
        found = scotopic.match(*dark, preset="fast", max_disparity=32, device="cpu")

    assert found.coverage > 0.1
    assert not scotopic.match(*dark, preset="fast", max_disparity=32, device="cpu", normalize=False).mask.any()


def test_a_stream_and_the_stand_in_for_opencv_see_dark_pairs_too(pair: tuple[np.ndarray, ...]) -> None:
    dark = [np.round(view * 4095).astype(np.uint16) for view in pair]
    matcher = scotopic.Matcher("fast", device="cpu", max_disparity=32)
    stand_in = StereoScotopic.create(numDisparities=32, preset="fast")

    with pytest.warns(DarkImageWarning):
        (streamed,) = matcher.run([dark])
    with pytest.warns(DarkImageWarning):
        disparity = stand_in.compute(*dark)

    assert streamed.coverage > 0.1
    assert (disparity > 0).mean() > 0.1


# --- the estimate ---------------------------------------------------------------------------------------------------

RAMP = np.linspace(0, 1, 40_000, dtype=np.float32).reshape(200, 200, 1)


@pytest.mark.parametrize(
    ("image", "black", "white"),
    [
        (RAMP, 0, 1),
        (RAMP * 0.51, 0, 1),
        (RAMP * 0.49, 0, 0.5),
        (RAMP / 16, 0, 1 / 16),
        (RAMP * 4095 / 65535, 0, 1 / 16),
        (0.25 + RAMP / 64, 0.25, 0.25 + 1 / 64),  # a pedestal
        (0.02 + RAMP / 16, 0, 1 / 8),  # none: the data reach far below their highest value
        (RAMP - 0.1, 0, 1),  # noise below black
        (np.zeros((20, 20, 1), np.float32), 0, 1),
        (np.full((20, 20, 1), 0.01, np.float32), 0, 1),
    ],
)
def test_levels_follow_from_the_values(image: np.ndarray, black: float, white: float) -> None:
    found = find_levels(image)

    assert found.black == pytest.approx(black, abs=2e-4 * white)
    assert found.white == pytest.approx(white, abs=2e-4 * white)


def test_hot_pixels_do_not_hide_that_a_pair_is_dark() -> None:
    image = RAMP / 16
    image = image.copy()
    image[3, 4] = 1.0

    assert find_levels(image).white == 1 / 16


@pytest.mark.parametrize("under_the_mask", [0.0, 0.9])
def test_what_is_masked_has_no_part_in_the_levels(under_the_mask: float) -> None:
    ramp = np.tile(np.linspace(0, 0.24, 80, dtype=np.float32), (60, 1))
    mask = np.zeros(ramp.shape, bool)
    mask[:, 60:] = True  # what is left ends at 0.18
    masked = np.ma.masked_array(np.where(mask, np.float32(under_the_mask), ramp), mask)

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # NumPy's, where a masked value becomes NaN
        assert find_levels(masked).white == 0.25
        assert warn_of_given_levels(masked / 2) is not None  # 9 % of the range


def test_both_views_share_their_levels() -> None:
    assert find_levels(RAMP / 16, RAMP / 5).white == find_levels(RAMP / 5).white == 0.25


def test_levels_of_tensors_are_those_of_arrays() -> None:
    torch = pytest.importorskip("torch", reason="needs the extra gpu")
    for image in (RAMP, RAMP / 20, 0.25 + RAMP / 64):
        ours, theirs = find_levels(image), find_levels(torch.from_numpy(image))
        assert (ours.black, ours.white) == pytest.approx((theirs.black, theirs.white))
        np.testing.assert_allclose(ours.apply(image), theirs.apply(torch.from_numpy(image)).numpy(), atol=1e-6)


def test_levels_that_make_no_sense_are_refused() -> None:
    for black, white in ((0.5, 0.5), (0.6, 0.5), (float("nan"), 1.0), (0.0, float("inf"))):
        with pytest.raises(SettingsError, match="black"):
            Levels(black, white)


# --- a pedestal, or a bright scene of low contrast -------------------------------------------------------------------


def record(
    scene: np.ndarray, photons: float, *, black: float = 0.0, gain: float = 1.0, read_noise: float = 1.5, seed: int = 0
) -> np.ndarray:
    """Stored values of a camera: black + gain (photons + read noise), rounded, in a file of 16 bits."""
    rng = np.random.default_rng(seed)
    electrons = rng.poisson(photons * scene) + rng.normal(0, read_noise, scene.shape)
    return np.clip(np.rint(black + gain * electrons), 0, 65535).astype(np.uint16)


@pytest.fixture(scope="module")
def room() -> tuple[np.ndarray, np.ndarray]:
    scene = scotopic.render_scene(width=288, height=192)
    return scene.left.astype(np.float64), scene.right.astype(np.float64)


def levels_of(views: Sequence[np.ndarray], full_scale: float = 65535) -> Levels:
    return find_levels(*(np.atleast_3d(view).astype(np.float32) / np.float32(full_scale) for view in views))


@pytest.mark.parametrize(
    ("black", "photons", "gain"),
    [(64, 4, 1), (64, 20, 1), (64, 20, 2), (64, 60, 1), (240, 20, 4), (240, 100, 2), (16, 8, 1)],
)
def test_a_pedestal_is_recognized_by_its_noise(
    room: tuple[np.ndarray, ...], black: float, photons: float, gain: float
) -> None:
    views = [record(view, photons, black=black, gain=gain, seed=seed) for seed, view in enumerate(room)]

    found = levels_of(views)

    # Noise vanishes at black - gain * read_noise^2, and the darkest pixel is some deviations below black.
    assert black - 4 * gain * 1.5 - 1 < 65535 * found.black < black + 0.25 * gain * photons
    assert not found.lifted


@pytest.mark.parametrize("contrast", [0.2, 0.4, 0.6])
@pytest.mark.parametrize(("photons", "gain"), [(30, 1.0), (200, 1.0), (1000, 0.25), (10_000, 0.025), (1000, 50.0)])
def test_fog_is_no_pedestal(room: tuple[np.ndarray, ...], contrast: float, photons: float, gain: float) -> None:
    fog = [0.9 * (1 - contrast) + contrast * view for view in room]

    assert levels_of([record(view, photons, gain=gain, seed=seed) for seed, view in enumerate(fog)]).black == 0


@pytest.mark.parametrize("kind", ["clean", "gamma", "speckle", "texture", "smoothed"])
def test_where_noise_cannot_tell_black_stays_and_the_user_is_asked(room: tuple[np.ndarray, ...], kind: str) -> None:
    rng = np.random.default_rng(0)
    fog = [0.45 + 0.5 * view for view in room]
    views = {
        "clean": [255 * view for view in fog],
        "gamma": [255 * np.clip(rng.normal(view, 0.02), 0, 1) ** 0.45 for view in fog],
        "speckle": [2000 * view * rng.normal(1, 0.03, view.shape) for view in fog],
        "texture": [200 * view + 300 * (view > 0.7) * _blurred(rng.normal(0, 0.1, view.shape)) for view in fog],
        "smoothed": [_blurred(record(view, 40, black=64).astype(np.float64)) for view in room],
    }[kind]

    found = levels_of([np.rint(view).astype(np.uint16) for view in views])

    assert found.black == 0
    assert found.lifted > 0
    assert "--black" in str(found.warning)


def _blurred(image: np.ndarray) -> np.ndarray:
    return sum(np.roll(image, (down, across), (0, 1)) for down in (0, 1, 2) for across in (0, 1, 2)) / 9  # type: ignore[no-any-return]


def test_a_pair_on_a_pedestal_is_matched_like_one_without(room: tuple[np.ndarray, ...]) -> None:
    part = [view[48:, :144] for view in room]
    plain, lifted = ([record(view, 60, black=at, seed=seed) for seed, view in enumerate(part)] for at in (8, 64))

    expected, found = quietly_match(plain), quietly_match(lifted)

    assert expected.coverage > 0.05
    assert found.coverage > 0.7 * expected.coverage


def test_a_pedestal_does_not_depend_on_the_scale_of_the_container(room: tuple[np.ndarray, ...]) -> None:
    views = [record(view, 20, black=64, seed=seed) for seed, view in enumerate(room)]
    one, other = (levels_of([view * np.uint16(factor) for view in views]) for factor in (1, 256))

    assert 256 * one.black == pytest.approx(other.black, rel=1e-5)
    assert 256 * one.white == pytest.approx(other.white, rel=1e-5)


# --- given by the user ----------------------------------------------------------------------------------------------


def test_given_levels_scale_an_image_and_clip_it(tmp_path: Path) -> None:
    write_png(tmp_path / "a.png", np.array([[64, 2080, 4095, 65535]], np.uint16))

    by_bits = read_recording(tmp_path / "a.png", bits=12)
    by_levels = read_recording(tmp_path / "a.png", black=64, white=4096)

    np.testing.assert_allclose(by_bits.image.ravel(), [64 / 4095, 2080 / 4095, 1, 1], rtol=1e-5)
    np.testing.assert_allclose(by_levels.image.ravel(), [0, 0.5, 4031 / 4032, 1], atol=1e-5)
    assert by_bits.assumed["above_white_percent"] == pytest.approx(25)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bits": 12, "white": 4095.0}, "both say"),
        ({"bits": 17}, "bits=17"),
        ({"bits": 0}, "bits=0"),
        ({"black": 5.0, "white": 5.0}, "black 5 must be below white 5"),
        ({"kind": "raw", "white": 3.0}, "white is for images"),
        ({"kind": "counts", "white": 3.0, "bits": 12}, "bits is for images"),
    ],
)
def test_levels_that_do_not_fit_the_file_are_refused(tmp_path: Path, options: dict, message: str) -> None:
    write_png(tmp_path / "a.png", np.zeros((4, 4), np.uint16))

    with pytest.raises(SettingsError, match=message):
        read_recording(tmp_path / "a.png", **options)


def test_the_command_estimates_or_takes_the_levels_and_says_so(pair: tuple[np.ndarray, ...], tmp_path: Path) -> None:
    for side, view in zip(("left", "right"), pair, strict=True):
        write_png(tmp_path / f"{side}.png", np.round(view * 4095).astype(np.uint16))
    files = [str(tmp_path / "left.png"), str(tmp_path / "right.png")]
    common = ["match", *files, *QUICK]

    estimated = run(*common, "-o", str(tmp_path / "estimated"))
    given = run(*common, "-o", str(tmp_path / "given"), "--bits", "12")
    quiet = run(*common, "-o", str(tmp_path / "quiet"), "--quiet")

    assert estimated.exit_code == given.exit_code == quiet.exit_code == 0
    assert "warning: The images use 6.2 % of the range" in estimated.stderr
    assert "warning" not in given.stderr + quiet.stderr
    for name in ("estimated", "given"):
        report = json.loads((tmp_path / name / "report.json").read_text())
        assert report["left"]["levels"]["white"] == pytest.approx(1 / 16, rel=1e-3)
        assert report["coverage"] > 0.1
    assert "both say" in error_line(run(*common, "-o", str(tmp_path / "x"), "--bits", "12", "--white", "9"))


def test_junctions_of_a_dark_image_are_those_of_a_bright_one(pair: tuple[np.ndarray, ...], tmp_path: Path) -> None:
    stored = np.round(pair[0] * 4095).astype(np.uint16)
    for name, image in (("dark", stored), ("bright", stored * 16)):
        write_png(tmp_path / f"{name}.png", image)
        told = run("junctions", str(tmp_path / f"{name}.png"), "-o", str(tmp_path / name), "--preset", "fast").stderr
        assert ("warning: The images use 6.2 % of the range" in told) == (name == "dark")

    dark, bright = (read_image(tmp_path / name / "boundaries.png") for name in ("dark", "bright"))
    np.testing.assert_array_equal(dark, bright)
    assert json.loads((tmp_path / "dark" / "report.json").read_text())["levels"] == {"black": 0, "white": 0.0625}


def test_to_make_a_dark_pair_darker_is_told_of(pair: tuple[np.ndarray, ...], tmp_path: Path) -> None:
    for side, view in zip(("left", "right"), pair, strict=True):
        write_png(tmp_path / f"{side}.png", np.round(view * 4095).astype(np.uint16))

    told = run("simulate", str(tmp_path / "left.png"), str(tmp_path / "right.png"), "-o", str(tmp_path / "out"))

    assert told.exit_code == 0
    assert "warning: The images use 6.2 % of the range of their format. Photons are counted at its white" in told.stderr


def test_the_commands_warn_if_little_of_given_levels_is_used(pair: tuple[np.ndarray, ...], tmp_path: Path) -> None:
    for side, view in zip(("left", "right"), pair, strict=True):
        (tmp_path / side).mkdir()
        part = view[32:, :96]
        write_png(tmp_path / side / "0.png", np.round(100 + part * 200).astype(np.uint16))  # 5 % of 12 bits
        write_png(tmp_path / side / "1.png", np.round(100 + part * 199).astype(np.uint16))
    images = [str(tmp_path / side / "0.png") for side in ("left", "right")]
    folders = [str(tmp_path / side) for side in ("left", "right")]

    for command, views in (("match", images), ("video", folders), ("burst", folders)):
        dark = run(command, *views, *QUICK, "-o", str(tmp_path / command), "--bits", "12")
        fitting = run(command, *views, *QUICK, "-o", str(tmp_path / f"{command}2"), "--black", "100", "--white", "300")

        assert dark.exit_code == fitting.exit_code == 0, dark.stderr + fitting.stderr
        assert "warning: The images use 4.9 % of the range between the levels given" in dark.stderr
        assert "warning" not in fitting.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--bits", "8"), r"warning: \d+ % of the values of a view are not below the white given"),
        (("--black", "5000"), "warning: No value of the images is above the black given"),
    ],
)
def test_the_commands_warn_of_levels_that_leave_nothing_to_see(
    pair: tuple[np.ndarray, ...], tmp_path: Path, options: tuple[str, str], message: str
) -> None:
    for name, view in zip(("left", "right"), pair, strict=True):
        (tmp_path / name).mkdir()
        write_png(tmp_path / name / "0.png", (view * 4095).astype(np.uint16))  # 12 bits, of which 8 are nearly nothing
    files, folders = ([tmp_path / name / part for name in ("left", "right")] for part in ("0.png", ""))
    for command, views in (("match", files), ("video", folders)):
        result = run(command, *views, "-o", tmp_path / command, *QUICK, *options)

        assert result.exit_code == 0, result.stderr
        assert re.search(message, result.stderr)


@pytest.mark.parametrize("command", ["match", "video", "burst"])
def test_the_commands_warn_of_a_white_of_photon_counts_that_is_too_low(
    pair: tuple[np.ndarray, ...], tmp_path: Path, command: str
) -> None:
    for name, view in zip(("left", "right"), pair, strict=True):
        counts = np.round(20 * view[32:96, :96].mean(axis=2)).astype(np.uint16)  # 0 to 20 photons
        np.save(tmp_path / f"{name}.npy", np.stack([counts, counts + 1]))
    files = [tmp_path / "left.npy", tmp_path / "right.npy", "--kind", "counts", *QUICK]

    low = run(command, *files, "-o", tmp_path / "low", "--white", "1")
    fitting = run(command, *files, "-o", tmp_path / "fitting", "--white", "21")

    assert low.exit_code == fitting.exit_code == 0, low.stderr + fitting.stderr
    assert re.search(r"warning: \d+ % of the values of a view are not below the white given", low.stderr)
    assert "below the white" not in fitting.stderr


def test_the_page_shows_what_a_dark_upload_holds(pair: tuple[np.ndarray, ...], tmp_path: Path) -> None:
    visitor = Session(tmp_path)
    visitor.pair.views["left"] = View("left.png", np.round(pair[0] * 200).astype(np.uint16))

    _, shown = inputs.thumbnails(visitor, OWN)["left"]

    assert shown.max() > 127


def test_the_page_warns_of_a_dark_pair_and_matches_it(pair: tuple[np.ndarray, ...], tmp_path: Path) -> None:
    visitor = Session(tmp_path)
    for side, view in zip(("left", "right"), pair, strict=True):
        visitor.pair.views[side] = View(f"{side}.png", np.round(view * 4095).astype(np.uint16))

    found = inputs.prepare_pair(visitor, Request(OWN, photons=None), Limits())

    assert any(re.search("of the range of their format.*command scotopic match takes them", w) for w in found.warnings)
    assert found.frames[0][0].max() > 0.9
