"""Calibration files: each kind gives the numbers that were put in, whatever is wrong is named with file and line."""

import re
import warnings
from pathlib import Path

import cv2
import numpy as np
import pytest
from calibration_files import (
    HEIGHT,
    KITTI_OBJECT,
    KITTI_RAW,
    MIDDLEBURY,
    PLAIN,
    ROS_LEFT,
    ROS_RIGHT,
    WIDTH,
    example_rig,
    rectified_rig,
    store,
)

from scotopic.depth import Calibration, Rectifier, read_calibration
from scotopic.errors import InputError, PairWarning

CALIBRATION = Calibration(fx=500.0, fy=510.0, cx=320.0, cy=240.0, baseline=0.12, doffs=7.0, width=640, height=480)


def written(tmp_path: Path, content: str, name: str = "calib.txt") -> Path:
    path = tmp_path / name
    path.write_text(content)
    return path


def refusal(*paths: Path, **options: object) -> str:
    with pytest.raises(InputError) as caught:
        read_calibration(*paths, **options)  # type: ignore[arg-type]
    message = str(caught.value)
    assert "\n" not in message
    assert any(repr(str(path)) in message for path in paths)
    return message


# --- the kinds of files ---------------------------------------------------------------------------------------------


def test_middlebury_is_in_millimeters(tmp_path: Path) -> None:
    found = read_calibration(written(tmp_path, MIDDLEBURY))

    assert (found.fx, found.fy, found.cx, found.cy) == (1038.018, 1038.018, 322.037, 243.393)
    assert found.baseline == pytest.approx(0.176252, abs=1e-12)
    assert (found.doffs, found.width, found.height) == (53.271, 718, 496)
    assert "baseline in mm" in found.source


def test_doffs_follows_from_the_cameras_where_it_is_left_out(tmp_path: Path) -> None:
    found = read_calibration(written(tmp_path, MIDDLEBURY.replace("doffs=53.271\n", "")))

    assert found.doffs == pytest.approx(375.308 - 322.037)


def test_kitti_raw_takes_the_color_cameras_and_meters(tmp_path: Path) -> None:
    found = read_calibration(written(tmp_path, KITTI_RAW))

    # The fourth column is minus fx times the place of the camera: (45 + 339) / 720.
    assert found.baseline == pytest.approx(384 / 720)
    assert (found.fx, found.cx, found.cy, found.doffs) == (720.0, 600.0, 170.0, 6.0)
    assert (found.width, found.height) == (1242, 375)
    assert found.rig is not None
    assert (found.rig.width, found.rig.height) == (1392, 512)
    assert found.rig.right.matrix[0, 0] == 950.0


@pytest.mark.parametrize(("cameras", "baseline"), [((2, 3), 378 / 700), ((0, 1), 378 / 700), ((0, 3), 336 / 700)])
def test_kitti_object_files_hold_four_cameras(tmp_path: Path, cameras: tuple[int, int], baseline: float) -> None:
    found = read_calibration(written(tmp_path, KITTI_OBJECT), cameras=cameras)

    assert found.baseline == pytest.approx(baseline)


@pytest.mark.parametrize(
    "content",
    [
        PLAIN,
        "# a rig\n500.5 320.25 240.75 120 3.5 mm\n",
        "500.5 320.25 240.75 120 mm 3.5\n",
        "fx cx cy baseline doffs\n500.5 320.25 240.75 0.12 3.5\n",
        "fx 500.5\ncx 320.25\ncy 240.75\nbaseline 12 cm\ndoffs 3.5\n",
        "fx = 500.5\ncx: 320.25\ncy 240.75  # px\nbaseline 0.12\ndoffs 3.5\n",
    ],
)
def test_plain_numbers_with_and_without_names_and_units(tmp_path: Path, content: str) -> None:
    found = read_calibration(written(tmp_path, content))

    assert (found.fx, found.fy, found.cx, found.cy, found.doffs) == (500.5, 500.5, 320.25, 240.75, 3.5)
    assert found.baseline == pytest.approx(0.12)


def test_two_ros_files_give_a_pair_and_its_cameras(tmp_path: Path) -> None:
    found = read_calibration(written(tmp_path, ROS_LEFT, "left.yaml"), written(tmp_path, ROS_RIGHT, "right.yaml"))

    assert (found.fx, found.cx, found.cy, found.doffs) == (500.0, 320.0, 240.0, 0.0)
    assert found.baseline == pytest.approx(60 / 500)
    assert (found.width, found.height) == (640, 480)
    assert found.rig is not None
    np.testing.assert_array_equal(found.rig.left.distortion, [-0.1, 0.01, 0.001, -0.002, 0.0])


def test_ros_messages_and_block_lists_are_understood_too(tmp_path: Path) -> None:
    message = (
        "header:\n  seq: 0\n  frame_id: 'left'\nheight: 480\nwidth: 640\ndistortion_model: plumb_bob\n"
        "d:\n- 0.0\n- 0.0\n- 0.0\n- 0.0\n- 0.0\n"
        "k: [500.0, 0.0, 320.0, 0.0, 500.0, 240.0, 0.0, 0.0, 1.0]\nr: [1, 0, 0, 0, 1, 0, 0, 0, 1]\n"
        "p:\n- 500.0\n- 0.0\n- 320.0\n- {shift}\n- 0.0\n- 500.0\n- 240.0\n- 0.0\n- 0.0\n- 0.0\n- 1.0\n- 0.0\n---\n"
    )
    left = written(tmp_path, message.format(shift="0.0"), "left.yaml")
    right = written(tmp_path, message.format(shift="-25.0"), "right.yaml")

    assert read_calibration(left, right).baseline == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("binning_x: 2\nbinning_y: 2", (250.0, 159.75, 119.75, 320, 240)),  # (c + 1/2) / 2 - 1/2
        # A quarter of the image, of the same proportions: it is not the image at half the size.
        ("roi: {x_offset: 160, y_offset: 120, width: 320, height: 240, do_rectify: false}", (500, 160, 120, 320, 240)),
        ("binning_x: 0\nroi:\n  x_offset: 0\n  y_offset: 0\n  width: 0\n  height: 0", (500, 320, 240, 640, 480)),
    ],
)
def test_binning_and_region_in_ros_files_are_heeded(tmp_path: Path, part: str, expected: tuple[float, ...]) -> None:
    for side, place in (("left", 0), ("right", -60)):
        (tmp_path / f"{side}.yaml").write_text(
            f"width: 640\nheight: 480\nk: [500, 0, 320, 0, 500, 240, 0, 0, 1]\n{part}\n"
            f"p: [500, 0, 320, {place}, 0, 500, 240, 0, 0, 0, 1, 0]\n"
        )

    found = read_calibration(tmp_path / "left.yaml", tmp_path / "right.yaml")

    assert (found.fx, found.cx, found.cy, found.width, found.height) == expected
    assert found.baseline == pytest.approx(0.12)


def test_one_ros_file_alone_is_refused_with_what_to_do(tmp_path: Path) -> None:
    assert "right camera" in refusal(written(tmp_path, ROS_LEFT, "left.yaml"))


def test_swapped_ros_files_are_noticed(tmp_path: Path) -> None:
    left, right = written(tmp_path, ROS_LEFT, "left.yaml"), written(tmp_path, ROS_RIGHT, "right.yaml")

    assert "swapped" in refusal(right, left)


@pytest.mark.parametrize("suffix", ["yml", "xml"])
def test_what_opencv_stores_is_read(tmp_path: Path, suffix: str) -> None:
    rig = example_rig()
    turned = rectified_rig(rig)
    path = store(tmp_path / f"stereo.{suffix}", image_width=WIDTH, image_height=HEIGHT, **rig, **turned)

    found = read_calibration(path)

    assert found.fx == pytest.approx(turned["P1"][0, 0])
    assert found.baseline == pytest.approx(-turned["P2"][0, 3] / turned["P2"][0, 0])
    assert found.baseline == pytest.approx(float(np.linalg.norm(rig["T"])), rel=1e-6)  # the cameras' distance
    assert (found.cx, found.cy) == (pytest.approx(turned["P1"][0, 2]), pytest.approx(turned["P1"][1, 2]))
    assert found.rig is not None
    np.testing.assert_allclose(found.rig.right.matrix, rig["K2"])
    np.testing.assert_allclose(found.rig.left.rotation, turned["R1"])


@pytest.mark.parametrize("suffix", ["yml", "xml"])
@pytest.mark.parametrize(
    "keys", [("P1", "P2"), ("Q",), ("K1", "D1", "K2", "D2", "R", "T")], ids=["projections", "Q", "cameras"]
)
def test_any_sufficient_part_of_it_gives_the_same(tmp_path: Path, suffix: str, keys: tuple[str, ...]) -> None:
    everything = {**example_rig(), **rectified_rig(example_rig())}
    path = store(tmp_path / f"part.{suffix}", **{key: everything[key] for key in keys})

    found = read_calibration(path, size=(WIDTH, HEIGHT))

    expected = Calibration.from_q(everything["Q"])
    for name in ("fx", "cx", "cy", "baseline", "doffs"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-9, abs=1e-9), name


def test_yaml_of_opencv_4_has_its_own_directive(tmp_path: Path) -> None:
    turned = rectified_rig(example_rig())
    path = store(tmp_path / "rig.yml", P1=turned["P1"], P2=turned["P2"])
    content = path.read_text().split("---\n", 1)[1]

    found = read_calibration(written(tmp_path, "%YAML:1.0\n---\n" + content))

    assert found == read_calibration(path)


def test_the_two_files_of_opencvs_sample_are_read_together(tmp_path: Path) -> None:
    rig = example_rig()
    names = {"K1": "M1", "D1": "D1", "K2": "M2", "D2": "D2"}
    inner = store(tmp_path / "intrinsics.yml", **{names[key]: rig[key] for key in names})
    outer = store(tmp_path / "extrinsics.yml", R=rig["R"], T=rig["T"], **rectified_rig(rig))

    found = read_calibration(inner, outer)

    assert found.baseline == pytest.approx(float(np.linalg.norm(rig["T"])), rel=1e-6)
    assert found.rig is not None


def test_opencv_lengths_in_millimeters_are_asked_for_and_then_converted(tmp_path: Path) -> None:
    rig = example_rig()
    rig["T"] = 1000 * rig["T"]
    path = store(tmp_path / "mm.yml", **rectified_rig(rig))

    assert "unit" in refusal(path)
    assert read_calibration(path, unit="mm").baseline == pytest.approx(float(np.linalg.norm(rig["T"])) / 1000, rel=1e-6)


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("", "empty"),
        ("hello world\n", "'hello world'"),
        ("color: red\n", "color"),
        (MIDDLEBURY.replace("baseline=176.252", "baseline=nan"), "line 4: 'nan' in baseline"),
        (MIDDLEBURY.replace("baseline=176.252", "baseline=-176"), "swapped"),
        (MIDDLEBURY.replace("baseline=176.252\n", ""), "'baseline' is missing"),
        (
            MIDDLEBURY.replace("baseline=176.252", "baseline=176.252\nbaseline=99"),
            "line 5: 'baseline' is given again after line 4",
        ),
        (MIDDLEBURY.replace("doffs=53.271", "doffs=3.271"), "line 3: doffs is 3.271"),
        (MIDDLEBURY.replace("width=718", "width=718.5"), "line 5: width is 718.5"),
        (MIDDLEBURY.replace("cam0=[1038.018 0", "cam0=[1038.018"), "line 1: cam0 is"),
        (MIDDLEBURY.replace("cam0=[1038.018 0", "cam0=[1038.018 2"), "line 1: cam0 is"),
        (MIDDLEBURY.replace("cam1=[1038.018", "cam1=[1030.018"), "line 2"),
        (KITTI_RAW.replace("P_rect_03: 7.2", "P_rect_03: 7.5"), "one rectified pair"),
        (KITTI_RAW.replace("-3.390000e+02 0", "0"), "P_rect_03 has 11 numbers instead of 12"),
        (KITTI_OBJECT.replace("P3:", "P9:"), "'P3' is missing"),
        ("500 320 240 0.12\n", "4 words"),
        ("500 320 240 120 0\n", "The baseline is 120"),
        ("500 320 240 0x1 0\n", "line 1: '0x1'"),
        ("fx 500\nfx 501\n", "line 2: 'fx' is given again"),
        ("0 320 240 0.1 0\n", "fx = 0 px"),
        ("1e-300 320 240 0.1 0\n", "fx = 1e-300 px; it must be above 1e-06"),
        ("500 320 240 1e-300 0\n", "baseline = 1e-300 m; it must be above 1e-06"),
        ("1e300 320 240 0.1 0\n", "line 1: '1e300' in fx"),
        ("P1:\n  rows: 3\n  cols: 4\n  data: [1, 2\nP2: 3\n", "line 5: This is not valid YAML"),
        ("P1: [1, 2]\nP2: [1, 2]\n", "P1 has 2 numbers"),
        ("P1: {rows: 3}\n", "line 1"),
        ("P1:\n  rows: 1\n  cols: 1\n  data: [1]\n  more: 2\nP2: [1]\n", "line 5: 'more' in P1"),
        ("P1: [1]\nP,2: [2]\n", "line 2: A key is not a plain name"),
        ("P1: &a [1]\n", "line 1: Anchors and aliases"),
        ("a: 1\nP1: *a\n", "line 2: Anchors and aliases"),
        ("P1: [1]\nP2: [2]\nP1: [3]\n", "line 3: 'P1' is given again after line 1"),
        ("P1: [1]\n---\nP1: [1]\n", "second document"),
        ("Q: [1_0, '1', 0x10]\n", "something else than plain numbers"),
        ("Q:\n- 1\n- {a: 2}\n", "line 3: A list holds"),
        ("---\n- 1\nP1: 2\n", "line 3: This is not valid YAML"),
        ("%YAML:1.0\n---\n- 1\n", "no keys"),
        (f"Q: [{'1_0, ' * 16}]\n", "'1_0' in Q"),
        (f"Q: {'[' * 12}1{']' * 12}\n", "nested too deeply"),
        ("K1: [1]\n  K2: [1]\n", "line 2"),
        ("<?xml version='1.0'?>\n<opencv_storage>\n<P1>\n", "line"),
        ("<!DOCTYPE a [<!ENTITY b 'c'>]><opencv_storage/>", "document type"),
        ("<html/>", "<html>"),
        ("<opencv_storage>stray<P1>1</P1></opencv_storage>", "line 1: <opencv_storage>"),
        ("500 320 :240 0.12 0\n", "':240' in cy"),
    ],
)
def test_a_bad_file_is_refused_and_the_message_says_where(tmp_path: Path, content: str, found: str) -> None:
    assert found in refusal(written(tmp_path, content))


def test_an_unknown_file_is_told_which_kinds_exist(tmp_path: Path) -> None:
    message = refusal(written(tmp_path, "this is a poem\n"))

    for kind in ("Middlebury", "OpenCV", "KITTI", "ROS", "fx cx cy baseline doffs"):
        assert kind in message


def test_a_matrix_that_claims_to_be_huge_is_refused_at_once(tmp_path: Path) -> None:
    content = ROS_LEFT.replace("rows: 3\n  cols: 4", "rows: 1000000000\n  cols: 1000000000")

    assert "1e+09 x 1e+09" in refusal(written(tmp_path, content, "l.yaml"), written(tmp_path, ROS_RIGHT, "r.yaml"))


def test_missing_files_folders_and_pictures_are_refused(tmp_path: Path) -> None:
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\xff\xfe")

    assert "No such file" in refusal(tmp_path / "none.txt")
    assert "folder" in refusal(tmp_path)
    assert "not text" in refusal(tmp_path / "picture.png")


def test_a_unit_is_refused_where_the_format_has_its_own(tmp_path: Path) -> None:
    assert "always in mm" in refusal(written(tmp_path, MIDDLEBURY), unit="m")
    with pytest.raises(InputError, match="one of m, cm, mm"):
        read_calibration(written(tmp_path, PLAIN), unit="inch")


def test_q_of_another_calibration_is_noticed(tmp_path: Path) -> None:
    turned = rectified_rig(example_rig())
    turned["Q"][2, 3] *= 1.01

    assert "two calibrations" in refusal(store(tmp_path / "mixed.yml", **turned))


def test_cameras_above_each_other_are_refused(tmp_path: Path) -> None:
    rig = example_rig()
    rig["T"] = np.array([[0.0], [-0.1], [0.0]])

    assert "side by side" in refusal(store(tmp_path / "tall.yml", **rectified_rig(rig)))


# --- resizing and cropping ------------------------------------------------------------------------------------------


def test_q_is_opencvs(tmp_path: Path) -> None:
    turned = rectified_rig(example_rig())
    found = read_calibration(store(tmp_path / "p.yml", P1=turned["P1"], P2=turned["P2"]))

    np.testing.assert_allclose(found.q, turned["Q"], rtol=1e-9, atol=1e-9)


def project(calibration: Calibration, point: np.ndarray) -> tuple[float, float, float]:
    """Column, row and disparity at which a point is seen, by the pinhole camera's definition."""
    x, y, z = point
    column = calibration.fx * x / z + calibration.cx
    right = calibration.fx * (x - calibration.baseline) / z + calibration.cx + calibration.doffs
    return column, calibration.fy * y / z + calibration.cy, column - right


def test_a_resized_calibration_sees_points_where_the_resized_image_has_them() -> None:
    point = np.array([0.3, -0.2, 2.5])
    x, y, d = project(CALIBRATION, point)

    small = project(CALIBRATION.resized(320, 160), point)

    # A pixel covers [x - 1/2, x + 1/2]: its edges scale, so the center of the first is (0 + 1/2) s - 1/2.
    assert small == pytest.approx(((x + 0.5) / 2 - 0.5, (y + 0.5) / 3 - 0.5, d / 2))


def test_a_cropped_calibration_sees_points_in_the_part() -> None:
    point = np.array([0.3, -0.2, 2.5])
    x, y, d = project(CALIBRATION, point)

    assert project(CALIBRATION.cropped(100, 50, 200, 300), point) == pytest.approx((x - 100, y - 50, d))
    # The right view's part begins at column 90, so there the point lies at x - d - 90.
    part = CALIBRATION.cropped(100, 50, 200, 300, right_x=90)
    assert project(part, point) == pytest.approx((x - 100, y - 50, (x - 100) - (x - d - 90)))


def test_images_resized_as_a_whole_are_recognized_and_others_refused() -> None:
    assert CALIBRATION.for_image(640, 480) == CALIBRATION
    assert CALIBRATION.for_image(320, 240) == CALIBRATION.resized(320, 240)
    with pytest.raises(InputError, match="640 x 480"):
        CALIBRATION.for_image(640, 360)


@pytest.mark.parametrize(
    "part", [(-1, 0, 10, 10), (0, 0, 641, 10), (0, 470, 10, 11), (0, 0, 0, 5)], ids=["left", "wide", "low", "empty"]
)
def test_a_part_outside_the_image_is_refused(part: tuple[int, int, int, int]) -> None:
    with pytest.raises(InputError, match=re.escape("640 x 480")):
        CALIBRATION.cropped(*part)


@pytest.mark.parametrize("right_x", [-1, 441])
def test_a_part_of_the_right_view_outside_the_image_is_refused(right_x: int) -> None:
    with pytest.raises(InputError, match=re.escape(f"at ({right_x}, 50) does not lie in an image of 640 x 480")):
        CALIBRATION.cropped(100, 50, 200, 300, right_x=right_x)


@pytest.mark.parametrize("scale", [0.25, 0.5, 2.0])
def test_a_calibration_without_a_size_is_doubted_where_the_images_have_another(scale: float) -> None:
    """Nothing tells the size of the calibrated images but the principal point, which is near the middle of them."""
    known = Calibration(fx=500.0, fy=500.0, cx=310.0, cy=247.0, baseline=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for width, height in ((640, 480), (600, 480), (640, 240)):  # the last is a crop, not a resized image
            known.for_image(width, height)

    with pytest.warns(PairWarning, match="does not say the size"):
        known.for_image(round(640 * scale), round(480 * scale))


@pytest.mark.parametrize("stored", ["before", "rectified too"])
def test_a_rig_without_a_size_is_doubted_where_the_images_have_another(tmp_path: Path, stored: str) -> None:
    rig = example_rig()
    path = store(tmp_path / "rig.yml", **rig, **(rectified_rig(rig) if stored == "rectified too" else {}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Rectifier(read_calibration(path, size=(WIDTH, HEIGHT)), WIDTH, HEIGHT)

    with pytest.warns(PairWarning, match="does not say the size"):
        Rectifier(read_calibration(path, size=(WIDTH // 2, HEIGHT // 2)), WIDTH // 2, HEIGHT // 2)


def test_the_report_names_every_unit() -> None:
    report = CALIBRATION.as_dict()

    assert report["baseline_m"] == 0.12
    assert report["depth_unit"] == "m"
    assert all(key.endswith(("_px", "_m")) or key in ("source", "depth_unit") for key in report)


def test_opencv_agrees_on_where_points_lie() -> None:
    # The convention that doffs enters with: cv2 with two cameras of different cx.
    point = np.array([[0.3, -0.2, 2.5]])
    K = np.array([[500.0, 0, 320], [0, 510, 240], [0, 0, 1]])
    other = K + np.array([[0, 0, 7.0], [0, 0, 0], [0, 0, 0]])
    left = cv2.projectPoints(point, np.zeros(3), np.zeros(3), K, np.zeros(5))[0].reshape(2)
    right = cv2.projectPoints(point, np.zeros(3), np.array([-0.12, 0, 0]), other, np.zeros(5))[0].reshape(2)

    assert project(CALIBRATION, point[0]) == pytest.approx((left[0], left[1], left[0] - right[0]))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [({"fx": "500"}, "not a number"), ({"baseline": None}, "not a number"), ({"cx": True}, "not a number"),
     ({"width": 640.5}, "not a size")],
)  # fmt: skip
def test_what_is_no_number_is_refused_in_words(wrong: dict[str, object], words: str) -> None:
    numbers = {"fx": 500.0, "fy": 500, "cx": np.float32(320), "cy": 240.0, "baseline": 0.1, "width": 640, "height": 480}

    Calibration(**numbers)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=words):
        Calibration(**{**numbers, **wrong})  # type: ignore[arg-type]
