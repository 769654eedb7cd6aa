"""The video that we write plays in a browser: Chromium decodes every frame of it, in the colors that were written."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scotopic.io.video import video_file

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
COLORS = np.array([[220, 40, 30], [40, 200, 60], [50, 60, 210], [235, 236, 240]], np.uint8)
#: Plays a video to its end; returns its size, its length, and the color in the middle at each time asked for.
PLAY = """
async ([data, times]) => {
  const video = document.createElement("video");
  video.muted = true;
  const heard = (name) => new Promise((resolve, reject) => {
    video.addEventListener(name, resolve, {once: true});
    video.addEventListener("error", () => reject(new Error(video.error.message)), {once: true});
  });
  const loaded = heard("loadeddata");
  video.src = "data:video/mp4;base64," + data;
  await loaded;
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [video.videoWidth, video.videoHeight];
  const colors = [];
  for (const time of times) {
    const sought = heard("seeked");
    // On a busy machine the frame may be drawn a little after it has been sought.
    const drawn = new Promise((done) => video.requestVideoFrameCallback(done));
    const late = new Promise((done) => setTimeout(done, 2000));
    video.currentTime = time;
    await sought;
    await Promise.race([drawn, late]);
    const context = canvas.getContext("2d");
    context.drawImage(video, 0, 0);
    colors.push([...context.getImageData(canvas.width / 2, canvas.height / 2, 1, 1).data.slice(0, 3)]);
  }
  const ended = heard("ended");
  video.currentTime = 0;
  await video.play();
  await ended;
  return [video.videoWidth, video.videoHeight, video.duration, colors];
}
"""


@pytest.fixture(scope="module")
def page() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    if not CHROMIUM:
        pytest.skip("needs Chromium: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser.new_page()
        browser.close()


def test_chromium_plays_every_frame_in_the_colors_that_were_written(page: Any, tmp_path: Path) -> None:
    with video_file(tmp_path / "video.mp4", 10.0) as film:
        for color in COLORS:
            film.write(np.full((63, 97, 3), color, np.uint8))

    times = [(number + 0.5) / 10 for number in range(len(COLORS))]
    width, height, seconds, colors = page.evaluate(PLAY, [encoded(tmp_path / "video.mp4"), times])

    assert (width, height) == (98, 64)
    assert seconds == pytest.approx(len(COLORS) / 10, abs=0.02)
    assert np.abs(np.array(colors) - COLORS.astype(int)).max() <= 8  # more if a wrong standard is used


def encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
