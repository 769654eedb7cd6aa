"""The scripts in examples/: each runs on its own and makes the pictures of the documentation."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
from ply_files import read_ply

from scotopic.backends.device import why_no_gpu

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
IMAGES = ROOT / "docs" / "images"

PICTURES = {
    "depth_and_points": ["depth_and_points.png"],
    "gpu_tensors": ["gpu_tensors.png"],
    "look_at_junctions": ["one_junction.png", "field.png", "cost_volume.png"],
    "match_a_pair": ["match_a_pair.png", "match/preview.png"],
    "replace_opencv": ["replace_opencv.png"],
    "see_through_time": ["see_through_time.png"],
    "spad_bit_planes": ["spad_bit_planes.png"],
    "stream_of_pairs": ["stream_of_pairs.png"],
    "why_not_here": ["why_not_here_fast.png", "why_not_here_best.png"],
    "your_camera_noise": ["your_camera_noise.png"],
}


AS_A_USER = "your_camera_noise"  #: runs in a process of its own, as gpu_tensors does: the quickest


def run(name: str, folder: Path) -> str:
    """Run an example as a user would, from elsewhere, and return what it printed."""
    # In the tests Triton interprets its kernels; for a user it does not.
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py"), "-o", str(folder)],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    return done.stdout


def test_all_scripts_are_known_here() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*PICTURES, "panels"}


@pytest.mark.usefixtures("quick_presets")
@pytest.mark.parametrize("name", sorted(set(PICTURES) - {"gpu_tensors"}))
def test_a_script_runs_and_draws(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if name == AS_A_USER:
        assert run(name, tmp_path)
    else:
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(str(EXAMPLES))
        monkeypatch.setattr(sys, "argv", [f"{name}.py", "-o", str(tmp_path)])
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")  # a warning would be an error here
        assert capsys.readouterr().out

    for file in PICTURES[name]:
        picture = cv2.imread(str(tmp_path / file))
        assert picture is not None
        assert np.ptp(picture) > 100  # not empty
        shown = cv2.imread(str(IMAGES / file))
        assert shown is None or shown.shape == picture.shape, f"docs/images/{file} is old: run the example again"
    if name == "depth_and_points":
        assert len(read_ply(tmp_path / "points.ply").points) > 1000


def test_tensors_on_the_gpu_are_matched_where_there_is_one_and_left_alone_elsewhere(tmp_path: Path) -> None:
    said = run("gpu_tensors", tmp_path)

    assert ("skipped, because there is no GPU" in said) != (tmp_path / "gpu_tensors.png").exists()
    if why_no_gpu() is not None:
        assert "skipped" in said


def test_every_picture_of_the_documentation_is_made_by_our_own_code() -> None:
    made = {file for files in PICTURES.values() for file in files} | {"demo.png"}  # which `scotopic demo` makes
    measured = "".join(path.read_text() for path in (ROOT / "benchmarks").glob("*.py"))  # some show measurements
    shown = sorted(IMAGES.glob("*.png"))

    assert shown
    assert not [path.name for path in shown if path.name not in made and path.name not in measured]
