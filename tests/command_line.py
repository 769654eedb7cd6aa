"""Running the command in the tests, and a small pair to run it on."""

from __future__ import annotations

import re
from pathlib import Path

import cv2
import numpy as np
from rooms import room
from typer.testing import CliRunner, Result

from scotopic.cli import app
from scotopic.io import write_pfm, write_png
from scotopic.sensor import simulate_pair, to_uint8

FAST = ("--preset", "fast", "--max-disparity", "16")
#: Runs the command in a process that hears Ctrl-C, even if the tests run in the background.
PROGRAM = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\nfrom scotopic.cli import main; main()"
)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def succeed(*arguments: object) -> Result:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


def error_line(result: Result) -> str:
    """Check that a command failed as it should, and return the line that it printed last."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    line = str(result.stderr.splitlines()[-1])
    assert line.startswith("error: ")
    return line


def check_failure(result: Result, message: str, out: Path) -> None:
    """Check for one line with this message, exit code 2, and nothing left behind."""
    line = error_line(result)
    assert result.stderr == f"{line}\n"
    assert re.search(message, line), line
    assert not out.exists()
    assert not out.parent.exists()


def write_pair(folder: Path, width: int = 96, height: int = 64, photons: float = 2.0) -> Path:
    """Write left.png and right.png, noisy, and gray.png of the same size; return the folder."""
    scene = room(width, height)
    for name, view in zip(("left", "right"), simulate_pair(scene.left, scene.right, photons), strict=True):
        write_png(folder / f"{name}.png", to_uint8(view))
    write_png(folder / "gray.png", to_uint8(scene.left[..., 1]))
    return folder


def make_bad_images(folder: Path) -> None:
    """Write images that cannot be matched, each for a reason of its own."""
    random = np.random.default_rng(0)
    noise = random.integers(0, 256, (64, 96, 3), np.uint8)
    write_png(folder / "smaller.png", noise[:60])
    write_png(folder / "gray.png", noise[..., 0])
    write_png(folder / "tiny.png", noise[:39])
    (folder / "text.png").write_text("not an image")
    (folder / "cut.png").write_bytes((folder / "smaller.png").read_bytes()[:-200])
    cv2.imwrite(str(folder / "alpha.png"), np.dstack([noise, noise[..., :1]]))
    for name, value in (("nan", np.nan), ("inf", np.inf), ("unscaled", 200.0)):
        pixels = (noise / 255).astype(np.float32)
        pixels[3, 5] = value
        write_pfm(folder / f"{name}.pfm", pixels)


def contents(folder: Path, without: str = "") -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != without}
