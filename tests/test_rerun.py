"""Logging to Rerun: what is logged where, with the SDK's own types, and an error that names the extra without it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from made_match import made_match

from scotopic.errors import ScotopicError, SettingsError
from scotopic.interop import log_match

RIG = SimpleNamespace(fx=50.0, baseline=0.2, doffs=2.0, cx=4.0, cy=3.0)
DISPARITY = np.full((6, 8), np.nan)
DISPARITY[1, 2], DISPARITY[4, 7], DISPARITY[5, 0] = 3.0, 8.0, -2.0  # the last is at infinity: d + doffs = 0
IMAGES = {"left/image", "right/image", "left/confidence", "left/disparity", "left/reason"}


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """What was logged, by entity, while it is really written to a file."""
    rerun = pytest.importorskip("rerun", reason="needs the extra 'rerun': pip install 'scotopic[rerun]'")
    found: dict[str, Any] = {}
    write = rerun.log

    def note(path: str, entity: Any, **others: Any) -> None:
        found[f"{path} (static)" if others.get("static") else path] = entity
        write(path, entity, **others)

    monkeypatch.setattr(rerun, "log", note)
    found["recording"] = rerun.RecordingStream("scotopic-test")
    found["recording"].save(tmp_path / "match.rrd")
    found["file"] = tmp_path / "match.rrd"
    return found


def test_images_are_logged_without_a_calibration(logged: dict[str, Any]) -> None:
    names = log_match(made_match(DISPARITY), recording=logged["recording"])

    assert set(names) == {f"scotopic/{name}" for name in IMAGES}
    assert set(names) < set(logged)
    assert "scotopic/left/reason (static)" in logged
    logged["recording"].flush()
    assert logged["file"].stat().st_size > 1000


def test_depth_and_points_are_logged_with_one(logged: dict[str, Any]) -> None:
    match = made_match(DISPARITY)

    names = log_match(match, RIG, path="rig/head/", recording=logged["recording"])

    assert set(names) == {f"rig/head/{name}" for name in IMAGES | {"left", "left/depth", "points"}}
    points = np.array(logged["rig/head/points"].positions.as_arrow_array().to_pylist())
    # Z = fx B / (d + doffs) = 10 / 5 and 10 / 10; X = (x - cx) Z / fx, Y likewise.
    np.testing.assert_allclose(points, [[-2 * 2 / 50, -2 * 2 / 50, 2.0], [3 / 50, 1 / 50, 1.0]], rtol=1e-6)
    colors = np.array(logged["rig/head/points"].colors.as_arrow_array().to_pylist())
    red = (colors >> 24) & 255  # 0xRRGGBBAA
    np.testing.assert_array_equal(red, np.rint(255 * match.left_image[[1, 4], [2, 7], 0]))


def test_depth_is_zero_where_there_is_none(logged: dict[str, Any]) -> None:
    log_match(made_match(DISPARITY), RIG, recording=logged["recording"])

    buffer = logged["scotopic/left/depth"].buffer.as_arrow_array().to_pylist()[0]
    depth = np.frombuffer(bytes(buffer), np.float32).reshape(6, 8)
    assert depth[1, 2] == pytest.approx(2.0)
    assert depth[4, 7] == pytest.approx(1.0)
    assert np.count_nonzero(depth) == 2


def test_gray_pairs_and_plain_numbers_do(logged: dict[str, Any]) -> None:
    names = log_match(made_match(DISPARITY, channels=1), fx=50, baseline=0.2, recording=logged["recording"])

    assert "scotopic/points" in names


def test_half_a_calibration_is_refused(logged: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="baseline"):
        log_match(made_match(DISPARITY), fx=50.0, recording=logged["recording"])
    with pytest.raises(SettingsError, match="path"):
        log_match(made_match(DISPARITY), path="/", recording=logged["recording"])


def test_without_the_sdk_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rerun", None)

    with pytest.raises(ScotopicError, match=r"scotopic\[rerun\]"):
        log_match(made_match(DISPARITY))
