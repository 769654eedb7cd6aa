"""What a match refuses, and in which words."""

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from match_pairs import QUICK, shifted_pair
from pictures import draw_blocks

import scotopic
from scotopic import ScotopicError
from scotopic.errors import DeviceError, InputError, SettingsError
from scotopic.io import write_png


def refusal(left: Any, right: Any, kind: type[ScotopicError], **overrides: Any) -> str:
    """The message with which a pair is refused: one line."""
    with pytest.raises(kind) as caught:
        scotopic.match(left, right, **overrides)
    message = str(caught.value)
    assert "\n" not in message
    return message


def good() -> np.ndarray:
    return draw_blocks(48, 64, 3)


@pytest.mark.parametrize("side", ["left", "right"])
class TestBadImages:
    def refused(self, side: str, bad: Any) -> str:
        message = refusal(*((bad, good()) if side == "left" else (good(), bad)), kind=InputError)
        assert f"{side} image" in message
        return message

    def test_a_missing_file_is_named(self, side: str, tmp_path: Path) -> None:
        assert "nowhere.png" in self.refused(side, tmp_path / "nowhere.png")

    def test_an_unreadable_file_is_named(self, side: str, tmp_path: Path) -> None:
        (tmp_path / "text.png").write_text("not an image")

        assert "text.png" in self.refused(side, str(tmp_path / "text.png"))

    def test_a_file_with_alpha_is_named(self, side: str, tmp_path: Path) -> None:
        cv2.imwrite(str(tmp_path / "alpha.png"), np.full((48, 64, 4), 9, np.uint8))

        message = self.refused(side, tmp_path / "alpha.png")

        assert "alpha.png" in message
        assert "remove alpha" in message

    @pytest.mark.parametrize("channels", [2, 4])
    def test_two_or_four_channels_are_counted(self, side: str, channels: int) -> None:
        assert f"(48, 64, {channels})" in self.refused(side, np.zeros((48, 64, channels), np.float32))

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    def test_values_that_are_not_finite_are_located(self, side: str, value: float) -> None:
        image = good()
        image[7, 11, 1] = value

        message = self.refused(side, image)

        assert "NaN or infinite" in message
        assert "row 7, column 11" in message

    def test_floats_of_another_scale_are_recognized(self, side: str) -> None:
        assert "Divide them by full scale" in self.refused(side, 255 * good())

    def test_what_is_no_image_is_named_by_its_type(self, side: str) -> None:
        assert "NoneType" in self.refused(side, None)
        assert "list" in self.refused(side, [[1.0, 2.0]])


@pytest.mark.parametrize("shape", [(48, 65, 3), (47, 64, 3), (48, 64, 1), (48, 64)])
def test_views_that_differ_are_refused_with_both_sizes(shape: tuple[int, ...]) -> None:
    message = refusal(good(), np.zeros(shape, np.float32), InputError)

    assert "64 x 48 px with 3 channel(s)" in message
    assert f"{shape[1]} x {shape[0]} px with {(*shape, 1)[2]} channel(s)" in message


def test_views_smaller_than_a_patch_are_refused_and_told_about_patch_size(tmp_path: Path) -> None:
    small = good()[:27]
    write_png(tmp_path / "small.png", np.round(255 * small).astype(np.uint8))

    message = refusal(small, small, InputError)
    assert "64 x 27 px" in message
    assert "28 x 28 px" in message
    assert "patch_size" in message
    assert "small.png" in refusal(tmp_path / "small.png", tmp_path / "small.png", InputError)


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ({"max_disparity": 0}, "must be above"),
        ({"min_disparity": 5, "max_disparity": 5}, "must be above"),
        ({"min_disparity": 9, "max_disparity": 5}, "must be above"),
        ({"max_disparity": -5}, "must be above"),
        ({"max_disparity": 65}, "64 px wide"),
        ({"min_disparity": -65, "max_disparity": 3}, "64 px wide"),
        ({"min_disparity": 64}, "64 px wide"),
    ],
)
def test_a_disparity_range_that_makes_no_sense_is_refused(chosen: dict[str, int], words: str) -> None:
    message = refusal(good(), good(), SettingsError, **chosen)

    assert "disparity" in message
    assert words in message


def test_a_range_as_wide_as_the_image_is_accepted() -> None:
    left, right = shifted_pair(6)

    result = scotopic.match(left, right, **{**QUICK, "max_disparity": 96})

    assert result.settings.matching.max_disparity == 96


def test_an_unknown_preset_is_refused_with_those_there_are() -> None:
    message = refusal(good(), good(), SettingsError, preset="nice")

    assert "'nice'" in message
    assert "paper, fast" in message


def test_an_unknown_setting_is_refused_by_name_with_those_there_are() -> None:
    message = refusal(good(), good(), SettingsError, max_disparties=64)

    assert "'max_disparties'" in message
    assert "max_disparity" in message


def test_a_setting_out_of_range_is_refused_by_name() -> None:
    message = refusal(good(), good(), SettingsError, preset="fast", boundary_threshold=2)

    assert "boundary_threshold" in message
    assert "between 0 and 1, not 2" in message


def test_a_setting_of_another_pipeline_is_refused_by_name() -> None:
    message = refusal(good(), good(), SettingsError, preset="best", mask_right=True)

    assert "'best' does not use the setting 'mask_right'" in message
    assert "paper and fast" in message


def test_cuda_is_refused_with_what_to_do_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scotopic.backends.device.why_no_gpu", lambda: "no GPU here")

    message = refusal(good(), good(), DeviceError, device="cuda")

    assert "no GPU here" in message
    assert "Use device='cpu'" in message


def test_an_unknown_device_is_refused_with_those_there_are() -> None:
    message = refusal(good(), good(), DeviceError, device="tpu")

    assert "'tpu'" in message
    assert "auto, cpu, cuda" in message
