"""The comparison of maps fails when it should: every other test leans on it."""

import numpy as np
import pytest
from agreement import assert_maps_agree

NAN = np.nan


def test_equal_maps_and_maps_within_the_tolerance_agree() -> None:
    assert_maps_agree([[1.0, NAN, np.inf]], [[1.0, NAN, np.inf]], 0.0)
    assert_maps_agree([1.0, 2.0], [1.25, 1.75], 0.25)


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        ([1.0, 2.0], [1.0, 2.5]),
        ([1.0, NAN], [1.0, 2.0]),
        ([1.0, 2.0], [1.0, NAN]),
        ([1.0, np.inf], [1.0, -np.inf]),
        ([1.0, np.inf], [1.0, 2.0]),
    ],
)
def test_one_value_that_is_off_fails_and_is_shown(actual: list[float], expected: list[float]) -> None:
    with pytest.raises(AssertionError, match=r"1 of 2 values.*at \(1,\)"):
        assert_maps_agree(actual, expected, 0.25)


def test_the_stated_share_of_outliers_is_forgiven_and_no_more() -> None:
    expected = np.zeros(100)
    actual = expected.copy()
    actual[:5] = 7.0

    assert_maps_agree(actual, expected, 0.1, outliers=0.05)
    with pytest.raises(AssertionError, match="differ by more than"):
        assert_maps_agree(actual, expected, 0.1, outliers=0.04)


def test_maps_of_different_shapes_never_agree() -> None:
    with pytest.raises(AssertionError, match="shapes"):
        assert_maps_agree(np.zeros((2, 3)), np.zeros((3, 2)), 1.0, outliers=1.0)
