"""The web page as people meet it: in Chromium, and with four of them at once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import numpy as np
import pytest
from app_chromium import choose, chromium, match_small_room, open_page
from app_server import Served, serve, wait_until
from app_visitors import SMALL

from scotopic.app.inputs import OWN, ROOMS
from scotopic.io import read_disparity, write_png
from scotopic.settings import PRESETS

pytest.importorskip("gradio", reason="needs the extra app: pip install 'scotopic[app]'")
from scotopic.app.page import FROM_FILE

JOBS = int(os.environ.get("SCOTOPIC_APP_JOBS", "12"))  #: of the load test; 100 for the full one
MEMORY_MARGIN = 64  #: MiB that the server may have grown by after them: what the allocator and Gradio keep


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serve(tmp_path_factory.mktemp("app") / "tmp", "--max-megapixels", "1") as running:
        yield running
    assert list(running.temporary.iterdir()) == []  # nothing is left behind, whatever the tests did


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as launched:
        yield launched


@pytest.fixture
def page(browser: Any, served: Served) -> Iterator[Any]:
    """The page, just opened, in a window of its own."""
    opened = open_page(browser, served.url, 1400, 950)
    yield opened
    opened.context.close()


@pytest.fixture(scope="module")
def small_room(browser: Any, served: Served) -> Iterator[Any]:
    """The page with the small room matched, for those who look at it and change nothing that others look at."""
    opened = open_page(browser, served.url, 1400, 950)
    match_small_room(opened)
    yield opened
    opened.context.close()


@pytest.fixture
def matched(small_room: Any) -> Any:
    small_room.set_viewport_size({"width": 1400, "height": 950})
    small_room.get_by_role("tab", name="Maps").click()
    return small_room


def coverage(page: Any) -> float:
    found = re.search(r"Coverage ([\d.]+) %", page.inner_text("#coverage"))
    assert found is not None
    return float(found[1])


def is_loaded(page: Any, selector: str) -> bool:
    return bool(page.eval_on_selector(selector, "image => image.decode().then(() => image.naturalWidth > 0)"))


# --- in a browser ---------------------------------------------------------------------------------------------------


def test_each_place_for_a_file_has_a_name_of_its_own(page: Any) -> None:
    choose(page, OWN)

    for name in ("Left image", "Right image"):
        page.get_by_role("button", name=name).wait_for()


def test_the_page_loads_with_nothing_from_elsewhere(browser: Any, served: Served) -> None:
    context = browser.new_context()
    opened = context.new_page()
    asked: list[str] = []
    errors: list[str] = []
    opened.on("request", lambda request: asked.append(request.url))
    opened.on("pageerror", lambda error: errors.append(str(error)))

    opened.goto(served.url)
    opened.wait_for_selector("#views img")

    assert opened.title() == "scotopic"
    assert "No result yet" in opened.inner_text("#pane")
    assert opened.is_checked("#preset input[value=best]")
    assert [url for url in asked if not url.startswith((served.url, "data:", "blob:"))] == []
    assert errors == []
    context.close()


@pytest.mark.parametrize(("width", "height"), [(390, 844), (1366, 650), (1400, 900)])
def test_nothing_lies_beside_the_window(matched: Any, width: int, height: int) -> None:
    matched.set_viewport_size({"width": width, "height": height})

    for tab in ("Maps", "3-D", "Compare", "Download"):
        matched.get_by_role("tab", name=tab).click()
        if tab == "Compare" and matched.locator("#comparison table").count() == 0:
            matched.click("#compare")
            matched.wait_for_selector("#comparison table")
        assert matched.evaluate("document.documentElement.scrollWidth") <= width


def test_a_room_is_matched_and_looked_at_from_all_sides(matched: Any) -> None:
    page = matched
    assert 5 < coverage(page) < 60
    assert is_loaded(page, ".sc-under")
    for kind in ("disparity", "confidence", "structure", "reason"):
        page.click(f"#viewer [data-kind={kind}]")
        assert f"/maps/{kind}.png" in page.get_attribute(".sc-over", "src")
        assert is_loaded(page, ".sc-over")
    page.locator(".sc-wipe input").fill("80")
    assert "80%" in page.eval_on_selector(".sc-over", "image => image.style.clipPath")
    page.get_by_role("tab", name="3-D").click()
    page.wait_for_function("/^[1-9][0-9,]* points/.test(document.querySelector('.sc-count').textContent)")
    drawn = "canvas => new Set(canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data).size"
    page.wait_for_function(f"({drawn})(document.querySelector('#cloud canvas')) > 20")
    before = page.eval_on_selector("#cloud canvas", "canvas => canvas.toDataURL()")
    box = page.locator("#cloud canvas").bounding_box()
    page.mouse.move(box["x"] + 200, box["y"] + 200)
    page.mouse.down()
    page.mouse.move(box["x"] + 300, box["y"] + 220, steps=4)
    page.mouse.up()
    page.wait_for_function("before => document.querySelector('#cloud canvas').toDataURL() !== before", arg=before)


def test_points_follow_the_threshold_by_the_keyboard_alone_and_the_last_one_counts(page: Any) -> None:
    match_small_room(page)
    page.get_by_role("tab", name="3-D").click()
    page.wait_for_function("/^[1-9][0-9,]* points/.test(document.querySelector('.sc-count').textContent)")
    every = page.locator(".sc-count").inner_text()
    page.evaluate("""() => {
      const fetchNow = window.fetch;
      window.fetch = async (...given) => {
        const answer = await fetchNow(...given);
        if (/points/.test(given[0]) && !window.letGo) await new Promise((resolve) => { window.letGo = resolve; });
        return answer;
      };
    }""")

    slider = page.locator("#threshold input[type=range]")
    slider.press("ArrowRight")
    page.wait_for_function("window.letGo !== undefined")  # the points of the first step are on their way
    before = coverage(page)
    for _ in range(12):
        slider.press("ArrowRight")
    page.wait_for_function(f"!document.querySelector('#pane').textContent.includes('Coverage {before} %')")
    page.evaluate("window.letGo()")
    page.wait_for_function("every => document.querySelector('.sc-count').textContent !== every", arg=every)

    def shown() -> float:
        """Percent of the pixels of which there are points; the farthest hundredth of them is left out."""
        return 100 * int(page.locator(".sc-count").inner_text().split()[0].replace(",", "")) / (192 * 128 * 0.99)

    wait_until(lambda: abs(shown() - coverage(page)) < 0.2, "points are those of the threshold")


def test_moving_the_threshold_moves_the_coverage_and_redraws(page: Any) -> None:
    match_small_room(page)
    first, source = coverage(page), page.get_attribute(".sc-over", "src")

    page.locator("#threshold input[type=number]").fill("0.15")
    page.wait_for_function("before => document.querySelector('.sc-over').getAttribute('src') !== before", arg=source)

    page.wait_for_function("/ambiguous/.test(document.querySelector('#coverage').textContent)")
    assert 0 < coverage(page) < first
    assert is_loaded(page, ".sc-over")
    slider = page.locator("#threshold input[type=range]")
    slider.focus()
    slider.press("End")
    page.wait_for_function("/Coverage 0.0 %/.test(document.querySelector('#coverage').textContent)")


def test_a_number_beyond_the_end_of_a_slider_is_its_end(page: Any, served: Served) -> None:
    match_small_room(page)
    before, box = coverage(page), page.locator("#threshold input[type=number]")
    end = float(page.get_attribute("#threshold input[type=range]", "max"))
    assert end < 0.9

    box.fill("0.9")
    page.keyboard.press("Tab")

    page.wait_for_function(
        "old => !document.querySelector('#coverage').innerText.includes(`Coverage ${old} %`)", arg=before
    )
    assert float(box.input_value()) == end  # what is shown ...
    assert coverage(page) == 0 < before  # ... is what is hidden: the slider ends where nothing is left
    assert not any("Traceback" in line for line in served.lines)


def test_the_mask_of_best_begins_at_its_own_threshold_and_can_be_widened(page: Any) -> None:
    match_small_room(page, "best")
    own = coverage(page)
    assert page.locator("#threshold input[type=number]").input_value() == f"{PRESETS['best'].matching.min_confidence:g}"

    page.locator("#threshold input[type=range]").press("Home")
    page.wait_for_function("/Coverage 100.0 %/.test(document.querySelector('#coverage').textContent)")
    assert 0 < own < 95


def test_pointing_at_a_pixel_reads_it_and_a_click_holds_it(matched: Any) -> None:
    page = matched
    page.locator(".sc-frame").scroll_into_view_if_needed()
    box = page.locator(".sc-frame").bounding_box()

    def at(x: int, y: int) -> tuple[float, float]:
        return box["x"] + (x + 0.5) * box["width"] / 192, box["y"] + (y + 0.5) * box["height"] / 128

    page.mouse.move(*at(100, 60))
    page.wait_for_function("/^\\(100, 60\\)/.test(document.querySelector('.sc-reading').textContent)")
    words = page.inner_text(".sc-reading")
    assert re.search(r"disparity.* confidence 0\.\d\d · truth \d+\.\d\d px", words)

    page.mouse.click(*at(30, 90))
    page.wait_for_function("/^Held: \\(30, 90\\)/.test(document.querySelector('.sc-reading').textContent)")
    page.mouse.move(*at(100, 60))
    page.wait_for_timeout(300)
    assert page.inner_text(".sc-reading").startswith("Held: (30, 90)")


def test_the_downloaded_pfm_is_the_map_that_is_shown(matched: Any, tmp_path: Path) -> None:
    page = matched
    page.get_by_role("tab", name="Download").click()

    with page.expect_download() as waiting:
        page.click("#files a[download='disparity.pfm']")
    waiting.value.save_as(tmp_path / "disparity.pfm")

    disparity = read_disparity(tmp_path / "disparity.pfm")
    assert disparity.shape == (128, 192)
    assert 100 * np.isfinite(disparity).mean() == pytest.approx(coverage(page), abs=0.06)
    assert waiting.value.suggested_filename == "disparity.pfm"


def test_the_whole_comparison_is_in_sight_on_a_phone(browser: Any, served: Served) -> None:
    page = open_page(browser, served.url, 390, 844)
    match_small_room(page)
    page.get_by_role("tab", name="Compare").click()
    page.click("#compare")
    table = page.wait_for_selector("#comparison .sc-scroll")

    assert table.evaluate("box => box.scrollWidth - box.clientWidth") <= 0
    page.context.close()


def test_sgbm_stands_beside_us_with_coverage_and_errors(page: Any) -> None:
    match_small_room(page)
    page.get_by_role("tab", name="Compare").click()
    page.click("#compare")
    page.wait_for_selector("#comparison table")

    words = page.inner_text("#comparison")
    assert re.search(r"scotopic, fast: coverage [\d.]+ %", words)
    assert re.search(r"OpenCV SGBM: coverage [\d.]+ %", words)
    assert page.locator("#comparison tbody tr").count() == 4
    assert all(is_loaded(page, f"#comparison figure:nth-child({k}) img") for k in (1, 2, 3))


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("holiday.png", b"not an image at all", "left image 'holiday.png' holds no readable image"),
        ("large.png", None, "left image 'large.png' has 1.4 megapixels; the limit is 1"),
    ],
)
def test_a_bad_upload_shows_a_sentence_and_no_trace(
    page: Any, served: Served, tmp_path: Path, name: str, content: bytes | None, sentence: str
) -> None:
    if content is None:
        write_png(tmp_path / name, np.zeros((1000, 1400), np.uint8))
    else:
        (tmp_path / name).write_bytes(content)
    choose(page, OWN)

    page.locator("#left input[type=file]").set_input_files(tmp_path / name)
    page.wait_for_selector("#views [role=alert]")

    assert sentence in page.inner_text("#views")
    whole = page.inner_text("body")
    assert "Traceback" not in whole
    assert str(served.temporary) not in whole
    assert served.files() == []


def test_own_images_are_matched(page: Any, served: Served, tmp_path: Path) -> None:
    import scotopic

    scene = scotopic.render_scene(96, 64)
    choose(page, OWN)
    for side, view in (("left", scene.left), ("right", scene.right)):
        write_png(tmp_path / f"{side}.png", (view * 255).astype(np.uint8))
        page.locator(f"#{side} input[type=file]").set_input_files(tmp_path / f"{side}.png")
        page.wait_for_function(f"/{side}.png/.test(document.querySelector('#views').textContent)")
    page.locator("#last input").fill("16")
    page.locator("#preset").get_by_label("fast").check()

    page.click("#match")
    page.wait_for_selector("#status .sc-done")

    assert coverage(page) > 5
    assert served.files() == []
    # Depth in meters needs a calibration, which may come after the match.
    page.get_by_role("tab", name="Download").click()
    assert page.locator("#files a", has_text="depth.pfm").count() == 0
    (tmp_path / "calib.txt").write_text("96 47.5 31.5 0.25 0\n")
    page.get_by_text("Calibration, for depth in meters").click()
    page.locator("#calibration input[type=file]").set_input_files(tmp_path / "calib.txt")
    page.wait_for_function("/calib.txt is used/.test(document.querySelector('#calibration-note').textContent)")
    page.locator("#files a", has_text="depth.pfm").wait_for()
    assert served.files() == []


def test_without_images_the_page_says_what_is_missing(page: Any) -> None:
    choose(page, OWN)
    page.click("#match")
    page.wait_for_selector("#status [role=alert]")

    assert "left and right image is missing" in page.inner_text("#status")
    assert page.is_enabled("#match")


def test_after_a_match_that_failed_the_page_says_whose_result_is_below(page: Any) -> None:
    match_small_room(page)
    choose(page, OWN)
    page.click("#match")
    page.wait_for_selector("#status [role=alert]")

    assert re.search(rf"missing.*from before.*{re.escape(SMALL)}", page.inner_text("#status"), re.DOTALL)


def test_cancel_stops_the_work_and_the_next_match_runs(page: Any) -> None:
    page.locator("#preset").get_by_label("paper").check()  # half a minute and more
    page.click("#match")
    page.wait_for_selector("#status .sc-progress i[style*='.']:not([style*='width:0.0%'])")

    page.click("#cancel")
    page.wait_for_function("/Cancelled/.test(document.querySelector('#status').textContent)")
    page.wait_for_timeout(1500)

    assert page.inner_text("#status").strip() == "Cancelled."  # also after the last report has come
    assert page.is_enabled("#match")
    match_small_room(page)  # which can only run once the worker is free


def test_two_windows_do_not_see_each_other(browser: Any, page: Any, served: Served) -> None:
    match_small_room(page)
    mine = page.get_attribute(".sc-over", "src").split("/maps")[0]
    context = browser.new_context()
    other = context.new_page()
    other.goto(served.url)
    other.wait_for_selector("#views img")

    assert "No result yet" in other.inner_text("#pane")
    assert urlopen(f"{served.url}{mine}/pixel?x=1&y=1").status == 200
    context.close()
    page.context.close()

    # With the window its result is gone, for everybody.
    def is_gone() -> bool:
        try:
            urlopen(f"{served.url}{mine}/pixel?x=1&y=1").close()
        except HTTPError as error:
            error.close()
            return error.code == 404
        return False

    wait_until(is_gone, "the result is gone with its window")


def test_many_windows_of_one_browser_are_open_at_a_time(browser: Any, served: Served) -> None:
    context = browser.new_context()
    for _ in range(9):  # more than the connections that a browser has for one server
        opened = context.new_page()
        opened.goto(served.url, timeout=30_000)
        opened.wait_for_selector("#views img", timeout=30_000)

    match_small_room(opened)

    context.close()


def test_a_port_that_is_taken_is_refused_in_a_sentence(served: Served, tmp_path: Path) -> None:
    port = served.url.rstrip("/").rpartition(":")[2]
    command = [sys.executable, "-m", "scotopic", "app", "--no-browser", "--port", port]

    result = subprocess.run(
        command, env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True, text=True, timeout=120
    )

    assert result.returncode == 2
    assert result.stderr.startswith(f"error: Cannot listen on 127.0.0.1 port {port} (")
    assert "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == []


# --- many at once ---------------------------------------------------------------------------------------------------


def test_queued_jobs_from_four_clients_are_all_answered_and_leave_nothing(tmp_path: Path) -> None:
    client = pytest.importorskip("gradio_client", reason="comes with gradio")
    values = [SMALL, "Simulate", 2, 2, "fast", 0, ROOMS[SMALL].max_disparity, None, 0.1, FROM_FILE, False]

    with serve(tmp_path / "tmp") as running:

        def visit(count: int) -> list[tuple[str, str]]:
            visitor = client.Client(running.url, verbose=False)
            jobs = [visitor.submit(*values, api_name="/match") for _ in range(count)]
            answers = [job.result(timeout=600) for job in jobs]
            found = [_told(answer) for answer in answers]
            for job in jobs:
                job.cancel()
            visitor.close()
            return found

        with ThreadPoolExecutor(4) as pool:
            warm = list(pool.map(visit, [1] * 4))  # kernels loaded, pools grown
            settled = _settled(running)
            start = time.perf_counter()
            shares = [JOBS // 4 + (k < JOBS % 4) for k in range(4)]
            answers = [answer for part in pool.map(visit, shares) for answer in part]
            seconds = time.perf_counter() - start
        after = _settled(running)
        print(f"{JOBS} jobs in {seconds:.1f} s; memory {settled:.0f} MiB before, {after:.0f} MiB after")

        assert len(answers) == JOBS
        assert all("Matched in" in status for status, _ in answers)
        assert len({base for _, base in answers} | {part[0][1] for part in warm}) == 8  # one secret per visit
        assert after - settled < MEMORY_MARGIN
        assert running.files() == []
        assert not any("Traceback" in line for line in running.lines)
    assert list(running.temporary.iterdir()) == []


def _told(answer: Any) -> tuple[str, str]:
    """The status line, and the address of the result."""
    status = next(part for part in answer if isinstance(part, str) and "sc-status" in part)
    base = next(part["base"] for part in answer if isinstance(part, dict) and "base" in part)
    return status, base


def _settled(running: Served) -> float:
    """Memory of the server once it has let go of those who left, with their files, MiB."""
    wait_until(lambda: running.files() == [], "the files of those who left are removed")
    time.sleep(3)
    return running.memory()
