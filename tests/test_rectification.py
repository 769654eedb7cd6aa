"""Rectifying a rig's pictures, and noticing pairs that are not rectified, or swapped, in the dark."""

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import cv2
import numpy as np
import pytest
from calibration_files import HEIGHT, MIDDLEBURY, WIDTH, example_rig, store
from command_line import FAST, succeed
from pictures import draw_blocks
from reference_data import data_folder
from rooms import room

import scotopic
from scotopic.depth import Calibration, PairCheck, check_rectified, depth_from_disparity, read_calibration, rectify
from scotopic.depth.calibration import Camera, Rig
from scotopic.depth.rectification import SAME_IMAGE
from scotopic.errors import InputError, PairWarning
from scotopic.io import as_image, write_png
from scotopic.result import Reason
from scotopic.sensor import simulate_pair, to_uint8

Pair = tuple[np.ndarray, np.ndarray]

WALL = 2.0  # meters in front of the left camera, facing it


def texture(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """A smooth pattern on the wall without a repeat, about 0 to 1; x and y in meters."""
    random = np.random.default_rng(0)
    waves = np.zeros_like(x)
    for _ in range(40):
        length, angle, phase = random.uniform(0.08, 0.5), random.uniform(0, np.pi), random.uniform(0, 2 * np.pi)
        waves += np.sin(2 * np.pi / length * (np.cos(angle) * x + np.sin(angle) * y) + phase)
    return np.asarray(0.5 + waves / 40)


def photograph(K: np.ndarray, D: np.ndarray, R: np.ndarray, T: np.ndarray) -> np.ndarray:
    """What a camera at x_camera = R x + T sees of the wall."""
    columns, rows = np.meshgrid(np.arange(WIDTH, dtype=float), np.arange(HEIGHT, dtype=float))
    pixels = np.stack([columns.ravel(), rows.ravel()], 1).reshape(-1, 1, 2)
    rays = cv2.undistortPoints(pixels, K, D).reshape(-1, 2)
    rays = np.column_stack([rays, np.ones(len(rays))]) @ R  # into the left camera's axes
    place = (-R.T @ T).reshape(3)
    hit = place + rays * ((WALL - place[2]) / rays[:, 2])[:, None]
    return texture(hit[:, 0], hit[:, 1]).reshape(HEIGHT, WIDTH).astype(np.float32)


@pytest.fixture(scope="module")
def photographs() -> Pair:
    rig = example_rig()
    return (
        photograph(rig["K1"], rig["D1"], np.eye(3), np.zeros((3, 1))),
        photograph(rig["K2"], rig["D2"], rig["R"], rig["T"]),
    )


@pytest.fixture
def calibration(tmp_path: Path) -> Calibration:
    return read_calibration(store(tmp_path / "rig.yml", image_width=WIDTH, image_height=HEIGHT, **example_rig()))


def test_partners_lie_in_one_row_at_the_disparity_of_their_depth(photographs: Pair, calibration: Calibration) -> None:
    left, right, new = rectify(*photographs, calibration)

    assert left.shape == right.shape == (HEIGHT, WIDTH, 1)
    assert new.rig is not None
    columns, rows = np.meshgrid(np.arange(WIDTH, dtype=float), np.arange(HEIGHT, dtype=float))
    rays = np.stack([(columns - new.cx) / new.fx, (rows - new.cy) / new.fy, np.ones_like(columns)], -1)
    rays_left = rays @ new.rig.left.rotation  # from the rectified axes into the left camera's
    depth = WALL / rays_left[..., 2]  # along the rectified z, where each ray meets the wall
    disparity = new.baseline * new.fx / depth - new.doffs
    seen = cv2.remap(right[..., 0], (columns - disparity).astype(np.float32), rows.astype(np.float32), cv2.INTER_LINEAR)
    hit = rays_left * depth[..., None]
    inside = (slice(10, -10), slice(40, -10))
    np.testing.assert_allclose(left[..., 0][inside], texture(hit[..., 0], hit[..., 1])[inside], atol=0.03)
    np.testing.assert_allclose(seen[inside], left[..., 0][inside], atol=0.03)


def test_unrectified_photographs_are_noticed_and_rectified_ones_are_not(
    photographs: Pair, calibration: Calibration
) -> None:
    rig = example_rig()
    raw = cv2.projectPoints(np.array([[0, 0, WALL]]), rig["R"], rig["T"], rig["K2"], rig["D2"])[0].reshape(2)
    shift = raw[1] - (rig["K1"][1, 2])  # row of the wall's center in the right picture, less that in the left

    before = check_rectified(*photographs)
    after = check_rectified(*rectify(*photographs, calibration)[:2])

    assert abs(before.vertical_offset - shift) < 1.0
    # The rig is turned by 0.015 about the optical axis: 320 px * 0.015 from edge to edge.
    assert abs(before.tilt) == pytest.approx(320 * 0.015, abs=2)
    assert warned(before, "scotopic.depth.rectify")
    assert after.warnings == ()
    assert abs(after.vertical_offset) < 0.3


def test_a_calibration_without_cameras_cannot_rectify(photographs: Pair, tmp_path: Path) -> None:
    (tmp_path / "calib.txt").write_text(MIDDLEBURY)

    with pytest.raises(InputError, match="cameras before rectification"):
        rectify(*photographs, read_calibration(tmp_path / "calib.txt"))


@pytest.mark.parametrize(
    ("part", "value", "expected"),
    [
        ("rotation", np.diag([2.0, 1, 1]), "R of the right camera is not a rotation"),
        ("rotation", np.diag([-1.0, 1, 1]), "R of the right camera is not a rotation"),  # a mirror
        ("matrix", example_rig()["K2"].T, "must be [fx 0 cx; 0 fy cy; 0 0 1]"),
        ("matrix", np.diag([300.0, -300, 1]), "must be [fx 0 cx; 0 fy cy; 0 0 1]"),
        ("rotation", np.diag([-1.0, 1, -1]), "or one by more than a right angle"),  # it looks back
        ("distortion", np.full((1, 5), 1e9), "the right camera sees nothing of its rectified view"),
    ],
)
def test_matrices_that_are_of_no_camera_are_refused(
    photographs: Pair, calibration: Calibration, part: str, value: np.ndarray, expected: str
) -> None:
    assert calibration.rig is not None
    right = replace(calibration.rig.right, **{part: value})

    with pytest.raises(InputError, match=re.escape(expected)):
        rectify(*photographs, replace(calibration, rig=replace(calibration.rig, right=right)))


@pytest.mark.parametrize("preset", ["fast", "best"])
def test_what_the_cameras_did_not_see_gets_no_disparity(preset: str) -> None:
    scene = room(160, 96)
    matrix = np.array([[160.0, 0, 80], [0, 160, 48], [0, 0, 1]])
    projections = [np.array([[120.0, 0, 80, place], [0, 120, 48, 0], [0, 0, 1, 0]]) for place in (0.0, -12.0)]
    cameras = [Camera(matrix, np.zeros(5), np.eye(3), each) for each in projections]  # a wider view than was taken
    rig = Rig(cameras[0], cameras[1], 160, 96)

    left, right, rectified = rectify(
        scene.left, scene.right, Calibration.from_projections(*projections, width=160, height=96, rig=rig)
    )
    found = scotopic.match(left, right, preset, "cpu", max_disparity=24)

    y, x = np.mgrid[:96, :160]
    column, row = (x - 80) * 160 / 120 + 80, (y - 48) * 160 / 120 + 48  # of the image that was taken
    unseen = (column < 0) | (column > 159) | (row < 0) | (row > 95)
    assert unseen.mean() > 0.3
    assert (found.reason[unseen] == Reason.MASKED).all()
    assert found.mask[~unseen].mean() > 0.1
    assert np.isnan(depth_from_disparity(found.disparity, rectified)[unseen]).all()


def test_more_can_be_masked_in_rectified_views(photographs: Pair, calibration: Calibration) -> None:
    assert calibration.rig is not None
    camera = calibration.rig.left
    smaller = replace(camera, projection=camera.projection * np.array([[0.5], [0.5], [1.0]]))  # with a border around it
    grown = replace(calibration, rig=replace(calibration.rig, left=smaller))
    left, *_ = rectify(*photographs, grown)
    unseen = int(np.ma.getmaskarray(left).sum())
    assert unseen > 0

    left[-20:] = np.ma.masked  # the hood of the car

    assert np.ma.getmaskarray(left)[-20:].all()
    again, *_ = rectify(*photographs, grown)
    assert int(np.ma.getmaskarray(again).sum()) == unseen


def test_photographs_of_another_size_are_refused(photographs: Pair, calibration: Calibration) -> None:
    with pytest.raises(InputError, match=f"left image is {WIDTH} x {HEIGHT - 1} px, .* at {WIDTH} x {HEIGHT}"):
        rectify(photographs[0][:-1], photographs[1][:-1], calibration)


# --- the check, on rendered scenes ----------------------------------------------------------------------------------


def shifted(pair: Pair, rows: int) -> Pair:
    """The right view's content `rows` lower."""
    left, right = pair
    if rows == 0:
        return pair
    return (left[rows:], right[:-rows]) if rows > 0 else (left[:rows], right[-rows:])


def warned(found: PairCheck, word: str) -> bool:
    return any(word in warning for warning in found.warnings)


def clean_room(width: int, height: int, seed: int = 0) -> Pair:
    """Both views of the rendered room, without noise."""
    scene = room(width, height, seed)
    return scene.left, scene.right


@pytest.fixture(scope="module")
def rendered() -> Pair:
    return clean_room(576, 384)


@pytest.fixture(scope="module", params=range(3))
def dark(rendered: Pair, request: pytest.FixtureRequest) -> Pair:
    return simulate_pair(*rendered, photons=2, read_noise=2, seed=request.param)


def test_a_dark_rendered_pair_looks_right(dark: Pair) -> None:
    found = check_rectified(*dark)

    assert found.warnings == ()
    assert found.swapped is False
    assert abs(found.vertical_offset) < 0.6


@pytest.mark.parametrize("rows", [-4, -1, 1, 2])
def test_a_vertical_shift_is_noticed_and_measured(dark: Pair, rows: int) -> None:
    found = check_rectified(*shifted(dark, rows))

    assert found.vertical_offset == pytest.approx(rows, abs=0.6)
    if abs(rows) > 1:
        assert warned(found, "unrectified")
        assert warned(found, "lower" if rows > 0 else "higher")


def test_a_swapped_pair_is_noticed_in_words_that_say_what_to_do(dark: Pair) -> None:
    found = check_rectified(dark[1], dark[0])

    assert found.swapped is True
    assert warned(found, "Exchange the two images")


def test_a_pair_with_negative_disparities_is_not_called_swapped_when_they_are_searched(dark: Pair) -> None:
    found = check_rectified(dark[1], dark[0], min_disparity=-40)

    assert found.swapped is None
    assert not warned(found, "swapped")


def test_a_rotated_view_is_noticed(rendered: Pair) -> None:
    left, right = simulate_pair(*rendered, photons=8, read_noise=2)
    # Clockwise: the right edge sinks by 288 * tan(1 degree) = 5 px.
    turn = cv2.getRotationMatrix2D((288, 192), -1.0, 1.0)
    found = check_rectified(left, cv2.warpAffine(right, turn, (576, 384), borderMode=cv2.BORDER_REPLICATE))

    assert warned(found, "rotated")
    assert 3 < found.tilt < 12


@pytest.mark.parametrize(("seed", "size"), [(0, (384, 576)), (1, (192, 288)), (2, (192, 288)), (3, (192, 288))])
def test_where_nothing_can_be_known_nothing_is_said(seed: int, size: tuple[int, int]) -> None:
    noise = np.random.default_rng(seed).random((2, *size)).astype(np.float32)
    unrelated = (draw_blocks(*size, 3, seed=each, side=60) for each in (seed, seed + 50))

    for left, right in (noise, np.zeros((2, *size), np.float32), simulate_pair(*unrelated)):
        found = check_rectified(left, right)
        assert found.warnings == ()
        assert found.swapped is None
        assert np.isnan(found.vertical_offset)
    assert check_rectified(noise[0][:40, :40], noise[1][:40, :40]).warnings == ()


def test_views_of_two_sizes_are_refused() -> None:
    with pytest.raises(InputError, match="differ in size: left is 50 x 50, right is 51 x 50"):
        check_rectified(np.zeros((50, 50)), np.zeros((50, 51)))


# --- the check, on real scenes --------------------------------------------------------------------------------------

REAL = [
    *(f"middlebury2014_q/{name}" for name in ("Adirondack", "Motorcycle", "Piano", "Playtable", "Vintage")),
    *(f"instereo2k/test/{name}" for name in ("000040", "000240", "000840", "001240")),
    "night/robotcar_nighttime_00001",
]


@cache
def real_pair(name: str) -> Pair:
    """A scene as the paper has it: Middlebury at 0.8 of quarter size, InStereo2K halved; the night as it is."""
    folder = data_folder() / "data" / name
    names = ("left.png", "right.png") if "instereo" in name else ("im0.png", "im1.png")
    factor = {"m": 0.8, "i": 0.5, "n": 1.0}[name[0]]
    left, right = (as_image(folder / each, each) for each in names)
    size = (int(left.shape[1] * factor), int(left.shape[0] * factor))
    if factor == 1:
        return left, right  # dark by itself
    small = (np.clip(cv2.resize(view, size, interpolation=cv2.INTER_AREA), 0, 1) for view in (left, right))
    return simulate_pair(*small, photons=2, read_noise=2)


@cache
def looked_at(name: str, rows: int, exchanged: bool = False) -> PairCheck:
    pair = shifted(real_pair(name), rows)
    return check_rectified(*(pair[::-1] if exchanged else pair))


@pytest.mark.reference
@pytest.mark.parametrize("name", REAL)
def test_no_real_scene_raises_a_false_alarm(name: str) -> None:
    found = looked_at(name, 0)

    assert found.warnings == ()
    assert found.swapped is not True


@pytest.mark.reference
@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("rows", [1, -2, 4])
def test_a_real_scene_shifted_is_measured_within_its_error(name: str, rows: int) -> None:
    found = looked_at(name, rows)

    # What is called rectified is off by up to 0.4 px itself.
    assert abs(found.vertical_offset - rows) < 0.4 + 3 * found.vertical_error
    assert not warned(found, "swapped")


@pytest.mark.reference
@pytest.mark.parametrize(("rows", "least"), [(1, 5), (-2, 8), (4, 10)])
def test_real_scenes_shifted_are_noticed(rows: int, least: int) -> None:
    # Of ten; one row is not always known beyond doubt at photon level 2, and then nothing is said.
    noticed = [name for name in REAL if warned(looked_at(name, rows), "unrectified")]

    assert len(noticed) >= least


@pytest.mark.reference
def test_real_scenes_swapped_are_noticed() -> None:
    noticed = [name for name in REAL if warned(looked_at(name, 0, exchanged=True), "swapped")]

    assert len(noticed) >= 9


# --- small pairs, and one image twice -------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(128, 96), (192, 128), (256, 160)])
def test_small_pairs_that_are_swapped_or_off_by_a_row_are_noticed(size: tuple[int, int]) -> None:
    left, right = simulate_pair(*clean_room(*size, seed=1), photons=20, read_noise=2)

    assert check_rectified(left, right).warnings == ()
    assert check_rectified(right, left).swapped
    shifted = check_rectified(left[:-1], right[1:])
    assert shifted.vertical_offset == pytest.approx(-1, abs=0.5)
    assert "unrectified" in shifted.warnings[0]


@pytest.mark.parametrize("size", [(96, 64), (128, 96), (224, 144)])
def test_small_pairs_at_two_photons_give_no_false_alarm(size: tuple[int, int]) -> None:
    for seed in range(20):
        pair = simulate_pair(*clean_room(*size, seed=seed % 4), photons=2, read_noise=2, seed=seed)
        assert check_rectified(*pair).warnings == (), seed


def test_one_image_twice_is_noticed_by_all_in_the_same_words(tmp_path: Path) -> None:
    image = to_uint8(room(96, 64).left)
    for name in ("left", "right"):
        write_png(tmp_path / f"{name}.png", image)
    paths = tmp_path / "left.png", tmp_path / "right.png"
    fast = {"preset": "fast", "max_disparity": 16, "device": "cpu"}

    assert check_rectified(*paths).warnings == (SAME_IMAGE,)
    for pair in ((image, image.copy()), paths, (paths[0], paths[0])):
        with pytest.warns(PairWarning) as caught:
            scotopic.match(*pair, **fast)
        assert [str(each.message) for each in caught] == [SAME_IMAGE]
    said = succeed("match", *paths, "-o", tmp_path / "out", *FAST).stderr
    assert said.count(f"warning: {SAME_IMAGE}") == 1
    for name in ("left", "right"):
        (tmp_path / f"{name}-frames").mkdir()
        write_png(tmp_path / f"{name}-frames" / "0.png", image)
    folders = tmp_path / "left-frames", tmp_path / "right-frames"
    assert f"warning: {SAME_IMAGE}" in succeed("video", *folders, "-o", tmp_path / "film", *FAST).stderr


FAST_ON_CPU = {"preset": "fast", "max_disparity": 16, "refine_steps": 0, "device": "cpu"}


@pytest.fixture(scope="module")
def small() -> Pair:
    """A pair of 192 x 128 px with 20 photons at white."""
    return simulate_pair(*clean_room(192, 128, seed=1), photons=20, read_noise=2)


def said_by_match(left: np.ndarray, right: np.ndarray) -> list[str]:
    with pytest.warns(PairWarning) as caught:
        scotopic.match(left, right, **FAST_ON_CPU)
    return [str(each.message) for each in caught]


def test_match_warns_by_default_in_the_words_of_the_check(small: Pair) -> None:
    left, right = small

    swapped = said_by_match(right, left)
    assert swapped == list(check_rectified(right, left).warnings)
    assert "looks swapped" in swapped[0]
    off_by_a_row = said_by_match(left[:-1], right[1:])
    assert off_by_a_row == list(check_rectified(left[:-1], right[1:]).warnings)
    assert "looks unrectified" in off_by_a_row[0]
    scotopic.match(left, right, **FAST_ON_CPU)  # a warning would be an error here
    scotopic.match(right, left, check=False, **FAST_ON_CPU)


def test_the_commands_and_the_stream_say_the_same(small: Pair, tmp_path: Path) -> None:
    views = [to_uint8(view) for view in small[::-1]]
    expected = check_rectified(*views).warnings
    assert warned(check_rectified(*views), "swapped")
    for name, view in zip(("left", "right"), views, strict=True):
        (tmp_path / name).mkdir()
        write_png(tmp_path / name / "0.png", view)
    folders = tmp_path / "left", tmp_path / "right"
    files = [folder / "0.png" for folder in folders]

    with pytest.warns(PairWarning) as caught:
        list(scotopic.Matcher(**FAST_ON_CPU).run([views, views]))
    quick = (*FAST, "--set", "refine_steps=0")
    matched = succeed("match", *files, "-o", tmp_path / "out", *quick).stderr
    film = succeed("video", *folders, "-o", tmp_path / "film", *quick).stderr

    assert [str(each.message) for each in caught] == list(expected)  # once, of the first pair
    for said in (matched, film):
        assert [line for line in said.splitlines() if line.startswith("warning: ")] == [f"warning: {expected[0]}"]


def test_the_same_image_in_two_files_is_noticed_however_it_is_stored(tmp_path: Path) -> None:
    image = to_uint8(room(96, 64).left)
    for name, level in (("left", 0), ("right", 9)):
        cv2.imwrite(str(tmp_path / f"{name}.png"), image, [cv2.IMWRITE_PNG_COMPRESSION, level])

    with pytest.warns(PairWarning) as caught:
        scotopic.match(tmp_path / "left.png", tmp_path / "right.png", **FAST_ON_CPU)

    assert [str(each.message) for each in caught] == [SAME_IMAGE]


def test_views_of_unequal_bits_get_a_warning() -> None:
    scene = room(160, 112)
    left, right = (np.rint(255 * view).astype(np.uint8) for view in (scene.left, scene.right))
    of_12_bits = left.astype(np.uint16) << 4  # in 16: a sixteenth of full scale

    (found,) = check_rectified(of_12_bits, right).warnings
    assert f"right view is {right.mean() / 255 / (of_12_bits.mean() / 65535):.3g} times as bright" in found
    assert check_rectified(left.astype(np.uint16) * 257, right).warnings == ()
    assert check_rectified(left // 4, right).warnings == ()
