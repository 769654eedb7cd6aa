"""The rendered scene: its ground truth must explain its own two views."""

from typing import NamedTuple

import numpy as np
import pytest

from scotopic.demo import Scene, render_scene, render_sway
from scotopic.errors import SettingsError


class View(NamedTuple):
    """One view with the other beside it; `toward` is the sign in ``x_other = x + toward * d``."""

    image: np.ndarray
    disparity: np.ndarray
    visible: np.ndarray
    other_image: np.ndarray
    other_disparity: np.ndarray
    toward: int

    def partner(self, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Column left of each pixel's partner in the other view, weight of the next column, and whether in frame."""
        width = self.disparity.shape[1]
        x = np.arange(width) + self.toward * self.disparity.astype(np.float64) + shift
        column = np.clip(np.floor(x).astype(int), 0, width - 2)
        return column, np.clip(x - column, 0, 1), (x >= 0) & (x <= width - 1)

    def warped(self, shift: float = 0.0) -> np.ndarray:
        """The other image brought into this view by the ground truth, linearly interpolated."""
        column, weight, _ = self.partner(shift)
        rows = np.arange(column.shape[0])[:, None]
        weight = weight[..., None]
        first, second = self.other_image[rows, column], self.other_image[rows, column + 1]
        return np.asarray((1 - weight) * first + weight * second)

    def other_disparities(self) -> tuple[np.ndarray, np.ndarray]:
        """The other view's ground truth in the two columns around each pixel's partner."""
        column, _, _ = self.partner()
        rows = np.arange(column.shape[0])[:, None]
        return self.other_disparity[rows, column], self.other_disparity[rows, column + 1]


@pytest.fixture(scope="module")
def scene() -> Scene:
    return render_scene()


@pytest.fixture(params=["left", "right"])
def view(request: pytest.FixtureRequest, scene: Scene) -> View:
    left = (scene.left, scene.disparity_left, scene.visible_left)
    right = (scene.right, scene.disparity_right, scene.visible_right)
    if request.param == "left":
        return View(*left, *right[:2], toward=-1)
    return View(*right, *left[:2], toward=1)


def test_a_frame_of_swaying_cameras_is_a_rectified_pair_of_its_own() -> None:
    scene = render_sway(4, 96, 64)
    view = View(scene.left, scene.disparity_left, scene.visible_left, scene.right, scene.disparity_right, toward=-1)

    seen = view.visible & view.partner()[2]
    first, second = view.other_disparities()
    assert np.median(np.minimum(abs(first - view.disparity), abs(second - view.disparity))[seen]) < 0.05
    np.testing.assert_array_equal(render_sway(0, 96, 64).left, render_scene(96, 64).left)
    np.testing.assert_allclose(render_sway(12, 96, 64).left, render_scene(96, 64).left, atol=1e-3)  # it is back
    assert abs(scene.left - render_scene(96, 64).left).mean() > 0.02  # and was elsewhere


def test_views_and_truth_have_the_size_asked_for_and_no_gaps() -> None:
    scene = render_scene(96, 64)

    for image in (scene.left, scene.right):
        assert (image.shape, image.dtype.name) == ((64, 96, 3), "float32")
        assert image.min() >= 0.0
        assert image.max() <= 1.0
    for disparity in (scene.disparity_left, scene.disparity_right):
        assert (disparity.shape, disparity.dtype.name) == ((64, 96), "float32")
        assert disparity.min() > 0
    for visible in (scene.visible_left, scene.visible_right):
        assert (visible.shape, visible.dtype.name) == ((64, 96), "bool")


@pytest.mark.parametrize(("width", "height"), [(32, 32), (48, 96), (400, 40)])
def test_every_pixel_shows_something_in_any_frame(width: int, height: int) -> None:
    scene = render_scene(width, height)

    assert scene.disparity_left.min() > 0
    assert scene.disparity_right.min() > 0


def test_disparities_run_from_about_4_to_40_px(scene: Scene) -> None:
    assert 4 <= scene.disparity_left.min() <= 6
    assert 35 <= scene.disparity_left.max() <= 42


def test_disparities_scale_with_the_width() -> None:
    small, large = render_scene(48, 32), render_scene(96, 64)

    assert large.disparity_left.min() == pytest.approx(2 * small.disparity_left.min(), rel=1e-6)


def test_the_other_view_brought_over_by_the_truth_shows_the_same(view: View) -> None:
    error = np.abs(view.warped() - view.image).mean(axis=2)[view.visible]

    # Only pixels cut by an edge differ: there the two views blend what they see in other shares.
    assert np.mean(error < 0.1) > 0.98
    # A truth that were 2 px off in either direction would explain the views far worse.
    for shift in (-2.0, 2.0):
        assert np.abs(view.warped(shift) - view.image).mean(axis=2)[view.visible].mean() > 5 * error.mean()


def test_the_truths_of_the_two_views_agree_where_both_see_a_point(view: View) -> None:
    first, second = view.other_disparities()
    _, weight, _ = view.partner()
    one_surface = view.visible & (np.abs(first - second) < 0.25)

    # On one plane disparity is linear along a row, so interpolating it is exact; at creases it is off by a little.
    error = np.abs((1 - weight) * first + weight * second - view.disparity)[one_surface]

    assert one_surface.sum() > 0.97 * view.visible.sum()
    assert error.max() < 0.25
    assert np.mean(error < 1e-3) > 0.98


def test_what_is_hidden_lies_behind_something_nearer_in_the_other_view(view: View) -> None:
    first, second = view.other_disparities()
    _, _, in_frame = view.partner()
    hidden = in_frame & ~view.visible

    assert hidden.sum() > 1000
    assert np.all(np.maximum(first, second)[hidden] > view.disparity[hidden])


def test_what_falls_outside_the_other_frame_is_not_visible(view: View) -> None:
    _, _, in_frame = view.partner()

    assert np.count_nonzero(~in_frame) > 1000
    assert not np.any(view.visible[~in_frame])


def test_the_scene_is_made_of_planes_some_of_them_slanted(scene: Scene) -> None:
    disparity = scene.disparity_left.astype(np.float64)
    flat_steps_x = np.abs(np.diff(disparity, n=2, axis=1)) < 1e-4
    flat_steps_y = np.abs(np.diff(disparity, n=2, axis=0)) < 1e-4

    assert flat_steps_x.mean() > 0.95
    assert flat_steps_y.mean() > 0.95
    # Along a row, and down a column: slanted by more than rounding and less than an edge, over much of the image.
    for axis in (0, 1):
        slope = np.abs(np.diff(disparity, axis=axis))
        assert np.mean((slope > 0.01) & (slope < 0.5)) > 0.2


def test_a_thin_pole_stands_in_front_of_everything_in_the_upper_half(scene: Scene) -> None:
    row = scene.disparity_left[20]
    nearest = np.flatnonzero(row == row.max())

    assert 4 <= nearest.size <= 16
    assert np.all(np.diff(nearest) == 1)
    assert np.delete(row, nearest).max() < row.max() / 2


def test_the_picture_has_contrast_enough_to_survive_few_photons(scene: Scene) -> None:
    height, width = scene.left.shape[:2]
    block_means = scene.left.mean(axis=2).reshape(height // 16, 16, width // 16, 16).mean(axis=(1, 3))

    # Noise of a 16 x 16 block mean over three channels at photon level 2: 0.45 / sqrt(768), against a response slope of
    # 0.34 that amounts to 0.05 of intensity.
    assert block_means.std() > 3 * 0.05


def test_the_seed_decides_the_scene() -> None:
    first, again, other = render_scene(64, 48, seed=1), render_scene(64, 48, seed=1), render_scene(64, 48, seed=2)

    np.testing.assert_array_equal(first.left, again.left)
    np.testing.assert_array_equal(first.disparity_right, again.disparity_right)
    assert np.any(first.disparity_left != other.disparity_left)
    assert np.abs(first.left - other.left).mean() > 0.01


@pytest.mark.parametrize("arguments", [(31, 64, 0), (64, 31, 0), (64, 129, 0), (64, 64, -1), (64.5, 64, 0)])
def test_a_size_or_seed_out_of_range_is_refused(arguments: tuple[int, int, int]) -> None:
    with pytest.raises(SettingsError, match="at least 32 x 32"):
        render_scene(*arguments)


def test_one_baseline_to_the_right_the_left_camera_sees_what_the_right_one_saw() -> None:
    pose = np.eye(4)
    pose[0, 3] = 1.0

    moved, scene = render_scene(96, 64, pose=pose), render_scene(96, 64)

    np.testing.assert_allclose(moved.left, scene.right, atol=1e-6)
    np.testing.assert_allclose(moved.disparity_left, scene.disparity_right, atol=1e-4)


def test_a_camera_that_looks_up_by_some_rows_sees_the_picture_that_much_lower() -> None:
    # Turned about its own center, a point keeps its ray: the middle column moves by f tan(angle) at the horizon.
    width, rows = 128, 6
    c = render_scene(width, 64).calibration
    angle = np.arctan(rows / c.fx)
    pose = np.eye(4)
    pose[1:3, 1:3] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]

    # A camera whose axis points along (0, -sin, cos) sees the old horizon `rows` lower. y is down.
    turned, scene = render_scene(width, 64, pose=pose), render_scene(width, 64)
    horizon, middle = round(c.cy), width // 2

    depth_then = c.fx / scene.disparity_left[horizon, middle]
    depth_now = c.fx / turned.disparity_left[horizon + rows, middle]
    np.testing.assert_allclose(depth_now, depth_then * np.cos(angle), rtol=2e-3)


def test_the_calibration_turns_the_truth_into_the_room() -> None:
    # The floor is a plane five baselines below the camera.
    scene = render_scene(160, 100)
    c = scene.calibration
    row, column = 98, 100

    height = (row - c.cy) / c.fy * c.fx * c.baseline / (scene.disparity_left[row, column] + c.doffs)

    np.testing.assert_allclose(height, 5.0, rtol=1e-5)
