"""The readable reference of one junction, held to polar angles, weighted means and sums done by hand."""

import math

import numpy as np
import pytest
from agreement import assert_maps_agree

from scotopic.stages.junctions.geometry import (
    boundary,
    distances,
    objective,
    pixel_coordinates,
    reconstruction,
    sector_angles,
    soft_step,
    wedge_colors,
    wedges,
)

PI = math.pi
# The angles of these three are explained by polar angles: rays right (0), down (pi/2), left (pi), up (3 pi/2).
EDGE = np.array([PI / 2, PI / 2, 3 * PI / 2, 0.0, 0.0])  # upright, through the middle
CORNER = np.array([0.0, 0.0, PI / 2, 0.0, 0.0])  # the lower right quarter
FLAT = np.array([1.0, 1.0, 1.0, 0.2, -0.3])


def random_junctions(count: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    return np.concatenate([random.uniform(-10, 10, (count, 3)), random.uniform(-2, 2, (count, 2))], axis=1)


def wedges_of(parameters: np.ndarray, patch_size: int) -> np.ndarray:
    return wedges(*distances(parameters, patch_size))


def test_columns_are_x_and_rows_are_y_from_minus_one_to_one() -> None:
    x, y = pixel_coordinates(3)

    np.testing.assert_array_equal(x, [[-1, 0, 1]] * 3)
    np.testing.assert_array_equal(y, np.transpose([[-1, 0, 1]] * 3))


@pytest.mark.parametrize("patch_size", [2, 7, 40])
def test_the_wedges_of_any_junction_are_shares_that_sum_to_one(patch_size: int) -> None:
    u = wedges_of(random_junctions(50), patch_size)

    assert u.shape == (50, 3, patch_size, patch_size)
    assert (u >= 0).all()
    assert_maps_agree(u.sum(axis=1), np.ones((50, patch_size, patch_size)), 1e-12)


def test_each_pixel_belongs_to_the_sector_that_its_polar_angle_lies_in() -> None:
    random = np.random.default_rng(1)
    x, y = pixel_coordinates(41)
    for _ in range(50):
        gaps = 0.4 + random.dirichlet([1, 1, 1]) * (2 * PI - 1.2)  # three sectors, none narrower than 0.4
        t1 = random.uniform(0, gaps[2])
        t2, t3 = t1 + gaps[0], t1 + gaps[0] + gaps[1]
        x0, y0 = random.uniform(-0.5, 0.5, 2)
        turns = 2 * PI * random.integers(-2, 3, 3)
        parameters = np.array([*random.permutation(np.array([t1, t2, t3]) + turns), x0, y0])

        u = wedges_of(parameters, 41)

        polar, radius = np.mod(np.arctan2(y - y0, x - x0), 2 * PI), np.hypot(x - x0, y - y0)
        # From t1 to t2 is the third wedge, from t2 to t3 the second; the first is the rest, where t4 is.
        expected = np.where((polar >= t1) & (polar < t2), 2, np.where((polar >= t2) & (polar < t3), 1, 0))
        from_rays = np.min([np.abs(np.angle(np.exp(1j * (polar - t)))) for t in (t1, t2, t3)], axis=0)
        clear = radius * np.sin(np.minimum(from_rays, PI / 2)) > 0.05
        assert clear.mean() > 0.5
        np.testing.assert_array_equal(u.argmax(axis=0)[clear], expected[clear])


def test_two_opposite_rays_and_a_doubled_one_are_an_edge() -> None:
    u = wedges_of(EDGE, 40)

    x, _ = pixel_coordinates(40)
    assert_maps_agree(u[0], np.where(x > 0, 1, 0), 0.15)  # soft within a few eta of the edge ...
    assert_maps_agree(u[0], 0.5 + np.arctan(x / 0.01) / PI, 1e-9)  # ... by this much
    nearest = 0.5 + math.atan(1 / 39 / 0.01) / PI  # h at the pixels next to the edge
    assert (
        u[2].max() <= nearest * (1 - nearest) + 1e-9
    )  # the third wedge lies where the first two blend, and only there
    assert u[2][:, 10:18].max() < 0.04


def test_two_rays_at_a_right_angle_and_a_doubled_one_are_a_corner() -> None:
    u = wedges_of(CORNER, 41)

    x, y = pixel_coordinates(41)
    clear = np.minimum(np.abs(x), np.abs(y)) > 0.1
    np.testing.assert_array_equal(u.argmax(axis=0)[clear], np.where((x > 0) & (y > 0), 1, 0)[clear])


def test_three_equal_rays_are_flat() -> None:
    u = wedges_of(FLAT, 40)

    # d13 = min(l, -l) - 0.1 is at most -0.1, so u1 = 1 - h(d13) is at least h(0.1).
    assert u[0].min() >= 0.5 + math.atan(10) / PI - 1e-12
    assert soft_step(np.array(0.1)) == pytest.approx(0.5 + math.atan(10) / PI)


def test_t4_is_opposite_the_middle_of_t1_and_t3() -> None:
    t1, t2, t3, t4 = sector_angles(np.array([5.0, -1.0 - 2 * PI, 2.0 + 4 * PI, 0.0, 0.0]))

    np.testing.assert_allclose([t1, t2, t3], [2.0, 5.0, 2 * PI - 1.0])  # wrapped, then sorted
    assert t4 == pytest.approx((2.0 + 2 * PI - 1.0) / 2 + PI)


def test_t4_is_not_turned_round_where_t1_equals_t3() -> None:
    t1, _, t3, t4 = sector_angles(np.array([[2.0, 2.0, 2.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0, 1.0]]))

    np.testing.assert_array_equal(t4, [2.0, 0.0])
    np.testing.assert_array_equal(t1, t3)


@pytest.mark.parametrize("opening", [0.01, 0.3, 3.0, 5.5, 6.27])
def test_the_lift_is_what_remains_at_the_vertex(opening: float) -> None:
    parameters = np.array([0.005, 0.005 + opening / 3, 0.005 + opening, 0.0, 0.0])

    d13, d42 = distances(parameters, 41)

    # Both lines pass through the vertex, the middle pixel. t4 to t2 opens by t2 - (t1 + t3)/2 - pi, one turn added.
    assert d13[20, 20] == pytest.approx(0.1 * (opening / PI - 1) ** 35, abs=1e-12)
    assert d42[20, 20] == pytest.approx(0.1 * ((opening / 3 - opening / 2 + PI) / PI - 1) ** 35, abs=1e-12)


def test_a_narrow_sector_vanishes_and_a_wide_one_does_not() -> None:
    narrow, wide = (wedges_of(np.array([1.0, 1.0, 1.0 + opening, 0.0, 0.0]), 40) for opening in (0.02, 1.0))

    # The lift of an opening of 0.02 is -0.1 (1 - 0.02/pi)^35 = -0.08; the sector is at most 0.014 wide in the patch.
    assert (1 - narrow[0]).max() < 1 - (0.5 + math.atan(6.5) / PI)
    assert (1 - wide[0]).max() > 0.9


def test_the_boundary_is_one_on_the_edge_and_falls_off_by_delta() -> None:
    b = boundary(*distances(EDGE, 41))

    x, _ = pixel_coordinates(41)
    assert_maps_agree(b[:, 20], np.ones(41), 1e-12)
    assert_maps_agree(b, 1 / (1 + (x / 0.05) ** 2), 1e-9)


def test_the_boundary_follows_all_three_rays_of_a_junction_and_nothing_else() -> None:
    b = boundary(*distances(np.array([0.0, PI / 2, PI, 0.0, 0.0]), 41))

    ones = np.zeros((41, 41), bool)
    ones[20, :] = True  # right and left
    ones[20:, 20] = True  # down, but not up
    np.testing.assert_array_equal(b > 0.999, ones)


def test_plain_colors_are_means_weighted_by_the_wedges() -> None:
    random = np.random.default_rng(2)
    u = wedges_of(random_junctions(4, seed=3), 9)
    image = random.random((4, 9, 9, 3))

    colors = wedge_colors(u, image)

    for patch, wedge in np.ndindex(4, 3):
        expected = np.average(image[patch].reshape(-1, 3), axis=0, weights=u[patch, wedge].ravel())
        np.testing.assert_allclose(colors[patch, wedge], expected, rtol=1e-6)


def test_colors_that_lean_on_the_map_solve_the_weighted_least_squares() -> None:
    random = np.random.default_rng(4)
    u = wedges_of(random_junctions(3, seed=5), 8)
    image, color_map = random.random((2, 3, 8, 8, 1))

    colors = wedge_colors(u, image, color_map, 0.3)

    for patch, wedge in np.ndindex(3, 3):
        # c minimizes sum u |I - c|^2 + lc sum u |G - c|^2
        root = np.sqrt(np.concatenate([u[patch, wedge].ravel(), 0.3 * u[patch, wedge].ravel()]))
        values = np.concatenate([image[patch].ravel(), color_map[patch].ravel()])
        expected = np.linalg.lstsq(root[:, None], root * values, rcond=None)[0]
        np.testing.assert_allclose(colors[patch, wedge], expected, rtol=1e-6)


def test_the_color_of_an_empty_wedge_is_finite() -> None:
    assert_maps_agree(wedge_colors(np.zeros((3, 2, 2)), np.ones((2, 2, 1))), np.zeros((3, 1)), 0.0)


def test_a_patch_painted_by_its_own_junction_has_no_data_term() -> None:
    u = wedges_of(CORNER, 16)
    image = reconstruction(u, np.array([[0.2, 0.4, 0.9], [0.8, 0.1, 0.3], [0.5, 0.5, 0.5]]))
    hard = np.where(pixel_coordinates(17)[0] > 0.03, 0.9, 0.1)[..., None]  # no pixel within 3 eta of the edge at 0.0625
    across = EDGE + np.array([0, 0, 0, 0.0625, 0])

    assert objective(across, hard) < 0.02 < objective(CORNER, hard)
    # Not zero: colors are means, and soft wedges mix them.
    assert objective(CORNER, image) < 1e-3


class TestFourPixels:
    """A patch of 2 x 2 pixels with an upright edge: every number can be done by hand.

    The pixels lie at x, y = -1 and 1, so d13 = -x and d42 = min(x, y) (its lift, -3e-12, aside); with
    ``a = h(1) = 1/2 + atan(100)/pi`` all wedges are products of ``a`` and ``1 - a``.
    """

    A = 0.5 + math.atan(100) / PI
    P = ((A, 1 - A), (A, 1 - A))  # h(d13)
    Q = ((1 - A, 1 - A), (1 - A, A))  # h(d42)
    IMAGE = np.array([[[0.0], [1.0]], [[0.25], [0.75]]])
    COLOR_MAP = np.array([[[0.5], [0.5]], [[0.0], [1.0]]])
    BOUNDARY_MAP = np.array([[0.5, 0.0], [1.0, 0.25]])

    def by_hand(self, color_weight: float) -> tuple[float, float]:
        """Data term and color term, pixel by pixel."""
        pixels = [(i, j) for i in range(2) for j in range(2)]
        u = {
            (i, j): (1 - self.P[i][j], self.P[i][j] * (1 - self.Q[i][j]), self.P[i][j] * self.Q[i][j])
            for i, j in pixels
        }
        c = []
        for k in range(3):
            total = sum(u[at][k] * (self.IMAGE[at][0] + color_weight * self.COLOR_MAP[at][0]) for at in pixels)
            c.append(total / ((1 + color_weight) * sum(u[at][k] for at in pixels)))
        data = sum((self.IMAGE[at][0] - sum(u[at][k] * c[k] for k in range(3))) ** 2 for at in pixels) / 4
        lean = sum(u[at][k] * (c[k] - self.COLOR_MAP[at][0]) ** 2 for at in pixels for k in range(3)) / 4
        return data, lean

    def test_the_data_term(self) -> None:
        data, _ = self.by_hand(0.0)

        assert objective(EDGE, self.IMAGE) == pytest.approx(data, abs=1e-9)
        # Hard wedges would paint the left pixels 1/8 and the right ones 7/8, and each pixel is 1/8 off.
        assert data == pytest.approx((1 / 8) ** 2, rel=0.01)

    def test_channels_are_summed_not_averaged(self) -> None:
        color = np.concatenate([self.IMAGE, 0.5 * self.IMAGE, 0 * self.IMAGE], axis=-1)

        assert objective(EDGE, color) == pytest.approx(1.25 * objective(EDGE, self.IMAGE), rel=1e-9)

    def test_the_boundary_term(self) -> None:
        value = objective(EDGE, self.IMAGE, boundary_map=self.BOUNDARY_MAP, boundary_weight=0.5)

        # Every pixel is 1 from an edge, 20 delta: b = 1/401.
        expected = 0.5 * sum((1 / 401 - b) ** 2 for b in (0.5, 0.0, 1.0, 0.25)) / 4
        assert value - objective(EDGE, self.IMAGE) == pytest.approx(expected, abs=1e-9)

    def test_the_color_term_and_the_colors_that_lean_on_the_map(self) -> None:
        data, lean = self.by_hand(0.25)

        value = objective(EDGE, self.IMAGE, color_map=self.COLOR_MAP, color_weight=0.25)

        assert value == pytest.approx(data + 0.25 * lean, abs=1e-9)

    def test_terms_of_no_weight_are_not_there(self) -> None:
        assert objective(EDGE, self.IMAGE, self.BOUNDARY_MAP, self.COLOR_MAP) == objective(EDGE, self.IMAGE)
